"""The arrays of a case: data in which a wrong element shows, and indices.

The table names them by words; `DATA_BY_WORD` and `INDICES_BY_WORD` say what each word
stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array, array_with, axis_sizes
from onnxgather.core.descriptors.datatypes import ONNX_NAMES
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.random_numbers import GOLDEN, splitmix64
from onnxgather.core.descriptors.strides import overlaps

Type = np.dtype[Any]


def data_values(dtype: Type, shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Return data of a type and a shape; `kind` is a key of `DATA_BY_WORD`."""
    draw = DATA_BY_WORD[kind]
    values = draw(dtype, math.prod(shape), seed)
    return values.reshape(shape)


def index_values(desc: Descriptor, kind: str, seed: int) -> Array:
    """Return the array of IndicesTensor; `kind` is a key of `INDICES_BY_WORD`.

    In a tensor with strides the numbers between the elements are out of range.
    """
    tensor = desc.indices_tensor
    sizes: Array = np.array(axis_sizes(desc))
    if tensor.strides is not None and overlaps(tensor.sizes, tensor.strides):
        # An element may be a coordinate along several axes, so it fits the shortest.
        sizes = sizes.min(keepdims=True)
    size_of_each = np.broadcast_to(sizes, tensor.sizes).astype(np.int64)
    draw = INDICES_BY_WORD[kind]
    values = draw(tensor.data_type.numpy, size_of_each.reshape(-1), seed)
    out_of_range = np.iinfo(values.dtype).max
    return array_with(tensor, values.reshape(tensor.sizes), out_of_range)


def _floats(dtype: Type, signs: Array, exponent: Array | int, fraction: Array) -> Array:
    """Return floats with given exponents and fractions.

    The lowest bits of `signs` are the signs.
    """
    sign_place = np.uint64(dtype.itemsize * 8 - 1)
    exponent_place = np.uint64(np.finfo(dtype).nmant)
    sign_bits = (signs & np.uint64(1)) << sign_place
    exponent_bits = np.asarray(exponent, np.uint64) << exponent_place
    bits = sign_bits | exponent_bits | fraction
    return bits.astype(f"u{dtype.itemsize}").view(dtype)


def _largest_exponent(dtype: Type) -> int:
    """Return the exponent, with its bias, of infinities and NaNs."""
    exponent_bits = dtype.itemsize * 8 - 1 - np.finfo(dtype).nmant
    return (1 << exponent_bits) - 1


def _unlike(bits: int, size: int, seed: int) -> Array:
    """Return numbers below 2^bits, spread evenly.

    None of them repeats among the first 2^bits.
    """
    # An odd step passes over all numbers below a power of two before it comes back.
    step = np.uint64(GOLDEN >> (64 - bits) | 1)
    first = splitmix64(seed, 1)
    numbers = first + np.arange(size, dtype=np.uint64) * step
    return numbers & np.uint64(2**bits - 1)


def _distinct(dtype: Type, size: int, seed: int) -> Array:
    """Return integers or normal floats; each is drawn before any repeats.

    Of a type that DirectML does not have, return elements of which few repeat.
    """
    if dtype.kind == "c":
        parts = np.dtype(f"f{dtype.itemsize // 2}")
        return _distinct(parts, 2 * size, seed).view(dtype)
    if dtype.kind == "b":
        truths = splitmix64(seed, size) % np.uint64(2) == 1
        truths[:1] = ~truths[-1:]  # so that both are there
        return truths
    if dtype.name in ONNX_NAMES:
        numbers = _unlike(7, size, seed)
        if not dtype.hasobject:
            # An integer wraps in a type of 4 bits; what a float gives there depends on
            # the version of ml_dtypes.
            return numbers.astype(np.int64).astype(dtype)
        texts = [f"{number}" + "é" * (number % 3 * 10) for number in numbers.tolist()]
        return np.array(texts, dtype)
    if dtype.kind != "f":
        numbers = _unlike(dtype.itemsize * 8, size, seed)
        return numbers.astype(f"u{dtype.itemsize}").view(dtype)
    random = splitmix64(seed + 1, size)
    # The exponent 0 is that of subnormals. The lowest bit of a number is the sign.
    normal_exponents = np.uint64(_largest_exponent(dtype) - 1)
    exponent = random // np.uint64(2) % normal_exponents + np.uint64(1)
    fraction = _unlike(np.finfo(dtype).nmant, size, seed)
    return _floats(dtype, random, exponent, fraction)


def _odd_floats(dtype: Type, size: int, seed: int, exponent: int) -> Array:
    """Return floats of an exponent, of both signs.

    Their fractions differ and are not 0.
    """
    numbers = _unlike(np.finfo(dtype).nmant, size, seed)
    fraction = np.maximum(numbers, np.uint64(1))
    return _floats(dtype, splitmix64(seed + 1, size), exponent, fraction)


