"""A whole program run as one model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from onnxgather.descriptors.arrays import Array, array_of, elements
from onnxgather.descriptors.operators import Descriptor
from onnxgather.execution.providers import find_provider, target_of
from onnxgather.execution.session import Session, check_readable, threads_for
from onnxgather.lowering.graph import Value
from onnxgather.lowering.portable import OUTPUT
from onnxgather.model.write import write_model
from onnxgather.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.programs import Program
from onnxgather.programs.running import EvaluateBy
from onnxgather.programs.whole import WholeProgram


def run_whole(program: Program, provider: str = "cpu", target: Target | None = None) -> EvaluateBy:
    """What `execute` evaluates a program by: one model of all dispatches, which runs once.

    It runs by the policy "clamp", and once more by the policy of the run if an index is out of
    range. What it is asked for are the dispatches of the program, in order.

    Args:
        program: The program.
        provider: As of `run`.
        target: What the model is made for; None is what suits the provider.

    Raises:
        OnnxGatherError: The program is no model; see `program_to_onnx`.
    """
    found = find_provider(provider)
    descriptors = [
        program.dispatchables[one.dispatchable].descriptor for one in program.dispatch_commands
    ]
    threads, suits = max(map(threads_for, descriptors), default=1), target_of(found.name, target)

    @cache
    def lowered(policy: OutOfRange) -> WholeProgram:
        return WholeProgram(program, policy, suits, threads, program.resources)

    @cache
    def written(policy: OutOfRange) -> list[Array]:
        whole = lowered(policy)
        metadata = {"onnxgather.out_of_range": policy, "onnxgather.target": suits}
        arrays = {value.name: whole.first_array(name) for name, value in whole.inputs.items()}

        def run(*values: Value) -> list[Array]:
            graph = whole.graph.leading_to(*values)  # as DirectML refuses inputs without use
            model = write_model(graph, "program", DEFAULT_OPSET, metadata, values)
            feeds = {value.name: arrays[value.name] for value in graph.inputs}
            outputs: Any = Session(model, provider, threads=threads).run(feeds)
            return [outputs] if isinstance(outputs, np.ndarray) else outputs

        outputs = run(*whole.written)
        # A host answers with the first output alone.
        return outputs + [run(value)[0] for value in whole.written[len(outputs) :]]

    lowered("clamp")
    commands, policy = iter(enumerate(program.dispatch_commands)), "clamp"

    def evaluate(desc: Descriptor, data: Array, indices: Array, out_of_range: OutOfRange) -> Array:
        nonlocal policy
        check_readable(desc, indices, out_of_range, found)
        if out_of_range != "clamp":
            policy = out_of_range
        number, command = next(commands)
        tensor, content = desc.output_tensor, np.ascontiguousarray(written(policy)[number])
        dtype, offset = tensor.data_type.numpy, command.bindings[OUTPUT].offset
        bound = np.ndarray(tensor.array_shape, dtype, content.data, offset)
        return array_of(tensor, elements(tensor, bound))  # zero between the elements

    return evaluate
