"""Index arithmetic that ONNX Runtime's CPU provider runs fast: 32 bits, long rows, one product."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, brought_in_range
from onnxgather.arrays import outside as is_outside
from onnxgather.lowering.facts import Facts
from onnxgather.lowering.graph import LEFT_OUT, Graph, Value, constant, size_of
from onnxgather.lowering.indices import clamp, outside, wrap
from onnxgather.lowering.offsets import directml_index
from onnxgather.options import OutOfRange

WIDEST_TILE = 2048
"""Elements of a row in which short vectors are repeated: ONNX Runtime's CPU kernels spend about
17 ns on each row of a broadcast, so that two-element rows cost more than the gather."""

EXACT_FLOAT = 2**24
"""Integers up to which FLOAT32 arithmetic is exact."""

TILE = 2**14
"""Index tuples whose row numbers are found at once: all of that arithmetic stays in the cache."""


def limited(graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange) -> Value:
    """Return indices in [-n, n) of their axes; where that is an error, those outside stay there.

    `narrowed` brings them to an index type.
    """
    if index.constant is not None:
        return constant("indices", brought_in_range(index.constant, sizes).astype(np.int32))
    signed, error = index.dtype.kind == "i", out_of_range == "error"
    if error and signed:
        return index
    if error:
        return _clip(graph, index, None, int(sizes), "keeps indices out of range from wrapping")
    if sizes.ndim > 0:
        return clamp(graph, _carried(graph, index, int(sizes.max())), sizes)
    first, last = -int(sizes) if signed else None, int(sizes) - 1
    why = "clamps to the axis; negative indices stay and count from its end"
    return _clip(graph, index, first, last, why)


def clipped(graph: Graph, index: Value, size: int) -> Value:
    """Return indices of one axis, those out of range as n, or -n - 1 below; see `narrowed`."""
    first = -size - 1 if index.dtype.kind == "i" else None
    return _clip(graph, index, first, size, "keeps indices out of range just out of it")


def _clip(graph: Graph, index: Value, first: int | None, last: int, why: str) -> Value:
    index = _carried(graph, index, max(last, -(first or 0)))
    low, high = (
        LEFT_OUT if bound is None else constant("bound", np.array(bound, index.dtype))
        for bound in (first, last)
    )
    return graph.add("Clip", "indices_clipped", index, low, high, why=why, shape=index.shape)


def _carried(graph: Graph, index: Value, largest: int) -> Value:
    """Return 64-bit indices as numbers that ONNX Runtime compares right, and in fewer bytes.

    Rounding keeps the order, and both types hold every bound exactly.
    """
    if index.dtype.itemsize < 8:
        return index
    why = "keeps the order and every bound, unlike Min, Max and Clip of INT64"
    exact = largest <= EXACT_FLOAT
    dtype, name = (np.float32, "float32") if exact else (np.float64, "float64")
    return graph.cast(index, dtype, f"indices_{name}", why)


def narrowed(graph: Graph, index: Value) -> Value:
    """Return limited indices in a type that gathers take, INT32 unless they came as INT64."""
    if index.dtype == np.int64:
        return index
    return graph.cast(index, np.int32, "indices_int32", "half the bytes of INT64")


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
    total = size_of(tuples.shape[:-1])
    if tuples.constant is not None:
        value = _known_rows(facts, tuples.constant)
    else:
        value = _row_numbers_by_tiles(graph, facts, tuples)
    batches = facts.before
    if batches > 1:
        value = graph.reshape(value, (batches, total // batches), "rows_of_batches", "by batch")
        first = graph.arange(batches, size_of(facts.axes), np.int32, "first_rows")
        first = graph.reshape(first, (batches, 1), "first_rows", "one per batch")
        value = graph.add("Add", "rows", value, first, why="adds where each batch begins")
    return graph.reshape(value, (total,), "rows_flat", "one row number per tuple")


def _known_rows(facts: Facts, tuples: Array) -> Value:
    sizes = np.array(facts.axes, np.int64)
    rows = brought_in_range(tuples, sizes) @ _strides(facts)
    if facts.out_of_range == "zero":
        rows = np.where(is_outside(tuples, sizes).any(axis=-1), facts.table, rows)
    return constant("rows", rows.astype(np.int32))


def _strides(facts: Facts) -> Array:
    """Return how many rows of the table one step of each coordinate passes."""
    axes = facts.axes
    return np.array([size_of(axes[k + 1 :]) for k in range(len(axes))], np.int64)


def _row_numbers_by_tiles(graph: Graph, facts: Facts, tuples: Value) -> Value:
    """Return row numbers; where all at once took much memory, by a Scan of tiles of tuples.

    For a million of INT64, 4 bytes each instead of 86, in 0.4 of the time.
    """
    length = len(facts.axes)
    total = size_of(tuples.shape) // length
    copies = 5 if tuples.dtype.kind == "i" else 2
    tiles = tiles_of(total, TILE) if copies * length > 2 * facts.row else 1
    if tiles == 1:
        return _row_numbers(graph, facts, tuples)
    why = "as many at once as stay in the cache"
    tuples = graph.reshape(tuples, (tiles, total // tiles, length), "tiles", why)
    return graph.scan(
        (tuples,), lambda body, parts: _row_numbers(body, facts, parts[0]), "row_tiles"
    )


def tiles_of(total: int, longest: int) -> int:
    """Return into how many tiles of about that length a number falls; 1 for few or odd ones.

    A step of a Scan costs 10 us, as much as the arithmetic of some 2,000 indices.
    """
    most = total * 8 // longest if total >= 8 * longest else 0
    several = (k for k in range(total // longest, most) if total % (8 * k) == 0)
    return next(several, 1)


def _row_numbers(graph: Graph, facts: Facts, tuples: Value) -> Value:
    length = len(facts.axes)
    total = size_of(tuples.shape) // length
    sizes = np.array(facts.axes, np.int64)
    if len(set(facts.axes)) == 1:
        sizes = sizes[0]
    else:
        tile = divisor(total, WIDEST_TILE // length)
        why = "several tuples a row, as narrow rows are slow"
        tuples = graph.reshape(tuples, (total // tile, tile * length), "tuples", why)
        sizes = np.tile(sizes, tile)
    value = limited(graph, tuples, sizes, "clamp")
    if tuples.dtype.kind == "i":
        value = wrap(graph, value, sizes)
    rows = _products(graph, value, total, _strides(facts), size_of(facts.axes))
    if facts.out_of_range != "zero":
        return rows
    return _rows_or_slot(graph, facts, rows, outside(graph, tuples, sizes))


def _rows_or_slot(graph: Graph, facts: Facts, rows: Value, mask: Value) -> Value:
    """Return the row numbers, that of the zeros behind the table where the mask holds."""
    beyond = np.full(len(facts.axes), facts.table, np.int64)
    total = size_of(mask.shape) // len(facts.axes)
    past = _products(graph, mask, total, beyond, size_of(facts.axes))
    past = graph.reshape(past, rows.shape, "rows_past", "one per tuple")
    rows = graph.add("Add", "rows_or_past", rows, past, why="past the table if out of range")
    slot = constant("row_of_zeros", np.array(facts.table, np.int32))
    return graph.add("Min", "rows_or_zeros", rows, slot, why="the row of zeros behind the table")


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
