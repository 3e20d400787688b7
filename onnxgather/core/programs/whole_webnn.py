"""A whole DxDispatch program written as one WebNN program."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import Array, check_policy, with_padding
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import is_owned, read_descriptor, tensors
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import FileFormatError, OnnxGatherError, located
from onnxgather.core.lowering.graph import new_name, size_of
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.lowering.webnn.buffers import computable, offsets_of_elements
from onnxgather.core.lowering.webnn.gathering import gather_steps
from onnxgather.core.lowering.webnn.javascript import whole_module_text
from onnxgather.core.lowering.webnn.program import check_counted, graph_as_data
from onnxgather.core.lowering.webnn.steps import MLOperand, StepList
from onnxgather.core.options import OutOfRange
from onnxgather.core.programs.memory import DispatchCommand
from onnxgather.core.programs.program import Program, given_program
from onnxgather.core.public import public

_WORD = 4
"""The bytes of an int32."""


@public
@dataclass(frozen=True, slots=True)
class WholeWebnnProgram:
    """The gathers of a DxDispatch program as one WebNN graph, which is data.

    Example:
        >>> program = og.program_to_webnn("models/gather_3_swap_columns.json")
        >>> program.sizes_in_bytes, program.commands
        ({'input': 24, 'indices': 8, 'output': 24}, {'$.commands[1]': 'output'})
    """

    out_of_range: OutOfRange
    graph: StepList
    resources: Mapping[str, MLOperand]
    """The inputs of the graph, by the names of the resources."""
    sizes_in_bytes: Mapping[str, int]
    """The bytes of each input and output, by their names."""
    commands: Mapping[str, str]
    """The outputs that commands print or write to files, by the paths of commands."""

    def __repr__(self) -> str:
        return f"<WholeWebnnProgram, {len(self.graph.steps)} steps>"

    def to_dict(self) -> dict[str, Any]:
        """Return the program as plain data, as `WebnnProgram.to_dict` does."""
        names = {name: operand.name for name, operand in self.resources.items()}
        return {
            "out_of_range": self.out_of_range,
            "resources": names,
            "commands": dict(self.commands),
            **graph_as_data(self.graph),
        }

    def to_json(self) -> str:
        """Return the program as JSON, which `to_dict` describes."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def to_javascript(self) -> str:
        """Return the program as an ES module, which docs/webnn.md describes."""
        return whole_module_text(
            self.out_of_range,
            self.graph,
            self.resources,
            self.sizes_in_bytes,
            self.commands,
        )


@public
def program_to_webnn(
    program: Program | str | os.PathLike[str], out_of_range: OutOfRange = "clamp"
) -> WholeWebnnProgram:
    """Return the WebNN program that computes what a DxDispatch program dispatches.

    Its inputs are the resources whose values before the first command count. Its
    outputs are the values that commands print or write to files, and the values that
    are written and that no gather reads. An output has the name of its resource; a
    number follows if the resource has several values.

    Args:
        program: The program, or the path of its file.
        out_of_range: What an index out of range does: any policy but "error".

    Raises:
        FileFormatError: The program dispatches no gather, or something else; an input
            shares bytes with the output; or a resource is bound as indices, and as data
            that WebNN must have as bytes.
        DescriptorError: A descriptor in the file breaks a rule of DirectML.
        OnnxGatherError: The policy is no policy or "error", or a tensor has 2^31
            elements or more.

    Example:
        >>> og.program_to_webnn("models/gather_3_swap_columns.json")
        <WholeWebnnProgram, 7 steps>
    """
    out_of_range = check_policy(out_of_range)
    if out_of_range == "error":
        rule = "out_of_range must not be error for a whole program of WebNN"
        why = "as a graph cannot fail between two gathers"
        raise OnnxGatherError(f"{rule}, {why}; the policy zero shows them")
    program = given_program(program)
    program.check_apart()
    program.check_run()
    with located(program.path):
        if program.other:
            read_descriptor(program.other)  # raises, as it is no gather
        if not program.dispatch_commands:
            raise FileFormatError("$.commands must dispatch a gather to be a graph")
        return _Whole(program, out_of_range).finished()


