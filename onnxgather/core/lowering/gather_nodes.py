"""Gather nodes of larger models: the nodes that keep their indices in range, or stand for them.

The arithmetic is that of the portable lowering. Sizes that are not known when the model
is written are read from the data when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import gather_of_node
from onnxgather.core.lowering.graph import Graph, Value, constant
from onnxgather.core.lowering.indices import (
    EXACT_FLOAT,
    INDICES,
    LONGEST_INT32,
    bounded,
    clamp,
    is_negative,
)
from onnxgather.core.lowering.portable import INPUT, OUTPUT, lower_into
from onnxgather.core.options import DEFAULT_OPSET

Limit = Literal["clamp", "zero"]

SLICE_INPUTS, UNSIGNED_MIN, AXES_INPUT = 10, 12, 13
"""The opsets from which Slice takes its limits as inputs, Min and Max take UINT64, and
ReduceSum takes its axes as an input."""


@dataclass(frozen=True, slots=True)
class Operand:
    """The data or the indices of a gather node, as far as they are known."""

    dtype: np.dtype[Any] | None
    """None where it is not known, or numpy has no such type."""
    sizes: tuple[int | None, ...] | None
    """None where the rank is not known; an item is None where that size is not."""

    def static(self, name: str) -> tuple[TensorDataType, tuple[int, ...]]:
        """The data type and the sizes.

        Raises:
            OnnxGatherError: They are not all known, or DirectML has no such type.
        """
        sizes = tuple(size for size in self.sizes or () if size is not None)
        if self.dtype is None or self.sizes is None or len(sizes) < len(self.sizes):
            rule = f"the type and sizes of the {name} must be known for directml"
            raise OnnxGatherError(f"{rule}: add `--shape NAME=2,12` for an input")
        return TensorDataType.parse(self.dtype.name.upper()), sizes

    def value(self, graph: Graph, name: str) -> Value:
        """The operand as an input of a graph; sizes that are not known count as 1."""
        sizes = tuple(1 if size is None else size for size in self.sizes or ())
        return graph.input(name, self.dtype or np.dtype(np.int32), sizes)


@dataclass(frozen=True, slots=True)
class GatherNode:
    """A node of a larger model, with the index input that is looked at."""

    operator: str
    number: int
    """The first dimension of the data that is indexed, which may count from the end."""
    data: Operand
    indices: Operand
    opset: int = DEFAULT_OPSET
    is_tuple: bool = False
    """Whether the last dimension of the indices holds the coordinates of a tuple."""
    from_end: bool = True
    """Whether indices below 0 count from the end."""
    counted: bool = False
    """Whether they are to be counted from there beforehand, so that none is below 0."""
    empty: frozenset[int] = frozenset()
    """The dimensions that are indexed, each counted as `indexed` does, and may have no
    element."""

    def indexed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The dimensions of the data that are indexed: a scalar, or one per coordinate.

        Raises:
            OnnxGatherError: How many they are is not known, or the data has no such dimensions.
        """
        count = (self.indices.sizes or (None,))[-1] if self.is_tuple else 1
        if count is None:
            raise OnnxGatherError(
                "the last size of the indices must be known, but is not"
            )
        rank = len(self.data.sizes) if self.data.sizes is not None else 2**31
        ends = self.number, self.number + count - 1
        if not all(end in range(-rank, rank) for end in ends):
            found = " to ".join(map(str, dict.fromkeys(ends)))
            raise OnnxGatherError(
                f"the data must have the dimensions that are indexed, got {found}"
            )
        return np.array(
            self.number if count == 1 else range(self.number, self.number + count)
        )

    def padded(self, out_of_range: Limit | int) -> list[int]:
        """The dimensions of the data that get zeros behind their last element."""
        dimensions = [*map(int, self.indexed().flat)]
        first = dimensions[0] if out_of_range == "zero" else None
        return [k for k in dimensions if k in self.empty or k == first]


