"""The table of tensor data types: DirectML's name, numpy's dtype, ONNX's number."""

from __future__ import annotations

import enum
from typing import Any, Self

import numpy as np

from onnxgather.checks import shown, suggestion
from onnxgather.errors import DescriptorError

TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"


class TensorDataType(enum.StrEnum):
    """`DML_TENSOR_DATA_TYPE`: the eleven types that gathers take.

    UINT4 and INT4 exist in the header, but no gather accepts them at any feature level.
    """

    # The numbers in ONNX's TensorProto.DataType and in DML_TENSOR_DATA_TYPE.
    FLOAT64 = "FLOAT64", 11, 9
    FLOAT32 = "FLOAT32", 1, 1
    FLOAT16 = "FLOAT16", 10, 2
    INT64 = "INT64", 7, 11
    INT32 = "INT32", 6, 6
    INT16 = "INT16", 5, 7
    INT8 = "INT8", 3, 8
    UINT64 = "UINT64", 13, 10
    UINT32 = "UINT32", 12, 3
    UINT16 = "UINT16", 4, 4
    UINT8 = "UINT8", 2, 5

    numpy: np.dtype[Any]
    size: int
    """Bytes of an element."""
    onnx: int
    """The number of the type in ONNX's TensorProto.DataType."""
    directml: int
    """The number of the type in DML_TENSOR_DATA_TYPE."""

    def __new__(cls, name: str, onnx: int, directml: int) -> Self:
        """Make a member that is its name, with the table's facts."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.numpy = np.dtype(name.lower())
        member.size = member.numpy.itemsize
        member.onnx, member.directml = onnx, directml
        return member

    @property
    def is_signed(self) -> bool:
        """Whether the type holds negative integers."""
        return self.numpy.kind == "i"

    @classmethod
    def parse(cls, value: object) -> TensorDataType:
        """The type with a name, short (FLOAT32) or long (DML_TENSOR_DATA_TYPE_FLOAT32).

        Raises:
            DescriptorError: The name is not one of the eleven types.
        """
        if isinstance(value, TensorDataType):
            return value
        if isinstance(value, str) and (short := value.removeprefix(TYPE_PREFIX)) in cls.__members__:
            return cls[short]
        name: Any = value
        if isinstance(name, np.dtype | type):
            name = name.name if isinstance(name, np.dtype) else name.__name__
        found = shown(value) + (suggested_type(name) if isinstance(name, str) else "")
        raise DescriptorError(f"DataType must be one of {', '.join(cls)}, got {found}")

    _missing_ = parse


_SPELLINGS = (
    {t.numpy.str: t.name for t in TensorDataType}
    | {"float": "FLOAT32", "double": "FLOAT64", "half": "FLOAT16", "int": "INT32"}
    | dict.fromkeys(("bfloat16", "bool", "int4", "uint4"), "")
)
"""How others spell the types, in lower case; "" is for types that no gather takes."""


def suggested_type(found: str) -> str:
    """The suggestion of `checks.suggestion` for the name of a data type."""
    name = found.rpartition(".")[2]  # as in np.float32
    return suggestion(_SPELLINGS.get(name.lower(), name), TensorDataType, TYPE_PREFIX)


INDEX_TYPES = tuple(t for t in TensorDataType if t.numpy.kind in "iu" and t.size >= 4)
"""The data types that IndicesTensor may have."""
