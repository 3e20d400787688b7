"""Known indices that run along the last dimension: copied, not gathered."""

from __future__ import annotations

import numpy as np

from onnxgather.arrays import Array, brought_in_range, elements, outside
from onnxgather.lowering.cpu.facts import Facts, not_plain, small
from onnxgather.lowering.graph import Graph, Value, constant, size_of

NAME = "runs"
REASON = "known indices that run without a gap need no gather"
GAIN = 2.1

MOST = 2
"""Different runs that are copied one behind the other."""

SHORTEST = 16
"""Elements of a run that are worth a copy of their own."""


def passed_over(facts: Facts) -> str | None:
    """Why the form does not fit; None where it fits."""
    gather = facts.gather
    if facts.known is None or gather.onnx != "Gather":
        return "this form takes known indices of GATHER"
    if facts.row > 1 or facts.sizes[-1] != size_of(gather.indices):
        return "the indices do not choose along the last dimension of the output"
    values = elements(facts.desc.indices_tensor, facts.known)
    if facts.out_of_range != "clamp" and outside(values, gather.axes[0]).any():
        return f'an index is out of range and the policy is "{facts.out_of_range}"'
    firsts, lengths = _runs(facts)
    alike = (firsts == firsts[0]).all() and (lengths == lengths[0]).all()
    if firsts.size > MOST and not alike:
        return f"the indices fall into {firsts.size} runs, this form takes {MOST} or equal ones"
    if lengths.min() < SHORTEST:
        return f"a run has {lengths.min()} elements, a gain begins at {SHORTEST}"
    return not_plain(facts) or small(facts)


def build(graph: Graph, facts: Facts, data: Value) -> Value:
    """Add the nodes of the form to a graph; return OutputTensor's elements."""
    sizes, (firsts, lengths) = facts.sizes, _runs(facts)
    shape = (*sizes[:-1], facts.gather.axes[0])
    table = graph.reshape(data, shape, "table", "the rows to choose from")
    runs = list(zip(firsts.tolist(), lengths.tolist(), strict=True))
    slices = [_slice(graph, table, *run) for run in dict.fromkeys(runs)]
    if len(slices) > 1:
        why = "one run behind the other"
        return graph.add("Concat", "runs", *slices, why=why, shape=sizes, axis=len(sizes) - 1)
    if len(runs) > 1:
        repeats = constant("repeats", np.array([*(1,) * (len(sizes) - 1), len(runs)], np.int64))
        return graph.add("Tile", "tiled", *slices, repeats, why="repeats the run", shape=sizes)
    return slices[0]


def _runs(facts: Facts) -> tuple[Array, Array]:
    """Return the first index and the length of each run of consecutive indices."""
    assert facts.known is not None
    values = elements(facts.desc.indices_tensor, facts.known).reshape(-1)
    values = brought_in_range(values, np.array(facts.gather.axes[0], np.int64))
    starts = np.flatnonzero(np.diff(values, prepend=values[0]) != 1)
    return values[starts], np.diff(starts, append=values.size)


def _slice(graph: Graph, table: Value, first: int, length: int) -> Value:
    """Take one run of the last dimension."""
    limits = {"start": first, "end": first + length, "axis": len(table.shape) - 1}
    parts = [constant(f"run_{name}", np.array([n], np.int64)) for name, n in limits.items()]
    shape, why = (*table.shape[:-1], length), f"{length} elements from {first}"
    return graph.add("Slice", "run", table, *parts, why=why, shape=shape)
