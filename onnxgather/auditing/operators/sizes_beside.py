"""The sizes beside the axis that is indexed: those of inputs that have to fit others.

A GatherElements reads one axis by the numbers in its indices, and each other axis by
the place of the number. So the sizes of the indices are bounded there as indices are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.algebra.sizes import AnySize, Size, in_named
from onnxgather.auditing.operators.cache_limits import size_at
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.index_operators import SizeRule, operator_of


class SizeBeside(Struct, frozen=True):
    """A size of an input, and the size of another input that it has to fit."""

    rule: str
    """What has to hold, as a sentence."""
    size: AnySize | None
    """None where it is not known."""
    limit: AnySize | None
    """The other size; None where it is not known."""
    is_equal: bool
    """Whether the size must be the limit; else it may be less."""
    may_be_one: bool
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
        if self.size is None or (self.may_be_one and not self.size > 1):
            return False
        return any(room < 0 for room in self.rooms)

    @property
    def broken_rule(self) -> str:
        """Return the rule, and the sizes where they have names."""
        if self.size is None or self.limit is None:
            return self.rule
        for size in (self.size, self.limit):
            if isinstance(size, Size) and in_named(size) != size:
                return self.rule
        return f"{self.rule}, got {self.size} and {self.limit}"


def sizes_beside(call: Call) -> list[SizeBeside]:
    """Return the sizes of an operation with indices that have to fit others."""
    row = operator_of(call.operation)
    # With another layout, the axes of the inputs are others.
    if row is None or call.attributes.get("layout"):
        return []
    index_input = row.inputs[0]
    axis = index_input.axis_of(call.operation)
    rules = [*row.sizes]
    if row.operator in _RULES:
        rules += _RULES[row.operator](call, axis)
    sizes = [_size_beside(call, rule) for rule in rules if _is_of(call, rule)]
    if index_input.is_tuple:
        sizes.append(_size_of_tuples(call, axis))
    return sizes


def _size_of_tuples(call: Call, first_axis: int) -> SizeBeside:
    """Return the size of the tuples of a GatherND or a ScatterND."""
    data, indices = call.operation.inputs[:2]
    count = size_at(call.has(1), -1)
    rule = f"the last size of {indices} must be at most the rank of {data}"
    if first_axis:
        rule = f"{rule} minus {first_axis}"
    limit: int | None = None
    # Of a ScatterND, the tuples decide which sizes the updates have.
    if isinstance(count, int) or call.operator == "GatherND":
        limit = _rank(call.x) - first_axis
    return SizeBeside(
        rule=rule,
        size=count,
        limit=limit,
        is_equal=False,
        may_be_one=False,
    )


def _is_of(call: Call, rule: SizeRule) -> bool:
    """Return whether an operation has the sizes of a rule."""
    value = call.has(rule.input)
    if value is None:
        return False
    # A position alone stands for all rows.
    return value.sizes is None or len(value.sizes) >= rule.rank


def _size_beside(call: Call, rule: SizeRule) -> SizeBeside:
    """Return the sizes of an operation that a rule compares."""
    names = call.operation.inputs
    other_dim = int(call.attributes.get(rule.attribute, rule.other_dim))
    if other_dim < 0:
        other_dim += _rank(call.has(rule.other))
    verb = "must be at most" if rule.at_most else "must be"
    size = f"size {rule.dim} of {names[rule.input]}"
    other_size = f"size {other_dim} of {names[rule.other]}"
    return SizeBeside(
        rule=f"{size} {verb} {other_size}",
        size=size_at(call.has(rule.input), rule.dim),
        limit=size_at(call.has(rule.other), other_dim),
        is_equal=not rule.at_most,
        may_be_one=rule.may_be_one,
    )


def _rank(value: Bounds | None) -> int:
    """Return the rank of a value; 1 where it is not known, as it has some size then."""
    if value is None or value.sizes is None:
        return 1
    return len(value.sizes)


# The rules of operators whose inputs may have any rank. The axis may count from the end.


def _along_an_axis(call: Call, axis: int) -> Iterator[SizeRule]:
    """Yield the rules of a gather or a scatter of elements."""
    rank = _rank(call.x)
    for dim in range(rank):
        if dim not in (axis, axis + rank):
            yield SizeRule(1, dim, 0, dim, at_most=True)
    # A scatter has as many updates as indices.
    for dim in range(_rank(call.has(1))):
        yield SizeRule(2, dim, 1, dim)


def _in_batches(call: Call, batch_dims: int) -> Iterator[SizeRule]:
    """Yield the rules of a GatherND, whose indexed axes come after the batches."""
    for dim in range(batch_dims):
        yield SizeRule(1, dim, 0, dim)


def _of_updates(call: Call, _: int) -> Iterator[SizeRule]:
    """Yield the rules of a ScatterND: each tuple has a part of the data as its update."""
    last = _rank(call.has(1)) - 1
    for dim in range(last):
        yield SizeRule(2, dim, 1, dim)
    count = size_at(call.has(1), -1)
    if isinstance(count, int):
        for dim in range(count, _rank(call.x)):
            yield SizeRule(2, last + dim - count, 0, dim)


def _of_one_shape(call: Call, _: int) -> Iterator[SizeRule]:
    """Yield the rules of a MaxUnpool."""
    for dim in range(_rank(call.x)):
        yield SizeRule(1, dim, 0, dim)


def _of_classes(call: Call, axis: int) -> Iterator[SizeRule]:
    """Yield the rules of a loss, whose target lacks the axis of the classes."""
    others = [dim for dim in range(_rank(call.x)) if dim != axis]
    for dim, other_dim in enumerate(others):
        yield SizeRule(1, dim, 0, other_dim)


def _of_a_cache(call: Call, axis: int) -> Iterator[SizeRule]:
    """Yield the rules of a TensorScatter."""
    rank = _rank(call.x)
    for dim in range(rank):
        if dim not in (axis, axis + rank):
            yield SizeRule(1, dim, 0, dim)


_RULES: dict[str, Callable[[Call, int], Iterator[SizeRule]]] = {
    "GatherElements": _along_an_axis,
    "GatherND": _in_batches,
    "MaxUnpool": _of_one_shape,
    "NegativeLogLikelihoodLoss": _of_classes,
    "Scatter": _along_an_axis,
    "ScatterElements": _along_an_axis,
    "ScatterND": _of_updates,
    "SoftmaxCrossEntropyLoss": _of_classes,
    "TensorScatter": _of_a_cache,
}
