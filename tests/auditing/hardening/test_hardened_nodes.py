"""Nodes hardened on their own: proved with open sizes, right for each index, by every
policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from index_arithmetic import index_values
from network_draft import Feeds, results, session
from onnx import parser
from rings import one_quick_in

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import HardenedModel, hardened
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import read_network

OPSETS = (9, 10, 11, 12, 13, 18, 22)

POLICIES = ("clamp", "zero", "index=0", "index=2")

OPEN_ROW = [(p, k) for p in POLICIES for k in OPSETS if p != "index=2" or k >= 12]
"""Policies and opsets of which an open axis is proved."""


def model(text: str, opset: int = 17, more: str = "") -> onnx.ModelProto:
    """Return the model of a text in ONNX's own notation."""
    return parser.parse_model(
        f'<ir_version: 7, opset_import: ["" : {opset}{more}]>\n{text}'
    )


def proved(
    made: onnx.ModelProto, policy: str = "clamp", allow_empty: bool = False
) -> HardenedModel:
    """Harden a model of which nothing may be left, and check that it proves itself."""
    done = hardened(Premises(read_network(made), allow_empty=allow_empty), policy)
    assert done.left == []
    assert done.rewritten
    states = [
        gather.range.state
        for gather in og.audit(done.model, allow_empty=allow_empty).gathers
    ]
    assert {*states} == {"proved"}
    again = og.harden(done.model, policy, allow_empty=allow_empty)
    assert again.SerializeToString() == done.model.SerializeToString()
    return done


def wild(shape: Any, size: int, seed: int, dtype: Any = np.int64) -> Array:
    """Return indices around the edges of the type and of an axis."""
    random = np.random.default_rng(seed)
    return random.choice(index_values(np.dtype(dtype).name, size), shape).astype(dtype)


GATHERS = {
    "rows": "g (float[n, 3] x, int64[a] i) => (y) { y = Gather (x, i) }",
    "last axis": (
        "g (float[3, n] x, int64[a, b] i) => (y) { y = Gather <axis = -1> (x, i) }"
    ),
    "known": "g (float[5, 3] x, int64[a] i) => (y) { y = Gather (x, i) }",
}


def gathered(x: Array, i: Array, axis: int, policy: str) -> Array:
    """The output of a Gather under a policy."""
    n = x.shape[axis]
    outside = (i < -n) | (i >= n)
    if policy.startswith("index="):
        i = np.where(outside, min(int(policy[6:]), n - 1), i)
    found = np.take(x, np.clip(i, -n, n - 1), axis)
    if policy == "zero":
        mask = outside if axis else outside.reshape(*outside.shape, *[1] * (x.ndim - 1))
        found = np.where(mask, np.float32(0), found)
    return found


@pytest.mark.parametrize(("policy", "opset"), one_quick_in(30, OPEN_ROW))
@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_is_proved_and_right_from_opset_9_on(
    name: str, policy: str, opset: int
) -> None:
    done = proved(model(GATHERS[name], opset), policy)
    axis, whole = -1 if name == "last axis" else 0, session(done.model, 3)
    for n in (1, 5) if name != "known" else (5,):
        x = (
            np.random.default_rng(n)
            .normal(size=(3, n) if axis else (n, 3))
            .astype(np.float32)
        )
        i = wild((4, 50) if axis else 200, n, n)
        (found,) = results(whole, {"x": x, "i": i}).values()
        assert found.tobytes() == gathered(x, i, axis, policy).tobytes()


@pytest.mark.parametrize(
    ("policy", "opset"), one_quick_in(24, [pair for pair in OPEN_ROW if pair[1] >= 11])
)
@pytest.mark.parametrize("sizes", ["n, m, 2", "5, 4, 2"])
def test_tuples_are_proved_and_right(policy: str, opset: int, sizes: str) -> None:
    made = model(
        f"g (float[{sizes}] x, int64[a, 2] i) => (y) {{ y = GatherND (x, i) }}", opset
    )
    done = proved(made, policy)
    x = np.random.default_rng(0).normal(size=(5, 4, 2)).astype(np.float32)
    i = np.stack([wild(300, 5, 1), wild(300, 4, 2)], -1)
    i[:100] = np.random.default_rng(1).integers(-4, 4, (100, 2))
    outside = np.any((i < [-5, -4]) | (i >= [5, 4]), -1)
    clamped = np.clip(i, [-5, -4], [4, 3])
    if policy.startswith("index="):
        clamped = np.where(np.expand_dims(outside, 1), [int(policy[6:]), 0], clamped)
    expected = x[clamped[:, 0], clamped[:, 1]]
    if policy == "zero":
        expected = np.where(np.expand_dims(outside, 1), np.float32(0), expected)
    (found,) = results(session(done.model, 3), {"x": x, "i": i}).values()
    assert found.tobytes() == expected.tobytes()


