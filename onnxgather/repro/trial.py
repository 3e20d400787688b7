"""Trials: the question that a repro.py asks, with the expected output, and the files it needs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onnxgather.checks import printable
from onnxgather.descriptors.arrays import Array
from onnxgather.descriptors.operators import TENSORS
from onnxgather.execution import runtime
from onnxgather.files import filled_in
from onnxgather.options import Target
from onnxgather.parity.cases import Case, DescriptorCase, NodeCase
from onnxgather.parity.lanes.python import Question, question_of
from onnxgather.repro.candidates import candidate_of


@dataclass(frozen=True, slots=True)
class Trial:
    """A question to ONNX Runtime with the expected answer."""

    question: Question
    """The model and its inputs."""
    expected: Array | None
    """The output of the reference; None where the provider must refuse the model."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""
    operators: str | None = None
    """The library of onnxgather's own operators, if the session takes them."""


def trials_of(
    case: Case, target: Target, library: str | None = None, operators: str | None = None
) -> Iterator[Trial]:
    """Yield the ways to run a case, the plainest first; the last is what the lane ran.

    If one ONNX node computes the case, the plainest model is that node alone, on the sizes that
    count. The model of the descriptor may need more nodes, as all its tensors have one rank.

    Args:
        case: The case.
        target: The target of the lane's models.
        library: The plugin library that brings the lane's provider, if one does.
        operators: The library of onnxgather's own operators, if the lane registers it.
    """
    rule = case.expected()
    expected = None if isinstance(rule, str) else rule
    asked = question_of(case, target)
    if isinstance(case, DescriptorCase) and _is_one_node(case):
        bare = candidate_of(case)
        node = bare.node("")
        plain = NodeCase(case.name, node, bare.data, bare.indices, case.wrapped)
        alone = question_of(plain, target)._replace(threads=asked.threads)
        output = None if expected is None else expected.reshape(node.output_shape)
        yield Trial(alone, output, library)
    yield Trial(asked, expected, library, operators)


def _is_one_node(case: DescriptorCase) -> bool:
    tensors = [getattr(case.descriptor, name) for name in TENSORS]
    return (
        case.out_of_range == "error"
        and case.indices.dtype.kind == "i"
        and all(tensor.strides is None for tensor in tensors)
    )


def runnable(case: Case, title: str, provider: str, trial: Trial) -> dict[str, bytes]:
    """The files that repro.py needs, itself included.

    Args:
        case: The case.
        title: What the script says it shows.
        provider: The full name of the provider that it runs.
        trial: What it runs.
    """
    rule = case.expected()
    script = filled_in(
        "repro/repro.py.template",
        title=json.dumps(title)[1:-1],  # escaped, as it stands between quotes
        provider=json.dumps(provider)[1:-1],
        library=repr(trial.library),
        operators=repr(trial.operators),
        threads=trial.question.threads,
        rule=repr(printable(rule)) if isinstance(rule, str) else None,
    )
    inputs, expected = io.BytesIO(), io.BytesIO()
    np.savez(inputs, allow_pickle=False, **trial.question.inputs)
    contents = {
        "model.onnx": trial.question.model,
        "inputs.npz": inputs.getvalue(),
        "runtime.py": Path(runtime.__file__).read_bytes(),
        "repro.py": script.encode(),
    }
    if trial.expected is not None:
        np.save(expected, trial.expected)
        contents["expected.npy"] = expected.getvalue()
    return contents
