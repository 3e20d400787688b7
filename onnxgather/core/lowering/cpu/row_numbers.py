"""Index arithmetic that ONNX Runtime's CPU provider runs fast.

It has 32 bits, long rows, and a matrix product for index tuples.
"""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.arrays import Array, brought_in_range, is_outside
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.gather import Geometry
from onnxgather.core.lowering.cpu.facts import Facts
from onnxgather.core.lowering.graph import (
    LEFT_OUT,
    Graph,
    Shape,
    Value,
    constant,
    size_of,
)
from onnxgather.core.lowering.indices import (
    EXACT_FLOAT,
    axis_limits,
    clamp,
    non_negative,
    read_indices,
)
from onnxgather.core.options import OutOfRange

WIDEST_TILE = 2048
"""Elements of a row in which short vectors are repeated: ONNX Runtime's CPU kernels
spend about 17 ns on each row of a broadcast, so that two-element rows cost more than
the gather."""


def row_indices(graph: Graph, facts: Facts, shape: Shape) -> Value:
    """Return the number of the table's row that each row of the output comes from.

    An index out of range gives under "zero" the row behind the table, where a zero is
    appended. Under "error" it stays out of range.

    Args:
        graph: Gets the nodes.
        facts: The gather.
        shape: The shape of the numbers, of as many elements as the output has rows.
    """
    if facts.gather.has_tuples:
        rows = _tuple_rows(graph, facts)
        why = "the shape that the gather takes"
        return graph.reshape(rows, shape, "rows_shaped", why)
    return narrowed(graph, axis_indices(graph, facts, shape))


def axis_indices(graph: Graph, facts: Facts, shape: Shape) -> Value:
    """Return the indices in `shape`, limited as the policy says.

    The gather has no tuples.
    """
    gather = facts.gather
    tensor = facts.desc.indices_tensor
    index = read_indices(graph, tensor, gather.indices, shape, facts.indices)
    if facts.out_of_range == "zero":
        return _to_zero(graph, index, gather.axes[0])
    return limited(graph, index, axis_limits(gather), facts.out_of_range)


def limited(
    graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange
) -> Value:
    """Return the indices limited to [-n, n) of their axes.

    Under "error" those out of range stay so. The data type may be a float; `narrowed`
    casts it to a type that gathers accept.
    """
    if index.constant is not None:
        in_range = brought_in_range(index.constant, sizes)
        return constant("indices", in_range.astype(np.int32))
    is_signed = index.dtype.kind == "i"
    if out_of_range == "error":
        if is_signed:  # the gather refuses them as they are
            return index
        why = "keeps indices out of range from wrapping"
        return _clip(graph, index, None, int(sizes), why)
    if sizes.ndim > 0:  # each coordinate has its own axis
        return clamp(graph, _carried(graph, index, int(sizes.max())), sizes)
    size = int(sizes)
    first = -size if is_signed else None
    why = "clamps to the axis; negative indices stay and count from its end"
    return _clip(graph, index, first, size - 1, why)


def _clip(graph: Graph, index: Value, first: int | None, last: int, why: str) -> Value:
    """Return the indices limited to `first` … `last`; with None only to `last`."""
    lowest = first or 0
    index = _carried(graph, index, max(last, -lowest))
    low = LEFT_OUT
    if first is not None:
        low = constant("bound", np.array(first, index.dtype))
    high = constant("bound", np.array(last, index.dtype))
    shape = index.shape
    return graph.add("Clip", "indices_clipped", index, low, high, why=why, shape=shape)


def _carried(graph: Graph, index: Value, largest: int) -> Value:
    """Return 64-bit indices as floats, which ONNX Runtime clamps correctly.

    FLOAT32 or FLOAT64: rounding to either keeps the order, and the type holds every
    bound exactly.
    """
    if index.dtype.itemsize < 8:
        return index
    dtype = np.dtype(np.float32 if largest <= EXACT_FLOAT else np.float64)
    why = "keeps the order and every bound, unlike Min, Max and Clip of INT64"
    return graph.cast(index, dtype, f"indices_{dtype.name}", why)


