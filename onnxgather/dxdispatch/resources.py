"""Resources: named buffers with initial values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgather.datatypes import TensorDataType
from onnxgather.dxdispatch.files import read_source
from onnxgather.dxdispatch.node import UINT32_MAX, Node
from onnxgather.dxdispatch.values import (
    Bytes,
    Values,
    read_constant,
    read_data_type,
    read_list,
    read_sequence,
    read_typed_list,
)
from onnxgather.errors import FileFormatError


@dataclass(frozen=True, slots=True)
class Resource:
    """A buffer and what it holds before the first command."""

    data_type: TensorDataType | None
    """The type of the initial values; None for a list whose elements have types of their own."""
    values: Values
    size_in_bytes: int
    """The size of the buffer; zeros follow the initial values."""
    path: str

    def initial_bytes(self) -> Bytes:
        """Return a new buffer with the initial values.

        Raises:
            FileFormatError: It does not fit into memory, or a file cannot be read.
        """
        try:
            buffer = np.zeros(self.size_in_bytes, np.uint8)
            buffer[: self.values.size] = self.values.to_bytes()
        except MemoryError:
            raise FileFormatError(
                f"{self.path}: there is no memory for its {self.size_in_bytes} bytes"
            ) from None
        return buffer


def read_resource(node: Node, folder: str, *, allow_outside: bool) -> Resource:
    """Return a resource; its form is checked and its values are not computed yet.

    Args:
        node: The resource.
        folder: Where source files are looked for first.
        allow_outside: Whether source files may be outside it and the current folder.

    Raises:
        FileFormatError: The resource is not one that DxDispatch reads.
    """
    declared = node.optional("initialValuesDataType")
    data_type = read_data_type(declared) if declared else None
    initial = node.field("initialValues")
    if isinstance(initial.value, str):
        raise initial.error(
            "must be values, as a deferred resource cannot be bound to a DirectML operator"
        )
    if isinstance(initial.value, dict):
        values, data_type = _generated(node, initial, data_type, folder, allow_outside)
    elif not isinstance(initial.value, list):
        raise initial.error("must be an array or an object")
    elif data_type is None:
        values = read_typed_list(initial)
    else:
        values = read_list(data_type, initial)
    if values.size == 0:
        raise FileFormatError(f"{initial.path} must hold at least one value, got none")
    return Resource(data_type, values, _size(node, values.size), node.path)


def _generated(
    node: Node,
    initial: Node,
    data_type: TensorDataType | None,
    folder: str,
    allow_outside: bool,
) -> tuple[Values, TensorDataType]:
    fields = initial.fields()
    if "value" in fields and ("valueStart" in fields or "sourcePath" in fields):
        raise FileFormatError(
            f"{initial.path} must have one of value, valueStart and sourcePath, got several"
        )
    if "value" in fields:
        data_type = _required(node, data_type)
        return read_constant(data_type, initial), data_type
    if "valueStart" in fields:
        data_type = _required(node, data_type)
        return read_sequence(data_type, initial), data_type
    if "sourcePath" not in fields:
        raise FileFormatError(
            f"{initial.path} must have one of value, valueStart and sourcePath, got none"
        )
    source = initial.field("sourcePath")
    values, found = read_source(source, folder, allow_outside=allow_outside)
    data_type = _required(node, data_type or found)
    if found not in (None, data_type):
        raise FileFormatError(
            f"{source.path}: the .npy file must hold {data_type}, as initialValuesDataType says, "
            f"got {found}"
        )
    return values, data_type


def _required(node: Node, data_type: TensorDataType | None) -> TensorDataType:
    if data_type is None:
        raise FileFormatError(f"{node.path}.initialValuesDataType is required for these values")
    return data_type


def _size(node: Node, values: int) -> int:
    declared = node.optional("sizeInBytes")
    # An offset is checked and never applied: DxDispatch puts the values at byte 0 all the same.
    needed = values + node.unsigned_field("initialValuesOffsetInBytes")
    size = declared.unsigned() if declared else (values + 3) // 4 * 4
    if needed > size:
        raise FileFormatError(
            f"{node.path}.sizeInBytes must be at least {needed}, the initial values and their "
            f"offset, got {size}"
        )
    if size > UINT32_MAX:
        raise FileFormatError(f"{node.path} must take at most {UINT32_MAX} bytes, got {size}")
    return size
