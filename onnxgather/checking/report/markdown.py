"""A report as Markdown, as the summaries of build servers take it: GitHub's, and their like."""

from __future__ import annotations

from onnxgather.checking.report.sentences import about_lane, causes, verdict, why
from onnxgather.checking.results import Report
from onnxgather.core.output.markdown import markdown_document, plain, table_row
from onnxgather.core.output.result_states import STATES, State


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
