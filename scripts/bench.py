"""Times gathers: og.Gather, the lowerings, ONNX Runtime's own operators, libraries.

  python scripts/bench.py                          prints the times of all workloads
  python scripts/bench.py --only 1 --only r3       prints the times of two
  python scripts/bench.py --threads 2 --save       writes benchmarks/MACHINE.json and
                                                   BENCHMARKS.md, too
  python scripts/bench.py --page                   writes BENCHMARKS.md alone
  python scripts/bench.py --against ../before      times og.Gather with the kernels of
                                                   another checkout beside this one's
  python scripts/bench.py --against TILE_ROWS=512  the same with a number of
                                                   thresholds.h changed
  python scripts/bench.py --nodes                  times the gather's node alone, with
                                                   INT64 indices as exporters write them

Each way must give the reference's bytes before it is timed. Libraries of the extra
`bench` that are absent are left out. It needs Linux, and the native kernels.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from bench_workloads import DENSE, OFFERED, WORKLOADS, Given, Shape
from build_hook import kernels_of

import onnxgather as og
from onnxgather.core.execution import kernels, prepared
from onnxgather.core.options import Target

Run = Callable[[], object]
Times = dict[str, dict[str, float]]
"""The microseconds of each way, by workload."""

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"
PAGE = ROOT / "BENCHMARKS.md"
OURS = "og.Gather"
OTHER = "the other kernels"
PLAIN = "ONNX Runtime"
"""The way that a user writes by hand, with ONNX's operators."""
BARE = "the CPU's own kernel"
"""The node alone, which clamps nothing."""

LONG_ENOUGH = 0.005
"""The seconds of a sample; shorter calls are repeated."""

HEAD = """\
# Benchmarks

`og.Gather` on the CPU, beside the lowerings of each target and ONNX's own operators in
ONNX Runtime, and beside other libraries.

- Each number is the time of `og.Gather`, divided by the time of the other way: below 1
  `og.Gather` is faster.
- All ways get the same arrays, which begin at a page, and must give the bytes of the
  reference before they are timed. They clamp their indices in each call.
- In each round the ways take turns, and every other round has the reversed order. So a
  busy machine meets all alike. The least time of all rounds counts.
- The process may use as many cores as it has threads. With one thread its CPU time
  counts, with more the wall clock.
- pyarrow, polars and jax return new arrays. The other ways write into memory that is
  there. A library without such a gather has no number.
- **ONNX Runtime** runs what a user writes by hand: Cast to INT64, Max, Min, Expand
  where GatherElements needs it, and the gather. Until 2026-11-28 a Reshape followed.
- Geometric means are over the 19 workloads from 1 to 10. In parentheses: on how many
  of them `og.Gather` takes at most 1.05 of the other's time. Workloads from 14 on are
  those that other libraries like best, those with d have dense indices of
  GatherElements, and those with r have random shapes.

`python scripts/bench.py --save` measures a machine, and writes this page from the files
in `benchmarks/`, one for each kind of machine. What is faster on one may be slower on
another.
"""

RUN = """\
- {date}, threads {threads}, {rounds} rounds, load {load[0]:.2f} to {load[1]:.2f}:
  {0}"""

MEANS = """\
### Threads: {0}

| | og.Gather takes of its time |
| --- | ---: |"""

EACH = """\
| | workload | og.Gather | / ONNX Runtime | / the fastest library |
| --- | --- | ---: | ---: | ---: |"""

LEVEL = 1.05
"""Up to this many times another's time is level with it."""


def by_gather(given: Given) -> Run:
    """Return the kernels without ONNX Runtime."""
    gather = og.Gather(given.workload.desc(), threads=given.threads)
    return partial(gather, given.data, given.indices, given.output)


def by_target(target: Target, given: Given) -> Run:
    """Return the model of a target in ONNX Runtime."""
    model = og.to_onnx(given.workload.desc(), target=target, threads=given.threads)
    shapes = given.data.shape, given.indices.shape, given.output.shape
    options = options_of(given)
    options.register_custom_ops_library(kernels.operators_library())
    return bound(model, options, given, shapes)


def by_hand(given: Given) -> Run:
    """Return the graph that a user writes in ONNX Runtime."""
    workload = given.workload
    shapes = workload.data, workload.indices, workload.output
    return bound(workload.model(), options_of(given), given, shapes)


