"""Indices that are surely beyond their axis: in each run, or in a run that is named.

A bound is true in each run. So if the least number of an element is beyond the axis, an
index leaves it in each run that reaches the operation. In other cases the bounds are
computed again: for what surely happens, such as the last iteration of a loop, or for
what some inputs lead to, such as the last position of an ArgMax.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnxgather.auditing.algebra.bounds import FLOATS, Bounds, elements_of, interval
from onnxgather.auditing.algebra.sizes import AnySize, Size, larger
from onnxgather.auditing.operators.index_operators import Coordinate, given_indices
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.model.network import Operation, Scope, taken

MOST_OPERATIONS = 200
"""Nothing is tried for an operation with more operations than this before it."""

_REARRANGING = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose output has each element of the first input once."""

_EXTREMES = ("ArgMax", "ArgMin")

Beyond = tuple[int, AnySize]
"""The number of a coordinate, and a number beyond its axis. An index is that number, or
farther beyond the axis."""


def beyond(
    ranges: Ranges,
    scope: Scope,
    operation: Operation,
    own: Sequence[Coordinate],
    in_each_run: bool = False,
) -> Beyond | None:
    """Return an index of an operation that is surely beyond its axis, if there is one.

    Args:
        ranges: The bounds, perhaps for some inputs alone.
        scope: The scope of the operation.
        operation: The operation.
        own: Its coordinates for all inputs. An input that is one number in a trial
            looks like a constant there, but is none.
        in_each_run: Whether there must be indices for all sizes of the inputs.
    """
    coordinates = ranges.coordinates(scope, operation)
    # Case: bounds of each column are known in a trial alone.
    if len(own) != len(coordinates):
        own = coordinates
    for number, coordinate in enumerate(coordinates):
        size = coordinate.size
        if size is None or not _is_judged(coordinate, in_each_run):
            continue
        lowest = coordinate.lowest
        # Only a constant may be below 0 then.
        if coordinate.from_end and not own[number].from_end:
            lowest = own[number].lowest
        # ONNX counts a position from the end, and what runs does not.
        if coordinate.input.from_end and coordinate.value.is_range:
            lowest = -size
        least, greatest = coordinate.reached
        # Of a large constant that was read, only the ends are kept.
        name = coordinate.input.value_in(operation)
        is_constant = coordinate.input.is_attribute or scope.is_constant(name)
        if is_constant and coordinate.value.is_of_constants:
            least = coordinate.low
            greatest = coordinate.high
        # The greatest of different positions is as far from the least as they are many.
        different = _different_positions(ranges, scope, operation, coordinate)
        for index in (greatest, coordinate.low + different - 1):
            if index >= size:
                return number, index
        if least < lowest:
            return number, least
    return None


def _is_judged(coordinate: Coordinate, in_each_run: bool) -> bool:
    """Return whether there are indices, each of which must be in range."""
    value = coordinate.value
    if value.nan or not coordinate.is_exact:
        return False
    # What a given range leads to is told of its ends (`ends_that_leave`).
    if in_each_run and value.is_given:
        return False
    count = elements_of(value.sizes)
    # An open size of an input may be any number from 1 on.
    if isinstance(count, Size) and not in_each_run:
        return all(symbol.name for symbol in count.symbols) or count >= 1
    return count is not None and count >= 1


def beyond_in_each_run(
    ranges: Ranges, scope: Scope, operation: Operation
) -> Beyond | None:
    """Return an index that leaves its axis in each run that reaches an operation."""
    own = ranges.coordinates(scope, operation)
    found = beyond(ranges, scope, operation, own, in_each_run=True)
    iteration = _last_iteration(ranges, scope)
    if found is not None or not iteration:
        return found
    before = operations_before(ranges, scope, given_indices(operation)) or []
    changed = ranges.again(scope, before, iteration)
    return beyond(changed, scope, operation, own, in_each_run=True)


