"""Random nodes on onnxgather's own provider, under each policy: their bytes, their
errors, and what the report counts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from provider_models import GATHERS, opened, providers_of, run_on, said
from random_nodes import RandomNode, random_nodes, wanted
from rings import by_ring

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import POLICIES, OutOfRange

NODES = random_nodes(by_ring(60, 3000), 54)


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


@pytest.mark.parametrize("policy", POLICIES)
def test_random_nodes_are_the_reference_s(policy: OutOfRange) -> None:
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
    if policy == "error":
        assert ends["str"] > len(NODES) / 10
