"""What a repro.py runs: a model with its inputs and the expected output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.descriptors import TENSORS
from onnxgather.lanes.python import model_of, threads_of
from onnxgather.options import Target
from onnxgather.repro.candidates import candidate_of


@dataclass(frozen=True, slots=True)
class Trial:
    """A model, its inputs, and the output that is right."""

    model: bytes
    inputs: Mapping[str, Array]
    expected: Array | None
    """None where the provider must refuse the model."""
    threads: int
    """How many threads ONNX Runtime may use; 0 means one per core."""
    library: str | None = None
    """The plugin library that brings the provider, if one does."""


def trials_of(case: Case, target: Target, library: str | None = None) -> Iterator[Trial]:
    """Yield the ways to run a case, the plainest first; the last is what the lane ran.

    Where one ONNX node computes the case, the plainest model is that node alone, on the shapes
    that count: a descriptor gives all tensors one rank, which may take more nodes.

    Args:
        case: The case.
        target: The target of the lane's models: portable or cpu.
        library: The plugin library that brings the lane's provider, if one does.
    """
    rule = case.expected()
    expected = None if isinstance(rule, str) else rule
    runs: list[tuple[Case, Array | None]] = [(case, expected)]
    if isinstance(case, DescriptorCase) and _is_one_node(case):
        bare = candidate_of(case)
        node = bare.node("")
        plain = NodeCase(case.name, node, bare.data, bare.indices, case.wrapped)
        output = None if expected is None else expected.reshape(node.output_shape)
        runs.insert(0, (plain, output))
    threads = threads_of(case)
    one = {"One": np.ones(1, case.data.dtype)} if case.wrapped else {}
    for run, output in runs:
        inputs = {"InputTensor": run.data, "IndicesTensor": run.indices, **one}
        yield Trial(model_of(run, target, threads), inputs, output, threads, library)


def _is_one_node(case: DescriptorCase) -> bool:
    tensors = [getattr(case.descriptor, name) for name in TENSORS]
    return (
        case.out_of_range == "error"
        and case.indices.dtype.kind == "i"
        and all(tensor.strides is None for tensor in tensors)
    )
