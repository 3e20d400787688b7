"""Gather descriptors in DxDispatch's spelling, in and out.

DxDispatch's parser is followed, not its guide: fields of another name are ignored, `Type` beats
`type`, and `Desc` beats `desc`, which beats fields beside `type`.
"""

from __future__ import annotations

from typing import Any, cast

from onnxgather.arrays import check_descriptor
from onnxgather.descriptors import OPERATORS, TENSORS, Descriptor, header_names
from onnxgather.dxdispatch.node import Node
from onnxgather.errors import DescriptorError, FileFormatError
from onnxgather.tensors import TensorDesc, TensorFlags

OPERATOR_PREFIX = "DML_OPERATOR_"

_OTHER_KINDS = {
    "hlsl": "HLSL shaders",
    "onnx": "ONNX models",
    "dmlserializedgraph": "serialized DirectML graphs",
}
_TENSOR_TYPES = ("BUFFER", "DML_TENSOR_TYPE_BUFFER")


def from_dict(value: object) -> Descriptor:
    """Return the descriptor that a dict describes in DxDispatch's spelling.

    Args:
        value: `{"type": "DML_OPERATOR_GATHER", "desc": {"InputTensor": {...}, ...}}`, in any of
            the forms that DxDispatch reads.

    Raises:
        FileFormatError: A field is missing or of another kind; names the path to it.
        DescriptorError: The descriptor breaks a rule of DirectML.
    """
    return read_descriptor(Node(value))


def to_dict(desc: Descriptor) -> dict[str, Any]:
    """Return a descriptor as a dict that `from_dict` reads, without the fields at defaults.

    Raises:
        DescriptorError: `desc` is no descriptor.
    """
    check_descriptor(desc)
    fields = {
        name: _tensor_to_dict(value) if isinstance(value, TensorDesc) else value
        for field, name in header_names(type(desc)).items()
        for value in (getattr(desc, field),)
    }
    return {"type": OPERATOR_PREFIX + desc.operator, "desc": fields}


def read_descriptor(node: Node) -> Descriptor:
    """Return the descriptor of a dispatchable.

    Raises:
        FileFormatError: As `from_dict`.
        DescriptorError: As `from_dict`; the path to the fields is `fields_of(node).path`.
    """
    operator, fields = _operator(node), fields_of(node)
    values: dict[str, Any] = {}
    for field, name in header_names(operator).items():
        member = fields.field(name)
        values[field] = _tensor(name, member) if field in TENSORS else member.integer()
    return operator(**values)


def fields_of(node: Node) -> Node:
    """Return where the operator's fields of a dispatchable are."""
    return node.optional("Desc") or node.optional("desc") or node


def _operator(node: Node) -> type[Descriptor]:
    kind = node.field("type").text()
    if other := _OTHER_KINDS.get(kind.lower()):
        raise FileFormatError(f"{node.path}.type: {other} are not gathers, got {kind!r}")
    name_node = node.optional("Type") or node.field("type")
    operator = OPERATORS.get(name_node.text().removeprefix(OPERATOR_PREFIX))
    if operator is None:
        raise name_node.error(f"must be one of {', '.join(OPERATORS)}")
    return operator


def _tensor(name: str, node: Node) -> TensorDesc:
    if (kind := node.optional("Type")) and kind.text() not in _TENSOR_TYPES:
        raise kind.error("must be BUFFER")
    buffer = node.optional("Desc") or node
    data_type = buffer.field("DataType").text()
    sizes = [size.integer() for size in buffer.field("Sizes").items()]
    strides = buffer.optional("Strides")
    count = buffer.optional("DimensionCount")
    total = buffer.optional("TotalTensorSizeInBytes")
    flags = buffer.optional("Flags")
    alignment = buffer.optional("GuaranteedBaseOffsetAlignment")
    if count is not None and count.integer() != len(sizes):
        rule = f"{name}.DimensionCount must be the number of Sizes ({len(sizes)})"
        raise DescriptorError(f"{rule}, got {count.value}")
    try:
        return TensorDesc(
            data_type,
            sizes,
            # An empty list is DxDispatch's other way to say null.
            strides=([s.integer() for s in strides.items()] or None) if strides else None,
            total_tensor_size_in_bytes=total.integer() if total else None,
            flags=names(flags) if flags else TensorFlags.NONE,
            guaranteed_base_offset_alignment=alignment.integer() if alignment else 0,
        )
    except DescriptorError as error:
        raise DescriptorError(f"{name}.{error}") from None


def names(node: Node) -> list[str]:
    """Return the names of flags: a string, or an array of strings."""
    if isinstance(node.value, str):
        return [node.text()]
    if not isinstance(node.value, list | tuple):
        raise node.error("must be a string or an array of strings")
    return [item.text() for item in node.items()]


def _tensor_to_dict(tensor: TensorDesc) -> dict[str, Any]:
    defaults = {
        "strides": None,
        "total_tensor_size_in_bytes": tensor.default_total_tensor_size_in_bytes,
        "flags": TensorFlags.NONE,
        "guaranteed_base_offset_alignment": 0,
    }
    return {
        name: _plain(value)
        for field, name in header_names(TensorDesc).items()
        for value in (getattr(tensor, field),)
        if field not in defaults or value != defaults[field]
    }


def _plain(value: object) -> object:
    if isinstance(value, TensorFlags):
        return value.name
    if isinstance(value, str):
        return str(value)
    return list(cast("tuple[int, ...]", value)) if isinstance(value, tuple) else value
