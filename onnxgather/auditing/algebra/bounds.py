"""Bounds of the elements of a tensor: what is known of a value before the model runs.

A bound is true whatever a provider does. So these are taken into account:

- Integers wrap around.
- A float that no integer equals becomes any integer.
- Providers order INT64 in two ways (`quirks.LOW_HALVES_AS_SIGNED`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

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


def _limits_of_integers() -> dict[str, tuple[int, int]]:
    limits: dict[str, tuple[int, int]] = {}
    widths = (8, 16, 32, 64)
    for bits in widths:
        half = 2 ** (bits - 1)
        limits[f"INT{bits}"] = (-half, half - 1)
    for bits in widths:
        limits[f"UINT{bits}"] = (0, 2**bits - 1)
    return limits


INTEGERS = _limits_of_integers()
LIMITS: dict[str, tuple[Any, Any]] = {"BOOL": (0, 1)} | INTEGERS
"""The least and the greatest number of each integer type."""

FLOATS: dict[str, Any] = {
    "FLOAT16": np.float16,
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
}

ELEMENTS = 2**14
"""The most elements of a value that has bounds for each element."""

COLUMNS = 16
"""The most columns of a larger value that has bounds for each of its columns."""

AXES = 30
"""The most dimensions of a value whose sizes are kept; numpy has at most 32 or 64."""

FAR = 2**30
"""A bound that moves from iteration to iteration of a loop stops here, if not at 0."""

UNBOUNDED = (-math.inf, math.inf)

# These accept arrays that contain sizes.
_lesser: Any = np.frompyfunc(lesser, 2, 1, identity=None)
_larger: Any = np.frompyfunc(larger, 2, 1, identity=None)
_low_of: Any = np.frompyfunc(low_of, 1, 1)
_high_of: Any = np.frompyfunc(high_of, 1, 1)


_T = TypeVar("_T")


def _is_large_size(end: object) -> bool:
    return isinstance(end, Size) and end.is_large


_is_large: Any = np.frompyfunc(_is_large_size, 1, 1)


class Reason(NamedTuple):
    """Where bounds come from."""

    text: str
    kind: Literal["constant", "given", "operator"] = "operator"
    """Constants of the model, a range that is given of an input, or an operator."""


CONSTANT = Reason("constant", "constant")


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What is known of a value: an element is between its bounds, or it is NaN.

    Attributes:
        data_type: ONNX's name; "" if it is not known.
        sizes: The sizes, as far as they are known.
        bounds: The least and the greatest number of each element, shape (*shape, 2).
            `shape` broadcasts to the sizes: a dimension of 1 holds for the whole axis.
            The shape is (2,) if the rank is not known. Integers are Python's, or open
            sizes. Floats have their own data type; an infinite bound means that the
            element may be infinite.
        nan: Whether an element may be NaN. For integers: whether a Cast may have
            wrapped an element (`quirks.CASTS_IN_A_ROW`).
        why: What the bounds come from.
        stops: The graph inputs and the operators that leave the value without bounds.
        is_range: Whether a Range computes the value, and not of constants alone.
    """

    data_type: str
    sizes: AnySizes | None
    bounds: Array
    nan: bool
    why: tuple[Reason, ...] = ()
    stops: tuple[str, ...] = ()
    is_range: bool = False
    extent: Array | None = field(default=None, init=False, repr=False)
    """What `whole` has computed, if that was slow."""

    @property
    def low(self) -> Array:
        """Return the least number of each element, shape (*shape, 1)."""
        return self.bounds[..., :1]

    @property
    def high(self) -> Array:
        """Return the greatest number of each element, shape (*shape, 1)."""
        return self.bounds[..., 1:]

    @property
    def is_exact(self) -> bool:
        """Return whether each element is known."""
        if self.nan:
            return False
        if self.bounds.size == 2:
            low, high = self.bounds.flat
            return bool(low == high)
        is_equal = self.low == self.high
        return bool(is_equal.all())

    @property
    def is_of_constants(self) -> bool:
        """Return whether the bounds come from constants of the model alone."""
        return self.why == (CONSTANT,)

    @property
    def is_given(self) -> bool:
        """Return whether a range that is given of an input leads to the bounds."""
        return any(reason.kind == "given" for reason in self.why)

    @property
    def is_empty(self) -> bool:
        """Return whether the value is known to have no element."""
        return self.sizes is not None and 0 in self.sizes

    @property
    def is_bounded(self) -> bool:
        """Return whether both bounds are tighter than the limits of the data type.

        The limits of BOOL are bounds, and a value without elements is bounded.
        """
        if self.is_empty:
            return True
        if self.nan:
            return False
        lowest, highest = LIMITS.get(self.data_type, UNBOUNDED)
        low, high = self.closed.whole
        # The limits 0 and 1, of BOOL and of unsigned integers, are bounds themselves.
        is_bounded_below = low > lowest or lowest == 0
        is_bounded_above = high < highest or highest == 1
        return bool(is_bounded_below and is_bounded_above)

    @property
    def cast(self) -> Bounds:
        """Return the value for an operator that computes with it, as a Cast made it."""
        if self.nan and self.data_type in LIMITS:
            return replace(self, nan=False)
        return self

    @property
    def whole(self) -> Array:
        """Return the least and the greatest number of all elements, shape (2,)."""
        if self.extent is not None:
            return self.extent
        every_axis = range(self.bounds.ndim - 1)
        extent = hull(self.bounds, every_axis).reshape(2)
        # Open sizes are slow to compare.
        if self.bounds.dtype == object and self.bounds.size > 2:
            extent.setflags(write=False)
            object.__setattr__(self, "extent", extent)
        return extent

    @property
    def full(self) -> Array | None:
        """Return the bounds of each element; None if their number is open or large."""
        shape = known_sizes(self.sizes)
        if shape is None:
            return None
        # numpy makes no array with large sizes beside a size of 0.
        if math.prod(size for size in shape if size) > ELEMENTS:
            return None
        if self.bounds.shape == (*shape, 2):
            return self.bounds
        return np.broadcast_to(self.bounds, (*shape, 2))

    @property
    def exact(self) -> Array | None:
        """Return the elements if each is a known number or size; None otherwise."""
        full = self.full
        if full is None or not self.is_exact:
            return None
        return full[..., 0]

    @property
    def known(self) -> Array | None:
        """Return the elements if each is a known number; None otherwise."""
        return None if _has_sizes(self.bounds) else self.exact

    @property
    def closed(self) -> Bounds:
        """Return the value with numbers as bounds in place of open sizes."""
        if not _has_sizes(self.bounds):
            return self
        return replace(self, bounds=_closed(self.bounds))

    def resized(self, sizes: AnySizes | None) -> Bounds:
        """Return the value with other sizes, to which its bounds must broadcast.

        Bounds that do not broadcast are replaced by those of all elements.
        """
        return interval(
            self.data_type,
            sizes,
            self.low,
            self.high,
            self.nan,
            why=self.why,
            stops=self.stops,
            is_range=self.is_range,
        )


