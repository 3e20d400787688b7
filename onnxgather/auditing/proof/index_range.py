"""The range of the indices of a gather: what is proved of it, and what stops the proof.

The bounds of the indices and the sizes of their axes prove that the indices are in
range, or do not prove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import INTEGERS, merged_reasons
from onnxgather.auditing.algebra.sizes import (
    MOST,
    MOST_OF_INPUT,
    Size,
    first_lost_by,
    in_named,
)
from onnxgather.auditing.operators.index_operators import Coordinate, operator_of
from onnxgather.auditing.operators.sizes_beside import SizeBeside, sizes_beside
from onnxgather.auditing.proof.beyond import (
    Beyond,
    beyond_in_each_run,
    beyond_in_some_run,
)
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.proof.lost_by import rank_lost_by
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.execution.gather_provider import GatherCounts
from onnxgather.core.model.network import Operation, Scope
from onnxgather.core.model.values import numbers_in
from onnxgather.core.public import public

SizesFrom = Literal["file", "given", "run"]

RangeState = Literal["proved", "proved-if", "not-proved", "out-of-range", "invalid"]


class Found(Struct, frozen=True):
    """An index out of range."""

    source: Literal["constant", "inputs"]
    """A constant of the model, or a run with the given inputs."""
    at: tuple[int, ...]
    """Its coordinates in the indices; those of the first index if several are out of
    range."""
    value: int
    count: int
    """How many indices are out of range."""
    providers: dict[str, str]
    """What each provider does with such an index, by the provider's short name."""
    name: str = "indices"
    """The input that holds the index, as the operator's definition has it."""
    coordinate: int = 0
    """Which of the coordinates that the range has."""
    low: int = 0
    """The least index in range there."""


class Met(Struct, frozen=True):
    """What a gather met in a run of the whole model, in all iterations and calls."""

    runs: int
    """How often it ran."""
    indices: int
    """How many indices it had, in all runs."""
    outside: int
    """How many of them were out of range."""
    least: int | None
    """The least index out of range."""
    largest: int | None
    """The largest index out of range."""
    first: tuple[int, ...] | None
    """The place of the first index out of range that it met, in the indices."""
    value: int | None
    """The index there."""
    under_clamp: bool
    """Whether the untouched model stops at another gather, whose index was clamped.
    What this gather met may follow from that."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The least and the largest index out of range; empty if there is none."""
        return tuple(end for end in (self.least, self.largest) if end is not None)

    def joined(self, other: Met) -> Met:
        """Return what is met in the calls of this and of another one behind it."""
        first = self if self.outside else other
        ends = (*self.ends, *other.ends)
        return Met(
            self.runs + other.runs,
            self.indices + other.indices,
            self.outside + other.outside,
            min(ends, default=None),
            max(ends, default=None),
            first.first,
            first.value,
            self.under_clamp and other.under_clamp,
        )


def met_of(row: GatherCounts, under_clamp: bool) -> Met:
    """Return what a gather met, by the row of onnxgather's provider."""
    value = None
    if row.error is not None:  # it ends with the index
        value = int(row.error.rpartition(" ")[2])
    return Met(
        row.runs,
        row.indices,
        row.outside,
        row.least,
        row.largest,
        row.first,
        value,
        under_clamp,
    )


class Lost(Struct, frozen=True):
    """The node behind which the size of an axis is not known."""

    node: str
    op: str
    told_by: str | None = None
    """Options with which an audit knows the size, such as `--shape in0=1,3,64,64`; None
    if no such options are known."""


class GivenEnd(Struct, frozen=True):
    """An end of the range given of an input, which leads to an index out of range."""

    source: Literal["range", "tokenizer", "metadata"]
    """What gives it: a range of the input, the tokenizer that computes its ids, or the
    metadata of the model."""
    input: str
    """The graph input."""
    value: int
    """The element of the input: the least or the greatest one that is given."""
    index: int | None
    """The index that it leads to; None if that is not a single known number."""
    coordinate: int
    """Which of the coordinates that the range has."""


