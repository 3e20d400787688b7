"""The table of operators: the bounds of what each computes, from the bounds of its inputs.

The table in `operator_types.py` tells the types and the sizes. An operator that is not
in this one computes anything that its data type holds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    LIMITS,
    Bounds,
    bounds_of_array,
    broadcast,
    corners,
    elements_of,
    greatest,
    hull,
    interval,
    is_ordered,
    joined,
    known_sizes,
    least,
    ordered,
)
from onnxgather.auditing.algebra.sizes import (
    MOST,
    AnySize,
    AnySizes,
    high_of,
    is_doubtful,
    never_negative,
)
from onnxgather.auditing.operators.calls import Call
from onnxgather.core.descriptors.arrays import Array

EXACT = 2**53
"""The CPU provider may sum integers up to which FLOAT64 is exact as floats."""

LARGEST_SIZE = INTEGERS["INT64"][1]
"""The bound of a size that is not known."""


Transfer = Callable[[Call], "Bounds | Sequence[Bounds] | None"]
TRANSFERS: dict[str, Transfer] = {}
"""For each operator, the function that bounds its outputs; None where nothing bounds
them."""

QUIET: set[str] = set()
"""Operators that select elements, which a proof in words does not name."""

SKIPPED = {"Add", "Sub", "Mul", "Div"}
"""Operators that ONNX Runtime leaves out where they change nothing, so that two Casts
may meet."""


def computes(
    *names: str, quiet: bool = False, broadcasts: bool = False, closed: bool = False
) -> Callable[[Transfer], Transfer]:
    """Enter a function in the table.

    Args:
        *names: The operators.
        quiet: Whether they select elements.
        broadcasts: Whether they broadcast their inputs.
        closed: Whether the function takes bounds that are numbers alone, not open sizes.
    """

    def enter(function: Transfer) -> Transfer:
        def called(call: Call) -> Bounds | Sequence[Bounds] | None:
            if broadcasts and call.attributes.keys() & {
                "axis",
                "broadcast",
            }:  # before opset 7
                return None
            inputs = (
                [value and value.closed for value in call.inputs]
                if closed
                else call.inputs
            )
            if not (quiet or SKIPPED.issuperset(names)):
                inputs = [value and value.cast for value in inputs]
            inputs = broadcast(inputs) if broadcasts else tuple(inputs)
            return function(replace(call, inputs=inputs))

        TRANSFERS.update(dict.fromkeys(names, called))
        QUIET.update(names if quiet else ())
        return function

    return enter


# Arithmetic, element by element. NumPy rounds FLOAT and DOUBLE as the CPU provider
# does.


def _has_zero(value: Bounds) -> bool:
    value = value.closed
    return bool(((value.low <= 0) & (value.high >= 0)).any())


def _is_infinite(value: Bounds) -> bool:
    return value.data_type not in LIMITS and bool(
        np.isinf(value.bounds.astype(float)).any()
    )


def _loosened(
    data_type: str, bounds: tuple[Array, Array], roundings: int
) -> tuple[Array, Array]:
    """The bounds, wider by some roundings of a float type, as providers approximate.

    A number beyond the type may be finite, and one too small for it need not be 0: the
    CPU provider keeps FLOAT16 as FLOAT from one operator to the next.
    """
    (low, high), info = bounds, np.finfo(FLOATS[data_type])
    slack = [
        info.smallest_subnormal + roundings * info.eps * np.nan_to_num(abs(e))
        for e in bounds
    ]
    return np.minimum(low - slack[0], info.max), np.maximum(high + slack[1], info.min)


def _in_half(a: Bounds, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """The bounds of a result, wider for FLOAT16, as providers compute it in more than one way."""
    return _loosened(a.data_type, ends, 2) if a.data_type == "FLOAT16" else ends


def _neutral(x: Bounds, number: int) -> Bounds:
    """The bounds of an operand, with 0 or 1 itself where a DOUBLE is as near as FLOAT can tell.

    ONNX Runtime reads a constant as FLOAT to see that an operator does nothing, and
    leaves it out.
    """
    if x.data_type != "DOUBLE":
        return x
    slack = 2.0**-24 if number else 2.0**-149
    near = (x.low <= number + slack) & (x.high >= number - slack)
    itself = np.array(float(number))
    ends = least(x.low, itself), greatest(x.high, itself)
    return replace(x, bounds=np.where(near, np.concatenate(ends, axis=-1), x.bounds))


def _divided(x: Array, y: Array) -> Array:
    if x.dtype != object:
        return np.true_divide(x, y)
    quotient = abs(x) // abs(y)
    return np.where((x < 0) == (y < 0), quotient, -quotient)


@computes("Add", "Sub", broadcasts=True)
def _sum(call: Call) -> Bounds | None:
    a, b = call.x, _neutral(call.of(1), 0)
    is_sum = call.operator == "Add"
    a = _neutral(a, 0) if is_sum else a
    ends = (
        (a.low + b.low, a.high + b.high) if is_sum else (a.low - b.high, a.high - b.low)
    )
    return call.elementwise(*_in_half(a, ends), _is_infinite(a) and _is_infinite(b))


def _fused(a: Bounds, b: Bounds, low: Array, high: Array) -> tuple[Array, Array]:
    """The bounds of `a / b` that also hold in `1 / b * y`, which ONNX Runtime makes `y / b`."""
    if a.data_type in FLOATS:
        sure, _ = corners(_divides, a, b)
        low = np.where(sure, low, np.nextafter(low, low.dtype.type(-np.inf)))
        high = np.where(sure, high, np.nextafter(high, high.dtype.type(np.inf)))
    elif a.bounds.size == 2 and not (a.low > 1).any() and not (a.high < 1).any():
        low = np.where(b.low < 0, least(low, np.array(-1, object)), low)
        high = np.where(b.high > 0, greatest(high, np.array(1, object)), high)
    return low, high


def _divides(x: Array, y: Array) -> Array:
    """Whether `x / y` is surely exact: the quotient is whole, or the divisor a power of two."""
    is_finite = np.isfinite(np.true_divide(x, y))
    return is_finite & ((np.fmod(x, y) == 0) | (abs(np.frexp(y)[0]) == 0.5))


@computes("Mul", broadcasts=True)
def _product(call: Call) -> Bounds | None:
    a, b = _neutral(call.x, 1), _neutral(call.of(1), 1)
    nan = (_has_zero(a) and _is_infinite(b)) or (_has_zero(b) and _is_infinite(a))
    return call.elementwise(*_in_half(a, corners(np.multiply, a, b)), nan)


@computes("Div", broadcasts=True)
def _ratio(call: Call) -> Bounds | None:
    a, b = call.x, call.of(1)
    if a.closed is not a or b.closed is not b:
        if never_negative(a.whole[0]) and never_negative(b.whole[0] - 1):
            return call.elementwise(a.low // b.high, a.high // b.low)
        a, b = a.closed, b.closed
    b = _neutral(b, 1)
    if _has_zero(b):
        return None
    return call.elementwise(*_in_half(a, _fused(a, b, *corners(_divided, a, b))))


@computes("Mod", broadcasts=True)
def _mod(call: Call) -> Bounds | None:
    a, b = call.x, call.of(1)
    as_c, is_integer = call.attributes.get("fmod", 0), a.data_type in LIMITS
    if _has_zero(b) or b.nan or a.nan or _is_infinite(a) or not (as_c or is_integer):
        return None
    if as_c and is_integer and max(abs(v.closed.bounds).max() for v in (a, b)) > EXACT:
        return None  # the CPU provider has computed it as DOUBLE
    if is_integer and never_negative(a.whole[0]) and never_negative(b.whole[0] - 1):
        fits = a.high < b.low
        high = np.where(fits, a.high, least(a.high, b.high - 1))
        if not (a.is_exact and b.is_exact and a.closed is a and b.closed is b):
            return call.elementwise(np.where(fits, a.low, 0), high)
    a, b = a.closed, b.closed
    if a.is_exact and b.is_exact and not as_c:
        return call.elementwise(a.low % b.low, a.low % b.low)
    most, signed = greatest(abs(b.low), abs(b.high)) - int(is_integer), a if as_c else b
    fits = (a.low >= 0) & (a.high < b.low)
    low = np.where(fits, a.low, np.where(signed.low < 0, -most, 0))
    return call.elementwise(
        low, np.where(fits, a.high, np.where(signed.high > 0, most, 0))
    )


MONOTONIC: dict[str, Callable[[Array], Array]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Sqrt": np.sqrt,  # of a negative number: NaN, so nothing is known
    "Log": np.log,
    "Relu": lambda x: np.maximum(x, 0),
    "Not": lambda x: 1 - x[..., ::-1],
}
"""What operators of one input make of the bounds, if it moves in one direction."""


@computes("Neg")
def _negated(call: Call) -> Bounds | None:
    return call.elementwise(-call.x.high, -call.x.low)


@computes(*MONOTONIC, closed=True)
def _monotonic(call: Call) -> Bounds | None:
    bounds = MONOTONIC[call.operator](call.x.bounds)
    low, high = bounds[..., :1], bounds[..., 1:]
    if call.operator == "Log" or (
        call.operator == "Sqrt" and call.x.data_type == "FLOAT16"
    ):
        low, high = _loosened(call.x.data_type, (low, high), 16)
    if call.operator == "Sign" and (call.x.nan or not is_ordered(call.x)):
        low, high = -1, 1
    return call.elementwise(low, high)


@computes("Abs")
def _abs(call: Call) -> Bounds | None:
    if call.x.data_type in INTEGERS and call.x.whole[0] >= 0:
        return call.elementwise(call.x.low, call.x.high)
    call = replace(call, inputs=(call.x.closed,))
    low, high = abs(call.x.low), abs(call.x.high)
    inside = (call.x.low <= 0) & (call.x.high >= 0)
    return call.elementwise(
        np.where(inside, 0 * low, least(low, high)), greatest(low, high)
    )


# Order and choice.


@computes("Max", "Min", "And", "Or", broadcasts=True)
def _extreme(call: Call) -> Bounds | None:
    values, shapes = call.given, [value.bounds.shape for value in call.given]
    is_open = any(value.closed is not value for value in values)
    if (
        is_open and math.prod(np.broadcast_shapes(*shapes)) > 2 * COLUMNS
    ):  # each makes a symbol
        values = [replace(value, bounds=value.whole) for value in values]
    return call.elementwise(*_chosen(call.operator in ("Max", "Or"), *values))


def _chosen(largest: bool, *values: Bounds) -> tuple[Array, Array]:
    """The bounds of the largest or smallest of values: of any of them where one may be NaN."""
    lows, highs = [value.low for value in values], [value.high for value in values]
    low, high = least(*lows), greatest(*highs)
    if any(value.nan for value in values):
        return low, high
    if not is_ordered(*values):
        values = tuple(value.closed for value in values)
        lows, highs = [value.low for value in values], [value.high for value in values]
    alike, word = ordered(*values), 2**32 - 1
    is_wide = not alike.all()
    if largest:
        most = greatest(*lows)
        return (
            np.where(alike, most, greatest(low, most & ~word)) if is_wide else most
        ), high
    most = least(*highs)
    return low, np.where(alike, most, least(high, most | word)) if is_wide else most


@computes("Clip")
def _clip(call: Call) -> Bounds | None:
    x, ends = call.x, [call.has(1), call.has(2)]
    for k, name in enumerate(("min", "max")):
        if name in call.attributes:  # before opset 11
            number = np.asarray(call.attributes[name], FLOATS.get(x.data_type))
            ends[k] = bounds_of_array(x.data_type, number)
    if any(end is not None and end.nan for end in ends):
        return None
    if (
        x.data_type in FLOATS
    ):  # a bound that is left out is the greatest finite number, or none
        greatest_finite = np.finfo(FLOATS[x.data_type]).max
        ends[0] = ends[0] or interval(x.data_type, (), -np.inf, -greatest_finite)
        ends[1] = ends[1] or interval(x.data_type, (), greatest_finite, np.inf)
    low, high = ends
    if (
        low
        and high
        and (x.nan or (low.whole[0] >= 0 and is_ordered(low, high) > is_ordered(x)))
    ):
        return call.elementwise(least(low.low, high.low), greatest(low.high, high.high))
    if low is not None:
        x = interval(x.data_type, x.sizes, *_chosen(True, x, low), x.nan)
    return call.elementwise(*(_chosen(False, x, high) if high else (x.low, x.high)))


COMPARISONS: dict[str, tuple[bool, Callable[[Any, Any], Any]]] = {
    "Less": (False, operator.lt),
    "LessOrEqual": (False, operator.le),
    "Greater": (True, operator.lt),
    "GreaterOrEqual": (True, operator.le),
}
"""For each operator, whether its inputs are turned around, and what then compares
them."""


@computes(*COMPARISONS, "Equal", broadcasts=True)
def _comparison(call: Call) -> Bounds:
    a, b = call.x, call.of(1)
    sure, never = False, False
    if not (a.nan or b.nan):
        if call.operator == "Equal":
            never = (a.high < b.low) | (b.high < a.low)
            sure = (a.low == a.high) & (b.low == b.high) & (a.low == b.low)
        elif is_ordered(a, b):
            turned, compare = COMPARISONS[call.operator]
            a, b = (b, a) if turned else (a, b)
            opposite = operator.lt if compare is operator.le else operator.le
            sure, never = compare(a.high, b.low), opposite(b.high, a.low)
    return call.value(np.asarray(sure), ~np.asarray(never))


ELEMENTWISE = {
    *(
        "Abs",
        "Add",
        "Cast",
        "Ceil",
        "Clip",
        "Div",
        "Floor",
        "Identity",
        "Log",
        "Max",
        "Min",
        "Mod",
    ),
    *("Mul", "Neg", "Relu", "Round", "Sqrt", "Sub", "Where"),
}
"""Operators each of whose elements comes from the elements of the inputs at its
place."""


def where_compared(
    name: str, holds: bool, a: Bounds, b: Bounds
) -> tuple[Bounds, Bounds]:
    """The two operands of a comparison where it is true, or where it is false."""
    if name == "Equal":
        return (met(a, b), met(b, a)) if holds else (a, b)
    if not is_ordered(a, b) or (not holds and (a.nan or b.nan)):
        return a, b
    turned, compare = COMPARISONS[name]
    if turned is holds:
        b, a = limited_below(b, a, (compare is operator.lt) is holds)
    else:
        a, b = limited_below(a, b, (compare is operator.lt) is holds)
    return a, b


def limited_below(a: Bounds, b: Bounds, strictly: bool) -> tuple[Bounds, Bounds]:
    """Two values of which the first is smaller, or not larger."""
    apart = int(strictly and a.data_type in INTEGERS)
    high = least(a.high, _beside(b, a)[..., 1:] - apart)
    low = greatest(b.low, _beside(a, b)[..., :1] + apart)
    return _with_ends(a, a.low, high), _with_ends(b, low, b.high)


def _beside(x: Bounds, other: Bounds) -> Array:
    """The bounds of a value at the elements of another one; where these are many, those of all."""
    more = x.bounds.ndim - other.bounds.ndim
    if max(x.bounds.size, other.bounds.size) > 2 * COLUMNS:
        return x.whole
    return hull(x.bounds, range(more)).reshape(x.bounds.shape[max(more, 0) :])


def met(a: Bounds, b: Bounds) -> Bounds:
    """The first value where it is the second one too."""
    return _with_ends(a, greatest(a.low, b.whole[:1]), least(a.high, b.whole[1:]))


def _with_ends(x: Bounds, low: Array, high: Array) -> Bounds:
    """A value that is no NaN, between other ends."""
    return interval(
        x.data_type, x.sizes, low, high, x.cast is not x, why=x.why, stops=x.stops
    )


@computes("Where", quiet=True, broadcasts=True)
def _where(call: Call) -> Bounds:
    condition, a, b = call.x, call.of(1), call.of(2)
    surely, never = condition.low == 1, condition.high == 0
    low = np.where(surely, a.low, np.where(never, b.low, least(a.low, b.low)))
    high = np.where(surely, a.high, np.where(never, b.high, greatest(a.high, b.high)))
    taken = joined([a] * (not never.all()) + [b] * (not surely.all()))
    return call.value(low, high, taken.nan, why=taken.why, stops=taken.stops)


@computes("Cast", "CastLike", quiet=True)
def _cast(call: Call) -> Bounds | None:
    x, target = call.x, call.types[0].data_type
    x = x if target in INTEGERS else x.closed
    low, high, nan = x.low, x.high, x.nan
    first, last = LIMITS.get(target, (LIMITS["INT64"][0], LIMITS["UINT64"][1]))
    if target == "BOOL":
        low, high = ((low > 0) | (high < 0)) & (not nan), (low != 0) | (high != 0) | nan
    elif x.data_type in FLOATS and target in LIMITS:
        low, high = low.astype(np.float64), high.astype(np.float64)
        fits = (low > first - 1) & (high < last + 1) & (not nan)
        whole: Callable[[Array], Array] = np.vectorize(int, otypes=[object])
        low = np.where(fits, whole(np.where(fits, low, 0)), np.array(first, object))
        high = np.where(fits, whole(np.where(fits, high, 0)), np.array(last, object))
        # Of two Casts in a row ONNX Runtime may leave out the first: a fraction is true
        # as BOOL.
        high = np.where(
            (low == 0) & (high == 0) & (x.bounds != 0).any(-1, keepdims=True), 1, high
        )
        return call.value(low, high, not fits.all())
    elif x.data_type in LIMITS:
        if nan or (target in LIMITS and not ((low >= first) & (high <= last)).all()):
            return call.value(first, last, target in LIMITS)
    elif x.data_type not in FLOATS:
        return None
    return call.value(low, high, nan and target != "BOOL")


# Positions, which an axis bounds.


def _last(size: AnySize | None) -> AnySize:
    """The last position on an axis."""
    return (
        MOST
        if size is None
        else max(size - 1, 0)
        if isinstance(size, int)
        else size - 1
    )


def _position(call: Call, axis: int, k: int = 0) -> Bounds:
    size = call.x.sizes[axis] if call.x.sizes else None
    reason = (
        f"{call.operator} over axis of {size}"
        if isinstance(size, int)
        else call.operator
    )
    return call.value(0, _last(size), k=k, why=(reason,))


@computes("ArgMax", "ArgMin", closed=True)
def _arg_extreme(call: Call) -> Bounds | None:
    return _position(call, call.axis(0))


@computes("TopK")
def _top_k(call: Call) -> Sequence[Bounds]:
    return call.selected(call.x.whole), _position(call, call.axis(-1), 1)


@computes("NonZero", closed=True)
def _non_zero(call: Call) -> Bounds | None:
    here, full = (call.x.low > 0) | (call.x.high < 0), call.x.full
    if full is not None and (call.x.is_exact or here.all()):
        rows = np.array(np.nonzero(np.atleast_1d(full.any(axis=-1))), np.int64)[
            ..., None
        ]
        return interval("INT64", rows.shape[:-1], rows, rows)
    sizes = call.x.sizes or (None if call.x.sizes is None else 1,)
    rows = np.array([[[_last(size)]] for size in sizes], object)
    why = (
        f"NonZero over axes of {', '.join('?' if s is None else str(s) for s in sizes)}"
    )
    return call.value(0 * rows, rows, why=(why,))


@computes("NonMaxSuppression", closed=True)
def _non_max_suppression(call: Call) -> Bounds:
    boxes, scores = (call.of(k).sizes or (None,) * 3 for k in (0, 1))
    lasts = [_last(size) for size in (scores[0], scores[1], boxes[1])]
    why = f"NonMaxSuppression of {'?' if boxes[1] is None else boxes[1]} boxes"
    return call.value(0, np.array(lasts, object).reshape(1, 3, 1), why=(why,))


@computes("Shape", "Size", closed=True)
def _shape(call: Call) -> Bounds | None:
    sizes = call.x.sizes
    if call.operator == "Size":
        sizes = (elements_of(sizes),)
    elif sizes is None:
        return call.value(0, LARGEST_SIZE)
    else:
        sizes = sizes[
            call.attributes.get("start", 0) : call.attributes.get("end", len(sizes))
        ]
    ends = [(0, LARGEST_SIZE) if n is None or is_doubtful(n) else (n, n) for n in sizes]
    bounds = np.array(ends, object).reshape(-1, 2)
    return call.value(bounds[:, :1], bounds[:, 1:])


@computes("Range")
def _range(call: Call) -> Bounds | None:
    start, limit, delta = values = [call.of(k) for k in range(3)]
    most = min(INTEGERS.get(start.data_type, (0, 0))[1], EXACT) // 2
    if most == 0 or max(abs(v.closed.bounds).max() for v in (start, limit)) > most:
        return None  # the CPU provider counts in the data type, then as floats
    if all(v.is_exact and v.closed is v for v in values):
        numbers = range(*(int(value.whole[0]) for value in values))
        if len(numbers) <= ELEMENTS:
            array = np.array(numbers, object)[:, None]
            return interval(start.data_type, (len(numbers),), array, array)
    if delta.whole[0] > 0:
        return call.value(start.whole[0], limit.whole[1] - 1)
    return (
        call.value(limit.whole[0] + 1, start.whole[1]) if delta.whole[1] < 0 else None
    )


# Sums along axes.


@computes("ReduceSum", "ReduceMax", "ReduceMin")
def _reduced(call: Call) -> Bounds | None:
    x, axes = call.x, call.option("axes", 1, [])
    if x.sizes is None or axes is None or x.data_type not in INTEGERS:
        return None
    if not axes and not call.attributes.get("noop_with_empty_axes", 0):
        axes = list(range(len(x.sizes)))
    along = tuple({axis % len(x.sizes) for axis in axes})
    count = elements_of(tuple(x.sizes[axis] for axis in along))
    most = abs(x.closed.bounds).max() * high_of(count or 0)
    if call.operator != "ReduceSum":
        if count is None or not count >= 1:
            return None
        bounds = hull(x.bounds, along)
    elif not count or most >= min(EXACT, LIMITS[x.data_type][1]):
        return None
    elif isinstance(count, int):
        repeated = count // math.prod(x.bounds.shape[axis] for axis in along)
        bounds = x.bounds.sum(axis=along, keepdims=True) * repeated
    else:
        bounds = _times(hull(x.bounds, along), count, count)
    return call.selected(
        bounds if call.attributes.get("keepdims", 1) else bounds.squeeze(along)
    )


def _times(bounds: Array, fewest: AnySize, most: AnySize) -> Array:
    """The bounds of a sum of as many elements."""
    low, high = bounds[..., :1], bounds[..., 1:]
    low, high = least(low * fewest, low * most), greatest(high * fewest, high * most)
    return np.concatenate([low, high], axis=-1)


@computes("CumSum")
def _cum_sum(call: Call) -> Bounds | None:
    x, axes = call.x, call.option("axis", 1)
    if x.sizes is None or axes is None or x.data_type not in INTEGERS:
        return None
    count, fewest = x.sizes[axes[0]], 0 if call.attributes.get("exclusive", 0) else 1
    return None if count is None else call.selected(_times(x.whole, fewest, count))


# Elements selected, moved and put together.


MEMBERS: dict[str, tuple[int, ...]] = {
    "Compress": (0,),
    "OneHot": (2,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Pad": (0, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
    "Trilu": (0,),
}
"""Operators whose elements come from some of their inputs, or are 0."""


@computes(*MEMBERS, quiet=True)
def _members(call: Call) -> Bounds | None:
    if call.attributes.get("reduction", "none") != "none":
        return None
    values = [call.inputs[k] for k in MEMBERS[call.operator] if k < len(call.inputs)]
    if call.operator in ("Pad", "Trilu"):
        values.append(
            bounds_of_array(call.x.data_type, np.array(call.attributes.get("value", 0)))
        )
    member = joined([value for value in values if value])
    low, high = member.whole
    return call.value(low, high, member.nan)


@computes("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", quiet=True)
def _rearranged(call: Call) -> Bounds:
    """The same elements in the same order, in other sizes."""
    if call.operator == "Identity":
        return call.x
    return call.selected(_in_sizes(call.x, call.types[0].sizes))


def _in_sizes(x: Bounds, sizes: AnySizes | None) -> Array:
    """The bounds of the elements of `x`, in the same order or repeated along axes."""
    if sizes == x.sizes and (sizes is None or sizes.count(None) < 2):
        return x.bounds  # two sizes that are not known may have changed places
    shape = known_sizes(sizes)
    if (
        x.full is not None
        and shape is not None
        and elements_of(shape) == elements_of(x.sizes)
    ):
        return x.full.reshape(*shape, 2)
    if sizes and x.sizes and sizes[-1] == x.sizes[-1] and x.bounds.shape[-2] <= COLUMNS:
        return hull(x.bounds, range(x.bounds.ndim - 2)).reshape(-1, 2)
    return x.whole


@computes("Transpose", quiet=True)
def _transpose(call: Call) -> Bounds:
    rank = len(call.x.sizes or ())
    order = call.option("perm", 9, [*range(rank)][::-1]) or []
    return call.selected(
        call.x.bounds.transpose(*order, rank) if rank else call.x.bounds
    )


@computes("Expand", quiet=True)
def _expand(call: Call) -> Bounds:
    return call.selected(call.x.bounds if call.types[0].sizes else call.x.whole)


@computes("Tile", quiet=True)
def _tile(call: Call) -> Bounds:
    sizes, repeats = call.types[0].sizes, call.option("repeats", 1)
    count = elements_of(sizes)
    if (
        call.x.full is not None
        and repeats
        and isinstance(count, int)
        and count <= ELEMENTS
    ):
        return call.selected(np.tile(call.x.full, (*repeats, 1)))
    return call.selected(_in_sizes(call.x, sizes))


def _taken(bounds: Array, axis: int, positions: Sequence[int] | None) -> Array:
    """The bounds at some positions of an axis; None: at any."""
    if bounds.shape[axis] == 1:
        return bounds
    return (
        hull(bounds, [axis]) if positions is None else np.take(bounds, positions, axis)
    )


@computes("Slice", quiet=True)
def _slice(call: Call) -> Bounds:
    x, starts, ends = call.x, call.option("starts", 1), call.option("ends", 2)
    count = len(starts or ends or ())
    axes, steps = (
        call.option("axes", 3, [*range(count)]),
        call.option("steps", 4, [1] * count),
    )
    if not axes or x.sizes is None:
        return call.selected(x.whole)
    bounds = x.bounds
    for k, axis in enumerate(axes):
        chosen, size = None, x.sizes[axis]
        if starts and ends and steps and isinstance(size, int):
            chosen = _steps(starts[k], ends[k], steps[k], size)
        bounds = _taken(bounds, axis % len(x.sizes), chosen)
    return call.selected(bounds)


def _steps(start: int, end: int, step: int, size: int) -> range:
    """The positions that a Slice takes from an axis; the greatest INT32 and INT64 mean its end."""
    first = max(start, -size) if step < 0 else start
    last = None if end in (INTEGERS["INT32"][1], LARGEST_SIZE) else end
    return range(size)[first:last:step]


@computes("Split", quiet=True)
def _split(call: Call) -> Sequence[Bounds] | None:
    axis = call.axis(0)
    parts = known_sizes([sizes[axis] if sizes else None for _, sizes in call.types])
    ranges = [None] * len(call.types)
    if parts is not None:
        pairs = zip(parts, itertools.accumulate(parts), strict=True)
        ranges = [range(end - n, end) for n, end in pairs]
    return [
        call.selected(_taken(call.x.bounds, axis, r), k) for k, r in enumerate(ranges)
    ]


def _fills(shapes: Sequence[AnySizes | None], axis: int) -> bool:
    """Whether each element of a Concat is surely an element of an input.

    ONNX Runtime takes any sizes off the axis of an input without elements, and writes
    nothing in its place.
    """
    known = [sizes for sizes in shapes if sizes is not None]
    there = [sizes for sizes in known if sizes[axis] != 0]
    alike = len({(*sizes[:axis], *sizes[axis + 1 :]) for sizes in there}) < 2
    full = all(size is not None and size >= 1 for sizes in there for size in sizes)
    return len(known) == len(shapes) and (alike or full)


@computes("Concat", quiet=True)
def _concat(call: Call) -> Bounds | None:
    sizes, axis = call.types[0].sizes, call.axis(0)
    if not _fills([value.sizes for value in call.given], axis):
        return None
    nan = any(value.nan for value in call.given)
    along = known_sizes([v.sizes[axis] if v.sizes else None for v in call.given])
    if sizes is None or along is None or sum(along) > ELEMENTS:
        low, high = joined(call.given).whole
        return call.value(low, high, nan)
    common = np.broadcast_shapes(
        *(hull(value.bounds, [axis]).shape for value in call.given)
    )
    parts = [
        np.broadcast_to(value.bounds, (*common[:axis], count, *common[axis + 1 :]))
        for value, count in zip(call.given, along, strict=True)
    ]
    bounds = np.concatenate(parts, axis)
    return call.value(bounds[..., :1], bounds[..., 1:], nan)


@computes("Gather", quiet=True)
def _gather(call: Call) -> Bounds:
    x, indices, axis = call.x, call.of(1), call.axis(0)
    if x.sizes is None or indices.sizes is None:
        return call.selected(x.whole)
    size, known = x.bounds.shape[axis], indices.known
    if size > 1 and known is not None and ((known >= -size) & (known < size)).all():
        return call.selected(np.take(x.bounds, known.astype(np.int64), axis))
    bounds = hull(x.bounds, [axis])
    ones = (1,) * len(indices.sizes)
    return call.selected(
        bounds.reshape(*bounds.shape[:axis], *ones, *bounds.shape[axis + 1 :])
    )


@computes("ConstantOfShape", quiet=True, closed=True)
def _constant_of_shape(call: Call) -> Bounds:
    number = np.asarray(np.ravel(call.attributes.get("value", np.float32(0)))[0])
    value = bounds_of_array(call.types[0].data_type, number)
    return call.value(value.low, value.high, value.nan)
