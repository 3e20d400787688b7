"""Reports as text for a terminal: lanes, table of cases, causes, counts, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from msgspec.structs import replace

from onnxgather.checking.report.sentences import (
    about_lane,
    causes,
    evidence_lines,
    models_ran,
    title,
    verdict,
)
from onnxgather.checking.results import BY_DIRECTML, CaseResult, Report
from onnxgather.core.checks import line_of, number_of
from onnxgather.core.output.result_states import (
    BAD,
    STATES,
    State,
    counts_text,
    in_colour,
    worst,
)

MOST_ROWS = 30
"""The most cases with a row each; more cases are counted by operator and data type."""

MOST_CAUSES = 50
"""The most causes that are printed."""

_GAP = "  "
"""The text between two columns."""

_MOODS: dict[str, State] = {"known": "KNOWN", "open": "NOT-RUN", "bad": "DIFF"}
"""The state whose colour a verdict gets, by the mood of the verdict."""

_Row = list[tuple[str, State | None]]
"""The cells of a row: the text, and the state that gives its colour."""


def as_lines(report: Report, width: int = 100, *, colour: bool = False) -> str:
    """Return a report as lines of text, which a terminal wraps.

    Args:
        report: The report.
        width: The number of columns of the terminal. A table of lanes that is wider is
            split: each part has as many lanes as fit, but at least one.
        colour: Whether states are coloured by ANSI's escape sequences.
    """
    sections = [
        _head(report),
        *_tables(report, width),
        _cause_rows(report),
        _file_rows(report),
        _count_rows(report),
        _verdict_rows(report),
    ]
    texts = list[str]()
    for section in sections:
        if section:
            lines = [_line(row, colour) for row in section]
            texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _head(report: Report) -> list[_Row]:
    check = f"onnxgather {report.onnxgather}, {report.made}, {report.machine}"
    lanes = [_plain_row(lane.name, about_lane(lane)) for lane in report.lanes]
    return [_plain_row(check), *_aligned(lanes)]


def _plain_row(*texts: str) -> _Row:
    """Return a row without colours."""
    return [(text, None) for text in texts]


def _tables(report: Report, width: int) -> Iterator[list[_Row]]:
    """Yield the table of cases and lanes, in several parts if it is too wide."""
    if not report.cases:
        return
    header = _plain_row("", *(lane.name for lane in report.lanes))
    if len(report.cases) <= MOST_ROWS:
        body = [_case_row(report, case) for case in report.cases]
    else:
        body = _group_rows(report)
    rows = _aligned([header, *body])
    label_width, *lane_widths = [len(text) + len(_GAP) for text, _ in rows[0]]
    # No gap follows the last column, so that there is room for one gap more.
    room = width + len(_GAP) - label_width
    start = 0
    while start < len(lane_widths):
        used_widths = accumulate(lane_widths[start:])
        fitting = [used for used in used_widths if used <= room]
        end = start + max(1, len(fitting))
        yield [[label, *cells[start:end]] for label, *cells in rows]
        start = end


def _case_row(report: Report, case: CaseResult) -> _Row:
    row = _plain_row(title(case), *("" for _ in report.lanes))
    for result in case.results:
        text = ", ".join([result.state, *result.remarks])
        row[1 + report.number_of(result)] = (text, result.state)
    return row


def _group_rows(report: Report) -> list[_Row]:
    """Return a row of counts for each operator and data type, sorted by name."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for case in report.cases:
        groups.setdefault((case.operator, case.data_type), []).append(case)
    longest = max(len(operator) for operator, _ in groups)
    rows: list[_Row] = []
    for (operator, data_type), group in sorted(groups.items()):
        row = _plain_row(f"{operator:<{longest}} {data_type}")
        part = replace(report, cases=group)
        for number in range(len(report.lanes)):
            counts = part.counts(number)
            row.append((counts_text(counts), worst(counts)))
        rows.append(row)
    return rows


