"""Times onnxgather's models on ONNX Runtime's CPU provider against other libraries.

Every candidate works on the same arrays and must give the reference's bytes before
anything is timed. The candidates take turns, in reversed order every other round, so
that a busy machine meets them all alike, and in a process that may run on as many cores
as it has threads, as not every library can be told how many. Ratios are to the graph
that a competent user writes by hand, within the same run. With one thread, and where
there is a C compiler, a plain C loop says what is left to be gained. Libraries of the
extra `bench` that are not installed are left out, by name.

With --forms, each form of the CPU lowering is timed against the next one that fits.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path

from bench_candidates import Candidates, candidates, form_and_next
from bench_report import (
    LIBRARIES,
    FormResult,
    Result,
    forms_section,
    markdown,
    plot,
    table,
)
from bench_rivals import compiler
from bench_workloads import APART, RIVALS_OWN, WORKLOADS, Workload

# torch's idle workers would spin on the cores that the others are timed on.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

LONG_ENOUGH = 0.005
"""Seconds that one sample takes at least; short calls are repeated until then."""

CLOCKS: dict[str, Callable[[], float]] = {
    "cpu": time.process_time,
    "wall": time.perf_counter,
}
"""The CPU time is the process', as some libraries run on threads of their own."""


def main() -> None:
    """Measure what the command line asks for, and report it."""
    options = _options()
    facts = environment(options.rounds)
    results: list[Result] = []
    forms: list[FormResult] = []
    if options.forms or options.write_markdown:
        forms = list(measure_forms(options))
        print("\n".join(forms_section(forms)))
    if not options.forms:
        results = list(measure_candidates(options))
        print("\n".join(table(results)))
    if options.json:
        found = {"results": results, "forms": forms}
        report = {
            key: [each.as_dict() for each in listed] for key, listed in found.items()
        }
        options.json.write_text(
            json.dumps({"environment": facts, **report}, indent=1) + "\n"
        )
    if options.plot:
        options.plot.write_text(plot(results))
    if options.write_markdown:
        page: Path = options.write_markdown
        picture = os.path.relpath(options.plot, page.parent) if options.plot else None
        page.write_text(markdown(results, forms, facts, picture))


def measure_candidates(options: argparse.Namespace) -> Iterator[Result]:
    """Yield the times of every way to run each workload."""
    for threads in options.threads:
        with _cores(threads) as cores:
            for workload in _chosen(options, WORKLOADS + RIVALS_OWN):
                yield cores.submit(_measured, workload, threads, options).result()


def _measured(workload: Workload, threads: int, options: argparse.Namespace) -> Result:
    clock = options.clock or ("cpu" if threads == 1 else "wall")
    return Result(
        workload,
        threads,
        clock,
        measure(candidates(workload, threads), options.rounds, clock),
    )


def measure_forms(options: argparse.Namespace) -> Iterator[FormResult]:
    """Yield the times of the form that each workload takes, and of the next form."""
    with ExitStack() as stack:
        cores = {
            threads: stack.enter_context(_cores(threads)) for threads in options.threads
        }
        for workload in _chosen(options, WORKLOADS + APART):
            for index_type in ("UINT32", "INT64"):
                for threads in options.threads:
                    call = _form_measured, workload, index_type, threads, options
                    if found := cores[threads].submit(*call).result():
                        yield found


def _form_measured(
    workload: Workload, index_type: str, threads: int, options: argparse.Namespace
) -> FormResult | None:
    found = form_and_next(workload, index_type, threads)
    if len(found) < 2:
        return None
    clock = options.clock or ("cpu" if threads == 1 else "wall")
    samples = measure(found, options.rounds, clock)
    return FormResult(workload, threads, clock, samples, index_type)


def _cores(threads: int) -> ProcessPoolExecutor:
    """Return a process that may use so many cores, where the system limits them."""
    return ProcessPoolExecutor(1, get_context("spawn"), keep_to_cores, (threads,))


def keep_to_cores(count: int) -> None:
    """Keep this process to so many of its cores, before a library counts them."""
    os.environ["POLARS_MAX_THREADS"] = str(count)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


def measure(found: Candidates, rounds: int, clock_name: str) -> dict[str, list[float]]:
    """Return the seconds that one call of each candidate takes, in each round."""
    clock = CLOCKS[clock_name]
    samples: dict[str, list[float]] = {name: [] for name in found}
    counts = {name: _calls(candidate.run) for name, candidate in found.items()}
    for number in range(rounds):
        for name in found if number % 2 == 0 else reversed(found):
            run = found[name].run
            run()  # brings its code and its buffers back into the caches
            begin = clock()
            for _ in range(counts[name]):
                run()
            samples[name].append((clock() - begin) / counts[name])
    gc.collect()
    return samples


def _calls(run: Callable[[], object]) -> int:
    """Return how many calls make a sample long enough."""
    shortest = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - begin)
    return max(1, round(LONG_ENOUGH / shortest))


def environment(rounds: int) -> dict[str, str]:
    """Return what the figures depend on."""
    facts = {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "caches": _caches(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "rounds": str(rounds),
    }
    for package in ("onnxgather", "onnxruntime", "onnx", *LIBRARIES):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed, so it is left out"
    facts["C compiler"] = compiler() or "not installed"
    return facts


def _processor() -> str:
    """Return the processor's name, with the numbers that tell it from its namesakes."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    known = {
        key.strip(): value.strip()
        for key, _, value in (s.partition(":") for s in lines)
    }
    if "model name" not in known:
        return platform.processor() or platform.machine()
    numbers = (
        f"{key.removeprefix('cpu ')} {known[key]}" for key in ("cpu family", "model")
    )
    return ", ".join((known["model name"], *numbers))


def _caches() -> str:
    """Return the caches that hold data, of the first core and those that share them."""
    found: list[str] = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (folder / n).read_text().strip() for n in ("level", "type", "size")
        )
        if kind != "Instruction":
            found.append(f"L{level} {int(size.removesuffix('K')):,} KiB")
    return ", ".join(found) or "unknown"


def _chosen(
    options: argparse.Namespace, workloads: tuple[Workload, ...]
) -> list[Workload]:
    return [w for w in workloads if not options.only or w.name in options.only]


def _options() -> argparse.Namespace:
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=11, metavar="N")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="a workload; repeatable"
    )
    text = (
        "CPU time of the process, or wall clock (default: cpu with 1 thread, else wall)"
    )
    parser.add_argument("--clock", choices=CLOCKS, help=text)
    text = (
        "times each form of the CPU lowering against the next one that fits, and"
        " nothing else"
    )
    parser.add_argument("--forms", action="store_true", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="all ratios as a picture"
    )
    text = "a page to publish, the forms included"
    parser.add_argument("--write-markdown", type=Path, metavar="FILE", help=text)
    options = parser.parse_args()
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    if options.clock == "cpu" and max(options.threads) > 1:
        parser.error("--clock cpu adds up all threads; it needs --threads 1")
    if options.forms and (options.plot or options.write_markdown):
        parser.error("--forms measures no picture and no page")
    offered = WORKLOADS + (APART if options.forms else RIVALS_OWN)
    if not _chosen(options, offered):
        names = ", ".join(w.name for w in offered)
        parser.error(f"--only must name some of {names}")
    return options


if __name__ == "__main__":
    main()
