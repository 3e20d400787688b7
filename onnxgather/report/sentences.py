"""Sentences and counts that the table, the JUnit XML and the page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import CaseResult, Report, Result
from onnxgather.parity.states import State


def number_of(number: int, noun: str, grouped: str = "") -> str:
    """A number with its noun, such as `1 case` or `1500 cases`.

    Args:
        number: The number.
        noun: The noun in the singular.
        grouped: The text between groups of three digits.
    """
    return f"{number:,} {noun}".replace(",", grouped) + ("" if number == 1 else "s")


def total(report: Report) -> Counter[State]:
    """How many results of all lanes have each state."""
    return sum((report.counts(k) for k in range(len(report.lanes))), Counter[State]())


def unmet(report: Report) -> dict[str, str]:
    """A sentence for each lane that did not start, or is required and did not run every case."""
    found: dict[str, str] = {}
    for k, lane in enumerate(report.lanes):
        count = report.counts(k)["NOT-RUN"]
        if lane.not_run is not None or (lane.required and count):
            found[lane.name] = lane.not_run or f"{number_of(count, 'case')} did not run"
    return found


def cut_short(report: Report) -> str | None:
    """Why cases that were to run are not in a report; None where the check ran to its end."""
    ran = f"after {len(report.cases)} of {number_of(report.planned, 'case')}"
    if report.interrupted is not None:
        return f"interrupted by {report.interrupted} {ran}"
    if report.maxfail is not None:
        return f"stopped at {number_of(report.maxfail, 'finding')} (--maxfail) {ran}"
    return None


def notes(report: Report) -> Iterator[str]:
    """Yield what a reader must know beside the results."""
    if report.shard is not None:
        yield f"shard {report.shard} of the cases"
    if report.without_evidence:
        yield f"{number_of(report.without_evidence, 'case')} without arrays, for want of room"
    if (early := cut_short(report)) is not None:
        yield early


def about(lane: LaneInfo) -> str:
    """A lane's provider, versions and devices, or why it did not start."""
    if lane.not_run is not None:
        return f"did not start: {lane.not_run}"
    versions = [f"{name} {version}" for name, version in lane.versions.items()]
    devices = "; " + ", ".join(lane.devices) if lane.devices else ""
    return ", ".join([lane.provider, *versions]) + devices


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
