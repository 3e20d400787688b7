"""Computations of shapes, which ONNX Runtime leaves on the CPU whatever the provider."""

from __future__ import annotations

import math

from onnxgather.networks.network import Network, Operation, Scope

SMALL_INITIALIZER = 100
"""The most elements of an initializer that a node on the CPU may take."""

_SOURCES = ("Shape", "Size")
_ENDS = ("Range", "Expand", "ConstantOfShape", "Reshape")
"""Operators whose inputs on the CPU the DirectML provider asks for itself."""

_FLOATS = ("FLOAT16", "BFLOAT16")


def shape_computations(network: Network) -> set[Operation]:
    """The nodes that ONNX Runtime leaves on the CPU, as they compute shapes.

    Source: GetCpuPreferredNodes. It walks on from Shape and Size; a node stays on the CPU if each
    of its inputs is a value on the CPU, a graph input or a small initializer.
    """
    found = set[Operation]()
    for graph in (network.main, *network.uncalled):
        _walk(graph, set(), {*graph.inputs}, found)
    return found


def _walk(graph: Scope, on_cpu: set[str], inputs: set[str], found: set[Operation]) -> None:
    """Add what is found in a graph to `found`, and the values on the CPU to `on_cpu`."""

    def stays(name: str) -> bool:
        known = graph.type_of(name)
        if known.data_type in _FLOATS or known.data_type.startswith("FLOAT8"):
            return False
        small = (
            graph.is_constant(name)
            and math.prod(n or 0 for n in known.sizes or ()) <= SMALL_INITIALIZER
        )
        return not name or name in on_cpu or name in inputs or small

    for node in graph.nodes:
        for key, body in node.graphs.items():
            inner, free = set[str](), {*body.inputs}
            if key == "function":  # it is part of the graph that calls it
                pairs = [*zip(body.inputs, node.inputs, strict=False)]
                inner = {name for name, value in pairs if value in on_cpu}
                free = {name for name, value in pairs if value in inputs}
            _walk(body, inner, free, found)
            outputs = zip(node.outputs, body.outputs, strict=False)
            on_cpu.update(n for n, made in outputs if key == "function" and made in inner)
        if node.operator in _SOURCES and not node.domain:
            on_cpu.update(node.outputs)
        elif (
            not (node.domain or node.graphs or node.operator in _ENDS)
            and not on_cpu.isdisjoint(node.inputs)
            and all(map(stays, node.inputs))
        ):
            found.add(node)
            on_cpu.update(node.outputs)
