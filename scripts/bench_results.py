"""What bench.py measures: microseconds of each candidate for each workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench_candidates import HAND_WRITTEN


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one call over all rounds."""

    median: float
    minimum: float


@dataclass(frozen=True, slots=True)
class Result:
    """One workload with one number of threads."""

    workload: str
    title: str
    kind: str
    threads: int
    clock: str
    timings: dict[str, Timing]

    def microseconds(self, name: str) -> float:
        """Return the median of CPU time, and of wall clock, which noise only lengthens, the least.

        Raises:
            KeyError: The candidate was not run.
        """
        timing = self.timings[name]
        return timing.median if self.clock == "cpu" else timing.minimum

    def ratio(self, name: str, other: str = HAND_WRITTEN) -> float:
        """Return a candidate's time as a share of another's."""
        return self.microseconds(name) / self.microseconds(other)

    def as_dict(self) -> dict[str, Any]:
        """Return everything, to be written as JSON."""
        return {
            "workload": self.workload,
            "title": self.title,
            "kind": self.kind,
            "threads": self.threads,
            "clock": self.clock,
            "candidates": {
                name: {
                    "median_us": round(timing.median, 3),
                    "minimum_us": round(timing.minimum, 3),
                    "ratio": round(self.ratio(name), 4),
                }
                for name, timing in self.timings.items()
            },
        }


def by_threads(results: Sequence[Result]) -> list[tuple[int, list[Result]]]:
    """Return the results with each number of threads."""
    counts = dict.fromkeys(result.threads for result in results)
    return [(n, [result for result in results if result.threads == n]) for n in counts]


def heading(threads: int) -> str:
    """Return words for a number of threads."""
    return f"{threads} thread{'s' if threads > 1 else ''}"
