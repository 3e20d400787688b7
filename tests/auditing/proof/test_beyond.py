"""Indices that each run takes beyond their axis, and indices that some run does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import session
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.output.text import lines
from onnxgather.auditing.proof.index_range import IndexRange, Reached

TABLE = constant("table", np.zeros((6, 4), np.float32))


def model(nodes: str, inputs: str = "float[2, 7] x", outputs: str = "y") -> Any:
    """Return a model of nodes that gather in a table of 6 rows."""
    return written(
        f"""
        ({inputs}) => ({outputs})
        <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 five = {{5}},
         int64 seven = {{7}},
         int64[1] all = {{-1}}, int64[1] ones = {{1}}, int64[1] threes = {{3}},
         int64[1] fives = {{5}}, int64[1] sevens = {{7}}, bool true = {{1}},
         float[4] zeros = {{0, 0, 0, 0}}>
        {{ {nodes} }}
        """,
        TABLE,
    )


def index_range(made: onnx.ModelProto, **more: Any) -> IndexRange:
    """Return the range of the last gather of a model."""
    return og.audit(made, levels=(), **more).gathers[-1].range


def fails(made: onnx.ModelProto, **inputs: Any) -> bool:
    """Return whether an index leaves its axis in a run on ONNX Runtime."""
    try:
        session(made).run(None, inputs)
    except Exception as error:  # ONNX Runtime has its own
        assert "out of data bounds" in str(error) or "invalid index" in str(error)  # noqa: PT017
        return True
    return False


def loop(body: str, count: str = "seven", condition: str = "true") -> str:
    """Return a loop whose body gathers, from the number of its iteration `i`."""
    return f"""
        y = Loop ({count}, {condition}, zeros) <body = body
        (int64 i, bool c, float[4] a) => (bool d, float[4] b) {{ {body} }}>
    """


EACH = {
    # Bounds of an element say it.
    "s = Shape (open)  y = Gather (table, s)": Reached("each run", 0, None),
    "s = Shape (open)  t = Slice (s, ones, threes)  y = Gather (table, t)": (
        Reached("each run", 0, 9)
    ),
    "s = Shape (open)  y = Gather (open, s)": Reached("each run", 0, None),
    "s = Shape (open)  t = Neg (s)  y = Gather (table, t)": Reached(
        "each run", 0, None
    ),
    "s = Shape (open)  t = Add (s, five)  y = Gather (table, t)": (
        Reached("each run", 0, None)
    ),
    "s = Shape (x)  t = Unsqueeze (s, ones)  y = GatherND (table, t)": (
        Reached("each run", 0, 7)
    ),
    "s = Shape (open)  i = Unsqueeze (s, five0)  y = GatherND (high, i)": (
        Reached("each run", 1, 9)
    ),
    # All positions are there, or many of them.
    "v, i = TopK (x, sevens)  y = Gather (table, i)": Reached("each run", 0, 6),
    "v, i = TopK (wide, sevens)  y = Gather (table, i)": Reached("each run", 0, 6),
    "v, i = TopK <axis = 0, largest = 0, sorted = 0> (tall, sevens)"
    "  j = Transpose (i)  k = Reshape (j, all)  y = Gather (table, k)": (
        Reached("each run", 0, 6)
    ),
    # The last iteration of a loop.
    loop("d = Identity (c)  r = Gather (table, i)  b = Add (a, r)"): (
        Reached("each run", 0, 6)
    ),
    loop(
        "d = Identity (c)  k = Add (i, one)  r = Gather (table, k)  b = Add (a, r)"
    ).replace("seven", "six"): Reached("each run", 0, 6),
    loop(
        "d = Identity (true)  k = Sub (zero, i)  m = Reshape (k, all)"
        "  q = Sub (m, ones)  r = Gather (table, q)  p = Squeeze (r, five0)"
        "  b = Add (a, p)"
    ): Reached("each run", 0, -7),
}
"""Nodes, and what each run reaches."""

FEEDS: dict[str, Any] = {
    "numbers": np.zeros((2, 7), np.int64),
    "some": np.zeros(1, np.float32),
    "low": np.zeros((8, 20), np.float32),
    "high": np.zeros((20, 8), np.float32),
    "x": np.zeros((2, 7), np.float32),
    "open": np.zeros((2, 9), np.float32),
    "wide": np.zeros((2, 30), np.float32),
    "tall": np.zeros((7, 2), np.float32),
}
INPUTS = (
    "float[2, 7] x, float[b, 9] open, float[2, w] wide, float[7, t] tall,"
    " int64[2, 7] numbers, float[k] some, float[8, 20] low, float[20, 8] high"
)
MORE = "six = Sub (seven, one)  five0 = Sub (ones, ones)  nine = Add (seven, two)  "


@pytest.mark.parametrize("nodes", EACH)
def test_an_index_that_leaves_its_axis_in_each_run_is_out_of_range(nodes: str) -> None:
    made = model(MORE + nodes, INPUTS)
    found = index_range(made)
    assert (found.state, found.reached) == ("out-of-range", EACH[nodes])
    assert og.audit(made, levels=()).verdict == "can-leave"
    assert fails(made, **FEEDS)


@pytest.mark.parametrize(
    ("nodes", "feeds"),
    [
        # Six of nine positions may be the first six.
        ("k = Sub (sevens, ones)  v, i = TopK (wide, k)  y = Gather (table, i)", {}),
        # The elements are no positions.
        (
            "m = Max (numbers, zero)  v, i = TopK (m, sevens)  y = Gather (table, v)",
            {},
        ),
        # Each index would be out of range, but there may be none.
        ("n = NonZero (x)  i = Add (n, seven)  y = Gather (table, i)", {}),
        # Another number of the tuple is beyond the axis.
        (
            "s = Shape (open)  i = Unsqueeze (s, zero0)  y = GatherND (low, i)",
            {},
        ),
        # The tuple may have one number.
        (
            "s = Shape (some)  t = Concat <axis = 0> (ones, s)"
            "  f = ConstantOfShape (t)  c = Cast <to = 7> (f)  i = Add (c, nine)"
            "  y = GatherND (high, i)",
            {},
        ),
        # The loop may end before its last iteration.
        (
            "g = ReduceMax <keepdims = 0> (x)  e = Greater (g, zero1)"
            + loop("d = Identity (e)  r = Gather (table, i)  b = Add (a, r)"),
            {},
        ),
        # The branch is not there in the last iteration.
        (
            loop(
                "d = Identity (c)  small = Less (i, five)"
                "  r = If (small) <then_branch = then () => (t)"
                " { t = Gather (table, i) },"
                " else_branch = else () => (e) { e = Identity (zeros) }>"
                "  b = Add (a, r)"
            ),
            {},
        ),
        # The loop has five iterations at least.
        (
            "s = Size (x)  n = Min (s, five)"
            + loop("d = Identity (c)  r = Gather (table, i)  b = Add (a, r)", "n"),
            {},
        ),
    ],
)
def test_an_index_that_some_run_keeps_in_its_axis_is_not_out_of_range(
    nodes: str, feeds: dict[str, Any]
) -> None:
    more = MORE + "zero0 = Sub (ones, ones)  zero1 = Cast <to = 1> (zero)  "
    made = model(more + nodes, INPUTS)
    assert index_range(made).state in ("not-proved", "proved-if", "proved")
    assert not fails(made, **(FEEDS | feeds))


SOME = {
    "i = ArgMax <axis = -1> (x)  y = Gather (table, i)": Reached("some run", 0, 6),
    "t = Transpose (x)  i = ArgMin <keepdims = 0> (t)  j = Cast <to = 6> (i)"
    "  y = Gather (table, j)": Reached("some run", 0, 6),
    "i = ArgMax <axis = 1> (x)  j = Add (i, five)  y = Gather (table, j)": (
        Reached("some run", 0, 11)
    ),
    "v, i = TopK (x, threes)  y = Gather (table, i)": Reached("some run", 0, 6),
    "v, i = TopK <sorted = 0> (x, ones)  j = Add (i, ones)  k = Neg (j)"
    "  y = Gather (table, k)": Reached("some run", 0, -7),
}
"""Nodes, and what some run reaches."""


@pytest.mark.parametrize("nodes", SOME)
def test_an_index_that_some_input_takes_beyond_its_axis_is_named(nodes: str) -> None:
    made = model(nodes)
    found = index_range(made)
    assert (found.state, found.reached) == ("not-proved", SOME[nodes])
    audit = og.audit(made, levels=())
    assert (audit.verdict, audit.gathers[-1].verdict) == ("can-leave", "can-leave")
    rising = np.arange(14, dtype=np.float32).reshape(2, 7)
    assert {fails(made, x=x) for x in (rising, -rising)} == {True, False}


@pytest.mark.parametrize(
    ("nodes", "more"),
    [
        # Elements that a node computes may have an order of their own.
        ("z = MatMul (x, w)  i = ArgMax <axis = 1> (z)  y = Gather (table, i)", {}),
        ("z = Mul (x, x)  i = ArgMax <axis = 1> (z)  y = Gather (table, i)", {}),
        # So may those of a range that is given.
        ("i = ArgMax <axis = 1> (x)  y = Gather (table, i)", {"ranges": {"x": (0, 1)}}),
        # A branch may not run.
        (
            "g = ReduceMax <keepdims = 0> (x)  e = Cast <to = 9> (g)"
            "  i = ArgMax <axis = 1> (x)"
            "  y = If (e) <then_branch = then () => (t) { t = Gather (table, i) },"
            " else_branch = else () => (u) { u = Identity (zeros) }>",
            {},
        ),
        # The state of a loop is no input of the model.
        (
            "m = Mul (x, x)  l, y = Loop (one, true, m) <body = body"
            " (int64 i, bool c, float[2, 7] a)"
            " => (bool d, float[2, 7] b, float[2, 4] t)"
            " { d = Identity (c)  b = Identity (a)"
            "  p = ArgMax <axis = 1, keepdims = 0> (a)  t = Gather (table, p) }>",
            {},
        ),
        # The limit of the positions is in range.
        (
            "i = ArgMax <axis = 1> (x)  j = Min (i, five)  y = Gather (table, j)",
            {},
        ),
    ],
)
def test_no_run_is_named_if_it_is_not_sure(nodes: str, more: dict[str, Any]) -> None:
    made = model(nodes, "float[2, 7] x, float[7, 7] w")
    assert index_range(made, **more).reached is None


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (
            "v, i = TopK (x, sevens)  y = Gather (table, i)",
            "OUT OF RANGE  y (Gather, main graph): 0..6 of 6; each run that reaches it"
            " has an index of 6 or more",
        ),
        (
            "s = Shape (open)  t = Neg (s)  y = Gather (table, t)",
            "OUT OF RANGE  y (Gather, main graph): index unbounded; the axis has 6"
            " elements; each run that reaches it has an index out of range",
        ),
        (
            "s = Shape (x)  t = Neg (s)  y = Gather (table, t)",
            "OUT OF RANGE  y (Gather, main graph): -7..-2 of 6; each run that reaches"
            " it has an index of -7 or less",
        ),
        (
            "i = ArgMax <axis = 1> (x)  y = Gather (table, i)",
            "    y (Gather, main graph): 0..6 of 6; some inputs lead to an index of 6"
            " or more",
        ),
    ],
)
def test_the_text_says_what_runs_reach(nodes: str, text: str) -> None:
    audit = og.audit(model(nodes, INPUTS), levels=())
    assert text in list(lines("m", audit))
