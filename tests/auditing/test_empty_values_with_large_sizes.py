"""A size of 0 beside sizes whose product no number holds: the value is empty, and its
gathers are audited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import outcome
from onnx import TensorProto
from onnx_graphs import FLOAT, INT64, constant, info, model, node, nodes_of

import onnxgather as og
from onnxgather.auditing.graph_audit import EMPTY

SIZES = [2, 0, 2**60]


def _empty(name: str, sizes: Any, data_type: int = INT64) -> TensorProto:
    return TensorProto(name=name, data_type=data_type, dims=sizes)


X = info("x", FLOAT, [4, 3])
GATHER = node("Gather", ["x", "i"], "y")
SHAPE = constant("shape", np.array(SIZES))
PADS = constant("pads", np.array([0, 0, 0, 0, 0, 2**60 - 4]))

INDICES: dict[str, onnx.ModelProto] = {
    "initializer": model([GATHER], [X], ["y"], [_empty("i", SIZES)]),
    "INT4": model(
        [node("Cast", ["four"], "i", to=INT64), GATHER],
        [X],
        ["y"],
        [_empty("four", SIZES, TensorProto.INT4)],
    ),
    "Constant": model(
        [node("Constant", [], "i", value=_empty("i", SIZES)), GATHER], [X], ["y"]
    ),
    "ConstantOfShape": model(
        [
            node("ConstantOfShape", ["shape"], "i", value=constant("v", np.array([0]))),
            GATHER,
        ],
        [X],
        ["y"],
        [SHAPE],
    ),
    "Expand": model(
        [node("Expand", ["one", "shape"], "i"), GATHER],
        [X],
        ["y"],
        [SHAPE, constant("one", np.array([[[1]]]))],
    ),
    "Reshape": model(
        [node("Reshape", ["none", "shape"], "i", allowzero=1), GATHER],
        [X],
        ["y"],
        [SHAPE, _empty("none", [0])],
    ),
    "Pad": model(
        [node("Pad", ["none", "pads"], "i"), GATHER],
        [X],
        ["y"],
        [PADS, _empty("none", [2, 0, 4])],
    ),
    "input": model([GATHER], [X, info("i", INT64, SIZES)], ["y"]),
}
"""Models that gather with such a value as indices, by what makes the value."""

# The first opset with the type.
INDICES["INT4"].opset_import[0].version = 21


@pytest.mark.parametrize("made", INDICES.values(), ids=INDICES)
def test_no_index_is_out_of_range(made: onnx.ModelProto) -> None:
    (gather,) = og.audit(made).gathers
    assert gather.range.state == "proved"
    assert gather.range.why == EMPTY
    assert gather.indices.sizes == tuple(SIZES)
    assert og.harden(made).graph == made.graph


@pytest.mark.parametrize("is_constant", [False, True])
def test_the_data_may_be_such_a_value(is_constant: bool) -> None:
    inputs = [info("i", INT64, [2])]
    constants: list[TensorProto] = []
    if is_constant:
        constants.append(_empty("x", SIZES, FLOAT))
    else:
        inputs.append(info("x", FLOAT, SIZES))
    (gather,) = og.audit(model([GATHER], inputs, ["y"], constants)).gathers
    assert gather.range.state == "proved-if"
    (condition,) = gather.range.conditions
    assert str(condition) == "each value of i is from -2 to 1"


@pytest.mark.parametrize("command", ["convert", "show"])
def test_there_is_no_descriptor_of_an_empty_value(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.onnx").write_bytes(INDICES["initializer"].SerializeToString())
    sentence = f"Error: m.onnx: node 'y': {EMPTY}\n"
    assert outcome(command, "m.onnx") == (1, "", sentence)


def test_a_size_beyond_the_numbers_of_sizes_is_not_known() -> None:
    # ONNX's inference of the next operator takes no such size.
    nodes = nodes_of("""
        long = Reshape (x, flat)
        y = Gather (long, i)
    """)
    inputs = [info("x", FLOAT, [2**63 - 1, 2]), info("i", INT64, [1])]
    flat = constant("flat", np.array([-1]))
    (gather,) = og.audit(model(nodes, inputs, ["y"], [flat])).gathers
    assert gather.data.sizes == (None,)
    assert gather.range.state == "not-proved"
