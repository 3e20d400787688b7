"""Models with nodes of the native operators, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
from msgspec.structs import asdict
from onnx import helper
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.loops import loops_of

ort: Any = import_module("onnxruntime")
_STATE: Any = import_module("onnxruntime.capi.onnxruntime_pybind11_state")

Refusal: tuple[type[Exception], ...] = (
    _STATE.Fail,
    _STATE.InvalidArgument,
    _STATE.InvalidGraph,
    _STATE.RuntimeException,
)
"""What ONNX Runtime raises for a model that it refuses."""

T = og.TensorDesc
CASE = DescriptorCase(
    "case",
    descriptor("GATHER: FLOAT32 4, INT64 2, FLOAT32 2, 0, 1"),
    np.array([1, 2, 3, 4], np.float32),
    np.array([3, 9]),
)
"""A gather with an index out of range."""

RULE = "CPUExecutionProvider must run onnxgather's own operators, but "
"""How a lane of theirs begins to say why the operators did not run."""

OPERATORS = {
    cls: name.removeprefix("DML_OPERATOR_") for name, cls in og.OPERATORS.items()
}
"""The names of the operators of descriptors."""


def attributes(
    desc: og.Descriptor, out_of_range: og.OutOfRange = "clamp"
) -> dict[str, Any]:
    """Return the attributes of a node."""
    shape = desc.output_tensor.array_shape
    return {**asdict(loops_of(desc, out_of_range)), "output_shape": shape}


def value(name: str, tensor: og.TensorDesc) -> onnx.ValueInfoProto:
    """Return an input or output of a model."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.data_type.numpy))
    return helper.make_tensor_value_info(name, kind, tensor.array_shape)


def model(
    gathers: Sequence[og.Descriptor],
    numbers: Sequence[dict[str, Any]],
    names: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a model with one node per gather, each with its own inputs and output.

    Args:
        gathers: The descriptors.
        numbers: The attributes of each node.
        names: The operator of each node; else that of its descriptor.
    """
    nodes: list[onnx.NodeProto] = []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for number, (desc, given) in enumerate(zip(gathers, numbers, strict=True)):
        name = names[number] if names else OPERATORS[type(desc)]
        ends = f"data{number}", f"indices{number}"
        node = helper.make_node(
            name, ends, [f"output{number}"], f"gather{number}", domain="org.onnxgather"
        )
        for key, one in given.items():
            node.attribute.append(helper.make_attribute(key, one))
        nodes.append(node)
        inputs += [
            value(ends[0], desc.input_tensor),
            value(ends[1], desc.indices_tensor),
        ]
        outputs.append(value(f"output{number}", desc.output_tensor))
    graph = helper.make_graph(nodes, "gathers", inputs, outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.onnxgather", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session(
    made: onnx.ModelProto | bytes, threads: int = 1, library: str | None = None
) -> Any:
    """Open a model with the library registered; ONNX Runtime writes nothing."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    options.register_custom_ops_library(library or og.custom_ops_library())
    content = made if isinstance(made, bytes) else made.SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(opened: Any, *arrays: Array) -> list[Array]:
    """Run a model on the inputs of its nodes."""
    feed = dict(zip([one.name for one in opened.get_inputs()], arrays, strict=True))
    return [np.asarray(output) for output in opened.run(None, feed)]


def asked(
    desc: og.Descriptor,
    data: Array,
    indices: Array,
    out_of_range: og.OutOfRange,
    threads: int = 1,
) -> Array | str:
    """Return the output of a gather, or the end of the error after ONNX Runtime's
    words."""
    try:
        opened = session(model([desc], [attributes(desc, out_of_range)]), threads)
        return run(opened, data, indices)[0]
    except Refusal as error:
        return str(error).rpartition("Status Message: ")[2]


def wanted(
    desc: og.Descriptor, data: Array, indices: Array, out_of_range: og.OutOfRange
) -> Array | str:
    """Return the reference's output, or its error."""
    try:
        return og.reference(desc, data, indices, out_of_range)
    except og.IndexOutOfRangeError as error:
        return str(error)
