"""Bindings: which part of which resource a tensor of an operator is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxgather.descriptors import TENSORS, Descriptor, header_names
from onnxgather.dxdispatch.node import Node
from onnxgather.dxdispatch.resources import Resource
from onnxgather.errors import FileFormatError
from onnxgather.tensors import TensorDesc, TensorFlags

ALIGNMENT = 16
"""`DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT`: what byte offsets are multiples of."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A resource from a byte offset on."""

    resource: str
    offset: int = 0


Bindings = Mapping[str, Binding]
"""By the name of the tensor in directml.h."""


def tensors(desc: Descriptor) -> dict[str, TensorDesc]:
    """Return the tensors of a descriptor by their names in directml.h."""
    names = header_names(type(desc))
    return {names[field]: getattr(desc, field) for field in TENSORS}


def is_owned(tensor: TensorDesc) -> bool:
    """Return whether a tensor is bound when its operator is initialised, and only then."""
    return TensorFlags.OWNED_BY_DML in tensor.flags


def read_bindings(
    node: Node, desc: Descriptor, resources: Mapping[str, Resource], *, owned: bool
) -> Bindings:
    """Return the bindings of a dispatchable (`owned`) or of a dispatch command.

    Raises:
        FileFormatError: A tensor that is bound there has no binding or an unusable one, or
            something else has one.
    """
    found = dict(node.entries())
    wanted = tensors(desc)
    for name, binding in found.items():
        if name not in wanted:
            raise FileFormatError(
                f"{binding.path} must be the name of a tensor ({', '.join(wanted)}), got {name!r}"
            )
        if is_owned(wanted[name]) != owned:
            owner = "is bound in the dispatchable" if not owned else "is bound by the dispatch"
            flag = "OWNED_BY_DML" if not owned else "not OWNED_BY_DML"
            raise FileFormatError(f"{binding.path} must be absent, as a tensor {flag} {owner}")
    wanted = {name: tensor for name, tensor in wanted.items() if is_owned(tensor) == owned}
    for name in wanted:
        if name not in found:
            raise FileFormatError(f"{node.path}.{name} is required")
    return {name: _binding(name, tensor, found[name], resources) for name, tensor in wanted.items()}


def _binding(
    name: str, tensor: TensorDesc, node: Node, resources: Mapping[str, Resource]
) -> Binding:
    if isinstance(node.value, list):
        items = node.items()
        if len(items) != 1:
            raise FileFormatError(
                f"{node.path} must bind one resource, as {name} is one tensor, got {len(items)}"
            )
        node = items[0]
    if isinstance(node.value, str):
        resource = resource_named(node, resources)
        return _checked(name, tensor, node, resource, Binding(node.text()))
    if not isinstance(node.value, dict):
        raise node.error("must be the name of a resource, or an object")
    resource = resource_named(node.field("name"), resources)
    _check_ignored(node, resources)
    element = node.unsigned_field("elementSizeInBytes")
    if element == 0 and resource.data_type is not None:
        element = resource.data_type.size
    offset = node.unsigned_field("elementOffset") * element
    if offset % ALIGNMENT:
        raise FileFormatError(
            f"{node.path}: elementOffset times elementSizeInBytes must be a multiple of "
            f"{ALIGNMENT}, got {offset}"
        )
    return _checked(name, tensor, node, resource, Binding(node.field("name").text(), offset))


def resource_named(node: Node, resources: Mapping[str, Resource]) -> Resource:
    """Return the resource of a name.

    Raises:
        FileFormatError: There is none.
    """
    resource = resources.get(node.text())
    if resource is None:
        raise node.error("must be the name of a resource")
    return resource


def _checked(
    name: str, tensor: TensorDesc, node: Node, resource: Resource, binding: Binding
) -> Binding:
    # DirectML binds from the offset to the end of the resource, whatever elementCount says.
    size = resource.size_in_bytes - binding.offset
    if size < tensor.total_tensor_size_in_bytes:
        raise FileFormatError(
            f"{node.path} must bind at least {tensor.total_tensor_size_in_bytes} bytes, the "
            f"TotalTensorSizeInBytes of {name}, got {max(0, size)}"
        )
    return binding


def _check_ignored(node: Node, resources: Mapping[str, Resource]) -> None:
    """Check the form of what a DirectML operator has no use for."""
    node.unsigned_field("elementCount")
    if dxgi_format := node.optional("format"):
        dxgi_format.text()
    if counter := node.optional("counter"):
        resource_named(counter, resources)
        node.unsigned_field("counterOffsetBytes")
    if shape := node.optional("shape"):
        for size in shape.items():
            size.integer()
