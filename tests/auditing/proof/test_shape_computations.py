"""Which nodes ONNX Runtime leaves on the CPU, as they compute shapes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_graphs import constant, function, nodes_of, written

from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.auditing.proof.shape_computations import shape_computations
from onnxgather.core.model.network import read_network

MANY = constant("many", np.zeros(101, np.int64))
PICK = function("Pick", ["s", "w"], nodes_of("picked = Gather (s, w)"))


def on_cpu(nodes: str, inputs: str = "float[n, 4] x") -> set[str]:
    text = f"({inputs}) => () <int64[1] one = {{1}}> {{ {nodes} }}"
    made = written(text, MANY, functions=[PICK])
    made.graph.output.add(name=made.graph.node[-1].output[0])
    network = read_network(made)
    ranges_of(network)
    return {found.outputs[0] for found in shape_computations(network)}


SHAPE = "shape = Shape (x)  "
FIRST = "n = Gather (shape, one)  "


def test_what_follows_a_shape_stays_on_the_cpu() -> None:
    assert on_cpu(f"{SHAPE}{FIRST} m = Mul (n, one)") == {"n", "m"}
    assert on_cpu("shape = Size (x)  m = Mul (shape, one)") == {"m"}


def test_a_graph_input_may_join_but_neither_data_nor_a_large_constant() -> None:
    nodes = f"""
        {SHAPE}
        a = Gather (shape, ids)
        b = Gather (shape, many)
        data = Neg (ids)
        c = Gather (shape, data)
    """
    assert on_cpu(nodes, "float[n, 4] x, int64[k] ids") == {"a"}


def test_a_gather_of_data_is_none() -> None:
    assert on_cpu("rows = Gather (x, one)") == set()


@pytest.mark.parametrize(
    "ending",
    ["Range (n, n, n)", "Expand (one, n)", "ConstantOfShape (n)", "Reshape (one, n)"],
)
def test_some_operators_end_the_walk(ending: str) -> None:
    assert on_cpu(f"{SHAPE}{FIRST} made = {ending}  last = Neg (made)") == {"n"}


def test_halves_do_not_stay() -> None:
    nodes = "half = Cast <to = 10> (shape)  last = Neg (half)"
    assert on_cpu(SHAPE + nodes) == {"half"}


def test_a_function_is_part_of_the_graph_that_calls_it() -> None:
    other = "[other] rows = own.Pick (x, one)"
    nodes = f"n = own.Pick (shape, one)  last = Neg (n)  {other}"
    assert on_cpu(SHAPE + nodes) == {"picked", "last"}
    assert on_cpu(other) == set()


def test_a_body_starts_anew() -> None:
    nodes = f"""
        {SHAPE}
        out = If (on) <
            then_branch = g () => (y) {{ y = Gather (shape, one) }},
            else_branch = g () => (z) {{ own = Shape (x)  z = Gather (own, one) }} >
    """
    assert on_cpu(nodes, "float[n, 4] x, bool on") == {"z"}
