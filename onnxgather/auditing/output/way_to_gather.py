"""The way through a model on which the size of an axis gets lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from onnxgather.auditing.audit import AuditedModel
from onnxgather.auditing.graph_audit import operations_of
from onnxgather.auditing.proof.index_range import Lost
from onnxgather.core.model.network import Operation, Scope

LONGEST_WAY = 9
"""A way of more steps is shown in part."""


class WayStep(NamedTuple):
    """A step of a way: an input, a node, or the steps that are left out."""

    operator: str
    """The operator of a node; empty of an input and of what is left out."""
    name: str
    loses_size: bool = False
    """Whether the size is not known behind it."""


def ways_of(audited: AuditedModel) -> list[list[WayStep]]:
    """Return a shortest way to each gather, in the order of the records.

    A way leads from an input of the gather's graph to the node that loses the size of
    its axis, and on to the gather. It is empty for a gather whose size is known, and if
    the node is not in the graph of the gather.
    """
    ways: dict[object, list[WayStep]] = {key: [] for key in audited.gathers}
    # Many gathers share a graph, whose nodes are gone through once.
    producers_by_scope: dict[Scope, dict[str, Operation]] = {}
    for key, scope, operation in operations_of(audited.network):
        record = audited.gathers.get(key)
        if record is None or ways[key]:
            continue
        lost = record.range.lost
        if lost is None:
            continue
        producers = producers_by_scope.get(scope)
        if producers is None:
            producers = _producers(scope)
            producers_by_scope[scope] = producers
        ways[key] = _way(scope, producers, operation, lost)
    return list(ways.values())


def _producers(scope: Scope) -> dict[str, Operation]:
    """Return the node that makes each value of a graph."""
    return {
        output: operation
        for operation in scope.operations
        for output in operation.outputs
    }


def _way(
    scope: Scope, producers: dict[str, Operation], gather: Operation, lost: Lost
) -> list[WayStep]:
    """Return the way to a gather; it is empty if it does not lead through the node."""
    behind: list[Operation] = []
    for path in _paths_back(gather, producers):
        if (path[-1].label, path[-1].operator) == (lost.node, lost.op):
            behind = path[::-1]
            break
    # Case: the node is in another graph.
    if not behind:
        return []

    steps: list[WayStep] = []
    for path in _paths_back(behind[0], producers):
        names = [name for name in path[-1].inputs if name in scope.inputs]
        if names:
            steps.append(WayStep("", names[0]))
            steps += [WayStep(node.operator, node.label) for node in path[:0:-1]]
            break
    steps.append(WayStep(behind[0].operator, behind[0].label, True))
    steps += [WayStep(node.operator, node.label) for node in behind[1:]]
    return _shortened(steps)


def _paths_back(
    start: Operation, producers: dict[str, Operation]
) -> Iterator[list[Operation]]:
    """Yield a path against the flow to each node before a node, the shortest first."""
    queue = deque([[start]])
    visited = {start}
    while queue:
        path = queue.popleft()
        yield path
        for name in path[-1].inputs:
            producer = producers.get(name)
            if producer is not None and producer not in visited:
                visited.add(producer)
                queue.append([*path, producer])


def _shortened(steps: Sequence[WayStep]) -> list[WayStep]:
    """Return the steps; of many the ends, and those at the node that loses the size."""
    if len(steps) <= LONGEST_WAY:
        return [*steps]
    loses = [step.loses_size for step in steps].index(True)
    kept = {0, 1, loses - 1, loses, loses + 1, len(steps) - 2, len(steps) - 1}
    shown: list[WayStep] = []
    left_out = 0
    for number, step in enumerate(steps):
        if number not in kept:
            left_out += 1
            continue
        if left_out:
            shown.append(WayStep("", f"… {left_out} more"))
        left_out = 0
        shown.append(step)
    return shown