class _Whole:
    """The graph of a program under construction."""

    def __init__(self, program: Program, out_of_range: OutOfRange) -> None:
        self._program = program
        self._policy: OutOfRange = out_of_range
        self._steps = StepList()
        self._in_bytes = _resources_in_bytes(program)
        self._first = dict[str, MLOperand]()
        """What resources hold before the first command, in rows of one element."""
        self._now = dict[str, MLOperand]()
        """What resources hold after the commands so far, if one wrote them."""
        self._written = list[str]()
        """The resource that each dispatch writes."""
        self._read = set[MLOperand]()
        """The values that dispatches read, or keep in part."""

    def finished(self) -> WholeWebnnProgram:
        """Return the program."""
        shown_values: dict[str, tuple[str, MLOperand]] = {}
        written: list[tuple[str, MLOperand]] = []
        for command in self._program.commands:
            if isinstance(command, DispatchCommand):
                name = command.bindings[OUTPUT].resource
                self._dispatch(command)
                written.append((name, self._now[name]))
            else:
                name = command.resource
                shown_values[command.path] = (name, self._value(name))

        labels: dict[MLOperand, str] = {}
        outputs: dict[str, MLOperand] = {}
        sizes = {name: self._size(name) for name in self._first}
        unread = [pair for pair in written if pair[1] not in self._read]
        taken = {*self._program.resources}
        for name, operand in [*shown_values.values(), *unread]:
            if operand in labels:
                continue
            label = name if name not in outputs else new_name(name, taken)
            labels[operand] = label
            outputs[label] = self._as_output(name, operand)
            sizes[label] = self._size(name)
        self._steps.finish(outputs)
        commands = dict[str, str]()
        for path, (_, operand) in shown_values.items():
            commands[path] = labels[operand]
        return WholeWebnnProgram(
            self._policy, self._steps, self._first, sizes, commands
        )

    def _as_output(self, name: str, operand: MLOperand) -> MLOperand:
        """Return a value as an output, which must not be an input itself."""
        if operand is not self._first.get(name):
            return operand
        why = "the resource as it is, as no gather wrote to it"
        shape = (operand.shape[0],)
        return self._steps.reshape(operand, shape, "unchanged", why)

    def _size(self, name: str) -> int:
        return self._program.resources[name].size_in_bytes

    def _unit(self, name: str) -> int:
        """Return the bytes of an element of a resource's operand."""
        return 1 if name in self._in_bytes else _WORD

    def _value(self, name: str, is_owned: bool = False) -> MLOperand:
        """Return what a resource holds, before the first command if it is owned."""
        if name in self._now and not is_owned:
            return self._now[name]
        if name not in self._first:
            unit = self._unit(name)
            data_type = "int8" if unit == 1 else "int32"
            # The name of a resource need not be one of JavaScript.
            identifier = "resource_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
            shape = (self._size(name) // unit, 1)
            self._first[name] = self._steps.input(identifier, data_type, shape)
        return self._first[name]

    def _dispatch(self, command: DispatchCommand) -> None:
        """Add the steps of a dispatch."""
        desc = command.descriptor
        check_counted(desc)
        output = desc.output_tensor
        name = command.bindings[OUTPUT].resource
        in_bytes = name in self._in_bytes
        if self._policy == "directml":
            desc = with_padding(desc)
        packed = TensorDesc(output.data_type, output.sizes)
        packed_desc = replace(desc, output_tensor=packed)
        gather = gather_steps(packed_desc, self._policy, "bytes", in_bytes)
        given: dict[str, MLOperand] = {}
        for operand in gather.inputs:
            given[operand.name] = self._part(command, desc, operand)
        rows = self._steps.inline(gather, given)[OUTPUT]
        count = size_of(rows.shape)
        flat = self._steps.reshape(rows, (count, 1), "flatRows", "one after another")
        self._now[name] = self._put(command, output, flat)

    def _part(
        self, command: DispatchCommand, desc: Descriptor, operand: MLOperand
    ) -> MLOperand:
        """Return the part of a resource that an input of a gather is bound to."""
        role = operand.name
        binding = command.bindings[role]
        value = self._value(binding.resource, is_owned(tensors(desc)[role]))
        self._read.add(value)
        first = binding.offset // self._unit(binding.resource)
        sizes = (size_of(operand.shape), 1)
        why = f"the part that {role} is bound to"
        part = self._steps.slice(value, (first, 0), sizes, "bound", why)
        return self._steps.reshape(part, operand.shape, "boundRows", why)

    def _put(
        self, command: DispatchCommand, tensor: TensorDesc, flat: MLOperand
    ) -> MLOperand:
        """Return a resource after a tensor in it was written; other elements stay."""
        binding = command.bindings[OUTPUT]
        name = binding.resource
        unit = self._unit(name)
        count = flat.shape[0]
        size = self._size(name) // unit
        places = binding.offset // unit + _places(tensor, unit)
        # Elements that are not written come behind those that are.
        sources = np.arange(count, count + size)
        sources[places] = np.arange(count)
        if size == count and np.array_equal(sources, np.arange(count)):
            return flat
        data_type = flat.data_type
        steps = self._steps
        table = computable(steps, flat)
        if (sources >= count).any():
            before = self._value(name)
            self._read.add(before)
            why = "adds what is not written"
            table = steps.concat((table, computable(steps, before)), "both", why)
        why = "which of them each element of the resource is"
        chosen = steps.constant("resourceRows", sources.astype(np.int32), why)
        why = "puts the elements at their places"
        rows = steps.gather(table, chosen, "written", why)
        return steps.cast(rows, data_type, "writtenBytes", "bytes again")


def _places(tensor: TensorDesc, unit: int) -> Array:
    """Return where the parts of each element lie in a tensor's buffer.

    Args:
        tensor: The tensor.
        unit: The bytes of a part.
    """
    offsets = offsets_of_elements(tensor.sizes, tensor.element_strides)
    parts = np.arange(tensor.data_type.size // unit)
    return np.add.outer(offsets * len(parts), parts).reshape(-1)


def _resources_in_bytes(program: Program) -> set[str]:
    """Return the resources whose operands are bytes, as they do not fill words.

    Data and output of a gather are alike, as WebNN cannot view the one as the other.

    Raises:
        FileFormatError: A gather reads one of them as indices, which are words.
    """
    # Each with what it has in place of words.
    in_bytes: dict[str, str] = {}
    for name, resource in program.resources.items():
        size = resource.size_in_bytes
        if size % _WORD != 0:
            in_bytes[name] = f"{size} bytes, which are no multiple of {_WORD}"
    for command in program.dispatch_commands:
        if command.descriptor.input_tensor.data_type.size < _WORD:
            for role in (INPUT, OUTPUT):
                in_bytes[command.bindings[role].resource] = "data of 8 or 16 bits"
    count_before = -1
    while len(in_bytes) > count_before:
        count_before = len(in_bytes)
        for command in program.dispatch_commands:
            for role, other in ((INPUT, OUTPUT), (OUTPUT, INPUT)):
                if command.bindings[other].resource in in_bytes:
                    name = command.bindings[role].resource
                    what = f"{role} of {command.path}, whose {other} has no such words"
                    in_bytes.setdefault(name, what)
    for command in program.dispatch_commands:
        name = command.bindings[INDICES].resource
        if name in in_bytes:
            path = program.resources[name].path
            rule = f"{path} must hold 32-bit words in a WebNN graph"
            why = f"as it is {INDICES} of {command.path}"
            raise FileFormatError(f"{rule}, {why}, got {in_bytes[name]}")
    return set(in_bytes)
