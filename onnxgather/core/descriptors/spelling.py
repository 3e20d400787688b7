"""Gather descriptors read and written in DxDispatch's spelling.

Where DxDispatch's guide and its parser differ, this follows the parser: unknown fields
are ignored, `Type` beats `type`, and `Desc` beats `desc`, which beats fields beside
`type`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from onnxgather.core.checks import LONGEST_SEQUENCE, require, suggestion
from onnxgather.core.descriptors.arrays import check_descriptor
from onnxgather.core.descriptors.operators import (
    OPERATORS,
    TENSORS,
    Descriptor,
    header_names,
)
from onnxgather.core.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.core.documents import Field, quoted
from onnxgather.core.errors import DescriptorError
from onnxgather.core.public import public

OPERATOR_PREFIX = "DML_OPERATOR_"

_OTHER_KINDS = {
    "hlsl": "HLSL shaders",
    "onnx": "ONNX models",
    "dmlserializedgraph": "serialized DirectML graphs",
}


@public
def from_dict(value: object) -> Descriptor:
    """Read a descriptor from a dict in DxDispatch's spelling.

    Args:
        value: `{"type": "DML_OPERATOR_GATHER", "desc": {"InputTensor": {...}, ...}}`,
            in any of the variants that DxDispatch reads.

    Raises:
        FileFormatError: A field is missing or has a wrong type; the message has the
            path to it.
        DescriptorError: The descriptor breaks a rule of DirectML.

    Example:
        >>> data = {"DataType": "FLOAT32", "Sizes": [4]}
        >>> indices = {"DataType": "UINT32", "Sizes": [4]}
        >>> desc = {"InputTensor": data, "IndicesTensor": indices, "OutputTensor": data}
        >>> desc["Axis"] = 0
        >>> og.from_dict({"type": "DML_OPERATOR_GATHER_ELEMENTS", "desc": desc})
        GatherElementsDesc(TensorDesc('FLOAT32', (4,)), TensorDesc('UINT32', (4,)),
        TensorDesc('FLOAT32', (4,)), axis=0)
    """
    return read_descriptor(Field(value))


@public
def to_dict(desc: Descriptor) -> dict[str, Any]:
    """Return a descriptor as a dict that `from_dict` reads.

    Fields that have their defaults are left out.

    Raises:
        DescriptorError: `desc` is not a descriptor.

    Example:
        >>> desc = og.from_onnx("GatherElements", ("FLOAT32", [4]), ("INT64", [2]))
        >>> written = og.to_dict(desc)
        >>> written["type"], written["desc"]["IndicesTensor"]
        ('DML_OPERATOR_GATHER_ELEMENTS', {'DataType': 'INT64', 'Sizes': [2]})
        >>> og.from_dict(written) == desc
        True
    """
    check_descriptor(desc)
    fields = dict[str, Any]()
    for attribute, name in header_names(type(desc)).items():
        value = getattr(desc, attribute)
        if attribute in TENSORS:
            value = _tensor_to_dict(value)
        fields[name] = value
    return {"type": OPERATOR_PREFIX + desc.operator, "desc": fields}


def read_descriptor(dispatchable: Field) -> Descriptor:
    """Read the descriptor of a dispatchable.

    Raises:
        FileFormatError: As `from_dict`.
        DescriptorError: As `from_dict`; the path to the fields is
            `fields_of(dispatchable).path`.
    """
    operator = _operator(dispatchable)
    fields = fields_of(dispatchable)
    values: dict[str, Any] = {}
    for attribute, name in header_names(operator).items():
        member = fields.member(name)
        if attribute in TENSORS:
            values[attribute] = _tensor(name, member)
        else:
            values[attribute] = member.integer()
    return operator(**values)


def ignored(dispatchable: Field) -> Iterator[str]:
    """Yield a sentence for each field of a gather's tensors whose name is nearly right.

    DxDispatch ignores the field as it does every unknown field, so nothing else would
    mention it.
    """
    names = [*header_names(TensorDesc).values(), "DimensionCount", "Type", "Desc"]
    for attribute, name in header_names(_operator(dispatchable)).items():
        member = fields_of(dispatchable).member(name)
        if attribute not in TENSORS:
            continue
        tensor = member.first("Desc") or member
        for key in islice(tensor.fields(), LONGEST_SEQUENCE):
            # A key that starts with no letter, such as "//", is not seen as a slip.
            if key in names or not key[:1].isalpha():
                continue
            meant = suggestion(key, names)
            if meant:
                field = f"{tensor.path} has no field {quoted(key)}"
                yield f"{field}, so it is ignored{meant}"


def is_other(dispatchable: Field) -> bool:
    """Return whether a dispatchable is neither a gather nor named like a gather."""
    kind = dispatchable.member("type")
    name = (dispatchable.first("Type") or kind).text()
    return kind.text().lower() in _OTHER_KINDS or "GATHER" not in name.upper()


def fields_of(dispatchable: Field) -> Field:
    """Return the object that has the operator's fields."""
    return dispatchable.first("Desc", "desc") or dispatchable


