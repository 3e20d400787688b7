"""Models that onnxgather did not make: one that fails is never proved."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from messages import message_of, rows_of
from onnx import TensorProto, helper
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.proving.certify import certify

pytest.importorskip("z3")

DESC = descriptor("GATHER: FLOAT32 5, INT64 3, FLOAT32 3, 0, 1")
LAST = (
    "near = Clip(IndicesTensor, low, high)\n OutputTensor = Gather(InputTensor, near)"
)


def made(
    nodes: str, constants: str = "", opset: int = 17, more: str = ""
) -> onnx.ModelProto:
    """A model of other nodes beside a right gather."""
    text = f'<ir_version: 8, opset_import: ["" : {opset}, "own" : 1]>\n'
    text += (
        "g (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)\n"
    )
    text += (
        f"<int64 low = {{-5}}, int64 high = {{4}}{constants and ', ' + constants}>\n"
    )
    return onnx.parser.parse_model(f"{text} {{ {nodes}\n {LAST} }} {more}")


def why_of(model: onnx.ModelProto) -> str:
    """Why a model is not proved."""
    return certify(DESC, model=model).why


def state_of(model: onnx.ModelProto) -> str:
    """The state of the certificate of a model."""
    return certify(DESC, model=model).state


def declare(
    model: onnx.ModelProto, name: str, sizes: list[Any], kind: int = TensorProto.INT64
) -> None:
    """Declare type and sizes of a value of a model."""
    value = helper.make_tensor_value_info(name, kind, sizes)
    model.graph.value_info.append(value)


def test_the_gather_beside_is_proved() -> None:
    assert state_of(made("")) == "proved"


FROM_1_32 = (
    "ONNX Runtime is 1.32.0 or newer, because in older versions Min, Max and Clip of"
    " INT64 compare low halves as signed integers where the high ones are equal",
)
BEFORE_1_32 = (
    "Min, Max and Clip of INT64 compare low halves as signed integers where the high"
    " ones are equal, as in ONNX Runtime before 1.32.0",
)
"""Preconditions."""

SCANNED = """s = Scan<num_scan_inputs = 1, body = b (int64 one) => (int64 same)
    { same = Max(one, one) }>(IndicesTensor)"""

CLIPPED = [
    ("s = Max(IndicesTensor, IndicesTensor)", FROM_1_32, BEFORE_1_32),
    ("s = Min(IndicesTensor, IndicesTensor)", FROM_1_32, BEFORE_1_32),
    ("s = Clip(IndicesTensor)", FROM_1_32, BEFORE_1_32),
    (SCANNED, FROM_1_32, BEFORE_1_32),
    ("s = Identity(IndicesTensor)", (), ()),
    # What nothing uses may be as it likes.
    ("z = Max(IndicesTensor, low) s = Identity(IndicesTensor)", (), ()),
]


@pytest.mark.parametrize(("nodes", "newer", "older"), CLIPPED)
def test_a_certificate_names_the_version_that_it_needs(
    nodes: str, newer: tuple[str, ...], older: tuple[str, ...]
) -> None:
    model = made(nodes)
    del model.graph.node[-2]
    model.graph.node[-1].input[1] = "s"
    found = certify(DESC, "error", model=model)
    assert (found.state, found.preconditions) == ("proved", newer)
    found = certify(DESC, "error", model=model, low_halves=True)
    assert (found.state, found.preconditions) == ("proved", older)


def test_integers_of_32_bits_are_compared_alike_in_each_version() -> None:
    desc = descriptor("GATHER: FLOAT32 5, INT32 3, FLOAT32 3, 0, 1")
    model = made("w = Cast<to = 7>(IndicesTensor)")
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT32
    model.graph.node[-2].input[0] = "w"
    for low_halves in (False, True):
        assert str(certify(desc, model=model, low_halves=low_halves)) == "proved"


def test_what_is_not_proved_names_no_version() -> None:
    found = certify(DESC, "zero", model=made(""))
    assert (found.state, found.preconditions) == ("refuted", ())


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
    check_failing(made(nodes, constants))


def check_failing(model: onnx.ModelProto) -> None:
    """A model that fails when it runs is refuted, and never proved.

    ONNX Runtime 1.24.4 does not load some, and leaves out what nothing uses.
    """
    feeds = {
        "InputTensor": np.ones(5, np.float32),
        "IndicesTensor": np.zeros(3, np.int64),
    }
    found, fails = certify(DESC, model=model), False
    with contextlib.suppress(Exception):
        session: Any = onnxruntime.InferenceSession(model.SerializeToString())
        try:
            session.run(None, feeds)
        except Exception:
            fails = True
    assert fails or onnxruntime.__version__ == "1.24.4"
    assert found.state == ("refuted" if fails else "undecided")
    assert not found.counterexample or found.counterexample.found == "an error"


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
    body = (
        '<domain: "own", opset_import: ["" : 17]> f (p, q, r) => (y) { y = Clip(p, q,'
        " r) }"
    )
    model = made("near2 = own.f(IndicesTensor, , low)", more=body)
    assert why_of(model) == "a call of a function that leaves an input out"


def test_an_initializer_that_a_caller_may_replace_is_not_known() -> None:
    model = made("")
    model.graph.input.append(
        helper.make_tensor_value_info("high", TensorProto.INT64, [])
    )
    assert why_of(model) == "the value high is not known"


def test_a_squeeze_without_axes_is_undecided() -> None:
    """The CPU provider takes an empty list of axes for all axes of size 1."""
    model = made("a = Squeeze(IndicesTensor, none)", "int64[0] none = {}")
    why = "a Squeeze of no axes, of which the CPU provider makes one of all"
    assert why_of(model) == why


def test_a_declared_size_that_is_false_is_undecided() -> None:
    """ONNX Runtime believes it: here it would make a constant of the sizes of `a`."""
    nodes = (
        "shape = Shape(IndicesTensor)\n a = Reshape(IndicesTensor, shape)\n b ="
        " Shape(a)"
    )
    model = made(nodes)
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "N"
    assert state_of(model) == "proved"
    declare(model, "a", [2])
    assert why_of(model) == "the value a, of which other sizes are declared"
    model.graph.value_info[0].type.tensor_type.shape.dim[0].dim_param = "M"
    assert state_of(model) == "proved"


def test_two_sizes_of_one_name_are_undecided() -> None:
    """ONNX Runtime believes that they are one: it would make a Reshape to [0, -1] of a
    Reshape."""
    model = made("")
    for value, name in zip(model.graph.input, ("", "M"), strict=True):
        value.type.tensor_type.shape.dim[0].dim_param = name
    assert state_of(model) == "proved"
    for value, name in zip(model.graph.input, ("N", "M"), strict=True):
        value.type.tensor_type.shape.dim[0].dim_param = name
    assert state_of(model) == "proved"
    declare(model, "near", ["N"])
    assert why_of(model) == "the value near, of which other sizes are declared"
    del model.graph.value_info[:]
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "N"
    why = "the value IndicesTensor, of which other sizes are declared"
    assert why_of(model) == why


def test_a_body_hides_the_names_of_the_graph_around_it() -> None:
    """Its initializer `c` is -1, and the `c` around it is 0, so that the indices
    move."""
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
    assert state_of(onnx.parser.parse_model(text)) == "refuted"
    right = text.replace("c = {-1}", "c = {0}").replace("zero = {0}", "zero = {1}")
    assert state_of(onnx.parser.parse_model(right)) == "proved"


def test_a_model_of_other_types_than_declared_is_undecided() -> None:
    model = made("a = Identity(low)")
    declare(model, "a", [], TensorProto.FLOAT)
    assert why_of(model).startswith("ONNX refuses the model: ")


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
    assert state_of(model) == "refuted"
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"InputTensor": np.ones(5, np.float32), "IndicesTensor": np.arange(3)}
    with pytest.raises(Exception, match="Max node"):
        session.run(None, feeds)


def test_a_function_that_is_named_constant_is_walked() -> None:
    body = (
        '<domain: "own", opset_import: ["" : 17]> Constant (p, q) => (y) { y ='
        " Gather(p, q) }"
    )
    model = made("a = own.Constant(InputTensor, IndicesTensor)", more=body)
    assert state_of(model) != "proved"


def scan(body: str, constant: str, more: str = "") -> onnx.ModelProto:
    """A model with a Scan beside a right gather."""
    nodes = f"r = Scan<num_scan_inputs = 1{more}, body = b {body}>(s)"
    return made(nodes, f"{constant}, int64 zero = {{0}}, int64 one = {{1}}")


@pytest.mark.parametrize(
    ("body", "constant"),
    rows_of("""
