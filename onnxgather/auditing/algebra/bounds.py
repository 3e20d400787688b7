"""Bounds of the elements of a tensor: what is known of a value before the model runs.

A bound holds whatever a provider does, so these count: integers wrap around, a float
that no integer holds becomes any integer, and INT64 is ordered by its high half and
then by its low half as signed or as unsigned, as ONNX Runtime's CPU provider and
DirectML do (Min, Max, Clip, ...).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onnxgather.auditing.algebra.sizes import (
    AnySize,
    AnySizes,
    Size,
    high_of,
    larger,
    lesser,
    low_of,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.values import common_sizes

INTEGERS = {
    f"{sign}INT{bits}": (
        (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    for sign in ("", "U")
    for bits in (8, 16, 32, 64)
}
LIMITS: dict[str, tuple[Any, Any]] = {"BOOL": (0, 1)} | INTEGERS
"""The least and the greatest number of each integer type."""

FLOATS: dict[str, Any] = {
    "FLOAT16": np.float16,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}

ELEMENTS, COLUMNS = 2**14, 16
"""Up to how many elements each has its own bounds, and up to how many columns
otherwise."""

AXES = 30
"""The most dimensions of a value whose sizes are kept, as numpy has at most 32 or
64."""

FAR = 2**30
"""A bound that moves from iteration to iteration of a loop stops here first, if not at
0."""

UNBOUNDED = (-math.inf, math.inf)

_lesser: Any = np.frompyfunc(lesser, 2, 1, identity=None)
_larger: Any = np.frompyfunc(larger, 2, 1, identity=None)
_low_of: Any = np.frompyfunc(low_of, 1, 1)
_high_of: Any = np.frompyfunc(high_of, 1, 1)
_is_large: Any = np.frompyfunc(lambda end: isinstance(end, Size) and end.is_large, 1, 1)
"""Of arrays of numbers and sizes."""


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What is known of a value: each element lies between its bounds, or is NaN if `nan` is true.

    Attributes:
        data_type: ONNX's name; "" where it is not known.
        sizes: The sizes, as far as they are known.
        bounds: Shape (*shape, 2): the least and the greatest number of each element, where shape
            broadcasts to the sizes: a dimension of 1 holds for the whole axis. Shape (2,) where
            the rank is not known. Integers are Python's, or sizes that are open; floats have their
            own data type, and an infinite bound says that the element may be infinite.
        nan: Whether an element may be NaN; of integers, whether a Cast may have wrapped one, which
            is as it was before for the next Cast where ONNX Runtime leaves the first one out.
        why: What the bounds come from.
        stops: The graph inputs and the operators that leave the value without bounds.
    """

    data_type: str
    sizes: AnySizes | None
    bounds: Array
    nan: bool
    why: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()

    @property
    def low(self) -> Array:
        """The least number of each element, shape (*shape, 1)."""
        return self.bounds[..., :1]

    @property
    def high(self) -> Array:
        """The greatest number of each element, shape (*shape, 1)."""
        return self.bounds[..., 1:]

    @property
    def is_exact(self) -> bool:
        """Whether each element is known."""
        return not self.nan and bool((self.low == self.high).all())

    @property
    def is_empty(self) -> bool:
        """Whether the value is known to have no element."""
        return self.sizes is not None and 0 in self.sizes

    @property
    def is_bounded(self) -> bool:
        """Whether both bounds say more than the data type does; true of BOOL and of no element."""
        first, last = LIMITS.get(self.data_type, UNBOUNDED)
        low, high = self.closed.whole
        inside = low > first or first == 0, high < last or last == 1
        return self.is_empty or (not self.nan and all(inside))

    @property
    def cast(self) -> Bounds:
        """The value for an operator that computes with it, not with what a Cast made it of."""
        return (
            replace(self, nan=False) if self.nan and self.data_type in LIMITS else self
        )

    @property
    def whole(self) -> Array:
        """The least and the greatest number of all elements, shape (2,)."""
        return hull(self.bounds, range(self.bounds.ndim - 1)).reshape(2)

    @property
    def full(self) -> Array | None:
        """The bounds of each element; None where they are too many, or of unknown number."""
        shape = known_sizes(self.sizes)
        if shape is None or math.prod(shape) > ELEMENTS:
            return None
        return np.broadcast_to(self.bounds, (*shape, 2))

    @property
    def exact(self) -> Array | None:
        """The elements, if each is known as a number or as a size, as an array; None otherwise."""
        return self.full[..., 0] if self.full is not None and self.is_exact else None

    @property
    def known(self) -> Array | None:
        """The elements, if each is a known number, as an array; None otherwise."""
        return self.exact if self.closed is self else None

    @property
    def closed(self) -> Bounds:
        """The value with numbers as bounds in place of sizes that are open."""
        if not _has_sizes(self.bounds):
            return self
        return replace(self, bounds=_closed(self.bounds))

    def resized(self, sizes: AnySizes | None) -> Bounds:
        """The value with other sizes; its bounds broadcast to them, or hold for all elements."""
        ends, reasons = (
            (self.low, self.high, self.nan),
            {"why": self.why, "stops": self.stops},
        )
        return interval(self.data_type, sizes, *ends, **reasons)


