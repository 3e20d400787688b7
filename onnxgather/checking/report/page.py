"""A report as one HTML page that loads nothing: style, script and data are inside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from typing import Any

import msgspec

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report.sentences import again, causes, lane_again, verdict, why
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.descriptors.spelling import from_dict
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import Target
from onnxgather.core.output.page import SCRIPTS, _built, compressed, described, filled
from onnxgather.core.output.picture import picture_of
from onnxgather.core.output.result_states import BAD, BEST_TO_WORST, STATES


def html(report: Report) -> bytes:
    """A report as an HTML page in UTF-8.

    Raises:
        OnnxGatherError: A descriptor in the report is broken, or arrays do not fit it.
    """
    headline, more, mood = verdict(report)
    texts = {
        "title": f"{headline} · onnxgather check",
        "verdict": headline,
        "more": more,
        "mood": mood,
    }
    escaped = {name: escape(text) for name, text in texts.items()}
    return filled(
        "checking/report/page",
        escaped,
        _data(report),
        (*SCRIPTS, "../../checking/report/overview"),
    )


def _data(report: Report) -> dict[str, Any]:
    """The data of the page: the report, with compressed details in place of the evidence."""
    cases: list[Any] = []
    detailed: list[CaseResult] = []
    for case in report.cases:
        shown: Any = msgspec.structs.replace(case, evidence=None, example=None)
        if case.example or (case.evidence and any(map(_is_telling, case.results))):
            shown = {**_built(shown), "detail": len(detailed)}
            detailed.append(case)
        cases.append(shown)
    return {
        **_built(msgspec.structs.replace(report, cases=[])),
        "cases": cases,
        "causes": [
            (found.first.state, found.first.lane, why(found.first), found.cases)
            for found in causes(report)
        ],
        "states": list(STATES),
        "bad": BAD,
        "worst": BEST_TO_WORST,
        "details": [*compressed(_detail(report, case) for case in detailed)],
    }


def _detail(report: Report, case: CaseResult) -> dict[str, Any]:
    evidence = case.evidence or case.example
    assert evidence is not None
    desc = None if evidence.descriptor is None else from_dict(evidence.descriptor)
    arrays = evidence.data.array(), evidence.indices.array()
    got = {lane: blob.array() for lane, blob in evidence.got.items()}
    drawn = _built(picture_of(desc, *arrays, case.out_of_range, got))
    lanes = report.lanes
    pairs = zip(lanes, case.results, strict=True)
    commands = [command for pair in pairs for command in again(report, case, *pair)]
    shared = {"again": commands, "repro": _repros(case, lanes), "picture": drawn}
    if desc is None:
        return {**shared, "node": _built(evidence.node)}
    return {
        **shared,
        **described(desc, case.out_of_range, _targets(case, lanes) or ["portable"]),
    }


def _repros(case: CaseResult, lanes: Sequence[LaneInfo]) -> list[str]:
    """The commands that reduce a wrong case: one for each lane that got it wrong in a model."""
    found: list[str] = []
    for lane, result in zip(lanes, case.results, strict=True):
        if result.is_wrong and lane.target is not None:
            asked = [
                "REPORT.json",
                "--case",
                case.name,
                "--lane",
                lane_again(lane),
                "-o",
                "repro",
            ]
            found.append(shlex.join(["onnxgather", "repro", *asked]))
    return found


def _targets(case: CaseResult, lanes: Sequence[LaneInfo]) -> list[Target]:
    """The targets of the models that did not pass."""
    pairs = zip(lanes, case.results, strict=True)
    telling = [lane for lane, result in pairs if _is_telling(result)]
    found: list[Target] = [
        target_of(lane.provider, lane.target, case.wrapped) for lane in telling
    ]
    return list(dict.fromkeys(found))


def _is_telling(result: Result) -> bool:
    """Whether a result is worth details: it is not PASS, and its lane started."""
    return result.state != "PASS" and result.kind is not ResultKind.NOT_STARTED
