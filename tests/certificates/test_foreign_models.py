"""Models that onnxgather did not make: one that fails is never proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from onnx import TensorProto, helper

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


def test_an_initializer_that_a_caller_may_replace_is_not_known() -> None:
    model = made("")
    model.graph.input.append(helper.make_tensor_value_info("high", TensorProto.INT64, []))
    assert certify(DESC, model=model).why == "the value high is not known"


def test_a_squeeze_without_axes_is_undecided() -> None:
    """The CPU provider takes an empty list of axes for all axes of size 1."""
    model = made("a = Squeeze(IndicesTensor, none)", "int64[0] none = {}")
    why = "a Squeeze of no axes, of which the CPU provider makes one of all"
    assert certify(DESC, model=model).why == why


def test_a_declared_size_that_is_false_is_undecided() -> None:
    """ONNX Runtime believes it: here it would make a constant of the sizes of `a`."""
    nodes = "shape = Shape(IndicesTensor)\n a = Reshape(IndicesTensor, shape)\n b = Shape(a)"
    model = made(nodes)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "N"
    assert certify(DESC, model=model).state == "proved"
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.INT64, [2]))
    assert certify(DESC, model=model).why == "the value a, of which other sizes are declared"
    model.graph.value_info[0].type.tensor_type.shape.dim[0].dim_param = "M"
    assert certify(DESC, model=model).state == "proved"


def test_a_body_hides_the_names_of_the_graph_around_it() -> None:
    """Its initializer `c` is -1, and the `c` around it is 0, so that the indices move."""
    scan = "moved = Scan<num_scan_inputs = 1, body = b (int64 one) => (int64 two)"
    scan += "<int64 c = {-1}> { two = Add(one, c) }>(close)"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)
    <int64 low = {{-5}}, int64 high = {{4}}, int64 zero = {{0}}> {{
        c = Identity(zero)
        close = Clip(IndicesTensor, low, high)
        {scan}
        OutputTensor = Gather(InputTensor, moved)
    }}"""
    assert certify(DESC, model=onnx.parser.parse_model(text)).state == "refuted"
    right = text.replace("c = {-1}", "c = {0}").replace("zero = {0}", "zero = {1}")
    assert certify(DESC, model=onnx.parser.parse_model(right)).state == "proved"


def test_a_model_of_other_types_than_declared_is_undecided() -> None:
    model = made("a = Identity(low)")
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, []))
    assert certify(DESC, model=model).why.startswith("ONNX refuses the model: ")


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
