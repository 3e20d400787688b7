"""A report on the terminal: lanes, the table of cases x lanes, what did not pass, the sums."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from onnxgather.parity.results import CaseResult, Report
from onnxgather.parity.states import BAD, STATES, State, counts_text, worst
from onnxgather.report.sentences import about, evidence_lines, number_of, printable, title, why

MOST_ROWS = 30
"""Cases that get a row each; more are summed up by operator and data type."""

MOST_DETAILS = 50
"""Findings, and reasons of what did not run or is known, that are written out."""

_GAP = 2
_STATE_WIDTH = len("NOT-RUN") + _GAP
_NARROWEST = len("00000 NOT-RUN")

_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
"""What `_coloured` adds; control characters of a report never get this far."""

_COUNT = re.compile(rf"(?<=\d) (?={'|'.join(STATES)})")
"""The blank between a number and a state, at which no line ends."""


class _Cell(NamedTuple):
    text: str
    state: State | None = None
    """The state whose colour it has."""


def render(report: Report, width: int = 100, *, colour: bool = False) -> str:
    """Return a report as lines of text.

    Args:
        report: What became of the cases.
        width: The most columns that a line takes; at least 40.
        colour: Whether states have colours, by ANSI's escape sequences.
    """
    sections = [
        _head(report, width),
        *_tables(report, width),
        _findings(report, width),
        _reasons(report, width),
        _files(report, width),
        _sums(report, width),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return text if colour else _ESCAPE.sub("", text)


def _head(report: Report, width: int) -> list[str]:
    about_all = f"onnxgather {report.onnxgather}, {report.made}, {report.machine}"
    rows = [[_Cell(lane.name), _Cell(about(lane))] for lane in report.lanes]
    longest = max((len(printable(lane.name)) for lane in report.lanes), default=0)
    first = min(longest, width // 4)
    return [*_lines(about_all, width), *_grid(rows, [first, width - first - _GAP])]


def _tables(report: Report, width: int) -> Iterator[list[str]]:
    """Yield the table, in several parts where it has more lanes than fit side by side."""
    if not report.cases:
        return
    if len(report.cases) <= MOST_ROWS:
        rows = [
            [_Cell(title(case)), *(_Cell(found.state, found.state) for found in case.results)]
            for case in report.cases
        ]
    else:
        rows = [[_Cell(label), *cells] for label, cells in _summed(report.cases)]
    names = [_Cell(lane.name) for lane in report.lanes]
    label = min(max(len(printable(row[0].text)) for row in rows), width // 2)
    room = width - label
    widths = [_column([row[k] for row in rows], name) for k, name in enumerate(names, 1)]
    at_once = len(names)
    if sum(widths) + _GAP * len(widths) > room:
        widths = [min(wide, _NARROWEST) for wide in widths]
        at_once = max(1, room // (max(widths) + _GAP))
    for start in range(0, len(names), max(1, at_once)):
        part = slice(start, start + at_once)
        lines = [
            [_Cell(""), *names[part]],
            *([row[0], *row[1:][part]] for row in rows),
        ]
        yield _grid(lines, [label, *widths[part]])


def _summed(cases: Iterable[CaseResult]) -> Iterator[tuple[str, list[_Cell]]]:
    """Yield a label and a cell per lane for each operator and data type, by name."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for case in cases:
        groups.setdefault((case.operator, case.data_type), []).append(case)
    longest = max(len(operator) for operator, _ in groups)
    for (operator, data_type), group in sorted(groups.items()):
        columns = zip(*(case.results for case in group), strict=True)
        counts = [Counter(result.state for result in column) for column in columns]
        cells = [_Cell(counts_text(count), worst(count)) for count in counts]
        yield f"{operator:<{longest}} {data_type}", cells


def _findings(report: Report, width: int) -> list[str]:
    found = [
        (case, result) for case in report.cases for result in case.results if result.state in BAD
    ]
    lines: list[str] = []
    for case, result in found[:MOST_DETAILS]:
        paragraphs = [f"{result.lane}: {title(case)}", *evidence_lines(result)]
        lines += _entry(result.state, paragraphs, width)
    if len(found) > MOST_DETAILS:
        more = number_of(len(found) - MOST_DETAILS, "more finding")
        lines += _lines(f"... and {more}; --json or --html has them all", width)
    return lines


