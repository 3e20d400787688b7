"""The numbers of a descriptor as `struct gather` of the native kernels."""

from __future__ import annotations

import ctypes

import onnxgather as og
from onnxgather.core.loops import POLICY_NUMBERS, loops_of

INDEX_TYPES = ["uint32", "uint64", "int32", "int64"]
Numbers = ctypes.c_uint64 * 8


class Gather(ctypes.Structure):
    """`struct gather` of kernel.h."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("element_size", "index_type", "policy")),
        *((name, ctypes.c_uint32) for name in ("loop_count", "tuple_size")),
        *((f"{name}s", Numbers) for name in ("size", "data_stride", "index_stride")),
        ("output_strides", Numbers),
        ("tuple_stride", ctypes.c_uint64),
        ("axis_sizes", Numbers),
        ("axis_strides", Numbers),
        *(
            (f"{name}_count", ctypes.c_uint64)
            for name in ("data", "index", "output", "reachable")
        ),
        ("indices_rank", ctypes.c_uint32),
        ("indices_sizes", Numbers),
        ("indices_strides", Numbers),
    ]


def gather_of(desc: og.Descriptor, policy: og.OutOfRange) -> Gather:
    """Return the numbers of a descriptor."""
    loops = loops_of(desc, policy)
    kinds = (desc.input_tensor.data_type.numpy, desc.indices_tensor.data_type.numpy)
    head = (kinds[0].itemsize, INDEX_TYPES.index(kinds[1].name), POLICY_NUMBERS[policy])
    strides = (loops.data_strides, loops.index_strides, loops.output_strides)
    lists = [Numbers(*numbers) for numbers in (loops.sizes, *strides)]
    axes = (Numbers(*loops.axis_sizes), Numbers(*loops.axis_strides))
    counts = (len(loops.sizes), len(loops.axis_sizes))
    tail = (loops.tuple_stride, *axes, *loops.counts, loops.reachable_count)
    return Gather(*head, *counts, *lists, *tail)
