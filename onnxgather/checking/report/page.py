"""Reports as one HTML page that loads nothing: all that it needs is inside it.

The page has a row for each lane, with rows of case groups below it. Its script counts
the results, which are in the page compressed, each different result once.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from msgspec import to_builtins

from onnxgather.checking.report.matrix import (
    CaseGroup,
    group_of,
    lane_head,
    result_words,
)
from onnxgather.checking.report.sentences import (
    Cause,
    NamedRun,
    again,
    causes,
    lane_again,
    models_ran,
    options_again,
    runs_to_explain,
    verdict,
)
from onnxgather.checking.results import CaseResult, Evidence, Report, Result, ResultKind
from onnxgather.core.descriptors.arrays import Array, content_of, differing
from onnxgather.core.descriptors.explain import value_text
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import Target
from onnxgather.core.output.page import compressed, described, filled, packed
from onnxgather.core.output.picture import picture_of
from onnxgather.core.output.result_states import BAD, STATES, Severity

MOST_DETAILS = 1000
"""The most cases of a page with details: a picture, graphs and bytes.

Of a larger report the smallest cases of each cause have details.
"""

MOST_WRONG_ELEMENTS = 8
"""The most differing elements of a case whose bytes the page shows."""

MOST_BYTES_SHOWN = 64
"""The most bytes of an output of another data type or shape that the page shows."""


class _WrongElement(NamedTuple):
    """A differing element with its bytes, as texts."""

    place: str
    expected: str
    expected_bytes: str
    returned: str
    returned_bytes: str


def html(report: Report) -> bytes:
    """Return a report as an HTML page in UTF-8.

    Raises:
        OnnxGatherError: A descriptor in the report is broken, or arrays do not fit it.
    """
    headline, more, mood = verdict(report)
    first_sentence, _, rest = headline.partition(". ")
    texts = {
        "title": escape(f"{headline} · onnxgather check"),
        "verdict": escape(first_sentence),
        "rest": escape(rest),
        "more": escape(f"{more} {models_ran(report)}".rstrip()),
        "mood": mood,
    }
    return filled("checking/report/page", texts, _data(report))


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the page."""
    report_causes = causes(report)
    different_groups: dict[CaseGroup, CaseGroup] = {}
    groups: list[CaseGroup] = []
    for case in report.cases:
        group = group_of(case)
        groups.append(different_groups.setdefault(group, group))
    with_details = _with_details(report, report_causes, groups)
    lanes: list[dict[str, Any]] = []
    for lane in report.lanes:
        lanes.append({**to_builtins(lane), "runtime": lane_head(lane)})
    return {
        "onnxgather": report.onnxgather,
        "made": report.made,
        "machine": report.machine,
        "lanes": lanes,
        "invalid": to_builtins(report.invalid),
        "unusable": report.unusable,
        "causes": [_cause_data(report, cause) for cause in report_causes],
        "packed": packed(_packed_data(report, report_causes, groups, with_details)),
        "states": list(STATES),
        "bad": BAD,
        "severities": list(Severity),
        "details": list(
            compressed(_details(report, report.cases[k]) for k in with_details)
        ),
    }


def _cause_data(report: Report, cause: Cause) -> dict[str, Any]:
    """Return the data of a cause."""
    return {
        "state": cause.first.state,
        "severity": cause.first.severity,
        "lane": report.number_of(cause.first),
        "words": result_words(cause.first),
        "why": cause.why(report),
    }