def _has_sizes(bounds: Array) -> bool:
    return bounds.dtype == object and any(isinstance(end, Size) for end in bounds.flat)


def _closed(bounds: Array) -> Array:
    return np.concatenate(
        [_low_of(bounds[..., :1]), _high_of(bounds[..., 1:])], axis=-1
    )


def known_sizes(sizes: Sequence[AnySize | None] | None) -> tuple[int, ...] | None:
    """The sizes where each is a number; None otherwise."""
    known = tuple(size for size in sizes or () if isinstance(size, int))
    return known if sizes is not None and len(known) == len(sizes) else None


def elements_of(sizes: Sequence[AnySize | None] | None) -> AnySize | None:
    """The number of elements, or None where it is not known, or too large a sum."""
    if sizes is not None and 0 in sizes:
        return 0
    count: AnySize | None = None if sizes is None else 1
    for size in sizes or ():
        count = None if count is None or size is None else count * size
        if isinstance(count, Size) and count.is_large:
            return None
    return count


def hull(bounds: Array, axes: Iterable[int]) -> Array:
    """The bounds with each of `axes` made one: from the least low to the greatest high."""
    axes = tuple(axes)
    if not axes:
        return bounds
    lower, upper = (
        (_lesser, _larger) if bounds.dtype == object else (np.minimum, np.maximum)
    )
    low = lower.reduce(bounds[..., :1], axis=axes, keepdims=True)
    return np.concatenate(
        [low, upper.reduce(bounds[..., 1:], axis=axes, keepdims=True)], axis=-1
    )


def interval(
    data_type: str,
    sizes: AnySizes | None,
    low: Any,
    high: Any,
    nan: bool = False,
    **reasons: Any,
) -> Bounds:
    """A value from bounds that mathematics gives, before integers wrap around.

    Args:
        data_type: ONNX's name.
        sizes: The sizes.
        low: The least numbers: one, or shape (*shape, 1) where shape broadcasts to the sizes.
        high: The greatest numbers, likewise.
        nan: Whether an element may be NaN.
        **reasons: `why` and `stops` of the value.
    """
    sizes = None if len(sizes or ()) > AXES else sizes
    if data_type in LIMITS:
        bounds = _wrapped(data_type, _stacked(low, high, object))
    elif dtype := FLOATS.get(data_type):
        bounds = _stacked(low, high, dtype)
        lost = np.isnan(bounds).any(axis=-1, keepdims=True)
        bounds = np.where(lost, np.array(UNBOUNDED, dtype), bounds)
        nan = nan or bool(lost.any())
    else:  # strings, sequences, rare types: nothing is known of them
        bounds, nan = np.array(UNBOUNDED, object), True
    return Bounds(data_type, sizes, _fitted(bounds, sizes), nan, **reasons)


