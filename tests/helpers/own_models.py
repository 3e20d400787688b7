"""Models that onnxgather wrote, changed as a user or a tool may change them."""

from __future__ import annotations

from typing import Any

import onnx
from model_metadata import metadata_of
from onnx import TensorProto, compose, helper, numpy_helper

from onnxgather.core.model.own import add_entry, drop_entries

STAMPS = ("version", "digest")
"""What `add_entry` itself adds to the metadata."""


def stamped(model: onnx.ModelProto, **fields: Any) -> onnx.ModelProto:
    """Give a model its metadata anew, with other fields and a digest that fits.

    Args:
        model: The model.
        fields: The fields of the metadata that become others.
    """
    metadata = metadata_of(model)
    for name in STAMPS:
        del metadata[name]
    drop_entries(model)
    add_entry(model, metadata | fields)
    return model


def with_wrong_bound(model: onnx.ModelProto) -> onnx.ModelProto:
    """Let the last element of the axis be out of reach: the bound is one less."""
    (bound,) = (one for one in model.graph.initializer if one.name == "last_index")
    array = numpy_helper.to_array(bound)
    bound.CopyFrom(numpy_helper.from_array(array - array.dtype.type(1), bound.name))
    return model


def merged_with_relu(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a network of a user: the model, and a Relu behind it."""
    output = model.graph.output[0]
    sizes = [one.dim_value for one in output.type.tensor_type.shape.dim]
    relu = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            "relu",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)],
        ),
        ir_version=model.ir_version,
        opset_imports=model.opset_import,
    )
    return compose.merge_models(model, relu, [(output.name, "x")])
