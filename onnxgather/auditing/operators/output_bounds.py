"""The table of operators: the bounds of what each computes, from those of its inputs.

The table in `output_types.py` contains the types and the sizes. An operator that is
not in this one computes anything that its data type holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from onnxgather.auditing.algebra.bounds import CONSTANT, Bounds, Reason, merged_reasons
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.output_bounds_arithmetic import ARITHMETIC_BOUNDS
from onnxgather.auditing.operators.output_bounds_axes import AXIS_BOUNDS
from onnxgather.auditing.operators.output_bounds_order import (
    COMPARISONS,
    ORDER_BOUNDS,
)
from onnxgather.auditing.operators.output_bounds_selection import SELECTION_BOUNDS
from onnxgather.auditing.operators.output_bounds_table import Transfer

TRANSFERS: dict[str, Transfer] = {}
"""For each operator, the function that bounds its outputs."""

QUIET: set[str] = set()
"""Operators that select elements, which a proof in words does not name."""

OF_SIZES: set[str] = set()
"""Operators whose bounds come from the sizes of their inputs alone."""

for _table in (ARITHMETIC_BOUNDS, ORDER_BOUNDS, AXIS_BOUNDS, SELECTION_BOUNDS):
    TRANSFERS.update(_table.transfers)
    QUIET.update(_table.quiet)
    OF_SIZES.update(_table.of_sizes)

ELEMENTWISE = {
    "Abs",
    "Add",
    "Cast",
    "Ceil",
    "Clip",
    "Div",
    "Floor",
    "Identity",
    "Log",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Relu",
    "Round",
    "Sqrt",
    "Sub",
    "Where",
}
"""Operators each of whose elements comes from the elements of the inputs at its
place."""

LOGICAL = {*COMPARISONS, "And", "Equal", "Not", "Or"}
"""Operators as those of `ELEMENTWISE`, with truth values as elements."""


def bounds_by_table(call: Call) -> Sequence[Bounds]:
    """Return the bounds of an operation of the table; nothing if it knows none."""
    if call.operation.wrong_flag:
        return []
    try:
        with np.errstate(all="ignore"):
            results = TRANSFERS[call.operator](call)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return []  # it breaks a rule of ONNX
    if isinstance(results, Bounds):
        return [results]
    return results or []


def with_reasons(call: Call, value: Bounds) -> Bounds:
    """Return the value with what its bounds come from, or what leaves it without."""
    # Case 1: the operator said it.
    if value.why or value.stops:
        return value
    # Case 2: each element is known.
    if value.is_exact:
        return replace(value, why=(CONSTANT,))
    # Case 3: no bounds.
    why = merged_reasons(v.why for v in call.given)
    stops = merged_reasons(v.stops for v in call.given)
    if not value.is_bounded:
        operation = call.operation
        name = f"{operation.operator} {operation.label}"
        return replace(value, why=why, stops=stops or (name,))
    # Case 4: bounds in spite of an input without bounds come from the operator.
    is_quiet = call.operator in QUIET
    if stops:
        kept = stops if is_quiet else ()
        return replace(value, why=(Reason(call.operator),), stops=kept)
    # Case 5: bounds come from the inputs and the operator.
    reasons = tuple(reason for reason in why if reason != CONSTANT)
    own = () if is_quiet else (Reason(call.operator),)
    return replace(value, why=merged_reasons([reasons, own]) or (CONSTANT,))
