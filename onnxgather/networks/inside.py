"""Parts of a model as models of their own, and the types that ONNX infers for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import onnx
from onnx import helper

from onnxgather.descriptors.arrays import Array
from onnxgather.model.values import serialized
from onnxgather.networks.network import (
    Network,
    Scope,
    read_network,
    taken,
)


def _leading(
    scope: Scope, count: int, wanted: Iterable[str], given: Collection[str]
) -> tuple[list[int], set[str]]:
    """The numbers of the first operations that lead to values, and the values that they need.

    Args:
        scope: The scope.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the values.
        given: The names of values that are not computed, nor needed.
    """
    kept, needed = list[int](), {*wanted}.difference(given)
    for k in reversed(range(count)):
        if not needed.isdisjoint(scope.operations[k].outputs):
            kept.append(k)
            needed |= taken(scope.operations[k]).difference(given)
    return kept[::-1], needed


def part_of(network: Network, wanted: Iterable[str], given: Mapping[str, Array]) -> Network:
    """The part of a network that computes values of its main graph, with all that it needs.

    Args:
        network: The network.
        wanted: The names of the values.
        given: Arrays by the names of values. They are inputs of the part, not computed there.
    """
    count, wanted = len(network.main.operations), list(wanted)
    _, needed = _leading(network.main, count, wanted, given)
    part = onnx.ModelProto.FromString(model_of(network, network.main, count, wanted, given))
    inputs = (value for value in network.proto.graph.input if value.name in needed)
    part.graph.input.extend(inputs)
    return read_network(replace(network, proto=part))


def model_of(
    network: Network, scope: Scope, count: int, wanted: Collection[str], fed: Mapping[str, Array]
) -> bytes:
    """A serialized model of operations of a scope, whose outputs are values of the scope.

    Args:
        network: The network of the scope.
        scope: Any of its scopes.
        count: How many of its operations there are to choose from, the first ones.
        wanted: The names of the outputs; the model has the operations that lead there.
        fed: The arrays of the inputs, by name.
    """
    own, model = scope.proto, onnx.ModelProto()
    model.ir_version = max(8, network.proto.ir_version)
    model.opset_import.extend(helper.make_opsetid(d, v) for d, v in scope.opsets.items())
    model.functions.extend(network.proto.functions)
    made = model.graph
    made.name = "inside"
    kept, needed = _leading(scope, count, wanted, fed)
    made.node.extend(own.node[k] for k in kept)
    made.initializer.extend(one for one in own.initializer if one.name in needed)
    sparse = (one for one in own.sparse_initializer if one.values.name in needed)
    made.sparse_initializer.extend(sparse)
    for name, array in fed.items():
        element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        made.input.append(helper.make_tensor_value_info(name, element_type, array.shape))
    made.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    return serialized(model)
