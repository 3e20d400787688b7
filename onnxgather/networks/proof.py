"""Whether the indices of a gather are proved in range: their interval beside the sizes."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from onnxgather.networks.intervals import COLUMNS, INTEGERS, UNBOUNDED, elements_of, hull
from onnxgather.networks.network import Operation, Scope
from onnxgather.networks.ranges import Ranges

State = Literal["proved", "not-proved", "out-of-range"]


class Proof(NamedTuple):
    """What is known of the indices of a gather, before negative ones count from the end.

    Attributes:
        state: "proved": each index is in range, or there is none. "out-of-range": one is not,
            whatever the inputs are.
        low: The least index per coordinate of a tuple; None: no bound. Without indices: None.
        high: The greatest index, likewise.
        sizes: The size of the axis that each coordinate indexes; None where it is not known.
        why: What the interval comes from, in words.
        stop: What stops the proof, a graph input or an operator; "" where it is proved.
    """

    state: State
    low: tuple[int | None, ...] | None
    high: tuple[int | None, ...] | None
    sizes: tuple[int | None, ...]
    why: str
    stop: str


def proof_of(ranges: Ranges, graph: Scope, node: Operation) -> Proof:
    """The proof that the indices of a gather are in range, as far as there is one."""
    data, indices = (ranges.value(graph, name) for name in node.inputs[:2])
    columns = indices.sizes[-1] if indices.sizes and not indices.is_empty else None
    bounds = indices.whole.reshape(1, 2)
    if node.operator == "GatherND" and columns is not None and columns <= COLUMNS:
        rows = hull(indices.bounds, range(indices.bounds.ndim - 2))
        bounds = np.broadcast_to(rows.reshape(-1, 2), (columns, 2))
    wide = INTEGERS.get(indices.data_type, UNBOUNDED)
    low, high = (
        tuple(None if end == limit else end for end in ends)
        for ends, limit in zip(bounds.T.tolist(), wide, strict=True)
    )
    why, stop = ", ".join(indices.why), ", ".join(indices.stops)
    rank = len(data.sizes or ())
    axes = [node.number + k for k in range(len(low))]
    sizes = tuple((data.sizes or ())[k] if -rank <= k < rank else None for k in axes)
    if indices.is_empty:
        return Proof("proved", None, None, sizes, "there is no index", "")
    bounds = list(zip(low, high, sizes, strict=True))
    if all(
        n is not None and a is not None and b is not None and -n <= a <= b < n for a, b, n in bounds
    ):
        return Proof("proved", low, high, sizes, why, "")
    # Where both ends of an interval are reached, one beyond the axis is an index beyond it.
    is_reached = indices.is_exact or graph.is_constant(node.inputs[1])
    if is_reached and elements_of(indices.sizes) and None not in sizes:
        return Proof("out-of-range", low, high, sizes, why, "")
    unsized = f"the size of {node.inputs[0]}" if None in sizes else ""
    return Proof("not-proved", low, high, sizes, why, stop or unsized or why)
