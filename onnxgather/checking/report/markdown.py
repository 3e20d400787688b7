"""Reports as Markdown, for the summaries of build servers such as GitHub's."""

from __future__ import annotations

from onnxgather.checking.report.sentences import about_lane, causes, verdict, why
from onnxgather.checking.results import Report
from onnxgather.core.output.markdown import markdown_document, plain, table_row
from onnxgather.core.output.result_states import STATES, State


def markdown(report: Report) -> bytes:
    """Return a report as a Markdown document in UTF-8.

    It contains the verdict, a table of the lanes, the results by cause, and the files
    with faults.
    """
    headline, more, _ = verdict(report)
    lines = [f"## {plain(headline)}", "", plain(more), ""]
    lines += _lane_table(report)
    lines.append("")
    lines += _cause_list(report)
    for invalid in report.invalid:
        lines.append(f"- {plain(f'{invalid.file}: {invalid.reason}')}")
    for message in report.unusable:
        lines.append(f"- {plain(message)}")
    return markdown_document(lines)


def _lane_table(report: Report) -> list[str]:
    """Return a table of the lanes, with a column for each state that occurs."""
    counts_of_lanes = [report.counts(number) for number in range(len(report.lanes))]
    states: list[State] = [
        state for state in STATES if any(counts[state] for counts in counts_of_lanes)
    ]
    header = table_row(["lane", "", *states])
    # A colon at the end of the dashes aligns the counts at the right.
    rule = table_row(["---", "---", *["---:"] * len(states)])
    table = [header, rule]
    for lane, counts in zip(report.lanes, counts_of_lanes, strict=True):
        cells = [plain(lane.name), plain(about_lane(lane))]
        for state in states:
            cells.append(f"{counts[state]:,}")
        table.append(table_row(cells))
    return table


def _cause_list(report: Report) -> list[str]:
    """Return an item for each cause, with the command that runs a case again."""
    lines: list[str] = []
    for cause in causes(report):
        state = cause.first.state
        title = plain(cause.title(report))
        reason = plain(why(cause.first))
        lines.append(f"- **{state}** {title}: {reason}")
        for command in cause.again(report):
            lines.append(f"  - {plain(command)}")
    return lines
