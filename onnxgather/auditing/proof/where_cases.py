"""The values of a Where: each has the bounds of the case that it is for.

Where a condition such as `x < 0` is true, x is below 0, and so is what is computed from
it.
"""

from __future__ import annotations

from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_bounds import (
    ELEMENTWISE,
    bounds_by_table,
    with_reasons,
)
from onnxgather.auditing.operators.output_bounds_order import (
    COMPARISONS,
    in_both,
    where_compared,
)
from onnxgather.auditing.proof.columns import GraphValues
from onnxgather.core.model.network import Scope

NESTED = 12
"""A condition of Where is followed through at most this many operations."""


def in_cases(values: GraphValues, scope: Scope, call: Call) -> Call:
    """Return a Where, each of whose values has the bounds of the case it is for.

    Args:
        values: What is known of the values.
        scope: The scope of the operation.
        call: The operation.

    Raises:
        LookupError: It lacks an input, as do the two below.
        TypeError: A comparison has too few or too many inputs.
        ValueError: So has a comparison, or their sizes do not broadcast.
    """
    condition, *names = call.operation.inputs
    inputs = list(call.inputs)
    for position, holds in ((1, True), (2, False)):
        assumed: dict[str, Bounds] = {}
        _assume(values, scope, condition, holds, assumed, NESTED)
        if assumed:
            name = names[position - 1]
            inputs[position] = _under(values, scope, name, assumed, NESTED)
    return replace(call, inputs=tuple(inputs))


def _assume(
    values: GraphValues,
    scope: Scope,
    name: str,
    holds: bool,
    assumed: dict[str, Bounds],
    depth: int,
) -> None:
    """Add to `assumed` the bounds of values if a condition is true, or is false."""
    producer = values.producer(scope, name)
    if producer is None or producer.domain or not depth:
        return
    inputs = producer.inputs
    operands = [values.value(scope, operand) for operand in inputs if operand]
    if producer.operator == "Not":
        _assume(values, scope, inputs[0], not holds, assumed, depth - 1)
    elif producer.operator == ("And" if holds else "Or"):
        for operand in inputs:
            _assume(values, scope, operand, holds, assumed, depth - 1)
    elif producer.operator in (*COMPARISONS, "Equal"):
        compared = where_compared(producer.operator, holds, *operands)
        for operand, value in zip(inputs, compared, strict=True):
            if operand in assumed:
                value = in_both(assumed[operand], value)
            assumed[operand] = value


def _under(
    values: GraphValues, scope: Scope, name: str, assumed: dict[str, Bounds], depth: int
) -> Bounds:
    """Return a value, computed by elementwise operations from assumed values."""
    if name in assumed:
        return assumed[name]
    value = values.value(scope, name)
    producer = values.producer(scope, name)
    if producer is None or producer.domain or not depth:
        return value
    if producer.operator not in ELEMENTWISE:
        return value
    inputs: list[Bounds | None] = []
    has_changed = False
    for input_name in producer.inputs:
        if not input_name:
            inputs.append(None)
            continue
        new_input = _under(values, scope, input_name, assumed, depth - 1)
        inputs.append(new_input)
        if new_input is not values.value(scope, input_name):
            has_changed = True
    if not has_changed:
        return value
    types = [OpenType(value.data_type, value.sizes)]
    call = Call(producer, tuple(inputs), scope.version, types)
    results = bounds_by_table(call)
    return with_reasons(call, results[0]) if results else value
