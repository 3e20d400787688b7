"""Gather nodes of larger models, with their indices kept in range.

The graphs hold the nodes around a gather node, or those that replace it. The arithmetic
is that of the portable lowering. Sizes that are not known when the model is written are
read from the data when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.gather import gather_of_node, in_static_graph
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

SLICE_INPUTS = 10
"""The opset from which Slice reads its limits from inputs."""

UNSIGNED_MIN = 12
"""The opset from which Min and Max accept UINT64."""

AXES_INPUT = 13
"""The opset from which ReduceSum reads its axes from an input."""


class Operand(Struct, frozen=True):
    """The data or the indices of a gather node, as far as they are known."""

    dtype: np.dtype[Any] | None
    """None where it is not known, or numpy has no such type."""
    sizes: tuple[int | None, ...] | None
    """None where the rank is not known; an item is None where that size is not."""

    def static(self, name: str) -> tuple[TensorDataType, tuple[int, ...]]:
        """Return the data type and the sizes.

        Raises:
            OnnxGatherError: They are not all known, or DirectML has no such type.
        """
        if self.dtype is None or self.sizes is None or None in self.sizes:
            rule = f"the type and sizes of the {name} must be known for directml"
            raise OnnxGatherError(f"{rule}: add `--shape NAME=2,12` for an input")
        data_type = TensorDataType.parse(self.dtype.name.upper())
        return data_type, cast("tuple[int, ...]", self.sizes)

    def value(self, graph: Graph, name: str) -> Value:
        """Return the operand as an input of a graph; unknown sizes count as 1."""
        sizes = tuple(1 if size is None else size for size in self.sizes or ())
        dtype = self.dtype or np.dtype(np.int32)
        return graph.input(name, dtype, sizes)


class IndexNode(Struct, frozen=True):
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
    """Whether the nodes count these indices from there, so that none is below 0."""
    empty: frozenset[int] = frozenset()
    """The indexed dimensions that may have no element, numbered as by `indexed`."""

    def indexed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the indexed dimensions: a scalar, or the dimension of each coordinate.

        Raises:
            OnnxGatherError: How many they are is not known, or the data has no such
                dimensions.
        """
        count = 1
        if self.is_tuple:
            count = self.indices.sizes[-1] if self.indices.sizes else None
        if count is None:
            raise OnnxGatherError(
                "the last size of the indices must be known, but is not"
            )
        # Data of an unknown rank may have any dimension.
        rank = 2**31
        if self.data.sizes is not None:
            rank = len(self.data.sizes)
        first = self.number
        last = first + count - 1
        dimensions = range(-rank, rank)
        if first not in dimensions or last not in dimensions:
            ends = dict.fromkeys((first, last))  # a single number if they are equal
            got = " to ".join(map(str, ends))
            raise OnnxGatherError(
                f"the data must have the dimensions that are indexed, got {got}"
            )
        if count == 1:
            return np.array(first)
        return np.array(range(first, last + 1))

    def padded(self, out_of_range: Limit | int) -> list[int]:
        """Return the dimensions of the data that get zeros at their end."""
        dimensions = [*map(int, self.indexed().flat)]
        with_zeros = set(self.empty)
        if out_of_range == "zero":
            with_zeros.add(dimensions[0])
        return [dimension for dimension in dimensions if dimension in with_zeros]


def limited_operands(
    node: IndexNode,
    out_of_range: Limit | int | None,
    cropped: Sequence[int],
) -> tuple[Graph, Value, Value]:
    """Return the nodes before a gather or a scatter that keep its indices in range.

    Args:
        node: The node.
        out_of_range: "clamp"; "zero", for a row of zeros behind the data, which a
            scatter may write to; the number of the row that an index out of range
            means; or None where the indices stay as they are.
        cropped: The dimensions in which the data gets the sizes of the indices.

    Returns:
        A graph of the inputs InputTensor and IndicesTensor, without an output; and the
        data and the indices for the node. Behind each dimension that may be empty the
        data has zeros.

    Raises:
        OnnxGatherError: What is not known of the node makes it impossible.
    """
    graph = Graph(narrow=node.opset < UNSIGNED_MIN)
    data = node.data.value(graph, INPUT)
    index = node.indices.value(graph, INDICES)
    if cropped:
        node, data = _crop(graph, node, data, index, np.array(cropped))
    if out_of_range is None:
        return graph, data, index

    sizes = _sizes(graph, data, node.data.sizes, node.indexed())
    padded = node.padded(out_of_range)
    is_counted = bool(padded) or node.counted
    dtype = node.indices.dtype

    # Case 1: a clamp as the portable lowering has it, which short axes allow.
    is_moved = is_counted or not node.from_end
    is_plain = out_of_range == "clamp" and not is_moved and not graph.narrow
    if is_plain and dtype is not None and _is_short(sizes):
        return graph, data, _clamped(graph, index, sizes)

    # Case 2: the index arithmetic in INT64, for axes of any size.
    why = "a type that holds every index"
    index = graph.cast(index, np.int64, "indices_int64", why)
    index = _limited(graph, node, index, sizes, out_of_range, is_counted)
    if dtype is not None and not node.from_end:  # the operator accepts no other type
        index = graph.cast(index, dtype, "indices_in_range", "the type of the indices")
    for dimension in padded:
        node, data = _with_zeros(graph, node, data, dimension)
    return graph, data, index


