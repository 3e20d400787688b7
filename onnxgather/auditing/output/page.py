"""Audits as one HTML page: what they say of each gather, and its picture.

The texts stand in the page itself; the script adds a picture where an entry is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from onnxgather.auditing.audit import Audit, AuditedGather, Tensor, counted
from onnxgather.auditing.output.findings import FinishedAudit
from onnxgather.auditing.output.text import (
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
from onnxgather.auditing.proof.contract import NamedSizes, guard
from onnxgather.core.checks import number_of, printable
from onnxgather.core.model.values import sizes_text
from onnxgather.core.output.page import compressed, filled, filled_part

_STATES = {
    "out-of-range": ("DIFF", "an index names no element of its axis"),
    "refused": ("ERROR", "DirectML has no descriptor for it"),
    # No gather has this state; the data of the page contains its row all the same.
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

_MOODS = {"proved": "good", "proved-if": "open", "not-proved": "open"}
"""The mood of the head by the worst state; it is bad with any other state."""


def audit_page(done: Mapping[str, FinishedAudit]) -> bytes:
    """Return audits as one HTML page in UTF-8.

    Args:
        done: The audits, with the pictures of gathers, by the paths of the models.
    """
    every = list[AuditedGather]()
    details = list[Any]()
    parts = list[str]()
    for path, finished in done.items():
        every += finished.audit.gathers
        part = _part(path, finished, details)
        parts.append(filled_part("auditing/output/page_of_model", part))
    worst = _worst(every)
    name = next(iter(done))
    if len(parts) > 1:
        name = number_of(len(parts), "model")
    texts = {
        "title": f"{_text(name)} · onnxgather audit",
        "verdict": f"{_text(name)}: {summary(Audit(every))}",
        "mood": _MOODS.get(worst, "bad"),
        "models": "".join(parts),
        "providers": "".join(
            f"<h2>What an index out of range of {_text(op)}"
            f" does</h2>{_fields(told.items())}"
            for op, told in providers_of(every).items()
        ),
    }
    states = {"states": [*_COLOURS], "colours": _COLOURS, "meanings": _MEANINGS}
    data = {"cases": [], **states, "details": [*compressed(details)]}
    return filled("auditing/output/page", texts, data)


def _part(path: str, finished: FinishedAudit, details: list[Any]) -> dict[str, str]:
    """Return what stands on the page of a model; its pictures go to the details."""
    audit = finished.audit
    groups = dict[tuple[str, str], list[tuple[AuditedGather, str]]]()
    sizes: NamedSizes = audit.contract["sizes"]
    pairs = zip(audit.gathers, finished.pictures, strict=True)
    for gather, picture in sorted(pairs, key=lambda pair: _rank(pair[0])):
        detail = None
        if picture:
            detail = len(details)
            details.append(picture)
        state = _state(gather)
        cause = cause_of(gather, sizes)
        if state == "refused" and gather.refused:
            cause = gather.refused
        entry = _entry(gather, sizes, detail)
        groups.setdefault((state, cause), []).append((gather, entry))
    return {
        "path": _text(path),
        "worst": _worst(audit.gathers),
        "verdict": summary(audit),
        "notes": _listed("<li>", audit.notes, "</li>"),
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
    """Return the state of the indices of a gather, or that DirectML refuses it."""
    state = gather.range.state
    is_refused = gather.refused and not gather.shape_computation
    if is_refused and state != "out-of-range":
        return "refused"
    return state


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


def _entry(gather: AuditedGather, sizes: NamedSizes, detail: int | None) -> str:
    """Return the facts about a gather, in an entry that opens.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
        detail: The number of its picture; None for a gather without a picture.
    """
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
    badge = _badge(_COLOURS[state], state)
    title = f'<span class="name">{_text(gather.node)}</span>'
    told = (
        said(gather, sizes)
        if found.state in ("out-of-range", "proved")
        else indices_text(found)
    )
    reason = _text(f"{where(gather)}: {told}{seen_text([gather])}")
    summary = f'<span class="badges">{badge}</span>{title}'
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
