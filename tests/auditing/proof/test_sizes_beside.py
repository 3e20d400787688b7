"""The sizes beside the axis of a gather have to fit: ONNX Runtime refuses others, or
reads what is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from messages import message_of
from network_draft import Feeds, results, session
from onnx import parser
from onnx_graphs import BOOL, constant, function, graph, info, node, nodes_of, written
from rings import one_quick_in
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import hardened
from onnxgather.auditing.output.text import NamedPaths, lines, next_lines
from onnxgather.auditing.proof.contract_python import guard
from onnxgather.auditing.proof.index_range import Lost
from onnxgather.auditing.records import AuditedGather
from onnxgather.core.model.network import read_network

LENGTHS = range(1, 4)
"""The numbers that open sizes are in runs."""

CASES = """
float[n, 6] x, int64[m, 2] i: m is at most n
    y = GatherElements <axis = 1> (x, i)
float[2, 6] x, int64[m, 2] i: size 0 of i (m) is at most 2
    y = GatherElements <axis = -1> (x, i)
float[4, n, k] x, int64[2, m, k] i: m is at most n
    y = GatherElements (x, i)
float[n, 3, k] x, int64[2, 3, k] i: size 0 of x (n) is at least 2
    y = GatherElements <axis = -2> (x, i)
float[n, 6] x, int64[n, m] i:
    y = GatherElements <axis = 1> (x, i)
float[6] x, int64[m] i:
    y = GatherElements (x, i)

float[n, 5] x, int64[m, 3, 1] i: m is n
    y = GatherND <batch_dims = 1> (x, i)
float[n, k, 5] x, int64[n, m, 1] i: m is k
    y = GatherND <batch_dims = 2> (x, i)
float[2, 5] x, int64[m, 3, 1] i: size 0 of i (m) is 2
    y = GatherND <batch_dims = 1> (x, i)
float[n, 5] x, int64[3, 2, 1] i: size 0 of x (n) is 3
    y = GatherND <batch_dims = 1> (x, i)
float[n, 5, 2] x, int64[n, k] i: size 1 of i (k) is at most 2
    y = GatherND <batch_dims = 1> (x, i)
float[n, 5] x, int64[m, 1] i:
    y = GatherND (x, i)

float[n, 6] x, int64[m, 2] i, float[m, 2] u: m is at most n
    y = ScatterElements <axis = 1> (x, i, u)
float[n, 6] x, int64[n, 2] i, float[m, 2] u: m is n
    y = ScatterElements <axis = 1> (x, i, u)
float[2, 6] x, int64[2, n] i, float[2, m] u: m is n
    y = ScatterElements <axis = -1> (x, i, u)
float[6, n] x, int64[2, n] i, float[m, n] u: size 0 of u (m) is 2
    y = ScatterElements (x, i, u)
float[6, n] x, int64[m, n] i, float[m, n] u:
    y = ScatterElements (x, i, u)

float[9, 4] x, int64[n, 1] i, float[m, 4] u: m is n
    y = ScatterND (x, i, u)
float[9, 3] x, int64[2, 1] i, float[2, m] u: size 1 of u (m) is 3
    y = ScatterND (x, i, u)
float[9, n] x, int64[2, 1] i, float[2, m] u: m is n
    y = ScatterND (x, i, u)
float[9, 4] x, int64[n, 2] i, float[m] u: m is n
    y = ScatterND (x, i, u)
float[9, n] x, int64[m, 1] i, float[m, n] u:
    y = ScatterND (x, i, u)

float[1, 1, n, 2] x, int64[1, 1, m, 2] i: m is n
    y = MaxUnpool <kernel_shape = [9, 9]> (x, i)
float[1, 1, 2, n] x, int64[1, 1, 2, 3] i: size 3 of x (n) is 3
    y = MaxUnpool <kernel_shape = [9, 9]> (x, i)
float[1, 2, 4, 4] x, float[n, 4] b, int64[m] i: m is n
    y = RoiAlign (x, b, i)
float[1, 2, 4, 4] x, float[3, 4] b, int64[m] i: size 0 of i (m) is 3
    y = RoiAlign (x, b, i)
