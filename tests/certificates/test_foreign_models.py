"""Models that onnxgather did not make: one that fails is never proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import onnxgather as og
from onnxgather.certificates.certify import certify

pytest.importorskip("z3")

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [5]),
    og.TensorDesc("INT64", [3]),
    og.TensorDesc("FLOAT32", [3]),
    axis=0,
    index_dimensions=1,
)
LAST = "near = Clip(IndicesTensor, low, high)\n OutputTensor = Gather(InputTensor, near)"


def made(nodes: str, constants: str = "", opset: int = 17, more: str = "") -> onnx.ModelProto:
    """A model of other nodes beside a right gather."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>\n'
    text += "g (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)\n"
    text += f"<int64 low = {{-5}}, int64 high = {{4}}{constants and ', ' + constants}>\n"
    return onnx.parser.parse_model(f"{text} {{ {nodes}\n {LAST} }} {more}")


def test_the_gather_beside_is_proved() -> None:
    assert certify(DESC, model=made("")).state == "proved"


FAILING = [
    ("a = ConstantOfShape(s)", "int64 s = {3}"),
    ("a = Expand(o, s)", "int64[1] o = {1}, int64[1] s = {-1}"),
    ("a = Reshape(low, s)", "int64[1, 1] s = {1}"),
    ("a = Unsqueeze(low, s)", "int64[1, 1] s = {0}"),
    ("a = Slice(IndicesTensor, s, e)", "int64[1, 1] s = {0}, int64[1, 1] e = {2}"),
]


@pytest.mark.parametrize(("nodes", "constants"), FAILING)
def test_a_node_that_always_fails_is_refuted_though_nothing_uses_it(
    nodes: str, constants: str
) -> None:
    found = certify(DESC, model=made(nodes, constants))
    assert found.counterexample
    assert (found.state, found.counterexample.found) == ("refuted", "an error")


@pytest.mark.parametrize(
    ("nodes", "divisor"),
    [("a = Div(IndicesTensor, z)", 0), ("a = Mod(IndicesTensor, z)", 0)],
)
def test_a_division_that_may_stop_the_process_is_undecided_though_nothing_uses_it(
    nodes: str, divisor: int
) -> None:
    found = certify(DESC, model=made(nodes, f"int64 z = {{{divisor}}}"))
    assert found.why == "a division that may stop the process"


def test_a_call_that_leaves_out_an_input_is_undecided() -> None:
    """Its other inputs are those at their own places."""
    body = '<domain: "own", opset_import: ["" : 17]> f (p, q, r) => (y) { y = Clip(p, q, r) }'
    model = made("near2 = own.f(IndicesTensor, , low)", more=body)
    assert certify(DESC, model=model).why == "a call of a function that leaves an input out"


def test_a_broadcast_before_its_opset_is_not_proved() -> None:
    text = """<ir_version: 8, opset_import: ["" : 7]>
    g (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)
    <float low = {-5}, float high = {4}> {
        f = Cast<to = 1>(IndicesTensor)
        a = Max(f, low)
        b = Min(a, high)
        c = Cast<to = 7>(b)
        OutputTensor = Gather(InputTensor, c)
    }"""
    model = onnx.parser.parse_model(text)
    assert certify(DESC, model=model).state == "refuted"
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"InputTensor": np.ones(5, np.float32), "IndicesTensor": np.arange(3)}
    with pytest.raises(Exception, match="Max node"):
        session.run(None, feeds)
