"""Which node lost a size: behind it the size is no function of the inputs' sizes."""

from __future__ import annotations

from collections.abc import Sequence

from onnxgather.auditing.algebra.sizes import (
    AnySize,
    NodeName,
    first_lost_by,
    new_symbols,
)
from onnxgather.auditing.proof.columns import GraphValues
from onnxgather.core.model.network import Operation, Scope

_COUNTING = ("Compress", "NonMaxSuppression", "NonZero", "Range", "Unique")
"""The operators whose outputs have sizes that depend on elements, not on sizes."""


def note_lost(
    values: GraphValues,
    scope: Scope,
    operation: Operation,
    kept: Sequence[AnySize],
) -> None:
    """Note which node lost the new symbols in the sizes of an output.

    Args:
        values: What is known of the values.
        scope: The scope of the operation.
        operation: The operation.
        kept: The sizes, with new symbols.
    """
    for axis, size in enumerate(kept):
        for symbol in new_symbols(size):
            earlier: NodeName | None = None
            # A count that the operator makes is lost by no other node.
            if operation.operator not in _COUNTING:
                earlier = _lost_before(values, scope, operation, axis, len(kept))
            symbol.lost_by = earlier or (operation.label, operation.operator)


def _lost_before(
    values: GraphValues, scope: Scope, operation: Operation, axis: int, rank: int
) -> NodeName | None:
    """Return which node lost a size of an input of an operation, if one did.

    A size of the same axis comes first, and a rank that is lost comes last.
    """
    of_axis: list[AnySize] = []
    for name in filter(None, operation.inputs):
        sizes = values.value(scope, name).sizes
        if sizes is not None and len(sizes) == rank:
            of_axis.append(sizes[axis] or 0)
    earlier = first_lost_by(*of_axis) or _lost_size_of_inputs(values, scope, operation)
    if earlier is not None:
        return earlier
    unranked = _unranked_input(values, scope, operation)
    return None if unranked is None else rank_lost_by(values, scope, unranked)


def _lost_size_of_inputs(
    values: GraphValues, scope: Scope, operation: Operation
) -> NodeName | None:
    """Return which node lost a size of any axis of the inputs, if one did."""
    all_sizes = list[AnySize]()
    for name in filter(None, operation.inputs):
        sizes = values.value(scope, name).sizes or ()
        all_sizes += [size for size in sizes if size is not None]
    return first_lost_by(*all_sizes)


def _unranked_input(
    values: GraphValues, scope: Scope, operation: Operation
) -> str | None:
    """Return the first input of an operation without a rank; None if all have one."""
    for name in filter(None, operation.inputs):
        if values.value(scope, name).sizes is None:
            return name
    return None


def rank_lost_by(values: GraphValues, scope: Scope, name: str) -> NodeName | None:
    """Return the first node on the way to a value behind which its rank is lost.

    None means that the value has a rank, or that an input of the model or of a body
    has none. The way may be longer than Python's calls can be deep.
    """
    lost_by: NodeName | None = None
    unranked: str | None = name
    while unranked is not None and values.value(scope, unranked).sizes is None:
        scope = scope.owner(unranked) or scope
        producer = values.producer(scope, unranked)
        if producer is None:
            break
        lost_by = (producer.label, producer.operator)
        earlier = _lost_size_of_inputs(values, scope, producer)
        if earlier is not None:
            return earlier
        unranked = _unranked_input(values, scope, producer)
    return lost_by
