"""A report as Markdown, as the summaries of build servers take it: GitHub's, and their like."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onnxgather.checks import number_of, printable
from onnxgather.parity.results import Report
from onnxgather.parity.states import STATES, State
from onnxgather.report.sentences import about_lane, causes, verdict, why

MOST_BYTES = 2**20
"""The size of the largest document: more than this GitHub does not take."""

LONGEST_TEXT = 1000
"""The most characters of one text."""

_MARKS = re.compile(r"[\\`*_\[\]<>|&~#@$!]")
"""The characters that Markdown, HTML or GitHub give a meaning."""


def markdown(report: Report) -> bytes:
    """A report as a Markdown document in UTF-8: the verdict, the lanes, the results by cause."""
    headline, more, _ = verdict(report)
    lines = [f"## {plain(headline)}", "", plain(more), ""]
    counts = [report.counts(k) for k in range(len(report.lanes))]
    states: list[State] = [
        state for state in STATES if any(count[state] for count in counts)
    ]
    lines += [
        table_row(["lane", "", *states]),
        table_row(["---", "---", *["---:"] * len(states)]),
    ]
    for lane, count in zip(report.lanes, counts, strict=True):
        numbers = [f"{count[state]:,}" for state in states]
        lines.append(table_row([plain(lane.name), plain(about_lane(lane)), *numbers]))
    lines.append("")
    for cause in causes(report):
        state = cause.first.state
        lines.append(
            f"- **{state}** {plain(cause.title(report))}: {plain(why(cause.first))}"
        )
        lines += [f"  - {plain(command)}" for command in cause.again(report)]
    for text in [
        *(f"{found.file}: {found.reason}" for found in report.invalid),
        *report.unusable,
    ]:
        lines.append(f"- {plain(text)}")
    return markdown_document(lines)


def table_row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Text that reads as it is: on one line, and without a meaning to Markdown or HTML."""
    text = printable(text)
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "…"
    return _MARKS.sub(r"\\\g<0>", text)


def markdown_document(lines: list[str]) -> bytes:
    """The lines as bytes, at most `MOST_BYTES`; a last line says how many are left off."""
    left = MOST_BYTES - 100
    for k, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            rest = (
                f"{number_of(len(lines) - k, 'line')} left off; --json or --html has"
                " them all."
            )
            lines = [*lines[:k], "", rest]
            break
    return "\n".join([*lines, ""]).encode()
