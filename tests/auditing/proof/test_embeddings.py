"""Gathers that ONNX Runtime makes a part of an EmbedLayerNormalization, which counts
nothing from the end of an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import Feeds, results, session
from onnx import helper
from onnx_graphs import constant, function, nodes_of, written
from rings import one_quick_in
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array

WORDS, WIDTH = 10, 8

RANDOM = np.random.default_rng(0)


def random(*sizes: int) -> Array:
    return RANDOM.standard_normal(sizes).astype(np.float32)


WEIGHTS = {
    "words": random(WORDS, WIDTH),
    "places": random(4, WIDTH),
    "segments": random(2, WIDTH),
    "scale": random(WIDTH),
    "bias": random(WIDTH),
    "weights": random(WIDTH, 3 * WIDTH),
    "more": random(3 * WIDTH),
    "positions": np.tile(np.arange(4), (2, 1)),
}


NORM = "norm = LayerNormalization (sum, scale, bias)"
LAST = f"""
    {NORM}
    y = com.microsoft.Attention <num_heads = 2> (norm, weights, more)
"""


def embedding(last: str = LAST, functions: Sequence[Any] = ()) -> onnx.ModelProto:
    """The sum of the rows of words, positions and segments, and what follows it."""
    gather = "own.Rows" if functions else "Gather"
    made = written(
        f"""
        (int64[2, 4] ids, int64[2, 4] parts) => (y)
        {{
            [word] word = {gather} (words, ids)
            [place] place = Gather (places, positions)
            [segment] segment = Gather (segments, parts)
            two = Add (word, place)
            sum = Add (two, segment)
            {last}
        }}
        """,
        *(constant(name, array) for name, array in WEIGHTS.items()),
        functions=functions,
    )
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made


IDS = {"ids": WORDS, "parts": 2}
"""The inputs, and how many rows there are for each."""


def filled(number: int) -> Feeds:
    return {name: np.full((2, 4), number) for name in IDS}


NEW = pytest.mark.skipif(
    IS_OLD, reason="1.24.4 fuses no LayerNormalization of opset 17 with its embedding"
)


@NEW
def test_onnx_runtime_counts_no_row_of_an_embedding_from_the_end() -> None:
    model = embedding()
    for level in (0, 1):
        assert results(session(model, level), filled(-1))
    for level in (2, 3):
        with pytest.raises(Exception, match="running EmbedLayerNormalization node"):
            results(session(model, level), filled(-1))


@NEW
def test_an_embedding_is_proved_for_indices_from_0() -> None:
    model = embedding()
    audited = og.audit(model)
    # The file counts a row from the end, and the graph that runs does not.
    (fused,) = audited.graph_gathers
    assert (fused.op, fused.state) == ("EmbedLayerNormalization", "proved-if")
    ranges = {"ids": (0, WORDS - 1), "parts": (0, 1)}
    from_0 = og.audit(model, ranges=ranges)
    assert from_0.verdict == "never"
    assert [graph.not_proved for graph in from_0.graphs] == [[]]
    for number, is_good in ((-1, False), (0, True), (1, True)):
        fed = filled(number)
        if is_good:
            og.check_inputs(from_0.contract, fed)
            for level in range(4):
                assert results(session(model, level), fed)
        else:
            with pytest.raises(
                og.OnnxGatherError, match="each value of ids is from 0 to 9"
            ):
                og.check_inputs(from_0.contract, fed)


@pytest.mark.parametrize("policy", one_quick_in(3, ["clamp", "zero", "index=1"]))
def test_a_hardened_embedding_fails_at_no_level_and_counts_from_the_end(
    policy: str,
) -> None:
    model = embedding()
    hard = og.harden(model, policy)
    assert {g.range.state for g in og.audit(hard).gathers} == {"proved"}
    for level in range(4):
        whole = session(hard, level)
        for number in (-(2**63), -WORDS - 1, 7, 2**63 - 1):
            assert results(whole, filled(number))
        for number in (-2, -1, 0, 1):
            fed = filled(number)
            wanted = results(session(model, min(level, 1)), fed)["y"]
            np.testing.assert_allclose(
                results(whole, fed)["y"], wanted, rtol=1e-4, atol=1e-5
            )
        assert results(session(hard, 0), fed)["y"].tobytes() == (
            results(session(model, 0), fed)["y"].tobytes()
        )


PARTS = "mean = ReduceMean <axes = [-1]> (sum)  y = Sub (sum, mean)"
IN_PARTS = f"{NORM}  queries = MatMul (norm, weights)  y = Add (norm, norm)"
NO_ATTENTION = f"{NORM}  y = MatMul (norm, weights)"
KEPT = """
    same = Dropout (sum)
    norm = LayerNormalization (same, scale, bias)
    norm2 = Identity (norm)
    y = com.microsoft.Attention <num_heads = 2> (norm2, weights, more)
"""


@NEW
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (LAST, True),
        (PARTS, False),
        (IN_PARTS, False),
        (KEPT, True),
        (NO_ATTENTION, False),
        ("y = Softmax (sum)", False),
    ],
)
def test_an_embedding_is_known_by_the_graph_that_runs(
    last: str, expected: bool
) -> None:
    audited = og.audit(embedding(last))
    fused = {row.op for row in audited.graph_gathers}
    assert fused == ({"EmbedLayerNormalization"} if expected else set())
    fails = False
    try:
        results(session(embedding(last), 3), filled(-1))
    except Exception as error:  # ONNX Runtime has its own
        fails = "input index out of range" in str(error)
    assert fails == expected


@NEW
def test_rows_that_leave_a_function_or_a_branch_may_become_an_embedding() -> None:
    rows = function("Rows", ["x", "i"], nodes_of("[row] row = Gather (x, i)"))
    model = embedding(functions=[rows])
    (fused,) = og.audit(model).graph_gathers
    assert fused.op == "EmbedLayerNormalization"
    with pytest.raises(Exception, match="input index out of range"):
        results(session(model, 3), filled(-1))