def _has_sizes(bounds: Array) -> bool:
    """Return whether a bound is an open size."""
    if bounds.dtype != object:
        return False
    return Size in set(map(type, bounds.ravel().tolist()))


def _is_of_integers(bounds: Array) -> bool:
    """Return whether all bounds are Python's integers: numpy then compares them."""
    return set(map(type, bounds.ravel().tolist())) == {int}


def _closed(bounds: Array) -> Array:
    low = _low_of(bounds[..., :1])
    high = _high_of(bounds[..., 1:])
    return np.concatenate([low, high], axis=-1)


def known_sizes(sizes: Sequence[AnySize | None] | None) -> tuple[int, ...] | None:
    """Return the sizes if each is a number; None otherwise."""
    if sizes is None:
        return None
    numbers = tuple(size for size in sizes if isinstance(size, int))
    return numbers if len(numbers) == len(sizes) else None


def elements_of(sizes: Sequence[AnySize | None] | None) -> AnySize | None:
    """Return the number of elements; None if it is not known, or too large a sum."""
    if sizes is None:
        return None
    if 0 in sizes:
        return 0
    count: AnySize = 1
    for size in sizes:
        if size is None:
            return None
        count = count * size
        if isinstance(count, Size) and count.is_large:
            return None
    return count


def hull(bounds: Array, axes: Iterable[int]) -> Array:
    """Return the bounds that hold along `axes`, each of which has the size 1 then."""
    # An axis of the size 1 stays as it is.
    axes = tuple(axis for axis in axes if bounds.shape[axis] != 1)
    if not axes:
        return bounds
    has_objects = bounds.dtype == object and not _is_of_integers(bounds)
    minimum = _lesser if has_objects else np.minimum
    maximum = _larger if has_objects else np.maximum
    low = minimum.reduce(bounds[..., :1], axis=axes, keepdims=True)
    high = maximum.reduce(bounds[..., 1:], axis=axes, keepdims=True)
    return np.concatenate([low, high], axis=-1)