def by_node(on_ours: bool, given: Given) -> Run:
    """Return the node alone, on onnxgather's provider or the CPU's.

    Raises:
        AssertionError: The provider does not take the node.
    """
    workload = given.workload
    shapes = workload.data, workload.indices, workload.output
    options = options_of(given)
    if on_ours:
        og.provider_report(reset=True)
        og.add_provider(options, "clamp")
    run = bound(workload.bare_model(), options, given, shapes)
    run()
    taken = any(row.runs for row in og.provider_report())
    assert taken or not on_ours, f"workload {workload.name}: the CPU ran the node"
    return run


def options_of(given: Given) -> Any:
    """Return the options of a session with the threads of a workload."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = given.threads
    options.log_severity_level = 4
    # Else the workers of the last session still spin while the next one is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return options


def bound(
    model: onnx.ModelProto, options: Any, given: Given, shapes: Sequence[Shape]
) -> Run:
    """Return a session of a model, bound to arrays in these shapes."""
    runtime: Any = import_module("onnxruntime")
    # Without a provider in the options the CPU's runs all nodes.
    session = runtime.InferenceSession(model.SerializeToString(), options)
    binding = session.io_binding()
    bind = binding.bind_input, binding.bind_input, binding.bind_output
    values = *model.graph.input, *model.graph.output
    arrays = given.data, given.indices, given.output
    for place, value, array, shape in zip(bind, values, arrays, shapes, strict=True):
        place(value.name, "cpu", 0, array.dtype, shape, array.ctypes.data)
    return partial(session.run_with_iobinding, binding)


def in_numpy(given: Given) -> Run:
    """Return np.take, which clamps and writes into a given array."""
    wide = np.zeros(given.index.shape, np.intp)

    def run() -> object:
        np.copyto(wide, given.index)
        # np.take clamps the others.
        if wide.shape[2] > 1:
            np.clip(wide, 0, given.last, wide)
        if given.is_dense:
            return np.take_along_axis(given.source, wide[:, None], 2)
        rows = given.rows(wide)[..., 0]
        batches = zip(given.source, rows, given.target, strict=True)
        for source, index, target in batches:
            np.take(source, index, 1, target, "clip")
        return given.target

    return run


def in_torch(given: Given) -> Run:
    """Return torch.index_select or torch.gather, into a given tensor."""
    torch: Any = import_module("torch")
    torch.set_num_threads(given.threads)
    arrays = given.source, given.index, given.target, given.last
    source, index, target, last = map(torch.from_numpy, arrays)
    wide = torch.zeros(index.shape, dtype=torch.int64)
    zero = 0 * last

    def run() -> object:
        torch.clamp(wide.copy_(index), zero, last, out=wide)
        rows = given.rows(wide)
        if given.is_shared:
            return torch.index_select(source, 2, rows.reshape(-1), out=target)
        everywhere = rows[:, None].expand(target.shape)
        return torch.gather(source, 2, everywhere, out=target)

    return run


def in_numba(given: Given) -> Run:
    """Return loops that numba compiles; what they read beside arrays is constant."""
    numba: Any = import_module("numba")
    batches, repeats, count, size = given.target.shape
    outer = batches * repeats
    last = given.source.shape[2] - 1
    y_last, x_last = int(given.last[0]), int(given.last[-1])
    is_dense, has_pairs = given.is_dense, given.has_pairs
    across, along = range, numba.prange
    if outer > 1:
        across, along = along, across

    @numba.njit(parallel=given.threads > 1)
    def gather(source: Any, index: Any, target: Any) -> None:
        for each in across(outer):
            batch = each // repeats
            for i in along(count):
                row = min(max(index[batch, i, 0], 0), y_last)
                if has_pairs:
                    row = row * (x_last + 1) + min(max(index[batch, i, 1], 0), x_last)
                for k in range(size):
                    if is_dense:
                        row = min(max(index[batch, i, k], 0), last)
                    target[each, i, k] = source[each, row, k]

    source = given.source.reshape(outer, -1, size)
    target = given.target.reshape(outer, count, size)
    return partial(gather, source, given.index, target)


def in_jax(given: Given) -> Run:
    """Return the gather as XLA compiles it; the arrays are XLA's own beforehand."""
    jax: Any = import_module("jax")
    # Else it halves elements of 8 bytes.
    jax.config.update("jax_enable_x64", given.data.itemsize == 8)
    data, index = map(jax.numpy.asarray, (given.source, given.index))

    @jax.jit
    def gather(data: Any, index: Any) -> Any:
        rows = given.rows(jax.numpy.clip(index, 0, given.last))
        if given.is_shared:
            return jax.numpy.take(data, rows.reshape(-1), 2, mode="clip")
        return jax.numpy.take_along_axis(data, rows[:, None], 2, mode="clip")

    return lambda: gather(data, index).block_until_ready()


