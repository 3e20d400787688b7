"""The nodes, bodies and names of any ONNX model, as protobuf messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import onnx
from onnx import ModelProto


def domain_of(
    node: onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto,
) -> str:
    """The domain of a node, a function or an operator set, "" for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def bodies_of(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Yield the graphs of a node, each with the name of its attribute."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.name, attribute.g
        for k, graph in enumerate(attribute.graphs):
            yield f"{attribute.name}[{k}]", graph


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes and those in their bodies, at any depth."""
    for node in nodes:
        yield node
        for _, body in bodies_of(node):
            yield from all_nodes(body.node)


def operators(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator stands in a model, its subgraphs and functions included."""
    bodies = (model.graph, *model.functions)
    return Counter(node.op_type for body in bodies for node in all_nodes(body.node))


Key = tuple[str, str, str]
"""A domain, a name, an overload."""


def key_of(item: onnx.NodeProto | onnx.FunctionProto) -> Key:
    """What a call and its function share."""
    name = item.op_type if isinstance(item, onnx.NodeProto) else item.name
    return domain_of(item), name, item.overload


def names_in(model: ModelProto) -> set[str]:
    """Every name of a node or a value, wherever in a model."""
    nodes, graphs = _parts(model)
    names = {name for node in nodes for name in (node.name, *node.input, *node.output)}
    for graph in graphs:
        names.update(
            value.name for value in (*graph.input, *graph.output, *graph.value_info)
        )
        names.update(tensor.name for tensor in graph.initializer)
        names.update(tensor.values.name for tensor in graph.sparse_initializer)
    for function in model.functions:
        names.update((*function.input, *function.output))
    return names


def external_files(model: ModelProto) -> list[str]:
    """The files of a model's external data, as it names them, sorted."""
    nodes, graphs = _parts(model)
    attributes = [attribute for node in nodes for attribute in node.attribute]
    sparse = [tensor for graph in graphs for tensor in graph.sparse_initializer]
    sparse += [
        one for each in attributes for one in (each.sparse_tensor, *each.sparse_tensors)
    ]
    tensors = [tensor for graph in graphs for tensor in graph.initializer]
    tensors += [tensor for each in attributes for tensor in (each.t, *each.tensors)]
    tensors += [tensor for one in sparse for tensor in (one.values, one.indices)]
    entries = (entry for tensor in tensors for entry in tensor.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"})


def _parts(model: ModelProto) -> tuple[list[onnx.NodeProto], list[onnx.GraphProto]]:
    """The nodes and the graphs of a model, those in bodies, functions and training too.

    The defaults of a function's attributes count as a node of its own.
    """
    graphs = [model.graph]
    for training in model.training_info:
        graphs += (training.initialization, training.algorithm)
    defaults = [
        onnx.NodeProto(attribute=one.attribute_proto) for one in model.functions
    ]
    owners = (*graphs, *model.functions)
    nodes = [*all_nodes(chain(defaults, *(owner.node for owner in owners)))]
    return nodes, [*graphs, *(body for node in nodes for _, body in bodies_of(node))]
