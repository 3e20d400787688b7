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
from onnx_graphs import constant, written

import onnxgather as og
from onnxgather.auditing.graph_audit import EMPTY

SIZES = [2, 0, 2**60]


def _empty(name: str, sizes: Any, data_type: int = TensorProto.INT64) -> TensorProto:
    return TensorProto(name=name, data_type=data_type, dims=sizes)


SHAPE = constant("shape", np.array(SIZES))


def made(indices: str, *constants: TensorProto) -> onnx.ModelProto:
    """A model that gathers with a value of some node."""
    text = f"(float[4, 3] x) => (y) {{ {indices}  y = Gather (x, i) }}"
    return written(text, *constants)


INDICES: dict[str, onnx.ModelProto] = {
    "initializer": made("", _empty("i", SIZES)),
    "INT4": made("i = Cast <to = 7> (four)", _empty("four", SIZES, TensorProto.INT4)),
    "Constant": made("i = Constant ()"),
    "ConstantOfShape": made(
        "i = ConstantOfShape <value = int64[1] {0}> (shape)", SHAPE
    ),
    "Expand": made(
        "i = Expand (one, shape)", SHAPE, constant("one", np.array([[[1]]]))
    ),
    "Reshape": made(
        "i = Reshape <allowzero = 1> (none, shape)", SHAPE, _empty("none", [0])
    ),
    "Pad": made(
        "i = Pad (none, pads)",
        constant("pads", np.array([0, 0, 0, 0, 0, 2**60 - 4])),
        _empty("none", [2, 0, 4]),
    ),
    "input": written(f"(float[4, 3] x, int64{SIZES} i) => (y) {{ y = Gather (x, i) }}"),
}
"""Models that gather with such a value as indices, by what makes the value."""

INDICES["Constant"].graph.node[0].attribute.append(
    onnx.helper.make_attribute("value", _empty("i", SIZES))
)
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
    x = "" if is_constant else f", float{SIZES} x"
    text = f"(int64[2] i{x}) => (y) {{ y = Gather (x, i) }}"
    constants = [_empty("x", SIZES, TensorProto.FLOAT)] if is_constant else []
    (gather,) = og.audit(written(text, *constants)).gathers
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
    made = written("""
        (float[9223372036854775807, 2] x, int64[1] i) => (y)
        <int64[1] flat = {-1}>
        {
            long = Reshape (x, flat)
            y = Gather (long, i)
        }
    """)
    (gather,) = og.audit(made).gathers
    assert gather.data.sizes == (None,)
    assert gather.range.state == "not-proved"


def test_a_gather_of_no_elements_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "(int64[2, 2] i) => (y) { y = Gather (k, i) }"
    Path("m.onnx").write_bytes(written(text, _empty("k", SIZES)).SerializeToString())
    printed = "out.onnx no longer fails on a bad index; it returns zeros.\n"
    line = "harden m.onnx -o out.onnx --out-of-range zero"
    code, _, error = outcome(line)
    assert (code, error) == (0, printed)
