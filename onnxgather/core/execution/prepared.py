"""Gathers prepared for many calls, without ONNX Runtime: native kernels, else numpy."""

from __future__ import annotations

import math
from typing import Any, TypeVar, overload

import numpy as np

from onnxgather.core.checks import MAX_DIMENSIONS, uint
from onnxgather.core.descriptors.arrays import (
    Array,
    check_array,
    check_descriptor,
    check_indices,
    check_memory,
    check_policy,
    check_written,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.kernels import python_kernels
from onnxgather.core.gather import Sizes
from onnxgather.core.loops import POLICY_NUMBERS, Loops, loops_of
from onnxgather.core.options import MOST_THREADS, OutOfRange, usable_cores
from onnxgather.core.public import public

T = TypeVar("T")

THREADED_NANOSECONDS = 50_000
"""The least time that is worth threads.

A thread that waits wakes in 5 to 20 us, and two wait for one another; "Threads of
`og.Gather`" in docs/decisions/native.md has what that costs.

The time is a guess: a nanosecond for each row, and one for 16 bytes of output.
"""

_INDEX_NUMBERS = {"UINT32": 0, "UINT64": 1, "INT32": 2, "INT64": 3}
"""The numbers of the index types in `native/kernels/kernel.h`."""


@public
class Gather:
    """A gather, prepared for many calls of the form `gather(data, indices, out)`.

    `out` may be left out. The native kernels run the gather where they are built, else
    numpy; the bytes and the errors are the same. Threads may call one gather at the
    same time. A call on C-contiguous arrays of numpy copies nothing and needs no memory
    beside the output.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        indices: IndicesTensor if it does not change; it is copied, and the calls are
            `gather(data)` or `gather(data, out=out)`.
        threads: How many threads a large gather may use; 0 means a thread for each core
            that the program may use. At most 64 of them are used.

    Raises:
        DescriptorError: `indices` does not fit IndicesTensor, or `desc` is no
            descriptor.
        IndexOutOfRangeError: `indices` holds an index out of range, and `out_of_range`
            is "error".
        OnnxGatherError: `out_of_range` or `threads` is not valid.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> gather = og.Gather(desc, "clamp", indices=np.array([[2, 0]], np.int64))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> gather(data)
        array([[5., 6.],
               [1., 2.]], dtype=float32)
    """

    def __init__(
        self,
        desc: Descriptor,
        out_of_range: OutOfRange = "clamp",
        indices: object = None,
        threads: int = 0,
    ) -> None:
        check_descriptor(desc)
        out_of_range = check_policy(out_of_range)
        self.desc = desc
        self.out_of_range: OutOfRange = out_of_range
        self.threads = uint("threads", threads, MOST_THREADS, 0, OnnxGatherError)
        self.indices: Array | None = None
        if indices is not None:
            self.indices = _fixed_indices(desc, out_of_range, indices)
        tensor = desc.output_tensor
        self._shape = tensor.array_shape
        self._dtype = tensor.data_type.numpy
        self._run = _kernel(desc, out_of_range, self.threads)

    @overload
    def __call__(
        self, data: object, indices: object = None, out: None = None
    ) -> Array: ...
    @overload
    def __call__(self, data: object, indices: object, out: T) -> T: ...
    @overload
    def __call__(self, data: object, indices: object = None, *, out: T) -> T: ...
    def __call__(
        self, data: object, indices: object = None, out: object = None
    ) -> object:
        """Return the output of the gather.

        An array is a numpy array, a tensor of torch or an OrtValue on the CPU, or
        anything else with DLPack or the buffer protocol. Data and indices that are not
        C-contiguous are copied.

        Args:
            data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has
                strides; or nested lists of numbers.
            indices: IndicesTensor, likewise; left out if the gather was made with
                indices.
            out: OutputTensor, likewise: C-contiguous, writable, and no memory of the
                inputs. After an error its content is undefined. A new output of 32 MiB
                or more doubles the time of a call.

        Returns:
            `out`, or a new numpy array.

        Raises:
            DescriptorError: An array does not fit its tensor.
            IndexOutOfRangeError: An index is out of range and `out_of_range` is
                "error".
        """
        if self.indices is not None:
            if indices is not None:
                raise DescriptorError(
                    "indices must be left out, as the gather was made with them"
                )
            indices = self.indices
        output = out
        if out is None:
            try:
                output = np.empty(self._shape, self._dtype)
            except MemoryError:
                needed = self.desc.output_tensor.total_tensor_size_in_bytes
                rule = "memory must hold another OutputTensor"
                raise OnnxGatherError(f"{rule}, got one of {needed:,} bytes") from None
        # The kernel checks its arrays itself. What it refuses goes the longer way.
        if self._run(data, indices, output):
            return output
        return self._adapt(data, indices, output)

    def _adapt(self, data: object, indices: object, out: object) -> object:
        """Run the gather on arrays as the kernel needs them, or raise why it cannot."""
        data = _readable("InputTensor", self.desc.input_tensor, data)
        indices = _readable("IndicesTensor", self.desc.indices_tensor, indices)
        output = check_memory("out", self.desc.output_tensor, out)
        check_written("out", output, {"InputTensor": data, "IndicesTensor": indices})
        output = output.view(self._dtype)  # an unpickled array has a dtype of its own
        has_run = self._run(data, indices, output)
        if not has_run and self.out_of_range == "error":
            # A copy, as another thread may change the indices after the check.
            indices = indices.copy()
            check_indices(self.desc, indices)
            has_run = self._run(data, indices, output)
        if not has_run:  # there is no kernel
            output[...] = reference(self.desc, data, indices, self.out_of_range)
        return out

    def __repr__(self) -> str:
        """Return the types and sizes of the inputs, and the policy."""
        operator = type(self.desc).__name__
        data = _type_and_sizes(self.desc.input_tensor)
        indices = _type_and_sizes(self.desc.indices_tensor)
        if self.indices is not None:
            indices += " that are known"
        return f"<Gather of {operator}: {data} by {indices}, {self.out_of_range}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle makes the same gather of."""
        return Gather, (self.desc, self.out_of_range, self.indices, self.threads)


def _fixed_indices(
    desc: Descriptor, out_of_range: OutOfRange, indices: object
) -> Array:
    """Return a copy of the indices of all calls, checked; it cannot be written."""
    array = check_array("IndicesTensor", desc.indices_tensor, indices)
    # A copy would keep the dtype of an unpickled array, which the kernel does not know.
    fixed = np.empty(array.shape, desc.indices_tensor.data_type.numpy)
    fixed[...] = array
    fixed.flags.writeable = False
    if out_of_range == "error":
        check_indices(desc, fixed)
    return fixed


def _readable(name: str, tensor: TensorDesc, value: object) -> Array:
    """Return an input as the kernel reads it: C-contiguous and aligned, else copied.

    The kernel knows numpy's own dtype object. An unpickled array has another one, so
    a view of it is returned.
    """
    array = check_array(name, tensor, value)
    plain = np.require(array, requirements=["C", "A"])
    return plain.view(tensor.data_type.numpy)


def _type_and_sizes(tensor: TensorDesc) -> str:
    return f"{tensor.data_type} {list(tensor.sizes)}"


def _kernel(desc: Descriptor, out_of_range: OutOfRange, threads: int) -> Any:
    """Return the function that runs a gather on three arrays.

    The function returns True; False if an index is out of range; None if it refuses the
    arrays.
    """
    native = python_kernels()
    if native is None:
        return _no_kernel
    loops = loops_of(desc, out_of_range)
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    # The struct gather of `native/kernels/kernel.h`: 64 bits for each number.
    numbers = [
        desc.input_tensor.data_type.size,
        _INDEX_NUMBERS[desc.indices_tensor.data_type],
        POLICY_NUMBERS[out_of_range],
        len(loops.sizes),
        len(loops.axis_sizes),
        *_filled(loops.sizes),
        *_filled(loops.data_strides),
        *_filled(loops.index_strides),
        *_filled(loops.output_strides),
        loops.tuple_stride,
        *_filled(loops.axis_sizes),
        *_filled(loops.axis_strides),
        *loops.counts,
        loops.reachable_count,
    ]
    packed = np.array(numbers, np.uint64).tobytes()
    dtypes = tuple([tensor.data_type.numpy for tensor in tensors])
    shapes = tuple([tensor.array_shape for tensor in tensors])
    if _guessed_nanoseconds(desc, loops) < THREADED_NANOSECONDS:
        threads = 1
    elif threads == 0:
        threads = usable_cores()
    return native.Gather(np.ndarray, packed, dtypes, shapes, threads).run


def _no_kernel(*_: object) -> None:
    """Refuse all arrays, so that numpy gathers."""


def _filled(values: Sizes) -> list[int]:
    """Return a list of struct gather, filled up with zeros."""
    zeros = [0] * (MAX_DIMENSIONS - len(values))
    return [*values, *zeros]


def _guessed_nanoseconds(desc: Descriptor, loops: Loops) -> int:
    """Return a guess of how long a gather runs on one thread."""
    elements = math.prod(loops.sizes)
    row = 1
    # The innermost loop copies a row where its data adjoin and share an index.
    if loops.data_strides[-1] == 1 and loops.index_strides[-1] == 0:
        row = loops.sizes[-1]
    size_in_bytes = elements * desc.input_tensor.data_type.size
    return elements // row + size_in_bytes // 16
