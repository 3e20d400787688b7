"""The conditions on the inputs of a model under which a gather is proved.

What a proof asks of open sizes is read off its inequalities. What it asks of values is
found by trying: an input first is 0 or 1, then its range grows for as long as the proof
holds. A trial computes the bounds of those values alone that lead from the inputs to
the indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    Bounds,
    interval,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size, in_named
from onnxgather.auditing.operators.index_operators import coordinates_of, given_indices
from onnxgather.auditing.proof.contract import FARTHEST, Condition, open_sizes
from onnxgather.auditing.proof.ranges import Ranges
from onnxgather.core.model.network import Network, Operation, Scope, taken

MOST_OPERATIONS = 200
"""The most operations from the inputs of a model to a gather for which ranges are
tried."""

MOST_TRIED = 30_000
"""The most values that are computed anew in all trials; after these, only sizes are
looked at."""

STARTS = ((0, 1), (0, 0), (1, 1))
"""The ranges of the inputs that are tried first."""

LIMITS_TRIED = INTEGERS | {
    name: (
        -min(FARTHEST, int(np.finfo(dtype).max)),
        min(FARTHEST, int(np.finfo(dtype).max)),
    )
    for name, dtype in FLOATS.items()
}
"""The ends of the ranges that are tried, by data type."""

Tried = dict[str, list[tuple[int, int]]]
"""Ranges of inputs: one for all values, or one for each column of the last axis."""


class Search:
    """The search for conditions in a network whose bounds are known."""

    def __init__(self, network: Network, ranges: Ranges) -> None:
        self._network, self._ranges = network, ranges
        self._sizes = open_sizes(network)
        operations = network.main.operations
        self._makers = {
            name: k for k, one in enumerate(operations) for name in one.outputs
        }
        bodies = (
            (k, body)
            for k, one in enumerate(operations)
            for body in one.bodies.values()
        )
        self._homes = {inner: k for k, body in bodies for inner in body.scopes()}
        self._left = MOST_TRIED

    def conditions(self, scope: Scope, operation: Operation) -> tuple[Condition, ...]:
        """The conditions under which a gather is proved; none where simple ones do not prove it."""
        found = self._of_sizes(self._ranges, scope, operation)
        if found is not None:
            return found
        names, way = self._way(scope, operation)

        def asked(tried: Tried) -> tuple[Condition, ...] | None:
            """What else must hold with ranges of inputs; None where they make no proof."""
            if self._left < 0:
                return None
            inputs = {name: self._in_range(name, ends) for name, ends in tried.items()}
            changed = self._ranges.again(self._network.main, way, inputs)
            self._left -= changed.computed
            return self._of_sizes(changed, scope, operation)

        for start in STARTS if names else ():
            tried: Tried = {name: [start] for name in names}
            if (sizes := asked(tried)) is not None:
                break
        else:
            return ()
        widest = self._widest(tried, lambda more: asked(more) == sizes)
        return () if self._left < 0 else (*widest, *sizes)

    def _widest(self, tried: Tried, holds: Callable[[Tried], bool]) -> list[Condition]:
        """The conditions of the widest ranges with which a proof holds, an input after another."""
        found = list[Condition]()
        for name in list(tried):
            others = {one: ends for one, ends in tried.items() if one != name}
            if holds(others):  # any value will do
                tried = others
                continue
            ends = self._ends(
                name, tried[name][0], lambda more, rest=others: holds(rest | more)
            )
            columns, tried = self._columns(name, others | {name: [ends]}, holds)
            limits = LIMITS_TRIED[self._network.main.types[name].data_type]
            is_integer = limits in INTEGERS.values()
            pairs = zip(ends, limits, strict=True)
            low, high = (None if is_integer and n == limit else n for n, limit in pairs)
            found.append(
                Condition(of="values", input=name, columns=columns, low=low, high=high)
            )
        return found

    def _ends(
        self, name: str, start: tuple[int, int], holds: Callable[[Tried], bool]
    ) -> tuple[int, int]:
        """The widest range of an input with which a proof holds."""
        first, last = LIMITS_TRIED[self._network.main.types[name].data_type]
        high = _farthest(start[1], last, lambda n: holds({name: [(start[0], n)]}))
        return (
            -_farthest(-start[0], -first, lambda n: holds({name: [(-n, high)]})),
            high,
        )

    def _columns(
        self, name: str, tried: Tried, holds: Callable[[Tried], bool]
    ) -> tuple[tuple[int, ...] | None, Tried]:
        """The columns of the last axis that the range of an input matters for; None: all values."""
        (ends,), known = tried[name], self._network.main.types[name]
        limits, count = LIMITS_TRIED[known.data_type], (known.sizes or (1,))[-1] or 1
        if (
            known.data_type in INTEGERS and 1 < count <= COLUMNS
        ):  # a free float may be NaN
            every = range(count)
            rows = [[limits if k == free else ends for k in every] for free in every]
            matter = tuple(k for k in every if not holds(tried | {name: rows[k]}))
            less = tried | {name: [ends if k in matter else limits for k in every]}
            if len(matter) < count and holds(less):
                return matter, less
        return None, tried

    def _of_sizes(
        self, ranges: Ranges, scope: Scope, operation: Operation
    ) -> tuple[Condition, ...] | None:
        """What a proof asks of open sizes; None where they alone do not make one."""
        found = list[Condition]()
        for c in coordinates_of(ranges.given(scope, operation)):
            if c.size is None:
                return None
            for room in (c.size - 1 - c.high, c.low + c.size * c.from_end):
                if not room >= 0:
                    condition = self._asked(room)
                    if condition is None:
                        return None
                    found.append(condition)
        return tuple(dict.fromkeys(found))

    def _asked(self, room: AnySize) -> Condition | None:
        """The condition that makes a number at least 0; None where there is no simple one."""
        named = in_named(room)
        if not isinstance(named, Size):
            return None
        constant = named.terms.get((), 0)
        rest = Size(
            {monomial: count for monomial, count in named.terms.items() if monomial}
        )
        if (-rest).low > constant:
            return None
        ((*symbols, one), count), *others = rest.terms.items()
        if others or symbols:
            return Condition(of="sizes", expression=repr(-rest), high=constant)
        low, high = (
            (-(constant // count), None) if count > 0 else (None, constant // -count)
        )
        name, dim = self._sizes[one.name][0]
        return Condition(
            of="size", input=name, dim=dim, expression=one.name, low=low, high=high
        )

    def _way(
        self, scope: Scope, operation: Operation
    ) -> tuple[list[str], list[Operation]]:
        """The inputs behind the indices of a gather, and the operations that lead there."""
        main, home = self._network.main, self._homes.get(scope)
        kept, seen = set[int]() if home is None else {home}, set[str]()
        wanted = (
            given_indices(operation)
            if home is None
            else [*taken(main.operations[home])]
        )
        while wanted and len(kept) <= MOST_OPERATIONS:
            name = wanted.pop()
            if name not in seen and not self._ranges.value(main, name).is_exact:
                seen.add(name)
                if name in self._makers:
                    kept.add(self._makers[name])
                    wanted += taken(main.operations[self._makers[name]])
        if len(kept) > MOST_OPERATIONS:
            return [], []
        names = [
            n
            for n in main.inputs
            if n in seen and main.types[n].data_type in LIMITS_TRIED
        ]
        return names, [main.operations[k] for k in sorted(kept)]

    def _in_range(self, name: str, ends: Sequence[tuple[int, int]]) -> Bounds:
        value = self._ranges.value(self._network.main, name)
        low, high = np.array(ends, object).T
        return interval(value.data_type, value.sizes, low[:, None], high[:, None])


def _farthest(start: int, last: int, holds: Callable[[int], bool]) -> int:
    """The largest number up to `last` for which something holds that holds for `start`."""
    if holds(last):
        return last
    below, above = start, last
    while above - below > 1:
        step = below - start + 1
        tried = below + step if below + 2 * step < above else (below + above) // 2
        below, above = (tried, above) if holds(tried) else (below, tried)
    return below
