"""The files of the machines that bench.py ran on, and the page made from all of them.

A cell of the page has the minima and the medians over the rounds: 0.46 / 0.48.
"""

from __future__ import annotations

import json
import re
import statistics
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from bench_timing import BUSY, LEAST_DIFFERENCE, Times
from bench_workloads import RIVALS_OWN, WORKLOADS, random_workloads

from onnxgather.core.files import write_whole
from onnxgather.core.lowering.cpu.forms import FORMS
from onnxgather.core.options import Target

ROOT = Path(__file__).parents[1]

FOLDER = ROOT / "benchmarks"
"""One file for each kind of machine, and LOSSES."""

LOSSES = "thresholds.json"
"""What bench_builds.py measured of each changed threshold, on all machines."""

PAGE = ROOT / "BENCHMARKS.md"
HEADER = ROOT / "onnxgather" / "native" / "kernels" / "thresholds.h"

HAND_WRITTEN = "hand-written"
"""The candidate that a competent user writes."""

TARGETS: tuple[Target, ...] = ("portable", "cpu", "native")
"""The targets of `to_onnx` that are for the CPU provider."""

OURS: str = TARGETS[-1]
"""The target that is made for speed."""

DIRECT = "direct"
"""The candidate that runs the kernels without ONNX Runtime: og.Gather."""

LIBRARIES = ("numpy", "torch", "numba", "pyarrow", "polars", "jax")
"""The rivals: libraries that gather, each only where it is installed and has such a
gather."""

C_LOOP = "C loop"
"""The candidate that says what is left to be gained."""

MEMCPY = "memcpy"
"""The candidate that copies the output, and gathers nothing."""

FASTEST = "the fastest library"

SOURCE = Path(__file__).with_name("bench_loop.c")
COMPILER = "cc"
FLAGS = ("-O2", "-shared", "-fPIC")

LEVEL = 1.05
"""Up to this many times another's time is level with it."""

WORTH = 1.25
"""A form stays if the next one that fits takes so many times as long, with 1 thread or
with 2."""

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Measurement:
    """The times of all candidates of one workload, with one number of threads."""

    workload: str
    threads: int
    times: dict[str, Times]
    """By candidate."""
    note: str = ""
    """The type of the indices of a form; the page faults of a new output."""
    title: str = ""

    def share(self, name: str, other: str) -> Times | None:
        """Return a candidate's times as shares of another's; None if either is absent.

        FASTEST stands for the library of the least minimum.
        """
        other = self.fastest if other == FASTEST else other
        if name not in self.times or other not in self.times:
            return None
        return self.times[name].share(self.times[other])

    @property
    def fastest(self) -> str:
        """The library of the least minimum; empty if there is none."""
        present = [name for name in LIBRARIES if name in self.times]
        return min(present, key=lambda name: self.times[name].minimum, default="")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a machine's file: when it was measured, how, and what."""

    date: str
    rounds: int
    load: Sequence[float]
    """At the begin and at the end."""
    measurements: Sequence[Measurement]


@dataclass(frozen=True, slots=True)
class Machine:
    """All figures of one kind of machine."""

    kind: str
    letter: str
    """What the tables call it."""
    facts: Mapping[str, str]
    parts: Mapping[str, Part]

    def of(self, part: str) -> Sequence[Measurement]:
        """Return the measurements of a part; none if it was not measured here."""
        return self.parts[part].measurements if part in self.parts else ()


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number of thresholds.h, with the comment above it."""

    name: str
    value: str
    meaning: str
    """The first sentence of the comment."""


def update_machine(
    kind: str,
    facts: Mapping[str, str],
    part: str,
    circumstances: Mapping[str, Any],
    measurements: Sequence[Measurement],
) -> None:
    """Put a part into the file of a machine, in the place of what it said before."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{kind}.json"
    content: dict[str, Any] = {"facts": {}, "parts": {}}
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
    content["facts"] = dict(facts)
    rows = [_as_row(measurement) for measurement in measurements]
    content["parts"][part] = {**circumstances, "microseconds": rows}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    # A measurement is a line.
    text = re.sub(r"\n {5,}|\n {4}(?=\])", " ", text)
    write_whole(str(path), f"{text}\n".encode())


def _as_row(measurement: Measurement) -> list[Any]:
    times = {
        name: [round(time.minimum, 2), round(time.median, 2)]
        for name, time in measurement.times.items()
    }
    return [measurement.workload, measurement.threads, measurement.note, times]