EMPTY = """g (float[n] x, int64[a] i) => (y) <int64[1] zero = {0}> {
  found = NonZero (x)
  rows = Squeeze (found, zero)
  y = Gather (rows, i) }"""
"""Rows whose number is made inside, and may be 0."""


@pytest.mark.parametrize("policy", POLICIES)
def test_an_axis_that_may_be_empty_gets_zeros_behind_its_data(policy: str) -> None:
    done = proved(model(EMPTY), policy)
    told = str(done.rewritten[0])
    assert "; zeros are put behind a copy of the data, as its axis may be empty" in told
    whole = session(done.model, 3)
    for count in (0, 1, 4):
        x = np.zeros(6, np.float32)
        x[:count] = 1
        i = wild(200, max(count, 1), count)
        (found,) = results(whole, {"x": x, "i": i}).values()
        if count:
            expected = gathered(np.arange(count), i, 0, policy)
            assert found.tolist() == expected.tolist()
        else:
            assert not found.any()


def left(made: onnx.ModelProto, policy: str = "clamp") -> str:
    """Return what is said of the only node of a model, which is left as it is."""
    done = hardened(Premises(read_network(made)), policy)
    assert (done.model.graph, done.rewritten) == (made.graph, [])
    (one,) = done.left
    return str(one)


def test_a_row_of_an_open_axis_needs_opset_12() -> None:
    assert (
        left(model(GATHERS["rows"], 11), "index=2")
        == "left: main graph: Gather 'y': no limit of its indices would be proved, as i"
        " is open; one of clamp may be"
    )
    assert (
        left(
            model(
                EMPTY.replace("Squeeze (found, zero)", "Squeeze <axes = [0]> (found)"),
                11,
            )
        )
        == "left: main graph: Gather 'y': the axis may be empty, and the opset is"
        " below 12"
    )


def test_a_gather_whose_limit_is_not_proved_is_left_under_directml_too() -> None:
    made = model("g (float[5] x, int32[3] i) => (float[3] y) { y = Gather (x, i) }", 11)
    assert (
        left(made, "directml")
        == "left: main graph: Gather 'y': no limit of its indices would be proved, as i"
        " is open; one of clamp may be"
    )


def test_a_known_axis_must_have_the_row() -> None:
    with pytest.raises(og.OnnxGatherError) as raised:
        og.harden(model(GATHERS["known"]), "index=5")
    assert (
        str(raised.value)
        == "main graph: Gather 'y': index=5 must be in the axis, of 5 elements"
    )


def test_open_sizes_may_be_empty_where_that_is_allowed() -> None:
    done = proved(model(GATHERS["rows"]), allow_empty=True)
    whole = session(done.model, 3)
    for n in (0, 4):
        x, i = np.ones((n, 3), np.float32), wild(100, 4, 5)
        (found,) = results(whole, {"x": x, "i": i}).values()
        assert found.tolist() == np.full((100, 3), float(n > 0)).tolist()


SCATTERS = {
    "elements": ("ScatterElements", "float[n, 3] x, int64[a, 3] i, float[a, 3] u"),
    "elements, last axis": (
        "ScatterElements",
        "float[3, n] x, int64[3, a] i, float[3, a] u",
    ),
    "known": ("ScatterElements", "float[5, 3] x, int64[a, 3] i, float[a, 3] u"),
    "tuples": ("ScatterND", "float[n, 3] x, int64[a, 2] i, float[a] u"),
    "rows": ("ScatterND", "float[n, 3] x, int64[a, 1] i, float[a, 3] u"),
}

REDUCTIONS = [
    *((None, opset) for opset in (11, 12, 13, 22)),
    *((name, 16) for name in ("none", "add", "mul")),
    *((name, 18) for name in ("add", "mul", "min", "max")),
]


