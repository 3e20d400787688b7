"""The lowering for ONNX Runtime's CPU provider, by the first form of a list that fits.

A form is a class: its name, the reason to take it, its gain, why it is passed over, and
its nodes. A new form is a new class and a new item of FORMS. `Facts` says what rows and
tables are.

The gain is the time of the next form of the list that fits, or of the portable
lowering, over the time of the form itself: the geometric mean over the workloads that
take the form, with one thread and ONNX Runtime 1.31.1. docs/decisions/lowering.md
has the last gains. A form stays while its gain is at least 1.25 with one thread or with
two.
"""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.lowering.cpu.facts import (
    Facts,
    Form,
    many_threads,
    not_limited,
    not_plain,
    other_policy,
    small,
    wide,
)
from onnxgather.core.lowering.cpu.long_rows import (
    gather_elements,
    gather_in_one_row,
    lay_out,
    not_laid_out,
    with_zero,
)
from onnxgather.core.lowering.cpu.row_numbers import axis_indices, narrowed, row_indices
from onnxgather.core.lowering.graph import Graph, Value, size_of
from onnxgather.core.lowering.indices import non_negative, read_indices
from onnxgather.core.lowering.offsets import find_offsets
from onnxgather.core.lowering.portable import INPUT, OUTPUT, lower_portable
from onnxgather.core.lowering.positions import scatter
from onnxgather.core.options import DEFAULT_THREADS, OutOfRange

EXTRACTED = ("float32", "float64", "int32", "int64")
"""The types that ArrayFeatureExtractor takes; it keeps every bit of them (measured)."""


class RepeatedRows:
    """GATHER_ELEMENTS whose indices are the same along whole rows."""

    name = "repeated rows"
    reason = (
        "the indices are the same along whole rows, so that rows are gathered, not"
        " elements"
    )
    gain = 4.8

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        gather = facts.gather
        if gather.onnx != "GatherElements":
            return (
                f"{facts.desc.operator} has one index for a row, this form joins those"
                " of elements"
            )
        if facts.indices is not None:
            return "the indices are known, this form reads them from a tensor"
        if facts.row == 1:
            return "rows have 1 element, this form gathers longer ones"
        sizes = gather.indices
        strides = facts.desc.indices_tensor.element_strides
        for dimension in range(gather.number + 1, len(sizes)):
            if sizes[dimension] > 1 and strides[dimension] > 0:
                return (
                    f"the indices differ behind Axis {gather.number}, this form has"
                    " stride 0 there"
                )
        if not facts.desc.input_tensor.is_plain:
            return "InputTensor has strides or padding, this form takes packed data"
        return other_policy(facts, "clamp", "error") or wide(facts) or small(facts)

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        axis = facts.gather.number
        sizes = facts.sizes
        front = sizes[: axis + 1]
        strides = facts.desc.indices_tensor.element_strides
        pairs = zip(front, strides[: axis + 1], strict=True)
        moving = tuple(size if stride else 1 for size, stride in pairs)
        # One index for each row; those of stride 0 are there once.
        index = narrowed(graph, axis_indices(graph, facts, moving))
        shape = index.shape[: axis + 1]
        why = "one per row"
        index = graph.reshape(index, shape, "row_indices", why)
        why = "repeats them"
        index = graph.expand(index, front, "row_indices_each", why)
        why = "tuples of one coordinate"
        index = graph.reshape(index, (*front, 1), "row_tuples", why)
        why = "the index type that GatherND takes"
        index = graph.cast(index, np.int64, "row_int64", why)
        why = "its sizes"
        data = graph.reshape(data, facts.gather.data, "data", why)
        why = f"rows of {facts.row} elements, all with one index"
        return graph.add(
            "GatherND", "gathered", data, index, why=why, shape=sizes, batch_dims=axis
        )


