"""Graphs of the lowering written as ONNX models."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from onnxgather.core.checks import check_choice, check_name, mapping, shown, uint
from onnxgather.core.descriptors.arrays import (
    axis_sizes,
    check_array,
    check_descriptor,
    check_indices,
    check_policy,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering import lower
from onnxgather.core.lowering.graph import (
    DOMAINS,
    FUNCTION,
    ONNX_TYPES,
    Graph,
    Node,
    Value,
    new_name,
    renamed,
)
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.model.functions import add_function, function_of
from onnxgather.core.model.own import add_entry
from onnxgather.core.options import (
    DEFAULT_OPSET,
    DEFAULT_THREADS,
    MOST_THREADS,
    OPSETS,
    TARGETS,
    OutOfRange,
    Target,
)
from onnxgather.core.version import __version__

TENSOR_NAMES = (INPUT, INDICES, OUTPUT)
"""The names of the values of a model that stand for the tensors of its descriptor."""

LARGEST_MODEL = 2**31 - 1
"""The most bytes of a serialized protobuf message."""


def descriptor_model(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    indices: Any = None,
    threads: int | None = None,
    prefix: str = "",
    names: Mapping[str, str] | None = None,
) -> onnx.ModelProto:
    """Return the model that the public `to_onnx` describes.

    Raises:
        OnnxGatherError: An option is not one of those of `to_onnx`, or the model would
            exceed 2 GiB.
        DescriptorError: `indices` does not fit IndicesTensor.
        IndexOutOfRangeError: `indices` holds an index out of range, and `out_of_range`
            is "error".
    """
    check_descriptor(desc)
    out_of_range, target = check_kind(out_of_range, target)
    opset, threads = check_numbers(opset, threads)
    if indices is not None:
        indices = check_array("IndicesTensor", desc.indices_tensor, indices)
        # Before there is an array as large: an initializer has an INT32 per tuple, or
        # more.
        tuples = math.prod(desc.indices_tensor.sizes) // len(axis_sizes(desc))
        _check_size(4 * tuples, "at least ")
        if out_of_range == "error":
            check_indices(desc, indices)
    graph = lower(desc, out_of_range, indices, target, threads)
    prefix = check_name("prefix", prefix)
    new_names: dict[str, str] = {}
    for tensor, name in mapping("names", names).items():
        new_names[tensor] = check_name(f"the name of {tensor}", name)
    if prefix or new_names:
        graph = renamed(graph, _naming(prefix, new_names))
    metadata = {"out_of_range": out_of_range, "target": target}
    # A model with constant indices does not do what the descriptor alone says.
    if indices is None:
        metadata = {"descriptor": to_dict(desc), **metadata}
    if target == "cpu":  # the only target whose graph depends on threads
        metadata |= {"threads": threads, "form": graph.choice}
    return write_model(graph, f"DML_OPERATOR_{desc.operator}", opset, metadata)


def to_onnx_for_webnn(
    desc: Descriptor, out_of_range: OutOfRange, opset: int = DEFAULT_OPSET
) -> onnx.ModelProto:
    """Return the model of the target "webgpu" whose gathers are Gather along axis 0.

    WebNN's backend refuses GatherElements whose indices are an input, and the provider
    gives it constant INT64 indices of ScatterElements as such. The provider has no
    Add, Mul or Gather of UINT32, so that DirectML's rule counts in INT32, and no
    Reshape to a scalar (measured: onnxruntime-web 1.30.0 in Chromium 153).

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        opset: The version of the ONNX operator set.

    Raises:
        OnnxGatherError: As `to_onnx` for the target "webgpu".
    """
    out_of_range = check_policy(out_of_range)
    opset, _ = check_numbers(opset, None)
    graph = lower(desc, out_of_range, target="webgpu", offsets_only=True)
    metadata = {
        "descriptor": to_dict(desc),
        "out_of_range": out_of_range,
        "target": "webgpu",
    }
    return write_model(graph, f"DML_OPERATOR_{desc.operator}", opset, metadata)


def check_kind(out_of_range: object, target: object) -> tuple[OutOfRange, Target]:
    """Return the policy and the target of a model as plain texts, checked."""
    return check_policy(out_of_range), check_choice("target", target, TARGETS)


def check_numbers(opset: int, threads: int | None) -> tuple[int, int]:
    """Return the opset and the number of threads of a model, checked."""
    newest = min(OPSETS[-1], onnx.defs.onnx_opset_version())
    opset = uint("opset", opset, newest, OPSETS[0], OnnxGatherError)
    if threads is None:
        threads = DEFAULT_THREADS
    threads = uint("threads", threads, MOST_THREADS, 1, OnnxGatherError)
    return opset, threads


def write_model(
    graph: Graph,
    name: str,
    opset: int,
    metadata: Mapping[str, object],
    outputs: Sequence[Value] = (),
) -> onnx.ModelProto:
    """Return a graph as a model.

    Args:
        graph: The graph; its constants are the initializers.
        name: The name of the model's graph.
        opset: The version of the ONNX operator set.
        metadata: What the model says of itself, `out_of_range` and `target` among it.
            Version and digest are added, if it says what the model was made from.
        outputs: The values that are outputs of the model; () stands for that of the
            graph.

    Raises:
        OnnxGatherError: The model would exceed 2 GiB.
    """
    _check_size(sum(array.nbytes for array in graph.constants.values()))
    policy = metadata["out_of_range"]
    target = metadata["target"]
    own_opset = onnx.OperatorSetIdProto(version=opset)
    model = onnx.ModelProto(
        # 8 is the IR version of ONNX 1.10, whatever opset the model has.
        ir_version=max(8, helper.find_min_ir_version_for([own_opset])),
        producer_name="onnxgather",
        producer_version=__version__,
        doc_string=f"{name}; out_of_range={policy}, target={target}",
    )
    model.opset_import.append(own_opset)
    domains = {DOMAINS[node.op] for node in _all_nodes(graph) if node.op in DOMAINS}
    for domain, number in sorted(domains):
        model.opset_import.add(domain=domain, version=number)
    _write_graph(model.graph, graph, name, outputs)
    _add_constants(model.graph.initializer, graph)
    for number, node in enumerate(graph.nodes):
        if FUNCTION in node.bodies:
            proto = model.graph.node[number]
            body = _function(node.bodies[FUNCTION], own_opset)
            function = function_of(proto, body)
            add_function(proto, function, model.functions)
    if "descriptor" in metadata or "program" in metadata:
        add_entry(model, metadata)
    return model


def _naming(prefix: str, names: Mapping[str, str]) -> Callable[[str], str]:
    """Return the function that gives a name in a model to each name of a graph."""
    for key in names:
        check_choice("names", key, TENSOR_NAMES)
    in_model = {tensor: names.get(tensor, prefix + tensor) for tensor in TENSOR_NAMES}
    taken = {*in_model.values()}
    if "" in taken or len(taken) < len(in_model):
        listed = ", ".join(map(shown, in_model.values()))
        raise OnnxGatherError(f"names must differ and not be empty, got {listed}")
    in_model[""] = ""  # an input that is left out has no name

    def name(of: str) -> str:
        if of not in in_model:
            in_model[of] = new_name(prefix + of, taken)
        return in_model[of]

    return name


def _function(graph: Graph, opset: onnx.OperatorSetIdProto) -> onnx.FunctionProto:
    """Return a graph as a function without a name; its constants are nodes."""
    # A function has no initializers: a graph holds them on the way to the nodes.
    holder = onnx.GraphProto()
    _add_constants(holder.initializer, graph)
    constants: list[onnx.NodeProto] = []
    for tensor in holder.initializer:
        node = helper.make_node("Constant", [], [tensor.name], value=tensor)
        constants.append(node)
    function = onnx.FunctionProto(
        input=[value.name for value in graph.inputs],
        output=[cast("Value", graph.output).name],
        node=constants,
        opset_import=[opset],
    )
    add_nodes(function.node, graph.nodes)
    return function


def _check_size(size: int, bound: str = "") -> None:
    # 64 KiB are for all that is not indices.
    if size > LARGEST_MODEL - 2**16:
        raise OnnxGatherError(
            f"a model must be smaller than 2 GiB, got {bound}{size} bytes of normalised"
            " indices"
        )


# Messages are filled where they stand: a message that is made apart is copied into its
# place.


def _write_graph(
    proto: onnx.GraphProto, graph: Graph, name: str, outputs: Sequence[Value] = ()
) -> None:
    """Write a graph or the body of a node, without its constants.

    The outermost graph holds them.
    """
    proto.name = name
    add_nodes(proto.node, graph.nodes)
    for value in graph.inputs:
        add_value(proto.input, value.name, value.dtype, value.shape)
    for value in outputs or [cast("Value", graph.output)]:
        add_value(proto.output, value.name, value.dtype, value.shape)


def add_nodes(protos: Any, nodes: Iterable[Node]) -> None:
    """Add nodes of a graph, each named after its output.

    The reason of a node is its documentation.

    Args:
        protos: The field `node` of a graph or a function.
        nodes: The nodes.
    """
    for node in nodes:
        proto = protos.add(
            op_type=node.op,
            domain=DOMAINS[node.op][0] if node.op in DOMAINS else None,
            name=node.output,
            input=node.inputs,
            output=[node.output],
            doc_string=node.why or None,
        )
        attributes = proto.attribute
        for key, value in node.attributes.items():
            if isinstance(value, int):
                attributes.add(name=key, i=value, type=onnx.AttributeProto.INT)
            elif isinstance(value, str):
                text = value.encode()
                attributes.add(name=key, s=text, type=onnx.AttributeProto.STRING)
            else:
                attributes.add(name=key, ints=value, type=onnx.AttributeProto.INTS)
        for key, body in node.bodies.items():
            if key != FUNCTION:  # which is a function of the model, not an attribute
                attribute = attributes.add(name=key, type=onnx.AttributeProto.GRAPH)
                _write_graph(attribute.g, body, key)


def add_value(
    protos: Any, name: str, dtype: np.dtype[Any], shape: Sequence[int]
) -> None:
    """Add an input or an output of a graph.

    Args:
        protos: The field `input` or `output` of the graph.
        name: The name of the value.
        dtype: Its data type.
        shape: Its shape.
    """
    tensor = protos.add(name=name).type.tensor_type
    number = ONNX_TYPES.get(dtype)
    if number is None:  # a data type that DirectML does not have
        number = helper.np_dtype_to_tensor_dtype(dtype)
    tensor.elem_type = number
    tensor.shape.SetInParent()  # a scalar has a shape without sizes
    for size in shape:
        tensor.shape.dim.add(dim_value=size)


def _add_constants(protos: Any, graph: Graph) -> None:
    """Add the constants of a graph to the field `initializer` of a graph."""
    for name, array in graph.constants.items():
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        protos.add(
            name=name,
            dims=array.shape,
            data_type=ONNX_TYPES[array.dtype],
            raw_data=little.tobytes(),
        )


def _all_nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for body in node.bodies.values():
            yield from _all_nodes(body)


def check_model(model: onnx.ModelProto | str | os.PathLike[str]) -> None:
    """Check a model, or that in a file, with ONNX's own checker.

    It infers the shapes, too.

    Raises:
        OnnxGatherError: The checker refuses the model.
    """
    checker: Any = onnx.checker  # its signature is only partly typed
    try:
        checker.check_model(model, full_check=True)
    except (checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        message = " ".join(str(error).split())  # on one line
        raise OnnxGatherError(f"ONNX refuses the model: {message}") from error
