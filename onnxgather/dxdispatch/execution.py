"""Running a program: its commands in order, on resources that are plain bytes.

`print` writes its lines byte for byte as dxdispatch.exe does. Two of its habits show: 8-bit
integers come out as the characters with those codes, and a line ends at the first NUL, so at the
first 0 among them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgather.arrays import Array, check_array, elements
from onnxgather.datatypes import TensorDataType
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.descriptor import is_owned, tensors
from onnxgather.dxdispatch.document import Field
from onnxgather.dxdispatch.program import DispatchCommand, PrintCommand, Program, WriteFileCommand
from onnxgather.dxdispatch.resources import Bytes, is_inside
from onnxgather.errors import FileFormatError, located
from onnxgather.files import replace_file
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
    folder = os.fspath(output_folder)
    with located(program.path):
        targets = {
            command.path: _target(command.target, folder, allow_outside)
            for command in program.commands
            if isinstance(command, WriteFileCommand)
        }
    return _lines(program, evaluate, targets)


def dispatches(program: Program, evaluate: Evaluate) -> Iterator[Dispatch]:
    """Run the dispatch commands of a program, and nothing else, and yield what they computed.

    Raises:
        OnnxGatherError: As `execute`.
    """
    memory = _Memory(program)
    with located(program.path):
        for command in program.commands:
            if isinstance(command, DispatchCommand):
                yield memory.dispatch(command, evaluate)


def _lines(program: Program, evaluate: Evaluate, targets: dict[str, str]) -> Iterator[str]:
    memory = _Memory(program)
    with located(program.path):
        for command in program.commands:
            match command:
                case DispatchCommand():
                    memory.dispatch(command, evaluate)
                case PrintCommand():
                    name, values = command.resource, program.resources[command.resource].values
                    assert values.data_type is not None
                    content = memory.buffer(name)[: values.size]
                    yield printed(name, values.data_type, content, verbose=command.verbose)
                case WriteFileCommand():
                    content = memory.buffer(command.resource)
                    with command.target.opening():
                        replace_file(targets[command.path], command.header, content.data)


def _buffers(program: Program) -> Callable[[str], Bytes]:
    """The buffer of each resource by its name; each is made when it is first used."""

    def buffer(name: str) -> Bytes:
        return program.resources[name].initial_bytes()

    return cache(buffer)


class _Memory:
    """The resources of a running program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.buffer = _buffers(program)
        # OWNED_BY_DML inputs have the values that their resources had before the first command.
        self._initial_buffer = _buffers(program)

    def dispatch(self, command: DispatchCommand, evaluate: Evaluate) -> Dispatch:
        desc = self._program.dispatchables[command.dispatchable].descriptor
        try:
            data, indices, output = (
                self._view(tensor, command, name) for name, tensor in tensors(desc).items()
            )
            data, indices = data.copy(), indices.copy()  # the output may be in the same resource
            with located(command.path):
                computed = evaluate(desc, data, indices)
                check_array("OutputTensor", desc.output_tensor, computed)
            # Only the elements are written; the bytes between them stay as they were.
            elements(desc.output_tensor, output)[...] = elements(desc.output_tensor, computed)
        except MemoryError:
            raise FileFormatError(f"{command.path}: there is no memory for its tensors") from None
        return Dispatch(command.path, command.dispatchable, desc, data, indices, computed)

    def _view(self, tensor: TensorDesc, command: DispatchCommand, name: str) -> Array:
        """View the bytes that a tensor is bound to as the array that stands for the tensor."""
        buffer = self._initial_buffer if is_owned(tensor) else self.buffer
        binding = command.bindings[name]
        content = buffer(binding.resource)
        return np.ndarray(tensor.array_shape, tensor.data_type.numpy, content.data, binding.offset)


def _target(field: Field, folder: str, allow_outside: bool) -> str:
    """The path of the file that a `targetPath` names."""
    target = os.path.join(folder, field.text())
    inside = allow_outside or is_inside(target, [folder])
    field.require(inside, "must stay in the output folder")
    return os.path.realpath(target)


def printed(name: str, data_type: TensorDataType, content: Bytes, *, verbose: bool) -> str:
    """What `print` writes for a resource, one character (Latin-1) per byte.

    Args:
        name: The resource's name, which is written as UTF-8.
        data_type: The type of its initial values.
        content: As many bytes as its initial values have.
        verbose: Whether each value is on a line of its own, with its position and its bits.
    """
    whole = content.size // data_type.size * data_type.size
    values = content[:whole].view(data_type.numpy)
    texts = _texts(values)
    line = f"Resource '{name}':".encode().decode("latin-1")
    if verbose:
        bits = values.view(f"u{data_type.size}").tolist()
        width, digits = len(str(max(1, len(bits)))), data_type.size * 2
        rows = enumerate(zip(texts, bits, strict=True))
        line += "\n" + "".join(f"[{i:{width}}] {t} (0x{b:{digits}X})\n" for i, (t, b) in rows)
    else:
        line += " " + ", ".join(texts)
    return line.partition("\0")[0]


def _texts(values: Array) -> list[str]:
    """Each value as a C++ stream on Windows writes it."""
    if values.dtype.kind == "f":
        texts = [f"{value:g}" for value in values.tolist()]
        for i in np.flatnonzero(np.isnan(values)).tolist():
            texts[i] = _nan(values[i : i + 1])
        return texts
    if values.itemsize == 1:
        return list(values.tobytes().decode("latin-1"))
    return [str(value) for value in values.tolist()]


def _nan(value: Array) -> str:
    """A NaN as Microsoft's C runtime writes it, after the promotion to double."""
    bits, quiet = (
        int(value.view(f"u{value.itemsize}")[0]),
        1 << {2: 9, 4: 22, 8: 51}[value.itemsize],
    )
    fraction = bits & (2 * quiet - 1)
    nan = "-nan" if np.signbit(value[0]) else "nan"
    if value.itemsize == 8 and not fraction & quiet:  # the promotion makes the smaller ones quiet
        return nan + "(snan)"
    return nan + "(ind)" if nan == "-nan" and fraction in (0, quiet) else nan