float[1, 2, 4, 4] x, float[n, 4] b, int32[m] i: m is n
    y = com.microsoft.CropAndResize (x, b, i, two)
float[4, n, 2] x, int64[m] i: m is n
    y = ReverseSequence (x, i)
float[n, 4, 2] x, int64[m] i: m is n
    y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, i)
int64[n, 5] i, float[m, 9] x: n is m
    y = com.microsoft.NGramRepeatBlock <ngram_size = 2> (i, x)
float[4, n, 1] x, int32[m] i: m is n
    a, y = RNN <hidden_size = 1> (x, w, w, , i)
float[4, n, 1] x, int32[m] i: m is n
    a, y = GRU <hidden_size = 1> (x, w3, w3, , i)
float[4, n, 1] x, int32[m] i: m is n
    a, y = LSTM <hidden_size = 1> (x, w4, w4, , i)
float[n, 5, 2] x, int64[m, 2] i: m is n
    y = NegativeLogLikelihoodLoss (x, i)
float[2, 5, n] x, int64[2, m] i: m is n
    y = SoftmaxCrossEntropyLoss (x, i)
float[n, 5] x, int64[m] i: m is n
    y = SoftmaxCrossEntropyLoss (x, i)

int32[n, 2] i, int32[m, 2] s: m is n
    y, a = com.microsoft.EmbedLayerNormalization (i, s, t, t, t, r, r)
int32[2, n] i, int32[2, m] s: m is n
    y, a = com.microsoft.EmbedLayerNormalization (i, s, t, t, t, r, r, , i)
int32[2, n] i, int32[2, m] p: m is n
    y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
int32[n, 2] i, int32[1, 2] p:
    y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
float[n, 2, 8] x, int64[m, 2] i: m is n
    y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, i, c, c)
float[2, 2, n, 4] x, int64[2, m] i: m is n
    y = com.microsoft.RotaryEmbedding (x, i, c, c)
int32[n, 2] i, int32[m, 2] s: m is n
    y, a = com.microsoft.QEmbedLayerNormalization
        (i, s, q, q, q, g, g, , f, f, f, f, f, z, z, z, z, z)
float[2, 1, 4] x, float[2, 1, 3, 4] p, int32[2, 1, n] i: size 2 of i (n) is 3
    y, a, b = com.microsoft.MultiHeadAttention
        <num_heads = 1> (x, x, x, , , , p, p, past, i)
float[2, 1, 4] x, float[2, 1, 3, 4] p, int32[1, 2, n] i: size 2 of i (n) is 3
    y, a, b = com.microsoft.DecoderMaskedMultiHeadAttention
        <num_heads = 1, past_present_share_buffer = 1>
        (x, x, x, , , p, p, past, beams, i)
float[n, 2, 8] x, int64[1] i:
    y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, i, c, c)
float[4, n, 1] x, int32[m] i: m is n
    a, y = com.microsoft.DynamicQuantizeLSTM <hidden_size = 1>
        (x, q4, q4, , i, , , , f1, z1, f1, z1)
float[4, n, 1] x, int32[m] i, float[k, 2, 1] memory: m is n and k is n
    a, y = com.microsoft.AttnLSTM <hidden_size = 1>
        (x, w5, w4, , i, , , , w, w, w2, memory)
float[4, n, 1] x, float[k, 2, 1] memory, int32[m] i: k is n and m is n
    a, y = com.microsoft.AttnLSTM <hidden_size = 1>
        (x, w5, w4, , , , , , w, w, w2, memory, i)
"""
"""Inputs and the conditions on sizes, and the node."""

NEWER_CASES = """
float[2, n, 8] x, int64[2, m] i: m is n
    y = RotaryEmbedding <num_heads = 2> (x, c, c, i)
float[n, 2, 8] x, int64[m, 2] i: m is n
    y = RotaryEmbedding <num_heads = 2> (x, c, c, i)
float[n, 1, 2, 4] h, float[n, 1, 6, 4] x, int64[m] i: m is n
    y = Attention (h, x, x, , , , i)
