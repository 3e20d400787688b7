"""Runs the corpus on all lanes of this machine, and writes one page and one JSON.

    python scripts/observatory.py [--folder DIR] [--shard K/N] -o OUT
    python scripts/observatory.py --reports FILE... -o OUT

The lanes are those that the doctor finds: in this environment, in the environments
below DIR (DIR/NAME/bin/python), and the lanes that are set up. A lane that does not
start says why. The second form runs no case: it joins the reports that checks of some
lanes each wrote. docs/observatory.md says how to run it each night.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from onnxgather.checking.doctor import Checkup, examine
from onnxgather.checking.lanes import EVALUATOR
from onnxgather.checking.merge import merge
from onnxgather.checking.report import html
from onnxgather.checking.report.sentences import lane_again
from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Report
from onnxgather.core.errors import OnnxGatherError

WRITTEN = (0, 1, 3)
"""The exit codes of a check that wrote its report: good, findings, lanes that did not
start."""

PAGE = "observatory.html"
DATA = "observatory.json"


def environments(folder: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the interpreter of each environment below a folder."""
    if folder is None:
        return
    for path in sorted(folder.iterdir()):
        for name in ("bin/python", "Scripts/python.exe"):
            if (path / name).is_file():
                yield path.name, str(path / name)


def lanes_of(checkup: Checkup) -> list[str]:
    """Return the lanes that run a gather or do not start, as options name them."""
    found: dict[str, str] = {}
    for environment in checkup.environments:
        for provider in environment.providers:
            info = provider.info
            if info.not_run is None and not provider.runs:
                say(f"{info.name}: starts, but runs no gather; left out")
                continue
            found[info.name] = lane_again(info)
    # onnxgather brings onnx, and so its evaluator.
    found.setdefault(EVALUATOR, EVALUATOR)
    return [*found.values()]


def command(lanes: Sequence[str], out: Path, shard: str | None, text: str) -> list[str]:
    """Return the check that writes the page and the JSON."""
    words = [sys.executable, "-m", "onnxgather", "check", "--corpus"]
    words += ["--lanes", ",".join(lane for lane in lanes if "=" not in lane)]
    for lane in lanes:
        if "=" in lane:
            words += ["--lane", lane]
    if shard is not None:
        words += ["--shard", shard]
    if text:
        words += ["-k", text]
    return [*words, f"--json={out / DATA}", "--html", str(out / PAGE)]


def say(text: str) -> None:
    """Print progress."""
    print(f"observatory.py: {text}", file=sys.stderr, flush=True)


def observed(options: argparse.Namespace) -> Report | None:
    """Return the report of a check of all lanes; None if it is of no use."""
    places = dict(environments(options.folder))
    say("looking at the lanes of this machine")
    lanes = lanes_of(examine(environments=places))
    say(f"lanes: {', '.join(lanes)}")
    words = command(lanes, options.out, options.shard, options.text)
    done = subprocess.run(words, stdout=sys.stderr, check=False)
    if done.returncode not in WRITTEN:
        say(f"the check ended with {done.returncode}")
        return None
    return open_report(str(options.out / DATA))


def joined(options: argparse.Namespace) -> Report:
    """Return what reports say together, after writing it."""
    report, _ = merge([(path, open_report(path)) for path in options.reports])
    (options.out / DATA).write_bytes(msgspec.json.encode(report))
    (options.out / PAGE).write_bytes(html(report))
    return report


def main() -> int:
    """Run the lanes, or join reports; the exit code is 1 if nothing ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="environments, one a folder")
    parser.add_argument("--shard", metavar="K/N", help="part K of N of the corpus")
    parser.add_argument("-k", dest="text", default="", help="only cases with this text")
    parser.add_argument(
        "--reports", nargs="+", metavar="FILE", help="join these; run no case"
    )
    parser.add_argument(
        "-o", dest="out", type=Path, required=True, help=f"gets {PAGE} and {DATA}"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        parser.error(f"--folder must be a folder, got {os.fspath(options.folder)!r}")
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        report = joined(options) if options.reports else observed(options)
    except OnnxGatherError as error:
        say(f"{error}")
        return 1
    if report is None:
        return 1
    if not report.cases:
        say("no case ran")
        return 1
    for number, lane in enumerate(report.lanes):
        counts = report.counts(number)
        passed = f"{counts['PASS']:,} of {counts.total():,} passed"
        say(f"{lane.name}: {lane.not_run or passed}")
    say(f"written: {options.out / PAGE}, {options.out / DATA}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
