"""The same columns of many rows."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu.facts import Facts, not_limited, not_plain, small
from onnxgather.lowering.cpu.indices import axis_indices, narrowed
from onnxgather.lowering.cpu.layout import gather_elements, laid_out, not_laid_out, with_zero
from onnxgather.lowering.graph import Graph, Value, size_of

NAME = "columns"
REASON = "ArrayFeatureExtractor or GatherElements takes 1 to 2 ns for a single element, Gather 10"
GAIN = 4.8

FEWEST = 8
"""Columns from which GatherElements, which works row by row, gains anything."""

EXTRACTED = ("float32", "float64", "int32", "int64")
"""The types that ArrayFeatureExtractor takes; it keeps every bit of them (measured)."""


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    operator = facts.desc.operator
    if operator != "GATHER":
        return f"{operator} has indices of its own for each row, this form shares them"
    if facts.row > 1:
        return f"rows have {facts.row} elements, this form gathers single ones"
    if facts.tables == 1:
        return "the data has one row, this form gathers from many"
    return not_plain(facts) or not_limited(facts) or _too_little(facts)


def _too_little(facts: Facts) -> str | None:
    """Why there is nothing to gain; ArrayFeatureExtractor gains however few the elements."""
    columns = size_of(facts.gather.indices)
    if facts.sizes[-1] == columns:
        if can_extract(facts):
            return None
    elif reason := not_laid_out(facts):
        return reason
    if columns < FEWEST:
        return f"there are {columns} columns, a gain begins at {FEWEST}"
    return small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    gather = facts.gather
    count = size_of(gather.indices)
    lead = facts.sizes[:-1] if facts.sizes[-1] == count else (facts.tables,)
    table = graph.reshape(data, (*lead, gather.axes[0]), "table", "the rows to choose from")
    table = with_zero(graph, facts, table)
    index = axis_indices(graph, facts, (*(1,) * len(lead), count))
    if can_extract(facts):
        return laid_out(graph, extracted(graph, table, index), facts.sizes)
    why = "the same columns of each row"
    index = graph.expand(narrowed(graph, index), (*lead, count), "columns_each", why)
    return laid_out(graph, gather_elements(graph, table, index), facts.sizes)


def can_extract(facts: Facts) -> bool:
    """Whether ArrayFeatureExtractor takes the data, and no limited index is negative."""
    typed = facts.desc.input_tensor.data_type.numpy.name in EXTRACTED
    unsigned = facts.gather.has_tuples or not facts.signed or facts.out_of_range == "zero"
    return typed and unsigned and facts.out_of_range != "error"


def extracted(graph: Graph, table: Value, index: Value) -> Value:
    """Gather along the last dimension by ArrayFeatureExtractor; the indices are not negative."""
    count = size_of(index.shape)
    index = graph.reshape(index, (count,), "columns", "one row of indices")
    why = "the index type that ArrayFeatureExtractor takes"
    index = graph.cast(index, np.int64, "columns_int64", why)
    shape = (*table.shape[:-1], count)
    why = "the same elements of each row"
    return graph.add("ArrayFeatureExtractor", "extracted", table, index, why=why, shape=shape)
