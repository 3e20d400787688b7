"""Nodes for indices: read them at their strides, clamp them, find those out of range."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, elements
from onnxgather.checks import MAX_ELEMENTS
from onnxgather.gather import Gather
from onnxgather.lowering.graph import Graph, Shape, Value, constant, size_of
from onnxgather.lowering.positions import positions
from onnxgather.strides import in_order
from onnxgather.tensors import TensorDesc

INDICES = "IndicesTensor"


def read_indices(
    graph: Graph, tensor: TensorDesc, kept: Shape, shape: Shape, known: Array | None
) -> Value:
    """The indices in `shape`; with strides, in the sizes that count, or 1 where they are repeated.

    Args:
        graph: Takes the graph input and the nodes.
        tensor: IndicesTensor.
        kept: The sizes of the tensor that count.
        shape: The shape that the operator takes, of as many elements as `kept`.
        known: The array that stands for the tensor, if it is known; else None.
    """
    if known is not None:
        return constant("indices", elements(tensor, known).reshape(shape))
    value = graph.input(INDICES, tensor.data_type.numpy, tensor.array_shape)
    if tensor.is_packed and size_of(value.shape) == size_of(kept):
        why = "drops the leading ones that do not count"
        if len(shape) > len(value.shape):
            why = "adds leading ones for the output"
        return graph.reshape(value, shape, "indices", why)
    strides = tensor.element_strides[tensor.dimension_count - len(kept) :]
    moving = tuple(1 if s == 0 else n for n, s in zip(kept, strides, strict=True))
    if size_of(value.shape) == size_of(moving) and in_order(moving, strides):
        if size_of(shape) == size_of(moving):
            return graph.reshape(value, shape, "indices", "none for the repeated sizes")
        return graph.reshape(value, moving, "indices", "leaves the repeated sizes at 1")
    offset = positions(graph, kept, strides, "index_positions")
    why = "reads the indices at their strides"
    return graph.add("Gather", "indices", value, offset, why=why, shape=offset.shape, axis=0)


def _bounds(index: Value, sizes: Array) -> tuple[Value, Value]:
    """The first and the last index that is in range of each axis, in the type of the indices."""
    carried = index.dtype.kind == "f"  # 64-bit indices as floats, see `cpu/indices.py`
    info = np.iinfo(np.int64 if carried else index.dtype)
    first = 0 * sizes if index.dtype.kind == "u" else np.maximum(-sizes, info.min)
    last = np.minimum(sizes - 1, min(int(info.max), MAX_ELEMENTS))
    return (
        constant("first_index", first.astype(index.dtype)),
        constant("last_index", last.astype(index.dtype)),
    )


def clamp(graph: Graph, index: Value, sizes: Array) -> Value:
    """The indices clamped to [0, n), or [-n, n) for a signed type, n being the size of the axis.

    Args:
        graph: Takes the nodes.
        index: The indices.
        sizes: The sizes of the axes, as `axis_limits` gives them.
    """
    first, last = _bounds(index, sizes)
    if index.dtype == np.int64:
        # Not Clip: ONNX Runtime's CPU Min, Max and Clip compare the low halves of INT64 as signed
        # numbers, so that 2^31 … 2^32 - 1 count as negative (measured on 1.24.4 and 1.31.1).
        above, below = _above(graph, index, last), _below(graph, index, first)
        why = "moves indices past the end to the last element"
        limited = graph.add("Where", "indices_limited", above, last, index, why=why, dtype=np.int64)
        why = "moves indices before the beginning to the first element"
        return graph.add("Where", "indices_clamped", below, first, limited, why=why, dtype=np.int64)
    if index.dtype.kind == "u":
        why = "clamps to the last element, before a Cast could wrap"
        return graph.add("Min", "indices_clamped", index, last, why=why)
    if sizes.ndim == 0:
        why = "clamps to the axis; negative indices stay and count from its end"
        return graph.add("Clip", "indices_clamped", index, first, last, why=why)
    why = "clamps each coordinate to the last element of its own axis"
    index = graph.add("Min", "indices_limited", index, last, why=why)
    why = "clamps each coordinate to the first element of its own axis"
    return graph.add("Max", "indices_clamped", index, first, why=why)


def _above(graph: Graph, index: Value, last: Value) -> Value:
    why = "finds the indices past the end"
    return graph.add("Less", "is_above", last, index, why=why, dtype=bool)


def _below(graph: Graph, index: Value, first: Value) -> Value:
    why = "finds the indices before the beginning"
    return graph.add("Less", "is_below", index, first, why=why, dtype=bool)


def outside(graph: Graph, index: Value, sizes: Array) -> Value:
    """A mask: true where an index is out of range; arguments as of `clamp`."""
    first, last = _bounds(index, sizes)
    above = _above(graph, index, last)
    if index.dtype.kind == "u":
        return above
    below = _below(graph, index, first)
    return graph.add("Or", "is_outside", above, below, why="finds the indices out of range")


def non_negative(graph: Graph, index: Value, sizes: Array) -> Value:
    """The indices with the axis size added to the negative ones; arguments as of `clamp`."""
    zero = constant("zero", np.zeros((), index.dtype))
    size = constant("axis_size", sizes.astype(index.dtype))
    negative = graph.add(
        "Less", "is_negative", index, zero, why="finds the negative indices", dtype=bool
    )
    raised = graph.add("Add", "indices_raised", index, size, why="counts them from the end")
    why = "takes that where the index is negative"
    return graph.add(
        "Where", "indices_wrapped", negative, raised, index, why=why, dtype=index.dtype
    )


def axis_limits(gather: Gather) -> Array:
    """The sizes of the indexed dimensions, INT64: one per coordinate, a scalar if all are equal."""
    return np.array(gather.axes[0] if len(set(gather.axes)) == 1 else gather.axes, np.int64)


def sum_tuples(graph: Graph, gather: Gather, offset: Value) -> Value:
    """One offset per index tuple: the sum of the offsets of its coordinates."""
    if not gather.has_tuples:
        return offset
    shape = offset.shape[:-1]
    if offset.shape[-1] == 1:
        return graph.reshape(offset, shape, "tuple_offsets", "tuples of one coordinate")
    if offset.dtype != np.int32:
        offset = graph.cast(offset, np.int64, "offsets_int64", "a type that ReduceSum takes")
    axes = constant("tuple_axis", np.array([-1], np.int64))
    return graph.add(
        "ReduceSum",
        "tuple_offsets",
        offset,
        axes,
        why="adds the coordinates of a tuple",
        shape=shape,
        keepdims=0,
    )