def limited_operands(
    node: GatherNode,
    out_of_range: Limit | int | None,
    cropped: Sequence[int] = (),
) -> tuple[Graph, Value, Value]:
    """The nodes before a gather or a scatter that keep its indices in range, and crop its data.

    Args:
        node: The node.
        out_of_range: "clamp"; "zero", for a row of zeros behind the data, which a scatter may write
            to; the number of the row that an index out of range means; or None where the indices
            stay as they are.
        cropped: The dimensions in which the data gets the sizes of the indices.

    Returns:
        A graph of the inputs InputTensor and IndicesTensor, without an output; and the data and
        the indices for the node. Behind each dimension that may be empty the data has zeros.

    Raises:
        OnnxGatherError: What is not known of the node makes it impossible.
    """
    graph = Graph(narrow=node.opset < UNSIGNED_MIN)
    data, index = node.data.value(graph, INPUT), node.indices.value(graph, INDICES)
    if cropped:
        node, data = _crop(graph, node, data, index, np.array(cropped))
    if out_of_range is None:
        return graph, data, index
    dimensions = node.indexed()
    sizes = _sizes(graph, data, node.data.sizes, dimensions)
    known, dtype = sizes.constant, node.indices.dtype
    padded = node.padded(out_of_range)
    is_moved = bool(padded) or node.counted or not node.from_end
    is_plain = out_of_range == "clamp" and not is_moved and not graph.narrow
    if (
        is_plain
        and dtype is not None
        and known is not None
        and known.max() <= EXACT_FLOAT
    ):
        known = (
            known[:1].reshape(()) if known.ndim and len({*known.flat}) == 1 else known
        )
        limited, why = clamp(graph, index, known), "the type of the indices"
        return graph, data, graph.cast(limited, index.dtype, "indices_in_range", why)
    index = graph.cast(
        index, np.int64, "indices_int64", "a type that holds every index"
    )
    index = _limited(
        graph, node, index, sizes, out_of_range, bool(padded) or node.counted
    )
    if dtype is not None and not node.from_end:  # the operator takes no other type
        index = graph.cast(index, dtype, "indices_in_range", "the type of the indices")
    for dimension in padded:
        node, data = _with_zeros(graph, node, data, dimension)
    return graph, data, index


def _limited(
    graph: Graph,
    node: GatherNode,
    index: Value,
    sizes: Value,
    out_of_range: Limit | int,
    is_counted: bool,
) -> Value:
    """The indices in range, INT64: each as how far it is from its end of the axis, and its sign.

    As UINT64 that distance is compared rightly: INT64 is not, by its low half. So the
    bounds of an audit prove the indices for any size.
    """
    one, minus_one = constant("one", np.array(1)), constant("minus_one", np.array(-1))
    why = "the distance from the beginning, or from the last element"
    negative = is_negative(graph, index)
    turned = constant("zero", np.array(0))
    if node.from_end:
        turned = graph.add(
            "Sub", "from_last", minus_one, index, why="the distance from the last"
        )
    distance = graph.add(
        "Where", "distance", negative, turned, index, why=why, shape=index.shape
    )
    longest = sizes
    if node.empty:
        if graph.narrow:
            raise OnnxGatherError(
                f"the axis may be empty, and the opset is below {UNSIGNED_MIN}"
            )
        longest = _unsigned(
            graph, "Max", "size_or_one", sizes, one, "1 where the axis is empty"
        )
    last = graph.add("Sub", "last_index", longest, one, why="the last index in range")
    limited = _least(graph, distance, last)
    signed = limited
    if node.from_end:
        back = minus_one
        if is_counted:
            back = graph.add(
                "Sub", "last_position", sizes, one, why="from which it counts back"
            )
        raised = graph.add(
            "Sub", "from_end", back, limited, why="counts from the end again"
        )
        why = "takes that where the index is negative"
        signed = graph.add(
            "Where", "indices_clamped", negative, raised, limited, why=why
        )
    if out_of_range == "clamp":
        return signed
    inside = graph.add(
        "Equal", "is_inside", limited, distance, why="finds the indices in range"
    )
    if not node.from_end:
        below = graph.add(
            "Not", "is_not_negative", negative, why="finds those from 0 on"
        )
        inside = graph.add(
            "And", "is_inside", inside, below, why="finds the indices in range"
        )
    beyond = sizes
    if out_of_range != "zero":
        beyond = _least(graph, constant("row", np.array(out_of_range)), last)
    if sizes.shape:
        inside, first = (
            _tuples_inside(graph, node, inside),
            np.arange(sizes.shape[0]) == 0,
        )
        first = constant("first_coordinate", first.astype(np.int64))
        beyond = graph.add(
            "Mul", "tuple_beyond", beyond, first, why="0 in the other coordinates"
        )
    why = "sends the indices out of range elsewhere"
    return graph.add("Where", "indices_sent", inside, signed, beyond, why=why)


