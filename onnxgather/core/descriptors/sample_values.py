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
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.random_numbers import GOLDEN, splitmix64
from onnxgather.core.descriptors.strides import overlaps

Type = np.dtype[Any]


def data_values(dtype: Type, shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Data of a type and a shape; `kind` is a key of `DATA_BY_WORD`."""
    return DATA_BY_WORD[kind](dtype, math.prod(shape), seed).reshape(shape)


def index_values(desc: Descriptor, kind: str, seed: int) -> Array:
    """The array of IndicesTensor; `kind` is a key of `INDICES_BY_WORD`.

    In a tensor with strides the numbers between the elements are out of range.
    """
    tensor = desc.indices_tensor
    sizes: Array = np.array(axis_sizes(desc))
    if tensor.strides is not None and overlaps(tensor.sizes, tensor.strides):
        sizes = sizes.min(keepdims=True)  # one element may be an index of several axes
    each = np.broadcast_to(sizes, tensor.sizes).astype(np.int64).reshape(-1)
    values = INDICES_BY_WORD[kind](tensor.data_type.numpy, each, seed).reshape(
        tensor.sizes
    )
    return array_with(tensor, values, np.iinfo(values.dtype).max)


def _floats(dtype: Type, signs: Array, exponent: Array | int, fraction: Array) -> Array:
    """Floats with given exponents and fractions; the lowest bits of `signs` are the signs."""
    sign = (signs & np.uint64(1)) << np.uint64(dtype.itemsize * 8 - 1)
    middle = np.asarray(exponent, np.uint64) << np.uint64(np.finfo(dtype).nmant)
    return (sign | middle | fraction).astype(f"u{dtype.itemsize}").view(dtype)


def _largest_exponent(dtype: Type) -> int:
    """The exponent, with its bias, of infinities and NaNs."""
    return (1 << dtype.itemsize * 8 - 1 - np.finfo(dtype).nmant) - 1


def _unlike(bits: int, size: int, seed: int) -> Array:
    """Numbers below 2^bits, spread evenly; none repeats among the first 2^bits."""
    step = np.uint64(GOLDEN >> (64 - bits) | 1)
    numbers = splitmix64(seed, 1) + np.arange(size, dtype=np.uint64) * step
    return numbers & np.uint64(2**bits - 1)


def _distinct(dtype: Type, size: int, seed: int) -> Array:
    """Integers or normal floats; none repeats before the type has no others."""
    if dtype.kind != "f":
        numbers = _unlike(dtype.itemsize * 8, size, seed)
        return numbers.astype(f"u{dtype.itemsize}").view(dtype)
    random = splitmix64(seed + 1, size)
    exponent = random // np.uint64(2) % np.uint64(
        _largest_exponent(dtype) - 1
    ) + np.uint64(1)
    return _floats(dtype, random, exponent, _unlike(np.finfo(dtype).nmant, size, seed))


def _odd_floats(dtype: Type, size: int, seed: int, exponent: int) -> Array:
    """Floats of one exponent, of both signs, with fractions that differ and are not 0."""
    fraction = np.maximum(_unlike(np.finfo(dtype).nmant, size, seed), np.uint64(1))
    return _floats(dtype, splitmix64(seed + 1, size), exponent, fraction)


def _nan(dtype: Type, size: int, seed: int) -> Array:
    """NaNs, quiet and signalling, of both signs and with payloads that differ."""
    return _odd_floats(dtype, size, seed, _largest_exponent(dtype))


def _extremes(dtype: Type, size: int, seed: int) -> Array:
    """The ends of an integer type and zero; of floats infinities, zeros, largest and smallest."""
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
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        ends = [low, high, 0, high - 1, low + 1, high // 2 + 1]
    return np.array(ends, dtype)[(np.arange(size) + seed % len(ends)) % len(ends)]


DATA_BY_WORD: dict[str, Callable[[Type, int, int], Array]] = {
    "distinct": _distinct,
    "nan": _nan,
    "subnormal": partial(_odd_floats, exponent=0),
    "extremes": _extremes,
}
"""Functions of a data type, a number of elements and a seed, by the table's word for
the data."""


def _within(low: int, high: int, dtype: Type, sizes: Array, seed: int) -> Array:
    """Indices in [low x n, high x n), n being the size of the axis."""
    random = splitmix64(seed, sizes.size) % ((high - low) * sizes).astype(np.uint64)
    return (random.astype(np.int64) + low * sizes).astype(dtype)


def _any(dtype: Type, sizes: Array, seed: int) -> Array:
    """All indices in range: [0, n), for a signed type [-n, n)."""
    return _within(-1 if dtype.kind == "i" else 0, 1, dtype, sizes, seed)


def _edges(dtype: Type, sizes: Array, seed: int) -> Array:
    """0, n - 1 and, for a signed type, -1 and -n by turns, for each coordinate's own n."""
    ends = [0 * sizes, sizes - 1]
    if dtype.kind == "i":
        ends += [0 * sizes - 1, -sizes]
    turn = (np.arange(sizes.size) + splitmix64(seed, 1).astype(np.int64)) % len(ends)
    return np.choose(turn, ends).astype(dtype)


Outlier = Callable[[int, int, int], int]
"""An index out of range: a function of the axis size and the type's least and greatest
value."""

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
    """Indices of which the first and about a third of the others are out of range."""
    indices, limits = _any(dtype, sizes, seed), np.iinfo(dtype)
    chosen = splitmix64(seed + 1, sizes.size) % np.uint64(3) == 0
    chosen[0] = True
    for k in np.flatnonzero(chosen):
        indices[k] = outlier(int(sizes[k]), int(limits.min), int(limits.max))
    return indices


INDICES_BY_WORD: dict[str, Callable[[Type, Array, int], Array]] = {
    "forward": partial(_within, 0, 1),
    "any": _any,
    "negative": partial(_within, -1, 0),
    "edges": _edges,
    **{word: partial(_with, outlier) for word, outlier in OUTLIERS.items()},
}
"""Functions of a type, the size of each index's axis and a seed, by the word for the
indices."""


def takes(data_type: str, index_type: str, data: str, indices: str) -> bool:
    """Whether the types can hold what the words `data` and `indices` stand for."""
    limits = np.iinfo(np.dtype(index_type.lower()))
    if indices in OUTLIERS:
        value = OUTLIERS[indices](10, int(limits.min), int(limits.max))
        return limits.min <= value <= limits.max and not 0 <= value < 10
    floats = np.dtype(data_type.lower()).kind == "f"
    return (floats or data not in ("nan", "subnormal")) and (
        limits.min < 0 or indices != "negative"
    )
