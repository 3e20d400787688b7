"""The sizes that the table tells are those that ONNX Runtime computes, and infers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
import random_operations
from onnx import helper, numpy_helper
from random_operations import Drawn
from rings import by_ring, one_quick_in

from onnxgather.auditing.algebra.bounds import (
    Bounds,
    bounds_of_array,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size, Symbol
from onnxgather.auditing.operators import output_types as operator_types
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_types import CONDITIONS, RULES, output_types
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation
from onnxgather.core.model.values import name_of

CRASHES = {
    *(
        "Concat",
        "ConvTranspose",
        "Einsum",
        "GRU",
        "InstanceNormalization",
        "LRN",
        "LSTM",
    ),
    *("LpNormalization", "OneHot", "RNN", "TopK", "Unique"),
}
"""Operators that may end the process of ONNX Runtime where an input is empty."""


def above(a: int, b: int) -> int:
    """How far the second number is above the first, or 0."""
    return max(a, b) - a


def divided(a: int, b: int) -> int:
    return a // b


def as_float(a: int) -> int:
    return int(np.float32(a))


DERIVED: dict[str, Callable[..., int]] = {
    "quotient": divided,
    "larger": above,
    "float": as_float,
    "at least one": int,
}
"""What the symbols stand for that are made of sizes."""


class Numbers:
    """The numbers that symbols stand for, and expressions of them for numbers."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.values = dict[Symbol, int]()
        self.made: defaultdict[int, list[Size]] = defaultdict(list)

    def symbol(self, number: int) -> Size:
        """Return a symbol that is the number, perhaps one that was made before."""
        if self.made[number] and self.random.random() < 0.6:
            return self.random.choice(self.made[number])
        low = int(number > 0 and self.random.random() < 0.6)
        one = Symbol(f"s{len(self.values)}", low, self.random.choice([2**28, 2**48]))
        self.values[one] = number
        self.made[number].append(Size({(one,): 1}))
        return self.made[number][-1]

    def size(self, number: int, share: float) -> AnySize:
        """Return the number itself, or an expression that is the number."""
        kind = self.random.random()
        if self.random.random() >= share or abs(number) > 20:
            return number
        if number < 0:
            return -self.symbol(-number)
        if kind < 0.1 and number % 2 == 0:
            return self.symbol(number // 2) * 2
        if kind < 0.2 and number:
            return self.symbol(number - 1) + 1
        if kind < 0.3 and number % 3 == 0:
            return self.symbol(number // 3) * self.symbol(3)
        return self.symbol(number)

    def value(self, size: AnySize) -> int | None:
        """Return what an expression is; None where the run alone tells a symbol in
        it."""
        if isinstance(size, int):
            return size
        total = 0
        for monomial, count in size.terms.items():
            for symbol in monomial:
                if symbol not in self.values:
                    self.learn()
                if symbol not in self.values:
                    return None
                count *= self.values[symbol]
            total += count
        return total

    def learn(self) -> None:
        """Learn what the quotients, the larger ones and the rounded ones stand for that
        were made of symbols, and of one another."""
        count = -1
        while count < len(self.values):
            count = len(self.values)
            self._learn()

    def _learn(self) -> None:
        for maker in list(self.values):
            for key, made in maker.derived.items():
                kind, *operands = cast("tuple[str, *tuple[AnySize, ...]]", key)
                numbers = [self.value(operand) for operand in operands]
                if None in numbers or isinstance(made, int):
                    continue
                number = DERIVED[kind](*numbers)
                for symbol in made.symbols - self.values.keys():
                    self.values[symbol] = number


def bounds_of(array: Array, numbers: Numbers, share: float) -> Bounds:
    """What may be known of an array: its elements, some of them, expressions, its
    sizes."""
    random = numbers.random
    number = (
        helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != object else 8
    )
    sizes = tuple(numbers.size(n, share) for n in array.shape)
    is_sized, kind = all(isinstance(n, int) for n in sizes), random.random()
    if is_sized and (not share or kind < 0.5):
        return bounds_of_array(name_of(number), array)
    if kind < 0.8 and array.dtype.kind == "i" and is_sized and array.size:
        ends: Array = np.empty((*array.shape, 2), object)
        for at, element in np.ndenumerate(array):
            ends[at] = [numbers.size(int(element), 0.7)] * 2
            if random.random() < 0.2:
                ends[at] = (
                    min(int(element), random.choice([-1, 0])),
                    max(int(element), 5),
                )
        return interval(name_of(number), sizes, ends[..., :1], ends[..., 1:])
    return unknown(
        name_of(number), sizes if random.random() < 0.97 or not share else None
    )


def node_of(drawn: Drawn) -> onnx.NodeProto:
    """Return the node of an operation."""
    names = [
        f"x{k}" if array is not None else "" for k, array in enumerate(drawn.inputs)
    ]
    outputs = [f"y{k}" for k in range(drawn.outputs)]
    values: dict[str, Any] = {
        name: (
            numpy_helper.from_array(cast("Array", value)) if name == "value" else value
        )
        for name, value in drawn.attributes.items()
    }
    return helper.make_node(drawn.operator, names, outputs, **values)


def call_of(drawn: Drawn, inputs: Iterable[Bounds | None]) -> Call:
    """Return an operation with what is known of its inputs."""
    node = node_of(drawn)
    lists = [
        name for name, value in drawn.attributes.items() if isinstance(value, list)
    ]
    plain = drawn.attributes | {name: tuple(drawn.attributes[name]) for name in lists}
    names = tuple(node.input), tuple(node.output)
    return Call(
        Operation("", drawn.operator, "", *names, plain, {}, node),
        tuple(inputs),
        drawn.version,
    )


def runs(drawn: Drawn, seed: int) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the outputs of an operation, each with a Shape of it, on two levels of
    optimization."""
    node, feeds = node_of(drawn), dict[str, Array]()
    inputs, constants = list[Any](), list[Any]()
    for k, array in enumerate(drawn.inputs):
        if array is None:
            continue
        is_constant = (True, array.dtype.kind == "i" and k > 0, False, False)[seed % 4]
        if is_constant:
            constants.append(numpy_helper.from_array(array, f"x{k}"))
            continue
        sizes = (
            [f"d{k}_{n}" for n in range(array.ndim)] if seed % 4 == 2 else array.shape
        )
        number = (
            helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != object else 8
        )
        inputs.append(helper.make_tensor_value_info(f"x{k}", number, sizes))
        feeds[f"x{k}"] = array
    shapes = [
        helper.make_node("Shape", [name], [f"{name} sizes"]) for name in node.output
    ]
    names = [*node.output, *(shape.output[0] for shape in shapes)]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node, *shapes], "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", drawn.version)]
    content = helper.make_model(
        graph, opset_imports=opsets, ir_version=8
    ).SerializeToString()
    runtime: Any = onnxruntime
    levels = runtime.GraphOptimizationLevel
    for level in (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_ALL):
        options = runtime.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            session = runtime.InferenceSession(
                content, options, ["CPUExecutionProvider"]
            )
            found = session.run(None, feeds)
        except Exception:
            # such as sizes that do not fit; ONNX Runtime raises errors of its own
            continue
        yield list(zip(found[: len(shapes)], found[len(shapes) :], strict=True))


def broken(
    told: OpenType,
    array: Array,
    shape: Array,
    numbers: Numbers,
    is_guessed: bool = False,
) -> str:
    """Return what is wrong of a type, for an output and a Shape of it; "" where nothing
    is.

    Where the Shape is a guess of ONNX Runtime, its own sizes may differ from it.
    """
    number = (
        helper.np_dtype_to_tensor_dtype(array.dtype) if array.dtype != object else 8
    )
    if told.data_type not in ("", name_of(number)):
        return f"data type {told.data_type}"
    if told.sizes is None:
        return ""
    if not len(told.sizes) == array.ndim == len(shape):
        return f"rank of {told.sizes}"
    for size, real, inferred in zip(
        told.sizes, array.shape, shape.tolist(), strict=True
    ):
        if size is None:
            continue
        number = numbers.value(size)
        if number is None and isinstance(size, Size):  # a count that the run tells
            is_so = size.low <= real <= size.high and (real == inferred or is_guessed)
            numbers.values.update(dict.fromkeys(size.symbols, int(real)))
        else:
            is_so = number == real and (real == inferred or is_guessed)
        if not is_so:
            return f"{told.sizes}, a run {array.shape}, a Shape {shape}"
    return ""


def found_wrong(seeds: Iterable[int], operator: str = "") -> Iterator[str]:
    """Yield "" or what is wrong for each output of random operations, in each of their
    runs."""
    for seed in seeds:
        drawn = random_operations.drawn(seed, operator)
        sizes = [n for array in drawn.inputs if array is not None for n in array.shape]
        is_unsafe = drawn.operator in CRASHES and 0 in sizes
        if is_unsafe or "..." in drawn.attributes.get("equation", ""):
            continue
        for run in list(runs(drawn, seed)):
            for share in (0, 0.6, 0.6):
                numbers = Numbers(Random(seed))
                inputs = [
                    a if a is None else bounds_of(a, numbers, share)
                    for a in drawn.inputs
                ]
                # Of a pool that rounds up ONNX Runtime infers one place too many.
                is_guessed = bool(drawn.attributes.get("ceil_mode", 0))
                for told, (array, shape) in zip(
                    output_types(call_of(drawn, inputs)), run, strict=True
                ):
                    if array is not None:
                        wrong = broken(told, array, shape, numbers, is_guessed)
                        yield wrong and f"seed {seed}, {drawn.operator}: {wrong}"


N, M = (Size({(Symbol(name, 1, 2**28),): 1}) for name in "NM")
K = Size({(Symbol("K", 0, 2**28),): 1})
"""Open sizes: `N` and `M` count from 1, `K` counts from 0."""


def floats(*sizes: AnySize) -> Bounds:
    return unknown("FLOAT", sizes)


def integers(*elements: AnySize | None) -> Bounds:
    """Return integers, some of them open."""
    ends = np.empty((len(elements), 2), object)
    for k, element in enumerate(elements):
        ends[k] = (-9, 9) if element is None else (element, element)
    return interval("INT64", (len(elements),), ends[:, :1], ends[:, 1:])


def one(number: AnySize) -> Bounds:
    return interval("INT64", (), number, number)


STRETCHED, DOUBLED, HALVED, THREE_HALVES = (
    bounds_of_array("FLOAT", np.array([1, 1, n], np.float32))
    for n in (0.9, 2, 0.5, 1.5)
)
SMALL = Size({(Symbol("S", 1, 2**23),): 1})
FEW = Size({(Symbol("F", 1, 2**21),): 1})
"""Open sizes whose double FLOAT holds, and whose sixfold it holds."""

SIZES: list[tuple[str, list[Bounds | None], dict[str, Any], Any]] = [
    ("Add", [floats(N, 1, 3), floats(M, 1)], {}, (N, M, 3)),
    ("Add", [floats(N), floats(N + 1)], {}, (N + 1,)),
    ("Add", [floats(K), floats(5)], {}, (5,)),
    ("Add", [floats(K), floats(N)], {}, (None,)),
    ("PRelu", [floats(N, 3), floats(3)], {}, (N, 3)),
    ("PRelu", [floats(1, 3), floats(N, 3)], {}, None),
    ("MatMul", [floats(N, M, 4), floats(1, 4, 5)], {}, (N, M, 5)),
    ("MatMul", [floats(2, M, K), floats(2, K, 5)], {}, None),
    ("Einsum", [floats(N, M), floats(M, 3)], {"equation": "ij,jk->ik"}, (N, 3)),
    ("Einsum", [floats(N, M), floats(1, 3)], {"equation": "ij,jk->ik"}, (None, None)),
    ("Expand", [floats(1, M), integers(N, 1)], {}, (N, M)),
    ("ConstantOfShape", [integers(N, 2)], {}, (N, 2)),
    ("Reshape", [floats(N, M, 4), integers(0, -1)], {}, (N, 4 * M)),
    ("Reshape", [floats(N, M, 4), integers(-1, 4)], {}, (N * M, 4)),
    ("Reshape", [floats(N, 3, M), integers(None, 3, None)], {}, (None, 3, None)),
    ("Reshape", [floats(N, 3, M), integers(None, 3, M)], {}, (N, 3, M)),
    ("Reshape", [floats(N, M), integers(K, -1)], {}, (..., ...)),
    ("Reshape", [floats(K, M), integers(N - 1, -1)], {}, (None, None)),
    ("Reshape", [floats(N, M, 6), integers(N, M, 2, 3)], {}, (N, M, 2, 3)),
    ("Reshape", [floats(N, 12), integers(N, M, 4)], {}, (N, M, 4)),
    ("Reshape", [floats(N, K), integers(K, -1)], {"allowzero": 1}, (K, N)),
    ("Reshape", [floats(N, M), integers(K, -1)], {"allowzero": 1}, (K, None)),
    ("Range", [one(0), one(N), one(1)], {}, (N,)),
    ("Range", [one(2), one(N + 2), one(1)], {}, (N,)),
    ("Range", [one(0), one(2 * N), one(2)], {}, (N,)),
    ("Range", [floats(), floats(), floats()], {}, (None,)),
    ("Tile", [floats(N, 3), integers(2, M)], {}, (2 * N, 3 * M)),
    ("Flatten", [floats(N, M, 3)], {"axis": 2}, (N * M, 3)),
    ("TopK", [floats(N, M), integers(M)], {}, (N, M)),
    ("ReduceSum", [floats(N, M), integers(1)], {}, (N, 1)),
    ("ReduceSum", [floats(N, K), integers(1)], {}, (None, None)),
    ("ReduceSum", [floats(N, K), integers(1)], {"keepdims": 0}, None),
    ("ArgMax", [floats(N, M)], {"axis": 0, "keepdims": 0}, (M,)),
    ("ArgMax", [floats(K, M)], {"axis": 0, "keepdims": 0}, None),
    ("NonZero", [floats()], {}, (None, ...)),
    ("Squeeze", [floats(1, N), integers(0)], {}, (N,)),
    ("Squeeze", [floats(1, N), integers()], {}, None),
    ("Squeeze 10", [floats(1, N, 1)], {"axes": (0,)}, (N, 1)),
    ("Squeeze 10", [floats(1, N, 1)], {"axes": (-1,)}, None),
    ("Unsqueeze 10", [floats(N, 1)], {"axes": (0,)}, (1, N, 1)),
    ("Unsqueeze 10", [floats(N, 1)], {"axes": (-1,)}, None),
    ("Concat", [floats(N, 2), floats(M, 2), floats(3, 2)], {"axis": 0}, (N + M + 3, 2)),
    ("Concat", [floats(N, 1), floats(M, 5)], {"axis": 1}, (N, 6)),
    ("Concat", [floats(K, 1), floats(M, 5)], {"axis": 1}, (None, 6)),
    ("Concat", [floats(M, 5), floats(K, 1)], {"axis": 1}, (M, 6)),
    ("Concat", [floats(K, 1), floats(K, 5)], {"axis": 1}, (K, 6)),
    ("Concat", [floats(5, 0), floats(N, 3)], {"axis": 1}, (None, 3)),
    ("Split", [floats(2 * N, 3)], {"axis": 0}, (N, 3)),
    ("Split 18", [floats(2 * N, 3)], {"axis": 0, "num_outputs": 2}, (N, 3)),
    ("Split", [floats(N + 2), integers(2, N)], {"axis": 0}, (2,)),
    ("Pad", [floats(N, 3), integers(1, 0, 1, 2)], {}, (N + 2, 5)),
    ("Slice", [floats(N, 9), integers(0), integers(5), integers(1)], {}, (N, 5)),
    ("Slice", [floats(N + 3), integers(0), integers(-1)], {}, (N + 2,)),
    ("Slice", [floats(N + M), integers(N), integers(2**63 - 1)], {}, (M,)),
    (
        "Slice",
        [floats(9), integers(-1), integers(-10), integers(0), integers(-1)],
        {},
        (9,),
    ),
    (
        "Slice",
        [floats(9), integers(7), integers(-(2**63)), integers(0), integers(-3)],
        {},
        (3,),
    ),
    (
        "Slice",
        [floats(9), integers(-12), integers(-12), integers(0), integers(-1)],
        {},
        (1,),
    ),
    (
        "Slice",
        [floats(9), integers(-1), integers(2**31 - 1), integers(0), integers(-1)],
        {},
        (None,),
    ),
    (
        "Slice",
        [floats(9), integers(8), integers(0), integers(0), integers(-(2**31))],
        {},
        (None,),
    ),
    (
        "Slice",
        [floats(N), integers(-1), integers(-10), integers(0), integers(-1)],
        {},
        (None,),
    ),
    ("Conv", [floats(N, 3, 16 * M), floats(8, 3, 16)], {"strides": (16,)}, (N, 8, M)),
    ("Conv", [floats(1, 1, M), floats(1, 1, 3)], {"pads": (1, 1)}, (1, 1, M)),
    ("MaxPool", [floats(1, 1, 2)], {"kernel_shape": (1,), "strides": (2,)}, (1, 1, 1)),
    (
        "MaxPool",
        [floats(1, 1, 2)],
        {"kernel_shape": (1,), "strides": (2,), "ceil_mode": 1},
        (1, 1, ...),
    ),
    (
        "ConvTranspose",
        [floats(1, 1, 7), floats(1, 1, 3)],
        {"strides": (2,)},
        (1, 1, 15),
    ),
    (
        "ConvTranspose",
        [floats(1, 1, 7), floats(1, 1, 3)],
        {"auto_pad": "SAME_UPPER", "output_padding": (1,)},
        None,
    ),
    ("Resize", [floats(1, 1, 10), None, STRETCHED], {}, (1, 1, None)),
    ("Resize", [floats(N, SMALL, 9), None, STRETCHED], {}, (..., SMALL, None)),
    ("Resize", [floats(1, SMALL, 9), None, DOUBLED], {}, (1, SMALL, 18)),
    ("Resize", [floats(1, 1, SMALL), None, DOUBLED], {}, (1, 1, 2 * SMALL)),
    ("Resize", [floats(1, 1, 2 * SMALL), None, HALVED], {}, (1, 1, SMALL)),
    ("Resize", [floats(1, 1, 2 * FEW), None, THREE_HALVES], {}, (1, 1, 3 * FEW)),
    ("Resize", [floats(1, 1, SMALL), None, THREE_HALVES], {}, (1, 1, None)),
    ("Unknown", [floats(N)], {}, None),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "expected"), SIZES)
def test_sizes_are_open_where_they_are_not_known(
    operator: str,
    inputs: list[Bounds | None],
    attributes: dict[str, Any],
    expected: Any,
) -> None:
    operator, _, version = operator.partition(" ")
    outputs = 2 if operator in ("Split", "TopK") else 1
    drawn = Drawn(
        operator,
        int(version or 17),
        [value and np.zeros(()) for value in inputs],
        {},
        outputs,
    )
    drawn.attributes = attributes
    found = output_types(call_of(drawn, inputs))[0].sizes
    if expected is None or found is None:
        assert found is expected
    else:
        assert found == tuple(
            own if wanted is ... else wanted
            for own, wanted in zip(found, expected, strict=True)
        )


def test_a_count_that_a_run_tells_is_at_most_the_number_of_elements() -> None:
    drawn = Drawn("NonZero", 17, [np.zeros(3)])
    (told,) = output_types(call_of(drawn, [floats(N, 3)]))
    assert told.data_type == "INT64"
    assert told.sizes is not None
    rows, count = told.sizes
    assert rows == 2
    assert isinstance(count, Size)
    assert count <= 3 * 2**28


LEAST = [
    ("Conv", [floats(N, 3, M), floats(8, 3, 4)], {"strides": (2,)}, 1),
    ("MaxPool", [floats(N, 3, M)], {"kernel_shape": (2,), "strides": (2,)}, 1),
    ("MaxPool", [floats(N, 3, M)], {"kernel_shape": (3,), "strides": (2,)}, 0),
    ("MaxPool", [floats(N, 3, K)], {"kernel_shape": (2,), "strides": (2,)}, 0),
    (
        "LpPool 18",
        [floats(N, 3, M)],
        {"kernel_shape": (2,), "strides": (2,), "ceil_mode": 1},
        1,
    ),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "least"), LEAST)
def test_a_window_has_at_least_one_place_where_onnx_runtime_refuses_none(
    operator: str,
    inputs: list[Bounds | None],
    attributes: dict[str, Any],
    least: int,
) -> None:
    operator, _, version = operator.partition(" ")
    drawn = Drawn(operator, int(version or 17), [None for _ in inputs], attributes)
    sizes = output_types(call_of(drawn, inputs))[0].sizes
    assert sizes is not None
    places = sizes[2]
    assert isinstance(places, Size)
    assert places >= least
    assert not places >= least + 1


def test_a_size_that_float_rounds_is_the_exact_one_beside_it() -> None:
    resized = output_types(
        call_of(Drawn("Resize", 17, [None] * 3), [floats(N, 5), None, ONES])
    )
    sizes = resized[0].sizes
    assert sizes is not None
    rounded, five = sizes
    assert rounded != N
    assert isinstance(rounded, Size)
    assert rounded >= 1
    assert five == 5
    assert sizes_told("Add", [floats(rounded, 5), floats(N, 1)], {}) == "(N, 5)"
    assert sizes_told("Add", [floats(N, 5), floats(rounded, 1)], {}) == "(N, 5)"
    both: list[Bounds | None] = [floats(rounded, 5), floats(N, 2)]
    assert sizes_told("Concat", both, {"axis": 1}) == "(N, 7)"
    assert sizes_told("Concat", both[::-1], {"axis": 1}) == "(N, 7)"
    assert sizes_told("Add", [floats(rounded, 5), floats(M, 1)], {}) == "(? + M, 5)"


def test_a_version_that_nothing_measured_tells_nothing() -> None:
    drawn = Drawn("Relu", 6, [np.zeros(3)])
    assert output_types(call_of(drawn, [floats(3)])) == [OpenType("FLOAT")]


UNRANKED = unknown("FLOAT", None)
ONES = bounds_of_array("FLOAT", np.array([1, 1], np.float32))
TWICE = bounds_of_array("FLOAT", np.array([2], np.float32))


def shorts(*sizes: AnySize) -> Bounds:
    return unknown("INT8", sizes)


def some(count: AnySize) -> Bounds:
    """Integers of which nothing is known but their number."""
    return unknown("INT64", (count,))


def scalars(data_type: str, *numbers: int) -> list[Bounds | None]:
    return [interval(data_type, (), number, number) for number in numbers]


CASES: list[tuple[str, list[Bounds | None], dict[str, Any], str]] = [
    # Elements side by side.
    ("Add", [floats(0), floats(N)], {}, "(0,)"),
    ("Add", [floats(1), floats(0)], {}, "(0,)"),
    ("Add", [floats(1), floats(K)], {}, "(K,)"),
    ("Add", [floats(K), floats(1)], {}, "(K,)"),
    ("Add", [floats(N + 1), floats(M)], {}, "(N + 1,)"),
    ("Add", [floats(N), floats(M)], {}, "(? + N,)"),
    ("Add", [floats(N), unknown("FLOAT", (None,))], {}, "(None,)"),
    ("Add", [floats(5), unknown("FLOAT", (None,))], {}, "(5,)"),
    ("Add", [floats(1), unknown("FLOAT", (None,))], {}, "(None,)"),
    ("Add", [unknown("FLOAT", (None,)), floats(1)], {}, "(None,)"),
    ("Add", [unknown("FLOAT", (None,)), unknown("FLOAT", (None,))], {}, "(None,)"),
    ("Add", [floats(K), floats(K)], {}, "(K,)"),
    ("Add", [floats(2, 3), floats()], {}, "(2, 3)"),
    ("Add", [floats(2, 3), UNRANKED], {}, "None"),
    ("Where", [unknown("BOOL", (3, 1, 1)), floats(4, 1), floats(N)], {}, "(3, 4, N)"),
    ("Expand", [floats(5), some(1)], {}, "(5,)"),
    ("Expand", [floats(5), integers(None)], {}, "(5,)"),
    ("Expand", [floats(1, 5), integers(None, 1, 1)], {}, "(None, 1, 5)"),
    ("Expand", [floats(5), some(N)], {}, "None"),
    # Sizes that numbers tell.
    ("ConstantOfShape", [integers(None, 2)], {}, "(None, 2)"),
    ("ConstantOfShape", [some(2)], {}, "(None, None)"),
    ("ConstantOfShape", [some(N)], {}, "None"),
    ("Reshape", [floats(N, M, 4), integers(0, 0, -1)], {}, "(N, M, 4)"),
    ("Reshape", [floats(N, 0), integers(0, 5)], {}, "(N, 5)"),
    ("Reshape", [floats(0, M), integers(0, 5)], {"allowzero": 1}, "(0, 5)"),
    ("Reshape", [floats(N, M), integers(N, -1)], {}, "(N, M)"),
    ("Reshape", [floats(M, N), integers(N, -1)], {}, "(N, M)"),
    ("Reshape", [floats(K, M), integers(K, M)], {}, "(K, M)"),
    ("Reshape", [floats(M, K), integers(K, M)], {}, "(K, M)"),
    ("Reshape", [floats(M, K), integers(K, M)], {"allowzero": 1}, "(K, M)"),
    (
        "Reshape",
        [floats(M, 2 * N), integers(N - 1, -1)],
        {"allowzero": 1},
        "(N - 1, None)",
    ),
    ("Reshape", [floats(M, 2 * N), integers(N - 1, -1)], {}, "(?, ?)"),
    ("Reshape", [floats(K, 2 * N), integers(N - 1, -1)], {}, "(None, None)"),
    ("Reshape", [floats(M, K), integers(K - 1, 5)], {"allowzero": 1}, "(?, 5)"),
    ("Reshape", [floats(N, M), integers(None, None)], {}, "(None, None)"),
    ("Reshape", [floats(N, M), integers(-1)], {}, "(N*M,)"),
    ("Reshape", [floats(N, M), integers(7, 8)], {}, "(7, 8)"),
    ("Reshape", [floats(N, M, 6), integers(4, -1)], {}, "(4, ?)"),
    (
        "Reshape",
        [unknown("FLOAT", (None, 4)), integers(0, 2, -1)],
        {},
        "(None, 2, None)",
    ),
    ("Reshape", [UNRANKED, integers(0, 2)], {}, "(None, 2)"),
    ("Reshape", [floats(2, 3), integers(5, 0, 0)], {}, "(5, 3, 0)"),
    ("Reshape", [floats(4, 3), some(2)], {}, "(None, None)"),
    ("Range", scalars("INT64", 5, 0, -1), {}, "(5,)"),
    ("Range", scalars("INT64", 0, 5, 2), {}, "(3,)"),
    ("Range", scalars("INT64", 0, 4, 2), {}, "(2,)"),
    ("Range", scalars("INT64", 5, 0, 1), {}, "(0,)"),
    ("Range", scalars("INT64", 0, 5, 0), {}, "(None,)"),
    ("Range", [one(0), one(N), one(2)], {}, "(?,)"),
    ("Range", [one(N), one(0), one(1)], {}, "(0,)"),
    ("Range", [one(N), one(0), one(-1)], {}, "(N,)"),
    ("Range", [one(0), one(N), one(M)], {}, "(None,)"),
    ("Range", [unknown("INT64", ()), one(N), one(1)], {}, "(None,)"),
    ("Range", [one(0), unknown("INT64", ()), one(1)], {}, "(None,)"),
    ("Range", scalars("INT8", 0, 63, 1), {}, "(63,)"),
    ("Range", scalars("INT8", 0, 64, 1), {}, "(None,)"),
    ("Range", scalars("INT32", 0, 2**30 - 1, 1), {}, "(1073741823,)"),
    ("Range", scalars("INT32", 0, 2**30, 1), {}, "(None,)"),
    ("Tile", [floats(N, 3), some(2)], {}, "(None, None)"),
    ("Tile", [floats(4, 3), integers(None, 2)], {}, "(None, 6)"),
    ("Tile", [UNRANKED, integers(1, 2)], {}, "None"),
    ("Flatten", [floats(N, M, 3)], {}, "(N, 3*M)"),
    ("Flatten", [floats(N, M, 3)], {"axis": 0}, "(1, 3*N*M)"),
    ("Flatten", [floats(N, M, 3)], {"axis": -1}, "(N*M, 3)"),
    ("Flatten", [UNRANKED], {}, "None"),
    ("TopK 9", [floats(N, 7)], {"k": 2, "axis": 0}, "(2, 7) and (2, 7)"),
    ("TopK", [floats(N, 7), integers(3)], {}, "(N, 3) and (N, 3)"),
    ("TopK", [floats(N, 7), some(1)], {}, "(N, None) and (N, None)"),
    ("TopK", [UNRANKED, integers(3)], {}, "None and None"),
    ("NonZero", [integers(3, -4)], {}, "(1, 2)"),
    ("NonZero", [integers(3, 0)], {}, "(1, ?)"),
    ("NonZero", [floats(0)], {}, "(1, ?)"),
    ("NonZero", [interval("INT64", (N, 2), 1, 9)], {}, "(2, 2*N)"),
    ("NonZero", [interval("INT64", (N, 2), -9, -1)], {}, "(2, 2*N)"),
    ("NonZero", [interval("INT64", (N, 2), 0, 9)], {}, "(2, ?)"),
    ("NonZero", [unknown("INT64", (N, None))], {}, "(2, None)"),
    ("NonZero", [UNRANKED], {}, "None"),
    # Axes put together, taken apart, and left out.
    (
        "Concat",
        [floats(2, N), floats(2, M), floats(2, 3)],
        {"axis": 1},
        "(2, N + M + 3)",
    ),
    ("Concat", [floats(2, N), floats(2, M)], {"axis": -1}, "(2, N + M)"),
    (
        "Concat",
        [floats(2, N), unknown("FLOAT", (2, None))],
        {"axis": 0},
        "(None, None)",
    ),
    ("Concat", [floats(2, N), UNRANKED], {"axis": 0}, "None"),
    ("Split 17", [floats(6, N)], {}, "(3, N) and (3, N)"),
    ("Split 17", [floats(2 * N, 5)], {}, "(N, 5) and (N, 5)"),
    ("Split 18", [floats(7)], {"num_outputs": 2}, "(4,) and (3,)"),
    ("Split 18", [floats(N)], {"num_outputs": 2}, "(?,) and (N - ?,)"),
    ("Split 11", [floats(3, 7)], {"split": (2, 5), "axis": 1}, "(3, 2) and (3, 5)"),
    ("Split 11", [floats(3, 7)], {"split": (2, 5), "axis": -1}, "(3, 2) and (3, 5)"),
    ("Split", [floats(7, 3), integers(2, 5)], {}, "(2, 3) and (5, 3)"),
    ("Split", [floats(7, 3), integers(None, N)], {}, "(None, 3) and (N, 3)"),
    ("Split", [floats(8, 3), some(2)], {}, "(None, 3) and (None, 3)"),
    ("Split", [UNRANKED], {}, "None and None"),
    ("Pad 9", [floats(N, 3)], {"pads": (1, 0, 2, 4)}, "(N + 3, 7)"),
    ("Pad", [floats(N, 3), integers(1, -1, 2, 0)], {}, "(N + 3, 2)"),
    ("Pad", [floats(N, 3), integers(None, 1, 2, M)], {}, "(?, M + 4)"),
    ("Pad", [floats(N, 3), integers(0, 1, None, 0)], {}, "(?, 4)"),
    ("Pad", [floats(N, 3), some(4)], {}, "(None, None)"),
    ("Pad 18", [floats(N, 3), integers(5, 2), None, integers(-1)], {}, "(N, 10)"),
    ("Pad 18", [floats(N, 3), integers(5, 2), None, some(1)], {}, "None"),
    ("Pad", [floats(N, 3), some(4)], {}, "(None, None)"),
    ("Pad", [UNRANKED, integers(1, 1)], {}, "None"),
    ("Slice 9", [floats(N, 9)], {"starts": (1,), "ends": (4,), "axes": (1,)}, "(N, 3)"),
    ("Slice", [floats(9, 9), integers(1, 2), integers(4, 9)], {}, "(3, 7)"),
    (
        "Slice",
        [floats(9), integers(1), integers(8), integers(0), integers(2)],
        {},
        "(4,)",
    ),
    (
        "Slice",
        [floats(9), integers(1), integers(9), integers(-1), integers(3)],
        {},
        "(3,)",
    ),
    (
        "Slice",
        [floats(9), integers(8), integers(2), integers(0), integers(-2)],
        {},
        "(3,)",
    ),
    (
        "Slice",
        [floats(9), integers(20), integers(-20), integers(0), integers(-1)],
        {},
        "(9,)",
    ),
    (
        "Slice",
        [floats(9), integers(5), integers(2**31 - 1), integers(0), integers(-1)],
        {},
        "(None,)",
    ),
    (
        "Slice",
        [floats(9), integers(5), integers(1), integers(0), integers(-(2**31))],
        {},
        "(None,)",
    ),
    (
        "Slice",
        [floats(9), integers(5), integers(1), integers(0), integers(1 - 2**31)],
        {},
        "(1,)",
    ),
    (
        "Slice",
        [floats(9), integers(5), integers(2**31 - 2), integers(0), integers(-1)],
        {},
        "(0,)",
    ),
    (
        "Slice",
        [floats(9), integers(0), integers(9), integers(0), integers(2**31 - 1)],
        {},
        "(?,)",
    ),
    (
        "Slice",
        [floats(9), integers(0), integers(9), integers(0), integers(2**31 - 2)],
        {},
        "(1,)",
    ),
    (
        "Slice",
        [floats(9), integers(0), integers(9), integers(0), integers(0)],
        {},
        "(None,)",
    ),
    ("Slice", [floats(9), integers(5), integers(3)], {}, "(0,)"),
    ("Slice", [floats(9), integers(-4), integers(-1)], {}, "(3,)"),
    ("Slice", [floats(9), integers(-40), integers(40)], {}, "(9,)"),
    ("Slice", [floats(N), integers(2), integers(5)], {}, "(?,)"),
    ("Slice", [floats(N), integers(0), integers(-1)], {}, "(N - 1,)"),
    ("Slice", [floats(N), integers(-1), integers(2**63 - 1)], {}, "(1,)"),
    ("Slice", [floats(N), integers(None), integers(5)], {}, "(?,)"),
    ("Slice", [floats(N), integers(N - M), integers(5)], {}, "(?,)"),
    ("Slice", [floats(N), integers(-N), integers(N)], {}, "(N,)"),
    (
        "Slice",
        [floats(N), integers(9), integers(0), integers(0), integers(-1)],
        {},
        "(None,)",
    ),
    ("Slice", [floats(9, 9), some(1), integers(5)], {}, "(?, 9)"),
    ("Slice", [floats(9, 9), integers(0), some(1)], {}, "(?, 9)"),
    ("Slice", [floats(9, 9), integers(0), some(N)], {}, "(?, 9)"),
    ("Slice", [floats(9, 9), some(1), integers(5), some(1)], {}, "(None, None)"),
    (
        "Slice",
        [floats(9, 9), integers(0), integers(5), integers(0), some(1)],
        {},
        "(None, None)",
    ),
    (
        "Slice",
        [floats(9, 9), integers(0), integers(5), None, integers(1)],
        {},
        "(None, None)",
    ),
    ("Slice", [floats(9, 9), some(N), integers(5)], {}, "(?, 9)"),
    ("Slice", [UNRANKED, integers(0), integers(5)], {}, "None"),
    # Windows that move over axes, and axes that are stretched.
    ("Conv", [floats(N, 3, 9, 9), floats(8, 3, 3, 2)], {}, "(N, 8, 7, 8)"),
    (
        "Conv",
        [floats(N, 3, 9, 9), floats(8, 3, 3, 2)],
        {"strides": (2, 3)},
        "(N, 8, 4, 3)",
    ),
    (
        "Conv",
        [floats(N, 3, 9, 9), floats(8, 3, 3, 2)],
        {"dilations": (2, 3)},
        "(N, 8, 5, 6)",
    ),
    (
        "Conv",
        [floats(N, 3, 9, 9), floats(8, 3, 3, 2)],
        {"pads": (1, 2, 3, 4)},
        "(N, 8, 11, 14)",
    ),
    (
        "Conv",
        [floats(N, 3, 9), floats(8, 3, 3)],
        {"auto_pad": "VALID", "pads": (5, 5)},
        "(N, 8, None)",
    ),
    (
        "Conv",
        [floats(N, 3, 9), floats(8, 3, 3)],
        {"auto_pad": "VALID", "pads": (0, 0)},
        "(N, 8, 7)",
    ),
    (
        "Conv",
        [floats(N, 3, 9), floats(8, 3, 3)],
        {"auto_pad": "SAME_UPPER", "strides": (2,)},
        "(N, 8, 5)",
    ),
    (
        "Conv",
        [floats(N, 3, 0), floats(8, 3, 3)],
        {"auto_pad": "SAME_UPPER", "strides": (2,)},
        "(N, 8, None)",
    ),
    (
        "Conv",
        [floats(N, 3, 9), floats(8, 3, 3)],
        {"auto_pad": "SAME_LOWER", "dilations": (2,)},
        "(N, 8, None)",
    ),
    ("Conv", [floats(N, 3, 9), floats(8, 3, 3)], {"auto_pad": "VALID"}, "(N, 8, 7)"),
    ("Conv", [floats(N, 3, 2), floats(8, 3, 3)], {}, "(N, 8, 0)"),
    ("Conv", [floats(N, 3, 1), floats(8, 3, 3)], {}, "(N, 8, None)"),
    ("Conv", [floats(N, 3, 1), floats(8, 3, 3)], {"strides": (2,)}, "(N, 8, 0)"),
    ("Conv", [floats(N, 3, M), floats(8, 3, 1)], {}, "(N, 8, M)"),
    ("Conv", [floats(N, 3, 9), UNRANKED], {}, "None"),
    ("Conv", [UNRANKED, floats(8, 3, 3)], {}, "None"),
    ("ConvInteger", [shorts(N, 3, 9), shorts(8, 3, 3)], {}, "(N, 8, 7)"),
    (
        "QLinearConv",
        [
            shorts(N, 3, 9),
            floats(),
            shorts(),
            shorts(8, 3, 3),
            floats(),
            shorts(),
            floats(),
            shorts(),
        ],
        {},
        "(N, 8, 7)",
    ),
    ("MaxPool", [floats(N, 3, 9)], {"kernel_shape": (3,)}, "(N, 3, 7)"),
    (
        "MaxPool 12",
        [floats(N, 3, 9)],
        {"kernel_shape": (3,), "strides": (2,), "pads": (1, 0)},
        "(N, 3, 4)",
    ),
    ("AveragePool", [floats(N, 3, 2)], {"kernel_shape": (3,)}, "(N, 3, None)"),
    (
        "AveragePool",
        [floats(N, 3, 9)],
        {"kernel_shape": (3,), "ceil_mode": 1},
        "(N, 3, ?)",
    ),
    (
        "MaxPool",
        [floats(N, 3, M)],
        {"kernel_shape": (3,), "ceil_mode": 1},
        "(N, 3, None)",
    ),
    (
        "MaxPool",
        [floats(N, 3, M)],
        {"kernel_shape": (2,), "strides": (2,)},
        "(N, 3, ? + 1)",
    ),
    (
        "MaxPool",
        [floats(N, 3, M)],
        {"kernel_shape": (3,), "strides": (2,)},
        "(N, 3, ?)",
    ),
    (
        "MaxPool",
        [floats(N, 3, K)],
        {"kernel_shape": (2,), "strides": (2,)},
        "(N, 3, ?)",
    ),
    (
        "MaxPool",
        [floats(N, 3, M)],
        {"kernel_shape": (3,), "strides": (2,), "pads": (1, 1)},
        "(N, 3, ?)",
    ),
    ("Conv", [floats(N, 3, M), floats(8, 3, 3)], {"strides": (2,)}, "(N, 8, ?)"),
    (
        "Conv",
        [floats(N, 3, K), floats(8, 3, 3)],
        {"auto_pad": "SAME_UPPER", "strides": (2,)},
        "(N, 8, None)",
    ),
    (
        "LpPool",
        [floats(N, 3, 9)],
        {"kernel_shape": (2,), "auto_pad": "SAME_UPPER"},
        "(N, 3, 9)",
    ),
    (
        "LpPool",
        [floats(N, 3, 0)],
        {"kernel_shape": (2,), "auto_pad": "SAME_UPPER"},
        "(N, 3, None)",
    ),
    (
        "ConvTranspose",
        [floats(1, 1, 7), floats(1, 1, 3)],
        {"output_shape": (15,)},
        "None",
    ),
    ("Resize", [floats(1, 1, 10), None, None, integers(1, N, 7)], {}, "(1, N, 7)"),
    (
        "Resize 18",
        [floats(1, 1, 10), None, None, integers(7)],
        {"axes": (2,)},
        "(1, 1, 7)",
    ),
    (
        "Resize 18",
        [floats(1, 4, 10), None, None, integers(1, 8, 7)],
        {"keep_aspect_ratio_policy": "not_larger"},
        "None",
    ),
    (
        "Resize 18",
        [floats(1, 4, 10), None, None, integers(1, 8, 7)],
        {"keep_aspect_ratio_policy": "stretch"},
        "(1, 8, 7)",
    ),
    ("Resize 10", [floats(1, 1, 10), DOUBLED], {}, "(1, 1, 20)"),
    ("Resize 10", [floats(1, 1, 10), STRETCHED], {}, "(1, 1, None)"),
    ("Resize 11", [floats(1, 1, 10), floats(0), DOUBLED], {}, "(1, 1, 20)"),
    (
        "Resize",
        [floats(1, 1, 10), None, unknown("FLOAT", (3,))],
        {},
        "(None, None, None)",
    ),
    (
        "Resize",
        [
            floats(1, 4, 10),
            None,
            interval("FLOAT", (3,), [[1], [1], [1]], [[1], [1], [2]]),
        ],
        {},
        "(1, 4, None)",
    ),
    ("Resize", [floats(1, 1, 2**24 + 1), None, DOUBLED], {}, "(1, 1, None)"),
    ("Resize", [UNRANKED, None, DOUBLED], {}, "None"),
    ("Resize 18", [floats(5, 2, 3), None, TWICE], {"axes": (1,)}, "(5, 4, 3)"),
    ("Resize 18", [floats(5, 2, 3), None, TWICE], {"axes": (-1,)}, "(5, 2, 6)"),
    (
        "Resize 18",
        [floats(N, 2, 3), None, None, integers(M)],
        {"axes": (1,)},
        "(N, M, 3)",
    ),
    ("Upsample 9", [floats(1, 1, 10), DOUBLED], {}, "(1, 1, 20)"),
    ("Upsample 7", [floats(1, 1, 10)], {"scales": (1.0, 1.0, 2.0)}, "(1, 1, 20)"),
    ("Upsample 7", [floats(1, 1, 10)], {"scales": (1.0, 1.0, 1.5)}, "(1, 1, 15)"),
    ("Upsample 7", [floats(1, 1, 10)], {"scales": (1.0, 1.0, 1.1)}, "(1, 1, None)"),
    ("Upsample 13", [floats(1, 1, 10), STRETCHED], {}, "(None, None, None)"),
    # What ONNX infers, where it is so.
    ("MatMul", [floats(N, 4), floats(4, 5)], {}, "(N, 5)"),
    ("MatMul", [floats(N, K), floats(K, 5)], {}, "(N, 5)"),
    ("MatMul", [floats(2, N, 4), floats(4, 5)], {}, "(2, N, 5)"),
    ("MatMul", [floats(2, N, K), floats(K, 5)], {}, "None"),
    ("MatMul", [floats(N, 4), UNRANKED], {}, "None"),
    ("MatMulInteger", [shorts(2, N, 4), shorts(4, 5)], {}, "(2, N, 5)"),
    (
        "QLinearMatMul",
        [
            shorts(2, N, 4),
            floats(),
            shorts(),
            shorts(4, 5),
            floats(),
            shorts(),
            floats(),
            shorts(),
        ],
        {},
        "(2, N, 5)",
    ),
    ("Einsum", [floats(N, M), floats(N, M)], {"equation": "ij, ij -> i"}, "(N,)"),
    ("Einsum", [floats(N, M)], {"equation": "...j->j"}, "None"),
    ("Einsum", [floats(N, M), UNRANKED], {"equation": "ij,jk->ik"}, "None"),
    ("PRelu", [floats(N, 3), floats(1)], {}, "(N, 3)"),
    ("PRelu", [floats(N, 3), UNRANKED], {}, "None"),
    ("Squeeze", [floats(1, N)], {}, "None"),
    ("Squeeze", [floats(1, N), some(1)], {}, "None"),
    ("Squeeze 11", [floats(1, N)], {"axes": (-2,)}, "(N,)"),
    ("Squeeze 10", [floats(1, N)], {"axes": (-2,)}, "None"),
    ("Squeeze 10", [floats(1, N)], {"axes": (0,)}, "(N,)"),
    ("ReduceMax 17", [floats(N, 3)], {"axes": (1,), "keepdims": 0}, "(N,)"),
    ("ReduceMax 17", [floats(N, 0)], {"axes": (1,), "keepdims": 0}, "None"),
    ("ReduceMax 17", [UNRANKED], {"axes": (1,), "keepdims": 0}, "None"),
    (
        "ReduceMax 17",
        [unknown("FLOAT", (None, 3))],
        {"axes": (0,), "keepdims": 0},
        "None",
    ),
    ("Abs", [floats(N, M)], {}, "(N, M)"),
    ("Abs 6", [floats(N, M)], {}, "None"),
    ("Abs 7", [floats(N, M)], {}, "(N, M)"),
    ("Gather", [floats(N, M), shorts(3)], {}, "None"),
    ("Gather", [floats(N, M), unknown("INT64", (3, K))], {"axis": 1}, "(N, 3, K)"),
    ("Compress", [floats(N, M), unknown("BOOL", (3,))], {"axis": 1}, "(N, ?)"),
    ("Unique", [floats(9)], {}, "(?,) and (?,)"),
    ("Unique", [unknown("FLOAT", (None,))], {}, "(?,) and (?,)"),
    ("Transpose", [floats(N, M, 3)], {"perm": (2, 0, 1)}, "(3, N, M)"),
    ("Cast", [floats(N)], {"to": 7}, "(N,)"),
    ("Loop", [floats(N)], {}, "None"),
]

OUTPUTS = {"Split": 2, "TopK": 2, "Unique": 2}


def sizes_told(
    operator: str, inputs: list[Bounds | None], attributes: dict[str, Any]
) -> str:
    """The sizes of the outputs, where `?` is a symbol of their own, and None not
    known."""
    operator, _, version = operator.partition(" ")
    arrays = [value and np.zeros(()) for value in inputs]
    drawn = Drawn(
        operator, int(version or 17), arrays, attributes, OUTPUTS.get(operator, 1)
    )
    return " and ".join(
        str(told.sizes) for told in output_types(call_of(drawn, inputs))
    )


def test_the_sizes_of_operations() -> None:
    found = [
        sizes_told(operator, inputs, options) for operator, inputs, options, _ in CASES
    ]
    pairs = zip(found, CASES, strict=True)
    assert not [(case, own) for own, case in pairs if own != case[-1]]


def test_the_sizes_of_random_operations_are_those_of_their_runs() -> None:
    found = list(found_wrong(range(by_ring(100, 400))))
    assert len(found) > by_ring(375, 1500)
    assert not [wrong for wrong in found if wrong]


def test_each_operator_of_the_table_is_drawn() -> None:
    drawn = {operator for operator, _, _ in random_operations.DRAWERS}
    assert not RULES.keys() - drawn


@pytest.mark.parametrize(
    ("operator", "seeds"),
    one_quick_in(
        5,
        [
            *(("AveragePool", 60), ("ConvTranspose", 60), ("Einsum", 400)),
            *(("LpPool", 200), ("MaxPool", 60), ("NonZero", 40), ("PRelu", 40)),
            *(("Slice", 300), ("Squeeze", 60)),
        ],
    ),
)
def test_a_size_that_onnx_infers_wrongly_is_seen(
    operator: str, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(operator_types.RULES, operator, lambda call, told: told)
    monkeypatch.delitem(CONDITIONS, operator, raising=False)
    assert any(found_wrong(range(seeds), operator))
