"""A model with sequences is audited; nothing is known of what comes out of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import results, session
from onnx import helper
from onnx_graphs import BOOL, INT64, constant, info, node, nodes_of

import onnxgather as og
from onnxgather.auditing.output.text import lines
from onnxgather.auditing.proof.ranges import IndexRange, proof_of, ranges_of
from onnxgather.core.model.network import read_network

CONSTANTS = [
    constant("table", np.arange(8)),
    constant("zero", np.int64(0)),
    constant("three", np.int64(3)),
]


def listed(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    """Return a sequence of tensors; of any rank without sizes."""
    return helper.make_tensor_sequence_value_info(name, INT64, shape or None)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    declared: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, CONSTANTS, value_info=declared
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def loop() -> onnx.NodeProto:
    """Return a Loop that inserts into a sequence, and gathers at what it reads of
    it."""
    nodes = nodes_of("""
        after = SequenceInsert (state, counter)
        index = SequenceAt (after, counter)
        [inside] inside = Gather (table, index)
        kept = Identity (keep)
    """)
    inputs = [info("counter", INT64, []), info("keep", BOOL, []), listed("state")]
    outputs = [info("kept", BOOL, []), listed("after"), info("inside", INT64)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    given, made = ["three", "", "made"], ["grown", "rows"]
    return helper.make_node("Loop", given, made, name="loop", body=body)


def choice() -> onnx.NodeProto:
    """Return an If between two sequences."""
    branches: dict[str, onnx.GraphProto] = {}
    for branch, inputs in (("then", ["zero"]), ("else", ["zero", "three"])):
        inner = node("SequenceConstruct", inputs, branch, branch)
        branches[f"{branch}_branch"] = helper.make_graph(
            [inner], branch, [], [listed(branch)]
        )
    return node("If", ["condition"], "chosen", "choice", **branches)


NODES = [
    node("SequenceConstruct", ["zero", "zero"], "made", "made"),
    loop(),
    node("SequenceAt", ["grown", "zero"], "of_loop"),
    node("Gather", ["table", "of_loop"], "g1", "behind_loop"),
    choice(),
    node("SequenceAt", ["chosen", "zero"], "of_if"),
    node("Gather", ["table", "of_if"], "g2", "behind_if"),
    node("SequenceLength", ["given"], "length"),
    node("Gather", ["table", "length"], "g3", "behind_length"),
    node("SequenceAt", ["given", "zero"], "of_input"),
    node("Gather", ["of_input", "zero"], "g4", "of_an_input"),
    node("SplitToSequence", ["table"], "parts", "parts"),
    node("ConcatFromSequence", ["parts"], "whole", "whole", axis=0),
    node("Gather", ["whole", "zero"], "g5", "of_parts"),
    node("SequenceEmpty", [], "empty", "empty", dtype=INT64),
    node("SequenceInsert", ["empty", "zero"], "one", "one"),
    node("SequenceErase", ["one", "zero"], "less", "less"),
    node("SequenceLength", ["less"], "none", "none"),
    node("Gather", ["table", "none"], "g6", "behind_empty"),
    node("Identity", ["grown"], "out"),
    node("Gather", ["table", "zero"], "g7", "beside"),
]
INPUTS = [info("condition", BOOL, []), listed("given", 4)]
NAMES = ("g1", "g2", "g3", "g4", "g5", "g6", "g7")
OUTPUTS = [*(info(name, INT64) for name in NAMES), info("rows", INT64), listed("out")]

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
runtime       the file was audited by ONNX's specification alone
"""  # noqa: E501


def test_a_gather_behind_a_sequence_is_not_proved() -> None:
    declared = [listed("made", 3), listed("chosen", "K"), listed("parts", 8)]
    made = model_of(NODES, INPUTS, OUTPUTS, declared)
    feeds: dict[str, Any] = {"condition": np.array(True), "given": [np.arange(4)]}
    assert len(results(session(made, 3), feeds)["out"]) == 5
    assert (
        "\n".join(lines("m.onnx", og.audit(made, levels=()), every=True)) + "\n" == TEXT
    )


FROM_SEQUENCES = (
    *("made", "grown", "of_loop", "chosen", "of_if", "length", "of_input", "parts"),
    *("whole", "empty", "one", "less", "none", "out"),
)


@pytest.mark.parametrize("name", FROM_SEQUENCES)
def test_nothing_is_known_of_a_sequence_and_of_what_is_read_of_it(name: str) -> None:
    declared = [listed("made", 3), listed("chosen", "K"), listed("parts", 8)]
    network = read_network(model_of(NODES, INPUTS, OUTPUTS, declared))
    value = ranges_of(network).value(network.main, name)
    assert value.sizes is None
    assert not value.is_bounded


def test_the_names_of_sizes_that_are_declared_of_a_sequence_are_not_believed() -> None:
    nodes = nodes_of("""
        s = SequenceConstruct (x, x)
        taken = SequenceAt (s, zero)
        shape = Shape (taken)
        [last] last = Gather (shape, zero)
        [behind] y = Gather (x, last)
    """)
    x = info("x", INT64, ["N"])
    made = model_of(nodes, [x], [info("y", INT64)], [listed("s", 8)])
    network = read_network(made)
    found = ranges_of(network)
    assert found.value(network.main, "taken").sizes is None
    assert str(found.value(network.main, "shape").sizes) == "(?,)"
    behind = network.main.operations[-1]
    assert proof_of(found, network.main, behind).state == "not-proved"


def test_nothing_is_known_of_what_a_sequence_map_takes() -> None:
    inner = nodes_of("y = Gather (row, three)")
    row = info("row", INT64, [8])
    body = helper.make_graph(inner, "body", [row], [info("y", INT64)])
    nodes = [
        node("SequenceConstruct", ["x", "x"], "s"),
        node("SequenceMap", ["s"], "t", body=body),
    ]
    made = model_of(nodes, [info("x", INT64, ["N"])], [listed("t")])
    network = read_network(made)
    inside = network.main.operations[1].bodies["body"]
    proof = proof_of(ranges_of(network), inside, inside.operations[0])
    assert proof == IndexRange(
        "not-proved", (3,), (3,), (None,), "constant", input="the size of row"
    )
    with pytest.raises(Exception, match="indices element out of data bounds"):
        results(session(made, 0), {"x": np.arange(3)})