float[n, 1, 32] h, float[n, 1, 16] x, float[n, 1, 9, 16] p, int32[m] i: m is n
    y, a, b = com.microsoft.GroupQueryAttention
        <num_heads = 2, kv_num_heads = 1> (h, x, x, p, p, i, total)
float[n, 2, 8] x, int64[3, m, 2] i: m is n
    y = com.microsoft.MRotaryEmbedding
        <num_heads = 2, mrope_section = [1, 1, 0]> (x, i, c, c)
float[2, 2, n, 4] x, int64[3, 2, m] i: m is n
    y = com.microsoft.MRotaryEmbedding <mrope_section = [1, 1, 0]> (x, i, c, c)
float[2, 2, 8] x, int64[n, 2, 2] i: size 0 of i (n) is 3
    y = com.microsoft.MRotaryEmbedding
        <num_heads = 2, mrope_section = [1, 1, 0]> (x, i, c, c)
float[2, 1, 32] h, float[2, 1, 16] x, float[2, 1, 9, 16] p, int32[2] i, float[9, 8] s,
    int64[n, 1] j: size 0 of j (n) is 2
    y, a, b = com.microsoft.GroupQueryAttention
        <num_heads = 2, kv_num_heads = 1, do_rotary = 1>
        (h, x, x, p, p, i, total, s, s, j)
float[n, 6, 4] x, float[n, 2, 4] u, int64[m] i: m is n
    y = TensorScatter (x, u, i)
float[2, 6, n] x, float[2, 2, m] u, int64[2] i: m is n
    y = TensorScatter (x, u, i)
"""

CONSTANTS = """
uint8[4, 2] q = {0, 0, 0, 0, 0, 0, 0, 0}, uint8[2] g = {0, 0}, float f = {1},
uint8 z = {0},
int32 total = {1}, int32[1] past = {1}, int32[1] beams = {2}, int32[2] two = {2, 2},
float[4, 2] t = {0, 0, 0, 0, 0, 0, 0, 0}, float[2] r = {0, 0},
float[1] f1 = {1}, uint8[1] z1 = {0}, uint8[1, 1, 4] q4 = {0, 0, 0, 0},
int32[2] lengths = {0, 0}, float[1, 1] w2 = {1},
float[1, 4, 2] w5 = {1, 1, 1, 1, 1, 1, 1, 1},
float[1, 1, 1] w = {1}, float[1, 3, 1] w3 = {1, 1, 1}, float[1, 4, 1] w4 = {1, 1, 1, 1},
float[4, 2] c = {1, 1, 1, 1, 1, 1, 1, 1}, int64[1, 2, 1] one_row = {0, 0},
int64[1] at_0 = {0}, int64[1] far = {9999}, int64[1] by_2 = {2}
"""


def model_of(inputs: str, nodes: str, opset: int = 17) -> onnx.ModelProto:
    """A model in ONNX's textual syntax, with the constants."""
    header = f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]>'
    # The size of an output is not declared.
    made = parser.parse_model(
        f"{header} g ({inputs}) => (float[] y) <{CONSTANTS}> {{ {nodes} }}"
    )
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def rows(table: str) -> list[Any]:
    made: list[Any] = []
    for inputs, wanted, nodes in re.findall(r"(\S[^:]*):(.*)((?:\n +.*)+)", table):
        nodes = " ".join(nodes.split())
        row_id = f"{nodes} of {inputs}"
        made.append(pytest.param(inputs, nodes, wanted.strip(), id=row_id))
    return made


def only(
    model: onnx.ModelProto, levels: Sequence[str] = (), **more: Any
) -> AuditedGather:
    (gather,) = og.audit(model, levels=levels, **more).gathers
    return gather


def asked(gather: AuditedGather) -> str:
    """The conditions on sizes, each of which must be exact."""
    conditions = [each for each in gather.range.conditions if not each.is_of_elements]
    assert all(each.exact for each in conditions)
    return " and ".join(map(str, conditions))