def read_machines(folder: Path) -> list[Machine]:
    """Return the machines of all files, by name; their letters are A, B and so on."""
    paths = sorted(path for path in folder.glob("*.json") if path.name != LOSSES)
    return [
        _machine(path, letter)
        for path, letter in zip(paths, string.ascii_uppercase, strict=False)
    ]


def _machine(path: Path, letter: str) -> Machine:
    content = json.loads(path.read_text(encoding="utf-8"))
    parts = {
        name: Part(
            part["date"],
            part["rounds"],
            part["load"],
            [_measurement(*row) for row in part["microseconds"]],
        )
        for name, part in content["parts"].items()
    }
    return Machine(path.stem, letter, content["facts"], parts)


def _measurement(
    workload: str, threads: int, note: str, rows: dict[str, list[float]]
) -> Measurement:
    times = {name: Times(*pair) for name, pair in rows.items()}
    return Measurement(workload, threads, times, note)


def sentence_on_load(loads: Sequence[float]) -> str:
    """Return what the load was, and what it means for the figures."""
    begin, end = loads
    sentence = f"The load was {begin:g} at the begin and {end:g} at the end."
    if max(loads) < BUSY:
        return sentence
    return (
        f"{sentence} At a load of {BUSY} or more, nothing below {LEAST_DIFFERENCE} is"
        " believed."
    )


def markdown(machines: Sequence[Machine], folder: Path = FOLDER) -> str:
    """Return BENCHMARKS.md.

    Args:
        machines: What the page speaks of.
        folder: The folder that contains LOSSES.
    """
    lines = [
        "# Benchmarks",
        "",
        "`og.Gather` on the CPU, beside the libraries of the extra `bench`, a plain C"
        f" loop (`scripts/{SOURCE.name}`, {FLAGS[0]}),",
        "a copy of the output (memcpy), and the graph that a competent user writes by"
        " hand for ONNX Runtime",
        "(Cast to INT64, Max, Min, the gather, Reshape). Every cell is the time of"
        " `og.Gather` as a share of another's:",
        "**below 1, `og.Gather` is faster.** The first number is of minima, the second"
        " of medians.",
        "",
        "All candidates give the same bytes, from the same arrays, which begin at a"
        " page. Indices are UINT32 and clamped.",
        "The candidates take turns, in reversed order every other round. Their process"
        " is pinned to as many cores as it has",
        "threads. With one thread its CPU time counts, with more the wall clock."
        " pyarrow, polars and jax return new arrays,",
        "the others write into the same memory. A library without such a gather has an"
        " empty place.",
        *_machines_section(machines),
        *_summary_section(machines),
        *_slower_section(machines),
        *_workloads_section(machines),
        *_threads_section(machines),
        *_outputs_section(machines),
        *_thresholds_section(machines, folder),
        *_forms_section(machines),
    ]
    return "\n".join(lines) + "\n"


def _machines_section(machines: Sequence[Machine]) -> list[str]:
    names = dict.fromkeys(name for machine in machines for name in machine.facts)
    rows: list[Row] = [["", *(machine.letter for machine in machines)]]
    rows += [[name, *(m.facts.get(name, "") for m in machines)] for name in names]
    for part in dict.fromkeys(name for machine in machines for name in machine.parts):
        rows.append([f"{part} measured", *(_circumstances(m, part) for m in machines)])
    lines = ["", "## Machines", "", *_grid(rows, titles=1 + len(machines)), ""]
    lines += [
        f"At a load of {BUSY} or more, nothing below {LEAST_DIFFERENCE} is believed.",
        "`python scripts/bench.py --save` measures a machine: it writes the file of"
        " its kind in `benchmarks/`, and this page",
        "from the files of all machines.",
    ]
    if len(machines) == 1:
        lines += [
            "",
            "**Only one kind of machine has been measured so far.** What is faster here"
            " may be slower on another processor.",
        ]
    return lines


def _circumstances(machine: Machine, part: str) -> str:
    if part not in machine.parts:
        return ""
    measured = machine.parts[part]
    begin, end = measured.load
    return f"{measured.date}, {measured.rounds} rounds, load {begin:g} to {end:g}"


SETS = (
    ("workloads", 1, "workloads, 1 thread"),
    ("workloads", 2, "workloads, 2 threads"),
    ("random", 1, "random shapes, 1 thread"),
)
"""The columns of the summary: a part, the number of threads, a title."""

