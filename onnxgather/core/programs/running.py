"""Running a program: its commands in order, on resources that are plain bytes.

`print` and `writeFile` write their lines byte for byte as dxdispatch.exe does. Two of
its habits show: 8-bit integers come out as the characters with those codes, and a line
ends at the first NUL, so at the first 0 among them. Its lines about the adapter and the
time of a dispatch are left out.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    check_array,
    elements,
    indices_outside,
    with_padding,
)
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import is_owned, read_descriptor, tensors
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.documents import Field
from onnxgather.core.errors import FileFormatError, located
from onnxgather.core.files import replace_file
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.programs.program import (
    DispatchCommand,
    PrintCommand,
    Program,
    WriteFileCommand,
)
from onnxgather.core.programs.resources import Bytes

Evaluate = Callable[[Descriptor, Array, Array], Array]
"""Computes OutputTensor from a descriptor, InputTensor and IndicesTensor."""

OnResources = Callable[[Descriptor, Sequence[tuple[Bytes, int]]], Bytes]
"""Computes what the resource of OutputTensor holds after a dispatch, from the
descriptor and, for each tensor, the resource and the offset in bytes there."""

PIECE = 2**14
"""The most values that are formatted at once."""

COMPARED = 2**22
"""The most output elements that are compared with DirectML's where an index is out of
range."""

_PLAIN_NAME = (
    r'(?i)(?!\.|(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|COM\d|LPT\d) *(\.|$))[^<>:"|?*]+'
)
"""The name of a file or folder that is not hidden, and no device and no stream of
Windows."""


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
    evaluate: Callable[[Descriptor, Array, Array, OutOfRange], Array],
    out_of_range: OutOfRange = "directml",
    *,
    output_folder: str | os.PathLike[str],
    allow_outside: bool = False,
    note: Callable[[str], None] = lambda _: None,
    on_resources: OnResources | None = None,
) -> Iterator[bytes]:
    """Run the commands of a program and yield what they print.

    writeFile replaces plain files below the output folder. Without `allow_outside` it
    takes no hidden names, no devices, and no way through a link. Targets are checked
    before anything runs, and again when they are written. A link in the place of the
    file itself is never followed; a folder that another process exchanges for a link
    between that check and the writing is.

    Args:
        program: The program.
        evaluate: What runs an operator by a policy. The policy is "clamp", the fastest, where every
            index is in range, as all policies give the same there.
        out_of_range: What an index out of range does.
        output_folder: Where writeFile writes.
        allow_outside: Whether it may also write anywhere else; an input of the program it never
            replaces.
        note: Called with a sentence where indices are out of range, or where a tensor reads the
            numbers of a resource as numbers of another type.
        on_resources: What runs an operator with its real bindings, in place of `evaluate`; it alone
            takes an input that shares bytes with the output, which is noted.

    Yields:
        The lines in pieces, as bytes: names are UTF-8, and 8-bit values are raw, as dxdispatch
        prints them.

    Raises:
        OnnxGatherError: A target must not be written, or an input shares bytes with the output
            (both before anything runs), a file cannot be read or written, or what runs an operator
            raises; the message starts with file and command.
    """
    memory = _Memory(program)
    target = partial(_target, program, os.path.abspath(output_folder), allow_outside)

    def tell(text: str) -> None:
        note(f"{program.path}: {text}")

    if on_resources is None:
        program.check_apart()
    for sentence in program.in_place("DirectML.dll may read what it has written"):
        tell(sentence)
    with located(program.path):
        if program.other:
            read_descriptor(program.other)
        for command in program.commands:
            if isinstance(command, WriteFileCommand):
                target(command.target)

    def by_policy(path: str, desc: Descriptor, data: Array, indices: Array) -> Array:
        """The output of a dispatch; a note tells where its indices are out of range."""
        if all_in_range(desc, indices):
            return evaluate(desc, data, indices, "clamp")
        output = evaluate(desc, data, indices, out_of_range)
        tell(f"{path}: {told_outside(desc, data, indices, out_of_range, output)}")
        return output

    def dispatch(command: DispatchCommand) -> None:
        """Run an operator; a note tells of numbers that a tensor reads as others."""
        for sentence in memory.misread(command):
            tell(f"{sentence}; its bytes are bound as they are")
        if on_resources is None:
            memory.dispatch(command, partial(by_policy, command.path))
            return
        desc, data, indices, _ = memory.operands(command)
        if not all_in_range(desc, indices):
            tell(
                f"{command.path}: {told_outside(desc, data, indices, 'directml', None)}"
            )
        bound = [memory.bound(command, name) for name in tensors(desc)]
        with located(command.path):
            bound[-1][0][...] = on_resources(command.descriptor, bound)

    def lines() -> Iterator[bytes]:
        with located(program.path):
            for command in program.commands:
                match command:
                    case DispatchCommand():
                        dispatch(command)
                    case PrintCommand(_, name, verbose):
                        values = program.resources[name].values
                        assert values.data_type is not None
                        content = memory.buffer(name)[: values.size]
                        yield from printed(
                            name, values.data_type, content, verbose=verbose
                        )
                    case WriteFileCommand(_, name, field, header):
                        path, content = target(field), memory.buffer(name).data
                        with field.opening():
                            replace_file(path, header, content, follow=allow_outside)
                        head = f"Resource '{name}' written to '".encode()
                        yield from _line([head, os.fsencode(path), b"'"])

    return lines()


def _target(program: Program, folder: str, allow_outside: bool, field: Field) -> str:
    """The path of the file that a `targetPath` names; the rest as of `execute`."""
    # dxdispatch is a program for Windows, where a path may have either separator.
    path = os.path.abspath(os.path.join(folder, field.text().replace("\\", "/")))
    inputs = map(os.path.realpath, (program.path, *program.files))
    field.require(
        os.path.realpath(path) not in inputs, "must not be an input of the program"
    )
    if not allow_outside:
        field.require(
            Path(path).is_relative_to(folder), "must stay in the output folder"
        )
        names = Path(path).relative_to(folder).parts
        plain = all(
            name.isprintable() and re.fullmatch(_PLAIN_NAME, name) for name in names
        )
        field.require(plain, "must have no hidden and no reserved name")
        direct = Path(os.path.realpath(folder), *names)
        field.require(
            Path(os.path.realpath(path)) == direct, "must not lead through a link"
        )
        is_file = os.path.isfile(path) or not os.path.exists(path)
        field.require(is_file, "must be a file, not a folder or a device")
    return path


def dispatches(program: Program, evaluate: Evaluate) -> Iterator[Dispatch]:
    """Run the dispatch commands of a program, and nothing else, and yield what they computed.

    Raises:
        OnnxGatherError: As `execute`, and where a tensor reads the numbers of a resource as others.
    """
    program.check_apart()
    memory = _Memory(program)
    with located(program.path):
        for command in program.dispatch_commands:
            for sentence in memory.misread(command):
                raise FileFormatError(sentence)
            yield memory.dispatch(command, evaluate, copies=True)


def told_outside(
    desc: Descriptor,
    data: Array,
    indices: Array,
    policy: OutOfRange,
    output: Array | str | None,
) -> str:
    """How many indices are out of range, what becomes of them, and how much it matters.

    Args:
        desc: The descriptor.
        data: InputTensor, with what lies behind its elements in the buffer, as DirectML reads it.
        indices: IndicesTensor.
        policy: What an index out of range does.
        output: OutputTensor under the policy; another value where there is none, or where it is
            not known.

    Returns:
        The sentence; empty if every index is in range and the outputs are equal.
    """
    outside, brief = indices_outside(desc, indices), POLICIES[policy].brief
    count = np.count_nonzero(outside)
    text = f"indices out of range: {count} of {outside.size}; such an index {brief}"
    size = math.prod(desc.output_tensor.sizes)
    if not isinstance(output, np.ndarray) or policy == "directml":
        return text
    if size > COMPARED:
        return f"{text}; too many output elements to compare with DirectML's: {size}"
    wanted, bits = reference(desc, data, indices, "directml"), f"u{output.itemsize}"
    differ = np.count_nonzero(output.view(bits) != wanted.view(bits))
    told = f"output elements that differ from DirectML's: {differ} of {size}"
    if count:
        return f"{text}; {told}"
    return told if differ else ""


class _Memory:
    """The resources of a running program."""

    def __init__(self, program: Program) -> None:
        program.check_run()
        self._program = program

        def initial(name: str) -> Bytes:
            return program.resources[name].initial_bytes()

        self.buffer = cache(initial)
        # OWNED_BY_DML inputs have the values that their resources had before the first
        # command.
        self._initial_buffer = cache(initial)

    def dispatch(
        self, command: DispatchCommand, evaluate: Evaluate, *, copies: bool = False
    ) -> Dispatch:
        """Run an operator.

        Args:
            command: The command.
            evaluate: What runs the operator.
            copies: Whether the inputs are copied; if not, later commands may change them.
        """
        try:
            desc, data, indices, output = self.operands(command)
            if copies:
                data, indices = data.copy(), indices.copy()
            with located(command.path):
                computed = evaluate(desc, data, indices)
                check_array("OutputTensor", desc.output_tensor, computed)
            # Only the elements are written; the bytes between them stay as they were.
            elements(desc.output_tensor, output)[...] = elements(
                desc.output_tensor, computed
            )
        except MemoryError:
            raise FileFormatError(
                f"{command.path}: there is no memory for its tensors"
            ) from None
        return Dispatch(
            command.path, command.dispatchable, desc, data, indices, computed
        )

    def operands(
        self, command: DispatchCommand
    ) -> tuple[Descriptor, Array, Array, Array]:
        """The descriptor of a dispatch, and the arrays that stand for its tensors."""
        desc, padded = command.descriptor, with_padding(command.descriptor)
        views = [
            self._view(tensor, command, name) for name, tensor in tensors(desc).items()
        ]
        if padded is not desc and not all_in_range(desc, views[1]):
            desc, views[0] = (
                padded,
                self._view(padded.input_tensor, command, "InputTensor"),
            )
        data, indices, output = views
        return desc, data, indices, output

    def misread(self, command: DispatchCommand) -> Iterator[str]:
        """Yield a sentence for each tensor whose data type misreads the numbers of its resource.

        The bits of a tensor may be given as unsigned integers, and integers of one size
        agree wherever both types have them.
        """
        for name, tensor in tensors(command.descriptor).items():
            resource = self._program.resources[command.bindings[name].resource]
            wanted, found = tensor.data_type, resource.data_type
            if found is None:
                continue
            one, other = found.numpy, wanted.numpy
            agree = one.kind == other.kind or "f" not in one.kind + other.kind
            bits = one.kind == "u" and one.itemsize <= other.itemsize
            if not bits and not (agree and one.itemsize == other.itemsize):
                rule = f"must hold {wanted}, as {name} of {command.path}"
                yield f"{resource.path} {rule}, got {found}"

    def bound(self, command: DispatchCommand, name: str) -> tuple[Bytes, int]:
        """The resource that a tensor is bound to, and the offset in bytes there."""
        owned, binding = (
            is_owned(tensors(command.descriptor)[name]),
            command.bindings[name],
        )
        return (self._initial_buffer if owned else self.buffer)(
            binding.resource
        ), binding.offset

    def _view(self, tensor: TensorDesc, command: DispatchCommand, name: str) -> Array:
        """View the bytes that a tensor is bound to as the array that stands for the tensor."""
        content, offset = self.bound(command, name)
        return np.ndarray(
            tensor.array_shape, tensor.data_type.numpy, content.data, offset
        )


def printed(
    name: str, data_type: TensorDataType, content: Bytes, *, verbose: bool
) -> Iterator[bytes]:
    """Yield what `print` writes for a resource, in pieces.

    Args:
        name: The resource's name, which is written as UTF-8.
        data_type: The type of its initial values.
        content: As many bytes as its initial values have.
        verbose: Whether each value is on a line of its own, with its position and its bits.
    """
    values = content[: content.size // data_type.size * data_type.size].view(
        data_type.numpy
    )
    return _line(_pieces(f"Resource '{name}':".encode(), values, verbose))


def _line(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a line as dxdispatch prints it: up to the first NUL."""
    for piece in pieces:
        shown, nul, _ = piece.partition(b"\0")
        yield shown
        if nul:
            break
    yield b"\n"


