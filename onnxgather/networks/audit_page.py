"""An audit as one HTML page: what it says of each gather, the graph around it, and its picture.

The texts stand in the page itself; the script adds the drawings where an entry is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import msgspec

from onnxgather.checks import printable
from onnxgather.model.values import sizes_text
from onnxgather.networks.comparison import Compared, lane_lines
from onnxgather.networks.contract import NamedSizes, guard
from onnxgather.networks.gathers import AuditedGather, Tensor, operations_of, out_of_range
from onnxgather.networks.network import Operation, Scope
from onnxgather.networks.text import (
    commands,
    indices_text,
    proved_if_lines,
    said,
    summary,
    summary_of_shapes,
)
from onnxgather.parity.cases import Case, DescriptorCase
from onnxgather.parity.results import CaseResult
from onnxgather.parity.states import BAD
from onnxgather.report.page import compressed, described, filled
from onnxgather.report.picture import picture_of
from onnxgather.report.sentences import why

NEAR = 3
"""How many nodes before a gather are drawn, and how many after it."""

_COLOURS = {"out-of-range": "DIFF", "not-proved": "NOT-RUN", "proved-if": "KNOWN", "proved": "PASS"}
"""The states of a range from the worst, each with the state of a result that has its colour."""


def audit_page(name: str, compared: Compared) -> bytes:
    """An audit as an HTML page in UTF-8.

    Args:
        name: What was audited.
        compared: The model with its audit, and what became of its gathers on lanes.
    """
    audit, cases, results = compared.audit, compared.cases, compared.results
    every = operations_of(compared.network)
    places = {key: (scope, one) for key, scope, one in every if key in cases}
    each = [*zip(cases, audit.gathers, strict=True)]
    told = [(key, g) for key, g in each if not (g.shape_computation and g.range.state == "proved")]
    told.sort(key=lambda pair: [*_COLOURS].index(pair[1].range.state))
    sizes: NamedSizes = audit.contract["sizes"]
    operators = dict.fromkeys(gather.op for _, gather in told)
    shapes = [gather for gather in audit.gathers if gather.shape_computation]
    states = [state for gather in audit.gathers for state in gather.lanes.values()]
    bad = audit.out_of_range or audit.refused or not set(BAD).isdisjoint(states)
    notes = [*lane_lines(compared), *audit.notes]
    texts = {
        "title": f"{_text(name)} · onnxgather audit",
        "name": _text(name),
        "verdict": _text(summary(audit)),
        "mood": "bad" if bad else "open" if audit.not_proved or audit.proved_if else "good",
        "commands": _listed("<div><pre>", commands(name, audit), "</pre></div>"),
        "filters": "".join(map(_filter, Counter(g.range.state for _, g in told).items())),
        "operators": _listed("<option>", operators, "</option>"),
        "assumes": audit.assumes,
        "conditions": _listed(
            f"<li>{_badge('KNOWN', 'proved-if')} ", proved_if_lines(audit), "</li>"
        ),
        "guard": "\n".join(map(_text, guard(audit.contract).splitlines())),
        "notes": _listed("<li>", notes, "</li>"),
        "gathers": "".join(_entry(gather, sizes, results[key]) for key, gather in told),
        "shapes": summary_of_shapes(shapes),
        "shape_entries": "".join(_entry(g, sizes, ()) for g in shapes if g.range.state == "proved"),
    }
    details = compressed(_detail(*places[key], cases[key], results[key]) for key, _ in told)
    return filled("networks/audit", texts, {"cases": [], "details": [*details]})


def _text(text: str) -> str:
    return escape(printable(text))


def _listed(before: str, lines: Iterable[str], after: str) -> str:
    return "".join(f"{before}{_text(line)}{after}" for line in lines)


def _badge(colour: str, text: str) -> str:
    return f'<span class="badge {colour}">{_text(text)}</span>'


def _filter(counted: tuple[str, int]) -> str:
    """A box that shows or hides the gathers of a state."""
    state, count = counted
    box = f'<input type="checkbox" value="{state}" checked>'
    return f'<label class="{_COLOURS[state]}">{box} {state} {count:,}</label>'


def _entry(gather: AuditedGather, sizes: NamedSizes, results: Sequence[CaseResult]) -> str:
    """The facts about a gather, in an entry that opens."""
    found, where = gather.range, f"{gather.op}, {gather.place}"
    providers = out_of_range(gather.op, gather.domain)
    facts = [
        ("operator", where),
        (found.state, said(gather, sizes)),
        ("indices are", indices_text(found)),
        ("in the run", found.seen and f"{found.seen[0]}..{found.seen[1]}"),
        *(providers.items() if found.state in ("not-proved", "out-of-range") else ()),
        ("sizes from", found.sizes_from),
        ("data", _tensor(gather.data)),
        ("indices", _tensor(gather.indices)),
        ("output", _tensor(gather.output)),
        ("feature level", gather.feature_level),
        ("DirectML refuses it", gather.refused),
    ]
    every = (result for case in results for result in case.results if result.state != "PASS")
    facts += [(f"{result.state} on {result.lane}", why(result)) for result in every]
    listed = "".join(
        f"<div><dt>{_text(what)}</dt><dd>{_text(told)}</dd></div>" for what, told in facts if told
    )
    badges = [_badge(_COLOURS[found.state], found.state)]
    badges += [_badge("ERROR", "refused")] if gather.refused else []
    badges += [_badge(state, f"{lane} {state}") for lane, state in gather.lanes.items()]
    title = f'<span class="name">{_text(gather.node)}</span>'
    reason = f'<span class="reason">{_text(f"{where}: {said(gather, sizes)}")}</span>'
    summary = f'<span class="badges">{"".join(badges)}</span>{title}{reason}'
    body = f'<div class="body"><dl class="fields">{listed}</dl></div>'
    head = f'<details data-state="{found.state}" data-operator="{_text(gather.op)}">'
    return f"{head}<summary>{summary}</summary>{body}</details>"


def _tensor(tensor: Tensor) -> str:
    sizes = "[...]" if tensor.sizes is None else sizes_text(tensor.sizes)
    return f"{tensor.type or '?'} {sizes}"


def _detail(
    scope: Scope, operation: Operation, cases: Sequence[Case], results: Sequence[CaseResult]
) -> dict[str, Any]:
    """What is drawn of a gather: the graph around it, and its first execution that went wrong."""
    drawn: dict[str, Any] = {"around": around(scope, operation)}
    pairs = [*zip(cases, results, strict=True)]
    wrong = [pair for pair in pairs if any(result.is_wrong for result in pair[1].results)]
    for case, found in (wrong or pairs)[:1]:
        got = found.evidence.got if found.evidence else {}
        arrays = {lane: blob.array() for lane, blob in got.items()}
        desc = case.descriptor if isinstance(case, DescriptorCase) else None
        shown = picture_of(desc, case.data, case.indices, case.out_of_range, arrays)
        drawn |= {"type": case.data_type, "indexType": case.index_type}
        drawn |= {"picture": msgspec.to_builtins(shown)}
        if isinstance(case, DescriptorCase):
            drawn |= described(case.descriptor, case.out_of_range, ["portable"])
        else:
            drawn["node"] = msgspec.to_builtins(case.node)
    return drawn


def around(scope: Scope, operation: Operation) -> dict[str, Any]:
    """The operations near a gather, as the page draws a graph."""
    makers = {name: one for one in scope.operations for name in one.outputs if name}

    def makers_of(reached: Sequence[Operation]) -> list[Operation]:
        return [makers[name] for one in reached for name in one.inputs if name in makers]

    def readers_of(reached: Sequence[Operation]) -> list[Operation]:
        made = {name for one in reached for name in one.outputs if name}
        return [one for one in scope.operations if not made.isdisjoint(one.inputs)]

    near = {*_nearest(operation, makers_of), *_nearest(operation, readers_of)}
    drawn = [one for one in scope.operations if one in near]
    made = {name for one in drawn for name in one.outputs}
    taken = dict.fromkeys(name for one in drawn for name in one.inputs if name)
    used = {name for one in scope.operations for name in one.inputs}

    def value(name: str) -> dict[str, Any]:
        known = scope.type_of(name)
        sizes = ["?" if n is None else n for n in known.sizes or ()]
        return {"name": name, "data_type": known.data_type, "shape": sizes}

    nodes = [
        {
            "operator": f"▸ {one.operator}" if one is operation else one.operator,
            "inputs": one.inputs,
            "output": value(next((n for n in one.outputs if n in used), one.outputs[0])),
        }
        for one in drawn
        if one.outputs
    ]
    return {"inputs": [value(name) for name in taken if name not in made], "nodes": nodes}


def _nearest(
    operation: Operation, step: Callable[[Sequence[Operation]], Sequence[Operation]]
) -> list[Operation]:
    """An operation, and up to `NEAR` more that steps from it lead to, the nearest first."""
    reached = [operation]
    for _ in range(NEAR):
        reached = [*dict.fromkeys([*reached, *step(reached)])]
    return reached[: NEAR + 1]
