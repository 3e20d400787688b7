"""The sizes beside the axis that is indexed: those of inputs that have to fit others.

A GatherElements reads one axis by the numbers in its indices, and each other axis by
the place of the number. So the sizes of the indices are bounded there as indices are.
The rules are in the table of `index_operators.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.algebra.sizes import AnySize
from onnxgather.auditing.operators.cache_limits import size_at
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.index_operators import SizeRule, operator_of


class SizeBeside(Struct, frozen=True):
    """A size of an input, and what it has to fit: a size of another one, or a rank."""

    rule: str
    """What has to hold, as a sentence."""
    size: AnySize | None
    """None where it is not known."""
    limit: AnySize | None
    """What the size has to fit; None where it is not known."""
    is_equal: bool = False
    """Whether the size must be the limit; else it may be less."""
    may_be_one: bool = False
    """Whether it may be 1, too."""

    @property
    def rooms(self) -> list[AnySize]:
        """Return the numbers that must be at least 0; none if a size is not known."""
        if self.size is None or self.limit is None:
            return []
        above = self.limit - self.size
        return [above, -above] if self.is_equal else [above]

    @property
    def is_inside(self) -> bool:
        """Return whether the size surely fits."""
        if self.may_be_one and self.size == 1:
            return True
        rooms = self.rooms
        return bool(rooms) and all(room >= 0 for room in rooms)

    @property
    def is_outside(self) -> bool:
        """Return whether the size surely does not fit."""
        return not self.may_be_one and any(room < 0 for room in self.rooms)


def sizes_beside(call: Call) -> list[SizeBeside]:
    """Return the sizes of an operation with indices that have to fit others."""
    row = operator_of(call.operation)
    # With another layout, the axes of the inputs are others.
    if row is None or call.attributes.get("layout"):
        return []
    index_input = row.inputs[0]
    axis = index_input.axis_of(call.operation)
    sizes: list[SizeBeside] = []
    for rule in row.sizes:
        value = call.has(rule.input)
        # A position alone stands for all rows.
        if value is None or _rank(value) < rule.rank:
            continue
        for dim, other_dim in _dimensions(call, rule, axis):
            sizes.append(_size_beside(call, rule, dim, other_dim))
    if index_input.is_tuple:
        sizes.append(_size_of_tuples(call, axis))
    return sizes


def _dimensions(call: Call, rule: SizeRule, axis: int) -> Iterable[tuple[int, int]]:
    """Return the dimensions that a rule compares, of its input and of the other one.

    Args:
        call: The operation.
        rule: The rule.
        axis: The axis that is indexed, which may count from the end, or the first one.
    """
    if rule.dims == "one":
        other_dim = int(call.attributes.get(rule.attribute, rule.other_dim))
        return [(rule.dim, other_dim)]
    rank = _rank(call.has(rule.other))
    every = range(rank)
    beside = [dim for dim in every if dim not in (axis, axis + rank)]
    if rule.dims == "beside":
        return zip(beside, beside, strict=True)
    if rule.dims == "without axis":
        return enumerate(beside)
    if rule.dims == "behind tuple":
        count = size_at(call.has(1), -1)
        first = count if isinstance(count, int) else rank
        return enumerate(every[first:], _rank(call.has(1)) - 1)
    ends = {"before axis": axis, "but last": rank - 1}
    numbers = range(ends.get(rule.dims, rank))
    return zip(numbers, numbers, strict=True)


def _size_beside(call: Call, rule: SizeRule, dim: int, other_dim: int) -> SizeBeside:
    """Return the sizes of an operation that a rule compares."""
    names = call.operation.inputs
    verb = "must be at most" if rule.at_most else "must be"
    if rule.may_be_one:
        verb = "must be 1 or"
    other = call.has(rule.other)
    if other_dim < 0:
        other_dim += _rank(other)
    size = f"size {dim} of {names[rule.input]}"
    limit_text = f"size {other_dim} of {names[rule.other]}"
    limit = size_at(other, other_dim)
    if rule.number is not None:
        limit_text = str(rule.number)
        limit = rule.number
    return SizeBeside(
        f"{size} {verb} {limit_text}",
        size_at(call.has(rule.input), dim),
        limit,
        not rule.at_most,
        rule.may_be_one,
    )


def _size_of_tuples(call: Call, first_axis: int) -> SizeBeside:
    """Return the size of the tuples of a GatherND or a ScatterND."""
    data, indices = call.operation.inputs[:2]
    rule = f"the last size of {indices} must be at most the rank of {data}"
    if first_axis:
        rule = f"{rule} minus {first_axis}"
    count = size_at(call.has(1), -1)
    limit: int | None = None
    # Of a ScatterND, the tuples decide which sizes the updates have.
    is_open_scatter = call.operator == "ScatterND" and not isinstance(count, int)
    if call.x.sizes is not None and not is_open_scatter:
        limit = _rank(call.x) - first_axis
    return SizeBeside(rule, count, limit)


def _rank(value: Bounds | None) -> int:
    """Return the rank of a value; 1 where it is not known, as it has some size then."""
    if value is None or value.sizes is None:
        return 1
    return len(value.sizes)
