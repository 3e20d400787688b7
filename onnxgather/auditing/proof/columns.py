"""Differences of two columns of an input: where a graph computes them.

A condition on a difference is on integers without an end. So a difference counts only
if its value in the graph is that integer.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from onnxgather.auditing.algebra.bounds import INTEGERS, Bounds
from onnxgather.auditing.operators.calls import Call
from onnxgather.core.model.network import Operation, Scope

FARTHEST_COLUMN = 12
"""A column is followed through at most this many operations."""

_KEEPING_ORDER = ("Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten")
"""The operators whose output has the elements of the first input in their order."""


class GraphValues(Protocol):
    """What is known of the values of a graph, such as `Ranges`."""

    def value(self, scope: Scope, name: str) -> Bounds:
        """Return the bounds of a value of a scope."""
        ...

    def producer(self, scope: Scope, name: str) -> Operation | None:
        """Return the operation of a scope that computes a value."""
        ...

    def given(self, scope: Scope, operation: Operation) -> Call:
        """Return an operation with the bounds of its inputs."""
        ...


class ColumnDifference(NamedTuple):
    """A column of a graph input minus another one, row by row."""

    input: str
    column: int
    other: int


def difference_of(
    values: GraphValues, main: Scope, operation: Operation
) -> ColumnDifference | None:
    """Return the difference of columns that an operation of the main graph computes.

    None if it computes another value.
    """
    if operation.operator != "Sub" or operation.domain or len(operation.inputs) != 2:
        return None
    name, other_name = operation.inputs
    sizes = values.value(main, name).sizes
    # Of other sizes, the elements of other rows may meet.
    if sizes is None or None in sizes or sizes != values.value(main, other_name).sizes:
        return None
    first = _column_of(values, main, name)
    second = _column_of(values, main, other_name)
    if first is None or second is None:
        return None
    input_name, column = first
    other_input, other_column = second
    if input_name != other_input or column == other_column:
        return None
    return ColumnDifference(input_name, column, other_column)


def _column_of(values: GraphValues, main: Scope, name: str) -> tuple[str, int] | None:
    """Return the graph input and the column that a value is, row by row."""
    column: int | None = None
    for _ in range(FARTHEST_COLUMN):
        operation = values.producer(main, name)
        if operation is None:
            if column is None or name not in main.inputs:
                return None
            return name, column
        if operation.domain:
            return None
        if operation.operator == "Cast":
            if not _keeps_integers(values, main, operation):
                return None
        # Before the column is taken, the axes must stay as they are.
        elif column is not None:
            if operation.operator != "Identity":
                return None
        elif operation.operator not in _KEEPING_ORDER:
            column = _taken_column(values, main, operation, name)
            if column is None:
                return None
        name = operation.inputs[0]
    return None


def _keeps_integers(values: GraphValues, main: Scope, operation: Operation) -> bool:
    """Return whether a Cast has the integers of its input, whatever they are."""
    before = values.value(main, operation.inputs[0]).data_type
    after = values.value(main, operation.outputs[0]).data_type
    if before not in INTEGERS or after not in INTEGERS:
        return False
    low, high = INTEGERS[before]
    lowest, highest = INTEGERS[after]
    return lowest <= low and high <= highest


def _taken_column(
    values: GraphValues, main: Scope, operation: Operation, output: str
) -> int | None:
    """Return the number of the last axis that an operation takes alone.

    None if it takes others too, or does something else.
    """
    call = values.given(main, operation)
    value = call.has(0)
    if value is None or not value.sizes:
        return None
    count = value.sizes[-1]
    if not isinstance(count, int):
        return None
    last_axis = len(value.sizes) - 1
    operator = operation.operator
    if operator == "Gather" and call.axis(0) == last_axis:
        return _only_index(call.has(1), count)
    if operator == "Slice":
        return _only_position(call, last_axis, count)
    if operator == "Split" and call.axis(0) == last_axis:
        # As many parts as columns are one column each.
        parts = [values.value(main, name).sizes for name in operation.outputs]
        if len(parts) == count and all(part and part[-1] == 1 for part in parts):
            return operation.outputs.index(output)
    return None


def _only_index(indices: Bounds | None, count: int) -> int | None:
    """Return the only index of a Gather, counted from the front."""
    numbers = None if indices is None else indices.known
    if numbers is None or numbers.size != 1:
        return None
    index = int(numbers.ravel()[0])
    return index % count if -count <= index < count else None


def _only_position(call: Call, last_axis: int, count: int) -> int | None:
    """Return the only position that a Slice of the last axis leaves."""
    starts = call.option("starts", 1)
    ends = call.option("ends", 2)
    axes = call.option("axes", 3, [])
    steps = call.option("steps", 4, [1])
    if starts is None or ends is None or axes is None or steps != [1]:
        return None
    if len(starts) != 1 or len(ends) != 1 or len(axes) != 1:
        return None
    if axes[0] % (last_axis + 1) != last_axis:
        return None
    first, after, _ = slice(starts[0], ends[0]).indices(count)
    return first if after - first == 1 else None
