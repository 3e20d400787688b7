"""Operations of a model that are alike: they share types and bounds.

The layers of a model repeat the same operations, and so do the graphs that ONNX Runtime
makes of it. What depends on nothing but an operator, its attributes and its inputs is
computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import onnx

from onnxgather.auditing.algebra.bounds import Bounds, settle
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.inference import types_read
from onnxgather.auditing.operators.output_bounds import OF_SIZES
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation

LARGEST_SHARED = 512
"""The most bytes of a constant that is compared with others."""

_Key = tuple[object, ...]


class _Outputs(NamedTuple):
    """The outputs of an operation."""

    inputs: Sequence[Bounds | None]
    """They are kept, as the key contains their identities."""
    values: Sequence[Bounds]
    label: str
    """What `stops` of the values contains if they depend on the operation's name."""


class Alike:
    """What operations of one model have computed, for others that are alike.

    It is for graphs of a model whose inputs have the same open sizes.
    """

    def __init__(self) -> None:
        self._constants: dict[_Key, Bounds] = {}
        self._types: dict[_Key, tuple[Sequence[Bounds | None], list[OpenType]]] = {}
        self._outputs: dict[_Key, _Outputs] = {}

    def constant(
        self, tensor: onnx.TensorProto, read: Callable[[], Bounds]
    ) -> Bounds | None:
        """Return the value of a small constant; None if it is large or elsewhere.

        Args:
            tensor: The constant.
            read: Returns its value.
        """
        if not tensor.HasField("raw_data"):
            return None
        content = tensor.raw_data
        if len(content) > LARGEST_SHARED:
            return None
        key = (tensor.data_type, *tensor.dims, content)
        value = self._constants.get(key)
        if value is None:
            value = read()
            # Else it cannot be read, and its name says so.
            if not value.stops:
                self._constants[key] = value
        return value

    def types(
        self,
        call: Call,
        compute: Callable[[], tuple[list[OpenType], bool]],
        keeps: bool,
    ) -> tuple[list[OpenType], bool]:
        """Return the types of the outputs of an operation, and whether they are new.

        Args:
            call: The operation, with its inputs.
            compute: Returns the types, and whether a size of them is new: it stands for
                a number that no other operation has.
            keeps: Whether the types are kept for others.
        """
        key = _key(call, _typed_inputs(call))
        if key is None:
            return compute()
        kept = self._types.get(key)
        if kept is not None:
            return kept[1], False
        types, are_new = compute()
        if keeps and not are_new:
            self._types[key] = (call.inputs, types)
        return types, are_new

    def outputs(self, call: Call) -> Sequence[Bounds] | None:
        """Return the outputs of an operation that is alike; None without one.

        Args:
            call: The operation, with its inputs. Its types need not be there.
        """
        key = _key(call, _own_inputs(call))
        kept = self._outputs.get(key) if key is not None else None
        if key is None or kept is None:
            return None
        for value in kept.values:
            settle(value)
            # Another operation has another name.
            if kept.label in value.stops:
                del self._outputs[key]
                return None
        return kept.values

    def keep_outputs(self, call: Call, values: Sequence[Bounds]) -> None:
        """Keep the outputs of an operation whose types follow from its inputs."""
        key = _key(call, _own_inputs(call))
        if key is not None:
            operation = call.operation
            label = f"{operation.operator} {operation.label}"
            self._outputs[key] = _Outputs(call.inputs, values, label)


def _typed_inputs(call: Call) -> _Key:
    """Return the inputs as types read them: most as types, some as the values."""
    typed: list[object] = []
    for position, value in enumerate(call.inputs):
        if value is None:
            typed.append(None)
        elif value.data_type in types_read(call.operation, position):
            typed.append(id(value))
        else:
            typed.append((value.data_type, value.sizes))
    return tuple(typed)


def _own_inputs(call: Call) -> _Key:
    """Return the inputs as bounds read them."""
    if call.operator in OF_SIZES:
        return _typed_inputs(call)
    return tuple(map(id, call.inputs))


def _key(call: Call, inputs: _Key) -> _Key | None:
    """Return what is the same for operations that are alike; None if it is not known.

    Args:
        call: The operation.
        inputs: What counts of its inputs.
    """
    operation = call.operation
    if operation.domain or operation.bodies:
        return None
    outputs = tuple(map(bool, operation.outputs))
    attributes = _attributes(operation)
    key = (operation.operator, call.version, outputs, attributes, inputs)
    try:
        hash(key)
    except TypeError:  # an attribute is no number, text or array
        return None
    return key


def _attributes(operation: Operation) -> _Key:
    """Return the attributes of an operation, with arrays as bytes."""
    attributes: list[object] = []
    for name, value in operation.attributes.items():
        own: object = value
        kind: type[object] = type(own)
        if kind is np.ndarray:
            array = cast("Array", value)
            if array.dtype != object:
                own = (array.dtype, array.shape, array.tobytes())
        attributes.append((name, kind, own))
    return tuple(attributes)