def feeds_of(model: onnx.ModelProto) -> Iterator[Feeds]:
    """Inputs of all shapes, whose indices are in range."""
    # The lengths of an AttnLSTM are at least 1.
    index = int(model.graph.node[0].op_type == "AttnLSTM")
    types = {each.name: each.type.tensor_type for each in model.graph.input}
    dims = {name: [*each.shape.dim] for name, each in types.items()}
    open_names = sorted(
        {dim.dim_param for each in dims.values() for dim in each} - {""}
    )
    for numbers in product(LENGTHS, repeat=len(open_names)):
        sizes = dict(zip(open_names, numbers, strict=True))
        feeds: Feeds = {}
        for name, each in types.items():
            shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in dims[name]]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(each.elem_type)
            feeds[name] = np.full(shape, index, dtype)
        yield feeds


def runs(model: onnx.ModelProto, whole: Any, feeds: Feeds) -> bool:
    """Whether ONNX Runtime runs a model with inputs that ONNX allows."""
    (node,) = model.graph.node
    shapes = [feeds[name].shape if name in feeds else () for name in node.input]
    # ONNX Runtime reads other rows where it should refuse these.
    if node.op_type == "GatherND":
        count = sum(each.i for each in node.attribute if each.name == "batch_dims")
        if shapes[0][:count] != shapes[1][:count]:
            return False
    if node.op_type.endswith("Loss") and shapes[1] != shapes[0][:1] + shapes[0][2:]:
        return False
    try:
        results(whole, feeds)
    except Exception:
        return False
    return True


@pytest.mark.parametrize(("inputs", "nodes", "wanted"), rows(CASES))
def test_sizes_beside_the_axis_are_conditions(
    inputs: str, nodes: str, wanted: str
) -> None:
    gather = only(model_of(inputs, nodes))
    assert (gather.range.state, asked(gather)) == ("proved-if", wanted)


@pytest.mark.parametrize(("inputs", "nodes", "wanted"), rows(NEWER_CASES))
def test_sizes_of_newer_operators_are_conditions(
    inputs: str, nodes: str, wanted: str
) -> None:
    gather = only(model_of(inputs, nodes, 24))
    assert (gather.range.state, asked(gather)) == ("proved-if", wanted)


@pytest.mark.parametrize(
    ("inputs", "nodes", "wanted"),
    one_quick_in(3, [*rows(CASES), *([] if IS_OLD else rows(NEWER_CASES))]),
)
def test_three_checks_accept_the_shapes_that_run(
    inputs: str, nodes: str, wanted: str
) -> None:
    is_newer = any(inputs in row.values for row in rows(NEWER_CASES))
    model = model_of(inputs, nodes, 24 if is_newer else 17)
    contract = og.audit(model, levels=()).contract
    whole, guarding = session(model), session(og.contract_model(contract, model))
    printed = dict[str, Any]()
    exec(guard(contract), printed)
    answers = set[bool]()
    for feeds in feeds_of(model):
        accepted = True
        try:
            og.check_inputs(contract, feeds)
        except og.OnnxGatherError:
            accepted = False
        answers.add(accepted)
        assert accepted == runs(model, whole, feeds), feeds
        assert accepted == bool(results(guarding, feeds)["ok"])
        if accepted:
            assert printed["check"](feeds) is feeds
        else:
            with pytest.raises(ValueError, match="must meet"):
                printed["check"](feeds)
    assert answers == ({True, False} if wanted else {True})


