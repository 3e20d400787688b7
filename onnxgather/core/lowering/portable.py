"""The portable lowering: a descriptor as standard ONNX that every provider accepts.

There are two ways. *By node*, the graph has ONNX's own operator, on the shapes from
which ONNX Runtime's DirectML provider rebuilds the descriptor. *By offsets*, the graph
computes the offset of each output element in the input buffer, and gathers from the
flat buffer. This way says what the node cannot: strides of the data, and the policy
"directml".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.lowering.graph import Graph, Value, constant, size_of
from onnxgather.core.lowering.indices import (
    EXACT_FLOAT,
    LONGEST_INT32,
    axis_limits,
    clamp,
    is_negative,
    outside_mask,
    read_indices,
    sum_tuples,
    wrapped_word,
)
from onnxgather.core.lowering.offsets import by_offset
from onnxgather.core.lowering.positions import gather_into, scatter
from onnxgather.core.options import OutOfRange

INPUT = "InputTensor"
OUTPUT = "OutputTensor"


def lower_portable(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None = None,
    narrow: bool = False,
    offsets_only: bool = False,
) -> Graph:
    """Return the portable graph of a descriptor; arguments as of `lowering.lower`.

    With `narrow` it is the graph for the target webgpu. With `offsets_only` beside it,
    each gather is by offsets, and what depends on no input is a constant.
    """
    folds_all = indices is not None or offsets_only
    graph = Graph(fold_all=folds_all, narrow=narrow, for_webnn=offsets_only)
    gathered = lower_into(graph, desc, out_of_range, indices, offsets_only)
    tensor = desc.output_tensor
    if tensor.strides is not None and offsets_only:
        gathered = gather_into(graph, tensor, gathered)
    elif tensor.strides is not None:
        gathered = scatter(graph, tensor, gathered)
    graph.finish(gathered, OUTPUT)
    return graph


def lower_into(
    graph: Graph,
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None,
    offsets_only: bool = False,
) -> Value:
    """Add the portable nodes of a descriptor to a graph.

    The arguments are those of `lower_portable`.

    Returns:
        The elements of OutputTensor, of shape OutputTensor.Sizes.
    """
    tensor = desc.input_tensor
    data = graph.input(INPUT, tensor.data_type.numpy, tensor.array_shape)
    gather = gather_of(desc)
    node = None
    if out_of_range != "directml" and not offsets_only:
        node = node_of(desc, gather)
    if graph.narrow and node is not None and not _has_kernel(node, data):
        node = None
    index = _read_index(graph, desc, gather, node, out_of_range, indices)
    if node is not None:
        gathered, mask = by_node(graph, desc, gather, node, data, index, out_of_range)
    else:
        gathered, mask = by_offset(graph, desc, gather, data, index, out_of_range)
    why = "repeats what does not depend on the missing dimensions"
    gathered = graph.expand(gathered, desc.output_tensor.sizes, "expanded", why)
    if out_of_range == "zero":
        gathered = _zero_outside(graph, gather, gathered, mask)
    return gathered


def _read_index(
    graph: Graph,
    desc: Descriptor,
    gather: Geometry,
    node: Geometry | None,
    out_of_range: OutOfRange,
    indices: Array | None,
) -> Value:
    """Return the indices in the shape and the type that their arithmetic needs."""
    tensor = desc.indices_tensor
    shape = gather.indices if node is None else node.indices

    def read(dtype: Any) -> Value:
        return read_indices(graph, tensor, gather.indices, shape, indices, dtype)

    # Case 1: INT64 by DirectML's rule. WebGPU only casts INT64: to the sign, and to the
    # low word. A word of INT32 would seem to be an index that is still to be wrapped.
    is_wide = tensor.data_type == "INT64" and indices is None and not graph.for_webnn
    if graph.narrow and out_of_range == "directml" and is_wide:
        negative = is_negative(graph, read(np.float32))
        return wrapped_word(graph, read(np.int32), axis_limits(gather), negative)

    # Case 2: WebGPU has no arithmetic on the type of the indices, but on FLOAT32.
    if graph.narrow and _as_float(desc, gather, node, out_of_range):
        return read(np.float32)

    # Case 3: the indices in their own type.
    return read(None)


def node_of(desc: Descriptor, gather: Geometry) -> Geometry | None:
    """Return the gather whose ONNX node computes a descriptor, as `Geometry.node` does.

    None where the data has strides, unless they are those of packed data without
    padding.

    Args:
        desc: Any of the four gather descriptors.
        gather: Its geometry.
    """
    return gather.node() if desc.input_tensor.is_plain else None


def _has_kernel(node: Geometry, data: Value) -> bool:
    """Return whether WebGPU's provider has the node's operator for data of Gather's."""
    return node.onnx != "GatherElements" or data.dtype.kind == "f"


