"""Contracts with inputs: what `check_inputs` says of them, and what a guard must."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx_graphs import info, model, node

import onnxgather as og
from onnxgather.auditing.proof.contract import (
    MAY_BE_EMPTY,
    NUMPY_TYPES,
    Condition,
    Contract,
)
from onnxgather.core.model.network import read_network

Shape = list[int | str | None] | None


@dataclass(eq=False)
class GuardCase:
    """A model with a contract, and inputs that may meet it."""

    types: dict[str, tuple[str, Shape]]
    """The data type and the shape of each input."""
    conditions: tuple[Condition, ...]
    inputs: dict[str, Any]
    allow_empty: bool = True
    shapes: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The shapes that the contract has."""
    model: onnx.ModelProto = field(init=False)
    contract: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        """Make the model and the contract."""
        values = [
            info(name, onnx.TensorProto.DataType.Value(data_type), shape)
            for name, (data_type, shape) in self.types.items()
        ]
        first = next(iter(self.types))
        self.model = model(
            [node("Shape", [first], "shape of it")], values, ["shape of it"]
        )
        network = read_network(self.model)
        contract = Contract.of(network, self.conditions, self.allow_empty)
        contract = contract.with_inputs(network, self.shapes).with_digest(network)
        self.contract = contract.plain

    def __repr__(self) -> str:
        return f"{self.types} {self.conditions} {self.shapes} {self.inputs}"

    def meets(self, **changes: Any) -> bool:
        """Whether the inputs meet the contract, with changes to its fields."""
        try:
            og.check_inputs(self.contract | changes, self.inputs)
        except og.OnnxGatherError:
            return False
        return True

    def broken(self) -> list[int | None]:
        """The numbers of the rules that the inputs break, each checked alone.

        None stands for conditions that cannot be checked, as a size is no number.
        """
        sizes = self.contract["sizes"]
        shapes = self.contract["shapes"]
        # An array of another rank is no input of a guard.
        open_shapes: dict[str, Any] = {
            name: [None] * len(shapes[name])
            for places in sizes.values()
            for name, _ in places
        }
        bare: dict[str, Any] = {"sizes": {}, "conditions": [], "types": {}}
        bare["shapes"] = open_shapes
        rules: list[dict[str, Any]] = [
            {"sizes": {name: places}} for name, places in sizes.items()
        ]
        rules += [
            {"shapes": {name: shape}}
            for name, shape in shapes.items()
            if not shape or any(size is not None for size in shape)
        ]
        conditions = self.contract["conditions"]
        found = list[int | None]()
        if self.meets(**bare | {"sizes": sizes, "assumes": MAY_BE_EMPTY}):
            for number, condition in enumerate(conditions):
                alone = {"sizes": sizes, "assumes": MAY_BE_EMPTY}
                if not self.meets(**bare | alone | {"conditions": [condition]}):
                    found.append(number)
        elif conditions:
            found.append(None)
        for number, rule in enumerate(rules, len(conditions)):
            if not self.meets(**bare | rule):
                found.append(number)
        return found


def agrees(case: GuardCase, ok: Any, broken: Any) -> bool:
    """Whether the answer of a guard is that of `check_inputs`."""
    expected = case.broken()
    numbers = [*map(int, broken)]
    if bool(ok) != case.meets() or bool(ok) != (not numbers):
        return False
    if None in expected:
        count = len(case.conditions)
        return [n for n in numbers if n >= count] == expected[1:]
    return numbers == expected


def values(low: int | None, high: int | None, **more: Any) -> Condition:
    """A condition on the values of `x`."""
    fields: dict[str, Any] = {"of": "values", "input": "x", "low": low, "high": high}
    return Condition(**fields | more)


def minus(low: int | None, high: int | None, **more: Any) -> Condition:
    """A condition on column 1 minus column 0 of `x`."""
    return values(low, high, of="difference", columns=(1, 0), **more)


def sizes(expression: str, low: int | None, high: int | None) -> Condition:
    """A condition on an expression of open sizes."""
    return Condition(of="sizes", expression=expression, low=low, high=high)


