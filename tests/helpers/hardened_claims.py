"""What harden says of random networks, beside what ONNX Runtime computes of them."""

from __future__ import annotations

from random import Random
from typing import Any, cast

from audit_claims import Checked, operators_of
from four_levels import LEVELS, OUT_OF_BOUNDS
from network_draft import MOST_ELEMENTS, Feeds, results, session
from random_networks import Graph

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import HardenedModel, hardened
from onnxgather.auditing.levels import Levels
from onnxgather.core.model.network import read_network

POLICIES = ("clamp", "clamp", "zero", "index=0")

UNCHECKED = {"GatherBlockQuantized", "WordConvEmbedding"}
"""Operators that do not fail on an index out of range."""

DRAWS = 4
"""How often a network runs, each time with other sizes and inputs."""


def check_hardened(graph: Graph, random: Random) -> Checked:
    """Harden a network and run it with wild inputs, at a random level of graph
    optimizations.

    It must be proved but for what harden named, stay as it is when it is hardened
    again, not fail at an index, and have the outputs of the network where this fails at
    no level.

    Args:
        graph: The network.
        random: The random numbers of the draws.
    """
    found, model = Checked(), graph.model
    found.operators.update(operators_of(graph.draft.nodes))
    least = 0 if random.random() < 0.2 and not graph.divides else 1
    given: dict[str, Any] = {"allow_empty": least == 0, "levels": Levels(LEVELS[1:])}
    policy, level = random.choice(POLICIES), random.randrange(4)

    def wrong(claim: str) -> None:
        found.violations.append(
            {"output": "", "claim": f"{policy}, {least}, {level}: {claim}"}
        )

    try:
        checked, plain = session(model, 0), session(model, level)
    except Exception:  # ONNX Runtime refuses the model: nothing holds or breaks
        found.runs["refused"] += 1
        return found
    try:
        made = hardened(Premises(read_network(model), **given), policy)
    except og.OnnxGatherError as error:
        found.runs[f"not hardened: {str(error).rpartition(': ')[2]}"] += 1
        return found
    for name in (left.operator for left in made.left):
        found.states[f"{name} left"] += 1
    for done in made.rewritten:
        found.states[f"{done.operator} rewritten"] += 1
    for claim in _unproved(made, given):
        wrong(claim)
    again = hardened(Premises(read_network(made.model), **given), policy).model
    if again.SerializeToString() != made.model.SerializeToString():
        wrong("hardening it again changes it")
    whole = session(made.model, level)
    comparable = UNCHECKED.isdisjoint(operators_of(graph.draft.nodes))
    for _ in range(DRAWS):
        feeds = graph.feeds(random, graph.sizes(random, least), {})
        if any(getattr(array, "size", 0) > MOST_ELEMENTS for array in feeds.values()):
            continue
        output = _outputs(whole, feeds)
        if isinstance(output, str):
            found.runs["failed"] += 1
            left = any(f"running {each.operator} node" in output for each in made.left)
            if OUT_OF_BOUNDS.search(output) and not left:
                wrong(f"fails: {output}")
        # At some levels ONNX Runtime runs a Slice for a Gather, which cuts what is out
        # of range.
        if not comparable or isinstance(_outputs(checked, feeds), str):
            continue
        wanted = _outputs(plain, feeds)
        if isinstance(wanted, str):
            continue
        if isinstance(output, str):
            wrong(f"fails where the network does not: {output}")
            continue
        found.runs["as the network"] += 1
        other = [name for name in wanted if not _same(wanted[name], output[name])]
        if other:
            wrong(f"other bytes of {', '.join(other)}")
    return found


def _unproved(made: HardenedModel, given: dict[str, Any]) -> list[str]:
    """What an audit does not prove of a hardened network, but for what harden named."""
    # a node is left in all calls of its function
    left = {(each.node, each.operator) for each in made.left}
    return [
        f"{gather.place}: {gather.node} is {gather.range.state}"
        for gather in og.audit(made.model, allow_empty=given["allow_empty"]).gathers
        if gather.range.state != "proved" and (gather.node, gather.op) not in left
    ]


def _outputs(whole: Any, feeds: Feeds) -> Feeds | str:
    """The outputs of a run, or what ONNX Runtime says where it fails."""
    try:
        return results(whole, feeds)
    except Exception as error:
        return str(error)


def _same(wanted: Any, found: Any) -> bool:
    """Whether two arrays, or two sequences of arrays, have the same bytes."""
    if isinstance(wanted, list):
        pairs = zip(cast("list[Any]", wanted), found, strict=False)
        return len(found) == len(cast("list[Any]", wanted)) and all(
            _same(*pair) for pair in pairs
        )
    return wanted.shape == found.shape and wanted.tobytes() == found.tobytes()
