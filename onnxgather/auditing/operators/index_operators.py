"""The operators with indices: their inputs of indices, and which indices are in range.

The table is in `index_operators.json`, with what each provider does with an index out
of range (`quirks.INDEX_OUT_OF_RANGE`). Slice and Compress are not in the table: their
bounds and their mask are cut to the axis.
"""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.resources import files
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Struct

from onnxgather.auditing.algebra.bounds import (
    AXES,
    FLOATS,
    INTEGERS,
    Bounds,
    bounds_of_array,
    elements_of,
    hull,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size
from onnxgather.auditing.operators.cache_limits import limits_of, size_at
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.tree_features import (
    features_of,
    leaves_have_features,
)
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation

Hardened = Literal["clamp", "drop", "leave", "nothing"]
"""What harden does with indices out of range: it clamps them, drops the writes at them,
leaves them as they are, or has nothing to do, as the operator takes any index."""


class IndexInput(Struct, frozen=True):
    """An input, or an attribute, of an operator that holds indices."""

    name: str
    """As the operator's definition has it."""
    position: int = 0
    """An attribute has none."""
    is_attribute: bool = False
    """Whether it is an attribute, not an input."""
    data: int = 0
    """The position of the input that is indexed."""
    axis: int = 0
    """The axis that is indexed, or the first axis of a tuple."""
    attribute: str = ""
    """The attribute that gives the axis where it is not the default above."""
    from_end: bool = False
    """Whether indices below 0 count from the end of the axis."""
    least: int = 0
    """The least index in range, where none counts from the end."""
    is_tuple: bool = False
    """Whether each row of the last axis is one index into several axes."""
    column: int | None = None
    """The column of the last axis that holds the indices, where not all do."""
    counts: bool = False
    """Whether the positions of the second axis of the first input are the indices where
    the input is left out."""
    is_length: bool = False
    """Whether the input holds lengths, of which the size itself is in range."""
    is_size: bool = False
    """Whether the input must hold the size itself."""
    types: tuple[str, ...] = ("INT32", "INT64")
    """The data types that the input may have."""
    ranks: tuple[int, ...] = ()
    """The ranks that the input may have; empty for any."""
    below_data: int | None = None
    """How much less its rank must be than that of the data; None for any rank."""
    ignored: str = ""
    """The attribute with a number that stands for no index."""
    padding: int | None = None
    """A number that may stand behind the indices, where it is not read."""
    used: int | None = None
    """The position of an input that says how many numbers of the last axis are read;
    None where all are."""

    def value_in(self, operation: Operation) -> str:
        """Return the name of the value of an operation.

        Returns:
            "" if the input is left out, and for an attribute.
        """
        names = operation.inputs
        if self.is_attribute or self.position >= len(names):
            return ""
        return names[self.position]

    def is_given(self, operation: Operation) -> bool:
        """Return whether an operation does not leave it out."""
        if self.is_attribute:
            return self.name in operation.attributes
        return bool(self.value_in(operation))

    def axis_of(self, operation: Operation) -> int:
        """Return the axis in an operation, which may count from the end."""
        axis = operation.attributes.get(self.attribute, self.axis)
        return int(axis)


class SizeRule(Struct, frozen=True):
    """A rule that sizes of an input must be sizes of another input, or a number."""

    input: int
    """The position of the input."""
    other: int = 0
    """The position of the other input."""
    number: int | None = None
    """The number that a size must be; None where it must be one of the other input."""
    dims: Literal[
        "one",
        "each",
        "beside",
        "before axis",
        "without axis",
        "but last",
        "behind tuple",
    ] = "one"
    """The dimensions that are compared. One: those below. Each: all of the other input,
    with the same number. Beside the axis, before axis, but last: these of them. Without
    axis: the input lacks the axis. Behind tuple: the input has those that no tuple
    names, behind its rows."""
    dim: int = 0
    """The dimension of the input."""
    other_dim: int = 0
    """The dimension of the other input, which may count from the end."""
    attribute: str = ""
    """The attribute that gives the other dimension where it is not that above."""
    at_most: bool = False
    """Whether a size may be less than the other one, too."""
    may_be_one: bool = False
    """Whether a size may be 1, too."""
    rank: int = 1
    """The rule is for inputs of this rank and higher ranks."""


class IndexOperator(Struct, frozen=True):
    """An operator with inputs that hold indices."""

    operator: str
    hardened: Hardened
    inputs: tuple[IndexInput, ...]
    """Those that hold indices."""
    domain: str = ""
    """"" is ONNX's own."""
    shapes_of: str = ""
    """The gather of ONNX whose rule the shapes of data and indices must meet, if there
    is one."""
    providers: dict[str, str] = {}
    """What each provider does with an index out of range, by its short name, as far as
    it is not a known difference of DirectML's own gathers."""
    sizes: tuple[SizeRule, ...] = ()
    """The rules on sizes beside the axis."""

    @property
    def counts_from_end(self) -> bool:
        """Return whether an index below 0 may count from the end."""
        return any(index_input.from_end for index_input in self.inputs)


_ROWS = (
    files("onnxgather.auditing.operators").joinpath("index_operators.json").read_bytes()
)

INDEX_OPERATORS = {
    (row.domain, row.operator): row
    for row in msgspec.json.decode(_ROWS, type=list[IndexOperator])
}
"""The operators, by domain and name."""


def operator_of(operation: Operation) -> IndexOperator | None:
    """Return the row of an operation; None if the operation has no indices."""
    row = INDEX_OPERATORS.get((operation.domain, operation.operator))
    # Without an output, a broken model has no effect.
    if row is None or not operation.outputs:
        return None
    # An operation that leaves out every input of indices has none.
    is_given = any(index_input.is_given(operation) for index_input in row.inputs)
    return row if is_given else None


def inputs_of(operation: Operation) -> list[IndexInput]:
    """Return what holds indices of an operation and is not left out."""
    row = operator_of(operation)
    if row is None:
        return []
    return [
        index_input for index_input in row.inputs if index_input.is_given(operation)
    ]


def given_indices(operation: Operation) -> list[str]:
    """Return the names of the values that hold the indices of an operation."""
    names = [index_input.value_in(operation) for index_input in inputs_of(operation)]
    return [name for name in names if name]


class Coordinate(Struct, frozen=True):
    """The indices of an input, or one coordinate of its tuples, beside the axis."""

    input: IndexInput
    value: Bounds
    """The input."""
    low: AnySize
    high: AnySize
    size: AnySize | None
    """The indices must be below it; None where it is not known."""
    from_end: bool
    """Whether indices below 0 surely count from the end."""
    lowest: AnySize
    """The indices must not be below it."""
    is_exact: bool = True
    """Whether an operator surely refuses any other index."""
    ignored: int | None = None
    """A number that stands for no index, though it may be out of range."""
    column: int | None = None
    """The column of the last axis of the input that holds the indices, where not all
    do."""
    is_reached: bool = False
    """Whether indices surely are at both ends of the interval, if there are any."""

    @property
    def reached(self) -> tuple[AnySize, AnySize]:
        """Return two numbers that indices reach, if there are any.

        An index is at most the first number, and one is at least the second.
        """
        if self.is_reached:
            return self.low, self.high
        value = self.value
        bounds = value.bounds
        if self.column is not None and bounds.ndim > 1 and bounds.shape[-2] > 1:
            bounds = bounds[..., [self.column], :]
        turned = replace(value, bounds=bounds[..., ::-1])
        least, greatest = turned.whole.tolist()
        return _integer(value, least, 1), _integer(value, greatest, 0)

    @property
    def is_inside(self) -> bool:
        """Return whether all indices are surely in range."""
        return self.is_within or self.value.is_empty

    @property
    def is_within(self) -> bool:
        """Return whether the interval of the indices is surely in range.

        False if the size is not known.
        """
        if self.size is None:
            return False
        return self.lowest <= self.low and self.high <= self.size - 1


def coordinates_of(call: Call, allow_negative: bool = True) -> list[Coordinate]:
    """Return the coordinates of the indices of an operation.

    Args:
        call: The operation, with its inputs.
        allow_negative: Whether an index below 0 may count from the end if it is no
            constant.
    """
    row = operator_of(call.operation)
    if row is None:
        return []
    coordinates: list[Coordinate] = []
    for index_input in row.inputs:
        value = _indices_of(call, index_input)
        if value is None:
            continue
        first_axis = index_input.axis_of(call.operation)
        # The number of an input that stands for no index.
        ignored = call.attributes.get(index_input.ignored)
        bounds_by_column = _bounds_by_column(call, index_input, value, first_axis)
        is_left_out = call.has(index_input.position) is None
        # Each position is an index where the input is left out. Where numbers are
        # ignored, an exact coordinate has known elements alone.
        is_reached = is_left_out or ignored is not None
        if ignored is not None:
            value, bounds_by_column = _without(value, ignored)
        else:
            ignored = index_input.padding
        for column, (low, high) in enumerate(bounds_by_column.tolist()):
            axis = first_axis + column
            is_constant = _is_constant(value, low == high)
            counts = allow_negative or is_constant
            # ONNX Runtime makes a Slice of it (`quirks.GATHER_OF_RANGE`).
            if call.operator == "Gather" and value.is_range:
                counts = False
            from_end = index_input.from_end and counts
            size = room_of(call, index_input, axis)
            coordinate = Coordinate(
                input=index_input,
                value=value,
                low=_integer(value, low, 0),
                high=_integer(value, high, 1),
                size=size,
                from_end=from_end,
                lowest=_lowest_of(call, index_input, size, from_end),
                is_exact=_is_exact(call, index_input, value, ignored),
                ignored=ignored,
                column=column if index_input.is_tuple else index_input.column,
                is_reached=is_reached,
            )
            coordinates.append(coordinate)
    return coordinates


def _without(value: Bounds, ignored: int) -> tuple[Bounds, Array]:
    """Return a value without the elements that are surely ignored, and its bounds.

    The bounds have the shape (1, 2).
    """
    rows = value.bounds.reshape(-1, 2)
    is_ignored = (rows == ignored).all(axis=1)
    if not is_ignored.any():
        return value, value.whole.reshape(1, 2)
    if is_ignored.all():  # no element is an index
        return interval(value.data_type, (0,), 0, 0), np.zeros((1, 2), object)
    kept = rows[~is_ignored]
    return value, hull(kept, [0]).reshape(1, 2)


def _lowest_of(
    call: Call, index_input: IndexInput, size: AnySize | None, from_end: bool
) -> AnySize:
    """Return the least index in range of an axis."""
    limits = limits_of(call, index_input.name)
    if limits is not None:
        return limits.low
    if size is None:
        return 0
    if index_input.is_size:
        return size - 1
    return -size if from_end else index_input.least


def _is_exact(
    call: Call, index_input: IndexInput, value: Bounds, ignored: int | None
) -> bool:
    """Return whether the operator surely refuses an index that is out of range."""
    limits = limits_of(call, index_input.name)
    if limits is not None:
        return limits.is_exact
    if index_input.is_attribute:
        return not leaves_have_features(call.operation)
    # The length of the tuples decides which coordinates there are.
    tuple_size = value.sizes[-1] if value.sizes else None
    if index_input.is_tuple and not isinstance(tuple_size, int):
        return False
    # Numbers that are not read may be out of range.
    if index_input.used is not None:
        return _used_count(call, index_input) is not None
    # Without a cache of beams, the length is not always read.
    if call.operator == "MultiHeadAttention":
        return call.has(9) is not None
    # Of a large value, and of padding, it is not known which elements are ignored.
    is_certain = value.is_exact and index_input.padding is None
    return ignored is None or is_certain


def _is_constant(value: Bounds, is_exact: bool) -> bool:
    """Return whether only constants of the model lead to a coordinate of a value.

    Args:
        value: The value.
        is_exact: Whether the coordinate is one number.
    """
    if value.is_of_constants and not value.stops:
        return True
    # A range that is given of an input may be one number.
    return is_exact and not value.is_given


def _indices_of(call: Call, index_input: IndexInput) -> Bounds | None:
    """Return the value of an input of indices; None if there are no indices.

    Where an input that counts is left out, the positions are the indices.
    """
    if index_input.is_attribute:
        return bounds_of_array("INT64", features_of(call.operation))
    value = call.has(index_input.position)
    if value is not None and index_input.used is not None:
        return _first_of(value, _used_count(call, index_input))
    if value is not None or not index_input.counts:
        return value
    count = size_at(call.has(0), 1)
    if count is None:
        return unknown("INT64", None)
    return interval("INT64", (count,), 0, count - 1)


def _used_count(call: Call, index_input: IndexInput) -> int | None:
    """Return how many numbers of the last axis are read; None if it is not known."""
    counts = None if index_input.used is None else call.has(index_input.used)
    return None if counts is None else _number_in(counts)


def _number_in(value: Bounds) -> int | None:
    """Return the number that all elements of a value are; None if it is not known."""
    low, high = value.whole.tolist()
    return low if low == high and isinstance(low, int) else None


def _first_of(value: Bounds, count: int | None) -> Bounds:
    """Return the first numbers of the last axis; all of them if `count` is None."""
    size = value.sizes[-1] if value.sizes else None
    if count is None or not isinstance(size, int) or not 0 <= count <= size:
        return value
    if count == 0:
        return interval(value.data_type, (0,), 0, 0)
    bounds = value.bounds
    if bounds.shape[-2] != 1:  # else all numbers have the same bounds
        bounds = bounds[..., :count, :]
    sizes = (*(value.sizes or ())[:-1], count)
    return replace(value, sizes=sizes, bounds=bounds)


def _bounds_by_column(
    call: Call, index_input: IndexInput, value: Bounds, first_axis: int
) -> Array:
    """Return the bounds of each coordinate of an input, shape (coordinates, 2)."""
    column = index_input.column
    has_columns = index_input.is_tuple or column is not None
    bounds = bounds_of_coordinates(value, has_columns)
    if column is not None:
        bounds = bounds[column:][:1]
    tuple_size = value.sizes[-1] if value.sizes else None
    if not index_input.is_tuple or isinstance(tuple_size, int):
        return bounds
    # The size of the tuples is not known: each axis may have its coordinate.
    data = call.has(index_input.data)
    rank = 0
    if data is not None and data.sizes is not None:
        rank = len(data.sizes)
    count = max(rank - first_axis, 1)
    return np.broadcast_to(bounds, (count, 2))


def bounds_of_coordinates(value: Bounds, is_tuple: bool) -> Array:
    """Return the bounds of each coordinate of a tuple, shape (coordinates, 2).

    The shape is (1, 2) if all coordinates are alike.
    """
    count = value.sizes[-1] if value.sizes and not value.is_empty else None
    # No data has more than `AXES` axes.
    if not is_tuple or not isinstance(count, int) or count > AXES:
        return value.whole.reshape(1, 2)
    columns = hull(value.bounds, range(value.bounds.ndim - 2))
    rows = columns.reshape(-1, 2)
    return np.broadcast_to(rows, (count, 2))


def _integer(value: Bounds, end: Any, side: int) -> AnySize:
    """Return a bound as an integer: of a float, what a Cast makes of it.

    A bound that is no number is the limit of INT64; `side` is 0 for the low.
    """
    if isinstance(end, int | Size):
        return end
    if value.data_type in FLOATS and not value.nan and math.isfinite(end):
        return int(end)
    return INTEGERS["INT64"][side]


# How far the indices of each operator reach.


def room_of(call: Call, index_input: IndexInput, axis: int) -> AnySize | None:
    """Return the least number that is too large for an index of an axis.

    None where it is not known.
    """
    x = call.x  # each of the operators requires it
    operator = call.operator
    if operator == "OneHot":
        return _number_in(call.of(1))
    if operator == "MaxUnpool":
        return _unpooled(call)
    if operator == "RestorePadding":  # an index counts the tokens of all sequences
        return elements_of(call.of(1).sizes)
    if index_input.name == "slot_mapping":  # and the places of all blocks
        cache = call.has(index_input.data)
        return elements_of([size_at(cache, 0), size_at(cache, 1)])
    limits = limits_of(call, index_input.name)
    if limits is not None:
        return limits.size
    # How many elements a sequence has is not known.
    if operator.startswith("Sequence"):
        return None
    # With another layout, the axes of the inputs are others.
    if call.attributes.get("layout"):
        return None
    size = size_at(call.has(index_input.data), axis)
    # From an index on, an operator reads or writes as many elements of the axis.
    length: AnySize | None = 1
    if index_input.is_length or index_input.is_size:
        length = 0
    elif index_input.name == "block_col_indices":  # the data is the ends of the blocks
        length = 2
    elif operator == "TensorScatter":
        if call.attributes.get("mode") == "circular":  # it wraps around the end
            return INTEGERS["INT64"][1] + 1
        length = size_at(call.of(1), axis)
    elif operator == "RotaryEmbedding" and call.operation.domain:
        length = _rotated_length(call, x)
    if size is None or length is None:
        return None
    return size + 1 - length


def _rotated_length(call: Call, x: Bounds) -> AnySize | None:
    """Return how many rows a RotaryEmbedding reads from a position on."""
    ids = call.of(1).sizes
    rank = len(x.sizes or ())
    if ids is None or rank not in (3, 4):
        return None
    if len(ids) > 1:
        return 1
    # One position alone is that of the first row.
    return size_at(x, rank - 2)


def _unpooled(call: Call) -> AnySize | None:
    """Return how many elements the output of a MaxUnpool has."""
    # Case 1: the sizes of the output are an input.
    wanted = call.has(2)
    if wanted is not None:
        numbers = wanted.known
        if numbers is None:
            return None
        return math.prod(int(number) for number in numbers)
    # Case 2: windows are taken apart.
    kernel = call.attributes["kernel_shape"]
    sizes = call.x.sizes or ()
    rank = len(kernel)
    strides = call.attributes.get("strides", (1,) * rank)
    pads = call.attributes.get("pads", (0,) * 2 * rank)
    if len(sizes) != rank + 2:
        return None
    unpooled: list[AnySize | None] = []
    for axis, count in enumerate(sizes[2:]):
        if count is None:
            unpooled.append(None)
            continue
        padding = pads[axis] + pads[axis + rank]
        unpooled.append((count - 1) * strides[axis] - padding + kernel[axis])
    return elements_of([*sizes[:2], *unpooled])
