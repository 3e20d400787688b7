"""Gathers prepared for many calls: the native kernels without ONNX Runtime, else numpy."""

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
    check_policy,
    check_written,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.execution.kernels import python_kernels
from onnxgather.core.gather import Sizes
from onnxgather.core.loops import POLICY_NUMBERS, loops_of
from onnxgather.core.options import MOST_THREADS, OutOfRange, usable_cores

T = TypeVar("T")

THREADED_NANOSECONDS = 300_000
"""The least time that is worth threads, which take 30 to 100 us to start, as the time
is guessed: a nanosecond for each row, and one for 16 bytes of output."""

_INDEX_NUMBERS = {"UINT32": 0, "UINT64": 1, "INT32": 2, "INT64": 3}
"""The numbers of the index types in `native/kernels/kernel.h`."""


class Gather:
    """A gather, prepared for many calls: `gather(data, indices)` or `gather(data, indices, out)`.

    The native kernels run it where they are built, else numpy; the bytes and the errors
    are the same. Threads may call one gather at the same time. A call on arrays of
    numpy that are C-contiguous copies nothing and needs no memory beside the output.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        indices: IndicesTensor where it is known; it is copied, and the calls are `gather(data)`
            or `gather(data, out=out)`.
        threads: How many threads a large gather may use, 0 for one per core that the program may
            run on; there are never more than 64.

    Raises:
        DescriptorError: `indices` does not fit IndicesTensor, or `desc` is no descriptor.
        IndexOutOfRangeError: `indices` holds an index out of range, and `out_of_range` is "error".
        OnnxGatherError: `out_of_range` or `threads` is not one of those above.
    """

    def __init__(
        self,
        desc: Descriptor,
        out_of_range: OutOfRange = "clamp",
        indices: object = None,
        threads: int = 0,
    ) -> None:
        check_descriptor(desc)
        check_policy(out_of_range)
        self.desc = desc
        self.out_of_range: OutOfRange = out_of_range
        self.threads = uint("threads", threads, MOST_THREADS, 0, OnnxGatherError)
        self.indices = None
        if indices is not None:
            known = check_array("IndicesTensor", desc.indices_tensor, indices)
            self.indices = known.copy("C")
            self.indices.flags.writeable = False
            if out_of_range == "error":
                check_indices(desc, self.indices)
        tensor = desc.output_tensor
        self._shape, self._dtype = tensor.array_shape, tensor.data_type.numpy
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
        """The output of the gather.

        An array is one of numpy, a tensor of torch or an OrtValue on the CPU, or
        anything else with DLPack or the buffer protocol. Data and indices that are not
        C-contiguous are copied.

        Args:
            data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
            indices: IndicesTensor, likewise; left out if the gather was made with indices.
            out: OutputTensor, likewise: C-contiguous, writable, and no memory of the inputs. After
                an error it holds anything.

        Returns:
            `out`, or a new array of numpy.

        Raises:
            DescriptorError: An array does not fit its tensor.
            IndexOutOfRangeError: An index is out of range and `out_of_range` is "error".
        """
        if self.indices is not None:
            if indices is not None:
                raise DescriptorError(
                    "indices must be left out, as the gather was made with them"
                )
            indices = self.indices
        try:
            output = np.empty(self._shape, self._dtype) if out is None else out
        except MemoryError:
            needed = self.desc.output_tensor.total_tensor_size_in_bytes
            rule = "memory must hold another OutputTensor"
            raise OnnxGatherError(f"{rule}, got one of {needed:,} bytes") from None
        # The kernel checks its arrays itself; what does not fit it as it is takes the
        # longer way.
        return (
            output
            if self._run(data, indices, output)
            else self._adapt(data, indices, output)
        )

    def _adapt(self, data: object, indices: object, out: object) -> object:
        """Run the gather on arrays as the kernel needs them, or tell why it cannot run."""
        data = _usable("InputTensor", self.desc.input_tensor, data)
        indices = _usable("IndicesTensor", self.desc.indices_tensor, indices)
        output = check_array("out", self.desc.output_tensor, out)
        check_written("out", output, {"InputTensor": data, "IndicesTensor": indices})
        ran = self._run(data, indices, output)
        if not ran and self.out_of_range == "error":
            indices = (
                indices.copy()
            )  # as another thread may change those that are checked
            check_indices(self.desc, indices)
            ran = self._run(data, indices, output)
        if not ran:
            output[...] = reference(self.desc, data, indices, self.out_of_range)
        return out

    def __repr__(self) -> str:
        """The types and sizes of the inputs, and the policy."""
        tensors = self.desc.input_tensor, self.desc.indices_tensor
        told = " by ".join(f"{one.data_type} {list(one.sizes)}" for one in tensors)
        known = "" if self.indices is None else " that are known"
        return (
            f"<Gather of {type(self.desc).__name__}: {told}{known},"
            f" {self.out_of_range}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle makes the same gather of."""
        return Gather, (self.desc, self.out_of_range, self.indices, self.threads)


def _usable(name: str, tensor: TensorDesc, given: object) -> Array:
    """The array of an input as the kernel reads it: C-contiguous and aligned, else copied."""
    return np.require(check_array(name, tensor, given), requirements=["C", "A"])


def _kernel(desc: Descriptor, out_of_range: OutOfRange, threads: int) -> Any:
    """The function that runs a gather on three arrays.

    It returns True, or False if an index is out of range, or None if it cannot take the
    arrays.
    """
    native = python_kernels()
    if native is None:
        return _no_kernel
    loops = loops_of(desc, out_of_range)
    tensors = desc.input_tensor, desc.indices_tensor, desc.output_tensor
    data_type, index_type, _ = types = [tensor.data_type for tensor in tensors]
    numbers = [data_type.size, _INDEX_NUMBERS[index_type], POLICY_NUMBERS[out_of_range]]
    numbers += [len(loops.sizes), len(loops.axis_sizes)]
    for values in (
        loops.sizes,
        loops.data_strides,
        loops.index_strides,
        loops.output_strides,
    ):
        numbers += _filled(values)
    numbers += [
        loops.tuple_stride,
        *_filled(loops.axis_sizes),
        *_filled(loops.axis_strides),
    ]
    packed = np.array(
        [*numbers, *loops.counts, loops.reachable_count], np.uint64
    ).tobytes()
    elements, row = math.prod(loops.sizes), 1
    if (loops.data_strides[-1], loops.index_strides[-1]) == (1, 0):
        row = loops.sizes[-1]
    if elements // row + elements * data_type.size // 16 < THREADED_NANOSECONDS:
        threads = 1
    kinds = "".join(data_type.numpy.kind for data_type in types)
    shapes = [tensor.array_shape for tensor in tensors]
    return native.Gather(
        np.ndarray, packed, kinds, *shapes, threads or usable_cores()
    ).run


def _no_kernel(*_: object) -> None:
    """A kernel that takes no arrays, so that numpy gathers."""


def _filled(values: Sizes) -> list[int]:
    """A list of struct gather, filled up with zeros."""
    return [*values, *[0] * (MAX_DIMENSIONS - len(values))]
