"""What the lane `webnn` runs: WebNN programs of descriptors, and no ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.lanes.lane import Answer
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.elsewhere.worker import output_of_bytes
from onnxgather.core.lowering.webnn.program import to_webnn


class ProgramQuestion(NamedTuple):
    """What the browser is given for a case."""

    module: bytes
    """The text of the program's module."""
    feeds: Sequence[dict[str, Array]]
    """The inputs of each run; the last are those of the case."""


def why_no_program(case: Case) -> str | None:
    """Return why no WebNN program says a case; None if one does."""
    rule = "a WebNN program is that of a descriptor, and no descriptor says"
    if isinstance(case, NodeCase):
        return f"{rule} this node"
    if case.wrapped:
        return f"{rule} a gather between operators"
    return None


def given_to_webnn(case: DescriptorCase) -> ProgramQuestion:
    """Return what the browser is given for a case.

    Raises:
        OnnxGatherError: There is no program of the descriptor.
    """
    program = to_webnn(case.descriptor, case.out_of_range)
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    feeds = [inputs]
    # A refusal counts only beside an output for valid indices.
    if case.must_refuse:
        zeros = np.zeros_like(case.indices)
        feeds.insert(0, {**inputs, "IndicesTensor": zeros})
    return ProgramQuestion(program.to_javascript().encode(), feeds)


def with_own_type(answer: Answer, tensor: TensorDesc) -> Answer:
    """Return an answer whose outputs are arrays of OutputTensor, not its bytes."""
    output = answer.output
    answers_in_range = answer.answers_in_range
    if output is not None:
        output = output_of_bytes(output, tensor)
    if answers_in_range is not None:
        answers_in_range = output_of_bytes(answers_in_range, tensor)
    return replace(answer, output=output, answers_in_range=answers_in_range)