class Elements:
    """Single elements of one table, in one long row of GatherElements."""

    name = "elements"
    reason = (
        "GatherElements takes 1 to 2 ns for a single element, Gather and GatherND 10"
        " to 14"
    )
    gain = 4.9

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        if facts.row > 1:
            return f"rows have {facts.row} elements, this form gathers single ones"
        if facts.tables > 1 and not facts.gather.has_tuples:
            return (
                f"the data has {facts.tables} rows to choose from, this form reads one"
            )
        return (
            not_plain(facts)
            or not_limited(facts)
            or many_threads(facts)
            or not_laid_out(facts)
            or small(facts)
        )

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        sizes = facts.sizes
        shape = (size_of(data.shape),)
        flat = graph.reshape(data, shape, "flat", "the elements in one row")
        leading = (1,) * (len(sizes) - 1)
        index = row_indices(graph, facts, (*leading, facts.count))
        flat = with_zero(graph, facts, flat)
        return gather_in_one_row(graph, flat, index, sizes)


class Columns:
    """The same columns of many rows."""

    name = "columns"
    reason = (
        "ArrayFeatureExtractor or GatherElements takes 1 to 2 ns for a single element,"
        " Gather 10"
    )
    gain = 5.2

    FEWEST = 8
    """The fewest columns for a gain by GatherElements, which works row by row."""

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        operator = facts.desc.operator
        if operator != "GATHER":
            return (
                f"{operator} has indices of its own for each row, this form shares them"
            )
        if facts.row > 1:
            return f"rows have {facts.row} elements, this form gathers single ones"
        if facts.tables == 1:
            return "the data has one row, this form gathers from many"
        return not_plain(facts) or not_limited(facts) or self._too_little(facts)

    def _too_little(self, facts: Facts) -> str | None:
        """Return why there is nothing to gain.

        With ArrayFeatureExtractor there always is.
        """
        columns = size_of(facts.gather.indices)
        if facts.sizes[-1] == columns:
            if can_extract(facts):  # the fastest operator: every size gains
                return None
        else:
            # The last dimension of the output is not that of the columns.
            reason = not_laid_out(facts)
            if reason:
                return reason
        if columns < self.FEWEST:
            return f"there are {columns} columns, a gain begins at {self.FEWEST}"
        return small(facts)

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        gather = facts.gather
        sizes = facts.sizes
        count = size_of(gather.indices)
        # Where the output ends in the columns, its own sizes save a node at the end.
        leading = sizes[:-1] if sizes[-1] == count else (facts.tables,)
        shape = (*leading, gather.axes[0])
        table = graph.reshape(data, shape, "table", "the rows to choose from")
        table = with_zero(graph, facts, table)
        ones = (1,) * len(leading)
        index = axis_indices(graph, facts, (*ones, count))
        if can_extract(facts):
            gathered = extracted(graph, facts, table, index)
        else:
            index = narrowed(graph, index)
            shape = (*leading, count)
            why = "the same columns of each row"
            index = graph.expand(index, shape, "columns_each", why)
            gathered = gather_elements(graph, table, index)
        return lay_out(graph, gathered, sizes)


def can_extract(facts: Facts) -> bool:
    """Return whether ArrayFeatureExtractor accepts the data and the limited indices.

    See `extracted`.
    """
    if facts.desc.input_tensor.data_type.numpy.name not in EXTRACTED:
        return False
    if facts.out_of_range == "error":  # it has no error of its own
        return False
    # The numbers of rows from tuples are from 0 on; "zero" makes other indices so.
    has_negative = facts.signed and not facts.gather.has_tuples
    return not has_negative or facts.out_of_range == "zero"


def extracted(graph: Graph, facts: Facts, table: Value, index: Value) -> Value:
    """Gather along the last dimension by ArrayFeatureExtractor.

    It accepts no negative index.
    """
    if facts.out_of_range == "zero" and facts.signed and index.constant is None:
        # The zero behind the table is the last element, so -1 is its index.
        index = non_negative(graph, index, np.array(table.shape[-1]))
    count = size_of(index.shape)
    why = "one row of indices"
    index = graph.reshape(index, (count,), "columns", why)
    why = "the index type that ArrayFeatureExtractor takes"
    index = graph.cast(index, np.int64, "columns_int64", why)
    why = "the same elements of each row"
    shape = (*table.shape[:-1], count)
    return graph.add(
        "ArrayFeatureExtractor", "extracted", table, index, why=why, shape=shape
    )


