"""A gather as nested loops: what the native kernels run.

Each loop counts along dimensions of the output. An element of the output is read from
the data at the sum of the loops' steps, and of one step per coordinate of an index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.gather import Geometry, Sizes, gather_of
from onnxgather.core.options import POLICIES, OutOfRange


@dataclass(frozen=True, slots=True)
class Loops:
    """The numbers of a gather; loops from the outermost, strides and counts in elements.

    Args:
        policy: What an index out of range does.
        sizes: How often each loop runs.
        data_strides: The step of each loop in InputTensor; 0 along the indices alone.
        index_strides: The step of each loop in IndicesTensor; 0 where an index repeats.
        output_strides: The step of each loop in OutputTensor.
        tuple_stride: The step from one coordinate of an index tuple to the next, in IndicesTensor.
        axis_sizes: The size of the dimension that each coordinate counts along.
        axis_strides: The step of each coordinate in InputTensor.
        counts: The elements of the arrays of InputTensor, IndicesTensor and OutputTensor.
        reachable_count: The elements that DirectML reads of InputTensor, padding included.
        indices_sizes: IndicesTensor.Sizes, to name an index that is out of range.
        indices_strides: The strides of IndicesTensor, written out where it is packed.
    """

    policy: OutOfRange
    sizes: Sizes
    data_strides: Sizes
    index_strides: Sizes
    output_strides: Sizes
    tuple_stride: int
    axis_sizes: Sizes
    axis_strides: Sizes
    counts: Sizes
    reachable_count: int
    indices_sizes: Sizes
    indices_strides: Sizes


def loops_of(desc: Descriptor, out_of_range: OutOfRange) -> Loops:
    """The loops of a descriptor: adjacent dimensions that lie packed in all tensors are one."""
    gather = gather_of(desc)
    spans = merge_packed(_longer_dimensions(desc, gather)) or [Span(0, (1,), (0, 0, 0))]
    data_strides, index_strides, output_strides = zip(
        *(s.strides for s in spans), strict=True
    )
    axis_strides = tuple(desc.input_tensor.element_strides[k] for k in gather.indexed)
    if (
        out_of_range == "directml"
        and gather.onnx == "GatherElements"
        and gather.axes == (1,)
    ):
        axis_strides = (
            0,
        )  # measured: DirectML gives dimensions of size 1 the stride 0
    indices = desc.indices_tensor
    tensors = (desc.input_tensor, indices, desc.output_tensor)
    return Loops(
        out_of_range,
        tuple(math.prod(span.sizes) for span in spans),
        data_strides,
        index_strides,
        output_strides,
        indices.element_strides[-1] if gather.has_tuples else 0,
        gather.axes,
        axis_strides,
        tuple(math.prod(tensor.array_shape) for tensor in tensors),
        desc.input_tensor.reachable_count,
        indices.sizes,
        indices.element_strides,
    )


def _longer_dimensions(desc: Descriptor, gather: Geometry) -> Iterator[Span]:
    """Yield the dimensions of the output that have several elements, one after another.

    The strides are the steps in InputTensor, IndicesTensor and OutputTensor; 0 where a
    tensor does not have the dimension.
    """
    data, indices = (
        desc.input_tensor.element_strides,
        desc.indices_tensor.element_strides,
    )
    output, rank = desc.output_tensor, desc.output_tensor.dimension_count
    data_steps, index_steps = [0] * rank, [0] * rank
    for of_output, of_data in gather.passed:
        data_steps[of_output] = data[of_data]
    first, count = rank - gather.after - len(gather.per_index), len(gather.indices)
    for k, stride in enumerate(
        indices[rank - count : rank - count + len(gather.per_index)]
    ):
        index_steps[first + k] = stride
    steps = zip(data_steps, index_steps, output.element_strides, strict=True)
    longer = [pair for pair in zip(output.sizes, steps, strict=True) if pair[0] > 1]
    for k, (size, strides) in enumerate(longer):
        yield Span(k, (size,), strides)


POLICY_NUMBERS = {name: number for number, name in enumerate(POLICIES)}
"""The numbers of the policies in `native/kernels/kernel.h`."""
