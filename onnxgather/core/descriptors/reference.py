"""Gathers by DirectML's own formulas, in numpy and in DirectML's coordinates.

The results of ONNX models are compared with the reference, so it shares nothing with
the lowering. It works out for each element of OutputTensor which coordinates of
InputTensor it comes from, and reads that element.
"""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.arrays import (
    Array,
    array_with,
    check_arrays,
    check_indices,
    elements,
    is_outside,
)
from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.options import OutOfRange


def reference(
    desc: Descriptor, data: Array, indices: Array, out_of_range: OutOfRange = "clamp"
) -> Array:
    """The output of a gather, computed without ONNX.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index outside [0, n), or [-n, n) for a signed type, does:
            "clamp" moves it to the nearest element of its axis (below -n: element 0), "error"
            raises, "zero" makes the output elements that it leads to 0, "directml" does what
            DirectML.dll 1.15.4 was measured to do.

    Returns:
        OutputTensor: an array of its `sizes`, or its 1-D buffer, zero between the elements,
        where it has strides.

    Raises:
        DescriptorError: An array does not fit its tensor.
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
    """
    data, indices = check_arrays(desc, data, indices, out_of_range)
    offset = source_map(desc, indices, out_of_range)
    # The last element is 0: for -1, and for all padding, which may take more memory
    # than there is.
    buffer = np.append(data, np.zeros(1, data.dtype))
    return array_with(desc.output_tensor, buffer[np.minimum(offset, data.size)])


def source_map(
    desc: Descriptor, indices: Array, out_of_range: OutOfRange = "clamp"
) -> Array:
    """Which element of InputTensor's buffer each output element is read from.

    Args:
        desc: Any of the four gather descriptors.
        indices: IndicesTensor, as `check_arrays` returns it.
        out_of_range: As `reference` takes it.

    Returns:
        Offsets in elements: INT64 of shape OutputTensor.Sizes; -1 where "zero" makes the element
        0. Under "directml" an offset may lie behind the elements of a packed tensor, in padding
        that reads as zero.

    Raises:
        IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
    """
    if out_of_range == "error":
        check_indices(desc, indices)
    read, indexed = coordinates(desc, elements(desc.indices_tensor, indices))
    return offsets(desc, read, indexed, out_of_range)


def coordinates(desc: Descriptor, indices: Array) -> tuple[list[Array], list[int]]:
    """The coordinates in InputTensor that each output element reads.

    Args:
        desc: Any of the four gather descriptors.
        indices: The elements of IndicesTensor, of shape IndicesTensor.Sizes.

    Returns:
        One array of coordinates per dimension of InputTensor, and the numbers of the indexed
        dimensions. The arrays broadcast to OutputTensor.Sizes. Those of indexed dimensions hold
        values of `indices`.
    """
    count = desc.input_tensor.dimension_count
    position = list(np.indices(desc.output_tensor.sizes, sparse=True))
    zero = np.zeros((1,) * count, np.intp)
    if isinstance(desc, GatherElementsDesc):
        return [*position[: desc.axis], indices, *position[desc.axis + 1 :]], [
            desc.axis
        ]
    if isinstance(desc, GatherDesc):
        # The output's sizes are in[a…] idx[i…] in[b…] without the leading ones that do
        # not fit.
        kept = indices.reshape(indices.shape[count - desc.index_dimensions :])
        whole = [zero] * (kept.ndim - 1) + position[kept.ndim == 0 :]
        own = whole[desc.axis : desc.axis + kept.ndim]
        index = kept.reshape(
            np.broadcast_shapes(zero.shape, *(along.shape for along in own))
        )
        return [*whole[: desc.axis], index, *whole[desc.axis + kept.ndim :]], [
            desc.axis
        ]
    # The output's sizes are batch[n…] idx[i…] in[s…] behind leading ones.
    kept = indices.reshape(indices.shape[count - desc.indices_dimension_count :])
    after = desc.input_dimension_count - desc.batches - desc.tuple_size
    first = count - after - (kept.ndim - 1)
    ignored = count - desc.input_dimension_count
    tuples = kept.reshape(
        (1,) * first + kept.shape[:-1] + (1,) * after + kept.shape[-1:]
    )
    batch = position[first : first + desc.batches]
    index = [tuples[..., k] for k in range(desc.tuple_size)]
    indexed = [ignored + desc.batches + k for k in range(desc.tuple_size)]
    return [*[zero] * ignored, *batch, *index, *position[count - after :]], indexed


def offsets(
    desc: Descriptor, read: list[Array], indexed: list[int], out_of_range: OutOfRange
) -> Array:
    """The offsets in InputTensor's buffer of coordinates: INT64, in elements.

    -1 stands where "zero" makes an element 0. The policy "error" gives the offsets of "clamp".

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
        masks = [is_outside(read[k], desc.input_tensor.sizes[k]) for k in indexed]
        offset = np.where(np.logical_or.reduce(masks), -1, offset)
    return offset


def directml_strides(desc: Descriptor) -> tuple[int, ...]:
    """The element strides by which DirectML.dll reads InputTensor.

    Measured: GATHER_ELEMENTS gives dimensions of size 1 the stride 0.
    """
    tensor = desc.input_tensor
    if not isinstance(desc, GatherElementsDesc):
        return tensor.element_strides
    pairs = zip(tensor.sizes, tensor.element_strides, strict=True)
    return tuple(0 if n == 1 else stride for n, stride in pairs)


def _clamped_offsets(
    tensor: TensorDesc, read: list[Array], indexed: list[int]
) -> Array:
    """The offsets in elements, with each index clamped to its own axis."""
    offset = np.zeros((1,) * len(read), np.int64)
    for k, (coordinate, stride) in enumerate(
        zip(read, tensor.element_strides, strict=True)
    ):
        size = tensor.sizes[k]
        if k in indexed and coordinate.dtype.kind == "u":
            coordinate = np.minimum(coordinate, coordinate.dtype.type(size - 1))
        elif k in indexed:
            wide = coordinate.astype(np.int64)
            coordinate = np.clip(np.where(wide < 0, wide + size, wide), 0, size - 1)
        offset = offset + coordinate.astype(np.int64) * stride
    return offset


def _directml_offsets(desc: Descriptor, read: list[Array], indexed: list[int]) -> Array:
    """The offsets in elements as DirectML.dll computes them, modulo 2^32.

    Measured: DirectML takes the low 32 bits of an index and adds the axis size if the
    whole index is negative (UINT64 is read as INT64). The offset is the sum of
    coordinate x stride. An unsigned minimum limits it to the last element of the whole
    buffer. Where the buffer holds only a part of that element, it reads as 0.
    """
    tensor, strides = desc.input_tensor, directml_strides(desc)
    offset = np.zeros((1,) * len(read), np.uint32)
    for k, coordinate in enumerate(read):
        low = coordinate.astype(np.uint32)
        if k in indexed and coordinate.dtype != np.uint32:
            negative = coordinate.astype(np.int64) < 0
            low = low + negative.astype(np.uint32) * np.uint32(tensor.sizes[k])
        offset = offset + low * np.uint32(strides[k])
    return np.minimum(offset, np.uint32(tensor.reachable_count - 1))