def _is_short(sizes: Value) -> bool:
    """Return whether FLOAT32 holds all indices of axes, whose sizes must be known."""
    return sizes.constant is not None and sizes.constant.max() <= EXACT_FLOAT


def _clamped(graph: Graph, index: Value, sizes: Value) -> Value:
    """Return the indices clamped to axes of known sizes, in their own type."""
    limits = sizes.constant
    assert limits is not None
    # Equal limits as a scalar need one Clip, different limits a Min and a Max.
    if limits.ndim and len({*limits.flat}) == 1:
        limits = limits[:1].reshape(())
    limited = clamp(graph, index, limits)
    why = "the type of the indices"
    return graph.cast(limited, index.dtype, "indices_in_range", why)


def _limited(
    graph: Graph,
    node: IndexNode,
    index: Value,
    sizes: Value,
    out_of_range: Limit | int,
    is_counted: bool,
) -> Value:
    """Return the indices in range, INT64.

    Each index is split into its distance from its end of the axis, and its sign. As
    UINT64 that distance is compared rightly: INT64 is not, by its low half. So the
    bounds of an audit prove the indices for any size.
    """
    negative = is_negative(graph, index)
    distance = _distance(graph, node, index, negative)
    last = _last_index(graph, node, sizes)
    limited = _least(graph, distance, last)
    signed = limited
    if node.from_end:
        signed = _with_sign(graph, limited, negative, sizes, is_counted)
    if out_of_range == "clamp":
        return signed

    inside_why = "finds the indices in range"
    inside = graph.add("Equal", "is_inside", limited, distance, why=inside_why)
    if not node.from_end:
        # An index below 0 is out of range, however near to 0 it is.
        why = "finds those from 0 on"
        positive = graph.add("Not", "is_not_negative", negative, why=why)
        inside = graph.add("And", "is_inside", inside, positive, why=inside_why)

    beyond = sizes  # the row of zeros is behind the data
    if out_of_range != "zero":
        row = constant("row", np.array(out_of_range))
        beyond = _least(graph, row, last)
    if sizes.shape:
        # A tuple goes to the row of its first coordinate, at 0 of the others.
        inside = _tuples_inside(graph, node, inside)
        first = np.arange(sizes.shape[0]) == 0
        factor = constant("first_coordinate", first.astype(np.int64))
        why = "0 in the other coordinates"
        beyond = graph.add("Mul", "tuple_beyond", beyond, factor, why=why)
    why = "sends the indices out of range elsewhere"
    return graph.add("Where", "indices_sent", inside, signed, beyond, why=why)


def _distance(graph: Graph, node: IndexNode, index: Value, negative: Value) -> Value:
    """Return how far each index is from the end of the axis that it counts from."""
    turned = constant("zero", np.array(0))
    if node.from_end:
        minus_one = constant("minus_one", np.array(-1))
        why = "the distance from the last"
        turned = graph.add("Sub", "from_last", minus_one, index, why=why)
    why = "the distance from the beginning, or from the last element"
    shape = index.shape
    return graph.add("Where", "distance", negative, turned, index, why=why, shape=shape)


def _last_index(graph: Graph, node: IndexNode, sizes: Value) -> Value:
    """Return the last index in range of each axis, 0 where the axis is empty."""
    one_element = constant("one", np.array(1))
    longest = sizes
    if node.empty:
        if graph.narrow:  # Max accepts no UINT64 yet, and compares INT64 wrongly
            raise OnnxGatherError(
                f"the axis may be empty, and the opset is below {UNSIGNED_MIN}"
            )
        why = "1 where the axis is empty"
        longest = _unsigned(graph, "Max", "size_or_one", sizes, one_element, why)
    why = "the last index in range"
    return graph.add("Sub", "last_index", longest, one_element, why=why)


