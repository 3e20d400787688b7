"""A condition on the difference of two columns is a premise where a graph subtracts
them row by row, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.proof.contract import Condition

CONSTANTS = """
int64 zero = {0}, int64 one = {1}, int64 three = {3}, int64 minus_one = {-1},
int64[1] at_0 = {0}, int64[1] at_1 = {1}, int64[1] at_2 = {2}, int64[1] at_3 = {3},
int64[1] at_4 = {4}
"""
TABLE = constant("table", np.zeros((8, 3), np.float32))
GATHERED = """
    a = Gather <axis = 2> (box, three)
    b = Gather <axis = -1> (box, one)
"""
SUB = "i = Sub (a, b)"
WIDER, NARROWER = TensorProto.INT64, TensorProto.INT16


def apart(low: int | None = 0, high: int | None = 7, *columns: int) -> Condition:
    return Condition(
        of="difference", input="box", columns=columns or (3, 1), low=low, high=high
    )


def state_of(nodes: str, condition: Condition, data_type: str = "int64") -> str:
    """The state of a gather of 8 rows at i, where a condition holds of box[n, 5, 4]."""
    made = written(
        f"({data_type}[n, 5, 4] box) => (y) <{CONSTANTS}>"
        f" {{ {nodes} [gather] y = Gather (table, i) }}",
        TABLE,
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
        GATHERED + SUB,
        f"""
        a = Slice (box, at_3, at_4, at_2)
        b = Slice (box, at_1, at_2, at_2)
        {SUB}
        """,
        "p0, p1, p2, p3 = Split <axis = 2> (box)  i = Sub (p3, p1)",
        f"""
        c = Identity (box)
        last = Gather <axis = 2> (c, minus_one)
        b = Gather <axis = 2> (c, one)
        u = Unsqueeze (last, at_0)
        a = Squeeze (u, at_0)
        {SUB}
        """,
    ],
)
def test_a_difference_is_taken_from_the_columns(nodes: str) -> None:
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
            f"""
            a = Gather <axis = 2> (box, three)
            c = Gather <axis = 2> (box, one)
            b = Transpose <perm = [1, 0]> (c)
            {SUB}
            """,
            "other rows",
        ),
        (
            f"""
            {GATHERED}
            c = Unsqueeze (a, at_0)
            d = Unsqueeze (b, at_1)
            i = Sub (c, d)
            """,
            "rows that broadcast",
        ),
        (
            f"""
            a = Gather <axis = 1> (box, three)
            b = Gather <axis = 1> (box, one)
            {SUB}
            """,
            "another axis",
        ),
        (GATHERED + "c = Neg (a)  i = Sub (c, b)", "another operator"),
        (
            f"""
            {GATHERED}
            c = Cast <to = {NARROWER}> (a)
            d = Cast <to = {NARROWER}> (b)
            e = Sub (c, d)
            i = Cast <to = {WIDER}> (e)
            """,
            "numbers that wrap around",
        ),
    ],
    ids=lambda value: value if " = " not in value else "",
)
def test_what_is_no_difference_of_rows_has_no_ends(nodes: str, why: str) -> None:
    assert state_of(nodes, apart()) != "proved", why


def test_integers_that_grow_wider_keep_the_difference() -> None:
    nodes = f"""
    {GATHERED}
    c = Cast <to = {WIDER}> (a)
    d = Cast <to = {WIDER}> (b)
    i = Sub (c, d)
    """
    assert state_of(nodes, apart(), "int32") == "proved"


def test_a_difference_beyond_its_type_says_nothing() -> None:
    """Of INT8, 100 - -100 is -56."""
    assert state_of(GATHERED + SUB, apart(0, 7), "int32") == "proved"
    nodes = f"""
    {GATHERED}
    c = Sub (a, b)
    d = Div (c, c)
    i = Cast <to = {WIDER}> (d)
    """
    beyond = apart(2**31, 2**31 + 5)
    assert state_of(nodes, beyond, "int32") not in ("out-of-range", "proved")
