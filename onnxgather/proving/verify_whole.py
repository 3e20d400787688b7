"""Whether the model of a whole program does what `run` does, dispatch by dispatch."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np

from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array, with_padding
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.errors import IndexOutOfRangeError, located
from onnxgather.core.lowering.graph import Value
from onnxgather.core.lowering.portable import OUTPUT
from onnxgather.core.lowering.webnn.program import to_webnn
from onnxgather.core.model.values import loaded
from onnxgather.core.model.write import descriptor_model
from onnxgather.core.options import OutOfRange, Target
from onnxgather.core.programs.memory import DispatchCommand, Memory
from onnxgather.core.programs.program import Program
from onnxgather.core.programs.whole import WholeProgram, whole_program
from onnxgather.proving.verify import (
    Verification,
    all_proved,
    check_output,
    open_on_cpu,
    proved,
    proved_webnn,
    run_on_cpu,
)

WHERE = "with the data of the program, "
"""How messages on the only case start."""


def verify_whole(
    content: bytes,
    program: Program,
    out_of_range: OutOfRange,
    target: Target,
    opset: int,
    threads: int | None,
    inputs: Collection[str] | None,
) -> Verification:
    """Run the model of a whole program against `run`, and prove each dispatch.

    The case is the data of the program, with indices out of range by the policy of the
    model.

    Args:
        content: The serialized model, as `program_to_onnx` makes it of the other
            arguments.
        program: The program.
        out_of_range: As of `program_to_onnx`.
        target: As of `program_to_onnx`.
        opset: As of `program_to_onnx`.
        threads: As of `program_to_onnx`.
        inputs: As of `program_to_onnx`.

    Raises:
        DifferenceError: An output differs, or a dispatch is refuted.
        OnnxGatherError: As `verify_model` and `program_to_onnx`.
    """
    whole = whole_program(program, out_of_range, target, threads, inputs)
    cases = _run(content, whole, out_of_range, target)
    places: dict[tuple[Descriptor, OutOfRange], str] = {}
    for command, gather in zip(program.dispatch_commands, whole.gathers, strict=True):
        places.setdefault(gather, command.path)
    parts: dict[str, Verification] = {}
    for (desc, policy), place in places.items():
        model = descriptor_model(desc, policy, target, opset, threads=threads)
        with located(place):
            parts[place] = proved(desc, policy, target, model)
    return all_proved(parts, cases)


def verify_whole_webnn(program: Program, out_of_range: OutOfRange) -> Verification:
    """Return whether each dispatch of the WebNN program of a program is proved."""
    places: dict[Descriptor, str] = {}
    for command in program.dispatch_commands:
        desc = command.descriptor
        if out_of_range == "directml":
            desc = with_padding(desc)
        places.setdefault(desc, command.path)
    parts: dict[str, Verification] = {}
    for desc, place in places.items():
        parts[place] = proved_webnn(to_webnn(desc, out_of_range))
    return all_proved(parts, 0)


def _run(
    content: bytes, whole: WholeProgram, out_of_range: OutOfRange, target: Target
) -> int:
    """Run a model, which must compute what the commands of its program compute.

    Returns:
        The number of cases: 1, or 0 where the data are none for the model.

    Raises:
        DifferenceError: It computes something else.
    """
    _, proto = loaded(content)
    opened = open_on_cpu(content, proto)
    resources = whole.program.resources
    feeds: dict[str, Array] = {}
    for name, value in whole.inputs.items():
        feeds[value.name] = _as_value(resources[name].initial_bytes(), value)
    refused = ""
    expected: dict[str, Array] = {}
    try:
        expected = _expected(whole, out_of_range)
    except IndexOutOfRangeError as error:
        refused = str(error)
        # What the certificate of such a model excludes.
        if target == "webgpu":
            return 0
    outputs = run_on_cpu(opened, feeds, WHERE, must_refuse=refused)
    for value, output in zip(proto.graph.output, outputs, strict=False):
        name = f"output {shown(value.name)}"
        check_output(name, WHERE, expected[value.name], output)
    return 1


def _expected(whole: WholeProgram, out_of_range: OutOfRange) -> dict[str, Array]:
    """Return the outputs of a whole program by the reference, by their names.

    Raises:
        IndexOutOfRangeError: An index is out of range where the policy forbids it.
    """
    memory = Memory(whole.program.resources)
    evaluate = partial(reference, out_of_range=out_of_range)
    wanted = {value.name for value in whole.outputs()}
    written = iter(whole.written)
    expected: dict[str, Array] = {}
    for command in whole.program.commands:
        if isinstance(command, DispatchCommand):
            memory.dispatch(command, evaluate)
            resource = command.bindings[OUTPUT].resource
            value = next(written)
        else:
            resource = command.resource
            value = whole.shown[command.path]
        # Later commands change the resource.
        if value.name in wanted and value.name not in expected:
            expected[value.name] = _as_value(memory.buffer(resource), value).copy()
    return expected


def _as_value(content: Array, value: Value) -> Array:
    """Return the bytes of a resource as the array of a value."""
    return np.ndarray(value.shape, value.dtype, content.data)
