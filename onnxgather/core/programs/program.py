"""DxDispatch programs: resources, dispatchables and commands, whole and checked when read."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.lib import format as npy

from onnxgather.core.descriptors.arrays import all_in_range
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
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
from onnxgather.core.programs.resources import (
    Resource,
    is_npy,
    read_resource,
    refuse_image,
)

MAX_NPY_DIMENSIONS = 32
"""The most dimensions that every version of numpy reads."""

MAX_PROGRAM_BYTES = 2**25
"""The most bytes of a program; the values that JSON stands for take up to 40 times as
many."""

MAX_RUN_BYTES = 2**30
"""The most bytes that a program may take when it runs, as `Program.check_run` counts
them."""

MAX_COMPARED_BYTES = 2**25
"""The most bytes that `convert` takes to tell what an index out of range changes."""

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


@dataclass(frozen=True, slots=True)
class Binding:
    """The part of a resource that a tensor is bound to."""

    resource: str
    offset: int
    """The offset of its first byte."""
    last: int
    """The offset of the last byte that the tensor has, by its
    TotalTensorSizeInBytes."""


@dataclass(frozen=True, slots=True)
class Dispatchable:
    """An operator that commands can dispatch: a descriptor with a name."""

    descriptor: Descriptor
    bindings: Mapping[str, Binding]
    """The bindings of the OWNED_BY_DML inputs, by their names in directml.h."""


@dataclass(frozen=True, slots=True)
class DispatchCommand:
    """Runs a dispatchable."""

    path: str
    dispatchable: str
    descriptor: Descriptor
    bindings: Mapping[str, Binding]
    """The bindings of all tensors, by their names in directml.h; those of OWNED_BY_DML
    inputs are the dispatchable's."""


@dataclass(frozen=True, slots=True)
class PrintCommand:
    """Prints the values of a resource."""

    path: str
    resource: str
    verbose: bool


@dataclass(frozen=True, slots=True)
class WriteFileCommand:
    """Writes a resource to a file."""

    path: str
    resource: str
    target: Field
    header: bytes
    """The header of an .npy file, which stands before the resource; empty for other
    files."""


Command = DispatchCommand | PrintCommand | WriteFileCommand
Resources = Mapping[str, Resource]
Declared = Mapping[str, Dispatchable | Field]


@dataclass(frozen=True, slots=True)
class Program:
    """A DxDispatch program that can run: every name it uses exists, every size fits."""

    path: str
    """The file, as the user gave it."""
    resources: Resources
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    left_out: tuple[str, ...] = ()
    """The paths of the dispatchables that are no gathers, and of their dispatch
    commands."""
    other: Field | None = None
    """The first of these dispatchables that a command dispatches; `read_descriptor`
    refuses it."""
    notes: tuple[str, ...] = ()
    """Sentences about fields that are ignored although their names are nearly right."""

    @property
    def files(self) -> list[str]:
        """The files that its resources are read from."""
        files = (resource.values.file for resource in self.resources.values())
        return [file for file in files if file is not None]

    @property
    def dispatch_commands(self) -> list[DispatchCommand]:
        """The commands that dispatch an operator."""
        return [
            command for command in self.commands if isinstance(command, DispatchCommand)
        ]

    def in_place(self, ending: str = _MENDING) -> Iterator[str]:
        """Yield a sentence for each input of a dispatch that shares bytes with the output.

        An OWNED_BY_DML input shares none, as it is read before the first command.

        Args:
            ending: How each sentence ends.
        """
        for command in self.dispatch_commands:
            out = command.bindings["OutputTensor"]
            for role, tensor in tensors(command.descriptor).items():
                own = command.bindings[role]
                if own is out or own.resource != out.resource or is_owned(tensor):
                    continue
                if own.offset <= out.last and out.offset <= own.last:
                    rule = (
                        f"bindings.OutputTensor must share no byte with {role},"
                        f" {_APART}"
                    )
                    got = (
                        f"bytes {out.offset} to {out.last} of resource"
                        f" {quoted(out.resource)}"
                    )
                    both = f"{got}, where {role} has {own.offset} to {own.last}"
                    yield f"{command.path}.{rule}, got {both}; {ending}"

    def check_apart(self) -> None:
        """Check that no dispatch is in place.

        Raises:
            FileFormatError: An input shares bytes with the output.
        """
        for sentence in self.in_place():
            raise FileFormatError(f"{self.path}: {sentence}")

    def in_range_at_first(self, command: DispatchCommand) -> bool:
        """Whether the indices of a dispatch, as they are before the first command, are in range."""
        tensor, bound = (
            command.descriptor.indices_tensor,
            command.bindings["IndicesTensor"],
        )
        content = self.resources[bound.resource].initial_bytes().data
        array = np.ndarray(
            tensor.array_shape, tensor.data_type.numpy, content, bound.offset
        )
        return all_in_range(command.descriptor, array)

    def in_range(self) -> bool:
        """Whether all indices are known to be in range: not written, and few enough to look at.

        Raises:
            FileFormatError: A file cannot be read, or there is no memory.
        """
        commands, roles = self.dispatch_commands, ("IndicesTensor", "OutputTensor")
        read, written = (
            [each.bindings[role].resource for each in commands] for role in roles
        )
        needed = sum(
            8 * math.prod(each.descriptor.indices_tensor.sizes) for each in commands
        )
        needed += sum(self.resources[name].size_in_bytes for name in read)
        known = needed <= MAX_COMPARED_BYTES and set(read).isdisjoint(written)
        with located(self.path):
            return known and all(map(self.in_range_at_first, commands))

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
        needed = {"$.resources": buffers}
        for command in self.dispatch_commands:
            desc = command.descriptor
            bound = sum(
                tensor.total_tensor_size_in_bytes for tensor in tensors(desc).values()
            )
            counts = map(
                math.prod, (desc.indices_tensor.sizes, desc.output_tensor.sizes)
            )
            needed[command.path] = buffers + bound + 8 * sum(counts)
        for path, found in needed.items():
            if found > most:
                rule = (
                    f"must take at most {most} bytes when it runs, with all resources"
                )
                raise FileFormatError(f"{self.path}: {path} {rule}, got {found}")