def _pieces(head: bytes, values: Array, verbose: bool) -> Iterator[bytes]:
    yield head + (b"\n" if verbose else b" ")
    width, digits = len(str(max(1, values.size))), values.itemsize * 2
    for start in range(0, values.size, PIECE):
        some = values[start : start + PIECE]
        texts = _texts(some)
        if verbose:
            bits = some.view(f"u{some.itemsize}").tolist()
            rows = enumerate(zip(texts, bits, strict=True), start)
            text = "".join(
                f"[{i:{width}}] {t} (0x{b:{digits}X})\n" for i, (t, b) in rows
            )
        else:
            text = ", " * bool(start) + ", ".join(texts)
        yield text.encode("latin-1")


def _texts(values: Array) -> list[str]:
    """Each value as a C++ stream on Windows writes it."""
    if values.itemsize == 1:
        return list(values.tobytes().decode("latin-1"))
    form = "%g " if values.dtype.kind == "f" else "%d "
    texts: list[str] = str(form * values.size % tuple(values.tolist())).split()
    for i in np.flatnonzero(values != values).tolist():
        texts[i] = _nan(values[i : i + 1])
    return texts


def _nan(value: Array) -> str:
    """A NaN as Microsoft's C runtime writes it, after the promotion to double."""
    quiet = 1 << {2: 9, 4: 22, 8: 51}[value.itemsize]
    fraction = int(value.view(f"u{value.itemsize}")[0]) & (2 * quiet - 1)
    nan = "-nan" if np.signbit(value[0]) else "nan"
    if (
        value.itemsize == 8 and not fraction & quiet
    ):  # the promotion makes the smaller ones quiet
        return nan + "(snan)"
    return nan + "(ind)" if nan == "-nan" and fraction == quiet else nan