def in_pyarrow(given: Given) -> Run | None:
    """Return pyarrow's take of values of a fixed size."""
    if not given.is_plain:
        return None
    source = given.source
    arrow, compute = map(import_module, ("pyarrow", "pyarrow.compute"))
    kind = arrow.binary(given.workload.row_bytes)
    buffers = [None, arrow.py_buffer(source)]
    values = arrow.Array.from_buffers(kind, source.shape[2], buffers)
    indices = given.index.reshape(-1)
    last = given.last.astype(indices.dtype)
    clamped = np.zeros_like(indices)
    index = arrow.array(clamped)

    def run() -> object:
        np.minimum(indices, last, out=clamped)
        return compute.take(values, index)

    return run


def in_polars(given: Given) -> Run | None:
    """Return polars' gather of scalars."""
    if not given.is_plain or given.source.shape[3] > 1:
        return None
    polars: Any = import_module("polars")
    source = polars.Series(given.source.reshape(-1))
    index = polars.Series(given.index.reshape(-1))
    return lambda: source.gather(index.clip(upper_bound=int(given.last[0])))


WAYS: dict[str, Callable[[Given], Run | None]] = {
    OURS: by_gather,
    "native": partial(by_target, "native"),
    "cpu": partial(by_target, "cpu"),
    "portable": partial(by_target, "portable"),
    PLAIN: by_hand,
    "numpy": in_numpy,
    "torch": in_torch,
    "numba": in_numba,
    "pyarrow": in_pyarrow,
    "polars": in_polars,
    "jax": in_jax,
}
LIBRARIES = list(WAYS)[5:]

NODES: dict[str, Callable[[Given], Run]] = {
    OURS: by_gather,
    "native": partial(by_target, "native"),
    "the provider": partial(by_node, True),
    BARE: partial(by_node, False),
}
"""The ways of `--nodes`."""


def ways(given: Given, other: ModuleType | None) -> dict[str, Run]:
    """Return the ways that are here, or og.Gather with two builds of the kernels.

    Raises:
        AssertionError: A way gives other bytes than the reference.
    """
    runs: dict[str, Run] = {}
    if other:
        runs[OURS] = by_gather(given)
        with patch.object(prepared, "python_kernels", return_value=other):
            runs[OTHER] = by_gather(given)
    for name in () if other else WAYS:
        if name not in LIBRARIES or find_spec(name):
            run = WAYS[name](given)
            if run:
                runs[name] = run
    check_bytes(given, runs)
    return runs


def nodes(given: Given) -> dict[str, Run]:
    """Return the ways of `--nodes`.

    Raises:
        AssertionError: A way gives other bytes than the reference.
    """
    runs = {name: way(given) for name, way in NODES.items()}
    check_bytes(given, runs)
    return runs


def check_bytes(given: Given, runs: dict[str, Run]) -> None:
    """Check that each way gives the reference's bytes.

    Raises:
        AssertionError: A way gives other bytes.
    """
    for name, run in runs.items():
        given.output.view(np.uint8)[...] = 0xA5
        result: Any = run()
        if hasattr(result, "buffers"):  # Case: pyarrow's array.
            result = np.frombuffer(result.buffers()[1], np.uint8, given.output.nbytes)
        if result is None:  # Case: the output was written.
            result = given.output
        same = np.asarray(result).tobytes() == given.expected.tobytes()
        assert same, f"workload {given.workload.name}: {name} has other bytes"