def _tuples_inside(graph: Graph, node: GatherNode, inside: Value) -> Value:
    """Whether each tuple is in range, from whether each of its coordinates is."""
    outside = graph.add(
        "Not", "is_outside", inside, why="finds the coordinates out of range"
    )
    count = graph.cast(
        outside, np.int64, "is_outside_int64", "a type that ReduceSum takes"
    )
    last, why = len(inside.shape) - 1, "counts those of a tuple"
    shape = (*inside.shape[:-1], 1)
    if node.opset < AXES_INPUT:
        count = graph.add(
            "ReduceSum",
            "outside",
            count,
            why=why,
            shape=shape,
            axes=(last,),
            keepdims=1,
        )
    else:
        axes = constant("tuple_axis", np.array([last]))
        count = graph.add(
            "ReduceSum", "outside", count, axes, why=why, shape=shape, keepdims=1
        )
    zero, why = constant("zero", np.array(0)), "finds the tuples in range"
    return graph.add("Equal", "is_tuple_inside", count, zero, why=why)


def _unsigned(graph: Graph, op: str, name: str, a: Value, b: Value, why: str) -> Value:
    """The Min or Max of two values from 0 on, INT64."""
    told = "a type that is compared rightly"
    pair = [
        graph.cast(value, np.uint64, f"{value.name}_uint64", told) for value in (a, b)
    ]
    found = graph.add(op, f"{name}_uint64", *pair, why=why)
    return graph.cast(found, np.int64, name, "the type of the indices")


def _least(graph: Graph, distance: Value, last: Value) -> Value:
    """The distances, at most that to the last element."""
    why = "limits it to the axis"
    if not graph.narrow:
        return _unsigned(graph, "Min", "distance_limited", distance, last, why)
    rough = graph.cast(distance, np.float32, "distance_float32", "keeps the order")
    most = constant("most", np.array(LONGEST_INT32, np.float32))
    fits = graph.add("Less", "fits", rough, most, why="finds those that INT32 holds")
    word = graph.cast(
        distance, np.int32, "distance_int32", "a type that is compared rightly"
    )
    word = graph.add(
        "Abs", "distance_word", word, why="stands between two Casts of one number"
    )
    last = graph.cast(last, np.int32, "last_int32", "to compare with it")
    word = graph.add("Where", "distance_or_last", fits, word, last, why=why)
    word = bounded(graph, "Min", "distance_least", word, last, why)
    zero = constant("zero_int32", np.array(0, np.int32))
    word = bounded(
        graph, "Max", "distance_limited", word, zero, "which no distance is below"
    )
    return graph.cast(word, np.int64, "distance_int64", "the type of the indices")


def _sizes(
    graph: Graph,
    value: Value,
    sizes: Sequence[int | None] | None,
    dimensions: np.ndarray[Any, Any],
) -> Value:
    """Some sizes of a value, INT64: a constant where they are known."""
    if sizes is not None:
        found = [sizes[k] for k in map(int, dimensions.flat)]
        if None not in found:
            return constant(
                "sizes", np.array(found, np.int64).reshape(dimensions.shape)
            )
    why = "sizes that are known when the model runs"
    rank, int64 = len(value.shape), np.int64
    shape = graph.add("Shape", "data_shape", value, why=why, shape=(rank,), dtype=int64)
    if dimensions.shape == shape.shape:
        return shape
    which, why = constant("dimensions", dimensions), "those of some dimensions"
    return graph.add(
        "Gather", "axis_size", shape, which, why=why, shape=dimensions.shape, axis=0
    )


