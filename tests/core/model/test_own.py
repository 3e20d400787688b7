"""What a model says of itself, and when it is still the model that it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import compose, version_converter
from own_models import merged_with_relu
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.model.own import (
    KEY,
    drop_entries,
    entries_in,
    entries_of,
    graph_digest,
    own_entry,
)
from onnxgather.core.options import TARGETS, Target

DESC = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")


def saved_by_onnxruntime(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """Return what ONNX Runtime writes of a model that it has not optimized."""
    ort: Any = onnxruntime
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(folder / "saved.onnx")
    ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return onnx.ModelProto.FromString((folder / "saved.onnx").read_bytes())


KEEPING: dict[str, Callable[[onnx.ModelProto, Path], onnx.ModelProto]] = {
    "shape inference": lambda model, _: onnx.shape_inference.infer_shapes(model),
    "another opset": lambda model, _: version_converter.convert_version(model, 18),
    "onnx-ir": lambda model, _: onnx_ir.to_proto(onnx_ir.from_proto(model)),
    "ONNX Runtime": saved_by_onnxruntime,
}
"""Tools that keep the graph of a model."""


@pytest.mark.parametrize("tool", KEEPING)
def test_a_model_stays_ours_through_tools_that_keep_its_graph(
    tool: str, tmp_path: Path
) -> None:
    model = og.to_onnx(DESC, "zero")
    entry = own_entry(model)
    assert entry is not None
    assert own_entry(KEEPING[tool](model, tmp_path)) == entry


@pytest.mark.parametrize("target", TARGETS)
def test_an_entry_says_what_the_model_was_made_from(target: Target) -> None:
    entry = own_entry(og.to_onnx(DESC, "directml", target))
    assert entry is not None
    assert entry.descriptor == og.to_dict(DESC)
    assert (entry.out_of_range, entry.target) == ("directml", target)
    assert (entry.version, entry.program) == (og.__version__, None)


def changed_constant(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data += b"\0"


def renamed_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].name = "x"


def another_attribute(model: onnx.ModelProto) -> None:
    model.graph.node[-1].attribute[0].i += 1


@pytest.mark.parametrize("change", [changed_constant, renamed_input, another_attribute])
def test_a_model_with_another_graph_is_not_ours(
    change: Callable[[onnx.ModelProto], None],
) -> None:
    model = og.to_onnx(DESC)
    digest = graph_digest(model)
    change(model)
    assert graph_digest(model) != digest
    assert own_entry(model) is None
    assert len(entries_of(model)) == 1


def test_functions_count_in_the_digest() -> None:
    model = og.to_onnx(DESC, target="native")
    del model.functions[:]
    assert own_entry(model) is None


def test_a_network_merged_from_ours_is_not_ours() -> None:
    merged = merged_with_relu(compose.add_prefix(og.to_onnx(DESC), "g/"))
    assert len(entries_of(merged)) == 1
    assert own_entry(merged) is None


def test_models_with_constant_indices_and_parts_have_no_entry() -> None:
    constant = og.to_onnx(DESC, indices=np.array([[2, 0]], np.uint32))
    assert not constant.metadata_props


def test_properties_of_others_stay_when_entries_go() -> None:
    model = og.to_onnx(DESC)
    model.metadata_props.add(key="author", value="somebody")
    model.metadata_props.add(key="onnxgather.broken", value="{")
    drop_entries(model)
    assert [prop.key for prop in model.metadata_props] == ["author"]


def test_a_key_that_is_no_text_is_no_entry(tmp_path: Path) -> None:
    content = og.to_onnx(DESC).SerializeToString()
    broken = content.replace(KEY.encode(), b"\xff" * len(KEY))
    file = tmp_path / "broken.onnx"
    file.write_bytes(broken)
    with file.open("rb") as stream:
        assert entries_in(stream) == []
    assert entries_of(onnx.ModelProto.FromString(broken)) == []