def _each(
    data_type: str, shape: Shape, conditions: Any, *arrays: Any
) -> list[GuardCase]:
    """Cases of an input `x`, with one condition and one array each."""
    dtype = NUMPY_TYPES[data_type]
    return [
        GuardCase(
            {"x": (data_type, shape)}, (condition,), {"x": np.array(array, dtype)}
        )
        for condition in conditions
        for array in arrays
    ]


LEAST, MOST = -(2**63), 2**63 - 1
PAIRS = [
    *([[LEAST, MOST]], [[MOST, LEAST]], [[0, LEAST]], [[LEAST, 0]], [[-1, MOST]]),
    *([[1, LEAST]], [[LEAST, -1]], [[MOST, -1]], [[5, 7], [7, 5]], [[2, 2]], [[3, 5]]),
]
MANY = 2**28


def _products() -> list[GuardCase]:
    """Sizes whose products INT64 has not."""
    types: dict[str, tuple[str, Shape]] = {
        name: ("INT64", [name, "none"]) for name in "abcd"
    }
    made = list[GuardCase]()
    for a, b, c, d in (
        (MANY,) * 4,
        (MANY, MANY, 3, 1),
        (1, 2, 3, 4),
        (MANY, 5, MANY, 0),
    ):
        numbers = dict(zip("abcd", (a, b, c, d), strict=True))
        inputs = {name: np.zeros((size, 0), np.int64) for name, size in numbers.items()}
        for expression in (
            "a*b*c",
            "a*b*c - d*d*d",
            "2*a*b*c*d - 3*b - 7",
            "-99*a*b*c",
        ):
            terms = {
                "a*b*c": a * b * c,
                "a*b*c - d*d*d": a * b * c - d**3,
                "2*a*b*c*d - 3*b - 7": 2 * a * b * c * d - 3 * b - 7,
                "-99*a*b*c": -99 * a * b * c,
            }
            number = max(LEAST + 1, min(MOST - 1, terms[expression]))
            for end in (number - 1, number, number + 1):
                for condition in (
                    sizes(expression, end, None),
                    sizes(expression, None, end),
                ):
                    made.append(GuardCase(types, (condition,), inputs))
    return made


def _ends() -> list[GuardCase]:
    """Values whose ends are expressions of open sizes, some of which INT64 has not."""
    made = list[GuardCase]()
    for data_type, array in (
        ("INT64", [MOST, 0, LEAST]),
        ("INT64", [2**56, -(2**56)]),
        ("INT64", [2**56 - 1, -(2**56) + 1]),
        ("INT64", []),
        ("INT32", [7]),
        ("DOUBLE", [2.0**56, -(2.0**56)]),
        ("DOUBLE", [2.0**56 - 8, -(2.0**56) + 8]),
        ("DOUBLE", [np.inf, -np.inf]),
        ("DOUBLE", [np.nan]),
        ("FLOAT", [2.0**56 - 2**32, -(2.0**56)]),
        ("FLOAT16", [2.5, -2.5]),
    ):
        for expression in ("a*a - 1", "-a*a", "a*a*a", "-a*a*a", "a - 3"):
            if data_type[0] != "I" and expression.count("a") > 2:
                continue
            for a in (MANY, 5):
                types: dict[str, tuple[str, Shape]] = {
                    "x": (data_type, ["n"]),
                    "y": ("BOOL", ["a", "none"]),
                }
                inputs = {
                    "x": np.array(array, NUMPY_TYPES[data_type]),
                    "y": np.zeros((a, 0), bool),
                }
                for end in ("low_expression", "high_expression"):
                    condition = values(None, None, **{end: expression})
                    made.append(GuardCase(types, (condition,), inputs))
    return made


