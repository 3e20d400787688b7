"""The figures of bench.py as a table and as a page."""

from __future__ import annotations

import datetime
import math
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench_candidates import HAND_WRITTEN, TARGETS
from bench_loop import C_LOOP, COMPILER, FLAGS, SOURCE, compiler
from bench_results import Result, by_threads, heading
from bench_workloads import KINDS

OURS: str = TARGETS[-1]
"""The candidate that the summary speaks of: the last target, the one made for speed."""

LIBRARIES = ("numpy", "torch")
"""The candidates that come from elsewhere; torch only where it is installed."""

FAR = 2.0
"""More than this many times the C loop's time is worth a line of the page."""

LEVEL = 1.05
"""Up to this many times another's time is level with it."""


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
    facts["C compiler"] = compiler() or "not installed"
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
    for threads, group in by_threads(results):
        rows = _rows(group)
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if k < 2 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        blocks.append("\n".join([heading(threads), *lines, *_summary(group)]))
    return "\n\n".join(blocks)


def markdown(results: Sequence[Result], facts: dict[str, str], picture: str | None) -> str:
    """Return BENCHMARKS.md."""
    lines = [
        "# Benchmarks",
        "",
        "Gathers that users run, on ONNX Runtime's CPU provider: onnxgather's models against the",
        "graph that a competent user writes by hand (Cast to INT64, Max, Min, the gather,",
        "Reshape), against numpy and torch, against copying the output (memcpy) as the limit, and",
        f"with one thread against a plain C loop (`scripts/{SOURCE.name}`, {FLAGS[0]}).",
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
    for threads, group in by_threads(results):
        lines += ["", f"## {heading(threads)}", "", *_grid(_rows(group))]
        lines += ["", *(f"- {line}" for line in _summary(group))]
        if threads == 1:
            lines += [*_far_from_c(group), *_far_from_libraries(group)]
    if picture:
        lines += [
            "",
            f"![Time of each candidate as a share of the hand-written graph's]({picture})",
        ]
    return "\n".join(lines) + "\n"


def _far_from_c(group: Sequence[Result]) -> list[str]:
    """Return the section on what a C loop does faster, and why."""
    lines = ["", f"## How far from a plain {C_LOOP}", ""]
    if C_LOOP not in group[0].timings:
        return [*lines, f"Not measured: there is no C compiler (`{COMPILER}`) here."]
    far = sorted(_far(group), key=lambda result: -result.ratio(OURS, C_LOOP))
    lines += [
        "The loop clamps each index and copies its row, in one pass; the call from Python counts.",
        f"In {len(far)} of {len(group)} workloads `{OURS}` takes more than {FAR:g} times as long. "
        "What is left there is",
        "work for a custom operator in native code; the start of a run, which is most of a tiny",
        "call, would stay.",
    ]
    rows = [["", "workload", OURS, C_LOOP, f"{OURS} / {C_LOOP}", "kind"]]
    for result in far:
        times = [_duration(result.microseconds(name)) for name in (OURS, C_LOOP)]
        factor = f"{result.ratio(OURS, C_LOOP):.2f}"
        rows.append([result.workload, result.title, *times, factor, result.kind])
    return [*lines, *_listed(rows), *_reasons(far)]


def _far_from_libraries(group: Sequence[Result]) -> list[str]:
    """Return the section on the workloads that numpy or torch does as fast, or faster."""
    others = [name for name in LIBRARIES if name in group[0].timings]
    behind = [r for r in group if any(r.ratio(OURS, other) > LEVEL for other in others)]
    level = [result for result in group if result not in behind]
    names = " and ".join(others)
    lines = ["", f"## How far from {names}", ""]
    lines.append(
        f"In {len(level)} of {len(group)} workloads `{OURS}` is ahead of {names}, or level with "
        f"them (within {100 * LEVEL - 100:.0f} %)."
    )
    for title, listed in (("Ahead or level", level), ("Behind", behind)):
        rows = [["", title, *(f"{OURS} / {other}" for other in others), "kind"]]
        for result in listed:
            factors = [f"{result.ratio(OURS, other):.2f}" for other in others]
            rows.append([result.workload, result.title, *factors, result.kind])
        lines += _listed(rows)
    return [*lines, *_reasons(behind)]


def _far(group: Sequence[Result]) -> list[Result]:
    return [result for result in group if result.ratio(OURS, C_LOOP) > FAR]


def _reasons(listed: Sequence[Result]) -> list[str]:
    kinds = {result.kind for result in listed}
    lines = [f"- {kind}: {reason}" for kind, reason in KINDS.items() if kind in kinds]
    return ["", *lines] if lines else []


def _listed(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with words in its last column, nothing without rows."""
    return ["", *_grid(rows, words=1)] if len(rows) > 1 else []


def _grid(rows: Sequence[Sequence[str]], words: int = 0) -> list[str]:
    """Return a table: a name, a title, numbers, and so many columns of words."""
    head, *others = rows
    rule = ["---"] * 2 + ["---:"] * (len(head) - 2 - words) + ["---"] * words
    return [_line(head), _line(rule), *map(_line, others)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rows(group: Sequence[Result]) -> list[list[str]]:
    others = [name for name in group[0].timings if name != HAND_WRITTEN]
    if group[0].threads == 1 and C_LOOP not in others:
        others.append(C_LOOP)  # a column that stays empty: there is no compiler
    rows = [["", "workload", HAND_WRITTEN, *others]]
    for result in group:
        ratios = [_rounded(result.ratio(k)) if k in result.timings else "" for k in others]
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
    for other in LIBRARIES:
        if other in group[0].timings:
            wins = sum(result.ratio(OURS, other) < 1 for result in group)
            lines.append(f"{OURS} is faster than {other} in {wins} of {len(group)}")
    if C_LOOP in group[0].timings:
        lines.append(
            f"{OURS} takes more than {FAR:g} times as long as a plain {C_LOOP} in "
            f"{len(_far(group))} of {len(group)}"
        )
    return lines
