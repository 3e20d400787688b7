"""Nodes for indices: read at their strides, clamped, and whether they are in range."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.checks import MAX_ELEMENTS
from onnxgather.core.descriptors.arrays import Array, elements
from onnxgather.core.descriptors.strides import in_order
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.gather import Geometry
from onnxgather.core.lowering.graph import Graph, Shape, Value, constant, size_of
from onnxgather.core.lowering.positions import positions

INDICES = "IndicesTensor"

EXACT_FLOAT = 2**24
"""Integers up to which FLOAT32 arithmetic is exact."""

LONGEST_INT32 = 2**31
"""The longest axis whose indices INT32 holds."""

_EXACT = "keeps the order and every bound, unlike Less, Min, Max and Clip of INT64"


def read_indices(
    graph: Graph,
    tensor: TensorDesc,
    kept: Shape,
    shape: Shape,
    array: Array | None,
    dtype: Any = None,
) -> Value:
    """Return the indices in `shape`.

    With strides they are in the sizes that count, or 1 where they are repeated.

    Args:
        graph: Gets the graph input and the nodes.
        tensor: IndicesTensor.
        kept: The sizes of the tensor that count.
        shape: The shape that the operator accepts, of as many elements as `kept`.
        array: The array that stands for the tensor, if it is known; else None.
        dtype: The data type in which those that are not known come back; None means
            their own.
    """
    if array is not None:
        return constant("indices", elements(tensor, array).reshape(shape))
    value = graph.input(INDICES, tensor.data_type.numpy, tensor.array_shape)
    if dtype is not None:
        # First, as WebGPU's provider has no Reshape of INT64 and gathers none.
        why = _EXACT if dtype is np.float32 else "the low 32 bits"
        value = graph.cast(value, dtype, f"indices_{np.dtype(dtype).name}", why)
    count = size_of(value.shape)

    # Case 1: the buffer holds the indices in order, each of them once.
    if tensor.is_packed and count == size_of(kept):
        why = "drops the leading ones that do not count"
        if len(shape) > len(value.shape):
            why = "adds leading ones for the output"
        return graph.reshape(value, shape, "indices", why)

    # Case 2: they are in order, but those of stride 0 are repeated.
    leading = tensor.dimension_count - len(kept)
    strides = tensor.element_strides[leading:]
    pairs = zip(kept, strides, strict=True)
    moving = tuple(1 if stride == 0 else size for size, stride in pairs)
    if count == size_of(moving) and in_order(moving, strides):
        if size_of(shape) == count:
            why = "none for the repeated sizes"
            return graph.reshape(value, shape, "indices", why)
        why = "leaves the repeated sizes at 1"
        return graph.reshape(value, moving, "indices", why)

    # Case 3: any strides.
    offset = positions(graph, kept, strides, "index_positions")
    why = "reads the indices at their strides"
    return graph.add(
        "Gather", "indices", value, offset, why=why, shape=offset.shape, axis=0
    )


def clamp(graph: Graph, index: Value, sizes: Array) -> Value:
    """Return the indices clamped to [0, n), or [-n, n) for a signed type.

    n is the size of the axis. INT64 indices come back as FLOAT32 or as INT32 where
    these hold n: in Min, Max and Clip the CPU provider compares the low halves of INT64
    as signed numbers before ONNX Runtime 1.32, and DirectML does so in Less too, so
    that 2^31 … 2^32 - 1 count as negative.

    Args:
        graph: Gets the nodes.
        index: The indices.
        sizes: The sizes of the axes, as `axis_limits` gives them.
    """
    if index.dtype == np.int64:
        largest = int(sizes.max())
        if largest > LONGEST_INT32:
            return _clamp_biased(graph, index, sizes)
        if largest > EXACT_FLOAT:
            return _clamp_fitting(graph, index, sizes)
        index = graph.cast(index, np.float32, "indices_float32", _EXACT)
    first, last = _bounds(index.dtype, sizes)
    return _limit(graph, index, first, last)


def _bounds(dtype: np.dtype[Any], sizes: Array) -> tuple[Value, Value]:
    """Return the first and the last index of each axis, in the type of the indices."""
    # Floats stand for INT64.
    info = np.iinfo(np.int64 if dtype.kind == "f" else dtype)
    first = np.maximum(-sizes, info.min)
    most = min(int(info.max), MAX_ELEMENTS)
    last = np.minimum(sizes - 1, most)
    first_index = constant("first_index", first.astype(dtype))
    last_index = constant("last_index", last.astype(dtype))
    return first_index, last_index


def _limit(graph: Graph, index: Value, first: Value, last: Value) -> Value:
    """Return the indices limited to `first` … `last`; unsigned ones only to `last`."""
    if index.dtype.kind == "u":
        why = "clamps to the last element, before a Cast could wrap"
        return bounded(graph, "Min", "indices_clamped", index, last, why)
    if not last.shape:
        why = "clamps to the axis; negative indices stay and count from its end"
        return graph.add("Clip", "indices_clamped", index, first, last, why=why)
    # Clip accepts scalar bounds alone, and each axis has its own.
    why = "clamps each coordinate to the last element of its own axis"
    index = bounded(graph, "Min", "indices_limited", index, last, why)
    why = "clamps each coordinate to the first element of its own axis"
    return bounded(graph, "Max", "indices_clamped", index, first, why)


def bounded(
    graph: Graph, op: str, name: str, value: Value, bound: Value, why: str
) -> Value:
    """Return the Min or Max of a value and a bound."""
    if not graph.narrow:
        return graph.add(op, name, value, bound, why=why)
    # The target webgpu has neither: Less and Where stand for them.
    pair = (bound, value) if op == "Min" else (value, bound)
    beyond = graph.add("Less", "is_beyond", *pair, why="finds those beyond the bound")
    return graph.add("Where", name, beyond, bound, value, why=why)


def _clamp_fitting(graph: Graph, index: Value, sizes: Array) -> Value:
    """Return INT64 indices clamped as INT32, for axes of at most 2^31 elements."""
    first, last = _bounds(np.dtype(np.int32), sizes)
    word = _low_word(graph, index)
    why = "to compare with the whole indices"
    back = graph.cast(word, np.int64, "words_int64", why)
    why = "finds those that INT32 holds"
    fits = graph.add("Equal", "fits", back, index, why=why)
    negative = is_negative(graph, index)
    why = "the end of the axis on the side of the index"
    end = graph.add("Where", "nearest_end", negative, first, last, why=why)
    limited = _limit(graph, word, first, last)
    why = "clamps what INT32 does not hold"
    return graph.add("Where", "indices_clamped", fits, limited, end, why=why)


def _clamp_biased(graph: Graph, index: Value, sizes: Array) -> Value:
    """Return INT64 indices clamped as UINT64.

    Adding 2^63 keeps their order, and it is its own inverse.
    """
    bias = constant("bias", np.array(-(2**63), np.int64))
    middle = np.array(2**63, np.uint64)
    lowest = middle - sizes.astype(np.uint64)
    first = constant("first_index", np.asarray(lowest))
    highest = middle + (sizes - 1).astype(np.uint64)
    last = constant("last_index", np.asarray(highest))
    why = "keeps the order as UINT64"
    raised = graph.add("Add", "indices_biased", index, bias, why=why)
    why = "a type that is compared rightly"
    raised = graph.cast(raised, np.uint64, "indices_uint64", why)
    why = "clamps each index to the first element of its own axis"
    raised = graph.add("Max", "indices_raised", raised, first, why=why)
    raised = _limit(graph, raised, first, last)
    why = "to take the bias away"
    raised = graph.cast(raised, np.int64, "indices_biased_int64", why)
    why = "takes the bias away"
    return graph.add("Add", "indices_int64", raised, bias, why=why)


def _low_word(graph: Graph, index: Value) -> Value:
    why = "the low 32 bits"
    return graph.cast(index, np.int32, "index_words", why)


def is_negative(graph: Graph, index: Value, largest: int | None = None) -> Value:
    """Return a mask: true where an index is negative.

    Args:
        graph: Gets the nodes.
        index: The indices.
        largest: The largest index that there may be; None means any that the type
            holds.
    """
    is_any = largest is None or largest >= LONGEST_INT32
    if index.dtype == np.int64 and is_any:
        why = "keeps the sign, and DirectML compares FLOAT32 rightly, INT64 not"
        index = graph.cast(index, np.float32, "indices_float32", why)
    zero = constant("zero", np.zeros((), index.dtype))
    why = "finds the negative indices"
    return graph.add("Less", "is_negative", index, zero, why=why)


def outside_mask(graph: Graph, index: Value, clamped: Value, sizes: Array) -> Value:
    """Return a mask: true where an index is out of range.

    Args:
        graph: Gets the nodes.
        index: The indices.
        clamped: What `clamp` made of them.
        sizes: The sizes of the axes, as `axis_limits` gives them.
    """
    if index.dtype == np.int64 or index.dtype.kind == "f":
        return _changed_mask(graph, index, clamped, sizes)
    first, last = _bounds(index.dtype, sizes)
    why = "finds the indices past the end"
    above = graph.add("Less", "is_above", last, index, why=why)
    if index.dtype.kind == "u":
        return above
    why = "finds the indices before the beginning"
    below = graph.add("Less", "is_below", index, first, why=why)
    why = "finds the indices out of range"
    return graph.add("Or", "is_outside", above, below, why=why)


def _changed_mask(graph: Graph, index: Value, clamped: Value, sizes: Array) -> Value:
    """Return a mask: true where `clamp` changed an index, INT64 or a float."""
    # In FLOAT32, where it is exact: OpenVINO compares INT64 by its low 32 bits.
    is_exact = int(sizes.max()) < EXACT_FLOAT
    dtype = clamped.dtype if is_exact else index.dtype
    why = "to compare with the indices"
    kept = graph.cast(clamped, dtype, "indices_kept", why)
    why = "the type of what was clamped"
    index = graph.cast(index, dtype, "indices_float32", why)
    why = "finds the indices in range, which the clamp left as they were"
    same = graph.add("Equal", "is_inside", kept, index, why=why)
    why = "finds the indices out of range"
    return graph.add("Not", "is_outside", same, why=why)


def non_negative(
    graph: Graph, index: Value, sizes: Array, negative: Value | None = None
) -> Value:
    """Return the indices with the axis size added to the negative ones.

    Args:
        graph: Gets the nodes.
        index: The indices, in [-n, n) unless `negative` is given.
        sizes: The sizes of the axes, as `axis_limits` gives them.
        negative: A mask of the negative indices, if there is one.
    """
    if negative is None:
        largest = int(sizes.max()) - 1
        negative = is_negative(graph, index, largest)
    size = constant("axis_size", sizes.astype(index.dtype))
    why = "counts them from the end"
    raised = graph.add("Add", "indices_raised", index, size, why=why)
    why = "takes that where the index is negative"
    return graph.add("Where", "indices_wrapped", negative, raised, index, why=why)


def wrapped_word(
    graph: Graph, index: Value, sizes: Array, negative: Value | None = None
) -> Value:
    """Return the indices as words of 32 bits, as DirectML reads them.

    The axis size is added to negative ones, and the low 32 bits are kept. DirectML
    reads UINT64 as INT64.

    Args:
        graph: Gets the nodes.
        index: The indices, or with `negative` their low 32 bits.
        sizes: The sizes of the axes, as `axis_limits` gives them.
        negative: A mask of the negative indices, if there is one.
    """
    why = "DirectML keeps the low 32 bits"
    if index.dtype == np.uint32:
        return graph.cast(index, graph.word, "index_words", why)
    if index.dtype == np.uint64:
        as_signed = "DirectML reads UINT64 as INT64"
        index = graph.cast(index, np.int64, "indices_int64", as_signed)
    if negative is None:
        negative = is_negative(graph, index)
    raised = non_negative(graph, _low_word(graph, index), sizes, negative)
    return graph.cast(raised, graph.word, "indices_uint32", why)


def axis_limits(gather: Geometry) -> Array:
    """Return the sizes of the indexed dimensions, INT64.

    There is a size for each coordinate, or a scalar if all are equal.
    """
    axes = gather.axes
    sizes = axes[0] if len(set(axes)) == 1 else axes
    return np.array(sizes, np.int64)


def sum_tuples(graph: Graph, gather: Geometry, offset: Value) -> Value:
    """Return the offset of each index tuple: the sum over its coordinates."""
    if not gather.has_tuples:
        return offset
    shape = offset.shape[:-1]
    if offset.shape[-1] == 1:
        why = "tuples of one coordinate"
        return graph.reshape(offset, shape, "tuple_offsets", why)
    if graph.narrow:
        return _sum_coordinates(graph, offset)
    if offset.dtype != np.int32:
        why = "a type that ReduceSum takes"
        offset = graph.cast(offset, np.int64, "offsets_int64", why)
    axes = constant("tuple_axis", np.array([-1], np.int64))
    why = "adds the coordinates of a tuple"
    return graph.add(
        "ReduceSum", "tuple_offsets", offset, axes, why=why, shape=shape, keepdims=0
    )


def _sum_coordinates(graph: Graph, offset: Value) -> Value:
    """Return the sum of the last dimension without ReduceSum, by a chain of Adds."""
    shape = offset.shape[:-1]
    axis = len(shape)
    why = "one coordinate of each tuple"
    coordinates: list[Value] = []
    for position in range(offset.shape[-1]):
        number = constant("number", np.array(position, np.int32))
        coordinate = graph.add(
            "Gather", "coordinate", offset, number, why=why, shape=shape, axis=axis
        )
        coordinates.append(coordinate)
    why = (
        "adds the coordinates; a ReduceSum of UINT32 is not everywhere, of INT32"
        " not exact"
    )
    total = coordinates[0]
    for coordinate in coordinates[1:]:
        total = graph.add("Add", "tuple_offsets", total, coordinate, why=why)
    return total
