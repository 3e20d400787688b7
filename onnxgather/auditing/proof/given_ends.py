"""Ends of the range that is given of an input, which lead to an index out of range.

A given range says the least and the greatest element of an input, so each of them is an
element of some request. The bounds are computed again for an input that is that element
everywhere. If all indices of a gather are then beyond their axis, it is shown that the
gather can leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import INTEGERS, elements_of, interval
from onnxgather.auditing.algebra.sizes import Size
from onnxgather.auditing.operators.index_operators import Coordinate
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.index_range import GivenEnd
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.model.network import Network, Operation, Scope, taken

EXACT_IN_FLOATS = 2**8
"""Integers up to this number are exact in each type of floats."""


class GivenRange(Struct, frozen=True):
    """The least and the greatest element of an input, as a user gives them."""

    source: Literal["range", "tokenizer", "metadata"]
    """What gives it: a range of the input, the tokenizer that computes its ids, or the
    metadata of the model."""
    input: str
    low: int
    high: int


def given_ids(condition: Condition) -> GivenRange:
    """Return the ids of a tokenizer, from the condition of `token_condition`."""
    low = condition.low or 0
    high = condition.high or 0
    return GivenRange("tokenizer", condition.input or "", low, high)


def ends_that_leave(
    network: Network,
    ranges: Ranges,
    given: Iterable[GivenRange],
    conditions: Sequence[Condition],
    operations: Mapping[Operation, Scope],
) -> dict[Operation, GivenEnd]:
    """Return the operations that can leave an axis, each with the end that shows it.

    Args:
        network: The network.
        ranges: Its bounds.
        given: The ranges that are given of its inputs.
        conditions: All conditions on its inputs.
        operations: The operations to look at, with their scopes.
    """
    leaving: dict[Operation, GivenEnd] = {}
    for given_range in given:
        for value in dict.fromkeys((given_range.high, given_range.low)):
            if not _is_possible(network, given_range.input, value, conditions):
                continue
            with_end = _with_value(network, ranges, given_range.input, value)
            for operation, scope in operations.items():
                before = ranges.coordinates(scope, operation)
                for number, index in _leaving(with_end, scope, operation, before):
                    end = GivenEnd(
                        given_range.source, given_range.input, value, index, number
                    )
                    leaving.setdefault(operation, end)
    return leaving


def _is_possible(
    network: Network, name: str, value: int, conditions: Sequence[Condition]
) -> bool:
    """Return whether an input may be a value everywhere."""
    data_type = network.main.types[name].data_type
    # An integer of another type would be another number there.
    least, greatest = INTEGERS.get(data_type, (-EXACT_IN_FLOATS, EXACT_IN_FLOATS))
    if not least <= value <= greatest:
        return False
    for condition in conditions:
        if condition.input != name or condition.of == "size":
            continue
        low = condition.low
        high = condition.high
        # A condition of another kind may exclude the value.
        plain = Condition(of="values", input=name, low=low, high=high)
        if condition != plain or not condition.admits(value):
            return False
    return True


def _with_value(network: Network, ranges: Ranges, name: str, value: int) -> Ranges:
    """Return the bounds of a network for an input that is a value everywhere."""
    main = network.main
    before = ranges.value(main, name)
    bounds = {name: interval(before.data_type, before.sizes, value, value)}
    changed = {name}
    operations: list[Operation] = []
    for operation in main.operations:
        if not changed.isdisjoint(taken(operation)):
            changed.update(operation.outputs)
            operations.append(operation)
    return ranges.again(main, operations, bounds)


def _leaving(
    ranges: Ranges, scope: Scope, operation: Operation, before: Sequence[Coordinate]
) -> Iterator[tuple[int, int | None]]:
    """Yield the coordinates of which each index is beyond the axis, with the index.

    Args:
        ranges: The bounds for an input that is the end of its range everywhere.
        scope: The scope of the operation.
        operation: The operation.
        before: Its coordinates for the whole range of the input.
    """
    coordinates = ranges.coordinates(scope, operation)
    # Case: bounds of each column are known for the end, but not for the range.
    if len(coordinates) != len(before):
        before = coordinates
    for number, coordinate in enumerate(coordinates):
        # Case: constants may be below 0, and other indices may not. The end is no
        # constant of the model, though the bounds of a single number look like one.
        if coordinate.from_end and not before[number].from_end:
            coordinate = replace(
                coordinate, from_end=False, lowest=before[number].lowest
            )
        if not _has_elements(coordinate) or not _is_beyond(coordinate):
            continue
        index: int | None = None
        if isinstance(coordinate.low, int) and coordinate.low == coordinate.high:
            index = coordinate.low
        yield number, index


def _is_beyond(coordinate: Coordinate) -> bool:
    """Return whether each index of a coordinate is surely beyond its axis."""
    size = coordinate.size
    if size is None or not coordinate.is_exact:
        return False
    return coordinate.low >= size or coordinate.high < coordinate.lowest


def _has_elements(coordinate: Coordinate) -> bool:
    """Return whether there are indices for some sizes of the inputs."""
    count = elements_of(coordinate.value.sizes)
    if count is None:
        return False
    # An open size of an input may be any number from 1 on.
    if isinstance(count, Size) and all(symbol.name for symbol in count.symbols):
        return True
    return count >= 1
