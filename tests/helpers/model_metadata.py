"""What models of onnxgather say of themselves."""

from __future__ import annotations

import json
from typing import Any

import onnx
from onnx import TensorProto, compose, helper


def metadata_of(model: onnx.ModelProto) -> dict[str, Any]:
    """The metadata of a model that onnxgather wrote."""
    (entry,) = model.metadata_props
    assert entry.key.startswith("onnxgather.")
    return json.loads(entry.value)


def merged_with_a_relu(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a network of a model of onnxgather and a Relu of its output."""
    first = compose.add_prefix(model, "g/")
    sizes = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    relu = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "relu",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        ),
        ir_version=first.ir_version,
        opset_imports=first.opset_import,
    )
    return compose.merge_models(first, relu, [("g/OutputTensor", "x")])
