"""DxDispatch programs: resources, dispatchables and commands, checked when read.

A bare descriptor, or a list of them, is a program without resources and commands.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from numpy.lib import format as npy

from onnxgather.core.checks import path_text
from onnxgather.core.descriptors.arrays import all_in_range
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import (
    fields_of,
    ignored,
    is_other,
    is_owned,
    read_descriptor,
    tensors,
)
from onnxgather.core.descriptors.tensors import LEAST_ALIGNMENT, TensorDesc
from onnxgather.core.documents import UINT32_MAX, Field, parse_json, quoted
from onnxgather.core.errors import DescriptorError, FileFormatError, located
from onnxgather.core.files import got, reason
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.memory import (
    Binding,
    Dispatch,
    DispatchCommand,
    DispatchRun,
    Evaluate,
    Memory,
)
from onnxgather.core.programs.resources import (
    Resource,
    is_npy,
    read_resource,
    refuse_image,
)
from onnxgather.core.public import public

if TYPE_CHECKING:
    from onnxgather.core.model.values import ModelProto

MAX_NPY_DIMENSIONS = 32
"""The most dimensions that every version of numpy reads."""

MAX_PROGRAM_BYTES = 2**25
"""The most bytes of a program; its values in memory need up to 40 times as many."""

MAX_RUN_BYTES = 2**30
"""The most bytes that a program may take when it runs, as `Program.check_run` counts
them."""

BARE = "descriptor"
"""The name of the gather of a file that is a descriptor alone."""

MAX_COMPARED_BYTES = 2**25
"""The most bytes that `convert` uses to find out whether all indices are in range."""

_APART = (
    "as Microsoft's BindInputs page allows it only to operators that run in place, not"
    " gathers"
)
_MENDING = "use two resources, or run it with --provider directml-dll"
_COMPILE_TYPES = ("DmlCompileOp", "DmlCompileGraph")
_EXECUTION_FLAG_PREFIX = "DML_EXECUTION_FLAG_"
_EXECUTION_FLAGS = (
    "NONE",
    "ALLOW_HALF_PRECISION_COMPUTATION",
    "DISABLE_META_COMMANDS",
    "DESCRIPTORS_VOLATILE",
)


class Dispatchable(Struct, frozen=True):
    """An operator that commands can dispatch: a descriptor with a name."""

    descriptor: Descriptor
    bindings: Mapping[str, Binding]
    """The bindings of the OWNED_BY_DML inputs, by their names in directml.h."""
    path: str
    """Where it is in its file, such as `$.dispatchables.gather`; empty if the file is
    the descriptor alone."""


class PrintCommand(Struct, frozen=True):
    """Prints the values of a resource."""

    path: str
    resource: str
    verbose: bool


class WriteFileCommand(Struct, frozen=True):
    """Writes a resource to a file."""

    path: str
    resource: str
    target: Field
    header: bytes
    """The header of an .npy file, which precedes the resource; empty for other
    files."""


Command = DispatchCommand | PrintCommand | WriteFileCommand
Resources = Mapping[str, Resource]
Declared = Mapping[str, Dispatchable | Field]


class OwnModel(Struct, frozen=True):
    """A model that onnxgather wrote from a descriptor, and that nobody changed."""

    proto: ModelProto
    out_of_range: OutOfRange
    """What an index out of range does in the model."""
    target: Target
    """The target that the model was made for."""


@public
@dataclass(frozen=True, slots=True)
class Program:
    """A DxDispatch program that can run: every name it uses exists, every size fits.

    It may also be a descriptor alone, or that of a model which onnxgather wrote. Then
    it has no resources and no commands.

    Example:
        >>> program = og.load("models/bilinear_corners.json")
        >>> [*program.resources]
        ['image', 'corners', 'pixels']
        >>> [gather.name for gather in program.dispatches]
        ['gather']
    """

    path: str
    """The file, as the user gave it."""
    resources: Resources
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    left_out: tuple[str, ...] = ()
    """The paths of dispatchables that are no gathers, then of their dispatch
    commands."""
    other: Field | None = None
    """The first of these dispatchables that a command dispatches; `read_descriptor`
    refuses it."""
    notes: tuple[str, ...] = ()
    """Sentences about fields that are ignored although their names are nearly right."""
    model: OwnModel | None = None
    """The model that the descriptor is of; None for other programs."""

    @property
    def dispatches(self) -> tuple[Dispatch, ...]:
        """The gathers that are dispatched, in order, each with what it reads.

        A dispatch may read what an earlier dispatch writes; it is computed by
        DirectML's formula, with indices clamped. A gather that no command dispatches
        has no data, and comes last.

        Raises:
            OnnxGatherError: A file cannot be read, or the program needs too much
                memory.
        """
        policy: OutOfRange = "clamp" if self.model is None else self.model.out_of_range
        found: list[Dispatch] = []
        for run in self.dispatched(partial(reference, out_of_range="clamp")):
            name = run.dispatchable
            desc = self.dispatchables[name].descriptor
            found.append(Dispatch(name, desc, run.data, run.indices, policy))
        for name, dispatchable in self.without_data.items():
            found.append(Dispatch(name, dispatchable.descriptor, None, None, policy))
        return tuple(found)

    @property
    def without_data(self) -> Mapping[str, Dispatchable]:
        """The gathers that no command dispatches, by name."""
        names = {command.dispatchable for command in self.dispatch_commands}
        return {
            name: dispatchable
            for name, dispatchable in self.dispatchables.items()
            if name not in names
        }

    def dispatched(self, evaluate: Evaluate) -> Iterator[DispatchRun]:
        """Run only the dispatch commands, and yield what they computed.

        Args:
            evaluate: Runs an operator.

        Raises:
            OnnxGatherError: An input shares bytes with the output, the program needs
                too much memory, a file cannot be read, or a tensor reads the numbers of
                a resource as other numbers.
        """
        self.check_apart()
        self.check_run()
        memory = Memory(self.resources)
        with located(self.path):
            for command in self.dispatch_commands:
                for sentence in memory.misread(command):
                    raise FileFormatError(sentence)
                yield memory.dispatch(command, evaluate, copies=True)

    @property
    def files(self) -> list[str]:
        """Return the files that its resources are read from."""
        files = list[str]()
        for resource in self.resources.values():
            file = resource.values.file
            if file is not None:
                files.append(file)
        return files

    @property
    def dispatch_commands(self) -> list[DispatchCommand]:
        """Return the commands that dispatch an operator."""
        return [
            command for command in self.commands if isinstance(command, DispatchCommand)
        ]

    def in_place(self, ending: str = _MENDING) -> Iterator[str]:
        """Yield a sentence for each input that shares bytes with the output.

        An OWNED_BY_DML input shares none, as it is read before the first command.

        Args:
            ending: How each sentence ends.
        """
        for command in self.dispatch_commands:
            output = command.bindings["OutputTensor"]
            for role, tensor in tensors(command.descriptor).items():
                binding = command.bindings[role]
                if binding is output or is_owned(tensor):
                    continue
                if not binding.shares_bytes_with(output):
                    continue
                rule = f"must share no byte with {role}, {_APART}"
                written = f"{output.span} of resource {quoted(output.resource)}"
                read = f"where {role} has {binding.offset} to {binding.last}"
                yield (
                    f"{command.path}.bindings.OutputTensor {rule}, got {written},"
                    f" {read}; {ending}"
                )

    def check_apart(self) -> None:
        """Check that no dispatch is in place.

        Raises:
            FileFormatError: An input shares bytes with the output.
        """
        for sentence in self.in_place():
            raise FileFormatError(f"{self.path}: {sentence}")

    def in_range_at_first(self, command: DispatchCommand) -> bool:
        """Return whether the indices of a dispatch are in range before any command."""
        tensor = command.descriptor.indices_tensor
        binding = command.bindings["IndicesTensor"]
        content = self.resources[binding.resource].initial_bytes().data
        dtype = tensor.data_type.numpy
        array = np.ndarray(tensor.array_shape, dtype, content, binding.offset)
        return all_in_range(command.descriptor, array)

    def in_range(self) -> bool:
        """Return whether all indices are surely in range.

        That is not known where a command writes them, or where they are too many.

        Raises:
            FileFormatError: A file cannot be read, or there is no memory.
        """
        needed = 0
        read: set[str] = set()
        written: set[str] = set()
        for command in self.dispatch_commands:
            indices = command.bindings["IndicesTensor"].resource
            read.add(indices)
            written.add(command.bindings["OutputTensor"].resource)
            # The comparison takes 8 bytes for each index, beside the resource.
            needed += 8 * math.prod(command.descriptor.indices_tensor.sizes)
            needed += self.resources[indices].size_in_bytes
        if needed > MAX_COMPARED_BYTES:
            return False
        if not read.isdisjoint(written):
            return False
        with located(self.path):
            return all(map(self.in_range_at_first, self.dispatch_commands))

    def check_run(self, most: int = MAX_RUN_BYTES) -> None:
        """Check that the program fits into memory when it runs.

        All resources count, and for each dispatch its tensors, with 8 bytes more for
        each index and each element of the output, which are computed with.

        Args:
            most: The most bytes that they may take.

        Raises:
            FileFormatError: They take more.
        """
        buffers = sum(resource.size_in_bytes for resource in self.resources.values())
        bytes_by_path = {"$.resources": buffers}
        for command in self.dispatch_commands:
            desc = command.descriptor
            needed = buffers
            for tensor in tensors(desc).values():
                needed += tensor.total_tensor_size_in_bytes
            needed += 8 * math.prod(desc.indices_tensor.sizes)
            needed += 8 * math.prod(desc.output_tensor.sizes)
            bytes_by_path[command.path] = needed
        rule = f"must take at most {most} bytes when it runs, with all resources"
        for path, needed in bytes_by_path.items():
            if needed > most:
                raise FileFormatError(f"{self.path}: {path} {rule}, got {needed}")


def given_program(program: object) -> Program:
    """Return a program, or that of the path of its file.

    Raises:
        OnnxGatherError: It is neither; or as `read_program`.
    """
    if isinstance(program, Program):
        return program
    rule = "a program or the path of its file"
    return read_program(path_text("program", program, rule))


def read_program(
    path: str | os.PathLike[str], *, allow_outside: bool = False
) -> Program:
    """Read a program from a file.

    Dispatchables that are no gathers are left out if there is a gather.

    Args:
        path: The JSON file; it may be a pipe.
        allow_outside: Whether the files that the program names may be outside of its
            folder and the current folder.

    Raises:
        FileFormatError: The file is not a program that DxDispatch runs.
        DescriptorError: A descriptor breaks a rule of DirectML.
    """
    name = os.fspath(path)
    try:
        # Not pathlib, as it reads an empty path as the current folder.
        with open(name, "rb") as file:
            content = file.read(MAX_PROGRAM_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FileFormatError(f"{name}: {reason(error)}") from None
    return parse_program(content, name, allow_outside=allow_outside)


def parse_program(
    source: str | bytes, path: str | os.PathLike[str], *, allow_outside: bool = False
) -> Program:
    """Read a program from a text.

    Args:
        source: The text.
        path: The file that the text came from. Error messages start with it, and the
            files that the program names are looked for in its folder.
        allow_outside: As for `read_program`.

    Raises:
        FileFormatError: As `read_program`.
        DescriptorError: As `read_program`.
    """
    name = os.fspath(path)
    with located(name):
        if isinstance(source, bytes):
            _check_file(source)
        document = parse_json(source)
    return program_of(document, name, allow_outside=allow_outside)


def program_of(document: object, name: str, *, allow_outside: bool = False) -> Program:
    """Return the program of a JSON document: a program, or descriptors alone.

    Args:
        document: The values of the document.
        name: As `path` of `parse_program`.
        allow_outside: As for `read_program`.

    Raises:
        FileFormatError: As `read_program`.
        DescriptorError: As `read_program`.
    """
    root = Field(document)
    with located(name):
        if isinstance(document, list) or is_bare(document):
            return _program_of_descriptors(root, name)
        folder = os.path.dirname(name) or os.curdir
        resources: dict[str, Resource] = {}
        for key, field in root.member("resources").entries():
            resources[key] = read_resource(field, folder, allow_outside=allow_outside)
        declared, notes = _declared(root.member("dispatchables"), resources)
        gathers: dict[str, Dispatchable] = {}
        left_out: list[str] = []
        for key, dispatchable in declared.items():
            if isinstance(dispatchable, Field):
                left_out.append(dispatchable.path)
            else:
                gathers[key] = dispatchable

        commands: list[Command] = []
        first_other: Field | None = None
        for field in root.member("commands").items():
            command = _command(field, resources, declared)
            if isinstance(command, Field):  # it dispatches no gather
                left_out.append(field.path)
                first_other = first_other or command
            else:
                commands.append(command)
        if first_other and not gathers:
            read_descriptor(first_other)  # raises, as it is no gather
    return Program(
        name,
        resources,
        gathers,
        tuple(commands),
        tuple(left_out),
        first_other,
        tuple(notes),
    )


PROGRAM_FIELDS = ("resources", "dispatchables", "commands")
"""The fields of a DxDispatch program."""


def is_bare(document: object) -> bool:
    """Return whether a document is a descriptor alone, which has a type.

    A descriptor whose type was forgotten counts, too.
    """
    if not isinstance(document, dict):
        return False
    fields = cast("dict[str, object]", document)
    is_like_one = not fields.keys().isdisjoint(("type", "Type", "InputTensor"))
    return is_like_one and fields.keys().isdisjoint(PROGRAM_FIELDS)


def _program_of_descriptors(root: Field, name: str) -> Program:
    """Return the program of a descriptor alone, or of a list of them."""
    if not isinstance(root.value, list):
        alone = Dispatchable(_descriptor(root), {}, "")
        return Program(name, {}, {BARE: alone}, (), notes=tuple(ignored(root)))

    fields = [*root.items()]
    if not fields:
        raise FileFormatError(f"{root.path} must have a descriptor, got an empty array")
    gathers: dict[str, Dispatchable] = {}
    others: list[Field] = []
    notes: list[str] = []
    for number, field in enumerate(fields, 1):
        if is_other(field):
            others.append(field)
            continue
        gathers[str(number)] = Dispatchable(_descriptor(field), {}, field.path)
        notes.extend(ignored(field))
    if not gathers:
        read_descriptor(others[0])  # raises, as it is no gather
    left_out = [field.path for field in others]
    return Program(name, {}, gathers, (), tuple(left_out), notes=tuple(notes))


def _check_file(content: bytes) -> None:
    """Check that a file is not too large, and not a file of another kind."""
    if len(content) > MAX_PROGRAM_BYTES:
        raise FileFormatError(
            f"must have at most {MAX_PROGRAM_BYTES} bytes, and larger values in files"
            " of their own, which sourcePath names"
        )
    ending = got(content, "a DxDispatch program")
    if ending:
        raise FileFormatError(f"must be a DxDispatch program, which is JSON{ending}")


def npy_header(data_type: TensorDataType, shape: tuple[int, ...]) -> bytes:
    """Return the header of an .npy file."""
    header = io.BytesIO()
    description = {"descr": data_type.numpy.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, description)
    return header.getvalue()


def _declared(
    field: Field, resources: Resources
) -> tuple[dict[str, Dispatchable | Field], list[str]]:
    """Read the dispatchables; return them with notes on fields that are ignored.

    A dispatchable that is no gather is returned as its field.
    """
    entries = field.entries()
    declared: dict[str, Dispatchable | Field] = {}
    gathers: list[Field] = []
    for key, entry in entries:
        if is_other(entry):
            declared[key] = entry
        else:
            declared[key] = _dispatchable(entry, resources)
            gathers.append(entry)
    notes: list[str] = []
    for gather in gathers:
        notes.extend(ignored(gather))
    return declared, notes


def _descriptor(field: Field) -> Descriptor:
    try:
        return read_descriptor(field)
    except DescriptorError as error:
        raise error.at(fields_of(field).path) from None


def _dispatchable(field: Field, resources: Resources) -> Dispatchable:
    descriptor = _descriptor(field)
    field.member("dmlCompileType", _COMPILE_TYPES[0]).choice(_COMPILE_TYPES)
    flags = field.member("executionFlags", [])
    rule = f"must be among {', '.join(_EXECUTION_FLAGS)}"
    for flag in flags.texts():
        flag_field = Field(flag, flags.path)
        flag_field.known(rule, _EXECUTION_FLAGS, _EXECUTION_FLAG_PREFIX)
    bindings = field.member("bindings", {})
    owned = _bindings(bindings, descriptor, resources, owned=True)
    return Dispatchable(descriptor, owned, field.path)


def _command(field: Field, resources: Resources, declared: Declared) -> Command | Field:
    """Read a command; if it dispatches no gather, return what it dispatches."""
    kind = field.member("type")
    # DxDispatch ignores the case of the type.
    in_lower_case = {name.lower(): name for name in _COMMANDS}
    name = in_lower_case.get(kind.text().lower())
    if name is None:
        name = kind.choice(_COMMANDS)  # raises, as the type is none of them
    return _COMMANDS[name](field, resources, declared)


def _print(field: Field, resources: Resources, _: Declared) -> PrintCommand:
    name = field.member("resource")
    _data_type(name, resources, "printed")
    verbose = field.member("verbose", False)
    return PrintCommand(field.path, name.text(), verbose.boolean())


def _dispatch(
    field: Field, resources: Resources, declared: Declared
) -> DispatchCommand | Field:
    name = field.member("dispatchable")
    dispatchable = name.look_up(declared, "dispatchable")
    if isinstance(dispatchable, Field):
        return dispatchable
    groups = field.member("threadGroupCount", [1, 1, 1])
    counts = groups.integers(UINT32_MAX)
    groups.require(len(counts) == 3, "must have 3 elements", len(counts))
    desc = dispatchable.descriptor
    bindings = _bindings(field.member("bindings"), desc, resources, owned=False)
    all_bindings = {**dispatchable.bindings, **bindings}
    return DispatchCommand(field.path, name.text(), desc, all_bindings)


def _write_file(field: Field, resources: Resources, _: Declared) -> WriteFileCommand:
    name = field.member("resource")
    target = field.member("targetPath")
    size_in_bytes = name.look_up(resources, "resource").size_in_bytes
    target.require(os.path.basename(target.text()) != "", "must be the name of a file")
    refuse_image(target)
    dimensions = field.member("dimensions", [])
    shape = tuple(dimensions.integers(UINT32_MAX))
    if not is_npy(target):
        return WriteFileCommand(field.path, name.text(), target, b"")

    data_type = _data_type(name, resources, "written to an .npy file")
    rule = f"must have at most {MAX_NPY_DIMENSIONS} elements"
    dimensions.require(len(shape) <= MAX_NPY_DIMENSIONS, rule, len(shape))
    if not shape:
        shape = (size_in_bytes // data_type.size,)
    needed = math.prod(shape) * data_type.size
    resource = f"the {size_in_bytes} bytes of resource {quoted(name.value)}"
    rule = f"must describe at most {resource}"
    dimensions.require(needed <= size_in_bytes, rule, needed)
    header = npy_header(data_type, shape)
    return WriteFileCommand(field.path, name.text(), target, header)


_COMMANDS = {"dispatch": _dispatch, "print": _print, "writeFile": _write_file}
"""The functions that read commands, by their types."""


def _bindings(
    field: Field, desc: Descriptor, resources: Resources, *, owned: bool
) -> dict[str, Binding]:
    """Read the bindings of a dispatchable (`owned`) or of a dispatch command."""
    binding_fields = dict(field.entries())
    tensors_by_role = tensors(desc)
    rule = f"must be the name of a tensor ({', '.join(tensors_by_role)})"
    for role, binding in binding_fields.items():
        Field(role, binding.path).known(rule, tensors_by_role)
        if is_owned(tensors_by_role[role]) != owned:
            flag = "not OWNED_BY_DML" if owned else "OWNED_BY_DML"
            where = "by the dispatch" if owned else "in the dispatchable"
            raise FileFormatError(
                f"{binding.path} must be absent, as a tensor {flag} is bound {where}"
            )

    required = {
        role: tensor
        for role, tensor in tensors_by_role.items()
        if is_owned(tensor) == owned
    }
    for role in required:
        field.member(role)  # raises if it is absent
    bindings: dict[str, Binding] = {}
    for role, tensor in required.items():
        bindings[role] = _binding(role, tensor, binding_fields[role], resources)
    return bindings


def _binding(
    role: str, tensor: TensorDesc, field: Field, resources: Resources
) -> Binding:
    if isinstance(field.value, list):
        count = len(field.array())
        rule = f"must bind one resource, as {role} is one tensor"
        field.require(count == 1, rule, count)
        field = field.item(0)
    if isinstance(field.value, str):
        name = field
        options = Field({}, field.path)
    elif isinstance(field.value, dict):
        name = field.member("name")
        options = field
    else:
        raise field.error("must be the name of a resource, or an object")
    resource = name.look_up(resources, "resource")
    _check_ignored(options, resources)
    offset = _offset(options, resource, tensor, field)
    # DirectML binds from the offset to the end of the resource, whatever elementCount
    # says.
    bound = resource.size_in_bytes - offset
    needed = tensor.total_tensor_size_in_bytes
    rule = f"must bind at least {needed} bytes, the TotalTensorSizeInBytes of {role}"
    field.require(bound >= needed, rule, max(0, bound))
    return Binding(name.text(), offset, offset + needed - 1)


def _offset(
    options: Field, resource: Resource, tensor: TensorDesc, field: Field
) -> int:
    """Read the offset of a binding in its resource, in bytes, and check it."""
    size = options.member("elementSizeInBytes", 0).unsigned()
    if size == 0 and resource.data_type is not None:
        size = resource.data_type.size
    offset = options.member("elementOffset", 0).unsigned() * size
    # DirectML refuses offsets that break a promised alignment (measured).
    promised = tensor.guaranteed_base_offset_alignment
    if promised:
        rule = f"must be a multiple of {promised}, the GuaranteedBaseOffsetAlignment"
    else:
        rule = f"must be a multiple of {LEAST_ALIGNMENT}"
    product = field.about("elementOffset times elementSizeInBytes")
    product.require(offset % (promised or LEAST_ALIGNMENT) == 0, rule, offset)
    return offset


def _check_ignored(options: Field, resources: Resources) -> None:
    """Check the fields of a binding that a DirectML operator has no use for."""
    options.member("elementCount", 0).unsigned()
    options.member("format", "").text()
    counter = options.first("counter")
    if counter:
        counter.look_up(resources, "resource")
        options.member("counterOffsetBytes", 0).unsigned()
    options.member("shape", []).integers()


def _data_type(name: Field, resources: Resources, use: str) -> TensorDataType:
    """Return the data type of a named resource, which a command needs."""
    data_type = name.look_up(resources, "resource").data_type
    if data_type is None:
        raise name.error(f"must have an initialValuesDataType to be {use}")
    return data_type
