"""The offsets of the elements of a tensor with strides, as a sum of small constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.lowering.graph import Graph, Shape, Value, constant, size_of


def span_offsets(graph: Graph, span: Span, rank: int, dtype: np.dtype[Any]) -> Value:
    """The offsets of a span, of a shape with `rank` dimensions, 1 outside the span."""
    value = graph.arange(size_of(span.sizes), span.strides[0], dtype, "count")
    shape = (
        (1,) * span.first + span.sizes + (1,) * (rank - span.first - len(span.sizes))
    )
    return graph.reshape(
        value, shape, "positions", "along the dimensions that it counts"
    )


def positions(graph: Graph, sizes: Shape, strides: Shape, name: str) -> Value:
    """The INT64 offsets of the elements, of shape `sizes`, but 1 where the stride is 0."""
    dims = [
        Span(k, (n,), (s,)) for k, (n, s) in enumerate(zip(sizes, strides, strict=True))
    ]
    int64 = np.dtype(np.int64)
    offset = constant(name, np.zeros((1,) * len(sizes), int64))
    for k, span in enumerate(merge_packed(dims)):
        step = span_offsets(graph, span, len(sizes), int64)
        why = "adds the offsets of the dimensions"
        offset = graph.add("Add", name, offset, step, why=why) if k else step
    return offset


def scatter(
    graph: Graph,
    tensor: TensorDesc,
    gathered: Value,
    buffer: Value | None = None,
    first: int = 0,
    name: str = "scattered",
) -> Value:
    """A 1-D buffer after a tensor in it was written.

    Args:
        graph: Takes the nodes.
        tensor: OutputTensor, with strides.
        gathered: Its elements.
        buffer: The buffer before; None for zeros, as many as the tensor's buffer has.
        first: The offset of the tensor in the buffer, in elements.
        name: The name of the result.
    """
    count = size_of(tensor.sizes)
    assert tensor.strides is not None
    offset = positions(graph, tensor.sizes, tensor.strides, "output_positions")
    offset = graph.reshape(offset, (count,), "output_offsets", "one offset per element")
    if first:
        start = constant("first_offset", np.array(first, np.int64))
        offset = graph.add(
            "Add", "output_offsets", offset, start, why="where the tensor begins"
        )
    if buffer is None:
        zero = constant("zero", np.zeros(1, gathered.dtype))
        buffer = graph.expand(
            zero, (tensor.element_count,), "empty", "the output's buffer"
        )
    updates = graph.reshape(
        gathered, (count,), "updates", "row-major, one element per offset"
    )
    why, shape = "puts the elements at OutputTensor.Strides", buffer.shape
    return graph.add(
        "ScatterElements", name, buffer, offset, updates, why=why, shape=shape, axis=0
    )
