"""The nodes, bodies and names of any ONNX model, as protobuf messages."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

import onnx
from onnx import ModelProto

from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError


def domain_of(
    node: onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto,
) -> str:
    """Return the domain of a node, a function or an operator set, "" for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def bodies_of(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the graphs of a node, each with the name of its attribute."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for position, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{position}]", graph


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those in their bodies, at any depth."""
    for node in nodes:
        yield node
        for _, body in bodies_of(node):
            yield from all_nodes(body.node)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """Return how often each operator is in a model, with its bodies and functions."""
    counts = Counter[str]()
    for body in (model.graph, *model.functions):
        counts.update(node.op_type for node in all_nodes(body.node))
    return counts


Key = tuple[str, str, str]
"""A domain, a name, an overload."""


def key_of(item: onnx.NodeProto | onnx.FunctionProto) -> Key:
    """Return what a call and its function share."""
    name = item.op_type if isinstance(item, onnx.NodeProto) else item.name
    return domain_of(item), name, item.overload


def names_in(model: ModelProto) -> set[str]:
    """Return every name of a node or a value, wherever in a model."""
    names = set[str]()
    for node in _nodes(model):
        names.add(node.name)
        names.update(node.input, node.output)
    for graph in _graphs(model):
        for values in (graph.input, graph.output, graph.value_info):
            names.update(value.name for value in values)
        names.update(tensor.name for tensor in graph.initializer)
        names.update(tensor.values.name for tensor in graph.sparse_initializer)
    for function in model.functions:
        names.update(function.input, function.output)
    return names


def external_files(model: ModelProto) -> list[str]:
    """Return the files of a model's external data, as it names them, sorted."""
    files = set[str]()
    for tensor in _tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                files.add(entry.value)
    # protobuf returns bytes where a text is broken.
    return sorted(files, key=os.fsencode)


def check_beside_data(model: ModelProto, path: str, output: str) -> None:
    """Check that a copy of a model is in the folder of the model's external data.

    Args:
        model: The model.
        path: Its file.
        output: The file of the copy.

    Raises:
        OnnxGatherError: The copy is in another folder, and there is external data.
    """
    external = external_files(model)
    if external and _real_folder(path) != _real_folder(output):
        rule = f"{output} must be in the folder of {path}"
        why = f"as it refers to its external data, {shown(external[0])}"
        raise OnnxGatherError(f"{rule}, {why}")


def _real_folder(path: str) -> str:
    return os.path.dirname(os.path.realpath(path))


def _tensors(model: ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a model, those of its sparse tensors too."""
    sparse: list[onnx.SparseTensorProto] = []
    for graph in _graphs(model):
        yield from graph.initializer
        sparse.extend(graph.sparse_initializer)
    for node in _nodes(model):
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("sparse_tensor"):
                sparse.append(attribute.sparse_tensor)
            sparse.extend(attribute.sparse_tensors)
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices


def _nodes(model: ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a model, with those in bodies, functions and training.

    The defaults of a function's attributes count as a node of its own.
    """
    for function in model.functions:
        yield from all_nodes([onnx.NodeProto(attribute=function.attribute_proto)])
        yield from all_nodes(function.node)
    for graph in _main_graphs(model):
        yield from all_nodes(graph.node)


def _graphs(model: ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs of a model, with those in bodies, functions and training."""
    yield from _main_graphs(model)
    for node in _nodes(model):
        for _, body in bodies_of(node):
            yield body


def _main_graphs(model: ModelProto) -> Iterator[onnx.GraphProto]:
    """Yield the main graph of a model, and those of its training."""
    yield model.graph
    for training in model.training_info:
        yield training.initialization
        yield training.algorithm