def _reasons(report: Report, width: int) -> list[str]:
    """Return one entry per reason of what did not run or is known, with how many it explains."""
    counts: Counter[tuple[State, str, str]] = Counter()
    example: dict[tuple[State, str, str], CaseResult] = {}
    for case in report.cases:
        for result in case.results:
            if result.state in ("NOT-RUN", "KNOWN"):
                key = (result.state, result.lane, why(result))
                counts[key] += 1
                example.setdefault(key, case)
    order = sorted(counts, key=lambda key: (key[0] == "NOT-RUN", key[1], -counts[key], key[2]))
    lines: list[str] = []
    for key in order[:MOST_DETAILS]:
        state, lane, reason = key
        cases = title(example[key])
        if counts[key] > 1:
            cases = f"{number_of(counts[key], 'case')}, such as {cases}"
        lines += _entry(state, [f"{lane}: {cases}", reason], width)
    if len(order) > MOST_DETAILS:
        rest = sum(counts[key] for key in order[MOST_DETAILS:])
        kinds = number_of(len(order) - MOST_DETAILS, "more reason")
        text = f"... and {kinds}, of {number_of(rest, 'result')}; --json or --html has them all"
        lines += _lines(text, width)
    return lines


def _files(report: Report, width: int) -> list[str]:
    entries = [("INVALID", f"{invalid.file}: {invalid.reason}") for invalid in report.invalid]
    entries += [("UNUSABLE", message) for message in report.unusable]
    lines: list[str] = []
    for label, text in entries:
        rows = [[_Cell(label), _Cell(text)]]
        lines += _grid(rows, [_STATE_WIDTH - 1, width - _STATE_WIDTH - 1])
    return lines


def _sums(report: Report, width: int) -> list[str]:
    lines: list[str] = []
    for k, lane in enumerate(report.lanes):
        counts = report.counts(k)
        text = ", ".join(filter(None, [number_of(counts.total(), "case"), counts_text(counts)]))
        state = worst(counts) if counts else None
        lines += [_coloured(line, state) for line in _lines(f"{lane.name}: {text}", width)]
    parts = [(len(report.invalid), "invalid"), (len(report.unusable), "unusable")]
    bad = ", ".join(f"{count} {what}" for count, what in parts if count)
    return [*lines, f"files: {bad}"] if bad else lines


def _entry(state: State, paragraphs: Sequence[str], width: int) -> list[str]:
    rows = [[_Cell("" if k else state, state), _Cell(text)] for k, text in enumerate(paragraphs)]
    return _grid(rows, [_STATE_WIDTH - _GAP, width - _STATE_WIDTH])


def _column(cells: Sequence[_Cell], name: _Cell) -> int:
    """Return the width at which no cell of a column wraps."""
    return max(len(printable(cell.text)) for cell in [name, *cells])


def _grid(rows: Iterable[Sequence[_Cell]], widths: Sequence[int]) -> list[str]:
    """Return rows as lines; a cell wider than its column goes on below itself."""
    lines: list[str] = []
    for row in rows:
        wrapped = [_lines(cell.text, wide) for cell, wide in zip(row, widths, strict=True)]
        for k in range(max(map(len, wrapped))):
            parts = [(column[k] if k < len(column) else "") for column in wrapped]
            padded = [part.ljust(wide) for part, wide in zip(parts, widths, strict=True)]
            padded[-1] = padded[-1].rstrip()
            cells = zip(padded, row, strict=True)
            line = (" " * _GAP).join(_coloured(part, cell.state) for part, cell in cells)
            lines.append(line.rstrip())
    return lines


def _lines(text: str, width: int) -> list[str]:
    kept = _COUNT.sub("\xa0", printable(text))
    lines = textwrap.wrap(kept, max(1, width), break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines] or [""]


def _coloured(text: str, state: State | None) -> str:
    visible = text.strip()
    if state is None or not visible:
        return text
    return text.replace(visible, f"\x1b[{STATES[state].colour}m{visible}\x1b[0m")
