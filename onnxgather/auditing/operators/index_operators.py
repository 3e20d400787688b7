"""The operators that carry indices: the inputs that hold them, and which indices are in range.

The table is in `index_operators.json`, with what each provider does with an index out
of range. Slice and Compress carry bounds and a mask, which ONNX cuts to the axis: they
are not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import msgspec
import numpy as np

from onnxgather.auditing.algebra.bounds import (
    AXES,
    FLOATS,
    INTEGERS,
    Bounds,
    elements_of,
    hull,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import AnySize, Size
from onnxgather.auditing.operators.calls import Call
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation

Hardened = Literal["clamp", "drop", "leave", "nothing"]
"""What harden does with indices out of range: it clamps them, drops the writes at them,
leaves them as they are, or has nothing to do, as the operator takes any index."""


class IndexInput(msgspec.Struct, frozen=True):
    """An input of an operator that holds indices."""

    name: str
    """As the operator's definition has it."""
    position: int
    data: int
    """The position of the input that is indexed."""
    axis: int = 0
    """The axis that is indexed, or the first one of a tuple."""
    attribute: str = ""
    """The attribute that gives the axis where it is not the default above."""
    from_end: bool = False
    """Whether indices below 0 count from the end of the axis."""
    is_tuple: bool = False
    """Whether each row of the last axis is one index into several axes."""
    column: int | None = None
    """The column of the last axis that holds the indices, where not all do."""
    counts: bool = False
    """Whether the positions of the second axis of the first input are the indices where
    the input is left out."""

    def value_in(self, operation: Operation) -> str:
        """The name of the value that an operation has there; "" where the input is left out."""
        return next(iter(operation.inputs[self.position : self.position + 1]), "")

    def axis_of(self, operation: Operation) -> int:
        """The axis in an operation, which may count from the end."""
        return int(operation.attributes.get(self.attribute, self.axis))


class IndexOperator(msgspec.Struct, frozen=True):
    """An operator that carries indices."""

    operator: str
    hardened: Hardened
    inputs: tuple[IndexInput, ...]
    """Those that hold indices."""
    domain: str = ""
    """"" is ONNX's own."""
    providers: dict[str, str] = {}
    """What each provider does with an index out of range, by its short name, as far as
    it is not a known difference of DirectML's own gathers."""


_ROWS = (
    files("onnxgather.auditing.operators").joinpath("index_operators.json").read_bytes()
)

INDEX_OPERATORS = {
    (row.domain, row.operator): row
    for row in msgspec.json.decode(_ROWS, type=list[IndexOperator])
}
"""The operators, by domain and name."""


def operator_of(operation: Operation) -> IndexOperator | None:
    """The row of an operation; None where the operation carries no indices."""
    row = INDEX_OPERATORS.get((operation.domain, operation.operator))
    return row if row and any(one.value_in(operation) for one in row.inputs) else None


def inputs_of(operation: Operation) -> list[IndexInput]:
    """The inputs of an operation that hold indices and are not left out."""
    row = operator_of(operation)
    return [one for one in row.inputs if one.value_in(operation)] if row else []


def given_indices(operation: Operation) -> list[str]:
    """The names of the values that hold the indices of an operation."""
    return [one.value_in(operation) for one in inputs_of(operation)]


@dataclass(frozen=True, slots=True)
class Coordinate:
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

    @property
    def is_inside(self) -> bool:
        """Whether all indices are surely in range."""
        inside = is_inside(self.low, self.high, self.size, self.from_end)
        return inside or self.value.is_empty


def coordinates_of(call: Call) -> list[Coordinate]:
    """The coordinates of the indices of an operation, whose inputs alone the call needs."""
    row, found = operator_of(call.operation), list[Coordinate]()
    for one in row.inputs if row else ():
        value = call.has(one.position)
        if value is None and one.counts:
            count = _size(call.has(0), 1)
            value = unknown("INT64", None)
            if count is not None:
                value = interval("INT64", (count,), 0, count - 1)
        if value is None:
            continue
        rows = bounds_of_coordinates(value, one.is_tuple or one.column is not None)
        rows = rows if one.column is None else rows[one.column :][:1]
        first, data = one.axis_of(call.operation), call.has(one.data)
        last = value.sizes[-1] if value.sizes else None
        if one.is_tuple and not isinstance(
            last, int
        ):  # each axis may have its coordinate
            rank = len((data and data.sizes) or ())
            rows = np.broadcast_to(rows, (max(rank - first, 1), 2))
        for axis, (low, high) in enumerate(rows.tolist(), first):
            ends = _integer(value, low, 0), _integer(value, high, 1)
            room, from_end = (
                room_of(call, one, axis),
                one.from_end and not is_embedding(call),
            )
            found.append(Coordinate(one, value, *ends, room, from_end))
    return found


