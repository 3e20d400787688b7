"""Sentences of lanes, results and reports that the table, JUnit, Markdown and the page share."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Report, Result
from onnxgather.core.checks import number_of, printable
from onnxgather.core.execution.providers import target_of
from onnxgather.core.output.result_states import BAD, STATES, State

Mood = Literal["good", "known", "open", "bad"]
"""How a report is to be read. good: everything ran and agrees. known: nothing is new,
but results are wrong. open: something is missing. bad: there are findings, or a lane
did not run."""

_KNOWN = {"known wrong": "known wrong", "known not to run": "it declines"}
"""How a headline words what is known of a lane."""


def about_lane(lane: LaneInfo) -> str:
    """A lane's provider, versions, target and devices, or why it did not start."""
    if lane.not_run is not None:
        return f"did not start: {lane.not_run}"
    devices = "; " + ", ".join(lane.devices) if lane.devices else ""
    target = [f"target {lane.target}"] if lane.target else []
    return (
        ", ".join([lane.provider, *map(" ".join, lane.versions.items()), *target])
        + devices
    )


def why(result: Result) -> str:
    """Why a result is not PASS, in one sentence."""
    return (
        result.known if result.state == "KNOWN" else result.reason
    ) or "no reason was given"


def evidence_lines(result: Result) -> list[str]:
    """Lines about a result that is not PASS: why, the first wrong element's origin, what ran."""
    more = {
        "KNOWN": result.reason and f"{result.found}: {result.reason}",
        "FIXED": result.known,
    }
    source = result.first and result.first.source
    ran = f"ran: {', '.join(result.nodes)}"
    shows_nodes = result.nodes and result.state != "NOT-RUN"
    given = f"given: {result.given_as}" if result.given_as else None
    lines = [
        why(result),
        more.get(result.state),
        source,
        given,
        ran if shows_nodes else None,
    ]
    return [line for line in lines if line]


def lane_again(lane: LaneInfo) -> str:
    """A lane as options name it, with its interpreter, or PYTHON in the place of its path."""
    if lane.python in (None, sys.executable):  # in the environment of the check
        return lane.name
    return f"{lane.name}={lane.python if os.path.dirname(lane.python) else 'PYTHON'}"


def again(
    report: Report, case: CaseResult, lane: LaneInfo, result: Result
) -> list[str]:
    """The command that runs a case of a report again on a lane, if the result is a finding.

    A provider from a plugin library needs --plugin too, and a model its inputs.
    """
    if result.state not in BAD:
        return []
    words = ["onnxgather", "check", "--case", case.name]
    path, from_file, _ = case.name.partition(": ")
    if from_file and case.file is None:
        words[2:2] = [path, "--inputs", "INPUTS.npz"]
    where = lane_again(lane)
    words += ["--lanes" if where == lane.name else "--lane", where]
    if lane.target not in (
        None,
        target_of(lane.provider),
        lane.name.rpartition("@")[2],
    ):
        words += ["--target", str(lane.target)]
    if from_file or case.name.startswith("random/"):
        words += ["--out-of-range", case.out_of_range]
    words += ["--wrap"] if case.wrapped else []
    words += ["--no-known"] if report.no_known else []
    return [shlex.join(words)]


def title(case: CaseResult) -> str:
    """The name of a case, followed by `(wrapped)` if it is wrapped."""
    return case.name + (" (wrapped)" if case.wrapped else "")


@dataclass(frozen=True, slots=True)
class Cause:
    """Results of one lane that are not PASS for one reason."""

    first: Result
    """It stands for the others: its reason is theirs, but for the values in it."""
    cases: list[int]
    """The numbers of the cases in the report."""

    def title(self, report: Report) -> str:
        """The lane, the number of cases, and the name of the first."""
        name = title(report.cases[self.cases[0]])
        count = len(self.cases)
        return f"{self.first.lane}: " + (
            f"{count:,} cases, such as {name}" if count > 1 else name
        )

    def again(self, report: Report) -> list[str]:
        """The command that runs the first case again, as a line, if it is a finding."""
        case = report.cases[self.cases[0]]
        lane = report.lanes[case.results.index(self.first)]
        return [
            f"again: {command}" for command in again(report, case, lane, self.first)
        ]


