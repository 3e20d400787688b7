"""The bounds of another graph of the same model, which save work in the next graph.

The graphs that ONNX Runtime makes of a model share most nodes with the file. If a node
has the same inputs in both graphs, it has the same outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import onnx

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.algebra.sizes import Size
from onnxgather.auditing.proof.alike import Alike
from onnxgather.core.model.network import Operation, Scope

RELATED = {"Where"}
"""The operators whose bounds depend on more than the bounds of their inputs."""


class GraphBounds(Protocol):
    """The bounds of the values of a graph, such as `Ranges`."""

    sizes: Mapping[str, Size]
    """The open sizes of its inputs, by name."""
    alike: Alike
    """What its operations have computed."""

    def value(self, scope: Scope, name: str) -> Bounds:
        """Return the bounds of a value of a scope."""
        ...

    def producer(self, scope: Scope, name: str) -> Operation | None:
        """Return the operation that computes a value."""
        ...


class EarlierGraph:
    """The main graph whose bounds are used again.

    Args:
        main: The main graph.
        bounds: The bounds of its values.
    """

    def __init__(self, main: Scope, bounds: GraphBounds) -> None:
        self.sizes = bounds.sizes
        self.alike = bounds.alike
        self._main = main
        self._bounds = bounds

    def shared(self, name: str, value: Bounds) -> Bounds:
        """Return the bounds of the value of that name here, if they are the same.

        Then the same object stands for both, and what follows need not compare.

        Args:
            name: The name.
            value: The bounds in another graph.
        """
        if name not in self._main.types:
            return value
        own = self._bounds.value(self._main, name)
        return own if _is_same(own, value) else value

    def constant(self, name: str, tensor: onnx.TensorProto) -> Bounds | None:
        """Return the bounds of the constant of that name here, if it is the same.

        Args:
            name: The name.
            tensor: The constant of another graph.
        """
        if name not in self._main.types:
            return None
        own_tensor = self._main.tensor(name)
        if own_tensor is None or not _is_same_tensor(own_tensor, tensor):
            return None
        return self._bounds.value(self._main, name)

    def outputs(
        self,
        scope: Scope,
        operation: Operation,
        inputs: Sequence[Bounds | None],
    ) -> list[Bounds] | None:
        """Return the outputs of an operation of another graph, if it is the same here.

        Args:
            scope: The main graph that contains the operation.
            operation: The operation.
            inputs: The bounds of its inputs there.

        Returns:
            None if the operation, its version or the bounds of its inputs are others.
        """
        if operation.bodies or operation.operator in RELATED:
            return None
        own = self._bounds.producer(self._main, operation.outputs[0])
        if own is None or own.outputs != operation.outputs:
            return None
        version = self._main.opsets.get(own.domain)
        if version != scope.opsets.get(operation.domain):
            return None
        if not _is_same_operator(own, operation, version):
            return None
        # Another name does not matter, as the outputs depend on the bounds alone.
        own_inputs = [
            self._bounds.value(self._main, name) if name else None
            for name in own.inputs
        ]
        if len(own_inputs) != len(inputs):
            return None
        if not all(map(_is_same, own_inputs, inputs)):
            return None
        return [self._bounds.value(self._main, name) for name in own.outputs]


def _is_same_tensor(a: onnx.TensorProto, b: onnx.TensorProto) -> bool:
    """Return whether two constants surely have the same type, sizes and bytes."""
    if not (a.HasField("raw_data") and b.HasField("raw_data")):
        return False
    if a.data_type != b.data_type or a.dims != b.dims:
        return False
    return a.raw_data == b.raw_data


def _is_same(a: Bounds | None, b: Bounds | None) -> bool:
    """Return whether two values have the same type, sizes and bounds."""
    if a is b:
        return True
    if a is None or b is None:
        return False
    if a.data_type != b.data_type:
        return False
    if a.sizes != b.sizes:
        return False
    if a.nan != b.nan:
        return False
    return _has_equal_bounds(a, b)


def _has_equal_bounds(a: Bounds, b: Bounds) -> bool:
    """Return whether the bounds of two values say the same of each element."""
    # Equal numbers of another type may still lead to other results, as integers wrap.
    if a.bounds.dtype != b.bounds.dtype:
        return False
    if a.bounds.ndim != b.bounds.ndim:
        return False
    for size, other in zip(a.bounds.shape, b.bounds.shape, strict=True):
        # Where all elements along an axis have the same bounds, the axis may have size
        # 1 in one of the arrays.
        is_common = size == 1 or other == 1
        if size != other and not is_common:
            return False
    is_equal = np.equal(a.bounds, b.bounds)
    return bool(is_equal.all())


def _is_same_operator(a: Operation, b: Operation, version: int | None) -> bool:
    """Return whether two operations have the same operator and attributes.

    One may have an attribute that the other leaves out (`quirks.WRITTEN_DEFAULTS`).
    """
    if a.operator != b.operator:
        return False
    if a.domain != b.domain:
        return False
    own = _attributes(a)
    other = _attributes(b)
    if own == other:
        return True
    # The model imports no version of the domain, so the defaults are not known.
    if version is None:
        return False
    defaults = _defaults(a.operator, version, a.domain)
    own_with_defaults = defaults | own
    other_with_defaults = defaults | other
    return own_with_defaults == other_with_defaults


@lru_cache(maxsize=1024)
def _defaults(operator: str, version: int, domain: str) -> dict[str, bytes]:
    """Return the defaults of the attributes of an operator; none if onnx lacks it."""
    try:
        schema = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return {}
    defaults: dict[str, bytes] = {}
    for name, attribute in schema.attributes.items():
        default = attribute.default_value
        # An attribute without a default has one without a type.
        if default.type:
            defaults[name] = _bytes_of(default)
    return defaults


def _attributes(operation: Operation) -> dict[str, bytes]:
    """Return the attributes of an operation, by name, as bytes that compare."""
    attributes: dict[str, bytes] = {}
    for attribute in operation.proto.attribute:
        attributes[attribute.name] = _bytes_of(attribute)
    return attributes


def _bytes_of(attribute: onnx.AttributeProto) -> bytes:
    return attribute.SerializeToString(deterministic=True)