class Reached(Struct, frozen=True):
    """An index out of range that runs reach."""

    by: Literal["each run", "some run"]
    """Each run that reaches the gather, or runs with some inputs."""
    coordinate: int
    """Which of the coordinates that the range has."""
    index: int | None
    """An index is as far beyond the axis, or farther; None if no number is known."""


@public
class IndexRange(Struct, frozen=True):
    """The range of the indices of a gather, a number for each coordinate of a tuple.

    Example:
        >>> first, *_ = og.audit("models/networks/keywords.onnx").gathers
        >>> first.range.state, first.range.low, first.range.high, first.range.size
        ('proved', (1,), (1,), (2,))
    """

    state: RangeState
    """Proved: each index is in range, or there is no index. Proved if: the same if the
    inputs meet the conditions. Out of range: an index is known that is not in range: a
    constant, one of a run, or one that a given range of an input leads to. Invalid:
    ONNX forbids the node, or the node fails in each run."""
    low: tuple[int | None, ...] | None
    """The smallest index, before negative indices are counted from the end. A number is
    None if it is unbounded, and all is None if there is no index."""
    high: tuple[int | None, ...] | None
    size: tuple[int | None, ...] | None
    """The size of the axis that is indexed."""
    why: str
    """The proof in words, such as "constant"; without a proof, the operators behind the
    bounds; of an invalid node, the rule that it breaks."""
    sizes_from: SizesFrom = "file"
    """The sizes for which the range holds: those of the file, those given, or those of
    a run with the inputs given."""
    input: str | None = None
    """What stops the proof: a graph input, or an operator."""
    found: Found | None = None
    seen: tuple[int, int] | None = None
    """The least and the greatest index in a run with the inputs given."""
    met: Met | None = None
    """What the gather met in a run of the whole model; None if nothing counted it."""
    conditions: tuple[Condition, ...] = ()
    """The conditions on the inputs under which the range is proved."""
    excluded: tuple[Condition, ...] = ()
    """The conditions under which the range would be proved, if no input meets these and
    those of the contract. The contract does not have them."""
    lost: Lost | None = None
    """What lost the size of an axis that stops the proof."""
    given: GivenEnd | None = None
    """What shows that an index is out of range if neither a constant nor a run does:
    an end of a given range. The conditions say where the gather is proved."""
    limit: str | None = None
    """The limit that ended the search for a proof or for conditions, as a clause; None
    if none did."""
    reached: Reached | None = None
    """An index out of range that no given input is needed for."""
    unfit: tuple[str, ...] = ()
    """The rules on sizes beside the axis that are not proved, or only if the inputs
    meet the conditions. No limit of the indices mends them."""


def invalid_range(rule: str) -> IndexRange:
    """Return the range of an invalid node, with the rule that the node breaks."""
    return IndexRange("invalid", None, None, None, rule)


NO_INPUT = "no input meets these and the others"
"""Why conditions are not in the contract."""


def without_conditions(
    index_range: IndexRange, conditions: Sequence[Condition]
) -> IndexRange:
    """Return a range that is not proved, as no input meets its conditions and others.

    A range that is known to be left stays so.
    """
    index_range = replace(index_range, conditions=(), excluded=(*conditions,))
    if index_range.state == "out-of-range":
        return index_range
    text = " and ".join(map(str, conditions))
    return replace(index_range, state="not-proved", why=f"{text}: {NO_INPUT}")


