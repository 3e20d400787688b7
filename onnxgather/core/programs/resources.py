"""Resources: named buffers, and the values that each holds before the first command."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace
from numpy.lib import format as npy

from onnxgather.core.descriptors.arrays import FAULTS_OF_NPY, Array
from onnxgather.core.descriptors.datatypes import (
    TYPE_PREFIX,
    TensorDataType,
    suggested_type,
)
from onnxgather.core.documents import UINT32_MAX, Field, quoted
from onnxgather.core.errors import FileFormatError

Bytes = npt.NDArray[np.uint8]

_NOT_FINITE = ("nan", "inf", "-inf")
_NPY_HEADERS = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
    (3, 0): npy.read_array_header_2_0,
}
_NPY_TYPES = {data_type.numpy: data_type for data_type in TensorDataType}
_NPY_TYPES[np.dtype(bool)] = TensorDataType.INT8


class Values(Struct, frozen=True):
    """Initial values: checked when they are read, computed when they are first needed.

    So a program with large resources can be read without the memory for them.
    """

    data_type: TensorDataType | None
    """The type of the values; None if each value has a type of its own, or the type is
    not in the file."""
    size: int
    """The size in bytes."""
    to_bytes: Callable[[], Bytes]
    file: str | None = None
    """The file that holds the values; None if the program itself gives them."""


class Resource(Struct, frozen=True):
    """A buffer and what it holds before the first command."""

    values: Values
    size_in_bytes: int
    """The size of the buffer; zeros follow the initial values."""
    path: str

    @property
    def data_type(self) -> TensorDataType | None:
        """Return the type that all initial values share, or None."""
        return self.values.data_type

    def initial_bytes(self) -> Bytes:
        """Make a new buffer with the initial values.

        Raises:
            FileFormatError: It does not fit into memory, or a file cannot be read.
        """
        try:
            buffer = np.zeros(self.size_in_bytes, np.uint8)
            buffer[: self.values.size] = self.values.to_bytes()
        except MemoryError:
            rule = f"there is no memory for its {self.size_in_bytes} bytes"
            raise FileFormatError(f"{self.path}: {rule}") from None
        return buffer


def read_resource(field: Field, folder: str, *, allow_outside: bool) -> Resource:
    """Read a resource; its fields are checked and its values are not computed yet.

    Args:
        field: The resource.
        folder: Where source files are looked for first.
        allow_outside: Whether source files may be outside of that folder and of the
            current folder.

    Raises:
        FileFormatError: DxDispatch does not read the resource, or it is deferred or an
            image.
    """
    data_type = _data_type(field.member("initialValuesDataType", "UNKNOWN"))
    initial = field.member("initialValues")
    rule = (
        "must be values, as a deferred resource cannot be bound to a DirectML operator"
    )
    initial.require(not isinstance(initial.value, str), rule)
    if isinstance(initial.value, dict):
        values = _generated(field, data_type, folder, allow_outside)
    elif not isinstance(initial.value, list):
        raise initial.error("must be an array or an object")
    elif data_type is None:
        numbers = [_typed_number(item) for item in initial.items()]
        values = _listed(None, numbers)
    else:
        values = _listed(data_type, [read_numbers(data_type, initial)])
    initial.require(values.size > 0, "must hold at least one value", "none")
    # An offset is checked and never applied: DxDispatch puts the values at byte 0 all
    # the same.
    offset = field.member("initialValuesOffsetInBytes", 0).unsigned()
    needed = values.size + offset
    default_size = (values.size + 3) // 4 * 4  # DxDispatch rounds up to 4 bytes
    size = field.member("sizeInBytes", default_size)
    rule = f"must be at least {needed}, the initial values and their offset"
    size.require(size.unsigned() >= needed, rule)
    rule = f"must take at most {UINT32_MAX} bytes"
    field.require(size.unsigned() <= UINT32_MAX, rule, size.value)
    return Resource(values, size.unsigned(), field.path)


def read_numbers(data_type: TensorDataType, field: Field) -> Array:
    """Read an array of numbers of one type.

    Integer types accept integers in range. Float types accept numbers, and "nan", "inf"
    and "-inf" in any case.
    """
    return _numbers(data_type, field.array(), field.item)


def refuse_image(field: Field) -> None:
    """Raise FileFormatError for a path with the extension of an image."""
    is_image = field.text().lower().endswith((".jpg", ".png"))
    rule = "must not be an image, as only arrays and raw bytes are translated"
    field.require(not is_image, rule)


def is_npy(field: Field) -> bool:
    """Return whether a path is that of an .npy file."""
    return field.text().lower().endswith(".npy")


def _data_type(field: Field) -> TensorDataType | None:
    """Read a data type; UNKNOWN is None, as DxDispatch ignores a field with it."""
    name = field.text().removeprefix(TYPE_PREFIX)
    if name == "UNKNOWN":
        return None
    if name not in TensorDataType.__members__:
        rule = f"must be one of {', '.join(TensorDataType)}"
        raise field.error(rule, quoted(field.value) + suggested_type(field.text()))
    return TensorDataType(name)


def _listed(data_type: TensorDataType | None, parts: list[Array]) -> Values:
    empty = np.empty(0, np.uint8)
    content = np.concatenate([empty, *(part.view(np.uint8) for part in parts)])
    return Values(data_type, content.size, lambda: content)


def _typed_number(field: Field) -> Array:
    """Read `{"type": ..., "value": ...}`."""
    rule = "must have a type, as the resource has no initialValuesDataType"
    field.require(isinstance(field.value, dict), rule)
    type_field = field.member("type")
    data_type = _data_type(type_field)
    if data_type in (None, TensorDataType.FLOAT16):
        raise type_field.error("must be a type other than FLOAT16")
    return _number(data_type, field.member("value"))


def _generated(
    resource: Field, data_type: TensorDataType | None, folder: str, allow_outside: bool
) -> Values:
    """Read values that are not listed: repeated, in a sequence, or from a file."""
    initial = resource.member("initialValues")
    kinds = [
        kind
        for kind in ("value", "valueStart", "sourcePath")
        if kind in initial.fields()
    ]
    rule = "must have one of value, valueStart and sourcePath"
    initial.require(bool(kinds), rule, "none")
    # DxDispatch refuses only what stands beside `value`.
    if kinds[0] == "value":
        initial.require(len(kinds) == 1, rule, "several")
    kind = kinds[0]
    # Case 1: the values are the content of a file.
    if kind == "sourcePath":
        path = initial.member("sourcePath")
        source = _source(path, folder, allow_outside)
        data_type = data_type or source.data_type
        if data_type is None:
            raise _missing_type(resource)
        rule = f"must hold {data_type}, as initialValuesDataType says"
        agrees = source.data_type in (None, data_type)
        path.about("the .npy file").require(agrees, rule, source.data_type)
        return replace(source, data_type=data_type)

    # Case 2: the values repeat, or each adds a number to the value before it.
    if data_type is None:
        raise _missing_type(resource)
    first = _number(data_type, initial.member(kind))
    delta = None
    if kind == "valueStart":
        delta = _number(data_type, initial.member("valueDelta"))
    count = initial.member("valueCount").unsigned(UINT32_MAX)

    def content() -> Bytes:
        return _repeated(first, delta, count).view(np.uint8)

    return Values(data_type, count * data_type.size, content)


def _missing_type(resource: Field) -> FileFormatError:
    declared = f"{resource.path}.initialValuesDataType"
    return FileFormatError(f"{declared} is required for these values")


def _repeated(first: Array, delta: Array | None, count: int) -> Array:
    """Return a value repeated, or with `delta` added each time.

    The sum is taken in the data type itself: integers wrap, and floats round at each
    step.
    """
    if delta is None:
        return np.repeat(first, count)
    values = np.repeat(delta, count)
    values[:1] = first
    with np.errstate(all="ignore"):
        return np.add.accumulate(values, out=values)


def _number(data_type: TensorDataType, field: Field) -> Array:
    """Read one number, as an array of one element."""
    return _numbers(data_type, [field.value], lambda _: field)


def _numbers(
    data_type: TensorDataType, values: list[object], field_of: Callable[[int], Field]
) -> Array:
    """Read numbers of one type.

    Args:
        data_type: The type.
        values: The numbers.
        field_of: Returns the field of a number by its position.
    """
    # Case 1: integers.
    if data_type.numpy.kind in "iu":
        limits = np.iinfo(data_type.numpy)
        low = int(limits.min)
        high = int(limits.max)
        for position, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                rule = f"must be an integer from {low} to {high}"
                raise field_of(position).error(rule)
        return np.array(values, data_type.numpy)

    # Case 2: floats.
    floats = [
        _float(value, position, field_of) for position, value in enumerate(values)
    ]
    numbers = np.array(floats, np.float64)
    with np.errstate(all="ignore"):
        # DxDispatch goes through FLOAT32 to FLOAT16, which can round twice.
        if data_type is TensorDataType.FLOAT16:
            numbers = numbers.astype(np.float32)
        return numbers.astype(data_type.numpy)


def _float(value: object, position: int, field_of: Callable[[int], Field]) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        if int(float(value)) != value:
            rule = "must be an integer that FLOAT64 holds exactly"
            raise field_of(position).error(rule)
        return float(value)
    if isinstance(value, str) and value.lower() in _NOT_FINITE:
        return float(value)
    raise field_of(position).error('must be a number, "nan", "inf" or "-inf"')


def _source(field: Field, folder: str, allow_outside: bool) -> Values:
    """Read what a `sourcePath` names."""
    refuse_image(field)
    path = _find(field, folder, allow_outside)
    offset = 0
    dtype = np.dtype(np.uint8)
    data_type = None
    with field.opening(), open(path, "rb") as file:
        size_of_file = os.fstat(file.fileno()).st_size
        if is_npy(field):
            dtype, data_type = _npy_type(field, file, size_of_file)
            offset = file.tell()
    # What follows an .npy array belongs to the resource too: the padding that writeFile
    # wrote.
    size = size_of_file - offset

    def content() -> Bytes:
        with field.opening(path):
            values = np.fromfile(path, np.uint8, offset=offset)
        if values.size != size:
            rule = "the file changed while it was used"
            raise FileFormatError(f"{field.path}: {rule}: {path}")
        if not dtype.isnative:
            count = size // dtype.itemsize
            whole_elements = values[: count * dtype.itemsize]
            whole_elements.view(dtype).byteswap(inplace=True)
        return values

    return Values(data_type, size, content, path)


def _find(field: Field, folder: str, allow_outside: bool) -> str:
    """Find a file in the program's folder, else in the current one, as DxDispatch does.

    Where no file has the name as it is, its backslashes are read as slashes.
    """
    name = field.text()
    name_with_slashes = name.replace("\\", "/")
    folders = (folder, os.getcwd())
    candidates: list[str] = []
    for root in folders:
        for spelling in (name, name_with_slashes):
            candidates.append(os.path.realpath(os.path.join(root, spelling)))
    path = next(filter(os.path.exists, candidates), candidates[0])

    is_inside = any(
        Path(path).is_relative_to(os.path.realpath(root)) for root in folders
    )
    rule = (
        "must stay in the folder of the program or the current folder without"
        " --allow-outside"
    )
    field.require(allow_outside or is_inside, rule)
    rule = "must be a file that exists"
    if name != name_with_slashes:
        rule += ", its backslashes read as slashes too"
    field.require(os.path.exists(path), rule)
    field.require(os.path.isfile(path), "must be a file, not a folder or a device")
    return path


def _npy_type(
    field: Field, file: BinaryIO, size: int
) -> tuple[np.dtype[Any], TensorDataType]:
    """Read the header of an .npy file of `size` bytes; return its two data types.

    The first is numpy's, with the order of bytes; the second is DirectML's.
    """
    npy_file = field.about("the .npy file")
    header = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remark on files of Python 2
            version = npy.read_magic(file)
            if version in _NPY_HEADERS:
                header = _NPY_HEADERS[version](file)
    except FAULTS_OF_NPY:
        raise field.error("must be a well-formed .npy file") from None
    if header is None:
        number = ".".join(map(str, version))
        raise npy_file.error("must have version 1.0, 2.0 or 3.0", number)
    shape, in_fortran_order, dtype = header
    data_type = _NPY_TYPES.get(dtype.newbyteorder("="))
    if data_type is None:
        elements = dtype if dtype.names is None else "a structure"
        raise npy_file.error("must hold numbers", elements)
    rule = "must be an .npy file in C order, not in Fortran order"
    field.require(not in_fortran_order, rule)
    size_of_array = size - file.tell()
    needed = math.prod(shape) * data_type.size
    has_negative_size = min(shape, default=0) < 0
    fits = not has_negative_size and size_of_array >= needed
    rule = f"must hold {needed} bytes for its shape"
    npy_file.require(fits, rule, size_of_array)
    return dtype, data_type
