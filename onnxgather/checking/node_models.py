"""Models that only checks need: a wrapped gather, a single node, arrays as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import onnx
from onnx import helper, numpy_helper

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.write import add_value
from onnxgather.core.options import DEFAULT_OPSET


def wrapped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a portable model with its gather between two multiplications by an input.

    The input One is a scalar of InputTensor's data type. As it is a graph input, ONNX
    Runtime cannot fold the multiplications.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name == "InputTensor":
                node.input[position] = "InputTensor_kept"
        if node.output[0] == "OutputTensor":
            node.output[0] = "OutputTensor_gathered"

    inputs = ["InputTensor", "One"]
    before = helper.make_node("Mul", inputs, ["InputTensor_kept"], "before")
    graph.node.insert(0, before)
    inputs = ["OutputTensor_gathered", "One"]
    after = helper.make_node("Mul", inputs, ["OutputTensor"], "after")
    graph.node.append(after)

    element_type = graph.input[0].type.tensor_type.elem_type
    graph.input.append(helper.make_tensor_value_info("One", element_type, []))
    return result


def bare_model(
    operator: str,
    attributes: Mapping[str, int],
    data: Array,
    indices: Array,
    output_shape: Sequence[int],
    opset: int = DEFAULT_OPSET,
) -> onnx.ModelProto:
    """Return a model of one node.

    Nothing is checked, so that the node may be one that ONNX forbids.

    Args:
        operator: ONNX's name.
        attributes: The attributes of the node.
        data: An array of the data type and shape of the input InputTensor.
        indices: An array of the data type and shape of the input IndicesTensor.
        output_shape: The shape that the model declares for the output OutputTensor.
        opset: The version of the ONNX operator set.
    """
    inputs = ["InputTensor", "IndicesTensor"]
    outputs = ["OutputTensor"]
    values = cast("dict[str, Any]", attributes)
    node = helper.make_node(operator, inputs, outputs, "OutputTensor", **values)
    graph = onnx.GraphProto(name=operator, node=[node])
    add_value(graph.input, "InputTensor", data.dtype, data.shape)
    add_value(graph.input, "IndicesTensor", indices.dtype, indices.shape)
    add_value(graph.output, "OutputTensor", data.dtype, output_shape)
    operator_set = onnx.OperatorSetIdProto(version=opset)
    # Versions 9 and 10 of ONNX's format brought the data types of 8 bits and of 4.
    data_type = graph.input[0].type.tensor_type.elem_type
    is_narrow = data_type > onnx.TensorProto.BFLOAT16
    return helper.make_model(
        graph,
        opset_imports=[operator_set],
        ir_version=10 if is_narrow else 8,
        producer_name="onnxgather",
    )


@cache
def onnx_operators() -> frozenset[str]:
    """Return the names of all operators of ONNX's own domain."""
    schemas = onnx.defs.get_all_schemas()
    return frozenset(schema.name for schema in schemas if not schema.domain)


def tensor_bytes(name: str, array: Array) -> bytes:
    """Return an array as a serialized TensorProto, as in ONNX's backend tests."""
    tensor = numpy_helper.from_array(array, name)
    return tensor.SerializeToString()
