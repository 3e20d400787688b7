"""A report as one HTML page that loads nothing: style, script and data are inside it."""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import islice
from typing import Any

import msgspec

from onnxgather.descriptors.operators import Descriptor
from onnxgather.descriptors.spelling import from_dict
from onnxgather.execution.providers import target_of
from onnxgather.lowering.graph import ONNX_TYPES
from onnxgather.lowering.show import Description, describe
from onnxgather.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.parity.lanes.lane import LaneInfo
from onnxgather.parity.results import CaseResult, Report, Result, ResultKind
from onnxgather.parity.states import BAD, BEST_TO_WORST, STATES
from onnxgather.report.picture import picture_of
from onnxgather.report.sentences import again, causes, lane_again, verdict, why

CHUNK = 32
"""Cases whose details are compressed together; the page unpacks a chunk when one is
opened."""

SCRIPTS = ("dom", "data", "graph", "grids", "picture", "details")
"""The scripts of every page, in this folder; a page has one of its own beside its
template."""

_SHOWN_OF_A_GRAPH = ("target", "opset", "choice", "inputs", "constants", "nodes")

_TYPES = {number: dtype.name for dtype, number in ONNX_TYPES.items()}

_built = msgspec.to_builtins


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
    return filled("report/page", escaped, _data(report), (*SCRIPTS, "overview"))


def filled_part(template: str, texts: Mapping[str, str]) -> str:
    """A part of a page made from a template; `template` and `texts` are as of `filled`."""
    return re.sub(
        r"\{\{(\w+)\}\}", lambda match: texts[match[1]], _resource(f"{template}.html")
    )


def filled(
    template: str,
    texts: Mapping[str, str],
    data: Mapping[str, Any],
    scripts: Sequence[str] = SCRIPTS,
) -> bytes:
    """A page made from a template.

    Args:
        template: The path of the template below the package, without `.html`; the page's own script
            stands beside it.
        texts: What stands where the template names a text.
        data: What the scripts read.
        scripts: The names of the scripts that run before the page's own.
    """
    parts = {name: text.encode() for name, text in texts.items()}
    parts["style"] = _resource("report/page.css").encode()
    paths = (*(f"report/{name}" for name in scripts), template)
    parts["script"] = "".join(_resource(f"{path}.js") for path in paths).encode()
    parts["data"] = _embedded({"chunk": CHUNK, "types": _TYPES, **data})
    # One pass, so that nothing put in is itself replaced.
    frame = _resource("report/frame.html").replace(
        "{{content}}", _resource(f"{template}.html")
    )
    return re.sub(
        rb"\{\{(\w+)\}\}", lambda match: parts[match[1].decode()], frame.encode()
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


def compressed(details: Iterable[Any]) -> Iterator[str]:
    """Yield details, a chunk of them at a time: JSON, zlib, base64."""
    left = iter(details)
    while chunk := [*islice(left, CHUNK)]:
        text = json.dumps(chunk, separators=(",", ":"))
        yield base64.b64encode(zlib.compress(text.encode(), 9)).decode()


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


def described(
    desc: Descriptor, out_of_range: OutOfRange, targets: Sequence[Target]
) -> dict[str, Any]:
    """A descriptor with its formula, and its graphs for some targets."""
    return facts_of(
        [describe(desc, out_of_range, t, DEFAULT_OPSET, 1) for t in targets]
    )


def facts_of(graphs: Sequence[Description]) -> dict[str, Any]:
    """What the page says of a descriptor that is described for one or more targets."""
    return {
        "descriptor": graphs[0].descriptor,
        "level": graphs[0].feature_level,
        "formula": _built(graphs[0].formula),
        "graphs": [
            {name: _built(getattr(graph, name)) for name in _SHOWN_OF_A_GRAPH}
            for graph in graphs
        ],
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


def _embedded(data: Any) -> bytes:
    """JSON for a script element, which no text in it can end."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:  # a name that is not Unicode
        text = json.dumps(_built(data)).encode()
    return text.replace(b"<", b"\\u003c")


@cache
def _resource(path: str) -> str:
    return files("onnxgather").joinpath(path).read_text(encoding="utf-8")
