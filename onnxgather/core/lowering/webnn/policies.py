"""Steps for indices: their words, and what each policy does with them."""

from __future__ import annotations

import math

from msgspec import Struct

from onnxgather.core.lowering.webnn.steps import MLOperand, StepList
from onnxgather.core.options import OutOfRange

OUTSIDE = "Outside"
"""The name of the second output under "error": the number of indices out of range."""


class IndexWords(Struct, frozen=True):
    """The indices as their low 32 bits, and what these do not hold.

    All operands have a row for each index tuple and a column for each coordinate.
    """

    low: MLOperand
    """int32; of UINT32 and UINT64, a negative word stands for 2^31 or more."""
    is_signed: bool
    """Whether the data type of the indices is signed."""
    wide: MLOperand | None = None
    """A mask of the indices of which the low words are only a part; None of 32 bits."""
    negative: MLOperand | None = None
    """A mask of the indices that are negative as INT64; None of 32 bits."""


def clamped_coordinates(
    steps: StepList, words: IndexWords, sizes: tuple[int, ...], zeroes: bool
) -> MLOperand:
    """Return the indices in [0, n), clamped to their axes.

    Args:
        steps: Gets the steps.
        words: The indices.
        sizes: The size of each indexed dimension.
        zeroes: Whether what indices out of range lead to becomes zero; then they may
            be any in [0, n).
    """
    last = _last(steps, sizes)
    if not words.is_signed:
        why = "clamps to the last element of the axis"
        limited = steps.compute("min", words.low, last, "limited", why)
        why = "clamps those of 2^31 or more"
        beyond = _beyond_int32(steps, words)
        return steps.where(beyond, last, limited, "clamped", why)

    zero = _zero(steps)
    why = "below -n is element 0"
    first = _first(steps, sizes)
    raised = steps.compute("max", words.low, first, "raised", why)
    why = "clamps to the last element of the axis"
    limited = steps.compute("min", raised, last, "limited", why)
    why = "finds the indices that count from the end"
    from_end = steps.compute("lesser", limited, zero, "fromEnd", why)
    why = "counts them from the end"
    counted = steps.compute("add", limited, _axis_size(steps, sizes), "counted", why)
    why = "takes that if negative"
    wrapped = steps.where(from_end, counted, limited, "wrapped", why)
    if words.wide is None or zeroes:
        return wrapped
    assert words.negative is not None
    why = "the end on the index's side"
    end = steps.where(words.negative, zero, last, "nearestEnd", why)
    why = "clamps what 32 bits do not hold"
    return steps.where(words.wide, end, wrapped, "clamped", why)


def outside_of_axes(
    steps: StepList, words: IndexWords, sizes: tuple[int, ...]
) -> MLOperand:
    """Return a mask of the indices that are out of range.

    Args:
        steps: Gets the steps.
        words: The indices.
        sizes: The size of each indexed dimension.
    """
    last = _last(steps, sizes)
    why = "finds the indices past the end"
    outside = steps.compute("greater", words.low, last, "isAbove", why)
    if words.is_signed:
        first = _first(steps, sizes)
        why = "finds the indices before the beginning"
        below = steps.compute("lesser", words.low, first, "isBelow", why)
    else:
        below = _beyond_int32(steps, words)
    why = "finds the indices out of range"
    outside = steps.compute("logicalOr", outside, below, "isOutside", why)
    if words.is_signed and words.wide is not None:
        why = "adds those that 32 bits do not hold"
        outside = steps.compute("logicalOr", outside, words.wide, "isOutside", why)
    return outside


def directml_coordinates(
    steps: StepList, words: IndexWords, sizes: tuple[int, ...], is_uint32: bool
) -> MLOperand:
    """Return the coordinates that DirectML.dll computes, modulo 2^32.

    Measured with DirectML.dll 1.15.4: the axis size is added to the low word where the
    whole index is negative. UINT64 is read as INT64; a UINT32 has no sign.

    Args:
        steps: Gets the steps.
        words: The indices.
        sizes: The size of each indexed dimension.
        is_uint32: Whether the indices are UINT32.
    """
    if is_uint32:
        return words.low
    negative = words.negative
    if negative is None:
        why = "finds the negative indices"
        negative = steps.compute("lesser", words.low, _zero(steps), "isNegative", why)
    why = "counts them from the end, modulo 2^32"
    counted = steps.compute("add", words.low, _axis_size(steps, sizes), "counted", why)
    why = "takes that if negative"
    return steps.where(negative, counted, words.low, "wrapped", why)


def outside_tuples(steps: StepList, outside: MLOperand) -> MLOperand:
    """Return a mask with a row for each index tuple: whether any coordinate is outside.

    Args:
        steps: Gets the steps.
        outside: A mask with a row for each tuple and a column for each coordinate.
    """
    if outside.shape[1] == 1:
        return outside
    count = steps.cast(outside, "int32", "outsideInt32", "a type that reduceMax takes")
    why = "any coordinate outside"
    highest = steps.reduce_max(count, "anyOutside", why)
    why = "a mask again"
    return steps.compute("greater", highest, _zero(steps), "isTupleOutside", why)


def count_outside(steps: StepList, outside: MLOperand) -> MLOperand:
    """Return the number of indices out of range: int32, of shape [1]."""
    number = steps.cast(outside, "int32", "outsideInt32", "a type that reduceSum takes")
    count = math.prod(outside.shape)
    column = steps.reshape(number, (count, 1), "outsideColumn", "an index a row")
    why = "counts those out of range"
    return steps.reduce_sum(column, OUTSIDE, why)


def needs_mask(out_of_range: OutOfRange) -> bool:
    """Return whether a policy must know which indices are out of range."""
    return out_of_range in ("error", "zero")


def _beyond_int32(steps: StepList, words: IndexWords) -> MLOperand:
    """Return a mask of the unsigned indices of 2^31 or more."""
    why = "finds the indices of 2^31 or more"
    beyond = steps.compute("lesser", words.low, _zero(steps), "isBeyond", why)
    if words.wide is None:
        return beyond
    why = "adds those that 32 bits do not hold"
    return steps.compute("logicalOr", beyond, words.wide, "isBeyond", why)


def _zero(steps: StepList) -> MLOperand:
    return steps.numbers("zero", [0], "the number 0")


def _first(steps: StepList, sizes: tuple[int, ...]) -> MLOperand:
    lowest = [-size for size in sizes]
    return steps.numbers("firstIndex", lowest, "the first index of each axis")


def _last(steps: StepList, sizes: tuple[int, ...]) -> MLOperand:
    highest = [size - 1 for size in sizes]
    return steps.numbers("lastIndex", highest, "the last index of each axis")


def _axis_size(steps: StepList, sizes: tuple[int, ...]) -> MLOperand:
    return steps.numbers("axisSize", sizes, "the size of each axis")