def _with_sign(
    graph: Graph, limited: Value, negative: Value, sizes: Value, is_counted: bool
) -> Value:
    """Return the indices at limited distances from either end, as their sign says."""
    back = constant("minus_one", np.array(-1))
    if is_counted:
        one_element = constant("one", np.array(1))
        why = "from which it counts back"
        back = graph.add("Sub", "last_position", sizes, one_element, why=why)
    why = "counts from the end again"
    raised = graph.add("Sub", "from_end", back, limited, why=why)
    why = "takes that where the index is negative"
    return graph.add("Where", "indices_clamped", negative, raised, limited, why=why)


def _tuples_inside(graph: Graph, node: IndexNode, inside: Value) -> Value:
    """Return whether each tuple is in range: none of its coordinates is outside."""
    why = "finds the coordinates out of range"
    outside = graph.add("Not", "is_outside", inside, why=why)
    why = "a type that ReduceSum takes"
    count = graph.cast(outside, np.int64, "is_outside_int64", why)
    last = len(inside.shape) - 1
    shape = (*inside.shape[:-1], 1)
    inputs = [count]
    attributes: dict[str, Any] = {"keepdims": 1}
    if node.opset < AXES_INPUT:
        attributes = {"axes": (last,), "keepdims": 1}
    else:
        inputs.append(constant("tuple_axis", np.array([last])))
    why = "counts those of a tuple"
    count = graph.add(
        "ReduceSum", "outside", *inputs, why=why, shape=shape, **attributes
    )
    zero = constant("zero", np.array(0))
    why = "finds the tuples in range"
    return graph.add("Equal", "is_tuple_inside", count, zero, why=why)


def _unsigned(graph: Graph, op: str, name: str, a: Value, b: Value, why: str) -> Value:
    """Return the Min or Max of two values from 0 on, INT64."""
    operands: list[Value] = []
    for value in (a, b):
        cast_why = "a type that is compared rightly"
        wide = graph.cast(value, np.uint64, f"{value.name}_uint64", cast_why)
        operands.append(wide)
    chosen = graph.add(op, f"{name}_uint64", *operands, why=why)
    return graph.cast(chosen, np.int64, name, "the type of the indices")


def _least(graph: Graph, distance: Value, last: Value) -> Value:
    """Return the distances, at most that to the last element."""
    limit_why = "limits it to the axis"
    if not graph.narrow:
        return _unsigned(graph, "Min", "distance_limited", distance, last, limit_why)

    # Min accepts no UINT64 yet: FLOAT32 tells whether INT32 holds a distance.
    rough = graph.cast(distance, np.float32, "distance_float32", "keeps the order")
    most = constant("most", np.array(LONGEST_INT32, np.float32))
    fits = graph.add("Less", "fits", rough, most, why="finds those that INT32 holds")
    why = "a type that is compared rightly"
    word = graph.cast(distance, np.int32, "distance_int32", why)
    why = "stands between two Casts of one number"
    word = graph.add("Abs", "distance_word", word, why=why)
    last = graph.cast(last, np.int32, "last_int32", "to compare with it")
    word = graph.add("Where", "distance_or_last", fits, word, last, why=limit_why)
    word = bounded(graph, "Min", "distance_least", word, last, limit_why)
    zero = constant("zero_int32", np.array(0, np.int32))
    why = "which no distance is below"
    word = bounded(graph, "Max", "distance_limited", word, zero, why)
    return graph.cast(word, np.int64, "distance_int64", "the type of the indices")


def _sizes(
    graph: Graph,
    value: Value,
    sizes: Sequence[int | None] | None,
    dimensions: np.ndarray[Any, Any],
) -> Value:
    """Return some sizes of a value, INT64: a constant where they are known."""
    if sizes is not None:
        chosen = [sizes[dimension] for dimension in map(int, dimensions.flat)]
        if None not in chosen:
            numbers = np.array(chosen, np.int64).reshape(dimensions.shape)
            return constant("sizes", numbers)
    why = "sizes that are known when the model runs"
    rank = (len(value.shape),)
    shape = graph.add("Shape", "data_shape", value, why=why, shape=rank, dtype=np.int64)
    if dimensions.shape == shape.shape:  # all sizes of the value, in order
        return shape
    numbers = constant("dimensions", dimensions)
    why = "those of some dimensions"
    return graph.add(
        "Gather", "axis_size", shape, numbers, why=why, shape=dimensions.shape, axis=0
    )


def _crop(
    graph: Graph,
    node: IndexNode,
    data: Value,
    index: Value,
    dimensions: np.ndarray[Any, Any],
) -> tuple[IndexNode, Value]:
    """Return a GatherElements with the part of its data that it can read.

    DirectML accepts no more data than that.
    """
    ends = _sizes(graph, index, node.indices.sizes, dimensions)
    starts = constant("starts", 0 * dimensions)
    axes = constant("axes", dimensions)
    sizes = list(node.data.sizes or ())
    for dimension in map(int, dimensions):
        size = node.indices.sizes[dimension] if node.indices.sizes else None
        sizes[dimension] = size
    part = replace(node.data, sizes=tuple(sizes))
    shape = tuple(size or 1 for size in sizes)
    why = "DirectML asks for the sizes of the indices off the axis"
    data = graph.add(
        "Slice", "data_cropped", data, starts, ends, axes, why=why, shape=shape
    )
    return replace(node, data=part), data


