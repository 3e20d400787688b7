"""The bounds of each operator hold what ONNX Runtime computes of special values: NaN,
infinities, zeros, the ends of types, and each number of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import session
from onnx import helper
from rings import by_ring

from onnxgather.auditing.algebra.bounds import (
    FLOATS,
    LIMITS,
    UNBOUNDED,
    Bounds,
    bounds_of_array,
    interval,
    unknown,
)
from onnxgather.auditing.operators.output_bounds import TRANSFERS
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Network, read_network

WIDTHS = (8, 16, 32, 64)
INTEGER_TYPES = [np.dtype(f"{sign}int{w}") for sign in ("", "u") for w in WIDTHS]
FLOAT_TYPES = [np.dtype(name) for name in ("float16", "float32", "float64")]
BOOLEAN = np.dtype(bool)
NUMBERS = INTEGER_TYPES + FLOAT_TYPES
TYPES = [*NUMBERS, BOOLEAN]
CHUNK = 2**14
"""The most elements that have bounds of their own."""


def specials(dtype: np.dtype[Any]) -> Array:
    """The numbers of a type at which operators change what they do."""
    if dtype == BOOLEAN:
        return np.array([False, True])
    powers = [2**bits for bits in (0, 1, 7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)]
    near = [sign * (p + step) for p in powers for sign in (1, -1) for step in (-1, 1)]
    numbers = [0, *near, *powers, *(-p for p in powers)]
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        numbers += [info.min, info.min + 1, info.max - 1, info.max]
        fitting = sorted({n for n in numbers if info.min <= n <= info.max})
        return np.array(fitting, dtype)
    limits = np.finfo(dtype)
    halves = [0.5, 1.5, 2.5, 1 - float(limits.epsneg), 1 + float(limits.eps)]
    tiny = [float(limits.smallest_subnormal), float(limits.tiny), 3e-39]
    large = [float(limits.max), float(np.nextafter(limits.max, dtype.type(0))), np.inf]
    fractions = [sign * n for n in halves + tiny + large for sign in (1, -1)]
    with np.errstate(over="ignore"):
        every = np.array([float(n) for n in numbers[-6:]] + fractions).astype(dtype)
    return np.concatenate([np.unique(every), np.array([-0.0, np.nan], dtype)])


def every(dtype: np.dtype[Any]) -> Array:
    """Each number of a type of 8 bits, the special ones of another."""
    if dtype.itemsize == 1 and dtype != BOOLEAN:
        return np.arange(256, dtype=np.uint8).view(dtype)
    return specials(dtype)


@dataclass
class Case:
    """An operation, with as many inputs in front as are known by bounds alone."""

    operator: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    open_inputs: int = 1
    opset: int = 17
    outputs: int = 1


def model_of(case: Case) -> onnx.ModelProto:
    names = [f"x{k}" * (a is not None) for k, a in enumerate(case.inputs)]
    outputs = [f"y{k}" for k in range(case.outputs)]
    node = helper.make_node(case.operator, names, outputs, **case.attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for name, a in zip(names, case.inputs, strict=True)
        if a is not None
    ]
    shown = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "g", inputs, shown)
    opset = helper.make_opsetid("", case.opset)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


def computed(model: onnx.ModelProto, case: Case) -> list[Array] | None:
    """What ONNX Runtime computes at level 0; None where it has no such kernel, or the
    operation fails."""
    feeds = {f"x{k}": a for k, a in enumerate(case.inputs) if a is not None}
    try:
        return [np.asarray(array) for array in session(model).run(None, feeds)]
    except Exception:  # a class of errors of each kind
        return None


def name_of(array: Array) -> str:
    number = helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.TensorProto.DataType.Name(number)


def between(x: Array, a: Array, b: Array) -> Bounds:
    """The elements of `x` between those of two arrays; a NaN between any."""
    nan = bool((x != x).any())
    data_type = name_of(x)
    if data_type in FLOATS:
        a = np.where(a != a, x, a)
        b = np.where(b != b, x, b)
    low, high = np.minimum(a, b)[..., None], np.maximum(a, b)[..., None]
    with np.errstate(invalid="ignore"):
        return interval(data_type, x.shape, low, high, nan)


def end_of(x: Array, last: bool) -> Array:
    limits = LIMITS.get(name_of(x), UNBOUNDED)
    return np.full(x.shape, limits[last], x.dtype)


def exactly(x: Array) -> Bounds:
    return bounds_of_array(name_of(x), x)


def beside(x: Array) -> Bounds:
    """Between an element and the one before, which for a row is the next smaller."""
    return between(x, x, np.roll(x, 1, -1) if x.ndim else x)


def opposite(x: Array) -> Bounds:
    return between(x, x, np.flip(x))


def at_least(x: Array) -> Bounds:
    return between(x, x, end_of(x, True))


def at_most(x: Array) -> Bounds:
    return between(x, x, end_of(x, False))


def together(x: Array) -> Bounds:
    """All elements between the same two, as in a value of which less is known."""
    least, most = exactly(x).whole if x.size else (0, 0)
    nan = bool((x != x).any())
    return interval(name_of(x), x.shape, least, most, nan)


def of_any_size(x: Array) -> Bounds:
    return together(x).resized(tuple(None for _ in x.shape))


def anything(x: Array) -> Bounds:
    return unknown(name_of(x), x.shape)


FORMS: list[Callable[[Array], Bounds]] = [
    exactly,
    beside,
    opposite,
    at_least,
    at_most,
    together,
    of_any_size,
    anything,
]
"""What may be known of an array."""

KNOWN_FORMS = {"exactly", "exactly of input 0", "exactly of input 1"}
"""The forms in which every element is known, whatever else is."""


def outside(value: Bounds, array: Array) -> str:
    """The first element of an array that is not between the bounds, or ""."""
    if not array.size or value.data_type not in {*LIMITS, *FLOATS}:
        return ""
    if value.data_type != name_of(array):
        return f"{array.dtype} as {value.data_type}"
    low, high = value.closed.low[..., 0], value.closed.high[..., 0]
    numbers = array.astype(object) if low.dtype == object else array
    is_nan = array != array
    with np.errstate(invalid="ignore"):
        is_inside = np.asarray((low <= numbers) & (numbers <= high), bool)
    is_inside = np.where(is_nan, value.nan, is_inside)
    wrong = np.argwhere(~is_inside)
    if not len(wrong):
        return ""
    place = tuple(wrong[0])
    ends = [np.broadcast_to(end, array.shape)[place] for end in (low, high)]
    return f"{array[place]} at {[*map(int, place)]}, not in {ends}, nan={value.nan}"


def limited(value: Bounds, array: Array) -> int:
    """How many elements of an array have an end that their type does not give them."""
    if not array.size or value.data_type not in {*LIMITS, *FLOATS}:
        return 0
    lowest, highest = LIMITS.get(value.data_type, UNBOUNDED)
    closed = value.closed
    has_end = (closed.low[..., 0] > lowest) | (closed.high[..., 0] < highest)
    return int(np.broadcast_to(has_end, array.shape).sum())


def bounds_of(network: Network, inputs: list[Bounds]) -> list[Bounds]:
    return list(Ranges({}).evaluate(network.main, inputs))


def assignments(case: Case) -> Iterator[tuple[str, list[Bounds]]]:
    """What may be known of the inputs: each form for all of them, and for one."""
    arrays = [a for a in case.inputs if a is not None]
    known = [exactly(a) for a in arrays]
    count = min(case.open_inputs, len(arrays))
    # All pairs of 8 bits are many: fewer forms, and no input alone.
    is_large = any(a.size > CHUNK // 4 for a in arrays)
    for form in (exactly, beside, together) if is_large else FORMS:
        opened = [form(a) for a in arrays[:count]]
        yield form.__name__, [*opened, *known[count:]]
        for k in range(count if count > 1 and not is_large else 0):
            alone = [*known[:k], opened[k], *known[k + 1 :]]
            yield f"{form.__name__} of input {k}", alone
    if count < len(arrays):
        yield "anything of each input", [anything(a) for a in arrays]


def faults(case: Case) -> tuple[int, list[str]]:
    """How many elements that ONNX Runtime computed have bounds, and which leave them.

    Of inputs that are known exactly the bounds are no achievement: they do not count.
    """
    model = model_of(case)
    arrays = computed(model, case)
    if arrays is None:
        return 0, []
    network = read_network(model)
    found = list[str]()
    bounded = 0
    types = ", ".join(f"{a.dtype}{[*a.shape]}" for a in case.inputs if a is not None)
    for form, inputs in assignments(case):
        for value, array in zip(bounds_of(network, inputs), arrays, strict=True):
            fault = outside(value, array)
            if form not in KNOWN_FORMS:
                bounded += limited(value, array)
            if fault:
                options = case.attributes or ""
                found.append(f"{case.operator}({types}) {options} {form}: {fault}")
    return bounded, found


# The cases.


def pairs(
    dtype: np.dtype[Any], keeps: Callable[[Array, Array], Array] | None = None
) -> Iterator[tuple[Array, Array]]:
    """All pairs of numbers, as rows of no more elements than have bounds."""
    numbers = every(dtype)
    a = np.repeat(numbers, len(numbers))
    b = np.tile(numbers, len(numbers))
    if keeps is not None:
        kept = keeps(a, b)
        a, b = a[kept], b[kept]
    for start in range(0, len(a), CHUNK):
        yield a[start : start + CHUNK], b[start : start + CHUNK]
    yield a[:0], b[:0]
    yield a[-1], b[-1]


def divides(a: Array, b: Array) -> Array:
    """Where a division of integers ends no program."""
    if a.dtype.kind in "fb":
        return np.ones(a.shape, bool)
    lowest = np.iinfo(a.dtype).min
    overflows = (a == lowest) & (b == np.array(-1).astype(a.dtype))
    return (b != 0) & ~(overflows & (a.dtype.kind == "i"))


UNARY = [
    *("Neg", "Floor", "Ceil", "Round", "Sign", "Sqrt", "Log", "Relu", "Not", "Abs"),
    "Identity",
]
BINARY = [
    *("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "And", "Or", "Equal"),
    *("Less", "LessOrEqual", "Greater", "GreaterOrEqual"),
]
ELEMENT_TYPES = dict.fromkeys([*UNARY, *BINARY], TYPES)


def cases_of_elements(operator: str) -> Iterator[Case]:
    for dtype in TYPES:
        x = every(dtype)
        if operator in UNARY:
            yield from (Case(operator, [a]) for a in (x, x[-1], x[:0]))
        if operator in BINARY:
            keeps = divides if operator in ("Div", "Mod") else None
            options: list[dict[str, int]] = [{}]
            if operator == "Mod":
                options = [{"fmod": 1}] if dtype.kind == "f" else [{}, {"fmod": 1}]
            for given in options:
                for a, b in pairs(dtype, keeps):
                    yield Case(operator, [a, b], dict(given), 2)
        if operator in ("Cast", "CastLike"):
            for target in TYPES:
                for a in (x, x[-1], x[:0]):
                    kind = helper.np_dtype_to_tensor_dtype(target)
                    if operator == "Cast":
                        yield Case("Cast", [a], {"to": kind})
                    else:
                        yield Case("CastLike", [a, np.ones(1, target)])
        if operator == "Clip":
            few = specials(dtype)
            for limit in few[::8]:
                end = np.asarray(limit)
                yield Case(operator, [x, end], {}, 2)
                yield Case(operator, [x, None, end], {}, 2)
                yield Case(operator, [x, end, np.asarray(few[len(few) // 2])], {}, 3)
        if operator == "Where":
            for a, b in pairs(dtype):
                condition = np.arange(a.size).reshape(a.shape) % 2 == 0
                yield Case(operator, [condition, a, b], {}, 3)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def numbers_of_types() -> Iterator[tuple[np.dtype[Any], Array]]:
    """The special numbers of each type, and usual ones, which have ends together."""
    for dtype in TYPES:
        yield dtype, specials(dtype)
        usual = np.arange(14) % 8
        yield dtype, (usual * (dtype != BOOLEAN)).astype(dtype)


def cases_of_rows(operator: str) -> Iterator[Case]:
    """Operators of whole tensors: of each type, of several ranks, and of nothing."""
    for dtype, numbers in numbers_of_types():
        x = np.resize(numbers, (6, len(numbers) // 6 + 1))
        width = x.shape[1]
        empty = np.zeros((2, 0), dtype)
        scalar = np.asarray(numbers[-1])
        rows: dict[str, list[Case]] = {
            "ArgMax": [
                Case("ArgMax", [a], {"axis": k}) for a in (x, x[:1]) for k in (0, -1)
            ],
            "ArgMin": [
                Case("ArgMin", [a], {"axis": k}) for a in (x, x[:1]) for k in (0, -1)
            ],
            "TopK": [
                Case("TopK", [a, i64(1)], {"axis": k, "largest": n}, outputs=2)
                for a in (x, x[:1])
                for k in (0, -1)
                for n in (0, 1)
            ],
            "NonZero": [Case("NonZero", [a]) for a in (x, numbers, scalar, empty)],
            "Shape": [Case("Shape", [a]) for a in (x, scalar, empty)]
            + [Case("Shape", [x], {"start": s, "end": -1}) for s in (-9, 0, 1, 5)],
            "Size": [Case("Size", [a]) for a in (x, scalar, empty)],
            "Compress": [
                Case("Compress", [x, np.arange(6) % 2 == 0], {"axis": 0}),
                Case("Compress", [x, np.arange(6) % 2 == 0]),
            ],
            "GatherElements": [Case("GatherElements", [x, np.zeros((3, 2), int)])],
            "GatherND": [Case("GatherND", [x, np.array([[0], [-1]])])],
            "Gather": [
                Case("Gather", [x, np.asarray(k)], {"axis": axis})
                for k in (0, -1, [[1, 0]], np.zeros(0, int))
                for axis in (0, 1)
            ],
            "Pad": [
                Case("Pad", [x, i64(1, 0, 0, 2)], {"mode": mode})
                for mode in ("constant", "edge", "reflect")
            ]
            + [Case("Pad", [x, i64(0, 1, -1, 0), np.asarray(n)]) for n in numbers[-6:]],
            "ScatterElements": [
                Case(operator, [x, np.zeros((1, 2), int), np.resize(n, (1, 2))])
                for n in numbers[-6:]
            ],
            "ScatterND": [
                Case(operator, [x, np.array([[1, 1]]), np.resize(n, (1,))])
                for n in numbers[-6:]
            ],
            "Trilu": [Case("Trilu", [x], {"upper": n}) for n in (0, 1)],
            "OneHot": [
                Case("OneHot", [i64(0, -1, 9), np.asarray(3), x.ravel()[k : k + 2]])
                for k in range(width)
            ],
            "Reshape": [
                Case("Reshape", [x, i64(*s)]) for s in ((-1,), (0, -1), (3, -1, 2))
            ]
            + [Case("Reshape", [scalar, i64(1)])],
            "Flatten": [Case("Flatten", [a]) for a in (x, scalar, empty)],
            "Squeeze": [Case("Squeeze", [x[:1]]), Case("Squeeze", [x[:1], i64(0)])],
            "Unsqueeze": [Case("Unsqueeze", [a, i64(0)]) for a in (x, scalar, empty)],
            "Transpose": [Case("Transpose", [a]) for a in (x, scalar, empty)],
            "Expand": [
                Case("Expand", [x, i64(2, 1, 1)]),
                Case("Expand", [scalar, i64(3)]),
                Case("Expand", [x[:1], i64(0, width)]),
            ],
            "Tile": [Case("Tile", [x, i64(*n)]) for n in ((2, 1), (1, 2), (0, 1))],
            "Slice": [
                Case("Slice", [x, i64(s), i64(e), i64(axis), i64(step)])
                for s in (0, -1, 9, -(2**63), 2**63 - 1)
                for e in (3, -9, -(2**63), 2**31 - 1, 2**63 - 1)
                for axis in (-1,)
                for step in (1, -2, -(2**63), 2**63 - 1)
                if dtype == np.int64
            ],
            "Split": [
                Case("Split", [x], {"axis": 0}, outputs=2),
                Case("Split", [x, i64(6, 0)], {"axis": 0}, outputs=2),
            ],
            "Concat": [
                Case("Concat", [x, x[:1]], {"axis": 0}, 2),
                Case("Concat", [x[:, :0], x], {"axis": 1}, 2),
                Case("Concat", [numbers, numbers[:0], numbers[::-1]], {"axis": 0}, 3),
            ],
        }
        if operator == "ConstantOfShape":
            for n in numbers[-6:]:
                value = onnx.numpy_helper.from_array(np.asarray([n]))
                yield Case(operator, [i64(2, 1)], {"value": value})
                yield Case(operator, [np.zeros(0, int)], {"value": value})
                yield Case(operator, [i64(2, 0)], {"value": value})
        if operator in ("ReduceSum", "ReduceMax", "ReduceMin"):
            version = 13 if operator == "ReduceSum" else 18
            for a in (
                x,
                x[:, :1],
                numbers,
                scalar,
                empty,
                x[:3],
            ):
                for axes in ((), (0,), (-1,)):
                    for keep in (0, 1):
                        given = [a, i64(*axes)] if axes else [a]
                        yield Case(
                            operator, [*given], {"keepdims": keep}, opset=version
                        )
        if operator == "CumSum":
            for a in (x, x[:, :1], numbers, x[:, :0]):
                for reverse in (0, 1):
                    for exclusive in (0, 1):
                        given = {"reverse": reverse, "exclusive": exclusive}
                        yield Case(operator, [a, np.asarray(0)], given)
        if operator == "Range" and dtype != BOOLEAN:
            for start in numbers[::2]:
                for step in (-3, 1):
                    for length in (0, 4):
                        delta = float(step) if dtype.kind == "f" else step
                        with np.errstate(all="ignore"):
                            limit = start.item() + length * delta
                        if not _fits(limit, dtype) or not _fits(delta, dtype):
                            continue
                        ends = [np.asarray(n, dtype) for n in (start, limit, delta)]
                        if np.isfinite(np.array(limit, float)):
                            yield Case(operator, [*ends], {}, 3)
        if operator == "NonMaxSuppression" and dtype == np.float32:
            boxes = np.resize(numbers, (1, 5, 4))
            usual = np.array([[[0, 0, 1, 1], [0, 0, 2, 2], [5, 5, 6, 6]]], dtype)
            for b in (boxes, usual, usual[:, :0]):
                scores = np.resize(numbers[::-1], (1, 2, b.shape[1]))
                yield Case(
                    operator, [b, scores, i64(3), np.array([0.5], np.float32)], {}, 2
                )
        yield from rows.get(operator, [])


def _fits(number: float, dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        return abs(number) <= 1e4
    info = np.iinfo(dtype)
    return info.min <= number <= info.max


def cases_of(operator: str) -> Iterator[Case]:
    yield from cases_of_elements(operator)
    yield from cases_of_rows(operator)


QUICK = {"Sign", "Abs", "NonZero"}


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in TRANSFERS
    ],
)
def test_the_bounds_hold_what_onnx_runtime_computes_of_special_values(
    operator: str,
) -> None:
    bounded = 0
    wrong = list[str]()
    for case in islice(cases_of(operator), None, None, by_ring(1, 3)):
        count, found = faults(case)
        bounded += count
        wrong += found
    assert not wrong, "\n".join([f"{len(wrong)} faults", *wrong[:20]])
    assert bounded, f"no element of {operator} has bounds"


def low_alone(value: Bounds) -> Bounds:
    """A value whose elements are the least that they may be."""
    return replace(value, bounds=np.concatenate([value.low, value.low], axis=-1))


def never_nan(value: Bounds) -> Bounds:
    return replace(value, nan=False)


@pytest.mark.parametrize(
    ("operator", "mistake"),
    [("Sign", low_alone), ("NonZero", low_alone), ("Neg", never_nan)],
)
def test_a_mistake_is_seen(
    operator: str,
    mistake: Callable[[Bounds], Bounds],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = TRANSFERS[operator]

    def wrong(call: Any) -> Any:
        value = right(call)
        return mistake(value) if isinstance(value, Bounds) else value

    monkeypatch.setitem(TRANSFERS, operator, wrong)
    assert any(faults(case)[1] for case in cases_of(operator))


@pytest.mark.slow
def test_an_operator_without_bounds_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sum(faults(case)[0] for case in cases_of("Trilu"))

    def nothing(call: Any) -> None:
        """Bound nothing."""

    monkeypatch.setitem(TRANSFERS, "Trilu", nothing)
    assert not sum(faults(case)[0] for case in cases_of("Trilu"))
