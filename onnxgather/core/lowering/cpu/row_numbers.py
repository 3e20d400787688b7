"""Index arithmetic that ONNX Runtime's CPU provider runs fast: 32 bits, long rows, one product."""

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
    """The number of the table's row that each row of the output comes from.

    An index out of range gives under "zero" the row behind the table, where a zero is
    appended. Under "error" it stays out of range.

    Args:
        graph: Takes the nodes.
        facts: The gather.
        shape: The shape of the numbers, of as many elements as the output has rows.
    """
    if facts.gather.has_tuples:
        rows = _tuple_rows(graph, facts)
        return graph.reshape(
            rows, shape, "rows_shaped", "the shape that the gather takes"
        )
    return narrowed(graph, axis_indices(graph, facts, shape))


def axis_indices(graph: Graph, facts: Facts, shape: Shape) -> Value:
    """The indices of a gather without tuples, in `shape`, limited as the policy says."""
    gather = facts.gather
    index = read_indices(
        graph, facts.desc.indices_tensor, gather.indices, shape, facts.known
    )
    if facts.out_of_range == "zero":
        return _to_zero(graph, index, gather.axes[0])
    return limited(graph, index, axis_limits(gather), facts.out_of_range)


def limited(
    graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange
) -> Value:
    """The indices limited to [-n, n) of their axes, but under "error" out of range where they were.

    Their data type may be a float; `narrowed` casts them to a type that gathers take.
    """
    if index.constant is not None:
        return constant(
            "indices", brought_in_range(index.constant, sizes).astype(np.int32)
        )
    signed, error = index.dtype.kind == "i", out_of_range == "error"
    if error and signed:
        return index
    if error:
        return _clip(
            graph, index, None, int(sizes), "keeps indices out of range from wrapping"
        )
    if sizes.ndim > 0:
        return clamp(graph, _carried(graph, index, int(sizes.max())), sizes)
    first, last = -int(sizes) if signed else None, int(sizes) - 1
    why = "clamps to the axis; negative indices stay and count from its end"
    return _clip(graph, index, first, last, why)


def _clip(graph: Graph, index: Value, first: int | None, last: int, why: str) -> Value:
    index = _carried(graph, index, max(last, -(first or 0)))
    low, high = (
        LEFT_OUT if bound is None else constant("bound", np.array(bound, index.dtype))
        for bound in (first, last)
    )
    return graph.add(
        "Clip", "indices_clipped", index, low, high, why=why, shape=index.shape
    )


def _carried(graph: Graph, index: Value, largest: int) -> Value:
    """64-bit indices as floats, which ONNX Runtime clamps correctly.

    FLOAT32 or FLOAT64: rounding to either keeps the order, and the type holds every
    bound exactly.
    """
    if index.dtype.itemsize < 8:
        return index
    why = "keeps the order and every bound, unlike Min, Max and Clip of INT64"
    exact = largest <= EXACT_FLOAT
    dtype, name = (np.float32, "float32") if exact else (np.float64, "float64")
    return graph.cast(index, dtype, f"indices_{name}", why)


def narrowed(graph: Graph, index: Value) -> Value:
    """Limited indices as INT32, but INT64 where they still are INT64."""
    if index.dtype == np.int64:
        return index
    return graph.cast(index, np.int32, "indices_int32", "half the bytes of INT64")


def _to_zero(graph: Graph, index: Value, size: int) -> Value:
    """The indices, those out of range replaced by n, the index of the zero behind n elements."""
    limit = np.array(size, np.int64)
    if index.constant is not None:
        inside = brought_in_range(index.constant, limit)
        index_or_zero = np.where(is_outside(index.constant, size), size, inside)
        return constant("indices", index_or_zero.astype(np.int32))
    signed = index.dtype.kind == "i"
    first, why = (
        -size - 1 if signed else None,
        "keeps indices out of range just out of it",
    )
    index = _clip(graph, index, first, size, why)
    return non_negative(graph, narrowed(graph, index), limit) if signed else index


def _tuple_rows(graph: Graph, facts: Facts) -> Value:
    """The row that each index tuple leads to, numbered through all tables, INT32."""
    gather, known = facts.gather, facts.known
    total, tables = size_of(gather.per_index), facts.tables
    strides = np.array([packed_strides(gather.axes)], np.int32).T
    tuples = read_indices(
        graph, facts.desc.indices_tensor, gather.indices, gather.indices, known
    )
    if tuples.constant is not None:
        inside = brought_in_range(tuples.constant, np.array(gather.axes, np.int64))
        rows = constant("rows", (inside @ strides).astype(np.int32))
    else:
        rows = _product(graph, gather, _limited_tuples(graph, facts, tuples), strides)
    if tables > 1:
        rows = graph.reshape(
            rows, (tables, total // tables), "rows_of_batches", "by batch"
        )
        first = graph.arange(tables, size_of(gather.axes), np.int32, "first_rows")
        first = graph.reshape(first, (tables, 1), "first_rows", "one per batch")
        rows = graph.add("Add", "rows", rows, first, why="adds where each batch begins")
    return rows


def _limited_tuples(graph: Graph, facts: Facts, tuples: Value) -> Value:
    """The coordinates of index tuples, clamped to [0, n) of their axes."""
    limits = axis_limits(facts.gather)
    if limits.ndim > 0:
        total, length = size_of(facts.gather.per_index), len(limits)
        tile = divisor(total, WIDEST_TILE // length)
        why = "several tuples a row, as narrow rows are slow"
        tuples = graph.reshape(tuples, (total // tile, tile * length), "tuples", why)
        limits = np.tile(limits, tile)
    value = limited(graph, tuples, limits, "clamp")
    return non_negative(graph, value, limits) if facts.signed else value


def _product(
    graph: Graph, gather: Geometry, coordinates: Value, strides: Array
) -> Value:
    """The sum of coordinate x stride for each tuple, by a matrix product.

    In FLOAT32 a row of the product holds several tuples, which halves the time of
    INT32.
    """
    total, dtype, several = size_of(gather.per_index), "int32", 1
    if size_of(gather.axes) <= EXACT_FLOAT:
        dtype, several = "float32", divisor(total, 8)
    shape = (total // several, several * len(strides))
    value = graph.cast(
        coordinates, dtype, f"tuples_{dtype}", "a type that MatMul takes"
    )
    value = graph.reshape(value, shape, "tuples_of_product", "the product's rows")
    factor = constant("strides", np.kron(np.eye(several), strides).astype(dtype))
    why, shape = (
        "coordinate x stride, added up for each tuple",
        (total // several, several),
    )
    rows = graph.add("MatMul", "rows_product", value, factor, why=why, shape=shape)
    return graph.cast(rows, np.int32, "rows_int32", "an index type that gathers take")


def divisor(number: int, most: int) -> int:
    """The largest divisor of a number up to `most`."""
    return next(d for d in range(max(1, min(number, most)), 0, -1) if number % d == 0)
