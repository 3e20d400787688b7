"""Gathers by DirectML's own formulas, in numpy and in DirectML's coordinates.

The results of ONNX models are compared with the reference, so it shares nothing with
the lowering. It computes for each element of OutputTensor which coordinates of
InputTensor it comes from, and reads that element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import (
    Array,
    array_with,
    check_arrays,
    check_indices,
    check_policy,
    elements,
    is_outside,
)
from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
)
from onnxgather.core.descriptors.strides import without_ones
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.options import OutOfRange
from onnxgather.core.public import public

_Coordinates = tuple[list[Array], list[int]]
"""An array of coordinates for each dimension of InputTensor, and the indexed
dimensions."""


@public
def reference(
    desc: Descriptor, data: Any, indices: Any, out_of_range: OutOfRange = "clamp"
) -> Array:
    """Return the output of a gather, computed without ONNX.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has
            strides; or nested lists of numbers.
        indices: IndicesTensor, likewise.
        out_of_range: What an index outside [0, n), or [-n, n) for a signed type, does:
            "clamp" moves it to the nearest element of its axis (below -n: element 0),
            "error" raises, "zero" makes the output elements that it leads to 0,
            "directml" does what DirectML.dll 1.15.4 was measured to do.

    Returns:
        OutputTensor: an array of its `sizes`, or its 1-D buffer, zero between the
        elements, where it has strides.

    Raises:
        DescriptorError: An array does not fit its tensor.
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> og.reference(desc, data, np.array([[2, 7]], np.int64), "zero")
        array([[5., 6.],
               [0., 0.]], dtype=float32)
    """
    out_of_range = check_policy(out_of_range)
    data, indices = check_arrays(desc, data, indices)
    offset = source_map(desc, indices, out_of_range)
    # The last element is 0: for -1, and for all padding, which may need more memory
    # than there is.
    buffer = np.append(data, np.zeros(1, data.dtype))
    values = buffer[np.minimum(offset, data.size)]
    return array_with(desc.output_tensor, values)


def source_map(desc: Descriptor, indices: Array, out_of_range: OutOfRange) -> Array:
    """Return which element of InputTensor's buffer each output element is read from.

    Args:
        desc: Any of the four gather descriptors.
        indices: IndicesTensor, as `check_arrays` returns it.
        out_of_range: As `reference` accepts it.

    Returns:
        Offsets in elements: INT64 of shape OutputTensor.Sizes; -1 where "zero" makes
        the element 0. Under "directml" an offset may lie behind the elements of a
        packed tensor, in padding that reads as zero.

    Raises:
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
    """
    if out_of_range == "error":
        check_indices(desc, indices)
    read, indexed = coordinates(desc, elements(desc.indices_tensor, indices))
    return offsets(desc, read, indexed, out_of_range)


def coordinates(desc: Descriptor, indices: Array) -> tuple[list[Array], list[int]]:
    """Return the coordinates in InputTensor that each output element reads.

    Args:
        desc: Any of the four gather descriptors.
        indices: The elements of IndicesTensor, of shape IndicesTensor.Sizes.

    Returns:
        An array of coordinates for each dimension of InputTensor, and the numbers of
        the indexed dimensions. The arrays broadcast to OutputTensor.Sizes. Those of
        indexed dimensions hold values of `indices`.
    """
    position = list(np.indices(desc.output_tensor.sizes, sparse=True))
    if isinstance(desc, GatherElementsDesc):
        before = position[: desc.axis]
        behind = position[desc.axis + 1 :]
        return [*before, indices, *behind], [desc.axis]
    if isinstance(desc, GatherDesc):
        return _coordinates_of_gather(desc, indices, position)
    return _coordinates_of_tuples(desc, indices, position)


def _coordinates_of_gather(
    desc: GatherDesc, indices: Array, position: list[Array]
) -> _Coordinates:
    """Return the coordinates of GATHER.

    The output's sizes are in[a…] idx[i…] in[b…] without the leading ones that do not
    fit.
    """
    count = desc.input_tensor.dimension_count
    ignored = count - desc.index_dimensions
    kept = indices.reshape(indices.shape[ignored:])
    zero = np.zeros((1,) * count, np.intp)

    # `whole` has the coordinates along in[a…] idx[i…] in[b…], leading ones included. A
    # scalar index removes a dimension, so the output has a further leading one.
    further_ones = 1 if kept.ndim == 0 else 0
    missing_ones = max(0, kept.ndim - 1)
    whole = [zero] * missing_ones + position[further_ones:]
    behind_index = desc.axis + kept.ndim
    along_index = whole[desc.axis : behind_index]
    shapes = [along.shape for along in along_index]
    index = kept.reshape(np.broadcast_shapes(zero.shape, *shapes))
    return [*whole[: desc.axis], index, *whole[behind_index:]], [desc.axis]


def _coordinates_of_tuples(
    desc: GatherNDDesc | GatherND1Desc, indices: Array, position: list[Array]
) -> _Coordinates:
    """Return the coordinates of GATHER_ND and GATHER_ND1.

    The output's sizes are batch[n…] idx[i…] in[s…] behind leading ones.
    """
    count = desc.input_tensor.dimension_count
    ignored = count - desc.input_dimension_count
    kept = indices.reshape(indices.shape[count - desc.indices_dimension_count :])
    after = desc.input_dimension_count - desc.batches - desc.tuple_size
    first = count - after - (kept.ndim - 1)

    zero = np.zeros((1,) * count, np.intp)
    batch = position[first : first + desc.batches]
    behind = position[count - after :]
    leading_ones = (1,) * first
    ones_behind = (1,) * after
    tuples = kept.reshape(
        leading_ones + kept.shape[:-1] + ones_behind + kept.shape[-1:]
    )
    index = [tuples[..., place] for place in range(desc.tuple_size)]

    first_indexed = ignored + desc.batches
    indexed = list(range(first_indexed, first_indexed + desc.tuple_size))
    return [*[zero] * ignored, *batch, *index, *behind], indexed


def offsets(
    desc: Descriptor, read: list[Array], indexed: list[int], out_of_range: OutOfRange
) -> Array:
    """Return the offsets of coordinates in InputTensor's buffer: INT64, in elements.

    The offset is -1 where "zero" makes an element 0. The policy "error" gives the
    offsets of "clamp".

    Args:
        desc: The descriptor.
        read: The coordinates, as `coordinates` returns them, or a part of each array.
        indexed: The indexed dimensions, as `coordinates` returns them.
        out_of_range: What an index out of range does.
    """
    if out_of_range == "directml":
        return _directml_offsets(desc, read, indexed).astype(np.int64)
    offset = _clamped_offsets(desc.input_tensor, read, indexed)
    if out_of_range == "zero":
        sizes = desc.input_tensor.sizes
        masks = [is_outside(read[axis], sizes[axis]) for axis in indexed]
        # A tuple leads nowhere if any of its coordinates is out of range.
        offset = np.where(np.logical_or.reduce(masks), -1, offset)
    return offset


def directml_strides(desc: Descriptor) -> tuple[int, ...]:
    """Return the element strides by which DirectML.dll reads InputTensor.

    Measured with DirectML.dll 1.15.4: GATHER_ELEMENTS gives dimensions of size 1 the
    stride 0.
    """
    tensor = desc.input_tensor
    strides = tensor.element_strides
    if not isinstance(desc, GatherElementsDesc):
        return strides
    return without_ones(tensor.sizes, strides)


def _clamped_offsets(
    tensor: TensorDesc, read: list[Array], indexed: list[int]
) -> Array:
    """Return the offsets in elements, with each index clamped to its own axis."""
    strides = tensor.element_strides
    offset = np.zeros((1,) * len(read), np.int64)
    for axis, coordinate in enumerate(read):
        if axis in indexed:
            coordinate = _clamped(coordinate, tensor.sizes[axis])
        offset = offset + coordinate.astype(np.int64) * strides[axis]
    return offset


def _clamped(index: Array, size: int) -> Array:
    """Return indices in [0, size); negative indices count from the end."""
    last = size - 1
    # An unsigned index stays of its type, as INT64 does not hold each UINT64.
    if index.dtype.kind == "u":
        return np.minimum(index, index.dtype.type(last))
    wide = index.astype(np.int64)
    from_start = np.where(wide < 0, wide + size, wide)
    return np.clip(from_start, 0, last)


def _directml_offsets(desc: Descriptor, read: list[Array], indexed: list[int]) -> Array:
    """Return the offsets in elements as DirectML.dll computes them, modulo 2^32.

    Measured with DirectML.dll 1.15.4:

    - It uses the low 32 bits of an index, and adds the axis size if the whole index is
      negative. UINT64 is read as INT64.
    - The offset is the sum of coordinate x stride.
    - An unsigned minimum limits the offset to the last element of the whole buffer.
      Where the buffer holds only a part of that element, it reads as 0.
    """
    tensor = desc.input_tensor
    strides = directml_strides(desc)
    offset = np.zeros((1,) * len(read), np.uint32)
    for axis, coordinate in enumerate(read):
        low = coordinate.astype(np.uint32)
        # A UINT32 has no sign, not even for DirectML.
        if axis in indexed and coordinate.dtype != np.uint32:
            is_negative = coordinate.astype(np.int64) < 0
            size = np.uint32(tensor.sizes[axis])
            low = low + is_negative.astype(np.uint32) * size
        offset = offset + low * np.uint32(strides[axis])
    last = np.uint32(tensor.reachable_count - 1)
    return np.minimum(offset, last)