SUMMARIZED = (
    *((DIRECT, other) for other in (*LIBRARIES, FASTEST, C_LOOP, MEMCPY, HAND_WRITTEN)),
    *((target, HAND_WRITTEN) for target in reversed(TARGETS)),
)
"""The rows of the summary: whose time, as a share of whose."""


def _summary_section(machines: Sequence[Machine]) -> list[str]:
    columns = [
        (machine, (part, threads, title))
        for machine, (part, threads, title) in product(machines, SETS)
        if _in_means(machine.of(part), threads)
    ]
    titles = [f"{machine.letter}: {title}" for machine, (_, _, title) in columns]
    rows: list[Row] = [["time", "as a share of", *titles]]
    for name, other in SUMMARIZED:
        cells = [
            _mean_cell(_in_means(machine.of(part), threads), name, other)
            for machine, (part, threads, _) in columns
        ]
        if any(cells):
            rows.append([_spoken(name), other, *cells])
    return [
        "",
        "## How far ahead",
        "",
        "Geometric means; in parentheses, how many workloads are level or ahead (at"
        f" most {LEVEL:g}) of how many that the other has.",
        f"`{OURS}` is onnxgather's operator in ONNX Runtime; `cpu` and `portable` are"
        " standard ONNX.",
        "",
        *_grid(rows),
    ]


def _in_means(measurements: Sequence[Measurement], threads: int) -> list[Measurement]:
    """Return what the means are over: never the workloads that the rivals like best."""
    apart = {workload.name for workload in RIVALS_OWN}
    return [
        measurement
        for measurement in measurements
        if measurement.threads == threads and measurement.workload not in apart
    ]


def _mean_cell(group: Sequence[Measurement], name: str, other: str) -> str:
    shares = [measurement.share(name, other) for measurement in group]
    present = [share for share in shares if share is not None]
    if not present:
        return ""
    mean = mean_of(present)
    level = sum(share.minimum <= LEVEL for share in present)
    return f"{shown(mean)} ({level} of {len(present)})"


def _slower_section(machines: Sequence[Machine]) -> list[str]:
    listed = (*WORKLOADS, *RIVALS_OWN, *random_workloads())
    titles = {workload.name: workload.title for workload in listed}
    rows: list[Row] = [["", "threads", "workload", "og.Gather / library", "library"]]
    for machine in machines:
        measurements = [*machine.of("workloads"), *machine.of("random")]
        slower: list[tuple[Times, Measurement]] = []
        for measurement in measurements:
            share = measurement.share(DIRECT, FASTEST)
            if share is not None and share.minimum > LEVEL:
                slower.append((share, measurement))
        slower.sort(key=lambda pair: -pair[0].minimum)
        for share, measurement in slower:
            rows.append(
                [
                    machine.letter,
                    str(measurement.threads),
                    f"{measurement.workload} {titles[measurement.workload]}",
                    shown(share),
                    measurement.fastest,
                ]
            )
    lines = ["", "## Where a library is faster", ""]
    if len(rows) == 1:
        return [*lines, f"Nowhere by more than {LEVEL:g}, in minima."]
    return [
        *lines,
        f"Every workload and every random shape on which `og.Gather` takes more than"
        f" {LEVEL:g} of the fastest library's time, in minima.",
        "Names with r are random shapes. The files in `benchmarks/` contain the figures"
        " of all of them.",
        "",
        *_grid(rows, titles=3, words=1),
    ]


BESIDE = (HAND_WRITTEN, MEMCPY, C_LOOP, "numpy", "numba", FASTEST)
"""The columns of the workloads: what `og.Gather` is compared with."""


def _workloads_section(machines: Sequence[Machine]) -> list[str]:
    lines: list[str] = []
    for threads in (1, 2):
        rows = _workload_rows(machines, threads)
        if len(rows) > 1:
            lines += ["", f"## Each workload, {counted(threads)}", "", *_grid(rows)]
    if lines:
        lines += [
            "",
            f"Workloads from {RIVALS_OWN[0].name} on are those that the rivals like"
            " best; they are in no mean.",
        ]
    return lines


def _workload_rows(machines: Sequence[Machine], threads: int) -> list[Row]:
    by_machine = [
        {m.workload: m for m in machine.of("workloads") if m.threads == threads}
        for machine in machines
    ]
    columns = [
        other
        for other in BESIDE
        if any(m.share(DIRECT, other) for group in by_machine for m in group.values())
    ]
    titles = [
        f"{machine.letter}: {column}"
        for machine in machines
        for column in ("og.Gather", *columns)
    ]
    rows: list[Row] = [["", "workload", *titles]]
    for workload in WORKLOADS + RIVALS_OWN:
        cells: list[str] = []
        for group in by_machine:
            cells += _workload_cells(group.get(workload.name), columns)
        if any(cells):
            rows.append([workload.name, workload.title, *cells])
    return rows


