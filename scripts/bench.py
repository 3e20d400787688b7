"""Times onnxgather on the CPU against other libraries, and writes BENCHMARKS.md.

Every candidate works on the same arrays and must give the reference's bytes before
anything is timed. The candidates take turns, in reversed order every other round, so
that a busy machine meets them all alike, and in a process that is pinned to as many
cores as it has threads, as not every library can be told how many. Libraries of the
extra `bench` that are not installed are left out, by name.

  python scripts/bench.py --only 1 --only r3      prints the times of two workloads
  python scripts/bench.py --save                  measures all, and writes both files:
                                                  benchmarks/MACHINE.json, BENCHMARKS.md
  python scripts/bench.py --parts forms --save    measures one part of them anew
  python scripts/bench.py --page                  writes BENCHMARKS.md alone

The parts are

  workloads   gathers that users run, and the rivals' own, by every candidate
  random      random shapes, by every candidate
  forms       each form of the CPU lowering against the next one that fits
  outputs     og.Gather with a new output each call, and with the same one
  threads     og.Gather with one thread and with two, whatever its estimate says
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

from bench_candidates import candidates, form_and_next
from bench_machine import caches, machine_kind, processor, vectors
from bench_report import (
    FOLDER,
    LIBRARIES,
    PAGE,
    Measurement,
    markdown,
    read_machines,
    sentence_on_load,
    update_machine,
)
from bench_rivals import compiler
from bench_timing import clock_of, keep_to_cores, load, measure
from bench_workloads import (
    APART,
    RIVALS_OWN,
    WORKLOADS,
    Workload,
    at_page,
    named,
    random_workloads,
)

import onnxgather as og
from onnxgather.core.execution import prepared
from onnxgather.core.files import write_whole

# torch's idle workers would spin on the cores that the others are timed on.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

OUTPUT_MEBIBYTES = (1, 4, 16, 32, 64, 256)
"""The sizes of the outputs that the part `outputs` fills."""

EMBEDDED_ROWS = (64, 128, 256, 512, 1024, 2048)
"""The rows of 8 KiB that the part `threads` gathers."""


def main() -> None:
    """Measure what the command line asks for; print it, or write it to its files."""
    options = _options()
    for part in () if options.page else options.parts:
        before = load()
        measurements: list[Measurement] = []
        for measurement in PARTS[part](options):
            print(_line(measurement), flush=True)
            measurements.append(measurement)
        loads = [before, load()]
        print(f"{part}: {sentence_on_load(loads)}", flush=True)
        if options.save:
            update_machine(
                machine_kind(),
                environment(),
                part,
                {
                    "date": datetime.date.today().isoformat(),
                    "rounds": options.rounds,
                    "load": loads,
                },
                measurements,
            )
    if options.save or options.page:
        write_whole(str(PAGE), markdown(read_machines(FOLDER)).encode())
        print(f"{PAGE.name} is written from {FOLDER.name}/")


def _workloads(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield the times of every way to run each workload."""
    for threads in options.threads:
        yield from _all_ways(options, (*WORKLOADS, *RIVALS_OWN), threads)


