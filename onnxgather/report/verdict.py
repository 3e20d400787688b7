"""What a report comes to, in two sentences that the table, JUnit, Markdown and the page share."""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

from onnxgather.checks import number_of, printable
from onnxgather.parity.results import Report
from onnxgather.parity.states import State
from onnxgather.report.sentences import about

Mood = Literal["good", "known", "open", "bad"]
"""How a report is to be read. good: everything ran and agrees. known: nothing is new, but results
are wrong. open: something is missing. bad: there are findings, or a lane did not run."""

MOODS: dict[Mood, State] = {"good": "PASS", "known": "KNOWN", "open": "NOT-RUN", "bad": "DIFF"}
"""The state whose colour each mood has."""


class Verdict(NamedTuple):
    """What a report comes to; its texts are printable."""

    headline: str
    more: str
    """A sentence with the numbers."""
    mood: Mood


def verdict(report: Report) -> Verdict:
    """What a report comes to."""
    counts = sum((report.counts(k) for k in range(len(report.lanes))), Counter[State]())
    results = counts.total()
    found = {
        "difference": counts["DIFF"],
        "error": counts["ERROR"],
        "fixed known difference": counts["FIXED"],
        "invalid file": len(report.invalid),
        "unusable file": len(report.unusable),
    }
    parts = [f"{counts['PASS']:,} agree bit for bit"] if results else []
    parts += [number_of(number, noun) for noun, number in found.items() if number]
    by_provider = Counter[str]()
    for k, lane in enumerate(report.lanes):
        for what, number in known(report, k).items():
            by_provider[f"{what} on {lane.provider}"] += number
    parts += [f"{number:,} {what}" for what, number in by_provider.most_common()]
    if counts["NOT-RUN"]:
        parts.append(f"{counts['NOT-RUN']:,} not run, which proves nothing")
    if report.without_evidence:
        more = number_of(report.without_evidence, "case")
        parts.append(f"{more} without arrays, for want of room")
    across = f"{number_of(len(report.cases), 'case')} on {number_of(len(report.lanes), 'lane')}"
    more = ": ".join(filter(None, [across, ", ".join(parts)])) + "."
    headline, mood = _headline(report, counts, sum(found.values()))
    if part := shortage(report):
        headline = f"{headline} ({'; '.join(part)})"
        mood = "bad" if mood == "bad" else "open"
    return Verdict(printable(headline), printable(more), mood)


def _headline(report: Report, counts: Counter[State], findings: int) -> tuple[str, Mood]:
    every = sum((known(report, k) for k in range(len(report.lanes))), Counter[str]())
    also = "".join(f", {number:,} {what}" for what, number in sorted(every.items(), reverse=True))
    bad = [number_of(findings, "finding") + also] if findings else []
    bad += [f"{lane} {what}" for lane, what in unmet(report).items()]
    if bad:
        return "; ".join(bad), "bad"
    if not counts:
        return "Nothing was checked", "open"
    if counts["NOT-RUN"] == counts.total():
        return "Nothing ran", "open"
    if counts["PASS"] == counts.total():
        return "Everything agrees", "good"
    if counts["KNOWN"]:
        return f"Nothing new{also}", "open" if counts["NOT-RUN"] else "known"
    return "No findings", "open"


def known(report: Report, lane: int) -> Counter[str]:
    """How many results of a lane are known to be wrong, and how many not to run."""
    results = (case.results[lane] for case in report.cases)
    return Counter(
        "known wrong" if result.is_wrong else "known not to run"
        for result in results
        if result.state == "KNOWN"
    )


def unmet(report: Report) -> dict[str, str]:
    """The lanes that did not start, and the required ones that did not run every case.

    Each is given with what it did not do.
    """
    found: dict[str, str] = {}
    for k, lane in enumerate(report.lanes):
        if lane.not_run is not None:
            found[lane.name] = about(lane)
        elif lane.required and (count := report.counts(k)["NOT-RUN"]):
            found[lane.name] = f"did not run {number_of(count, 'case')}, though required"
    return found


def shortage(report: Report) -> list[str]:
    """Why a report is of a part of a check only; empty where it is of the whole."""
    return [*cut(report), *([f"shard {report.shard} alone"] if report.shard else [])]


def cut(report: Report) -> list[str]:
    """Why a check ended before its last case."""
    ran = f"after {len(report.cases):,} of {number_of(report.planned, 'case')}"
    found = [f"interrupted by {report.interrupted} {ran}"] if report.interrupted else []
    if report.maxfail:
        found.append(f"stopped at {number_of(report.maxfail, 'finding')} (--maxfail) {ran}")
    return found
