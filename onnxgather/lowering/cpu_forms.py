"""The forms that ONNX Runtime's CPU provider runs fastest; `cpu` says when each is taken."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu_indices import WIDEST_TILE, divisor, narrowed
from onnxgather.lowering.facts import Facts
from onnxgather.lowering.graph import Graph, Shape, Value, constant, size_of


def with_zero(graph: Graph, facts: Facts, table: Value, axis: int) -> Value:
    """Return the table with a zero behind its axis, where indices out of range name that."""
    if facts.out_of_range != "zero":
        return table
    before, after = table.shape[:axis], table.shape[axis + 1 :]
    zero = constant("zero", np.zeros((1,) * len(table.shape), table.dtype))
    zero = graph.expand(zero, (*before, 1, *after), "zeros", "what is read out of range")
    shape = (*before, table.shape[axis] + 1, *after)
    why = "what is read out of range"
    return graph.add("Concat", "table_and_zero", table, zero, why=why, shape=shape, axis=axis)


def element_gather(graph: Graph, flat: Value, index: Value, sizes: Shape) -> Value:
    """Gather single elements from a 1-D value: GatherElements in one long row."""
    rank, count = len(sizes), size_of(sizes)
    row = (1,) * (rank - 1)
    data = graph.reshape(flat, (*row, size_of(flat.shape)), "row", "one long row")
    index = narrowed(graph, index)
    index = graph.reshape(index, (*row, count), "row_indices", "one long row")
    why = "single elements: 1 to 2 ns each, where Gather takes 10 to 14"
    gathered = graph.add(
        "GatherElements", "gathered", data, index, why=why, shape=index.shape, axis=rank - 1
    )
    return laid_out(graph, gathered, sizes)


def laid_out(graph: Graph, gathered: Value, sizes: Shape) -> Value:
    """Return one long row in the output's sizes, the last node being no Reshape."""
    if gathered.shape == sizes:
        return gathered
    long = [k for k, size in enumerate(sizes) if size > 1]
    if len(long) <= 1:
        perm = list(range(len(sizes)))
        perm[long[0]], perm[-1] = perm[-1], perm[long[0]]
        return graph.transpose(gathered, tuple(perm), "turned", "puts the row along its dimension")
    split = layout_split(sizes)
    outer, inner = sizes[:split], sizes[split:]
    rows = graph.reshape(gathered, (size_of(outer), *inner), "long_rows", "rows of the output")
    number = graph.arange(size_of(outer), 1, np.int64, "row_number")
    number = graph.reshape(number, outer, "row_numbers", "where each row stands")
    why = "lays the rows out; a copy, as a Reshape would be"
    return graph.add("Gather", "laid_out", rows, number, why=why, shape=sizes, axis=0)


SHORTEST_LAID_OUT = 64
"""Elements of a row from which laying rows out costs little beside gathering their elements."""


def layout_split(sizes: Shape) -> int:
    """Return how many dimensions count the rows that are laid out; 0 where none would be long."""
    for split in range(len(sizes) - 1, 0, -1):
        if size_of(sizes[split:]) >= SHORTEST_LAID_OUT:
            return split
    return 0


def can_lay_out(sizes: Shape) -> bool:
    """Return whether a long row can be brought into the output's sizes cheaply."""
    return sum(size > 1 for size in sizes) <= 1 or layout_split(sizes) > 0


EXTRACTED = ("float32", "float64", "int32", "int64")
"""The types that ArrayFeatureExtractor takes; it keeps every bit of them (measured)."""


def extracted(graph: Graph, table: Value, index: Value) -> Value:
    """Gather along the last dimension by ArrayFeatureExtractor; the indices are not negative."""
    count = size_of(index.shape)
    if index.shape[-1:] != (count,):
        index = graph.reshape(index, (count,), "places", "one row of indices")
    why = "the index type that ArrayFeatureExtractor takes"
    index = graph.cast(index, np.int64, "places_int64", why)
    shape = (*table.shape[:-1], count)
    why = "the same elements of each row"
    return graph.add("ArrayFeatureExtractor", "extracted", table, index, why=why, shape=shape)


def can_extract(facts: Facts) -> bool:
    """Whether ArrayFeatureExtractor takes the data, and the indices once they are limited."""
    known = facts.known is not None or facts.place.has_tuples
    unsigned = not facts.desc.indices_tensor.data_type.is_signed
    typed = facts.desc.input_tensor.data_type.numpy.name in EXTRACTED
    return typed and (known or unsigned) and facts.out_of_range in ("clamp", "zero")