def scattered(
    operator: str, x: Array, i: Array, u: Array, axis: int, reduction: str | None
) -> Array:
    """The output of a scatter that drops writes out of range, element by element."""
    y = x.copy()
    for at in np.ndindex(i.shape if operator == "ScatterElements" else i.shape[:-1]):
        where: Any = tuple(i[at]) if operator == "ScatterND" else [*at]
        if operator == "ScatterElements":
            where[axis] = i[at]
            where = tuple(where)
        if any(not -n <= k < n for k, n in zip(where, y.shape, strict=False)):
            continue
        old, new = y[where], u[at]
        combine: Any = {
            "add": np.add,
            "mul": np.multiply,
            "min": np.minimum,
            "max": np.maximum,
        }
        y[where] = combine[reduction](old, new) if reduction in combine else new
    return y


@pytest.mark.parametrize(("reduction", "opset"), one_quick_in(11, REDUCTIONS))
@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_drops_writes_out_of_range(
    name: str, reduction: str | None, opset: int
) -> None:
    (operator, inputs), axis = SCATTERS[name], -1 if "last" in name else 0
    options = [f"axis = {axis}"] * (operator == "ScatterElements")
    options += [f'reduction = "{reduction}"'] * (reduction is not None)
    attributes = f"<{', '.join(options)}>" if options else ""
    done = proved(
        model(f"g ({inputs}) => (y) {{ y = {operator} {attributes} (x, i, u) }}", opset)
    )
    assert str(done.rewritten[0]).endswith(
        "was an error, and now its write is dropped: two copies of the data"
    )
    whole = session(done.model, 3)
    for seed in range(20):
        random = np.random.default_rng(seed)
        x = random.normal(size=(3, 5) if axis else (5, 3)).astype(np.float32)
        shape = {"tuples": (7, 2), "rows": (7, 1)}.get(name, (3, 7) if axis else (7, 3))
        i = wild(shape, 5, seed)
        i = np.where(random.random(shape) < 0.7, random.integers(-3, 3, shape), i)
        u = random.normal(
            size=shape[:1] if name == "tuples" else (7, 3) if name == "rows" else shape
        )
        fed = {"x": x, "i": i, "u": u.astype(np.float32)}
        (found,) = results(whole, fed).values()
        expected = scattered(operator, x, i, fed["u"], axis, reduction)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("policy", ["clamp", "directml"])
@pytest.mark.parametrize("operator", ["Gather (x, i)", "ScatterElements (x, i, u)"])
def test_no_two_nodes_of_a_hardened_model_have_one_name(
    operator: str, policy: str
) -> None:
    text = (
        "g (float[4] x, int64[1] i, float[1] u) => (y, z) { z = Neg (x)  y ="
        f" {operator} }}"
    )
    for names in (["y", "z"], ["z", "y"]):  # those of other values too
        made = model(text)
        for node, name in zip(made.graph.node, names, strict=True):
            node.name = name
        whole = session(og.harden(made, policy), 3)
        fed: Feeds = {"x": np.arange(4, dtype=np.float32), "i": np.array([2])}
        found = results(whole, fed | {"u": np.array([2], np.float32)})
        assert found["y"].tolist() == ([0, 1, 2, 3] if "Scatter" in operator else [2])


def test_a_scatter_of_opset_9_is_hardened() -> None:
    text = "g (float[n] x, int64[a] i, float[a] u) => (y) { y = Scatter (x, i, u) }"
    done = proved(model(text, 9))
    fed = {"x": np.zeros(3, np.float32), "i": np.array([1, 3, -4, -1, 2**40])}
    (found,) = results(
        session(done.model, 3), fed | {"u": np.arange(1, 6, dtype=np.float32)}
    ).values()
    assert found.tolist() == [0, 1, 4]


QUANTIZED = """g (uint8[n, 8] x, T[a] i, float[n, 1] scales) => (y) {
  y = com.microsoft.GatherBlockQuantized <block_size = 16, bits = 4> (x, i, scales) }"""

TABLES = """g (int32[b, s] ids, int32[b, s] segments, float[n, 4] words, float[p, 4] places,
float[m, 4] parts, float[4] gamma, float[4] beta, int32[b, s] positions) => (y, z) {
  y, z = com.microsoft.EmbedLayerNormalization
    (ids, segments, words, places, parts, gamma, beta, "", positions) }"""  # noqa: E501

CLAMPED = "the elements at the clamped indices"

ROTARY = """g (float[b, s, 8] x, int64[b, s] i, float[n, 2] cos, float[n, 2] sin) => (y) {
  y = com.microsoft.RotaryEmbedding <num_heads = 2> (x, i, cos, sin) }"""  # noqa: E501

ROTARY_23 = """g (float[b, s, 8] x, int64[b, s] i, float[n, 2] cos, float[n, 2] sin) => (y) {
  y = RotaryEmbedding <num_heads = 2> (x, cos, sin, i) }"""  # noqa: E501

