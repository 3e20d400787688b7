"""Strides: how the elements of a tensor lie in its buffer."""

from __future__ import annotations

import math
from collections.abc import Sequence


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

    d[k] is the difference of the coordinates of two elements along dimension k. The elements have
    the same offset if sum(d[k] * strides[k]) == 0 for some d with |d[k]| < sizes[k], not all zero.
    The search for d is exact. It takes the strides from the largest down. The sum so far must be
    within reach of the smaller strides and divisible by their greatest common divisor. Strides
    that nest leave next to nothing to try.
    """
    dims = sorted(((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1), reverse=True)
    if not dims or dims[-1][0] == 0:
        return bool(dims)
    if math.prod(n for _, n in dims) > 1 + sum(s * (n - 1) for s, n in dims):
        return True  # more elements than offsets
    reach = [sum(s * (n - 1) for s, n in dims[k:]) for k in range(len(dims) + 1)]
    divisor = [math.gcd(*(s for s, _ in dims[k:])) for k in range(len(dims))] + [0]

    def search(k: int, total: int, moved: bool) -> bool:
        if k == len(dims):
            return moved and total == 0
        stride, size = dims[k]
        low = max(1 - size if moved else 0, -((total + reach[k + 1]) // stride))
        high = min(size - 1, (reach[k + 1] - total) // stride)
        for d in range(low, high + 1):
            rest = total + d * stride
            if rest % divisor[k + 1] if divisor[k + 1] else rest:
                continue
            if search(k + 1, rest, moved or d != 0):
                return True
        return False

    return search(0, 0, False)
