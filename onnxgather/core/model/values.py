"""The values of any ONNX model: their types and sizes, and models read from files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import helper

from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import got, reason
from onnxgather.core.model.write import LARGEST_MODEL

ModelProto = onnx.ModelProto
"""An ONNX model, for annotations of modules that do not import onnx."""


T = TypeVar("T")

NUMBERS: dict[str, int] = dict(onnx.TensorProto.DataType.items())
"""The numbers of ONNX's data types by their names, such as 1 of FLOAT."""


DIRECTML_NAMES = {
    onnx.TensorProto.DataType.Name(row.onnx): row.name for row in TensorDataType
}
"""DirectML's names of data types by ONNX's, such as FLOAT32 of FLOAT."""


class ValueType(NamedTuple):
    """What is known of a value."""

    data_type: str = ""
    """ONNX's name, such as FLOAT, or SEQUENCE and the like; "" where it is not
    known."""
    sizes: tuple[int | None, ...] | None = None
    """None for a size that is not known; None alone where not even the rank is
    known."""

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> ValueType:
        """What a model says of an input, an output or another value."""
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            return cls(kind.removesuffix("_type").upper() if kind else "")
        tensor = value.type.tensor_type
        given = (
            d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim
        )
        sizes = tuple(n if n >= 0 else None for n in given)
        name = name_of(tensor.elem_type) if tensor.elem_type else ""
        return cls(name, sizes if tensor.HasField("shape") else None)

    @classmethod
    def of_tensor(cls, tensor: onnx.TensorProto) -> ValueType:
        """The type and the sizes of a tensor; None for a size that cannot be."""
        return cls(
            name_of(tensor.data_type), tuple(n if n >= 0 else None for n in tensor.dims)
        )

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Of the arrays of numpy; None for texts, and for what is no tensor."""
        found = helper.tensor_dtype_to_np_dtype(
            NUMBERS.get(self.data_type) or NUMBERS["STRING"]
        )
        return None if found.hasobject else found

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes

    def admits(self, sizes: Sequence[int]) -> bool:
        """Whether a value of this type may have these sizes."""
        own = tuple(sizes) if self.sizes is None else self.sizes
        return len(own) == len(sizes) and all(
            map(lambda n, m: n in (None, m), own, sizes)
        )

    def common(self, other: ValueType) -> ValueType:
        """What holds for both."""
        data_type = self.data_type if self.data_type == other.data_type else ""
        return ValueType(data_type, common_sizes([self.sizes, other.sizes]))

    def __str__(self) -> str:
        sizes = "" if self.sizes is None else f" {sizes_text(self.sizes)}"
        return (self.data_type or "UNDEFINED") + sizes


def common_sizes(
    shapes: Sequence[tuple[T | None, ...] | None],
) -> tuple[T | None, ...] | None:
    """The sizes that are the same in all of some shapes; None alone where the rank is not."""
    known = [sizes for sizes in shapes if sizes is not None]
    if len(known) < len(shapes) or len({*map(len, known)}) > 1:
        return None
    return tuple(
        each[0] if len({*each}) == 1 else None for each in zip(*known, strict=True)
    )


def sizes_text(sizes: Sequence[int | None]) -> str:
    """Sizes as a sentence shows them, such as `[?, 2]`, where a size that is not known is `?`."""
    return f"[{', '.join('?' if n is None else str(n) for n in sizes)}]"


def load(path: str) -> onnx.ModelProto:
    """The model in a file, without its external data.

    Raises:
        OnnxGatherError: The file cannot be read, or holds no ONNX model.
    """
    content = b""
    try:
        if os.path.exists(path) and not os.path.isfile(
            path
        ):  # a device may have no end
            raise OnnxGatherError(f"{path}: must be a file, not a folder or a device")
        if os.path.getsize(path) > LARGEST_MODEL:
            raise OnnxGatherError(f"{path}: must be an ONNX model of at most 2 GiB")
        content = Path(path).read_bytes()
        model = _parsed(content, f"{path}:")
    except (OSError, ValueError) as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    if not model.graph.node:
        found = got(content, "an ONNX model")
        raise OnnxGatherError(f"{path}: must be an ONNX model with nodes{found}")
    return model


def loaded(source: object) -> tuple[bytes | str, onnx.ModelProto]:
    """A model as ONNX Runtime takes it, in bytes or as the path of a file, and as onnx does.

    Raises:
        OnnxGatherError: The source is no model, nor the path of one.
    """
    if isinstance(source, str | os.PathLike):
        path = os.fspath(cast("str | os.PathLike[str]", source))
        return path, load(path)
    if isinstance(source, onnx.ModelProto):
        return serialized(source), source
    if isinstance(source, bytes):
        return source, _parsed(source, "the model")
    rule = (
        "source must be a descriptor, an onnx.ModelProto, its bytes, or the path of its"
        " file"
    )
    raise OnnxGatherError(f"{rule}, got {shown(source)}")


def _parsed(content: bytes, where: str) -> onnx.ModelProto:
    try:
        return onnx.ModelProto.FromString(content)
    except DecodeError as error:
        if "alloc" in str(error):
            raise MemoryError from None
        found = (
            got(content, "an ONNX model")
            or ", got bytes that are cut short, or no model"
        )
        raise OnnxGatherError(f"{where} must be an ONNX model{found}") from None


def serialized(model: onnx.ModelProto) -> bytes:
    """The bytes of a model.

    Raises:
        OnnxGatherError: protobuf cannot write it, and does not say why.
    """
    try:
        return model.SerializeToString()
    except (EncodeError, ValueError):
        rule = (
            "the model must have at most 2 GiB, and memory must hold another copy of it"
        )
        raise OnnxGatherError(rule) from None


def values_of(
    model: onnx.ModelProto,
) -> tuple[dict[str, ValueType], dict[str, ValueType]]:
    """What a model says of the inputs that have no default, and of its outputs, by their names."""
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = {v.name: ValueType.of(v) for v in model.graph.input if v.name not in given}
    return inputs, {value.name: ValueType.of(value) for value in model.graph.output}


def name_of(data_type: int) -> str:
    """ONNX's name of a data type, such as FLOAT."""
    names = onnx.TensorProto.DataType
    return (
        names.Name(data_type)
        if data_type in names.values()
        else f"data type {data_type}"
    )


def type_name(array: Array) -> str:
    """ONNX's name of an array's type; numpy's name in capitals where ONNX has no such type."""
    try:
        return name_of(helper.np_dtype_to_tensor_dtype(array.dtype))
    except (KeyError, ValueError):
        return array.dtype.name.upper()


def numbers_in(sizes: Sequence[object] | None) -> tuple[int | None, ...] | None:
    """The sizes that are numbers, None for each that is open; None where the rank is not known."""
    return (
        None
        if sizes is None
        else tuple(n if isinstance(n, int) else None for n in sizes)
    )
