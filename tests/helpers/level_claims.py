"""Random networks and forms, whole, at the four levels of graph optimizations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from typing import Any

import onnx
from audit_claims import MOST_DIFFERING, Checked, as_it_runs, operators_of
from four_levels import LEVELS, Failure, differences, four_outcomes, four_sessions
from level_forms import FORMS, drawn
from level_quirks import explained
from network_draft import MOST_ELEMENTS, Feeds
from random_networks import Graph
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing.records import Audit

HAS_LEVELS = "levels" in inspect.signature(og.audit).parameters
"""Whether the audit audits what ONNX Runtime makes of a model, too."""

READS_OUTSIDE = {
    "RotaryEmbedding",
    "EmbedLayerNormalization",
    "RoiAlign",
    "ReverseSequence",
}
"""Operators that read outside their memory for a wild index, up to ONNX Runtime
1.24.4."""

DRAWS = 3
"""How often a model runs, each time with other inputs."""


def check_levels(graph: Graph, random: Random) -> Checked:
    """Compare the levels on a network, and on a form.

    Args:
        graph: The network.
        random: The random numbers of the draws.
    """
    found = Checked()
    found.operators.update(operators_of(graph.draft.nodes))
    fed = list[Feeds]()
    for _ in range(DRAWS):
        feeds = graph.feeds(random, graph.sizes(random, 1), {})
        if all(getattr(array, "size", 0) <= MOST_ELEMENTS for array in feeds.values()):
            fed.append(feeds)
    if not (IS_OLD and READS_OUTSIDE & found.operators.keys()):
        compare_levels(found, "network", graph.model, fed)
    name = random.choice([*FORMS])
    form = drawn(name, random)
    compare_levels(found, name, form.model, [form.feeds(random) for _ in range(DRAWS)])
    return found


def compare_levels(
    found: Checked, name: str, model: onnx.ModelProto, fed: list[Feeds]
) -> None:
    """Count what levels do otherwise than the lowest one.

    Args:
        found: What is counted.
        name: Of the network or form.
        model: The model.
        fed: The inputs of each run.
    """
    sessions = four_sessions(model)
    if isinstance(sessions[0], Failure):
        found.runs["refused"] += 1
        return
    for feeds in fed:
        outcomes = four_outcomes(sessions, feeds)
        failed = isinstance(outcomes[0], Failure)
        found.runs["stopped" if failed else "ended"] += 1
        for each in differences(outcomes):
            quirk = explained(model, feeds, each)
            found.runs[
                f"{each.kind} at {LEVELS[each.level]}: {quirk or 'unknown'}"
            ] += 1
            if quirk or len(found.violations) >= MOST_DIFFERING:
                continue
            found.feeds = found.feeds or feeds
            found.violations.append(
                {"output": each.output, "form": name, "claim": str(each)}
            )


def of_the_file(model: onnx.ModelProto, **given: Any) -> Audit:
    """The audit of a model as the file has it, and not of what levels make of it."""
    alone: dict[str, Any] = {"levels": ()} if HAS_LEVELS else {}
    return og.audit(model, **given, **alone)


def check_form(
    name: str, random: Random, audit: Callable[..., Audit] = as_it_runs
) -> Checked:
    """Audit a form, and run it at the four levels: no gather that is proved may fail.

    Args:
        name: The name of the form.
        random: The random numbers of the draws.
        audit: What audits it.
    """
    found, form = Checked(), drawn(name, random)
    sessions = four_sessions(form.model)
    if isinstance(sessions[0], Failure):
        found.runs["refused"] += 1
        return found
    audited = audit(form.model)
    proved = {each.node for each in audited.gathers if each.range.state == "proved"}
    found.states.update(each.range.state for each in audited.gathers)
    for _ in range(DRAWS):
        feeds = form.feeds(random)
        for level, outcome in enumerate(four_outcomes(sessions, feeds)):
            failed = isinstance(outcome, Failure)
            found.runs["stopped" if failed else "ended"] += 1
            if failed and outcome.is_index and outcome.node in proved:
                kind = "levels" if level else "file"
                claim = f"{outcome.node} is proved, but {outcome.text}"
                row = {"output": "", "form": name, "kind": kind, "claim": claim}
                found.violations.append(row | {"level": LEVELS[level]})
    return found