def interval(
    data_type: str,
    sizes: AnySizes | None,
    low: Any,
    high: Any,
    nan: bool = False,
    **reasons: Any,
) -> Bounds:
    """Return a value from bounds that mathematics gives, before integers wrap around.

    Args:
        data_type: ONNX's name.
        sizes: The sizes.
        low: The least number of all elements, or an array of shape (*shape, 1), where
            `shape` broadcasts to the sizes.
        high: The greatest number, likewise.
        nan: Whether an element may be NaN.
        **reasons: `why`, `stops` and `is_range` of the value.
    """
    if sizes is not None and len(sizes) > AXES:
        sizes = None
    if data_type in LIMITS:
        bounds = _wrapped(data_type, _stacked(low, high, object))
    elif data_type in FLOATS:
        dtype = FLOATS[data_type]
        bounds = _stacked(low, high, dtype)
        # Mathematics gives no number where an end is NaN, such as infinity - infinity.
        is_nan = np.isnan(bounds)
        if is_nan.any():
            is_lost = is_nan.any(axis=-1, keepdims=True)
            bounds = np.where(is_lost, np.array(UNBOUNDED, dtype), bounds)
            nan = True
    else:  # strings, sequences, rare types: nothing is known of them
        bounds = np.array(UNBOUNDED, object)
        nan = True
    fitted = _fitted(bounds, sizes)
    return Bounds(data_type, sizes, fitted, nan, **reasons)


def _stacked(low: Any, high: Any, dtype: Any) -> Array:
    lowest, highest = UNBOUNDED
    low_ends = _rounded(_array_of(low), dtype, lowest)
    high_ends = _rounded(_array_of(high), dtype, highest)
    both = [low_ends, high_ends]
    if low_ends.shape != high_ends.shape:
        both = np.broadcast_arrays(*both)
    return np.concatenate(both, axis=-1)


def _array_of(ends: Any) -> Array:
    array = np.atleast_1d(np.asarray(ends))
    if array.dtype == bool:  # its elements count as 0 and 1
        return array.astype(np.int8)
    return array


def _rounded(ends: Array, dtype: Any, far: float) -> Array:
    """Return the ends in a data type, rounded away from the interval.

    The interval holds the results of all roundings, such as `quirks.ROUNDED_TWICE`.
    """
    if dtype in (object, ends.dtype):
        return ends.astype(dtype, copy=False)
    is_inside = np.greater if far < 0 else np.less
    with np.errstate(over="ignore"):
        near = ends.astype(dtype)
        has_moved_inside = is_inside(near.astype(object), ends.astype(object))
        next_outside = np.nextafter(near, dtype(far))
        return np.where(has_moved_inside.astype(bool), next_outside, near)


def _wrapped(data_type: str, bounds: Array) -> Array:
    """Return the bounds after integers wrapped around.

    If the two ends of an element wrap differently, its bounds become the data type's.
    """
    lowest, highest = LIMITS[data_type]

    def are_within(ends: Array) -> bool:
        return all(
            isinstance(end, int) and lowest <= end <= highest
            for end in ends.ravel().tolist()
        )

    # Nearly all bounds need not wrap around.
    if are_within(bounds):
        return bounds
    numbers = bounds
    if _has_sizes(bounds):
        numbers = _closed(bounds)
        is_too_large = _is_large(bounds).any(axis=-1, keepdims=True)
        if is_too_large.any():
            bounds = np.where(is_too_large, numbers, bounds)
        if are_within(numbers):
            return bounds
    count = highest - lowest + 1
    turns = (numbers - lowest) // count
    moved = np.where(turns == 0, bounds, numbers - turns * count)
    is_together = turns[..., :1] == turns[..., 1:]
    limits = np.array((lowest, highest), object)
    return np.where(is_together, moved, limits)


