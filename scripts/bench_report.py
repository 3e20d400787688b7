"""The figures of bench.py as a table, a page and a picture."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench_candidates import HAND_WRITTEN, TARGETS

OURS: str = TARGETS[-1]
"""The candidate that the summary speaks of: the last target, the one made for speed."""


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


def environment(rounds: int) -> dict[str, str]:
    """Return what the figures depend on."""
    facts = {
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "rounds": str(rounds),
    }
    for package in ("onnxgather", "onnxruntime", "onnx", "numpy", "torch"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(results: Sequence[Result]) -> str:
    """Return aligned columns: the hand-written graph's time, the others' ratios, a summary."""
    blocks: list[str] = []
    for threads, group in _by_threads(results):
        rows = _rows(group)
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k < 2 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        blocks.append("\n".join([_heading(threads), *lines, *_summary(group)]))
    return "\n\n".join(blocks)


def markdown(results: Sequence[Result], facts: dict[str, str], picture: str | None) -> str:
    """Return BENCHMARKS.md."""
    lines = [
        "# Benchmarks",
        "",
        "Gathers that users run, on ONNX Runtime's CPU provider: onnxgather's models against the",
        "graph that a competent user writes by hand (Cast to INT64, Max, Min, the gather,",
        "Reshape), against numpy and torch, and against copying the output (memcpy) as the limit.",
        "Columns are times as a share of the hand-written graph's, less is better; "
        f"`{OURS}` is ours.",
        "",
        "Indices are UINT32 and clamped. All candidates gave the same bytes and write to memory",
        "that is there beforehand. They take turns, in reversed order every other round, "
        f"{facts['rounds']} rounds;",
        "with one thread the median of CPU time counts, with more the minimum of wall clock.",
        "`python scripts/bench.py --write-markdown BENCHMARKS.md` makes this page.",
        "",
        "| | |",
        "| --- | --- |",
        *(f"| {key} | {value} |" for key, value in facts.items()),
    ]
    for threads, group in _by_threads(results):
        head, *rows = _rows(group)
        lines += ["", f"## {_heading(threads)}", "", _line(head)]
        lines.append(_line(["---"] * 2 + ["---:"] * (len(head) - 2)))
        lines += [_line(row) for row in rows]
        lines += ["", *(f"- {line}" for line in _summary(group))]
    if picture:
        lines += [
            "",
            f"![Time of each candidate as a share of the hand-written graph's]({picture})",
        ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _by_threads(results: Sequence[Result]) -> list[tuple[int, list[Result]]]:
    counts = dict.fromkeys(result.threads for result in results)
    return [(n, [result for result in results if result.threads == n]) for n in counts]


def _rows(group: Sequence[Result]) -> list[list[str]]:
    others = [name for name in group[0].timings if name != HAND_WRITTEN]
    rows = [["", "workload", HAND_WRITTEN, *others]]
    for result in group:
        ratios = [_rounded(result.ratio(name)) for name in others]
        time = _duration(result.microseconds(HAND_WRITTEN))
        rows.append([result.workload, result.title, time, *ratios])
    return rows


def _rounded(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _duration(microseconds: float) -> str:
    if microseconds < 1000:
        return f"{microseconds:.1f} µs"
    return f"{microseconds / 1000:.2f} ms"


def _summary(group: Sequence[Result]) -> list[str]:
    ratios = {result.workload: result.ratio(OURS) for result in group}
    mean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    worst = max(ratios, key=lambda name: ratios[name])
    lines = [
        f"{OURS} / {HAND_WRITTEN}: geometric mean {mean:.3f}, "
        f"worst {ratios[worst]:.2f} (workload {worst})"
    ]
    for other in ("numpy", "torch"):
        if other in group[0].timings:
            wins = sum(result.ratio(OURS, other) < 1 for result in group)
            lines.append(f"{OURS} is faster than {other} in {wins} of {len(group)}")
    return lines


# The picture: a row per workload, the ratio to the right on a log scale, a mark per candidate.

ROW, TOP, LEFT, WIDTH, GAP = 22, 64, 290, 560, 46
LOWEST, HIGHEST = 0.005, 5.0
MARKS = {
    "memcpy": ("|", "#999999"),
    "numpy": ("square", "#d08700"),
    "torch": ("diamond", "#c2410c"),
    "portable": ("ring", "#1d4ed8"),
    "cpu": ("disc", "#1d4ed8"),
}
"""The shape and the colour of each candidate's mark; later ones lie on top."""


def plot(results: Sequence[Result]) -> str:
    """Return an SVG of all ratios."""
    groups = _by_threads(results)
    height = TOP + sum(GAP + ROW * len(group) for _, group in groups) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 30}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="14" y="24" font-size="15" font-weight="600">'
        "Time as a share of the hand-written graph's (log scale, left is faster)</text>",
        *_legend([name for name in MARKS if name in results[0].timings]),
    ]
    top = TOP
    for threads, group in groups:
        bottom = top + GAP + ROW * len(group) - 14
        parts.append(_text(14, top + 22, _heading(threads), 'font-weight="600"'))
        parts += _grid(top + 26, bottom)
        for k, result in enumerate(group):
            y = top + GAP + ROW * k - 4
            parts.append(_text(14, y + 4, f"{result.workload}  {result.title}"))
            ratios = {name: result.ratio(name) for name in MARKS if name in result.timings}
            parts += [_mark(name, _x(ratio), y) for name, ratio in ratios.items()]
        top += GAP + ROW * len(group)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    parts: list[str] = []
    for k, name in enumerate(names):
        x = LEFT + 10 + 100 * k
        parts += [_mark(name, x, 48), _text(x + 10, 52, name)]
    return parts


def _grid(top: int, bottom: int) -> list[str]:
    parts: list[str] = []
    for ratio in (0.01, 0.03, 0.1, 0.3, 1, 3):
        x = _x(ratio)
        colour = "#444444" if ratio == 1 else "#dddddd"
        parts.append(f'<path d="M{x:.1f} {top}V{bottom}" stroke="{colour}"/>')
        parts.append(_text(round(x), top - 4, f"{ratio:g}", 'fill="#666666" text-anchor="middle"'))
    return parts


def _x(ratio: float) -> float:
    ratio = min(max(ratio, LOWEST), HIGHEST)
    return LEFT + WIDTH * math.log(ratio / LOWEST) / math.log(HIGHEST / LOWEST)


def _text(x: int, y: int, text: str, style: str = 'fill="#222222"') -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


def _mark(name: str, x: float, y: int) -> str:
    shape, colour = MARKS[name]
    paint = f'fill="{colour}" stroke="white" stroke-width="0.7"'
    if shape == "disc":
        return f'<circle cx="{x:.1f}" cy="{y}" r="5.5" {paint}/>'
    if shape == "ring":
        return (
            f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    outline = {
        "square": "m-4.5 -4.5h9v9h-9z",
        "diamond": "m0 -6l6 6l-6 6l-6 -6z",
        "|": "m-1.5 -7h3v14h-3z",
    }[shape]
    return f'<path d="M{x:.1f} {y}{outline}" {paint}/>'
