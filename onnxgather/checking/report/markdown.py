"""Reports as Markdown, for the summaries of build servers such as GitHub's."""

from __future__ import annotations

from onnxgather.checking.report.sentences import (
    about_lane,
    causes,
    models_ran,
    verdict,
)
from onnxgather.checking.results import BY_DIRECTML, Report
from onnxgather.core.output.markdown import markdown_document, plain, table_row
from onnxgather.core.output.result_states import STATES, State


def markdown(report: Report) -> bytes:
    """Return a report as a Markdown document in UTF-8.

    It contains the verdict, a table of the lanes, the results by cause, and the files
    with faults.
    """
    headline, more, _ = verdict(report)
    lines = [f"## {plain(headline)}", "", plain(more), ""]
    models = models_ran(report)
    if models:
        lines += [plain(f"{models}."), ""]
    lines += _lane_table(report)
    lines.append("")
    lines += _cause_list(report)
    for invalid in report.invalid:
        lines.append(f"- {plain(f'{invalid.file}: {invalid.reason}')}")
    for message in report.unusable:
        lines.append(f"- {plain(message)}")
    return markdown_document(lines)


def _lane_table(report: Report) -> list[str]:
    """Return a table of the lanes, with a column for each state that occurs.

    Where an output was compared with DirectML's formula, that has a column of its own.
    """
    counts_of_lanes = [report.counts(number) for number in range(len(report.lanes))]
    states: list[State] = [
        state for state in STATES if any(counts[state] for counts in counts_of_lanes)
    ]
    by_directml = [*map(report.passed_by_directml, range(len(report.lanes)))]
    columns: list[str] = [*states]
    if any(by_directml):
        columns.append(f"PASS {BY_DIRECTML}")
    header = table_row(["lane", "", *columns])
    # A colon at the end of the dashes aligns the counts at the right.
    rule = table_row(["---", "---", *["---:"] * len(columns)])
    table = [header, rule]
    for number, (lane, counts) in enumerate(
        zip(report.lanes, counts_of_lanes, strict=True)
    ):
        cells = [plain(lane.name), plain(about_lane(lane))]
        for state in states:
            # A result is in one column.
            judged = by_directml[number] if state == "PASS" else 0
            cells.append(f"{counts[state] - judged:,}")
        if any(by_directml):
            cells.append(f"{by_directml[number]:,}")
        table.append(table_row(cells))
    return table


def _cause_list(report: Report) -> list[str]:
    """Return an item for each cause, with the command that runs a case again."""
    lines: list[str] = []
    for cause in causes(report):
        state = cause.first.state
        title = plain(cause.title(report))
        reason = plain(cause.why(report))
        lines.append(f"- **{state}** {title}: {reason}")
        for command in cause.again(report):
            lines.append(f"  - {plain(command)}")
    return lines
