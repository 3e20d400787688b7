"""Strides: how the elements of a tensor lie in its buffer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

_Dimension = tuple[int, int]
"""The size and the stride of a dimension."""

MOST_PLACES = 2**16
"""The most elements among which a message looks for two with the same offset."""


class Span(Struct, frozen=True):
    """Adjacent dimensions that lie packed in one another, in each of some tensors."""

    first: int
    """The number of the first of the dimensions."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """The stride of the last of the dimensions in each tensor, in elements."""


def merge_packed(spans: Iterable[Span]) -> list[Span]:
    """Return the spans, merged where they lie packed in one another in all tensors.

    Spans of a single element and spans without a stride are left out.
    """
    merged: list[Span] = []
    for span in spans:
        size = math.prod(span.sizes)
        if size == 1 or not any(span.strides):
            continue
        if merged:
            outer = merged[-1]
            adjoins = outer.first + len(outer.sizes) == span.first
            # A step of the outer span passes over all elements of this span.
            packed = tuple([size * stride for stride in span.strides])
            if adjoins and outer.strides == packed:
                both_sizes = outer.sizes + span.sizes
                merged[-1] = Span(outer.first, both_sizes, span.strides)
                continue
        merged.append(span)
    return merged


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides, in elements, of a tensor without gaps."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def without_ones(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return strides with 0 for each size of 1."""
    pairs = zip(sizes, strides, strict=True)
    return tuple([0 if size == 1 else stride for size, stride in pairs])


def in_order(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements lie row-major and without gaps.

    `strides` are in elements.
    """
    triples = zip(sizes, strides, packed_strides(sizes), strict=True)
    return all(size == 1 or stride == packed for size, stride, packed in triples)


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two elements of a tensor have the same offset.

    `strides` are in elements. d[k] is the difference of the coordinates of two elements
    along dimension k. The elements have the same offset if sum(d[k] * strides[k]) == 0
    for some d with |d[k]| < sizes[k], not all zero. The answer is exact.

    - First each dimension keeps only those d[k] that the others can cancel. In tensors
      whose dimensions nest, nothing is left.
    - The dimensions that are left are cut in two parts, and the sums of a part are
      looked for among those of the other. So 2^32 elements need milliseconds.
    """
    pairs = zip(sizes, strides, strict=True)
    dims = [(size, stride) for size, stride in pairs if size > 1]
    if any(stride == 0 for _, stride in dims):  # an element repeats
        return True
    offset_count = 1 + _reach(dims)
    if _element_count(dims) > offset_count:
        return True

    dims = _cancellable(dims)
    if len(dims) < 3:
        # Two dimensions that are left cancel each other; a single one is never left.
        return bool(dims)
    return _has_common_sum(dims)


def overlapping(sizes: Sequence[int], strides: Sequence[int]) -> str:
    """Return what a message says of two elements with the same offset.

    The text is empty if the tensor has too many elements to look for them.
    """
    if math.prod(sizes) > MOST_PLACES:
        return ""
    places = np.indices(sizes, np.int64).reshape(len(sizes), -1)
    offsets = np.array(strides, np.int64) @ places
    _, first, kinds = np.unique(offsets, return_index=True, return_inverse=True)
    first_of_each = first[kinds]
    second = int(np.argmax(first_of_each != np.arange(offsets.size)))
    element = places[:, second].tolist()
    other = places[:, first_of_each[second]].tolist()
    return f", which gives {other} and {element} the place {offsets[second]}"


def _reach(dims: Iterable[_Dimension]) -> int:
    """Return the largest offset of an element."""
    return sum((size - 1) * stride for size, stride in dims)


def _element_count(dims: Iterable[_Dimension]) -> int:
    return math.prod(size for size, _ in dims)


def _cancellable(dims: list[_Dimension]) -> list[_Dimension]:
    """Return dimensions with only those differences that the others can cancel.

    The differences of a dimension that is left are multiples of a step, so its stride
    grows by that step.
    """
    before = None
    while dims != before:
        before = dims.copy()
        for number, (size, stride) in enumerate(dims):
            others = dims[:number] + dims[number + 1 :]
            # The others' sums are multiples of this divisor, and at most their reach.
            divisor = math.gcd(*(other_stride for _, other_stride in others))
            step = max(1, divisor // math.gcd(stride, divisor))
            longest = _reach(others) // (stride * step)
            most = min((size - 1) // step, longest)
            dims[number] = (most + 1, stride * step)
        dims = [(size, stride) for size, stride in dims if size > 1]
    return dims


def _has_common_sum(dims: list[_Dimension]) -> bool:
    """Return whether the differences of three or more dimensions can sum to zero."""
    longest, *rest = sorted(dims, reverse=True)
    parts: list[list[_Dimension]] = [[], [longest]]
    for dim in rest:
        smaller = min(parts, key=_element_count)
        smaller.append(dim)

    # Case 1: the longest dimension is a part by itself. Its sums are the multiples of
    # its stride, so they need not be written out.
    if len(parts[1]) == 1:
        size, stride = longest
        sums = _sums(rest)
        cancelled = (sums % stride == 0) & (sums < size * stride)
        return bool(cancelled.any())

    # Case 2: both parts have several dimensions. It takes seconds to sort all sums, so
    # only those go on whose last bits are in both parts.
    few, many = sorted(map(_sums, parts), key=len)
    seen = np.zeros(2**22, np.bool_)
    seen[few % seen.size] = True
    likely = many[seen[many % seen.size]]
    if np.isin(likely, few).any():
        return True
    # A sum that is zero within a part needs no sum of the other part.
    return not (few.all() and many.all())


def _sums(dims: Sequence[_Dimension]) -> npt.NDArray[np.int64]:
    """Return the sums of d[k] * stride over all d but zero, up to their sign."""
    sums = np.zeros(1, np.int64)
    for size, stride in dims:
        steps = np.arange(1 - size, size) * stride
        sums = np.add.outer(sums, steps).ravel()
    # The second half has the same sums with the other sign; zero lies between the two.
    return np.abs(sums[: sums.size // 2])
