"""The bounds of arithmetic, element by element.

NumPy rounds FLOAT and DOUBLE as the CPU provider does. Where ONNX Runtime may compute
in another way, the bounds hold both results;
tests/auditing/operators/test_output_bounds.py has a case of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    FLOATS,
    INTEGERS,
    LIMITS,
    Bounds,
    corners,
    greatest,
    is_ordered,
    least,
)
from onnxgather.auditing.algebra.sizes import never_negative
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds_table import EXACT, BoundsTable
from onnxgather.core.descriptors.arrays import Array

ARITHMETIC_BOUNDS = BoundsTable()

APPROXIMATIONS = 16
"""By how many roundings a provider may miss a logarithm, or a root of FLOAT16."""


def _has_zero(value: Bounds) -> bool:
    value = value.closed
    includes_zero = (value.low <= 0) & (value.high >= 0)
    return bool(includes_zero.any())


def _is_infinite(value: Bounds) -> bool:
    if value.data_type in LIMITS:
        return False
    infinite_ends = np.isinf(value.bounds.astype(float))
    return bool(infinite_ends.any())


def _is_closed(value: Bounds) -> bool:
    """Return whether the bounds are numbers, not open sizes."""
    return value.closed is value


def _is_number(value: Bounds) -> bool:
    """Return whether each element is a known number."""
    return value.is_exact and _is_closed(value)


def _loosened(
    data_type: str, low: Array, high: Array, roundings: int
) -> tuple[Array, Array]:
    """Return bounds that are wider by some roundings of a float type.

    Providers approximate. A number beyond the type may be finite, and a number too
    small for the type may differ from 0: `quirks.HALVES_AS_FLOATS`.
    """
    info = np.finfo(FLOATS[data_type])
    relative = roundings * info.eps
    low_slack = info.smallest_subnormal + relative * np.nan_to_num(abs(low))
    high_slack = info.smallest_subnormal + relative * np.nan_to_num(abs(high))
    looser_low = np.minimum(low - low_slack, info.max)
    looser_high = np.maximum(high + high_slack, info.min)
    return looser_low, looser_high


def _in_half(data_type: str, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the bounds of a result, wider for FLOAT16.

    Providers compute FLOAT16 in more than one way.
    """
    if data_type != "FLOAT16":
        return low, high
    return _loosened(data_type, low, high, 2)


# Sums, products and quotients.


@ARITHMETIC_BOUNDS.computes("Add", "Sub", broadcasts=True)
def _sum(call: Call) -> Bounds | None:
    a = call.x
    b = call.of(1)
    if call.operator == "Add":
        low = a.low + b.low
        high = a.high + b.high
    else:
        low = a.low - b.high
        high = a.high - b.low
    low, high = _in_half(a.data_type, low, high)
    nan = _is_infinite(a) and _is_infinite(b)
    return call.elementwise(low, high, nan)


@ARITHMETIC_BOUNDS.computes("Mul", broadcasts=True)
def _product(call: Call) -> Bounds | None:
    a = call.x
    b = call.of(1)
    low, high = corners(np.multiply, a, b)
    low, high = _in_half(a.data_type, low, high)
    # 0 times infinity is NaN.
    nan = _has_zero(a) and _is_infinite(b)
    nan = nan or (_has_zero(b) and _is_infinite(a))
    return call.elementwise(low, high, nan)


@ARITHMETIC_BOUNDS.computes("Div", broadcasts=True)
def _ratio(call: Call) -> Bounds | None:
    dividend = call.x
    divisor = call.of(1)
    if not _is_closed(dividend) or not _is_closed(divisor):
        # ONNX allows no such node.
        if dividend.data_type != divisor.data_type:
            return None
        # The algebra of open sizes divides a number of at least 0 by a positive one.
        is_natural = never_negative(dividend.whole[0])
        if is_natural and never_negative(divisor.whole[0] - 1):
            low = dividend.low // divisor.high
            high = dividend.high // divisor.low
            return call.elementwise(low, high)
        dividend = dividend.closed
        divisor = divisor.closed
    if _has_zero(divisor):
        return None
    low, high = corners(_divided, dividend, divisor)
    low, high = _in_half(dividend.data_type, low, high)
    return call.elementwise(low, high)


