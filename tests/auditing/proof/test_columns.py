"""A condition on the difference of two columns is a premise where a graph subtracts
them row by row, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_graphs import INT64, constant, info, model, node, nodes_of

import onnxgather as og
from onnxgather.auditing.proof.contract import Condition

CONSTANTS = [
    constant("table", np.zeros((8, 3), np.float32)),
    constant("zero", 0),
    constant("one", 1),
    constant("three", 3),
    constant("minus one", -1),
    *(constant(f"[{n}]", np.array([n])) for n in (0, 1, 2, 3, 4)),
]
GATHERED = nodes_of("""
    a = Gather <axis = 2> (box, three)
    b = Gather <axis = -1> (box, one)
""")
SUB = nodes_of("i = Sub (a, b)")
WIDER = TensorProto.INT64
NARROWER = TensorProto.INT16


def apart(low: int | None = 0, high: int | None = 7, *columns: int) -> Condition:
    return Condition(
        of="difference", input="box", columns=columns or (3, 1), low=low, high=high
    )


def state_of(nodes: Any, condition: Condition, data_type: int = INT64) -> str:
    """The state of a gather of 8 rows at i, where a condition holds of box[n, 5, 4]."""
    gather = node("Gather", ["table", "i"], "y", "gather")
    made = model(
        [*nodes, gather], [info("box", data_type, ["n", 5, 4])], ["y"], CONSTANTS
    )
    contract = og.audit(made, levels=()).contract
    plain = {name: getattr(condition, name) for name in condition.__struct_fields__}
    given = contract | {"conditions": [plain]}
    states = {
        gather.node: gather.range.state
        for gather in og.audit(made, assume=given, levels=()).gathers
    }
    return states["gather"]


@pytest.mark.parametrize(
    "nodes",
    [
        [*GATHERED, *SUB],
        [
            node("Slice", ["box", "[3]", "[4]", "[2]"], "a"),
            node("Slice", ["box", "[1]", "[2]", "[2]"], "b"),
            *SUB,
        ],
        nodes_of("""
            parts = Split <axis = 2> (box)
            i = Sub (p3, p1)
        """),
        [
            node("Identity", ["box"], "c"),
            node("Gather", ["c", "minus one"], "last", axis=2),
            node("Gather", ["c", "one"], "b", axis=2),
            node("Unsqueeze", ["last", "[0]"], "u"),
            node("Squeeze", ["u", "[0]"], "a"),
            *SUB,
        ],
    ],
)
def test_a_difference_is_taken_from_the_columns(nodes: Any) -> None:
    for each in nodes:
        if each.op_type == "Split":
            each.output[:] = [f"p{n}" for n in range(4)]
    assert state_of(nodes, apart()) == "proved"
    assert state_of(nodes, apart(-8, 7)) == "proved"
    assert state_of(nodes, apart(-9, 7)) != "proved"
    # An integer without an end may be beyond INT64, where it wraps around.
    assert state_of(nodes, apart(None, 7)) != "proved"
    assert state_of(nodes, apart(0, 7, 1, 3)) != "proved"


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (
            [
                node("Gather", ["box", "three"], "a", axis=2),
                node("Gather", ["box", "one"], "c", axis=2),
                node("Transpose", ["c"], "b", perm=[1, 0]),
                *SUB,
            ],
            "other rows",
        ),
        (
            [
                *GATHERED,
                node("Unsqueeze", ["a", "[0]"], "c"),
                node("Unsqueeze", ["b", "[1]"], "d"),
                node("Sub", ["c", "d"], "i"),
            ],
            "rows that broadcast",
        ),
        (
            [
                node("Gather", ["box", "three"], "a", axis=1),
                node("Gather", ["box", "one"], "b", axis=1),
                *SUB,
            ],
            "another axis",
        ),
        (
            [*GATHERED, node("Neg", ["a"], "c"), node("Sub", ["c", "b"], "i")],
            "another operator",
        ),
        (
            [
                *GATHERED,
                node("Cast", ["a"], "c", to=NARROWER),
                node("Cast", ["b"], "d", to=NARROWER),
                node("Sub", ["c", "d"], "e"),
                node("Cast", ["e"], "i", to=WIDER),
            ],
            "numbers that wrap around",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_difference_of_rows_has_no_ends(nodes: Any, why: str) -> None:
    assert state_of(nodes, apart()) != "proved", why


def test_integers_that_grow_wider_keep_the_difference() -> None:
    nodes = [
        *GATHERED,
        node("Cast", ["a"], "c", to=WIDER),
        node("Cast", ["b"], "d", to=WIDER),
        node("Sub", ["c", "d"], "i"),
    ]
    assert state_of(nodes, apart(), TensorProto.INT32) == "proved"


def test_a_difference_beyond_its_type_says_nothing() -> None:
    """Of INT8, 100 - -100 is -56."""
    assert state_of([*GATHERED, *SUB], apart(0, 7), TensorProto.INT32) == "proved"
    nodes = [
        *GATHERED,
        node("Sub", ["a", "b"], "c"),
        node("Div", ["c", "c"], "d"),
        node("Cast", ["d"], "i", to=WIDER),
    ]
    beyond = apart(2**31, 2**31 + 5)
    assert state_of(nodes, beyond, TensorProto.INT32) != "out-of-range"
    assert state_of(nodes, beyond, TensorProto.INT32) != "proved"