BROKEN = """
float[2, 6] x, int64[3, 2] i
y = GatherElements <axis = 1> (x, i)
size 0 of i must be at most size 0 of x, got 3 and 2

float[4, 2, n] x, int64[4, 5, 3] i
y = GatherElements <axis = -3> (x, i)
size 1 of i must be at most size 1 of x, got 5 and 2

float[n, 2] x, int64[n, 4] i
j = Concat <axis = 0> (i, i) y = GatherElements <axis = 1> (x, j)
size 0 of j must be at most size 0 of x, got 2*n and n

float[2, 5] x, int64[4, 1] i
y = GatherND <batch_dims = 1> (x, i)
size 0 of i must be size 0 of x, got 4 and 2

float[5, 2] x, int64[5, 2] i, float[5, 3] u
y = ScatterElements (x, i, u)
size 1 of u must be size 1 of i, got 3 and 2

float[5, 2] x, int64[3, 1] i, float[4, 2] u
y = ScatterND (x, i, u)
size 0 of u must be size 0 of i, got 4 and 3

float[n, 2] x, int64[n, 1] i, float[n, 3] u
y = ScatterND (x, i, u)
size 1 of u must be size 1 of x, got 3 and 2

int32[2, 3] i, int32[2, 4] s
y, a = com.microsoft.EmbedLayerNormalization (i, s, t, t, t, r, r)
size 1 of s must be size 1 of i, got 4 and 3

int32[3, 2] i, int32[3, 4] p
y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
size 1 of p must be size 1 of i, got 4 and 2

float[4, 3, 2] x, int64[2] i
y = ReverseSequence (x, i)
size 0 of i must be size 1 of x, got 2 and 3

float[2, 2, 3, 4] x, int64[2, 2] i
y = com.microsoft.RotaryEmbedding (x, i, c, c)
size 1 of i must be size 2 of x, got 2 and 3
"""


@pytest.mark.parametrize("row", BROKEN.strip().split("\n\n"))
def test_sizes_that_never_fit_make_a_node_invalid(row: str) -> None:
    inputs, nodes, rule = row.split("\n")
    model = model_of(inputs, nodes)
    found = only(model)
    assert (found.range.state, found.range.why) == ("invalid", rule)
    assert (found.verdict, found.refused) == ("invalid", None)
    # ONNX Runtime does not open the model, or fails with each shape.
    try:
        whole = session(model)
    except Exception:
        return
    if found.op == "GatherND":  # which it runs where it should not
        return
    for feeds in feeds_of(model):
        with pytest.raises(Exception, match=r"INVALID_ARGUMENT|FAIL"):
            results(whole, feeds)


ANCHORS = """
(float[batch, 9, 8] logits) => (y)
<int64[1] k = {3}, int64[1] last = {2}, int64[3] repeats = {1, 1, 4}>
{
    score = ReduceMax <axes = [2], keepdims = 0> (logits)
    best, ids = TopK <axis = 1> (score, k)
    column = Unsqueeze (ids, last)
    columns = Tile (column, repeats)
    y = GatherElements <axis = 1> (anchors, columns)
}
"""


def anchors() -> onnx.ModelProto:
    """A constant of one image, read by positions of each image of a batch."""
    return written(ANCHORS, constant("anchors", np.zeros((1, 9, 4), np.float32)))


def test_a_batch_beside_a_constant_of_one_row_is_a_condition() -> None:
    found = only(anchors())
    assert (found.range.state, found.verdict) == ("proved-if", "can-leave")
    assert asked(found) == "size 0 of logits (batch) is at most 1"
    audit = og.audit(anchors(), levels=())
    assert [*lines("m", audit)][1] == (
        "proved if     y (GatherElements, main graph): size 0 of logits (batch) is at"
        " most 1"
    )
    # In a branch, too, where no run is known that reaches the gather.
    nested = anchors()
    branch = nested.graph.node[-1:]
    then = graph(branch, outputs=["y"])
    other = graph([node("Identity", ["anchors"], "z")], outputs=["z"])
    del nested.graph.node[-1:]
    nested.graph.node.append(
        node("If", ["is_set"], "y", then_branch=then, else_branch=other)
    )
    nested.graph.input.append(info("is_set", BOOL, []))
    (condition,) = only(nested).range.conditions
    assert (str(condition), condition.exact) == (asked(found), False)


def test_conditions_on_sizes_and_on_values_stand_together() -> None:
    model = model_of(*GATHERS["elements"])
    found = only(model).range
    assert [*map(str, found.conditions)] == [
        "each value of i is at least -k and at most k - 1",
        "m is at most n",
    ]
    assert found.unfit == ("size 0 of i must be at most size 0 of x",)


