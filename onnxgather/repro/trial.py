"""What a repro.py runs: a model with its inputs and the expected output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase
from onnxgather.descriptors import TENSORS
from onnxgather.lanes.python import model_of
from onnxgather.model import bare_model, wrapped
from onnxgather.options import Target
from onnxgather.repro.candidates import candidate_of
from onnxgather.session import threads_for


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
    size = math.prod(case.descriptor.output_tensor.sizes) if isinstance(case, DescriptorCase) else 1
    threads = threads_for(size)
    one = {"One": np.ones(1, case.data.dtype)} if case.wrapped else {}
    if isinstance(case, DescriptorCase) and _is_one_node(case):
        candidate = candidate_of(case)
        gather = candidate.gather
        attributes = {gather.attribute: gather.number}
        shape = gather.output
        model = bare_model(gather.onnx, attributes, candidate.data, candidate.indices, shape)
        model = wrapped(model) if case.wrapped else model
        inputs = {"InputTensor": candidate.data, "IndicesTensor": candidate.indices, **one}
        wanted = None if expected is None else expected.reshape(shape)
        yield Trial(model.SerializeToString(), inputs, wanted, threads, library)
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices, **one}
    yield Trial(model_of(case, target, threads), inputs, expected, threads, library)


def _is_one_node(case: DescriptorCase) -> bool:
    tensors = [getattr(case.descriptor, name) for name in TENSORS]
    return (
        case.out_of_range == "error"
        and case.indices.dtype.kind == "i"
        and all(tensor.strides is None for tensor in tensors)
    )
