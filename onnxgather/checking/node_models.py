"""Models that only checks need: a wrapped gather, a single node, arrays as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxgather.checking.cases import DescriptorCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import FACTS
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.descriptors.strides import packed_strides, without_ones
from onnxgather.core.gather import gather_of
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
    is_open: bool = False,
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
        is_open: Whether the model has the ranks of its inputs and its output alone, and
            not their sizes.
    """
    inputs = ["InputTensor", "IndicesTensor"]
    outputs = ["OutputTensor"]
    values = cast("dict[str, Any]", attributes)
    node = helper.make_node(operator, inputs, outputs, "OutputTensor", **values)
    graph = onnx.GraphProto(name=operator, node=[node])
    add_value(graph.input, "InputTensor", data.dtype, data.shape)
    add_value(graph.input, "IndicesTensor", indices.dtype, indices.shape)
    add_value(graph.output, "OutputTensor", data.dtype, output_shape)
    if is_open:
        for value in (*graph.input, *graph.output):
            for position, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}_{position}"
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


def why_no_bare_gather(case: DescriptorCase) -> str | None:
    """Return why no single node of ONNX computes a case; None if `bare_gather` does."""
    desc = case.descriptor
    for name, tensor in tensors(desc).items():
        if not tensor.is_plain:
            return f"{name} has strides, which no node of ONNX has"
    if case.index_type == "UINT64":
        return "the indices are UINT64, which no node of ONNX takes"
    rule = gather_of(desc).broken_rule(data_type=case.data_type)
    if rule is not None:
        return f"ONNX forbids the node: {rule}"
    # Under the other policies nothing reads past an axis.
    if case.out_of_range != "directml":
        return None
    tensor = desc.input_tensor
    strides = tensor.element_strides
    packed = packed_strides(tensor.sizes)
    if strides not in (packed, without_ones(tensor.sizes, packed)):
        return "InputTensor has strides, which no node of ONNX has"
    total = tensor.total_tensor_size_in_bytes
    if total != tensor.default_total_tensor_size_in_bytes:
        return (
            "InputTensor has memory behind its elements, of which no node of ONNX knows"
        )
    return None


def bare_gather(
    case: DescriptorCase, opset: int = DEFAULT_OPSET
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Return the gather of a case as a model of one node, and the inputs.

    The node has the sizes that count. It knows no policy: that is the provider's.

    Under the policy "directml" the sizes stand in the model only where InputTensor has
    the stride 0 for each size of 1. For a node with sizes, onnxgather's provider reads
    such a size by the stride 0, as ONNX Runtime's DirectML provider does; for a node
    without, by the formula of DirectML's operator.

    Args:
        case: A case for which `why_no_bare_gather` returns None. Indices of a type that
            the node does not take become INT64.
        opset: The version of the ONNX operator set.
    """
    gather = gather_of(case.descriptor)
    data = case.data.reshape(gather.data)
    indices = case.indices.reshape(gather.indices)
    if case.index_type not in FACTS[case.operator].onnx_index_types:
        indices = indices.astype(np.int64)
    tensor = case.descriptor.input_tensor
    is_packed = tensor.element_strides == packed_strides(tensor.sizes)
    model = bare_model(
        gather.onnx,
        {gather.attribute: gather.number},
        data,
        indices,
        gather.output,
        opset,
        is_open=case.out_of_range == "directml" and is_packed,
    )
    return model, {"InputTensor": data, "IndicesTensor": indices}


@cache
def onnx_operators() -> frozenset[str]:
    """Return the names of all operators of ONNX's own domain."""
    schemas = onnx.defs.get_all_schemas()
    return frozenset(schema.name for schema in schemas if not schema.domain)


def tensor_bytes(name: str, array: Array) -> bytes:
    """Return an array as a serialized TensorProto, as in ONNX's backend tests."""
    tensor = numpy_helper.from_array(array, name)
    return tensor.SerializeToString()
