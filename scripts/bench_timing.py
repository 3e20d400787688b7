"""Times candidates turn about, and says how busy the machine was meanwhile."""

from __future__ import annotations

import gc
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LONG_ENOUGH = 0.005
"""Seconds that one sample takes at least; short calls are repeated until then."""

CLOCKS: dict[str, Callable[[], float]] = {
    "cpu": time.process_time,
    "wall": time.perf_counter,
}
"""The CPU time is the process', as some libraries run on threads of their own."""

BUSY = 5
"""The load from which small differences are noise."""

LEAST_DIFFERENCE = "15 %"
"""The least difference that is believed on a busy machine."""


@dataclass(frozen=True, slots=True)
class Times:
    """What one call takes, in microseconds: the least of all rounds, and the median."""

    minimum: float
    median: float

    def share(self, other: Times) -> Times:
        """Return the minimum and the median as shares of another's."""
        return Times(self.minimum / other.minimum, self.median / other.median)


def clock_of(threads: int) -> str:
    """Return the clock for a number of threads.

    CPU time depends less on other programs, but it adds up all threads.
    """
    return "cpu" if threads == 1 else "wall"


def keep_to_cores(count: int) -> None:
    """Keep this process to so many of its cores, before a library counts them."""
    os.environ["POLARS_MAX_THREADS"] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def measure(
    calls: Mapping[str, Callable[[], object]], rounds: int, clock_name: str
) -> dict[str, Times]:
    """Return the times of each call; the calls take turns in each round.

    Every other round has the reversed order, so that a busy machine meets all alike.

    Args:
        calls: The calls, by the names of what they run.
        rounds: How many samples of each call are taken.
        clock_name: Of CLOCKS.
    """
    clock = CLOCKS[clock_name]
    samples: dict[str, list[float]] = {name: [] for name in calls}
    counts = {name: _repetitions(call) for name, call in calls.items()}
    for number in range(rounds):
        order = list(calls) if number % 2 == 0 else list(reversed(list(calls)))
        for name in order:
            call, count = calls[name], counts[name]
            call()  # brings its code and its buffers back into the caches
            begin = clock()
            for _ in range(count):
                call()
            samples[name].append((clock() - begin) / count * 1e6)
    gc.collect()
    return {
        name: Times(min(sample), statistics.median(sample))
        for name, sample in samples.items()
    }


def _repetitions(call: Callable[[], object]) -> int:
    """Return how many calls make a sample long enough."""
    shortest = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - begin)
    return max(1, round(LONG_ENOUGH / shortest))


def load() -> float:
    """Return how many programs ran or waited on average in the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else math.nan
