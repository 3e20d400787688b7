"""The exported networks on onnxgather's own provider: their bytes, and which of their
nodes it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from exported_networks import EACH, NETWORKS
from provider_models import CPU_PROVIDER, GATHERS, opened, opened_on_cpu, operators_on

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array

LEVELS = {"none": 0, "extended": 2, "all": 99}
"""How much of a graph ONNX Runtime optimizes."""


def outputs_of(session: Any, inputs: dict[str, Any]) -> list[Array]:
    return [np.asarray(output) for output in session.run(None, inputs)]


def is_same(first: Array, second: Array) -> bool:
    """Whether two outputs are the same to the byte."""
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    if first.dtype.hasobject:
        return first.tolist() == second.tolist()
    return first.tobytes() == second.tobytes()


@pytest.mark.parametrize("name", EACH)
def test_a_network_has_the_bytes_of_the_cpu_s_provider(name: str) -> None:
    model, inputs = NETWORKS[name]
    content = model.SerializeToString()
    for level in LEVELS.values():
        expected = outputs_of(opened_on_cpu(content, level=level), inputs)
        session = opened(content, "error", level=level)
        found = outputs_of(session, inputs)
        assert len(found) == len(expected)
        assert all(map(is_same, found, expected)), level
        taken = operators_on(session)
        assert taken
        assert {*taken} <= {"Gather", "GatherElements", "GatherND"}
        assert "MemcpyToHost" not in operators_on(session, CPU_PROVIDER)
        assert "MemcpyFromHost" not in operators_on(session, CPU_PROVIDER)
