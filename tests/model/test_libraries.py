"""Models and functions of ours in the libraries that people build models with."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
import spox
from folders import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import compose, helper
from rings import by_ring
from strategies import Case, cases
from whole_models import LIBRARIES, computed

import onnxgather as og
from onnxgather.descriptors.arrays import Array
from onnxgather.options import POLICIES, OutOfRange, Target

NO_ERROR: list[OutOfRange] = [name for name in POLICIES if name != "error"]
"""The policies under which a model runs with any index."""

ir: Any = onnx_ir
PAGE = ROOT / "docs" / "parts.md"
OWN = {"org.onnxgather": 1, "org.onnxgather.functions": 1}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the blocks of the page define; onnxscript reads them from a file."""
    blocks = re.findall(
        r"```python\n(.+?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    return loaded(tmp_path_factory.mktemp("page") / "parts.py", "\n".join(blocks))


class TestThePage:
    @pytest.mark.parametrize("library", LIBRARIES)
    @pytest.mark.parametrize(
        "way", ["helper", "compose", "onnx_ir", "onnxscript", "spox"]
    )
    def test_each_way_gives_the_same_bytes(
        self, names: dict[str, Any], way: str, library: str | None
    ) -> None:
        model = names[f"with_{way}"]
        table = np.arange(12, dtype=np.float32).reshape(4, 3)
        arrays = table, np.array([[2, 0]], np.uint32), np.array([[0], [1], [-1], [5]])
        feeds = dict(
            zip([value.name for value in model.graph.input], arrays, strict=True)
        )
        chosen = np.array([[2], [3], [6], [9]], np.float32)
        assert computed(model, feeds, library) == [chosen.tobytes()]

    def test_spox_refuses_functions(self) -> None:
        desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        with pytest.raises(
            ValueError, match="Inlining models with functions is not supported"
        ):
            spox.inline(og.to_onnx(desc, target="native"))


def loaded(path: Path, source: str) -> dict[str, Any]:
    """Return the names of a module with this source, which is known as long as it
    runs."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(
        f"{path.parent.name}_{path.stem}", path
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
    return vars(module)


Build = Callable[[Sequence[og.Descriptor], OutOfRange, Path], onnx.ModelProto]
"""A model with the inputs x0, i0, x1, … and the outputs y0, y1, …."""


def named(k: int) -> dict[str, str]:
    return {"InputTensor": f"x{k}", "IndicesTensor": f"i{k}", "OutputTensor": f"y{k}"}


def by_compose(target: Target) -> Build:
    def build(
        descs: Sequence[og.Descriptor], policy: OutOfRange, folder: Path
    ) -> onnx.ModelProto:
        del folder
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


def by_onnx_ir(
    descs: Sequence[og.Descriptor], policy: OutOfRange, folder: Path
) -> onnx.ModelProto:
    del folder
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


def by_onnxscript(
    descs: Sequence[og.Descriptor], policy: OutOfRange, folder: Path
) -> onnx.ModelProto:
    pack = og.functions(descs, policy)

    def typed(tensor: og.TensorDesc) -> str:
        kind = onnx.TensorProto.DataType.Name(tensor.data_type.onnx)
        return f"{kind}{[*tensor.array_shape]}"

    inputs = [
        f"x{k}: {typed(desc.input_tensor)}, i{k}: {typed(desc.indices_tensor)}"
        for k, desc in enumerate(descs)
    ]
    outputs = [typed(desc.output_tensor) for desc in descs]
    lines = [
        "from onnxscript import *",
        "from onnxscript import values",
        "gathers = values.Opset('org.onnxgather.functions', 1)",
        "@script()",
        f"def whole({', '.join(inputs)}) -> tuple[{', '.join(outputs)}]:",
        *(
            f"    y{k} = gathers.{proto.name}(opset17.Identity(x{k}), i{k})"
            for k, (_, proto) in enumerate(zip(descs, pack, strict=False))
        ),
        f"    return {', '.join(f'y{k}' for k in range(len(descs)))}",
    ]
    model = loaded(folder / "whole.py", "\n".join(lines))["whole"].to_model_proto(
        ir_version=8
    )
    model.functions.extend(pack)
    model.opset_import.append(helper.make_opsetid("org.onnxgather", 1))
    return model


def by_spox(target: Target) -> Build:
    def build(
        descs: Sequence[og.Descriptor], policy: OutOfRange, folder: Path
    ) -> onnx.ModelProto:
        del folder
        inputs: dict[str, Any] = {}
        outputs: dict[str, Any] = {}
        for k, desc in enumerate(descs):
            x, i = (
                spox.argument(spox.Tensor(tensor.data_type.numpy, tensor.array_shape))
                for tensor in (desc.input_tensor, desc.indices_tensor)
            )
            part = spox.inline(og.to_onnx(desc, policy, target))
            inputs |= {f"x{k}": x, f"i{k}": i}
            outputs[f"y{k}"] = part(InputTensor=x, IndicesTensor=i)["OutputTensor"]
        return spox.build(inputs, outputs)

    return build


WAYS: dict[str, Build] = {
    "compose, portable": by_compose("portable"),
    "compose, cpu": by_compose("cpu"),
    "compose, native": by_compose("native"),
    "onnx_ir, a pack": by_onnx_ir,
    "onnxscript, a pack": by_onnxscript,
    "spox, portable": by_spox("portable"),
    "spox, cpu": by_spox("cpu"),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=by_ring(3, 10, 50))
@given(st.data())
def test_pairs_and_triples_give_what_each_gives_alone(
    tmp_path_factory: pytest.TempPathFactory, way: str, data: st.DataObject
) -> None:
    parts: list[Case] = data.draw(st.lists(cases(), min_size=2, max_size=3))
    policy = data.draw(st.sampled_from(NO_ERROR))
    folder = tmp_path_factory.mktemp("whole")
    model = WAYS[way]([case.desc for case in parts], policy, folder)
    feeds: dict[str, Array] = {}
    for k, case in enumerate(parts):
        feeds |= {f"x{k}": case.data, f"i{k}": case.indices}
    expected = [
        og.reference(x.desc, x.data, x.indices, policy).tobytes() for x in parts
    ]
    for library in LIBRARIES:
        assert computed(model, feeds, library) == expected