GATHERS = {
    "elements": (
        "float[n, k] x, int64[m, 2] i",
        "y = GatherElements <axis = 1> (x, i)",
    ),
    "tuples": (
        "float[n, 5] x, int64[m, 3, 1] i",
        "y = GatherND <batch_dims = 1> (x, i)",
    ),
}


@pytest.mark.parametrize("name", GATHERS)
def test_sizes_that_a_contract_gives_are_proved(name: str) -> None:
    model = model_of(*GATHERS[name])
    contract = og.audit(model, levels=()).contract
    sizes = [each for each in contract["conditions"] if each["of"] == "sizes"]
    under = only(model, assume={**contract, "conditions": sizes}).range
    assert (under.state, under.unfit) == ("proved-if", ())
    assert all(each.is_of_elements for each in under.conditions)
    assert only(model, assume=contract).range.state == "proved"


OTHER_CASES = """
int32[2, n] i, int32[2, m] s: proved-if, size 1 of i (n) is at most 4 and m is n!
    y, a = com.microsoft.QEmbedLayerNormalization
        (i, s, q, q, q, g, g, , f, f, f, f, f, z, z, z, z, z)
float[n, 5] x, int64[m, 0] i: proved-if, m is at most n!
    y = GatherElements <axis = 1> (x, i)
float[2, 5] x, int64[2, 0] i: proved,
    y = GatherElements <axis = 1> (x, i)
int32[n, 2] i, int32[m, 2] p: proved-if, m is n
    y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
int32[3, 2] i, int32[m, 2] p: proved-if, size 0 of p (m) is 3
    y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
int32[3, 2] i, int32[2, 2] p: not-proved,
    y, a = com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)
float[9, 4] x, int64[3, k] i, float[3] u: not-proved,
    y = ScatterND (x, i, u)
float[2, 4, 1] x, int32[2] i: not-proved,
    a, y = RNN <hidden_size = 1, layout = 1> (x, w, w, , i)
float[3, 5] x, int64[m, 2, 1] i: not-proved,
    j = Concat <axis = 0> (i, i) y = GatherND <batch_dims = 1> (x, j)
float[6, 5] x, int64[m, 2, 1] i: proved-if, size 0 of i (m) is 3!
    j = Concat <axis = 0> (i, i) y = GatherND <batch_dims = 1> (x, j)
float[n, 5] x, int64[m, 2, 1] i: proved-if, 2*m is n!
    j = Concat <axis = 0> (i, i) y = GatherND <batch_dims = 1> (x, j)
float[2, 5] x, int64[m, 2, 1] i, int64[n, 2, 1] k: proved-if, m + n is 2
    j = Concat <axis = 0> (i, k) y = GatherND <batch_dims = 1> (x, j)
float[n, 5] x, int64[m, 2, 1] i: proved-if, m + 1 is n!
    j = Concat <axis = 0> (i, one_row) y = GatherND <batch_dims = 1> (x, j)
float[n, 5] x, int64[m, 2, 1] i: not-proved,
    j = Slice (i, at_0, far, at_0, by_2) y = GatherND <batch_dims = 1> (x, j)
float[2, 1, 32] h, float[2, 1, 16] x, float[2, 1, 9, 16] p, int32[2] i, float[9, 8] s,
    int64[2, n] j: proved-if, size 1 of j (n) is 1
    y, a, b = com.microsoft.GroupQueryAttention
        <num_heads = 2, kv_num_heads = 1, do_rotary = 1>
        (h, x, x, p, p, i, total, s, s, j)
float[2, 1, 32] h, float[2, 1, 16] x, float[2, 1, 9, 16] p,
    int32[n] i: proved-if, size 0 of i (n) is 1
    y, a, b = com.microsoft.GroupQueryAttention
        <num_heads = 2, kv_num_heads = 1> (h, x, x, p, p, lengths, i)
float[n, 1, 32] x, float[n, 2, 62, 16] p, int32[1, 5] e, int32[m, 8] c, int32[k] t,
    int32[j] i: proved-if, size 0 of c (m) is 1 and size 0 of t (k) is 1 and j is n!
    y, a, b = com.microsoft.SparseAttention
        <num_heads = 2, kv_num_heads = 2, sparse_block_size = 16>
        (x, x, x, p, p, e, c, t, i)
float16[t, 16] x, float16[4, 16, 1, 16] p, int32[4] e, int32[n] q, int32[m, 2] c,
    int32[k] i: proved-if, m is n! and k is t!
    y = com.microsoft.PagedAttention
        <num_heads = 1, kv_num_heads = 1> (x, x, x, p, p, e, q, c, , , i)
float[n, 3, 4] x, int32[m] i: proved-if, m is n!
    y, a, b, longest = com.microsoft.RemovePadding (x, i)
"""
"""Inputs, the state and the conditions on sizes, of which an exact one has a `!`."""


