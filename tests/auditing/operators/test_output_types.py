"""The sizes that the table tells are those that ONNX Runtime computes, and infers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, cast

import numpy as np
import onnx
import pytest
import random_operations
from network_draft import session
from onnx import helper, numpy_helper
from open_numbers import number_of
from random_operations import Drawn
from rings import by_ring, one_quick_in
from written_operations import Notation, operation_rows

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
from onnxgather.core.model.values import type_name

CRASHES = {
    "Concat",
    "ConvTranspose",
    "Einsum",
    "GRU",
    "InstanceNormalization",
    "LRN",
    "LSTM",
    "LpNormalization",
    "OneHot",
    "RNN",
    "TopK",
    "Unique",
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
        if isinstance(size, Size) and not size.symbols <= self.values.keys():
            self.learn()
        return number_of(size, self.values)

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
    sizes = tuple(numbers.size(n, share) for n in array.shape)
    is_sized, kind = all(isinstance(n, int) for n in sizes), random.random()
    if is_sized and (not share or kind < 0.5):
        return bounds_of_array(type_name(array), array)
    if kind < 0.8 and array.dtype.kind == "i" and is_sized and array.size:
        ends: Array = np.empty((*array.shape, 2), object)
        for at, element in np.ndenumerate(array):
            ends[at] = [numbers.size(int(element), 0.7)] * 2
            if random.random() < 0.2:
                ends[at] = (
                    min(int(element), random.choice([-1, 0])),
                    max(int(element), 5),
                )
        return interval(type_name(array), sizes, ends[..., :1], ends[..., 1:])
    return unknown(
        type_name(array), sizes if random.random() < 0.97 or not share else None
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
    plain = dict[str, Any]()
    for name, value in drawn.attributes.items():
        plain[name] = (
            tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        )
    names = tuple(node.input), tuple(node.output)
    return Call(
        Operation("", drawn.operator, "", *names, plain, {}, [node]),
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
        number = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(f"x{k}", number, sizes))
        feeds[f"x{k}"] = array
    shapes = [
        helper.make_node("Shape", [name], [f"{name} sizes"]) for name in node.output
    ]
    names = [*node.output, *(shape.output[0] for shape in shapes)]
    outputs = [onnx.ValueInfoProto(name=name) for name in names]
    graph = helper.make_graph([node, *shapes], "g", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", drawn.version)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    for level in (0, 3):
        try:
            found = session(model, level).run(None, feeds)
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
    if told.data_type not in ("", type_name(array)):
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
NOTATION = Notation(
    {
        "N": N,
        "M": M,
        # May be 0.
        "K": Size({(Symbol("K", 0, 2**28),): 1}),
        # FLOAT holds the double of the first, and the sixfold of the second.
        "S": Size({(Symbol("S", 1, 2**23),): 1}),
        "F": Size({(Symbol("F", 1, 2**21),): 1}),
    },
    {"none": None, "EMPTY": bounds_of_array("INT64", np.zeros(0))},
)

ROWS = """
Abs FLOAT(N, M) => (N, M)
Abs-6 FLOAT(N, M) => None
Abs-7 FLOAT(N, M) => (N, M)
Add FLOAT(0,); FLOAT(N,) => (0,)
Add FLOAT(1,); FLOAT(0,) => (0,)
Add FLOAT(1,); FLOAT(K,) => (K,)
Add FLOAT(K,); FLOAT(1,) => (K,)
Add FLOAT(N + 1,); FLOAT(M,) => (N + 1,)
Add FLOAT(N,); FLOAT(M,) => (? + N,)
Add FLOAT(N,); FLOAT(None,) => (None,)
Add FLOAT(5,); FLOAT(None,) => (5,)
Add FLOAT(1,); FLOAT(None,) => (None,)
Add FLOAT(None,); FLOAT(1,) => (None,)
Add FLOAT(None,); FLOAT(None,) => (None,)
Add FLOAT(K,); FLOAT(K,) => (K,)
Add FLOAT(2, 3); FLOAT() => (2, 3)
Add FLOAT(2, 3); FLOAT(...) => None
Add FLOAT(N, 1, 3); FLOAT(M, 1) => (N, M, 3)
Add FLOAT(N,); FLOAT(N + 1,) => (N + 1,)
Add FLOAT(K,); FLOAT(5,) => (5,)
Add FLOAT(K,); FLOAT(N,) => (None,)
ArgMax {axis=0, keepdims=0} FLOAT(N, M) => (M,)
ArgMax {axis=0, keepdims=0} FLOAT(K, M) => None
AveragePool {kernel_shape=(3,)} FLOAT(N, 3, 2) => (N, 3, None)
AveragePool {kernel_shape=(3,), ceil_mode=1} FLOAT(N, 3, 9) => (N, 3, ?)
Cast {to=7} FLOAT(N,) => (N,)
Compress {axis=1} FLOAT(N, M); BOOL(3,) => (N, ?)
Concat {axis=1} FLOAT(2, N); FLOAT(2, M); FLOAT(2, 3) => (2, N + M + 3)
Concat {axis=-1} FLOAT(2, N); FLOAT(2, M) => (2, N + M)
Concat {axis=0} FLOAT(2, N); FLOAT(2, None) => (None, None)
Concat {axis=0} FLOAT(2, N); FLOAT(...) => None
Concat {axis=0} FLOAT(N, 2); FLOAT(M, 2); FLOAT(3, 2) => (N + M + 3, 2)
Concat {axis=1} FLOAT(N, 1); FLOAT(M, 5) => (N, 6)
Concat {axis=1} FLOAT(K, 1); FLOAT(M, 5) => (None, 6)
Concat {axis=1} FLOAT(M, 5); FLOAT(K, 1) => (M, 6)
Concat {axis=1} FLOAT(K, 1); FLOAT(K, 5) => (K, 6)
Concat {axis=1} FLOAT(5, 0); FLOAT(N, 3) => (None, 3)
ConstantOfShape [-9..9, 2] => (None, 2)
ConstantOfShape INT64(2,) => (None, None)
ConstantOfShape INT64(N,) => None
ConstantOfShape [N, 2] => (N, 2)
Conv FLOAT(N, 3, 9, 9); FLOAT(8, 3, 3, 2) => (N, 8, 7, 8)
Conv {strides=(2, 3)} FLOAT(N, 3, 9, 9); FLOAT(8, 3, 3, 2) => (N, 8, 4, 3)
Conv {dilations=(2, 3)} FLOAT(N, 3, 9, 9); FLOAT(8, 3, 3, 2) => (N, 8, 5, 6)
Conv {pads=(1, 2, 3, 4)} FLOAT(N, 3, 9, 9); FLOAT(8, 3, 3, 2) => (N, 8, 11, 14)
Conv {auto_pad='VALID', pads=(5, 5)} FLOAT(N, 3, 9); FLOAT(8, 3, 3) => (N, 8, None)
Conv {auto_pad='VALID', pads=(0, 0)} FLOAT(N, 3, 9); FLOAT(8, 3, 3) => (N, 8, 7)
Conv {auto_pad='SAME_UPPER', strides=(2,)} FLOAT(N, 3, 9); FLOAT(8, 3, 3) => (N, 8, 5)
Conv {auto_pad='SAME_UPPER', strides=(2,)} FLOAT(N, 3, 0); FLOAT(8, 3, 3) => \
(N, 8, None)
Conv {auto_pad='SAME_LOWER', dilations=(2,)} FLOAT(N, 3, 9); FLOAT(8, 3, 3) => \
(N, 8, None)
Conv {auto_pad='VALID'} FLOAT(N, 3, 9); FLOAT(8, 3, 3) => (N, 8, 7)
Conv FLOAT(N, 3, 2); FLOAT(8, 3, 3) => (N, 8, 0)
Conv FLOAT(N, 3, 1); FLOAT(8, 3, 3) => (N, 8, None)
Conv {strides=(2,)} FLOAT(N, 3, 1); FLOAT(8, 3, 3) => (N, 8, 0)
Conv FLOAT(N, 3, M); FLOAT(8, 3, 1) => (N, 8, M)
Conv FLOAT(N, 3, 9); FLOAT(...) => None
Conv FLOAT(...); FLOAT(8, 3, 3) => None
Conv {strides=(2,)} FLOAT(N, 3, M); FLOAT(8, 3, 3) => (N, 8, ?)
Conv {auto_pad='SAME_UPPER', strides=(2,)} FLOAT(N, 3, K); FLOAT(8, 3, 3) => \
(N, 8, None)
Conv {strides=(16,)} FLOAT(N, 3, 16*M); FLOAT(8, 3, 16) => (N, 8, M)
Conv {pads=(1, 1)} FLOAT(1, 1, M); FLOAT(1, 1, 3) => (1, 1, M)
ConvInteger INT8(N, 3, 9); INT8(8, 3, 3) => (N, 8, 7)
ConvTranspose {output_shape=(15,)} FLOAT(1, 1, 7); FLOAT(1, 1, 3) => None
ConvTranspose {strides=(2,)} FLOAT(1, 1, 7); FLOAT(1, 1, 3) => (1, 1, 15)
ConvTranspose {auto_pad='SAME_UPPER', output_padding=(1,)} FLOAT(1, 1, 7); \
FLOAT(1, 1, 3) => None
Einsum {equation='ij, ij -> i'} FLOAT(N, M); FLOAT(N, M) => (N,)
Einsum {equation='...j->j'} FLOAT(N, M) => None
Einsum {equation='ij,jk->ik'} FLOAT(N, M); FLOAT(...) => None
Einsum {equation='ij,jk->ik'} FLOAT(N, M); FLOAT(M, 3) => (N, 3)
Einsum {equation='ij,jk->ik'} FLOAT(N, M); FLOAT(1, 3) => (None, None)
Expand FLOAT(5,); INT64(1,) => (5,)
Expand FLOAT(5,); [-9..9] => (5,)
Expand FLOAT(1, 5); [-9..9, 1, 1] => (None, 1, 5)
Expand FLOAT(5,); INT64(N,) => None
Expand FLOAT(1, M); [N, 1] => (N, M)
Flatten FLOAT(N, M, 3) => (N, 3*M)
Flatten {axis=0} FLOAT(N, M, 3) => (1, 3*N*M)
Flatten {axis=-1} FLOAT(N, M, 3) => (N*M, 3)
Flatten FLOAT(...) => None
Flatten {axis=2} FLOAT(N, M, 3) => (N*M, 3)
Gather FLOAT(N, M); INT8(3,) => None
Gather {axis=1} FLOAT(N, M); INT64(3, K) => (N, 3, K)
Loop FLOAT(N,) => None
LpPool {kernel_shape=(2,), auto_pad='SAME_UPPER'} FLOAT(N, 3, 9) => (N, 3, 9)
LpPool {kernel_shape=(2,), auto_pad='SAME_UPPER'} FLOAT(N, 3, 0) => (N, 3, None)
MatMul FLOAT(N, 4); FLOAT(4, 5) => (N, 5)
MatMul FLOAT(N, K); FLOAT(K, 5) => (N, 5)
MatMul FLOAT(2, N, 4); FLOAT(4, 5) => (2, N, 5)
MatMul FLOAT(2, N, K); FLOAT(K, 5) => None
MatMul FLOAT(N, 4); FLOAT(...) => None
MatMul FLOAT(N, M, 4); FLOAT(1, 4, 5) => (N, M, 5)
MatMul FLOAT(2, M, K); FLOAT(2, K, 5) => None
MatMulInteger INT8(2, N, 4); INT8(4, 5) => (2, N, 5)
MaxPool {kernel_shape=(3,)} FLOAT(N, 3, 9) => (N, 3, 7)
MaxPool-12 {kernel_shape=(3,), strides=(2,), pads=(1, 0)} FLOAT(N, 3, 9) => (N, 3, 4)
MaxPool {kernel_shape=(3,), ceil_mode=1} FLOAT(N, 3, M) => (N, 3, None)
MaxPool {kernel_shape=(2,), strides=(2,)} FLOAT(N, 3, M) => (N, 3, ? + 1)
MaxPool {kernel_shape=(3,), strides=(2,)} FLOAT(N, 3, M) => (N, 3, ?)
MaxPool {kernel_shape=(2,), strides=(2,)} FLOAT(N, 3, K) => (N, 3, ?)
MaxPool {kernel_shape=(3,), strides=(2,), pads=(1, 1)} FLOAT(N, 3, M) => (N, 3, ?)
MaxPool {kernel_shape=(1,), strides=(2,)} FLOAT(1, 1, 2) => (1, 1, 1)
MaxPool {kernel_shape=(1,), strides=(2,), ceil_mode=1} FLOAT(1, 1, 2) => (1, 1, ?)
NonZero [3, -4] => (1, 2)
NonZero [3, 0] => (1, ?)
NonZero FLOAT(0,) => (1, ?)
NonZero INT64(N, 2) [[1..9]] => (2, 2*N)
NonZero INT64(N, 2) [[-9..-1]] => (2, 2*N)
NonZero INT64(N, 2) [[0..9]] => (2, ?)
NonZero INT64(N, None) => (2, None)
NonZero FLOAT(...) => None
NonZero FLOAT() => (None, ?)
PRelu FLOAT(N, 3); FLOAT(1,) => (N, 3)
PRelu FLOAT(N, 3); FLOAT(...) => None
PRelu FLOAT(N, 3); FLOAT(3,) => (N, 3)
PRelu FLOAT(1, 3); FLOAT(N, 3) => None
Pad-9 {pads=(1, 0, 2, 4)} FLOAT(N, 3) => (N + 3, 7)
Pad FLOAT(N, 3); [1, -1, 2, 0] => (N + 3, 2)
Pad FLOAT(N, 3); [-9..9, 1, 2, M] => (?, M + 4)
Pad FLOAT(N, 3); [0, 1, -9..9, 0] => (?, 4)
Pad FLOAT(N, 3); INT64(4,) => (None, None)
Pad-18 FLOAT(N, 3); [5, 2]; none; [-1] => (N, 10)
Pad-18 FLOAT(N, 3); [5, 2]; none; INT64(1,) => None
Pad FLOAT(...); [1, 1] => None
Pad FLOAT(); EMPTY => ()
Pad FLOAT(N, 3); [1, 0, 1, 2] => (N + 2, 5)
QLinearConv INT8(N, 3, 9); FLOAT(); INT8(); INT8(8, 3, 3); FLOAT(); INT8(); \
FLOAT(); INT8() => (N, 8, 7)
QLinearMatMul INT8(2, N, 4); FLOAT(); INT8(); INT8(4, 5); FLOAT(); INT8(); \
FLOAT(); INT8() => (2, N, 5)
Range 5; 0; -1 => (5,)
Range 0; 5; 2 => (3,)
Range 0; 4; 2 => (2,)
Range 5; 0; 1 => (0,)
Range 0; 5; 0 => (None,)
Range 0; N; 2 => (?,)
Range N; 0; 1 => (0,)
Range N; 0; -1 => (N,)
Range 0; N; M => (None,)
Range INT64(); N; 1 => (None,)
Range 0; INT64(); 1 => (None,)
Range INT8 0; INT8 63; INT8 1 => (63,)
Range INT8 0; INT8 64; INT8 1 => (None,)
Range INT32 0; INT32 2**30 - 1; INT32 1 => (1073741823,)
Range INT32 0; INT32 2**30; INT32 1 => (None,)
Range 0; N; 1 => (N,)
Range 2; N + 2; 1 => (N,)
Range 0; 2*N; 2 => (N,)
Range FLOAT(); FLOAT(); FLOAT() => (None,)
ReduceMax-17 {axes=(1,), keepdims=0} FLOAT(N, 3) => (N,)
ReduceMax-17 {axes=(1,), keepdims=0} FLOAT(N, 0) => None
ReduceMax-17 {axes=(1,), keepdims=2} FLOAT(N, 3) => None
ReduceMax-17 {axes=(1,), keepdims=0} FLOAT(...) => None
ReduceMax-17 {axes=(0,), keepdims=0} FLOAT(None, 3) => None
ReduceSum FLOAT(N, M); [1] => (N, 1)
ReduceSum FLOAT(N, K); [1] => (None, None)
ReduceSum {keepdims=0} FLOAT(N, K); [1] => None
Reshape FLOAT(N, M, 4); [0, 0, -1] => (N, M, 4)
Reshape FLOAT(N, 0); [0, 5] => (N, 5)
Reshape {allowzero=1} FLOAT(0, M); [0, 5] => (0, 5)
Reshape FLOAT(N, M); [N, -1] => (N, M)
Reshape FLOAT(M, N); [N, -1] => (N, M)
Reshape FLOAT(K, M); [K, M] => (K, M)
Reshape FLOAT(M, K); [K, M] => (K, M)
Reshape {allowzero=1} FLOAT(M, K); [K, M] => (K, M)
Reshape {allowzero=1} FLOAT(M, 2*N); [N - 1, -1] => (N - 1, None)
Reshape FLOAT(M, 2*N); [N - 1, -1] => (?, ?)
Reshape FLOAT(K, 2*N); [N - 1, -1] => (None, None)
Reshape {allowzero=1} FLOAT(M, K); [K - 1, 5] => (?, 5)
Reshape FLOAT(N, M); [-9..9, -9..9] => (None, None)
Reshape FLOAT(N, M); [-1] => (N*M,)
Reshape FLOAT(N, M); [7, 8] => (7, 8)
Reshape FLOAT(N, M, 6); [4, -1] => (4, ?)
Reshape FLOAT(None, 4); [0, 2, -1] => (None, 2, None)
Reshape FLOAT(...); [0, 2] => (None, 2)
Reshape FLOAT(2, 3); [5, 0, 0] => (5, 3, 0)
Reshape FLOAT(4, 3); INT64(2,) => (None, None)
Reshape FLOAT(N, M, 4); [0, -1] => (N, 4*M)
Reshape FLOAT(N, M, 4); [-1, 4] => (N*M, 4)
Reshape FLOAT(N, 3, M); [-9..9, 3, -9..9] => (None, 3, None)
Reshape FLOAT(N, 3, M); [-9..9, 3, M] => (N, 3, M)
Reshape FLOAT(N, M); [K, -1] => (?, ?)
Reshape FLOAT(K, M); [N - 1, -1] => (None, None)
Reshape FLOAT(N, M, 6); [N, M, 2, 3] => (N, M, 2, 3)
Reshape FLOAT(N, 12); [N, M, 4] => (N, M, 4)
Reshape {allowzero=1} FLOAT(N, K); [K, -1] => (K, N)
Reshape {allowzero=1} FLOAT(N, M); [K, -1] => (K, None)
Resize FLOAT(1, 1, 10); none; none; [1, N, 7] => (1, N, 7)
Resize-18 {axes=(2,)} FLOAT(1, 1, 10); none; none; [7] => (1, 1, 7)
Resize-18 {keep_aspect_ratio_policy='not_larger'} FLOAT(1, 4, 10); none; none; \
[1, 8, 7] => None
Resize-18 {keep_aspect_ratio_policy='stretch'} FLOAT(1, 4, 10); none; none; \
[1, 8, 7] => (1, 8, 7)
Resize-10 FLOAT(1, 1, 10); FLOAT [1, 1, 2] => (1, 1, 20)
Resize-10 FLOAT(1, 1, 10); FLOAT [1, 1, 0.9] => (1, 1, None)
Resize-11 FLOAT(1, 1, 10); FLOAT(0,); FLOAT [1, 1, 2] => (1, 1, 20)
Resize FLOAT(1, 1, 10); none; FLOAT(3,) => (None, None, None)
Resize FLOAT(1, 4, 10); none; FLOAT [1, 1, 1..2] => (1, 4, None)
Resize FLOAT(1, 1, 2**24 + 1); none; FLOAT [1, 1, 2] => (1, 1, None)
Resize FLOAT(...); none; FLOAT [1, 1, 2] => None
Resize-18 {axes=(1,)} FLOAT(5, 2, 3); none; FLOAT [2] => (5, 4, 3)
Resize-18 {axes=(-1,)} FLOAT(5, 2, 3); none; FLOAT [2] => (5, 2, 6)
Resize-18 {axes=(1,)} FLOAT(N, 2, 3); none; none; [M] => (N, M, 3)
Resize FLOAT(1, 1, 10); none; FLOAT [1, 1, 0.9] => (1, 1, None)
Resize FLOAT(N, S, 9); none; FLOAT [1, 1, 0.9] => (?, S, None)
Resize FLOAT(1, S, 9); none; FLOAT [1, 1, 2] => (1, S, 18)
Resize FLOAT(1, 1, S); none; FLOAT [1, 1, 2] => (1, 1, 2*S)
Resize FLOAT(1, 1, 2*S); none; FLOAT [1, 1, 0.5] => (1, 1, S)
Resize FLOAT(1, 1, 2*F); none; FLOAT [1, 1, 1.5] => (1, 1, 3*F)
Resize FLOAT(1, 1, S); none; FLOAT [1, 1, 1.5] => (1, 1, None)
Slice-9 {starts=(1,), ends=(4,), axes=(1,)} FLOAT(N, 9) => (N, 3)
Slice FLOAT(9, 9); [1, 2]; [4, 9] => (3, 7)
Slice FLOAT(9,); [1]; [8]; [0]; [2] => (4,)
Slice FLOAT(9,); [1]; [9]; [-1]; [3] => (3,)
Slice FLOAT(9,); [8]; [2]; [0]; [-2] => (3,)
Slice FLOAT(9,); [20]; [-20]; [0]; [-1] => (9,)
Slice FLOAT(9,); [5]; [2**31 - 1]; [0]; [-1] => (None,)
Slice FLOAT(9,); [5]; [1]; [0]; [-(2**31)] => (None,)
Slice FLOAT(9,); [5]; [1]; [0]; [-(2**31) + 1] => (1,)
Slice FLOAT(9,); [5]; [2**31 - 2]; [0]; [-1] => (0,)
Slice FLOAT(9,); [0]; [9]; [0]; [2**31 - 1] => (?,)
Slice FLOAT(9,); [0]; [9]; [0]; [2**31 - 2] => (1,)
Slice FLOAT(9,); [0]; [9]; [0]; [0] => (None,)
Slice FLOAT(9,); [5]; [3] => (0,)
Slice FLOAT(9,); [-4]; [-1] => (3,)
Slice FLOAT(9,); [-40]; [40] => (9,)
Slice FLOAT(N,); [2]; [5] => (?,)
Slice FLOAT(N,); [0]; [-1] => (N - 1,)
Slice FLOAT(N,); [-1]; [2**63 - 1] => (1,)
Slice FLOAT(N,); [-9..9]; [5] => (?,)
Slice FLOAT(N,); [N - M]; [5] => (?,)
Slice FLOAT(N,); [-N]; [N] => (N,)
Slice FLOAT(N,); [9]; [0]; [0]; [-1] => (None,)
Slice FLOAT(9, 9); INT64(1,); [5] => (?, 9)
Slice FLOAT(9, 9); [0]; INT64(1,) => (?, 9)
Slice FLOAT(9, 9); [0]; INT64(N,) => (?, 9)
Slice FLOAT(9, 9); INT64(1,); [5]; INT64(1,) => (None, None)
Slice FLOAT(9, 9); [0]; [5]; [0]; INT64(1,) => (None, None)
Slice FLOAT(9, 9); [0]; [5]; none; [1] => (None, None)
Slice FLOAT(9, 9); INT64(N,); [5] => (?, 9)
Slice FLOAT(...); [0]; [5] => None
Slice FLOAT(N, 9); [0]; [5]; [1] => (N, 5)
Slice FLOAT(N + 3,); [0]; [-1] => (N + 2,)
Slice FLOAT(N + M,); [N]; [2**63 - 1] => (M,)
Slice FLOAT(9,); [-1]; [-10]; [0]; [-1] => (9,)
Slice FLOAT(9,); [7]; [-(2**63)]; [0]; [-3] => (3,)
Slice FLOAT(9,); [-12]; [-12]; [0]; [-1] => (1,)
Slice FLOAT(9,); [-1]; [2**31 - 1]; [0]; [-1] => (None,)
Slice FLOAT(9,); [8]; [0]; [0]; [-(2**31)] => (None,)
Slice FLOAT(N,); [-1]; [-10]; [0]; [-1] => (None,)
Split-17 FLOAT(6, N) => (3, N) and (3, N)
Split-17 FLOAT(2*N, 5) => (N, 5) and (N, 5)
Split-18 {num_outputs=2} FLOAT(7,) => (4,) and (3,)
Split-18 {num_outputs=2} FLOAT(N,) => (?,) and (N - ?,)
Split-11 {split=(2, 5), axis=1} FLOAT(3, 7) => (3, 2) and (3, 5)
Split-11 {split=(2, 5), axis=-1} FLOAT(3, 7) => (3, 2) and (3, 5)
Split FLOAT(7, 3); [2, 5] => (2, 3) and (5, 3)
Split FLOAT(7, 3); [-9..9, N] => (None, 3) and (N, 3)
Split FLOAT(8, 3); INT64(2,) => (None, 3) and (None, 3)
Split FLOAT(...) => None and None
Split {axis=0} FLOAT(2*N, 3) => (N, 3) and (N, 3)
Split-18 {axis=0, num_outputs=2} FLOAT(2*N, 3) => (N, 3) and (N, 3)
Split {axis=0} FLOAT(N + 2,); [2, N] => (2,) and (N,)
Squeeze FLOAT(1, N) => None
Squeeze FLOAT(1, N); INT64(1,) => None
Squeeze-11 {axes=(-2,)} FLOAT(1, N) => (N,)
Squeeze-10 {axes=(-2,)} FLOAT(1, N) => None
Squeeze-10 {axes=(0,)} FLOAT(1, N) => (N,)
Squeeze FLOAT(1, N); [0] => (N,)
Squeeze FLOAT(1, N); EMPTY => None
Squeeze-10 {axes=(0,)} FLOAT(1, N, 1) => (N, 1)
Squeeze-10 {axes=(-1,)} FLOAT(1, N, 1) => None
Tile FLOAT(N, 3); INT64(2,) => (None, None)
Tile FLOAT(4, 3); [-9..9, 2] => (None, 6)
Tile FLOAT(...); [1, 2] => None
Tile FLOAT(N, 3); [2, M] => (2*N, 3*M)
TopK-9 {k=2, axis=0} FLOAT(N, 7) => (2, 7) and (2, 7)
TopK FLOAT(N, 7); [3] => (N, 3) and (N, 3)
TopK FLOAT(N, 7); INT64(1,) => (N, None) and (N, None)
TopK FLOAT(...); [3] => None and None
TopK FLOAT(N, M); [M] => (N, M) and (N, M)
Transpose {perm=(2, 0, 1)} FLOAT(N, M, 3) => (3, N, M)
Unique FLOAT(9,) => (?,) and (?,)
Unique FLOAT(None,) => (?,) and (?,)
Unknown FLOAT(N,) => None
Unsqueeze-10 {axes=(0,)} FLOAT(N, 1) => (1, N, 1)
Unsqueeze-10 {axes=(-1,)} FLOAT(N, 1) => None
Upsample-9 FLOAT(1, 1, 10); FLOAT [1, 1, 2] => (1, 1, 20)
Upsample-7 {scales=(1.0, 1.0, 2.0)} FLOAT(1, 1, 10) => (1, 1, 20)
Upsample-7 {scales=(1.0, 1.0, 1.5)} FLOAT(1, 1, 10) => (1, 1, 15)
Upsample-7 {scales=(1.0, 1.0, 1.1)} FLOAT(1, 1, 10) => (1, 1, None)
Upsample-13 FLOAT(1, 1, 10); FLOAT [1, 1, 0.9] => (None, None, None)
Where BOOL(3, 1, 1); FLOAT(4, 1); FLOAT(N,) => (3, 4, N)
"""
"""The sizes of the outputs of operations: `?` is a symbol of its own, and None is not
known."""

OUTPUTS = {"Split": 2, "TopK": 2, "Unique": 2}


def types_of(row: str) -> tuple[list[OpenType], str]:
    """Return the types of the outputs of an operation, and what the row says of
    them."""
    written = NOTATION.operation(row)
    operator, version, attributes, inputs, outputs = written
    arrays = [value and np.zeros(()) for value in inputs]
    drawn = Drawn(operator, version, arrays, attributes, OUTPUTS.get(operator, 1))
    return output_types(call_of(drawn, inputs)), outputs


def sizes_told(row: str) -> tuple[str, str]:
    types, outputs = types_of(row)
    return " and ".join(str(told.sizes) for told in types), outputs


def test_the_sizes_of_operations() -> None:
    found = [(row, *sizes_told(row)) for row in operation_rows(ROWS)]
    assert not [(row, told) for row, told, own in found if told != own]


def test_a_count_that_a_run_tells_is_at_most_the_number_of_elements() -> None:
    ((told,), _) = types_of("NonZero FLOAT(N, 3)")
    assert told.data_type == "INT64"
    assert told.sizes is not None
    rows, count = told.sizes
    assert rows == 2
    assert isinstance(count, Size)
    assert count <= 3 * 2**28


@pytest.mark.parametrize(
    ("row", "least"),
    [
        ("Conv {strides=(2,)} FLOAT(N, 3, M); FLOAT(8, 3, 4)", 1),
        ("MaxPool {kernel_shape=(2,), strides=(2,)} FLOAT(N, 3, M)", 1),
        ("MaxPool {kernel_shape=(3,), strides=(2,)} FLOAT(N, 3, M)", 0),
        ("MaxPool {kernel_shape=(2,), strides=(2,)} FLOAT(N, 3, K)", 0),
        ("LpPool-18 {kernel_shape=(2,), strides=(2,), ceil_mode=1} FLOAT(N, 3, M)", 1),
    ],
)
def test_a_window_has_at_least_one_place_where_onnx_runtime_refuses_none(
    row: str, least: int
) -> None:
    ((told,), _) = types_of(row)
    assert told.sizes is not None
    places = told.sizes[2]
    assert isinstance(places, Size)
    assert places >= least
    assert not places >= least + 1


def test_a_size_that_float_rounds_is_the_exact_one_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ((resized,), _) = types_of("Resize FLOAT(N, 5); none; FLOAT [1, 1]")
    assert resized.sizes is not None
    rounded, five = resized.sizes
    assert rounded != N
    assert isinstance(rounded, Size)
    assert rounded >= 1
    assert five == 5
    monkeypatch.setattr(NOTATION, "numbers", {**NOTATION.numbers, "R": rounded})
    for row in (
        "Add FLOAT(R, 5); FLOAT(N, 1) => (N, 5)",
        "Add FLOAT(N, 5); FLOAT(R, 1) => (N, 5)",
        "Concat {axis=1} FLOAT(R, 5); FLOAT(N, 2) => (N, 7)",
        "Concat {axis=1} FLOAT(N, 2); FLOAT(R, 5) => (N, 7)",
        "Add FLOAT(R, 5); FLOAT(M, 1) => (? + M, 5)",
    ):
        told, expected = sizes_told(row)
        assert told == expected


def test_a_version_that_nothing_measured_tells_nothing() -> None:
    assert types_of("Relu-6 FLOAT(3,)") == ([OpenType("FLOAT")], "")


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
