"""The conditions on the inputs of a model under which a gather is proved.

A proof leaves *rooms*: numbers that must be at least 0, such as
`size - 1 - highest index`.

- If a room depends on open sizes, its condition is read off: `seq` is at most 512.
- If it depends on the values of inputs, ranges are tried. They start narrow (`STARTS`),
  and each grows for as long as the proof holds. The ends are tried first that are right
  if an index moves as far as its value.

A trial computes anew only the values between the inputs and the indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    UNBOUNDED,
    Bounds,
    interval,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size, in_named, low_of, size_from
from onnxgather.auditing.operators.index_operators import Coordinate, given_indices
from onnxgather.auditing.operators.output_bounds import ELEMENTWISE, LOGICAL
from onnxgather.auditing.operators.sizes_beside import sizes_beside
from onnxgather.auditing.proof.beyond import (
    MOST_OPERATIONS,
    beyond,
    operations_before,
)
from onnxgather.auditing.proof.columns import ColumnDifference, difference_of
from onnxgather.auditing.proof.contract import (
    Condition,
    condition_on_size,
    open_sizes,
)
from onnxgather.auditing.proof.input_bounds import input_bounds
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.model.network import Network, Operation, Scope, taken

MOST_TRIED = 30_000
"""After so many computed values no more trials of a gather begin."""

MOST_TRIED_OF_ALL = 300_000
"""After so many computed values no more trials of a network begin."""

FARTHEST_FROM_SIZE = 2**20
"""How far from an open size an end is tried."""

LARGEST_ASKED = 2**24
"""A condition that only larger sizes meet is none."""

FARTHEST = 2**62
"""The largest number to try for a float input that must not be infinite."""

MOST_MASKED = 8
"""At most so many numbers of an Equal are tried."""

STARTS = ((0, 1), (0, 0), (1, 1))
"""The first ranges to try, for all inputs at once."""

Interval = tuple[Any, Any]
"""The lowest and the highest value: integers, infinity, or open sizes."""

ValueRanges = dict[str, list[Interval]]
"""The range of each value: one interval, or one for each column of the last axis."""


LIMITS_TRIED: dict[str, tuple[float, float]] = {
    **INTEGERS,
    **dict.fromkeys(FLOATS, UNBOUNDED),
}
"""The widest range to try, by data type."""


class _Path(Struct, frozen=True):
    """What leads to the indices of a gather."""

    names: list[str]
    """The values whose ranges are tried: inputs, and differences of columns."""
    operations: list[Operation]
    """The operations of the main graph between them and the indices."""
    in_bodies: set[Operation]
    """The operations in bodies that lead to the indices."""
    differences: Mapping[str, ColumnDifference]
    """The differences among the names."""


class _Outcome(Struct, frozen=True):
    """Ranges under which a gather is proved."""

    path: _Path
    ranges: ValueRanges
    starts: ValueRanges
    """The ranges as they were before they grew."""
    sizes: tuple[Condition, ...]
    """What the proof still asks of sizes."""
    also: tuple[int, ...] | None = None
    """Numbers outside the only range, with which the gather is proved too."""


class Search:
    """Finds conditions for the gathers of a network whose bounds are known."""

    def __init__(
        self, network: Network, ranges: Ranges, given: Sequence[Condition] = ()
    ) -> None:
        """Keep a network, the bounds of its values, and what is given of its inputs."""
        self._network = network
        self._main = network.main
        self._ranges = ranges
        self._open_sizes = open_sizes(network)
        self._given = [condition for condition in given if condition.of == "values"]
        """The given conditions on values."""
        self.limit: str | None = None
        """The limit that ended the last search, as a clause; None if none did."""
        self._values_left = MOST_TRIED
        """How many values the trials of the gather may still compute."""
        self._values_left_of_all = MOST_TRIED_OF_ALL
        """Likewise, of all gathers."""
        self._places = {name: place for place, name in enumerate(self._main.inputs)}
        """The places of the inputs in their order."""
        self._around = dict[Scope, tuple[Scope, Operation]]()
        """The operation whose body a scope is, and the scope of the operation."""
        for scope in self._main.scopes():
            for operation in scope.operations:
                for body in operation.bodies.values():
                    self._around[body] = scope, operation
        self._always_run = set(_scopes_that_run(self._main))
        self._kept = dict[tuple[Scope, Operation], list[Coordinate]]()
        """The coordinates of the gather whose conditions are searched."""

    @cached_property
    def _producers(self) -> dict[str, int]:
        """The operation of the main graph, by its number, that computes a value."""
        producers: dict[str, int] = {}
        for number, operation in enumerate(self._main.operations):
            producers.update(dict.fromkeys(operation.outputs, number))
        return producers

    def conditions(self, scope: Scope, gather: Operation) -> tuple[Condition, ...]:
        """Return the conditions under which a gather is proved.

        The result is empty if no simple conditions prove it.
        """
        self._values_left = MOST_TRIED
        self.limit = None
        of_sizes_beside = self._conditions_beside(scope, gather)
        if of_sizes_beside is None:
            return ()

        # Case 1: a given condition proves it, which says more than the bounds.
        proving = self._given_that_proves(scope, gather)
        if proving is not None:
            return (proving, *of_sizes_beside)
        # A limit of these few trials ends no other search.
        self.limit = None

        # Case 2: the sizes alone decide.
        size_conditions = self._size_conditions(self._ranges, scope, gather)
        if size_conditions is not None:
            judged = self._judged(scope, gather, size_conditions)
            # A condition that only the least size meets is as narrow as a start.
            if any(map(self._is_of_least_size, judged)):
                return ()
            return (*judged, *of_sizes_beside)

        # Case 3: ranges of values prove it.
        for of_ranges in self._outcomes(scope, gather):
            outcome = self._with_masked(scope, gather, of_ranges)
            conditions = self._conditions_of(scope, gather, outcome)
            # The search ended within a trial, so ends may be wrong.
            if self.limit is not None:
                return ()
            if conditions is not None:
                return (*conditions, *outcome.sizes, *of_sizes_beside)
        return ()

    def _conditions_beside(
        self, scope: Scope, gather: Operation
    ) -> tuple[Condition, ...] | None:
        """Return what a proof asks of sizes beside the axis; None if nothing proves."""
        conditions: list[Condition] = []
        for size in sizes_beside(self._ranges.given(scope, gather)):
            if size.is_inside:
                continue
            rooms = size.rooms
            if not rooms or size.is_outside:
                return None
            # Case: one condition with both ends says that two sizes are equal.
            is_equal = size.is_equal and in_named(rooms[0]) == rooms[0]
            if is_equal:
                rooms = rooms[:1]
            for room in rooms:
                condition = self._size_condition(room, is_equal)
                if condition is None:
                    return None
                conditions.append(condition)
        return self._judged(scope, gather, dict.fromkeys(conditions))

    def _judged(
        self, scope: Scope, gather: Operation, conditions: Iterable[Condition]
    ) -> tuple[Condition, ...]:
        """Return conditions on sizes, each with whether it is exact."""
        return tuple(
            replace(condition, exact=self._is_exact_size(scope, gather, condition))
            for condition in conditions
        )

    def _conditions_of(
        self, scope: Scope, gather: Operation, outcome: _Outcome
    ) -> list[Condition] | None:
        """Return the conditions on values; None if one is as narrow as a start."""
        conditions: list[Condition] = []
        for name in outcome.ranges:
            own = self._value_conditions(scope, gather, outcome, name)
            if own is None:
                return None
            conditions += own
        return conditions

    def _outcomes(self, scope: Scope, gather: Operation) -> Iterator[_Outcome]:
        """Yield the widest ranges of values that prove a gather, the best first.

        Ranges with which the proof asks nothing of sizes are preferred, and ranges of
        differences to those of their columns.
        """
        paths = [self._path_to(scope, gather, with_differences=True)]
        if paths[0].differences:
            paths.append(self._path_to(scope, gather, with_differences=False))
        asking: list[_Outcome] = []
        for path in paths:
            # No values of inputs lead to the indices.
            if not path.names:
                continue
            of_sizes = self._of_sizes(scope, gather, path)
            if of_sizes is not None:
                yield of_sizes
            of_numbers = self._of_numbers(scope, gather, path)
            if of_numbers is None:
                continue
            if of_numbers.sizes:
                asking.append(of_numbers)
            else:
                yield of_numbers
        yield from asking

    def _of_numbers(
        self, scope: Scope, gather: Operation, path: _Path
    ) -> _Outcome | None:
        """Return the widest ranges whose ends are numbers."""
        for starts in self._number_starts(scope, gather, path.names):
            outcome = self._grown(scope, gather, path, starts)
            if outcome is not None and not self._has_open_difference(outcome):
                return outcome
        return None

    def _number_starts(
        self, scope: Scope, gather: Operation, names: Sequence[str]
    ) -> Iterator[ValueRanges]:
        """Yield the ranges of numbers from which values grow."""
        for start in STARTS:
            yield {name: [start] for name in names}
        # A length may have to be more than any of these.
        least: ValueRanges = {name: [STARTS[0]] for name in names}
        is_other = False
        for coordinate in self._own(scope, gather):
            name = coordinate.input.value_in(gather)
            lowest = coordinate.lowest
            if name in least and isinstance(lowest, int) and lowest > 0:
                least[name] = [(lowest, lowest)]
                is_other = True
        if is_other:
            yield least

    def _of_sizes(
        self, scope: Scope, gather: Operation, path: _Path
    ) -> _Outcome | None:
        """Return the widest ranges whose ends are the size of an axis of the gather."""
        types = [self._ranges.value(self._main, name).data_type for name in path.names]
        if not all(data_type in INTEGERS for data_type in types):
            return None
        tops: list[AnySize] = []
        for coordinate in self._own(scope, gather):
            size = coordinate.size
            if not isinstance(size, Size) or in_named(size) != size:
                continue
            tops += [size - 1, size - 2]
        for top in dict.fromkeys(tops):
            starts: ValueRanges = {name: [(0, top)] for name in path.names}
            outcome = self._grown(scope, gather, path, starts)
            if outcome is not None and not outcome.sizes:
                return outcome
        return None

    def _try(
        self, scope: Scope, gather: Operation, path: _Path, trial: ValueRanges
    ) -> tuple[Condition, ...] | None:
        """Return what a trial still asks of sizes; None if it proves nothing."""
        changed = self._changed(path, trial)
        if changed is None:
            return None
        return self._size_conditions(changed, scope, gather)

    def _changed(self, path: _Path, trial: ValueRanges) -> Ranges | None:
        """Return the bounds of a trial; None if there were too many trials."""
        if not self._may_try():
            return None
        bounds = {
            name: self._bounds(name, intervals) for name, intervals in trial.items()
        }
        changed = self._ranges.again(
            self._main, path.operations, bounds, path.in_bodies
        )
        self._count(changed)
        return changed

    def _may_try(self) -> bool:
        """Return whether one more trial may begin; else note the limit."""
        if self._values_left < 0:
            what = "the search for conditions"
            self.limit = f"{what} ended after {MOST_TRIED:,} computed values"
        elif self._values_left_of_all < 0:
            what = "the search for conditions of all gathers"
            self.limit = f"{what} ended after {MOST_TRIED_OF_ALL:,} computed values"
        return self.limit is None

    def _count(self, changed: Ranges) -> None:
        """Count the values that a trial computed."""
        self._values_left -= changed.computed
        self._values_left_of_all -= changed.computed

    def _grown(
        self, scope: Scope, gather: Operation, path: _Path, starts: ValueRanges
    ) -> _Outcome | None:
        """Return the widest ranges that still prove; None if the first do not.

        What the proof asks of sizes stays as it is.
        """
        first_trial = self._changed(path, starts)
        if first_trial is None:
            return None
        wanted = self._size_conditions(first_trial, scope, gather)
        if wanted is None:
            return None

        def holds(trial: ValueRanges) -> bool:
            return self._try(scope, gather, path, trial) == wanted

        likely = _likely_growth(self._coordinates(first_trial, scope, gather))
        trial = dict(starts)
        for name in list(trial):
            others = {other: trial[other] for other in trial if other != name}
            # Any value of it will do. Without ranges, nothing is proved.
            if others and holds(others):
                trial = others
                continue
            widest = self._widest_interval(name, others, trial[name][0], holds, likely)
            trial = others | {name: [widest]}
            is_difference = name in path.differences
            columns = (
                None if is_difference else self._columns_that_matter(name, trial, holds)
            )
            if columns is not None:
                trial = others | {name: self._free_all_but(name, widest, columns)}
            count = None if is_difference else self._column_count(name)
            if count is not None:
                kept = range(count) if columns is None else columns
                intervals = self._widest_columns(name, trial, kept, holds)
                trial = others | {name: intervals}
        # Every value is free: its bounds alone would have proved the gather.
        if not trial:
            return None
        return _Outcome(path, trial, starts, wanted)

    def _with_masked(
        self, scope: Scope, gather: Operation, outcome: _Outcome
    ) -> _Outcome:
        """Return an outcome that allows the numbers that the model replaces, too.

        `Where(ids == -100, 0, ids)` is proved for -100 and for a range, but not for all
        numbers from -100 to that range. So each number that is compared is tried alone.
        """
        path = outcome.path
        (name, intervals), *others = outcome.ranges.items()
        # Of several ranges, a number of one needs a trial with each number of another.
        if others or len({*intervals}) > 1 or path.differences:
            return outcome
        if not self._is_elementwise(scope, gather, path):
            return outcome
        if self._main.types[name].data_type not in INTEGERS:
            return outcome
        masked: list[int] = []
        for number in self._compared_numbers(path):
            trial: ValueRanges = {name: [(number, number)]}
            if self._try(scope, gather, path, trial) == outcome.sizes:
                masked.append(number)

        low, high = intervals[0]
        for number in masked:
            if number == high + 1:
                high = number
        also = tuple(number for number in masked if not low <= number <= high)
        return replace(outcome, ranges={name: [(low, high)]}, also=also or None)

    def _is_elementwise(self, scope: Scope, gather: Operation, path: _Path) -> bool:
        """Return whether each index of a gather comes from one element of an input.

        Only then is a number of an element, or a range, that of an index too.
        """
        if scope is not self._main or not gather.is_gather:
            return False
        return all(
            operation.operator in ELEMENTWISE | LOGICAL and not operation.domain
            for operation in path.operations
        )

    def _given_that_proves(self, scope: Scope, gather: Operation) -> Condition | None:
        """Return a given condition on an input that proves a gather; None without it.

        Bounds have no numbers beside a range, and one end where two conditions have a
        number and a size.
        """
        if not self._given:
            return None
        path = self._path_to(scope, gather, with_differences=False)
        is_elementwise = self._is_elementwise(scope, gather, path)
        for condition in self._given:
            name = condition.input or ""
            if name not in path.names or condition.columns is not None:
                continue
            is_of_integers = self._main.types[name].data_type in INTEGERS
            if not is_of_integers or (condition.also and not is_elementwise):
                continue
            low, high = condition.ends(self._ranges.sizes)
            lowest, highest = self._limits(name)
            own = (lowest if low is None else low, highest if high is None else high)
            trials = [own, *((number, number) for number in condition.also or ())]
            asked = [
                self._try(scope, gather, path, {name: [trial]}) for trial in trials
            ]
            if all(conditions == () for conditions in asked):
                return condition
        return None

    def _compared_numbers(self, path: _Path) -> list[int]:
        """Return the numbers that values of a path may equal, in order."""
        numbers = set[int]()
        for operation in path.operations:
            if operation.operator != "Equal":
                continue
            for operand in operation.inputs:
                value = self._ranges.value(self._main, operand)
                known = value.known
                if known is not None and value.data_type in ("INT32", "INT64"):
                    numbers.update(known.ravel().tolist())
        return sorted(numbers)[:MOST_MASKED]

    def _widest_interval(
        self,
        name: str,
        others: ValueRanges,
        start: Interval,
        holds: Callable[[ValueRanges], bool],
        likely: Interval,
    ) -> Interval:
        """Return the widest interval of a value that still proves.

        The high end grows first.

        Args:
            name: The value.
            others: The ranges of other values.
            start: The interval that grows.
            holds: Whether ranges prove.
            likely: As of `_likely_growth`.
        """
        _, high = start
        lowest, highest = self._limits(name)
        # Case 1: an end that is a size moves by numbers.
        if isinstance(high, Size):
            return self._widest_from_size(high, -lowest, _with_own(holds, others, name))
        # Case 2: both ends are numbers.
        return self._wider(
            start,
            (lowest, highest),
            _with_own(holds, others, name),
            likely,
        )

    def _widest_from_size(
        self, top: Size, most_below: float, holds: Callable[[Interval], bool]
    ) -> Interval:
        """Return the widest interval around 0 to a size that still proves.

        Args:
            top: The size, at which the high end starts.
            most_below: How far below 0 a number may be.
            holds: Whether an interval proves.
        """
        above = _farthest(0, FARTHEST_FROM_SIZE, lambda n: holds((0, top + int(n))))
        high = top + int(above)
        bottoms: list[AnySize] = [-top - 1, -top]
        for bottom in bottoms:
            if not holds((bottom, high)):
                continue
            below = _farthest(
                0,
                FARTHEST_FROM_SIZE,
                lambda n, low=bottom: holds((low - int(n), high)),
            )
            return bottom - int(below), high
        low = -_farthest(0, most_below, lambda n: holds((-n, high)))
        return low, high

    def _wider(
        self,
        start: Interval,
        limits: tuple[float, float],
        holds: Callable[[Interval], bool],
        likely: Interval = (0, 0),
    ) -> Interval:
        """Return the widest interval of numbers for which `holds` is true."""
        low, high = start
        lowest, highest = limits
        below, above = likely
        # Where an index falls as its value grows, the ends are the other way round.
        likely_highs = [high + above, high + below]
        likely_lows = [below - low, above - low]
        high = _farthest(high, highest, lambda n: holds((low, n)), likely_highs)
        low = -_farthest(-low, -lowest, lambda n: holds((-n, high)), likely_lows)
        return low, high

    def _columns_that_matter(
        self, name: str, trial: ValueRanges, holds: Callable[[ValueRanges], bool]
    ) -> tuple[int, ...] | None:
        """Return the columns of the last axis that must keep the range.

        None means that all values must.
        """
        count = self._column_count(name)
        if count is None:
            return None
        (widest,) = trial[name]
        every = range(count)
        matter: list[int] = []
        for free in every:
            others = [column for column in every if column != free]
            with_free = self._free_all_but(name, widest, others)
            if not holds(trial | {name: with_free}):
                matter.append(free)
        if len(matter) == count:
            return None
        # Each other column is free alone; that they are free together is another proof.
        if not holds(trial | {name: self._free_all_but(name, widest, matter)}):
            return None
        return tuple(matter)

    def _widest_columns(
        self,
        name: str,
        trial: ValueRanges,
        kept: Sequence[int],
        holds: Callable[[ValueRanges], bool],
    ) -> list[Interval]:
        """Return the intervals of all columns, where those that are kept grow alone."""
        intervals = list(trial[name])
        count = self._column_count(name) or 1
        if len(kept) < 2:
            return intervals
        intervals = [*intervals] * count if len(intervals) == 1 else intervals
        for column in kept:
            # An end that is a size stays.
            if any(isinstance(end, Size) for end in intervals[column]):
                continue

            def holds_with(interval: Interval, column: int = column) -> bool:
                changed = [*intervals]
                changed[column] = interval
                return holds(trial | {name: changed})

            intervals[column] = self._wider(
                intervals[column], self._limits(name), holds_with
            )
        return intervals

    def _column_count(self, name: str) -> int | None:
        """Return the length of an input's last axis; None if no column may be free."""
        value_type = self._main.types[name]
        if value_type.data_type not in INTEGERS:  # a float that is free may be NaN
            return None
        if not value_type.sizes:
            return None
        count = value_type.sizes[-1]
        if count is None or not 1 < count <= COLUMNS:
            return None
        return count

    def _free_all_but(
        self, name: str, interval_of_kept: Interval, kept: Sequence[int]
    ) -> list[Interval]:
        """Return an interval for each column: the data type's own if it is not kept."""
        limits = self._limits(name)
        count = self._column_count(name) or 1
        return [
            interval_of_kept if column in kept else limits for column in range(count)
        ]

    def _has_open_difference(self, outcome: _Outcome) -> bool:
        """Return whether a difference has an end at the limit of its data type.

        An integer without an end may be beyond the type, where the model wraps it.
        """
        for name in outcome.path.differences:
            for low, high in outcome.ranges.get(name, ()):
                lowest, highest = self._limits(name)
                if low == lowest or high == highest:
                    return True
        return False

    # What is found, as conditions.

    def _value_conditions(
        self, scope: Scope, gather: Operation, outcome: _Outcome, name: str
    ) -> list[Condition] | None:
        """Return the conditions on a value: one for each range of its columns.

        None if a range is one to start with that could not grow, unless just beyond it
        the gather surely fails.
        """
        intervals = outcome.ranges[name]
        limits = self._limits(name)
        columns_by_interval: dict[Interval, list[int]] = {}
        for column, own in enumerate(intervals):
            if own != limits or len(intervals) == 1:
                columns_by_interval.setdefault(own, []).append(column)
        difference = outcome.path.differences.get(name)
        conditions: list[Condition] = []
        for own, columns in columns_by_interval.items():
            is_of_all = len(columns) == len(intervals)
            beyond = self._fails_beyond(scope, gather, outcome, name, columns)
            if own in STARTS and own in outcome.starts[name] and not any(beyond):
                return None
            ends = _ends_as_fields(own, limits)
            # Between two integers, floats are beyond an end and may be in range.
            is_of_integers = self._main.types[name].data_type in INTEGERS
            exact = bool(beyond) and all(beyond) and is_of_integers
            if difference is not None:
                condition = Condition(
                    of="difference",
                    input=difference.input,
                    columns=(difference.column, difference.other),
                    exact=exact,
                    **ends,
                )
            else:
                condition = Condition(
                    of="values",
                    input=name,
                    columns=None if is_of_all else tuple(columns),
                    also=outcome.also,
                    exact=exact,
                    **ends,
                )
            conditions.append(condition)
        return conditions

    def _fails_beyond(
        self,
        scope: Scope,
        gather: Operation,
        outcome: _Outcome,
        name: str,
        columns: Sequence[int],
    ) -> list[bool]:
        """Return for each end whether an index surely leaves its axis just beyond it.

        All elements of some columns are then the number just beyond the end, and the
        other values are within their ranges, such as at one end of each. An end at the
        limit of the data type is left out.
        """
        intervals = outcome.ranges[name]
        low, high = intervals[columns[0]]
        lowest, highest = self._limits(name)
        beyond: list[bool] = []
        for end, limit, step in ((low, lowest, -1), (high, highest, 1)):
            if end == limit:
                continue
            number = end + step
            outside = [*intervals]
            for column in columns:
                outside[column] = (number, number)
            others = {key: outcome.ranges[key] for key in outcome.ranges if key != name}
            fails = any(
                self._surely_fails(scope, gather, outcome, trial | {name: outside})
                for trial in _corners_of(others)
            )
            beyond.append(fails)
        return beyond

    def _surely_fails(
        self, scope: Scope, gather: Operation, outcome: _Outcome, trial: ValueRanges
    ) -> bool:
        """Return whether an index surely leaves its axis for some inputs of a trial."""
        # A gather in a branch or a loop may not run, and columns that a difference is
        # of may have ranges of their own.
        inputs = {d.input for d in outcome.path.differences.values()}
        if scope not in self._always_run:
            return False
        if inputs & trial.keys():
            return False
        # Case 1: for all sizes.
        changed = self._changed(outcome.path, trial)
        if changed is None:
            return False
        if self._leaves_surely(changed, scope, gather):
            return True
        # Case 2: for the largest sizes that the proof allows.
        fixed: dict[str, int] = {}
        for condition in outcome.sizes:
            if condition.of != "size" or condition.high is None:
                return False
            fixed[condition.expression or ""] = condition.high
        if not fixed or outcome.path.differences or scope is not self._main:
            return False
        return self._leaves_with_sizes(scope, gather, fixed, trial)

    def _is_of_least_size(self, condition: Condition) -> bool:
        """Return whether only the least size meets a condition that is not exact."""
        if condition.of != "size" or condition.exact:
            return False
        (symbol,) = self._ranges.sizes[condition.expression or ""].symbols
        return condition.high == symbol.low

    def _is_exact_size(
        self, scope: Scope, gather: Operation, condition: Condition
    ) -> bool:
        """Return whether an index surely leaves its axis just beyond each end."""
        if scope is not self._main:
            return False
        beyond: list[dict[str, int] | None] = []
        if condition.of == "sizes":
            if condition.low is not None:
                beyond.append(self._sizes_beyond(condition, condition.low, -1))
            if condition.high is not None:
                beyond.append(self._sizes_beyond(condition, condition.high, 1))
        else:
            name = condition.expression or ""
            if condition.low is not None:
                beyond.append({name: condition.low - 1})
            if condition.high is not None:
                beyond.append({name: condition.high + 1})
        for fixed in beyond:
            if fixed is None or not all(map(self._may_be, fixed, fixed.values())):
                return False
            if not self._leaves_with_sizes(scope, gather, fixed, {}):
                return False
        return True

    def _may_be(self, name: str, number: int) -> bool:
        """Return whether an open size may be a number."""
        (symbol,) = self._ranges.sizes[name].symbols
        return symbol.low <= number <= symbol.high

    def _sizes_beyond(
        self, condition: Condition, end: int, side: Literal[-1, 1]
    ) -> dict[str, int] | None:
        """Return sizes with which an expression is just beyond an end.

        All but one are the least; None if these do not lead beyond it.

        Args:
            condition: The condition with the expression.
            end: The end.
            side: 1 for the high end, -1 for the low one.
        """
        expression = condition.expression or ""
        least: dict[str, int] = {}
        for name, size in self._ranges.sizes.items():
            (symbol,) = size.symbols
            least[name] = max(symbol.low, 1)
        total = low_of(size_from(expression, least))
        for name, number in least.items():
            more = low_of(size_from(expression, {**least, name: number + 1}))
            step = (more - total) * side
            if step <= 0:
                continue
            missing = (end - total) * side + 1
            number += max(0, -(-missing // step))
            found = {**least, name: number}
            beyond = low_of(size_from(expression, found)) - end
            if beyond * side > 0:
                return found
        return None

    def _leaves_with_sizes(
        self,
        scope: Scope,
        gather: Operation,
        fixed: Mapping[str, int],
        trial: ValueRanges,
    ) -> bool:
        """Return whether an index surely leaves its axis with numbers as some sizes."""
        operations = operations_before(self._ranges, self._main, taken(gather))
        if operations is None or not self._may_try():
            return False
        sizes = {**self._ranges.sizes, **fixed}
        values: dict[str, Bounds] = {}
        for name in self._main.inputs:
            value = input_bounds(self._network, name, sizes)
            if name in trial:
                value = _within(value, trial[name])
            values[name] = value
        changed = self._ranges.anew(self._main, operations, values)
        self._count(changed)
        return self._leaves_surely(changed, scope, gather)

    def _leaves_surely(self, ranges: Ranges, scope: Scope, gather: Operation) -> bool:
        """Return whether an index or a size of a gather is surely out of range."""
        beside = sizes_beside(ranges.given(scope, gather))
        if any(size.is_outside for size in beside):
            return True
        own = self._own(scope, gather)
        return beyond(ranges, scope, gather, own) is not None

    def _own(self, scope: Scope, gather: Operation) -> list[Coordinate]:
        """Return the coordinates of a gather for all inputs."""
        # Each trial compares its own with them.
        if (scope, gather) not in self._kept:
            coordinates = self._ranges.coordinates(scope, gather)
            self._kept = {(scope, gather): coordinates}
        return self._kept[scope, gather]

    def _coordinates(
        self, ranges: Ranges, scope: Scope, gather: Operation
    ) -> Iterator[Coordinate]:
        """Yield the coordinates of a trial.

        A trial with one number is no constant of the model, which may be below 0.
        """
        own = self._own(scope, gather)
        from_end = {coordinate.input: coordinate.from_end for coordinate in own}
        for coordinate in ranges.coordinates(scope, gather):
            if coordinate.input.from_end and not from_end[coordinate.input]:
                yield replace(coordinate, from_end=False, lowest=0)
            else:
                yield coordinate

    def _size_conditions(
        self, ranges: Ranges, scope: Scope, gather: Operation
    ) -> tuple[Condition, ...] | None:
        """Return what a proof asks of open sizes; None if they alone prove nothing."""
        conditions: list[Condition] = []
        for coordinate in self._coordinates(ranges, scope, gather):
            rooms = _rooms_of(coordinate)
            if rooms is None:
                return None
            for room in reversed(rooms):
                if room >= 0:
                    continue
                condition = self._size_condition(room)
                if condition is None:
                    return None
                if condition not in conditions:
                    conditions.append(condition)
        return tuple(conditions)

    def _size_condition(
        self, room: AnySize, is_equal: bool = False
    ) -> Condition | None:
        """Return a simple condition that makes a number at least 0; None without it.

        Args:
            room: The number.
            is_equal: Whether the condition makes it 0.
        """
        named = in_named(room)
        # A plain number, or a size that only a run decides.
        if not isinstance(named, Size):
            return None
        constant = named.terms.get((), 0)
        open_part = Size(
            {symbols: count for symbols, count in named.terms.items() if symbols}
        )
        if (-open_part).low > constant:  # no sizes satisfy it
            return None
        # An end of what a proof assumes leads to it: no real sizes satisfy it.
        if constant < -LARGEST_ASKED:
            return None

        (symbols, count), *other_terms = open_part.terms.items()
        *other_symbols, symbol = symbols
        # Case 1: a sum or a product of sizes.
        if other_terms or other_symbols:
            return Condition(
                of="sizes",
                expression=repr(-open_part),
                low=constant if is_equal else None,
                high=constant,
            )
        # Case 2: one size, count * size + constant >= 0.
        low = -(constant // count) if count > 0 or is_equal else None
        high = constant // -count if count < 0 or is_equal else None
        if is_equal and low != high:  # no integer satisfies it
            return None
        return condition_on_size(
            symbol.name, self._open_sizes[symbol.name][0], low, high
        )

    def _path_to(
        self, scope: Scope, gather: Operation, with_differences: bool
    ) -> _Path:
        """Return the inputs behind the indices of a gather, and the operations between.

        A gather in a body stands for the operation of the main graph that has the body.
        There is nothing if the path is too long.

        Args:
            scope: The graph of the gather.
            gather: The gather.
            with_differences: Whether a difference of two columns of an input stands
                for what leads to it.
        """
        on_path: set[int] = set()
        in_bodies: set[Operation] = set()
        if scope not in self._around:
            waiting = given_indices(gather)
        else:
            in_bodies, caller = self._leading_in_bodies(scope, gather)
            on_path.add(self._producers[caller.outputs[0]])
            waiting = list(taken(caller))

        visited: set[str] = set()
        differences: dict[str, ColumnDifference] = {}
        while waiting:
            name = waiting.pop()
            if name in visited or self._ranges.value(self._main, name).is_exact:
                continue
            visited.add(name)
            producer = self._producers.get(name)
            if producer is None:
                continue
            operation = self._main.operations[producer]
            if with_differences:
                difference = difference_of(self._ranges, self._main, operation)
                if difference is not None:
                    differences[name] = difference
                    continue
            on_path.add(producer)
            if len(on_path) > MOST_OPERATIONS:
                why = f"more than {MOST_OPERATIONS} operations lead to the indices"
                self.limit = f"no conditions were searched, as {why}"
                return _Path([], [], set(), {})
            waiting.extend(taken(operation))

        types = self._main.types
        inputs = sorted(visited & self._places.keys(), key=self._places.__getitem__)
        names = [
            name
            for name in (*inputs, *differences)
            if types[name].data_type in LIMITS_TRIED
        ]
        operations = [self._main.operations[number] for number in sorted(on_path)]
        return _Path(names, operations, in_bodies, differences)

    def _leading_in_bodies(
        self, scope: Scope, gather: Operation
    ) -> tuple[set[Operation], Operation]:
        """Return the operations in bodies that lead to a gather in a body.

        The other result is the operation of the main graph that has the body.
        """
        waiting = [(scope, name) for name in taken(gather)]
        around: set[Operation] = set()
        caller = gather
        while scope is not self._main:
            body = scope
            scope, caller = self._around[body]
            around.add(caller)
            waiting += [(scope, name) for name in caller.inputs]
            # The first outputs are the state of a loop, which has an input beside it.
            state_count = len(caller.inputs) - 1
            waiting += [(body, name) for name in body.outputs[:state_count]]

        leading: set[Operation] = set()
        while waiting:
            scope, name = waiting.pop()
            owner = scope.owner(name)
            if owner is None or owner is self._main:
                continue
            operation = self._ranges.producer(owner, name)
            if operation is None or operation in leading:
                continue
            leading.add(operation)
            waiting += [(owner, used) for used in taken(operation)]
            for body in operation.bodies.values():
                for inner in body.scopes():
                    leading.update(inner.operations)
        return leading | around, caller

    def _limits(self, name: str) -> tuple[float, float]:
        return LIMITS_TRIED[self._main.types[name].data_type]

    def _bounds(self, name: str, intervals: Sequence[Interval]) -> Bounds:
        return _within(self._ranges.value(self._main, name), intervals)


def _scopes_that_run(scope: Scope) -> Iterator[Scope]:
    """Yield a graph that runs, and the functions that it calls."""
    yield scope
    for operation in scope.operations:
        if "function" in operation.bodies:
            yield from _scopes_that_run(operation.bodies["function"])


def _within(value: Bounds, intervals: Sequence[Interval]) -> Bounds:
    """Return a value with other bounds: one interval, or one for each column."""
    ends = np.empty((len(intervals), 2), object)
    for row, (low, high) in enumerate(intervals):
        ends[row] = low, high
    return interval(value.data_type, value.sizes, ends[:, :1], ends[:, 1:])


def _with_own(
    holds: Callable[[ValueRanges], bool], others: ValueRanges, name: str
) -> Callable[[Interval], bool]:
    """Return whether an interval of a value proves, beside the ranges of others."""
    return lambda own: holds(others | {name: [own]})


def _corners_of(ranges: ValueRanges) -> Iterator[ValueRanges]:
    """Yield ranges, then their high ends alone, and their low ends alone."""
    yield ranges
    if not ranges:
        return
    for side in (1, 0):
        yield {
            name: [(own[side], own[side]) for own in intervals]
            for name, intervals in ranges.items()
        }


def _likely_growth(coordinates: Iterable[Coordinate]) -> Interval:
    """Return how far ranges grow below and above if an index moves as its value.

    Args:
        coordinates: The coordinates of indices that are proved.
    """
    below: float = math.inf
    above: float = math.inf
    for coordinate in coordinates:
        rooms = _rooms_of(coordinate)
        if rooms is not None:
            below = min(below, low_of(rooms[0]))
            above = min(above, low_of(rooms[1]))
    return below, above


def _rooms_of(coordinate: Coordinate) -> tuple[AnySize, AnySize] | None:
    """Return how far indices are from the ends below and above; None if not known."""
    if coordinate.size is None:
        return None
    room_below = coordinate.low - coordinate.lowest
    room_above = coordinate.size - 1 - coordinate.high
    return room_below, room_above


def _ends_as_fields(own: Interval, limits: tuple[float, float]) -> dict[str, Any]:
    """Return an interval as the fields of a condition; an end at a limit is open."""
    fields = dict[str, Any]()
    for name, end, limit in zip(("low", "high"), own, limits, strict=True):
        if isinstance(end, Size):
            fields[f"{name}_expression"] = repr(end)
        elif end != limit:
            fields[name] = int(end)
    return fields


def _farthest(
    start: float,
    last: float,
    holds: Callable[[float], bool],
    likely: Iterable[float] = (),
) -> float:
    """Return the largest number up to `last` for which `holds` is true.

    It is true for `start`. A likely number is the largest one if it holds and the next
    one does not. From the largest one that holds, the step doubles; near an end, the
    interval is halved.
    """
    good = start
    bad = math.inf
    for number in likely:
        for tried in (number, number + 1):
            # Case 1: what was tried already decides it.
            if not good < tried < min(bad, last):
                continue
            # Case 2: it is tried.
            if holds(tried):
                good = tried
            else:
                bad = tried
    if bad == math.inf:
        if holds(last):
            return last
        if last == math.inf:
            return _farthest(good, FARTHEST, holds)
        bad = last
    first = good
    while bad - good > 1:
        step = good - first + 1
        tried = good + step
        if good + 2 * step >= bad:  # a doubled step would pass the end
            tried = (good + bad) // 2
        if holds(tried):
            good = tried
        else:
            bad = tried
    return good