@pytest.mark.parametrize(("inputs", "nodes", "wanted"), rows(OTHER_CASES))
def test_sizes_that_are_empty_or_computed_are_judged(
    inputs: str, nodes: str, wanted: str
) -> None:
    found = only(model_of(inputs, nodes)).range
    conditions = [
        f"{each}{'!' if each.exact else ''}"
        for each in found.conditions
        if not each.is_of_elements
    ]
    assert f"{found.state}, {' and '.join(conditions)}".strip() == wanted


def test_a_scatter_of_older_opsets_has_the_sizes_of_scatter_elements() -> None:
    inputs = "float[n, 6] x, int64[m, 2] i, float[k, 2] u"
    found = only(model_of(inputs, "y = Scatter <axis = 1> (x, i, u)", 10))
    assert asked(found) == "m is at most n and k is m"


def test_positions_of_one_row_are_for_all_rows() -> None:
    inputs = "int32[n, 2] i, int32[m, 2] p"
    positions = "com.microsoft.EmbedLayerNormalization (i, , t, t, , r, r, , p)"
    found = only(model_of(inputs, f"y, a = {positions}"))
    assert found.range.unfit == ("size 0 of p must be 1 or size 0 of i",)


def test_a_refusal_names_the_sizes() -> None:
    contract = og.audit(model_of(*GATHERS["tuples"]), levels=()).contract
    feeds = {"x": np.zeros((2, 5), np.float32), "i": np.zeros((4, 3, 1), np.int64)}
    rule = "the inputs must meet 'm is n'"
    assert message_of(og.OnnxGatherError, og.check_inputs, contract, feeds) == (
        f"{rule}, got m - n = 2"
    )
    printed = dict[str, Any]()
    exec(guard(contract), printed)
    assert message_of(ValueError, printed["check"], feeds) == rule


def test_sizes_that_no_condition_tells_stop_the_proof() -> None:
    model = model_of(
        "float[2, 6] x, int64[2, 3] i",
        "d = Clip (i, low, high) y = GatherElements <axis = 1> (x, d)",
    )
    model.graph.initializer.extend([constant("low", 0), constant("high", 5)])
    assert only(model).range.state == "proved"
    model.graph.input[1].type.tensor_type.ClearField("shape")
    audit = og.audit(model, levels=())
    found = audit.gathers[0].range
    rule = "size 0 of d must be at most size 0 of x"
    assert (found.state, found.input, found.unfit) == ("not-proved", None, (rule,))
    assert [*lines("m", audit)][1] == f"not proved    1 gather, because {rule}:"
    # Nothing that the audit advises mends sizes.
    assert not any("harden" in line for line in next_lines({"m": audit}, NamedPaths()))


def test_a_node_that_loses_a_size_beside_the_axis_is_named() -> None:
    model = model_of(
        "float[2, 6] x, int64[a, 3] i, bool[a] keep",
        "d = Clip (i, low, high) j = Compress <axis = 0> (d, keep)"
        " y = GatherElements <axis = 1> (x, j)",
    )
    model.graph.initializer.extend([constant("low", 0), constant("high", 5)])
    audit = og.audit(model, levels=())
    assert audit.gathers[0].range.lost == Lost("j", "Compress")
    assert [*lines("m", audit)][1] == (
        "not proved    1 gather; the size is unknown behind j (Compress);"
        " `--inputs FILE.npz` may tell it:"
    )
    # Shapes tell the size of the axis alone.
    reshaped = model_of(
        "float[2, 6] x, int64[a, 3] i, int64[2] shape",
        "d = Clip (i, low, high) j = Reshape (d, shape)"
        " y = GatherElements <axis = 1> (x, j)",
    )
    reshaped.graph.initializer.extend(model.graph.initializer[-2:])
    found = only(reshaped).range
    assert found.lost == Lost("j", "Reshape")


