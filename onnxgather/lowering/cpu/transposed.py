"""Data whose strides are a permutation: gathered as it lies, and the result transposed."""

from __future__ import annotations

from dataclasses import replace

from onnxgather.descriptors import Descriptor
from onnxgather.gather import Gather
from onnxgather.lowering.cpu import columns
from onnxgather.lowering.cpu.facts import Facts, other_policy, small, wide
from onnxgather.lowering.graph import Graph, Value, size_of
from onnxgather.lowering.portable import lower_into
from onnxgather.strides import in_order
from onnxgather.tensors import TensorDesc

NAME = "transposed data"
REASON = "data that lies transposed is gathered as it lies, and only the result is turned"
GAIN = 1.6


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    gather, tensor = facts.gather, facts.desc.input_tensor
    if gather.onnx != "Gather":
        return f"{facts.desc.operator} passes dimensions of the indices on, this form takes GATHER"
    if tensor.is_packed:
        return "the data is packed, this form takes transposed data"
    order = _order(facts)
    lying = [gather.data[k] for k in order]
    strides = tensor.element_strides[-len(order) :]
    full = tensor.element_count == size_of(gather.data)
    if not full or not in_order(lying, [strides[k] for k in order]):
        return "the data has gaps or repeats elements, this form takes transposed data"
    return other_policy(facts, "clamp", "error", "zero") or wide(facts) or small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    gather, order = facts.gather, _order(facts)
    number = order.index(gather.number)
    lying = replace(gather, data=tuple(gather.data[k] for k in order), number=number)
    inner = replace(facts, desc=_packed(facts, lying))
    if columns.passed_over(inner) is None:
        gathered = columns.build(graph, inner, data)
    else:
        gathered = lower_into(graph, inner.desc, inner.out_of_range, inner.known)
    # The output's dimensions by the data's, and below 0 by the indices'.
    indices = range(-len(gather.indices), 0)
    made = [*order[:number], *indices, *order[number + 1 :]]
    wanted = [k for k in range(len(order)) if k != gather.number]
    wanted[gather.number : gather.number] = indices
    lead = len(facts.sizes) - len(made)
    perm = (*range(lead), *(lead + made.index(k) for k in wanted))
    why = "puts the dimensions into the output's order"
    return graph.transpose(gathered, perm, "turned", why)


def _order(facts: Facts) -> list[int]:
    """Return the data's dimensions as they lie, first those of size 1."""
    sizes = facts.gather.data
    strides = facts.desc.input_tensor.element_strides[-len(sizes) :]
    return sorted(range(len(sizes)), key=lambda k: (sizes[k] > 1, -strides[k], k))


def _packed(facts: Facts, lying: Gather) -> Descriptor:
    """Return the descriptor on packed data."""
    data, _, output = lying.tensor_sizes()
    data_type = facts.desc.input_tensor.data_type
    tensors = TensorDesc(data_type, data), facts.desc.indices_tensor, TensorDesc(data_type, output)
    return lying.descriptor(tensors)