DIRECTED = [
    *_each(
        "INT64",
        ["n"],
        [values(LEAST, None), values(None, MOST), values(LEAST + 1, MOST - 1)],
        [LEAST],
        [MOST],
        [0],
        [],
    ),
    *_each(
        "INT64",
        ["n"],
        [values(0, 5, also=(-100, 9)), values(None, None, also=(7,))],
        [-100, 9, 0],
        [-99],
        [10, -100],
        [9, 9],
        [],
    ),
    *_each(
        "UINT64",
        ["n"],
        [values(0, 5, also=(-100, MOST))],
        [2**64 - 100],
        [MOST, 5],
        [MOST + 1],
    ),
    *_each("INT8", ["n"], [values(0, 5, also=(300, 9))], [44], [9], [-1]),
    *_each("BOOL", ["n"], [values(0, 0, also=(1,))], [True], [False]),
    *_each(
        "INT32",
        ["n", "k"],
        [values(0, 3, columns=(0,), also=(-1,))],
        [[-1, 9], [0, 9]],
        [[-2, -1]],
    ),
    *_each(
        "UINT64",
        ["n"],
        [values(-1, MOST), values(3, None), values(0, 9), values(None, -1)],
        [2**64 - 1],
        [2**63],
        [2**63 - 1],
        [5],
        [2],
        [],
    ),
    *_each(
        "INT8",
        ["n"],
        [values(-129, 127), values(-128, 126), values(300, None), values(None, -200)],
        [-128],
        [127],
        [],
    ),
    *_each(
        "UINT32", ["n"], [values(0, 2**31), values(-5, 2**40)], [2**32 - 1], [2**31]
    ),
    *_each(
        "BOOL",
        ["n"],
        [values(0, 0), values(1, 1), values(0, 1), values(2, None)],
        [True],
        [False],
        [True, False],
    ),
    *_each(
        "FLOAT",
        ["n"],
        [
            values(0, 2**24 + 3),
            values(2**24 + 1, None),
            values(None, None),
            values(0, None),
            values(None, MOST),
            values(LEAST, None),
        ],
        [2**24 + 4],
        [2**24],
        [2**24 + 2],
        [np.nan],
        [np.inf],
        [-np.inf],
        [-0.0],
        [1e-45],
        [-1e-45],
        [2.0**63],
        [0, np.nan, 0],
        [],
    ),
    *_each(
        "DOUBLE",
        ["n"],
        [
            values(2**53 + 1, None),
            values(None, 2**53 + 1),
            values(None, MOST),
            values(None, None),
        ],
        [2.0**53],
        [2.0**53 + 2],
        [2.0**63],
        [np.nan],
        [5e-324],
    ),
    *_each(
        "FLOAT16",
        ["n"],
        [values(0, 65504), values(2049, 65519), values(None, None)],
        [65504],
        [2048],
        [2050],
        [np.inf],
        [np.nan],
        [-6e-8],
    ),
    *_each(
        "INT64",
        ["n", "k"],
        [
            minus(0, None),
            minus(None, 0),
            minus(-2, 2),
            minus(LEAST, None),
            minus(None, MOST),
            minus(MOST, None),
            minus(None, LEAST),
        ],
        *PAIRS,
    ),
    *_each(
        "UINT64",
        ["n", "k"],
        [
            minus(0, None),
            minus(None, -1),
            minus(-2, 2),
            minus(MOST, None),
            minus(None, LEAST),
        ],
        [[0, 2**64 - 1]],
        [[2**64 - 1, 0]],
        [[2**63, 2**63 - 1]],
        [[2**63 - 1, 2**63]],
        [[2**64 - 1, 2**64 - 1]],
        [[5, 3]],
    ),
    *_each(
        "INT32",
        ["n", "k"],
        [minus(0, None), minus(-(2**32), 2**32 - 1)],
        [[2**31 - 1, -(2**31)]],
        [[-(2**31), 2**31 - 1]],
    ),
    *_each(
        "BOOL",
        ["n", "k"],
        [minus(0, None), minus(1, 1)],
        [[True, False]],
        [[False, True]],
    ),
    *_each(
        "INT64",
        ["n", "k"],
        [values(0, 3, columns=(0, 2)), minus(0, None)],
        [[0, 9, 3]],
        [[0, 9, 4]],
        [[0, 1]],
        np.zeros((0, 3)),
        np.zeros((2, 0)),
        [[1]],
    ),
    *_each(
        "INT64",
        [],
        [values(0, 3), values(0, 3, columns=(0,))],
        2,
        7,
        [2],
        [],
        [[2]],
        [7],
    ),
    *_each(
        "FLOAT",
        None,
        [values(0, 3), values(0, 3, columns=(1,))],
        2,
        7,
        [2],
        [7, 2],
        [],
        [[2]],
        [[7, 3]],
    ),
    *_products(),
    *_ends(),
]
"""Numbers at the ends of data types, and sizes whose products are large."""