def row_gather(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather whole rows from one table by Gather."""
    outer, inner = facts.sizes[: facts.split], facts.sizes[facts.split :]
    table = graph.reshape(data, (size_of(data.shape) // facts.row, *inner), "table", "its rows")
    table = with_zero(graph, facts, table, 0)
    index = narrowed(graph, index)
    index = graph.reshape(index, outer, "rows_shaped", "the output's leading dimensions")
    why = f"rows of {facts.row} elements"
    return graph.add("Gather", "gathered", table, index, why=why, shape=facts.sizes, axis=0)


def columns_of(graph: Graph, facts: Facts, data: Value) -> Value:
    """Return the columns of a table of short rows, the zeros of the policy behind them."""
    table = graph.reshape(data, (size_of(data.shape) // facts.row, facts.row), "table", "its rows")
    columns = graph.transpose(table, (1, 0), "columns", "one long row per column")
    return with_zero(graph, facts, columns, 1)


def narrow_gather(graph: Graph, facts: Facts, columns: Value, index: Value, sizes: Shape) -> Value:
    """Gather rows of a few elements: column by column from the transposed table."""
    after = facts.place.after
    outer, inner = sizes[: len(sizes) - after], sizes[len(sizes) - after :]
    if can_extract(facts):
        gathered = extracted(graph, columns, index)
    else:
        why = "the same rows for each column"
        index = narrowed(graph, index)
        index = graph.reshape(index, (1, size_of(outer)), "rows_one", why)
        index = graph.expand(index, (facts.row, size_of(outer)), "rows_each", why)
        why = f"rows of {facts.row} elements, column by column"
        gathered = graph.add(
            "GatherElements", "gathered_columns", columns, index, why=why, shape=index.shape, axis=1
        )
    gathered = graph.reshape(gathered, (*inner, *outer), "columns_shaped", "the output's sizes")
    perm = (*range(after, len(sizes)), *range(after))
    return graph.transpose(gathered, perm, "gathered", "puts the columns back into rows")


def column_gather(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather single elements at the same places of many rows."""
    size, count = facts.axes[0], facts.count // facts.before
    rank = len(facts.sizes)
    lead = facts.sizes[: rank - 1] if facts.sizes[-1] == count else None
    shape = (*lead, size) if lead is not None else (facts.before, size)
    table = graph.reshape(data, shape, "table", "the rows to choose from")
    table = with_zero(graph, facts, table, len(shape) - 1)
    if can_extract(facts):
        return laid_out(graph, extracted(graph, table, index), facts.sizes)
    ones = (1,) * (len(shape) - 1)
    index = narrowed(graph, index)
    index = graph.reshape(index, (*ones, count), "places", "the same places in each row")
    index = graph.expand(index, (*shape[:-1], count), "places_each", "the same places in each row")
    why = "single elements: 1 to 2 ns each, where Gather takes 10 to 14"
    gathered = graph.add(
        "GatherElements", "gathered", table, index, why=why, shape=index.shape, axis=len(shape) - 1
    )
    return laid_out(graph, gathered, facts.sizes)


def single_gather(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather one row by GatherND, whose tuple of one coordinate is the index as it is given."""
    table = graph.reshape(data, (facts.table, facts.row), "table", "its rows")
    index = graph.cast(index, np.int64, "index_int64", "the index type that GatherND takes")
    why = f"one row of {facts.row} elements"
    return graph.add("GatherND", "gathered", table, index, why=why, shape=facts.sizes, batch_dims=0)


def repeated_gather(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather whole rows for GATHER_ELEMENTS whose indices repeat along them."""
    index = narrowed(graph, index)
    sizes, axis = facts.sizes, facts.place.indexed[0]
    index = graph.reshape(index, index.shape[: axis + 1], "row_indices", "one per row")
    data = graph.reshape(data, facts.desc.input_tensor.sizes, "data", "its sizes")
    why = f"rows of {facts.row} elements, all with one index"
    if size_of(index.shape[:axis]) == 1:  # the same for all that stands before, too
        index = graph.reshape(index, index.shape[axis:], "row_indices", "one per row")
        index = graph.expand(index, sizes[axis : axis + 1], "row_indices_each", "repeats them")
        return graph.add("Gather", "gathered", data, index, why=why, shape=sizes, axis=axis)
    index = graph.expand(index, sizes[: axis + 1], "row_indices_each", "repeats them")
    unsigned = not facts.desc.indices_tensor.data_type.is_signed
    if unsigned and facts.out_of_range == "clamp" and facts.ready is None:
        return _numbered_rows(graph, facts, data, index, why)
    index = graph.reshape(index, (*sizes[: axis + 1], 1), "row_tuples", "tuples of one coordinate")
    index = graph.cast(index, np.int64, "row_int64", "the index type that GatherND takes")
    return graph.add("GatherND", "gathered", data, index, why=why, shape=sizes, batch_dims=axis)


def _numbered_rows(graph: Graph, facts: Facts, data: Value, index: Value, why: str) -> Value:
    """Gather rows of several tables by Gather, which shares its work better than GatherND."""
    sizes, size, axis = facts.sizes, facts.axes[0], facts.place.indexed[0]
    first = graph.arange(facts.before, size, np.int32, "first_rows")
    first = graph.reshape(first, (*sizes[:axis], 1), "first_rows", "one per table")
    index = graph.add("Add", "rows", index, first, why="adds where each table begins")
    shape = (facts.before * size, *sizes[axis + 1 :])
    table = graph.reshape(data, shape, "table", "the rows of all tables")
    return graph.add("Gather", "gathered", table, index, why=why, shape=sizes, axis=0)


def narrow_elements(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather elements of narrow rows from one long row, by offsets.

    A negative index stays one: counted from the end of the row of all elements it is right too.
    """
    index = narrowed(graph, index)
    count, row = facts.count, facts.row
    tile = divisor(count, WIDEST_TILE // row)
    why = "several rows at once, as narrow rows are slow"
    index = graph.reshape(index, (count // tile, tile * row), "indices_wide", why)
    width = constant("row_elements", np.array(row, np.int32))
    index = graph.add("Mul", "row_offsets", index, width, why="where each row begins")
    position = constant("positions", np.tile(np.arange(row, dtype=np.int32), tile))
    index = graph.add("Add", "offsets", index, position, why="the place in the row")
    flat = graph.reshape(data, (size_of(data.shape),), "flat", "the elements in one row")
    return element_gather(graph, flat, index, facts.sizes)


def turned_elements(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather elements along the last dimension that is not of size 1, made the very last."""
    index = narrowed(graph, index)
    rank, axis = len(facts.sizes), facts.place.indexed[0]
    ones = (1,) * (rank - axis - 1)
    sizes = facts.sizes[:axis]
    table = graph.reshape(data, (*sizes, *ones, facts.axes[0]), "table", "the axis last")
    index = graph.reshape(index, (*sizes, *ones, facts.sizes[axis]), "places", "the axis last")
    why = "single elements along the last dimension"
    gathered = graph.add(
        "GatherElements", "gathered", table, index, why=why, shape=index.shape, axis=rank - 1
    )
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return graph.transpose(gathered, tuple(perm), "turned", "puts the axis back")


def slice_by_slice(graph: Graph, facts: Facts, data: Value, index: Value) -> Value:
    """Gather elements along the last dimension, copying one slice of the data at a time.

    The copy, a Concat with a column that is never read, streams the slice into the cache before
    its elements are read in any order.
    """
    index = narrowed(graph, index)
    sizes = facts.sizes
    data = graph.reshape(data, facts.desc.input_tensor.sizes, "data", "its sizes")
    index = graph.expand(
        index, (sizes[0], *index.shape[1:]), "indices_of_slices", "repeats the indices of stride 0"
    )

    def one_slice(body: Graph, parts: list[Value]) -> Value:
        one, own = parts
        zero = constant("zero", np.zeros((1,) * len(one.shape), one.dtype))
        column = body.expand(zero, (*one.shape[:-1], 1), "column", "what is never read")
        shape = (*one.shape[:-1], one.shape[-1] + 1)
        why, axis = "copies the slice into the cache", len(shape) - 1
        copy = body.add("Concat", "copied", one, column, why=why, shape=shape, axis=axis)
        own = body.expand(own, sizes[1:], "slice_indices_each", "repeats the indices of stride 0")
        why = "the elements of one slice"
        return body.add(
            "GatherElements", "gathered_slice", copy, own, why=why, shape=own.shape, axis=axis
        )

    return graph.scan((data, index), one_slice, "gathered")
