"""The initial values of a resource: what each form of `initialValues` stands for, as bytes.

A form is checked when it is read and computed when it is needed, so that a program whose
resources are large can be read without holding them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onnxgather.arrays import Array
from onnxgather.datatypes import TensorDataType
from onnxgather.dxdispatch.node import UINT32_MAX, Node

Bytes = npt.NDArray[np.uint8]

_NOT_FINITE = ("nan", "inf", "-inf")


class Values(Protocol):
    """Initial values that know their size before they are computed."""

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    def to_bytes(self) -> Bytes:
        """Compute the bytes."""
        ...


@dataclass(frozen=True, slots=True)
class ListValues:
    """Values written out one by one."""

    content: Bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.content.size

    def to_bytes(self) -> Bytes:
        """Return the bytes as they were read."""
        return self.content


@dataclass(frozen=True, slots=True)
class ConstantValues:
    """One value, repeated; the array has that one element."""

    value: Array
    count: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.count * self.value.itemsize

    def to_bytes(self) -> Bytes:
        """Repeat the value."""
        return np.repeat(self.value, self.count).view(np.uint8)


@dataclass(frozen=True, slots=True)
class SequenceValues:
    """Start, start + delta, ...; the array has these two elements."""

    start_and_delta: Array
    count: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.count * self.start_and_delta.itemsize

    def to_bytes(self) -> Bytes:
        """Add up in the type itself: integers wrap and floats round at each step."""
        values = np.repeat(self.start_and_delta[1:], self.count)
        values[:1] = self.start_and_delta[:1]
        with np.errstate(all="ignore"):
            np.add.accumulate(values, out=values)
        return values.view(np.uint8)


def read_list(data_type: TensorDataType, node: Node) -> ListValues:
    """Return a list of numbers of one type."""
    return ListValues(read_numbers(data_type, node).view(np.uint8))


def read_typed_list(node: Node) -> ListValues:
    """Return a list of `{"type": ..., "value": ...}`, packed one after the other."""
    parts: list[Bytes] = []
    for item in node.items():
        if not isinstance(item.value, dict):
            raise item.error("must have a type, as the resource has no initialValuesDataType")
        data_type = read_data_type(item.field("type"))
        if data_type in (None, TensorDataType.FLOAT16):
            raise item.field("type").error("must be a type other than FLOAT16")
        parts.append(read_number(data_type, item.field("value")).view(np.uint8))
    return ListValues(np.concatenate(parts) if parts else np.empty(0, np.uint8))


def read_constant(data_type: TensorDataType, node: Node) -> ConstantValues:
    """Return `{"value": ..., "valueCount": ...}`."""
    value = read_number(data_type, node.field("value"))
    return ConstantValues(value, node.field("valueCount").unsigned(UINT32_MAX))


def read_sequence(data_type: TensorDataType, node: Node) -> SequenceValues:
    """Return `{"valueStart": ..., "valueDelta": ..., "valueCount": ...}`."""
    ends = [read_number(data_type, node.field(name)) for name in ("valueStart", "valueDelta")]
    return SequenceValues(np.concatenate(ends), node.field("valueCount").unsigned(UINT32_MAX))


def read_data_type(node: Node) -> TensorDataType | None:
    """Return a data type, or None for UNKNOWN, which DxDispatch takes for "not given"."""
    name = node.text().removeprefix("DML_TENSOR_DATA_TYPE_")
    if name == "UNKNOWN":
        return None
    if name not in TensorDataType.__members__:
        raise node.error(f"must be one of {', '.join(TensorDataType)}")
    return TensorDataType(name)


def read_number(data_type: TensorDataType, node: Node) -> Array:
    """Return one number as an array of one element."""
    return read_numbers(data_type, Node([node.value], node.path), lambda _: node)


def read_numbers(
    data_type: TensorDataType, node: Node, item: Callable[[int], Node] | None = None
) -> Array:
    """Return an array of numbers of one type.

    Args:
        data_type: Integer types take integers in range, float types also other numbers and
            "nan", "inf" and "-inf" in any case.
        node: The JSON array.
        item: Where an element is, for error messages.
    """
    item = item or node.item
    values = node.array()
    if data_type.numpy.kind in "iu":
        limits = np.iinfo(data_type.numpy)
        low, high = int(limits.min), int(limits.max)
        for i, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                raise item(i).error(f"must be an integer from {low} to {high}")
        return np.array(values, data_type.numpy)
    numbers = np.array([_float(i, value, item) for i, value in enumerate(values)], np.float64)
    with np.errstate(all="ignore"):
        # DxDispatch goes through FLOAT32 to FLOAT16, which can round twice.
        if data_type is TensorDataType.FLOAT16:
            numbers = numbers.astype(np.float32)
        return numbers.astype(data_type.numpy)


def _float(index: int, value: object, item: Callable[[int], Node]) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        if int(float(value)) != value:
            raise item(index).error("must be an integer that FLOAT64 holds exactly")
        return float(value)
    if isinstance(value, str) and value.lower() in _NOT_FINITE:
        return float(value)
    raise item(index).error('must be a number, "nan", "inf" or "-inf"')