def causes(report: Report) -> list[Cause]:
    """The results that are not PASS by cause: the worst state first, then the most cases."""
    found: dict[Hashable, Cause] = {}
    for k, case in enumerate(report.cases):
        for result in case.results:
            if result.state == "PASS":
                continue
            reason: Hashable = why(result)
            if (
                result.state == "DIFF"
            ):  # its sentence has values, which differ from case to case
                policy = None if case.in_range else case.out_of_range
                reason = (
                    case.operator,
                    policy,
                    result.kind,
                    result.returned,
                    result.bare_rule,
                )
            key = (result.state, result.lane, reason)
            found.setdefault(key, Cause(result, [])).cases.append(k)
    return sorted(
        found.values(),
        key=lambda cause: (-STATES[cause.first.state].severity, -len(cause.cases)),
    )


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
        "invalid file": len({one.file for one in report.invalid}),
        "unusable file": len(report.unusable),
    }
    parts = [f"{counts['PASS']:,} agree bit for bit"] if results else []
    parts += [number_of(number, noun) for noun, number in found.items() if number]
    parts += [f"{counts['KNOWN']:,} known"] if counts["KNOWN"] else []
    if counts["NOT-RUN"]:
        parts.append(f"{counts['NOT-RUN']:,} not run, which proves nothing")
    if report.without_evidence:
        more = number_of(report.without_evidence, "case")
        parts.append(f"{more} without arrays, for want of room")
    across = (
        f"{number_of(len(report.cases), 'case')} on"
        f" {number_of(len(report.lanes), 'lane')}"
    )
    more = ": ".join(filter(None, [across, ", ".join(parts)])) + "."
    headline, mood = _headline(report, counts, sum(found.values()))
    part = [*cut(report), *([f"shard {report.shard} alone"] if report.shard else [])]
    if part:
        headline = f"{headline} ({'; '.join(part)})"
        mood = "bad" if mood == "bad" else "open"
    return Verdict(printable(headline), printable(more), mood)


def _headline(
    report: Report, counts: Counter[State], findings: int
) -> tuple[str, Mood]:
    bad = [number_of(findings, "finding")] if findings else []
    # A lane's own entry says why it did not start.
    bad += [f"{lane} {what.partition(': ')[0]}" for lane, what in unmet(report).items()]
    if bad:
        return "; ".join(bad) + _known_by_lane(report), "bad"
    if not counts:
        return "Nothing was checked", "open"
    if counts["NOT-RUN"] == counts.total():
        return "Nothing ran", "open"
    if counts["PASS"] == counts.total():
        return "Everything agrees", "good"
    if counts["KNOWN"]:
        headline = f"No new differences{_known_by_lane(report)}"
        return headline, "open" if counts["NOT-RUN"] else "known"
    return "No findings", "open"


def _known_by_lane(report: Report) -> str:
    """What is known of each lane, as a sentence after the headline; the most comes first."""
    each = [(lane.name, known(report, k)) for k, lane in enumerate(report.lanes)]
    told = list[str]()
    for name, count in sorted(each, key=lambda one: -one[1].total()):
        parts = [
            f"{count[what]:,} {said}" for what, said in _KNOWN.items() if count[what]
        ]
        told += [f"{name}: {', '.join(parts)}"] if parts else []
    return f". {'; '.join(told)}" if told else ""


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
            found[lane.name] = about_lane(lane)
        elif lane.required and (count := report.counts(k)["NOT-RUN"]):
            found[lane.name] = (
                f"did not run {number_of(count, 'case')}, though required"
            )
    return found


def cut(report: Report) -> list[str]:
    """Why a check ended before its last case."""
    ran = f"after {len(report.cases):,} of {number_of(report.planned, 'case')}"
    found = [f"interrupted by {report.interrupted} {ran}"] if report.interrupted else []
    if report.maxfail:
        found.append(
            f"stopped at {number_of(report.maxfail, 'finding')} (--maxfail) {ran}"
        )
    return found
