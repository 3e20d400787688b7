"""Single elements of one table, in one long row of GatherElements."""

from __future__ import annotations

from onnxgather.lowering.cpu.facts import Facts, many_threads, not_limited, not_plain, small
from onnxgather.lowering.cpu.indices import row_indices
from onnxgather.lowering.cpu.layout import gather_in_one_row, not_laid_out, with_zero
from onnxgather.lowering.graph import Graph, Value, size_of

NAME = "elements"
REASON = "GatherElements takes 1 to 2 ns for a single element, Gather and GatherND 10 to 14"
GAIN = 5.9


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    if facts.row > 1:
        return f"rows have {facts.row} elements, this form gathers single ones"
    if facts.tables > 1 and not facts.gather.has_tuples:
        return f"the data has {facts.tables} rows to choose from, this form reads one"
    return (
        not_plain(facts)
        or not_limited(facts)
        or many_threads(facts)
        or not_laid_out(facts)
        or small(facts)
    )


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    flat = graph.reshape(data, (size_of(data.shape),), "flat", "the elements in one row")
    index = row_indices(graph, facts, (*(1,) * (len(facts.sizes) - 1), facts.count))
    return gather_in_one_row(graph, with_zero(graph, facts, flat), index, facts.sizes)
