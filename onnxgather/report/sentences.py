"""Sentences about lanes and results that the table, the JUnit XML, Markdown and the page share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import CaseResult, Report, Result
from onnxgather.parity.states import STATES


def about(lane: LaneInfo) -> str:
    """A lane's provider, versions, target and devices, or why it did not start."""
    if lane.not_run is not None:
        return f"did not start: {lane.not_run}"
    devices = "; " + ", ".join(lane.devices) if lane.devices else ""
    target = [f"target {lane.target}"] if lane.target else []
    return ", ".join([lane.provider, *map(" ".join, lane.versions.items()), *target]) + devices


def why(result: Result) -> str:
    """Why a result is not PASS, in one sentence."""
    return (result.known if result.state == "KNOWN" else result.reason) or "no reason was given"


def evidence_lines(result: Result) -> list[str]:
    """Lines about a result that is not PASS: why, the first wrong element's origin, the nodes."""
    more = {
        "KNOWN": result.reason and f"{result.found}: {result.reason}",
        "FIXED": result.known,
    }
    source = result.first and result.first.source
    ran = f"ran: {', '.join(result.nodes)}"
    shows_nodes = result.nodes and result.state != "NOT-RUN"
    lines = [why(result), more.get(result.state), source, ran if shows_nodes else None]
    return [line for line in lines if line]


def title(case: CaseResult) -> str:
    """The name of a case, followed by `(wrapped)` if it is wrapped."""
    return case.name + (" (wrapped)" if case.wrapped else "")


class Cause(NamedTuple):
    """Results of one lane that are not PASS for one reason."""

    first: Result
    """It stands for the others: its reason is theirs, but for the values in it."""
    cases: list[int]
    """The numbers of the cases in the report."""

    def title(self, report: Report) -> str:
        """The lane, the number of cases, and the name of the first."""
        name = title(report.cases[self.cases[0]])
        count = len(self.cases)
        return f"{self.first.lane}: " + (f"{count:,} cases, such as {name}" if count > 1 else name)


def causes(report: Report) -> list[Cause]:
    """The results that are not PASS by cause: the worst state first, then the most cases."""
    found: dict[Hashable, Cause] = {}
    for k, case in enumerate(report.cases):
        for result in case.results:
            if result.state == "PASS":
                continue
            reason: Hashable = why(result)
            if result.state == "DIFF":  # its sentence has values, which differ from case to case
                policy = None if case.in_range else case.out_of_range
                reason = (case.operator, policy, result.kind, result.returned)
            key = (result.state, result.lane, reason)
            found.setdefault(key, Cause(result, [])).cases.append(k)
    return sorted(
        found.values(), key=lambda cause: (-STATES[cause.first.state].severity, -len(cause.cases))
    )
