"""The bounds of operators that select elements, move them and put them together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    COLUMNS,
    ELEMENTS,
    INTEGERS,
    Bounds,
    bounds_of_array,
    elements_of,
    hull,
    joined,
    known_sizes,
)
from onnxgather.auditing.algebra.sizes import AnySizes, never_negative
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds_table import LARGEST_SIZE, BoundsTable
from onnxgather.auditing.operators.output_types import paddings_of
from onnxgather.core.descriptors.arrays import Array

SELECTION_BOUNDS = BoundsTable()

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


@SELECTION_BOUNDS.computes(*MEMBERS, quiet=True)
def _members(call: Call) -> Bounds | None:
    if call.attributes.get("reduction", "none") != "none":
        return None
    if call.operator == "Pad" and not _is_padded_inside(call):
        return None
    values: list[Bounds] = []
    for position in MEMBERS[call.operator]:
        value = call.has(position)
        if value is not None:
            values.append(value)
    if call.operator in ("Pad", "Trilu"):
        filling = np.array(call.attributes.get("value", 0))
        values.append(bounds_of_array(call.x.data_type, filling))
    member = joined(values)
    low, high = member.whole
    return call.value(low, high, member.nan)


def _is_padded_inside(call: Call) -> bool:
    """Return whether a Pad surely reads no memory but its input's.

    See `quirks.LONG_PADS`.
    """
    mode = call.attributes.get("mode")
    if mode not in ("reflect", "wrap"):
        return True
    paddings = paddings_of(call)
    if paddings is None:
        return False
    for _, size, before, after in paddings:
        # A pad below 0 crops the axis first.
        if not never_negative(before[0]) or not never_negative(after[0]):
            return False
        pads = [before] if mode == "wrap" else [before, after]
        for _, most in pads:
            if most != 0 and not never_negative(size - 1 - most):
                return False
    return True


# The same elements in other sizes.


@SELECTION_BOUNDS.computes(
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", quiet=True
)
def _rearranged(call: Call) -> Bounds:
    """Return the bounds of the same elements in the same order, in other sizes."""
    if call.operator == "Identity":
        return call.x
    sizes = call.types[0].sizes
    return call.selected(_in_sizes(call.x, sizes))


def _in_sizes(x: Bounds, sizes: AnySizes | None) -> Array:
    """Return the bounds of the elements of `x`, in order or repeated along axes."""
    bounds = x.bounds
    # Case 1: the same sizes. Two sizes that are not known may have changed places.
    may_change_places = sizes is not None and sizes.count(None) >= 2
    if sizes == x.sizes and not may_change_places:
        return bounds
    # Case 2: each element has its bounds, and keeps them.
    shape = known_sizes(sizes)
    every = x.full
    if every is not None and shape is not None:
        is_whole = elements_of(shape) == elements_of(x.sizes)
        if is_whole:
            return every.reshape(*shape, 2)
    # Case 3: the columns of the last axis stay columns.
    if not sizes or not x.sizes or sizes[-1] != x.sizes[-1]:
        return x.whole
    if bounds.shape[-2] > COLUMNS:
        return x.whole
    columns = hull(bounds, range(bounds.ndim - 2))
    return columns.reshape(-1, 2)


@SELECTION_BOUNDS.computes("Transpose", quiet=True)
def _transposed(call: Call) -> Bounds:
    bounds = call.x.bounds
    rank = len(call.x.sizes or ())
    if not rank:
        return call.selected(bounds)
    backwards = list(range(rank))[::-1]
    order = call.option("perm", 9, backwards) or []
    return call.selected(bounds.transpose(*order, rank))


@SELECTION_BOUNDS.computes("Expand", quiet=True)
def _expanded(call: Call) -> Bounds:
    x = call.x
    has_axes = bool(call.types[0].sizes)
    return call.selected(x.bounds if has_axes else x.whole)


@SELECTION_BOUNDS.computes("Tile", quiet=True)
def _tiled(call: Call) -> Bounds:
    sizes = call.types[0].sizes
    repeats = call.option("repeats", 1)
    count = elements_of(sizes)
    every = call.x.full
    is_small = isinstance(count, int) and count <= ELEMENTS
    if every is not None and repeats and is_small:
        return call.selected(np.tile(every, (*repeats, 1)))
    return call.selected(_in_sizes(call.x, sizes))


# Parts of an axis.


def _at_positions(bounds: Array, axis: int, positions: Sequence[int] | None) -> Array:
    """Return the bounds at some positions of an axis; None: at any."""
    if bounds.shape[axis] == 1:
        return bounds
    if positions is None:
        return hull(bounds, [axis])
    return np.take(bounds, positions, axis)


@SELECTION_BOUNDS.computes("Slice", quiet=True)
def _sliced(call: Call) -> Bounds:
    x = call.x
    starts = call.option("starts", 1)
    ends = call.option("ends", 2)
    count = len(starts or ends or ())
    axes = call.option("axes", 3, list(range(count)))
    steps = call.option("steps", 4, [1] * count)
    if not axes or x.sizes is None:
        return call.selected(x.whole)
    bounds = x.bounds
    for number, axis in enumerate(axes):
        size = x.sizes[axis]
        positions = None
        if starts and ends and steps and isinstance(size, int):
            start = starts[number]
            end = ends[number]
            positions = _positions_of_slice(start, end, steps[number], size)
        bounds = _at_positions(bounds, axis % len(x.sizes), positions)
    return call.selected(bounds)


def _positions_of_slice(start: int, end: int, step: int, size: int) -> range:
    """Return the positions that a Slice selects from an axis."""
    # A backward Slice that starts before the axis starts at its first position.
    first = max(start, -size) if step < 0 else start
    # `quirks.SLICE_BACKWARDS`: the greatest INT32 and INT64 mean the end of the axis.
    goes_on = end in (INTEGERS["INT32"][1], LARGEST_SIZE)
    last = None if goes_on else end
    return range(size)[first:last:step]


@SELECTION_BOUNDS.computes("Split", quiet=True)
def _split(call: Call) -> Sequence[Bounds] | None:
    axis = call.axis(0)
    sizes_on_axis = [sizes[axis] if sizes else None for _, sizes in call.types]
    lengths = known_sizes(sizes_on_axis)
    positions: list[range | None] = [None] * len(call.types)
    if lengths is not None:
        ends = itertools.accumulate(lengths)
        pairs = zip(lengths, ends, strict=True)
        positions = [range(end - length, end) for length, end in pairs]
    parts: list[Bounds] = []
    for output, selected in enumerate(positions):
        bounds = _at_positions(call.x.bounds, axis, selected)
        parts.append(call.selected(bounds, output))
    return parts


# Values side by side.


def _is_filled(shapes: Sequence[AnySizes | None], axis: int) -> bool:
    """Return whether each element of a Concat is surely an element of an input.

    See `quirks.CONCAT_OF_NOTHING`.
    """
    sizes_off_axis: set[AnySizes] = set()
    has_elements = True
    for sizes in shapes:
        if sizes is None:
            return False
        if sizes[axis] == 0:  # such an input has no place in the output
            continue
        before = sizes[:axis]
        after = sizes[axis + 1 :]
        sizes_off_axis.add((*before, *after))
        if not all(size is not None and size >= 1 for size in sizes):
            has_elements = False
    return len(sizes_off_axis) < 2 or has_elements


@SELECTION_BOUNDS.computes("Concat", quiet=True)
def _concatenated(call: Call) -> Bounds | None:
    values = call.given
    axis = call.axis(0)
    if not _is_filled([value.sizes for value in values], axis):
        return None
    nan = any(value.nan for value in values)
    sizes_on_axis = [value.sizes[axis] if value.sizes else None for value in values]
    lengths = known_sizes(sizes_on_axis)
    # Case 1: too many elements, or of unknown number: any of them.
    sizes = call.types[0].sizes
    if sizes is None or lengths is None or sum(lengths) > ELEMENTS:
        low, high = joined(values).whole
        return call.value(low, high, nan)
    # Case 2: the bounds are put together along the axis, as the elements are.
    columns = [hull(value.bounds, [axis]) for value in values]
    common = np.broadcast_shapes(*(column.shape for column in columns))
    before = common[:axis]
    after = common[axis + 1 :]
    parts: list[Array] = []
    for value, length in zip(values, lengths, strict=True):
        shape = (*before, length, *after)
        parts.append(np.broadcast_to(value.bounds, shape))
    bounds = np.concatenate(parts, axis)
    return call.value(bounds[..., :1], bounds[..., 1:], nan)


@SELECTION_BOUNDS.computes("Gather", quiet=True)
def _gathered(call: Call) -> Bounds:
    x = call.x
    indices = call.of(1)
    axis = call.axis(0)
    if x.sizes is None or indices.sizes is None:
        return call.selected(x.whole)
    # Case 1: each index is a number in range.
    size = x.bounds.shape[axis]
    numbers = indices.known
    if size > 1 and numbers is not None:
        is_inside = (numbers >= -size) & (numbers < size)
        if is_inside.all():
            positions = numbers.astype(np.int64)
            selected = np.take(x.bounds, positions, axis)
            return call.selected(selected)
    # Case 2: an index may be any. The axes of the indices take the place of the axis.
    bounds = hull(x.bounds, [axis])
    new_axes = (1,) * len(indices.sizes)
    before = bounds.shape[:axis]
    after = bounds.shape[axis + 1 :]
    shape = (*before, *new_axes, *after)
    return call.selected(bounds.reshape(shape))


@SELECTION_BOUNDS.computes("ConstantOfShape", quiet=True, closed=True)
def _constant_of_shape(call: Call) -> Bounds:
    value = call.attributes.get("value", np.float32(0))
    number = np.asarray(np.ravel(value)[0])
    constant = bounds_of_array(call.types[0].data_type, number)
    return call.value(constant.low, constant.high, constant.nan)