def tensors(desc: Descriptor) -> dict[str, TensorDesc]:
    """Return the tensors of a descriptor by their names in directml.h."""
    header = header_names(type(desc))
    return {header[attribute]: getattr(desc, attribute) for attribute in TENSORS}


def is_owned(tensor: TensorDesc) -> bool:
    """Return whether a tensor is OWNED_BY_DML.

    It is then bound when its operator is initialised, and only then.
    """
    return TensorFlags.OWNED_BY_DML in tensor.flags


def _operator(dispatchable: Field) -> type[Descriptor]:
    kind = dispatchable.member("type")
    other = _OTHER_KINDS.get(kind.text().lower())
    if other:
        raise kind.about(other).error("are not gathers")
    name = dispatchable.first("Type") or kind
    return OPERATORS[name.choice(OPERATORS, OPERATOR_PREFIX)]


def _tensor(name: str, field: Field) -> TensorDesc:
    kind = field.first("Type")
    if kind is not None:
        short_kind = kind.text().removeprefix("DML_TENSOR_TYPE_")
        kind.require(short_kind == "BUFFER", "must be BUFFER")
    buffer = field.first("Desc") or field
    fields = buffer.fields()
    data_type = buffer.member("DataType").text()
    sizes = buffer.member("Sizes").integers()
    count = len(sizes)
    if "DimensionCount" in fields:
        count = buffer.member("DimensionCount").integer()
    try:
        rule = f"DimensionCount must be the number of Sizes ({len(sizes)})"
        require(count == len(sizes), rule, count)
        # What is absent has its default. Most tensors have few of these fields.
        optional: dict[str, Any] = {}
        if "Strides" in fields:
            # An empty list is DxDispatch's other way to say null.
            optional["strides"] = buffer.member("Strides").integers() or None
        if "TotalTensorSizeInBytes" in fields:
            total = buffer.member("TotalTensorSizeInBytes").integer()
            optional["total_tensor_size_in_bytes"] = total
        if "Flags" in fields:
            optional["flags"] = buffer.member("Flags").texts()
        if "GuaranteedBaseOffsetAlignment" in fields:
            alignment = buffer.member("GuaranteedBaseOffsetAlignment").integer()
            optional["guaranteed_base_offset_alignment"] = alignment
        return TensorDesc(data_type, sizes, **optional)
    except DescriptorError as error:
        raise DescriptorError(f"{name}.{error}") from None


def _tensor_to_dict(tensor: TensorDesc) -> dict[str, Any]:
    header = header_names(TensorDesc)
    fields = dict[str, Any]()
    for attribute, value in tensor.arguments().items():
        # JSON has lists, no tuples.
        fields[header[attribute]] = list(value) if isinstance(value, tuple) else value
    return fields
