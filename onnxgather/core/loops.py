"""A gather as nested loops: what the native kernels run.

Each loop counts along dimensions of the output. An element of the output is read from
the data at the sum of the loops' steps, and of a step for each coordinate of an index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.gather import Geometry, Sizes, gather_of
from onnxgather.core.options import POLICIES, OutOfRange


class Loops(Struct, frozen=True):
    """The numbers of a gather: loops from the outermost, strides in elements.

    Args:
        policy: What an index out of range does.
        sizes: How often each loop runs.
        data_strides: The step of each loop in InputTensor; 0 along the indices alone.
        index_strides: The step of each loop in IndicesTensor; 0 where an index repeats.
        output_strides: The step of each loop in OutputTensor.
        tuple_stride: The step from one coordinate of an index tuple to the next, in
            IndicesTensor.
        axis_sizes: The size of the dimension that each coordinate counts along.
        axis_strides: The step of each coordinate in InputTensor.
        counts: The elements of the arrays of InputTensor, IndicesTensor and
            OutputTensor.
        reachable_count: The elements that DirectML reads of InputTensor, padding
            included.
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
    """Return the loops of a descriptor.

    Adjacent dimensions that lie packed in all tensors share a loop.
    """
    data = desc.input_tensor
    indices = desc.indices_tensor
    gather = gather_of(desc)
    spans = merge_packed(_longer_dimensions(desc, gather))
    if not spans:  # a single element
        spans = [Span(0, (1,), (0, 0, 0))]
    strides = [span.strides for span in spans]
    data_strides, index_strides, output_strides = zip(*strides, strict=True)

    element_strides = data.element_strides
    axis_strides = tuple([element_strides[axis] for axis in gather.indexed])
    is_along_one = gather.onnx == "GatherElements" and gather.axes == (1,)
    if out_of_range == "directml" and is_along_one:
        # Measured with DirectML.dll 1.15.4: dimensions of size 1 have the stride 0.
        axis_strides = (0,)
    tensors = (data, indices, desc.output_tensor)
    return Loops(
        policy=out_of_range,
        sizes=tuple([math.prod(span.sizes) for span in spans]),
        data_strides=data_strides,
        index_strides=index_strides,
        output_strides=output_strides,
        tuple_stride=indices.element_strides[-1] if gather.has_tuples else 0,
        axis_sizes=gather.axes,
        axis_strides=axis_strides,
        counts=tuple([math.prod(tensor.array_shape) for tensor in tensors]),
        reachable_count=data.reachable_count,
        indices_sizes=indices.sizes,
        indices_strides=indices.element_strides,
    )


def _longer_dimensions(desc: Descriptor, gather: Geometry) -> Iterator[Span]:
    """Yield the dimensions of the output that have several elements, in their order.

    The strides are the steps in InputTensor, IndicesTensor and OutputTensor; 0 where a
    tensor does not have the dimension. The numbers leave out dimensions of size 1, so
    that dimensions adjoin where only ones lie between them.
    """
    output = desc.output_tensor
    rank = output.dimension_count
    data_steps = [0] * rank
    data_strides = desc.input_tensor.element_strides
    for of_output, of_data in gather.passed:
        data_steps[of_output] = data_strides[of_data]

    index_rank = len(gather.per_index)
    first_of_indices = rank - len(gather.indices)
    index_strides = desc.indices_tensor.element_strides[first_of_indices:]
    first_of_output = rank - gather.after - index_rank
    index_steps = [0] * rank
    # A stride along the coordinates of a tuple is left out: it is not of an index.
    for place, stride in enumerate(index_strides[:index_rank]):
        index_steps[first_of_output + place] = stride

    steps = zip(data_steps, index_steps, output.element_strides, strict=True)
    number = 0
    for size, strides in zip(output.sizes, steps, strict=True):
        if size > 1:
            yield Span(number, (size,), strides)
            number += 1


POLICY_NUMBERS = {name: number for number, name in enumerate(POLICIES)}
"""The numbers of the policies in `native/kernels/kernel.h`."""
