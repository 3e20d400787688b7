"""Random numbers that are the same everywhere: SplitMix64 (Steele, Lea, Flood 2014).

Integer arithmetic only, so that neither numpy's nor Python's version plays a part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: the step between the states of the generator."""

_BLOCK = 64


def seed_of(name: str) -> int:
    """A seed made of a name."""
    return zlib.crc32(name.encode())


def splitmix64(seed: int, size: int) -> npt.NDArray[np.uint64]:
    """The first `size` numbers of a seed, uniform in [0, 2^64)."""
    state = np.arange(1, size + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    state += np.uint64(seed % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return state ^ (state >> np.uint64(31))


class Stream:
    """The numbers of `splitmix64` one after another, and choices made with them."""

    def __init__(self, seed: int) -> None:
        blocks = (
            splitmix64(seed + start * GOLDEN, _BLOCK) for start in count(step=_BLOCK)
        )
        self._numbers = (number for block in blocks for number in block.tolist())

    def number(self) -> int:
        """The next number, in [0, 2^64)."""
        return next(self._numbers)

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + self.number() % (high - low + 1)

    def one_in(self, times: int) -> bool:
        """True once in `times` calls, on average."""
        return self.number() % times == 0

    def of(self, values: Iterable[T]) -> T:
        """One of some values, which come in a fixed order."""
        choices = list(values)
        return choices[self.number() % len(choices)]

    def shuffled(self, size: int) -> list[int]:
        """The numbers below `size` in a random order."""
        order = list(range(size))
        for k in range(size - 1, 0, -1):
            other = self.between(0, k)
            order[k], order[other] = order[other], order[k]
        return order
