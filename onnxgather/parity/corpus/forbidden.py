"""Nodes that ONNX's own specification forbids, so that a provider must refuse them.

The rules are those of Gather-13, GatherElements-13 and GatherND-13, the newest versions. Each row
breaks one rule and no other. If its axis exists, every index is in range of it. The declared
output has the shape that the gather gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onnxgather.gather import Sizes, gather_of_node
from onnxgather.parity.cases import ForbiddenNode, NodeCase
from onnxgather.parity.corpus.drawn import data_values
from onnxgather.parity.corpus.splitmix import seed_of, splitmix64


@dataclass(frozen=True, slots=True)
class _Forbidden:
    operator: str
    name: str
    data: Sizes
    indices: Sizes
    number: int
    """The `axis` or `batch_dims` of the node."""
    index_type: str = "INT64"
    output: Sizes | None = None
    """The shape of the declared output where the gather gives none, as the axis does not exist."""


_ROWS = (
    _Forbidden("GatherND", "batch-sizes/data-2-indices-4", (2, 3), (4, 1), 1),
    _Forbidden("GatherND", "batch-sizes/data-4-indices-2", (4, 3), (2, 1), 1),
    _Forbidden("GatherND", "batch-sizes/data-3-indices-1", (3, 4), (1, 1), 1),
    _Forbidden("GatherND", "batch-sizes/data-1-indices-3", (1, 4), (3, 1), 1),
    _Forbidden("GatherND", "batch-sizes/data-2-indices-3", (2, 4), (3, 1), 1),
    _Forbidden("GatherND", "batch-sizes/data-3-indices-2", (3, 4), (2, 1), 1),
    _Forbidden("GatherND", "batch-sizes/slices", (2, 3, 4), (4, 2, 1), 1),
    _Forbidden("GatherND", "batch-sizes/second-of-two", (2, 2, 3), (2, 4, 1), 2),
    _Forbidden("GatherND", "batch-sizes/first-of-two", (4, 2, 3), (2, 2, 1), 2),
    _Forbidden("GatherND", "batch-sizes/exchanged", (2, 3, 4), (3, 2, 1), 2),
    _Forbidden("GatherND", "batch-count/rank-of-indices", (2, 1, 3), (2, 1), 2),
    _Forbidden("GatherND", "batch-count/rank-of-data", (2, 1), (2, 1, 1), 2),
    _Forbidden("GatherND", "tuple-length/three-of-two", (3, 4), (2, 3), 0),
    _Forbidden("GatherND", "tuple-length/two-of-one", (3,), (2, 2), 0),
    _Forbidden("GatherND", "tuple-length/two-in-batches", (2, 3), (2, 2), 1),
    _Forbidden("GatherND", "tuple-length/none", (3,), (2, 0), 0),
    _Forbidden("GatherND", "tuple-rank/scalar", (3,), (), 0),
    _Forbidden("GatherND", "nd-index-type/int32", (3, 4), (2, 2), 0, "INT32"),
    _Forbidden("GatherND", "nd-index-type/uint64", (3, 4), (2, 2), 0, "UINT64"),
    _Forbidden("GatherElements", "index-sizes/columns", (2, 3), (2, 4), 0),
    _Forbidden("GatherElements", "index-sizes/rows", (2, 3), (3, 3), 1),
    _Forbidden("GatherElements", "index-sizes/one-to-many", (1, 3), (4, 3), 1),
    _Forbidden("GatherElements", "index-sizes/three-dimensions", (2, 3, 4), (2, 2, 5), 1),
    _Forbidden("GatherElements", "index-rank/lower", (2, 3), (3,), 0),
    _Forbidden("GatherElements", "index-rank/higher", (3,), (2, 3), 0),
    _Forbidden("GatherElements", "elements-axis/rank", (2, 3), (2, 3), 2),
    _Forbidden("GatherElements", "elements-axis/below-minus-rank", (2, 3), (2, 3), -3),
    _Forbidden("GatherElements", "elements-index-type/uint32", (2, 3), (2, 3), 0, "UINT32"),
    _Forbidden("Gather", "axis/rank", (2, 3), (2,), 2, output=(2, 3)),
    _Forbidden("Gather", "axis/below-minus-rank", (2, 3), (2,), -3, output=(2, 3)),
    _Forbidden("Gather", "data-rank/scalar", (), (2,), 0),
    _Forbidden("Gather", "index-type/uint32", (3, 4), (2,), 0, "UINT32"),
)


def forbidden_cases() -> Iterator[NodeCase]:
    """Yield the forbidden nodes; their indices are 0 and 1, those of scalar data 0."""
    operators = {"Gather": "gather", "GatherElements": "gather-elements", "GatherND": "gather-nd"}
    for row in _ROWS:
        name = f"forbidden/{operators[row.operator]}/{row.name}"
        seed = seed_of(name)
        data = data_values(np.dtype("float32"), row.data, "distinct", seed)
        numbers = splitmix64(seed, math.prod(row.indices)) % np.uint64(2 if row.data else 1)
        indices = numbers.astype(row.index_type.lower()).reshape(row.indices)
        gather = gather_of_node(row.operator, row.data, row.indices, row.number)
        rule = gather.broken_rule(row.index_type)
        assert rule is not None, name
        output = gather.output if row.output is None else row.output
        node = ForbiddenNode(row.operator, {gather.attribute: row.number}, output, rule)
        yield NodeCase(name, node, data, indices)
