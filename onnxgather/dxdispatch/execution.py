"""Running a program: its commands in order, on resources that are plain bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from onnxgather.arrays import Array, check_array, elements
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.bindings import Binding, is_owned, tensors
from onnxgather.dxdispatch.files import npy_header, target_file, write_file
from onnxgather.dxdispatch.node import located
from onnxgather.dxdispatch.printing import printed
from onnxgather.dxdispatch.program import DispatchCommand, PrintCommand, Program, WriteFileCommand
from onnxgather.dxdispatch.values import Bytes
from onnxgather.errors import FileFormatError
from onnxgather.tensors import TensorDesc

Evaluate = Callable[[Descriptor, Array, Array], Array]
"""Computes OutputTensor from a descriptor, InputTensor and IndicesTensor."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What one dispatch command computed."""

    path: str
    """The command, such as `$.commands[0]`."""
    dispatchable: str
    descriptor: Descriptor
    data: Array
    indices: Array
    output: Array


def execute(
    program: Program,
    evaluate: Evaluate,
    *,
    output_folder: str | os.PathLike[str],
    allow_outside: bool = False,
) -> Iterator[str]:
    """Run the commands of a program and yield what its print commands print.

    Args:
        program: The program.
        evaluate: What runs an operator.
        output_folder: Where writeFile writes.
        allow_outside: Whether it may also write elsewhere.

    Yields:
        One text per print command, without the last newline. Each character is one byte (to be
        written as Latin-1): names are UTF-8, and 8-bit values are raw bytes, as dxdispatch
        prints them.

    Raises:
        OnnxGatherError: A target is out of bounds (before anything runs), a file cannot be read
            or written, or `evaluate` raises; the message starts with file and command.
    """
    memory, folder = _Memory(program), os.fspath(output_folder)
    targets: dict[str, str] = {}
    for command in program.commands:
        if isinstance(command, WriteFileCommand):
            with located(program.path):
                target = target_file(command.target, folder, allow_outside=allow_outside)
            targets[command.path] = target
    return _lines(memory, evaluate, targets)


def dispatches(program: Program, evaluate: Evaluate) -> Iterator[Dispatch]:
    """Run the dispatch commands of a program, and nothing else, and yield what they computed.

    Raises:
        OnnxGatherError: As `execute`.
    """
    memory = _Memory(program)
    for command in program.commands:
        if isinstance(command, DispatchCommand):
            with located(program.path):
                dispatch = memory.dispatch(command, evaluate)
            yield dispatch


def _lines(memory: _Memory, evaluate: Evaluate, targets: dict[str, str]) -> Iterator[str]:
    for command in memory.program.commands:
        line = None
        with located(memory.program.path):
            match command:
                case DispatchCommand():
                    memory.dispatch(command, evaluate)
                case PrintCommand():
                    line = memory.printed(command)
                case WriteFileCommand():
                    memory.write(command, targets[command.path])
        if line is not None:
            yield line


class _Memory:
    """The resources of a running program, each made when it is first used."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._buffers: dict[str, Bytes] = {}
        self._owned: dict[tuple[str, str], Array] = {}

    def dispatch(self, command: DispatchCommand, evaluate: Evaluate) -> Dispatch:
        dispatchable = self.program.dispatchables[command.dispatchable]
        desc = dispatchable.descriptor
        try:
            data, indices = (
                self._owned_input(command.dispatchable, name, tensor, dispatchable.bindings[name])
                if is_owned(tensor)
                else self._input(tensor, command.bindings[name])
                for name, tensor in tensors(desc).items()
                if name != "OutputTensor"
            )
            with located(command.path):
                output = evaluate(desc, data, indices)
                check_array("OutputTensor", desc.output_tensor, output)
            self._store(desc.output_tensor, command.bindings["OutputTensor"], output)
        except MemoryError:
            raise FileFormatError(f"{command.path}: there is no memory for its tensors") from None
        return Dispatch(command.path, command.dispatchable, desc, data, indices, output)

    def printed(self, command: PrintCommand) -> str:
        resource = self.program.resources[command.resource]
        assert resource.data_type is not None
        content = self._buffer(command.resource)[: resource.values.size]
        return printed(command.resource, resource.data_type, content, verbose=command.verbose)

    def write(self, command: WriteFileCommand, target: str) -> None:
        content = self._buffer(command.resource)
        header = b""
        if command.is_npy:
            data_type = self.program.resources[command.resource].data_type
            assert data_type is not None
            shape = command.dimensions or (content.size // data_type.size,)
            header = npy_header(data_type, shape)
        write_file(command.target, target, header, content)

    def _buffer(self, name: str) -> Bytes:
        if name not in self._buffers:
            self._buffers[name] = self.program.resources[name].initial_bytes()
        return self._buffers[name]

    def _owned_input(
        self, dispatchable: str, name: str, tensor: TensorDesc, binding: Binding
    ) -> Array:
        """Return an input that was read before the first command, and never again."""
        key = (dispatchable, name)
        if key not in self._owned:
            buffer = self.program.resources[binding.resource].initial_bytes()
            self._owned[key] = _array(tensor, buffer, binding.offset)
        return self._owned[key]

    def _input(self, tensor: TensorDesc, binding: Binding) -> Array:
        return _array(tensor, self._buffer(binding.resource), binding.offset)

    def _store(self, tensor: TensorDesc, binding: Binding, output: Array) -> None:
        """Write the elements of the output; what lies between them stays as it was."""
        place = self._buffer(binding.resource)[binding.offset :]
        place = place[: output.nbytes].view(output.dtype).reshape(output.shape)
        if tensor.strides is None:
            place[...] = output
        else:
            steps = [stride * output.itemsize for stride in tensor.strides]
            view = np.lib.stride_tricks.as_strided(place, tensor.sizes, steps)
            view[...] = elements(tensor, output)


def _array(tensor: TensorDesc, buffer: Bytes, offset: int) -> Array:
    shape, dtype = tensor.array_shape, tensor.data_type.numpy
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return buffer[offset : offset + size].copy().view(dtype).reshape(shape)