def _workload_cells(
    measurement: Measurement | None, columns: Sequence[str]
) -> list[str]:
    if measurement is None or DIRECT not in measurement.times:
        return [""] * (1 + len(columns))
    cells = [duration(measurement.times[DIRECT].minimum)]
    for other in columns:
        share = measurement.share(DIRECT, other)
        cell = "" if share is None else shown(share)
        if other == FASTEST and share is not None:
            cell += f" {measurement.fastest}"
        cells.append(cell)
    return cells


def _threads_section(machines: Sequence[Machine]) -> list[str]:
    rows: list[Row] = [["", "output", "1 thread", "2 threads", "2 threads / 1 thread"]]
    for machine in machines:
        for measurement in machine.of("threads"):
            alone, both = measurement.times["1"], measurement.times["2"]
            rows.append(
                [
                    machine.letter,
                    f"{measurement.workload} of 8 KiB",
                    duration(alone.minimum),
                    duration(both.minimum),
                    shown(both.share(alone)),
                ]
            )
    if len(rows) == 1:
        return []
    return [
        "",
        "## Two threads for an embedding",
        "",
        "Wall clock of `og.Gather`, with its rule switched off that a gather below 300"
        " us runs on one thread.",
        "",
        *_grid(rows),
    ]


def _outputs_section(machines: Sequence[Machine]) -> list[str]:
    rows: list[Row] = [
        [
            "",
            "output",
            "`out=`",
            "a new output",
            "new / `out=`",
            "page faults of a call",
        ]
    ]
    for machine in machines:
        for measurement in machine.of("outputs"):
            reused, fresh = measurement.times["reused"], measurement.times["fresh"]
            rows.append(
                [
                    machine.letter,
                    measurement.workload,
                    duration(reused.minimum),
                    duration(fresh.minimum),
                    shown(fresh.share(reused)),
                    measurement.note,
                ]
            )
    if len(rows) == 1:
        return []
    return [
        "",
        "## New outputs",
        "",
        "CPU time of `og.Gather` on one thread for rows of 8 KiB: with `out=`, and"
        " without, where each call returns a new array",
        "and the last one is freed. The system gives the pages of a large array back,"
        " and clears them for the next one.",
        "",
        *_grid(rows),
    ]


def read_thresholds(header: Path = HEADER) -> list[Threshold]:
    """Return the numbers of thresholds.h, each with the comment above it.

    Numbers without a blank line between them share a comment.
    """
    thresholds: list[Threshold] = []
    meaning = ""
    pattern = re.compile(r"/\*(.*?)\*/|([A-Z][A-Z0-9_]*) = ([^,]+),", re.DOTALL)
    _, _, body = header.read_text(encoding="utf-8").partition("enum {")
    for match in pattern.finditer(body):
        comment, name, value = match.groups()
        if comment is None:
            thresholds.append(Threshold(name, value, meaning))
            continue
        sentences = re.split(r"(?<=\.)\s", " ".join(comment.split()))
        meaning = sentences[0]
    return thresholds


def _thresholds_section(machines: Sequence[Machine], folder: Path) -> list[str]:
    path = folder / LOSSES
    losses: list[dict[str, Any]] = []
    if path.exists():
        losses = json.loads(path.read_text(encoding="utf-8"))
    letters = {machine.kind: machine.letter for machine in machines}
    rows: list[Row] = [["threshold", "meaning", "in its place", "mean", "worst", "on"]]
    thresholds = read_thresholds()
    for threshold in thresholds:
        rows += _threshold_rows(threshold, losses, letters)
    names = {threshold.name for threshold in thresholds}
    for loss in losses:
        # a forced size of a cache, or another macro of the sources
        if names.isdisjoint(_changes(loss)):
            head = [f"`{loss['change']}`", "a macro of the sources", ""]
            rows.append([*head, *_loss_cells(loss, letters)])
    return [
        "",
        "## The thresholds",
        "",
        "The numbers of `onnxgather/native/kernels/thresholds.h`, and how many times as"
        " long `og.Gather` takes with another number:",
        "the geometric mean over the workloads and the random shapes, and the worst of"
        " them. `python scripts/bench_builds.py . NAME=VALUE`",
        "measures it; `--save benchmarks/thresholds.json` adds it to this table.",
        "",
        *_grid(rows, titles=3, words=1),
    ]


