"""Models that onnxgather wrote, changed as a user or a tool may change them."""

from __future__ import annotations

from typing import Any

import onnx
from model_metadata import metadata_of
from onnx import compose, numpy_helper
from onnx_texts import model_of

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
    typed = f"float{sizes}"
    relu = model_of(f"relu ({typed} x) => ({typed} y) {{ y = Relu (x) }}")
    del relu.opset_import[:]
    relu.opset_import.extend(model.opset_import)
    relu.ir_version = model.ir_version
    return compose.merge_models(model, relu, [(output.name, "x")])
