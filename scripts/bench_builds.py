"""Times builds of the native kernels against one another, in turn on one core.

A build is named by one of these:

  .              the kernels of this checkout
  NAME=VALUE     the same, with this value of a number of thresholds.h, or of a macro
                 that the sources test; several are joined by commas
  REVISION       the package of a revision of git, with its kernels
  FOLDER         the package of another checkout, with its kernels
  FILE           a compiled module, such as onnxgather/_native.abi3.so

The first build is the base: each ratio is the time of a build divided by the base's, of
minima and of medians over the rounds. Every build must give the reference's bytes
before anything is timed. The options of the compiler are those of hatch_build.py.

  python scripts/bench_builds.py HEAD .                              this change
  python scripts/bench_builds.py . TILE_ROWS=512 TILE_ROWS=2048      a threshold
  python scripts/bench_builds.py . STREAMED_BYTES=4194304       as for a small cache
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.machinery import (
    BuiltinImporter,
    ExtensionFileLoader,
    FrozenImporter,
    PathFinder,
)
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from bench_machine import machine_kind
from bench_report import mean_of, sentence_on_load, shown
from bench_timing import Times, clock_of, keep_to_cores, load, measure
from bench_workloads import (
    PAGE_BYTES,
    RIVALS_OWN,
    WORKLOADS,
    Workload,
    named,
    placed,
    random_workloads,
)
from build_hook import load_build_hook

import onnxgather as og
from onnxgather.core.files import write_whole

ROOT = Path(__file__).parents[1]
KERNELS = Path("onnxgather", "native", "kernels")
MODULE = "onnxgather._native"

CHANGE = re.compile(r"([A-Z][A-Z0-9_]*)=([^,]+)")
CHANGES = re.compile(f"{CHANGE.pattern}(,{CHANGE.pattern})*")
THRESHOLDS = "thresholds.h"


class BuildError(og.OnnxGatherError):
    """A build that cannot be had."""


class Package:
    """A copy of onnxgather in this process, from this checkout or from another one."""

    def __init__(self, root: Path | None = None) -> None:
        """Name the checkout; None stands for this one."""
        self.root = root
        self.modules: dict[str, ModuleType] = {}

    @contextmanager
    def imported(self) -> Generator[None]:
        """Let imports of onnxgather lead to this copy, as long as the context lasts."""
        if self.root is None:
            yield
            return
        others = _taken_from_imports()
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.root))
        # Only Python's own finders: that of pytest would keep the place of the copy.
        finders = [BuiltinImporter, FrozenImporter, PathFinder]
        try:
            with patch.object(sys, "meta_path", finders):
                yield
        finally:
            sys.path.remove(str(self.root))
            self.modules = _taken_from_imports()
            sys.modules.update(others)


def _taken_from_imports() -> dict[str, ModuleType]:
    """Remove the modules of onnxgather from those that are imported; return them."""
    names = [name for name in sys.modules if name.partition(".")[0] == "onnxgather"]
    return {name: sys.modules.pop(name) for name in names}


@dataclass(frozen=True, slots=True)
class Build:
    """Compiled kernels, and the package that calls them."""

    kernels: ModuleType
    package: Package


@dataclass(frozen=True, slots=True)
class Comparison:
    """The times of all builds on one workload."""

    workload: Workload
    times: dict[str, Times]
    """By build, the base first."""

    def ratio(self, build: str) -> Times:
        """Return the times of a build as shares of the base's."""
        base = next(iter(self.times.values()))
        return self.times[build].share(base)


def main() -> None:
    """Build, measure and print what the command line asks for."""
    options = _options()
    try:
        _compare(options)
    except og.OnnxGatherError as error:
        sys.exit(f"bench_builds.py: {error}")


def _compare(options: argparse.Namespace) -> None:
    keep_to_cores(options.threads)
    before = load()
    comparisons: list[Comparison] = []
    with TemporaryDirectory() as folder:
        builds = {
            name: build_of(name, Path(folder, str(number)))
            for number, name in enumerate(options.builds)
        }
        print("  ".join(("minima / medians:", *options.builds)), flush=True)
        for workload in _chosen(options):
            comparison = compared(workload, builds, options)
            comparisons.append(comparison)
            print(_line(comparison), flush=True)
    for build in options.builds[1:]:
        print(summary(build, options.builds[0], comparisons))
    loads = before, load()
    print(sentence_on_load(loads))
    if options.json:
        text = json.dumps(_as_dict(comparisons, loads), indent=1)
        write_whole(str(options.json), f"{text}\n".encode())
    if options.save:
        save_losses(options.save, options.builds, comparisons, loads)


