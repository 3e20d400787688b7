"""The resources of a running program, and what a dispatch reads and writes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    check_array,
    elements,
    with_padding,
)
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import is_owned, tensors
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import FileFormatError, located
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.resources import Bytes, Resource
from onnxgather.core.public import public

Evaluate = Callable[[Descriptor, Array, Array], Array]
"""Computes OutputTensor from a descriptor, InputTensor and IndicesTensor."""


class Binding(Struct, frozen=True):
    """The part of a resource that a tensor is bound to."""

    resource: str
    offset: int
    """The offset of its first byte."""
    last: int
    """The offset of the tensor's last byte, by its TotalTensorSizeInBytes."""

    @property
    def span(self) -> str:
        """Return the bytes of the tensor, as a message shows them."""
        return f"bytes {self.offset} to {self.last}"

    def shares_bytes_with(self, other: Binding) -> bool:
        """Return whether two tensors have a byte in common."""
        if self.resource != other.resource:
            return False
        return self.offset <= other.last and other.offset <= self.last


class DispatchCommand(Struct, frozen=True):
    """Runs a dispatchable."""

    path: str
    dispatchable: str
    descriptor: Descriptor
    bindings: Mapping[str, Binding]
    """The bindings of all tensors, by their names in directml.h; those of OWNED_BY_DML
    inputs are the dispatchable's."""


@public
@dataclass(frozen=True, slots=True)
class Dispatch:
    """A gather of a program, with what it reads.

    Example:
        >>> (gather,) = og.load("models/gather_3_swap_columns.json").dispatches
        >>> gather.name, gather.out_of_range
        ('gather', 'clamp')
        >>> gather.descriptor.output_tensor
        TensorDesc('FLOAT32', (3, 2))
    """

    name: str
    """The name of its dispatchable."""
    descriptor: Descriptor
    data: Array | None
    """InputTensor; None where nothing gives it data, as in a bare descriptor."""
    indices: Array | None
    """IndicesTensor; None where `data` is None."""
    out_of_range: OutOfRange
    """What an index out of range does: in a model what the model does, else "clamp"."""


class DispatchRun(Struct, frozen=True):
    """What one dispatch command computed."""

    path: str
    """The command, such as `$.commands[0]`."""
    dispatchable: str
    descriptor: Descriptor
    data: Array
    indices: Array
    output: Array


class Memory:
    """The resources of a running program.

    Args:
        resources: The resources, by name.
    """

    def __init__(self, resources: Mapping[str, Resource]) -> None:
        self._resources = resources

        def initial_bytes(name: str) -> Bytes:
            return resources[name].initial_bytes()

        self.buffer = cache(initial_bytes)
        # OWNED_BY_DML inputs have the values that their resources had before the first
        # command.
        self._initial_buffer = cache(initial_bytes)

    def dispatch(
        self, command: DispatchCommand, evaluate: Evaluate, *, copies: bool = False
    ) -> DispatchRun:
        """Run an operator.

        Args:
            command: The command.
            evaluate: Runs the operator.
            copies: Whether the inputs are copied; if not, later commands may change
                them.
        """
        try:
            desc, data, indices, output = self.operands(command)
            if copies:
                data = data.copy()
                indices = indices.copy()
            tensor = desc.output_tensor
            with located(command.path):
                computed = evaluate(desc, data, indices)
                check_array("OutputTensor", tensor, computed)
            # Only the elements are written; the bytes between them stay as they were.
            elements(tensor, output)[...] = elements(tensor, computed)
        except MemoryError:
            rule = "there is no memory for its tensors"
            raise FileFormatError(f"{command.path}: {rule}") from None
        return DispatchRun(
            command.path, command.dispatchable, desc, data, indices, computed
        )

    def operands(
        self, command: DispatchCommand
    ) -> tuple[Descriptor, Array, Array, Array]:
        """Return the descriptor of a dispatch, and the arrays of its tensors."""
        desc = command.descriptor
        data, indices, output = (
            self._view(tensor, command, role) for role, tensor in tensors(desc).items()
        )
        # An index out of range reads what lies behind the elements.
        padded = with_padding(desc)
        if padded is not desc and not all_in_range(desc, indices):
            data = self._view(padded.input_tensor, command, "InputTensor")
            return padded, data, indices, output
        return desc, data, indices, output

    def misread(self, command: DispatchCommand) -> Iterator[str]:
        """Yield a sentence for each tensor that misreads the numbers of its resource.

        The bits of a tensor may be given as unsigned integers, and integers of one size
        agree wherever both types have them.
        """
        for role, tensor in tensors(command.descriptor).items():
            resource = self._resources[command.bindings[role].resource]
            data_type = resource.data_type
            if data_type is None or _may_be_read_as(data_type, tensor.data_type):
                continue
            rule = f"must hold {tensor.data_type}, as {role} of {command.path}"
            yield f"{resource.path} {rule}, got {data_type}"

    def bound(self, command: DispatchCommand, role: str) -> tuple[Bytes, int]:
        """Return the resource that a tensor is bound to, and the offset in bytes."""
        binding = command.bindings[role]
        if is_owned(tensors(command.descriptor)[role]):
            buffer = self._initial_buffer(binding.resource)
        else:
            buffer = self.buffer(binding.resource)
        return buffer, binding.offset

    def _view(self, tensor: TensorDesc, command: DispatchCommand, role: str) -> Array:
        """Return the bytes that a tensor is bound to, as the tensor's array."""
        content, offset = self.bound(command, role)
        dtype = tensor.data_type.numpy
        return np.ndarray(tensor.array_shape, dtype, content.data, offset)


def _may_be_read_as(given: TensorDataType, wanted: TensorDataType) -> bool:
    """Return whether numbers of a type may be read as numbers of another type."""
    given_kind = given.numpy.kind
    wanted_kind = wanted.numpy.kind
    if given_kind == "u" and given.size <= wanted.size:  # the bits, in words
        return True
    if given.size != wanted.size:
        return False
    both_integers = "f" not in (given_kind, wanted_kind)
    return given_kind == wanted_kind or both_integers
