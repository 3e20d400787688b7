"""The shapes that forms gather in: a zero behind the data, one long row."""

from __future__ import annotations

import numpy as np

from onnxgather.core.lowering.cpu.facts import Facts
from onnxgather.core.lowering.graph import Graph, Shape, Value, size_of

SHORTEST_LAID_OUT = 64
"""The fewest elements of a row that is copied to its position in little time."""


def with_zero(graph: Graph, facts: Facts, table: Value) -> Value:
    """Return the table, under "zero" with a zero appended along its last dimension."""
    if facts.out_of_range != "zero":
        return table
    axis = len(table.shape) - 1
    why = "what is read out of range"
    return graph.with_zeros(table, axis, ("zeros", why), ("table_and_zero", why))


def gather_elements(graph: Graph, data: Value, index: Value) -> Value:
    """Gather single elements along the last dimension."""
    axis = len(data.shape) - 1
    why = "single elements: 1 to 2 ns each, where Gather takes 10 to 14"
    return graph.add(
        "GatherElements", "gathered", data, index, why=why, shape=index.shape, axis=axis
    )


def gather_in_one_row(graph: Graph, flat: Value, index: Value, sizes: Shape) -> Value:
    """Gather single elements from a 1-D value by INT32 or INT64 indices.

    The output is of `sizes`, against which `not_laid_out` must give no reason.
    """
    why = "one long row"
    leading = (1,) * (len(sizes) - 1)
    row_shape = (*leading, size_of(flat.shape))
    row = graph.reshape(flat, row_shape, "row", why)
    index_shape = (*leading, size_of(sizes))
    index = graph.reshape(index, index_shape, "row_indices", why)
    gathered = gather_elements(graph, row, index)
    return lay_out(graph, gathered, sizes)


def lay_out(graph: Graph, gathered: Value, sizes: Shape) -> Value:
    """Return a long row in the output's sizes, without a Reshape as the last node."""
    if gathered.shape == sizes:
        return gathered

    # Case 1: the output is a single row, along another dimension than the last.
    long = [number for number, size in enumerate(sizes) if size > 1]
    if len(long) <= 1:
        dimension = long[0]
        perm = list(range(len(sizes)))
        perm[-1] = perm[dimension]
        perm[dimension] = len(sizes) - 1
        why = "puts the row along its dimension"
        return graph.transpose(gathered, tuple(perm), "turned", why)

    # Case 2: it has several rows, which a Gather of all of them copies.
    split = _split(sizes)
    outer = sizes[:split]
    count = size_of(outer)
    shape = (count, *sizes[split:])
    rows = graph.reshape(gathered, shape, "long_rows", "rows of the output")
    number = graph.arange(count, 1, np.int64, "row_number")
    number = graph.reshape(number, outer, "row_numbers", "where each row stands")
    why = "lays the rows out; a copy, as a Reshape would be"
    return graph.add("Gather", "laid_out", rows, number, why=why, shape=sizes, axis=0)


def not_laid_out(facts: Facts) -> str | None:
    """Return why a long row cannot be brought into the output's sizes cheaply."""
    long = sum(size > 1 for size in facts.sizes)
    if long <= 1 or _split(facts.sizes):
        return None
    return f"the output {list(facts.sizes)} has no rows of {SHORTEST_LAID_OUT} elements"


def _split(sizes: Shape) -> int:
    """Return how many leading dimensions number the rows that are laid out.

    It is 0 if rows would be short.
    """
    for split in range(len(sizes) - 1, 0, -1):
        if size_of(sizes[split:]) >= SHORTEST_LAID_OUT:
            return split
    return 0
