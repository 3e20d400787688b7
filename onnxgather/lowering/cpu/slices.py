"""GATHER_ELEMENTS along the last dimension, from slices that fit the cache one by one."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu.facts import Facts, other_policy, small, wide
from onnxgather.lowering.cpu.indices import axis_indices, narrowed
from onnxgather.lowering.cpu.layout import gather_elements
from onnxgather.lowering.graph import Graph, Value, constant, size_of

NAME = "slices"
REASON = "scattered reads are faster from a slice that is copied into the cache first"
GAIN = 2.2

SMALLEST_SLICE, LARGEST_SLICE = 2**19, 2**22
"""Bytes of a slice that is copied into the cache before its elements are gathered."""

DENSE = 8
"""A row of the data must not have more than so many times the elements that are read of it."""


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    gather, tensor = facts.gather, facts.desc.input_tensor
    if gather.onnx != "GatherElements":
        return f"{facts.desc.operator} shares its indices, this form has one for each element"
    if not 0 < gather.number == len(gather.data) - 1:
        return f"Axis {gather.number} is not the last of several dimensions"
    if not tensor.is_plain:
        return "InputTensor has strides or padding, this form takes packed data"
    if facts.known is not None or facts.signed:
        return "the indices are known or signed, this form takes unsigned ones"
    if gather.data[-1] > DENSE * facts.sizes[-1]:
        return f"{facts.sizes[-1]} of {gather.data[-1]} elements are read, too few for a copy"
    size = size_of(gather.data[1:]) * tensor.data_type.size
    if gather.data[0] == 1 or not SMALLEST_SLICE <= size <= LARGEST_SLICE:
        range_ = f"{SMALLEST_SLICE} to {LARGEST_SLICE}"
        return f"{gather.data[0]} slices have {size} bytes, this form takes several of {range_}"
    return other_policy(facts, "clamp") or wide(facts) or small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements.

    The copy of a slice is a Concat with a column that is never read.
    """
    gather = facts.gather
    index = narrowed(graph, axis_indices(graph, facts, gather.indices))
    data = graph.reshape(data, gather.data, "data", "its sizes")
    why = "repeats the indices of stride 0"
    index = graph.expand(index, (gather.data[0], *index.shape[1:]), "indices_of_slices", why)

    def one_slice(body: Graph, parts: list[Value]) -> Value:
        one, own = parts
        zero = constant("zero", np.zeros((1,) * len(one.shape), one.dtype))
        column = body.expand(zero, (*one.shape[:-1], 1), "column", "what is never read")
        shape = (*one.shape[:-1], one.shape[-1] + 1)
        why_, axis = "copies the slice into the cache", len(shape) - 1
        copy = body.add("Concat", "copied", one, column, why=why_, shape=shape, axis=axis)
        own = body.expand(own, facts.sizes[1:], "slice_indices_each", why)
        return gather_elements(body, copy, own)

    return graph.scan((data, index), one_slice, "gathered")
