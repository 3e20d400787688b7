"""A whole DxDispatch program written as one ONNX model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from onnxgather.core.checks import listed, shown_with_suggestion, texts
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
from onnxgather.core.model.write import (
    check_kind,
    check_numbers,
    write_model,
)
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.core.programs.memory import DispatchCommand
from onnxgather.core.programs.program import Program, given_program
from onnxgather.core.public import public

Lowered = Callable[[Descriptor, OutOfRange], Graph]
"""Makes the graph of a gather under a policy."""


@public
def program_to_onnx(
    program: Program | str | os.PathLike[str],
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    threads: int | None = None,
    inputs: Collection[str] | None = None,
) -> ModelProto:
    """Return an ONNX model that computes what a DxDispatch program dispatches.

    A value is named after its resource. A number follows if the resource has several
    values. Its data type is that of the gathers that it is bound to. Its sizes are
    those of the tensor if the tensor is the whole resource; otherwise the value is the
    1-D buffer.

    The outputs are the values that commands print or write to files, and the values
    that are written and that no gather reads. `commands` in the metadata maps the path
    of each command that prints or writes to its output.

    Args:
        program: The program, or the path of its file.
        out_of_range: What an index out of range does.
        target: As of `to_onnx`.
        opset: As of `to_onnx`.
        threads: As of `to_onnx`.
        inputs: The names of the resources that are graph inputs; the others are
            initializers with the values of the program. None means the resources whose
            values are in files of their own.

    Raises:
        FileFormatError: The program dispatches no gather, or something else; an input
            shares bytes with the output; the program needs too much memory; a file
            cannot be read; or a value is bound as two data types.
        DescriptorError: A descriptor in the file breaks a rule of DirectML.
        OnnxGatherError: An option is not valid, or the model would exceed 2 GiB.

    Example:
        >>> model = og.program_to_onnx("models/bilinear_corners.json", inputs=["image"])
        >>> [value.name for value in model.graph.input]
        ['image']
        >>> [value.name for value in model.graph.output]
        ['pixels']
    """
    out_of_range, target = check_kind(out_of_range, target)
    opset, _ = check_numbers(opset, threads)
    whole = whole_program(program, out_of_range, target, threads, inputs)
    program = whole.program
    metadata = {
        "program": printable(os.path.basename(program.path)),
        "commands": {path: value.name for path, value in whole.shown.items()},
        "out_of_range": out_of_range,
        "target": target,
    }
    # A graph has a name, in UTF-8, which the name of a file need not be.
    title = printable(Path(program.path).stem) or "program"
    return write_model(whole.graph, title, opset, metadata, whole.outputs())


def whole_program(
    program: Program | str | os.PathLike[str],
    out_of_range: OutOfRange,
    target: Target,
    threads: int | None,
    inputs: Collection[str] | None,
) -> WholeProgram:
    """Return a program as one graph, from the arguments of `program_to_onnx`.

    Raises:
        OnnxGatherError: As `program_to_onnx`.
    """
    out_of_range, target = check_kind(out_of_range, target)
    _, threads = check_numbers(DEFAULT_OPSET, threads)
    requested: Collection[str] = ()
    if inputs is not None:
        requested = texts("inputs", inputs, "names of resources")
    program = given_program(program)
    input_names = _resources_in_files(program) if inputs is None else requested
    lowered = partial(lower, target=target, threads=threads)
    whole = WholeProgram(program, out_of_range, lowered, input_names)
    for name in requested:
        if name not in whole.inputs:
            names = [*_first_tensors(program)]
            rule = (
                "inputs must name resources whose values before the first command count"
                f" ({listed(names, 4)})"
            )
            got = shown_with_suggestion(name, names)
            raise OnnxGatherError(f"{program.path}: {rule}, got {got}")
    return whole


def inputs_to_name(program: Program) -> list[str]:
    """Return the resources to name as inputs of a model that has no inputs by default.

    They are the resources that a gather reads before a command has written them. There
    are none where a resource has its values in a file, as it is an input by default.
    """
    first_tensors = _first_tensors(program)
    for name in _resources_in_files(program):
        if name in first_tensors:
            return []
    bound = set[str]()
    for command in program.dispatch_commands:
        for role in tensors(command.descriptor):
            if role != OUTPUT:
                bound.add(command.bindings[role].resource)
    return [name for name in first_tensors if name in bound]


def _resources_in_files(program: Program) -> list[str]:
    names: list[str] = []
    for name, resource in program.resources.items():
        if resource.values.file is not None:
            names.append(name)
    return names


class WholeProgram:
    """A program as one graph.

    Args:
        program: The program.
        out_of_range: What an index out of range does.
        lowered: Makes the graph of a gather under a policy.
        inputs: The resources that are inputs of the graph if their first values count;
            the other resources are constants.

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
        self.program = program
        self._policy: OutOfRange = out_of_range
        self._lowered = lowered
        self.graph = Graph()
        self.gathers = list[tuple[Descriptor, OutOfRange]]()
        """For each dispatch, the descriptor and the policy of its nodes."""
        self.written = list[Value]()
        """For each dispatch, the resource that it writes, after it."""
        self.shown = dict[str, Value]()
        """What commands print or write to files, by their paths."""
        self.read = set[str]()
        """The names of the values that dispatches read, or keep in part."""
        with located(program.path):
            self._check_names()
            self._first = self._first_values()
            """What a resource holds before the first command, by its name."""
            # A number after a name must not make the name of another resource.
            self.graph.names |= program.resources.keys()
            self.inputs = dict[str, Value]()
            """The inputs of the graph, by the names of the resources."""
            for name, value in self._first.items():
                if name in inputs:
                    self.inputs[name] = value
            self._now = dict(self._first)
            """What a resource holds after the commands so far, by its name."""
            self._add_commands()
            self._add_constants()

    def outputs(self) -> list[Value]:
        """Return the values that are shown, then those written and never read."""
        outputs = {value.name: value for value in self.shown.values()}
        for value in self.written:
            if value.name not in self.read:
                outputs[value.name] = value
        return list(outputs.values())

    def _check_names(self) -> None:
        """Check that all dispatches are gathers, and that resources can name values."""
        program = self.program
        if program.other:
            read_descriptor(program.other)  # raises, as it is no gather
        if not program.dispatch_commands:
            raise FileFormatError("$.commands must dispatch a gather to be a model")
        if "" in program.resources:
            raise FileFormatError(
                "$.resources must have names to be values of a model, got ''"
            )

    def _first_values(self) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name, tensor in _first_tensors(self.program).items():
            values[name] = self._first_value(name, tensor)
        return values

    def _first_value(self, name: str, tensor: TensorDesc | None) -> Value:
        """Return the graph input for what a resource holds before the first command."""
        resource = self.program.resources[name]
        if tensor is None:  # no tensor is bound to it: a command shows it
            data_type = resource.data_type or TensorDataType.UINT8
        else:
            data_type = tensor.data_type
        count = resource.size_in_bytes // data_type.size
        shape = (count,)
        if tensor is not None and size_of(tensor.array_shape) == count:
            shape = tensor.array_shape
        return self.graph.input(name, data_type.numpy, shape)

    def _add_commands(self) -> None:
        for command in self.program.commands:
            if isinstance(command, DispatchCommand):
                self._dispatch(command)
            else:
                self.shown[command.path] = self._shown_value(command.resource)

    def _add_constants(self) -> None:
        """Give the first values that are no inputs the bytes of the program."""
        self.graph.inputs = list(self.inputs.values())
        for name, value in self._first.items():
            if name not in self.inputs:
                content = self.program.resources[name].initial_bytes().data
                array = np.ndarray(value.shape, value.dtype, content)
                self.graph.constants[value.name] = array

    def _dispatch(self, command: DispatchCommand) -> None:
        """Add the nodes of a dispatch."""
        graph = self.graph
        desc = command.descriptor
        output = desc.output_tensor
        out_of_range = self._policy
        if self._is_surely_in_range(command):  # where all policies agree
            out_of_range = "clamp"
        if out_of_range == "directml":
            desc = with_padding(desc)
        arguments: dict[str, Value] = {}
        for role, tensor in tensors(desc).items():
            if role != OUTPUT:
                arguments[role] = self._read(command, role, tensor)

        name = command.bindings[OUTPUT].resource
        covers_all = _covers(output, self.program.resources[name].size_in_bytes)
        before = None if covers_all else self._value(command, OUTPUT, output)
        if name not in self._now:  # its first value may have the resource's own name
            graph.names.discard(name)
        packed = TensorDesc(output.data_type, output.sizes)
        packed_desc = replace(desc, output_tensor=packed)
        self.gathers.append((packed_desc, out_of_range))
        gather = self._lowered(packed_desc, out_of_range)
        if covers_all and output.is_packed:
            written = graph.inline(gather, arguments, name)
        else:
            gathered = graph.inline(gather, arguments, f"{name}.gathered")
            first = _first_element(command, OUTPUT, output)
            written = self._write(before, output, first, gathered, name)
        self._now[name] = written
        self.written.append(written)

    def _read(self, command: DispatchCommand, role: str, tensor: TensorDesc) -> Value:
        """Return the array that stands for a tensor that a dispatch reads."""
        value = self._value(command, role, tensor)
        shape = tensor.array_shape
        count = size_of(shape)
        if count < size_of(value.shape):  # the tensor is a part of the resource
            first = _first_element(command, role, tensor)
            name = f"{value.name}.bound"
            flat = self._flat(value)
            value = self.graph.slice(flat, first, first + count, name, "the part")
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
        """Return a resource after a tensor in it was written; other elements stay.

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

        # A packed tensor is one run of elements between those that stay.
        assert flat is not None
        (count,) = flat.shape
        end = first + size_of(gathered.shape)
        kept_spans = [(0, first), (end, count)]
        parts: list[Value] = []
        for start, stop in kept_spans:
            if start < stop:
                part = self.graph.slice(
                    flat, start, stop, f"{name}.kept", "the elements that stay"
                )
                parts.append(part)
        position = 1 if first > 0 else 0
        parts.insert(position, self._flat(gathered))
        why = "the elements that are written, and those that stay"
        return self.graph.add("Concat", name, *parts, why=why, shape=flat.shape, axis=0)

    def _flat(self, value: Value) -> Value:
        shape = (size_of(value.shape),)
        return self.graph.reshape(value, shape, f"{value.name}.flat", "the buffer, 1-D")

    def _value(self, command: DispatchCommand, role: str, tensor: TensorDesc) -> Value:
        """Return the value that a tensor is bound to."""
        name = command.bindings[role].resource
        # OWNED_BY_DML inputs have the values from before the first command.
        values = self._first if is_owned(tensor) else self._now
        value = values[name]
        if value.dtype != tensor.data_type.numpy:
            path = self.program.resources[name].path
            data_type = value.dtype.name.upper()
            tensor_name = f"{role} of {command.path}"
            rule = f"{path} must be bound as {data_type} to {tensor_name} too"
            why = "as a value of a model has one data type"
            raise FileFormatError(f"{rule}, {why}, got {tensor.data_type}")
        self.read.add(value.name)
        return value

    def _is_surely_in_range(self, command: DispatchCommand) -> bool:
        """Return whether the indices of a dispatch are initializers, all in range."""
        name = command.bindings[INDICES].resource
        if name in self.inputs:
            return False
        if self._now[name] is not self._first.get(name):  # an earlier dispatch wrote it
            return False
        return self.program.in_range_at_first(command)

    def _shown_value(self, name: str) -> Value:
        """Return the value of a resource, as an output."""
        value = self._now[name]
        if value is self._first.get(name):
            why = "the resource as it is, as no gather wrote to it"
            return self.graph.add("Identity", name, value, why=why)
        return value


def _covers(tensor: TensorDesc, size_in_bytes: int) -> bool:
    """Return whether the elements of a tensor fill a resource of that size."""
    return size_of(tensor.sizes) * tensor.data_type.size == size_in_bytes


def _first_element(command: DispatchCommand, role: str, tensor: TensorDesc) -> int:
    """Return the offset of a tensor in its resource, in elements."""
    offset = command.bindings[role].offset  # a multiple of 16 bytes
    return offset // tensor.data_type.size


def _first_tensors(program: Program) -> dict[str, TensorDesc | None]:
    """Return the resources whose first values count, and the first tensor of each.

    The values before the first command count where a gather reads them, or writes a
    part and keeps the rest, or where a command shows them.
    """
    first_tensors: dict[str, TensorDesc | None] = {}
    written: set[str] = set()
    for command in program.commands:
        # Case 1: the command prints a resource or writes it to a file.
        if not isinstance(command, DispatchCommand):
            if command.resource not in written:
                first_tensors.setdefault(command.resource, None)
            continue

        # Case 2: the command dispatches a gather.
        for role, tensor in tensors(command.descriptor).items():
            name = command.bindings[role].resource
            if name in written and not is_owned(tensor):
                continue
            size = program.resources[name].size_in_bytes
            if role == OUTPUT and _covers(tensor, size):  # no first value is kept
                continue
            first_tensors[name] = first_tensors.get(name) or tensor
        written.add(command.bindings[OUTPUT].resource)
    return first_tensors
