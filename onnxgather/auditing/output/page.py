"""Audits as one HTML page: what they say of each gather, and its picture.

The texts are in the page itself. Its script draws the picture of an entry that is
opened.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from shlex import quote
from typing import Any

from onnxgather.auditing.output.findings import FinishedAudit
from onnxgather.auditing.output.guard_code import cpp_check, javascript_check
from onnxgather.auditing.output.text import (
    FILE_ALONE,
    SHAPES,
    cause_of,
    given_text,
    in_graphs_text,
    indices_text,
    met_text,
    named,
    next_commands,
    providers_of,
    read_by_directml,
    said,
    seen_text,
    summary,
    where,
)
from onnxgather.auditing.output.verdict import (
    VERDICTS,
    badness_of,
    colour_of,
    not_judged_text,
    verdict_of_models,
    verdict_text,
)
from onnxgather.auditing.output.way_to_gather import WayStep
from onnxgather.auditing.proof.contract import NamedSizes
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.auditing.records import Audit, AuditedGather, Tensor, counted
from onnxgather.core.checks import number_of, printable
from onnxgather.core.model.values import sizes_text
from onnxgather.core.output.page import compressed, filled, filled_part

_STATES = {
    "invalid": ("DIFF", "ONNX forbids the node, or the node fails in each run"),
    "out-of-range": ("DIFF", "an index names no element of its axis"),
    "refused": ("ERROR", "DirectML has no descriptor for it"),
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

_ORDER = {state: number for number, state in enumerate(_STATES)}
"""The place of each state in the page: the worst is the first."""

_MOODS = {"PASS": "good", "NOT-RUN": "open"}
"""The mood of the head by its colour; it is bad with any other colour."""


def audit_page(audits: Mapping[str, FinishedAudit], left_out: int = 0) -> bytes:
    """Return audits as one HTML page in UTF-8.

    Args:
        audits: The audits, with the pictures of gathers, by the paths of the models.
        left_out: How many models more were to be audited, but were not.
    """
    gathers = list[AuditedGather]()
    details = list[Any]()
    sections = list[str]()
    # The worst model is the first.
    paths = sorted(audits, key=lambda path: badness_of(audits[path].audit))
    is_alone = len(paths) == 1
    for path in paths:
        finished = audits[path]
        gathers += finished.audit.gathers
        section_texts = _section_texts(path, finished, details)
        section_texts["open"] = " open" if is_alone else ""
        section = filled_part("auditing/output/page_of_model", section_texts)
        sections.append(section)

    first = audits[paths[0]].audit
    name = _text(paths[0])
    verdict = f"{name}: {verdict_text(first)}"
    rest = not_judged_text([first]).removeprefix("; ")
    every = [finished.audit for finished in audits.values()]
    if left_out or not is_alone:
        name = number_of(len(audits) + left_out, "model")
        # The heading is short: it says how many models have the worst state.
        verdict, _, rest = verdict_of_models(every, left_out).partition("; ")
    texts = {
        "title": f"{name} · onnxgather audit",
        "verdict": verdict,
        "rest": rest,
        "census": summary(Audit(gathers)) + in_graphs_text(every),
        "mood": _MOODS.get(colour_of(every, left_out), "bad"),
        "models": "".join(sections),
        "providers": _providers(gathers, is_alone),
    }
    data = {
        "states": list(_COLOURS),
        "colours": _COLOURS,
        "meanings": _MEANINGS,
        "details": list(compressed(details)),
    }
    return filled("auditing/output/page", texts, data)


def _providers(gathers: Sequence[AuditedGather], is_open: bool) -> str:
    """Return what each provider does with an index out of range, as HTML.

    Args:
        gathers: The gathers of the page.
        is_open: Whether it can be seen at once.
    """
    start = "<details open>" if is_open else "<details>"
    parts = list[str]()
    for operators, behaviours in providers_of(gathers).items():
        head = f"<h2>What an index out of range of {_text(operators)} does</h2>"
        summary_line = f'<summary><span class="badges">{head}</span></summary>'
        body = f'<div class="body">{_fields(behaviours.items())}</div>'
        parts.append(f"{start}{summary_line}{body}</details>")
    return "".join(parts)


def _section_texts(
    path: str, finished: FinishedAudit, details: list[Any]
) -> dict[str, str]:
    """Return the texts on a model; its pictures are appended to the details."""
    audit = finished.audit
    return {
        "path": _text(path),
        "verdict": audit.verdict,
        "badge": _badge(audit.verdict, VERDICTS[audit.verdict].colour),
        "bar": _bar(audit.gathers),
        "counts": _counts(audit.gathers),
        "graphs": _graph_gathers(audit),
        "notes": _listed("<li>", _notes(audit), "</li>"),
        "commands": _commands(path, audit),
        "gathers": _groups(path, finished, details),
        "assumes": audit.assumes,
        "given": _given(audit),
        "guards": _guards(path, audit),
    }


def _graph_gathers(audit: Audit) -> str:
    """Return the gathers that only graphs of ONNX Runtime leave open, as HTML."""
    gathers = sorted(audit.graph_gathers, key=lambda gather: _ORDER[gather.state])
    items = list[str]()
    for gather in gathers:
        badge = _badge(gather.state, _COLOURS[gather.state])
        items.append(f"<li>{badge} {_text(f'{named(gather)}: {gather.why}')}</li>")
    if not items:
        return ""
    return f'<ul class="notes">{"".join(items)}</ul>'


def _notes(audit: Audit) -> list[str]:
    """Return the notes, and why the file alone was audited, if it was."""
    notes = list(audit.notes)
    if audit.gathers and audit.runtime is None:
        notes.append(f"{FILE_ALONE}: {audit.runtime_reason}")
    return notes


def _given(audit: Audit) -> str:
    """Return what options say of the inputs, as a sentence behind others, as HTML."""
    text = given_text(audit)
    return f" Given: {_text(text)}." if text else ""


def _guards(path: str, audit: Audit) -> str:
    """Return the forms of the contract of a model, each with its name, as HTML."""
    stem, _ = os.path.splitext(path)
    # The name of the file chooses its form.
    command = f"onnxgather audit {quote(path)} --contract"
    guard_file = f"{stem}.guard.onnx"
    writes_guard = f"{command} {quote(guard_file)}"
    # The code has the command as its first line, as it needs the file.
    after_command = f"// {printable(writes_guard)}"
    file_name = os.path.basename(guard_file)
    forms = {
        "Python": guard(audit.contract),
        "ONNX": writes_guard,
        "C++": f"{after_command}\n{cpp_check(file_name)}",
        "JavaScript": f"{after_command}\n{javascript_check(file_name)}",
        "JSON": f"{command} {quote(f'{stem}.contract.json')}",
    }
    parts = list[str]()
    for name, text in forms.items():
        # Only this character ends a line: a name may contain others.
        lines = "\n".join(map(_text, text.rstrip("\n").split("\n")))
        pre = f'<pre tabindex="0">{lines}</pre>'
        parts.append(f'<div data-form="{name}">{pre}</div>')
    return "".join(parts)


def _counts(gathers: Iterable[AuditedGather]) -> str:
    """Return how many gathers are in each state, as a short text."""
    counts = Counter(map(_state, gathers))
    parts = list[str]()
    for state in _COLOURS:
        if counts[state]:
            parts.append(f"{counts[state]:,} {state.replace('-', ' ')}")
    return ", ".join(parts) or "no index"


def _bar(gathers: Iterable[AuditedGather]) -> str:
    """Return how many gathers are in each state, as a bar in HTML."""
    counts = Counter(map(_state, gathers))
    parts = list[str]()
    for state, colour in _COLOURS.items():
        if counts[state]:
            style = f"flex-grow:{counts[state]}"
            title = f"{counts[state]:,} {state}"
            parts.append(f'<i class="{colour}" style="{style}" title="{title}"></i>')
    return "".join(parts)


def _commands(path: str, audit: Audit) -> str:
    """Return what may be done next with a model, as HTML."""
    parts = list[str]()
    for purpose, commands in next_commands({path: audit}).items():
        # In a paragraph of its own the purpose is a sentence.
        sentence = purpose[:1].upper() + purpose[1:]
        parts.append(f"<p>{_text(sentence)}</p>")
        parts.append(_listed("<div><pre tabindex=0>", commands, "</pre></div>"))
    return "".join(parts)


def _groups(path: str, finished: FinishedAudit, details: list[Any]) -> str:
    """Return the gathers of a model by state and cause, as HTML.

    Args:
        path: The path of the model.
        finished: The audit of the model.
        details: The pictures of the page; those of the model are appended.
    """
    audit = finished.audit
    sizes: NamedSizes = audit.contract["sizes"]
    drawn = list(zip(audit.gathers, finished.pictures, finished.ways, strict=True))
    drawn.sort(key=lambda gather_first: _rank(gather_first[0]))
    groups = dict[tuple[str, str], list[tuple[AuditedGather, str]]]()
    ways = dict[tuple[str, str], Sequence[WayStep]]()
    for gather, picture, way in drawn:
        detail = None
        if picture:
            detail = len(details)
            details.append(picture)
        state = _state(gather)
        cause = cause_of(gather, sizes)
        # The cause of a refusal is its rule, and not what stops a proof.
        if state == "refused" and gather.refused:
            cause = gather.refused
        entry = _entry(gather, sizes, detail)
        group = groups.setdefault((state, cause), [])
        group.append((gather, entry))
        # The way to the first gather stands for the others.
        ways.setdefault((state, cause), way)

    parts = list[str]()
    for (state, cause), members in groups.items():
        parts.append(_group(path, state, cause, members, ways[state, cause]))
    return "".join(parts)


def _state(gather: AuditedGather) -> str:
    """Return the state of the indices of a gather, or that DirectML refuses it."""
    state = gather.range.state
    if gather.is_refused and state not in ("invalid", "out-of-range"):
        return "refused"
    return state


def _rank(gather: AuditedGather) -> tuple[int, bool]:
    """Return the place in the page: the worst first, those that compute shapes last."""
    return _ORDER[_state(gather)], gather.shape_computation


def _text(text: str) -> str:
    """Return a text as HTML."""
    return escape(printable(text))


def _listed(before: str, lines: Iterable[str], after: str) -> str:
    """Return lines as HTML, each between two tags."""
    return "".join(f"{before}{_text(line)}{after}" for line in lines)


def _fields(facts: Iterable[tuple[str, str | None]]) -> str:
    """Return facts by their names as a list in HTML, without the empty ones."""
    rows = list[str]()
    for name, fact in facts:
        if fact:
            rows.append(f"<div><dt>{_text(name)}</dt><dd>{_text(fact)}</dd></div>")
    return f'<dl class="fields">{"".join(rows)}</dl>'


def _badge(word: str, colour: str) -> str:
    """Return a word in a colour, as HTML."""
    return f'<span class="badge {colour}">{_text(word)}</span>'


def _group(
    path: str,
    state: str,
    cause: str,
    members: Sequence[tuple[AuditedGather, str]],
    way: Sequence[WayStep],
) -> str:
    """Return the gathers of one state and one cause, with their entries, as HTML."""
    gathers = [gather for gather, _ in members]
    entries = "".join(entry for _, entry in members)
    head = f"{_badge(state, _COLOURS[state])} {counted(gathers)}: {_text(cause)}"
    # Proved gathers that compute shapes are many, and need no look.
    is_open = " open"
    if cause == SHAPES:
        is_open = ""
    start = f'<details class="group"{is_open}>'
    start += f"<summary>{head}</summary>{_way(way)}"
    command = _telling_command(path, gathers[0])
    if command:
        pre = f'<pre tabindex="0">{_text(command)}</pre>'
        start += f'<div class="repro"><div>{pre}</div></div>'
    return f"{start}{entries}</details>"


def _telling_command(path: str, gather: AuditedGather) -> str:
    """Return the command that may tell the size that a node loses; "" if there is none.

    Args:
        path: The path of the model.
        gather: A gather that needs the size.
    """
    lost = gather.range.lost
    if lost is None:
        return ""
    options = lost.told_by
    if options is None:
        # A run has told what it can.
        if gather.range.sizes_from == "run":
            return ""
        options = "--inputs FILE.npz"
    return f"onnxgather audit {quote(path)} {options}"


def _way(way: Sequence[WayStep]) -> str:
    """Return the way to a gather as a strip of nodes, as HTML; "" of no way."""
    parts = list[str]()
    for step in way:
        content = f"{_text(step.operator)} <small>{_text(step.name)}</small>"
        if not step.operator:
            content = _text(step.name)
        start = "<li>"
        if step.loses_size:
            start = '<li class="loses" title="The size is unknown behind this node.">'
        parts.append(f"{start}{content}</li>")
    if not parts:
        return ""
    return f'<ol class="way" aria-label="Way to the gather">{"".join(parts)}</ol>'


def _entry(gather: AuditedGather, sizes: NamedSizes, detail: int | None) -> str:
    """Return the facts about a gather, in an entry that opens.

    Args:
        gather: The gather.
        sizes: The places of the open sizes.
        detail: The number of its picture; None for a gather without a picture.
    """
    state = _state(gather)
    attributes = f'data-state="{state}" data-operator="{_text(gather.op)}"'
    if detail is not None:
        attributes += f' data-detail="{detail}"'
    start = f'<details class="entry" {attributes}>'

    badge = f'<span class="badges">{_badge(state, _COLOURS[state])}</span>'
    name = f'<span class="name">{_text(gather.node)}</span>'
    reason = f'<span class="reason">{_text(_reason(gather, sizes))}</span>'
    head = f"<summary>{badge}{name}{reason}</summary>"

    body = f'<div class="body">{_fields(_facts(gather, sizes))}</div>'
    return f"{start}{head}{body}</details>"


def _reason(gather: AuditedGather, sizes: NamedSizes) -> str:
    """Return the line on a gather in its closed entry."""
    sentence = said(gather, sizes)
    # The conditions of a proof may be long; the opened entry shows them.
    if gather.range.state == "proved-if":
        sentence = indices_text(gather.range)
    return f"{where(gather)}: {sentence}{seen_text([gather])}"


def _facts(gather: AuditedGather, sizes: NamedSizes) -> list[tuple[str, str | None]]:
    """Return the facts about a gather by their names; some may be empty."""
    index_range = gather.range
    indices = indices_text(index_range) + seen_text([gather])
    # The list of facts is in the font of code, so it needs no backticks.
    directml = read_by_directml(gather).replace("`", "")
    return [
        ("operator", where(gather)),
        (index_range.state, said(gather, sizes)),
        ("indices", indices),
        ("in the run", met_text(index_range)),
        ("directml", directml),
        ("sizes from", index_range.sizes_from),
        ("type of data", _tensor(gather.data)),
        ("type of indices", _tensor(gather.indices)),
        ("type of output", _tensor(gather.output)),
        ("feature level", gather.feature_level),
        ("DirectML refuses it", gather.refused),
    ]


def _tensor(tensor: Tensor) -> str:
    """Return the type and the sizes of a value, such as `FLOAT32 [2, ?]`."""
    sizes = "[...]"
    if tensor.sizes is not None:
        sizes = sizes_text(tensor.sizes)
    return f"{tensor.type or '?'} {sizes}"