NAMES = ["a", "b'\"", "c\n)]", "inputs['a']", "v0", "c3"]
POOL = [
    *(LEAST, LEAST + 1, -(2**31) - 1, -129, -3, -2, -1, 0, 1, 2, 3, 4, 255),
    *(2**16, 2**24 + 1, 2**31, 2**32, 2**53 + 1, 2**62, MOST - 1, MOST),
]


@st.composite
def guard_cases(draw: Any) -> GuardCase:
    """Draw a model, a contract of it and inputs."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    types = dict[str, tuple[str, Shape]]()
    dimension = st.sampled_from(["n", "m", "l", None, 1, 3])
    shapes: Any = st.lists(dimension, max_size=3) | st.none()
    for name in names:
        types[name] = (draw(st.sampled_from([*NUMPY_TYPES])), draw(shapes))
    small = st.integers(0, 3)
    known: dict[Any, int] = {"n": draw(small), "m": draw(small), "l": draw(small)}
    inputs = {name: draw(_arrays(*types[name], known)) for name in names}
    given_shapes = dict[str, list[int]]()
    for name, (_, shape) in types.items():
        if shape is None and draw(st.booleans()):
            own = [*inputs[name].shape]
            given_shapes[name] = draw(st.just(own) | st.lists(small, max_size=2))
    bare = GuardCase(types, (), inputs)
    open_sizes = [*bare.contract["sizes"]]
    conditions = [
        draw(_conditions(types, bare.contract["sizes"], open_sizes))
        for _ in range(draw(st.integers(0, 3)))
    ]
    return GuardCase(
        types,
        tuple(condition for condition in conditions if condition),
        inputs,
        draw(st.booleans()),
        given_shapes,
    )


@st.composite
def _arrays(draw: Any, data_type: str, shape: Shape, known: dict[Any, Any]) -> Any:
    """Draw an array of an input; of a known rank it has that rank."""
    small = st.integers(0, 3)
    sizes_drawn: list[int]
    if not shape:
        sizes_drawn = draw(st.lists(small, max_size=2)) if draw(st.booleans()) else []
    else:
        sizes_drawn = [
            draw(small)
            if draw(st.integers(0, 9)) == 0 or size is None
            else known.get(size, size)
            for size in shape
        ]
    dtype = NUMPY_TYPES[data_type]
    pool: list[Any] = [0, 1, 2, 3, *wild_numbers(dtype)]
    count = int(np.prod(sizes_drawn))
    few = st.sampled_from(pool[:4]) if draw(st.booleans()) else st.sampled_from(pool)
    numbers = draw(st.lists(few, min_size=count, max_size=count))
    made = np.empty(count, dtype)
    for place, number in enumerate(numbers):
        made[place] = number
    return made.reshape(sizes_drawn)


@st.composite
def _conditions(
    draw: Any, types: dict[str, tuple[str, Shape]], named: Any, open_sizes: list[str]
) -> Condition | None:
    """Draw a condition; None where there is no size for it."""
    of = draw(st.sampled_from(["values", "values", "difference", "size", "sizes"]))
    ends = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    number = st.integers(-2, 4) if draw(st.booleans()) else st.sampled_from(POOL)
    low, high = sorted([draw(number), draw(number)])
    given: dict[str, Any] = {"low": low if ends[0] else None}
    given["high"] = high if ends[1] else None
    expression = _expressions(open_sizes, 3) if open_sizes else st.none()
    if of == "sizes":
        text = draw(expression)
        return Condition(of=of, expression=text, **given) if text else None
    if of == "size":
        if not open_sizes:
            return None
        name, dim = draw(
            st.sampled_from([p for places in named.values() for p in places])
        )
        return Condition(of=of, input=name, dim=dim, **given)

    names = [*types]
    if of == "difference":
        names = [name for name in names if NUMPY_TYPES[types[name][0]].kind != "f"]
    if not names:
        return None
    name = draw(st.sampled_from(names))
    data_type, shape = types[name]
    last = shape[-1] if shape else None
    most = last - 1 if isinstance(last, int) else 3
    column = st.integers(0, most)
    columns: Any = None
    if of == "difference":
        columns = (draw(column), draw(column))
    elif draw(st.booleans()):
        columns = tuple(draw(st.lists(column, min_size=1, max_size=3)))
    # A guard has no ends beyond INT64 for other types.
    most_factors = 3 if data_type[0] in "IB" or data_type in ("UINT8", "UINT32") else 2
    for end in ("low", "high"):
        if open_sizes and draw(st.integers(0, 3)) == 0:
            text = draw(_expressions(open_sizes, most_factors))
            given |= {end: None, f"{end}_expression": text}
    if (
        of == "values"
        and NUMPY_TYPES[data_type].kind == "f"
        and draw(st.integers(0, 3)) == 0
    ):
        given = {}
    if of == "values" and NUMPY_TYPES[data_type].kind != "f" and draw(st.booleans()):
        given["also"] = tuple(draw(st.lists(number, min_size=1, max_size=2)))
    return Condition(of=of, input=name, columns=columns, **given)


def _expressions(open_sizes: list[str], most_factors: int) -> Any:
    """Draw sums of products of open sizes."""
    product = st.lists(st.sampled_from(open_sizes), min_size=1, max_size=most_factors)
    signed = st.tuples(st.sampled_from(["-", "+"]), st.integers(1, 9), product)
    return st.lists(signed, min_size=1, max_size=3).map(
        lambda terms: " ".join(
            f"{sign} {count}*{'*'.join(names)}" for sign, count, names in terms
        )
    )


def wild_inputs(inputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the inputs, and others: each with wild numbers, and each of other sizes."""
    yield inputs
    for name, array in inputs.items():
        for number in wild_numbers(array.dtype):
            everywhere = np.full_like(array, number)
            yield {**inputs, name: everywhere}
            if array.size:
                somewhere = array.copy()
                somewhere.flat[-1] = number
                yield {**inputs, name: somewhere}
        for dim, size in enumerate(array.shape):
            for other in (0, size + 1, size + 7):
                shape = [*array.shape]
                shape[dim] = other
                yield {**inputs, name: np.resize(array, shape)}


