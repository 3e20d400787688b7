"""Sentences about lanes, results and reports, which all forms of a report share."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

from onnxgather.checking.cases import GIVEN, Case
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import (
    BY_DIRECTML,
    CaseResult,
    Report,
    Result,
    ResultKind,
    counts_by_severity,
)
from onnxgather.core.checks import number_of, printable
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.elsewhere.hosts import runtime_python
from onnxgather.core.execution.providers import target_of
from onnxgather.core.output.result_states import BAD, Severity, State

Mood = Literal["good", "known", "open", "bad"]
"""How a report is to be read. good: everything ran and agrees. known: nothing is new,
but results are wrong. open: something is missing. bad: there are findings, or a lane
did not run."""

_NOT_STARTED = "did not start"


def about_lane(lane: LaneInfo) -> str:
    """Return a lane's provider, versions, target, devices; or why it did not start."""
    if lane.not_run is not None:
        return f"{_NOT_STARTED}: {lane.not_run}"
    parts = lane.software
    if lane.target:
        parts.append(f"target {lane.target}")
    if lane.has_answers:
        parts.append("answers from a folder")
    if lane.opset:
        parts.append(f"opset {lane.opset}")
    text = ", ".join(parts)
    if lane.devices:
        text += f"; {', '.join(lane.devices)}"
    if lane.at_exit:
        text += f"; {lane.at_exit}"
    return text


class NamedRun(NamedTuple):
    """A run of a case that is not PASS."""

    inputs: str
    """The start of a sentence: which inputs the run had; empty if only the run of the
    case itself is not PASS."""
    result: Result

    @property
    def why(self) -> str:
        """Why the run is not PASS, as one sentence."""
        result = self.result
        reason = result.known if result.state == "KNOWN" else result.reason
        return f"{self.inputs}{reason or 'no reason was given'}"

    @property
    def lines(self) -> list[str]:
        """Lines with the evidence.

        They contain the reason, the origin of the first wrong element, the data types
        that the provider was given, and the nodes that ran.
        """
        result = self.result
        lines = [self.why]
        if result.state == "KNOWN" and result.reason:
            lines.append(f"{result.found}: {result.reason}")
        if result.state == "FIXED" and result.known:
            lines.append(result.known)
        if result.first is not None and result.first.source:
            lines.append(result.first.source)
        if result.given_as:
            lines.append(f"given: {result.given_as}")
        if result.by_directml:
            lines.append(f"compared: {BY_DIRECTML}")
        if result.nodes and result.state != "NOT-RUN":
            lines.append(f"ran: {', '.join(result.nodes)}")
        return lines


def runs_to_explain(case: Case | CaseResult, result: Result) -> list[NamedRun]:
    """Return the runs of a case that are not PASS, that of the case itself first."""
    itself, *others = result.runs
    # Case: only the run of the case itself says something.
    if all(run.state == "PASS" for run in others):
        return [NamedRun("", itself)]
    inputs = ("with the index out of range: ", "with indices of zero: ")
    if case.in_range:  # a node that ONNX forbids
        inputs = ("the forbidden node: ", "an allowed node: ")
    runs = map(NamedRun, inputs, result.runs)
    return [run for run in runs if run.result.state != "PASS"]


def why(case: Case | CaseResult, result: Result) -> str:
    """Return why a result is not PASS, as one sentence."""
    return "; ".join(run.why for run in runs_to_explain(case, result))


def evidence_lines(case: Case | CaseResult, result: Result) -> list[str]:
    """Return the lines of evidence of a result that is not PASS, each line once."""
    lines = [line for run in runs_to_explain(case, result) for line in run.lines]
    return [*dict.fromkeys(lines)]


def lane_again(lane: LaneInfo) -> str:
    """Return a lane as options name it, with its interpreter.

    PYTHON stands for an interpreter that a report names without a path.
    """
    found = None if lane.adapter else runtime_python(lane.provider)
    # Case: the lane runs where it runs without a path.
    if lane.python in (None, found or sys.executable):
        return lane.name
    python = lane.python if os.path.dirname(lane.python) else "PYTHON"
    return f"{lane.name}={python}"


