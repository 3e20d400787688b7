"""The arrays that stand for tensors, and which indices are in range.

The array that stands for a tensor has the shape of the tensor's sizes; for a tensor
with strides it is the 1-D buffer.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import tokenize
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from onnxgather.core.checks import check_choice, printable, shown
from onnxgather.core.descriptors.lists import array_of_list, array_rule, is_listed
from onnxgather.core.descriptors.operators import (
    OPERATORS,
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import (
    FAULTS,
    DescriptorError,
    IndexOutOfRangeError,
    pass_foreign,
)
from onnxgather.core.options import POLICIES, OutOfRange

FAULTS_OF_NPY = (*FAULTS, struct.error, tokenize.TokenError)
"""What numpy raises of a broken .npy file."""

Array = npt.NDArray[Any]

_UNUSABLE = {
    "c_contiguous": "be C-contiguous, got strides {0.strides}",
    "writeable": "be writable, got a read-only array",
    "aligned": "be aligned to {0.itemsize} bytes, got the address {0.ctypes.data:#x}",
}
"""What an array that is written into must be, by numpy's flags."""


def check_policy(out_of_range: object) -> OutOfRange:
    """Return `out_of_range` as a plain text, if it is a policy.

    Raises:
        OnnxGatherError: `out_of_range` is not a policy.
    """
    return check_choice("out_of_range", out_of_range, POLICIES)


def check_descriptor(desc: object) -> None:
    """Check that `desc` is a descriptor.

    Raises:
        DescriptorError: `desc` is not a descriptor.
    """
    if not isinstance(desc, Descriptor):
        names = ", ".join(cls.__name__ for cls in OPERATORS.values())
        hint = ""
        found = shown(desc)
        # Case: the file of a descriptor, or what `load` returns of it.
        if isinstance(desc, str | os.PathLike) or hasattr(type(desc), "dispatches"):
            hint = "; each of og.load(PATH).dispatches has a descriptor"
        raise DescriptorError(f"desc must be one of {names}, got {found}{hint}")


def check_arrays(
    desc: Descriptor, data: object, indices: object
) -> tuple[Array, Array]:
    """Check the inputs of a gather, and return the two arrays as `check_array` does.

    Raises:
        DescriptorError: `desc` is no descriptor, or an array does not fit its tensor.
    """
    check_descriptor(desc)
    return (
        check_array("InputTensor", desc.input_tensor, data),
        check_array("IndicesTensor", desc.indices_tensor, indices),
    )


def check_array(name: str, tensor: TensorDesc, array: object) -> Array:
    """Check that an array has the data type and the shape of a tensor.

    Nested lists and numbers become arrays of the tensor's data type.

    Returns:
        The array as `plain_array` returns it.

    Raises:
        DescriptorError: The data type or the shape differs, `array` is not an array, or
            the data type does not hold an element of a list.
    """
    if is_listed(array):
        return array_of_list(name, tensor, array)
    return check_memory(name, tensor, array)


def check_memory(name: str, tensor: TensorDesc, array: object) -> Array:
    """Check an array as `check_array` does, but refuse lists and numbers."""
    dtype = tensor.data_type.numpy
    shape = tensor.array_shape
    rule = array_rule(name, tensor)
    plain = plain_array(rule, array)
    if plain.dtype == dtype and plain.shape == shape:
        return plain
    raise DescriptorError(f"{rule}, got {plain.dtype} {plain.shape}")


def plain_array(rule: str, array: object) -> Array:
    """Return the array without what a subclass such as `matrix` adds to numpy's class.

    Raises:
        DescriptorError: `array` is not an array, or has a mask; the message starts
            with `rule`.
    """
    kind = type(array)
    # numpy imports its masked arrays at their first use. Before that there are none.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and issubclass(kind, masked):
        text = "a masked array, whose masked values would be lost"
        raise DescriptorError(f"{rule}, got {text}")
    if issubclass(kind, np.ndarray):
        return np.asarray(cast("Array", array))

    try:
        memory = _memory_of(array)
    except (*FAULTS, OSError) as error:  # of the library of the object
        pass_foreign(error)
        reason = printable(str(error))
        text = f"{kind.__name__}, whose memory numpy cannot read: {reason}"
    else:
        if memory is not None:
            return memory
        text = shown(array)
        if issubclass(kind, list | tuple) or hasattr(kind, "__array__"):
            text = f"{kind.__name__}, of which numpy.asarray makes an array"
    raise DescriptorError(f"{rule}, got {text}")


def _memory_of(array: Any) -> Array | None:
    """Return an array of numpy over the memory of an object.

    None means that the object does not offer its memory.
    """
    kind = cast("type[object]", type(array))
    # Case 1: tensors of torch and ONNX Runtime. DLPack loses the BOOL of the latter,
    # or that the memory may be written.
    if hasattr(kind, "data_ptr"):
        memory = np.asarray(array.numpy())
        if memory.ctypes.data != array.data_ptr():
            raise BufferError("it is not on the CPU")
        return memory
    # Case 2: other libraries.
    if hasattr(kind, "__dlpack__"):
        return np.from_dlpack(array)
    # Case 3: numpy would copy, such as a scalar of numpy, which has a buffer too.
    if hasattr(kind, "__array__"):
        return None
    # Case 4: buffers of Python, such as bytes.
    try:
        buffer = memoryview(array)
    except TypeError:
        return None
    return np.asarray(buffer)