def _fitted(bounds: Array, sizes: AnySizes | None) -> Array:
    """Return the bounds with the rank of the sizes, reduced to as many as are kept."""
    sizes = sizes or ()
    rank = len(sizes)
    if not bounds.size:  # there is no element, so any bounds are true
        ones = (1,) * rank
        return np.zeros((*ones, 2), bounds.dtype)
    if bounds.size > 2 * ELEMENTS:
        column_count = bounds.shape[-2]
        bounds = hull(bounds, _axes_to_reduce(bounds, column_count))
    if bounds.ndim > rank + 1:  # the rank is not known
        every_axis = range(bounds.ndim - 1)
        bounds = hull(bounds, every_axis).reshape(2)
    missing = (1,) * (rank + 1 - bounds.ndim)
    bounds = bounds.reshape(*missing, *bounds.shape)
    # Bounds along an axis are kept only if the axis is known to be as long.
    unlike = [axis for axis, size in enumerate(sizes) if bounds.shape[axis] != size]
    return hull(bounds, unlike)


def _axes_to_reduce(bounds: Array, column_count: int) -> range:
    """Return the axes of bounds to reduce: all of them, or all but a few columns."""
    if column_count <= COLUMNS:
        return range(bounds.ndim - 2)
    return range(bounds.ndim - 1)


def broadcast(values: Sequence[Bounds | None]) -> tuple[Bounds | None, ...]:
    """Return values to broadcast, whose result has no more bounds than are kept.

    Raises:
        ValueError: Their sizes do not broadcast.
    """
    shapes = [value.bounds.shape[:-1] for value in values if value is not None]
    if math.prod(np.broadcast_shapes(*shapes)) <= ELEMENTS:
        return tuple(values)
    column_count = max(shape[-1] for shape in shapes if shape)

    def reduced(value: Bounds) -> Bounds:
        axes = _axes_to_reduce(value.bounds, column_count)
        bounds = hull(value.bounds, axes)
        return replace(value, bounds=bounds)

    return tuple(value and reduced(value) for value in values)


def unknown(data_type: str, sizes: AnySizes | None, *stops: str) -> Bounds:
    """Return a value of which only the data type and the sizes are known."""
    if sizes is not None and len(sizes) > AXES:
        sizes = None
    nan = data_type not in LIMITS
    bounds = _limits_of(data_type, len(sizes or ()))
    return Bounds(data_type, sizes, bounds, nan, stops=stops)


@functools.lru_cache(maxsize=1024)
def _limits_of(data_type: str, rank: int) -> Array:
    """Return the bounds of a value of which only the data type and the rank are known.

    Many values share them, so nothing may write to them.
    """
    low, high = LIMITS.get(data_type, UNBOUNDED)
    bounds = interval(data_type, (None,) * rank, low, high).bounds
    bounds.setflags(write=False)
    return bounds


def bounds_of_array(data_type: str, array: Array) -> Bounds:
    """Return the value of an array."""
    if data_type not in LIMITS and data_type not in FLOATS:
        return unknown(data_type, array.shape, "constant")
    low: Array
    high: Array
    if array.size > ELEMENTS:
        count = array.shape[-1]
        column_count = count if count <= COLUMNS else 1
        rows = array.reshape(-1, column_count)
        low = rows.min(0)[:, None]
        high = rows.max(0)[:, None]
    else:
        # numpy makes no array of larger elements with large sizes beside a size of 0.
        is_plain = array.size and array.ndim <= AXES
        elements = array if is_plain else array.ravel()
        low = high = elements[..., None]
    return interval(data_type, array.shape, low, high, why=(CONSTANT,))


def ordered(*values: Bounds) -> Array:
    """Return for each element whether every provider orders it alike.

    Providers order INT64 alike only inside INT32: outside of it the halves count.
    """
    lowest, highest = INTEGERS["INT32"]
    mask: Array = np.asarray(True)
    for value in values:
        is_other_type = np.asarray(value.data_type != "INT64")
        is_short = (value.low >= lowest) & (value.high <= highest)
        mask = mask & (is_other_type | is_short)
    return mask


