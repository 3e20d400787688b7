"""Models that the parity tests alone ask for: a wrapped gather, a lone node, arrays as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import onnx
from onnx import helper, numpy_helper

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.write import add_value
from onnxgather.core.options import DEFAULT_OPSET


def wrapped(model: onnx.ModelProto) -> onnx.ModelProto:
    """A portable model with its gather between two multiplications by the input One.

    One is a scalar of InputTensor's data type. As it is a graph input, ONNX Runtime
    cannot fold the multiplications.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for node in graph.node:
        for k, name in enumerate(node.input):
            if name == "InputTensor":
                node.input[k] = "InputTensor_kept"
        if node.output[0] == "OutputTensor":
            node.output[0] = "OutputTensor_gathered"
    before = helper.make_node(
        "Mul", ["InputTensor", "One"], ["InputTensor_kept"], "before"
    )
    after = helper.make_node(
        "Mul", ["OutputTensor_gathered", "One"], ["OutputTensor"], "after"
    )
    graph.node.insert(0, before)
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
) -> onnx.ModelProto:
    """A model of one node; nothing is checked, so that the node may be forbidden.

    Args:
        operator: ONNX's name.
        attributes: The attributes of the node.
        data: An array of the data type and shape of the input InputTensor.
        indices: An array of the data type and shape of the input IndicesTensor.
        output_shape: The shape that the model declares for the output OutputTensor.
    """
    arrays = {"InputTensor": data, "IndicesTensor": indices}
    values = cast("dict[str, Any]", attributes)
    node = helper.make_node(
        operator, [*arrays], ["OutputTensor"], "OutputTensor", **values
    )
    graph = onnx.GraphProto(name=operator, node=[node])
    for name, array in arrays.items():
        add_value(graph.input, name, array.dtype, array.shape)
    add_value(graph.output, "OutputTensor", data.dtype, output_shape)
    opsets = [onnx.OperatorSetIdProto(version=DEFAULT_OPSET)]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=8, producer_name="onnxgather"
    )


def tensor_bytes(name: str, array: Array) -> bytes:
    """An array as a serialized TensorProto, the format of the arrays in ONNX's backend tests."""
    return numpy_helper.from_array(array, name).SerializeToString()