def _divided(x: Array, y: Array) -> Array:
    """Return the quotients; those of integers are rounded towards 0."""
    if x.dtype != object:
        return np.true_divide(x, y)
    quotient = abs(x) // abs(y)
    is_positive = (x < 0) == (y < 0)
    return np.where(is_positive, quotient, -quotient)


@ARITHMETIC_BOUNDS.computes("Mod", broadcasts=True)
def _remainder(call: Call) -> Bounds | None:
    dividend = call.x
    divisor = call.of(1)
    has_sign_of_dividend = bool(call.attributes.get("fmod", 0))
    is_integer = dividend.data_type in LIMITS
    # ONNX allows no such node.
    if dividend.data_type != divisor.data_type:
        return None
    if _has_zero(divisor) or divisor.nan:
        return None
    if dividend.nan or _is_infinite(dividend):
        return None
    if not is_integer and not has_sign_of_dividend:
        return None
    if is_integer and has_sign_of_dividend:
        # `quirks.FMOD_AS_DOUBLE`
        for value in (dividend, divisor):
            if abs(value.closed.bounds).max() > EXACT:
                return None
    # Case 1: natural numbers, which may be open sizes.
    is_known = _is_number(dividend) and _is_number(divisor)
    if is_integer and not is_known and never_negative(dividend.whole[0]):
        is_positive = never_negative(divisor.whole[0] - 1)
        if is_positive:
            if _is_open_by_number(dividend, divisor):
                whole = dividend.low // divisor.low
                rest = dividend.low - whole * divisor.low
                return call.elementwise(rest, rest)
            fits = dividend.high < divisor.low
            low = np.where(fits, dividend.low, 0)
            limit = least(dividend.high, divisor.high - 1)
            high = np.where(fits, dividend.high, limit)
            return call.elementwise(low, high)
    dividend = dividend.closed
    divisor = divisor.closed
    # Case 2: numbers that are known.
    if dividend.is_exact and divisor.is_exact and not has_sign_of_dividend:
        remainder = dividend.low % divisor.low
        return call.elementwise(remainder, remainder)
    # Case 3: any numbers. A remainder is smaller than the divisor, on one side of 0.
    limit = greatest(abs(divisor.low), abs(divisor.high))
    if is_integer:
        limit = limit - 1
    signed = dividend if has_sign_of_dividend else divisor
    lowest = np.where(signed.low < 0, -limit, 0)
    highest = np.where(signed.high > 0, limit, 0)
    fits = (dividend.low >= 0) & (dividend.high < divisor.low)
    low = np.where(fits, dividend.low, lowest)
    high = np.where(fits, dividend.high, highest)
    return call.elementwise(low, high)


def _is_open_by_number(dividend: Bounds, divisor: Bounds) -> bool:
    """Return whether a few sizes are divided by known numbers.

    The remainder is then what the quotient, a symbol for each size, leaves.
    """
    if not dividend.is_exact or not _is_number(divisor):
        return False
    if max(dividend.bounds.size, divisor.bounds.size) > 2 * COLUMNS:
        return False
    fits = dividend.high < divisor.low
    return not fits.any()


# Functions of one number.


def _relu(bounds: Array) -> Array:
    return np.maximum(bounds, 0)


def _not(bounds: Array) -> Array:
    """Return the bounds of the opposite: the high of a BOOL becomes the low."""
    return 1 - bounds[..., ::-1]


MONOTONIC: dict[str, Callable[[Array], Array]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Sqrt": np.sqrt,  # of a negative number: NaN, so nothing is known
    "Log": np.log,
    "Relu": _relu,
    "Not": _not,
}
"""The bounds that operators of one input compute from its bounds, where the operator
moves in one direction."""


@ARITHMETIC_BOUNDS.computes("Neg")
def _negated(call: Call) -> Bounds | None:
    x = call.x
    return call.elementwise(-x.high, -x.low)


