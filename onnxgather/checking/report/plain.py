"""A report on the terminal: the lanes, the table of cases x lanes, the causes, the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from onnxgather.checking.report.sentences import (
    about_lane,
    causes,
    evidence_lines,
    title,
    verdict,
    why,
)
from onnxgather.checking.results import CaseResult, Report
from onnxgather.core.checks import number_of, printable
from onnxgather.core.output.result_states import BAD, STATES, State, counts_text, worst

MOST_ROWS = 30
"""The most cases that get a row each; more are summed up by operator and data type."""

MOST_CAUSES = 50
"""The most causes that are written out."""

_GAP = "  "
"""What stands between two columns."""

_MOODS: dict[str, State] = {"known": "KNOWN", "open": "NOT-RUN", "bad": "DIFF"}
"""The state whose colour each mood of a verdict has."""

_Row = list[tuple[str, State | None]]
"""The cells of a row: the text, and the state that gives its colour."""


def as_lines(report: Report, width: int = 100, *, colour: bool = False) -> str:
    """A report as lines of text, which a terminal wraps.

    Args:
        report: The report.
        width: How many columns the terminal has; where the table of all lanes is wider, it comes in
            parts, with as many lanes as fit, but at least one.
        colour: Whether states have colours, by ANSI's escape sequences.
    """
    sections = [
        _head(report),
        *_tables(report, width),
        _causes(report),
        _files(report),
        _sums(report),
        _verdict(report),
    ]
    rows = [
        "\n".join(_line(row, colour) for row in section)
        for section in sections
        if section
    ]
    return "\n\n".join(rows)


def _head(report: Report) -> list[_Row]:
    about_all = f"onnxgather {report.onnxgather}, {report.made}, {report.machine}"
    lanes: list[_Row] = [
        [(lane.name, None), (about_lane(lane), None)] for lane in report.lanes
    ]
    return [[(about_all, None)], *_aligned(lanes)]


def _tables(report: Report, width: int) -> Iterator[list[_Row]]:
    """Yield the table of cases and lanes, in several parts where it is too wide."""
    if not report.cases:
        return
    head: _Row = [("", None), *((lane.name, None) for lane in report.lanes)]
    few = len(report.cases) <= MOST_ROWS
    told = map(_row, report.cases) if few else _summed(report.cases)
    rows = _aligned([head, *told])
    label, *widths = [len(text) + len(_GAP) for text, _ in rows[0]]
    start = 0
    while start < len(widths):
        end = start + 1
        while end < len(widths) and label + sum(widths[start : end + 1]) <= width + len(
            _GAP
        ):
            end += 1
        yield [[row[0], *row[1:][start:end]] for row in rows]
        start = end


def _row(case: CaseResult) -> _Row:
    cells: _Row = [
        (", ".join(filter(None, [found.state, found.given_as])), found.state)
        for found in case.results
    ]
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


def _causes(report: Report) -> list[_Row]:
    """An entry for each cause: its number of results, and what is known of the first of them."""
    rows: list[_Row] = []
    found = causes(report)
    for cause in found[:MOST_CAUSES]:
        state = cause.first.state
        told = evidence_lines(cause.first) if state in BAD else [why(cause.first)]
        told += cause.again(report)
        rows.append([(f"{state:<7}", state), (cause.title(report), None)])
        rows.extend([(" " * 7, None), (text, None)] for text in told)
    if rest := found[MOST_CAUSES:]:
        results = number_of(sum(len(cause.cases) for cause in rest), "result")
        more = f"... and {number_of(len(rest), 'more cause')}, of {results}"
        rows.append([(f"{more}; --json or --html has them all", None)])
    return rows


def _files(report: Report) -> list[_Row]:
    entries = [
        ("INVALID", f"{invalid.file}: {invalid.reason}") for invalid in report.invalid
    ]
    entries += [("UNUSABLE", message) for message in report.unusable]
    if wild := [case for case in report.cases if case.note]:
        more = f"{number_of(len(wild), 'case')}, such as " if len(wild) > 1 else ""
        entries.append(("NOTE", f"{more}{title(wild[0])}: {wild[0].note}"))
    return [[(f"{label:<8}", None), (text, None)] for label, text in entries]


def _sums(report: Report) -> list[_Row]:
    rows: list[_Row] = []
    for k, lane in enumerate(report.lanes):
        counts = report.counts(k)
        given = sum(bool(case.results[k].given_as) for case in report.cases)
        parts = [number_of(counts.total(), "case"), counts_text(counts)]
        parts += [f"{given:,} given other data types"] if given else []
        text = ", ".join(filter(None, parts))
        rows.append([(f"{lane.name}: {text}", worst(counts) if counts else None)])
    parts = [
        (len({f.file for f in report.invalid}), "invalid"),
        (len(report.unusable), "unusable"),
    ]
    if bad := ", ".join(f"{count} {what}" for count, what in parts if count):
        rows.append([(f"files: {bad}", None)])
    return rows


def _verdict(report: Report) -> list[_Row]:
    """What the report comes to, unless everything agrees, as the sums say then."""
    headline, more, mood = verdict(report)
    return [] if mood == "good" else [[(headline, _MOODS[mood])], [(more, None)]]


def _aligned(rows: Iterable[_Row]) -> list[_Row]:
    """The rows with cells that are as wide as the widest of their columns."""
    escaped: list[_Row] = [
        [(printable(text), state) for text, state in row] for row in rows
    ]
    widths = [
        max(len(text) for text, _ in column) for column in zip(*escaped, strict=True)
    ]
    return [
        [
            (f"{text:<{width}}", state)
            for (text, state), width in zip(row, widths, strict=True)
        ]
        for row in escaped
    ]


def _line(row: _Row, colour: bool) -> str:
    """A row as text. Colours leave out the blanks that align it."""
    cells: list[str] = []
    for text, state in row:
        shown = printable(text)
        word = shown.rstrip()
        if colour and state:
            shown = f"\x1b[{STATES[state].colour}m{word}\x1b[0m{shown[len(word) :]}"
        cells.append(shown)
    return _GAP.join(cells).rstrip()