(int64 c) => (int64[n] y) { y = Range(zero, c, one) }
int64[2] s = {1, 2}

(int64[1] c) => (int64[1] y) { t = ConstantOfShape(c) y = Shape(t) }
int64[2, 1] s = {1, -2}

(int64 c) => (int64 y) { y = Identity(c) }
int64[0] s = {}
"""),
)
def test_a_scan_that_fails_in_a_later_step_is_refuted(body: str, constant: str) -> None:
    check_failing(scan(body, constant))


@pytest.mark.parametrize("divisor", [0, -1])
def test_a_division_that_may_stop_the_process_is_not_run(divisor: int) -> None:
    body = "(int64 c) => (int64 y) { y = Div(least, c) }"
    model = scan(body, f"int64[2] s = {{1, {divisor}}}, int64 least = {{{-(2**63)}}}")
    assert why_of(model) == "a division that may stop the process"
    nodes = "a = Div(least, d) b = Nothing(a)"
    model = made(nodes, f"int64 least = {{{-(2**63)}}}, int64 d = {{{divisor}}}")
    assert state_of(model) == "undecided"


@pytest.mark.parametrize(
    "name", ["scan_input_directions", "scan_output_axes", "scan_input_axes"]
)
def test_a_scan_with_too_many_directions_or_axes_is_undecided(name: str) -> None:
    body = "(int64 c) => (int64 y) { y = Identity(c) }"
    for numbers in ("[0]", "[0, 0]"):
        model = scan(body, "int64[2] s = {1, 2}", f", {name} = {numbers}")
        assert (state_of(model) == "proved") is (numbers == "[0]")


@pytest.mark.parametrize(
    ("body", "nodes", "why"),
    [
        (
            "(p) => (p) { q = Identity(p) }",
            "a = own.f(IndicesTensor)",
            "a function whose output is one of its inputs",
        ),
        (
            "(p) => (q) { q = Identity(p) }",
            "a = own.f(IndicesTensor, low)",
            "a call of a function with more inputs or outputs than the function has",
        ),
        (
            "(p) => (q) { q = Identity(p) }",
            "a, b = own.f(IndicesTensor)",
            "a call of a function with more inputs or outputs than the function has",
        ),
    ],
)
def test_a_call_that_onnx_runtime_refuses_is_undecided(
    body: str, nodes: str, why: str
) -> None:
    model = made(nodes, more=f'<domain: "own", opset_import: ["" : 17]> f {body}')
    assert why_of(model) == why
    with pytest.raises(Exception, match="f"):
        onnxruntime.InferenceSession(model.SerializeToString())


def test_types_that_an_operator_lacks_are_undecided() -> None:
    assert why_of(made("a = Clip(t)", "bool t = {1}")) == "a Clip of bool"
    model = made("a = Cast<to = 1>(low)")
    model.graph.node[0].attribute[0].i = 0
    assert why_of(model) == "a Cast from int64 to another type"


def test_an_input_of_a_type_that_numpy_lacks_refutes_nothing() -> None:
    model = made("a = Identity(x)")
    model.graph.input.append(
        helper.make_tensor_value_info("x", TensorProto.STRING, [1])
    )
    assert why_of(model) == "the value x is not known"


def chain(links: str, count: int) -> onnx.ModelProto:
    """A model whose gather is right, behind so many links, one behind the other."""
    nodes = "\n".join(
        links.replace("K", str(k)).replace("N", str(k + 1)) for k in range(count)
    )
    start = "v0 = Identity(IndicesTensor) w0 = Neg(v0)"
    last = f"near = Clip(v{count}, low, high) OutputTensor = Gather(InputTensor, near)"
    return onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[5] InputTensor, int64[3] IndicesTensor) => (float[3] OutputTensor)
    <int64 low = {{-5}}, int64 high = {{4}}, int64 zero = {{0}}> {{ {start} {nodes} {last} }}"""  # noqa: E501
    )


