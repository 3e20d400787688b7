"""Gathers of index values at every edge: 0, ±n, ±2^24, ±2^31, ±2^32, ..., ±2^63, 2^64,
and random.

All values of a type stand in one tensor of indices; of an index tuple each coordinate
takes them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import numpy as np
from index_arithmetic import index_values

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.descriptor_layouts import (
    PACKED,
    descriptor_with_layouts,
)
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.results import Report
from onnxgather.checking.run import check_all
from onnxgather.core.descriptors.arrays import Array, is_outside
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.descriptors.sample_values import data_values
from onnxgather.core.gather import Geometry, Sizes
from onnxgather.core.options import OutOfRange

FEW: tuple[Sizes, ...] = ((5,), (5, 7))
"""Axes; where there are two, they are those of a tuple."""


def gathers(axes: Sizes, rows: int) -> Iterator[Geometry]:
    """Gathers along these axes, with a number of tuples; of batches and the like there
    are two."""
    if len(axes) == 1:
        yield Geometry("GATHER", (2, *axes), (rows,), 1)
        yield Geometry("GATHER_ELEMENTS", (2, *axes), (2, rows), 1)
    yield Geometry("GATHER_ND", (*axes, 2), (rows, len(axes)))
    yield Geometry("GATHER_ND1", (2, *axes), (2, rows, len(axes)), 1)


def values_of(index_type: str, axes: Sizes, policy: OutOfRange) -> Array:
    """All values, of shape (number, coordinates); under "error" those in range alone.

    Of two coordinates one is any value while the other one is 0, and both are any.
    """
    first, *others = axes
    values = index_values(index_type.lower(), axes if others else first)
    if others:
        values = np.concatenate(
            [values, *(values * values.dtype.type([k, 1 - k]) for k in (0, 1))]
        )
    values = values.reshape(-1, len(axes))
    return (
        values[~is_outside(values, axes).any(axis=1)] if policy == "error" else values
    )


def cases(sizes: Iterable[Sizes]) -> Iterator[DescriptorCase]:
    """A case per axes, operator, index type and policy."""
    for axes in sizes:
        for index_type in INDEX_TYPES:
            for policy in get_args(OutOfRange):
                values = values_of(index_type, axes, policy)
                for gather in gathers(axes, len(values)):
                    desc = descriptor_with_layouts(gather, "UINT16", index_type, PACKED)
                    shape = desc.input_tensor.array_shape
                    data = data_values(np.dtype(np.uint16), shape, "distinct", 1)
                    indices = np.resize(values, desc.indices_tensor.sizes)
                    name = "/".join(
                        (*map(str, axes), gather.operator, index_type, policy)
                    )
                    yield DescriptorCase(name, desc, data, indices, policy)


def ask(names: Iterable[str], asked: Iterable[DescriptorCase]) -> Report:
    """The cases on lanes; no difference is a known one."""
    lanes = open_lanes([*names])
    try:
        return check_all(asked, lanes, known=())
    finally:
        for lane in lanes:
            lane.close()
