"""The offsets of the elements of a tensor with strides, as a sum of small constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import elements
from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.lowering.graph import Graph, Shape, Value, constant, size_of


def span_offsets(graph: Graph, span: Span, rank: int, dtype: np.dtype[Any]) -> Value:
    """Return the offsets of a span, of a shape with `rank` dimensions, 1 outside it."""
    value = graph.arange(size_of(span.sizes), span.strides[0], dtype, "count")
    behind = rank - span.first - len(span.sizes)
    shape = (1,) * span.first + span.sizes + (1,) * behind
    why = "along the dimensions that it counts"
    return graph.reshape(value, shape, "positions", why)


def positions(graph: Graph, sizes: Shape, strides: Shape, name: str) -> Value:
    """Return INT64 offsets of elements, of shape `sizes`, but 1 where a stride is 0."""
    dimensions: list[Span] = []
    for number, size in enumerate(sizes):
        dimensions.append(Span(number, (size,), (strides[number],)))
    rank = len(sizes)
    int64 = np.dtype(np.int64)
    spans = merge_packed(dimensions)
    if not spans:  # nothing moves: a single element, or strides of 0
        return constant(name, np.zeros((1,) * rank, int64))
    offset = span_offsets(graph, spans[0], rank, int64)
    why = "adds the offsets of the dimensions"
    for span in spans[1:]:
        step = span_offsets(graph, span, rank, int64)
        offset = graph.add("Add", name, offset, step, why=why)
    return offset


def scatter(
    graph: Graph,
    tensor: TensorDesc,
    gathered: Value,
    buffer: Value | None = None,
    first: int = 0,
    name: str = "scattered",
) -> Value:
    """Return a 1-D buffer after a tensor in it was written.

    Args:
        graph: Gets the nodes.
        tensor: OutputTensor, with strides.
        gathered: Its elements.
        buffer: The buffer before; None for zeros, as many as the tensor's buffer has.
        first: The offset of the tensor in the buffer, in elements.
        name: The name of the result.
    """
    assert tensor.strides is not None
    count = size_of(tensor.sizes)
    offset = positions(graph, tensor.sizes, tensor.strides, "output_positions")
    why = "one offset per element"
    offset = graph.reshape(offset, (count,), "output_offsets", why)
    if first:
        # The tensor is not the first in a buffer that several tensors share.
        start = constant("first_offset", np.array(first, np.int64))
        why = "where the tensor begins"
        offset = graph.add("Add", "output_offsets", offset, start, why=why)
    if buffer is None:
        zero = constant("zero", np.zeros(1, gathered.dtype))
        shape = (tensor.element_count,)
        why = "the output's buffer"
        buffer = graph.expand(zero, shape, "empty", why)
    why = "row-major, one element per offset"
    updates = graph.reshape(gathered, (count,), "updates", why)
    why = "puts the elements at OutputTensor.Strides"
    shape = buffer.shape
    return graph.add(
        "ScatterElements", name, buffer, offset, updates, why=why, shape=shape, axis=0
    )


def gather_into(graph: Graph, tensor: TensorDesc, gathered: Value) -> Value:
    """Return a 1-D buffer of a tensor's elements, zeros between them, by one Gather.

    It has a constant index for each element of the buffer, where `scatter` has one for
    each element of the tensor.

    Args:
        graph: Gets the nodes.
        tensor: OutputTensor, with strides.
        gathered: Its elements.
    """
    count = size_of(tensor.sizes)
    own_numbers = np.arange(count, dtype=np.int32).reshape(tensor.sizes)
    sources = np.full(tensor.element_count, count, np.int32)
    elements(tensor, sources)[...] = own_numbers
    why = "row-major"
    table = graph.reshape(gathered, (count,), "elements", why)
    zeros = ("zero", "what is between the elements of the output's buffer")
    table = graph.with_zeros(table, 0, zeros, ("elements_and_zero", "adds it"))
    index = constant("output_elements", sources)
    why = "puts the elements at OutputTensor.Strides"
    shape = sources.shape
    return graph.add("Gather", "placed", table, index, why=why, shape=shape, axis=0)
