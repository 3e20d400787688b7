"""Gathers as parts of larger models: nodes for a graph, and packs of functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, helper

from onnxgather.core.checks import (
    LONGEST_SEQUENCE,
    check_choice,
    check_name,
    check_type,
    plain_text,
    sequence,
    shown,
    shown_with_suggestion,
)
from onnxgather.core.descriptors.arrays import check_descriptor
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.graph import NATIVE_DOMAIN, new_name
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.model.functions import add_function
from onnxgather.core.model.protos import domain_of, names_in
from onnxgather.core.model.values import ValueType
from onnxgather.core.model.write import descriptor_model
from onnxgather.core.options import DEFAULT_OPSET, TARGETS, OutOfRange, Target
from onnxgather.core.public import public

PACK = f"{NATIVE_DOMAIN}.functions"
"""The domain of the functions of `functions`."""


@public
def add_to(
    model: ModelProto | GraphProto,
    desc: Descriptor,
    *,
    input: str,
    indices: Any,
    output: str,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int | None = None,
    threads: int | None = None,
) -> None:
    """Add the nodes of a gather to a model or a graph, behind its other nodes.

    The names of its other values start with the name of the output, which may be an
    output that the graph declares.

    Args:
        model: The model or the graph, which is changed.
        desc: Any of the four gather descriptors.
        input: The value that is InputTensor.
        indices: The value that is IndicesTensor, or its array or nested lists if it is
            known.
        output: The name of the value that becomes OutputTensor.
        out_of_range: As for `to_onnx`.
        target: As for `to_onnx`; "native" takes a model, which has functions.
        opset: The version of the ONNX operator set of a graph; None is that of the
            model, or 17.
        threads: As for `to_onnx`.

    Raises:
        OnnxGatherError: A value is not there, has another type than its tensor, or is
            there already; or as `to_onnx`.

    Example:
        >>> rows = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> model = og.to_onnx(rows, "error")
        >>> column = og.from_onnx("Gather", ("FLOAT32", [2, 2]), ("INT64", [1]), axis=1)
        >>> last = np.array([[1]], np.int64)
        >>> og.add_to(model, column, input="OutputTensor", indices=last, output="last")
        >>> [node.output[0] for node in model.graph.node]
        ['indices', 'OutputTensor', 'last']
    """
    kinds = "an onnx.ModelProto or an onnx.GraphProto"
    check_type("model", model, kinds, ModelProto, GraphProto)
    check_descriptor(desc)
    input = check_name("input", input)
    output = check_name("output", output)
    is_model = isinstance(model, ModelProto)
    # A graph gets a model around it, a copy, which is read and then dropped.
    whole = model if is_model else ModelProto(graph=model)
    graph = model.graph if is_model else model
    target = check_choice("target", target, TARGETS)
    if target == "native" and not is_model:
        raise OnnxGatherError('target "native" must be added to a model, got a graph')
    names = {INPUT: input, OUTPUT: output}
    array = None
    if isinstance(indices, str):
        names[INDICES] = plain_text(indices)
    else:
        array = indices
    _check_values(graph, desc, names, is_model)
    prefix = _unused_prefix(whole, output)
    opsets = {domain_of(entry): entry.version for entry in whole.opset_import}
    if opset is None:
        opset = DEFAULT_OPSET
    version = opsets.get("", opset)
    part = descriptor_model(
        desc, out_of_range, target, version, array, threads, prefix, names
    )
    # Only a native part has a function, that of its single node.
    for node, function in zip(part.graph.node, part.functions, strict=False):
        add_function(node, function, whole.functions)
        whole.ir_version = max(whole.ir_version, part.ir_version)
    for entry in part.opset_import:
        if entry.domain not in opsets:
            whole.opset_import.append(entry)
    graph.node.extend(part.graph.node)
    graph.initializer.extend(part.graph.initializer)


def _unused_prefix(model: ModelProto, output: str) -> str:
    """Return the prefix of an output's nodes with which no name of a model begins."""
    names = [str(name) for name in names_in(model)]  # bytes are no name in UTF-8
    prefix = f"{output}/"
    number = 2
    while any(name.startswith(prefix) for name in names):
        prefix = f"{output}_{number}/"
        number += 1
    return prefix


