"""The ways to make a candidate smaller or plainer, big steps first.

A move yields candidates for one candidate; each is plainer in a way that no other move undoes, so
that taking them one after the other comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from onnxgather.arrays import Array
from onnxgather.layouts import PACKED, Layout
from onnxgather.repro.candidates import Candidate, distinct

Move = Callable[[Candidate], Iterator[Candidate]]

Tie = tuple[tuple[int, int], ...]
"""Dimensions that have one size: each the data's (0) or the indices' (1), and which."""

LARGEST = 2**24
"""Elements of a tensor from which a candidate is not even written out."""

PLAIN_STRIDES = ("written-out", "permuted", "spaced", "repeated")
"""Strides that follow from the sizes, the plainest first."""

EACH = 64
"""Elements up to which single ones are tried."""


def plainer_layout(old: Candidate) -> Iterator[Candidate]:
    """Drop leading ones, strides, padding, flags and alignment: all at once, then one by one."""
    plain = Layout()
    yield replace(old, spare=0, layouts=PACKED)
    yield replace(old, layouts=PACKED)
    for spare in sorted({0, old.spare // 2, old.spare - 1}):
        if 0 <= spare < old.spare:
            yield replace(old, spare=spare)
    for k, layout in enumerate(old.layouts):
        known = [None, *PLAIN_STRIDES]
        place = known.index(layout.strides) if layout.strides in known else len(known)
        strides = [layout._replace(strides=simpler) for simpler in known[:place]]
        fields = [{"extra": 0}, {"flags": plain.flags}, {"alignment": 0}]
        for other in [plain, *strides, *(layout._replace(**changed) for changed in fields)]:
            if other != layout:
                three = (*old.layouts[:k], other, *old.layouts[k + 1 :])
                yield replace(old, layouts=(three[0], three[1], three[2]))
    if old.operator == "GATHER_ND1" and not old.number:
        yield replace(old, operator="GATHER_ND")


def fewer_dimensions(old: Candidate) -> Iterator[Candidate]:
    """Keep one element along a dimension, and drop it; shorten the index tuples."""
    for tie in _ties(old):
        if not all(_array(old, which).shape[k] for which, k in tie):
            continue
        for end in (0, -1):
            dropped = old
            for which, k in tie:
                dropped = _with(dropped, which, _taken(_array(dropped, which), end, k))
            before = any(which == 0 and k < old.number for which, k in tie)
            yield replace(dropped, number=old.number - 1) if before else dropped
            if old.gather.broken_rule():
                yield dropped
    if old.gather.has_tuples and old.gather.tuple_size > 1 and not old.gather.broken_rule():
        for end in (0, -1):
            kept = old.indices[..., 1:] if end == 0 else old.indices[..., :-1]
            yield replace(old, data=_taken(old.data, 0, _indexed(old)[end]), indices=kept)


def smaller_sizes(old: Candidate) -> Iterator[Candidate]:
    """Keep a part along each dimension: all at once, then one by one."""
    for divisor in (LARGEST, 2):
        shrunk = old
        for tie in _ties(old):
            shrunk = _sliced(shrunk, tie, slice(0, -(-_size(old, tie) // divisor)))
        yield shrunk
    for tie in _ties(old):
        n = _size(old, tie)
        for start, stop in ((0, 1), (n - 1, n), (0, n // 2), (n // 2, n), (0, n - 1), (1, n)):
            if 0 < stop - start < n:
                yield _sliced(old, tie, slice(start, stop))


def shorter_axes(old: Candidate) -> Iterator[Candidate]:
    """Shorten what is indexed, and bring the indices along."""
    if old.gather.broken_rule():
        return
    for place, k in enumerate(_indexed(old)):
        n = old.data.shape[k]
        for m in sorted({1, 2, 3, 4, 8, n // 4, n // 2, n - 1}):
            if not 0 < m < n:
                continue
            for move, part in product((_clipped, _wrapped), (slice(0, m), slice(n - m, n))):
                data = old.data[(slice(None),) * k + (part,)]
                indices = old.indices.copy()
                column = indices[..., place] if old.gather.has_tuples else indices
                column[...] = move(column, n, m)
                yield replace(old, data=data, indices=indices)


def plainer_types(old: Candidate) -> Iterator[Candidate]:
    """Take the plainest data types: FLOAT32 data and INT64 indices."""
    if old.data.dtype != np.float32 and old.data.size <= LARGEST:
        yield replace(old, data=distinct(old.data.shape).astype(np.float32))
    if old.indices.dtype == np.uint64 and (old.indices >= 2**63).any():
        return
    if old.indices.dtype != np.int64:
        yield replace(old, indices=old.indices.astype(np.int64))


def plainer_indices(old: Candidate) -> Iterator[Candidate]:
    """Bring the indices towards 0 and into range: all, then parts, then one by one."""
    sizes = _axis_sizes(old)
    oddness = _oddness(old.indices, sizes)
    flat = old.indices.reshape(-1)
    odd = oddness.reshape(-1)
    if (oddness >= 2 * sizes).any():
        yield replace(old, indices=_clipped(old.indices, sizes, sizes, outside=False))
    for start, stop in _chunks(flat.size):
        if odd[start:stop].any():
            indices = flat.copy()
            indices[start:stop] = 0
            yield replace(old, indices=indices.reshape(old.indices.shape))
    if flat.size > EACH:
        return
    limits = np.iinfo(flat.dtype)
    per_index = np.broadcast_to(sizes, old.indices.shape).reshape(-1)
    for place, (value, n) in enumerate(zip(flat.tolist(), per_index.tolist(), strict=True)):
        for other in (0, 1, -1, n, -n - 1, (n + value) // 2, (value - n) // 2, value - 1):
            if limits.min <= other <= limits.max and _odd(other, n) < _odd(value, n):
                indices = flat.copy()
                indices[place] = other
                yield replace(old, indices=indices.reshape(old.indices.shape))


def plainer_data(old: Candidate) -> Iterator[Candidate]:
    """Make the data small whole numbers, all different: all, then parts, then one by one."""
    if old.data.size > LARGEST:
        return
    flat = np.ascontiguousarray(old.data).reshape(-1)
    plain = distinct(flat.shape).astype(flat.dtype)
    for start, stop in _chunks(flat.size):
        if flat[start:stop].tobytes() != plain[start:stop].tobytes():
            data = flat.copy()
            data[start:stop] = plain[start:stop]
            yield replace(old, data=data.reshape(old.data.shape))


MOVES: Sequence[Move] = (
    plainer_layout,
    fewer_dimensions,
    smaller_sizes,
    shorter_axes,
    plainer_types,
    plainer_indices,
    plainer_data,
)
"""In the order in which each is taken as far as it goes."""


def _ties(old: Candidate) -> list[Tie]:
    """Return the dimensions that may be cut without changing what an index means."""
    data, indices, number = old.data.ndim, old.indices.ndim, old.number
    if old.gather.broken_rule():  # what is tied is what it breaks
        pairs = zip(range(data), range(indices), strict=False)
        both: list[Tie] = [((0, k), (1, j)) for k, j in pairs]
        return [*both, *(((0, k),) for k in range(data)), *(((1, j),) for j in range(indices))]
    indexed = _indexed(old)
    if old.operator == "GATHER_ELEMENTS":
        tied: list[Tie] = [((0, k), (1, k)) for k in range(data) if k != number]
        return [*tied, ((1, number),)] if indices else tied
    if old.operator == "GATHER":
        return [
            *(((0, k),) for k in range(data) if k not in indexed),
            *(((1, j),) for j in range(indices)),
        ]
    return [
        *(((0, k), (1, k)) for k in range(number)),
        *(((1, j),) for j in range(number, indices - 1)),
        *(((0, k),) for k in range(indexed.stop, data)),
    ]


def _indexed(old: Candidate) -> range:
    """The dimensions of the data that are indexed."""
    return range(old.number, old.number + old.gather.tuple_size)


def _array(old: Candidate, which: int) -> Array:
    return old.indices if which else old.data


def _taken(array: Array, place: int, k: int) -> Array:
    """Return what stands at a place along a dimension, without a copy."""
    return array[(slice(None),) * k + (place, ...)]


def _with(old: Candidate, which: int, array: Array) -> Candidate:
    return replace(old, indices=array) if which else replace(old, data=array)


def _size(old: Candidate, tie: Tie) -> int:
    return max(_array(old, which).shape[k] for which, k in tie)


def _sliced(old: Candidate, tie: Tie, part: slice) -> Candidate:
    for which, k in tie:
        array = _array(old, which)[(slice(None),) * k + (part,)]
        old = _with(old, which, array)
    return old


def _axis_sizes(old: Candidate) -> Array:
    """Return the size that each index counts along, one per coordinate of a tuple."""
    if old.gather.broken_rule():
        return np.array(max((1, *old.data.shape)))
    if not old.gather.has_tuples:
        return np.array(old.data.shape[old.number])
    return np.array(old.gather.axes)


def _clipped(indices: Array, n: int | Array, m: int | Array, *, outside: bool = True) -> Array:
    """Return indices of an axis of n for one of m: clamped; those outside stay outside."""
    wide, low = _wide(indices, n)
    inside = np.clip(wide, low(m), _as(wide, m) - 1)
    return (_moved(wide, n, m, low, inside) if outside else inside).astype(indices.dtype)


def _wrapped(indices: Array, n: int, m: int) -> Array:
    """Return indices of an axis of n for one of m: modulo m; those outside stay outside."""
    wide, low = _wide(indices, n)
    inside = wide % _as(wide, m)
    if wide.dtype.kind == "i":
        inside = np.where(wide < 0, -1 - (-1 - wide) % m, inside)
    return _moved(wide, n, m, low, inside).astype(indices.dtype)


def _wide(indices: Array, n: int | Array) -> tuple[Array, Callable[[int | Array], Array]]:
    """Return indices in 64 bits, and what the lowest index of an axis is."""
    wide = indices.astype(np.uint64 if indices.dtype.kind == "u" else np.int64)
    return wide, lambda size: _as(wide, size) * (0 if wide.dtype.kind == "u" else -1)


def _as(wide: Array, size: int | Array) -> Array:
    return np.asarray(size, wide.dtype)


def _moved(
    wide: Array, n: int | Array, m: int | Array, low: Callable[[int | Array], Array], inside: Array
) -> Array:
    shorter = _as(wide, n) - _as(wide, m)
    above = np.where(wide >= _as(wide, n), wide - shorter, inside)
    return np.where(wide < low(n), wide + shorter, above)


def _odd(index: int, n: int) -> int:
    """Return how far an index is from the plainest, 0: up, then negative, then out of range."""
    if 0 <= index < n:
        return index
    if index >= n:
        return 2 * n + (index - n)
    return (n if index >= -n else 2 * n) - 1 - index


def _oddness(indices: Array, sizes: Array) -> Array:
    """Return the same of many indices, in FLOAT64; only whether it is 0 or passes 2n matters."""
    value, n = indices.astype(np.float64), sizes.astype(np.float64)
    below = np.where(value >= -n, n, 2 * n) - 1 - value
    return np.where(value < 0, below, np.where(value >= n, n + value, value))


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """Yield parts of so many elements: all, halves, quarters, …, single ones of a few."""
    size = count
    while size and (count <= EACH or size * 16 >= count):
        for start in range(0, count, size):
            yield start, min(start + size, count)
        size = (size + 1) // 2 if size > 1 else 0