class NarrowRows:
    """Rows of a few elements: gathered column by column from the transposed table."""

    name = "narrow rows"
    reason = (
        "rows of 2 to 4 elements come faster column by column, from the transposed"
        " table"
    )
    gain = 1.8

    NARROW = 4
    """The most elements of a row that is gathered column by column."""

    DENSE = 1024
    """The fewest output rows that are worth a transposed table; half the table's rows
    at least."""

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        gather = facts.gather
        if gather.onnx == "GatherElements":
            return (
                "GATHER_ELEMENTS has an index for each element, this form one for"
                " each row"
            )
        if not 1 < facts.row <= self.NARROW:
            return (
                f"rows have {facts.row} elements, this form gathers 2 to {self.NARROW}"
            )
        if facts.threads > 1:
            return (
                f"{facts.threads} threads share a Gather of rows better than of single"
                " elements"
            )
        if facts.tables > 1 and not gather.has_tuples:
            return f"the indices choose from {facts.tables} tables, this form reads one"
        least = max(self.DENSE, facts.table_rows // 2)
        if facts.count < least:
            return (
                f"the output has {facts.count} rows, a transposed table needs {least}"
            )
        return (
            not_plain(facts)
            or not_limited(facts)
            or many_threads(facts)
            or small(facts)
        )

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        shape = (facts.table_rows, facts.row)
        table = graph.reshape(data, shape, "table", "its rows")
        columns = graph.transpose(table, (1, 0), "columns", "one long row per column")
        columns = with_zero(graph, facts, columns)
        index = row_indices(graph, facts, (1, facts.count))
        if can_extract(facts):
            gathered = extracted(graph, facts, columns, index)
        else:
            shape = (facts.row, facts.count)
            index = graph.expand(index, shape, "rows_each", "the same for each column")
            gathered = gather_elements(graph, columns, index)

        # The columns come first, but are the last dimensions of the output.
        sizes = facts.sizes
        inner_rank = facts.gather.after
        outer_rank = len(sizes) - inner_rank
        shape = (*sizes[outer_rank:], *sizes[:outer_rank])
        why = "the output's sizes"
        gathered = graph.reshape(gathered, shape, "columns_shaped", why)
        perm = (*range(inner_rank, len(sizes)), *range(inner_rank))
        why = "puts the columns back into rows"
        return graph.transpose(gathered, perm, "gathered", why)


class Slices:
    """GATHER_ELEMENTS along the last dimension, from slices that fit the cache."""

    name = "slices"
    reason = (
        "scattered reads are faster from a slice that is copied into the cache first"
    )
    gain = 2.7

    SMALLEST_SLICE = 2**19
    """The fewest bytes of a slice that is worth a copy into the cache."""

    LARGEST_SLICE = 2**22
    """The most bytes of a slice that is worth a copy into the cache."""

    DENSE = 8
    """The most elements of the last dimension of the data for each that is read."""

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        gather = facts.gather
        tensor = facts.desc.input_tensor
        if gather.onnx != "GatherElements":
            return (
                f"{facts.desc.operator} shares its indices, this form has one for each"
                " element"
            )
        if not 0 < gather.number == len(gather.data) - 1:
            return f"Axis {gather.number} is not the last of several dimensions"
        if not tensor.is_plain:
            return "InputTensor has strides or padding, this form takes packed data"
        if facts.indices is not None or facts.signed:
            return "the indices are known or signed, this form takes unsigned ones"
        if gather.data[-1] > self.DENSE * facts.sizes[-1]:
            return (
                f"{facts.sizes[-1]} of {gather.data[-1]} elements are read, too few for"
                " a copy"
            )
        count = gather.data[0]
        size = size_of(gather.data[1:]) * tensor.data_type.size
        fits = self.SMALLEST_SLICE <= size <= self.LARGEST_SLICE
        if count == 1 or not fits:
            return (
                f"{count} slices have {size} bytes, this form takes several of"
                f" {self.SMALLEST_SLICE} to {self.LARGEST_SLICE}"
            )
        return other_policy(facts, "clamp") or wide(facts) or small(facts)

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements.

        The copy of a slice is a Concat with a column that is never read.
        """
        gather = facts.gather
        index = narrowed(graph, axis_indices(graph, facts, gather.indices))
        data = graph.reshape(data, gather.data, "data", "its sizes")
        shape = (gather.data[0], *index.shape[1:])
        why = "repeats the indices of stride 0"
        index = graph.expand(index, shape, "indices_of_slices", why)
        return graph.add(
            "Scan",
            "gathered",
            data,
            index,
            why="one part after another, each in the cache",
            shape=facts.sizes,
            bodies={"body": self._body(graph, facts, data, index)},
            num_scan_inputs=2,
        )

    def _body(self, graph: Graph, facts: Facts, data: Value, index: Value) -> Graph:
        """Return the graph that gathers from one slice.

        ONNX Runtime hands the slices in and out of it without a copy.
        """
        body = graph.body()
        part = _slice_of(body, data)
        part_index = _slice_of(body, index)
        axis = facts.gather.number - 1  # the last dimension of a slice
        column = ("column", "what is never read")
        copied = ("copied", "copies the slice into the cache")
        copy = body.with_zeros(part, axis, column, copied)
        why = "repeats the indices of stride 0"
        shape = facts.sizes[1:]
        part_index = body.expand(part_index, shape, "slice_indices_each", why)
        gathered = gather_elements(body, copy, part_index)
        body.finish(gathered, "gathered_part")
        return body


def _slice_of(body: Graph, value: Value) -> Value:
    return body.input(f"{value.name}_part", value.dtype, value.shape[1:])


class Offsets:
    """Data with strides, and DirectML's own rule: single elements by their offsets."""

    name = "offsets"
    reason = (
        "GatherElements takes 1 to 2 ns for an element at an INT32 offset, Gather 10"
        " to 14"
    )
    gain = 8.4

    def passed_over(self, facts: Facts) -> str | None:
        """Return why the form does not fit; None where it fits."""
        if facts.desc.input_tensor.is_plain and facts.out_of_range != "directml":
            return (
                f'the data is packed and the policy "{facts.out_of_range}" needs no'
                " offsets"
            )
        return (
            other_policy(facts, "clamp", "error", "directml")
            or many_threads(facts)
            or not_laid_out(facts)
            or wide(facts)
            or small(facts)
        )

    def build(self, graph: Graph, facts: Facts, data: Value) -> Value:
        """Add the nodes of the form to a graph; return OutputTensor's elements."""
        desc = facts.desc
        gather = facts.gather
        shape = gather.indices
        index = read_indices(graph, desc.indices_tensor, shape, shape, facts.indices)
        # No mask is needed: the policies of this form move no element to a zero.
        buffer, offset, _ = find_offsets(
            graph, desc, gather, data, index, facts.out_of_range, np.int32
        )
        why = "half the bytes of INT64"
        offset = graph.cast(offset, np.int32, "offsets_int32", why)
        why = "one offset per element"
        offset = graph.expand(offset, facts.sizes, "offsets_each", why)
        return gather_in_one_row(graph, buffer, offset, facts.sizes)


FORMS: tuple[Form, ...] = (
    RepeatedRows(),
    Elements(),
    Columns(),
    NarrowRows(),
    Slices(),
    Offsets(),
)
"""The forms, in the order tried. If none of them fits, the portable lowering is
used."""


def lower_cpu(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None,
    threads: int | None,
) -> Graph:
    """Return the graph of a descriptor for the target "cpu".

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        indices: The array of IndicesTensor where it is known; see `lower`.
        threads: How many threads the graph will run on; None stands for 2.
    """
    facts = Facts(desc, out_of_range, indices, threads or DEFAULT_THREADS)
    passed_over: list[tuple[str, str]] = []
    for form in FORMS:
        why = form.passed_over(facts)
        if why is None:
            graph = lower_by(form, facts)
            break
        passed_over.append((form.name, why))
    else:
        graph = lower_portable(desc, out_of_range, indices)
        graph.choice = "portable: no other form fits"
    graph.passed_over = tuple(passed_over)
    return graph


def lower_by(form: Form, facts: Facts) -> Graph:
    """Return the graph that a form makes; the form must fit."""
    gain = f"the next form that fits takes {form.gain} times as long"
    choice = f"{form.name}: {form.reason}; {gain}"
    graph = Graph(fold_all=facts.indices is not None, choice=choice)
    tensor = facts.desc.input_tensor
    data = graph.input(INPUT, tensor.data_type.numpy, tensor.array_shape)
    result = form.build(graph, facts, data)
    if facts.desc.output_tensor.strides is not None:
        result = scatter(graph, facts.desc.output_tensor, result)
    graph.finish(result, OUTPUT)
    return graph
