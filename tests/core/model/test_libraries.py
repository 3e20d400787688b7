"""Models and functions of ours in the libraries that people build models with."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from folders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import compose
from rings import by_ring
from short_descriptors import ascending
from strategies import Case, cases
from whole_models import LIBRARIES, assert_as_alone, computed

import onnxgather as og
from onnxgather.core.options import POLICIES, OutOfRange, Target

NO_ERROR: list[OutOfRange] = [name for name in POLICIES if name != "error"]
"""The policies under which a model runs with any index."""

ir: Any = onnx_ir
PAGE = ROOT / "docs" / "parts.md"
OWN = {"org.onnxgather": 1, "org.onnxgather.functions": 1}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """Return what the blocks of the page define."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), found)
    return found


class TestThePage:
    @pytest.mark.parametrize("library", LIBRARIES)
    @pytest.mark.parametrize("way", ["helper", "onnx_ir"])
    def test_each_way_gives_the_same_bytes(
        self, names: dict[str, Any], way: str, library: str | None
    ) -> None:
        model = names[f"with_{way}"]
        table = ascending("FLOAT32 4x3")
        arrays = table, np.array([[2, 0]], np.uint32), np.array([[0], [1], [-1], [5]])
        feeds = dict(
            zip([value.name for value in model.graph.input], arrays, strict=True)
        )
        chosen = np.array([[2], [3], [6], [9]], np.float32)
        assert computed(model, feeds, library) == [chosen.tobytes()]


Build = Callable[[Sequence[og.Descriptor], OutOfRange], onnx.ModelProto]
"""A model with the inputs x0, i0, x1, … and the outputs y0, y1, …."""


def named(k: int) -> dict[str, str]:
    return {"InputTensor": f"x{k}", "IndicesTensor": f"i{k}", "OutputTensor": f"y{k}"}


def by_compose(target: Target) -> Build:
    def build(descs: Sequence[og.Descriptor], policy: OutOfRange) -> onnx.ModelProto:
        first, *others = (
            og.to_onnx(desc, policy, target, prefix=f"p{k}_", names=named(k))
            for k, desc in enumerate(descs)
        )
        for k, other in enumerate(others):
            if target == "native":  # ONNX merges no functions of one name
                kept = {
                    f"rename_{kind}": False
                    for kind in ("inputs", "outputs", "edges", "nodes")
                }
                other = compose.add_prefix(other, f"q{k}_", **kept)
            first = compose.merge_models(first, other, [])
        return first

    return build


def by_onnx_ir(descs: Sequence[og.Descriptor], policy: OutOfRange) -> onnx.ModelProto:
    pack = og.functions(descs, policy)
    inputs: list[Any] = []
    nodes: list[Any] = []
    for k, (desc, proto) in enumerate(zip(descs, pack, strict=False)):
        x, i, y = (
            ir.Value(
                name=name,
                shape=ir.Shape(tensor.array_shape),
                type=ir.TensorType(ir.DataType(tensor.data_type.onnx)),
            )
            for name, tensor in zip(
                named(k).values(),
                (desc.input_tensor, desc.indices_tensor, desc.output_tensor),
                strict=True,
            )
        )
        inputs += [x, i]
        nodes.append(ir.node(proto.name, [x, i], domain=proto.domain, outputs=[y]))
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph(
        inputs, outputs, nodes=nodes, opset_imports={"": 17, **OWN}, name="whole"
    )
    model = ir.Model(
        graph, ir_version=8, functions=[ir.from_proto(one) for one in pack]
    )
    return ir.to_proto(model)


WAYS: dict[str, Build] = {
    "compose, portable": by_compose("portable"),
    "compose, cpu": by_compose("cpu"),
    "compose, native": by_compose("native"),
    "onnx_ir, a pack": by_onnx_ir,
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=by_ring(3, 10))
@given(st.data())
def test_pairs_and_triples_give_what_each_gives_alone(
    way: str, data: st.DataObject
) -> None:
    parts: list[Case] = data.draw(st.lists(cases(), min_size=2, max_size=3))
    policy = data.draw(st.sampled_from(NO_ERROR))
    model = WAYS[way]([case.desc for case in parts], policy)
    assert_as_alone(model, [(case, policy) for case in parts])
