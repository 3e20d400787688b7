"""Ends of the range that is given of an input, which lead to an index out of range.

A given range says the least and the greatest element of an input, so each of them is an
element of some request. The bounds are computed again for an input that is that element
everywhere. If all indices of a gather are then beyond their axis, it is shown that the
gather can leave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from onnxgather.auditing.algebra.bounds import INTEGERS, interval
from onnxgather.auditing.proof.beyond import beyond
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
                found = beyond(with_end, scope, operation, before)
                if found is None:
                    continue
                number, _ = found
                coordinate = with_end.coordinates(scope, operation)[number]
                index: int | None = None
                low = coordinate.low
                if isinstance(low, int) and low == coordinate.high:
                    index = low
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
