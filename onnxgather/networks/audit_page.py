"""An audit as one HTML page: what it says of each gather, the graph around it, and its picture.

The texts stand in the page itself; the script adds the drawings where an entry is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import msgspec

from onnxgather.checks import printable
from onnxgather.model.values import sizes_text
from onnxgather.networks.comparison import Compared, lane_lines
from onnxgather.networks.contract import guard
from onnxgather.networks.gathers import AuditedGather, Tensor, operations_of, out_of_range
from onnxgather.networks.network import Network, Operation, Scope
from onnxgather.networks.text import indices_text, proved_if_lines, summary, summary_of_shapes
from onnxgather.parity.cases import Case, DescriptorCase
from onnxgather.parity.results import CaseResult
from onnxgather.parity.states import BAD
from onnxgather.report.page import compressed, described, filled
from onnxgather.report.picture import picture_of
from onnxgather.report.sentences import why

NEAR = 3
"""How many nodes before a gather are drawn, and how many after it."""

_COLOURS = {"proved": "PASS", "proved-if": "KNOWN", "not-proved": "NOT-RUN", "out-of-range": "DIFF"}
"""The state of a result whose colour each state of a range has."""


def audit_page(name: str, network: Network, compared: Compared) -> bytes:
    """An audit as an HTML page in UTF-8.

    Args:
        name: What was audited.
        network: The model.
        compared: Its audit, and what became of its gathers on lanes.
    """
    audit, cases, results = compared.audit, compared.cases, compared.results
    places = {key: (scope, one) for key, scope, one in operations_of(network) if key in cases}
    each = [*zip(cases, audit.gathers, strict=True)]
    told = [(key, gather) for key, gather in each if not gather.shape_computation]
    shapes = [gather for gather in audit.gathers if gather.shape_computation]
    states = [state for gather in audit.gathers for state in gather.lanes.values()]
    bad = audit.out_of_range or audit.refused or not set(BAD).isdisjoint(states)
    notes = [*lane_lines(compared), *audit.notes]
    texts = {
        "title": f"{_text(name)} · onnxgather audit",
        "name": _text(name),
        "verdict": _text(summary(audit)),
        "mood": "bad" if bad else "open" if audit.not_proved or audit.proved_if else "good",
        "filters": "".join(map(_filter, sorted(Counter(g.range.state for _, g in told).items()))),
        "assumes": audit.assumes,
        "conditions": "".join(f"<li>{_text(line)}</li>" for line in proved_if_lines(audit)),
        "guard": "\n".join(map(_text, guard(audit.contract).splitlines())),
        "notes": "".join(f"<li>{_text(line)}</li>" for line in notes),
        "rows": "".join(_row(gather, f"g{k}") for k, (_, gather) in enumerate(told)),
        "gathers": "".join(_entry(f"g{k}", g, results[key]) for k, (key, g) in enumerate(told)),
        "shapes": summary_of_shapes(shapes),
        "shape_rows": "".join(map(_row, shapes)),
    }
    details = compressed(_detail(*places[key], cases[key], results[key]) for key, _ in told)
    return filled("networks/audit", texts, {"cases": [], "details": [*details]})


def _text(text: str) -> str:
    return escape(printable(text))


def _badge(colour: str, text: str) -> str:
    return f'<span class="badge {colour}">{_text(text)}</span>'


def _filter(counted: tuple[str, int]) -> str:
    """A box that shows or hides the gathers of a state."""
    state, count = counted
    box = f'<input type="checkbox" value="{state}" checked>'
    return f'<label class="{_COLOURS[state]}">{box} {state} {count:,}</label>'


def _row(gather: AuditedGather, entry: str = "") -> str:
    """A gather as a row of a table, with a link to its entry."""
    node, found = _text(gather.node), gather.range
    takes = [_tensor(gather.data), _tensor(gather.indices), indices_text(found)]
    level = "refused" if gather.refused else gather.feature_level or "unknown"
    cells = [
        _badge(_COLOURS[found.state], found.state),
        f'<a href="#{entry}">{node}</a>' if entry else node,
        *map(_text, (gather.op, gather.place, *takes, level)),
        " ".join(_badge(state, f"{lane} {state}") for lane, state in gather.lanes.items()),
    ]
    return (
        f'<tr data-state="{found.state}">' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    )


def _entry(name: str, gather: AuditedGather, results: Sequence[CaseResult]) -> str:
    """The facts about a gather, in an entry that opens."""
    found = gather.range
    facts = [
        ("indices", indices_text(found)),
        ("in the run", found.seen and f"{found.seen[0]}..{found.seen[1]}"),
        ("holds if", " and ".join(map(str, found.conditions))),
        ("proof" if found.state == "proved" else "from", found.why),
        ("depends on", found.input),
        *(out_of_range(gather.op).items() if found.state in ("not-proved", "out-of-range") else ()),
        ("sizes from", found.sizes_from),
        ("output", _tensor(gather.output)),
        ("DirectML refuses it", gather.refused),
    ]
    every = (result for case in results for result in case.results if result.state != "PASS")
    facts += [(f"{result.state} on {result.lane}", why(result)) for result in every]
    listed = "".join(
        f"<div><dt>{_text(what)}</dt><dd>{_text(told)}</dd></div>" for what, told in facts if told
    )
    badges = f'<span class="badges">{_badge(_COLOURS[found.state], found.state)}</span>'
    title = f'<span class="name">{_text(gather.node)}</span>'
    place = f'<span class="reason">{_text(f"{gather.op}, {gather.place}")}</span>'
    body = f'<div class="body"><dl class="fields">{listed}</dl></div>'
    head = f'<details id="{name}" data-state="{found.state}">'
    return f"{head}<summary>{badges}{title}{place}</summary>{body}</details>"


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
