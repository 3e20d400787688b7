"""Running a program: its commands in order, on resources that are plain bytes.

`print` and `writeFile` write their lines byte for byte as dxdispatch.exe does. Two of
its habits show: 8-bit integers come out as the characters with those codes, and a line
ends at the first NUL, so at the first 0 among them. A `ByteForm` changes both. Its
lines about the adapter and the time of a dispatch are left out. Unlike there, the
characters of names and paths that a terminal obeys are escaped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.arrays import Array, all_in_range
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import read_descriptor, tensors
from onnxgather.core.errors import located, printable
from onnxgather.core.files import replace_file
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.memory import DispatchCommand, Memory
from onnxgather.core.programs.outside import told_outside
from onnxgather.core.programs.program import PrintCommand, Program, WriteFileCommand
from onnxgather.core.programs.resources import Bytes
from onnxgather.core.replacing import has_bytes

ByteForm = Literal["bytes", "escapes", "numbers"]
"""How 8-bit integers are printed: as the bytes themselves, as dxdispatch does; as these
characters, of which those that are no plain ASCII are escaped; or as numbers."""

OnResources = Callable[[Descriptor, Sequence[tuple[Bytes, int]]], Bytes]
"""Computes what the resource of OutputTensor holds after a dispatch, from the
descriptor and, for each tensor, the resource and the offset in bytes there."""

EvaluateByPolicy = Callable[[Descriptor, Array, Array, OutOfRange], Array]
"""Computes OutputTensor from a descriptor, InputTensor and IndicesTensor by a
policy."""

PIECE = 2**14
"""The most values that are formatted at once."""

NOT_REPLACED = (
    "must name a file that is new, is empty or has these bytes already, as bytes do not"
    " say who wrote them; --force replaces any file"
)
"""The rule of a file that writeFile would replace."""

_PLAIN_NAME = (
    r'(?i)(?!\.|(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|COM\d|LPT\d) *(\.|$))[^<>:"|?*]+'
)
"""The name of a file or folder that is not hidden, and no device or stream of
Windows."""


def execute(
    program: Program,
    evaluate: EvaluateByPolicy,
    out_of_range: OutOfRange = "directml",
    *,
    output_folder: str | os.PathLike[str],
    allow_outside: bool = False,
    force: bool = False,
    note: Callable[[str], None] = lambda _: None,
    on_resources: OnResources | None = None,
    byte_form: ByteForm = "bytes",
) -> Iterator[bytes]:
    """Run the commands of a program and yield what they print.

    writeFile writes plain files below the output folder. Without `allow_outside` it
    refuses hidden names, devices, and paths through a link. Targets are checked before
    anything runs, and again when they are written. A link in the place of the file
    itself is never followed; a folder that another process exchanges for a link between
    that check and the writing is.

    Args:
        program: The program.
        evaluate: Runs an operator by a policy. The policy is "clamp", the fastest,
            where every index is in range, as all policies agree there.
        out_of_range: What an index out of range does.
        output_folder: Where writeFile writes.
        allow_outside: Whether writeFile may also write anywhere else; it never replaces
            an input of the program.
        force: Whether writeFile replaces any file. Without it, a file that is there
            must be empty, have the bytes that are written, or be one that this run
            wrote.
        note: Called with a sentence where indices are out of range, or where a tensor
            reads the numbers of a resource as numbers of another type.
        on_resources: Runs an operator with its real bindings, in place of `evaluate`.
            Only then may an input share bytes with the output, which is noted.
        byte_form: How 8-bit integers are printed. Where bytes are printed that are no
            plain ASCII, it is noted.

    Yields:
        The lines in pieces, as bytes: names are UTF-8, and 8-bit values are raw, as
        dxdispatch prints them, unless `byte_form` says otherwise. A name's characters
        that a terminal obeys are escaped, which dxdispatch does not do.

    Raises:
        OnnxGatherError: A target must not be written, or an input shares bytes with the
            output (both before anything runs), a file cannot be read or written, or
            what runs an operator raises; the message starts with file and command.
    """
    program.check_run()
    execution = _Execution(
        program=program,
        memory=Memory(program.resources),
        evaluate=evaluate,
        out_of_range=out_of_range,
        folder=os.path.abspath(output_folder),
        allow_outside=allow_outside,
        force=force,
        report=note,
        on_resources=on_resources,
        byte_form=byte_form,
    )
    execution.check()
    return execution.lines()


class _Execution(Struct, kw_only=True):
    """The commands of a program, with what they read and write; as for `execute`."""

    program: Program
    memory: Memory
    evaluate: EvaluateByPolicy
    out_of_range: OutOfRange
    folder: str
    """The absolute path of the output folder."""
    allow_outside: bool
    force: bool
    report: Callable[[str], None]
    on_resources: OnResources | None
    byte_form: ByteForm
    written: set[str] = set()
    """The real paths of the files that this run wrote."""

    def note(self, text: str) -> None:
        """Report a sentence on the program."""
        self.report(f"{self.program.path}: {text}")

    def check(self) -> None:
        """Note what is in place; raise OnnxGatherError if the program must not run."""
        program = self.program
        # Case: without its real bindings, an operator cannot be in place.
        if self.on_resources is None:
            program.check_apart()
        for sentence in program.in_place("DirectML.dll may read what it has written"):
            self.note(sentence)
        with located(program.path):
            if program.other:
                read_descriptor(program.other)  # raises, as it is no gather
            for command in program.commands:
                if isinstance(command, WriteFileCommand):
                    self.target(command)

    def lines(self) -> Iterator[bytes]:
        """Run the commands; yield what they print, in pieces."""
        with located(self.program.path):
            for command in self.program.commands:
                if isinstance(command, DispatchCommand):
                    self.dispatch(command)
                elif isinstance(command, PrintCommand):
                    yield from self.print_resource(command)
                else:
                    path = self.write_file(command)
                    name = printable(command.resource)
                    head = f"Resource '{name}' written to '".encode()
                    yield from _line([head, path, b"'"])

    def target(self, command: WriteFileCommand) -> str:
        """Return the checked path of the file that a command writes."""
        field = command.target
        # dxdispatch is a program for Windows, where a path may have either separator.
        name = field.text().replace("\\", "/")
        path = os.path.abspath(os.path.join(self.folder, name))
        real_path = os.path.realpath(path)
        inputs = map(os.path.realpath, (self.program.path, *self.program.files))
        field.require(real_path not in inputs, "must not be an input of the program")
        if self.allow_outside:
            return path

        is_inside = Path(path).is_relative_to(self.folder)
        field.require(is_inside, "must stay in the output folder")
        names = Path(path).relative_to(self.folder).parts
        are_plain = all(map(_is_plain_name, names))
        field.require(are_plain, "must have no hidden and no reserved name")
        path_without_links = Path(os.path.realpath(self.folder), *names)
        is_direct = Path(real_path) == path_without_links
        field.require(is_direct, "must not lead through a link")
        is_file = os.path.isfile(path) or not os.path.exists(path)
        field.require(is_file, "must be a file, not a folder or a device")
        return path

    def dispatch(self, command: DispatchCommand) -> None:
        """Run an operator; note which tensors misread the numbers of a resource."""
        for sentence in self.memory.misread(command):
            self.note(f"{sentence}; its bytes are bound as they are")
        if self.on_resources is None:
            self.memory.dispatch(command, partial(self.evaluate_by_policy, command))
        else:
            self.dispatch_on_resources(command, self.on_resources)

    def evaluate_by_policy(
        self, command: DispatchCommand, desc: Descriptor, data: Array, indices: Array
    ) -> Array:
        """Return the output of a dispatch; note whether indices are out of range."""
        # Case: all policies agree, and clamp is the fastest.
        if all_in_range(desc, indices):
            return self.evaluate(desc, data, indices, "clamp")
        policy = self.out_of_range
        output = self.evaluate(desc, data, indices, policy)
        remark = told_outside(desc, data, indices, policy, output)
        self.note(f"{command.path}: {remark}")
        return output

    def dispatch_on_resources(
        self, command: DispatchCommand, run_on_resources: OnResources
    ) -> None:
        """Run an operator with its real bindings."""
        desc, data, indices, _ = self.memory.operands(command)
        if not all_in_range(desc, indices):
            remark = told_outside(desc, data, indices, "directml", None, False)
            self.note(f"{command.path}: {remark}")
        bound = [self.memory.bound(command, role) for role in tensors(desc)]
        output, _ = bound[-1]
        with located(command.path):
            output[...] = run_on_resources(command.descriptor, bound)

    def write_file(self, command: WriteFileCommand) -> bytes:
        """Write a resource to a file; return the path of the file."""
        path = self.target(command)
        content = self.memory.buffer(command.resource).data
        real_path = os.path.realpath(path)
        with command.target.opening():
            # A device or a pipe is written to as it is.
            is_file = os.path.isfile(path)
            if is_file and not self.force and real_path not in self.written:
                is_free = has_bytes(path, command.header, content)
                command.target.require(is_free, NOT_REPLACED)
            replace_file(path, [command.header, content], self.allow_outside)
        self.written.add(real_path)
        return printable(path).encode()

    def print_resource(self, command: PrintCommand) -> Iterator[bytes]:
        """Yield what a command prints of a resource, in pieces."""
        name = command.resource
        values = self.program.resources[name].values
        data_type = values.data_type
        assert data_type is not None
        content = self.memory.buffer(name)[: values.size]
        is_raw = data_type.size == 1 and self.byte_form == "bytes"
        if is_raw and not _is_plain_ascii(content):
            habit = "8-bit values are printed as bytes, as dxdispatch does"
            self.note(f"{command.path}: {habit}; --numbers prints numbers")
        yield from printed(name, data_type, content, command.verbose, self.byte_form)


def _is_plain_name(name: str) -> bool:
    return name.isprintable() and re.fullmatch(_PLAIN_NAME, name) is not None


def _is_plain_ascii(content: Bytes) -> bool:
    """Return whether each byte is a character of ASCII that a terminal shows."""
    return not np.any((content < ord(" ")) | (content > ord("~")))


def printed(
    name: str,
    data_type: TensorDataType,
    content: Bytes,
    verbose: bool,
    byte_form: ByteForm = "bytes",
) -> Iterator[bytes]:
    """Yield what `print` writes for a resource, in pieces.

    Args:
        name: The resource's name, which is written as UTF-8; characters that a terminal
            obeys are escaped.
        data_type: The type of its initial values.
        content: As many bytes as its initial values have.
        verbose: Whether each value is on a line of its own, with its position and its
            bits.
        byte_form: How 8-bit integers are printed.
    """
    count = content.size // data_type.size
    values = content[: count * data_type.size].view(data_type.numpy)
    head = f"Resource '{printable(name)}':".encode()
    return _line(_pieces(head, values, verbose, byte_form))


def _line(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield a line as dxdispatch prints it: up to the first NUL."""
    for piece in pieces:
        before, nul, _ = piece.partition(b"\0")
        yield before
        if nul:
            break
    yield b"\n"


