"""A gather is proved only if it is proved in each graph that ONNX Runtime makes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import ALSO_AUDITED, outcome
from onnx import numpy_helper, parser
from onnx_graphs import constant, written
from rewritten_models import (
    DIFFERS,
    LOAD,
    REWRITTEN_MODELS,
    RUNS,
    RewrittenModel,
)
from rings import one_quick_in
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing import levels as graphs
from onnxgather.auditing.graph_audit import AuditedGraph, audit_graph
from onnxgather.auditing.proof.contract import Contract
from onnxgather.auditing.records import AskedRuntime, Audit, AuditedGather
from onnxgather.core.model.network import read_network

VERSION = onnxruntime.__version__


@pytest.fixture(autouse=True)
def in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def only(audited: Any) -> AuditedGather:
    """Return the last gather of an audit."""
    return audited.gathers[-1]


@pytest.mark.parametrize(
    "row", one_quick_in(4, REWRITTEN_MODELS), ids=lambda row: row.name
)
def test_no_gather_that_fails_at_a_level_is_proved(row: RewrittenModel) -> None:
    outcomes = row.outcomes
    if IS_OLD:
        outcomes |= row.before
    # Other nodes than gathers may refuse, and other rows may come from other nodes.
    audited = og.audit(row.model())
    states = {gather.range.state for gather in audited.gathers}
    operators = {gather.op for gather in audited.gathers}
    for gather in audited.gathers:
        assert gather.runtime is not None
        operators |= {level.op for level in gather.runtime.levels if level.op}
    refusing = set(outcomes.values()) - {RUNS, DIFFERS}
    if not refusing & {*operators, LOAD}:
        return
    if states == {"proved"}:
        pytest.fail("each gather is proved")
    # The inputs break the contract, or a gather is not proved at all.
    if states <= {"proved", "proved-if"}:
        with pytest.raises(og.OnnxGatherError):
            og.check_inputs(audited.contract, dict(row.inputs))


@pytest.mark.slow
def test_the_rows_have_gathers_that_the_file_alone_proves() -> None:
    proved = 0
    for row in REWRITTEN_MODELS:
        alone = og.audit(row.model(), levels=())
        proved += {gather.range.state for gather in alone.gathers} == {"proved"}
    assert proved > 10


SLICED = """<ir_version: 9, opset_import: ["" : 21]>
g (float[32,4] t, int64[B,P] past, int64[B,N] ids) => (float[L,4] y)
<int64 one = {1}>
{ ps = Shape<start=1,end=2>(past)  p = Squeeze(ps)  ns = Shape<start=1,end=2>(ids)
  n = Squeeze(ns)  q = Add(p, n)  r = Range(p, q, one)  [rows] y = Gather(t, r) }
