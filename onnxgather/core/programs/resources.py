"""Resources: named buffers, and the values that each holds before the first command."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from onnxgather.core.descriptors.arrays import Array
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
_NPY_TYPES = {t.numpy: t for t in TensorDataType} | {
    np.dtype(bool): TensorDataType.INT8
}


@dataclass(frozen=True, slots=True)
class Values:
    """Initial values: checked when they are read, computed when they are first needed.

    So a program with large resources can be read without the memory for them.
    """

    data_type: TensorDataType | None
    """The type of the values; None if each has a type of its own, or a file does not
    tell it."""
    size: int
    """The size in bytes."""
    to_bytes: Callable[[], Bytes]
    file: str | None = None
    """The file that holds the values; None if the program itself gives them."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A buffer and what it holds before the first command."""

    values: Values
    size_in_bytes: int
    """The size of the buffer; zeros follow the initial values."""
    path: str

    @property
    def data_type(self) -> TensorDataType | None:
        """The type that all initial values share, or None."""
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
            raise FileFormatError(
                f"{self.path}: there is no memory for its {self.size_in_bytes} bytes"
            ) from None
        return buffer


def read_resource(field: Field, folder: str, *, allow_outside: bool) -> Resource:
    """Read a resource; its fields are checked and its values are not computed yet.

    Args:
        field: The resource.
        folder: Where source files are looked for first.
        allow_outside: Whether source files may be outside that folder and the current one.

    Raises:
        FileFormatError: DxDispatch does not read the resource, or it is deferred or an image.
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
        values = _listed(None, *(_typed_number(item) for item in initial.items()))
    else:
        values = _listed(data_type, read_numbers(data_type, initial))
    initial.require(values.size > 0, "must hold at least one value", "none")
    # An offset is checked and never applied: DxDispatch puts the values at byte 0 all
    # the same.
    needed = values.size + field.member("initialValuesOffsetInBytes", 0).unsigned()
    size = field.member("sizeInBytes", (values.size + 3) // 4 * 4)
    rule = f"must be at least {needed}, the initial values and their offset"
    size.require(size.unsigned() >= needed, rule)
    rule = f"must take at most {UINT32_MAX} bytes"
    field.require(size.unsigned() <= UINT32_MAX, rule, size.value)
    return Resource(values, size.unsigned(), field.path)


def read_numbers(data_type: TensorDataType, field: Field) -> Array:
    """Read an array of numbers of one type.

    Integer types take integers in range. Float types take numbers, and "nan", "inf" and
    "-inf" in any case.
    """
    return _numbers(data_type, field.array(), field.item)


def refuse_image(field: Field) -> None:
    """Raise FileFormatError for a path with the extension of an image."""
    image = field.text().lower().endswith((".jpg", ".png"))
    field.require(
        not image, "must not be an image, as only arrays and raw bytes are translated"
    )


def is_npy(field: Field) -> bool:
    """Whether a path is that of an .npy file."""
    return field.text().lower().endswith(".npy")


def _data_type(field: Field) -> TensorDataType | None:
    """Read a data type; UNKNOWN is None, as DxDispatch takes it for an absent field."""
    name = field.text().removeprefix(TYPE_PREFIX)
    if name == "UNKNOWN":
        return None
    if name not in TensorDataType.__members__:
        rule = f"must be one of {', '.join(TensorDataType)}"
        raise field.error(rule, quoted(field.value) + suggested_type(field.text()))
    return TensorDataType(name)


def _listed(data_type: TensorDataType | None, *parts: Array) -> Values:
    content = np.concatenate(
        [np.empty(0, np.uint8), *(part.view(np.uint8) for part in parts)]
    )
    return Values(data_type, content.size, lambda: content)


def _typed_number(field: Field) -> Array:
    """Read `{"type": ..., "value": ...}`."""
    rule = "must have a type, as the resource has no initialValuesDataType"
    field.require(isinstance(field.value, dict), rule)
    data_type = _data_type(field.member("type"))
    if data_type in (None, TensorDataType.FLOAT16):
        raise field.member("type").error("must be a type other than FLOAT16")
    return _number(data_type, field.member("value"))


def _generated(
    resource: Field, data_type: TensorDataType | None, folder: str, allow_outside: bool
) -> Values:
    """Read values that are not listed: a repeated value, a sequence, or the content of a file."""
    initial = resource.member("initialValues")
    kinds = [
        kind
        for kind in ("value", "valueStart", "sourcePath")
        if kind in initial.fields()
    ]
    # DxDispatch refuses only what stands beside `value`.
    rule = "must have one of value, valueStart and sourcePath"
    found = "several" if kinds else "none"
    initial.require(
        bool(kinds) and (kinds[0] != "value" or len(kinds) == 1), rule, found
    )
    kind = initial.member(kinds[0])
    source = _source(kind, folder, allow_outside) if kinds[0] == "sourcePath" else None
    data_type = data_type or (source and source.data_type)
    if data_type is None:
        declared = f"{resource.path}.initialValuesDataType"
        raise FileFormatError(f"{declared} is required for these values")
    if source is not None:
        rule = f"must hold {data_type}, as initialValuesDataType says"
        agrees = source.data_type in (None, data_type)
        kind.about("the .npy file").require(agrees, rule, source.data_type)
        return replace(source, data_type=data_type)
    first = _number(data_type, kind)
    delta = (
        None
        if kinds[0] == "value"
        else _number(data_type, initial.member("valueDelta"))
    )
    count = initial.member("valueCount").unsigned(UINT32_MAX)
    size = count * data_type.size
    return Values(
        data_type, size, lambda: _repeated(first, delta, count).view(np.uint8)
    )


def _repeated(first: Array, delta: Array | None, count: int) -> Array:
    """Repeat a value, or add `delta` each time.

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
    if data_type.numpy.kind in "iu":
        limits = np.iinfo(data_type.numpy)
        low, high = int(limits.min), int(limits.max)
        for i, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                raise field_of(i).error(f"must be an integer from {low} to {high}")
        return np.array(values, data_type.numpy)
    numbers = np.array(
        [_float(value, i, field_of) for i, value in enumerate(values)], np.float64
    )
    with np.errstate(all="ignore"):
        # DxDispatch goes through FLOAT32 to FLOAT16, which can round twice.
        if data_type is TensorDataType.FLOAT16:
            numbers = numbers.astype(np.float32)
        return numbers.astype(data_type.numpy)


