"""By offsets: the offset of each output element in the input buffer, and a gather from there."""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.operators import Descriptor, GatherElementsDesc
from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.gather import Geometry
from onnxgather.core.lowering.graph import Graph, Value, constant, size_of
from onnxgather.core.lowering.indices import (
    axis_limits,
    bounded,
    clamp,
    non_negative,
    outside_mask,
    sum_tuples,
    wrapped_word,
)
from onnxgather.core.lowering.positions import span_offsets
from onnxgather.core.options import OutOfRange


def by_offset(
    graph: Graph,
    desc: Descriptor,
    gather: Geometry,
    data: Value,
    index: Value,
    out_of_range: OutOfRange,
) -> tuple[Value, Value | None]:
    """Gather from the flat buffer by offsets; arguments as of `find_offsets`.

    Returns:
        The output, of a shape that broadcasts to OutputTensor.Sizes, and the mask of the indices
        out of range, None where the policy needs none.
    """
    found = find_offsets(graph, desc, gather, data, index, out_of_range, graph.integer)
    buffer, offset, outside = found
    name, why = f"offsets_{graph.integer.__name__}", "the index type that Gather takes"
    offset = graph.cast(offset, graph.integer, name, why)
    why, shape = "element by element, at the offsets", offset.shape
    gathered = graph.add(
        "Gather", "gathered", buffer, offset, why=why, shape=shape, axis=0
    )
    return gathered, outside


def find_offsets(
    graph: Graph,
    desc: Descriptor,
    gather: Geometry,
    data: Value,
    index: Value,
    out_of_range: OutOfRange,
    offset_type: type[np.int32 | np.int64],
) -> tuple[Value, Value, Value | None]:
    """Add the nodes that compute where each element of the output lies.

    Args:
        graph: Takes the nodes.
        desc: Any of the four gather descriptors.
        gather: Its geometry.
        data: The array of InputTensor.
        index: The indices, in the sizes that count, or 1 where they repeat.
        out_of_range: What an index out of range does.
        offset_type: The data type of the offsets; under "directml" they are UINT32 all the same.

    Returns:
        The input buffer, 1-D; the offsets in elements, of a shape that broadcasts to
        OutputTensor.Sizes; and the mask of the indices out of range, None where the policy needs
        none.
    """
    tensor = desc.input_tensor
    strides = np.array([tensor.element_strides[k] for k in gather.indexed], np.int64)
    stride = strides if len(strides) > 1 else strides[0]
    sizes = axis_limits(gather)
    directml = out_of_range == "directml"
    mask = None
    if directml:
        if isinstance(desc, GatherElementsDesc) and tensor.sizes[desc.axis] == 1:
            stride = np.int64(0)
        offset = wrapped_word(graph, index, sizes)
    else:
        clamped = clamp(graph, index, sizes)
        if out_of_range != "clamp":
            mask = outside_mask(graph, index, clamped, sizes)
        offset = graph.cast(
            clamped, offset_type, "indices_word", "the type of the offsets"
        )
        if index.dtype.kind != "u":
            offset = non_negative(graph, offset, sizes)
    dtype = offset.dtype
    factor = constant("strides", np.asarray(stride).astype(dtype))
    offset = graph.add(
        "Mul", "index_offsets", offset, factor, why="coordinate x stride"
    )
    if out_of_range == "error" and mask is not None:
        offset = _beyond(graph, offset, mask, tensor.element_count)
    offset = sum_tuples(graph, gather, offset)
    if directml:
        offset = graph.cast(
            offset, np.uint32, "offsets_uint32", "DirectML adds modulo 2^32"
        )
    rank = tensor.dimension_count
    shape = gather.spread(offset.shape, rank)
    offset = graph.reshape(
        offset, shape, "offsets_spread", "one dimension per output dimension"
    )
    passed = [
        Span(rank + output, (tensor.sizes[data],), (tensor.element_strides[data],))
        for output, data in gather.passed
    ]
    why = "adds the offsets of the dimensions that are passed on"
    for span in merge_packed(passed):
        position = span_offsets(graph, span, rank, offset.dtype)
        offset = graph.add("Add", "offsets", offset, position, why=why)
    buffer = graph.reshape(
        data, (size_of(data.shape),), "buffer", "the buffer behind the tensor"
    )
    if directml:
        buffer, offset = _directml_limit(graph, tensor, buffer, offset)
    return buffer, offset, mask


def _directml_limit(
    graph: Graph, tensor: TensorDesc, buffer: Value, offset: Value
) -> tuple[Value, Value]:
    """The buffer and the offsets, limited so that one past the end reads the last element."""
    count = size_of(buffer.shape)
    last = min(tensor.reachable_count - 1, count)
    if (
        last == count
    ):  # the last element is padding, which reads as zero; one zero stands for it
        zero = constant("padding", np.zeros(1, buffer.dtype))
        why, shape = "the padding behind the elements", (count + 1,)
        buffer = graph.add(
            "Concat", "padded", buffer, zero, why=why, shape=shape, axis=0
        )
    limit = constant("last_offset", np.array(last, np.uint32))
    why = "DirectML reads the buffer's last element past its end"
    return buffer, bounded(graph, "Min", "offsets_limited", offset, limit, why)


def _beyond(graph: Graph, offset: Value, mask: Value, count: int) -> Value:
    """The offsets, those of indices out of range moved past the buffer's end."""
    moved = graph.cast(mask, offset.dtype, "is_outside_number", "to count with")
    beyond = constant("past_the_end", np.array(count, offset.dtype))
    moved = graph.add(
        "Mul", "moved", moved, beyond, why="the way past the buffer's end"
    )
    return graph.add(
        "Add", "index_offsets", offset, moved, why="makes Gather refuse the index"
    )