def build_of(name: str, folder: Path) -> Build:
    """Return a build, compiled.

    Args:
        name: The build, as the command line names it.
        folder: Where the sources and the library are written; it does not exist yet.

    Raises:
        BuildError: There is no such build, or the compiler refuses it.
    """
    if Path(name).is_file():
        return Build(_loaded(Path(name).resolve()), Package())
    folder.mkdir()
    options: list[str] = []
    package = Package(folder)
    if name == "." or CHANGES.fullmatch(name):
        _copy_package(ROOT, folder)
        for threshold, value in CHANGE.findall(name):
            options += _changed(folder / KERNELS, threshold, value)
        package = Package()
    elif Path(name).is_dir():
        _copy_package(Path(name), folder)
    else:
        _extract_revision(name, folder)
    return Build(_loaded(_compiled(name, folder / KERNELS, options)), package)


def _copy_package(checkout: Path, folder: Path) -> None:
    """Copy the package of a checkout into a folder.

    Raises:
        BuildError: The checkout has no kernels.
    """
    if not (checkout / KERNELS).is_dir():
        raise BuildError(f"{checkout} must contain {KERNELS.as_posix()}")
    shutil.copytree(checkout / KERNELS.parts[0], folder / KERNELS.parts[0])


def _changed(folder: Path, threshold: str, value: str) -> list[str]:
    """Change a number of the sources in a folder; return options for the compiler.

    Raises:
        BuildError: The sources do not contain the name.
    """
    header = folder / THRESHOLDS
    text, count = re.subn(
        rf"\b{threshold} = [^,]+,", f"{threshold} = {value},", header.read_text()
    )
    if count:
        header.write_text(text)
        return []
    tested = re.compile(rf"#.*\b{threshold}\b")
    if any(tested.search(path.read_text()) for path in folder.glob("*.[ch]")):
        return [f"-D{threshold}={value}"]
    raise BuildError(
        f"{threshold} must be a number of {THRESHOLDS} or a macro that the sources test"
    )


def _extract_revision(revision: str, folder: Path) -> None:
    """Write the package of a revision of git into a folder.

    Raises:
        BuildError: There is no such revision.
    """
    archive = folder / "package.tar"
    command = ["git", "archive", "-o", archive, revision, KERNELS.parts[0]]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if run.returncode:
        raise BuildError(
            f"a build must be a change, a revision, a folder or a file, got {revision}"
        )
    shutil.unpack_archive(archive, folder, filter="data")