MICROSOFT = ', "com.microsoft" : 1'


@pytest.mark.parametrize("index_type", ["int32", "int64"])
@pytest.mark.parametrize("policy", one_quick_in(4, POLICIES))
def test_a_quantized_gather_is_limited(policy: str, index_type: str) -> None:
    made = model(QUANTIZED.replace("T[a]", f"{index_type}[a]"), 17, MICROSOFT)
    done = proved(made, policy)
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (5, 8), np.uint8)
    scales = random.normal(size=(5, 1)).astype(np.float32)
    i = wild(300, 5, 0, index_type)
    inside = np.clip(i, -5, 4)
    if policy.startswith("index="):
        inside = np.where(inside == i, i, int(policy[6:]))
    fed = {"x": x, "scales": scales}
    (found,) = results(session(done.model, 3), fed | {"i": i}).values()
    (expected,) = results(
        session(made, 3), fed | {"i": inside.astype(index_type)}
    ).values()
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("policy", ["clamp", "index=2"])
def test_each_table_of_an_embedding_is_limited_by_its_own_size(policy: str) -> None:
    made = model(TABLES, 17, MICROSOFT)
    done, random = proved(made, policy), np.random.default_rng(0)
    held = (
        "row 2, or the last one where there are fewer" if policy != "clamp" else CLAMPED
    )
    did = "out of range did what the provider makes of it, and now the output holds"
    assert done.rewritten[0].changes == (
        f"an index of input_ids {did} {held}",
        f"an index of segment_ids {did} {CLAMPED}",
        f"an index of position_ids {did} {CLAMPED}",
    )
    sizes = {"words": 9, "places": 5, "parts": 3}
    fed: Feeds = {
        k: random.normal(size=(n, 4)).astype(np.float32) for k, n in sizes.items()
    }
    fed |= {name: np.ones(4, np.float32) for name in ("gamma", "beta")}
    indices = {"ids": 9, "segments": 3, "positions": 5}
    bad = {k: wild((4, 30), n, n, np.int32) for k, n in indices.items()}
    good = {k: np.clip(array, 0, indices[k] - 1) for k, array in bad.items()}
    if policy != "clamp":
        good["ids"] = np.where(good["ids"] == bad["ids"], good["ids"], np.int32(2))
    found = results(session(done.model, 3), fed | bad)
    expected = results(session(made, 3), fed | good)
    assert [y.tobytes() for y in found.values()] == [
        y.tobytes() for y in expected.values()
    ]


@pytest.mark.parametrize("made", [model(ROTARY, 17, MICROSOFT), model(ROTARY_23, 23)])
def test_positions_of_a_rotary_embedding_are_limited(made: onnx.ModelProto) -> None:
    done, random = proved(made), np.random.default_rng(0)
    fed: Feeds = {
        k: random.normal(size=(5, 2)).astype(np.float32) for k in ("cos", "sin")
    }
    fed["x"] = random.normal(size=(3, 4, 8)).astype(np.float32)
    i = wild((3, 4), 5, 1)
    (found,) = results(session(done.model, 3), fed | {"i": i}).values()
    (expected,) = results(session(made, 3), fed | {"i": np.clip(i, 0, 4)}).values()
    assert found.tobytes() == expected.tobytes()


def test_nodes_that_cannot_be_limited_are_named() -> None:
    start = ROTARY.replace("int64[b, s] i", "int64[1] i")
    assert (
        left(model(start, 17, MICROSOFT))
        == "left: main graph: RotaryEmbedding 'y': position_ids must have two"
        " dimensions, as else others follow it"
    )
    lengths = "g (float[4, n] x, int64[n] l) => (y) { y = ReverseSequence (x, l) }"
    assert (
        left(model(lengths))
        == "left: main graph: ReverseSequence 'y': its indices are not limited"
    )
    rows = QUANTIZED.replace("T[a]", "int64[a]")
    done = hardened(
        Premises(read_network(model(rows, 17, MICROSOFT)), allow_empty=True)
    )
    assert [str(one) for one in done.left] == [
        "left: main graph: GatherBlockQuantized 'y': its axis may be empty"
    ]
    opaque = (
        "g (float[n, n] x, int64[a] i) => (y) { z = com.microsoft.Inverse (x)  y ="
        " Gather (z, i) }"
    )
    assert (
        left(model(opaque, 17, MICROSOFT))
        == "left: main graph: Gather 'y': the rank of the data is unknown"
    )
