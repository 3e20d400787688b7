"""Arrays that are drawn for a descriptor where nobody gives it data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.random_numbers import splitmix64
from onnxgather.core.descriptors.sample_values import (
    OUTLIERS,
    data_values,
    index_values,
    takes,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.options import OutOfRange

MAX_DRAWN_BYTES = 2**25
"""The most bytes that the tensors of a descriptor may have for arrays to be drawn."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Arrays for a descriptor, which are the same each time."""

    name: str
    """What is drawn, in a few words."""
    data: Array
    indices: Array


ENDS = "both ends of each axis"
BITS = "random bits"
WILD = "wild indices"
EXTREMES = "extreme data"

ALL_DRAWN = (ENDS, BITS, WILD, EXTREMES)
"""The names of all arrays that `drawn` draws."""


def draw_names(out_of_range: OutOfRange) -> tuple[str, str, str]:
    """Return the names of the arrays that `drawn` draws under a policy."""
    # A wild index is an error there, so that no model returns anything to compare.
    return ENDS, BITS, EXTREMES if out_of_range == "error" else WILD


def bytes_of(desc: Descriptor) -> int:
    """Return how many bytes the three tensors of a descriptor have.

    An element that strides repeat counts each time, as it is computed each time.
    """
    total = 0
    for tensor in (desc.input_tensor, desc.indices_tensor, desc.output_tensor):
        elements = tensor.element_count * tensor.data_type.size
        total += max(elements, tensor.total_tensor_size_in_bytes)
    return total


def drawn(desc: Descriptor, out_of_range: OutOfRange) -> Iterator[Drawn]:
    """Yield the arrays of three cases; none if they would need too much memory.

    The first has the ends of each axis as indices. The second has random bits as data,
    of floats NaNs and both signs. The third has indices out of range, or under "error"
    the extremes of the data type.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
    """
    if bytes_of(desc) > MAX_DRAWN_BYTES:
        return
    yield Drawn(ENDS, _data(desc, "distinct"), index_values(desc, "edges", 1))
    yield Drawn(BITS, _random_bits(desc.input_tensor), index_values(desc, "any", 2))
    if out_of_range == "error":
        yield Drawn(EXTREMES, _data(desc, "extremes"), index_values(desc, "any", 3))
    else:
        yield Drawn(WILD, _data(desc, "distinct"), _wild(desc))


def _data(desc: Descriptor, kind: str) -> Array:
    tensor = desc.input_tensor
    return data_values(tensor.data_type.numpy, tensor.array_shape, kind, 4)


def _random_bits(tensor: TensorDesc) -> Array:
    """Return random bits; every fourth float is a NaN."""
    dtype = tensor.data_type.numpy
    shape = tensor.array_shape
    numbers = splitmix64(5, math.prod(shape)).reshape(shape)
    values = numbers.astype(f"u{dtype.itemsize}").view(dtype)
    if dtype.kind == "f":
        nans = data_values(dtype, shape, "nan", 6)
        is_nan = numbers >> np.uint64(62) == 0
        values = np.where(is_nan, nans, values)
    return values


def _wild(desc: Descriptor) -> Array:
    """Return indices of each kind that the type holds, in range and out of range."""
    tensor = desc.indices_tensor
    data_type = desc.input_tensor.data_type.name
    index_type = tensor.data_type.name
    words = ["any"]
    for word in OUTLIERS:
        if takes(data_type, index_type, "distinct", word):
            words.append(word)
    choices = [index_values(desc, word, 7) for word in words]
    turns = splitmix64(8, math.prod(tensor.array_shape)) % np.uint64(len(words))
    turns[0] = len(words) - 1  # so that a single index is out of range, too
    return np.choose(turns.reshape(tensor.array_shape).astype(np.intp), choices)
