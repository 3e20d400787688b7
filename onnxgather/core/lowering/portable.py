"""The portable lowering: a gather descriptor as standard ONNX that every provider takes.

There are two ways. *By node*, the graph has ONNX's own operator, on the shapes from
which ONNX Runtime's DirectML provider rebuilds the descriptor. *By offsets*, the graph
computes the offset of each output element in the input buffer, and gathers from the
flat buffer. This way says what the node cannot: strides of the data, and the policy
"directml".
"""

from __future__ import annotations

from functools import partial
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
from onnxgather.core.lowering.positions import scatter
from onnxgather.core.options import OutOfRange

INPUT, OUTPUT = "InputTensor", "OutputTensor"


def lower_portable(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None = None,
    narrow: bool = False,
) -> Graph:
    """The portable graph of a descriptor; arguments as of `onnxgather.core.lowering.lower`.

    With `narrow` it is the graph for the target webgpu.
    """
    graph = Graph(fold_all=indices is not None, narrow=narrow)
    gathered = lower_into(graph, desc, out_of_range, indices)
    if desc.output_tensor.strides is not None:
        gathered = scatter(graph, desc.output_tensor, gathered)
    graph.finish(gathered, OUTPUT)
    return graph


def lower_into(
    graph: Graph,
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None,
) -> Value:
    """Add the portable nodes of a descriptor to a graph; arguments as of `lower_portable`.

    Returns:
        The elements of OutputTensor, of shape OutputTensor.Sizes.
    """
    data = graph.input(
        INPUT, desc.input_tensor.data_type.numpy, desc.input_tensor.array_shape
    )
    gather = gather_of(desc)
    node = None if out_of_range == "directml" else node_of(desc, gather)
    if graph.narrow and node is not None and not _has_kernel(node, data):
        node = None
    shape = gather.indices if node is None else node.indices
    read = partial(
        read_indices, graph, desc.indices_tensor, gather.indices, shape, indices
    )
    wide = desc.indices_tensor.data_type == "INT64" and indices is None
    if graph.narrow and out_of_range == "directml" and wide:
        negative = is_negative(graph, read(np.float32))
        index = wrapped_word(graph, read(np.int32), axis_limits(gather), negative)
    else:
        as_float = graph.narrow and _as_float(desc, gather, node, out_of_range)
        index = read(np.float32 if as_float else None)
    if node is not None:
        gathered, mask = by_node(graph, desc, gather, node, data, index, out_of_range)
    else:
        gathered, mask = by_offset(graph, desc, gather, data, index, out_of_range)
    why = "repeats what does not depend on the missing dimensions"
    gathered = graph.expand(gathered, desc.output_tensor.sizes, "expanded", why)
    if out_of_range == "zero":
        gathered = _zero_outside(graph, gather, gathered, mask)
    return gathered


def node_of(desc: Descriptor, gather: Geometry) -> Geometry | None:
    """The gather whose ONNX node computes a descriptor, as `Geometry.node` gives it.

    None where the data has strides, unless they are those of packed data without
    padding.

    Args:
        desc: Any of the four gather descriptors.
        gather: Its geometry.
    """
    return gather.node() if desc.input_tensor.is_plain else None


def _has_kernel(node: Geometry, data: Value) -> bool:
    """Whether the WebGPU provider has the node's operator for data that Gather takes."""
    return node.onnx != "GatherElements" or data.dtype.kind == "f"


def _as_float(
    desc: Descriptor, gather: Geometry, node: Geometry | None, out_of_range: OutOfRange
) -> bool:
    """Whether the indices are read as FLOAT32: their type allows no arithmetic on them."""
    dtype, tensor = desc.indices_tensor.data_type.numpy, desc.indices_tensor
    # As FLOAT32 -2^24 - 1 is -2^24, so it must be out of range as well.
    longest = EXACT_FLOAT - tensor.data_type.is_signed
    if out_of_range == "directml" or int(axis_limits(gather).max()) > longest:
        return False
    bare = out_of_range == "error" and node is not None
    as_they_are = (
        node is not None and tensor.is_packed and tensor.array_shape == node.indices
    )
    return not (bare and (dtype == np.int32 or (dtype == np.int64 and as_they_are)))


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
        graph: Takes the nodes.
        desc: Any of the four gather descriptors.
        gather: Its geometry.
        node: The gather whose ONNX node computes it, as `node_of` gives it.
        data: The array of InputTensor.
        index: The indices, in the shape that the node takes, or 1 where they repeat.
        out_of_range: What an index out of range does.

    Returns:
        The output of the operator, and under "zero" the mask of the indices out of range.
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
        index = graph.cast(
            index, np.int64, "indices_int64", "the index type that GatherND takes"
        )
    why = f"gives the data the shape that {node.onnx} reads the descriptor from"
    data = graph.reshape(data, node.data, "data", why)
    number: dict[str, Any] = {node.attribute: node.number}
    why, shape = f"DML_OPERATOR_{desc.operator}", node.output
    gathered = graph.add(
        node.onnx, "gathered", data, index, why=why, shape=shape, **number
    )
    # With these ones the node itself would have more than 8 dimensions.
    return (
        graph.reshape(
            gathered, desc.output_tensor.sizes, "shaped", "adds leading ones"
        ),
        mask,
    )


