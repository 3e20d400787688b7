"""Data with strides, and DirectML's own rule: single elements by their offsets in the buffer."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu.facts import Facts, many_threads, other_policy, small, wide
from onnxgather.lowering.cpu.layout import gather_in_one_row, not_laid_out
from onnxgather.lowering.graph import Graph, Value
from onnxgather.lowering.indices import read_indices
from onnxgather.lowering.offsets import find_offsets

NAME = "offsets"
REASON = "GatherElements takes 1 to 2 ns for an element at an INT32 offset, Gather 10 to 14"
GAIN = 9.8


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    if facts.desc.input_tensor.is_plain and facts.out_of_range != "directml":
        return f'the data is packed and the policy "{facts.out_of_range}" needs no offsets'
    return (
        other_policy(facts, "clamp", "error", "directml")
        or many_threads(facts)
        or not_laid_out(facts)
        or wide(facts)
        or small(facts)
    )


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    desc, sizes = facts.desc, facts.gather.indices
    index = read_indices(graph, desc.indices_tensor, sizes, sizes, facts.known)
    found = find_offsets(graph, desc, data, index, facts.out_of_range, np.int32)
    offset = graph.cast(found.offset, np.int32, "offsets_int32", "half the bytes of INT64")
    offset = graph.expand(offset, facts.sizes, "offsets_each", "one offset per element")
    return gather_in_one_row(graph, found.buffer, offset, facts.sizes)
