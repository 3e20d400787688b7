"""Audits as one HTML page: what they say of each gather, and its picture.

The texts stand in the page itself; the script adds a picture where an entry is opened.
"""

from __future__ import annotations

from collections import Counter
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
    commands,
    indices_text,
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

_COLOURS = {
    "out-of-range": "DIFF",
    "refused": "ERROR",
    "not-proved": "NOT-RUN",
    "proved-if": "KNOWN",
    "proved": "PASS",
}
"""The states of a gather from the worst, each with the state of a result that has its colour."""

_MOODS = {"bad": "out-of-range", "open": "not-proved", "good": "proved"}
"""What a page or a model may be from the worst, each with the state that has its colour."""

_EMBEDDED = (
    "This page holds elements of the weights and of the inputs, some hundred of each gather that "
    "ran: look before you pass it on."
)


_Row = tuple[str, int, str, str]
"""Of a model: what it may be, its number, its path and its summary."""


def audit_page(done: Mapping[str, Compared]) -> bytes:
    """Audits as one HTML page in UTF-8.

    Args:
        done: The models with their audits, and what became of their gathers on lanes, by path. Each
            is taken once, in its order.
    """
    every, details, rows = list[AuditedGather](), list[Any](), list[_Row]()
    parts = list[dict[str, str]]()
    for path, compared in done.items():
        every += compared.audit.gathers
        rows.append((_mood(compared.audit), len(parts), path, summary(compared.audit)))
        parts.append({"number": str(len(parts)), **_part(path, compared, details)})
    every.sort(key=_rank)
    several = len(rows) > 1
    named = number_of(len(rows), "model") if several else rows[0][2]
    options = [f'<option value="{number}">{_text(path)}</option>' for _, number, path, _ in rows]
    rows.sort(key=lambda row: [*_MOODS].index(row[0]))
    form = filled_part(
        "networks/audit_filters",
        {
            "states": "".join(map(_filter, Counter(map(_state, every)).items())),
            "models": "".join(options if several else ()),
            "operators": _listed("<option>", sorted({g.op for g in every}), "</option>"),
        },
    )
    texts = {
        "title": f"{_text(named)} · onnxgather audit",
        "verdict": _text(f"{named}: " * several + summary(Audit(every))),
        "mood": rows[0][0],
        "rows": "".join(map(_row, rows)) if several else "",
        "form": form if several else "",
        "models": "".join(
            filled_part("networks/audit_model", {**part, "form": "" if several else form})
            for part in parts
        ),
    }
    return filled("networks/audit", texts, {"cases": [], "details": [*compressed(details)]})


def _part(path: str, compared: Compared, details: list[Any]) -> dict[str, str]:
    """What stands on the page of a model; its pictures go to the details."""
    audit, groups = compared.audit, dict[tuple[str, str], list[tuple[AuditedGather, str]]]()
    sizes: NamedSizes = audit.contract["sizes"]
    pairs = zip(compared.cases.items(), audit.gathers, strict=True)
    for (key, cases), gather in sorted(pairs, key=lambda pair: _rank(pair[1])):
        results = compared.results[key]
        drawn = _drawn(cases, results)
        entry = _entry(gather, sizes, results, len(details) if drawn else None)
        group = _state(gather), cause_of(gather, sizes)
        groups.setdefault(group, []).append((gather, entry))
        details += [drawn] if drawn else []
    providers = providers_of([*audit.out_of_range, *audit.not_proved])
    return {
        "path": _text(path),
        "next": "<h3>Next</h3>" if next(commands(path, audit), None) else "",
        "notes": _listed("<li>", [*lane_lines(compared), *audit.notes], "</li>"),
        "commands": "".join(
            f"<p>{_text(what[:1].upper() + what[1:])}</p>"
            + _listed("<div><pre tabindex=0>", each, "</pre></div>")
            for what, each in commands(path, audit)
        ),
        "embedded": f'<p class="hint">{_EMBEDDED}</p>' if any(compared.cases.values()) else "",
        "providers": "".join(
            f"<h3>What an index out of range of {_text(op)} does</h3>{_fields(told.items())}"
            for op, told in providers.items()
        ),
        "gathers": "".join(_group(*group, told) for group, told in groups.items()),
        "assumes": audit.assumes,
        "guard": "\n".join(map(_text, guard(audit.contract).splitlines())),
    }


def _mood(audit: Audit) -> str:
    """Whether a model has findings, may have some, or is good."""
    states = [state for gather in audit.gathers for state in gather.lanes.values()]
    if audit.out_of_range or audit.refused or not set(BAD).isdisjoint(states):
        return "bad"
    return "open" if audit.not_proved or audit.proved_if else "good"


