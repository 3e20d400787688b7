"""The conditions on the inputs of a model under which a gather is proved.

A proof leaves *rooms*: numbers that must be at least 0, such as
`size - 1 - highest index`.

- If a room depends on open sizes, its condition is read off: `seq` is at most 512.
- If it depends on the values of inputs, ranges are tried. They start narrow (`STARTS`),
  and each grows for as long as the proof holds.

A trial computes anew only the values between the inputs and the indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    UNBOUNDED,
    Bounds,
    interval,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size, in_named
from onnxgather.auditing.operators.index_operators import given_indices
from onnxgather.auditing.proof.contract import Condition, open_sizes
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.model.network import Network, Operation, Scope, taken

MOST_OPERATIONS = 200
"""No ranges are tried for a gather with more operations than this before it."""

MOST_TRIED = 30_000
"""After so many computed values no more trials of a network begin."""

FARTHEST = 2**62
"""The largest number to try for a float input that must not be infinite."""

STARTS = ((0, 1), (0, 0), (1, 1))
"""The first ranges to try, for all inputs at once."""

Interval = tuple[float, float]
"""The lowest and the highest value: integers, or infinity."""

InputRanges = dict[str, list[Interval]]
"""The range of each input: one interval, or one for each column of the last axis."""


LIMITS_TRIED: dict[str, Interval] = {**INTEGERS, **dict.fromkeys(FLOATS, UNBOUNDED)}
"""The widest range to try, by data type."""


class Search:
    """Finds conditions for the gathers of a network whose bounds are known."""

    def __init__(self, network: Network, ranges: Ranges) -> None:
        self._network = network
        self._main = network.main
        self._ranges = ranges
        self._open_sizes = open_sizes(network)
        self._values_left = MOST_TRIED
        self._producers: dict[str, int] = {}
        """The operation of the main graph, by its number, that computes a value."""
        self._callers: dict[Scope, int] = {}
        """The operation of the main graph whose body holds a scope."""
        for number, operation in enumerate(self._main.operations):
            for output in operation.outputs:
                self._producers[output] = number
            for body in operation.bodies.values():
                for scope in body.scopes():
                    self._callers[scope] = number

    def conditions(self, scope: Scope, gather: Operation) -> tuple[Condition, ...]:
        """Return the conditions under which a gather is proved.

        The result is empty if no simple conditions prove it.
        """
        # Case 1: the sizes alone decide.
        size_conditions = self._size_conditions(self._ranges, scope, gather)
        if size_conditions is not None:
            return size_conditions

        input_names, operations = self._path_to(scope, gather)

        def try_ranges(trial: InputRanges) -> tuple[Condition, ...] | None:
            """Return what a trial still asks of sizes; None if it proves nothing."""
            if self._values_left < 0:
                return None
            bounds = {
                name: self._bounds(name, intervals) for name, intervals in trial.items()
            }
            changed = self._ranges.again(self._main, operations, bounds)
            self._values_left -= changed.computed
            return self._size_conditions(changed, scope, gather)

        # Case 2: no values of inputs lead to the indices.
        if not input_names:
            return ()

        # Case 3: a narrow range proves the gather; widen it.
        for start in STARTS:
            trial: InputRanges = {name: [start] for name in input_names}
            wanted = try_ranges(trial)
            if wanted is None:
                continue
            value_conditions = self._widen(
                trial, lambda wider, same=wanted: try_ranges(wider) == same
            )
            # The budget ended within a search, so ends may be wrong.
            if self._values_left < 0:
                return ()
            return (*value_conditions, *wanted)

        # Case 4: not even a narrow range proves it.
        return ()

    def _widen(
        self, trial: InputRanges, holds: Callable[[InputRanges], bool]
    ) -> list[Condition]:
        """Return conditions with the widest ranges that still prove, input by input."""
        conditions: list[Condition] = []
        for name in list(trial):
            others = {other: trial[other] for other in trial if other != name}
            if holds(others):  # any value of this input will do
                trial = others
                continue
            widest = self._widest_interval(name, others, trial[name][0], holds)
            trial = others | {name: [widest]}
            columns = self._columns_that_matter(name, trial, holds)
            if columns is not None:
                trial = others | {name: self._free_all_but(name, widest, columns)}
            conditions.append(self._value_condition(name, columns, widest))
        return conditions

    def _widest_interval(
        self,
        name: str,
        others: InputRanges,
        start: Interval,
        holds: Callable[[InputRanges], bool],
    ) -> Interval:
        """Return the widest interval of an input that still proves.

        The high end grows first.
        """
        start_low, start_high = start
        lowest, highest = self._limits(name)
        high = _farthest(
            start_high, highest, lambda n: holds(others | {name: [(start_low, n)]})
        )
        low = -_farthest(
            -start_low, -lowest, lambda n: holds(others | {name: [(-n, high)]})
        )
        return low, high

    def _columns_that_matter(
        self, name: str, trial: InputRanges, holds: Callable[[InputRanges], bool]
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

    def _value_condition(
        self, name: str, columns: tuple[int, ...] | None, widest: Interval
    ) -> Condition:
        """Return the condition; an end at the limit of a data type is open."""
        lowest, highest = self._limits(name)
        low, high = widest
        low_end = None if low == lowest else int(low)
        high_end = None if high == highest else int(high)
        return Condition(
            of="values", input=name, columns=columns, low=low_end, high=high_end
        )

    def _size_conditions(
        self, ranges: Ranges, scope: Scope, gather: Operation
    ) -> tuple[Condition, ...] | None:
        """Return what a proof asks of open sizes; None if they alone prove nothing."""
        conditions: list[Condition] = []
        for coordinate in ranges.coordinates(scope, gather):
            if coordinate.size is None:
                return None
            lowest_allowed = -coordinate.size if coordinate.from_end else 0
            room_above = coordinate.size - 1 - coordinate.high
            room_below = coordinate.low - lowest_allowed
            for room in (room_above, room_below):
                if room >= 0:
                    continue
                condition = self._size_condition(room)
                if condition is None:
                    return None
                if condition not in conditions:
                    conditions.append(condition)
        return tuple(conditions)

    def _size_condition(self, room: AnySize) -> Condition | None:
        """Return a simple condition that makes a number at least 0; None without it."""
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

        (symbols, count), *other_terms = open_part.terms.items()
        *other_symbols, symbol = symbols
        # Case 1: a sum or a product of sizes.
        if other_terms or other_symbols:
            return Condition(of="sizes", expression=repr(-open_part), high=constant)
        # Case 2: one size, count * size + constant >= 0.
        input_name, dimension = self._open_sizes[symbol.name][0]
        low = -(constant // count) if count > 0 else None
        high = constant // -count if count < 0 else None
        return Condition(
            of="size",
            input=input_name,
            dim=dimension,
            expression=symbol.name,
            low=low,
            high=high,
        )

    def _path_to(
        self, scope: Scope, gather: Operation
    ) -> tuple[list[str], list[Operation]]:
        """Return the inputs behind the indices of a gather, and the operations between.

        A gather in a body stands for the operation of the main graph that has the body.
        Both lists are empty if the path is too long.
        """
        caller = self._callers.get(scope)
        on_path: set[int] = set()
        if caller is None:
            waiting = given_indices(gather)
        else:
            on_path.add(caller)
            waiting = list(taken(self._main.operations[caller]))

        visited: set[str] = set()
        while waiting:
            if len(on_path) > MOST_OPERATIONS:
                return [], []
            name = waiting.pop()
            if name in visited or self._ranges.value(self._main, name).is_exact:
                continue
            visited.add(name)
            producer = self._producers.get(name)
            if producer is not None:
                on_path.add(producer)
                waiting.extend(taken(self._main.operations[producer]))
        if len(on_path) > MOST_OPERATIONS:
            return [], []

        types = self._main.types
        input_names = [
            name
            for name in self._main.inputs
            if name in visited and types[name].data_type in LIMITS_TRIED
        ]
        operations = [self._main.operations[number] for number in sorted(on_path)]
        return input_names, operations

    def _limits(self, name: str) -> Interval:
        return LIMITS_TRIED[self._main.types[name].data_type]

    def _bounds(self, name: str, intervals: Sequence[Interval]) -> Bounds:
        value = self._ranges.value(self._main, name)
        low, high = np.array(intervals, object).T
        return interval(value.data_type, value.sizes, low[:, None], high[:, None])


def _farthest(start: float, last: float, holds: Callable[[float], bool]) -> float:
    """Return the largest number up to `last` for which `holds` is true.

    It is true for `start`. The step doubles from there on; near an end, the interval is
    halved.
    """
    if holds(last):
        return last
    if last == math.inf:
        return _farthest(start, FARTHEST, holds)
    good = start
    bad = last
    while bad - good > 1:
        step = good - start + 1
        tried = good + step
        if good + 2 * step >= bad:  # a doubled step would pass the end
            tried = (good + bad) // 2
        if holds(tried):
            good = tried
        else:
            bad = tried
    return good