def _stacked(low: Any, high: Any, dtype: Any) -> Array:
    ends = [np.atleast_1d(np.asarray(end)) for end in (low, high)]
    ends = [end.astype(np.int8) if end.dtype == bool else end for end in ends]
    ends = [_rounded(end, dtype, far) for end, far in zip(ends, UNBOUNDED, strict=True)]
    return np.concatenate(np.broadcast_arrays(*ends), axis=-1)


def _rounded(ends: Array, dtype: Any, far: float) -> Array:
    """The ends in a data type, rounded away from the interval: providers round on several ways."""
    if dtype in (object, ends.dtype):
        return ends.astype(dtype)
    is_inside = np.greater if far < 0 else np.less
    with np.errstate(over="ignore"):
        near = ends.astype(dtype)
        moved = is_inside(near.astype(object), ends.astype(object)).astype(bool)
        return np.where(moved, np.nextafter(near, dtype(far)), near)


def _wrapped(data_type: str, bounds: Array) -> Array:
    """The bounds after integers wrapped around; those that wrap differently become the type's."""
    first, last = LIMITS[data_type]
    numbers = bounds
    if _has_sizes(bounds):
        numbers = _closed(bounds)
        bounds = np.where(
            _is_large(bounds).any(axis=-1, keepdims=True), numbers, bounds
        )
    turns = (numbers - first) // (last - first + 1)
    if not turns.any():
        return bounds
    together = turns[..., :1] == turns[..., 1:]
    moved = np.where(turns == 0, bounds, numbers - turns * (last - first + 1))
    return np.where(together, moved, np.array((first, last), object))


def _fitted(bounds: Array, sizes: AnySizes | None) -> Array:
    """The bounds with the rank of the sizes, and no more of them than is kept."""
    rank = len(sizes or ())
    if not bounds.size:
        return np.zeros((*(1,) * rank, 2), bounds.dtype)
    if bounds.size > 2 * ELEMENTS:
        bounds = hull(
            bounds, range(bounds.ndim - (2 if bounds.shape[-2] <= COLUMNS else 1))
        )
    if bounds.ndim > rank + 1:
        bounds = hull(bounds, range(bounds.ndim - 1)).reshape(2)
    bounds = bounds.reshape(*(1,) * (rank + 1 - bounds.ndim), *bounds.shape)
    return hull(bounds, [k for k, n in enumerate(sizes or ()) if bounds.shape[k] != n])


def broadcast(values: Sequence[Bounds | None]) -> tuple[Bounds | None, ...]:
    """Values for an operator that broadcasts them, with no more bounds in all than are kept.

    Raises:
        ValueError: Their sizes do not broadcast.
    """
    shapes = [value.bounds.shape[:-1] for value in values if value is not None]
    if math.prod(np.broadcast_shapes(*shapes)) <= ELEMENTS:
        return tuple(values)
    columns = max(shape[-1] for shape in shapes if shape) <= COLUMNS

    def fewer(value: Bounds) -> Bounds:
        kept = range(value.bounds.ndim - (2 if columns else 1))
        return replace(value, bounds=hull(value.bounds, kept))

    return tuple(value and fewer(value) for value in values)


def unknown(data_type: str, sizes: AnySizes | None, *stops: str) -> Bounds:
    """A value of which only the data type and the sizes are known."""
    low, high = LIMITS.get(data_type, UNBOUNDED)
    return interval(data_type, sizes, low, high, data_type not in LIMITS, stops=stops)


def bounds_of_array(data_type: str, array: Array) -> Bounds:
    """The value of an array."""
    if data_type not in LIMITS and data_type not in FLOATS:
        return unknown(data_type, array.shape, "constant")
    low = high = (array if array.ndim <= AXES else array.ravel())[..., None]
    if array.size > ELEMENTS:
        rows = array.reshape(-1, array.shape[-1] if array.shape[-1] <= COLUMNS else 1)
        low, high = rows.min(0)[:, None], rows.max(0)[:, None]
    return interval(data_type, array.shape, low, high, why=("constant",))


