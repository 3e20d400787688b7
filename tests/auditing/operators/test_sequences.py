"""A model with sequences is audited; nothing is known of what comes out of one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from network_draft import results, session
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.output.text import lines
from onnxgather.auditing.proof.index_range import IndexRange, proof_of
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.model.network import read_network

TABLE = constant("table", np.arange(8))
MODEL = written(
    """
    (bool condition, seq(int64[4]) given) => (
        int64[] g1, int64[] g2, int64[] g3, int64[] g4, int64[] g5, int64[] g6,
        int64[] g7, int64[] rows, seq(int64[]) out
    )
    <int64 zero = {0}, int64 three = {3},
     seq(int64[3]) made, seq(int64[K]) chosen, seq(int64[8]) parts>
    {
        [made] made = SequenceConstruct (zero, zero)
        [loop] grown, rows = Loop (three, "", made) <
            body = g (int64 counter, bool keep, seq(int64[]) state)
                => (bool kept, seq(int64[]) after, int64[] inside) {
                after = SequenceInsert (state, counter)
                index = SequenceAt (after, counter)
                [inside] inside = Gather (table, index)
                kept = Identity (keep)
            } >
        of_loop = SequenceAt (grown, zero)
        [behind_loop] g1 = Gather (table, of_loop)
        [choice] chosen = If (condition) <
            then_branch = g () => (seq(int64[]) then)
            { [then] then = SequenceConstruct (zero) },
            else_branch = g () => (seq(int64[]) else)
            { [else] else = SequenceConstruct (zero, three) } >
        of_if = SequenceAt (chosen, zero)
        [behind_if] g2 = Gather (table, of_if)
        length = SequenceLength (given)
        [behind_length] g3 = Gather (table, length)
        of_input = SequenceAt (given, zero)
        [of_an_input] g4 = Gather (of_input, zero)
        [parts] parts = SplitToSequence (table)
        [whole] whole = ConcatFromSequence <axis = 0> (parts)
        [of_parts] g5 = Gather (whole, zero)
        [empty] empty = SequenceEmpty <dtype = 7> ()
        [one] one = SequenceInsert (empty, zero)
        [less] less = SequenceErase (one, zero)
        [none] none = SequenceLength (less)
        [behind_empty] g6 = Gather (table, none)
        out = Identity (grown)
        [beside] g7 = Gather (table, zero)
    }
    """,
    TABLE,
)
"""The sizes that are declared of three sequences are wrong."""

TEXT = """\
m.onnx: perhaps a wrong input can leave an axis; 8 gathers and 5 other operators with indices: 12 not proved in range, 1 proved in range
not proved    1 operator with indices; the size is unknown behind after (SequenceInsert); `--inputs FILE.npz` may tell it:
    index (SequenceAt, body of loop): index 0..2
not proved    2 gathers, because of SequenceConstruct made:
    inside (Gather, body of loop): index unbounded; the axis has 8 elements
    behind_loop (Gather, main graph): index unbounded; the axis has 8 elements
not proved    1 operator with indices; the size is unknown behind made (SequenceConstruct); `--inputs FILE.npz` may tell it:
    of_loop (SequenceAt, main graph): index 0
not proved    1 operator with indices; the size is unknown behind choice (If); `--inputs FILE.npz` may tell it:
    of_if (SequenceAt, main graph): index 0
not proved    1 gather, because of SequenceConstruct then, SequenceConstruct else:
    behind_if (Gather, main graph): index unbounded; the axis has 8 elements
not proved    1 gather, because of given:
    behind_length (Gather, main graph): index unbounded; the axis has 8 elements
not proved    1 operator with indices, because of axes of unknown size:
    of_input (SequenceAt, main graph): index 0; the size of the axis is unknown
not proved    1 gather; the size is unknown behind of_input (SequenceAt); `--inputs FILE.npz` may tell it:
    of_an_input (Gather, main graph): index 0
not proved    1 gather; the size is unknown behind parts (SplitToSequence); `--inputs FILE.npz` may tell it:
    of_parts (Gather, main graph): index 0
not proved    1 operator with indices; the size is unknown behind empty (SequenceEmpty); `--inputs FILE.npz` may tell it:
    less (SequenceErase, main graph): index 0
not proved    1 gather, because of SequenceEmpty empty:
    behind_empty (Gather, main graph): index unbounded; the axis has 8 elements
proved        beside (Gather, main graph): 0 of 8, constant
runtime       the file was audited by ONNX's specification alone: no level is asked for
assumes       an input that has no dimension gets none, which ONNX Runtime does not check: condition
"""  # noqa: E501


def test_a_gather_behind_a_sequence_is_not_proved() -> None:
    feeds: dict[str, Any] = {"condition": np.array(True), "given": [np.arange(4)]}
    assert len(results(session(MODEL, 3), feeds)["out"]) == 5
    told = lines("m.onnx", og.audit(MODEL, levels=()), every=True)
    assert "\n".join(told) + "\n" == TEXT


FROM_SEQUENCES = (
    *("made", "grown", "of_loop", "chosen", "of_if", "length", "of_input", "parts"),
    *("whole", "empty", "one", "less", "none", "out"),
)


@pytest.mark.parametrize("name", FROM_SEQUENCES)
def test_nothing_is_known_of_a_sequence_and_of_what_is_read_of_it(name: str) -> None:
    network = read_network(MODEL)
    value = ranges_of(network).value(network.main, name)
    assert value.sizes is None
    assert not value.is_bounded


def test_the_names_of_sizes_that_are_declared_of_a_sequence_are_not_believed() -> None:
    made = written("""
        (int64[N] x) => (y)
        <int64 zero = {0}, seq(int64[8]) s>
        {
            s = SequenceConstruct (x, x)
            taken = SequenceAt (s, zero)
            shape = Shape (taken)
            [last] last = Gather (shape, zero)
            [behind] y = Gather (x, last)
        }
    """)
    network = read_network(made)
    found = ranges_of(network)
    assert found.value(network.main, "taken").sizes is None
    assert str(found.value(network.main, "shape").sizes) == "(?,)"
    behind = network.main.operations[-1]
    assert proof_of(found, network.main, behind).state == "not-proved"


def test_nothing_is_known_of_what_a_sequence_map_takes() -> None:
    made = written("""
        (int64[N] x) => (seq(int64[]) t)
        <int64 three = {3}>
        {
            s = SequenceConstruct (x, x)
            t = SequenceMap (s) <
                body = g (int64[8] row) => (int64[] y) { y = Gather (row, three) } >
        }
    """)
    network = read_network(made)
    inside = network.main.operations[1].bodies["body"]
    proof = proof_of(ranges_of(network), inside, inside.operations[0])
    assert proof == IndexRange(
        "not-proved", (3,), (3,), (None,), "constant", input="the size of row"
    )
    with pytest.raises(Exception, match="indices element out of data bounds"):
        results(session(made, 0), {"x": np.arange(3)})
