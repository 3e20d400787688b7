"""Gathers as parts of larger models: nodes that are added to a graph, and packs of functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, helper

from onnxgather.core.checks import (
    LONGEST_SEQUENCE,
    check_choice,
    check_name,
    check_type,
    sequence,
    shown,
    shown_with_suggestion,
)
from onnxgather.core.descriptors.arrays import Array, check_descriptor
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.graph import NATIVE_DOMAIN, new_name
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.model.functions import add_function
from onnxgather.core.model.protos import domain_of, names_in
from onnxgather.core.model.values import ValueType
from onnxgather.core.model.write import to_onnx
from onnxgather.core.options import DEFAULT_OPSET, TARGETS, OutOfRange, Target

PACK = f"{NATIVE_DOMAIN}.functions"
"""The domain of the functions of `functions`."""


def add_to(
    model: ModelProto | GraphProto,
    desc: Descriptor,
    *,
    input: str,
    indices: str | Array,
    output: str,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int | None = None,
    threads: int | None = None,
) -> None:
    """Add the nodes of a gather to a model or a graph, behind the nodes that it has.

    The names of its other values start with the name of the output, which may be an
    output that the graph declares.

    Args:
        model: The model or the graph, which is changed.
        desc: Any of the four gather descriptors.
        input: The value that is InputTensor.
        indices: The value that is IndicesTensor, or its array if it is known.
        output: The name of the value that becomes OutputTensor.
        out_of_range: As for `to_onnx`.
        target: As for `to_onnx`; "native" takes a model, which has functions.
        opset: The version of the ONNX operator set of a graph; None is that of the model, or 17.
        threads: As for `to_onnx`.

    Raises:
        OnnxGatherError: A value is not there, has another type than its tensor, or is there
            already; or as `to_onnx`.
    """
    check_type(
        "model",
        model,
        "an onnx.ModelProto or an onnx.GraphProto",
        ModelProto,
        GraphProto,
    )
    check_descriptor(desc)
    check_name("input", input)
    check_name("output", output)
    whole = model if isinstance(model, ModelProto) else ModelProto(graph=model)
    graph = model.graph if isinstance(model, ModelProto) else model
    check_choice("target", target, TARGETS)
    if target == "native" and whole is not model:
        raise OnnxGatherError('target "native" must be added to a model, got a graph')
    names, known = (
        {INPUT: input, OUTPUT: output},
        None if isinstance(indices, str) else indices,
    )
    if isinstance(indices, str):
        names[INDICES] = indices
    _check_values(graph, desc, names, whole is model)
    taken, prefix, number = names_in(whole), f"{output}/", 2
    while any(
        str(name).startswith(prefix) for name in taken
    ):  # bytes are no name in UTF-8
        prefix, number = f"{output}_{number}/", number + 1
    opsets = {domain_of(one): one.version for one in whole.opset_import}
    version = opsets.get("", DEFAULT_OPSET if opset is None else opset)
    part = to_onnx(desc, out_of_range, target, version, known, threads, prefix, names)
    for node, function in zip(part.graph.node, part.functions, strict=False):
        add_function(node, function, whole.functions)
        whole.ir_version = max(whole.ir_version, part.ir_version)
    whole.opset_import.extend(
        one for one in part.opset_import if one.domain not in opsets
    )
    graph.node.extend(part.graph.node)
    graph.initializer.extend(part.graph.initializer)


def functions(
    descs: Iterable[Descriptor],
    out_of_range: OutOfRange = "clamp",
    opset: int = DEFAULT_OPSET,
) -> list[FunctionProto]:
    """Functions of a model, one for each descriptor in order, and behind them those that they call.

    A function has the domain `org.onnxgather.functions`, version 1, the name of the
    operator, with a number where that is taken, the inputs InputTensor and
    IndicesTensor, and no attributes.

    Args:
        descs: The descriptors.
        out_of_range: As for `to_onnx`.
        opset: As for `to_onnx`.

    Raises:
        OnnxGatherError: As `to_onnx`.
    """
    made, called, taken = list[FunctionProto](), list[FunctionProto](), set[str]()
    given = sequence("descs", descs)
    if len(given) == LONGEST_SEQUENCE:
        raise OnnxGatherError(
            f"descs must be fewer than {LONGEST_SEQUENCE:,}, got more"
        )
    for desc in given:
        part = to_onnx(desc, out_of_range, "native", opset)
        (node,), (function,) = part.graph.node, part.functions
        add_function(node, function, called)
        own = helper.make_function(
            PACK,
            new_name(desc.operator, taken),
            node.input,
            node.output,
            [node],
            part.opset_import,
            doc_string=part.doc_string,
        )
        made.append(own)
    return made + called


def _check_values(
    graph: GraphProto, desc: Descriptor, names: Mapping[str, str], whole: bool
) -> None:
    """Check that values of a graph are there and fit their tensors, and that the output is new."""
    types = {tensor.name: ValueType.of_tensor(tensor) for tensor in graph.initializer}
    values = (*graph.value_info, *graph.output, *graph.input)
    types |= {value.name: ValueType.of(value) for value in values}
    made = {name for node in graph.node for name in node.output}
    made |= {value.name for value in (*graph.input, *graph.initializer)}
    if names[OUTPUT] in made:
        raise OnnxGatherError(f"output must be a new value, got {shown(names[OUTPUT])}")
    tensors = {
        INPUT: desc.input_tensor,
        INDICES: desc.indices_tensor,
        OUTPUT: desc.output_tensor,
    }
    for key, name in names.items():
        argument = key.removesuffix("Tensor").lower()
        if whole and key != OUTPUT and name not in made:
            found = shown_with_suggestion(name, made)
            raise OnnxGatherError(
                f"{argument} must be a value of the graph, got {found}"
            )
        tensor, found = tensors[key], types.get(name, ValueType())
        wanted = onnx.TensorProto.DataType.Name(tensor.data_type.onnx)
        if found.data_type not in ("", wanted) or not found.admits(tensor.array_shape):
            rule = (
                f"{argument} {shown(name)} must be {wanted} {list(tensor.array_shape)}"
            )
            raise OnnxGatherError(f"{rule}, got {found}")