@ARITHMETIC_BOUNDS.computes(*MONOTONIC, closed=True)
def _monotonic(call: Call) -> Bounds | None:
    x = call.x
    operator = call.operator
    bounds = MONOTONIC[operator](x.bounds)
    low = bounds[..., :1]
    high = bounds[..., 1:]
    # `quirks.HALVES_AS_FLOATS`
    if operator == "Log" or (operator == "Sqrt" and x.data_type == "FLOAT16"):
        low, high = _loosened(x.data_type, low, high, APPROXIMATIONS)
    # `quirks.SIGN_OF_NAN`
    if operator == "Sign" and (x.nan or not is_ordered(x)):
        return call.elementwise(-1, 1)
    return call.elementwise(low, high)


@ARITHMETIC_BOUNDS.computes("Abs")
def _abs(call: Call) -> Bounds | None:
    x = call.x
    if x.data_type in INTEGERS and x.whole[0] >= 0:
        return call.elementwise(x.low, x.high)
    x = x.closed
    low = abs(x.low)
    high = abs(x.high)
    includes_zero = (x.low <= 0) & (x.high >= 0)
    nearest = np.where(includes_zero, 0 * low, least(low, high))
    farthest = greatest(low, high)
    alone = replace(call, inputs=(x,))
    return alone.elementwise(nearest, farthest)


# Casts.


@ARITHMETIC_BOUNDS.computes("Cast", "CastLike", quiet=True)
def _cast(call: Call) -> Bounds | None:
    x = call.x
    target = call.types[0].data_type
    if target == "BOOL":
        return _cast_to_bool(call, x.closed)
    if x.data_type in FLOATS:
        if target in INTEGERS:
            return _cast_to_integers(call, target)
        return call.value(x.low, x.high, x.nan)
    if x.data_type not in LIMITS:
        return None
    if target in INTEGERS:
        return _cast_of_integers(call, target)
    # It may get what an earlier Cast would wrap (`quirks.CASTS_IN_A_ROW`).
    if x.nan:
        lowest, _ = LIMITS["INT64"]
        _, highest = LIMITS["UINT64"]
        return call.value(lowest, highest)
    x = x.closed
    return call.value(x.low, x.high)


def _cast_to_bool(call: Call, x: Bounds) -> Bounds:
    """Return the bounds of a BOOL; NaN is true."""
    is_not_zero = (x.low > 0) | (x.high < 0)
    may_be_not_zero = (x.low != 0) | (x.high != 0)
    low = is_not_zero & (not x.nan)
    high = may_be_not_zero | x.nan
    return call.value(low, high)


_whole_part: Callable[[Array], Array] = np.vectorize(int, otypes=[object])
"""Rounds numbers to Python's integers, towards 0."""


def _cast_to_integers(call: Call, target: str) -> Bounds:
    """Return the bounds of floats as integers; a float that does not fit may be any."""
    x = call.x
    first, last = LIMITS[target]
    float_low = x.low.astype(np.float64)
    float_high = x.high.astype(np.float64)
    fits = (float_low > first - 1) & (float_high < last + 1)
    fits = fits & (not x.nan)
    whole_low = _whole_part(np.where(fits, float_low, 0))
    whole_high = _whole_part(np.where(fits, float_high, 0))
    low = np.where(fits, whole_low, np.array(first, object))
    high = np.where(fits, whole_high, np.array(last, object))
    # A fraction may be true (`quirks.CAST_OF_FRACTION`).
    may_be_fraction = (x.bounds != 0).any(-1, keepdims=True)
    is_zero = (low == 0) & (high == 0)
    high = np.where(is_zero & may_be_fraction, 1, high)
    return call.value(low, high, not fits.all())


def _cast_of_integers(call: Call, target: str) -> Bounds:
    """Return the bounds of integers as other integers, which may wrap them."""
    x = call.x
    first, last = LIMITS[target]
    fits = (x.low >= first) & (x.high <= last)
    if x.nan or not fits.all():
        return call.value(first, last, True)
    return call.value(x.low, x.high)
