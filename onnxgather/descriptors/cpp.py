"""A descriptor as C++: the structs of DirectML.h that describe it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnxgather.checks import check_name, shown
from onnxgather.descriptors.arrays import check_descriptor
from onnxgather.descriptors.datatypes import TYPE_PREFIX
from onnxgather.descriptors.feature_levels import minimum_feature_level
from onnxgather.descriptors.operators import TENSORS, Descriptor, header_names
from onnxgather.descriptors.tensors import FLAG_PREFIX, TensorDesc
from onnxgather.errors import OnnxGatherError

_WIDTH = 100
"""Columns of the text."""


def to_cpp(desc: Descriptor, name: str = "gather") -> str:
    """A descriptor as C++: constants of DirectML.h's structs, for C++11 and later.

    Args:
        desc: Any of the four gather descriptors.
        name: How the names of the constants begin. The structs that CreateOperator gets are
            `nameDesc` and `nameOperator`.

    Raises:
        DescriptorError: `desc` is not a descriptor.
        OnnxGatherError: `name` is not the name of a variable in C++.
    """
    check_descriptor(desc)
    check_name("name", name)
    if not (name.isascii() and name.isidentifier()):
        raise OnnxGatherError(f"name must be letters, digits and _, got {shown(name)}")
    header = header_names(type(desc))
    lines = [
        f"// DML_OPERATOR_{desc.operator}, feature level {minimum_feature_level(desc)}"
    ]
    fields: dict[str, object] = {}
    for attribute, field in header.items():
        fields[field] = getattr(desc, attribute)
        if attribute in TENSORS:
            start = name + field.removesuffix("Tensor")
            lines += _tensor(getattr(desc, attribute), start)
            fields[field] = f"&{start}Tensor"
    lines += _struct(f"DML_{desc.operator}_OPERATOR_DESC {name}Desc", fields)
    operator = f"{{DML_OPERATOR_{desc.operator}, &{name}Desc}}"
    return "\n".join(
        [*lines, f"const DML_OPERATOR_DESC {name}Operator = {operator};", ""]
    )


def variable_names(names: Iterable[str]) -> list[str]:
    """Different names that `to_cpp` takes, made of any names."""
    made: list[str] = []
    for number, name in enumerate(names, 1):
        letters = (
            c if c.isascii() and c.isalnum() else "_" for c in name.removesuffix("Desc")
        )
        plain = "".join(letters)
        plain = plain if plain[:1].isalpha() else f"gather_{plain}"
        made.append(f"{plain}_{number}" if plain in made else plain)
    return made


def _tensor(tensor: TensorDesc, name: str) -> Iterator[str]:
    yield from _array(f"{name}Sizes", tensor.sizes)
    if tensor.strides is not None:
        yield from _array(f"{name}Strides", tensor.strides)
    fields = {
        "DataType": TYPE_PREFIX + tensor.data_type,
        "Flags": f"{FLAG_PREFIX}{tensor.flags.name}",
        "DimensionCount": tensor.dimension_count,
        "Sizes": f"{name}Sizes",
        "Strides": "nullptr" if tensor.strides is None else f"{name}Strides",
        "TotalTensorSizeInBytes": tensor.total_tensor_size_in_bytes,
        "GuaranteedBaseOffsetAlignment": tensor.guaranteed_base_offset_alignment,
    }
    yield from _struct(f"DML_BUFFER_TENSOR_DESC {name}Buffer", fields)
    desc = f"{{DML_TENSOR_TYPE_BUFFER, &{name}Buffer}}"
    yield f"const DML_TENSOR_DESC {name}Tensor = {desc};"
    yield ""


def _array(name: str, values: Sequence[int]) -> list[str]:
    start, end = f"const UINT {name}[] = {{", ", ".join(map(str, values)) + "};"
    return [start + end] if len(start + end) <= _WIDTH else [start, f"    {end}"]


def _struct(start: str, fields: Mapping[str, object]) -> list[str]:
    """A constant with a field on each line and the fields' names in a column."""
    width = max(len(str(value)) for value in fields.values()) + 3
    rows = [
        f"    {value},".ljust(4 + width) + f"// {field}"
        for field, value in fields.items()
    ]
    return [f"const {start} = {{", *rows, "};"]
