"""Rows of a few elements: gathered column by column from the transposed table."""

from __future__ import annotations

from onnxgather.lowering.cpu.columns import can_extract, extracted
from onnxgather.lowering.cpu.facts import Facts, many_threads, not_limited, not_plain, small
from onnxgather.lowering.cpu.indices import row_indices
from onnxgather.lowering.cpu.layout import gather_elements, with_zero
from onnxgather.lowering.graph import Graph, Value

NAME = "narrow rows"
REASON = "rows of 2 to 4 elements come faster column by column, from the transposed table"
GAIN = 1.9

NARROW = 4
"""Longest row, in elements, that is gathered column by column."""

DENSE = 1024
"""Fewest rows that are worth a transposed table; it needs half as many as the table has, too."""


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    gather, least = facts.gather, max(DENSE, facts.table_rows // 2)
    if gather.onnx == "GatherElements":
        return "GATHER_ELEMENTS has an index for each element, this form one for each row"
    if not 1 < facts.row <= NARROW:
        return f"rows have {facts.row} elements, this form gathers 2 to {NARROW}"
    if facts.threads > 1 and not gather.has_tuples:
        return f"{facts.threads} threads share a Gather of rows better than of single elements"
    if facts.tables > 1 and not gather.has_tuples:
        return f"the indices choose from {facts.tables} tables, this form reads one"
    if facts.count < least:
        return f"the output has {facts.count} rows, a transposed table needs {least}"
    return not_plain(facts) or not_limited(facts) or many_threads(facts) or small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    sizes, after, count = facts.sizes, facts.gather.after, facts.count
    table = graph.reshape(data, (facts.table_rows, facts.row), "table", "its rows")
    columns = graph.transpose(table, (1, 0), "columns", "one long row per column")
    columns = with_zero(graph, facts, columns)
    index = row_indices(graph, facts, (1, count))
    if can_extract(facts):
        gathered = extracted(graph, columns, index)
    else:
        index = graph.expand(index, (facts.row, count), "rows_each", "the same for each column")
        gathered = gather_elements(graph, columns, index)
    outer, inner = sizes[: len(sizes) - after], sizes[len(sizes) - after :]
    gathered = graph.reshape(gathered, (*inner, *outer), "columns_shaped", "the output's sizes")
    perm = (*range(after, len(sizes)), *range(after))
    return graph.transpose(gathered, perm, "gathered", "puts the columns back into rows")
