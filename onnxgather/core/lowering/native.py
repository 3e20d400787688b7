"""The native lowering: a gather as one node of onnxgather's own operators.

The node has the numbers of the gather's loops, for the kernels. Its body is the
portable graph, for wherever the kernels are not.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from msgspec import structs

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
from onnxgather.core.lowering.graph import FUNCTION, Graph, constant
from onnxgather.core.lowering.indices import INDICES, LONGEST_INT32
from onnxgather.core.lowering.portable import INPUT, OUTPUT, lower_portable
from onnxgather.core.options import OutOfRange


def lower_native(
    desc: Descriptor, out_of_range: OutOfRange, indices: Array | None
) -> Graph:
    """The graph of one node; arguments as of `onnxgather.core.lowering.lower`."""
    moved = out_of_range == "clamp"
    if indices is not None and (moved or all_in_range(desc, indices)):
        desc, indices = _normalised(desc, indices)
        # By node the body has least to do under "error", by offsets under "clamp".
        out_of_range = "error" if desc.input_tensor.is_plain else "clamp"
    tensors, graph = (
        (desc.input_tensor, desc.indices_tensor, desc.output_tensor),
        Graph(),
    )
    dtypes, shapes = zip(
        *((t.data_type.numpy, t.array_shape) for t in tensors), strict=True
    )
    data = graph.input(INPUT, dtypes[0], shapes[0])
    if indices is None:
        index = graph.input(INDICES, dtypes[1], shapes[1])
    else:
        index = constant(INDICES, indices)
    body = lower_portable(desc, out_of_range)
    output = graph.add(
        desc.operator,
        OUTPUT,
        data,
        index,
        why=f"DML_OPERATOR_{desc.operator}",
        shape=shapes[2],
        dtype=dtypes[2],
        bodies={FUNCTION: body},
        **asdict(loops_of(desc, out_of_range)),
        output_shape=shapes[2],
    )
    graph.finish(output, OUTPUT)
    return graph


def _normalised(desc: Descriptor, indices: Array) -> tuple[Descriptor, Array]:
    """A descriptor whose indices are packed, signed and in [0, n), and those indices."""
    sizes = np.array(axis_sizes(desc), np.int64)
    found = brought_in_range(elements(desc.indices_tensor, indices), sizes)
    narrow = int(sizes.max()) <= LONGEST_INT32 and not gather_of(desc).has_tuples
    tensor = TensorDesc("INT32" if narrow else "INT64", desc.indices_tensor.sizes)
    return structs.replace(desc, indices_tensor=tensor), found.astype(
        tensor.data_type.numpy
    )
