"""Which nodes ONNX Runtime leaves on the CPU, as they compute shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_graphs import (
    FLOAT,
    INT64,
    constant,
    function,
    graph,
    info,
    model,
    node,
    nodes_of,
)

from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.auditing.proof.shape_computations import shape_computations
from onnxgather.core.model.network import read_network

X = info("x", FLOAT, ["n", 4])
ONE, MANY = constant("one", np.array([1])), constant("many", np.zeros(101, np.int64))


def on_cpu(
    nodes: Any, inputs: Any = (X,), constants: Any = (ONE, MANY), **more: Any
) -> set[str]:
    made = model(nodes, inputs, [nodes[-1].output[0]], constants, **more)
    network = read_network(made)
    ranges_of(network)
    return {found.outputs[0] for found in shape_computations(network)}


SHAPE = node("Shape", ["x"], "shape")


def test_what_follows_a_shape_stays_on_the_cpu() -> None:
    nodes = [
        SHAPE,
        node("Gather", ["shape", "one"], "n"),
        node("Mul", ["n", "one"], "m"),
    ]
    assert on_cpu(nodes) == {"n", "m"}
    assert on_cpu(
        nodes_of("""
            shape = Size (x)
            m = Mul (shape, one)
        """)
    ) == {"m"}


def test_a_graph_input_may_join_but_neither_data_nor_a_large_constant() -> None:
    ids = info("ids", INT64, ["k"])
    nodes = [
        SHAPE,
        node("Gather", ["shape", "ids"], "a"),
        node("Gather", ["shape", "many"], "b"),
        node("Neg", ["ids"], "data"),
        node("Gather", ["shape", "data"], "c"),
    ]
    assert on_cpu(nodes, [X, ids]) == {"a"}


def test_a_gather_of_data_is_none() -> None:
    assert on_cpu(nodes_of("rows = Gather (x, one)")) == set()


def test_some_operators_end_the_walk() -> None:
    for ending in ("Range", "Expand", "ConstantOfShape", "Reshape"):
        inputs = {"Range": ["n", "n", "n"], "ConstantOfShape": ["n"]}.get(
            ending, ["one", "n"]
        )
        nodes = [
            SHAPE,
            node("Gather", ["shape", "one"], "n"),
            node(ending, inputs, "made"),
            node("Neg", ["made"], "last"),
        ]
        assert on_cpu(nodes) == {"n"}


def test_halves_do_not_stay() -> None:
    half = node("Cast", ["shape"], "half", to=10)
    nodes = [SHAPE, half, node("Neg", ["half"], "last")]
    assert on_cpu(nodes) == {"half"}


def test_a_function_is_part_of_the_graph_that_calls_it() -> None:
    pick = function("Pick", ["s", "w"], nodes_of("picked = Gather (s, w)"))
    nodes = [
        SHAPE,
        node("Pick", ["shape", "one"], "n", domain="own"),
        node("Neg", ["n"], "last"),
        node("Pick", ["x", "one"], "rows", "other", domain="own"),
    ]
    assert on_cpu(nodes, functions=[pick]) == {"picked", "last"}
    assert on_cpu(nodes[3:], functions=[pick]) == set()


def test_a_body_starts_anew() -> None:
    then = graph(nodes_of("y = Gather (shape, one)"), (), ["y"])
    inside = nodes_of("""
        own = Shape (x)
        z = Gather (own, one)
    """)
    other = graph(inside, (), ["z"])
    only = node("If", ["on"], "out", then_branch=then, else_branch=other)
    assert on_cpu([SHAPE, only], [X, info("on", 9, [])]) == {"z"}
