"""The arrays that stand for tensors, and which indices are in range.

The array that stands for a tensor has the shape of the tensor's sizes; for a tensor
with strides it is the 1-D buffer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from onnxgather.core.checks import check_choice, printable, shown
from onnxgather.core.descriptors.operators import (
    OPERATORS,
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError, IndexOutOfRangeError
from onnxgather.core.options import POLICIES

Array = npt.NDArray[Any]

_UNUSABLE = {
    "c_contiguous": "be C-contiguous, got strides {0.strides}",
    "writeable": "be writable, got a read-only array",
    "aligned": "be aligned to {0.itemsize} bytes, got the address {0.ctypes.data:#x}",
}
"""What an array that is written into must be, by numpy's flags."""


def check_policy(out_of_range: object) -> None:
    """Check that `out_of_range` is a policy.

    Raises:
        OnnxGatherError: `out_of_range` is not a policy.
    """
    check_choice("out_of_range", out_of_range, POLICIES)


def check_descriptor(desc: object) -> None:
    """Check that `desc` is a descriptor.

    Raises:
        DescriptorError: `desc` is not a descriptor.
    """
    if not isinstance(desc, Descriptor):
        names = ", ".join(cls.__name__ for cls in OPERATORS.values())
        raise DescriptorError(f"desc must be one of {names}, got {shown(desc)}")


def check_arrays(
    desc: Descriptor, data: object, indices: object, out_of_range: object = "clamp"
) -> tuple[Array, Array]:
    """Check the inputs of a gather, and return the two arrays as `check_array` does.

    Raises:
        DescriptorError: `desc` is no descriptor, or an array does not fit its tensor.
        OnnxGatherError: `out_of_range` is not a policy.
    """
    check_descriptor(desc)
    check_policy(out_of_range)
    return (
        check_array("InputTensor", desc.input_tensor, data),
        check_array("IndicesTensor", desc.indices_tensor, indices),
    )


def check_array(name: str, tensor: TensorDesc, array: object) -> Array:
    """Check that an array has the data type and the shape of a tensor; return `plain_array` of it.

    Raises:
        DescriptorError: The data type or the shape differs, or `array` is not an array.
    """
    wanted, shape = tensor.data_type.numpy, tensor.array_shape
    rule = f"{name} must be an array of {wanted} {shape}"
    plain = plain_array(rule, array)
    if plain.dtype == wanted and plain.shape == shape:
        return plain
    raise DescriptorError(f"{rule}, got {plain.dtype} {plain.shape}")


def plain_array(rule: str, array: object) -> Array:
    """The array as a plain array of numpy, without what a subclass such as `matrix` adds.

    Raises:
        DescriptorError: `array` is not an array, or has a mask; the message starts with `rule`.
    """
    kind = type(array)
    if issubclass(kind, np.ma.MaskedArray):
        found = "a masked array, whose masked values would be lost"
    elif issubclass(kind, np.ndarray):
        return np.asarray(cast("Array", array))
    else:
        try:
            memory = _memory_of(array)
        except Exception as error:
            found = (
                f"{kind.__name__}, whose memory numpy cannot read:"
                f" {printable(str(error))}"
            )
        else:
            if memory is not None:
                return memory
            found = shown(array)
            if issubclass(kind, list | tuple) or hasattr(kind, "__array__"):
                found = f"{kind.__name__}, of which numpy.asarray makes an array"
    raise DescriptorError(f"{rule}, got {found}")


def _memory_of(array: Any) -> Array | None:
    """An array of numpy over the memory of an object; None if the object does not offer it."""
    kind = cast("type[object]", type(array))
    if hasattr(
        kind, "data_ptr"
    ):  # torch and ONNX Runtime: DLPack loses their BOOL or the writing
        found = np.asarray(array.numpy())
        if found.ctypes.data != array.data_ptr():
            raise BufferError("it is not on the CPU")
        return found
    if hasattr(kind, "__dlpack__"):
        return np.from_dlpack(array)
    if hasattr(kind, "__array__"):  # such as a scalar of numpy, which has a buffer too
        return None
    try:
        memory = memoryview(array)
    except TypeError:
        return None
    return np.asarray(memory)


