"""Random words that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014).

Integer arithmetic only, so that neither numpy's nor Python's version plays a part.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
T = TypeVar("T")

GOLDEN = 0x9E3779B97F4A7C15
"""The golden ratio of 2^64."""

_MIXES = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST = 31
_MASK = 2**64 - 1


def seed_of(name: str) -> int:
    """Return the seed that belongs to a name."""
    return zlib.crc32(name.encode())


def words(seed: int, count: int) -> Words:
    """Return the first words of a seed, uniform in [0, 2^64)."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed & _MASK)
    for shift, factor in _MIXES:
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(_LAST))


class Stream:
    """The words of a seed one by one; those of `words`."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def word(self) -> int:
        """Return the next word."""
        self._state = (self._state + GOLDEN) & _MASK
        word = self._state
        for shift, factor in _MIXES:
            word = ((word ^ (word >> shift)) * factor) & _MASK
        return word ^ (word >> _LAST)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both possible."""
        return low + self.word() % (high - low + 1)

    def one_in(self, count: int) -> bool:
        """Return True once in `count` times."""
        return self.word() % count == 0

    def of(self, values: Sequence[T]) -> T:
        """Return one of some values."""
        return values[self.word() % len(values)]

    def shuffled(self, count: int) -> list[int]:
        """Return the numbers below `count` in any order."""
        order = list(range(count))
        for k in range(count - 1, 0, -1):
            other = self.between(0, k)
            order[k], order[other] = order[other], order[k]
        return order
