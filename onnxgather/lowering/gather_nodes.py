"""Gather nodes of larger models: the nodes that keep their indices in range, or stand for them.

The arithmetic is that of the portable lowering. Sizes that are not known when the model is written
are read from the data when it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxgather.descriptors.datatypes import TensorDataType
from onnxgather.descriptors.tensors import TensorDesc
from onnxgather.errors import OnnxGatherError
from onnxgather.gather import gather_of_node
from onnxgather.lowering.graph import Graph, Value, constant
from onnxgather.lowering.indices import INDICES, clamp, clamp_biased, non_negative, outside_mask
from onnxgather.lowering.portable import INPUT, OUTPUT, lower_into
from onnxgather.options import OutOfRange


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
            raise OnnxGatherError(f"the type and sizes of the {name} must be known for directml")
        return TensorDataType.parse(self.dtype.name.upper()), sizes

    def value(self, graph: Graph, name: str) -> Value:
        """The operand as an input of a graph; sizes that are not known count as 1."""
        sizes = tuple(1 if size is None else size for size in self.sizes or ())
        return graph.input(name, self.dtype or np.dtype(np.int32), sizes)


@dataclass(frozen=True, slots=True)
class GatherNode:
    """A gather node of a larger model."""

    operator: str
    """Gather, GatherElements or GatherND."""
    number: int
    """`axis`, which may count from the end, or `batch_dims`."""
    data: Operand
    indices: Operand

    def indexed(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The dimensions of the data that are indexed: a scalar, or one per coordinate.

        Raises:
            OnnxGatherError: How many they are is not known, or the data has no such dimensions.
        """
        count = 1
        if self.operator == "GatherND":
            count = (self.indices.sizes or (None,))[-1]
        if count is None:
            raise OnnxGatherError("the last size of the indices must be known, but is not")
        rank = len(self.data.sizes) if self.data.sizes is not None else 2**31
        ends = self.number, self.number + count - 1
        if not all(end in range(-rank, rank) for end in ends):
            found = " to ".join(map(str, dict.fromkeys(ends)))
            raise OnnxGatherError(
                f"the data must have the dimensions that are indexed, got {found}"
            )
        return np.array(self.number if count == 1 else range(self.number, self.number + count))


def limited_operands(
    node: GatherNode, out_of_range: OutOfRange | None, cropped: Sequence[int] = ()
) -> tuple[Graph, Value, Value]:
    """The nodes before a gather that keep its indices in range and crop its data.

    Args:
        node: The gather.
        out_of_range: "clamp" or "zero"; None where the indices stay as they are.
        cropped: The dimensions in which the data gets the sizes of the indices.

    Returns:
        A graph of the inputs InputTensor and IndicesTensor, without an output; and the data and
        the indices for the gather.

    Raises:
        OnnxGatherError: What is not known of the node makes it impossible.
    """
    graph = Graph()
    data, index = node.data.value(graph, INPUT), node.indices.value(graph, INDICES)
    if cropped:
        node, data = _crop(graph, node, data, index, np.array(cropped))
    if out_of_range is None:
        return graph, data, index
    sizes = _sizes(graph, data, node.data.sizes, node.indexed())
    known = sizes.constant
    if known is None or out_of_range == "zero" or node.indices.dtype is None:
        index = graph.cast(index, np.int64, "indices_int64", "a type that holds every index")
    if known is None:
        limited = clamp_biased(graph, index, sizes)
    else:
        known = known[:1].reshape(()) if known.ndim and len({*known.tolist()}) == 1 else known
        limited = clamp(graph, index, known)
    if out_of_range == "clamp":
        limited = graph.cast(limited, index.dtype, "indices_in_range", "the type of the indices")
        return graph, data, limited
    mask = outside_mask(graph, index, limited, np.array(0) if known is None else known)
    limited = graph.cast(limited, np.int64, "indices_in_range", "the type of the indices")
    limited = non_negative(graph, limited, sizes)
    beyond = sizes
    if sizes.shape:
        count = graph.cast(mask, np.int64, "is_outside_int64", "a type that ReduceSum takes")
        axes, zero = constant("tuple_axis", np.array([-1])), constant("zero", np.array(0))
        why, shape = "counts the coordinates of a tuple", (*index.shape[:-1], 1)
        count = graph.add("ReduceSum", "outside", count, axes, why=why, shape=shape, keepdims=1)
        why = "any coordinate out of range"
        mask = graph.add("Less", "is_tuple_outside", zero, count, why=why, dtype=bool)
        first = constant("first", np.arange(sizes.shape[0]) == 0)
        first = graph.cast(first, np.int64, "first_coordinate", "")
        beyond = graph.add("Mul", "tuple_of_zeros", sizes, first, why="leads to the zeros")
    why = "the zeros where the index is out of range"
    index = graph.add("Where", "indices_or_zeros", mask, beyond, limited, why=why, dtype=np.int64)
    return graph, _with_zeros(graph, node, data), index


def _sizes(
    graph: Graph, value: Value, sizes: Sequence[int | None] | None, dimensions: np.ndarray[Any, Any]
) -> Value:
    """Some sizes of a value, INT64: a constant where they are known."""
    if sizes is not None:
        found = [sizes[k] for k in map(int, dimensions.flat)]
        if None not in found:
            return constant("sizes", np.array(found, np.int64).reshape(dimensions.shape))
    why = "sizes that are known when the model runs"
    rank, int64 = len(value.shape), np.int64
    shape = graph.add("Shape", "data_shape", value, why=why, shape=(rank,), dtype=int64)
    if dimensions.shape == shape.shape:
        return shape
    which, why = constant("dimensions", dimensions), "those of some dimensions"
    return graph.add("Gather", "axis_size", shape, which, why=why, shape=dimensions.shape, axis=0)


def _crop(
    graph: Graph, node: GatherNode, data: Value, index: Value, dimensions: np.ndarray[Any, Any]
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
    return node, graph.add("Slice", "data_cropped", data, starts, ends, axes, why=why, shape=shape)


def _with_zeros(graph: Graph, node: GatherNode, data: Value) -> Value:
    """The data with zeros behind the last element of its first indexed dimension."""
    sizes, dtype = node.data.sizes, node.data.dtype
    if dtype is None or sizes is None:
        raise OnnxGatherError("the type and the rank of the data must be known for zeros")
    axis = range(len(sizes))[node.number]
    why = "zeros, for the indices out of range"
    here = np.arange(len(sizes)) == axis
    if None not in (*sizes[:axis], *sizes[axis + 1 :]):
        return graph.with_zeros(data, axis, ("zeros", why), ("data_and_zeros", why))
    shape = _sizes(graph, data, sizes, np.arange(len(sizes)))
    one, others = constant("one", here.astype(np.int64)), constant("others", 1 - here)
    shape = graph.add("Mul", "shape_off_axis", shape, others, why="the sizes off the axis")
    shape = graph.add("Add", "zeros_shape", shape, one, why="and one on it")
    zero = constant("zero", np.zeros((1,) * len(sizes), dtype))
    zero = graph.add("Expand", "zeros", zero, shape, why=why, shape=data.shape)
    return graph.add("Concat", "data_and_zeros", data, zero, why=why, shape=data.shape, axis=axis)


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
