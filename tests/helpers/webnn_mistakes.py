"""WebNN programs with a mistake, and arrays that show it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import numpy as np
from strategies import random_data, random_indices
from webnn_interpreter import RefusedStepError, interpret

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering.webnn.program import WebnnProgram


def changed_programs(program: WebnnProgram) -> Iterator[tuple[str, WebnnProgram]]:
    """Yield programs in which a step reads another operand, and the step's result.

    The other operand has the same data type and shape.
    """
    graph = program.graph
    operands = [*graph.inputs, *(constant.operand for constant in graph.constants)]
    for number, step in enumerate(graph.steps):
        for place, operand in enumerate(step.operands):
            for other in operands:
                if other != operand and other[1:] == operand[1:]:
                    changed = deepcopy(program)
                    wrong = [*step.operands]
                    wrong[place] = other
                    steps = changed.graph.steps
                    steps[number] = step._replace(operands=tuple(wrong))
                    yield step.result.name, changed
        operands.append(step.result)


def differing_arrays(program: WebnnProgram) -> dict[str, Array] | None:
    """Return inputs with which a program has another output; None if none is seen."""
    desc = program.descriptor
    rng = np.random.default_rng(41)
    for number in range(40):
        data = random_data(desc.input_tensor, rng)
        indices = random_indices(desc, rng, wild=number % 2)
        right = og.reference(desc, data, indices, program.out_of_range)
        arrays = {"InputTensor": data, "IndicesTensor": indices}
        try:
            outputs = interpret(program.to_dict(), arrays)
        except RefusedStepError:
            return arrays
        if outputs["OutputTensor"].tobytes() != right.tobytes():
            return arrays
    return None
