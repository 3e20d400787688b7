"""Operations of a model that are alike: they share types and bounds.

The layers of a model repeat the same operations. What depends on nothing but an
operator, its attributes and its inputs is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np

from onnxgather.auditing.algebra.bounds import LIMITS, Bounds
from onnxgather.auditing.algebra.sizes import is_made_since, mark
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.inference import types_read
from onnxgather.auditing.operators.output_bounds import OF_SIZES
from onnxgather.auditing.operators.output_types_of_runtime import types_of_outputs
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation
from onnxgather.core.model.wire import StoredTensor, Weight

LARGEST_SHARED = 512
"""The most bytes of a constant that is compared with others."""

_Key = tuple[object, ...]

_Inputs = Sequence[Bounds | None]


class Alike:
    """What operations of one model have computed, for others that are alike."""

    def __init__(self) -> None:
        self._constants: dict[_Key, Bounds] = {}
        self._types: dict[_Key | None, tuple[_Inputs, list[OpenType]]] = {}
        """With the inputs, which are kept as the key contains their identities."""
        self._outputs: dict[_Key | None, tuple[_Inputs, Sequence[Bounds]]] = {}
        """Likewise."""

    def constant(self, tensor: Weight, read: Callable[[], Bounds]) -> Bounds:
        """Return the value of a constant; one for all small constants that are alike.

        Args:
            tensor: The constant.
            read: Returns its value.
        """
        if isinstance(tensor, StoredTensor) or not tensor.HasField("raw_data"):
            return read()
        content = tensor.raw_data
        if len(content) > LARGEST_SHARED:
            return read()
        key = (tensor.data_type, *tensor.dims, content)
        value = self._constants.get(key)
        if value is None:
            value = read()
            # Else it cannot be read, and its name says so.
            if not value.stops:
                self._constants[key] = value
        return value

    def types(self, call: Call, keeps: bool) -> list[OpenType]:
        """Return the types of the outputs of an operation.

        Args:
            call: The operation, with its inputs.
            keeps: Whether the types are kept for others.
        """
        key = _key(call, _typed_inputs(call))
        if key is not None and key in self._types:
            _, types = self._types[key]
            return types
        start = mark()
        types = types_of_outputs(call)
        if keeps and key is not None and _are_known(types, start):
            self._types[key] = (call.inputs, types)
        return types

    def outputs(self, call: Call) -> Sequence[Bounds] | None:
        """Return the outputs of an operation that is alike; None without one.

        Args:
            call: The operation, with its inputs. Its types need not be there.
        """
        key = _key(call, _bounding_inputs(call))
        kept = self._outputs.get(key)
        if kept is None:
            return None
        _, values = kept
        return values

    def keep_outputs(self, call: Call, values: Sequence[Bounds]) -> None:
        """Keep the outputs of an operation, if others that are alike have the same.

        Shapes and indices are computed with integers, and repeat in each layer. A size
        that no other operation has is not shared, nor what the operation itself stops.
        """
        if not all(value.data_type in LIMITS for value in values):
            return
        if _key(call, _typed_inputs(call)) not in self._types:
            return
        is_stopped_before = any(value.stops for value in call.given)
        if not is_stopped_before and any(value.stops for value in values):
            return
        key = _key(call, _bounding_inputs(call))
        self._outputs[key] = (call.inputs, values)


def _are_known(types: Iterable[OpenType], start: int) -> bool:
    """Return whether types follow from the inputs alone.

    A size that was made since a mark stands for a number that no other operation has.
    """
    for data_type, sizes in types:
        if not data_type or sizes is None:
            return False
        if any(size is None or is_made_since(size, start) for size in sizes):
            return False
    return True


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


def _bounding_inputs(call: Call) -> _Key:
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