def _crop(
    graph: Graph,
    node: GatherNode,
    data: Value,
    index: Value,
    dimensions: np.ndarray[Any, Any],
) -> tuple[GatherNode, Value]:
    """GatherElements on the part of its data that it can read: DirectML takes no more of it."""
    ends = _sizes(graph, index, node.indices.sizes, dimensions)
    starts, axes = constant("starts", 0 * dimensions), constant("axes", dimensions)
    sizes = list(node.data.sizes or ())
    for k in dimensions:
        sizes[k] = node.indices.sizes[k] if node.indices.sizes else None
    node = replace(node, data=replace(node.data, sizes=tuple(sizes)))
    why = "DirectML asks for the sizes of the indices off the axis"
    shape = tuple(size or 1 for size in sizes)
    return node, graph.add(
        "Slice", "data_cropped", data, starts, ends, axes, why=why, shape=shape
    )


def _with_zeros(
    graph: Graph, node: GatherNode, data: Value, dimension: int
) -> tuple[GatherNode, Value]:
    """The data with zeros behind the last element of a dimension."""
    sizes, dtype = node.data.sizes, node.data.dtype
    if dtype is None or sizes is None:
        raise OnnxGatherError(
            "zeros need data of a known rank and of a type that numpy has"
        )
    axis = range(len(sizes))[dimension]
    why = "zeros, for the indices out of range"
    here = np.arange(len(sizes)) == axis
    longer = tuple(n if n is None or k != axis else n + 1 for k, n in enumerate(sizes))
    padded = replace(node, data=Operand(dtype, longer))
    if None not in (*sizes[:axis], *sizes[axis + 1 :]):
        return padded, graph.with_zeros(
            data, axis, ("zeros", why), ("data_and_zeros", why)
        )
    shape = _sizes(graph, data, sizes, np.arange(len(sizes)))
    one, others = constant("one", here.astype(np.int64)), constant("others", 1 - here)
    shape = graph.add(
        "Mul", "shape_off_axis", shape, others, why="the sizes off the axis"
    )
    shape = graph.add("Add", "zeros_shape", shape, one, why="and one on it")
    zero = constant("zero", np.zeros((1,) * len(sizes), dtype))
    zero = graph.add("Expand", "zeros", zero, shape, why=why, shape=data.shape)
    both = graph.add(
        "Concat", "data_and_zeros", data, zero, why=why, shape=data.shape, axis=axis
    )
    return padded, both


def without_zeros(node: GatherNode, dimensions: Sequence[int]) -> Graph:
    """The data of a scatter without the zeros behind some of its dimensions.

    Returns:
        A graph of the input InputTensor and the output OutputTensor.
    """
    graph, rank = Graph(), len(node.data.sizes or ())
    axes = [range(rank)[k] for k in dimensions]
    starts, ends, why = [0] * len(axes), [-1] * len(axes), "leaves the zeros out again"
    value, limits = (
        graph.input(INPUT, np.dtype(np.int32), (1,) * rank),
        (starts, ends, axes),
    )
    if node.opset < SLICE_INPUTS:
        pairs = zip(("starts", "ends", "axes"), map(tuple, limits), strict=True)
        value = graph.add("Slice", OUTPUT, value, why=why, **dict(pairs))
    else:
        parts = zip(("starts", "ends", "axes"), map(np.array, limits), strict=True)
        value = graph.add(
            "Slice",
            OUTPUT,
            value,
            *(constant(*part) for part in parts),
            why=why,
            shape=value.shape,
        )
    graph.finish(value, OUTPUT)
    return graph


def as_directml(node: GatherNode) -> Graph:
    """A gather that does with every index what DirectML does.

    Returns:
        A graph of the inputs InputTensor and IndicesTensor and the output OutputTensor.

    Raises:
        OnnxGatherError: The sizes or the types are not known, or DirectML has no such descriptor.
    """
    data_type, data = node.data.static("data")
    index_type, indices = node.indices.static("indices")
    gather = gather_of_node(node.operator, data, indices, node.number)
    types = (data_type, index_type, data_type)
    tensors = list(map(TensorDesc, types, gather.tensor_sizes()))
    graph = Graph()
    gathered = lower_into(graph, gather.descriptor(tensors), "directml", None)
    why = "drops the leading ones of the descriptor"
    gathered = graph.reshape(gathered, gather.output, "gathered_shaped", why)
    graph.finish(gathered, OUTPUT)
    return graph