def narrowed(graph: Graph, index: Value) -> Value:
    """Return limited indices as INT32, but INT64 where they still are INT64."""
    if index.dtype == np.int64:
        return index
    return graph.cast(index, np.int32, "indices_int32", "half the bytes of INT64")


def _to_zero(graph: Graph, index: Value, size: int) -> Value:
    """Return the indices, those out of range replaced by n.

    n is the index of the zero behind n elements.
    """
    limit = np.array(size, np.int64)
    if index.constant is not None:
        inside = brought_in_range(index.constant, limit)
        outside = is_outside(index.constant, size)
        index_or_zero = np.where(outside, size, inside)
        return constant("indices", index_or_zero.astype(np.int32))
    why = "keeps indices out of range just out of it"
    if index.dtype.kind != "i":
        return _clip(graph, index, None, size, why)
    # -n - 1 becomes -1 below, the index of the zero from the end.
    index = _clip(graph, index, -size - 1, size, why)
    return non_negative(graph, narrowed(graph, index), limit)


def _tuple_rows(graph: Graph, facts: Facts) -> Value:
    """Return the row that each index tuple leads to, numbered through all tables."""
    gather = facts.gather
    strides = np.array([packed_strides(gather.axes)], np.int32).T
    tensor = facts.desc.indices_tensor
    shape = gather.indices
    tuples = read_indices(graph, tensor, shape, shape, facts.indices)
    if tuples.constant is not None:
        axes = np.array(gather.axes, np.int64)
        inside = brought_in_range(tuples.constant, axes)
        rows = constant("rows", (inside @ strides).astype(np.int32))
    else:
        coordinates = _limited_tuples(graph, facts, tuples)
        rows = _product(graph, gather, coordinates, strides)
    tables = facts.tables
    if tables > 1:
        # The tuples of a batch choose from its own table.
        shape = (tables, size_of(gather.per_index) // tables)
        rows = graph.reshape(rows, shape, "rows_of_batches", "by batch")
        first = graph.arange(tables, size_of(gather.axes), np.int32, "first_rows")
        first = graph.reshape(first, (tables, 1), "first_rows", "one per batch")
        rows = graph.add("Add", "rows", rows, first, why="adds where each batch begins")
    return rows


def _limited_tuples(graph: Graph, facts: Facts, tuples: Value) -> Value:
    """Return the coordinates of index tuples, clamped to [0, n) of their axes."""
    limits = axis_limits(facts.gather)
    if limits.ndim > 0:
        total = size_of(facts.gather.per_index)
        length = len(limits)
        tile = divisor(total, WIDEST_TILE // length)
        shape = (total // tile, tile * length)
        why = "several tuples a row, as narrow rows are slow"
        tuples = graph.reshape(tuples, shape, "tuples", why)
        limits = np.tile(limits, tile)
    value = limited(graph, tuples, limits, "clamp")
    if facts.signed:
        value = non_negative(graph, value, limits)
    return value


def _product(
    graph: Graph, gather: Geometry, coordinates: Value, strides: Array
) -> Value:
    """Return the sum of coordinate x stride for each tuple, by a matrix product.

    In FLOAT32 a row of the product holds several tuples, which halves the time of
    INT32.
    """
    total = size_of(gather.per_index)
    dtype = "int32"
    tuples_per_row = 1
    if size_of(gather.axes) <= EXACT_FLOAT:
        dtype = "float32"
        tuples_per_row = divisor(total, 8)
    rows = total // tuples_per_row
    why = "a type that MatMul takes"
    value = graph.cast(coordinates, dtype, f"tuples_{dtype}", why)
    shape = (rows, tuples_per_row * len(strides))
    value = graph.reshape(value, shape, "tuples_of_product", "the product's rows")
    # A column of the factor has the strides at the place of its tuple, and zeros.
    blocks = np.kron(np.eye(tuples_per_row), strides)
    factor = constant("strides", blocks.astype(dtype))
    shape = (rows, tuples_per_row)
    why = "coordinate x stride, added up for each tuple"
    product = graph.add("MatMul", "rows_product", value, factor, why=why, shape=shape)
    why = "an index type that gathers take"
    return graph.cast(product, np.int32, "rows_int32", why)


def divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number up to `most`."""
    candidate = max(1, min(number, most))
    while number % candidate:
        candidate -= 1
    return candidate