def _state(gather: AuditedGather) -> str:
    is_refused = gather.refused and not gather.shape_computation
    state = gather.range.state
    return "refused" if is_refused and state != "out-of-range" else state


def _rank(gather: AuditedGather) -> tuple[int, bool]:
    """The open ones come first, and those that compute shapes last."""
    return [*_COLOURS].index(_state(gather)), gather.shape_computation


def _text(text: str) -> str:
    return escape(printable(text))


def _listed(before: str, lines: Iterable[str], after: str) -> str:
    return "".join(f"{before}{_text(line)}{after}" for line in lines)


def _fields(facts: Iterable[tuple[str, str | None]]) -> str:
    told = (pair for pair in facts if pair[1])
    rows = (f"<div><dt>{_text(n)}</dt><dd>{_text(fact or '')}</dd></div>" for n, fact in told)
    return f'<dl class="fields">{"".join(rows)}</dl>'


def _badge(colour: str, text: str) -> str:
    return f'<span class="badge {colour}">{_text(text)}</span>'


def _row(row: _Row) -> str:
    """A row of the table of models, whose button shows one model alone."""
    mood, number, path, told = row
    button = f'<button type="button" value="{number}">{_text(path)}</button>'
    badge = _badge(_COLOURS[_MOODS[mood]], mood)
    return f'<tr><td>{badge}</td><th scope="row">{button}</th><td>{_text(told)}</td></tr>'


def _filter(states: tuple[str, int]) -> str:
    """A box that shows or hides the gathers of a state."""
    state, count = states
    box = f'<input type="checkbox" value="{state}" checked>'
    return f'<label class="{_COLOURS[state]}">{box} {state} {count:,}</label>'


def _group(state: str, cause: str, told: Sequence[tuple[AuditedGather, str]]) -> str:
    """The gathers of one state and one cause."""
    is_open = "" if cause == SHAPES else " open"
    gathers, entries = zip(*told, strict=True)
    head = f"{_badge(_COLOURS[state], state)} {counted(gathers)}: {_text(cause)}"
    return f'<details class="group"{is_open}><summary>{head}</summary>{"".join(entries)}</details>'


def _entry(
    gather: AuditedGather, sizes: NamedSizes, results: Sequence[CaseResult], detail: int | None
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
        ("of indices", _tensor(gather.indices)),
        ("of output", _tensor(gather.output)),
        ("feature level", gather.feature_level),
        ("DirectML refuses it", gather.refused),
    ]
    every = (result for case in results for result in case.results if result.state != "PASS")
    facts += [(f"{result.state} on {result.lane}", why(result)) for result in every]
    badges = [_badge(_COLOURS[state], state)]
    badges += [_badge(state, f"{lane} {state}") for lane, state in gather.lanes.items()]
    title = f'<span class="name">{_text(gather.node)}</span>'
    reason = f'<span class="reason">{_text(f"{where(gather)}: {said(gather, sizes)}")}</span>'
    summary = f'<span class="badges">{"".join(badges)}</span>{title}{reason}'
    drawn = "" if detail is None else f' data-detail="{detail}"'
    head = f'<details class="entry" data-state="{state}" data-operator="{_text(gather.op)}"{drawn}>'
    return f'{head}<summary>{summary}</summary><div class="body">{_fields(facts)}</div></details>'


def _tensor(tensor: Tensor) -> str:
    sizes = "[...]" if tensor.sizes is None else sizes_text(tensor.sizes)
    return f"{tensor.type or '?'} {sizes}"


def _drawn(cases: Sequence[Case], results: Sequence[CaseResult]) -> dict[str, Any]:
    """What is drawn of a gather: its first execution that went wrong, else its first."""
    pairs = [*zip(cases, results, strict=True)]
    wrong = [pair for pair in pairs if any(result.is_wrong for result in pair[1].results)]
    for case, found in (wrong or pairs)[:1]:
        got = found.evidence.got if found.evidence else {}
        arrays = {lane: blob.array() for lane, blob in got.items()}
        desc = case.descriptor if isinstance(case, DescriptorCase) else None
        shown = picture_of(desc, case.data, case.indices, case.out_of_range, arrays)
        drawn = {"type": case.data_type, "indexType": case.index_type}
        drawn["picture"] = msgspec.to_builtins(shown)
        if isinstance(case, DescriptorCase):
            return drawn | described(case.descriptor, case.out_of_range, ["portable"])
        return drawn | {"node": msgspec.to_builtins(case.node)}
    return {}
