"""Random nodes on onnxgather's own provider, under each policy: their bytes, their
errors, and what the report counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from agreement import same
from provider_models import (
    GATHERS,
    Shape,
    message_of_run,
    one_gather,
    opened,
    providers_of,
    run_on,
    said,
)
from random_nodes import RandomNode, random_nodes, wanted
from rings import by_ring

import onnxgather as og
from onnxgather.checking.corpus.built_in import forbidden_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.options import POLICIES, OutOfRange

NODES = random_nodes(by_ring(60, 3000), 54)
MODEL = "random nodes"


def told(node: RandomNode, policy: OutOfRange) -> Array | str:
    """Return what the provider makes of a node: its output, or why it fails."""
    session = opened(node.model, policy, level=0)
    assert providers_of(session) == {node.name: GATHERS}
    try:
        (output,) = run_on(session, node.data, node.indices)
    except Exception as error:
        return said(error)
    return output


def counts(node: RandomNode) -> tuple[Any, ...]:
    """Return what the report says of a node after a run, whatever its policy."""
    outside = node.outside
    size = node.indices.size
    if not outside.any():
        return (1, size, 0, None, None, None, None)
    met = node.indices[outside]
    first = tuple(map(int, np.argwhere(outside)[0]))
    sentence = wanted(node, "error")
    count = int(outside.sum())
    return (1, size, count, int(met.min()), int(met.max()), first, sentence)


def counted(row: og.GatherCounts) -> tuple[Any, ...]:
    """Return the counts of a row."""
    met = row.least, row.largest, row.first, row.error
    return (row.runs, row.indices, row.outside, *met)


@pytest.mark.parametrize("policy", POLICIES)
def test_random_nodes_are_the_reference_s(policy: OutOfRange) -> None:
    og.provider_report(reset=True)
    differing: list[str] = []
    ends = Counter[str]()
    for node in NODES:
        expected = wanted(node, policy)
        answer = told(node, policy)
        ends[type(expected).__name__] += 1
        if not same(answer, expected):
            differing.append(f"{node.name}: {answer}, not {expected}")
    assert differing == []
    assert ends["ndarray"] > len(NODES) / 3
    assert (ends["str"] > len(NODES) / 10) == (policy == "error")

    rows = {
        row.node: row for row in og.provider_report(reset=True) if row.model == MODEL
    }
    for node in NODES:
        row = rows.pop(node.name)
        assert (row.policy, row.operator) == (policy, node.operator)
        assert counted(row) == counts(node), node.name
    assert rows == {}


def test_an_open_size_of_1_is_read_as_directml_s_operator_reads_it() -> None:
    """GATHER_ELEMENTS gives such an axis the stride 0, and GATHER does not."""
    data = np.array([[1], [2]], np.float32)
    indices = np.array([[1], [1]])
    for operator, expected in (("Gather", [2, 2, 2, 2]), ("GatherElements", [1, 2])):
        model = one_gather(
            operator,
            data,
            indices,
            shapes=(["a", "b"], ["c", "d"], None),
            attributes={"axis": 1},
        )
        (output,) = run_on(opened(model, "directml"), data, indices)
        assert output.ravel().tolist() == expected


FORBIDDEN = {case.name.removeprefix("forbidden/"): case for case in forbidden_cases()}
RULES = {
    "batch-sizes": "the first batch_dims sizes of indices must be those of data",
    "batch-count": "batch_dims must be at least 0 and less than both ranks",
    "tuple-length": "the last size of indices must be 1 to rank(data) - batch_dims",
    "tuple-rank": "batch_dims must be at least 0 and less than both ranks",
    "index-sizes": "no size of indices but that at axis may exceed data's",
    "index-rank": "indices must have the rank of data",
    "elements-axis": "axis must be a dimension of data",
    "axis": "axis must be a dimension of data",
    "data-rank": "axis must be a dimension of data",
}
"""The rule that the provider names, by the group of the case."""

FORBIDDEN_TYPES = {
    "nd-index-type": "of input parameter (indices) of operator (GatherND)",
    "elements-index-type": "of input parameter (indices) of operator (GatherElements)",
    "index-type": "of input parameter (indices) of operator (Gather)",
}


@pytest.mark.parametrize("name", [*FORBIDDEN])
def test_a_forbidden_node_is_refused(name: str) -> None:
    """With the shapes in the model ONNX Runtime may refuse it first."""
    case = FORBIDDEN[name]
    group = name.split("/")[1]
    node = case.operator, case.data, case.indices
    static = one_gather(*node, attributes=case.node.attributes)
    with pytest.raises(Exception, match=r"'g'|\(g\)"):
        run_on(opened(static, "clamp"), case.data, case.indices)

    shapes: list[Shape] = [
        [f"{which}{axis}" for axis in range(array.ndim)]
        for which, array in (("d", case.data), ("i", case.indices))
    ]
    if group in ("axis", "data-rank", "tuple-rank"):
        shapes = [None, None]
    model = one_gather(
        *node,
        shapes=(shapes[0], shapes[1], None),
        attributes=case.node.attributes,
    )
    if group in FORBIDDEN_TYPES:
        with pytest.raises(Exception, match="INVALID_GRAPH") as caught:
            opened(model)
        assert FORBIDDEN_TYPES[group] in str(caught.value)
        return
    session = opened(model, "clamp", level=0)
    assert providers_of(session) == {"g": GATHERS}
    data, indices = (
        str([*array.shape]).replace(" ", "") for array in (case.data, case.indices)
    )
    ((attribute, number),) = case.node.attributes.items()
    got = f"got data {data}, indices {indices} and {attribute} {number}"
    sentence = f"{case.operator} 'g': {RULES[group]}, {got}"
    assert message_of_run(session, case.data, case.indices) == sentence