def _threshold_rows(
    threshold: Threshold, losses: Sequence[dict[str, Any]], letters: Mapping[str, str]
) -> list[Row]:
    head = [f"`{threshold.name}` = {threshold.value}", threshold.meaning]
    rows: list[Row] = []
    for loss in losses:
        changes = _changes(loss)
        if threshold.name in changes:
            cells = _loss_cells(loss, letters)
            rows.append([*head, changes[threshold.name], *cells])
            head = ["", ""]
    return rows or [[*head, "not measured", "", "", ""]]


def _changes(loss: Mapping[str, Any]) -> dict[str, str]:
    """Return the values that a build has by name, as the command line named them."""
    return dict(change.split("=") for change in loss["change"].split(","))


def _loss_cells(loss: Mapping[str, Any], letters: Mapping[str, str]) -> Row:
    """Return the mean, the worst workload, and where they were measured."""
    machine = letters.get(loss["machine"], loss["machine"])
    base = "" if loss["base"] == "." else f", {loss['base']}"
    worst = f"{shown(Times(*loss['worst']))} ({loss['worst_workload']})"
    return [shown(Times(*loss["mean"])), worst, f"{machine}{base}"]


def _forms_section(machines: Sequence[Machine]) -> list[str]:
    columns = [
        (machine, threads)
        for machine, threads in product(machines, (1, 2))
        if any(measurement.threads == threads for measurement in machine.of("forms"))
    ]
    if not columns:
        return []
    titles = [f"{machine.letter}: {counted(threads)}" for machine, threads in columns]
    rows: list[Row] = [["form", "verdict", *titles]]
    for form in FORMS:
        gains = [form_gain(machine, form.name, threads) for machine, threads in columns]
        measured = [gain for gain in gains if gain is not None]
        verdict = verdict_on_form(measured)
        cells = ["" if gain is None else shown(gain) for gain in gains]
        rows.append([form.name, verdict, *cells])
    return [
        "",
        "## The forms of the target cpu",
        "",
        "How many times as long the next form that fits takes, or the portable"
        " lowering: geometric means over the workloads that take",
        "the form (`onnxgather show --target cpu` says which one a descriptor takes). A"
        f" form stays if it reaches {WORTH} with 1 thread or with 2.",
        "",
        *_grid(rows),
    ]


def verdict_on_form(gains: Sequence[Times]) -> str:
    """Return whether a form stays, by its gain on all machines."""
    if not gains:
        return "not measured"
    best = max(gain.minimum for gain in gains)
    return "stays" if best >= WORTH else "goes"


def form_gain(machine: Machine, form: str, threads: int) -> Times | None:
    """Return how many times as long the next form takes; None if nothing takes it."""
    gains: list[Times] = []
    for measurement in machine.of("forms"):
        own, following = measurement.times
        if own == form and measurement.threads == threads:
            gains.append(measurement.times[following].share(measurement.times[own]))
    return mean_of(gains) if gains else None


def mean_of(shares: Sequence[Times]) -> Times:
    """Return the geometric means of minima and of medians."""
    return Times(
        statistics.geometric_mean(share.minimum for share in shares),
        statistics.geometric_mean(share.median for share in shares),
    )


def _spoken(name: str) -> str:
    return "og.Gather" if name == DIRECT else name


def _grid(rows: Sequence[Row], titles: int = 2, words: int = 0) -> list[str]:
    """Return a table of Markdown: titles, numbers, then so many columns of words."""
    count = len(rows[0])
    sides = ["---"] * titles + ["---:"] * (count - titles - words) + ["---"] * words
    return [f"| {' | '.join(row)} |" for row in (rows[0], sides, *rows[1:])]


def shown(share: Times) -> str:
    """Return the shares of minima and of medians."""
    return f"{_rounded(share.minimum)} / {_rounded(share.median)}"


def _rounded(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def duration(microseconds: float) -> str:
    """Return a time with its unit."""
    if microseconds < 1000:
        return f"{microseconds:.1f} us"
    return f"{microseconds / 1000:.2f} ms"


def counted(threads: int) -> str:
    """Return a number of threads in words."""
    return f"{threads} thread{'s' if threads > 1 else ''}"
