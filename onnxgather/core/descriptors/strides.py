"""Strides: how the elements of a tensor lie in its buffer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Span:
    """Adjacent dimensions that lie packed in one another, in each of some tensors."""

    first: int
    """The number of the first of the dimensions."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """The stride of the last of the dimensions in each tensor, in elements."""


def merge_packed(spans: Iterable[Span]) -> list[Span]:
    """The spans, those merged that lie packed in one another in all tensors.

    Spans of one element and spans without a stride are left out.
    """
    merged: list[Span] = []
    for span in spans:
        size = math.prod(span.sizes)
        if size == 1 or not any(span.strides):
            continue
        outer, steps = (
            merged[-1] if merged else None,
            tuple(size * s for s in span.strides),
        )
        if (
            outer
            and outer.first + len(outer.sizes) == span.first
            and outer.strides == steps
        ):
            merged[-1] = Span(outer.first, outer.sizes + span.sizes, span.strides)
        else:
            merged.append(span)
    return merged


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The row-major strides, in elements, of a tensor without gaps."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def in_order(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie row-major and without gaps; `strides` are in elements."""
    triples = zip(sizes, strides, packed_strides(sizes), strict=True)
    return all(size == 1 or stride == packed for size, stride, packed in triples)


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor have the same offset; `strides` are in elements.

    d[k] is the difference of the coordinates of two elements along dimension k. The
    elements have the same offset if sum(d[k] * strides[k]) == 0 for some d with |d[k]|
    < sizes[k], not all zero. The answer is exact. First each dimension keeps only those
    d[k] that the others can cancel: none in tensors that nest. The dimensions that are
    left are cut in two parts, and the sums of one part are looked for among those of
    the other, so that 2^32 elements take milliseconds.
    """
    dims = [(n, s) for n, s in zip(sizes, strides, strict=True) if n > 1]
    reach = sum((n - 1) * s for n, s in dims)
    if any(s == 0 for _, s in dims) or math.prod(n for n, _ in dims) > 1 + reach:
        return True  # an element that repeats, or more elements than offsets
    before = None
    while dims != before:
        before = dims.copy()
        for k, (size, stride) in enumerate(dims):
            others = dims[:k] + dims[k + 1 :]
            divisor = math.gcd(*(s for _, s in others))
            step = max(1, divisor // math.gcd(stride, divisor))
            reach = sum((n - 1) * s for n, s in others)
            most = min((size - 1) // step, reach // (stride * step))
            dims[k] = most + 1, stride * step
        dims = [(n, s) for n, s in dims if n > 1]
    if len(dims) < 3:
        return bool(dims)
    (size, stride), *rest = sorted(dims, reverse=True)
    parts: list[list[tuple[int, int]]] = [[], [(size, stride)]]
    for dim in rest:
        min(parts, key=lambda part: math.prod(n for n, _ in part)).append(dim)
    if len(parts[1]) == 1:
        sums = _sums(rest)
        return bool(((sums % stride == 0) & (sums < size * stride)).any())
    few, many = sorted(map(_sums, parts), key=len)
    seen = np.zeros(
        2**22, np.bool_
    )  # by their last bits, as it takes seconds to sort all
    seen[few % seen.size] = True
    likely = many[seen[many % seen.size]]
    return bool(np.isin(likely, few).any()) or not (few.all() and many.all())


def _sums(dims: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
    """The sums of d[k] * stride over all d but zero, up to their sign."""
    found = np.zeros(1, np.int64)
    for size, stride in dims:
        found = np.add.outer(found, np.arange(1 - size, size) * stride).ravel()
    return np.abs(found[: found.size // 2])
