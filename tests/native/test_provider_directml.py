"""The policy "directml" of onnxgather's own provider against ONNX Runtime's DirectML
provider."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from provider_models import Shape, opened, operators_on, run_on
from random_nodes import RandomNode, random_nodes

import onnxgather as og
from onnxgather.checking.lanes import lanes_set_up
from onnxgather.core.descriptors.arrays import Array

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "directml" not in lanes_set_up(),
        reason="the lane directml is not set up: scripts/directml/setup.sh",
    ),
]


def is_one_of_directml_s(node: RandomNode) -> bool:
    """Whether a descriptor says a node, and an index of it is wild."""
    if not node.outside.any():
        return False
    data = ("FLOAT32", node.data.shape)
    indices = (node.indices.dtype.name.upper(), node.indices.shape)
    try:
        og.from_onnx(node.operator, data, indices, **node.attributes)
    except og.DescriptorError:
        return False
    return True


def model_with(node: RandomNode, is_open: bool) -> onnx.ModelProto:
    """Return the model of a node, with all sizes or with none."""
    shapes: list[Shape] = [node.data.shape, node.indices.shape, node.output_shape]
    if is_open:
        shapes = [
            [f"{which}{place}" for place in range(len(shape or ()))]
            for which, shape in zip("dio", shapes, strict=True)
        ]
    data, indices, output = shapes
    return replace(node, opset=17, shapes=(data, indices, output)).model


@pytest.mark.parametrize("is_open", [False, True], ids=["static", "open"])
def test_wild_nodes_are_those_of_directml_s_provider(is_open: bool) -> None:
    # Behind data of FLOAT32 there is no padding.
    nodes = [*filter(is_one_of_directml_s, random_nodes(250, 7, [np.float32]))]
    assert len(nodes) > 60
    differing: list[str] = []
    for node in nodes:
        model = model_with(node, is_open)
        session = opened(model, "directml", level=0)
        assert operators_on(session) == [node.operator]
        (output,) = run_on(session, node.data, node.indices)
        there = og.Session(model, provider="directml")
        answer: Array = there.run(node.data, node.indices)
        there.close()
        if output.tobytes() != answer.tobytes():
            shapes = f"{node.data.shape} {node.indices.shape}"
            differing.append(f"{node.operator} {dict(node.attributes)} {shapes}")
    assert differing == []
