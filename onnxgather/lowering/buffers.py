"""Buffers that several gathers share: a tensor read from one, and a tensor written into one."""

from __future__ import annotations

from onnxgather.descriptors.tensors import TensorDesc
from onnxgather.lowering.graph import Graph, Value, size_of
from onnxgather.lowering.positions import scatter


def read_tensor(graph: Graph, buffer: Value, tensor: TensorDesc, first: int) -> Value:
    """The array that stands for a tensor in a buffer.

    Args:
        graph: Takes the nodes.
        buffer: The elements of the buffer, in any shape.
        tensor: The tensor.
        first: Its offset in the buffer, in elements.
    """
    shape = tensor.array_shape
    if size_of(shape) < size_of(buffer.shape):
        name = f"{buffer.name}.bound"
        buffer = graph.slice(_flat(graph, buffer), first, first + size_of(shape), name, "the part")
    return graph.reshape(buffer, shape, f"{buffer.name}.sized", "the sizes of the tensor")


def covers(tensor: TensorDesc, size_in_bytes: int) -> bool:
    """Whether the elements of a tensor are all that a buffer of that size has."""
    return size_of(tensor.sizes) * tensor.data_type.size == size_in_bytes


def write_tensor(
    graph: Graph, buffer: Value | None, tensor: TensorDesc, first: int, gathered: Value, name: str
) -> Value:
    """A buffer after a tensor in it was written; all other elements stay.

    Args:
        graph: Takes the nodes.
        buffer: The elements of the buffer before; None where a tensor with strides covers it.
        tensor: The tensor.
        first: Its offset in the buffer, in elements.
        gathered: The elements of the tensor.
        name: The name of the result.
    """
    flat = None if buffer is None else _flat(graph, buffer)
    if not tensor.is_packed:
        return scatter(graph, tensor, gathered, flat, first, name)
    assert flat is not None
    (count,), end = flat.shape, first + size_of(gathered.shape)
    spans = [span for span in ((0, first), (end, count)) if span[0] < span[1]]
    parts = [graph.slice(flat, *span, f"{name}.kept", "the elements that stay") for span in spans]
    parts.insert(int(first > 0), _flat(graph, gathered))
    why, shape = "the elements that are written, and those that stay", flat.shape
    return graph.add("Concat", name, *parts, why=why, shape=shape, axis=0)


def _flat(graph: Graph, value: Value) -> Value:
    return graph.reshape(value, (size_of(value.shape),), f"{value.name}.flat", "the buffer, 1-D")
