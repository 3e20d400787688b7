"""Times onnxgather's models on ONNX Runtime's CPU provider against other ways to gather.

Every candidate works on the same arrays, into memory that is there beforehand, and must give the
reference's bytes before anything is timed. The candidates take turns, in reversed order every
other round, so that a busy machine meets them all alike. Ratios are to the graph that a competent
user writes by hand, within the same run. With one thread, and where there is a C compiler, a plain
C loop says what is left to be gained.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_candidates import Candidate, candidates
from bench_plot import plot
from bench_report import environment, markdown, table
from bench_results import Result, Timing
from bench_workloads import WORKLOADS, Workload

# torch's idle workers would spin on the cores that the others are timed on.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

LONG_ENOUGH = 0.005
"""Seconds that one sample takes at least; short calls are repeated until then."""

CLOCKS: dict[str, Callable[[], float]] = {"cpu": time.thread_time, "wall": time.perf_counter}


def main() -> None:
    """Measure what the command line asks for, and report it."""
    options = _options()
    chosen = [w for w in WORKLOADS if not options.only or w.name in options.only]
    if not chosen:
        sys.exit(f"--only must name some of {', '.join(w.name for w in WORKLOADS)}")
    runs = [(threads, workload) for threads in options.threads for workload in chosen]
    bar = _Bar(len(runs) * (options.rounds + 1))
    results: list[Result] = []
    for threads, workload in runs:
        clock = options.clock or ("cpu" if threads == 1 else "wall")
        bar.step(f"{workload.name}, {threads}T: compares")
        found = candidates(workload, threads)
        samples: dict[str, list[float]] = {candidate.name: [] for candidate in found}
        for batch in measure(found, options.rounds, CLOCKS[clock]):
            bar.step(f"{workload.name}, {threads}T: measures")
            for name, seconds in batch.items():
                samples[name].append(seconds)
        results.append(_result(workload, threads, clock, samples))
        del found
        gc.collect()
    bar.close()
    facts = environment(options.rounds)
    print(table(results))
    if options.json:
        report = {"environment": facts, "results": [result.as_dict() for result in results]}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    if options.plot:
        options.plot.write_text(plot(results))
    if options.write_markdown:
        page: Path = options.write_markdown
        picture = os.path.relpath(options.plot, page.parent) if options.plot else None
        page.write_text(markdown(results, facts, picture))


def measure(
    found: list[Candidate], rounds: int, clock: Callable[[], float]
) -> Iterator[dict[str, float]]:
    """Yield, round by round, the seconds that one call of each candidate takes."""
    calls = {candidate.name: _calls(candidate) for candidate in found}
    for number in range(rounds):
        batch: dict[str, float] = {}
        for candidate in found if number % 2 == 0 else reversed(found):
            candidate.run()  # brings its code and its buffers back into the caches
            count = calls[candidate.name]
            begin = clock()
            for _ in range(count):
                candidate.run()
            batch[candidate.name] = (clock() - begin) / count
        yield batch


def _calls(candidate: Candidate) -> int:
    """Return how many calls make a sample long enough."""
    shortest = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        candidate.run()
        shortest = min(shortest, time.perf_counter() - begin)
    return max(1, round(LONG_ENOUGH / shortest))


def _result(
    workload: Workload, threads: int, clock: str, samples: dict[str, list[float]]
) -> Result:
    timings = {
        name: Timing(statistics.median(seconds) * 1e6, min(seconds) * 1e6)
        for name, seconds in samples.items()
    }
    return Result(workload.name, workload.title, workload.kind, threads, clock, timings)


class _Bar:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.shown = sys.stderr.isatty()

    def step(self, what: str) -> None:
        self.done += 1
        if self.shown:
            filled = 30 * self.done // self.total
            bar = "█" * filled + "░" * (30 - filled)
            print(f"\r\033[K{bar} {self.done}/{self.total} {what}", end="", file=sys.stderr)

    def close(self) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=11, metavar="N")
    parser.add_argument("--only", action="append", metavar="NAME", help="a workload; repeatable")
    text = "CPU time of the calling thread, or wall clock (default: cpu with 1 thread, else wall)"
    parser.add_argument("--clock", choices=CLOCKS, help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="all ratios as a picture")
    parser.add_argument("--write-markdown", type=Path, metavar="FILE", help="a page to publish")
    options = parser.parse_args()
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    if options.clock == "cpu" and max(options.threads) > 1:
        parser.error("--clock cpu sees one thread only; it needs --threads 1")
    return options


if __name__ == "__main__":
    main()
