"""What the descriptors' rules are made of: checks that name the value found, and stride facts."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

from onnxgather.errors import DescriptorError

MAX_DIMENSIONS = 8
"""`DML_TENSOR_DIMENSION_COUNT_MAX1`."""

MAX_ELEMENTS = 2**32 - 1
"""Most elements of a buffer tensor; also the largest UINT."""

LONGEST_SHOWN = 200
"""Characters of a value that a message shows."""


def require(holds: bool, rule: str, found: object) -> None:
    """Raise DescriptorError with the rule and the value found unless the rule holds."""
    if not holds:
        raise DescriptorError(f"{rule}, got {found}")


def shown(value: object) -> str:
    """Return a value as a message shows it: its repr, cut where that is long."""
    try:
        text = repr(value)
    except Exception:  # Python does not print integers of thousands of digits, for one
        return f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def uint(name: str, value: object, largest: int = MAX_ELEMENTS) -> int:
    """Return `value` as an unsigned integer up to `largest`; bools and floats are not integers."""
    number = value if type(value) is int else integer(value)
    if number is None or not 0 <= number <= largest:
        rule = f"{name} must be an integer from 0 to {largest}"
        raise DescriptorError(f"{rule}, got {shown(value)}")
    return number


def integer(value: object) -> int | None:
    """Return `value` as an integer, numpy's included; None for what is none, a bool for one."""
    try:
        return None if isinstance(value, bool) else operator.index(cast("SupportsIndex", value))
    except Exception:
        return None


def sequence(name: str, value: object) -> list[Any]:
    """Return `value` as a list; text and things that are not sequences are refused."""
    unordered = isinstance(value, str | bytes | dict | set)
    try:
        items = None if unordered else list(cast("Sequence[object]", value))
    except Exception:
        items = None
    if items is None:
        raise DescriptorError(f"{name} must be a sequence, got {shown(value)}")
    return items


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides, in elements, of a tensor without gaps."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))


def in_order(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether elements lie row-major and without gaps."""
    triples = zip(sizes, strides, packed_strides(sizes), strict=True)
    return all(size == 1 or stride == packed for size, stride, packed in triples)


def overlaps(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether two elements share a place.

    They do if some d, not all zero, with |d[k]| < sizes[k] has sum(d[k] * strides[k]) == 0. The
    search is exact: it takes the strides from the largest down, and what remains must be within
    reach of the smaller ones and divisible by their greatest common divisor, which leaves next to
    nothing to try for strides that nest.
    """
    dims = sorted(((s, n) for n, s in zip(sizes, strides, strict=True) if n > 1), reverse=True)
    if not dims or dims[-1][0] == 0:
        return bool(dims)
    if math.prod(n for _, n in dims) > 1 + sum(s * (n - 1) for s, n in dims):
        return True  # more elements than places
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
