"""Known indices with a pattern: what they choose needs no gather."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgather.arrays import Array, brought_in_range, elements, outside
from onnxgather.descriptors import Descriptor, GatherDesc
from onnxgather.lowering.graph import Graph, Shape, Value, constant, size_of
from onnxgather.options import OutOfRange

Pattern = Callable[[Graph, Value, Shape], Value]
"""Adds the nodes that take a pattern from the last dimension of a table."""


def find_pattern(desc: Descriptor, out_of_range: OutOfRange, known: Array | None) -> Pattern | None:
    """Return how known indices along the last dimension run, repeat, roll or tile, if they do."""
    if known is None or not isinstance(desc, GatherDesc):
        return None
    values = elements(desc.indices_tensor, known).reshape(-1)
    size, behind = desc.input_tensor.sizes[desc.axis], desc.input_tensor.sizes[desc.axis + 1 :]
    if size_of(behind) > 1 or desc.output_tensor.sizes[-1] != values.size:
        return None
    if out_of_range != "clamp" and outside(values, size).any():
        return None
    return _pattern(brought_in_range(values, np.array(size, np.int64)))


def _pattern(values: Array) -> Pattern | None:
    count, first = values.size, int(values[0])
    steps = np.diff(values)
    breaks = np.flatnonzero(steps != 1)
    if not steps.any():
        return lambda graph, table, sizes: graph.expand(
            _run(graph, table, first, 1, 1), sizes, "repeated", "repeats one element"
        )
    if (steps == steps[0]).all():
        return lambda graph, table, _: _run(graph, table, first, count, int(steps[0]))
    if breaks.size == 1:
        split, second = int(breaks[0]) + 1, int(values[breaks[0] + 1])
        return lambda graph, table, sizes: _two_runs(
            graph, table, sizes, (first, split), (second, count - split)
        )
    period = int(breaks[0]) + 1
    if count % period == 0 and (values.reshape(-1, period) == values[:period]).all():
        return lambda graph, table, sizes: _tiled(
            graph, _run(graph, table, first, period, 1), sizes
        )
    return None


def _run(graph: Graph, table: Value, first: int, count: int, step: int) -> Value:
    """Take every step-th element of the last dimension."""
    end = first + count * step
    limits = {"start": first, "end": end if end >= 0 else -(2**63), "axis": -1, "step": step}
    parts = [
        constant(f"run_{name}", np.array([number], np.int64)) for name, number in limits.items()
    ]
    why = f"{count} elements from {first} in steps of {step}"
    starts, ends, axes, steps = parts
    shape = (*table.shape[:-1], count)
    return graph.add("Slice", "run", table, starts, ends, axes, steps, why=why, shape=shape)


def _two_runs(
    graph: Graph, table: Value, sizes: Shape, one: tuple[int, int], other: tuple[int, int]
) -> Value:
    left, right = _run(graph, table, *one, 1), _run(graph, table, *other, 1)
    why = "one run behind the other"
    return graph.add("Concat", "runs", left, right, why=why, shape=sizes, axis=len(sizes) - 1)


def _tiled(graph: Graph, run: Value, sizes: Shape) -> Value:
    times = [1] * (len(sizes) - 1) + [sizes[-1] // run.shape[-1]]
    repeats = constant("repeats", np.array(times, np.int64))
    return graph.add("Tile", "tiled", run, repeats, why="repeats the run", shape=sizes)
