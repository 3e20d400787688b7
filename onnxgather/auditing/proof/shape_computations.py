"""Computations of shapes, which ONNX Runtime leaves on the CPU whatever the provider."""

from __future__ import annotations

import math

from onnxgather.core.model.network import Network, Operation, Scope

SMALL_INITIALIZER = 100
"""The most elements of an initializer that a node on the CPU may take."""

_SOURCES = ("Shape", "Size")
_ENDS = ("Range", "Expand", "ConstantOfShape", "Reshape")
"""Operators whose inputs on the CPU the DirectML provider asks for itself."""

_FLOATS = ("FLOAT16", "BFLOAT16")


def shape_computations(network: Network) -> set[Operation]:
    """The operations that compute shapes, which ONNX Runtime leaves on the CPU.

    Source: GetCpuPreferredNodes. It walks on from Shape and Size; a node stays on the
    CPU if each of its inputs is a value on the CPU, a graph input or a small
    initializer.
    """
    found = set[Operation]()
    for scope in (network.main, *network.uncalled.values()):
        _walk(scope, set(), {*scope.inputs}, found)
    return found


def _walk(
    scope: Scope, on_cpu: set[str], inputs: set[str], found: set[Operation]
) -> None:
    """Add the shape computations of a scope to `found`, and their values to `on_cpu`."""

    def stays(name: str) -> bool:
        known = scope.type_of(name)
        if known.data_type in _FLOATS or known.data_type.startswith("FLOAT8"):
            return False
        count = math.prod(n or 0 for n in known.sizes or ())
        is_small = scope.is_constant(name) and count <= SMALL_INITIALIZER
        return not name or name in on_cpu or name in inputs or is_small

    for operation in scope.operations:
        for key, body in operation.bodies.items():
            inner, free = set[str](), {*body.inputs}
            if key == "function":  # it is part of the graph that calls it
                pairs = [*zip(body.inputs, operation.inputs, strict=False)]
                inner = {name for name, value in pairs if value in on_cpu}
                free = {name for name, value in pairs if value in inputs}
            _walk(body, inner, free, found)
            outputs = zip(operation.outputs, body.outputs, strict=False)
            on_cpu.update(
                n for n, made in outputs if key == "function" and made in inner
            )
        if operation.operator in _SOURCES and not operation.domain:
            on_cpu.update(operation.outputs)
        elif (
            not (operation.domain or operation.bodies or operation.operator in _ENDS)
            and not on_cpu.isdisjoint(operation.inputs)
            and all(map(stays, operation.inputs))
        ):
            found.add(operation)
            on_cpu.update(operation.outputs)