def keep_to_cores(threads: int) -> None:
    """Keep this process to so many cores, before a library counts them."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    # Else torch's idle workers spin on the cores that the others are timed on.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def sample(run: Run, count: int, clock: Callable[[], float]) -> float:
    """Return the microseconds of a call."""
    run()  # brings its code and its buffers back into the caches
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count * 1e6


def measure(runs: dict[str, Run], rounds: int, threads: int) -> dict[str, float]:
    """Return the least time of each; they take turns, every other round backwards."""
    # CPU time adds up all threads.
    clock = time.process_time if threads == 1 else time.perf_counter
    counts: dict[str, int] = {}
    for name, run in runs.items():
        least = min(sample(run, 1, time.perf_counter) for _ in range(3))
        counts[name] = max(1, round(LONG_ENOUGH / least * 1e6))
    times = dict.fromkeys(runs, math.inf)
    for number in range(rounds):
        order = list(runs)
        if number % 2:
            order.reverse()
        for name in order:
            times[name] = min(times[name], sample(runs[name], counts[name], clock))
    return times


def main() -> None:
    """Measure, print and write what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [workload.name for workload in OFFERED]
    add = parser.add_argument
    add("--only", action="append", choices=names, help="a workload; repeatable")
    add("--threads", type=int, default=1)
    add("--rounds", type=int, default=15)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--against", help="a checkout, or NAME=VALUE")
    add("--save", action="store_true", help="write the machine's file and the page")
    add("--page", action="store_true")
    add("--nodes", action="store_true")
    options = parser.parse_args()
    times: Times = {}
    keep_to_cores(options.threads)
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        other = kernels_of(options.against, folder) if options.against else None
        for workload in () if options.page else OFFERED:
            if not options.only or workload.name in options.only:
                if options.nodes:
                    workload = workload.as_exported()
                given = Given(workload, options.threads)
                runs = nodes(given) if options.nodes else ways(given, other)
                least = measure(runs, options.rounds, options.threads)
                times[workload.name] = {name: round(least[name], 2) for name in least}
                print(workload.name, workload.title, times[workload.name], flush=True)
    for name in list(NODES)[:-1] if options.nodes else ():
        for kind in (WORKLOADS, DENSE):
            kinds = [row for row in kind if row.name in times]
            shares = [times[row.name][name] / times[row.name][BARE] for row in kinds]
            if shares:
                share = f"{geometric_mean(shares):.2f} of {BARE}"
                worst = f"worst {max(shares):.2f}"
                print(f"{name}, geometric mean of {len(shares)}: {share}, {worst}")
    if options.against:
        print(f"{OURS}, geometric mean: {mean(times, OTHER)} of {OTHER}")
    if options.save:
        used = ["onnxgather", "onnxruntime", *LIBRARIES]
        run = {
            "date": datetime.date.today().isoformat(),
            "threads": options.threads,
            "rounds": options.rounds,
            "load": [load, os.getloadavg()[0]],
            "versions": {name: version(name) for name in used if find_spec(name)},
            "microseconds": times,
        }
        path = FOLDER / f"{machine()}.json"
        former: list[Any] = json.loads(path.read_text()) if path.exists() else []
        lines = ",\n".join(map(json.dumps, [*former, run]))
        path.write_text(f"[{lines}]\n")
    if options.save or options.page:
        PAGE.write_text(page(FOLDER))


def machine() -> str:
    """Return the kind of this machine, as the name of a file."""
    facts = Path("/proc/cpuinfo").read_text()
    pattern = r"(?m)^(?:cpu family|model|model name)\s*: (.+)$"
    family, model, name = re.findall(pattern, facts)[:3]
    words = f"{name} family {family} model {model}".lower()
    return "-".join(re.findall("[a-z0-9]+", words))


def mean(times: Times, name: str) -> str:
    """Return the geometric mean of og.Gather's share of a way's time, over the 19."""
    rows = [times.get(workload.name, {}) for workload in WORKLOADS]
    ratios = [row[OURS] / row[name] for row in rows if name in row]
    if not ratios:
        return ""
    level = sum(ratio <= LEVEL for ratio in ratios)
    return f"{geometric_mean(ratios):.2f} ({level} of {len(ratios)})"


def page(folder: Path) -> str:
    """Return BENCHMARKS.md, from the files of all machines; later figures count."""
    lines = [HEAD]
    titles = {workload.name: workload.title for workload in OFFERED}
    for path in sorted(folder.glob("*.json")):
        lines += [f"## {path.stem}", ""]
        of_threads: dict[int, Times] = {}
        for run in json.loads(path.read_text()):
            versions = [" ".join(pair) for pair in run["versions"].items()]
            lines.append(RUN.format(", ".join(versions), **run))
            of_threads.setdefault(run["threads"], {}).update(run["microseconds"])
        for threads, times in of_threads.items():
            lines += ["", MEANS.format(threads)]
            for name in list(WAYS)[1:]:
                if cell := mean(times, name):
                    lines.append(f"| {name} | {cell} |")
            lines += ["", EACH]
            for name, row in times.items():
                ours = row[OURS]
                plain = ours / row[PLAIN]
                fastest = min(LIBRARIES, key=lambda name: row.get(name, math.inf))
                share = ours / row[fastest]
                cells = f"{ours:,} us | {plain:.2f} | {share:.2f} {fastest}"
                lines.append(f"| {name} | {titles[name]} | {cells} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