def options_again(lane: LaneInfo) -> list[str]:
    """Return the options that a lane needs beside those that name it."""
    words: list[str] = []
    if lane.adapter is not None:
        words += ["--adapter", f"{lane.provider}={lane.adapter}"]
    if lane.plugin is not None:
        words += ["--plugin", f"{lane.name}={lane.plugin}"]
    for key, value in lane.provider_options.items():
        words += ["--provider-option", f"{lane.name}:{key}={value}"]
    return words


def again(
    report: Report, case: CaseResult, lane: LaneInfo, result: Result
) -> list[str]:
    """Return the command that runs a finding again; no command for other results.

    A lane whose answers came from a folder cannot run a case.
    For a case with the arrays of --inputs it names them INPUTS.npz.
    """
    if result.state not in BAD or lane.has_answers:
        return []
    path, colon, _ = case.name.partition(": ")
    is_of_file = bool(colon)
    words = ["onnxgather", "check"]
    # Case: arrays of --inputs. A case of a program has its file.
    if is_of_file and (case.file is None or case.command == GIVEN):
        words += [path, "--inputs", "INPUTS.npz"]
    words += ["--case", case.name]
    lane_text = lane_again(lane)
    option = "--lanes" if lane_text == lane.name else "--lane"
    words += [option, lane_text, *options_again(lane)]
    target_of_name = lane.name.rpartition("@")[2]
    # The file of a model has its own target and opset.
    usual_target = target_of(lane.provider)
    usual_targets = (None, usual_target, target_of_name)
    if lane.target not in usual_targets and not case.runs_file:
        words += ["--target", str(lane.target)]
    if lane.opset and not case.runs_file:
        words += ["--opset", str(lane.opset)]
    # Cases of the built-in corpus have a policy of their own.
    if is_of_file or case.name.startswith("random/"):
        words += ["--out-of-range", case.out_of_range]
    if case.wrapped:
        words.append("--wrap")
    if report.no_known:
        words.append("--no-known")
    return [shlex.join(words)]


def title(case: CaseResult) -> str:
    """Return the name of a case, followed by `(wrapped)` if it is wrapped."""
    return f"{case.name} (wrapped)" if case.wrapped else case.name


class Cause(NamedTuple):
    """Results of one lane that are not PASS for one reason."""

    first: Result
    """The first result. The others have the same reason, but for the values in it."""
    cases: list[int]
    """The numbers of the cases in the report."""

    def why(self, report: Report) -> str:
        """Return why the first result is not PASS, as one sentence."""
        return why(report.cases[self.cases[0]], self.first)

    def title(self, report: Report) -> str:
        """Return the lane, the number of cases, and the name of the first."""
        text = title(report.cases[self.cases[0]])
        if len(self.cases) > 1:
            text = f"{len(self.cases):,} cases, such as {text}"
        return f"{self.first.lane}: {text}"

    def again(self, report: Report) -> list[str]:
        """Return the line with the command that runs the first case again, if any."""
        case = report.cases[self.cases[0]]
        lane = report.lanes[report.number_of(self.first)]
        commands = again(report, case, lane, self.first)
        return [f"again: {command}" for command in commands]


def causes(report: Report) -> list[Cause]:
    """Return the causes of results that are not PASS.

    Findings come first, then what is known or did not run; of each the most severe, and
    then the cause with most cases.
    """
    by_key: dict[Hashable, Cause] = {}
    for number, case in enumerate(report.cases):
        for result in case.results:
            if result.state == "PASS":
                continue
            keys = [_reason_key(case, run) for run in runs_to_explain(case, result)]
            key = (result.state, result.severity, result.lane, *keys)
            cause = by_key.setdefault(key, Cause(result, []))
            cause.cases.append(number)

    ranks = list(Severity)

    def order(cause: Cause) -> tuple[bool, int, int]:
        rank = ranks.index(cause.first.severity)
        return cause.first.state not in BAD, rank, -len(cause.cases)

    return sorted(by_key.values(), key=order)


