"""Reports as one HTML page that loads nothing: all that it needs is inside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report.sentences import again, causes, lane_again, verdict, why
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import Target
from onnxgather.core.output.page import SCRIPTS, compressed, described, filled
from onnxgather.core.output.picture import picture_of
from onnxgather.core.output.result_states import BAD, BEST_TO_WORST, STATES


def html(report: Report) -> bytes:
    """Return a report as an HTML page in UTF-8.

    Raises:
        OnnxGatherError: A descriptor in the report is broken, or arrays do not fit it.
    """
    headline, more, mood = verdict(report)
    texts = {
        "title": escape(f"{headline} · onnxgather check"),
        "verdict": escape(headline),
        "more": escape(more),
        "mood": mood,
    }
    scripts = (*SCRIPTS, "../../checking/report/overview")
    return filled("checking/report/page", texts, _data(report), scripts)


def _data(report: Report) -> dict[str, Any]:
    """Return the data of the page: the report with details in place of evidence."""
    cases: list[Any] = []
    with_details: list[CaseResult] = []
    for case in report.cases:
        without_arrays = replace(case, evidence=None, example=None)
        if not _has_details(case):
            # The case stays a struct, which takes less memory than a dict.
            cases.append(without_arrays)
            continue
        # The number of its details in the chunks of compressed details.
        number = len(with_details)
        with_details.append(case)
        # A new dict takes less memory than one that an entry is added to.
        cases.append({**to_builtins(without_arrays), "detail": number})
    data: dict[str, Any] = to_builtins(replace(report, cases=[]))
    data["cases"] = cases
    data["causes"] = [
        (cause.first.state, cause.first.lane, why(cause.first), cause.cases)
        for cause in causes(report)
    ]
    data["states"] = list(STATES)
    data["bad"] = BAD
    data["worst"] = BEST_TO_WORST
    details = (_details(report, case) for case in with_details)
    data["details"] = list(compressed(details))
    return data


def _has_details(case: CaseResult) -> bool:
    """Return whether the page has details of a case."""
    # Case: all lanes passed, and the arrays are small enough to draw.
    if case.example is not None:
        return True
    return case.evidence is not None and any(map(_is_informative, case.results))


def _is_informative(result: Result) -> bool:
    """Return whether a result deserves details: not PASS, on a lane that started."""
    return result.state != "PASS" and result.kind is not ResultKind.NOT_STARTED


def _details(report: Report, case: CaseResult) -> dict[str, Any]:
    """Return the commands and the picture of a case, and its descriptor or its node."""
    evidence = case.evidence or case.example
    assert evidence is not None, "`_has_details` holds"
    # Case: a node that ONNX forbids has no descriptor.
    descriptor = None
    if evidence.descriptor is not None:
        descriptor = from_dict(evidence.descriptor)
    picture = picture_of(
        descriptor,
        evidence.data.array(),
        evidence.indices.array(),
        case.out_of_range,
        {lane: blob.array() for lane, blob in evidence.got.items()},
    )
    commands: list[str] = []
    for lane, result in zip(report.lanes, case.results, strict=True):
        commands += again(report, case, lane, result)
    details: dict[str, Any] = {
        "again": commands,
        "repro": _repro_commands(case, report.lanes),
        "picture": to_builtins(picture),
    }
    if descriptor is None:
        details["node"] = to_builtins(evidence.node)
        return details
    targets = _targets(case, report.lanes) or ["portable"]
    return details | described(descriptor, case.out_of_range, targets)


def _repro_commands(case: CaseResult, lanes: Sequence[LaneInfo]) -> list[str]:
    """Return the commands that reduce a wrong case: one for each lane it is wrong on.

    Lanes that run no models are left out.
    """
    commands: list[str] = []
    for lane, result in zip(lanes, case.results, strict=True):
        if not result.is_wrong or lane.target is None:
            continue
        words = ["onnxgather", "repro", "REPORT.json", "--case", case.name]
        words += ["--lane", lane_again(lane), "-o", "repro"]
        commands.append(shlex.join(words))
    return commands


def _targets(case: CaseResult, lanes: Sequence[LaneInfo]) -> list[Target]:
    """Return the targets of the models that did not pass, without repetitions."""
    targets: list[Target] = []
    for lane, result in zip(lanes, case.results, strict=True):
        if not _is_informative(result):
            continue
        target = target_of(lane.provider, lane.target, case.wrapped)
        if target not in targets:
            targets.append(target)
    return targets
