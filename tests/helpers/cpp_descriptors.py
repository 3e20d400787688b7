"""Descriptors in C++, for programs that the tests compile: the structs of
DirectML.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxgather.core.descriptors.datatypes import TYPE_PREFIX
from onnxgather.core.descriptors.operators import TENSORS, Descriptor, header_names
from onnxgather.core.descriptors.tensors import FLAG_PREFIX, TensorDesc


def cpp_of(desc: Descriptor, name: str) -> str:
    """Return constants in C++ that describe a gather; `nameOperator` is the last."""
    lines: list[str] = []
    fields: dict[str, object] = {}
    for attribute, field in header_names(type(desc)).items():
        value = getattr(desc, attribute)
        if attribute in TENSORS:
            tensor_name = name + field
            lines += _tensor(value, tensor_name)
            fields[field] = f"&{tensor_name}"
        else:
            fields[field] = value
    lines.append(_struct(f"DML_{desc.operator}_OPERATOR_DESC {name}Desc", fields))
    operator = {"Type": f"DML_OPERATOR_{desc.operator}", "Desc": f"&{name}Desc"}
    lines.append(_struct(f"DML_OPERATOR_DESC {name}Operator", operator))
    return "".join(f"{line}\n" for line in lines)


def _tensor(tensor: TensorDesc, name: str) -> list[str]:
    """Return the constants of a tensor; the one of that name is the last."""
    lines = [_array(f"{name}Sizes", tensor.sizes)]
    strides = "nullptr"
    if tensor.strides is not None:
        strides = f"{name}Strides"
        lines.append(_array(strides, tensor.strides))
    fields = {
        "DataType": TYPE_PREFIX + tensor.data_type,
        "Flags": f"{FLAG_PREFIX}{tensor.flags.name}",
        "DimensionCount": tensor.dimension_count,
        "Sizes": f"{name}Sizes",
        "Strides": strides,
        "TotalTensorSizeInBytes": tensor.total_tensor_size_in_bytes,
        "GuaranteedBaseOffsetAlignment": tensor.guaranteed_base_offset_alignment,
    }
    lines.append(_struct(f"DML_BUFFER_TENSOR_DESC {name}Buffer", fields))
    buffer = {"Type": "DML_TENSOR_TYPE_BUFFER", "Desc": f"&{name}Buffer"}
    lines.append(_struct(f"DML_TENSOR_DESC {name}", buffer))
    return lines


def _array(name: str, values: Sequence[int]) -> str:
    return f"const UINT {name}[] = {{{', '.join(map(str, values))}}};"


def _struct(start: str, fields: Mapping[str, object]) -> str:
    return f"const {start} = {{{', '.join(map(str, fields.values()))}}};"