def read_program(
    path: str | os.PathLike[str], *, allow_outside: bool = False
) -> Program:
    """Read a program from a file.

    Other dispatchables than gathers are left out if there is a gather.

    Args:
        path: The JSON file; it may be a pipe.
        allow_outside: Whether the files it names may be outside its folder and the current one.

    Raises:
        FileFormatError: The file is not a program that DxDispatch runs.
        DescriptorError: A descriptor breaks a rule of DirectML.
    """
    name = os.fspath(path)
    try:
        with open(
            name, "rb"
        ) as file:  # pathlib takes an empty path for the current folder
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
        path: The file that the text came from. Error messages start with it, and the files that
            the program names are looked for in its folder.
        allow_outside: As for `read_program`.

    Raises:
        FileFormatError: As `read_program`.
        DescriptorError: As `read_program`.
    """
    name = os.fspath(path)
    folder = os.path.dirname(name) or os.curdir
    with located(name):
        if isinstance(source, bytes):
            _check_file(source)
        root = Field(parse_json(source))
        resources = {
            key: read_resource(field, folder, allow_outside=allow_outside)
            for key, field in root.member("resources").entries()
        }
        entries = root.member("dispatchables").entries()
        declared = {
            key: field if is_other(field) else _dispatchable(field, resources)
            for key, field in entries
        }
        notes = [
            note
            for _, field in entries
            if not is_other(field)
            for note in ignored(field)
        ]
        dispatchables = {
            k: one for k, one in declared.items() if isinstance(one, Dispatchable)
        }
        items = root.member("commands").items()
        read = [(field.path, _command(field, resources, declared)) for field in items]
        commands = tuple(one for _, one in read if not isinstance(one, Field))
        others = [one.path for one in declared.values() if isinstance(one, Field)]
        dispatched = {path: one for path, one in read if isinstance(one, Field)}
        other = next(iter(dispatched.values()), None)
        if other and not dispatchables:
            read_descriptor(other)  # says that it is no gather
    left_out = (*others, *dispatched)
    return Program(
        name, resources, dispatchables, commands, left_out, other, tuple(notes)
    )


def _check_file(content: bytes) -> None:
    """Check that the content of a file is not too large, and not that of another kind of file."""
    if len(content) > MAX_PROGRAM_BYTES:
        rule = (
            f"must have at most {MAX_PROGRAM_BYTES} bytes, and larger values in files"
            " of their"
        )
        raise FileFormatError(f"{rule} own, which sourcePath names")
    if found := got(content, "a DxDispatch program"):
        raise FileFormatError(f"must be a DxDispatch program, which is JSON{found}")


def npy_header(data_type: TensorDataType, shape: tuple[int, ...]) -> bytes:
    """The header of an .npy file."""
    header = io.BytesIO()
    description = {"descr": data_type.numpy.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(header, description)
    return header.getvalue()


def _dispatchable(field: Field, resources: Resources) -> Dispatchable:
    try:
        descriptor = read_descriptor(field)
    except DescriptorError as error:
        raise error.at(fields_of(field).path) from None
    field.member("dmlCompileType", _COMPILE_TYPES[0]).choice(_COMPILE_TYPES)
    flags = field.member("executionFlags", [])
    for flag in flags.texts():
        rule = f"must be among {', '.join(_EXECUTION_FLAGS)}"
        Field(flag, flags.path).known(rule, _EXECUTION_FLAGS, _EXECUTION_FLAG_PREFIX)
    bindings = _bindings(
        field.member("bindings", {}), descriptor, resources, owned=True
    )
    return Dispatchable(descriptor, bindings)


def _command(field: Field, resources: Resources, declared: Declared) -> Command | Field:
    """Read a command; if it dispatches no gather, return what it dispatches."""
    kind = field.member("type")
    in_lower_case = {name.lower(): name for name in _COMMANDS}
    name = in_lower_case.get(kind.text().lower()) or kind.choice(_COMMANDS)
    return _COMMANDS[name](field, resources, declared)


def _print(field: Field, resources: Resources, _: Declared) -> PrintCommand:
    name = field.member("resource")
    _data_type(name, resources, "printed")
    return PrintCommand(
        field.path, name.text(), field.member("verbose", False).boolean()
    )


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
    return DispatchCommand(
        field.path, name.text(), desc, {**dispatchable.bindings, **bindings}
    )


def _write_file(field: Field, resources: Resources, _: Declared) -> WriteFileCommand:
    name, target = field.member("resource"), field.member("targetPath")
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
    shape = shape or (size_in_bytes // data_type.size,)
    needed = math.prod(shape) * data_type.size
    rule = (
        f"must describe at most the {size_in_bytes} bytes of resource"
        f" {quoted(name.value)}"
    )
    dimensions.require(needed <= size_in_bytes, rule, needed)
    return WriteFileCommand(
        field.path, name.text(), target, npy_header(data_type, shape)
    )


_COMMANDS = {"dispatch": _dispatch, "print": _print, "writeFile": _write_file}
"""The functions that read commands, by their types, whose case plays no part."""


def _bindings(
    field: Field, desc: Descriptor, resources: Resources, *, owned: bool
) -> dict[str, Binding]:
    """Read the bindings of a dispatchable (`owned`) or of a dispatch command."""
    found, bound = dict(field.entries()), tensors(desc)
    for name, binding in found.items():
        Field(name, binding.path).known(
            f"must be the name of a tensor ({', '.join(bound)})", bound
        )
        if is_owned(bound[name]) != owned:
            flag = "not OWNED_BY_DML" if owned else "OWNED_BY_DML"
            where = "by the dispatch" if owned else "in the dispatchable"
            raise FileFormatError(
                f"{binding.path} must be absent, as a tensor {flag} is bound {where}"
            )
    wanted = {
        name: tensor for name, tensor in bound.items() if is_owned(tensor) == owned
    }
    for name in wanted:
        field.member(name)
    return {
        name: _binding(name, tensor, found[name], resources)
        for name, tensor in wanted.items()
    }


def _binding(
    name: str, tensor: TensorDesc, field: Field, resources: Resources
) -> Binding:
    if isinstance(field.value, list):
        count = len(field.array())
        field.require(
            count == 1, f"must bind one resource, as {name} is one tensor", count
        )
        field = field.item(0)
    if isinstance(field.value, str):
        named, options = field, Field({}, field.path)
    elif isinstance(field.value, dict):
        named, options = field.member("name"), field
    else:
        raise field.error("must be the name of a resource, or an object")
    resource = named.look_up(resources, "resource")
    _check_ignored(options, resources)
    size = options.member("elementSizeInBytes", 0).unsigned()
    if size == 0 and resource.data_type is not None:
        size = resource.data_type.size
    offset = options.member("elementOffset", 0).unsigned() * size
    step, why = LEAST_ALIGNMENT, ""
    if (
        promised := tensor.guaranteed_base_offset_alignment
    ):  # DirectML refuses others (measured)
        step, why = promised, ", the GuaranteedBaseOffsetAlignment"
    product = field.about("elementOffset times elementSizeInBytes")
    product.require(offset % step == 0, f"must be a multiple of {step}{why}", offset)
    # DirectML binds from the offset to the end of the resource, whatever elementCount
    # says.
    bound, needed = resource.size_in_bytes - offset, tensor.total_tensor_size_in_bytes
    rule = f"must bind at least {needed} bytes, the TotalTensorSizeInBytes of {name}"
    field.require(bound >= needed, rule, max(0, bound))
    return Binding(named.text(), offset, offset + needed - 1)


def _check_ignored(options: Field, resources: Resources) -> None:
    """Check the fields of a binding that a DirectML operator has no use for."""
    options.member("elementCount", 0).unsigned()
    options.member("format", "").text()
    if counter := options.first("counter"):
        counter.look_up(resources, "resource")
        options.member("counterOffsetBytes", 0).unsigned()
    options.member("shape", []).integers()


def _data_type(name: Field, resources: Resources, use: str) -> TensorDataType:
    data_type = name.look_up(resources, "resource").data_type
    if data_type is None:
        raise name.error(f"must have an initialValuesDataType to be {use}")
    return data_type
