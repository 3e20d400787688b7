"""By offsets: where output elements lie in the input buffer, and their gather."""

from __future__ import annotations

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor, GatherElementsDesc
from onnxgather.core.descriptors.strides import Span, merge_packed
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.gather import Geometry
from onnxgather.core.lowering.graph import Graph, Value, constant, size_of
from onnxgather.core.lowering.indices import (
    axis_limits,
    bounded,
    clamp,
    is_negative,
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
        The output, of a shape that broadcasts to OutputTensor.Sizes, and the mask of
        the indices out of range, None where the policy needs none.
    """
    integer = graph.integer
    # The offsets are in the type of counts, or in words under "directml".
    buffer, offset, outside = find_offsets(
        graph, desc, gather, data, index, out_of_range, integer
    )
    why = "the index type that Gather takes"
    offset = graph.cast(offset, integer, f"offsets_{integer.__name__}", why)
    why = "element by element, at the offsets"
    gathered = graph.add(
        "Gather", "gathered", buffer, offset, why=why, shape=offset.shape, axis=0
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
        graph: Gets the nodes.
        desc: Any of the four gather descriptors.
        gather: Its geometry.
        data: The array of InputTensor.
        index: The indices, in the sizes that count, or 1 where they repeat.
        out_of_range: What an index out of range does.
        offset_type: The data type of the offsets; under "directml" they have that of
            `Graph.word` all the same.

    Returns:
        The input buffer, 1-D; the offsets in elements, of a shape that broadcasts to
        OutputTensor.Sizes; and the mask of the indices out of range, None where the
        policy needs none.
    """
    tensor = desc.input_tensor
    directml = out_of_range == "directml"
    sizes = axis_limits(gather)
    mask = None
    if directml:
        # Every index leads somewhere, so that none is out of range.
        offset = wrapped_word(graph, index, sizes)
    else:
        clamped = clamp(graph, index, sizes)
        if out_of_range != "clamp":
            mask = outside_mask(graph, index, clamped, sizes)
        why = "the type of the offsets"
        offset = graph.cast(clamped, offset_type, "indices_word", why)
        if index.dtype.kind != "u":
            offset = non_negative(graph, offset, sizes)

    strides = index_strides(desc, gather, out_of_range)
    factor = constant("strides", strides.astype(offset.dtype))
    why = "coordinate x stride"
    offset = graph.add("Mul", "index_offsets", offset, factor, why=why)
    if out_of_range == "error" and mask is not None:
        # The clamp hid what Gather has to refuse.
        offset = _beyond(graph, offset, mask, tensor.element_count)
    offset = sum_tuples(graph, gather, offset)
    if directml:
        why = "DirectML adds modulo 2^32"
        offset = graph.cast(offset, graph.word, "offsets_uint32", why)
    offset = _add_passed(graph, tensor, gather, offset)

    shape = (size_of(data.shape),)
    why = "the buffer behind the tensor"
    buffer = graph.reshape(data, shape, "buffer", why)
    if directml:
        buffer, offset = _directml_limit(graph, tensor, buffer, offset)
    return buffer, offset, mask


def index_strides(
    desc: Descriptor, gather: Geometry, out_of_range: OutOfRange
) -> Array:
    """Return the strides of the indexed dimensions, a scalar of a single dimension."""
    tensor = desc.input_tensor
    if out_of_range == "directml" and isinstance(desc, GatherElementsDesc):
        axis_size = tensor.sizes[desc.axis]
        if axis_size == 1:  # DirectML gives these dimensions the stride 0 (measured)
            return np.array(0, np.int64)
    strides = [tensor.element_strides[dimension] for dimension in gather.indexed]
    if len(strides) == 1:
        return np.array(strides[0], np.int64)
    return np.array(strides, np.int64)


def _add_passed(
    graph: Graph, tensor: TensorDesc, gather: Geometry, offset: Value
) -> Value:
    """Return the offsets with those of the dimensions that no index chooses from."""
    rank = tensor.dimension_count
    shape = gather.spread(offset.shape, rank)
    why = "one dimension per output dimension"
    offset = graph.reshape(offset, shape, "offsets_spread", why)
    passed: list[Span] = []
    for output, dimension in gather.passed:
        size = tensor.sizes[dimension]
        stride = tensor.element_strides[dimension]
        passed.append(Span(rank + output, (size,), (stride,)))
    why = "adds the offsets of the dimensions that are passed on"
    for span in merge_packed(passed):
        position = span_offsets(graph, span, rank, offset.dtype)
        offset = graph.add("Add", "offsets", offset, position, why=why)
    return offset


def _directml_limit(
    graph: Graph, tensor: TensorDesc, buffer: Value, offset: Value
) -> tuple[Value, Value]:
    """Return the buffer, and the offsets limited to the last element that it has."""
    count = size_of(buffer.shape)
    last = min(tensor.reachable_count - 1, count)
    if last == count:
        # The last element is padding, which reads as zero; one zero stands for it.
        zero = constant("padding", np.zeros(1, buffer.dtype))
        shape = (count + 1,)
        why = "the padding behind the elements"
        buffer = graph.add(
            "Concat", "padded", buffer, zero, why=why, shape=shape, axis=0
        )
    limit = constant("last_offset", np.array(last, graph.word))
    why = "DirectML reads the buffer's last element past its end"
    limited = bounded(graph, "Min", "offsets_limited", offset, limit, why)
    if graph.for_webnn:
        negative = is_negative(graph, offset)
        why = "in INT32 an offset of 2^31 or more is negative"
        limited = graph.add(
            "Where", "offsets_limited", negative, limit, limited, why=why
        )
    return buffer, limited


def _beyond(graph: Graph, offset: Value, mask: Value, count: int) -> Value:
    """Return the offsets, those of indices out of range moved past the buffer's end."""
    why = "to count with"
    moved = graph.cast(mask, offset.dtype, "is_outside_number", why)
    beyond = constant("past_the_end", np.array(count, offset.dtype))
    why = "the way past the buffer's end"
    moved = graph.add("Mul", "moved", moved, beyond, why=why)
    why = "makes Gather refuse the index"
    return graph.add("Add", "index_offsets", offset, moved, why=why)