@pytest.mark.slow
def test_a_long_chain_of_nodes_is_undecided() -> None:
    assert state_of(chain("vN = Add(vK, zero)", 20)) == "proved"
    found = certify(DESC, model=chain("vN = Add(vK, zero)", 1000))
    assert found.why == "a value that depends on too many others, one behind the other"


def test_terms_that_grow_without_end_end_with_the_time() -> None:
    model = chain("vN = Max(vK, wK) wN = Sub(vK, wK)", 30)
    assert certify(DESC, model=model, timeout=0.5).why == "the time is up"


def test_a_large_sum_is_undecided() -> None:
    nodes = "a = Range(zero, many, one) b = ReduceSum(a)"
    constants = "int64 zero = {0}, int64 one = {1}, int64 many = {5000}"
    why = "a ReduceSum of 5,000 elements"
    model = made(f"{nodes} c = Add(b, b)", constants)
    assert why_of(model) == why


@pytest.mark.parametrize(
    ("data_type", "stored", "most"),
    [(TensorProto.BOOL, 256, 1), (TensorProto.FLOAT16, 2**16, 65535)],
)
def test_a_number_that_onnx_and_onnx_runtime_read_otherwise_is_refused(
    data_type: TensorProto.DataType, stored: int, most: int
) -> None:
    """Of 256, ONNX Runtime makes true, and onnx false."""
    model = made("a = Identity(k)")
    model.graph.initializer.append(
        TensorProto(name="k", data_type=data_type, int32_data=[stored])
    )
    said = (
        "the model: what leads to 'k' cannot be read: int32_data must have numbers from"
        " 0 to "
    )
    assert message_of(og.OnnxGatherError, certify, DESC, model=model) == f"{said}{most}"