_CHANGING = re.compile(r"0x[0-9a-f]+|\(\d+\)|\d{4,}")
"""What differs between prints of one crash: addresses, and numbers of threads and of
processes."""


def _reason_key(case: CaseResult, run: NamedRun) -> Hashable:
    """Return what runs of one cause share, besides the lane."""
    result = run.result
    # Case: what a runtime prints as it ends has numbers of threads and addresses.
    if result.state == "ERROR" and result.breakdown is Breakdown.DIED:
        return _CHANGING.sub("", run.why)
    if result.state != "DIFF":
        return run.why
    # The sentence of a DIFF contains values, which differ from case to case.
    policy = None if case.in_range else case.out_of_range
    return (
        case.operator,
        policy,
        run.inputs,
        result.kind,
        result.returned,
        result.bare_rule,
        result.foreign_memory,
    )


class Verdict(NamedTuple):
    """The overall result of a report; its texts are printable."""

    headline: str
    more: str
    """A sentence with the numbers."""
    mood: Mood


def verdict(report: Report) -> Verdict:
    """Return the overall result of a report."""
    counts = Counter[State](result.state for result in report.results)
    finding_counts = {
        "fixed known difference": counts["FIXED"],
        "fault at exit": len(faults_at_exit(report)),
        "invalid file": len({invalid.file for invalid in report.invalid}),
        "unusable file": len(report.unusable),
    }
    findings = counts["DIFF"] + counts["ERROR"] + sum(finding_counts.values())
    headline, mood = _headline(report, counts, findings)
    missing = cut(report)
    if report.shard:
        missing.append(f"shard {report.shard} alone")
    if missing:
        headline = f"{headline} ({'; '.join(missing)})"
        if mood != "bad":
            mood = "open"
    more = _numbers(report, counts, finding_counts)
    return Verdict(printable(headline), printable(more), mood)


def _numbers(
    report: Report, counts: Counter[State], finding_counts: dict[str, int]
) -> str:
    """Return the sentence with the numbers of a report."""
    parts = list[str]()
    if counts:
        judged = _passed_by_directml(report)
        parts.append(f"{counts['PASS'] - judged:,} agree bit for bit")
        passed = [result for result in report.results if result.state == "PASS"]
        given = sum(bool(result.given_as) for result in passed)
        if given:
            parts.append(f"{given:,} of them given other data types")
        if judged:
            parts.append(f"{judged:,} {BY_DIRECTML}")
    wrong = [result for result in report.results if result.state in ("DIFF", "ERROR")]
    parts += _by_severity(wrong)
    for noun, count in finding_counts.items():
        if count:
            parts.append(number_of(count, noun))
    if counts["KNOWN"]:
        parts.append(f"{counts['KNOWN']:,} known")
    if counts["NOT-RUN"]:
        parts.append(f"{counts['NOT-RUN']:,} not run, which proves nothing")
    if report.without_evidence:
        cases = number_of(report.without_evidence, "case")
        parts.append(f"{cases} without arrays, for want of room")
    cases = number_of(len(report.cases), "case")
    lanes = number_of(len(report.lanes), "lane")
    text = f"{cases} on {lanes}"
    # Case: reports of lanes that were asked other cases stand side by side.
    if counts.total() < len(report.cases) * len(report.lanes):
        text = f"{cases}, each on some of {lanes}"
    if parts:
        text += f": {', '.join(parts)}"
    return f"{text}."


def _headline(
    report: Report, counts: Counter[State], findings: int
) -> tuple[str, Mood]:
    bad: list[str] = []
    if findings:
        bad.append(number_of(findings, "finding"))
    for lane, fault in faults_at_exit(report).items():
        bad.append(f"{lane} {fault}")
    # Where the lanes are listed, the reason is too.
    for lane, failure in unmet(report, with_reasons=False).items():
        bad.append(f"{lane} {failure}")
    if bad:
        return "; ".join(bad) + _known_words(report), "bad"
    if not counts:
        return "Nothing was checked", "open"
    if counts["NOT-RUN"] == counts.total():
        return "Nothing ran", "open"
    if counts["PASS"] == counts.total():
        judged = _passed_by_directml(report)
        if judged:
            return f"Everything agrees, {judged:,} {BY_DIRECTML}", "good"
        return "Everything agrees", "good"
    if counts["KNOWN"]:
        headline = f"No new differences{_known_words(report)}"
        return headline, "open" if counts["NOT-RUN"] else "known"
    return "No findings", "open"


