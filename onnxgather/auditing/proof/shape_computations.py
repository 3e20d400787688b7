"""Computations of shapes, which ONNX Runtime leaves on the CPU for any provider."""

from __future__ import annotations

import math

from onnxgather.core.model.network import Network, Operation, Scope

SMALL_INITIALIZER = 100
"""The most elements of an initializer that is an input of a node on the CPU."""

_SOURCES = ("Shape", "Size")
_ENDS = ("Range", "Expand", "ConstantOfShape", "Reshape")
"""Operators whose inputs on the CPU the DirectML provider asks for itself."""

_FLOATS = ("FLOAT16", "BFLOAT16")


def shape_computations(network: Network) -> set[Operation]:
    """Return the operations that compute shapes, which ONNX Runtime leaves on the CPU.

    Source: GetCpuPreferredNodes. It walks on from Shape and Size; a node stays on the
    CPU if each of its inputs is a value on the CPU, a graph input or a small
    initializer.
    """
    operations: set[Operation] = set()
    for scope in (network.main, *network.uncalled.values()):
        _walk(scope, set(), {*scope.inputs}, operations)
    return operations


def _walk(
    scope: Scope, on_cpu: set[str], inputs: set[str], found: set[Operation]
) -> None:
    """Add shape computations of a scope to `found`, and their values to `on_cpu`."""
    for operation in scope.operations:
        for key, body in operation.bodies.items():
            if key == "function":
                inner_on_cpu: set[str] = set()
                inner_inputs: set[str] = set()
                for inner, outer in zip(body.inputs, operation.inputs, strict=False):
                    if outer in on_cpu:
                        inner_on_cpu.add(inner)
                    if outer in inputs:
                        inner_inputs.add(inner)
                _walk(body, inner_on_cpu, inner_inputs, found)
                for outer, inner in zip(operation.outputs, body.outputs, strict=False):
                    if inner in inner_on_cpu:
                        on_cpu.add(outer)
            else:  # a body starts anew
                _walk(body, set(), {*body.inputs}, found)

        if operation.operator in _SOURCES and not operation.domain:
            on_cpu.update(operation.outputs)
            continue
        if operation.domain or operation.bodies or operation.operator in _ENDS:
            continue
        # A node that no Shape leads to is no computation of shapes.
        if on_cpu.isdisjoint(operation.inputs):
            continue
        if all(_stays(scope, name, on_cpu, inputs) for name in operation.inputs):
            found.add(operation)
            on_cpu.update(operation.outputs)


def _stays(scope: Scope, name: str, on_cpu: set[str], inputs: set[str]) -> bool:
    """Return whether a node on the CPU may have a value as its input."""
    value_type = scope.type_of(name)
    data_type = value_type.data_type
    if data_type in _FLOATS or data_type.startswith("FLOAT8"):
        return False
    # An input that is left out has no name.
    if not name or name in on_cpu or name in inputs:
        return True
    count = math.prod(size or 0 for size in value_type.sizes or ())
    return scope.is_constant(name) and count <= SMALL_INITIALIZER