def beyond_in_some_run(
    ranges: Ranges, scope: Scope, operation: Operation
) -> Beyond | None:
    """Return an index that leaves its axis for some inputs of a model.

    The last positions of an ArgMax, an ArgMin or a TopK lead to it, whose data must be
    a graph input. In a branch or a loop the operation may not run, and what is given to
    a function may be computed.
    """
    if scope is not ranges.main:
        return None
    own = ranges.coordinates(scope, operation)
    before = operations_before(ranges, scope, given_indices(operation)) or []
    for place, producer in enumerate(before, 1):
        positions = _last_positions(ranges, scope, producer)
        if positions:
            changed = ranges.again(scope, before[place:], positions)
            found = beyond(changed, scope, operation, own)
            if found is not None:
                return found
    return None


def operations_before(
    ranges: Ranges, scope: Scope, names: Iterable[str]
) -> list[Operation] | None:
    """Return the operations of a scope that lead to values; None if they are many."""
    before: set[Operation] = set()
    waiting = [*names]
    while waiting:
        producer = ranges.producer(scope, waiting.pop())
        if producer is not None and producer not in before:
            before.add(producer)
            waiting.extend(taken(producer))
        if len(before) > MOST_OPERATIONS:
            return None
    return [operation for operation in scope.operations if operation in before]


def _origin(ranges: Ranges, scope: Scope, name: str) -> tuple[Scope, str]:
    """Return the value whose elements a value has, each once, and its scope."""
    while True:
        scope = scope.owner(name) or scope
        producer = ranges.producer(scope, name)
        if producer is None or producer.domain:
            return scope, name
        if producer.operator not in _REARRANGING:
            return scope, name
        name = producer.inputs[0]


def _different_positions(
    ranges: Ranges, scope: Scope, operation: Operation, coordinate: Coordinate
) -> AnySize:
    """Return how many indices are surely different positions of a TopK, or 1."""
    index_input = coordinate.input
    # Some of the numbers are no index of the coordinate.
    if index_input.used is not None or coordinate.column is not None:
        return 1
    scope, name = _origin(ranges, scope, index_input.value_in(operation))
    producer = ranges.producer(scope, name)
    sizes = ranges.value(scope, name).sizes
    if producer is None or producer.domain or not sizes:
        return 1
    if producer.operator != "TopK" or name != producer.outputs[-1]:
        return 1
    return sizes[int(producer.attributes.get("axis", -1))] or 1


def _last_iteration(ranges: Ranges, body: Scope) -> Mapping[str, Bounds]:
    """Return the last iteration of the loop that has a body, by the input's name.

    There is nothing if the scope is no body of a loop, or if the loop may end earlier.
    """
    outer = body.outer
    # A broken model may have a body without an iteration and a condition.
    if outer is None or len(body.inputs) < 2 or not body.outputs:
        return {}
    for loop in outer.operations:
        if loop.bodies.get("body") is not body:
            continue
        trips = ranges.given(outer, loop).has(0)
        if loop.operator != "Loop" or loop.domain or trips is None:
            return {}
        # An iteration runs only if its condition is true.
        scope, name = _origin(ranges, body, body.outputs[0])
        goes_on = (scope, name) == (body, body.inputs[1])
        if goes_on or ranges.value(scope, name).whole[0] == 1:
            # A run that reaches the body has the first iteration.
            last = larger(trips.whole[0] - 1, 0)
            sizes = ranges.value(body, body.inputs[0]).sizes
            return {body.inputs[0]: interval("INT64", sizes, last, last)}
    return {}


def _last_positions(
    ranges: Ranges, scope: Scope, producer: Operation
) -> Mapping[str, Bounds]:
    """Return the last positions of an ArgMax, ArgMin or TopK, by the output's name.

    There is nothing if inputs may not lead to them.
    """
    if producer.domain or producer.operator not in (*_EXTREMES, "TopK"):
        return {}
    _, name = _origin(ranges, scope, producer.inputs[0])
    data = ranges.value(scope, producer.inputs[0])
    # Elements of a given range may be in one order alone.
    is_free = name in scope.inputs and data.data_type in FLOATS and not data.is_given
    output = producer.outputs[-1]
    sizes = ranges.value(scope, output).sizes
    if not is_free or not data.sizes or sizes is None:
        return {}
    count: AnySize | None = 1
    axis = int(producer.attributes.get("axis", 0))
    if producer.operator == "TopK":
        axis = int(producer.attributes.get("axis", -1))
        count = sizes[axis]
    size = data.sizes[axis]
    if size is None or count is None:
        return {}
    return {output: interval("INT64", sizes, size - count, size - 1)}