def _as_float(
    desc: Descriptor, gather: Geometry, node: Geometry | None, out_of_range: OutOfRange
) -> bool:
    """Return whether indices are read as FLOAT32: their type allows no arithmetic."""
    tensor = desc.indices_tensor
    dtype = tensor.data_type.numpy
    # As FLOAT32 -2^24 - 1 is -2^24, so it must be out of range as well.
    longest = EXACT_FLOAT - tensor.data_type.is_signed
    if out_of_range == "directml" or int(axis_limits(gather).max()) > longest:
        return False
    if out_of_range != "error" or node is None:
        return True
    # Under "error" the operator itself limits the indices: no arithmetic is needed if
    # it reads them as they are.
    if dtype == np.int32:
        return False
    is_unshaped = tensor.is_packed and tensor.array_shape == node.indices
    return not (dtype == np.int64 and is_unshaped)


def by_node(
    graph: Graph,
    desc: Descriptor,
    gather: Geometry,
    node: Geometry,
    data: Value,
    index: Value,
    out_of_range: OutOfRange,
) -> tuple[Value, Value | None]:
    """Add the nodes that limit the indices, and ONNX's own operator.

    Args:
        graph: Gets the nodes.
        desc: Any of the four gather descriptors.
        gather: Its geometry.
        node: The gather whose ONNX node computes it, as `node_of` gives it.
        data: The array of InputTensor.
        index: The indices, in the shape that the node takes, or 1 where they repeat.
        out_of_range: What an index out of range does.

    Returns:
        The output of the operator, and under "zero" the mask of the indices out of
        range.
    """
    sizes = axis_limits(node)
    index, mask = _limited(graph, index, sizes, out_of_range)
    index = _typed(graph, node, index, sizes, out_of_range)
    if index.shape != node.indices:
        why = "repeats the indices of stride 0"
        index = graph.expand(index, gather.indices, "indices_expanded", why)
        why = "gives the indices the leading ones of the output"
        index = graph.reshape(index, node.indices, "indices_shaped", why)
    if node.onnx == "GatherND":
        why = "the index type that GatherND takes"
        index = graph.cast(index, np.int64, "indices_int64", why)
    why = f"gives the data the shape that {node.onnx} reads the descriptor from"
    data = graph.reshape(data, node.data, "data", why)
    number: dict[str, Any] = {node.attribute: node.number}
    shape = node.output
    why = f"DML_OPERATOR_{desc.operator}"
    gathered = graph.add(
        node.onnx, "gathered", data, index, why=why, shape=shape, **number
    )
    # With these ones the node itself would have more than 8 dimensions.
    shape = desc.output_tensor.sizes
    why = "adds leading ones"
    shaped = graph.reshape(gathered, shape, "shaped", why)
    return shaped, mask


def _limited(
    graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange
) -> tuple[Value, Value | None]:
    """Return the indices limited as the policy asks, and the mask of "zero".

    The mask is true where an index is out of range.
    """
    if out_of_range == "error":
        if index.dtype == np.uint64:
            # A Cast alone would turn 2^64 - 1 into -1, the last element; n itself stays
            # an error.
            last = constant("axis_size", sizes.astype(np.uint64))
            why = "keeps indices out of range where the Cast cannot wrap them into it"
            index = graph.add("Min", "indices_limited", index, last, why=why)
        return index, None
    limited = clamp(graph, index, sizes)
    mask = None
    if out_of_range == "zero":
        mask = outside_mask(graph, index, limited, sizes)
    return limited, mask