@public
def functions(
    descs: Iterable[Descriptor],
    out_of_range: OutOfRange = "clamp",
    opset: int = DEFAULT_OPSET,
) -> list[FunctionProto]:
    """Return a function for each descriptor, and the functions that they call.

    The functions of the descriptors come first, in order. A function has the domain
    `org.onnxgather.functions`, version 1, the name of the operator, with a number where
    that is taken, the inputs InputTensor and IndicesTensor, and no attributes.

    Args:
        descs: The descriptors.
        out_of_range: As for `to_onnx`.
        opset: As for `to_onnx`.

    Raises:
        OnnxGatherError: As `to_onnx`.

    Example:
        >>> row = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [1]))
        >>> column = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [1]), axis=1)
        >>> pack = og.functions([row, column])
        >>> [f"{function.domain}.{function.name}" for function in pack[:2]]
        ['org.onnxgather.functions.GATHER', 'org.onnxgather.functions.GATHER_2']
    """
    given = sequence("descs", descs)
    if len(given) == LONGEST_SEQUENCE:
        raise OnnxGatherError(
            f"descs must be fewer than {LONGEST_SEQUENCE:,}, got more"
        )
    pack: list[FunctionProto] = []
    called: list[FunctionProto] = []
    taken = set[str]()
    for desc in given:
        part = descriptor_model(desc, out_of_range, "native", opset)
        (node,) = part.graph.node
        (function,) = part.functions
        add_function(node, function, called)
        caller = helper.make_function(
            PACK,
            new_name(desc.operator, taken),
            node.input,
            node.output,
            [node],
            part.opset_import,
            doc_string=part.doc_string,
        )
        pack.append(caller)
    return pack + called


def _check_values(
    graph: GraphProto, desc: Descriptor, names: Mapping[str, str], is_whole: bool
) -> None:
    """Check that values of a graph are there and fit their tensors.

    The output must be new. A value may be missing in a graph that is not whole: it may
    be a value of the graph around it.
    """
    defined = {name for node in graph.node for name in node.output}
    defined |= {value.name for value in (*graph.input, *graph.initializer)}
    if names[OUTPUT] in defined:
        raise OnnxGatherError(f"output must be a new value, got {shown(names[OUTPUT])}")
    types = _types_in(graph)
    tensors = {
        INPUT: desc.input_tensor,
        INDICES: desc.indices_tensor,
        OUTPUT: desc.output_tensor,
    }
    for key, name in names.items():
        argument = key.removesuffix("Tensor").lower()
        if is_whole and key != OUTPUT and name not in defined:
            suggestion = shown_with_suggestion(name, defined)
            raise OnnxGatherError(
                f"{argument} must be a value of the graph, got {suggestion}"
            )
        value_type = types.get(name, ValueType())
        wanted = onnx.TensorProto.DataType.Name(tensors[key].data_type.onnx)
        shape = tensors[key].array_shape
        # A type or a size of which the graph says nothing fits.
        is_typed = value_type.data_type in ("", wanted)
        if not is_typed or not value_type.admits(shape):
            rule = f"{argument} {shown(name)} must be {wanted} {list(shape)}"
            raise OnnxGatherError(f"{rule}, got {value_type}")


def _types_in(graph: GraphProto) -> dict[str, ValueType]:
    """Return what a graph says of the types of its values, by their names."""
    types = {tensor.name: ValueType.of_tensor(tensor) for tensor in graph.initializer}
    for values in (graph.value_info, graph.output, graph.input):
        types.update((value.name, ValueType.of(value)) for value in values)
    return types
