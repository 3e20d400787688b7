"""The offset form: where each element lies in the input buffer, and a gather from there."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, OutOfRange
from onnxgather.descriptors import Descriptor, GatherElementsDesc
from onnxgather.lowering.graph import Graph, Value, constant, size_of
from onnxgather.lowering.indices import clamp, outside, sizes_of_axes, sum_tuples, wrap
from onnxgather.lowering.placement import Placement
from onnxgather.lowering.positions import Run, counted, merged
from onnxgather.tensors import TensorDesc


def by_offset(
    graph: Graph,
    desc: Descriptor,
    place: Placement,
    data: Value,
    index: Value,
    out_of_range: OutOfRange,
) -> tuple[Value, Value | None]:
    """Gather from the flat buffer by element offsets; return that and the mask."""
    tensor = desc.input_tensor
    strides = np.array([tensor.element_strides[k] for k in place.indexed], np.int64)
    stride = strides if len(strides) > 1 else strides[0]
    sizes = sizes_of_axes(desc)
    directml = out_of_range == "directml"
    mask = None
    if directml:
        if isinstance(desc, GatherElementsDesc) and tensor.sizes[desc.axis] == 1:
            stride = np.int64(0)
        offset = _directml_index(graph, index, sizes)
    else:
        clamped = clamp(graph, index, sizes)
        if out_of_range != "clamp":
            mask = outside(graph, index, sizes)
        offset = graph.cast(clamped, np.int64, "indices_int64", "offsets need 64 bits")
        if index.dtype.kind == "i":
            offset = wrap(graph, offset, sizes)
    kind = offset.dtype
    factor = constant("strides", np.asarray(stride).astype(kind))
    offset = graph.add("Mul", "index_offsets", offset, factor, why="coordinate x stride")
    if out_of_range == "error" and mask is not None:
        offset = _beyond(graph, offset, mask, tensor.element_count)
    offset = sum_tuples(graph, place, offset)
    if directml:
        offset = graph.cast(offset, np.uint32, "offsets_uint32", "DirectML adds modulo 2^32")
    shape = place.spread(offset.shape)
    offset = graph.reshape(offset, shape, "offsets_spread", "one dimension per output dimension")
    passed = [Run(o, (tensor.sizes[i],), tensor.element_strides[i]) for o, i in place.passed]
    why = "adds the offsets of the dimensions that are passed on"
    for run in merged(passed):
        position = counted(graph, run, len(shape), offset.dtype)
        offset = graph.add("Add", "offsets", offset, position, why=why)
    buffer = graph.reshape(data, (size_of(data.shape),), "buffer", "the buffer behind the tensor")
    if directml:
        buffer, offset = _directml_limit(graph, tensor, buffer, offset)
    gathered = graph.add(
        "Gather",
        "gathered",
        buffer,
        offset,
        why=f"DML_OPERATOR_{desc.operator}, element by element",
        shape=offset.shape,
        axis=0,
    )
    return gathered, mask


def _directml_index(graph: Graph, index: Value, sizes: Array) -> Value:
    """Return the low 32 bits of each index, the axis size added where the index is negative."""
    if index.dtype == np.uint32:
        return index
    wide = graph.cast(index, np.int64, "indices_int64", "DirectML reads UINT64 as INT64")
    wrapped = wrap(graph, wide, sizes)
    return graph.cast(wrapped, np.uint32, "indices_uint32", "DirectML keeps the low 32 bits")


def _directml_limit(
    graph: Graph, tensor: TensorDesc, buffer: Value, offset: Value
) -> tuple[Value, Value]:
    """Return buffer and offsets where offsets past the end read the buffer's last element."""
    last = tensor.element_count - 1
    if last >= size_of(buffer.shape):  # padding, which reads as zero: one zero stands for all
        last = size_of(buffer.shape)
        zero = constant("padding", np.zeros(1, buffer.dtype))
        why = "the padding behind the elements"
        buffer = graph.add("Concat", "padded", buffer, zero, why=why, shape=(last + 1,), axis=0)
    limit = constant("last_offset", np.array(last, np.uint32))
    why = "DirectML reads the buffer's last element past its end"
    offset = graph.add("Min", "offsets_limited", offset, limit, why=why)
    return buffer, graph.cast(offset, np.int64, "offsets", "the index type that Gather takes")


def _beyond(graph: Graph, offset: Value, mask: Value, count: int) -> Value:
    """Return the offsets with those of indices out of range moved past the buffer's end."""
    moved = graph.cast(mask, np.int64, "is_outside_int64", "to count with")
    beyond = constant("past_the_end", np.array(count, np.int64))
    moved = graph.add("Mul", "moved", moved, beyond, why="the way past the buffer's end")
    return graph.add("Add", "index_offsets", offset, moved, why="makes Gather refuse the index")
