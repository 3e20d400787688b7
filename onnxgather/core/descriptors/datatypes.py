"""The table of tensor data types: DirectML's name, numpy's dtype, ONNX's number."""

from __future__ import annotations

import enum
import importlib
from typing import Any

import numpy as np

from onnxgather.core.checks import plain_text, shown, suggestion
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

TYPE_PREFIX = "DML_TENSOR_DATA_TYPE_"


_NUMBERS = {
    "FLOAT64": (11, 9),
    "FLOAT32": (1, 1),
    "FLOAT16": (10, 2),
    "INT64": (7, 11),
    "INT32": (6, 6),
    "INT16": (5, 7),
    "INT8": (3, 8),
    "UINT64": (13, 10),
    "UINT32": (12, 3),
    "UINT16": (4, 4),
    "UINT8": (2, 5),
}
"""The numbers of each type in ONNX's TensorProto.DataType and in
DML_TENSOR_DATA_TYPE."""

_NUMPY_CODES = {np.dtype(name.lower()).str: name for name in _NUMBERS}
"""How numpy writes the types in files, such as "<f4"."""

_SPELLINGS = _NUMPY_CODES | {
    "float": "FLOAT32",
    "double": "FLOAT64",
    "half": "FLOAT16",
    "int": "INT32",
    "bfloat16": "",
    "bool": "",
    "int4": "",
    "uint4": "",
}
"""How others spell the types, in lower case; "" is for types that no gather accepts."""


@public
class TensorDataType(enum.StrEnum):
    """`DML_TENSOR_DATA_TYPE`: the eleven types that gathers accept.

    UINT4 and INT4 exist in the header, but no gather accepts them at any feature level.

    Example:
        >>> og.TensorDesc("DML_TENSOR_DATA_TYPE_FLOAT16", [4]).data_type
        <TensorDataType.FLOAT16: 'FLOAT16'>
        >>> og.TensorDataType.FLOAT16.size, og.TensorDataType.FLOAT16.numpy
        (2, dtype('float16'))
    """

    FLOAT64 = "FLOAT64"
    FLOAT32 = "FLOAT32"
    FLOAT16 = "FLOAT16"
    INT64 = "INT64"
    INT32 = "INT32"
    INT16 = "INT16"
    INT8 = "INT8"
    UINT64 = "UINT64"
    UINT32 = "UINT32"
    UINT16 = "UINT16"
    UINT8 = "UINT8"

    numpy: np.dtype[Any]
    size: int
    """Bytes of an element."""
    onnx: int
    """The number of the type in ONNX's TensorProto.DataType."""
    directml: int
    """The number of the type in DML_TENSOR_DATA_TYPE."""

    def __init__(self, name: str) -> None:
        """Attach the table's facts to the member."""
        self.numpy = np.dtype(name.lower())
        self.size = self.numpy.itemsize
        self.onnx, self.directml = _NUMBERS[name]

    @property
    def is_signed(self) -> bool:
        """Whether the type holds negative integers."""
        return self.numpy.kind == "i"

    @classmethod
    def parse(cls, value: object) -> TensorDataType:
        """Return the type with a name.

        The name is short (FLOAT32) or long (DML_TENSOR_DATA_TYPE_FLOAT32).

        Raises:
            DescriptorError: The name is not that of any of the eleven types.
        """
        if isinstance(value, TensorDataType):
            return value
        value = plain_text(value)
        if isinstance(value, str):
            short = value.removeprefix(TYPE_PREFIX)
            if short in _NUMBERS:
                return cls[short]

        # A type of numpy or Python, such as np.float32, has a name that may be near.
        name: Any = value
        if isinstance(name, np.dtype):
            name = name.name
        elif isinstance(name, type):
            name = name.__name__
        text = shown(value)
        if isinstance(name, str):
            text += suggested_type(name)
        types = ", ".join(_NUMBERS)
        raise DescriptorError(f"DataType must be one of {types}, got {text}")

    # So that `TensorDataType("DML_TENSOR_DATA_TYPE_INT8")` accepts long names too.
    _missing_ = parse


def suggested_type(text: str) -> str:
    """Return the suggestion of `checks.suggestion` for the name of a data type."""
    name = text.rpartition(".")[2]  # as in np.float32
    meant = _SPELLINGS.get(name.lower(), name)
    return suggestion(meant, _NUMBERS, TYPE_PREFIX)


ONNX_NAMES = {
    "object": "STRING",
    "bool": "BOOL",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
    "bfloat16": "BFLOAT16",
    "float8_e4m3fn": "FLOAT8E4M3FN",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ",
    "float8_e5m2": "FLOAT8E5M2",
    "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
    "uint4": "UINT4",
    "int4": "INT4",
}
"""ONNX's names of the data types that DirectML does not have, by numpy's names.

The types from bfloat16 on are those of ml_dtypes. An array of texts is one of objects.
"""

GATHERED_TYPES = (*TensorDataType, *list(ONNX_NAMES.values())[:5])
"""The data types of data that ONNX's gathers accept."""


def type_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a type of numpy: DirectML's, else ONNX's."""
    return ONNX_NAMES.get(dtype.name, dtype.name.upper())


def numpy_type(name: str) -> np.dtype[Any]:
    """Return the type with one of numpy's names, or of those of `ONNX_NAMES`."""
    if name not in np.sctypeDict:
        importlib.import_module("ml_dtypes")  # which makes its types known to numpy
    return np.dtype(name)


def dtype_of(name: str) -> np.dtype[Any]:
    """Return numpy's type of the name that `type_of` returns."""
    names = {onnx: numpy for numpy, onnx in ONNX_NAMES.items()}
    return numpy_type(names.get(name, name.lower()))


INDEX_TYPES = tuple(t for t in TensorDataType if t.numpy.kind in "iu" and t.size >= 4)
"""The data types that IndicesTensor may have."""
