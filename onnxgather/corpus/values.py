"""What a case's tensors hold: data in which a wrong element shows, and indices of a kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgather.arrays import Array, array_of, axis_sizes
from onnxgather.corpus.words import GOLDEN, words
from onnxgather.descriptors import Descriptor
from onnxgather.strides import overlaps
from onnxgather.tensors import TensorDesc


def data_values(tensor: TensorDesc, kind: str, seed: int) -> Array:
    """Return the array of InputTensor, its gaps filled as well."""
    count = math.prod(tensor.array_shape)
    return DATA[kind](tensor.data_type.numpy, count, seed).reshape(tensor.array_shape)


def index_values(desc: Descriptor, kind: str, seed: int) -> Array:
    """Return the array of IndicesTensor; what lies between strided elements is out of range."""
    tensor = desc.indices_tensor
    sizes: Array = np.array(axis_sizes(desc))
    if tensor.strides is not None and overlaps(tensor.sizes, tensor.strides):
        sizes = sizes.min(keepdims=True)  # one element counts along several axes
    each = np.broadcast_to(sizes, tensor.sizes).astype(np.int64).reshape(-1)
    values = INDICES[kind](tensor.data_type.numpy, each, seed).reshape(tensor.sizes)
    return array_of(tensor, values, np.iinfo(values.dtype).max)


def _bits(dtype: np.dtype[Any], sign: Array, exponent: Array | int, fraction: Array) -> Array:
    """Return floats of given bits; a sign may have more of them than the one that counts."""
    wide = np.finfo(dtype).nmant
    first = (sign & np.uint64(1)) << np.uint64(dtype.itemsize * 8 - 1)
    middle = np.asarray(exponent, np.uint64) << np.uint64(wide)
    return (first | middle | fraction).astype(f"u{dtype.itemsize}").view(dtype)


def _counted(bits: int, count: int, seed: int) -> Array:
    """Return numbers below 2^bits, spread evenly and different as long as there are any."""
    step = np.uint64(GOLDEN >> (64 - bits) | 1)
    found = words(seed, 1) + np.arange(count, dtype=np.uint64) * step
    return found & np.uint64(2**bits - 1)


def _distinct(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """Integers that differ as long as there are any, floats that are normal and differ likewise."""
    if dtype.kind != "f":
        number = _counted(dtype.itemsize * 8, count, seed)
        return number.astype(f"u{dtype.itemsize}").view(dtype)
    word = words(seed + 1, count)
    exponent = word // np.uint64(2) % np.uint64(_all_ones(dtype) - 1) + np.uint64(1)
    return _bits(dtype, word, exponent, _counted(np.finfo(dtype).nmant, count, seed))


def _nan(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """NaNs, quiet and signalling, of both signs and with payloads that differ."""
    payload = _counted(np.finfo(dtype).nmant, count, seed)
    payload[payload == 0] = 1  # none is infinity
    return _bits(dtype, words(seed + 1, count), _all_ones(dtype), payload)


def _subnormal(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """Subnormal numbers of both signs."""
    fraction = _counted(np.finfo(dtype).nmant, count, seed)
    fraction[fraction == 0] = 1
    return _bits(dtype, words(seed + 1, count), 0, fraction)


def _extremes(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """The ends of an integer type and zero; of floats infinities, zeros, largest and smallest."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        ends = [math.inf, -0.0, info.max, 0.0, -math.inf, info.min, info.smallest_normal]
    else:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        ends = [low, high, 0, high - 1, low + 1, high // 2 + 1]
    places = (np.arange(count) + seed % len(ends)) % len(ends)
    return np.array(ends, dtype)[places]


def _all_ones(dtype: np.dtype[Any]) -> int:
    """Return the exponent of infinities and NaNs."""
    return (1 << dtype.itemsize * 8 - 1 - np.finfo(dtype).nmant) - 1


DATA: dict[str, Callable[[np.dtype[Any], int, int], Array]] = {
    "distinct": _distinct,
    "nan": _nan,
    "subnormal": _subnormal,
    "extremes": _extremes,
}
"""Data of a type, by a word of the table."""


def _within(low: Array | int, high: Array | int, seed: int, count: int) -> Array:
    """Return integers of [low, high)."""
    span = np.broadcast_to(np.asarray(high - low, np.uint64), count)
    return (words(seed, count) % span).astype(np.int64) + low


def _forward(dtype: np.dtype[Any], sizes: Array, seed: int) -> Array:
    """Return indices in [0, n)."""
    return _within(0, sizes, seed, sizes.size).astype(dtype)


def _any(dtype: np.dtype[Any], sizes: Array, seed: int) -> Array:
    """Return indices in [0, n), for a signed type in [-n, n)."""
    low = -sizes if dtype.kind == "i" else 0
    return _within(low, sizes, seed, sizes.size).astype(dtype)


def _negative(dtype: np.dtype[Any], sizes: Array, seed: int) -> Array:
    """Return indices in [-n, 0)."""
    return _within(-sizes, 0, seed, sizes.size).astype(dtype)


def _edges(dtype: np.dtype[Any], sizes: Array, seed: int) -> Array:
    """Return 0, n - 1 and, for a signed type, -1 and -n by turns, each coordinate in its own."""
    ends = [0 * sizes, sizes - 1]
    if dtype.kind == "i":
        ends += [0 * sizes - 1, -sizes]
    turn = (np.arange(sizes.size) + words(seed, 1).astype(np.int64)) % len(ends)
    return np.choose(turn, ends).astype(dtype)


Outlier = Callable[[int, int, int], int]
"""An index out of range, of the size of its axis and the least and greatest of its type."""


def _with(outlier: Outlier) -> Callable[[np.dtype[Any], Array, int], Array]:
    """Return indices in range but for the first and about a third of the others."""

    def fill(dtype: np.dtype[Any], sizes: Array, seed: int) -> Array:
        found, limits = _any(dtype, sizes, seed), np.iinfo(dtype)
        chosen = words(seed + 1, sizes.size) % np.uint64(3) == 0
        chosen[0] = True
        for place in np.flatnonzero(chosen):
            found[place] = outlier(int(sizes[place]), int(limits.min), int(limits.max))
        return found

    return fill


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

INDICES: dict[str, Callable[[np.dtype[Any], Array, int], Array]] = {
    "forward": _forward,
    "any": _any,
    "negative": _negative,
    "edges": _edges,
    **{word: _with(outlier) for word, outlier in OUTLIERS.items()},
}
"""Indices of a type for axes of given sizes, by a word of the table."""


def takes(data_type: str, index_type: str, data: str, indices: str) -> bool:
    """Return whether types can hold values of these kinds."""
    limits = np.iinfo(np.dtype(index_type.lower()))
    if indices in OUTLIERS:
        value = OUTLIERS[indices](10, int(limits.min), int(limits.max))
        return limits.min <= value <= limits.max and not 0 <= value < 10
    floats = np.dtype(data_type.lower()).kind == "f"
    return (data not in ("nan", "subnormal") or floats) and (
        indices != "negative" or limits.min < 0
    )
