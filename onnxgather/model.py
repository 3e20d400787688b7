"""Lowered graphs as ONNX models; the only module that speaks protobuf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, cast

import msgspec
import onnx
from onnx import helper, numpy_helper

from onnxgather.arrays import Array, check_array, check_descriptor, check_indices, check_policy
from onnxgather.checks import check_choice, integer, shown
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.descriptor import to_dict
from onnxgather.errors import OnnxGatherError
from onnxgather.lowering import lower
from onnxgather.lowering.graph import DOMAINS, ONNX_TYPES, Graph, Node, Value
from onnxgather.options import DEFAULT_OPSET, DEFAULT_THREADS, OPSETS, TARGETS, OutOfRange, Target

VERSION = version("onnxgather")

MOST_THREADS = 1024
"""Threads that a model may be asked to run on."""

LARGEST_MODEL = 2**31 - 1
"""Bytes of a serialized protobuf message."""


def to_onnx(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    indices: Array | None = None,
    threads: int | None = None,
) -> onnx.ModelProto:
    """Return an ONNX model that computes what a descriptor computes.

    The inputs InputTensor and IndicesTensor and the output OutputTensor have the descriptor's
    data types and, as everywhere, a tensor's `sizes` or its 1-D buffer where it has strides.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: "portable" is standard ONNX for every provider, "cpu" what ONNX Runtime's CPU
            provider runs fastest.
        opset: The version of the ONNX operator set, 13 to the newest that both the installed
            onnx and the oldest supported ONNX Runtime know.
        indices: IndicesTensor, where it is known. It becomes an initializer, already normalised,
            instead of a graph input.
        threads: How many threads the model will run on, 1 or more, for `target="cpu"` to choose
            by; None stands for 2.

    Raises:
        OnnxGatherError: An option is not one of those above, or the model would exceed 2 GiB.
        DescriptorError: `indices` does not fit IndicesTensor.
        IndexOutOfRangeError: `indices` holds an index out of range, and that is an error.
    """
    check_descriptor(desc)
    check_policy(out_of_range)
    check_choice("target", target, TARGETS)
    opset = check_opset(opset)
    if threads is not None:
        threads = _whole("threads", threads, 1, MOST_THREADS)
    if indices is not None:
        check_array("IndicesTensor", desc.indices_tensor, indices)
        if out_of_range == "error":
            check_indices(desc, indices)
    graph = lower(desc, out_of_range, indices, target, threads)
    size = sum(array.nbytes for array in graph.constants.values())
    if size > LARGEST_MODEL - 2**16:
        raise OnnxGatherError(
            f"a model must be smaller than 2 GiB, got {size} bytes of normalised indices"
        )
    model = _model(graph, desc, out_of_range, target, opset)
    if target == "cpu":
        model.metadata_props.add(key="onnxgather.threads", value=str(threads or DEFAULT_THREADS))
        model.metadata_props.add(key="onnxgather.form", value=graph.choice)
    return model


def check_opset(opset: object) -> int:
    """Return an opset that can be written.

    Raises:
        OnnxGatherError: It cannot; the message gives the range.
    """
    newest = min(OPSETS[-1], onnx.defs.onnx_opset_version())
    return _whole("opset", opset, OPSETS[0], newest)


def _whole(name: str, value: object, least: int, most: int) -> int:
    number = integer(value)
    if number is None or not least <= number <= most:
        rule = f"{name} must be an integer from {least} to {most}"
        raise OnnxGatherError(f"{rule}, got {shown(value)}")
    return number


def check_model(model: onnx.ModelProto) -> None:
    """Check a model with ONNX's own checker, inferred shapes included.

    Raises:
        OnnxGatherError: ONNX refuses it.
    """
    checker: Any = onnx.checker  # its signature is only partly typed
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise OnnxGatherError(f"ONNX refuses the model: {' '.join(str(error).split())}") from error


def wrapped(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a portable model with its gather between two multiplications by the input One.

    One is a scalar of InputTensor's data type; as it is a graph input, nothing folds.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for node in graph.node:
        names = ["InputTensor_kept" if name == "InputTensor" else name for name in node.input]
        node.input[:] = names
        if node.output[0] == "OutputTensor":
            node.output[0] = "OutputTensor_gathered"
    before = helper.make_node("Mul", ["InputTensor", "One"], ["InputTensor_kept"], "before")
    after = helper.make_node("Mul", ["OutputTensor_gathered", "One"], ["OutputTensor"], "after")
    nodes = [before, *graph.node, after]
    del graph.node[:]
    graph.node.extend(nodes)
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
    """Return a model of one node on arrays of these types and shapes; nothing is checked."""
    inputs, values = ["InputTensor", "IndicesTensor"], cast("dict[str, Any]", attributes)
    node = helper.make_node(operator, inputs, ["OutputTensor"], "OutputTensor", **values)
    element_type = ONNX_TYPES[data.dtype]
    graph = helper.make_graph(
        [node],
        operator,
        [
            helper.make_tensor_value_info("InputTensor", element_type, data.shape),
            helper.make_tensor_value_info(
                "IndicesTensor", ONNX_TYPES[indices.dtype], indices.shape
            ),
        ],
        [helper.make_tensor_value_info("OutputTensor", element_type, output_shape)],
    )
    opsets = [onnx.OperatorSetIdProto(version=DEFAULT_OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="onnxgather")


def tensor_bytes(name: str, array: Array) -> bytes:
    """Return an array as a serialized TensorProto, as ONNX's backend tests hold them."""
    return numpy_helper.from_array(array, name).SerializeToString()


