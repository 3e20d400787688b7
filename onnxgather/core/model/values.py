"""The values of any ONNX model: their types and sizes, and models read from files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError
from onnx import helper

from onnxgather.core.checks import path_text, shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.files import got, reason
from onnxgather.core.model.wire import (
    LARGE,
    NO_WEIGHTS,
    Weight,
    Weights,
    parsed_in_pieces,
    parsed_without_weights,
    pieces_of,
    written_size,
)
from onnxgather.core.model.write import LARGEST_MODEL

ModelProto = onnx.ModelProto
"""An ONNX model, for annotations of modules that do not import onnx."""


T = TypeVar("T")

NUMBERS: dict[str, int] = dict(onnx.TensorProto.DataType.items())
"""The numbers of ONNX's data types by their names, such as 1 of FLOAT."""


_UNWRITABLE = (
    "the model must have at most 2 GiB, and memory must hold another copy of it"
)

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
        """Return what a model says of an input, an output or another value."""
        name = data_type_of(value)
        # Of what is no tensor this field is empty.
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return cls(name)
        sizes: list[int | None] = []
        for dimension in tensor.shape.dim:
            # A size may be a name, or missing; one below 0 is no size.
            is_number = dimension.HasField("dim_value") and dimension.dim_value >= 0
            sizes.append(dimension.dim_value if is_number else None)
        return cls(name, tuple(sizes))

    @classmethod
    def of_tensor(cls, tensor: Weight) -> ValueType:
        """Return the type and the sizes of a tensor; None for a size that cannot be."""
        sizes = tuple(size if size >= 0 else None for size in tensor.dims)
        return cls(name_of(tensor.data_type), sizes)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The type of numpy's arrays; None for texts, and for what is no tensor."""
        # What is no tensor counts as text, whose arrays hold Python's objects.
        number = NUMBERS.get(self.data_type) or NUMBERS["STRING"]
        dtype = helper.tensor_dtype_to_np_dtype(number)
        return None if dtype.hasobject else dtype

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes

    def admits(self, sizes: Sequence[int]) -> bool:
        """Return whether a value of this type may have these sizes."""
        if self.sizes is None:
            return True
        if len(self.sizes) != len(sizes):
            return False
        pairs = zip(self.sizes, sizes, strict=True)
        return all(own is None or own == size for own, size in pairs)

    def common(self, other: ValueType) -> ValueType:
        """Return what holds for both."""
        data_type = self.data_type if self.data_type == other.data_type else ""
        return ValueType(data_type, common_sizes([self.sizes, other.sizes]))

    def __str__(self) -> str:
        name = self.data_type or "UNDEFINED"
        if self.sizes is None:
            return name
        return f"{name} {sizes_text(self.sizes)}"


@functools.lru_cache(maxsize=2**12)
def value_type(data_type: str, sizes: tuple[int | None, ...] | None) -> ValueType:
    """Return a `ValueType`, the same for values that are alike."""
    return ValueType(data_type, sizes)


def data_type_of(value: onnx.ValueInfoProto) -> str:
    """Return the name of the data type that a model declares of a value."""
    value_type = value.type
    kind = value_type.WhichOneof("value")
    if not kind:
        return ""
    if kind != "tensor_type":  # a sequence, a map, ...
        return kind.removesuffix("_type").upper()
    number = value_type.tensor_type.elem_type
    return name_of(number) if number else ""


def common_sizes(
    shapes: Sequence[tuple[T | None, ...] | None],
) -> tuple[T | None, ...] | None:
    """Return the sizes that are the same in all of some shapes.

    None for a size that differs; None alone where the ranks differ or a rank is not
    known.
    """
    ranked = [sizes for sizes in shapes if sizes is not None]
    ranks = {len(sizes) for sizes in ranked}
    if len(ranked) < len(shapes) or len(ranks) > 1:
        return None
    common: list[T | None] = []
    for sizes in zip(*ranked, strict=True):
        is_same = len({*sizes}) == 1
        common.append(sizes[0] if is_same else None)
    return tuple(common)


def sizes_text(sizes: Sequence[int | None]) -> str:
    """Return sizes as sentences show them, such as `[?, 2]`; `?` is an unknown size."""
    texts = ["?" if size is None else str(size) for size in sizes]
    return f"[{', '.join(texts)}]"


def load_model(path: str) -> onnx.ModelProto:
    """Return the model in a file, without its external data.

    Raises:
        OnnxGatherError: The file cannot be read, or holds no ONNX model.
    """
    model, _ = _model_in(path, leaves_weights=False)
    return model


def load_light(path: str) -> tuple[onnx.ModelProto, Weights]:
    """Return the model in a file without the bytes of large constants, and these.

    Raises:
        OnnxGatherError: As `load_model`.
    """
    return _model_in(path, leaves_weights=True)


