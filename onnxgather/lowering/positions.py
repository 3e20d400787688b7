"""Element offsets of tensors with strides, as small constants to add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgather.lowering.graph import Graph, Shape, Value, constant, size_of
from onnxgather.tensors import TensorDesc


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent dimensions whose offsets one count covers: stride x 0, 1, 2, and so on."""

    first: int
    sizes: Shape
    stride: int
    """Of the last dimension, in elements."""


def merged(dims: list[Run]) -> list[Run]:
    """Return the dimensions that move, with those merged that lie packed in one another."""
    runs: list[Run] = []
    for run in dims:
        if size_of(run.sizes) == 1 or run.stride == 0:
            continue
        outer = runs[-1] if runs else None
        inner = run.stride * size_of(run.sizes)
        if outer and outer.first + len(outer.sizes) == run.first and outer.stride == inner:
            runs[-1] = Run(outer.first, outer.sizes + run.sizes, run.stride)
        else:
            runs.append(run)
    return runs


def counted(graph: Graph, run: Run, rank: int, dtype: np.dtype[Any]) -> Value:
    """Return the offsets of a run, with `rank` dimensions to broadcast."""
    value = graph.arange(size_of(run.sizes), run.stride, dtype, "count")
    shape = (1,) * run.first + run.sizes + (1,) * (rank - run.first - len(run.sizes))
    return graph.reshape(value, shape, "positions", "along the dimensions that it counts")


def positions(graph: Graph, sizes: Shape, strides: Shape, name: str) -> Value:
    """Return the INT64 offset of each element; dimensions of stride 0 have size 1."""
    dims = [Run(k, (n,), s) for k, (n, s) in enumerate(zip(sizes, strides, strict=True))]
    int64 = np.dtype(np.int64)
    offset = constant(name, np.zeros((1,) * len(sizes), int64))
    for k, run in enumerate(merged(dims)):
        step = counted(graph, run, len(sizes), int64)
        why = "adds the offsets of the dimensions"
        offset = graph.add("Add", name, offset, step, why=why) if k else step
    return offset


def scatter(graph: Graph, tensor: TensorDesc, gathered: Value) -> Value:
    """Return the 1-D buffer of a strided output, zero between the elements."""
    count = size_of(tensor.sizes)
    assert tensor.strides is not None
    place = positions(graph, tensor.sizes, tensor.strides, "output_positions")
    place = graph.reshape(place, (count,), "output_places", "one place per element")
    zero = constant("zero", np.zeros(1, gathered.dtype))
    shape = (tensor.element_count,)
    empty = graph.expand(zero, shape, "empty", "the output's buffer")
    updates = graph.reshape(gathered, (count,), "updates", "row-major, one element per place")
    why = "puts the elements at OutputTensor.Strides"
    return graph.add(
        "ScatterElements", "scattered", empty, place, updates, why=why, shape=shape, axis=0
    )