def proof_of(ranges: Ranges, scope: Scope, operation: Operation) -> IndexRange:
    """Return the range of the indices of an operation, and what is proved of it."""
    coordinates = ranges.coordinates(scope, operation)
    beside = sizes_beside(ranges.given(scope, operation))
    unfit = [size for size in beside if not size.is_inside]
    rules = tuple(size.rule for size in unfit)
    row = operator_of(operation)
    low = tuple(_told_number(coordinate, 0) for coordinate in coordinates)
    high = tuple(_told_number(coordinate, 1) for coordinate in coordinates)
    sizes = numbers_in([coordinate.size for coordinate in coordinates]) or ()
    reasons_of_all = merged_reasons(coordinate.value.why for coordinate in coordinates)
    why = ", ".join(reason.text for reason in reasons_of_all)

    # Case 1: each index is in range.
    is_empty = all(coordinate.value.is_empty for coordinate in coordinates)
    if is_empty and not unfit:
        return IndexRange("proved", None, None, sizes, "there is no index")
    if row and row.hardened == "nothing":
        return IndexRange("proved", low, high, sizes, "any index is in range by design")
    outside = [coordinate for coordinate in coordinates if not coordinate.is_inside]
    if not unfit and not outside:
        reasons = [why] if why else []
        for coordinate in coordinates:
            size = coordinate.size
            if isinstance(size, Size) and in_named(size) == size:
                reasons.append(f"at most {coordinate.high} of {size}")
        return IndexRange("proved", low, high, sizes, ", ".join(reasons))

    # Case 2: an index is out of range, whatever the inputs are.
    found = beyond_in_each_run(ranges, scope, operation)
    if found is not None:
        reached = _reached("each run", found)
        return IndexRange("out-of-range", low, high, sizes, why, reached=reached)

    # Case 3: neither is proved, but some inputs may be known that lead to such an
    # index.
    reached = None
    found = beyond_in_some_run(ranges, scope, operation)
    if found is not None:
        reached = _reached("some run", found)
    stop: str | None = None
    if outside:
        stop = _stop_of(operation, outside) or why
    return IndexRange(
        "not-proved",
        low,
        high,
        sizes,
        why,
        input=stop,
        lost=_lost_size(ranges, scope, operation, outside, unfit),
        reached=reached,
        unfit=rules,
    )


def _reached(by: Literal["each run", "some run"], found: Beyond) -> Reached:
    coordinate, index = found
    return Reached(by, coordinate, index if isinstance(index, int) else None)


def _lost_size(
    ranges: Ranges,
    scope: Scope,
    operation: Operation,
    outside: Sequence[Coordinate],
    unfit: Sequence[SizeBeside],
) -> Lost | None:
    """Return the node behind which a size of an axis or beside it is not known."""
    sizes = [coordinate.size for coordinate in outside]
    for beside in unfit:
        sizes += [beside.limit, beside.size]
    lost_by = first_lost_by(*filter(None, sizes))
    for coordinate in outside:
        if lost_by is None and coordinate.size is None:
            data = operation.inputs[coordinate.input.data]
            lost_by = rank_lost_by(ranges, scope, data)
    return None if lost_by is None else Lost(*lost_by)


def _stop_of(operation: Operation, outside: Sequence[Coordinate]) -> str:
    """Return what stops the proof of coordinates; "" if nothing is known to."""
    # A node without its data input raises IndexError here: ONNX does not allow it.
    unsized = [
        operation.inputs[coordinate.input.data]
        for coordinate in outside
        if not isinstance(coordinate.size, int)
    ]
    unsized = [name for name in unsized if name]
    stops = ", ".join(merged_reasons(coordinate.value.stops for coordinate in outside))
    if stops:
        return stops
    return f"the size of {unsized[0]}" if unsized else ""


_ASSUMED = {MOST, MOST - 1, MOST_OF_INPUT, MOST_OF_INPUT - 1}
"""The largest sizes and positions that proofs assume."""


def _told_number(coordinate: Coordinate, end: Literal[0, 1]) -> int | None:
    """Return the least (0) or the greatest (1) number of a coordinate to be told.

    It is None where `_number` is, and where the number is only what every proof
    assumes of sizes.
    """
    number = _number(coordinate, end)
    if number is None or abs(number) not in _ASSUMED:
        return number
    value = coordinate.value
    return number if value.is_given or value.is_of_constants else None


def _number(coordinate: Coordinate, end: Literal[0, 1]) -> int | None:
    """Return the least (0) or the greatest (1) number of a coordinate.

    It is None for an open size, and for the limit of the data type.
    """
    number = (coordinate.low, coordinate.high)[end]
    limits = INTEGERS.get(coordinate.value.data_type, INTEGERS["INT64"])
    if not isinstance(number, int) or number == limits[end]:
        return None
    return number