"""


def test_a_gather_that_becomes_a_slice_has_its_sentence() -> None:
    model = parser.parse_model(SLICED)
    gather = only(og.audit(model))
    assert gather.range.state == "proved-if"
    assert gather.runtime is not None
    assert [(row.level, row.op) for row in gather.runtime.levels] == [
        ("basic", "Gather"),
        ("extended", "Slice"),
        ("all", "Slice"),
    ]
    Path("m.onnx").write_bytes(model.SerializeToString())
    _, text, _ = outcome("audit m.onnx")
    assert text.splitlines()[1:3] == [
        (
            "proved if     rows (Gather, main graph): P + N is at most 32, where P is"
            " size 1 of past, N is size 1 of ids; from level extended on ONNX Runtime"
            f" {VERSION} runs it as a Slice: an index out of range or below 0 gives"
            " other rows or none, and no error"
        ),
        ALSO_AUDITED,
    ]


RANK = """<ir_version: 9, opset_import: ["" : 21]>
g (float[N] x, float[N] z) => (int64 y)
<float[1,1] one = {1.0}, int64 i = {1}>
{ d = Div(one, z)  e = Mul(d, z)  s = Shape(e)  [size] y = Gather(s, i) }
"""


def test_the_level_that_decides_a_state_is_named() -> None:
    model = parser.parse_model(RANK)
    assert only(og.audit(model, levels=())).range.state == "proved"
    gather = only(og.audit(model))
    assert (gather.range.state, gather.range.level) == ("out-of-range", "basic")
    Path("m.onnx").write_bytes(model.SerializeToString())
    code, text, _ = outcome("audit m.onnx --levels basic,all")
    assert code == 1
    assert text.splitlines()[1] == (
        "OUT OF RANGE  size (Gather, main graph): indices[] is 1, a constant, on an"
        f" axis of 1; from level basic on ONNX Runtime {VERSION} runs another graph, in"
        " which it is out of range"
    )
    assert "at level basic, all\n" in text
    code, text, _ = outcome("audit m.onnx --levels none")
    assert code == 0
    assert (
        "\nruntime       the file was audited by ONNX's specification alone\n" in text
    )


PLAIN = """<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
g (float[8] t, int64[N] i) => (float[M] y) { [rows] y = Gather(t, i) }
"""


def test_levels_and_runtimes_are_any_sequence() -> None:
    model = parser.parse_model(PLAIN)
    expected = og.audit(model, levels=["basic"])
    assert expected.runtimes
    none: Any = np.array([])
    text: Any = np.array(["basic"])
    forms: list[Any] = [text, iter(["basic"])]
    for levels in forms:
        assert og.audit(model, levels=levels, runtimes=none) == expected
    python: Any = iter([sys.executable])
    assert og.audit(model, levels=["basic"], runtimes=python) == expected
    assert og.audit(model, levels=none).runtimes == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--levels", "none,all"),
            "levels must be some of basic, extended, all, got 'none'",
        ),
        (
            ("--levels", "layout"),
            "levels must be some of basic, extended, all, got 'layout'",
        ),
    ],
)
def test_a_level_that_does_not_exist_is_an_error(
    arguments: tuple[str, ...], said: str
) -> None:
    Path("m.onnx").write_bytes(parser.parse_model(PLAIN).SerializeToString())
    code, _, error = outcome("audit m.onnx", *arguments)
    assert (code, error.splitlines()[-1]) == (2, f"Error: {said}")


def test_a_level_that_is_no_name_is_an_error() -> None:
    levels: Any = [[1]]
    with pytest.raises(og.OnnxGatherError) as error:
        og.audit(parser.parse_model(PLAIN), levels=levels)
    assert str(error.value) == "levels must be a list of names, got [1]"


def test_a_runtime_that_does_not_start_is_an_error() -> None:
    Path("m.onnx").write_bytes(parser.parse_model(PLAIN).SerializeToString())
    code, _, error = outcome("audit m.onnx --runtime no/python")
    assert (code, error) == (
        3,
        "Error: no/python does not start: No such file or directory\n",
    )


CUSTOM = """<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
g (float[8] t, int64[N] i) => (float[M] y) { j = own.Mine(i)  y = Gather(t, i) }
"""


def test_a_model_that_onnx_runtime_does_not_open_is_audited_by_the_file() -> None:
    audited = og.audit(parser.parse_model(CUSTOM))
    assert audited.runtimes == []
    assert only(audited).runtime is None
    not_judged, note = audited.notes
    assert note.startswith(f"ONNX Runtime {VERSION} does not open the model: ")
    assert not_judged.startswith("not judged: 1 node of own (Mine)")


PROVED = """<ir_version: 9, opset_import: ["" : 21]>
g (float[8] t, int64[N] i) => (float[1] y) <int64[1] five = {5}>
{ [kept] y = Gather(t, five) }
"""
WITH_ANOTHER = """<ir_version: 9, opset_import: ["" : 21]>
g (float[8] t, int64[N] i) => (float[1] y, float[M] z) <int64[1] five = {5}>
{ [kept] y = Gather(t, five)  [another] z = Gather(t, i) }
"""


def of_graph(text: str) -> AuditedGraph:
    """Return the audit of a graph alone."""
    network = read_network(parser.parse_model(text))
    return audit_graph(network, {}, {}, Contract.of(network, (), False))


def test_a_gather_that_a_graph_has_and_the_file_has_not_is_in_the_verdict() -> None:
    file = of_graph(PROVED)
    for text, not_proved, verdict in (
        (PROVED, [], "never"),
        (WITH_ANOTHER, ["another"], "perhaps"),
    ):
        graph = of_graph(text)
        levels = graphs.AuditedLevels(
            [graphs.RuntimeGraph("1.32.0", name, graph) for name in ("basic", "all")]
        )
        gathers = [*graphs.with_levels(file, levels).gathers.values()]
        assert [gather.range.state for gather in gathers] == ["proved"]
        asked = AskedRuntime("1.32.0", ["basic", "all"], not_proved=not_proved)
        assert levels.runtimes == [asked]
        assert Audit(gathers, runtimes=levels.runtimes).verdict == verdict
        assert levels.notes == [
            f"ONNX Runtime 1.32.0 at level {level} runs Gather '{name}', which the"
            " file does not have, and which is not proved in range"
            for level in ("basic", "all")
            for name in not_proved
        ]


FOLDED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, int64[M] i) => (float[K] y, int64 z)
<int64[1] five = {5}, int64[2] two = {1, 2}>
{ [wrong] z = Gather(two, five)  [rows] y = Gather(x, i) }
"""