def is_embedding(call: Call) -> bool:
    """Whether ONNX Runtime may make an EmbedLayerNormalization of a Gather and of what follows it.

    This operator takes no index below 0.
    """
    ranks = {len(value.sizes) for value in call.given if value.sizes is not None}
    return (
        call.operation.is_embedding
        and ranks <= {2}
        and call.x.data_type in ("", *FLOATS)
    )


def bounds_of_coordinates(value: Bounds, is_tuple: bool) -> Array:
    """The bounds of each coordinate of a tuple, shape (coordinates, 2); (1, 2) if all are alike."""
    columns = value.sizes[-1] if value.sizes and not value.is_empty else None
    if (
        not is_tuple or not isinstance(columns, int) or columns > AXES
    ):  # no data has so many
        return value.whole.reshape(1, 2)
    rows = hull(value.bounds, range(value.bounds.ndim - 2))
    return np.broadcast_to(rows.reshape(-1, 2), (columns, 2))


def is_inside(
    low: AnySize, high: AnySize, size: AnySize | None, from_end: bool = True
) -> bool:
    """Whether all indices of an interval are surely in range of an axis; False if not known."""
    return size is not None and (-size if from_end else 0) <= low and high <= size - 1


def _integer(value: Bounds, end: Any, k: int) -> AnySize:
    """The end of a bound: of a float what a cast makes of it, else the limit of INT64."""
    if isinstance(end, int | Size):
        return end
    is_number = value.data_type in FLOATS and not value.nan and math.isfinite(end)
    return int(end) if is_number else INTEGERS["INT64"][k]


def _size(value: Bounds | None, axis: int) -> AnySize | None:
    """The size of an axis; None where it is not known."""
    sizes = (value and value.sizes) or ()
    return sizes[axis] if -len(sizes) <= axis < len(sizes) else None


def room_of(call: Call, one: IndexInput, axis: int) -> AnySize | None:
    """The least number that is no index of an axis any more; None where it is not known."""
    size, x, operator = _size(call.has(one.data), axis), call.x, call.operator
    length: AnySize | None = 1
    if operator == "OneHot":
        size, high = call.of(1).whole.tolist()
        return size if size == high and isinstance(size, int) else None
    if operator == "MaxUnpool":
        return _unpooled(call)
    if operator == "ReverseSequence":  # the input holds lengths
        length = 0
    elif operator == "TensorScatter":  # a circular one wraps around the end
        is_circular = call.attributes.get("mode") == "circular"
        size = INTEGERS["INT64"][1] if is_circular else size
        length = 0 if is_circular else _size(call.of(1), axis)
    elif call.operation.domain and operator == "RotaryEmbedding":
        ids, rank = call.of(1).sizes, len(x.sizes or ())
        if ids is None or rank not in (3, 4):
            return None
        length = (
            1 if len(ids) > 1 else _size(x, rank - 2)
        )  # else it is that of the first position
    return None if size is None or length is None else size + 1 - length


def _unpooled(call: Call) -> AnySize | None:
    """How many elements the output of a MaxUnpool has."""
    wanted = call.has(2)
    if wanted is not None:
        return None if wanted.known is None else math.prod(map(int, wanted.known))
    kernel, sizes = call.attributes["kernel_shape"], call.x.sizes or ()
    rank = len(kernel)
    strides = call.attributes.get("strides", (1,) * rank)
    pads = call.attributes.get("pads", (0,) * 2 * rank)
    if len(sizes) != rank + 2:
        return None
    made = [
        (
            None
            if n is None
            else (n - 1) * strides[k] - pads[k] - pads[k + rank] + kernel[k]
        )
        for k, n in enumerate(sizes[2:])
    ]
    return elements_of([*sizes[:2], *made])
