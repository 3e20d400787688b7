"""The ways to make a form smaller or plainer, big steps first.

A move yields candidates for one form; each is plainer in a way that no other move undoes, so
that taking them one after the other comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from onnxgather.arrays import Array
from onnxgather.repro.forms import STRIDES, Form, Layout, distinct, forbidden

Move = Callable[[Form], Iterator[Form]]

Tie = tuple[tuple[int, int], ...]
"""Dimensions that have one size: each the data's (0) or the indices' (1), and which."""

LARGEST = 2**24
"""Elements of a tensor from which a candidate is not even written out."""

EACH = 64
"""Elements up to which single ones are tried."""


def plainer_layout(form: Form) -> Iterator[Form]:
    """Drop leading ones, strides, padding, flags and alignment: all at once, then one by one."""
    plain = Layout()
    yield replace(form, spare=0, layouts=(plain, plain, plain))
    yield replace(form, layouts=(plain, plain, plain))
    for spare in sorted({0, form.spare // 2, form.spare - 1}):
        if 0 <= spare < form.spare:
            yield replace(form, spare=spare)
    for k, layout in enumerate(form.layouts):
        known = [None, *STRIDES]
        place = known.index(layout.strides) if layout.strides in known else len(known)
        strides = [layout._replace(strides=simpler) for simpler in known[:place]]
        fields = [{"extra": 0}, {"flags": plain.flags}, {"alignment": 0}]
        for other in [plain, *strides, *(layout._replace(**changed) for changed in fields)]:
            if other != layout:
                three = (*form.layouts[:k], other, *form.layouts[k + 1 :])
                yield replace(form, layouts=(three[0], three[1], three[2]))
    if form.operator == "GatherND" and form.batched:
        yield replace(form, batched=False)


def fewer_dimensions(form: Form) -> Iterator[Form]:
    """Keep one element along a dimension, and drop it; shorten the index tuples."""
    for tie in _ties(form):
        if not all(_array(form, which).shape[k] for which, k in tie):
            continue
        for end in (0, -1):
            dropped = form
            for which, k in tie:
                dropped = _with(dropped, which, _taken(_array(dropped, which), end, k))
            before = any(which == 0 and k < form.number for which, k in tie)
            yield replace(dropped, number=form.number - 1) if before else dropped
            if forbidden(form):
                yield dropped
    if form.operator == "GatherND" and form.tuple_size > 1 and not forbidden(form):
        for end in (0, -1):
            kept = form.indices[..., 1:] if end == 0 else form.indices[..., :-1]
            yield replace(form, data=_taken(form.data, 0, form.indexed[end]), indices=kept)


def smaller_sizes(form: Form) -> Iterator[Form]:
    """Keep a part along each dimension: all at once, then one by one."""
    for divisor in (LARGEST, 2):
        shrunk = form
        for tie in _ties(form):
            shrunk = _sliced(shrunk, tie, slice(0, -(-_size(form, tie) // divisor)))
        yield shrunk
    for tie in _ties(form):
        n = _size(form, tie)
        for start, stop in ((0, 1), (n - 1, n), (0, n // 2), (n // 2, n), (0, n - 1), (1, n)):
            if 0 < stop - start < n:
                yield _sliced(form, tie, slice(start, stop))


def shorter_axes(form: Form) -> Iterator[Form]:
    """Shorten what is indexed, and bring the indices along."""
    if forbidden(form):
        return
    for place, k in enumerate(form.indexed):
        n = form.data.shape[k]
        for m in sorted({1, 2, 3, 4, 8, n // 4, n // 2, n - 1}):
            if not 0 < m < n:
                continue
            for move, part in product((_clipped, _wrapped), (slice(0, m), slice(n - m, n))):
                data = form.data[(slice(None),) * k + (part,)]
                indices = form.indices.copy()
                column = indices[..., place] if form.operator == "GatherND" else indices
                column[...] = move(column, n, m)
                yield replace(form, data=data, indices=indices)


def plainer_types(form: Form) -> Iterator[Form]:
    """Take the plainest data types: FLOAT32 data and INT64 indices."""
    if form.data.dtype != np.float32 and form.data.size <= LARGEST:
        yield replace(form, data=distinct(form.data.shape).astype(np.float32))
    if form.indices.dtype == np.uint64 and (form.indices >= 2**63).any():
        return
    if form.indices.dtype != np.int64:
        yield replace(form, indices=form.indices.astype(np.int64))


def plainer_indices(form: Form) -> Iterator[Form]:
    """Bring the indices towards 0 and into range: all, then parts, then one by one."""
    sizes = _axis_sizes(form)
    oddness = _oddness(form.indices, sizes)
    flat = form.indices.reshape(-1)
    odd = oddness.reshape(-1)
    if (oddness >= 2 * sizes).any():
        yield replace(form, indices=_clipped(form.indices, sizes, sizes, outside=False))
    for start, stop in _chunks(flat.size):
        if odd[start:stop].any():
            indices = flat.copy()
            indices[start:stop] = 0
            yield replace(form, indices=indices.reshape(form.indices.shape))
    if flat.size > EACH:
        return
    limits = np.iinfo(flat.dtype)
    per_index = np.broadcast_to(sizes, form.indices.shape).reshape(-1)
    for place, (value, n) in enumerate(zip(flat.tolist(), per_index.tolist(), strict=True)):
        for other in (0, 1, -1, n, -n - 1, (n + value) // 2, (value - n) // 2, value - 1):
            if limits.min <= other <= limits.max and _odd(other, n) < _odd(value, n):
                indices = flat.copy()
                indices[place] = other
                yield replace(form, indices=indices.reshape(form.indices.shape))


def plainer_data(form: Form) -> Iterator[Form]:
    """Make the data small whole numbers, all different: all, then parts, then one by one."""
    if form.data.size > LARGEST:
        return
    flat = np.ascontiguousarray(form.data).reshape(-1)
    plain = distinct(flat.shape).astype(flat.dtype)
    for start, stop in _chunks(flat.size):
        if flat[start:stop].tobytes() != plain[start:stop].tobytes():
            data = flat.copy()
            data[start:stop] = plain[start:stop]
            yield replace(form, data=data.reshape(form.data.shape))


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


def _ties(form: Form) -> list[Tie]:
    """Return the dimensions that may be cut without changing what an index means."""
    data, indices, number = form.data.ndim, form.indices.ndim, form.number
    if forbidden(form):  # what is tied is what it breaks
        pairs = zip(range(data), range(indices), strict=False)
        both: list[Tie] = [((0, k), (1, j)) for k, j in pairs]
        return [*both, *(((0, k),) for k in range(data)), *(((1, j),) for j in range(indices))]
    indexed = form.indexed
    if form.operator == "GatherElements":
        tied: list[Tie] = [((0, k), (1, k)) for k in range(data) if k != number]
        return [*tied, ((1, number),)] if indices else tied
    if form.operator == "Gather":
        return [
            *(((0, k),) for k in range(data) if k not in indexed),
            *(((1, j),) for j in range(indices)),
        ]
    return [
        *(((0, k), (1, k)) for k in range(number)),
        *(((1, j),) for j in range(number, indices - 1)),
        *(((0, k),) for k in range(indexed.stop, data)),
    ]


def _array(form: Form, which: int) -> Array:
    return form.indices if which else form.data


def _taken(array: Array, place: int, k: int) -> Array:
    """Return what stands at a place along a dimension, without a copy."""
    return array[(slice(None),) * k + (place, ...)]


def _with(form: Form, which: int, array: Array) -> Form:
    return replace(form, indices=array) if which else replace(form, data=array)


def _size(form: Form, tie: Tie) -> int:
    return max(_array(form, which).shape[k] for which, k in tie)


def _sliced(form: Form, tie: Tie, part: slice) -> Form:
    for which, k in tie:
        array = _array(form, which)[(slice(None),) * k + (part,)]
        form = _with(form, which, array)
    return form


def _axis_sizes(form: Form) -> Array:
    """Return the size that each index counts along, one per coordinate of a tuple."""
    if forbidden(form):
        return np.array(max((1, *form.data.shape)))
    if form.operator != "GatherND":
        return np.array(form.data.shape[form.number])
    return np.array([form.data.shape[k] for k in form.indexed])


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
