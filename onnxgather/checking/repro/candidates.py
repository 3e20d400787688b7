"""Cases taken apart: sizes, ranks, layouts and values that can change on their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.descriptor_layouts import (
    PACKED,
    Layout,
    descriptor_with_layouts,
    layout_of,
)
from onnxgather.core.descriptors.arrays import Array, array_with, elements
from onnxgather.core.descriptors.datatypes import type_of
from onnxgather.core.descriptors.operators import TENSORS
from onnxgather.core.errors import DescriptorError
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
    """The elements of InputTensor, in its significant sizes."""
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
        data_sizes = self.gather.tensor_sizes()[0]
        return len(data_sizes)

    def node(self, rule: str | None) -> GatherNode:
        """Return the ONNX node with these sizes, and the rule that it breaks."""
        gather = self.gather
        attributes = {gather.attribute: gather.number}
        return GatherNode(gather.onnx, attributes, gather.output, rule)


def candidate_of(case: Case) -> Candidate:
    """Return the candidate of a case."""
    if isinstance(case, NodeCase):
        return _candidate_of_node(case)
    desc = case.descriptor
    gather = gather_of(desc)
    data_sizes = gather.data
    index_sizes = gather.indices
    number = gather.number
    # Leading ones before an axis change nothing. Gathers with tuples have no axis.
    if not gather.has_tuples:
        ones = _leading_ones(data_sizes[:number])
        data_sizes = data_sizes[ones:]
        number -= ones
        if gather.onnx == "GatherElements":  # its indices have the rank of the data
            index_sizes = index_sizes[ones:]
    candidate = Candidate(
        gather.operator,
        number,
        elements(desc.input_tensor, case.data).reshape(data_sizes),
        elements(desc.indices_tensor, case.indices).reshape(index_sizes),
        layouts=tuple(layout_of(getattr(desc, name)) for name in TENSORS),
    )
    spare = gather.dimension_count - candidate.needed
    return replace(candidate, spare=spare)


def _candidate_of_node(case: NodeCase) -> Candidate:
    """Return the candidate of a node, which has one attribute."""
    node = case.node
    (number,) = node.attributes.values()
    gather = gather_of_node(node.operator, case.data.shape, case.indices.shape, number)
    return Candidate(gather.operator, gather.number, case.data, case.indices)


def _leading_ones(sizes: Sequence[int]) -> int:
    """Return how many sizes are 1 before the first other size."""
    ones = takewhile(lambda size: size == 1, sizes)
    return len([*ones])


def case_of(candidate: Candidate, name: str, out_of_range: OutOfRange) -> Case:
    """Return the case of a candidate.

    It is the case of a descriptor; or that of a node where ONNX forbids the node, or
    where no descriptor says it.
    """
    gather = candidate.gather
    data = candidate.data
    indices = candidate.indices
    # Unsigned indices have a descriptor, and nodes around the gather.
    rule = gather.broken_rule(data_type=type_of(data.dtype))
    if rule is not None:
        return NodeCase(name, candidate.node(rule), data, indices)
    dimension_count = candidate.needed + candidate.spare
    try:
        desc = descriptor_with_layouts(
            replace(gather, dimension_count=dimension_count),
            data.dtype.name.upper(),
            candidate.index_type,
            candidate.layouts,
        )
    except DescriptorError:
        return NodeCase(name, candidate.node(None), data, indices)
    tensor = desc.input_tensor
    # What lies between the elements is distinct too, so that a wrong address shows.
    between = distinct(tensor.array_shape, data.dtype)
    data = array_with(tensor, data.reshape(tensor.sizes), between)
    tensor = desc.indices_tensor
    indices = array_with(tensor, indices.reshape(tensor.sizes))
    return DescriptorCase(name, desc, data, indices, out_of_range)


def distinct(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Return an array of the numbers 1 to 100, repeated, or of their texts."""
    count = math.prod(shape)
    numbers = np.arange(count) % 100 + 1
    # Case: truth values, of which each number but 0 gives the same.
    if np.dtype(dtype).kind == "b":
        numbers %= 2
    # Case: texts, which are objects.
    if np.dtype(dtype).hasobject:
        numbers = numbers.astype(str)
    return numbers.reshape(tuple(shape)).astype(dtype)
