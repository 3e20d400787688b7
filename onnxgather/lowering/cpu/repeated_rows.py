"""GATHER_ELEMENTS whose indices are the same along whole rows."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu.facts import Facts, other_policy, small, wide
from onnxgather.lowering.cpu.indices import axis_indices, narrowed
from onnxgather.lowering.graph import Graph, Value

NAME = "repeated rows"
REASON = "the indices are the same along whole rows, so that rows are gathered, not elements"
GAIN = 5.4


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    gather, tensor = facts.gather, facts.desc.indices_tensor
    if gather.onnx != "GatherElements":
        return f"{facts.desc.operator} has one index for a row, this form joins those of elements"
    if facts.known is not None:
        return "the indices are known, this form reads them from a tensor"
    if facts.row == 1:
        return "rows have 1 element, this form gathers longer ones"
    behind = slice(gather.number + 1, None)
    dims = zip(gather.indices[behind], tensor.element_strides[behind], strict=True)
    if any(size > 1 and stride > 0 for size, stride in dims):
        return f"the indices differ behind Axis {gather.number}, this form has stride 0 there"
    if not facts.desc.input_tensor.is_plain:
        return "InputTensor has strides or padding, this form takes packed data"
    return other_policy(facts, "clamp", "error") or wide(facts) or small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    sizes, axis = facts.sizes, facts.gather.number
    strides = facts.desc.indices_tensor.element_strides
    moving = tuple(size if stride else 1 for size, stride in zip(sizes, strides, strict=True))
    index = narrowed(graph, axis_indices(graph, facts, moving[: axis + 1]))
    index = graph.reshape(index, index.shape[: axis + 1], "row_indices", "one per row")
    index = graph.expand(index, sizes[: axis + 1], "row_indices_each", "repeats them")
    index = graph.reshape(index, (*sizes[: axis + 1], 1), "row_tuples", "tuples of one coordinate")
    index = graph.cast(index, np.int64, "row_int64", "the index type that GatherND takes")
    data = graph.reshape(data, facts.gather.data, "data", "its sizes")
    why = f"rows of {facts.row} elements, all with one index"
    return graph.add("GatherND", "gathered", data, index, why=why, shape=sizes, batch_dims=axis)