def check_written(name: str, output: Array, others: Mapping[str, Array]) -> None:
    """Check that an array can be written into, beside the others of a call.

    Raises:
        DescriptorError: It is read-only, not C-contiguous, not aligned, or memory of
            another.
    """
    for flag, rule in _UNUSABLE.items():
        if not getattr(output.flags, flag):
            raise DescriptorError(f"{name} must {rule.format(output)}")
    for other, array in others.items():
        if np.may_share_memory(array, output):
            rule = f"{name} must be memory of its own"
            raise DescriptorError(f"{rule}, got memory of {other}")


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
    if not mask.any():
        return
    first = np.unravel_index(np.argmax(mask), values.shape)
    axis_size = int(np.broadcast_to(sizes, values.shape)[first])
    low = -axis_size if desc.indices_tensor.data_type.is_signed else 0
    where = ",".join(map(str, first))
    rule = f"IndicesTensor[{where}] must be in [{low}, {axis_size})"
    raise IndexOutOfRangeError(f"{rule}, got {values[first]}")


def all_in_range(desc: Descriptor, indices: Array) -> bool:
    """Return whether `check_indices` accepts every index."""
    return not indices_outside(desc, indices).any()


def indices_outside(desc: Descriptor, indices: Array) -> npt.NDArray[np.bool_]:
    """Return which elements of IndicesTensor are out of range of their axes."""
    return is_outside(elements(desc.indices_tensor, indices), axis_sizes(desc))


def elements(tensor: TensorDesc, array: Array) -> Array:
    """Return the elements of a tensor in the array that stands for it.

    They have the shape of the tensor's `sizes`. Of a contiguous array they are a view:
    writing to the elements writes to the array.
    """
    if tensor.strides is None:
        return array
    array = np.ascontiguousarray(array)
    steps = [stride * array.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(array, tensor.sizes, steps)


def with_padding(desc: Descriptor) -> Descriptor:
    """Return the descriptor whose InputTensor is its whole buffer.

    In that buffer DirectML reads what lies behind the elements of a packed tensor,
    where an index is out of range.
    """
    tensor = desc.input_tensor
    if tensor.element_count == math.prod(tensor.array_shape):
        return desc
    # The array that stands for a tensor with strides has the padding too.
    whole = replace(tensor, strides=tensor.element_strides)
    return replace(desc, input_tensor=whole)


def array_with(tensor: TensorDesc, values: Array, between: Array | int = 0) -> Array:
    """Return the array that stands for a tensor with given elements.

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
    """Return the sizes of the indexed dimensions: one per coordinate of an index."""
    sizes = desc.input_tensor.sizes
    if isinstance(desc, GatherDesc | GatherElementsDesc):
        return [sizes[desc.axis]]
    first = len(sizes) - desc.input_dimension_count + desc.batches
    return list(sizes[first : first + desc.tuple_size])


def is_outside(index: Array, size: Any) -> npt.NDArray[np.bool_]:
    """Return which index values are out of range of an axis.

    Args:
        index: The values.
        size: The size of the axis, or an array of sizes that broadcasts to the values.
    """
    # As INT64, an unsigned index of 2^63 or more would be negative.
    if index.dtype.kind == "u":
        return index.astype(np.uint64) >= np.asarray(size, np.uint64)
    wide = index.astype(np.int64)
    size = np.asarray(size, np.int64)
    return (wide >= size) | (wide < -size)


def brought_in_range(index: Array, sizes: Array) -> Array:
    """Return the indices as INT64 in [0, n).

    They are clamped, and negative indices are counted from the end.
    """
    last = sizes - 1
    if index.dtype.kind == "u":  # INT64 does not hold each UINT64
        index = np.minimum(index, last.astype(np.uint64))
    clamped = np.clip(index.astype(np.int64), -sizes, last)
    return np.where(clamped < 0, clamped + sizes, clamped)


def content_of(array: Array) -> bytes:
    """Return the bytes of the elements; those of texts are a list of JSON.

    What UTF-8 does not hold is escaped, as no JSON has it.
    """
    if array.dtype.hasobject:
        words = [text.encode(errors="backslashreplace").decode() for text in array.flat]
        return json.dumps(words).encode()
    return array.tobytes()


def differing(first: Array, second: Array) -> Array:
    """Return the offsets, in elements, at which the bits of two arrays differ.

    Args:
        first: An array.
        second: An array of the same data type and shape.
    """
    if first.dtype.hasobject:  # texts
        return np.flatnonzero(first != second)
    # No integer has the 16 bytes of a COMPLEX128, but two have.
    word = f"u{min(first.itemsize, 8)}"
    first_words = np.ascontiguousarray(first).reshape(-1).view(word)
    second_words = np.ascontiguousarray(second).reshape(-1).view(word)
    differ = first_words != second_words
    per_element = max(1, first.itemsize // 8)
    return np.flatnonzero(differ.reshape(-1, per_element).any(axis=1))