def ordered(*values: Bounds) -> Array:
    """Which elements every provider orders alike: those that are no INT64 outside of INT32."""
    first, last = INTEGERS["INT32"]
    masks = (
        np.asarray(value.data_type != "INT64")
        | ((value.low >= first) & (value.high <= last))
        for value in values
    )
    return functools.reduce(lambda a, b: a & b, masks)


def is_ordered(*values: Bounds) -> bool:
    """Whether every provider orders all elements alike."""
    return bool(ordered(*values).all())


def least(*ends: Array) -> Array:
    """The elementwise minimum of bounds."""
    lower = _lesser if any(end.dtype == object for end in ends) else np.minimum
    return functools.reduce(lambda a, b: lower(a, b), ends)


def greatest(*ends: Array) -> Array:
    """The elementwise maximum of bounds."""
    upper = _larger if any(end.dtype == object for end in ends) else np.maximum
    return functools.reduce(lambda a, b: upper(a, b), ends)


def stacked(value: Bounds, axis: int, count: AnySize | None) -> Bounds:
    """Tensors of known rank side by side on a new axis, where `value` holds for each of them."""
    sizes = value.sizes or ()
    at = axis % (len(sizes) + 1)
    bounds = np.expand_dims(value.bounds, at)
    return replace(value, bounds=bounds).resized((*sizes[:at], count, *sizes[at:]))


def taken_apart(value: Bounds, axis: int) -> Bounds:
    """Any slice of a tensor of known rank, without the axis that it is cut along."""
    sizes = value.sizes or ()
    at = axis % len(sizes)
    bounds = np.squeeze(hull(value.bounds, [at]), at)
    return replace(value, sizes=(*sizes[:at], *sizes[at + 1 :]), bounds=bounds)


def corners(
    combine: Callable[[Array, Array], Array], a: Bounds, b: Bounds
) -> tuple[Array, Array]:
    """The bounds of a function of two numbers that is monotonic in each of them."""
    ends = [combine(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return least(*ends), greatest(*ends)


def joined(values: Sequence[Bounds]) -> Bounds:
    """A value that has the elements of any of `values`: of both branches, of each iteration."""
    types = {value.data_type for value in values}
    sizes = common_sizes([value.sizes for value in values])
    parts = [value.bounds if value.sizes == sizes else value.whole for value in values]
    return interval(
        types.pop() if len(types) == 1 else "",
        sizes,
        least(*(part[..., :1] for part in parts)),
        greatest(*(part[..., 1:] for part in parts)),
        any(value.nan for value in values),
        why=merged_reasons(value.why for value in values),
        stops=merged_reasons(value.stops for value in values),
    )


def widened(old: Bounds, new: Bounds) -> Bounds:
    """Widens bounds that still move, so that loops converge.

    An end that moved goes on to 0, then to `FAR`, then to the limit of the data type.

    Args:
        old: The value before an iteration.
        new: The value after it, which holds all of `old`.
    """
    first, last = LIMITS.get(new.data_type, UNBOUNDED)
    (low, high), (old_low, old_high) = new.whole, old.whole
    if not old_low <= low:
        low = max(stop for stop in (0, -FAR, first) if first <= stop <= low_of(low))
    if not high <= old_high:
        high = min(stop for stop in (0, FAR, last) if high_of(high) <= stop <= last)
    return interval(
        new.data_type, new.sizes, low, high, new.nan, why=new.why, stops=new.stops
    )


def merged_reasons(
    reasons: Iterable[tuple[str, ...]], most: int = 6
) -> tuple[str, ...]:
    """Each reason once, in order, the last `most` of them."""
    return tuple(dict.fromkeys(reason for some in reasons for reason in some))[-most:]
