"""Random nodes on onnxgather's own provider, under each policy: their bytes, their
errors, and what the report counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from provider_models import GATHERS, opened, providers_of, run_on, said
from random_nodes import RandomNode, random_nodes, wanted
from rings import by_ring

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import POLICIES, OutOfRange

NODES = random_nodes(by_ring(60, 3000), 54)
MODEL = "random nodes"


def told(node: RandomNode, policy: OutOfRange) -> Array | str:
    """Return what the provider makes of a node: its output, or why it fails."""
    session = opened(node.model, policy, level=0)
    assert providers_of(session) == {node.name: GATHERS}
    try:
        (output,) = run_on(session, node.data, node.indices)
    except Exception as error:
        return said(error)
    return output


def is_same(first: Array | str, second: Array | str) -> bool:
    """Whether two errors are the same, or two outputs to the byte."""
    if isinstance(first, str) or isinstance(second, str):
        return isinstance(first, str) and isinstance(second, str) and first == second
    equal = (first.dtype, first.shape) == (second.dtype, second.shape)
    return equal and first.tobytes() == second.tobytes()


def counts(node: RandomNode) -> tuple[Any, ...]:
    """Return what the report says of a node after a run, whatever its policy."""
    outside = node.outside
    size = node.indices.size
    if not outside.any():
        return (1, size, 0, None, None, None, None)
    met = node.indices[outside]
    first = tuple(map(int, np.argwhere(outside)[0]))
    sentence = wanted(node, "error")
    count = int(outside.sum())
    return (1, size, count, int(met.min()), int(met.max()), first, sentence)


def counted(row: og.GatherCounts) -> tuple[Any, ...]:
    """Return the counts of a row."""
    met = row.least, row.largest, row.first, row.error
    return (row.runs, row.indices, row.outside, *met)


@pytest.mark.parametrize("policy", POLICIES)
def test_random_nodes_are_the_reference_s(policy: OutOfRange) -> None:
    og.provider_report(reset=True)
    differing: list[str] = []
    ends = Counter[str]()
    for node in NODES:
        expected = wanted(node, policy)
        answer = told(node, policy)
        ends[type(expected).__name__] += 1
        if not is_same(answer, expected):
            differing.append(f"{node.name}: {answer}, not {expected}")
    assert differing == []
    assert ends["ndarray"] > len(NODES) / 3
    assert (ends["str"] > len(NODES) / 10) == (policy == "error")

    rows = {
        row.node: row for row in og.provider_report(reset=True) if row.model == MODEL
    }
    for node in NODES:
        row = rows.pop(node.name)
        assert (row.policy, row.operator) == (policy, node.operator)
        assert counted(row) == counts(node), node.name
    assert rows == {}