def test_an_optimization_that_changes_a_size_is_seen() -> None:
    # The Expand leaves no column; ONNX Runtime drops it from level basic on.
    model = written(
        """
        (float[1, 9, 5] x) => (y)
        <int64[2] parts = {5, 0}, int64[1] k = {4}, int64[1] last = {2},
         int64[3] shape = {1, 4, 0}>
        {
            kept, none = Split <axis = 2> (x, parts)
            score = ReduceMax <axes = [2], keepdims = 0> (kept)
            best, ids = TopK <axis = 1> (score, k)
            column = Unsqueeze (ids, last)
            columns = Expand (column, shape)
            y = GatherElements <axis = 1> (none, columns)
        }
        """
    )
    assert only(model).range.state == "proved"
    audit = og.audit(model, levels=("basic",))
    assert audit.runtime is not None
    (graph,) = audit.runtime.graphs
    (found,) = graph.not_proved
    assert (found.state, audit.verdict) == ("not-proved", "perhaps")
    assert found.why.startswith("size 2 of column must be at most size 2 of none, got")
    feeds = {"x": np.zeros((1, 9, 5), np.float32)}
    assert results(session(model), feeds)["y"].shape == (1, 4, 0)
    with pytest.raises(Exception, match="Invalid value in indices shape is: 1"):
        results(session(model, 1), feeds)


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("policy", ["clamp", "zero"])
def test_harden_leaves_a_node_whose_sizes_may_not_fit(name: str, policy: str) -> None:
    model = model_of(*GATHERS[name])
    made = hardened(Premises(read_network(model)), policy)
    (rule,) = only(model).range.unfit
    assert [left.why for left in made.failing] == [
        f"no limit of its indices mends its sizes: {rule}"
    ]
    assert made.rewritten == []
    assert made.model.graph == model.graph


@pytest.mark.parametrize("name", GATHERS)
def test_harden_limits_the_indices_of_sizes_that_fit(name: str) -> None:
    inputs, nodes = GATHERS[name]
    model = model_of(inputs.replace("m", "n"), nodes)
    new = og.audit(og.harden(model, levels=()), levels=())
    assert new.verdict == "never"
    # Sizes that fit under what is given are no reason to leave a node.
    open_model = model_of(inputs, nodes)
    contract = og.audit(open_model, levels=()).contract
    sizes = [each for each in contract["conditions"] if each["of"] == "sizes"]
    given = {**contract, "conditions": sizes}
    new = og.harden(open_model, assume=given, levels=())
    assert len(new.graph.node) > len(open_model.graph.node)


def test_each_call_of_a_function_has_its_sizes() -> None:
    body = nodes_of("y = GatherElements <axis = 1> (x, i)")
    called = function("Take", ["x", "i"], body)
    model = written(
        """
        (float[n, 6] a, int64[n, 2] i, float[2, 6] b, int64[m, 2] j) => (c, d)
        { c = own.Take (a, i)  d = own.Take (b, j) }
        """,
        functions=[called],
    )
    found = only(model).range
    assert [*map(str, found.conditions)] == [
        "each value of i is from -6 to 5",
        "each value of j is from -6 to 5",
        "size 0 of j (m) is at most 2",
    ]
    assert found.unfit == ("size 0 of i must be at most size 0 of x",)


def test_data_of_an_unknown_rank_makes_no_tuples_invalid() -> None:
    model = written(
        "(float[] x, int64[n, 3, 1] i) => (y) { y = GatherND <batch_dims = 1> (x, i) }"
    )
    # The text of a model has no form for a value whose rank is not known.
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert only(model).range.state == "not-proved"