def _random_shapes(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield the times of every way to run random shapes, on one thread."""
    yield from _all_ways(options, random_workloads(), 1)


def _all_ways(
    options: argparse.Namespace, offered: Sequence[Workload], threads: int
) -> Iterator[Measurement]:
    with _cores(threads) as cores:
        for workload in named(offered, options.only):
            call = _by_candidates, workload, threads, options.rounds
            yield cores.submit(*call).result()


def _by_candidates(workload: Workload, threads: int, rounds: int) -> Measurement:
    ways = candidates(workload, threads)
    calls = {name: candidate.run for name, candidate in ways.items()}
    times = measure(calls, rounds, clock_of(threads))
    return Measurement(workload.name, threads, times, title=workload.title)


def _forms(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield the times of the form that each workload takes, and of the next form."""
    for threads in options.threads:
        with _cores(threads) as cores:
            for workload in named(WORKLOADS + APART, options.only):
                for index_type in ("UINT32", "INT64"):
                    call = _by_forms, workload, index_type, threads, options.rounds
                    measurement = cores.submit(*call).result()
                    if measurement is not None:
                        yield measurement


def _by_forms(
    workload: Workload, index_type: str, threads: int, rounds: int
) -> Measurement | None:
    ways = form_and_next(workload, index_type, threads)
    if len(ways) < 2:
        return None
    calls = {name: candidate.run for name, candidate in ways.items()}
    times = measure(calls, rounds, clock_of(threads))
    return Measurement(workload.name, threads, times, index_type)


def _outputs(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield the times of og.Gather with new outputs, and with the same output."""
    with _cores(1) as cores:
        for mebibytes in OUTPUT_MEBIBYTES:
            yield cores.submit(_by_outputs, mebibytes, options.rounds).result()


def _by_outputs(mebibytes: int, rounds: int) -> Measurement:
    workload = rows_of_8_kib(mebibytes << 7)
    data, indices = workload.arrays()
    desc = workload.desc()
    data = data.reshape(desc.input_tensor.array_shape)
    indices = indices.reshape(desc.indices_tensor.array_shape)
    gather = og.Gather(desc, threads=1)
    output = gather(data, indices)
    fresh = partial(gather, data, indices)
    calls = {"fresh": fresh, "reused": partial(gather, data, indices, output)}
    times = measure(calls, rounds, "cpu")
    faults = _page_faults(fresh)
    return Measurement(f"{mebibytes} MiB", 1, times, faults)


def _page_faults(call: Callable[[], object]) -> str:
    """Return the page faults of one call; nothing where the system counts none."""
    try:
        resource: Any = import_module("resource")
    except ImportError:  # on Windows
        return ""
    begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call()
    end = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    return f"{end - begin:,}"


def _threads(options: argparse.Namespace) -> Iterator[Measurement]:
    """Yield the times of og.Gather with one thread and with two."""
    with _cores(2) as cores:
        for rows in EMBEDDED_ROWS:
            yield cores.submit(_by_threads, rows, options.rounds).result()


def _by_threads(rows: int, rounds: int) -> Measurement:
    workload = rows_of_8_kib(rows)
    data, indices = workload.arrays()
    desc = workload.desc()
    data = data.reshape(desc.input_tensor.array_shape)
    indices = indices.reshape(desc.indices_tensor.array_shape)
    output = at_page(og.reference(desc, data, indices), 0)
    calls: dict[str, Callable[[], object]] = {}
    with patch.object(prepared, "THREADED_NANOSECONDS", 0):
        for threads in (1, 2):
            gather = og.Gather(desc, threads=threads)
            calls[str(threads)] = partial(gather, data, indices, output)
    return Measurement(f"{rows} rows", 2, measure(calls, rounds, "wall"))


def rows_of_8_kib(rows: int) -> Workload:
    """Return a gather of so many rows of the table of workload 1."""
    table = WORKLOADS[0]
    title = f"{rows} rows of 8 KiB"
    return Workload(title, title, table.operator, table.data_type, table.data, (rows,))


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Measurement]]] = {
    "workloads": _workloads,
    "random": _random_shapes,
    "forms": _forms,
    "outputs": _outputs,
    "threads": _threads,
}
"""What each part of a machine's file measures."""


def _cores(threads: int) -> ProcessPoolExecutor:
    """Return a process that may use so many cores, where the system limits them."""
    return ProcessPoolExecutor(1, get_context("spawn"), keep_to_cores, (threads,))


def environment() -> dict[str, str]:
    """Return what the figures depend on."""
    facts = {
        "processor": processor(),
        "vectors": vectors(),
        "caches": caches(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in ("onnxgather", "onnxruntime", "onnx", *LIBRARIES):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    facts["C compiler"] = compiler() or "not installed"
    return facts


def _line(measurement: Measurement) -> str:
    """Return the minima and the medians of all candidates, in microseconds."""
    times = measurement.times.items()
    cells = [f"{name} {time.minimum:.1f}/{time.median:.1f}" for name, time in times]
    head = f"{measurement.workload} {measurement.note}".strip()
    return f"{head} ({measurement.threads} threads): {', '.join(cells)}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    text = "a workload or a random shape; repeatable"
    parser.add_argument("--only", action="append", metavar="NAME", help=text)
    text = "write the machine's file and the page"
    parser.add_argument("--save", action="store_true", help=text)
    text = "write the page from the files of all machines, and measure nothing"
    parser.add_argument("--page", action="store_true", help=text)
    options = parser.parse_args()
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    if options.only and options.save:
        parser.error("--only measures a share of a part, so it cannot be with --save")
    offered = (*WORKLOADS, *APART, *RIVALS_OWN, *random_workloads())
    names = [workload.name for workload in offered]
    for name in options.only or ():
        if name not in names:
            parser.error(f"--only must name some of {', '.join(names)}; got {name}")
    return options


if __name__ == "__main__":
    sys.exit(main())
