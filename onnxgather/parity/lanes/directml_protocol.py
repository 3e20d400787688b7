"""The protocol between onnxgather and the host of DirectML.dll; directml_host.cpp defines it."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from onnxgather.checks import shown, uint
from onnxgather.descriptors.datatypes import DATA_TYPES, TYPE_PREFIX, TensorDataType
from onnxgather.descriptors.operators import TABLE, TENSORS, header_names
from onnxgather.descriptors.strides import packed_strides
from onnxgather.descriptors.tensors import TensorFlags
from onnxgather.errors import DescriptorError
from onnxgather.execution.runtime import frame, read_frame

STAGES = (
    *("done", "D3D12CreateDevice", "DMLCreateDevice1", "CreateOperator", "CompileOperator"),
    *("buffers", "initialize", "dispatch"),
)
"""The calls that may fail, in the order of their numbers."""

MAGIC = b"OGDM\1\0\0\0"
"""The start of a hello: four letters and the version of the protocol."""

_RUN, _CREATE = 0, 1
"""The first number of a request: run the operator, or only create it."""

GUARDS_TOUCHED, DEVICE_LOST = 3, 4
"""Bits of the flags of an answer."""

_BITS = {t.name: 8 * t.size for t in TensorDataType} | {"UNKNOWN": 0, "UINT4": 4, "INT4": 4}


def encoded(raw: Mapping[str, Any], buffers: Sequence[bytes] | None, feature_level: str) -> bytes:
    """The bytes of a request.

    Args:
        raw: The descriptor, a dict as `to_dict` gives it, valid or not.
        buffers: The bytes of the three tensors; None asks only to create the operator.
        feature_level: The minimum feature level of the device, such as "2_1".

    Raises:
        DescriptorError: DirectML's structures cannot hold a value.
    """
    operator = str(raw["type"]).removeprefix("DML_OPERATOR_")
    if operator not in TABLE:
        raise DescriptorError(f"type must be one of {', '.join(TABLE)}, got {shown(operator)}")
    row, desc = TABLE[operator], raw["desc"]
    names = list(header_names(row.descriptor).values())
    tensors, fields = names[: len(TENSORS)], names[len(TENSORS) :]
    kind = _CREATE if buffers is None else _RUN
    request = struct.pack("<III", kind, row.number, _level_number(feature_level))
    request += b"".join(_tensor(name, desc[name]) for name in tensors)
    request += struct.pack("<I", len(fields)) + _u32s({name: desc[name] for name in fields})
    return frame(request, *map(frame, buffers or ()))


def _tensor(name: str, raw: Mapping[str, Any]) -> bytes:
    """The bytes of a tensor; TotalTensorSizeInBytes is by default the smallest legal one."""
    short = str(raw["DataType"]).removeprefix(TYPE_PREFIX)
    if short not in DATA_TYPES:
        rule = f"{name}.DataType must be one of {', '.join(DATA_TYPES)}"
        raise DescriptorError(f"{rule}, got {shown(short)}")
    sizes, strides = list(raw["Sizes"]), raw.get("Strides") or None
    if strides is not None and len(strides) != len(sizes):
        rule = f"{name}.Strides must have as many elements as Sizes ({len(sizes)})"
        raise DescriptorError(f"{rule}, got {len(strides)}")
    total = raw.get("TotalTensorSizeInBytes")
    if total is None:
        steps = strides or packed_strides(sizes)
        span = 1 + sum((n - 1) * s for n, s in zip(sizes, steps, strict=False))
        total = min((max(0, span) * _BITS[short] + 31) // 32 * 4, 2**64 - 4)
    flags = TensorFlags.parse(raw.get("Flags", TensorFlags.NONE))
    alignment = raw.get("GuaranteedBaseOffsetAlignment", 0)
    head = (DATA_TYPES[short], int(flags), len(sizes), int(strides is not None))
    total = uint(f"{name}.TotalTensorSizeInBytes", total, 2**64 - 1)
    numbers = {f"{name}.GuaranteedBaseOffsetAlignment": alignment}
    numbers |= {f"{name}.Sizes[{k}]": n for k, n in enumerate(sizes)}
    numbers |= {f"{name}.Strides[{k}]": n for k, n in enumerate(strides or [])}
    return struct.pack("<4IQ", *head, total) + _u32s(numbers)


def _u32s(numbers: Mapping[str, object]) -> bytes:
    return b"".join(struct.pack("<I", uint(name, number)) for name, number in numbers.items())


def _level_number(feature_level: str) -> int:
    """The number of a DML_FEATURE_LEVEL, such as 0x2100 for "2_1"."""
    numbers = re.fullmatch(r"(\d)_(\d)", feature_level)
    if numbers is None:
        raise DescriptorError(f"feature_level must be such as 2_1, got {shown(feature_level)}")
    return int(numbers[1]) << 12 | int(numbers[2]) << 8


def read_hello(stream: BinaryIO) -> list[Any]:
    """The stage, HRESULT, feature level and whether there are doubles, and the three texts.

    Raises:
        EOFError: The stream ends.
        ValueError: Something else stands there; the error holds its bytes.
    """
    return _read_frame(stream, MAGIC, struct.Struct("<IIII"), 3)


def read_answer(stream: BinaryIO) -> list[Any]:
    """The stage, HRESULT and flags of an answer, and OutputTensor; raises as `read_hello`."""
    return _read_frame(stream, b"", struct.Struct("<III"), 1)


def _read_frame(stream: BinaryIO, magic: bytes, numbers: struct.Struct, texts: int) -> list[Any]:
    """The numbers of a frame, the first of which is a stage, and its texts."""
    content = read_frame(stream)
    rest = io.BytesIO(content.removeprefix(magic))
    try:
        stage, *others = numbers.unpack(rest.read(numbers.size))
        parts: list[Any] = [STAGES[stage], *others, *(read_frame(rest) for _ in range(texts))]
    except (struct.error, EOFError, ValueError, IndexError):
        raise ValueError(content) from None
    if rest.read() or not content.startswith(magic):
        raise ValueError(content)
    return parts