def wild_arrays(random: Random, data_type: str, shape: Sequence[int]) -> Any:
    """Return an array of some shape and data type, or of one that is wrong in some way.

    It may be what is no array, or an array whose bytes are in another order.
    """
    if random.random() < 0.2:
        data_type = random.choice([*NUMPY_TYPES, "STRING"])
    sizes_drawn = [
        random.choice([0, size, size + 1]) if random.random() < 0.1 else size
        for size in shape
    ]
    if random.random() < 0.2:
        sizes_drawn.insert(random.randint(0, len(shape)), random.choice([0, 1, 3]))
    elif sizes_drawn and random.random() < 0.1:
        sizes_drawn.pop(random.randrange(len(sizes_drawn)))
    if data_type == "STRING":
        return np.full(sizes_drawn, "a", random.choice(["U1", object]))
    dtype = NUMPY_TYPES[data_type]
    numbers: list[Any] = [0, 1, 2]
    if random.random() < 0.2:
        numbers += wild_numbers(dtype)
    array = np.empty(sizes_drawn, dtype)
    for place in range(array.size):
        array.flat[place] = random.choice(numbers)
    changes: list[Any] = [
        lambda: array[..., ::-1] if array.ndim else array,
        lambda: np.asfortranarray(array),
        lambda: np.repeat(array, 2, -1)[..., ::2] if array.ndim else array,
        lambda: array.astype(dtype.newbyteorder(">")),
        lambda: array.view(dtype.newbyteorder(">")),
        lambda: array.view(np.recarray),
        lambda: array.flat[0] if array.size else array,
        lambda: array.flat[0].item() if array.size else None,
        lambda: (*array.flat,),
    ]
    return random.choice(changes)() if random.random() < 0.3 else array


def wild_numbers(dtype: np.dtype[Any]) -> list[Any]:
    """Small numbers, large ones, and those at the ends of a data type."""
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        wild = [np.nan, np.inf, -np.inf, -0.0, 0.5, -0.5, most]
        return [*wild, *(number for number in POOL if abs(number) <= most)]
    if dtype.kind not in "iu":
        return [False, True] if dtype.kind == "b" else []
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    wild = [*POOL, 2**63, 2**64 - 1, least, most]
    return sorted({number for number in wild if least <= number <= most})
