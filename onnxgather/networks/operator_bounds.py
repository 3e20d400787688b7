"""The table of operators: the bounds of what each computes, from the bounds of its inputs.

ONNX's shape inference tells the types and the sizes. An operator that is not in the table computes
anything that its data type holds.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxgather.descriptors.arrays import Array
from onnxgather.model.values import OpenSizes, ValueType
from onnxgather.networks.intervals import (
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
    least,
    ordered,
)
from onnxgather.networks.network import Operation

EXACT = 2**53
"""The CPU provider may sum integers up to which FLOAT64 is exact as floats."""

LARGEST_SIZE = INTEGERS["INT64"][1]
"""The bound of a size that is not known."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, the bounds of its inputs (None: left out), and the types of its outputs."""

    operation: Operation
    inputs: tuple[Bounds | None, ...]
    types: Sequence[ValueType]

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self.operation.operator

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the operation."""
        return self.operation.attributes

    @property
    def x(self) -> Bounds:
        """The first input."""
        return self.of(0)

    def of(self, position: int) -> Bounds:
        """An input that the operator requires."""
        value = self.has(position)
        if value is None:
            raise LookupError("an input is missing")
        return value

    def has(self, position: int) -> Bounds | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def given(self) -> list[Bounds]:
        """The inputs that are not left out."""
        return [value for value in self.inputs if value is not None]

    def option(self, name: str, position: int, default: Any = None) -> list[int] | None:
        """The integers of an attribute, or of an input in newer opsets.

        Returns:
            `default` where both are left out, None where the input is not known.
        """
        if name in self.attributes:
            return [int(number) for number in np.ravel(self.attributes[name])]
        value = self.has(position)
        if value is None:
            return default
        return None if value.known is None else [int(number) for number in value.known.ravel()]

    def axis(self, default: int) -> int:
        """The axis, counted from the front."""
        axis, rank = int(self.attributes.get("axis", default)), len(self.x.sizes or ())
        return axis + rank if axis < 0 else axis

    def value(self, low: Any, high: Any, nan: bool = False, k: int = 0, **reasons: Any) -> Bounds:
        """The value of an output with these bounds."""
        return interval(*self.types[k], low, high, nan, **reasons)

    def elementwise(self, low: Any, high: Any, nan: bool = False) -> Bounds | None:
        """The value of an output whose elements are NaN where those of an input are."""
        if not all(value.data_type in LIMITS | FLOATS for value in self.given):
            return None
        return self.value(low, high, nan or any(value.nan for value in self.given))

    def selected(self, bounds: Array, k: int = 0) -> Bounds:
        """The value of an output whose elements are those of the first input."""
        return self.value(bounds[..., :1], bounds[..., 1:], self.x.nan, k)


Transfer = Callable[[Call], "Bounds | Sequence[Bounds] | None"]
TRANSFERS: dict[str, Transfer] = {}
"""For each operator, the function that bounds its outputs; None where nothing bounds them."""

QUIET: set[str] = set()
"""Operators that select elements, which a proof in words does not name."""


def computes(
    *names: str, quiet: bool = False, broadcasts: bool = False
) -> Callable[[Transfer], Transfer]:
    """Enter a function in the table; perhaps one whose inputs are broadcast."""

    def enter(function: Transfer) -> Transfer:
        def limited(call: Call) -> Bounds | Sequence[Bounds] | None:
            return function(replace(call, inputs=broadcast(call.inputs)))

        TRANSFERS.update(dict.fromkeys(names, limited if broadcasts else function))
        QUIET.update(names if quiet else ())
        return function

    return enter


# Arithmetic, element by element. NumPy rounds floats as the CPU provider does.


def _has_zero(value: Bounds) -> bool:
    return bool(((value.low <= 0) & (value.high >= 0)).any())


def _is_infinite(value: Bounds) -> bool:
    return value.data_type not in LIMITS and bool(np.isinf(value.bounds.astype(float)).any())


def _loosened(data_type: str, bounds: tuple[Array, Array], roundings: int) -> tuple[Array, Array]:
    """The bounds, wider by some roundings of a float type, as providers approximate."""
    low, high = bounds
    slack = roundings * float(np.finfo(FLOATS[data_type]).eps)
    return low - slack * np.nan_to_num(abs(low)), high + slack * np.nan_to_num(abs(high))


def _divided(x: Array, y: Array) -> Array:
    if x.dtype != object:
        return np.true_divide(x, y)
    quotient = abs(x) // abs(y)
    return np.where((x < 0) == (y < 0), quotient, -quotient)


MONOTONIC_IN_EACH: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
}


@computes(*MONOTONIC_IN_EACH, broadcasts=True)
def _arithmetic(call: Call) -> Bounds | None:
    a, b = call.x, call.of(1)
    if call.operator == "Div" and _has_zero(b):
        return None
    ends = corners(MONOTONIC_IN_EACH[call.operator], a, b)
    if a.data_type == "FLOAT16":  # providers compute it in more than one way
        ends = _loosened(a.data_type, ends, 2)
    nan = (_has_zero(a) and _is_infinite(b)) or (_has_zero(b) and _is_infinite(a))
    return call.elementwise(*ends, nan and call.operator == "Mul")


@computes("Mod", broadcasts=True)
def _mod(call: Call) -> Bounds | None:
    a, b = call.x, call.of(1)
    as_c, is_integer = call.attributes.get("fmod", 0), a.data_type in LIMITS
    if _has_zero(b) or b.nan or a.nan or _is_infinite(a) or not (as_c or is_integer):
        return None
    if a.is_exact and b.is_exact and not as_c:
        return call.elementwise(a.low % b.low, a.low % b.low)
    most, signed = greatest(abs(b.low), abs(b.high)) - int(is_integer), a if as_c else b
    fits = (a.low >= 0) & (a.high < b.low)
    low = np.where(fits, a.low, np.where(signed.low < 0, -most, 0))
    return call.elementwise(low, np.where(fits, a.high, np.where(signed.high > 0, most, 0)))


MONOTONIC: dict[str, Callable[[Array], Array]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Sqrt": np.sqrt,  # of a negative number: NaN, so nothing is known
    "Log": np.log,
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": lambda x: -x[..., ::-1],
    "Not": lambda x: 1 - x[..., ::-1],
}
"""What operators of one input make of the bounds, if it moves in one direction."""


@computes(*MONOTONIC)
def _monotonic(call: Call) -> Bounds | None:
    bounds = MONOTONIC[call.operator](call.x.bounds)
    low, high = bounds[..., :1], bounds[..., 1:]
    if call.operator == "Log":
        low, high = _loosened(call.x.data_type, (low, high), 16)
    if call.operator == "Sign" and not is_ordered(call.x):
        low, high = -1, 1
    return call.elementwise(low, high)


@computes("Abs")
def _abs(call: Call) -> Bounds | None:
    low, high = abs(call.x.low), abs(call.x.high)
    inside = (call.x.low <= 0) & (call.x.high >= 0)
    return call.elementwise(np.where(inside, 0 * low, least(low, high)), greatest(low, high))


# Order and choice.


@computes("Max", "Min", "And", "Or", broadcasts=True)
def _extreme(call: Call) -> Bounds | None:
    return call.elementwise(*_chosen(call.operator in ("Max", "Or"), *call.given))


def _chosen(largest: bool, *values: Bounds) -> tuple[Array, Array]:
    """The bounds of the largest or smallest of values: of any of them where one may be NaN."""
    lows, highs = [value.low for value in values], [value.high for value in values]
    low, high = least(*lows), greatest(*highs)
    if any(value.nan for value in values):
        return low, high
    alike, word = ordered(*values), 2**32 - 1
    is_wide = not alike.all()
    if largest:
        most = greatest(*lows)
        return np.where(alike, most, greatest(low, most & ~word)) if is_wide else most, high
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
    if x.data_type in FLOATS:  # a bound that is left out is the greatest finite number, or none
        greatest_finite = np.finfo(FLOATS[x.data_type]).max
        ends[0] = ends[0] or interval(x.data_type, (), -np.inf, -greatest_finite)
        ends[1] = ends[1] or interval(x.data_type, (), greatest_finite, np.inf)
    low, high = ends
    if low and high and (x.nan or (low.low.min() >= 0 and is_ordered(low, high) > is_ordered(x))):
        return call.elementwise(least(low.low, high.low), greatest(low.high, high.high))
    if low is not None:
        x = interval(x.data_type, x.sizes, *_chosen(True, x, low), x.nan)
    return call.elementwise(*(_chosen(False, x, high) if high else (x.low, x.high)))


COMPARISONS: dict[str, Callable[[Array, Array], Any]] = {
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}


@computes(*COMPARISONS, "Equal", broadcasts=True)
def _comparison(call: Call) -> Bounds:
    a, b = call.x, call.of(1)
    sure, possible = False, True
    if not (a.nan or b.nan):
        if call.operator == "Equal":
            possible = (a.low <= b.high) & (b.low <= a.high)
            sure = (a.low == a.high) & (b.low == b.high) & possible
        elif is_ordered(a, b):
            compare = COMPARISONS[call.operator]
            ends = [compare(a.low, b.high), compare(a.high, b.low)]
            sure, possible = ends[0] & ends[1], ends[0] | ends[1]
    return call.value(np.asarray(sure), np.asarray(possible))


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
    low, high, nan = x.low, x.high, x.nan
    if target == "BOOL":
        low, high = (low > 0) | (high < 0), (low != 0) | (high != 0)
        low = low & (not nan)
    elif x.data_type in FLOATS and target in LIMITS:
        first, last = LIMITS[target]
        low, high = low.astype(np.float64), high.astype(np.float64)
        fits = (low > first - 1) & (high < last + 1) & (not nan)
        whole: Callable[[Array], Array] = np.vectorize(int, otypes=[object])
        low = np.where(fits, whole(np.where(fits, low, 0)), np.array(first, object))
        high = np.where(fits, whole(np.where(fits, high, 0)), np.array(last, object))
    elif x.data_type not in LIMITS | FLOATS:
        return None
    return call.value(low, high, nan and target in FLOATS)


# Positions, which an axis bounds.


def _last(size: int | None) -> int:
    """The last position on an axis."""
    return LARGEST_SIZE if size is None else max(size - 1, 0)


def _position(call: Call, axis: int, k: int = 0) -> Bounds:
    size = call.x.sizes[axis] if call.x.sizes else None
    reason = f"{call.operator} over axis of {size}" if size is not None else call.operator
    return call.value(0, _last(size), k=k, why=(reason,))


@computes("ArgMax", "ArgMin")
def _arg_extreme(call: Call) -> Bounds | None:
    return _position(call, call.axis(0))


@computes("TopK")
def _top_k(call: Call) -> Sequence[Bounds]:
    return call.selected(call.x.whole), _position(call, call.axis(-1), 1)


@computes("NonZero")
def _non_zero(call: Call) -> Bounds | None:
    here, full = (call.x.low > 0) | (call.x.high < 0), call.x.full
    if full is not None and (call.x.is_exact or here.all()):
        rows = np.array(np.nonzero(np.atleast_1d(full.any(axis=-1))), np.int64)[..., None]
        return interval("INT64", rows.shape[:-1], rows, rows)
    sizes = call.x.sizes or (None,)
    rows = np.array([[[_last(size)]] for size in sizes], object)
    why = f"NonZero over axes of {', '.join('?' if s is None else str(s) for s in sizes)}"
    return call.value(0 * rows, rows, why=(why,))


@computes("NonMaxSuppression")
def _non_max_suppression(call: Call) -> Bounds:
    boxes, scores = (call.of(k).sizes or (None,) * 3 for k in (0, 1))
    lasts = [_last(size) for size in (scores[0], scores[1], boxes[1])]
    why = f"NonMaxSuppression of {'?' if boxes[1] is None else boxes[1]} boxes"
    return call.value(0, np.array(lasts, object).reshape(1, 3, 1), why=(why,))


@computes("Shape", "Size")
def _shape(call: Call) -> Bounds | None:
    sizes = call.x.sizes
    if call.operator == "Size":
        sizes = (elements_of(sizes),)
    elif sizes is None:
        return call.value(0, LARGEST_SIZE)
    else:
        sizes = sizes[call.attributes.get("start", 0) : call.attributes.get("end", len(sizes))]
    low = [0 if size is None else size for size in sizes]
    high = [LARGEST_SIZE if size is None else size for size in sizes]
    bounds = np.array([low, high], object).T
    return call.value(bounds[:, :1], bounds[:, 1:])


@computes("Range")
def _range(call: Call) -> Bounds | None:
    start, limit, delta = values = [call.of(k) for k in range(3)]
    if start.data_type in INTEGERS and all(value.is_exact for value in values):
        numbers = range(*(int(value.whole[0]) for value in values))
        if len(numbers) <= ELEMENTS:
            array = np.array(numbers, object)[:, None]
            return interval(start.data_type, (len(numbers),), array, array)
    if start.data_type not in INTEGERS or not is_ordered(start, limit, delta):
        return None
    if delta.low.min() > 0:
        return call.value(start.whole[0], limit.whole[1] - 1)
    return call.value(limit.whole[0] + 1, start.whole[1]) if delta.high.max() < 0 else None


# Sums along axes.


@computes("ReduceSum")
def _reduce_sum(call: Call) -> Bounds | None:
    x, axes = call.x, call.option("axes", 1, [])
    if x.sizes is None or axes is None or x.data_type not in INTEGERS:
        return None
    if not axes and not call.attributes.get("noop_with_empty_axes", 0):
        axes = list(range(len(x.sizes)))
    along = tuple(axis % len(x.sizes) for axis in axes)
    count = elements_of(tuple(x.sizes[axis] for axis in along))
    if not count or abs(x.bounds).max() * count >= min(EXACT, LIMITS[x.data_type][1]):
        return None
    repeated = count // math.prod(x.bounds.shape[axis] for axis in along)
    bounds = x.bounds.sum(axis=along, keepdims=True) * repeated
    return call.selected(bounds if call.attributes.get("keepdims", 1) else bounds.squeeze(along))


@computes("CumSum")
def _cum_sum(call: Call) -> Bounds | None:
    x, axes = call.x, call.option("axis", 1)
    if x.sizes is None or axes is None or x.data_type not in INTEGERS:
        return None
    count = x.sizes[axes[0]]
    if count is None:
        return None
    (low, high), fewest = x.whole, 0 if call.attributes.get("exclusive", 0) else 1
    return call.value(min(fewest * low, count * low), max(fewest * high, count * high))


# Elements selected, moved and put together.


MEMBERS: dict[str, tuple[int, ...]] = {
    "Compress": (0,),
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
        values.append(bounds_of_array(call.x.data_type, np.array(call.attributes.get("value", 0))))
    member = joined([value for value in values if value])
    low, high = member.whole
    return call.value(low, high, member.nan)


@computes("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", quiet=True)
def _rearranged(call: Call) -> Bounds:
    """The same elements in the same order, in other sizes."""
    return call.selected(_in_sizes(call.x, call.types[0].sizes))


def _in_sizes(x: Bounds, sizes: OpenSizes | None) -> Array:
    """The bounds of the elements of `x`, in the same order or repeated along axes."""
    if sizes == x.sizes:
        return x.bounds
    if x.full is not None and sizes is not None and elements_of(sizes) == elements_of(x.sizes):
        return x.full.reshape(*(size or 0 for size in sizes), 2)
    if sizes and x.sizes and sizes[-1] == x.sizes[-1] and x.bounds.shape[-2] <= COLUMNS:
        return hull(x.bounds, range(x.bounds.ndim - 2)).reshape(-1, 2)
    return x.whole


@computes("Transpose", quiet=True)
def _transpose(call: Call) -> Bounds:
    rank = len(call.x.sizes or ())
    order = call.option("perm", 9, [*range(rank)][::-1]) or []
    return call.selected(call.x.bounds.transpose(*order, rank) if rank else call.x.bounds)


@computes("Expand", quiet=True)
def _expand(call: Call) -> Bounds:
    return call.selected(call.x.bounds if call.types[0].sizes else call.x.whole)


@computes("Tile", quiet=True)
def _tile(call: Call) -> Bounds:
    sizes, repeats = call.types[0].sizes, call.option("repeats", 1)
    if call.x.full is not None and repeats and (elements_of(sizes) or LARGEST_SIZE) <= ELEMENTS:
        return call.selected(np.tile(call.x.full, (*repeats, 1)))
    return call.selected(_in_sizes(call.x, sizes))


def _taken(bounds: Array, axis: int, positions: Sequence[int] | None) -> Array:
    """The bounds at some positions of an axis; None: at any."""
    if bounds.shape[axis] == 1:
        return bounds
    return hull(bounds, [axis]) if positions is None else np.take(bounds, positions, axis)


@computes("Slice", quiet=True)
def _slice(call: Call) -> Bounds:
    x, starts, ends = call.x, call.option("starts", 1), call.option("ends", 2)
    count = len(starts or ends or ())
    axes, steps = call.option("axes", 3, [*range(count)]), call.option("steps", 4, [1] * count)
    if not axes or x.sizes is None:
        return call.selected(x.whole)
    bounds, sizes = x.bounds, [*(call.types[0].sizes or (None,) * len(x.sizes))]
    for k, axis in enumerate(axes):
        axis, chosen = axis % len(sizes), None
        size = x.sizes[axis]
        if starts and ends and steps and size is not None:
            chosen = _steps(starts[k], ends[k], steps[k], size)
            sizes[axis] = len(chosen)
        bounds = _taken(bounds, axis, chosen)
    return interval(x.data_type, tuple(sizes), bounds[..., :1], bounds[..., 1:], x.nan)


def _steps(start: int, end: int, step: int, size: int) -> range:
    """The positions that a Slice takes from an axis; the greatest INT32 and INT64 mean its end."""
    first = max(start, -size) if step < 0 else start
    last = None if end in (INTEGERS["INT32"][1], LARGEST_SIZE) else end
    return range(size)[first:last:step]


@computes("Split", quiet=True)
def _split(call: Call) -> Sequence[Bounds] | None:
    axis = call.axis(0)
    parts = [sizes[axis] if sizes else None for _, sizes in call.types]
    ends = [*itertools.accumulate(size or 0 for size in parts)]
    return [
        call.selected(
            _taken(call.x.bounds, axis, None if None in parts else range(end - (size or 0), end)), k
        )
        for k, (size, end) in enumerate(zip(parts, ends, strict=True))
    ]


@computes("Concat", quiet=True)
def _concat(call: Call) -> Bounds:
    sizes, axis = call.types[0].sizes, call.axis(0)
    nan = any(value.nan for value in call.given)
    if sizes is None or (sizes[axis] or LARGEST_SIZE) > ELEMENTS:
        low, high = joined(call.given).whole
        return call.value(low, high, nan)
    common = np.broadcast_shapes(*(hull(value.bounds, [axis]).shape for value in call.given))
    parts = [
        np.broadcast_to(
            value.bounds, (*common[:axis], (value.sizes or ())[axis] or 0, *common[axis + 1 :])
        )
        for value in call.given
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
    return call.selected(bounds.reshape(*bounds.shape[:axis], *ones, *bounds.shape[axis + 1 :]))


@computes("ConstantOfShape", quiet=True)
def _constant_of_shape(call: Call) -> Bounds:
    number = np.ravel(call.attributes.get("value", np.float32(0)))[0]
    value = bounds_of_array(call.types[0].data_type, number)
    return call.value(value.low, value.high, value.nan)
