"""The bounds of positions on axes, of sizes, and of reductions along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    ELEMENTS,
    FLOATS,
    INTEGERS,
    LIMITS,
    Bounds,
    Reason,
    elements_of,
    greatest,
    hull,
    interval,
    least,
)
from onnxgather.auditing.algebra.sizes import MOST, AnySize, high_of
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds_table import (
    EXACT,
    LARGEST_SIZE,
    BoundsTable,
)
from onnxgather.core.descriptors.arrays import Array

AXIS_BOUNDS = BoundsTable()

COLUMNS_SUMMED = 2**12
"""The most positions on an axis of which a CumSum has bounds for each."""

# Positions, which the size of an axis bounds.


def _last_position(size: AnySize | None) -> AnySize:
    if size is None:
        return MOST
    if isinstance(size, int):
        return max(size - 1, 0)
    return size - 1


def _positions(call: Call, axis: int, output: int = 0) -> Bounds:
    """Return the bounds of positions on an axis of the first input."""
    size = call.x.sizes[axis] if call.x.sizes else None
    reason = call.operator
    if isinstance(size, int):
        reason = f"{call.operator} over axis of {size}"
    last = _last_position(size)
    return call.value(0, last, k=output, why=(Reason(reason),))


@AXIS_BOUNDS.computes("ArgMax", "ArgMin", of_sizes=True)
def _arg_extreme(call: Call) -> Bounds | None:
    return _positions(call, call.axis(0))


@AXIS_BOUNDS.computes("TopK")
def _top_k(call: Call) -> Sequence[Bounds]:
    values = call.selected(call.x.whole)
    return values, _positions(call, call.axis(-1), 1)


@AXIS_BOUNDS.computes("NonZero", closed=True)
def _non_zero(call: Call) -> Bounds | None:
    x = call.x
    is_there = (x.low > 0) | (x.high < 0)
    every = x.full
    # Case 1: it is known which elements are not 0.
    if every is not None and (x.is_exact or is_there.all()):
        mask = np.atleast_1d(every.any(axis=-1))
        rows = np.array(np.nonzero(mask), np.int64)
        positions = rows[..., None]
        return interval("INT64", rows.shape, positions, positions)
    # Case 2: a row for each axis.
    sizes = (None,) if x.sizes is None else x.sizes
    if not sizes:  # a scalar has one row, of the position 0
        sizes = (1,)
    lasts = [_last_position(size) for size in sizes]
    high = np.array(lasts, object).reshape(-1, 1, 1)
    shown = ["?" if size is None else str(size) for size in sizes]
    why = f"NonZero over axes of {', '.join(shown)}"
    return call.value(0 * high, high, why=(Reason(why),))


@AXIS_BOUNDS.computes("NonMaxSuppression", of_sizes=True)
def _non_max_suppression(call: Call) -> Bounds:
    boxes = call.of(0).sizes or (None,) * 3
    scores = call.of(1).sizes or (None,) * 3
    batches, classes = scores[:2]
    box_count = boxes[1]
    columns = [_last_position(size) for size in (batches, classes, box_count)]
    high = np.array(columns, object).reshape(1, 3, 1)
    why = f"NonMaxSuppression of {'?' if box_count is None else box_count} boxes"
    return call.value(0, high, why=(Reason(why),))


# Sizes, and numbers that are counted up or down.


@AXIS_BOUNDS.computes("Shape", "Size", of_sizes=True)
def _shape(call: Call) -> Bounds | None:
    sizes = call.x.sizes
    if call.operator == "Size":
        sizes = (elements_of(sizes),)
    elif sizes is None:
        return call.value(0, LARGEST_SIZE)
    else:
        start = call.attributes.get("start", 0)
        end = call.attributes.get("end", len(sizes))
        sizes = sizes[start:end]
    ends: list[tuple[AnySize, AnySize]] = []
    for size in sizes:
        if size is None:
            ends.append((0, LARGEST_SIZE))
        else:
            ends.append((size, size))
    bounds = np.array(ends, object).reshape(-1, 2)
    return call.value(bounds[:, :1], bounds[:, 1:])


@AXIS_BOUNDS.computes("Range")
def _range(call: Call) -> Bounds | None:
    start = call.of(0)
    limit = call.of(1)
    delta = call.of(2)
    # `quirks.RANGE_IN_TYPE`
    _, highest = INTEGERS.get(start.data_type, (0, 0))
    countable = min(highest, EXACT) // 2
    if countable == 0:
        return None
    for value in (start, limit):
        if abs(value.closed.bounds).max() > countable:
            return None
    # Case 1: the numbers themselves are known.
    operands = (start, limit, delta)
    if all(value.is_exact and value.closed is value for value in operands):
        numbers = range(*(int(value.whole[0]) for value in operands))
        if len(numbers) <= ELEMENTS:
            array = np.array(numbers, object)[:, None]
            return interval(start.data_type, (len(numbers),), array, array)
    # Case 2: it is known whether they go up or down.
    lowest_delta, highest_delta = delta.whole
    if lowest_delta > 0:
        low = start.whole[0]
        high = limit.whole[1] - 1
        return call.value(low, high)
    if highest_delta < 0:
        low = limit.whole[0] + 1
        high = start.whole[1]
        return call.value(low, high)
    return None


# Reductions along axes.


@AXIS_BOUNDS.computes("ReduceSum", "ReduceMax", "ReduceMin")
def _reduced(call: Call) -> Bounds | None:
    x = call.x
    axes = call.option("axes", 1, [])
    if x.sizes is None or axes is None:
        return None
    is_float_sum = x.data_type in FLOATS and call.operator == "ReduceSum"
    if x.data_type not in INTEGERS and not is_float_sum:
        return None
    rank = len(x.sizes)
    if not axes and call.attributes.get("noop_with_empty_axes", 0):
        # `quirks.NOOP_OF_NOTHING`
        is_full = all(size is not None and size >= 1 for size in x.sizes)
        return x if is_full else None
    axes = axes or list(range(rank))
    along = tuple({axis % rank for axis in axes})
    count = elements_of(tuple(x.sizes[axis] for axis in along))
    if is_float_sum:
        fewest = 1 if count is not None and count >= 1 else 0
        bounds = _float_sums(x, hull(x.bounds, along), fewest, count)
    elif call.operator == "ReduceSum":
        bounds = _sums(x, along, count)
    elif count is not None and count >= 1:
        bounds = hull(x.bounds, along)
    else:  # of no elements, the result is a limit of the data type
        bounds = None
    if bounds is None:
        return None
    if not call.attributes.get("keepdims", 1):
        bounds = bounds.squeeze(along)
    return call.selected(bounds)


def _sums(x: Bounds, along: tuple[int, ...], count: AnySize | None) -> Array | None:
    """Return the bounds of sums along axes, of `count` elements each.

    None if the count is not known, or a sum may be too large to be exact.
    """
    if not count:
        return None
    largest = abs(x.closed.bounds).max() * high_of(count)
    if largest >= min(EXACT, LIMITS[x.data_type][1]):
        return None
    if not isinstance(count, int):
        return _times(hull(x.bounds, along), count, count)
    # An axis of bounds is as long as that of the value, or of size 1.
    own_count = math.prod(x.bounds.shape[axis] for axis in along)
    sums = x.bounds.sum(axis=along, keepdims=True)
    return sums * (count // own_count)


def _times(bounds: Array, fewest: AnySize, most: AnySize) -> Array:
    """Return the bounds of a sum of `fewest` to `most` elements."""
    low = bounds[..., :1]
    high = bounds[..., 1:]
    lowest = least(low * fewest, low * most)
    highest = greatest(high * fewest, high * most)
    return np.concatenate([lowest, highest], axis=-1)


def _float_sums(
    x: Bounds, bounds: Array, fewest: int, most: AnySize | None
) -> Array | None:
    """Return the bounds of sums of floats, which are added in any order.

    None if a sum may be infinite.

    Args:
        x: The value whose elements are summed.
        bounds: The least and the greatest number of an element.
        fewest: The least number of elements in a sum: 0 or 1.
        most: The greatest number of them; None if it is not known.
    """
    if x.nan or most is None or not np.isfinite(bounds).all():
        return None
    count = high_of(most)
    info = np.finfo(FLOATS[x.data_type])
    exact = 2.0 ** (info.nmant + 1)
    low = np.floor(bounds[..., :1].astype(np.float64))
    high = np.ceil(bounds[..., 1:].astype(np.float64))
    # Case 1: the data type has all integers up to the farthest sum. A rounding is
    # monotone, so no sum is beyond that of the integers.
    if max(abs(low).max(), abs(high).max()) * count <= exact:
        lowest = np.where(low < 0, low * count, low * fewest)
        highest = np.where(high > 0, high * count, high * fewest)
        return np.concatenate([lowest, highest], axis=-1)
    # Case 2: more elements, none of them beyond a power of two.
    farthest = float(abs(bounds.astype(np.float64)).max())
    limit = 2.0 ** math.ceil(math.log2(farthest)) * _most_of_ones(count, exact)
    if not limit < float(info.max) / 2:
        return None
    lowest = np.where(low < 0, -limit, low * fewest)
    highest = np.where(high > 0, limit, high * fewest)
    return np.concatenate([lowest, highest], axis=-1)


def _most_of_ones(count: int, exact: float) -> float:
    """Return a number that no sum of floats from 0 to 1 is above, in any order.

    Up to `exact` elements, each sum of ones is exact. An addition is at most the
    smaller number away from what is exact, as the larger number is as near. So a sum is
    at most `a + 2*b`, and `2 * exact * (count / exact) ** 1.585` stays above it:
    `(a + b) ** p >= a ** p + 2 * b ** p` for `a >= b` and `2 ** p >= 3`.
    """
    if count <= exact:
        return float(count)
    return 2 * exact * (count / exact) ** 1.585


@AXIS_BOUNDS.computes("CumSum")
def _cum_sum(call: Call) -> Bounds | None:
    x = call.x
    axes = call.option("axis", 1)
    if x.sizes is None or axes is None:
        return None
    most = x.sizes[axes[0]]
    if most is None:
        return None
    fewest = 0 if call.attributes.get("exclusive", 0) else 1
    # Case 1: floats, which are rounded.
    if x.data_type in FLOATS:
        sums = _float_sums(x, x.whole, fewest, most)
        return None if sums is None else call.selected(sums)
    if x.data_type not in INTEGERS:
        return None
    # Case 2: each position has as many elements in its sum as it counts.
    is_reversed = bool(call.attributes.get("reverse", 0))
    if isinstance(most, int) and 0 < most <= COLUMNS_SUMMED:
        counts = [position + fewest for position in range(most)]
        if is_reversed:
            counts.reverse()
        axis = axes[0] % len(x.sizes)
        after = (1,) * (len(x.sizes) - axis - 1)
        factors = np.array(counts, object).reshape(-1, *after, 1)
        return call.selected(x.whole * factors)
    # Case 3: integers between two ends.
    return call.selected(_times(x.whole, fewest, most))
