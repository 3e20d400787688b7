"""The native lowering: a gather as one node of onnxgather's own operators.

The node has the numbers of the gather's loops, for the kernels. Its body is the
portable graph, for wherever the kernels are not.
"""

from __future__ import annotations

import numpy as np
from msgspec import structs
from msgspec.structs import asdict

from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    axis_sizes,
    brought_in_range,
    elements,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.gather import gather_of
from onnxgather.core.loops import loops_of
from onnxgather.core.lowering.graph import FUNCTION, Graph, Value, constant
from onnxgather.core.lowering.indices import INDICES, LONGEST_INT32
from onnxgather.core.lowering.portable import INPUT, OUTPUT, lower_portable
from onnxgather.core.options import OutOfRange


def lower_native(
    desc: Descriptor, out_of_range: OutOfRange, indices: Array | None
) -> Graph:
    """Return the graph of one node; arguments as of `core.lowering.lower`."""
    if indices is not None:
        is_clamped = out_of_range == "clamp"
        if is_clamped or all_in_range(desc, indices):
            sizes = np.array(axis_sizes(desc), np.int64)
            in_range = brought_in_range(elements(desc.indices_tensor, indices), sizes)
            # Index tuples are INT64, as GatherND accepts no other type.
            is_narrow = (
                int(sizes.max()) <= LONGEST_INT32 and not gather_of(desc).has_tuples
            )
            data_type = "INT32" if is_narrow else "INT64"
            tensor = TensorDesc(data_type, desc.indices_tensor.sizes)
            desc = structs.replace(desc, indices_tensor=tensor)
            indices = in_range.astype(tensor.data_type.numpy)
            # By node the body has least to do under "error", by offsets under "clamp".
            out_of_range = "error" if desc.input_tensor.is_plain else "clamp"
    graph = Graph()
    data = _input(graph, INPUT, desc.input_tensor)
    if indices is None:
        index = _input(graph, INDICES, desc.indices_tensor)
    else:
        index = constant(INDICES, indices)
    body = lower_portable(desc, out_of_range)
    shape = desc.output_tensor.array_shape
    output = graph.add(
        desc.operator,
        OUTPUT,
        data,
        index,
        why=f"DML_OPERATOR_{desc.operator}",
        shape=shape,
        dtype=desc.output_tensor.data_type.numpy,
        bodies={FUNCTION: body},
        **asdict(loops_of(desc, out_of_range)),
        output_shape=shape,
    )
    graph.finish(output, OUTPUT)
    return graph


def _input(graph: Graph, name: str, tensor: TensorDesc) -> Value:
    return graph.input(name, tensor.data_type.numpy, tensor.array_shape)
