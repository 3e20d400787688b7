"""ONNX's own operator, the clamp of INT64 indices carried in 32 bits."""

from __future__ import annotations

import numpy as np

from onnxgather.lowering.cpu.facts import Facts, other_policy, wide
from onnxgather.lowering.cpu.indices import limited, narrowed
from onnxgather.lowering.graph import Graph, Value
from onnxgather.lowering.indices import axis_limits, read_indices
from onnxgather.lowering.portable import add_node, natural_node

NAME = "32-bit clamp"
REASON = "ONNX's own operator, after a clamp by Clip in 32 bits instead of comparisons of INT64"
GAIN = 1.3

LONGEST = 128
"""Bytes of a row above which the copy takes much longer than the clamp of its index."""

TINY = 16384
"""Bytes of output up to which each node that is spared counts."""


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    data_type, index_type = facts.desc.input_tensor.data_type, facts.desc.indices_tensor.data_type
    if facts.known is not None:
        return "the indices are known, so that none is clamped when the model runs"
    if index_type != "INT64":
        return f"the indices are {index_type}, this form clamps INT64"
    row = facts.row * data_type.size
    if row > LONGEST and facts.elements * data_type.size > TINY:
        return f"rows have {row} bytes, beyond {LONGEST} the copy takes much longer than the clamp"
    if natural_node(facts.desc) is None:
        return "strides or a rank above 8 rule ONNX's own operator out"
    return other_policy(facts, "clamp") or wide(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    desc, node = facts.desc, natural_node(facts.desc)
    assert node is not None
    index = read_indices(graph, desc.indices_tensor, facts.gather.indices, node.indices, None)
    index = narrowed(graph, limited(graph, index, axis_limits(node), "clamp"))
    if node.onnx == "GatherND":
        index = graph.cast(index, np.int64, "indices_int64", "the index type that GatherND takes")
    gathered = add_node(graph, desc, node, data, index)
    return graph.expand(gathered, facts.sizes, "expanded", "repeats what is repeated")
