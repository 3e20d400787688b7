"""The forms of every provider, as they are written for the CPU provider."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array
from onnxgather.lowering import cpu_fits
from onnxgather.lowering import cpu_forms as forms
from onnxgather.lowering.cpu_indices import limited, narrowed
from onnxgather.lowering.facts import Facts
from onnxgather.lowering.graph import Graph, Shape, Value
from onnxgather.lowering.indices import clamp
from onnxgather.lowering.offsets import Style, gather_flat


def style(facts: Facts) -> Style:
    """Return how the forms of every provider are written for the CPU provider."""
    wide = facts.desc.input_tensor.element_count * (len(facts.axes) + 1) >= 2**31

    def limit(graph: Graph, index: Value, sizes: Array) -> Value:
        if sizes.ndim == 0 and int(sizes) < 2**31:
            return narrowed(graph, limited(graph, index, sizes, "clamp"))
        return clamp(graph, index, sizes)

    def collect(graph: Graph, buffer: Value, offset: Value, sizes: Shape) -> Value:
        if wide or facts.elements < cpu_fits.SMALL or not forms.can_lay_out(sizes):
            return gather_flat(graph, buffer, offset, sizes)
        offset = graph.cast(offset, np.int32, "offsets_int32", "half the bytes of INT64")
        offset = graph.expand(offset, sizes, "offsets_each", "one offset per element")
        return forms.element_gather(graph, buffer, offset, sizes)

    return Style(limit, np.dtype(np.int64 if wide else np.int32), collect)
