"""Index arithmetic that ONNX Runtime's CPU provider runs fast: 32 bits, long rows, one product."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, OutOfRange, brought_in_range
from onnxgather.arrays import outside as is_outside
from onnxgather.lowering.facts import Facts
from onnxgather.lowering.graph import LEFT_OUT, Graph, Value, constant, size_of
from onnxgather.lowering.indices import outside, wrap
from onnxgather.lowering.offsets import directml_index

WIDEST_TILE = 2048
"""Elements of a row in which short vectors are repeated: ONNX Runtime's CPU kernels spend about
17 ns on each row of a broadcast, so that two-element rows cost more than the gather."""

EXACT_FLOAT = 2**24
"""Integers up to which FLOAT32 arithmetic is exact."""


def limited(graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange) -> Value:
    """Return indices of one axis in [-n, n); where that is an error, those outside stay there.

    `narrowed` brings them to an index type. FLOAT64 carries INT64 through the clamp: it keeps the
    order, and every bound exactly, while ONNX Runtime's CPU Clip gets INT64 wrong.
    """
    size = int(sizes)
    if index.constant is not None:
        return constant("indices", brought_in_range(index.constant, sizes).astype(np.int32))
    dtype = index.dtype
    error = out_of_range == "error"
    if error and dtype.kind == "i":
        return index
    if dtype.kind == "u":
        last = constant("last_index", np.array(size if error else size - 1, dtype))
        why = "keeps indices out of range from wrapping" if error else "clamps to the last element"
        bounds = (LEFT_OUT, last)
    else:
        if dtype == np.int64:
            why = "keeps the order and every bound, unlike Clip of INT64"
            index = graph.cast(index, np.float64, "indices_float64", why)
        first, last = np.array(-size, index.dtype), np.array(size - 1, index.dtype)
        bounds = (constant("first_index", first), constant("last_index", last))
        why = "clamps to the axis; negative indices stay and count from its end"
    return graph.add("Clip", "indices_clamped", index, *bounds, why=why, shape=index.shape)


def narrowed(graph: Graph, index: Value) -> Value:
    """Return limited indices in a type that gathers take, INT32 unless they came as INT64."""
    if index.dtype == np.int64:
        return index
    return graph.cast(index, np.int32, "indices_int32", "half the bytes of INT64")


def clipped(graph: Graph, index: Value, size: int) -> Value:
    """Return indices of one axis, those out of range as n, or -n - 1 below; see `narrowed`."""
    dtype = index.dtype
    if dtype == np.int64:
        why = "keeps the order and every bound, unlike Clip of INT64"
        index = graph.cast(index, np.float64, "indices_float64", why)
    first = (
        constant("before_first", np.array(-size - 1, index.dtype))
        if dtype.kind == "i"
        else LEFT_OUT
    )
    last = constant("past_last", np.array(size, index.dtype))
    why = "keeps indices out of range just out of it"
    return graph.add("Clip", "indices_clipped", index, first, last, why=why, shape=index.shape)


def any_outside(graph: Graph, index: Value, size: int, *, signed: bool) -> Value:
    """Return whether any of the clipped indices is out of range."""
    last = constant("last_index", np.array(size - 1, np.int32))
    most = graph.add("ReduceMax", "largest", index, why="the largest", shape=(), keepdims=0)
    outside = graph.add("Less", "is_above", last, most, why="past the end", dtype=bool)
    if not signed:
        return outside
    first = constant("first_index", np.array(-size, np.int32))
    least = graph.add("ReduceMin", "smallest", index, why="the smallest", shape=(), keepdims=0)
    below = graph.add("Less", "is_below", least, first, why="before the beginning", dtype=bool)
    return graph.add("Or", "is_outside", outside, below, why="any index out of range")


def to_slot(graph: Graph, index: Value, size: int) -> Value:
    """Return indices where those out of range name the zero behind the n elements."""
    if index.constant is not None:
        signed = index.dtype.kind == "i"
        wide = np.minimum(index.constant, index.dtype.type(min(size, np.iinfo(index.dtype).max)))
        wide = wide.astype(np.int64)
        wide = np.where((wide < 0) & signed, np.maximum(wide, -size - 1) + size, wide)
        return constant("indices", np.where(wide < 0, size, wide).astype(np.int32))
    signed = index.dtype.kind == "i"
    index = clipped(graph, index, size)
    return wrap(graph, narrowed(graph, index), np.array(size, np.int64)) if signed else index


def directml_offset(graph: Graph, facts: Facts, index: Value, last: int) -> Value:
    """Return offsets in INT32 as DirectML computes them for single elements of one table."""
    if facts.place.has_tuples:
        length = len(facts.axes)
        total = size_of(index.shape[:-1])
        tile = divisor(total, WIDEST_TILE // length)
        why = "several tuples a row, as narrow rows are slow"
        index = graph.reshape(index, (total // tile, tile * length), "tuples", why)
        index = directml_index(graph, index, np.tile(np.array(facts.axes, np.int64), tile))
        index = graph.reshape(index, (total, length), "tuples_of_product", "the product's rows")
        # As given: packed ones would differ where the stride of a size of 1 is written out.
        given = facts.desc.input_tensor.element_strides
        strides = np.array([[given[k]] for k in facts.place.indexed], np.uint32)
        factor = constant("strides", strides)
        why = "coordinate x stride, added up modulo 2^32"
        index = graph.add("MatMul", "offsets", index, factor, why=why, shape=(total, 1))
    else:
        index = directml_index(graph, index, np.array(facts.axes[0], np.int64))
    limit = constant("last_offset", np.array(last, np.uint32))
    why = "DirectML reads the buffer's last element past its end"
    index = graph.add("Clip", "offsets_limited", index, LEFT_OUT, limit, why=why, shape=index.shape)
    return graph.cast(index, np.int32, "offsets_int32", "half the bytes of INT64")


def linear(graph: Graph, facts: Facts, tuples: Value) -> Value:
    """Return the row of the table that each index tuple names, INT32, one per tuple."""
    sizes, count = np.array(facts.axes, np.int64), tuples.shape
    total, length = size_of(count[:-1]), count[-1]
    strides = np.array([size_of(facts.axes[k + 1 :]) for k in range(length)], np.int64)
    if tuples.constant is not None:
        pairs = tuples.constant.reshape(total, length)
        offset = brought_in_range(pairs, sizes) @ strides
        if facts.out_of_range == "zero":
            offset[is_outside(pairs, sizes).any(axis=-1)] = facts.table
        value = constant("rows", offset.astype(np.int32))
    else:
        tile = divisor(total, WIDEST_TILE // length)
        shape = (total // tile, tile * length)
        why = "several tuples a row, as narrow rows are slow"
        value = graph.reshape(tuples, shape, "tuples", why)
        raw, tiled = value, np.tile(sizes, tile)
        value = _limited_tuples(graph, raw, tiled)
        value = _products(graph, value, total, strides, size_of(facts.axes))
        if facts.out_of_range == "zero":
            value = _rows_or_slot(graph, facts, value, outside(graph, raw, tiled))
    batches = facts.before
    if batches > 1:
        value = graph.reshape(value, (batches, total // batches), "rows_of_batches", "by batch")
        first = graph.arange(batches, size_of(facts.axes), np.int32, "first_rows")
        first = graph.reshape(first, (batches, 1), "first_rows", "one per batch")
        value = graph.add("Add", "rows", value, first, why="adds where each batch begins")
    return graph.reshape(value, (total,), "rows_flat", "one row number per tuple")


def _rows_or_slot(graph: Graph, facts: Facts, rows: Value, mask: Value) -> Value:
    """Return the row numbers, that of the zeros behind the table where the mask holds."""
    beyond = np.full(len(facts.axes), facts.table, np.int64)
    total = size_of(mask.shape) // len(facts.axes)
    past = _products(graph, mask, total, beyond, size_of(facts.axes))
    past = graph.reshape(past, rows.shape, "rows_past", "one per tuple")
    rows = graph.add("Add", "rows_or_past", rows, past, why="past the table if out of range")
    slot = constant("row_of_zeros", np.array(facts.table, np.int32))
    return graph.add("Min", "rows_or_zeros", rows, slot, why="the row of zeros behind the table")


def _limited_tuples(graph: Graph, value: Value, sizes: Array) -> Value:
    """Return coordinates in [0, n) of their own axes, as UINT32, INT32 or FLOAT64."""
    dtype = value.dtype
    why = "clamps each coordinate to the last element of its own axis"
    if dtype.kind == "u":
        last = constant("last_index", (sizes - 1).astype(dtype))
        value = graph.add("Min", "tuples_clamped", value, last, why=why)
        return graph.cast(value, np.uint32, "tuples_uint32", "half the bytes of UINT64")
    if dtype == np.int64:
        keeps = "keeps the order and every bound, unlike Min and Max of INT64"
        value = graph.cast(value, np.float64, "tuples_float64", keeps)
    dtype = value.dtype
    value = graph.add(
        "Min", "tuples_limited", value, constant("last_index", (sizes - 1).astype(dtype)), why=why
    )
    first = constant("first_index", (-sizes).astype(dtype))
    why = "clamps each coordinate to the first element of its own axis"
    value = graph.add("Max", "tuples_clamped", value, first, why=why)
    zero, size = constant("zero", np.zeros((), dtype)), constant("axis_size", sizes.astype(dtype))
    negative = graph.add("Less", "is_negative", value, zero, why="finds negative ones", dtype=bool)
    raised = graph.add("Add", "tuples_raised", value, size, why="counts them from the end")
    why = "takes that where the coordinate is negative"
    return graph.add("Where", "tuples_wrapped", negative, raised, value, why=why, dtype=dtype)


def _products(graph: Graph, value: Value, total: int, strides: Array, rows: int) -> Value:
    """Return coordinate x stride, summed over each tuple, by a matrix product."""
    length = len(strides)
    if rows <= EXACT_FLOAT:
        several = divisor(total, 8)
        matrix = np.kron(np.eye(several), strides.reshape(-1, 1)).astype(np.float32)
        value = graph.cast(value, np.float32, "tuples_float32", "exact up to 2^24")
    else:
        several = 1
        matrix = strides.reshape(-1, 1).astype(np.int32)
        value = graph.cast(value, np.int32, "tuples_int32", "a type that MatMul takes")
    shape = (total // several, several * length)
    value = graph.reshape(value, shape, "tuples_of_product", "the product's rows")
    why = "coordinate x stride, added up for each tuple"
    value = graph.add(
        "MatMul",
        "rows_product",
        value,
        constant("strides", matrix),
        why=why,
        shape=(total // several, several),
    )
    return graph.cast(value, np.int32, "rows_int32", "an index type that gathers take")


def divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number up to `most`."""
    return next(d for d in range(max(1, min(number, most)), 0, -1) if number % d == 0)