def check_written(name: str, output: Array, others: Mapping[str, Array]) -> None:
    """Check that an array can be written into, beside the others of a call.

    Raises:
        DescriptorError: It is read-only, not C-contiguous, not aligned, or memory of another.
    """
    for flag, rule in _UNUSABLE.items():
        if not getattr(output.flags, flag):
            raise DescriptorError(f"{name} must {rule.format(output)}")
    for other, array in others.items():
        if np.may_share_memory(array, output):
            raise DescriptorError(
                f"{name} must be memory of its own, got memory of {other}"
            )


def check_indices(desc: Descriptor, indices: Array, size: int | None = None) -> None:
    """Check that every index is in range: [0, n), or [-n, n) for a signed type.

    Args:
        desc: The descriptor.
        indices: IndicesTensor.
        size: n; None means the size of the axis of each index.

    Raises:
        IndexOutOfRangeError: An index is out of range; the message names the first.
    """
    values = elements(desc.indices_tensor, indices)
    sizes = np.array(axis_sizes(desc) if size is None else size)
    mask = is_outside(values, sizes)
    if mask.any():
        first = np.unravel_index(np.argmax(mask), values.shape)
        size = int(np.broadcast_to(sizes, values.shape)[first])
        low = -size if desc.indices_tensor.data_type.is_signed else 0
        where = ",".join(map(str, first))
        raise IndexOutOfRangeError(
            f"IndicesTensor[{where}] must be in [{low}, {size}), got {values[first]}"
        )


def all_in_range(desc: Descriptor, indices: Array) -> bool:
    """Whether `check_indices` accepts every index."""
    return not indices_outside(desc, indices).any()


def indices_outside(desc: Descriptor, indices: Array) -> npt.NDArray[np.bool_]:
    """Which elements of IndicesTensor are out of range of their axes."""
    return is_outside(elements(desc.indices_tensor, indices), axis_sizes(desc))


def elements(tensor: TensorDesc, array: Array) -> Array:
    """The elements of a tensor in the array that stands for it, with the shape of its `sizes`.

    Of a contiguous array they are a view: writing to the elements writes to the array.
    """
    if tensor.strides is None:
        return array
    array = np.ascontiguousarray(array)
    steps = [stride * array.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(array, tensor.sizes, steps)


def with_padding(desc: Descriptor) -> Descriptor:
    """The descriptor whose InputTensor is its whole buffer.

    There DirectML reads what lies behind the elements of a packed tensor, where an
    index is out of range.
    """
    tensor = desc.input_tensor
    if tensor.element_count == math.prod(tensor.array_shape):
        return desc
    return replace(desc, input_tensor=replace(tensor, strides=tensor.element_strides))


def array_with(tensor: TensorDesc, values: Array, between: Array | int = 0) -> Array:
    """The array that stands for a tensor with given elements.

    Args:
        tensor: The tensor.
        values: The elements, in an array that broadcasts to the tensor's `sizes`.
        between: What the buffer of a tensor with strides holds between its elements.
    """
    array = np.empty(tensor.array_shape, values.dtype)
    if tensor.strides is not None:
        array[...] = between
    elements(tensor, array)[...] = values
    return array


def axis_sizes(desc: Descriptor) -> list[int]:
    """The sizes of the indexed dimensions, one per coordinate of an index tuple."""
    sizes = desc.input_tensor.sizes
    if isinstance(desc, GatherDesc | GatherElementsDesc):
        return [sizes[desc.axis]]
    first = len(sizes) - desc.input_dimension_count + desc.batches
    return list(sizes[first : first + desc.tuple_size])


def is_outside(index: Array, size: Any) -> npt.NDArray[np.bool_]:
    """Which index values are out of range of an axis.

    Args:
        index: The values.
        size: The size of the axis, or an array of sizes that broadcasts to the values.
    """
    if index.dtype.kind == "u":
        return index.astype(np.uint64) >= np.asarray(size, np.uint64)
    wide = index.astype(np.int64)
    size = np.asarray(size, np.int64)
    return (wide >= size) | (wide < -size)


def brought_in_range(index: Array, sizes: Array) -> Array:
    """The indices as INT64 in [0, n): clamped, and negative ones counted from the end."""
    if index.dtype.kind == "u":
        index = np.minimum(index, (sizes - 1).astype(np.uint64))
    wide = np.clip(index.astype(np.int64), -sizes, sizes - 1)
    return np.where(wide < 0, wide + sizes, wide)


def differing(one: Array, other: Array) -> Array:
    """The offsets, in elements, at which the bits of two arrays of one type and shape differ."""
    bits = f"u{one.itemsize}"
    return np.flatnonzero(
        np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)
    )
