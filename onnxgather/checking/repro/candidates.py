"""Candidates: cases taken apart, so that sizes, ranks, layouts and values can change one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.checking.descriptor_layouts import (
    PACKED,
    Layout,
    descriptor_with_layouts,
    layout_of,
)
from onnxgather.core.descriptors.arrays import Array, array_with, elements
from onnxgather.core.descriptors.operators import TENSORS
from onnxgather.core.gather import Geometry, gather_of, gather_of_node
from onnxgather.core.options import OutOfRange


@dataclass(frozen=True, slots=True)
class Candidate:
    """The elements of a gather, and how its tensors lie in their buffers."""

    operator: str
    """GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1."""
    number: int
    """The `axis`, or the `batch_dims` of GatherND."""
    data: Array
    """The elements of InputTensor, in the sizes that count."""
    indices: Array
    spare: int = 0
    """How much DimensionCount exceeds the smallest possible one, by leading ones."""
    layouts: tuple[Layout, ...] = PACKED
    """The layouts of InputTensor, IndicesTensor and OutputTensor."""

    @property
    def gather(self) -> Geometry:
        """The gather with these sizes."""
        return Geometry(self.operator, self.data.shape, self.indices.shape, self.number)

    @property
    def index_type(self) -> str:
        """The name of the indices' type, such as INT64."""
        return self.indices.dtype.name.upper()

    @property
    def needed(self) -> int:
        """The smallest DimensionCount of a descriptor with these sizes."""
        return len(self.gather.tensor_sizes()[0])

    def node(self, rule: str) -> ForbiddenNode:
        """The ONNX node with these sizes, as one that breaks a rule."""
        gather = self.gather
        return ForbiddenNode(
            gather.onnx, {gather.attribute: gather.number}, gather.output, rule
        )


def candidate_of(case: Case) -> Candidate:
    """The candidate of a case."""
    if isinstance(case, NodeCase):
        (number,) = case.node.attributes.values()
        gather = gather_of_node(
            case.node.operator, case.data.shape, case.indices.shape, number
        )
        return Candidate(gather.operator, gather.number, case.data, case.indices)
    desc, gather = case.descriptor, gather_of(case.descriptor)
    data, indices, number = gather.data, gather.indices, gather.number
    if not gather.has_tuples:  # leading ones before the axis change nothing
        ones = next((k for k, size in enumerate(data[:number]) if size != 1), number)
        data, number = data[ones:], number - ones
        indices = indices[ones:] if gather.onnx == "GatherElements" else indices
    candidate = Candidate(
        gather.operator,
        number,
        elements(desc.input_tensor, case.data).reshape(data),
        elements(desc.indices_tensor, case.indices).reshape(indices),
        layouts=tuple(layout_of(getattr(desc, name)) for name in TENSORS),
    )
    return replace(candidate, spare=gather.dimension_count - candidate.needed)


def case_of(candidate: Candidate, name: str, out_of_range: OutOfRange) -> Case:
    """The case of a candidate: of a forbidden node if ONNX forbids its sizes, else a descriptor.

    Raises:
        DescriptorError: ONNX allows the node, but its descriptor breaks a rule of DirectML.
    """
    gather, data, indices = candidate.gather, candidate.data, candidate.indices
    if (rule := gather.broken_rule()) is not None:
        return NodeCase(name, candidate.node(rule), data, indices)
    gather = replace(gather, dimension_count=candidate.needed + candidate.spare)
    desc = descriptor_with_layouts(
        gather, data.dtype.name.upper(), candidate.index_type, candidate.layouts
    )
    tensor = desc.input_tensor
    between = distinct(tensor.array_shape).astype(data.dtype)
    data = array_with(tensor, data.reshape(tensor.sizes), between)
    tensor = desc.indices_tensor
    indices = array_with(tensor, indices.reshape(tensor.sizes))
    return DescriptorCase(name, desc, data, indices, out_of_range)


def distinct(shape: Sequence[int]) -> Array:
    """An array of the numbers 1 to 100, over and over; every data type holds them."""
    return (np.arange(math.prod(shape)) % 100 + 1).reshape(tuple(shape))