def test_a_model_that_only_opens_without_optimizations_has_nothing_proved() -> None:
    """ONNX Runtime folds the gather of constants, and fails with it."""
    audited = og.audit(parser.parse_model(FOLDED), ranges={"i": (0, 0)})
    states = [gather.range.state for gather in audited.gathers]
    opened = [asked.levels for asked in audited.runtimes]
    # A version that keeps a gather that fails opens the model at each level.
    if opened:
        assert states == ["out-of-range", "proved"]
    else:
        assert states == ["out-of-range", "not-proved"]
        assert audited.gathers[1].runtime is not None


def test_a_level_that_alone_does_not_open_the_model_proves_nothing() -> None:
    row = next(row for row in REWRITTEN_MODELS if row.name == "normalized: the scale")
    gather = only(og.audit(row.model()))
    if not IS_OLD:
        assert (gather.range.state, gather.range.level) == ("not-proved", "extended")
        stop = f"ONNX Runtime {VERSION}, whose level extended was not audited"
        assert gather.range.input == stop


INLINED = """<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
g (float[8,2] t, int64[N] i, bool b) => (float[M,2] y, float[K,2] z)
<bool yes = {1}>
{ y = own.Rows(t, i)
  z = If(yes) <then_branch = g1 () => (a) { [then] a = Gather(t, i) },
               else_branch = g2 () => (c) { c = Identity(t) }> }
<domain: "own", opset_import: ["" : 21]>
Rows (x, k) => (r) { k2 = Add(k, k)  [own] r0 = Gather(x, k2)  r = Neg(r0) }
"""


def test_gathers_of_functions_and_branches_are_found_where_they_are_inlined() -> None:
    audited = og.audit(parser.parse_model(INLINED))
    assert audited.notes == []
    rows = [gather.runtime and gather.runtime.levels for gather in audited.gathers]
    operators = [[row.op for row in levels or ()] for levels in rows]
    assert operators == [["Gather"] * 3] * 2


def test_constants_beside_a_model_are_not_copied(tmp_path: Path) -> None:
    """Without a run, large constants are written nowhere."""
    table = constant("table", np.zeros((4096, 512), np.float32))
    model = written("(int64[n] i) => (y) { y = Gather (table, i) }", table)
    path = str(tmp_path / "m.onnx")
    save: Any = vars(onnx)["save"]
    save(model, path, save_as_external_data=True, location="w", size_threshold=0)
    lengths: list[int] = []
    decoded = graphs._decoded  # pyright: ignore[reportPrivateUsage]

    def read(header: bytes, blobs: bytes) -> Any:
        (folder,) = tmp_path.glob("onnxgather-*")
        lengths[:] = [file.stat().st_size for file in folder.glob("[0-9]*.onnx")]
        assert not [*folder.glob("*.weights")]
        return decoded(header, blobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "_decoded", read)
        patch.setattr(graphs, "SMALL_MODEL", 2**20)
        patch.setattr("tempfile.tempdir", str(tmp_path))
        gather = only(og.audit(path))
    assert len(lengths) == 3
    assert max(lengths) < 5000
    assert gather.range.state == "proved-if"
    assert gather.runtime is not None


