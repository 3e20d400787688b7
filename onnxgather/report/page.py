"""A report as one HTML page that loads nothing: style, script and data are inside it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from onnxgather.checks import printable
from onnxgather.dxdispatch.descriptor import from_dict
from onnxgather.lanes.lane import LaneInfo
from onnxgather.lowering.graph import ONNX_TYPES
from onnxgather.options import DEFAULT_OPSET, Target
from onnxgather.parity.results import CaseResult, Report, Result
from onnxgather.parity.states import BAD, BEST_TO_WORST, STATES
from onnxgather.providers import target_of
from onnxgather.report.picture import picture
from onnxgather.report.sentences import cut_short, notes, number_of, total, unmet
from onnxgather.show import describe

CHUNK = 32
"""Cases whose details are compressed together; the page unpacks a chunk when one is opened."""

_SCRIPTS = ("dom", "data", "overview", "graph", "grids", "picture", "details", "page")

_SHOWN_OF_A_GRAPH = ("target", "opset", "choice", "inputs", "constants", "nodes")

_built = msgspec.to_builtins
_many = partial(number_of, grouped=",")


def html(report: Report) -> bytes:
    """A report as an HTML page in UTF-8.

    Raises:
        OnnxGatherError: A descriptor in the report is broken, or arrays do not fit it.
    """
    verdict, more, mood = write_verdict(report)
    parts = {
        "title": escape(f"{verdict} · onnxgather"),
        "verdict": escape(verdict),
        "more": escape(more),
        "mood": mood,
        "style": _resource("page.css"),
        "script": "".join(_resource(f"{name}.js") for name in _SCRIPTS),
        "data": _embedded(_data(report)),
    }
    # One pass, so that nothing put in is itself replaced.
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _resource("page.html"))
    return page.encode()


def write_verdict(report: Report) -> tuple[str, str, str]:
    """The verdict of a report, a sentence about it, and its mood: "good", "bad" or "open"."""
    counts = total(report)
    results = counts.total()
    across = f"{_many(len(report.cases), 'case')} on {_many(len(report.lanes), 'lane')}"
    missing = unmet(report)
    found = {
        "difference": counts["DIFF"],
        "error": counts["ERROR"],
        "fixed known difference": counts["FIXED"],
        "invalid file": len(report.invalid),
        "unusable file": len(report.unusable),
    }
    parts = [_many(number, noun) for noun, number in found.items() if number]
    if counts["KNOWN"]:
        parts.append(f"{counts['KNOWN']:,} wrong as is known")
    if counts["NOT-RUN"]:
        parts.append(f"{counts['NOT-RUN']:,} not run, which proves nothing")
    agree = f"{counts['PASS']:,} agree bit for bit"
    parts += notes(report)
    more = f"{across}: {', '.join([agree, *parts])}."
    if any(found.values()):
        return _many(sum(found.values()), "finding"), more, "bad"
    if missing:
        absent = [lane.name for lane in report.lanes if lane.not_run is not None]
        names = " and ".join(map(printable, absent or missing))
        what = "did not start" if absent else "did not run everything, though required"
        return f"{names} {what}", more, "bad"
    if (early := cut_short(report)) is not None:
        return early[0].upper() + early[1:], more, "open"
    if not results:
        return "Nothing was checked", f"{across}.", "open"
    if counts["NOT-RUN"] == results:
        return "Nothing ran", more, "open"
    if counts["PASS"] == results:
        agreed = f"{across}, {_many(results, 'result')}: not one bit out of place."
        return "Everything agrees", agreed, "good"
    proven = counts["PASS"] and not counts["NOT-RUN"]
    return "No findings", more, "good" if proven else "open"


def _data(report: Report) -> dict[str, Any]:
    """The data of the page: the report, with packed details in place of the evidence."""
    bare = [msgspec.structs.replace(case, evidence=None) for case in report.cases]
    data = _built(msgspec.structs.replace(report, cases=bare))
    detailed: list[CaseResult] = []
    for case, shown in zip(report.cases, data["cases"], strict=True):
        if case.evidence and any(map(_is_telling, report.lanes, case.results)):
            shown["detail"] = len(detailed)
            detailed.append(case)
    return {
        **data,
        "states": list(STATES),
        "bad": BAD,
        "worst": BEST_TO_WORST,
        "types": {number: dtype.name for dtype, number in ONNX_TYPES.items()},
        "chunk": CHUNK,
        "details": list(_packed(detailed, report.lanes)),
    }


def _packed(cases: Sequence[CaseResult], lanes: Sequence[LaneInfo]) -> Iterator[str]:
    """Yield the details of the cases, a chunk of them at a time: JSON, zlib, base64."""
    for start in range(0, len(cases), CHUNK):
        details = [_detail(case, lanes) for case in cases[start : start + CHUNK]]
        text = json.dumps(details, separators=(",", ":"))
        yield base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _detail(case: CaseResult, lanes: Sequence[LaneInfo]) -> dict[str, Any]:
    evidence = case.evidence
    assert evidence is not None
    if evidence.descriptor is None:
        node = _built(evidence.node)
        return {"node": node, "picture": _built(picture(evidence, None, case.out_of_range))}
    desc = from_dict(evidence.descriptor)
    graphs = [describe(desc, case.out_of_range, t, DEFAULT_OPSET, 1) for t in _targets(case, lanes)]
    return {
        "descriptor": evidence.descriptor,
        "level": graphs[0].feature_level,
        "formula": _built(graphs[0].formula),
        "graphs": [
            {name: _built(getattr(graph, name)) for name in _SHOWN_OF_A_GRAPH} for graph in graphs
        ],
        "picture": _built(picture(evidence, desc, case.out_of_range)),
    }


def _targets(case: CaseResult, lanes: Sequence[LaneInfo]) -> list[Target]:
    """The targets of the models that did not pass."""
    return list(
        dict.fromkeys(
            "portable" if case.wrapped else target_of(lane.provider, lane.target)
            for lane, result in zip(lanes, case.results, strict=True)
            if _is_telling(lane, result)
        )
    )


def _is_telling(lane: LaneInfo, result: Result) -> bool:
    """Whether a result is worth details: it is not PASS, and its lane started."""
    return result.state != "PASS" and lane.not_run is None


def _embedded(data: Any) -> str:
    """JSON for a script element, which no text in it can end."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _resource(name: str) -> str:
    return files("onnxgather.report").joinpath(name).read_text(encoding="utf-8")