def _pieces(
    head: bytes, values: Array, verbose: bool, byte_form: ByteForm
) -> Iterator[bytes]:
    yield head + (b"\n" if verbose else b" ")
    width = len(str(max(1, values.size)))
    for start in range(0, values.size, PIECE):
        block = values[start : start + PIECE]
        if verbose:
            text = _verbose_lines(block, start, width, byte_form)
        else:
            text = ", ".join(_texts(block, byte_form))
            if start > 0:
                text = ", " + text
        yield text.encode("latin-1")


def _verbose_lines(values: Array, start: int, width: int, byte_form: ByteForm) -> str:
    """Return a line for each value: its position, its text and its bits."""
    digits = values.itemsize * 2
    bits = values.view(f"u{values.itemsize}").tolist()
    pairs = zip(_texts(values, byte_form), bits, strict=True)
    return "".join(
        f"[{position:{width}}] {text} (0x{word:{digits}X})\n"
        for position, (text, word) in enumerate(pairs, start)
    )


def _texts(values: Array, byte_form: ByteForm) -> list[str]:
    """Return each value as a C++ stream on Windows writes it.

    Of 8-bit integers that is the character, unless the form is another.
    """
    if values.itemsize == 1 and byte_form != "numbers":
        characters = values.tobytes().decode("latin-1")
        if byte_form == "bytes":
            return list(characters)
        return [_escaped(character) for character in characters]
    # One format for all values: a format for each takes several times as long.
    form = "%g " if values.dtype.kind == "f" else "%d "
    joined = str(form * values.size % tuple(values.tolist()))
    texts = joined.split()
    is_nan = values != values
    for position in np.flatnonzero(is_nan).tolist():
        texts[position] = _nan(values[position : position + 1])
    return texts


def _escaped(character: str) -> str:
    r"""Return a character of ASCII that a terminal shows, or its escape, as `\xff`."""
    if " " <= character <= "~" and character != "\\":
        return character
    return character.encode("unicode_escape").decode()


def _nan(value: Array) -> str:
    """Return a NaN as Microsoft's C runtime writes it, promoted to double."""
    quiet_bit = 1 << {2: 9, 4: 22, 8: 51}[value.itemsize]
    bits = int(value.view(f"u{value.itemsize}")[0])
    fraction = bits & (2 * quiet_bit - 1)
    nan = "-nan" if np.signbit(value[0]) else "nan"
    # The promotion makes NaNs of smaller types quiet.
    if value.itemsize == 8 and not fraction & quiet_bit:
        return nan + "(snan)"
    if nan == "-nan" and fraction == quiet_bit:
        return nan + "(ind)"
    return nan
