"""Nodes that ONNX's own specification forbids, so that a provider must refuse them.

The rules are those of Gather-13, GatherElements-13 and GatherND-13, the newest versions. Every
index is in range of its axis, where there is one, and every declared output is what the sizes
give, where they give any: the rule is all that is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onnxgather.cases import ForbiddenNode, NodeCase
from onnxgather.corpus.values import DATA
from onnxgather.corpus.words import seed_of, words
from onnxgather.gather import Sizes, gather_of_node


class _Row(NamedTuple):
    operator: str
    name: str
    data: Sizes
    indices: Sizes
    attribute: int
    output: Sizes
    largest: int = 1
    """Indices are 0 to this one."""
    index_type: str = "int64"


_ROWS = (
    _Row("GatherND", "batch-sizes/data-2-indices-4", (2, 3), (4, 1), 1, (4,)),
    _Row("GatherND", "batch-sizes/data-4-indices-2", (4, 3), (2, 1), 1, (2,)),
    _Row("GatherND", "batch-sizes/data-3-indices-1", (3, 4), (1, 1), 1, (1,)),
    _Row("GatherND", "batch-sizes/data-1-indices-3", (1, 4), (3, 1), 1, (3,)),
    _Row("GatherND", "batch-sizes/data-2-indices-3", (2, 4), (3, 1), 1, (3,)),
    _Row("GatherND", "batch-sizes/data-3-indices-2", (3, 4), (2, 1), 1, (2,)),
    _Row("GatherND", "batch-sizes/slices", (2, 3, 4), (4, 2, 1), 1, (4, 2, 4)),
    _Row("GatherND", "batch-sizes/second-of-two", (2, 2, 3), (2, 4, 1), 2, (2, 4)),
    _Row("GatherND", "batch-sizes/first-of-two", (4, 2, 3), (2, 2, 1), 2, (2, 2)),
    _Row("GatherND", "batch-sizes/exchanged", (2, 3, 4), (3, 2, 1), 2, (3, 2)),
    _Row("GatherND", "batch-count/rank-of-indices", (2, 1, 3), (2, 1), 2, (2,)),
    _Row("GatherND", "batch-count/rank-of-data", (2, 1), (2, 1, 1), 2, (2, 1)),
    _Row("GatherND", "tuple-length/three-of-two", (3, 4), (2, 3), 0, (2,)),
    _Row("GatherND", "tuple-length/two-of-one", (3,), (2, 2), 0, (2,)),
    _Row("GatherND", "tuple-length/two-in-batches", (2, 3), (2, 2), 1, (2,)),
    _Row("GatherND", "tuple-length/none", (3,), (2, 0), 0, (2, 3)),
    _Row("GatherND", "tuple-rank/scalar", (3,), (), 0, ()),
    _Row("GatherND", "nd-index-type/int32", (3, 4), (2, 2), 0, (2,), index_type="int32"),
    _Row("GatherND", "nd-index-type/uint64", (3, 4), (2, 2), 0, (2,), index_type="uint64"),
    _Row("GatherElements", "index-sizes/columns", (2, 3), (2, 4), 0, (2, 4)),
    _Row("GatherElements", "index-sizes/rows", (2, 3), (3, 3), 1, (3, 3)),
    _Row("GatherElements", "index-sizes/one-to-many", (1, 3), (4, 3), 1, (4, 3)),
    _Row("GatherElements", "index-sizes/three-dimensions", (2, 3, 4), (2, 2, 5), 1, (2, 2, 5)),
    _Row("GatherElements", "index-rank/lower", (2, 3), (3,), 0, (3,)),
    _Row("GatherElements", "index-rank/higher", (3,), (2, 3), 0, (2, 3)),
    _Row("GatherElements", "elements-axis/rank", (2, 3), (2, 3), 2, (2, 3)),
    _Row("GatherElements", "elements-axis/below-minus-rank", (2, 3), (2, 3), -3, (2, 3)),
    _Row("GatherElements", "elements-index-type/uint32", (2, 3), (2, 3), 0, (2, 3), 1, "uint32"),
    _Row("Gather", "axis/rank", (2, 3), (2,), 2, (2, 3)),
    _Row("Gather", "axis/below-minus-rank", (2, 3), (2,), -3, (2, 3)),
    _Row("Gather", "data-rank/scalar", (), (2,), 0, (2,), 0),
    _Row("Gather", "index-type/uint32", (3, 4), (2,), 0, (2, 4), 1, "uint32"),
)


def forbidden_cases() -> Iterator[NodeCase]:
    """Yield the forbidden nodes; their indices hold the largest value at least once."""
    operators = {"Gather": "gather", "GatherElements": "gather-elements", "GatherND": "gather-nd"}
    for row in _ROWS:
        name = f"forbidden/{operators[row.operator]}/{row.name}"
        seed = seed_of(name)
        count = int(np.prod(row.data, dtype=np.int64))
        data = DATA["distinct"](np.dtype("float32"), count, seed).reshape(row.data)
        values = words(seed, int(np.prod(row.indices, dtype=np.int64))) % np.uint64(row.largest + 1)
        indices = values.astype(row.index_type).reshape(row.indices)
        gather = gather_of_node(row.operator, row.data, row.indices, row.attribute)
        rule = gather.broken_rule(row.index_type.upper())
        assert rule is not None, name
        node = ForbiddenNode(row.operator, {gather.attribute: row.attribute}, row.output, rule)
        yield NodeCase(name, node, data, indices)
