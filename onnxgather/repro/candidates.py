"""A case taken apart, so that its sizes, ranks, layouts and values change one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgather.arrays import Array, array_of, elements
from onnxgather.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.gather import Gather, gather_of, gather_of_node
from onnxgather.layouts import PACKED, Layout, laid_out, layout_of
from onnxgather.options import OutOfRange


@dataclass(frozen=True, slots=True)
class Candidate:
    """The elements of a gather, and how its tensors lie in their buffers."""

    operator: str
    """GATHER, GATHER_ELEMENTS, GATHER_ND or GATHER_ND1."""
    number: int
    """`axis`, or `batch_dims` of GatherND."""
    data: Array
    """The elements, without leading ones that do not count."""
    indices: Array
    spare: int = 0
    """How many more leading ones DimensionCount has than it must."""
    layouts: tuple[Layout, ...] = PACKED
    """Of InputTensor, IndicesTensor and OutputTensor."""

    @property
    def gather(self) -> Gather:
        """The sizes."""
        return Gather(self.operator, self.data.shape, self.indices.shape, self.number)

    @property
    def index_type(self) -> str:
        """The name of the indices' type, such as INT64."""
        return self.indices.dtype.name.upper()


def candidate_of(case: Case) -> Candidate:
    """Take a case apart."""
    if isinstance(case, NodeCase):
        (number,) = case.node.attributes.values()
        gather = gather_of_node(case.node.operator, case.data.shape, case.indices.shape, number)
        return Candidate(gather.operator, gather.number, case.data, case.indices)
    desc, gather = case.descriptor, gather_of(case.descriptor)
    data, indices, number = gather.data, gather.indices, gather.number
    if not gather.has_tuples:  # leading ones before the axis say nothing
        ones = next((k for k, size in enumerate(data[:number]) if size != 1), number)
        data, number = data[ones:], number - ones
        indices = indices[ones:] if gather.onnx == "GatherElements" else indices
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    layouts = (layout_of(tensors[0]), layout_of(tensors[1]), layout_of(tensors[2]))
    needed = len(Gather(gather.operator, data, indices, number).tensor_sizes()[0])
    return Candidate(
        gather.operator,
        number,
        elements(desc.input_tensor, case.data).reshape(data),
        elements(desc.indices_tensor, case.indices).reshape(indices),
        gather.dimension_count - needed,
        layouts,
    )


def case_of(candidate: Candidate, name: str, out_of_range: OutOfRange) -> Case:
    """Put a candidate together, as a forbidden node where ONNX forbids its sizes.

    Raises:
        DescriptorError: ONNX allows it, but no descriptor says it.
    """
    gather, data, indices = candidate.gather, candidate.data, candidate.indices
    if (rule := gather.broken_rule()) is not None:
        attributes = {gather.attribute: gather.number}
        node = ForbiddenNode(gather.onnx, attributes, gather.output, rule)
        return NodeCase(name, node, data, indices)
    count = len(gather.tensor_sizes()[0]) + candidate.spare
    gather = replace(gather, dimension_count=count)
    data_type = data.dtype.name.upper()
    desc = laid_out(gather, data_type, candidate.index_type, candidate.layouts)
    tensor = desc.input_tensor
    between = distinct(tensor.array_shape).astype(data.dtype)
    data = array_of(tensor, data.reshape(tensor.sizes), between)
    tensor = desc.indices_tensor
    return DescriptorCase(
        name, desc, data, array_of(tensor, indices.reshape(tensor.sizes)), out_of_range
    )


def distinct(shape: Sequence[int]) -> Array:
    """Small whole numbers from 1, different as far as every data type goes."""
    return (np.arange(math.prod(shape)) % 100 + 1).reshape(tuple(shape))