def is_ordered(*values: Bounds) -> bool:
    """Return whether every provider orders all elements alike."""
    return bool(ordered(*values).all())


def least(*ends: Array) -> Array:
    """Return the elementwise minimum of bounds."""
    has_objects = any(end.dtype == object for end in ends)
    minimum: Any = _lesser if has_objects else np.minimum
    return functools.reduce(minimum, ends)


def greatest(*ends: Array) -> Array:
    """Return the elementwise maximum of bounds."""
    has_objects = any(end.dtype == object for end in ends)
    maximum: Any = _larger if has_objects else np.maximum
    return functools.reduce(maximum, ends)


def stacked(value: Bounds, axis: int, count: AnySize | None) -> Bounds:
    """Return `count` tensors on a new axis, where `value` holds for each of them.

    Args:
        value: What is known of each tensor, whose rank is known.
        axis: The new axis.
        count: The number of tensors; None if it is not known.
    """
    sizes = value.sizes or ()
    position = axis % (len(sizes) + 1)
    bounds = np.expand_dims(value.bounds, position)
    new_sizes = (*sizes[:position], count, *sizes[position:])
    return replace(value, bounds=bounds).resized(new_sizes)


def taken_apart(value: Bounds, axis: int) -> Bounds:
    """Return any slice of a tensor of known rank, without the axis it is cut along."""
    sizes = value.sizes or ()
    position = axis % len(sizes)
    any_slice = hull(value.bounds, [position])
    bounds = np.squeeze(any_slice, position)
    new_sizes = (*sizes[:position], *sizes[position + 1 :])
    return replace(value, sizes=new_sizes, bounds=bounds)


def corners(
    combine: Callable[[Array, Array], Array], a: Bounds, b: Bounds
) -> tuple[Array, Array]:
    """Return the bounds of a function of two numbers that is monotonic in each."""
    ends = [
        combine(a.low, b.low),
        combine(a.low, b.high),
        combine(a.high, b.low),
        combine(a.high, b.high),
    ]
    return least(*ends), greatest(*ends)


def joined(values: Sequence[Bounds]) -> Bounds:
    """Return a value that has the elements of any of `values`.

    These are the results of both branches, or those of all iterations.
    """
    types = {value.data_type for value in values}
    sizes = common_sizes([value.sizes for value in values])
    lows: list[Array] = []
    highs: list[Array] = []
    for value in values:
        # Where the sizes differ, the same position is another element.
        bounds = value.bounds if value.sizes == sizes else value.whole
        lows.append(bounds[..., :1])
        highs.append(bounds[..., 1:])
    return interval(
        types.pop() if len(types) == 1 else "",
        sizes,
        least(*lows),
        greatest(*highs),
        any(value.nan for value in values),
        why=merged_reasons(value.why for value in values),
        stops=merged_reasons(value.stops for value in values),
    )


def widened(old: Bounds, new: Bounds) -> Bounds:
    """Return bounds that still move, moved on so far that loops converge.

    An end that moved goes on to 0, then to `FAR`, then to the limit of the data type.

    Args:
        old: The value before an iteration.
        new: The value after it, which holds all of `old`.
    """
    lowest, highest = LIMITS.get(new.data_type, UNBOUNDED)
    low, high = new.whole
    old_low, old_high = old.whole
    # `not <=` instead of `>`: of two open sizes, neither may be surely the larger.
    if not old_low <= low:
        limit = low_of(low)
        low = max(stop for stop in (0, -FAR, lowest) if lowest <= stop <= limit)
    if not high <= old_high:
        limit = high_of(high)
        high = min(stop for stop in (0, FAR, highest) if limit <= stop <= highest)
    return interval(
        new.data_type, new.sizes, low, high, new.nan, why=new.why, stops=new.stops
    )


def merged_reasons(reasons: Iterable[tuple[_T, ...]]) -> tuple[_T, ...]:
    """Return each reason once, in order, the last six of them."""
    distinct = dict.fromkeys(reason for group in reasons for reason in group)
    return tuple(distinct)[-6:]
