"""DxDispatch programs: resources, dispatchables and commands, whole and checked when read."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.bindings import Bindings, read_bindings, resource_named
from onnxgather.dxdispatch.descriptor import fields_of, names, read_descriptor
from onnxgather.dxdispatch.files import refuse_image
from onnxgather.dxdispatch.node import UINT32_MAX, Node, located
from onnxgather.dxdispatch.resources import Resource, read_resource
from onnxgather.dxdispatch.text import parse_json
from onnxgather.errors import DescriptorError, FileFormatError

MAX_NPY_DIMENSIONS = 32
"""What every numpy reads."""

_COMPILE_TYPES = ("DmlCompileOp", "DmlCompileGraph")
_EXECUTION_FLAG_PREFIX = "DML_EXECUTION_FLAG_"
_EXECUTION_FLAGS = (
    "NONE",
    "ALLOW_HALF_PRECISION_COMPUTATION",
    "DISABLE_META_COMMANDS",
    "DESCRIPTORS_VOLATILE",
)


@dataclass(frozen=True, slots=True)
class Dispatchable:
    """An operator, and what its OWNED_BY_DML inputs are bound to."""

    descriptor: Descriptor
    bindings: Bindings


@dataclass(frozen=True, slots=True)
class DispatchCommand:
    """Runs a dispatchable."""

    path: str
    dispatchable: str
    bindings: Bindings


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
    target: Node
    dimensions: tuple[int, ...]

    @property
    def is_npy(self) -> bool:
        """Whether the file gets a header."""
        return is_npy(self.target)


Command = DispatchCommand | PrintCommand | WriteFileCommand


@dataclass(frozen=True, slots=True)
class Program:
    """A DxDispatch program that can run: every name it uses exists, every size fits."""

    path: str
    """The file, as the user gave it."""
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]

    @property
    def dispatch_count(self) -> int:
        """How many of the commands dispatch an operator."""
        return sum(isinstance(command, DispatchCommand) for command in self.commands)


def read_program(path: str | os.PathLike[str], *, allow_outside: bool = False) -> Program:
    """Read a program from a file.

    Args:
        path: The JSON file.
        allow_outside: Whether the files it names may be outside its folder and the current one.

    Raises:
        FileFormatError: The file is not a program that DxDispatch runs.
        DescriptorError: A descriptor breaks a rule of DirectML.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            content = file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(f"{name}: {reason.lower()}") from None
    return parse_program(content, name, allow_outside=allow_outside)


def parse_program(
    source: str | bytes, path: str | os.PathLike[str], *, allow_outside: bool = False
) -> Program:
    """Read a program from a text.

    Args:
        source: The text.
        path: The file that it came from: the start of every message, and where the files that
            it names are looked for.
        allow_outside: As for `read_program`.

    Raises:
        FileFormatError: As `read_program`.
        DescriptorError: As `read_program`.
    """
    name = os.fspath(path)
    folder = os.path.dirname(name) or os.curdir
    with located(name):
        root = Node(parse_json(source))
        resources = {
            key: read_resource(node, folder, allow_outside=allow_outside)
            for key, node in root.field("resources").entries()
        }
        dispatchables = {
            key: _dispatchable(node, resources)
            for key, node in root.field("dispatchables").entries()
        }
        commands = [
            _command(node, resources, dispatchables) for node in root.field("commands").items()
        ]
    return Program(name, resources, dispatchables, tuple(commands))


def is_npy(target: Node) -> bool:
    """Return whether a file is to be an .npy file."""
    return target.text().lower().endswith(".npy")


def _dispatchable(node: Node, resources: Mapping[str, Resource]) -> Dispatchable:
    try:
        descriptor = read_descriptor(node)
    except DescriptorError as error:
        raise error.at(fields_of(node).path) from None
    compile_type = node.optional("dmlCompileType")
    if compile_type and compile_type.text() not in _COMPILE_TYPES:
        raise compile_type.error(f"must be one of {', '.join(_COMPILE_TYPES)}")
    flags = node.optional("executionFlags")
    for flag in names(flags) if flags else ():
        if flag.removeprefix(_EXECUTION_FLAG_PREFIX) not in _EXECUTION_FLAGS:
            rule = f"{node.path}.executionFlags must be among {', '.join(_EXECUTION_FLAGS)}"
            raise FileFormatError(f"{rule}, got {flag!r}")
    bindings = node.optional("bindings") or Node({}, f"{node.path}.bindings")
    return Dispatchable(descriptor, read_bindings(bindings, descriptor, resources, owned=True))


def _command(
    node: Node, resources: Mapping[str, Resource], dispatchables: Mapping[str, Dispatchable]
) -> Command:
    kind = node.field("type")
    match kind.text().lower():
        case "dispatch":
            return _dispatch(node, resources, dispatchables)
        case "print":
            resource = node.field("resource")
            _typed(resource, resources, "printed")
            verbose = node.optional("verbose")
            return PrintCommand(node.path, resource.text(), bool(verbose and verbose.boolean()))
        case "writefile":
            return _write_file(node, resources)
        case _:
            raise kind.error("must be one of dispatch, print, writeFile")


def _dispatch(
    node: Node, resources: Mapping[str, Resource], dispatchables: Mapping[str, Dispatchable]
) -> DispatchCommand:
    name = node.field("dispatchable")
    dispatchable = dispatchables.get(name.text())
    if dispatchable is None:
        raise name.error("must be the name of a dispatchable")
    if groups := node.optional("threadGroupCount"):
        counts = [item.unsigned(UINT32_MAX) for item in groups.items()]
        if len(counts) != 3:
            raise FileFormatError(f"{groups.path} must have 3 elements, got {len(counts)}")
    bindings = read_bindings(
        node.field("bindings"), dispatchable.descriptor, resources, owned=False
    )
    return DispatchCommand(node.path, name.text(), bindings)


def _write_file(node: Node, resources: Mapping[str, Resource]) -> WriteFileCommand:
    name, target = node.field("resource"), node.field("targetPath")
    resource = resource_named(name, resources)
    if not os.path.basename(target.text()):
        raise target.error("must be the name of a file")
    refuse_image(target)
    listed = node.optional("dimensions")
    dimensions = tuple(n.unsigned(UINT32_MAX) for n in listed.items()) if listed else ()
    if is_npy(target):
        data_type = _typed(name, resources, "written to an .npy file").data_type
        assert data_type is not None
        if len(dimensions) > MAX_NPY_DIMENSIONS:
            raise FileFormatError(
                f"{node.path}.dimensions must have at most {MAX_NPY_DIMENSIONS} elements, got "
                f"{len(dimensions)}"
            )
        needed = math.prod(dimensions) * data_type.size
        if dimensions and needed > resource.size_in_bytes:
            raise FileFormatError(
                f"{node.path}.dimensions must describe at most the {resource.size_in_bytes} bytes "
                f"of resource {name.text()!r}, got {needed}"
            )
    return WriteFileCommand(node.path, name.text(), target, dimensions)


def _typed(node: Node, resources: Mapping[str, Resource], use: str) -> Resource:
    resource = resource_named(node, resources)
    if resource.data_type is None:
        raise node.error(f"must have an initialValuesDataType to be {use}")
    return resource
