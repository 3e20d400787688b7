"""The exported networks on onnxgather's own provider: their bytes, and which of their
nodes it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from exported_networks import EACH, NETWORKS
from onnx.inliner import inline_local_functions
from provider_models import CPU_PROVIDER, GATHERS, opened, opened_on_cpu, operators_on

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array

OPERATORS = ("Gather", "GatherElements", "GatherND")

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
        assert {*operators_on(session)} <= {*OPERATORS}
        on_cpu = operators_on(session, CPU_PROVIDER)
        assert not [operator for operator in on_cpu if "Memcpy" in operator]


def gathers_of(graph: onnx.GraphProto) -> Iterator[tuple[str, bool]]:
    """Yield the operator of each gather of a graph and of its bodies, and whether it
    reads a shape."""
    producers = {output: node for node in graph.node for output in node.output}

    def reads_shape(value: str) -> bool:
        node = producers.get(value)
        if node is None:
            return False
        if node.op_type == "Concat":
            return any(map(reads_shape, node.input))
        if node.op_type in ("Cast", "Slice", "Identity"):
            return reads_shape(node.input[0])
        return node.op_type == "Shape"

    for node in graph.node:
        if node.domain == "" and node.op_type in OPERATORS:
            yield node.op_type, reads_shape(node.input[0])
        for attribute in node.attribute:
            yield from gathers_of(attribute.g)


@pytest.mark.parametrize("name", EACH)
def test_the_provider_takes_the_gathers_that_read_no_shape(name: str) -> None:
    model, _ = NETWORKS[name]
    inlined = inline_local_functions(model)
    found = [*gathers_of(inlined.graph)]
    assert found or name == "hand_scatter.onnx"
    session = opened(model, "error", level=0)
    taken = sorted(operator for operator, reads_shape in found if not reads_shape)
    assert operators_on(session, GATHERS) == taken
    left = sorted(operator for operator, reads_shape in found if reads_shape)
    on_cpu = operators_on(session, CPU_PROVIDER)
    assert [operator for operator in on_cpu if operator in OPERATORS] == left
