"""The table of operators: the bounds of what each computes, from the bounds of its inputs.

An operator that is not in the table computes anything that its data type holds.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onnxgather.arrays import Array
from onnxgather.audit.intervals import (
    COLUMNS,
    ELEMENTS,
    FLOATS,
    INTEGERS,
    LIMITS,
    Sizes,
    Value,
    broadcast,
    constant,
    corners,
    elements_of,
    greatest,
    hull,
    interval,
    is_ordered,
    joined,
    least,
    ordered,
    unknown,
)
from onnxgather.model.network import Node, ValueType

EXACT = 2**53
"""The CPU provider may sum integers up to which FLOAT64 is exact as floats."""

LARGEST = INTEGERS["INT64"][1]
"""The bound of a size that is not known."""


TYPES = " FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64"
"""The data types in the order of ONNX's numbers for them."""


class Call(NamedTuple):
    """A node, what is known of its inputs (None: left out), and the types of its outputs."""

    node: Node
    inputs: tuple[Value | None, ...]
    types: Sequence[ValueType]

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self.node.operator

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the node."""
        return self.node.attributes

    @property
    def data_type(self) -> str:
        """The data type of the first output; "" where it is not known."""
        number = int(self.attributes.get("to", self.attributes.get("dtype", 0)))
        types = TYPES.split(" ")
        return types[number] if 0 < number < len(types) else self.types[0].data_type

    @property
    def x(self) -> Value:
        """The first input."""
        return self.of(0)

    def of(self, position: int) -> Value:
        """An input that the operator requires."""
        value = self.has(position)
        return value if value is not None else unknown("", None)

    def has(self, position: int) -> Value | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def given(self) -> list[Value]:
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

    def axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """The axis, counted from the front."""
        axis = int(self.attributes.get(name, default))
        return axis + (rank or len(self.x.sizes or ())) if axis < 0 else axis

    def elementwise(self, low: Any, high: Any, nan: bool = False, data_type: str = "") -> Value:
        """A value of the broadcast sizes of the inputs and the data type of the first one."""
        sizes = broadcast(*(value.sizes for value in self.given))
        if not all(value.data_type in LIMITS | FLOATS for value in self.given):
            return unknown(self.x.data_type, sizes)
        nan = nan or any(value.nan for value in self.given)
        return interval(data_type or self.x.data_type, sizes, low, high, nan)


Transfer = Callable[[Call], "Value | Sequence[Value] | None"]
OPERATORS: dict[str, Transfer] = {}
"""What each operator of ONNX computes: its outputs, or None where nothing is known of them."""

QUIET: set[str] = set()
"""Operators that select elements, which a proof in words does not name."""


def computes(*names: str, quiet: bool = False) -> Callable[[Transfer], Transfer]:
    """Enter a function in the table."""

    def enter(function: Transfer) -> Transfer:
        OPERATORS.update(dict.fromkeys(names, function))
        QUIET.update(names if quiet else ())
        return function

    return enter


# Arithmetic, element by element. NumPy rounds floats as the CPU provider does.


def _has_zero(value: Value) -> bool:
    return bool(((value.low <= 0) & (value.high >= 0)).any())


def _is_infinite(value: Value) -> bool:
    return value.data_type not in LIMITS and bool(np.isinf(value.bounds.astype(float)).any())


def _rounded(call: Call, low: Any, high: Any, nan: bool) -> Value:
    """The bounds of sums and products. Providers compute FLOAT16 in more than one way."""
    if call.x.data_type == "FLOAT16":
        low, high = _loosened("FLOAT16", low, high, 2)
    return call.elementwise(low, high, nan)


@computes("Add", "Sub", "Sum")
def _add(call: Call) -> Value:
    value, *others = call.given
    for other in others:
        low, high = other.low, other.high
        if call.operator == "Sub":
            low, high = -high, -low
        nan = _is_infinite(value) and _is_infinite(other)
        value = _rounded(call, value.low + low, value.high + high, nan)
    return value


@computes("Mul")
def _mul(call: Call) -> Value:
    a, b = call.x, call.of(1)
    nan = (_has_zero(a) and _is_infinite(b)) or (_has_zero(b) and _is_infinite(a))
    return _rounded(call, *corners(np.multiply, a, b), nan)


@computes("Div")
def _div(call: Call) -> Value | None:
    a, b = call.x, call.of(1)
    if _has_zero(b):
        return None
    if a.data_type not in LIMITS:
        nan = _is_infinite(a) and _is_infinite(b)
        return _rounded(call, *corners(np.true_divide, a, b), nan)

    def truncated(x: Array, y: Array) -> Array:
        quotient = abs(x) // abs(y)
        return np.where((x < 0) == (y < 0), quotient, -quotient)

    return call.elementwise(*corners(truncated, a, b))


@computes("Mod")
def _mod(call: Call) -> Value | None:
    a, b = call.x, call.of(1)
    as_c = call.attributes.get("fmod", 0)
    if _has_zero(b) or b.nan or a.nan or _is_infinite(a) or (not as_c and a.data_type in FLOATS):
        return None
    if a.is_exact and b.is_exact and a.data_type in LIMITS and not as_c:
        return call.elementwise(a.low % b.low, a.low % b.low)
    step = int(a.data_type in LIMITS)
    most = greatest(abs(b.low), abs(b.high)) - step
    if as_c:
        negative = greatest(least(a.low, 0 * a.low), -most)
        return call.elementwise(negative, least(greatest(a.high, 0 * a.high), most))
    fits = (a.low >= 0) & (a.high < b.low)
    low = np.where(fits, a.low, least(b.low + 1, 0 * b.low))
    return call.elementwise(low, np.where(fits, a.high, greatest(b.high - 1, 0 * b.high)))


MONOTONIC: dict[str, Callable[[Array], Array]] = {
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Sqrt": np.sqrt,  # of a negative number: NaN, so nothing is known
    "Relu": lambda x: np.maximum(x, 0),
    "Neg": lambda x: -x[..., ::-1],
    "Not": lambda x: 1 - x[..., ::-1],
}
"""What operators of one input make of the bounds, if it moves in one direction."""


@computes(*MONOTONIC)
def _monotonic(call: Call) -> Value | None:
    bounds = MONOTONIC[call.operator](call.x.bounds)
    if call.operator == "Sign" and not is_ordered(call.x):
        bounds = np.array((-1, 1), object)
    return call.elementwise(bounds[..., :1], bounds[..., 1:])


@computes("Identity", "Dropout", quiet=True)
def _identity(call: Call) -> Value | None:
    if call.option("training_mode", 2, [0]) != [0]:
        return None
    return call.x if call.x.sizes is None else _selected(call.x, call.x.sizes, call.x.bounds)


@computes("Abs")
def _abs(call: Call) -> Value:
    low, high = abs(call.x.low), abs(call.x.high)
    inside = (call.x.low <= 0) & (call.x.high >= 0)
    return call.elementwise(np.where(inside, 0 * low, least(low, high)), greatest(low, high))


IMAGES: dict[str, tuple[int, int]] = {
    "Softmax": (0, 1),
    "Sigmoid": (0, 1),
    "HardSigmoid": (0, 1),
    "Hardmax": (0, 1),
} | dict.fromkeys(("Tanh", "Erf", "Sin", "Cos", "Softsign"), (-1, 1))
"""Operators whose results stay in an interval whatever the input is."""


@computes(*IMAGES)
def _image(call: Call) -> Value | None:
    if call.x.data_type not in FLOATS:
        return None
    low, high = _loosened(call.x.data_type, *IMAGES[call.operator])
    return interval(call.x.data_type, call.x.sizes, low, high, call.x.nan or _is_infinite(call.x))


def _loosened(data_type: str, low: Any, high: Any, roundings: int = 16) -> tuple[Any, Any]:
    """The bounds, wider by some roundings of the type, as providers approximate."""
    if data_type in LIMITS:
        return low, high
    slack = roundings * float(np.finfo(FLOATS[data_type]).eps)
    return low - slack * np.nan_to_num(abs(low)), high + slack * np.nan_to_num(abs(high))


@computes("Exp", "Log")
def _exp(call: Call) -> Value | None:
    if call.x.data_type not in FLOATS:
        return None
    wide = call.x.bounds.astype(np.float64)
    bounds = np.exp(wide) if call.operator == "Exp" else np.log(wide)
    return call.elementwise(*_loosened(call.x.data_type, bounds[..., :1], bounds[..., 1:]))


@computes("Pow")
def _pow(call: Call) -> Value | None:
    a, b = call.x, call.of(1)
    if not (
        b.is_exact and b.low.min() >= 0 and a.low.min() >= 0 and a.data_type in LIMITS | FLOATS
    ):
        return None
    with np.errstate(all="ignore"):
        low, high = (end.astype(np.float64) ** b.low.astype(np.float64) for end in (a.low, a.high))
    if a.data_type in FLOATS:
        return call.elementwise(*_loosened(a.data_type, low, high))
    return call.elementwise(low, high) if high.max() < EXACT and b.data_type in LIMITS else None


# Order and choice.


@computes("Max", "Min")
def _extreme(call: Call) -> Value:
    return _chosen(call, call.operator == "Max", call.given)


def _chosen(call: Call, largest: bool, values: list[Value]) -> Value:
    """The largest or the smallest of values, any of them where one may be NaN."""
    lows, highs = [value.low for value in values], [value.high for value in values]
    low, high = least(*lows), greatest(*highs)
    if not any(value.nan for value in values):
        alike, word = ordered(*values), 2**32 - 1
        is_wide = not alike.all()
        if largest:
            most = greatest(*lows)
            low = np.where(alike, most, greatest(low, most & ~word)) if is_wide else most
        else:
            most = least(*highs)
            high = np.where(alike, most, least(high, most | word)) if is_wide else most
    return call.elementwise(low, high)


@computes("Clip")
def _clip(call: Call) -> Value | None:
    x, ends = call.x, [call.has(1), call.has(2)]
    for k, name in enumerate(("min", "max")):
        if name in call.attributes:  # before opset 11
            number = np.asarray(call.attributes[name], FLOATS.get(x.data_type))
            ends[k] = constant(x.data_type, number)
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
        x = _chosen(call, True, [x, low])
    return x if high is None else _chosen(call, False, [x, high])


COMPARISONS: dict[str, Callable[[Array, Array], Any]] = {
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
}


@computes(*COMPARISONS, "Equal")
def _comparison(call: Call) -> Value:
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
    sizes = broadcast(a.sizes, b.sizes)
    return interval("BOOL", sizes, np.asarray(sure), np.asarray(possible))


@computes("And", "Or")
def _logical(call: Call) -> Value:
    combine = least if call.operator == "And" else greatest
    a, b = call.x, call.of(1)
    return call.elementwise(combine(a.low, b.low), combine(a.high, b.high))


@computes("Where", quiet=True)
def _where(call: Call) -> Value:
    condition, a, b = call.x, call.of(1), call.of(2)
    if a.data_type != b.data_type:
        return unknown("", None)
    surely, never = condition.low == 1, condition.high == 0
    low = np.where(surely, a.low, np.where(never, b.low, least(a.low, b.low)))
    high = np.where(surely, a.high, np.where(never, b.high, greatest(a.high, b.high)))
    taken = [a] * (not never.all()) + [b] * (not surely.all())
    sizes = broadcast(condition.sizes, a.sizes, b.sizes)
    value = joined(taken)
    nan = any(branch.nan for branch in taken)
    return interval(a.data_type, sizes, low, high, nan, why=value.why, stops=value.stops)


@computes("BitwiseAnd")
def _bitwise_and(call: Call) -> Value | None:
    highs = [value.high for value in call.given if value.low.min() >= 0]
    return call.elementwise(0, least(*highs)) if highs else None


# Data types.


@computes("Cast", "CastLike", quiet=True)
def _cast(call: Call) -> Value:
    x, target = call.x, call.data_type
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
    elif x.data_type not in LIMITS and x.data_type not in FLOATS:
        return unknown(target, x.sizes)
    return interval(target, x.sizes, low, high, nan and target in FLOATS)


# Positions, which an axis bounds.


def _position(call: Call, sizes: Sizes, size: int | None) -> Value:
    reason = f"{call.operator} over axis of {size}" if size is not None else call.operator
    last = LARGEST if size is None else max(size - 1, 0)
    return interval("INT64", sizes, 0, last, why=(reason,))


def _resized(sizes: Sizes, axis: int, size: int | None) -> Sizes:
    return None if sizes is None else (*sizes[:axis], size, *sizes[axis + 1 :])


@computes("ArgMax", "ArgMin")
def _argmax(call: Call) -> Value | None:
    sizes = call.x.sizes
    if sizes is None:
        return _position(call, None, None)
    axis = call.axis(0)
    kept = (1,) if call.attributes.get("keepdims", 1) else ()
    return _position(call, (*sizes[:axis], *kept, *sizes[axis + 1 :]), sizes[axis])


@computes("TopK")
def _top_k(call: Call) -> Sequence[Value]:
    x, axis = call.x, call.axis(-1)
    count = call.option("k", 1)
    sizes = _resized(x.sizes, axis, count[0] if count else None)
    size = x.sizes[axis] if x.sizes else None
    return _selected(x, sizes), _position(call, sizes, size)


@computes("NonZero")
def _non_zero(call: Call) -> Value | None:
    sizes = call.x.sizes
    if sizes is None:
        return interval("INT64", None, 0, LARGEST)
    sizes = sizes or (1,)
    here, full = (call.x.low > 0) | (call.x.high < 0), call.x.full
    if full is not None and (call.x.is_exact or here.all()):
        rows = np.array(np.nonzero(np.atleast_1d(full.any(axis=-1))), np.int64)[..., None]
        return interval("INT64", rows.shape[:-1], rows, rows)
    count = elements_of(sizes) if here.all() else None
    lasts = [[LARGEST if size is None else max(size - 1, 0)] for size in sizes]
    rows = np.array(lasts, object).reshape(len(sizes), 1, 1)
    why = f"NonZero over axes of {', '.join('?' if s is None else str(s) for s in sizes)}"
    return interval("INT64", (len(sizes), count), 0 * rows, rows, why=(why,))


@computes("NonMaxSuppression")
def _non_max_suppression(call: Call) -> Value:
    boxes, scores = (call.of(k).sizes or (None,) * 3 for k in (0, 1))
    counts = scores[0], scores[1], boxes[1]
    lasts = [[LARGEST if size is None else max(size - 1, 0)] for size in counts]
    why = f"NonMaxSuppression of {'?' if boxes[1] is None else boxes[1]} boxes"
    return interval("INT64", (None, 3), 0, np.array([lasts], object), why=(why,))


@computes("MaxPool")
def _max_pool(call: Call) -> Sequence[Value] | None:
    return _selected(call.x, None), _position(call, None, elements_of(call.x.sizes))


@computes("Shape", "Size")
def _shape(call: Call) -> Value:
    sizes = call.x.sizes
    if call.operator == "Size" or sizes is None:
        count = elements_of(sizes) if call.operator == "Size" else None
        shape = () if call.operator == "Size" else (None,)
        return interval("INT64", shape, count or 0, LARGEST if count is None else count)
    sizes = sizes[call.attributes.get("start", 0) : call.attributes.get("end", len(sizes))]
    ends = [[(size or 0, LARGEST if size is None else size)] for size in sizes]
    bounds = np.array(ends, object).reshape(len(sizes), 2)
    return interval("INT64", (len(sizes),), bounds[:, :1], bounds[:, 1:])


@computes("Range")
def _range(call: Call) -> Value | None:
    start, limit, delta = values = [call.of(k) for k in range(3)]
    if all(value.known is not None for value in values):
        first, end, step = (value.known.item() for value in values if value.known is not None)
        whole = all(float(x).is_integer() and abs(x) <= 2**11 for x in (first, end, step))
        if step and (start.data_type in INTEGERS or whole):
            numbers = range(int(first), int(end), int(step))
            if len(numbers) <= ELEMENTS:
                array = np.array(numbers, object)
                return interval(start.data_type, array.shape, array[:, None], array[:, None])
    if start.data_type not in INTEGERS or not is_ordered(start, limit, delta):
        return None
    if delta.low.min() > 0:
        return interval(start.data_type, (None,), start.whole[0], limit.whole[1] - 1)
    if delta.high.max() < 0:
        return interval(start.data_type, (None,), limit.whole[0] + 1, start.whole[1])
    return None


# Sums and extremes along axes.


@computes("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd")
def _reduce(call: Call) -> Value | None:
    x, axes = call.x, call.option("axes", 1, [])
    if x.sizes is None or axes is None or x.data_type not in LIMITS | FLOATS:
        return None
    if not axes and not call.attributes.get("noop_with_empty_axes", 0):
        axes = list(range(len(x.sizes)))
    axes = [axis % len(x.sizes) for axis in axes]
    count = elements_of(tuple(x.sizes[axis] for axis in axes))
    bounds = _reduced(call.operator, x, axes, count)
    if bounds is None:
        return None
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(x.sizes))
    if not call.attributes.get("keepdims", 1):
        sizes = tuple(size for axis, size in enumerate(sizes) if axis not in axes)
        bounds = np.squeeze(bounds, tuple(axes))
    return interval(x.data_type, sizes, bounds[..., :1], bounds[..., 1:], x.nan)


def _reduced(name: str, x: Value, axes: list[int], count: int | None) -> Array | None:
    """The bounds with `axes`, of `count` elements together, reduced to 1."""
    along = tuple(axes)
    if name in ("ReduceMax", "ReduceMin"):
        bounds = hull(x.bounds, along) if count else None
        if bounds is not None and is_ordered(x) and not x.nan:
            extreme = x.bounds.max if name == "ReduceMax" else x.bounds.min
            bounds = extreme(axis=along, keepdims=True)
        return bounds
    if x.data_type not in INTEGERS or count is None:
        return None
    repeated = count // math.prod(x.bounds.shape[axis] for axis in axes) if count else 0
    if name == "ReduceSum":
        bounds, most = (
            x.bounds.sum(axis=along, keepdims=True) * repeated,
            abs(x.bounds).max() * count,
        )
    elif x.low.min() >= 0:
        bounds = x.bounds.prod(axis=along, keepdims=True) ** repeated
        most = bounds.max()
    else:
        return None
    return bounds if most < min(EXACT, LIMITS[x.data_type][1]) else None


@computes("CumSum")
def _cum_sum(call: Call) -> Value | None:
    x, axes = call.x, call.option("axis", 1)
    if x.sizes is None or axes is None or x.data_type not in INTEGERS:
        return None
    count = x.sizes[axes[0] % len(x.sizes)]
    if count is None:
        return None
    (low, high), fewest = x.whole, 0 if call.attributes.get("exclusive", 0) else 1
    return interval(
        x.data_type,
        x.sizes,
        min(fewest * low, count * low),
        max(fewest * high, count * high),
    )


# Elements selected, moved and put together.


def _selected(value: Value, sizes: Sizes, bounds: Array | None = None) -> Value:
    """A value whose elements all come from `value`; by default any of them anywhere."""
    bounds = value.whole if bounds is None else bounds
    return interval(value.data_type, sizes, bounds[..., :1], bounds[..., 1:], value.nan)


MEMBERS: dict[str, tuple[int, ...]] = {
    "Compress": (0,),
    "DepthToSpace": (0,),
    "SpaceToDepth": (0,),
    "ReverseSequence": (0,),
    "Unique": (0,),
    "Scatter": (0, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}
"""Operators whose elements come from some of their inputs."""


@computes(*MEMBERS, "Pad", "Trilu", "Resize", quiet=True)
def _members(call: Call) -> Value | None:
    x, attributes = call.x, call.attributes
    values = [call.of(position) for position in MEMBERS.get(call.operator, (0,))]
    sizes = x.sizes if call.operator.startswith(("Scatter", "Trilu")) else None
    if attributes.get("reduction", "none") != "none":
        return None
    if call.operator == "Resize" and (
        attributes.get("mode", "nearest") != "nearest"
        or attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        return None
    if call.operator == "Pad":
        if attributes.get("mode", "constant") == "constant":
            number = constant(x.data_type, np.array(attributes.get("value", 0)))
            values.append(call.has(2) or number)
        pads = call.option("pads", 1)
        if x.sizes is not None and pads is not None and call.has(3) is None:
            pairs = zip(x.sizes, pads, pads[len(x.sizes) :], strict=False)
            sizes = tuple(None if size is None else size + a + b for size, a, b in pairs)
    if call.operator == "Trilu":
        values.append(constant(x.data_type, np.array(0)))
    return _selected(joined([_selected(value, None) for value in values]), sizes)


def _target(call: Call) -> list[int | None] | None:
    """The sizes that the second input holds; each is None where it is not known."""
    shape = call.of(1)
    if shape.sizes is None or shape.sizes[0] is None or shape.full is None:
        return None
    return [int(low) if low == high else None for low, high in shape.full]


def _rearranged(x: Value, sizes: Sizes) -> Value:
    """`x` with the same elements in the same order, or repeated along axes, in other sizes."""
    if x.full is not None and sizes is not None and elements_of(sizes) == elements_of(x.sizes):
        return _selected(x, sizes, x.full.reshape(*map(int, (size or 0 for size in sizes)), 2))
    columns = x.bounds.shape[-2] if x.sizes else 1
    if sizes and x.sizes and sizes[-1] == x.sizes[-1] and columns <= COLUMNS:
        return _selected(x, sizes, hull(x.bounds, range(x.bounds.ndim - 2)).reshape(-1, 2))
    return _selected(x, sizes)


@computes("Reshape", quiet=True)
def _reshape(call: Call) -> Value:
    x = call.x
    shape = call.option("shape", 1)
    target = _target(call) if shape is None else [int(size) for size in shape]
    if target is None:
        return _selected(x, None)
    sizes = x.sizes or ()
    if not call.attributes.get("allowzero", 0):
        target = [
            (sizes[k] if k < len(sizes) else None) if size == 0 else size
            for k, size in enumerate(target)
        ]
    count = elements_of(x.sizes)
    if -1 in target:
        others = elements_of(tuple(size for size in target if size != -1))
        inferred = count // others if count is not None and others else None
        target = [inferred if size == -1 else size for size in target]
    elif (
        sum(size is None for size in target) == 1 and count is not None
    ):  # what is not known may be -1 too
        others = elements_of(tuple(size for size in target if size is not None))
        target = [count // others if size is None and others else size for size in target]
    return _rearranged(x, tuple(target))


@computes("Flatten", quiet=True)
def _flatten(call: Call) -> Value:
    sizes = call.x.sizes
    if sizes is None:
        return _selected(call.x, (None, None))
    axis = call.axis(1)
    return _rearranged(call.x, (elements_of(sizes[:axis]), elements_of(sizes[axis:])))


@computes("Transpose", quiet=True)
def _transpose(call: Call) -> Value:
    x = call.x
    if x.sizes is None:
        return _selected(x, None)
    order = call.option("perm", 9, [*range(len(x.sizes))][::-1]) or []
    bounds = x.bounds.transpose(*order, len(order))
    return _selected(x, tuple(x.sizes[axis] for axis in order), bounds)


@computes("Squeeze", "Unsqueeze", quiet=True)
def _squeeze(call: Call) -> Value:
    x, axes = call.x, call.option("axes", 1, [])
    if x.sizes is None or axes is None:
        return _selected(x, None)
    rank = len(x.sizes)
    if call.operator == "Unsqueeze":
        axes = [axis % (rank + len(axes)) for axis in axes]
        sizes = list(x.sizes)
        for axis in sorted(axes):
            sizes.insert(axis, 1)
        return _selected(x, tuple(sizes), np.expand_dims(x.bounds, tuple(axes)))
    if not call.has(1) and "axes" not in call.attributes:
        if None in x.sizes:
            return _selected(x, None)
        axes = [axis for axis, size in enumerate(x.sizes) if size == 1]
    axes = [axis % rank for axis in axes]
    sizes = tuple(size for axis, size in enumerate(x.sizes) if axis not in axes)
    return _selected(x, sizes, np.squeeze(x.bounds, tuple(axes)))


@computes("Expand", quiet=True)
def _expand(call: Call) -> Value:
    target = _target(call)
    sizes = None if target is None else broadcast(call.x.sizes, tuple(target))
    return _selected(call.x, sizes, None if sizes is None else call.x.bounds)


@computes("Tile", quiet=True)
def _tile(call: Call) -> Value:
    x, repeats = call.x, call.option("repeats", 1)
    if x.sizes is None or repeats is None:
        return _selected(x, None if x.sizes is None else (None,) * len(x.sizes))
    pairs = list(zip(x.sizes, repeats, strict=True))
    sizes = tuple(None if size is None else size * count for size, count in pairs)
    if x.full is not None and (elements_of(sizes) or 0) <= ELEMENTS:
        return _selected(x, sizes, np.tile(x.full, (*repeats, 1)))
    return _rearranged(x, sizes)


@computes("Slice", quiet=True)
def _slice(call: Call) -> Value:
    x = call.x
    if x.sizes is None:
        return _selected(x, None)
    starts, ends = call.option("starts", 1), call.option("ends", 2)
    count = len(starts or ends or ())
    axes, steps = call.option("axes", 3, [*range(count)]), call.option("steps", 4, [1] * count)
    if axes is None or (starts is None and ends is None):
        axes_of = call.has(3)
        return (
            _selected(x, (None,) * len(x.sizes))
            if axes_of is None or axes is None
            else _cut(x, axes)
        )
    if starts is None or ends is None or steps is None:
        return _cut(x, axes)
    bounds, sizes = x.bounds, list(x.sizes)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis, size = axis % len(sizes), sizes[axis]
        chosen = _steps(start, end, step, size or 0)
        sizes[axis] = None if size is None else len(chosen)
        if bounds.shape[axis] > 1:
            bounds = np.take(bounds, chosen, axis)
    return _selected(x, tuple(sizes), bounds)


def _steps(start: int, end: int, step: int, size: int) -> range:
    """The positions that a Slice takes from an axis; the greatest INT32 and INT64 mean its end."""
    backwards = step < 0
    first = min(max(start + size * (start < 0), 0), size - backwards)
    last = min(max(end + size * (end < 0), -backwards), size)
    if end in (INTEGERS["INT32"][1], LARGEST):
        last = -1 if backwards else size
    return range(first, last, step)


def _cut(x: Value, axes: Sequence[int]) -> Value:
    """Some of the elements along some axes."""
    rank = len(x.sizes or ())
    axes = [axis % rank for axis in axes]
    sizes = tuple(None if axis in axes else size for axis, size in enumerate(x.sizes or ()))
    return _selected(x, sizes, hull(x.bounds, axes))


@computes("Split", quiet=True)
def _split(call: Call) -> Sequence[Value] | None:
    x, axis = call.x, call.axis(0)
    if x.sizes is None:
        return [_selected(x, None)] * len(call.types)
    size = x.sizes[axis]
    if size is None:
        return [_cut(x, [axis])] * len(call.types)
    even = -(-size // len(call.types))
    parts = call.option("split", 1, [even] * len(call.types))
    if parts is None:
        return [_cut(x, [axis])] * len(call.types)
    values, start = list[Value](), 0
    for part in parts:
        part = min(part, size - start)
        indices = range(start, start + part) if x.bounds.shape[axis] > 1 else [0]
        bounds = np.take(x.bounds, indices, axis)
        values.append(_selected(x, _resized(x.sizes, axis, part), bounds))
        start += part
    return values


@computes("Concat", quiet=True)
def _concat(call: Call) -> Value:
    ranks = {None if value.sizes is None else len(value.sizes) for value in call.given}
    rank = ranks.pop() if len(ranks) == 1 else None
    if rank is None:
        return _selected(joined([_selected(value, None) for value in call.given]), None)
    axis = call.axis(0, rank)
    sizes = [(value.sizes or ())[axis] for value in call.given]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    others = zip(*(value.sizes or () for value in call.given), strict=True)
    shape = [next((size for size in column if size is not None), None) for column in others]
    shape[axis] = total
    parts = [value.bounds for value in call.given]
    if total is None or total > ELEMENTS:
        parts = [hull(part, [axis]) for part in parts]
        whole = joined([_selected(value, None) for value in call.given])
        return _selected(whole, tuple(shape))
    common = np.broadcast_shapes(*(hull(part, [axis]).shape for part in parts))
    parts = [
        np.broadcast_to(part, (*common[:axis], size or 0, *common[axis + 1 :]))
        for part, size in zip(parts, sizes, strict=True)
    ]
    bounds = np.concatenate(parts, axis)
    nan = any(value.nan for value in call.given)
    return interval(call.x.data_type, tuple(shape), bounds[..., :1], bounds[..., 1:], nan)


@computes("Gather", quiet=True)
def _gather(call: Call) -> Value:
    x, indices = call.x, call.of(1)
    if x.sizes is None:
        return _selected(x, None)
    axis = call.axis(0)
    before, size, after = x.sizes[:axis], x.sizes[axis], x.sizes[axis + 1 :]
    sizes = None if indices.sizes is None else (*before, *indices.sizes, *after)
    bounds = hull(x.bounds, [axis])
    known = indices.known
    if (
        known is not None
        and known.size
        and size
        and size == x.bounds.shape[axis] > 1
        and (-size <= known.min() <= known.max() < size)
    ):
        return _selected(x, sizes, np.take(x.bounds, known.astype(np.int64), axis))
    if sizes is None or indices.sizes is None:
        return _selected(x, sizes)
    shape = bounds.shape
    shape = (*shape[:axis], *(1,) * len(indices.sizes), *shape[axis + 1 :])
    return _selected(x, sizes, bounds.reshape(shape))


@computes("GatherElements", quiet=True)
def _gather_elements(call: Call) -> Value:
    return _selected(call.x, call.of(1).sizes)


@computes("GatherND", quiet=True)
def _gather_nd(call: Call) -> Value:
    x, indices = call.x.sizes, call.of(1).sizes
    if x is None or not indices or indices[-1] is None:
        return _selected(call.x, None)
    taken = call.attributes.get("batch_dims", 0) + indices[-1]
    bounds = hull(call.x.bounds, range(taken))
    bounds = bounds.reshape(*(1,) * (len(indices) - 1), *bounds.shape[taken:])
    return _selected(call.x, (*indices[:-1], *x[taken:]), bounds)


@computes("ConstantOfShape", quiet=True)
def _constant_of_shape(call: Call) -> Value:
    shape = call.x.full
    array = np.asarray(call.attributes.get("value", np.zeros(1, np.float32))).reshape(1)
    sizes = None
    if shape is not None:
        sizes = tuple(int(low) if low == high else None for low, high in shape)
    low = array if array.dtype.kind in "iufb" else 0
    return interval(
        call.data_type, sizes, low, low, bool(array.dtype.kind == "f" and np.isnan(array).any())
    )


@computes("OneHot")
def _one_hot(call: Call) -> Value:
    return _selected(call.of(2), None)


@computes("EyeLike", "Bernoulli")
def _zero_or_one(call: Call) -> Value:
    return interval(call.data_type, call.x.sizes, 0, 1)


# Operators of which only the sizes are told.


SAME_SIZES = (
    "Acos Asin Atan BatchNormalization BitShift BitwiseNot Celu Cosh Elu Gelu HardSwish "
    "InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu LogSoftmax LRN "
    "LpNormalization Mish PRelu QuantizeLinear DequantizeLinear RMSNormalization Reciprocal "
    "Selu Sinh Softplus Swish Tan ThresholdedRelu GroupNormalization"
)


@computes(*SAME_SIZES.split())
def _same_sizes(call: Call) -> Value:
    return unknown(call.data_type, call.x.sizes)


@computes("MatMul")
def _mat_mul(call: Call) -> Value | None:
    a, b = call.x.sizes, call.of(1).sizes
    if a is None or b is None or min(len(a), len(b)) < 2:
        return None
    return unknown(call.data_type, (*(broadcast(a[:-2], b[:-2]) or ()), a[-2], b[-1]))


@computes("Einsum")
def _einsum(call: Call) -> Value | None:
    terms, arrow, result = call.attributes["equation"].replace(" ", "").partition("->")
    if not arrow or "." in terms:
        return None
    sizes: dict[str, int | None] = {}
    for letters, value in zip(terms.split(","), call.given, strict=True):
        for letter, size in zip(letters, value.sizes or (None,) * len(letters), strict=True):
            (sizes[letter],) = broadcast((sizes.get(letter, 1),), (size,)) or (None,)
    return unknown(call.data_type, tuple(sizes[letter] for letter in result))
