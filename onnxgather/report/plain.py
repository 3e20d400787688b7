"""A report on the terminal: the lanes, the table of cases x lanes, the causes, the sums."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from onnxgather.checks import number_of, printable
from onnxgather.parity.results import CaseResult, Report
from onnxgather.parity.states import BAD, STATES, State, counts_text, worst
from onnxgather.report.sentences import (
    MOODS,
    about_lane,
    causes,
    evidence_lines,
    title,
    verdict,
    why,
)

MOST_ROWS = 30
"""The most cases that get a row each; more are summed up by operator and data type."""

MOST_CAUSES = 50
"""The most causes that are written out."""

_GAP = 2
_NARROWEST = len("0,000 NOT-RUN")

_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
"""The escape sequences that `_coloured` adds; those of a report's texts are escaped before."""

_KEPT = re.compile(rf"(?<=\d) (?={'|'.join(STATES)})|(?<=\S) (?=[^:]*\.json: )")
"""The blanks at which no line ends: between a number and a state, and in a program's name."""

_PARTS = re.compile("(?<=/)| ")
"""Where a line may end in a name that is longer than the line."""


_Row = list[tuple[str, State | None]]
"""The cells of a row: the text, and the state that gives its colour."""


def as_lines(report: Report, width: int = 100, *, colour: bool = False) -> str:
    """A report as lines of text.

    Args:
        report: The report.
        width: The most columns that a line takes; at least 40.
        colour: Whether states have colours, by ANSI's escape sequences.
    """
    sections = [
        _head(report, width),
        *_tables(report, width),
        _causes(report, width),
        _files(report, width),
        _sums(report, width),
        _verdict(report, width),
    ]
    text = "\n\n".join("\n".join(lines) for lines in sections if lines)
    return text if colour else _ESCAPE.sub("", text)


def _head(report: Report, width: int) -> list[str]:
    about_all = f"onnxgather {report.onnxgather}, {report.made}, {report.machine}"
    rows: list[_Row] = [[(lane.name, None), (about_lane(lane), None)] for lane in report.lanes]
    longest = _longest(lane.name for lane in report.lanes)
    return [*_lines(about_all, width), *_grid(rows, [min(longest, width // 4)], width)]


def _tables(report: Report, width: int) -> Iterator[list[str]]:
    """Yield the table, in several parts where it has more lanes than fit side by side."""
    if not report.cases:
        return
    head: _Row = [("", None), *((lane.name, None) for lane in report.lanes)]
    few = len(report.cases) <= MOST_ROWS
    rows = [head, *(map(_row, report.cases) if few else _summed(report.cases))]
    label, *widths = [_longest(text for text, _ in column) for column in zip(*rows, strict=True)]
    label = min(label, max(width // 2, width - sum(_GAP + wide for wide in widths)))
    label = max(label, *(len(part) for row in rows for part in _PARTS.split(_kept(row[0][0]))))
    at_once = len(widths)
    if label + sum(_GAP + wide for wide in widths) > width:
        widths = [min(wide, _NARROWEST) for wide in widths]
        at_once = max(1, (width - label) // (max(widths) + _GAP))
    for start in range(0, len(widths), max(1, at_once)):
        end = start + at_once
        part = [[row[0], *row[1:][start:end]] for row in rows]
        yield _grid(part, [label, *widths[start:end]])


def _row(case: CaseResult) -> _Row:
    cells: _Row = [(found.state, found.state) for found in case.results]
    return [(title(case), None), *cells]


def _summed(cases: Iterable[CaseResult]) -> Iterator[_Row]:
    """Yield a row for each operator and data type, sorted by name."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for case in cases:
        groups.setdefault((case.operator, case.data_type), []).append(case)
    longest = max(len(operator) for operator, _ in groups)
    for (operator, data_type), group in sorted(groups.items()):
        columns = zip(*(case.results for case in group), strict=True)
        counts = [Counter(result.state for result in column) for column in columns]
        cells: _Row = [(counts_text(count), worst(count)) for count in counts]
        yield [(f"{operator:<{longest}} {data_type}", None), *cells]


def _causes(report: Report, width: int) -> list[str]:
    """An entry for each cause: its number of results, and what is known of the first of them."""
    lines: list[str] = []
    found = causes(report)
    for cause in found[:MOST_CAUSES]:
        state = cause.first.state
        told = evidence_lines(cause.first) if state in BAD else [why(cause.first)]
        rows: list[_Row] = [[("", None), (text, None)] for text in (cause.title(report), *told)]
        rows[0][0] = (state, state)
        lines += _grid(rows, [len("NOT-RUN")], width)
    if rest := found[MOST_CAUSES:]:
        results = number_of(sum(len(cause.cases) for cause in rest), "result")
        more = f"... and {number_of(len(rest), 'more cause')}, of {results}"
        lines += _lines(f"{more}; --json or --html has them all", width)
    return lines


def _files(report: Report, width: int) -> list[str]:
    entries = [("INVALID", f"{invalid.file}: {invalid.reason}") for invalid in report.invalid]
    entries += [("UNUSABLE", message) for message in report.unusable]
    if wild := [case for case in report.cases if case.note]:
        more = f"{number_of(len(wild), 'case')}, such as " if len(wild) > 1 else ""
        entries.append(("NOTE", f"{more}{title(wild[0])}: {wild[0].note}"))
    rows: list[_Row] = [[(label, None), (text, None)] for label, text in entries]
    return _grid(rows, [len("UNUSABLE")], width)


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


def _verdict(report: Report, width: int) -> list[str]:
    """What the report comes to, unless everything agrees, as the sums say then."""
    headline, more, mood = verdict(report)
    if mood == "good":
        return []
    return [
        *(_coloured(line, MOODS[mood]) for line in _lines(headline, width)),
        *_lines(more, width),
    ]


def _grid(rows: Iterable[_Row], widths: Sequence[int], width: int | None = None) -> list[str]:
    """The lines of rows; the text of a cell wider than its column goes on in the next line.

    Args:
        rows: The rows.
        widths: The widths of the columns.
        width: The width of the whole; if given, the last column takes what `widths` leave of it.
    """
    if width is not None:
        widths = [*widths, width - sum(wide + _GAP for wide in widths)]
    lines: list[str] = []
    for row in rows:
        columns = [
            [_coloured(line, state) + " " * (wide - len(line)) for line in _lines(text, wide)]
            for (text, state), wide in zip(row, widths, strict=True)
        ]
        for k in range(max(map(len, columns))):
            cells = [
                column[k] if k < len(column) else " " * wide
                for column, wide in zip(columns, widths, strict=True)
            ]
            lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def _longest(texts: Iterable[str]) -> int:
    return max((len(printable(text)) for text in texts), default=0)


def _kept(text: str) -> str:
    return _KEPT.sub("\xa0", printable(text))


def _lines(text: str, width: int) -> list[str]:
    most = f".{{1,{max(1, width)}}}"
    found = re.findall(f" *({most}(?= |$)|{most}(?<=/)|{most})", _kept(text))
    return [line.replace("\xa0", " ").rstrip() for line in found] or [""]


def _coloured(text: str, state: State | None) -> str:
    return f"\x1b[{STATES[state].colour}m{text}\x1b[0m" if state and text else text