def _model(
    graph: Graph, desc: Descriptor, out_of_range: OutOfRange, target: Target, opset: int
) -> onnx.ModelProto:
    operator = f"DML_OPERATOR_{desc.operator}"
    model = onnx.ModelProto(
        ir_version=max(8, helper.find_min_ir_version_for([onnx.OperatorSetIdProto(version=opset)])),
        producer_name="onnxgather",
        producer_version=VERSION,
        doc_string=f"{operator}; out_of_range={out_of_range}, target={target}",
    )
    model.opset_import.add(version=opset)
    metadata = {
        "onnxgather.descriptor": msgspec.json.encode(to_dict(desc)).decode(),
        "onnxgather.out_of_range": out_of_range,
        "onnxgather.target": target,
    }
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    proto = model.graph
    proto.name = operator
    _write_nodes(proto, graph)
    used = {DOMAINS[node.op] for node in _all_nodes(graph) if node.op in DOMAINS}
    for domain, newest in sorted(used):
        model.opset_import.add(domain=domain, version=newest)
    for name, array in graph.constants.items():
        proto.initializer.add(
            name=name,
            dims=array.shape,
            data_type=ONNX_TYPES[array.dtype],
            raw_data=array.tobytes(),
        )
    for value in graph.inputs:
        _describe(proto.input.add(), value)
    _describe(proto.output.add(), cast("Value", graph.output))
    return model


def _write_nodes(proto: onnx.GraphProto, graph: Graph) -> None:
    for node in graph.nodes:
        added = proto.node.add(
            op_type=node.op,
            domain=DOMAINS[node.op][0] if node.op in DOMAINS else None,
            name=node.output,
            input=node.inputs,
            output=[node.output],
            doc_string=node.why,
        )
        for name, number in node.attributes.items():
            if isinstance(number, int):
                added.attribute.add(name=name, i=number, type=onnx.AttributeProto.INT)
            else:
                added.attribute.add(name=name, ints=number, type=onnx.AttributeProto.INTS)
        for name, body in node.bodies.items():
            attribute = added.attribute.add(name=name, type=onnx.AttributeProto.GRAPH)
            attribute.g.name = name
            _write_nodes(attribute.g, body)
            for value in body.inputs:
                _describe(attribute.g.input.add(), value)
            _describe(attribute.g.output.add(), cast("Value", body.output))


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies.values():
            yield from _all_nodes(body)


def _describe(info: onnx.ValueInfoProto, value: Value) -> None:
    info.name = value.name
    tensor = info.type.tensor_type
    tensor.elem_type = ONNX_TYPES[value.dtype]
    tensor.shape.SetInParent()
    for size in value.shape:
        tensor.shape.dim.add(dim_value=size)