def test_a_large_constant_of_indices_is_read_in_each_graph() -> None:
    indices = constant("indices", np.arange(2**17) % 7)
    model = written("(float[7] t) => (y) { [rows] y = Gather (t, indices) }", indices)
    for small in (2**26, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs, "SMALL_MODEL", small)
            gather = only(og.audit(model))
        assert (gather.range.state, gather.range.level) == ("proved", None)


def test_each_level_has_its_own_constants(tmp_path: Path) -> None:
    """The same constants may be at other places of the file of another level."""
    indices = np.arange(2**17) % 7
    model = parser.parse_model(PLAIN.replace("8", "7"))
    model.graph.input.pop()
    model.graph.initializer.append(numpy_helper.from_array(indices, "i"))
    names: list[str] = []
    decoded = graphs._decoded  # pyright: ignore[reportPrivateUsage]

    def read(header: bytes, blobs: bytes) -> Any:
        (folder,) = tmp_path.glob("onnxgather-*")
        names[:] = sorted(file.name for file in folder.iterdir())
        return decoded(header, blobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "_decoded", read)
        patch.setattr("tempfile.tempdir", str(tmp_path))
        assert only(og.audit(model)).range.state == "proved"
    expected = [f"{n}.{kind}" for n in (1, 2, 99) for kind in ("onnx", "weights")]
    assert names == [*expected, "model.onnx"]


def test_a_worker_that_dies_leaves_the_audit_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "WRITING_TIMEOUT", 1e-4)
    audited = og.audit(parser.parse_model(PLAIN))
    assert audited.notes == [
        "ONNX Runtime was not asked: the worker did not answer within 0.0001 s and"
        " printed nothing"
    ]
    assert only(audited).range.state == "proved-if"


RANK_IN = "d = Div(one, z)  e = Mul(d, z)  s = Shape(e)"

HIDDEN = {
    "two equal gathers become one": f"""<ir_version: 9, opset_import: ["" : 21]>
        g (float[N] z) => (int64 y, int64 w) <float[1,1] one = {{1.0}}, int64 i = {{1}}>
        {{ {RANK_IN}  a = Gather(s, i)  b = Gather(s, i)  y = Neg(a)  w = Abs(b) }}""",
    "a Slice has another name": """<ir_version: 9, opset_import: ["" : 21]>
        g (float[8] t, float[N] z) => (float[M] y)
        <int64 one = {1}, int64 two = {2}, int64 three = {3}>
        { n0 = Shape(z)  n1 = Squeeze(n0)  m = Min(n1, one)  a = Sub(m, three)
          e = Add(a, two)  k = Range(a, e, one)  h = Gather(t, k)  y = Identity(h) }""",
    "two branches have one name": """<ir_version: 9, opset_import: ["" : 21]>
        g (float[8] t, float[N] z, bool c) => (float[M] y)
        <int64 one = {1}, int64 two = {2}, int64 three = {3}, int64[1] ones = {1}>
        { n0 = Shape(z)  n1 = Squeeze(n0)  m = Min(n1, one)  a = Sub(m, three)
          e = Add(a, two)  y = If(c) <
            then_branch = g1 () => (h) { h = Gather(t, ones) },
            else_branch = g2 () => (h) { k = Range(a, e, one)  h = Gather(t, k) }> }""",
    "a function has a value of the same name": f"""
        <ir_version: 9, opset_import: ["" : 21, "own" : 1]>
        g (float[N] z) => (int64 y, int64 w)
        <float[1,1] one = {{1.0}}, int64 i = {{1}}, int64 zero = {{0}}>
        {{ {RANK_IN}  n = Shape(z)  t = Gather(n, zero)  w = Neg(t)  y = own.f(s, i) }}
        <domain: "own", opset_import: ["" : 21]>
        f (s, i) => (r) {{ t = Gather(s, i)  r = Neg(t) }}""",
    "an Identity goes whose name is that of another gather": f"""
        <ir_version: 9, opset_import: ["" : 21, "own" : 1]>
        g (float[N] z) => (int64 y, int64 w)
        <float[1,1] one = {{1.0}}, int64 i = {{1}}, int64 zero = {{0}}>
        {{ {RANK_IN}  t = Gather(s, i)  y = Identity(t)  w = own.f(z, zero) }}
        <domain: "own", opset_import: ["" : 21]>
        f (z, i) => (r) {{ s = Shape(z)  y = Gather(s, i)  r = Neg(y) }}""",
}
"""Models of which each gather is proved in the file, and a level fails at a gather, or
returns other rows, whose name is another there."""