def _limited(
    graph: Graph, index: Value, sizes: Array, out_of_range: OutOfRange
) -> tuple[Value, Value | None]:
    """The indices limited as the policy asks, and under "zero" the mask of those out of range."""
    if out_of_range == "error":
        if index.dtype == np.uint64:
            # A Cast alone would turn 2^64 - 1 into -1, the last element; n itself stays
            # an error.
            last = constant("axis_size", sizes.astype(np.uint64))
            why = "keeps indices out of range where the Cast cannot wrap them into it"
            index = graph.add("Min", "indices_limited", index, last, why=why)
        return index, None
    limited = clamp(graph, index, sizes)
    return limited, (
        outside_mask(graph, index, limited, sizes) if out_of_range == "zero" else None
    )


def _typed(
    graph: Graph, node: Geometry, index: Value, sizes: Array, out_of_range: OutOfRange
) -> Value:
    """Limited indices in a type that the node's operator takes; known ones are not negative.

    They are INT32 where that holds each of them, else INT64.
    """
    dtype, unlimited = index.dtype, out_of_range == "error"
    held = index.constant is not None or dtype == np.int32 or dtype == np.float32
    held = held or (dtype == np.uint32 and not unlimited)
    takes_int32 = node.onnx != "GatherND" or graph.narrow
    # On an axis beyond 2^31 ONNX Runtime's Gather of INT32 indices overflows and reads
    # anywhere.
    if takes_int32 and held and max(node.axes) <= LONGEST_INT32:
        why = f"an index type that {node.onnx} takes"
        index = graph.cast(index, np.int32, "indices_int32", why)
    else:
        why = f"the index type that {node.onnx} takes"
        index = graph.cast(index, np.int64, "indices_int64", why)
    if index.constant is None:
        return index
    wide = index.constant.astype(np.int64)
    return constant(
        "indices", np.where(wide < 0, wide + sizes, wide).astype(index.dtype)
    )


def _zero_outside(
    graph: Graph, gather: Geometry, gathered: Value, mask: Value | None
) -> Value:
    """`gathered` with 0 where the mask is true: a second gather, from `gathered` and a zero.

    Where would not do: ONNX Runtime's CPU kernel turns -0.0 into 0.0 and quiets the
    NaNs of FLOAT16 (measured on 1.24.4 and 1.31.1). Only operators that move elements
    keep every bit.
    """
    assert mask is not None
    mask = _any_of_tuple(graph, gather, mask)
    if mask.constant is not None and not mask.constant.any():
        return gathered
    split = len(gathered.shape) - gather.after
    outer, inner = gathered.shape[:split], gathered.shape[split:]
    per_index = gather.per_index
    if size_of(mask.shape) < size_of(per_index):
        per_index = mask.shape  # indices of stride 0 are there once
    why = "one dimension per output dimension"
    mask = graph.reshape(mask, (1,) * (split - len(per_index)) + per_index, "mask", why)
    rows = size_of(outer)
    why = "the elements that one index tuple leads to, row by row"
    table = graph.reshape(gathered, (rows, *inner), "rows", why)
    zeros = ("zero_row", "a row of zeros")
    table = graph.with_zeros(table, 0, zeros, ("rows_and_zero", "adds it"))
    own = graph.arange(rows, 1, graph.integer, "own_row")
    own = graph.reshape(own, outer, "own_rows", "each row's own number")
    last = constant("row_of_zeros", np.array(rows, graph.integer))
    why = "the row of zeros where the index is out of range"
    chosen = graph.add("Where", "chosen_rows", mask, last, own, why=why)
    why = 'out_of_range="zero"'
    return graph.add(
        "Gather", "zeroed", table, chosen, why=why, shape=gathered.shape, axis=0
    )


def _any_of_tuple(graph: Graph, gather: Geometry, mask: Value) -> Value:
    """A mask per index tuple: true where any of its coordinates is out of range."""
    if gather.has_tuples and mask.shape[-1] > 1:
        name = f"is_outside_{graph.integer.__name__}"
        count = graph.cast(mask, graph.integer, name, "a type that ReduceSum takes")
        count = sum_tuples(graph, gather, count)
        zero = constant("zero", np.array(0, graph.integer))
        why = "any coordinate out of range"
        return graph.add("Less", "is_tuple_outside", zero, count, why=why)
    return sum_tuples(graph, gather, mask)