def _passed_by_directml(report: Report) -> int:
    """Return how many results pass by DirectML's formula in place of the policy.

    They do not agree with the results of other lanes bit for bit.
    """
    return sum(map(report.passed_by_directml, range(len(report.lanes))))


def models_ran(report: Report) -> str:
    """Return a sentence on which lanes ran the files of models, and which did not.

    It is empty if the report has no case of the file of a model, or no lane ran one.
    """
    files = list[str]()
    ran: dict[str, bool] = {}
    for case in report.cases:
        if not case.runs_file:
            continue
        files.append(case.file or case.name)
        for result in case.results:
            if result.kind not in (ResultKind.NOT_RUN, ResultKind.NOT_STARTED):
                ran[result.lane] = result.of_descriptor
    on_file = [lane for lane, of_descriptor in ran.items() if not of_descriptor]
    on_descriptor = [lane for lane, of_descriptor in ran.items() if of_descriptor]
    files = [*dict.fromkeys(files)]
    is_one = len(files) == 1
    texts = list[str]()
    if on_file:
        what = "the file itself" if is_one else "the files themselves"
        texts.append(f"{', '.join(on_file)} ran {what}")
    if on_descriptor:
        what = "its descriptor" if is_one else "their descriptors"
        texts.append(f"{', '.join(on_descriptor)} ran {what}")
    if not texts:
        return ""
    subject = files[0] if is_one else number_of(len(files), "model")
    return f"{subject}: {'; '.join(texts)}"


def _known_words(report: Report) -> str:
    """Return how severe the known results are, as a sentence."""
    parts = _by_severity(known_of(report.results))
    return f". Known: {', '.join(parts)}" if parts else ""


def known_of(results: Iterable[Result]) -> list[Result]:
    """Return the results that known differences explain."""
    return [result for result in results if result.state == "KNOWN"]


def _by_severity(results: Iterable[Result]) -> list[str]:
    """Return texts such as `24 ended the process`, the worst first."""
    counts = counts_by_severity(results)
    return [f"{count:,} {words}" for words, count in counts.items()]


def faults_at_exit(report: Report) -> dict[str, str]:
    """Return what goes wrong when the programs of lanes end, by lane."""
    return {lane.name: lane.at_exit for lane in report.lanes if lane.at_exit}


def unmet(report: Report, with_reasons: bool = True) -> dict[str, str]:
    """Return what lanes did not do, by lane.

    These are the lanes that did not start, and the required lanes that did not run
    every case.

    Args:
        report: The report.
        with_reasons: Whether the text of a lane that did not start says why.
    """
    failures: dict[str, str] = {}
    for number, lane in enumerate(report.lanes):
        if lane.not_run is not None:
            failures[lane.name] = about_lane(lane) if with_reasons else _NOT_STARTED
        elif lane.required:
            not_run = report.counts(number)["NOT-RUN"]
            if not_run:
                cases = number_of(not_run, "case")
                failures[lane.name] = f"did not run {cases}"
                # A lane of answers is the only one, and no option requires it.
                if not lane.has_answers:
                    failures[lane.name] += ", though required"
    return failures


def cut(report: Report) -> list[str]:
    """Return why a check ended before its last case."""
    ran = f"after {len(report.cases):,} of {number_of(report.planned, 'case')}"
    reasons: list[str] = []
    if report.interrupted:
        reasons.append(f"interrupted by {report.interrupted} {ran}")
    if report.maxfail:
        findings = number_of(report.maxfail, "finding")
        reasons.append(f"stopped at {findings} (--maxfail) {ran}")
    return reasons