def _compiled(name: str, folder: Path, options: Sequence[str]) -> Path:
    """Compile the module as an installation does; return its path.

    Raises:
        BuildError: There is no compiler, or the compiler refuses the sources.
    """
    hook = load_build_hook()
    compiler = hook.words("CC") or hook.first_compiler()
    if not compiler:
        raise BuildError(f"{name} needs a C compiler")
    library, own = next(iter(hook.libraries_of(sys.platform).items()))
    # The order of the sources decides where loops lie. That moves short calls by 20 %.
    usual = [own, *hook.SHARED]
    there = sorted(path.name for path in folder.glob("*.c"))
    others = [name for name in there if name not in (*usual, "operator.c")]
    ordered = [name for name in usual if name in there] + others
    sources = [str(folder / name) for name in ordered]
    python = sysconfig.get_path("include"), sys.base_prefix
    command = hook.command_of(compiler, sys.platform, library, sources, python)
    run = subprocess.run(
        [*command, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    if run.returncode:
        fault = hook.fault_in(run.stderr) or f"exit code {run.returncode}"
        raise BuildError(f"the compiler refuses {name}: {fault}")
    return folder / library


def _loaded(library: Path) -> ModuleType:
    """Load a library; each path has its own module, though all have one name.

    Raises:
        BuildError: The file is no such module.
    """
    loader = ExtensionFileLoader(MODULE, str(library))
    spec = spec_from_file_location(MODULE, library, loader=loader)
    assert spec is not None
    try:
        module = module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise BuildError(f"{library} must be a compiled module: {error}") from None
    return module


def compared(
    workload: Workload, builds: dict[str, Build], options: argparse.Namespace
) -> Comparison:
    """Return the times of all builds on a workload.

    Raises:
        AssertionError: A build refuses the workload, or its bytes are wrong.
    """
    desc = og.to_dict(workload.desc())
    data, indices, output, expected = placed(workload, options.offset)
    calls: dict[str, Callable[[], object]] = {}
    for name, build in builds.items():
        refused = AssertionError(f"workload {workload.name}: {name} refuses it")
        output.view(np.uint8)[...] = 0xA5
        with build.package.imported():
            package: Any = import_module("onnxgather")
            # Older revisions have this module elsewhere.
            prepared = import_module(package.Gather.__call__.__module__)
            with patch.object(prepared, "python_kernels", return_value=build.kernels):
                own_desc = package.from_dict(desc)
                gather = package.Gather(own_desc, threads=options.threads)
            with patch.object(prepared, "reference", side_effect=refused):
                gather(data, indices, output)
        same = output.tobytes() == expected.tobytes()
        assert same, f"workload {workload.name}: {name} differs from the reference"
        calls[name] = partial(gather, data, indices, output)
    clock = clock_of(options.threads)
    return Comparison(workload, measure(calls, options.rounds, clock))


def summary(build: str, base: str, comparisons: Sequence[Comparison]) -> str:
    """Return a sentence on a build: the mean of its ratios, the worst, the best."""
    ratios = [(each.ratio(build), each.workload.name) for each in comparisons]
    mean = mean_of([ratio for ratio, _ in ratios])
    worst, slow = max(ratios, key=lambda pair: pair[0].minimum)
    best, fast = min(ratios, key=lambda pair: pair[0].minimum)
    return (
        f"{build} / {base}: geometric mean {shown(mean)},"
        f" worst {shown(worst)} (workload {slow}), best {shown(best)} (workload {fast})"
    )


def save_losses(
    path: Path,
    builds: Sequence[str],
    comparisons: Sequence[Comparison],
    loads: tuple[float, float],
) -> None:
    """Add what each change costs to a file, in the place of what it said of it."""
    entries: list[dict[str, Any]] = []
    if path.exists():
        entries = json.loads(path.read_text())
    here = {"machine": machine_kind(), "base": builds[0]}
    for build in builds[1:]:
        if not CHANGES.fullmatch(build):  # another revision is no threshold's loss
            continue
        key = here | {"change": build}
        entries = [entry for entry in entries if not key.items() <= entry.items()]
        ratios = {each.workload.name: each.ratio(build) for each in comparisons}
        mean = mean_of(list(ratios.values()))
        worst = max(ratios, key=lambda name: ratios[name].minimum)
        entries.append(
            key
            | {
                "load": loads,
                "mean": _pair(mean),
                "worst": _pair(ratios[worst]),
                "worst_workload": worst,
            }
        )
    entries.sort(key=lambda entry: (entry["change"], entry["machine"], entry["base"]))
    path.parent.mkdir(exist_ok=True)
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_whole(str(path), f"[{lines}]\n".encode())


def _as_dict(
    comparisons: Sequence[Comparison], loads: tuple[float, float]
) -> dict[str, Any]:
    times = {
        each.workload.name: {name: _pair(time) for name, time in each.times.items()}
        for each in comparisons
    }
    return {"machine": machine_kind(), "load": loads, "microseconds": times}


def _pair(times: Times) -> list[float]:
    return [round(times.minimum, 3), round(times.median, 3)]


def _line(comparison: Comparison) -> str:
    workload = comparison.workload
    base, *others = comparison.times
    times = comparison.times[base]
    ratios = "".join(f"   {shown(comparison.ratio(other))}" for other in others)
    title = f"{workload.name:4}{workload.title[:50]:50}"
    return f"{title}{times.minimum:10.1f} / {times.median:8.1f} us{ratios}"


def _chosen(options: argparse.Namespace) -> list[Workload]:
    offered = random_workloads(options.random, options.seed)
    if not options.random_only:
        offered = (*WORKLOADS, *RIVALS_OWN, *offered)
    return named(offered, options.only)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("builds", nargs="+", metavar="BUILD")
    parser.add_argument("--rounds", type=int, default=15, metavar="N")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    text = "how many random shapes are added to the workloads (default: 30)"
    parser.add_argument("--random", type=int, default=30, metavar="N", help=text)
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--random-only", action="store_true", help="no workloads")
    text = "a workload or a random shape; repeatable"
    parser.add_argument("--only", action="append", metavar="NAME", help=text)
    text = "bytes from a page, where the data begin, to the output (default: 0)"
    parser.add_argument("--offset", type=int, default=0, metavar="N", help=text)
    parser.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    text = "a file to which the loss of each change is added"
    parser.add_argument("--save", type=Path, metavar="FILE", help=text)
    options = parser.parse_args()
    if min(options.rounds, options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    if min(options.random, options.seed) < 0:
        parser.error("--random and --seed must be at least 0")
    if not 0 <= options.offset < PAGE_BYTES:
        parser.error(f"--offset must be less than {PAGE_BYTES}")
    if len(set(options.builds)) < len(options.builds):
        parser.error("each build must be named once")
    if not _chosen(options):
        parser.error("--only must name a workload or a random shape")
    return options


if __name__ == "__main__":
    main()