def _packed_data(
    report: Report,
    report_causes: Sequence[Cause],
    groups: Sequence[CaseGroup],
    with_details: Sequence[int],
) -> dict[str, Any]:
    """Return the groups, the different results, and the cases of a page.

    The script reads a case as a row: see `readCase` in cases.mjs.
    """
    cause_numbers: dict[tuple[int, str], int] = {}
    for number, cause in enumerate(report_causes):
        for case in cause.cases:
            cause_numbers[case, cause.first.lane] = number
    detail_numbers = {case: number for number, case in enumerate(with_details)}
    group_numbers: dict[CaseGroup, int] = {}
    # Cases of one lane share what the page says of them.
    result_numbers: dict[tuple[Result, tuple[NamedRun, ...], int | None], int] = {}
    rows: list[list[Any]] = []
    for number, (case, group) in enumerate(zip(report.cases, groups, strict=True)):
        numbers: list[int] = []
        for result in case.results:
            cause_number = cause_numbers.get((number, result.lane))
            runs = tuple(runs_to_explain(case, result))
            key = (result, runs, cause_number)
            numbers.append(result_numbers.setdefault(key, len(result_numbers)))
        origin = [case.file, case.command, case.dispatchable]
        evidence = case.evidence or case.example
        rows.append(
            [
                case.name,
                group_numbers.setdefault(group, len(group_numbers)),
                case.operator,
                case.data_type,
                case.index_type,
                case.out_of_range,
                int(case.in_range),
                int(case.wrapped),
                origin if any(origin) else 0,
                detail_numbers.get(number, -1),
                evidence.size if evidence is not None else -1,
                numbers,
            ]
        )
    results: list[dict[str, Any]] = []
    for result, runs, cause_number in result_numbers:
        facts = {
            "lane": result.lane,
            "state": result.state,
            "severity": result.severity,
            "words": result_words(result),
            "remarks": result.remarks,
            "cause": cause_number,
            "runs": [{**to_builtins(run.result), "inputs": run.inputs} for run in runs],
        }
        results.append(facts)
    return {"groups": list(group_numbers), "results": results, "cases": rows}


def _with_details(
    report: Report, report_causes: Sequence[Cause], groups: Sequence[CaseGroup]
) -> list[int]:
    """Return the numbers of the cases of which the page has details, in order.

    Of each cause the smallest case of each group comes first, then the next smallest,
    and at last cases that passed on all lanes.
    """
    sizes = [_evidence_size(case) for case in report.cases]
    ranked: list[tuple[bool, int, int, int]] = []
    for cause in report_causes:
        of_groups = defaultdict[CaseGroup, list[int]](list)
        for number in cause.cases:
            case = report.cases[number]
            if case.evidence is not None and any(map(_is_informative, case.results)):
                of_groups[groups[number]].append(number)
        for numbers in of_groups.values():
            numbers.sort(key=sizes.__getitem__)
            for rank, number in enumerate(numbers):
                is_other = cause.first.state not in BAD
                ranked.append((is_other, rank, sizes[number], number))
    for number, case in enumerate(report.cases):
        if case.example is not None:
            ranked.append((True, len(report.cases), sizes[number], number))
    chosen = dict.fromkeys(number for *_, number in sorted(ranked))
    return sorted([*chosen][:MOST_DETAILS])


def _evidence_size(case: CaseResult) -> int:
    """Return how many bytes the arrays of a case have."""
    evidence = case.evidence or case.example
    return evidence.size if evidence is not None else 0


def _is_informative(result: Result) -> bool:
    """Return whether a result deserves details: not PASS, on a lane that started."""
    return result.state != "PASS" and result.kind is not ResultKind.NOT_STARTED


