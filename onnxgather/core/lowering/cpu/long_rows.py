"""The shapes that forms gather in: a zero behind the data, one long row laid out as the output."""

from __future__ import annotations

import numpy as np

from onnxgather.core.lowering.cpu.facts import Facts
from onnxgather.core.lowering.graph import Graph, Shape, Value, size_of

SHORTEST_LAID_OUT = 64
"""The fewest elements of a row that is copied to its position in little time."""


def with_zero(graph: Graph, facts: Facts, table: Value) -> Value:
    """The table, under the policy "zero" with a zero appended along its last dimension."""
    if facts.out_of_range != "zero":
        return table
    why = "what is read out of range"
    return graph.with_zeros(
        table, len(table.shape) - 1, ("zeros", why), ("table_and_zero", why)
    )


def gather_elements(graph: Graph, data: Value, index: Value) -> Value:
    """Gather single elements along the last dimension."""
    why, axis = (
        "single elements: 1 to 2 ns each, where Gather takes 10 to 14",
        len(data.shape) - 1,
    )
    return graph.add(
        "GatherElements", "gathered", data, index, why=why, shape=index.shape, axis=axis
    )


def gather_in_one_row(graph: Graph, flat: Value, index: Value, sizes: Shape) -> Value:
    """Gather single elements from a 1-D value by INT32 or INT64 indices into an output of `sizes`.

    `not_laid_out` must give no reason against those sizes.
    """
    ones = (1,) * (len(sizes) - 1)
    data = graph.reshape(flat, (*ones, size_of(flat.shape)), "row", "one long row")
    index = graph.reshape(index, (*ones, size_of(sizes)), "row_indices", "one long row")
    return lay_out(graph, gather_elements(graph, data, index), sizes)


def lay_out(graph: Graph, gathered: Value, sizes: Shape) -> Value:
    """One long row in the output's sizes, without a Reshape as the last node."""
    if gathered.shape == sizes:
        return gathered
    long = [k for k, size in enumerate(sizes) if size > 1]
    if len(long) <= 1:
        perm = list(range(len(sizes)))
        perm[long[0]], perm[-1] = perm[-1], perm[long[0]]
        return graph.transpose(
            gathered, tuple(perm), "turned", "puts the row along its dimension"
        )
    split = _split(sizes)
    outer, inner = sizes[:split], sizes[split:]
    rows = graph.reshape(
        gathered, (size_of(outer), *inner), "long_rows", "rows of the output"
    )
    number = graph.arange(size_of(outer), 1, np.int64, "row_number")
    number = graph.reshape(number, outer, "row_numbers", "where each row stands")
    why = "lays the rows out; a copy, as a Reshape would be"
    return graph.add("Gather", "laid_out", rows, number, why=why, shape=sizes, axis=0)


def not_laid_out(facts: Facts) -> str | None:
    """Why a long row cannot be brought into the output's sizes cheaply."""
    if sum(size > 1 for size in facts.sizes) <= 1 or _split(facts.sizes):
        return None
    return f"the output {list(facts.sizes)} has no rows of {SHORTEST_LAID_OUT} elements"


def _split(sizes: Shape) -> int:
    """How many leading dimensions number the rows that are laid out; 0 if rows would be short."""
    for split in range(len(sizes) - 1, 0, -1):
        if size_of(sizes[split:]) >= SHORTEST_LAID_OUT:
            return split
    return 0
