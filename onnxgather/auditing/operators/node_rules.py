"""The rules of a node with indices: a node that breaks one of them is invalid.

ONNX forbids such a node, or each run of it fails. The types and the ranks that the
operators take are in the table of index operators.
"""

from __future__ import annotations

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.operators.calls import Call
from onnxgather.auditing.operators.index_operators import IndexInput, operator_of
from onnxgather.auditing.operators.sizes_beside import sizes_beside
from onnxgather.core.gather import gather_of_node


def broken_rule(call: Call) -> str | None:
    """Return the rule that an operation with indices breaks.

    None means that none is known: a size or a type that is not known breaks no rule.
    """
    row = operator_of(call.operation)
    if row is None:
        return None
    for index_input in row.inputs:
        value = call.has(index_input.position)
        # The numbers of an attribute have no type and no rank.
        if value is None or index_input.is_attribute:
            continue
        if value.data_type and value.data_type not in index_input.types:
            types = " or ".join(index_input.types)
            return f"{index_input.name} must be {types}, got {value.data_type}"
        if row.shapes_of:
            rule = _broken_by_shapes(call, index_input, row.shapes_of)
        else:
            rule = _broken_by_rank(call, index_input, value)
        if rule is not None:
            return rule
    for beside in sizes_beside(call):
        if beside.is_outside:
            return f"{beside.rule}, got {beside.size} and {beside.limit}"
    return None


def _broken_by_rank(call: Call, index_input: IndexInput, value: Bounds) -> str | None:
    """Return the rule that the axis or the rank of an input breaks."""
    ranks = index_input.ranks
    data = call.has(index_input.data)
    if data is not None and data.sizes is not None:
        rank = len(data.sizes)
        axis = index_input.axis_of(call.operation)
        if index_input.attribute and not -rank <= axis < rank:
            return f"{index_input.attribute} must be in [{-rank}, {rank}), got {axis}"
        if index_input.below_data is not None:
            ranks = (rank - index_input.below_data,)
    if value.sizes is None or not ranks or len(value.sizes) in ranks:
        return None
    allowed = " or ".join(map(str, ranks))
    got = len(value.sizes)
    return f"the rank of {index_input.name} must be {allowed}, got {got}"


def _broken_by_shapes(call: Call, index_input: IndexInput, gather: str) -> str | None:
    """Return the rule of ONNX that the shapes of data and indices break.

    Args:
        call: The operation.
        index_input: The input that holds its indices.
        gather: The gather of ONNX whose rule it is.
    """
    data = call.of(index_input.data).sizes
    if data is None:
        return None
    indices = call.of(index_input.position).sizes
    if indices is None:
        indices = (None,) * len(data)
    # Ones break no rule of sizes, so only the ranks count, and the coordinates.
    known_data = (1,) * len(data)
    known_indices = (1,) * len(indices)
    last = indices[-1] if indices else None
    # ONNX Runtime runs tuples without a coordinate, though ONNX forbids some of them.
    if index_input.is_tuple and isinstance(last, int):
        known_indices = (*known_indices[:-1], last or 1)
    number = index_input.axis_of(call.operation)
    return gather_of_node(gather, known_data, known_indices, number).broken_rule()