def _float(value: object, index: int, field_of: Callable[[int], Field]) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        if int(float(value)) != value:
            raise field_of(index).error("must be an integer that FLOAT64 holds exactly")
        return float(value)
    if isinstance(value, str) and value.lower() in _NOT_FINITE:
        return float(value)
    raise field_of(index).error('must be a number, "nan", "inf" or "-inf"')


def _source(field: Field, folder: str, allow_outside: bool) -> Values:
    """Read what a `sourcePath` names."""
    refuse_image(field)
    path = _find(field, folder, allow_outside)
    offset, dtype, data_type = 0, np.dtype(np.uint8), None
    with field.opening(), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if is_npy(field):
            dtype, data_type = _npy_type(field, file, size)
            offset = file.tell()
    # What follows an .npy array belongs to the resource too: the padding that writeFile
    # wrote.
    size -= offset

    def content() -> Bytes:
        with field.opening(path):
            found = np.fromfile(path, np.uint8, offset=offset)
        if found.size != size:
            raise FileFormatError(
                f"{field.path}: the file changed while it was used: {path}"
            )
        if not dtype.isnative:
            whole = found[: size // dtype.itemsize * dtype.itemsize]
            whole.view(dtype).byteswap(inplace=True)
        return found

    return Values(data_type, size, content, path)


def _find(field: Field, folder: str, allow_outside: bool) -> str:
    """Find a file in the program's folder, else in the current one, as DxDispatch does."""
    folders, names = (
        (folder, os.getcwd()),
        (field.text(), field.text().replace("\\", "/")),
    )
    found = [
        os.path.realpath(os.path.join(root, name)) for root in folders for name in names
    ]
    path = next(filter(os.path.exists, found), found[0])
    rule = (
        "must stay in the folder of the program or the current folder without"
        " --allow-outside"
    )
    inside = any(Path(path).is_relative_to(os.path.realpath(root)) for root in folders)
    field.require(allow_outside or inside, rule)
    tried = ", its backslashes read as slashes too" if names[0] != names[1] else ""
    field.require(os.path.exists(path), f"must be a file that exists{tried}")
    field.require(os.path.isfile(path), "must be a file, not a folder or a device")
    return path


def _npy_type(
    field: Field, file: BinaryIO, size: int
) -> tuple[np.dtype[Any], TensorDataType]:
    """Read the header of an .npy file of `size` bytes: its type for numpy and for DirectML."""
    npy_file = field.about("the .npy file")
    header = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's remark on files of Python 2
            version = npy.read_magic(file)
            if version in _NPY_HEADERS:
                header = _NPY_HEADERS[version](file)
    except OSError:
        raise
    except Exception:
        # A damaged header is evaluated as a literal, which fails in too many ways to
        # list.
        raise field.error("must be a well-formed .npy file") from None
    if header is None:
        found = ".".join(map(str, version))
        raise npy_file.error("must have version 1.0, 2.0 or 3.0", found)
    shape, fortran, dtype = header
    data_type = _NPY_TYPES.get(dtype.newbyteorder("="))
    if data_type is None:
        raise npy_file.error(
            "must hold numbers", dtype if dtype.names is None else "a structure"
        )
    field.require(not fortran, "must be an .npy file in C order, not in Fortran order")
    size -= file.tell()
    needed = math.prod(shape) * data_type.size
    fits = min(shape, default=0) >= 0 and size >= needed
    npy_file.require(fits, f"must hold {needed} bytes for its shape", size)
    return dtype, data_type
