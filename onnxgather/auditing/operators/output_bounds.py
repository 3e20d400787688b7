"""The table of operators: the bounds of what each computes, from those of its inputs.

The table in `output_types.py` contains the types and the sizes. An operator that is
not in this one computes anything that its data type holds.
"""

from __future__ import annotations

from onnxgather.auditing.operators.output_bounds_arithmetic import ARITHMETIC_BOUNDS
from onnxgather.auditing.operators.output_bounds_axes import AXIS_BOUNDS
from onnxgather.auditing.operators.output_bounds_order import ORDER_BOUNDS
from onnxgather.auditing.operators.output_bounds_selection import SELECTION_BOUNDS
from onnxgather.auditing.operators.output_bounds_table import Transfer

TRANSFERS: dict[str, Transfer] = {}
"""For each operator, the function that bounds its outputs."""

QUIET: set[str] = set()
"""Operators that select elements, which a proof in words does not name."""

for _table in (ARITHMETIC_BOUNDS, ORDER_BOUNDS, AXIS_BOUNDS, SELECTION_BOUNDS):
    TRANSFERS.update(_table.transfers)
    QUIET.update(_table.quiet)

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
