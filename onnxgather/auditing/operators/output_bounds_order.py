"""The bounds of operators that order values, compare them and choose between them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    Bounds,
    bounds_of_array,
    greatest,
    hull,
    interval,
    is_ordered,
    joined,
    least,
    ordered,
)
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds_table import BoundsTable
from onnxgather.core.descriptors.arrays import Array

ORDER_BOUNDS = BoundsTable()

LOW_HALF = 2**32 - 1
"""The bits of an INT64 whose order is not sure (`quirks.LOW_HALVES_AS_SIGNED`)."""

# The largest and the smallest.


@ORDER_BOUNDS.computes("Max", "Min", "And", "Or", broadcasts=True)
def _extreme(call: Call) -> Bounds | None:
    values = call.given
    is_open = any(value.closed is not value for value in values)
    shapes = [value.bounds.shape for value in values]
    count = math.prod(np.broadcast_shapes(*shapes))
    # The extreme of open sizes is a symbol for each element: few are kept.
    if is_open and count > 2 * COLUMNS:
        values = [replace(value, bounds=value.whole) for value in values]
    is_largest = call.operator in ("Max", "Or")
    low, high = _extreme_of(is_largest, *values)
    return call.elementwise(low, high)


def _extreme_of(is_largest: bool, *values: Bounds) -> tuple[Array, Array]:
    """Return the bounds of the largest or of the smallest of values.

    Where a value may be NaN, the bounds hold any of the values.
    """
    lowest = least(*(value.low for value in values))
    highest = greatest(*(value.high for value in values))
    if any(value.nan for value in values):
        return lowest, highest
    if not is_ordered(*values):
        values = tuple(value.closed for value in values)
    is_alike = ordered(*values)
    # Where providers do not order alike, the low half of an INT64 may be any.
    if is_largest:
        low = greatest(*(value.low for value in values))
        if not is_alike.all():
            rounded_low = greatest(lowest, low & ~LOW_HALF)
            low = np.where(is_alike, low, rounded_low)
        return low, highest
    high = least(*(value.high for value in values))
    if not is_alike.all():
        rounded_high = least(highest, high | LOW_HALF)
        high = np.where(is_alike, high, rounded_high)
    return lowest, high


@ORDER_BOUNDS.computes("Clip")
def _clipped(call: Call) -> Bounds | None:
    x = call.x
    smallest = _clip_limit(call, "min", 1)
    largest = _clip_limit(call, "max", 2)
    for limit in (smallest, largest):
        if limit is not None and limit.nan:
            return None
    # A limit of floats that is left out is the greatest finite number, or none.
    if x.data_type in FLOATS:
        finite = np.finfo(FLOATS[x.data_type]).max
        if smallest is None:
            smallest = interval(x.data_type, (), -np.inf, -finite)
        if largest is None:
            largest = interval(x.data_type, (), finite, np.inf)
    # Case 1: the result is between the two limits, whatever is clipped.
    if smallest and largest and _lies_between(x, smallest, largest):
        low = least(smallest.low, largest.low)
        high = greatest(smallest.high, largest.high)
        return call.elementwise(low, high)
    # Case 2: the result is `x` or a limit.
    if smallest is not None:
        low, high = _extreme_of(True, x, smallest)
        x = interval(x.data_type, x.sizes, low, high, x.nan)
    if largest is None:
        return call.elementwise(x.low, x.high)
    low, high = _extreme_of(False, x, largest)
    return call.elementwise(low, high)


def _clip_limit(call: Call, name: str, position: int) -> Bounds | None:
    """Return a limit of a Clip: an attribute before opset 11, an input since."""
    if name not in call.attributes:
        return call.has(position)
    data_type = call.x.data_type
    dtype = FLOATS.get(data_type)
    number = np.asarray(call.attributes[name], dtype)
    return bounds_of_array(data_type, number)


def _lies_between(x: Bounds, smallest: Bounds, largest: Bounds) -> bool:
    """Return whether a Clip leaves only numbers between its limits, which are ordered.

    A NaN becomes a limit, or stays NaN. An INT64 that providers order in two ways is
    clipped to the limits in both, if these are no negative numbers.
    """
    if x.nan:
        return True
    if not smallest.whole[0] >= 0:
        return False
    return is_ordered(smallest, largest) and not is_ordered(x)


# Comparisons, and what follows from them.


COMPARISONS: dict[str, tuple[bool, Callable[[Any, Any], Any]]] = {
    "Less": (False, operator.lt),
    "LessOrEqual": (False, operator.le),
    "Greater": (True, operator.lt),
    "GreaterOrEqual": (True, operator.le),
}
"""For each operator, whether its inputs are turned around, and what then compares
them."""


@ORDER_BOUNDS.computes(*COMPARISONS, "Equal", broadcasts=True)
def _comparison(call: Call) -> Bounds:
    a = call.x
    b = call.of(1)
    # Case 1: NaN, or integers that providers do not order alike: nothing is sure.
    is_equality = call.operator == "Equal"
    if a.nan or b.nan or not (is_equality or is_ordered(a, b)):
        return call.value(False, True)
    # Case 2: equal numbers.
    if is_equality:
        both_exact = (a.low == a.high) & (b.low == b.high)
        surely = both_exact & (a.low == b.low)
        never = (a.high < b.low) | (b.high < a.low)
        return call.value(surely, ~never)
    # Case 3: a smaller number, perhaps after the operands change places.
    is_turned, compare = COMPARISONS[call.operator]
    if is_turned:
        a, b = b, a
    opposite = operator.lt if compare is operator.le else operator.le
    surely = compare(a.high, b.low)
    never = opposite(b.high, a.low)
    return call.value(surely, ~never)


def where_compared(
    name: str, holds: bool, a: Bounds, b: Bounds
) -> tuple[Bounds, Bounds]:
    """Return the operands of a comparison where it is true, or where it is false."""
    if name == "Equal":
        narrowed = met if holds else _apart_from
        return narrowed(a, b), narrowed(b, a)
    if not is_ordered(a, b):
        return a, b
    # A comparison with NaN is false, which says nothing of the order.
    if not holds and (a.nan or b.nan):
        return a, b
    is_turned, compare = COMPARISONS[name]
    is_strict = (compare is operator.lt) is holds
    if is_turned is holds:
        b, a = limited_below(b, a, is_strict)
    else:
        a, b = limited_below(a, b, is_strict)
    return a, b


def limited_below(a: Bounds, b: Bounds, strictly: bool) -> tuple[Bounds, Bounds]:
    """Return two values of which the first is smaller, or not larger."""
    gap = 1 if strictly and a.data_type in INTEGERS else 0
    high_of_b = _beside(b, a)[..., 1:]
    low_of_a = _beside(a, b)[..., :1]
    high = least(a.high, high_of_b - gap)
    low = greatest(b.low, low_of_a + gap)
    smaller = _with_ends(a, a.low, high)
    larger = _with_ends(b, low, b.high)
    return smaller, larger


def _beside(x: Bounds, other: Bounds) -> Array:
    """Return the bounds of `x` at each element of another value.

    Where the elements are many, the bounds are those of all elements of `x`.
    """
    count = max(x.bounds.size, other.bounds.size)
    if count > 2 * COLUMNS:
        return x.whole
    more_axes = x.bounds.ndim - other.bounds.ndim
    shape = x.bounds.shape[max(more_axes, 0) :]
    return hull(x.bounds, range(more_axes)).reshape(shape)


def met(a: Bounds, b: Bounds) -> Bounds:
    """Return the first value where it equals an element of the second."""
    lowest = b.whole[:1]
    highest = b.whole[1:]
    low = greatest(a.low, lowest)
    high = least(a.high, highest)
    return _with_ends(a, low, high)


def _apart_from(a: Bounds, b: Bounds) -> Bounds:
    """Return the first value where it does not equal the second.

    A single integer at an end of the first value is then no element of it.
    """
    number, highest = b.whole
    if b.nan or number != highest or a.data_type not in INTEGERS:
        return a
    low = np.where(a.low == number, a.low + 1, a.low)
    high = np.where(a.high == number, a.high - 1, a.high)
    return _with_ends(a, low, high)


def in_both(a: Bounds, b: Bounds) -> Bounds:
    """Return a value that is within two bounds.

    It is no NaN if one of the two excludes NaN.
    """
    met_ends = met(a, b)
    return replace(met_ends, nan=a.nan and b.nan)


def _with_ends(x: Bounds, low: Array, high: Array) -> Bounds:
    """Return a value that is no NaN, between other ends."""
    is_wrapped = x.cast is not x
    return interval(
        x.data_type, x.sizes, low, high, is_wrapped, why=x.why, stops=x.stops
    )


# A choice for each element.


@ORDER_BOUNDS.computes("Where", quiet=True, broadcasts=True)
def _where(call: Call) -> Bounds:
    condition = call.x
    a = call.of(1)
    b = call.of(2)
    surely = condition.low == 1
    never = condition.high == 0
    low = least(a.low, b.low)
    low = np.where(never, b.low, low)
    low = np.where(surely, a.low, low)
    high = greatest(a.high, b.high)
    high = np.where(never, b.high, high)
    high = np.where(surely, a.high, high)
    # NaN and reasons come from the values of which any element is chosen.
    chosen: list[Bounds] = []
    if not never.all():
        chosen.append(a)
    if not surely.all():
        chosen.append(b)
    source = joined(chosen)
    return call.value(low, high, source.nan, why=source.why, stops=source.stops)
