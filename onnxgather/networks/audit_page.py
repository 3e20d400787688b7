"""Audits as one HTML page: what they say of each gather, and its picture.

The texts stand in the page itself; the script adds a picture where an entry is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import msgspec

from onnxgather.checks import number_of, printable
from onnxgather.model.values import sizes_text
from onnxgather.networks.comparison import Compared, lane_lines
from onnxgather.networks.contract import NamedSizes, guard
from onnxgather.networks.gathers import Audit, AuditedGather, Tensor, counted
from onnxgather.networks.text import (
    SHAPES,
    cause_of,
    indices_text,
    next_commands,
    providers_of,
    read_by_directml,
    said,
    seen_text,
    summary,
    where,
)
from onnxgather.parity.cases import Case, DescriptorCase
from onnxgather.parity.results import CaseResult
from onnxgather.parity.states import BAD
from onnxgather.report.page import compressed, described, filled, filled_part
from onnxgather.report.picture import picture_of
from onnxgather.report.sentences import why

_STATES = {
    "out-of-range": ("DIFF", "an index names no element of its axis"),
    "refused": ("ERROR", "DirectML has no descriptor for it"),
    "differs": ("DIFF", "a lane returned something else than the reference"),
    "not-proved": (
        "NOT-RUN",
        "an index may name no element of its axis: there is no proof",
    ),
    "proved-if": (
        "KNOWN",
        "each index names an element of its axis if the conditions hold",
    ),
    "proved": ("PASS", "each index names an element of its axis"),
}
"""The states of a gather from the worst: the state of a result that has its colour; its
meaning."""

_COLOURS = {state: colour for state, (colour, _) in _STATES.items()}

_MEANINGS = {state: meaning for state, (_, meaning) in _STATES.items()}

_LANE = (
    "a lane is a provider of ONNX Runtime; PASS says that it returned what the"
    " reference does, DirectML's formulas in numpy"
)


def audit_page(done: Mapping[str, Compared]) -> bytes:
    """Audits as one HTML page in UTF-8.

    Args:
        done: The models with their audits, and what became of their gathers on lanes, by path. Each
            is taken once, in its order.
    """
    every, details, parts = list[AuditedGather](), list[Any](), list[str]()
    for path, compared in done.items():
        every += compared.audit.gathers
        parts.append(
            filled_part("networks/audit_model", _part(path, compared, details))
        )
    worst, name = _worst(every), next(iter(done))
    name = number_of(len(parts), "model") if len(parts) > 1 else name
    mood = "open" if worst in ("not-proved", "proved-if") else "good"
    texts = {
        "title": f"{_text(name)} · onnxgather audit",
        "verdict": f"{_text(name)}: {summary(Audit(every))}",
        "mood": "bad" if _COLOURS[worst] in BAD else mood,
        "models": "".join(parts),
        "providers": "".join(
            f"<h2>What an index out of range of {_text(op)}"
            f" does</h2>{_fields(told.items())}"
            for op, told in providers_of(every).items()
        ),
    }
    states = {"states": [*_COLOURS], "colours": _COLOURS, "meanings": _MEANINGS}
    data = {"cases": [], **states, "details": [*compressed(details)]}
    return filled("networks/audit", texts, data)


def _part(path: str, compared: Compared, details: list[Any]) -> dict[str, str]:
    """What stands on the page of a model; its pictures go to the details."""
    audit, groups = (
        compared.audit,
        dict[tuple[str, str], list[tuple[AuditedGather, str]]](),
    )
    sizes: NamedSizes = audit.contract["sizes"]
    pairs = zip(compared.cases.items(), audit.gathers, strict=True)
    for (key, cases), gather in sorted(pairs, key=lambda pair: _rank(pair[1])):
        results = compared.results[key]
        drawn = _drawn(cases, results)
        entry = _entry(gather, sizes, results, len(details) if drawn else None)
        wrong = [lane for lane, state in gather.lanes.items() if state in BAD]
        told = {"refused": gather.refused, "differs": f"on {', '.join(wrong)}"}
        group = _state(gather), told.get(_state(gather)) or cause_of(gather, sizes)
        groups.setdefault(group, []).append((gather, entry))
        details += [drawn] if drawn else []
    lanes = [line.removeprefix("note").strip() for line in lane_lines(compared)]
    lanes += [_LANE] if lanes else []
    return {
        "path": _text(path),
        "worst": _worst(audit.gathers),
        "verdict": summary(audit),
        "notes": _listed("<li>", [*lanes, *audit.notes], "</li>"),
        "commands": "".join(
            f"<p>{_text(what[:1].upper() + what[1:])}</p>"
            + _listed("<div><pre tabindex=0>", each, "</pre></div>")
            for what, each in next_commands({path: audit}).items()
        ),
        "gathers": "".join(_group(*group, told) for group, told in groups.items()),
        "assumes": audit.assumes,
        "guard": "\n".join(map(_text, guard(audit.contract).splitlines())),
    }


def _state(gather: AuditedGather) -> str:
    """The state of the indices of a gather, or what else is wrong with it."""
    if gather.range.state != "out-of-range":
        if gather.refused and not gather.shape_computation:
            return "refused"
        if not set(BAD).isdisjoint(gather.lanes.values()):
            return "differs"
    return gather.range.state


def _worst(gathers: Iterable[AuditedGather]) -> str:
    return min(map(_state, gathers), key=[*_COLOURS].index, default="proved")


def _rank(gather: AuditedGather) -> tuple[int, bool]:
    """The open ones come first, and those that compute shapes last."""
    return [*_COLOURS].index(_state(gather)), gather.shape_computation


def _text(text: str) -> str:
    return escape(printable(text))


def _listed(before: str, lines: Iterable[str], after: str) -> str:
    return "".join(f"{before}{_text(line)}{after}" for line in lines)


def _fields(facts: Iterable[tuple[str, str | None]]) -> str:
    told = (pair for pair in facts if pair[1])
    rows = (
        f"<div><dt>{_text(n)}</dt><dd>{_text(fact or '')}</dd></div>"
        for n, fact in told
    )
    return f'<dl class="fields">{"".join(rows)}</dl>'


def _badge(colour: str, text: str) -> str:
    return f'<span class="badge {colour}">{_text(text)}</span>'


def _group(state: str, cause: str, told: Sequence[tuple[AuditedGather, str]]) -> str:
    """The gathers of one state and one cause."""
    is_open = "" if cause == SHAPES else " open"
    gathers, entries = zip(*told, strict=True)
    head = f"{_badge(_COLOURS[state], state)} {counted(gathers)}: {_text(cause)}"
    return (
        "<details"
        f' class="group"{is_open}><summary>{head}</summary>{"".join(entries)}</details>'
    )


def _entry(
    gather: AuditedGather,
    sizes: NamedSizes,
    results: Sequence[CaseResult],
    detail: int | None,
) -> str:
    """The facts about a gather, in an entry that opens; `detail` is the number of its picture."""
    found, state = gather.range, _state(gather)
    facts = [
        ("operator", where(gather)),
        (found.state, said(gather, sizes)),
        ("indices", indices_text(found) + seen_text([gather])),
        ("directml", read_by_directml(gather)),
        ("sizes from", found.sizes_from),
        ("type of data", _tensor(gather.data)),
        ("type of indices", _tensor(gather.indices)),
        ("type of output", _tensor(gather.output)),
        ("feature level", gather.feature_level),
        ("DirectML refuses it", gather.refused),
    ]
    every = (
        result for case in results for result in case.results if result.state != "PASS"
    )
    facts += [(f"{result.state} on {result.lane}", why(result)) for result in every]
    badges = [_badge(_COLOURS[state], state)]
    badges += [_badge(state, f"{lane} {state}") for lane, state in gather.lanes.items()]
    title = f'<span class="name">{_text(gather.node)}</span>'
    told = (
        said(gather, sizes)
        if found.state in ("out-of-range", "proved")
        else indices_text(found)
    )
    reason = _text(f"{where(gather)}: {told}{seen_text([gather])}")
    summary = f'<span class="badges">{"".join(badges)}</span>{title}'
    summary += f'<span class="reason">{reason}</span>'
    drawn = "" if detail is None else f' data-detail="{detail}"'
    head = (
        f'<details class="entry" data-state="{state}"'
        f' data-operator="{_text(gather.op)}"{drawn}>'
    )
    return (
        f"{head}<summary>{summary}</summary><div"
        f' class="body">{_fields(facts)}</div></details>'
    )


def _tensor(tensor: Tensor) -> str:
    sizes = "[...]" if tensor.sizes is None else sizes_text(tensor.sizes)
    return f"{tensor.type or '?'} {sizes}"


def _drawn(cases: Sequence[Case], results: Sequence[CaseResult]) -> dict[str, Any]:
    """What is drawn of a gather: its first execution that went wrong, else its first."""
    pairs = [*zip(cases, results, strict=True)]
    wrong = [
        pair for pair in pairs if any(result.is_wrong for result in pair[1].results)
    ]
    for case, found in (wrong or pairs)[:1]:
        got = found.evidence.got if found.evidence else {}
        arrays = {lane: blob.array() for lane, blob in got.items()}
        desc = case.descriptor if isinstance(case, DescriptorCase) else None
        shown = picture_of(desc, case.data, case.indices, case.out_of_range, arrays)
        drawn = {"type": case.data_type, "indexType": case.index_type}
        drawn["picture"] = msgspec.to_builtins(shown)
        if isinstance(case, DescriptorCase):
            graph = described(case.descriptor, case.out_of_range, ["portable"])
            return drawn | graph | {"graphs": []}  # which are not of the model
        return drawn | {"node": msgspec.to_builtins(case.node)}
    return {}