def _with_zeros(
    graph: Graph, node: IndexNode, data: Value, dimension: int
) -> tuple[IndexNode, Value]:
    """Return the node and its data, which gets zeros at the end of a dimension."""
    dtype = node.data.dtype
    sizes = node.data.sizes
    if dtype is None or sizes is None:
        raise OnnxGatherError(
            "zeros need data of a known rank and of a type that numpy has"
        )
    rank = len(sizes)
    axis = range(rank)[dimension]
    before = sizes[:axis]
    size = sizes[axis]
    after = sizes[axis + 1 :]
    longer = None if size is None else size + 1
    operand = Operand(dtype, (*before, longer, *after))
    padded = replace(node, data=operand)
    zeros_why = "zeros, for the indices out of range"

    # Case 1: the zeros are a constant, as their sizes are known.
    if None not in before and None not in after:
        zeros_name = ("zeros", zeros_why)
        both_name = ("data_and_zeros", zeros_why)
        data = graph.with_zeros(data, axis, zeros_name, both_name)
        return padded, data

    # Case 2: their shape is that of the data when the model runs, with 1 on the axis.
    on_axis = (np.arange(rank) == axis).astype(np.int64)
    shape = _sizes(graph, data, sizes, np.arange(rank))
    others = constant("others", 1 - on_axis)
    why = "the sizes off the axis"
    shape = graph.add("Mul", "shape_off_axis", shape, others, why=why)
    one_on_axis = constant("one", on_axis)
    shape = graph.add("Add", "zeros_shape", shape, one_on_axis, why="and one on it")
    zero = constant("zero", np.zeros((1,) * rank, dtype))
    rough = data.shape  # its rank is right, its unknown sizes are not
    zeros = graph.add("Expand", "zeros", zero, shape, why=zeros_why, shape=rough)
    both = graph.add(
        "Concat", "data_and_zeros", data, zeros, why=zeros_why, shape=rough, axis=axis
    )
    return padded, both


def without_zeros(node: IndexNode, dimensions: Sequence[int]) -> Graph:
    """Return the nodes that drop the zeros behind some dimensions of a scatter's data.

    Returns:
        A graph of the input InputTensor and the output OutputTensor.
    """
    rank = len(node.data.sizes or ())
    axes = [range(rank)[dimension] for dimension in dimensions]
    starts = [0] * len(axes)
    ends = [-1] * len(axes)
    limits = {"starts": starts, "ends": ends, "axes": axes}
    graph = Graph()
    data = graph.input(INPUT, np.dtype(np.int32), (1,) * rank)
    why = "leaves the zeros out again"
    if node.opset < SLICE_INPUTS:
        attributes: dict[str, Any] = {}
        for name, numbers in limits.items():
            attributes[name] = tuple(numbers)
        value = graph.add("Slice", OUTPUT, data, why=why, **attributes)
    else:
        parts = [constant(name, np.array(numbers)) for name, numbers in limits.items()]
        value = graph.add("Slice", OUTPUT, data, *parts, why=why, shape=data.shape)
    graph.finish(value, OUTPUT)
    return graph


def as_directml(node: IndexNode, is_static: bool) -> Graph:
    """Return a gather that does with every index what DirectML does.

    Args:
        node: The gather, whose sizes are known.
        is_static: Whether the model itself has these sizes.

    Returns:
        A graph of the inputs InputTensor and IndicesTensor and the output OutputTensor.

    Raises:
        OnnxGatherError: The sizes or the types are not known, or DirectML has no such
            descriptor.
    """
    data_type, data = node.data.static("data")
    index_type, indices = node.indices.static("indices")
    gather = gather_of_node(node.operator, data, indices, node.number)
    types = (data_type, index_type, data_type)
    tensors = list(map(TensorDesc, types, gather.tensor_sizes()))
    desc = gather.descriptor(tensors)
    graph = Graph()
    if is_static:
        desc = in_static_graph(desc)
        # The data keeps its shape, though a tensor with strides is a 1-D buffer.
        graph.input(INPUT, data_type.numpy, desc.input_tensor.sizes)
    gathered = lower_into(graph, desc, "directml", None)
    why = "drops the leading ones of the descriptor"
    gathered = graph.reshape(gathered, gather.output, "gathered_shaped", why)
    graph.finish(gathered, OUTPUT)
    return graph