def _typed(
    graph: Graph, node: Geometry, index: Value, sizes: Array, out_of_range: OutOfRange
) -> Value:
    """Return limited indices in a type that the node's operator accepts.

    They are INT32 where that holds each of them, else INT64. Known ones are not
    negative.
    """
    dtype = index.dtype
    accepts_int32 = node.onnx != "GatherND" or graph.narrow
    # On an axis beyond 2^31 ONNX Runtime's Gather of INT32 indices overflows and reads
    # anywhere.
    if max(node.axes) > LONGEST_INT32:
        accepts_int32 = False
    # Indices in range fit: constants, FLOAT32, and what a clamp made of UINT32.
    fits_int32 = index.constant is not None or dtype == np.int32 or dtype == np.float32
    if dtype == np.uint32 and out_of_range != "error":
        fits_int32 = True
    if accepts_int32 and fits_int32:
        why = f"an index type that {node.onnx} takes"
        index = graph.cast(index, np.int32, "indices_int32", why)
    else:
        why = f"the index type that {node.onnx} takes"
        index = graph.cast(index, np.int64, "indices_int64", why)
    if index.constant is None:
        return index
    wide = index.constant.astype(np.int64)
    positive = np.where(wide < 0, wide + sizes, wide)
    return constant("indices", positive.astype(index.dtype))


def _zero_outside(
    graph: Graph, gather: Geometry, gathered: Value, mask: Value | None
) -> Value:
    """Return `gathered` with 0 where the mask is true.

    It is a second gather, from `gathered` and a zero. Where would not do: ONNX
    Runtime's CPU kernel turns -0.0 into 0.0 and quiets the NaNs of FLOAT16 (measured on
    1.24.4 and 1.31.1). Only operators that move elements keep every bit.
    """
    assert mask is not None
    mask = _any_of_tuple(graph, gather, mask)
    if mask.constant is not None and not mask.constant.any():
        return gathered
    split = len(gathered.shape) - gather.after
    outer = gathered.shape[:split]
    inner = gathered.shape[split:]
    per_index = gather.per_index
    if size_of(mask.shape) < size_of(per_index):
        per_index = mask.shape  # indices of stride 0 are there once
    leading = (1,) * (split - len(per_index))
    why = "one dimension per output dimension"
    mask = graph.reshape(mask, leading + per_index, "mask", why)

    rows = size_of(outer)
    why = "the elements that one index tuple leads to, row by row"
    table = graph.reshape(gathered, (rows, *inner), "rows", why)
    zeros = ("zero_row", "a row of zeros")
    table = graph.with_zeros(table, 0, zeros, ("rows_and_zero", "adds it"))
    own = graph.arange(rows, 1, graph.integer, "own_row")
    why = "each row's own number"
    own = graph.reshape(own, outer, "own_rows", why)
    last = constant("row_of_zeros", np.array(rows, graph.integer))
    why = "the row of zeros where the index is out of range"
    chosen = graph.add("Where", "chosen_rows", mask, last, own, why=why)
    shape = gathered.shape
    why = 'out_of_range="zero"'
    return graph.add("Gather", "zeroed", table, chosen, why=why, shape=shape, axis=0)


def _any_of_tuple(graph: Graph, gather: Geometry, mask: Value) -> Value:
    """Return a mask per index tuple: true where any coordinate is out of range."""
    if not gather.has_tuples or mask.shape[-1] == 1:
        return sum_tuples(graph, gather, mask)
    integer = graph.integer
    why = "a type that ReduceSum takes"
    count = graph.cast(mask, integer, f"is_outside_{integer.__name__}", why)
    count = sum_tuples(graph, gather, count)
    zero = constant("zero", np.array(0, integer))
    why = "any coordinate out of range"
    return graph.add("Less", "is_tuple_outside", zero, count, why=why)
