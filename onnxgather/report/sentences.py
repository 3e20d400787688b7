"""What all reports say in the same words."""

from __future__ import annotations

from collections import Counter

from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Report, Result
from onnxgather.parity.states import State


def printable(text: str) -> str:
    r"""Return text without control characters: `\x1b` is written, not sent."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str, grouped: str = "") -> str:
    """Return such as `1 case` or `1500 cases`; `grouped` is what stands between thousands."""
    return f"{number:,} {noun}".replace(",", grouped) + ("" if number == 1 else "s")


def total(report: Report) -> Counter[State]:
    """Return how many results of all lanes have each state."""
    return sum((report.counts(k) for k in range(len(report.lanes))), Counter[State]())


def unmet(report: Report) -> dict[str, str]:
    """Return the required lanes that did not run everything, and what did not run."""
    found: dict[str, str] = {}
    for k, lane in enumerate(report.lanes):
        count = report.counts(k)["NOT-RUN"]
        if lane.required and count:
            found[lane.name] = lane.not_run or f"{counted(count, 'case')} did not run"
    return found


def about(lane: LaneInfo) -> str:
    """Return a lane's provider, versions and devices, or why it did not start."""
    if lane.not_run is not None:
        required = ", though required" if lane.required else ""
        return f"did not start{required}: {lane.not_run}"
    versions = [f"{name} {version}" for name, version in lane.versions.items()]
    devices = "; " + ", ".join(lane.devices) if lane.devices else ""
    return ", ".join([lane.provider, *versions]) + devices


def evidence_lines(result: Result) -> list[str]:
    """Return why a result is not PASS, line by line."""
    lines: list[str] = []
    if result.state == "KNOWN" and result.known:
        lines.append(result.known)
    if result.reason:
        lines.append(f"{result.found}: {result.reason}" if result.found else result.reason)
    if result.state == "FIXED" and result.known:
        lines.append(result.known)
    if result.first and result.first.source:
        lines.append(result.first.source)
    if result.nodes and result.state != "NOT-RUN":
        lines.append(f"ran: {', '.join(result.nodes)}")
    return lines
