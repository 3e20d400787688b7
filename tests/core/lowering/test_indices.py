"""Index arithmetic of the portable lowering, on every index type and on axes of every
length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from index_arithmetic import ARITHMETIC, SIZES, TYPES, expected, index_values, model_of
from rings import one_quick_in
from runtime_faults import needs_compared_halves

from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.lowering import indices
from onnxgather.core.lowering.graph import Graph, Value


@pytest.mark.parametrize(
    "sizes", one_quick_in(4, [(sizes,) for sizes in SIZES]), ids=str
)
@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_index_arithmetic_is_exact_for_every_index(
    name: str, data_type: str, sizes: int | tuple[int, ...]
) -> None:
    index = index_values(data_type, sizes)
    found = Opened(model_of(name, data_type, sizes), Setup(CPU, 1)).run(
        {"IndicesTensor": index}
    )
    assert found.astype(object).tolist() == expected(name, index, sizes).tolist()


def clamped_as_int64(graph: Graph, index: Value, sizes: Any) -> Value:
    """A clamp by Min and Max of INT64, which the CPU provider before 1.32 computes
    wrongly."""
    last, first = (
        indices.constant("bound", np.asarray(bound, np.int64))
        for bound in (sizes - 1, -sizes)
    )
    index = graph.add("Min", "limited", index, last, why="")
    return graph.add("Max", "clamped", index, first, why="")


@needs_compared_halves
def test_a_clamp_in_int64_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indices, "clamp", clamped_as_int64)
    with pytest.raises(AssertionError):
        test_index_arithmetic_is_exact_for_every_index("clamp", "int64", 5)


@pytest.mark.parametrize(
    ("longest", "nodes"),
    [
        (2**24, ["Cast", "Clip", "Cast"]),
        (
            2**31,
            ["Cast", "Cast", "Equal", "Cast", "Less", "Where", "Clip", "Where", "Cast"],
        ),
        (2**32 - 1, ["Add", "Cast", "Max", "Min", "Cast", "Add"]),
    ],
)
def test_the_type_of_an_int64_clamp_follows_the_axis(
    longest: int, nodes: list[str]
) -> None:
    def operators(size: int) -> list[str]:
        model = onnx.load_from_string(model_of("clamp", "int64", size))
        return [node.op_type for node in model.graph.node]

    assert operators(longest) == nodes
    if longest < 2**32 - 1:
        assert operators(longest + 1) != nodes


@pytest.mark.parametrize("make", ARITHMETIC.values())
def test_constant_indices_leave_no_node(
    make: Callable[[Graph, Value, Any], Value],
) -> None:
    graph = Graph(fold_all=True)
    known = indices.constant("known", np.array([-(2**63), -1, 2**31, 2**63 - 1]))
    for size in (5, 2**24 + 1, 2**31 + 1):
        assert make(graph, known, np.array(size)).constant is not None
    assert graph.nodes == []
