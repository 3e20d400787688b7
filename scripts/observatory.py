"""Runs the corpus on all lanes of this machine, and writes one page and one JSON.

    python scripts/observatory.py [--folder DIR] [--shard K/N] -o OUT

The lanes are those that the doctor finds: in this environment, in the environments
below DIR (DIR/NAME/bin/python), and the hosts that are set up. A lane that does not
start is a column that says why. docs/observatory.md says how to run it each night.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from onnxgather.checking.doctor import (
    Environment,
    TriedProvider,
    examine,
    examine_environment,
)
from onnxgather.checking.lanes import EVALUATOR, open_lanes
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report.matrix import lane_head
from onnxgather.checking.report_files import open_report
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

WRITTEN = (0, 1, 3)
"""The exit codes of a check that wrote its report: good, findings, lanes that did not
start."""

PAGE = "observatory.html"
DATA = "observatory.json"


class Place(NamedTuple):
    """A lane in its place."""

    name: str
    python: str | None
    """The interpreter of its environment; None for this environment and for hosts."""
    info: LaneInfo

    @property
    def order(self) -> tuple[str, list[int], str]:
        """By which the columns are sorted: the runtime, its versions, the name."""
        versions = re.findall(r"[0-9]+", " ".join(lane_head(self.info)))
        return self.info.provider, [*map(int, versions)], self.name


def environments(folder: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the interpreter of each environment below a folder."""
    if folder is None:
        return
    for path in sorted(folder.iterdir()):
        for name in ("bin/python", "Scripts/python.exe"):
            if (path / name).is_file():
                yield path.name, str(path / name)


def places(
    tried: Iterable[TriedProvider],
    taken: Iterable[str],
    label: str = "",
    python: str | None = None,
) -> Iterator[Place]:
    """Yield the lanes of providers that run a gather, or do not start.

    Args:
        tried: The providers, as the doctor tried them.
        taken: The names of the lanes before.
        label: The label of a lane whose name is taken; without it the lane is the same.
        python: The interpreter of the lanes.
    """
    names = set(taken)
    for provider in tried:
        info = provider.info
        if info.not_run is None and not provider.runs:
            say(f"{info.name}: starts, but runs no gather; left out")
            continue
        name = info.name
        if name in names:
            if not label:
                continue
            name = f"{name}@{label}"
        names.add(name)
        yield Place(name, python, info)


def kept(environment: Environment) -> list[TriedProvider]:
    """Return the lanes of an environment that are meant to be there.

    One without ONNX Runtime has another runtime, and needs no lane of the CPU.
    """
    providers = environment.providers
    if environment.listed or not environment.runtimes:
        return [*providers]
    return [tried for tried in providers if tried.info.provider in OTHER_RUNTIMES]


def started(name: str, python: str | None = None) -> list[Place]:
    """Return a lane that the doctor does not look for; none if it does not start."""
    (lane,) = open_lanes([name], {} if python is None else {name: python})
    info = lane.start()
    lane.close()
    return [Place(name, python, info)] if info.not_run is None else []


def lanes_here(folder: Path | None) -> list[Place]:
    """Return all lanes of this machine, sorted by runtime and version."""
    found: list[Place] = []
    say("looking at this environment")
    for environment in examine().environments:
        found += places(environment.providers, [place.name for place in found])
    for label, python in environments(folder):
        say(f"looking at {python}")
        environment = examine_environment(python)
        names = [place.name for place in found]
        found += places(kept(environment), names, label, python)
        # Other runtimes bring onnx, too.
        if environment.runtimes == (EVALUATOR,) and EVALUATOR not in names:
            found += started(EVALUATOR, python)
    if EVALUATOR not in [place.name for place in found]:
        found += started(EVALUATOR)
    return sorted(found, key=lambda place: place.order)


def command(
    lanes: Sequence[Place], out: Path, shard: str | None, text: str
) -> list[str]:
    """Return the check that writes the page and the JSON."""
    words = [sys.executable, "-m", "onnxgather", "check", "--corpus"]
    # The names alone give the order of the columns.
    words += ["--lanes", ",".join(place.name for place in lanes)]
    for place in lanes:
        if place.python is not None:
            words += ["--lane", f"{place.name}={place.python}"]
    if shard is not None:
        words += ["--shard", shard]
    if text:
        words += ["-k", text]
    return [*words, f"--json={out / DATA}", "--html", str(out / PAGE)]


def say(text: str) -> None:
    """Print progress."""
    print(f"observatory.py: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the lanes; the exit code is 1 if nothing ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="environments, one a folder")
    parser.add_argument("--shard", metavar="K/N", help="part K of N of the corpus")
    parser.add_argument("-k", dest="text", default="", help="only cases with this text")
    parser.add_argument(
        "-o", dest="out", type=Path, required=True, help=f"gets {PAGE} and {DATA}"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        parser.error(f"--folder must be a folder, got {os.fspath(options.folder)!r}")
    lanes = lanes_here(options.folder)
    if not any(place.info.not_run is None for place in lanes):
        say("no lane of this machine starts, so nothing can be observed")
        return 1
    say(f"lanes: {', '.join(place.name for place in lanes)}")
    options.out.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command(lanes, options.out, options.shard, options.text),
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode not in WRITTEN:
        say(f"the check ended with {done.returncode}")
        return done.returncode
    try:
        report = open_report(str(options.out / DATA))
    except OnnxGatherError as error:
        say(f"{error}")
        return 1
    if not report.cases:
        say("no case ran")
        return 1
    for number, lane in enumerate(report.lanes):
        counts = report.counts(number)
        passed = f"{counts['PASS']:,} of {len(report.cases):,} passed"
        say(f"{lane.name}: {lane.not_run or passed}")
    say(f"written: {options.out / PAGE}, {options.out / DATA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
