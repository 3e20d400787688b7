"""Random numbers that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014).

Integer arithmetic only, so that neither numpy's nor Python's version plays a part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from itertools import count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: the step between the states of the generator."""

_BLOCK = 64


def seed_of(name: str) -> int:
    """Return a seed made of a name."""
    return zlib.crc32(name.encode())


def splitmix64(seed: int, size: int) -> npt.NDArray[np.uint64]:
    """Return the first `size` numbers of a seed, uniform in [0, 2^64)."""
    # The generator adds GOLDEN for each number, so all states are known at once.
    state = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    state += np.uint64(seed % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    return state ^ (state >> np.uint64(31))


def _numbers(seed: int) -> Iterator[int]:
    """Yield the numbers of `splitmix64` without an end, computed in blocks."""
    for start in count(step=_BLOCK):
        block = splitmix64(seed + start * GOLDEN, _BLOCK)
        yield from block.tolist()


class Stream:
    """The numbers of `splitmix64` one after another, and choices made with them."""

    def __init__(self, seed: int) -> None:
        self._numbers = _numbers(seed)

    def number(self) -> int:
        """Return the next number, in [0, 2^64)."""
        return next(self._numbers)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        count_of_integers = high - low + 1
        return low + self.number() % count_of_integers

    def one_in(self, times: int) -> bool:
        """Return true once in `times` calls, on average."""
        return self.number() % times == 0

    def of(self, values: Iterable[T]) -> T:
        """Return a value of some, which come in a fixed order."""
        choices = list(values)
        return choices[self.number() % len(choices)]

    def shuffled(self, size: int) -> list[int]:
        """Return the numbers below `size` in a random order."""
        order = list(range(size))
        # Fisher and Yates: each place from the last down gets a number of the rest.
        for place in range(size - 1, 0, -1):
            other = self.between(0, place)
            order[place], order[other] = order[other], order[place]
        return order
