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

OPERATOR_PREFIX = "DML_OPERATOR_"

_OTHER_KINDS = {
    "hlsl": "HLSL shaders",
    "onnx": "ONNX models",
    "dmlserializedgraph": "serialized DirectML graphs",
}


def from_dict(value: object) -> Descriptor:
    """Read a descriptor from a dict in DxDispatch's spelling.

    Args:
        value: `{"type": "DML_OPERATOR_GATHER", "desc": {"InputTensor": {...}, ...}}`, in any of
            the variants that DxDispatch reads.

    Raises:
        FileFormatError: A field is missing or has a wrong type; the message has the path to it.
        DescriptorError: The descriptor breaks a rule of DirectML.
    """
    return read_descriptor(Field(value))


def to_dict(desc: Descriptor) -> dict[str, Any]:
    """A descriptor as a dict that `from_dict` reads, without fields that have their defaults.

    Raises:
        DescriptorError: `desc` is not a descriptor.
    """
    check_descriptor(desc)
    header = header_names(type(desc))
    fields = {name: getattr(desc, attribute) for attribute, name in header.items()}
    fields |= {name: _tensor_to_dict(tensor) for name, tensor in tensors(desc).items()}
    return {"type": OPERATOR_PREFIX + desc.operator, "desc": fields}


def read_descriptor(dispatchable: Field) -> Descriptor:
    """Read the descriptor of a dispatchable.

    Raises:
        FileFormatError: As `from_dict`.
        DescriptorError: As `from_dict`; the path to the fields is `fields_of(dispatchable).path`.
    """
    operator, fields = _operator(dispatchable), fields_of(dispatchable)
    values: dict[str, Any] = {}
    for attribute, name in header_names(operator).items():
        member = fields.member(name)
        values[attribute] = (
            _tensor(name, member) if attribute in TENSORS else member.integer()
        )
    return operator(**values)


def ignored(dispatchable: Field) -> Iterator[str]:
    """Yield a sentence for each field of a gather's tensors whose name is nearly right.

    DxDispatch ignores it as it does every unknown field, so nothing else would tell.
    """
    known = [*header_names(TensorDesc).values(), "DimensionCount", "Type", "Desc"]
    for attribute, name in header_names(_operator(dispatchable)).items():
        tensor = fields_of(dispatchable).member(name)
        if attribute in TENSORS and (tensor := tensor.first("Desc") or tensor):
            for key in islice(tensor.fields(), LONGEST_SEQUENCE):
                meant = (
                    ""
                    if key in known or not key[:1].isalpha()
                    else suggestion(key, known)
                )
                if meant:
                    yield (
                        f"{tensor.path} has no field {quoted(key)}, so it is"
                        f" ignored{meant}"
                    )


def is_other(dispatchable: Field) -> bool:
    """Whether a dispatchable is neither a gather nor named like one."""
    kind = dispatchable.member("type")
    name = (dispatchable.first("Type") or kind).text()
    return kind.text().lower() in _OTHER_KINDS or "GATHER" not in name.upper()


def fields_of(dispatchable: Field) -> Field:
    """Find the object that has the operator's fields."""
    return dispatchable.first("Desc", "desc") or dispatchable


def tensors(desc: Descriptor) -> dict[str, TensorDesc]:
    """The tensors of a descriptor by their names in directml.h."""
    header = header_names(type(desc))
    return {header[attribute]: getattr(desc, attribute) for attribute in TENSORS}


def is_owned(tensor: TensorDesc) -> bool:
    """Whether a tensor is OWNED_BY_DML: bound when its operator is initialised, and only then."""
    return TensorFlags.OWNED_BY_DML in tensor.flags


def _operator(dispatchable: Field) -> type[Descriptor]:
    kind = dispatchable.member("type")
    if other := _OTHER_KINDS.get(kind.text().lower()):
        raise kind.about(other).error("are not gathers")
    return OPERATORS[
        (dispatchable.first("Type") or kind).choice(OPERATORS, OPERATOR_PREFIX)
    ]


def _tensor(name: str, field: Field) -> TensorDesc:
    kind = field.member("Type", "BUFFER")
    kind.require(
        kind.text().removeprefix("DML_TENSOR_TYPE_") == "BUFFER", "must be BUFFER"
    )
    buffer = field.first("Desc") or field
    data_type = buffer.member("DataType").text()
    sizes = buffer.member("Sizes").integers()
    count = buffer.member("DimensionCount", len(sizes)).integer()
    try:
        rule = f"DimensionCount must be the number of Sizes ({len(sizes)})"
        require(count == len(sizes), rule, count)
        # An empty list is DxDispatch's other way to say null.
        strides = buffer.member("Strides", []).integers() or None
        return TensorDesc(
            data_type,
            sizes,
            strides,
            buffer.member("TotalTensorSizeInBytes", 0).integer(),
            buffer.member("Flags", []).texts(),
            buffer.member("GuaranteedBaseOffsetAlignment", 0).integer(),
        )
    except DescriptorError as error:
        raise DescriptorError(f"{name}.{error}") from None


def _tensor_to_dict(tensor: TensorDesc) -> dict[str, Any]:
    header, fields = header_names(TensorDesc), tensor.arguments().items()
    return {header[k]: list(v) if isinstance(v, tuple) else v for k, v in fields}