@pytest.mark.parametrize("name", HIDDEN)
def test_a_gather_is_found_again_under_another_name(name: str) -> None:
    model = parser.parse_model(HIDDEN[name])
    alone = og.audit(model, levels=())
    assert {gather.range.state for gather in alone.gathers} == {"proved"}
    audited = og.audit(model)
    open_gathers = [gather for gather in audited.gathers if gather.range.level]
    assert open_gathers
    if name == "two equal gathers become one":
        assert len(open_gathers) == 2


MOVED = {
    "a Transpose is moved behind a gather": (
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[B, 5, 96] w) => (float[B, 5, 32] y)
        <int64 zero = {0}, int64 one = {1}, int64 two = {2}, float scale = {0.5},
         int64[5] parts = {0, 5, 3, 4, 8}, int64[3] flat = {0, 5, 32}> {
          x = Reshape(w, parts)
          t = Transpose<perm = [2, 0, 3, 1, 4]>(x)
          query = Gather(t, zero)
          key = Gather(t, one)
          value = Gather(t, two)
          turned = Transpose<perm = [0, 1, 3, 2]>(key)
          product = MatMul(query, turned)
          scaled = Mul(product, scale)
          weights = Softmax<axis = -1>(scaled)
          context = MatMul(weights, value)
          back = Transpose<perm = [0, 2, 1, 3]>(context)
          y = Reshape(back, flat)
        }""",
        ["proved", "proved", "proved"],
    ),
    "two constants become one": (
        """<ir_version: 9, opset_import: ["" : 17]>
        g (int64[N] x, int64[M] w) => (float[N, 1] y, float[M, 1] z)
        <float[4, 1] rows = {0.0, 1.0, 2.0, 3.0}, int64 zero = {0}, int64 one = {1}> {
          shape_x = Shape(x)
          n = Squeeze(shape_x)
          shape_w = Shape(w)
          m = Squeeze(shape_w)
          same = Identity(rows)
          places_x = Range(zero, n, one)
          places_w = Range(zero, m, one)
          y = Gather(same, places_x)
          z = Gather(rows, places_w)
        }""",
        ["proved-if", "proved-if"],
    ),
}
"""Models of which a level changes what is around a gather, and the states of the
gathers."""


@pytest.mark.parametrize("name", MOVED)
def test_a_gather_is_as_safe_as_before_where_a_level_moves_its_neighbours(
    name: str,
) -> None:
    text, states = MOVED[name]
    audited = og.audit(parser.parse_model(text))
    assert [gather.range.state for gather in audited.gathers] == states


def test_each_note_is_printed_once() -> None:
    Path("m.onnx").write_bytes(parser.parse_model(CUSTOM).SerializeToString())
    _, text, _ = outcome("audit m.onnx")
    assert text.count("does not open the model") == 1
