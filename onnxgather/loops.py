"""A gather as nested loops: what the native kernels run.

Each loop counts along dimensions of the output. An element of the output is read from the data at
the sum of the loops' steps, and of one step per coordinate of an index.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from onnxgather.descriptors.operators import Descriptor
from onnxgather.gather import Sizes, gather_of
from onnxgather.options import POLICIES, OutOfRange


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
    data, indices = desc.input_tensor.element_strides, desc.indices_tensor.element_strides
    output, rank = desc.output_tensor, desc.output_tensor.dimension_count
    axes = [data[k] for k in gather.indexed]
    if out_of_range == "directml" and gather.onnx == "GatherElements" and gather.axes == (1,):
        axes = [0]  # measured: DirectML gives dimensions of size 1 the stride 0
    steps = [[0, 0, stride] for stride in output.element_strides]
    for own, other in gather.passed:
        steps[rank + own][0] = data[other]
    per_index = len(gather.per_index)
    counted = indices[len(indices) - len(gather.indices) :]
    for number in range(per_index):
        steps[rank - gather.after - per_index + number][1] = counted[number]
    loops: list[tuple[int, list[int]]] = []
    for size, step in zip(output.sizes, steps, strict=True):
        if size == 1:
            continue
        if loops and loops[-1][1] == [size * stride for stride in step]:
            loops[-1] = (loops[-1][0] * size, step)
        else:
            loops.append((size, step))
    loops = loops or [(1, [0, 0, 0])]
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    data_strides, index_strides, output_strides = zip(*(step for _, step in loops), strict=True)
    return Loops(
        out_of_range,
        tuple(size for size, _ in loops),
        data_strides,
        index_strides,
        output_strides,
        counted[-1] if gather.has_tuples else 0,
        gather.axes,
        tuple(axes),
        tuple(math.prod(tensor.array_shape) for tensor in tensors),
        desc.input_tensor.reachable_count,
        desc.indices_tensor.sizes,
        indices,
    )


POLICY_NUMBERS = {name: number for number, name in enumerate(POLICIES)}
"""The numbers of the policies in `native/kernels/kernel.h`."""
