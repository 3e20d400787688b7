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
        if value is None:
            continue
        rule = _broken_by_type(index_input, value)
        rule = rule or _broken_by_rank(call, index_input, value)
        if rule is None and row.shapes_of:
            rule = _broken_by_shapes(call, index_input, row.shapes_of)
        if rule is not None:
            return rule
    for beside in sizes_beside(call):
        if beside.is_outside:
            return f"{beside.rule}, got {beside.size} and {beside.limit}"
    return None


def _broken_by_type(index_input: IndexInput, value: Bounds) -> str | None:
    data_type = value.data_type
    if not data_type or data_type in index_input.types:
        return None
    types = " or ".join(index_input.types)
    return f"{index_input.name} must be {types}, got {data_type}"


def _broken_by_rank(call: Call, index_input: IndexInput, value: Bounds) -> str | None:
    if value.sizes is not None and index_input.ranks:
        rank = len(value.sizes)
        if rank not in index_input.ranks:
            ranks = " or ".join(map(str, index_input.ranks))
            return f"the rank of {index_input.name} must be {ranks}, got {rank}"
    data = call.has(index_input.data)
    if data is None or data.sizes is None:
        return None
    data_rank = len(data.sizes)
    # An operator of a sequence has no axis.
    if index_input.attribute and not index_input.is_tuple:
        axis = index_input.axis_of(call.operation)
        if not -data_rank <= axis < data_rank:
            rule = f"{index_input.attribute} must be in [{-data_rank}, {data_rank})"
            return f"{rule}, got {axis}"
    if value.sizes is not None and index_input.below_data is not None:
        rank = len(value.sizes)
        wanted = data_rank - index_input.below_data
        if rank != wanted:
            return f"the rank of {index_input.name} must be {wanted}, got {rank}"
    return None


def _broken_by_shapes(call: Call, index_input: IndexInput, gather: str) -> str | None:
    """Return the rule of ONNX that the shapes of data and indices break.

    Args:
        call: The operation.
        index_input: The input that holds its indices.
        gather: The gather of ONNX whose rule it is.
    """
    data = call.of(index_input.data).sizes
    indices = call.of(index_input.position).sizes
    if data is None or indices is None:
        return None
    # Ones break no rule of sizes, so only the ranks count, and the coordinates.
    known_data = (1,) * len(data)
    known_indices = (1,) * len(indices)
    last = indices[-1] if indices else None
    # ONNX Runtime runs tuples without a coordinate, though ONNX forbids some of them.
    if index_input.is_tuple and isinstance(last, int):
        known_indices = (*known_indices[:-1], last or 1)
    number = index_input.axis_of(call.operation)
    return gather_of_node(gather, known_data, known_indices, number).broken_rule()