def _details(report: Report, case: CaseResult) -> dict[str, Any]:
    """Return the commands and the picture of a case, and its descriptor or its node."""
    evidence = case.evidence or case.example
    assert evidence is not None, "`_with_details` holds"
    # Case: a node that ONNX forbids has no descriptor.
    descriptor = None
    if evidence.descriptor is not None:
        descriptor = from_dict(evidence.descriptor)
    got = {lane: blob.array() for lane, blob in evidence.got.items()}
    expected = _expected_of_lanes(case, evidence)
    # The picture has the output of the case's policy, and what differs from that.
    compared = {result.lane for result in case.results if not result.by_directml}
    picture = picture_of(
        descriptor,
        evidence.data.array(),
        evidence.indices.array(),
        case.out_of_range,
        {lane: array for lane, array in got.items() if lane in compared},
    )
    commands: list[str] = []
    for lane, result in report.answers(case):
        commands += again(report, case, lane, result)
    details = {
        "again": commands,
        "repro": _repro_commands(report, case),
        "picture": to_builtins(picture),
    }
    wrong = {lane: _wrong_bytes(expected[lane], got[lane]) for lane in got}
    if wrong:
        details["bytes"] = wrong
    if descriptor is None:
        details["node"] = to_builtins(evidence.node)
        return details
    targets = _targets(report, case) or ["portable"]
    details |= described(descriptor, case.out_of_range, targets)
    # Case: the lanes ran the file of a model, whose graph may be another.
    if case.runs_file:
        details["graphs"] = []
    return details


def _expected_of_lanes(case: CaseResult, evidence: Evidence) -> dict[str, Array | None]:
    """Return the right output of each lane; None where there must be none."""
    expected = None
    if evidence.expected is not None:
        expected = evidence.expected.array()
    by_lane: dict[str, Array | None] = {}
    for result in case.results:
        by_lane[result.lane] = expected
        # Case: the lane is DirectML, which has a rule of its own.
        if result.by_directml:
            by_lane[result.lane] = reference(
                from_dict(evidence.descriptor),
                evidence.data.array(),
                evidence.indices.array(),
                "directml",
            )
    return by_lane


def _wrong_bytes(expected: Array | None, got: Array) -> list[_WrongElement]:
    """Return the first differing elements of an output, with their bytes.

    An output that cannot be compared element by element is one entry.
    """
    returned = f"{got.dtype} {list(got.shape)}"
    # Case 1: there must be no output.
    if expected is None:
        return [_WrongElement("all", "an error", "", returned, _hexadecimal(got))]
    # Case 2: another data type or shape.
    if got.dtype != expected.dtype or got.shape != expected.shape:
        wanted = f"{expected.dtype} {list(expected.shape)}"
        entry = _WrongElement(
            "all", wanted, _hexadecimal(expected), returned, _hexadecimal(got)
        )
        return [entry]
    entries: list[_WrongElement] = []
    for offset in differing(expected, got)[:MOST_WRONG_ELEMENTS].tolist():
        place = np.array(np.unravel_index(offset, got.shape), int).tolist()
        texts = list[str]()
        for array in (expected, got):
            element = array.reshape(-1)[offset : offset + 1]
            texts += [value_text(element[0]), _hexadecimal(element)]
        entries.append(_WrongElement(f"{place}", *texts))
    return entries


def _hexadecimal(array: Array) -> str:
    """Return the first bytes of an array, in the order of little-endian memory."""
    little = array.reshape(-1).astype(array.dtype.newbyteorder("<"))
    text = content_of(little[:MOST_BYTES_SHOWN])[:MOST_BYTES_SHOWN].hex(" ")
    return f"{text} …" if array.nbytes > MOST_BYTES_SHOWN else text


def _repro_commands(report: Report, case: CaseResult) -> list[str]:
    """Return the commands that reduce a wrong case: one for each lane it is wrong on.

    Lanes that run no models are left out.
    """
    commands: list[str] = []
    for lane, result in report.answers(case):
        if not result.is_wrong or not lane.runs_models:
            continue
        words = ["onnxgather", "repro", "REPORT.json", "--case", case.name]
        words += ["--lane", lane_again(lane), *options_again(lane), "-o", "repro"]
        commands.append(shlex.join(words))
    return commands


def _targets(report: Report, case: CaseResult) -> list[Target]:
    """Return the targets of the models that did not pass, without repetitions."""
    targets: list[Target] = []
    for lane, result in report.answers(case):
        if not _is_informative(result):
            continue
        target = target_of(lane.provider, lane.target, case.wrapped)
        if target not in targets:
            targets.append(target)
    return targets