def _cause_rows(report: Report) -> list[_Row]:
    """Return the rows of the causes: the results, and the facts of the first."""
    all_causes = causes(report)
    rows: list[_Row] = []
    for cause in all_causes[:MOST_CAUSES]:
        state = cause.first.state
        rows.append([(f"{state:<7}", state), (cause.title(report), None)])
        lines = [cause.why(report)]
        if state in BAD:  # a finding is worth a closer look
            lines = evidence_lines(report.cases[cause.cases[0]], cause.first)
        lines += cause.again(report)
        for line in lines:
            # Below the lane: the column of the states is empty.
            rows.append(_plain_row(" " * 7, line))
    rest = all_causes[MOST_CAUSES:]
    if rest:
        results = number_of(sum(len(cause.cases) for cause in rest), "result")
        more = f"... and {number_of(len(rest), 'more cause')}, of {results}"
        rows.append(_plain_row(f"{more}; --json or --html has them all"))
    return rows


def _file_rows(report: Report) -> list[_Row]:
    """Return a row for each file with a fault, and rows for the notes.

    One note is about the files of models, one is about the cases.
    """
    rows = [
        _plain_row("INVALID ", f"{invalid.file}: {invalid.reason}")
        for invalid in report.invalid
    ]
    for message in report.unusable:
        rows.append(_plain_row("UNUSABLE", message))
    models = models_ran(report)
    if models:
        rows.append(_plain_row("NOTE    ", models))
    # Notes of cases are about indices out of range; one of them says what they are.
    with_notes = [case for case in report.cases if case.note]
    if with_notes:
        first = with_notes[0]
        text = f"{title(first)}: {first.note}"
        if len(with_notes) > 1:
            text = f"{number_of(len(with_notes), 'case')}, such as {text}"
        rows.append(_plain_row("NOTE    ", text))
    return rows


def _count_rows(report: Report) -> list[_Row]:
    """Return a row of counts for each lane, and one for the files with faults."""
    rows: list[_Row] = []
    for number, lane in enumerate(report.lanes):
        counts = report.counts(number)
        parts = [number_of(counts.total(), "case")]
        if counts:
            parts.append(counts_text(counts))
        given = sum(bool(one.given_as) for _, one in report.of_lane(number))
        if given:
            parts.append(f"{given:,} given other data types")
        judged = report.passed_by_directml(number)
        if judged:
            parts.append(f"{judged:,} {BY_DIRECTML}")
        state = worst(counts) if counts else None
        rows.append([(f"{lane.name}: {', '.join(parts)}", state)])
    files = list[str]()
    if report.invalid:
        # A file may have several invalid descriptors.
        count = len({invalid.file for invalid in report.invalid})
        files.append(f"{count} invalid")
    if report.unusable:
        files.append(f"{len(report.unusable)} unusable")
    if files:
        rows.append(_plain_row(f"files: {', '.join(files)}"))
    return rows


def _verdict_rows(report: Report) -> list[_Row]:
    """Return the verdict; no rows if everything agrees, as the counts show that."""
    headline, more, mood = verdict(report)
    if mood == "good":
        return []
    return [[(headline, _MOODS[mood])], _plain_row(more)]


def _aligned(rows: Iterable[_Row]) -> list[_Row]:
    """Return the rows with each cell as wide as the widest of its column."""
    escaped: list[_Row] = []
    for row in rows:
        escaped.append([(line_of(text), state) for text, state in row])
    widths: list[int] = []
    for column in zip(*escaped, strict=True):
        widths.append(max(len(text) for text, _ in column))
    aligned: list[_Row] = []
    for row in escaped:
        cells: _Row = []
        for (text, state), width in zip(row, widths, strict=True):
            cells.append((f"{text:<{width}}", state))
        aligned.append(cells)
    return aligned


def _line(row: _Row, colour: bool) -> str:
    """Return a row as text; the blanks that align a cell have no colour."""
    cells: list[str] = []
    for text, state in row:
        cell = line_of(text)
        if colour and state:
            word = cell.rstrip()
            blanks = cell[len(word) :]
            cell = in_colour(word, STATES[state].colour) + blanks
        cells.append(cell)
    return _GAP.join(cells).rstrip()
