"""A whole DxDispatch program written as one ONNX model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from onnxgather.core.checks import check_type, shown, texts
from onnxgather.core.descriptors.arrays import with_padding
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import is_owned, read_descriptor, tensors
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import FileFormatError, OnnxGatherError, located, printable
from onnxgather.core.lowering import lower
from onnxgather.core.lowering.graph import Graph, Value, size_of
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import OUTPUT
from onnxgather.core.lowering.positions import scatter
from onnxgather.core.model.values import ModelProto
from onnxgather.core.model.write import check_lowering, write_model
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.core.programs.program import DispatchCommand, Program, read_program

Lowered = Callable[[Descriptor, OutOfRange], Graph]
"""Makes the graph of a gather under a policy."""


def program_to_onnx(
    program: Program | str | os.PathLike[str],
    out_of_range: OutOfRange = "directml",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    threads: int | None = None,
    inputs: Collection[str] | None = None,
) -> ModelProto:
    """An ONNX model that computes what the dispatches of a DxDispatch program compute.

    A value has the name of its resource, with a number behind it where the resource has
    several, and the data type of the gathers that it is bound to. Where a tensor is the
    whole resource, the value has its sizes; else it is the 1-D buffer. The outputs are
    the values that commands print or write to files, and those that are written and
    that no gather reads. `commands` in the metadata is the output of each of those
    commands, by the command's path.

    Args:
        program: The program, or the path of its file.
        out_of_range: What an index out of range does.
        target: As of `to_onnx`.
        opset: As of `to_onnx`.
        threads: As of `to_onnx`.
        inputs: The names of the resources that are graph inputs; the others are initializers with
            the values of the program. None: those whose values are in files of their own.

    Raises:
        FileFormatError: The program dispatches no gather, or something else; an input shares bytes
            with the output; it takes too much memory; a file cannot be read; or a value is bound as
            two data types.
        DescriptorError: A descriptor in the file breaks a rule of DirectML.
        OnnxGatherError: An option is not one of those above, or the model would exceed 2 GiB.
    """
    opset, threads = check_lowering(out_of_range, target, opset, threads)
    check_type(
        "program",
        program,
        "a program or the path of its file",
        Program,
        str,
        os.PathLike,
    )
    inputs = None if inputs is None else texts("inputs", inputs, "names of resources")
    if not isinstance(program, Program):
        program = read_program(program)
    files = [
        name for name, one in program.resources.items() if one.values.file is not None
    ]
    lowered = partial(lower, target=target, threads=threads)
    whole = WholeProgram(
        program, out_of_range, lowered, files if inputs is None else inputs
    )
    for name in inputs or ():
        if name not in whole.inputs:
            rule = (
                "inputs must name resources whose values before the first command count"
            )
            raise OnnxGatherError(f"{program.path}: {rule}, got {shown(name)}")
    outputs = {value.name: value for value in whole.shown.values()}
    outputs |= {
        value.name: value for value in whole.written if value.name not in whole.read
    }
    shown_by = {path: value.name for path, value in whole.shown.items()}
    metadata = {"commands": shown_by, "out_of_range": out_of_range, "target": target}
    # A graph has a name, in UTF-8, which the name of a file need not be.
    title = printable(Path(program.path).stem) or "program"
    return write_model(whole.graph, title, opset, metadata, [*outputs.values()])


class WholeProgram:
    """A program as one graph.

    Args:
        program: The program.
        out_of_range: What an index out of range does.
        lowered: Makes the graph of a gather under a policy.
        inputs: The resources that are inputs of the graph if their first values count; those of
            the others are constants.

    Raises:
        OnnxGatherError: As `program_to_onnx`.
    """

    def __init__(
        self,
        program: Program,
        out_of_range: OutOfRange,
        lowered: Lowered,
        inputs: Collection[str],
    ) -> None:
        program.check_apart()
        program.check_run()
        self._program, self.graph = program, Graph()
        self._policy: OutOfRange = out_of_range
        self._lowered = lowered
        self.written = list[Value]()
        """For each dispatch, the resource that it writes, after it."""
        self.shown = dict[str, Value]()
        """What commands print or write to files, by their paths."""
        self.read = set[str]()
        """The names of the values that dispatches read, or keep in part."""
        with located(program.path):
            if program.other:
                read_descriptor(program.other)
            if not program.dispatch_commands:
                raise FileFormatError("$.commands must dispatch a gather to be a model")
            if "" in program.resources:
                raise FileFormatError(
                    "$.resources must have names to be values of a model, got ''"
                )
            first = _first_tensors(program)
            self._first = {
                name: self._first_value(name, one) for name, one in first.items()
            }
            self.graph.names |= (
                program.resources.keys()
            )  # a number makes no other's name
            self.inputs = {
                name: self._first[name] for name in self._first if name in inputs
            }
            """The inputs of the graph, by the names of the resources."""
            self._now = dict(self._first)
            for command in program.commands:
                if isinstance(command, DispatchCommand):
                    self._dispatch(command)
                else:
                    self.shown[command.path] = self._show(command.resource)
            self.graph.inputs = [*self.inputs.values()]
            for name, value in self._first.items():
                if name not in self.inputs:
                    content = program.resources[name].initial_bytes().data
                    array = np.ndarray(value.shape, value.dtype, content)
                    self.graph.constants[value.name] = array

    def _first_value(self, name: str, tensor: TensorDesc | None) -> Value:
        """The graph input for what a resource holds before the first command."""
        resource = self._program.resources[name]
        data_type = resource.data_type or TensorDataType.UINT8
        data_type = data_type if tensor is None else tensor.data_type
        shape = (resource.size_in_bytes // data_type.size,)
        if tensor is not None and size_of(tensor.array_shape) == shape[0]:
            shape = tensor.array_shape
        return self.graph.input(name, data_type.numpy, shape)

    def _dispatch(self, command: DispatchCommand) -> None:
        """Add the nodes of a dispatch."""
        desc, graph = command.descriptor, self.graph
        # In range all policies agree.
        out_of_range = "clamp" if self._known_in_range(command) else self._policy
        output = desc.output_tensor
        if out_of_range == "directml":
            desc = with_padding(desc)
        given = {
            role: self._read(command, role, one)
            for role, one in tensors(desc).items()
            if role != OUTPUT
        }
        name = command.bindings[OUTPUT].resource
        whole = _covers(output, self._program.resources[name].size_in_bytes)
        before = None if whole else self._value(command, OUTPUT, output)
        if name not in self._now:
            graph.names.discard(name)
        packed = replace(desc, output_tensor=TensorDesc(output.data_type, output.sizes))
        gather = self._lowered(packed, out_of_range)
        if whole and output.is_packed:
            written = graph.inline(gather, given, name)
        else:
            gathered = graph.inline(gather, given, f"{name}.gathered")
            first = _first(command, OUTPUT, output)
            written = self._write(before, output, first, gathered, name)
        self._now[name] = written
        self.written.append(written)

    def _read(self, command: DispatchCommand, role: str, tensor: TensorDesc) -> Value:
        """The array that stands for a tensor that a dispatch reads."""
        value, shape = self._value(command, role, tensor), tensor.array_shape
        if size_of(shape) < size_of(value.shape):
            first, name = _first(command, role, tensor), f"{value.name}.bound"
            end = first + size_of(shape)
            value = self.graph.slice(self._flat(value), first, end, name, "the part")
        return self.graph.reshape(
            value, shape, f"{value.name}.sized", "the sizes of the tensor"
        )

    def _write(
        self,
        before: Value | None,
        tensor: TensorDesc,
        first: int,
        gathered: Value,
        name: str,
    ) -> Value:
        """The value of a resource after a tensor in it was written; all other elements stay.

        Args:
            before: The value before; None where a tensor with strides covers it.
            tensor: The tensor.
            first: Its offset in the resource, in elements.
            gathered: The elements of the tensor.
            name: The name of the result.
        """
        flat = None if before is None else self._flat(before)
        if not tensor.is_packed:
            return scatter(self.graph, tensor, gathered, flat, first, name)
        assert flat is not None
        (count,), end, kept = (
            flat.shape,
            first + size_of(gathered.shape),
            f"{name}.kept",
        )
        parts = [
            self.graph.slice(flat, *span, kept, "the elements that stay")
            for span in ((0, first), (end, count))
            if span[0] < span[1]
        ]
        parts.insert(int(first > 0), self._flat(gathered))
        why, shape = "the elements that are written, and those that stay", flat.shape
        return self.graph.add("Concat", name, *parts, why=why, shape=shape, axis=0)

    def _flat(self, value: Value) -> Value:
        shape = (size_of(value.shape),)
        return self.graph.reshape(value, shape, f"{value.name}.flat", "the buffer, 1-D")

    def _value(self, command: DispatchCommand, role: str, tensor: TensorDesc) -> Value:
        """The value that a tensor is bound to."""
        name = command.bindings[role].resource
        # OWNED_BY_DML inputs have the values from before the first command.
        value = (self._first if is_owned(tensor) else self._now)[name]
        if value.dtype != tensor.data_type.numpy:
            path, found = self._program.resources[name].path, value.dtype.name.upper()
            rule = f"{path} must be bound as {found} to {role} of {command.path} too"
            why = "as a value of a model has one data type"
            raise FileFormatError(f"{rule}, {why}, got {tensor.data_type}")
        self.read.add(value.name)
        return value

    def _known_in_range(self, command: DispatchCommand) -> bool:
        """Whether the indices of a dispatch are initializers, and all in range."""
        name = command.bindings[INDICES].resource
        if name in self.inputs or self._now[name] is not self._first.get(name):
            return False
        return self._program.in_range_at_first(command)

    def _show(self, name: str) -> Value:
        """The value of a resource, as an output."""
        value = self._now[name]
        if value is self._first.get(name):
            why = "the resource as it is, as no gather wrote to it"
            return self.graph.add("Identity", name, value, why=why)
        return value


def _covers(tensor: TensorDesc, size_in_bytes: int) -> bool:
    """Whether the elements of a tensor are all that a resource of that size has."""
    return size_of(tensor.sizes) * tensor.data_type.size == size_in_bytes


def _first(command: DispatchCommand, role: str, tensor: TensorDesc) -> int:
    """The offset of a tensor in its resource, in elements; offsets are multiples of 16 bytes."""
    return command.bindings[role].offset // tensor.data_type.size


def _first_tensors(program: Program) -> dict[str, TensorDesc | None]:
    """The resources whose values before the first command count, and the first tensor of each.

    They do where a gather reads them, or writes a part and keeps the rest, or where a
    command shows them.
    """
    found, written = dict[str, TensorDesc | None](), set[str]()
    for command in program.commands:
        if not isinstance(command, DispatchCommand):
            if command.resource not in written:
                found.setdefault(command.resource, None)
            continue
        for role, tensor in tensors(command.descriptor).items():
            name = command.bindings[role].resource
            size = program.resources[name].size_in_bytes
            counts = is_owned(tensor) or name not in written
            if counts and not (role == OUTPUT and _covers(tensor, size)):
                found[name] = found.get(name) or tensor
        written.add(command.bindings[OUTPUT].resource)
    return found
