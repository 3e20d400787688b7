"""Models whose gathers no proof holds for: each has inputs with which an index leaves
its axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import session
from onnx import helper, parser
from rings import one_quick_in

import onnxgather as og

INT64 = onnx.TensorProto.INT64
HEAD = '<ir_version: 9, opset_import: ["" : 21, "ai.onnx.ml" : 3]>'

ALL_OF_P = """
    s = Shape<start = 1>(p)  n = Squeeze(s)  r = Range(zero, n, one)  y = Gather<axis = 1>(p, r)
"""  # noqa: E501

CONSTANTS = """
    int64 zero = {0}, int64 one = {1}, int64 four = {4}, int64 big = {562949953421312},
    int64 k = {256}, int64 far = {16777216}, int64[1] axes = {0}, int64[1] ones = {1},
    int64[1] twos = {2}, int64[1] fours = {4}, int64[2] rows = {2, -1}, int64[2] five = {1, 5},
    float[2] scales = {1.0, 1.0}, float[1] d = {0.0}, float[2] e = {0.0, 0.0}
"""  # noqa: E501


def model(inputs: str, nodes: str, **declared: Any) -> onnx.ModelProto:
    """Return a model of text, which declares sizes of INT64 values."""
    made = parser.parse_model(f"{HEAD} g ({inputs}) => (y) <{CONSTANTS}> {{ {nodes} }}")
    for name, sizes in declared.items():
        made.graph.value_info.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.INT64, sizes)
        )
    return made


def out_of_range(made: onnx.ModelProto, **inputs: Any) -> set[int]:
    """Return the levels of optimization, of 0 and 3, with which an index is out of
    range."""
    failed = set[int]()
    for level in (0, 3):
        try:
            session(made, level).run(None, inputs)
        except Exception as error:  # ONNX Runtime has its own
            assert "out of data bounds" in str(error)  # noqa: PT017
            failed.add(level)
    return failed


NON_ZERO, FLOATS = "p0 = NonZero(x)", "float[N] x"
FOUR = {"x": np.ones(4, np.float32)}
TWO = {"x": np.ones(2, np.float32)}

MODELS: dict[str, tuple[onnx.ModelProto, dict[str, Any], set[int]]] = {
    "a size that may be 0 is no element that NonZero counts": (
        model(
            FLOATS,
            NON_ZERO
            + """ s = Shape(p0)  c = Gather(s, ones)  z = NonZero(c)  zs = Shape(z)
            zn = Gather(zs, ones)  i = Sub(one, zn)  y = Gather(d, i)""",
        ),
        {"x": np.zeros(2, np.float32)},
        {0, 3},
    ),
    "half of a size that is declared otherwise": (
        model(
            FLOATS,
            NON_ZERO + " p, q = Split<axis = 1, num_outputs = 2>(p0)" + ALL_OF_P,
            p0=[1, 8],
        ),
        FOUR,
        {3},
    ),
    "a Reshape of a size that is declared otherwise": (
        model(FLOATS, NON_ZERO + " p = Reshape(p0, rows)" + ALL_OF_P, p0=[1, 8]),
        FOUR,
        {3},
    ),
    "a Slice of a size that is declared otherwise": (
        model(
            FLOATS,
            NON_ZERO + " p = Slice(p0, ones, fours, ones, twos)" + ALL_OF_P,
            p0=[1, 8],
        ),
        TWO,
        {3},
    ),
    "an Expand that does nothing to declared sizes is left out": (
        model(
            FLOATS,
            NON_ZERO + " p = Expand(p0, five)  y = Gather<axis = 1>(p, four)",
            p0=[1, 5],
        ),
        {"x": np.ones(1, np.float32)},
        {3},
    ),
    "a size of a tensor without elements may be any INT64": (
        model(
            "float[N] x, int64 n",
            """z = Sub(one, one)  u = Unsqueeze(n, axes)
            v = Unsqueeze(z, axes)  w = Concat<axis = 0>(u, v)  t = ConstantOfShape(w)
            s = Shape<end = 1>(t)  i = Div(s, big)  y = Gather(e, i)""",
        ),
        {"x": np.ones(1, np.float32), "n": np.array(2**60)},
        {0, 3},
    ),
    "the pads that a pool leaves out count in its Shape": (
        model(
            "float[1, 5] x",
            """p0 = Unsqueeze(x, axes)  p1 = AveragePool<kernel_shape = [2], auto_pad = "VALID",
            pads = [1, 1]>(p0)  p = Squeeze(p1, axes)"""  # noqa: E501
            + ALL_OF_P,
        ),
        {"x": np.ones((1, 5), np.float32)},
        {3},
    ),
    "a Resize computes sizes as FLOAT": (
        model(
            "int8[16777217, 1] x",
            'p = Resize<mode = "nearest">(x, , scales)  y = Gather(p, far)',
        ),
        {"x": np.zeros((2**24 + 1, 1), np.int8)},
        {0, 3},
    ),
    "an input without elements may have large sizes": (
        model(
            "float[A, B, 0] x",
            """a = Shape<start = 0, end = 1>(x)  b = Shape<start = 1, end = 2>(x)  p = Mul(a, b)
            q = Mul(p, k)  c = Cast<to = 9>(q)  n = Cast<to = 7>(c)  i = Sub(one, n)
            y = Gather(d, i)""",  # noqa: E501
        ),
        {"x": np.zeros((2**28, 2**28, 0), np.float32)},
        {0, 3},
    ),
}


@pytest.mark.parametrize("name", one_quick_in(3, MODELS))
def test_an_index_that_leaves_its_axis_is_not_proved(name: str) -> None:
    made, inputs, failed = MODELS[name]
    audited = og.audit(made)
    is_proved = audited.gathers[-1].range.state == "proved"
    # What a level alone does is in its graph.
    assert not (is_proved and 0 in failed)
    assert bool(audited.graph_gathers) == is_proved
    og.check_inputs(audited.contract, inputs)
    assert out_of_range(made, **inputs) == failed


def loop(iteration: str, going: str, size_of: str, expected: int) -> onnx.ModelProto:
    """Return a Loop that gathers by the expected number of elements, less the one there
    is."""
    return parser.parse_model(f"""{HEAD} g () => (y)
    <int64 times = {{2}}, bool[5] many = {{1, 1, 1, 1, 1}}, int64[1] d = {{0}},
     int64 expected = {{{expected}}}> {{
        y = Loop (times, "") <
            body = body (int64{iteration} it, bool{going} going) => (still, o) {{
                still = Identity (many)
                n = Size ({size_of})
                i = Sub (expected, n)
                o = Gather (d, i)
            }} >
    }}""")


@pytest.mark.parametrize(
    "made",
    [
        loop("[7]", "", "it", 7),
        loop("", "[5]", "going", 5),
        loop("", "", "going", 1),
    ],
    ids=[
        "the iteration is 1 number",
        "so is what goes on first",
        "later it is of any sizes",
    ],
)
def test_the_sizes_that_a_loop_declares_for_its_iteration_are_not_believed(
    made: onnx.ModelProto,
) -> None:
    (gather,) = og.audit(made, levels=()).gathers
    assert gather.range.state in ("not-proved", "out-of-range")
    (gather,) = og.audit(made).gathers
    assert gather.range.state in ("not-proved", "out-of-range")
    assert out_of_range(made) == {0, 3}


@pytest.mark.parametrize(
    ("data_type", "ends"),
    [("int32", np.iinfo(np.int32)), ("int64", np.iinfo(np.int64))],
)
def test_a_range_whose_span_its_data_type_does_not_hold_may_have_elements(
    data_type: str, ends: Any
) -> None:
    """ONNX Runtime 1.24.4 makes one element of it, the greatest number."""
    text = (
        f"{data_type} a = {{{ends.max}}}, {data_type} b = {{{ends.min}}}, {data_type} c"
        " = {1}"
    )
    graph = (
        f"g () => (y) <{text}, float[3] t = {{1, 2, 3}}> {{ r = Range(a, b, c) y ="
        " Gather(t, r) }"
    )
    (gather,) = og.audit(parser.parse_model(f"{HEAD} {graph}")).gathers
    assert (gather.range.state, gather.indices.sizes) == ("not-proved", (None,))


@pytest.mark.parametrize(
    "node", ["Expand(x, sizes)", "ConstantOfShape(sizes)", "Tile(x, sizes)"]
)
def test_a_size_below_0_is_not_known(node: str) -> None:
    nodes = f"p = {node} y = Shape(p) z = Gather(p, sizes)"
    graph = f"g (float[1] x) => (y) <int64[1] sizes = {{-1}}> {{ {nodes} }}"
    (gather,) = og.audit(parser.parse_model(f"{HEAD} {graph}")).gathers
    assert (gather.range.state, gather.data.sizes) == ("not-proved", (None,))