def _model_in(path: str, leaves_weights: bool) -> tuple[onnx.ModelProto, Weights]:
    """Return the model in a file, and the constants whose bytes are left out of it."""
    content = b""
    model = onnx.ModelProto()
    weights = NO_WEIGHTS
    try:
        # A device may have no end.
        if os.path.exists(path) and not os.path.isfile(path):
            raise OnnxGatherError(f"{path}: must be a file, not a folder or a device")
        if os.path.getsize(path) > LARGEST_MODEL:
            raise OnnxGatherError(f"{path}: must be an ONNX model of at most 2 GiB")
        if os.path.getsize(path) > LARGE:
            # Case: it is broken; it is then read again for what is wrong with it.
            with suppress(DecodeError), open(path, "rb") as stream:
                if leaves_weights:
                    model, weights = parsed_without_weights(stream, path)
                else:
                    model = parsed_in_pieces(stream)
        if not model.graph.node:
            content = Path(path).read_bytes()
            model = _parsed(content, f"{path}:")
            weights = NO_WEIGHTS
    except (OSError, ValueError) as error:
        raise OnnxGatherError(f"{path}: {reason(error)}") from None
    if not model.graph.node:
        kind = got(content, "an ONNX model")
        raise OnnxGatherError(f"{path}: must be an ONNX model with nodes{kind}")
    return model, weights


def loaded(source: object) -> tuple[bytes | str, onnx.ModelProto]:
    """Return a model for ONNX Runtime and for onnx.

    ONNX Runtime reads it from bytes or from the path of a file.

    Raises:
        OnnxGatherError: The source is no model, nor the path of one.
    """
    if isinstance(source, str | os.PathLike):
        path = path_text("source", cast("object", source), "the path of a model")
        model, weights = load_light(path)
        if runtime_reads(path):
            return path, model
        return b"".join(serialized_pieces(model, weights)), model
    if isinstance(source, onnx.ModelProto):
        return serialized(source), source
    if isinstance(source, bytes):
        return source, _parsed(source, "the model")
    rule = (
        "source must be a descriptor, an onnx.ModelProto, its bytes, or the path of its"
        " file"
    )
    raise OnnxGatherError(f"{rule}, got {shown(source)}")


def runtime_reads(path: str) -> bool:
    """Return whether ONNX Runtime reads an ONNX model in a file of such a path."""
    # Case: ONNX Runtime takes such a file for one of its own format.
    if path.endswith(".ort"):
        return False
    try:
        path.encode()
    except UnicodeEncodeError:  # it takes a path in UTF-8 alone
        return False
    return True


def _parsed(content: bytes, where: str) -> onnx.ModelProto:
    try:
        return onnx.ModelProto.FromString(content)
    except DecodeError as error:
        if "alloc" in str(error):  # protobuf has no error of its own for it
            raise MemoryError from None
        kind = got(content, "an ONNX model")
        if not kind:
            kind = ", got bytes that are cut short, or no model"
        raise OnnxGatherError(f"{where} must be an ONNX model{kind}") from None


def serialized(model: onnx.ModelProto) -> bytes:
    """Return the bytes of a model.

    Raises:
        OnnxGatherError: protobuf cannot write it, and does not say why.
    """
    try:
        return model.SerializeToString()
    except (EncodeError, ValueError):
        raise OnnxGatherError(_UNWRITABLE) from None


def serialized_pieces(
    model: onnx.ModelProto, weights: Weights = NO_WEIGHTS
) -> Iterator[bytes]:
    """Yield the bytes of a model in pieces, if it is large.

    `weights` is that of `pieces_of`.

    Raises:
        OnnxGatherError: As `serialized`, before the first piece.
    """
    try:
        if written_size(model, weights) > LARGEST_MODEL:
            raise OnnxGatherError(_UNWRITABLE)
        yield from pieces_of(model, weights)
    except (EncodeError, ValueError):
        raise OnnxGatherError(_UNWRITABLE) from None


def values_of(
    model: onnx.ModelProto,
) -> tuple[dict[str, ValueType], dict[str, ValueType]]:
    """Return the types of a model's inputs and outputs, by their names.

    Inputs that have a default are left out.
    """
    defaults = {tensor.name for tensor in model.graph.initializer}
    inputs: dict[str, ValueType] = {}
    for value in model.graph.input:
        if value.name not in defaults:
            inputs[value.name] = ValueType.of(value)
    outputs = {value.name: ValueType.of(value) for value in model.graph.output}
    return inputs, outputs


@functools.lru_cache(maxsize=64)
def name_of(data_type: int) -> str:
    """Return ONNX's name of a data type, such as FLOAT."""
    names = onnx.TensorProto.DataType
    if data_type in names.values():
        return names.Name(data_type)
    return f"data type {data_type}"


def type_name(array: Array) -> str:
    """Return ONNX's name of an array's type.

    It is numpy's name in capitals where ONNX has no type for it.
    """
    return name_of_dtype(array.dtype)


def name_of_dtype(dtype: np.dtype[Any]) -> str:
    """Return the name of a type of numpy's, as `type_name` does of an array's."""
    try:
        return name_of(helper.np_dtype_to_tensor_dtype(dtype))
    except (KeyError, ValueError):
        return dtype.name.upper()


def numbers_in(sizes: Sequence[object] | None) -> tuple[int | None, ...] | None:
    """Return the sizes with None for each open size; None if the rank is not known."""
    if sizes is None:
        return None
    return tuple([size if isinstance(size, int) else None for size in sizes])
