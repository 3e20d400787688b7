"""DirectML.h's structs, as far as a gather needs them, and its enumerators."""

from __future__ import annotations

from onnxgather.checks import MAX_DIMENSIONS
from onnxgather.descriptors.datatypes import DATA_TYPES, TYPE_PREFIX
from onnxgather.descriptors.operators import TABLE, header_names
from onnxgather.descriptors.tensors import FLAG_PREFIX, LEAST_ALIGNMENT, TensorFlags

BUFFER, TENSOR, OPERATOR = "DML_BUFFER_TENSOR_DESC", "DML_TENSOR_DESC", "DML_OPERATOR_DESC"

OPERATORS = {f"DML_{name}_OPERATOR_DESC": row.descriptor for name, row in TABLE.items()}
"""The structs of the operators, and the class of the descriptor that each holds."""

STRUCTS: dict[str, tuple[str, ...]] = {
    BUFFER: (
        *("DataType", "Flags", "DimensionCount", "Sizes", "Strides"),
        *("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"),
    ),
    TENSOR: ("Type", "Desc"),
    OPERATOR: ("Type", "Desc"),
    **{name: tuple(header_names(desc).values()) for name, desc in OPERATORS.items()},
}
"""The fields of each struct, in the header's order."""

CONSTANTS = {
    **{TYPE_PREFIX + name: number for name, number in DATA_TYPES.items()},
    **{FLAG_PREFIX + name: int(flag) for name, flag in TensorFlags.__members__.items()},
    **{f"DML_OPERATOR_{name}": row.number for name, row in TABLE.items()},
    "DML_TENSOR_TYPE_BUFFER": 1,
    "DML_TENSOR_DIMENSION_COUNT_MAX": 5,
    "DML_TENSOR_DIMENSION_COUNT_MAX1": MAX_DIMENSIONS,
    "DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT": LEAST_ALIGNMENT,
}
"""The enumerators and constants of the header."""

_BY_SIZE = {
    1: "bool char BYTE INT8 UINT8 int8_t uint8_t",
    2: "short INT16 UINT16 int16_t uint16_t",
    4: "int unsigned INT UINT INT32 UINT32 DWORD ULONG LONG int32_t uint32_t float FLOAT",
    8: "INT64 UINT64 int64_t uint64_t size_t SIZE_T ULONGLONG LONGLONG double",
}

SIZES = {name: size for size, names in _BY_SIZE.items() for name in names.split()} | {
    "unsigned int": 4,
    "unsigned char": 1,
    "unsigned short": 2,
    "long long": 8,
    "unsigned long long": 8,
}
"""The bytes of the types of numbers, on Windows."""