def _nan(dtype: Type, size: int, seed: int) -> Array:
    """Return NaNs, quiet and signalling, of both signs and with different payloads."""
    return _odd_floats(dtype, size, seed, _largest_exponent(dtype))


def _subnormal(dtype: Type, size: int, seed: int) -> Array:
    """Return floats of the exponent 0, of both signs."""
    return _odd_floats(dtype, size, seed, exponent=0)


def _extremes(dtype: Type, size: int, seed: int) -> Array:
    """Return the ends of a type and zero, by turns.

    Of floats these are infinities, zeros, the largest and the smallest.
    """
    ends: list[Any]
    if dtype.kind == "f":
        info = np.finfo(dtype)
        ends = [
            math.inf,
            -0.0,
            info.max,
            0.0,
            -math.inf,
            info.min,
            info.smallest_normal,
        ]
    else:
        low = int(np.iinfo(dtype).min)
        high = int(np.iinfo(dtype).max)
        ends = [low, high, 0, high - 1, low + 1, high // 2 + 1]
    turn = np.arange(size) + seed % len(ends)
    return np.array(ends, dtype)[turn % len(ends)]


DATA_BY_WORD: dict[str, Callable[[Type, int, int], Array]] = {
    "distinct": _distinct,
    "nan": _nan,
    "subnormal": _subnormal,
    "extremes": _extremes,
}
"""Functions of a data type, an element count and a seed, by the word for the data."""


def _within(low: int, high: int, dtype: Type, sizes: Array, seed: int) -> Array:
    """Return indices in [low x n, high x n), n being the size of the axis."""
    # An axis without elements has no index in range; it gets 0.
    counts = np.maximum((high - low) * sizes, 1).astype(np.uint64)
    random = splitmix64(seed, sizes.size) % counts
    return (random.astype(np.int64) + low * sizes).astype(dtype)


def _any(dtype: Type, sizes: Array, seed: int) -> Array:
    """Return any indices in range: [0, n), for a signed type [-n, n)."""
    low = -1 if dtype.kind == "i" else 0
    return _within(low, 1, dtype, sizes, seed)


def _edges(dtype: Type, sizes: Array, seed: int) -> Array:
    """Return the ends of each coordinate's own range by turns.

    They are 0, n - 1 and, for a signed type, -1 and -n.
    """
    ends = [0 * sizes, sizes - 1]
    if dtype.kind == "i":
        ends += [0 * sizes - 1, -sizes]
    first_turn = splitmix64(seed, 1).astype(np.int64)
    turn = (np.arange(sizes.size) + first_turn) % len(ends)
    return np.choose(turn, ends).astype(dtype)


Outlier = Callable[[int, int, int], int]
"""An index out of range.

It is a function of the axis size and the type's least and greatest value.
"""

OUTLIERS: dict[str, Outlier] = {
    "just-past": lambda n, low, high: n,
    "far-past": lambda n, low, high: 10 * n + 3,
    "below": lambda n, low, high: -n - 1,
    "2-to-the-31": lambda n, low, high: 2**31,
    "2-to-the-32": lambda n, low, high: 2**32,
    "2-to-the-63": lambda n, low, high: 2**63,
    "least": lambda n, low, high: low,
    "greatest": lambda n, low, high: high,
}


def _with(outlier: Outlier, dtype: Type, sizes: Array, seed: int) -> Array:
    """Return indices, the first and about a third of the others out of range."""
    indices = _any(dtype, sizes, seed)
    limits = np.iinfo(dtype)
    least = int(limits.min)
    greatest = int(limits.max)
    are_outside = splitmix64(seed + 1, sizes.size) % np.uint64(3) == 0
    are_outside[0] = True
    for place in np.flatnonzero(are_outside):
        indices[place] = outlier(int(sizes[place]), least, greatest)
    return indices


INDICES_BY_WORD: dict[str, Callable[[Type, Array, int], Array]] = {
    "forward": partial(_within, 0, 1),
    "any": _any,
    "negative": partial(_within, -1, 0),
    "edges": _edges,
    **{word: partial(_with, outlier) for word, outlier in OUTLIERS.items()},
}
"""Functions of a type, the sizes of axes and a seed, by the word for the indices.

The sizes are those of the axes of all indices, one after another.
"""


def takes(data_type: str, index_type: str, data: str, indices: str) -> bool:
    """Return whether the types can hold what the words for data and indices mean."""
    limits = np.iinfo(np.dtype(index_type.lower()))
    if indices in OUTLIERS:
        # Any size of an axis does: here 10.
        value = OUTLIERS[indices](10, int(limits.min), int(limits.max))
        return limits.min <= value <= limits.max and not 0 <= value < 10
    if indices == "negative" and limits.min == 0:
        return False
    is_for_floats = data in ("nan", "subnormal")
    return not is_for_floats or np.dtype(data_type.lower()).kind == "f"
