"""The way through a model on which the size of an axis gets lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_graphs import BOOL, INT64, constant, graph, info, model, node

from onnxgather.auditing.audit import Premises, audit_model
from onnxgather.auditing.output.way_to_gather import WayStep, ways_of
from onnxgather.core.model.network import read_network

MASK = info("mask", BOOL, ["h", "w"])
ZERO = constant("zero", np.array(0))


def ways(made: Any) -> list[list[WayStep]]:
    return ways_of(audit_model(Premises(read_network(made))))


def test_a_way_leads_from_an_input_over_the_node_that_loses_the_size() -> None:
    nodes = [
        node("Not", ["mask"], "others", "invert"),
        node("NonZero", ["others"], "places", "find"),
        node("Transpose", ["places"], "rows", "turn", perm=[1, 0]),
        node("Gather", ["rows", "zero"], "y", "pick"),
    ]
    (way,) = ways(model(nodes, [MASK], ["y"], [ZERO]))
    assert way == [
        WayStep("", "mask"),
        WayStep("Not", "invert"),
        WayStep("NonZero", "find", loses_size=True),
        WayStep("Transpose", "turn"),
        WayStep("Gather", "pick"),
    ]


def test_of_a_long_way_the_middle_is_left_out() -> None:
    nodes = [node("NonZero", ["mask"], "x0", "find")]
    nodes += [node("Neg", [f"x{k}"], f"x{k + 1}", f"neg{k}") for k in range(20)]
    nodes.append(node("Gather", ["x20", "zero"], "y", "pick", axis=1))
    (way,) = ways(model(nodes, [MASK], ["y"], [ZERO]))
    assert way == [
        WayStep("", "mask"),
        WayStep("NonZero", "find", loses_size=True),
        WayStep("Neg", "neg0"),
        WayStep("", "… 18 more"),
        WayStep("Neg", "neg19"),
        WayStep("Gather", "pick"),
    ]


def test_a_gather_that_is_proved_has_no_way() -> None:
    table = constant("table", np.zeros((4, 2), np.float32))
    made = model([node("Gather", ["table", "zero"], "y")], [], ["y"], [table, ZERO])
    assert ways(made) == [[]]


def test_a_node_of_an_outer_graph_makes_no_way() -> None:
    body = graph(
        [node("Gather", ["places", "at"], "row", "inner", axis=1)], [], ["row"]
    )
    other = graph([node("Identity", ["at"], "same")], [], ["same"])
    nodes = [
        node("NonZero", ["mask"], "places", "find"),
        node("If", ["on"], "y", "if_1", then_branch=body, else_branch=other),
    ]
    inputs = [MASK, info("on", BOOL, []), info("at", INT64, [2])]
    assert ways(model(nodes, inputs, ["y"])) == [[]]
