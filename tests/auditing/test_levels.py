"""Each graph that ONNX Runtime makes is audited as a model of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import ALSO_AUDITED, outcome
from html_page import Page
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
from onnxgather.auditing import audit as audit_of
from onnxgather.auditing import levels as graphs
from onnxgather.auditing.graph_audit import AuditedGraph
from onnxgather.auditing.records import AuditedGather

VERSION = onnxruntime.__version__

LEVELS = tuple(graphs.RUNTIME_LEVELS)


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
def test_no_model_that_fails_at_a_level_is_proved(row: RewrittenModel) -> None:
    outcomes = row.outcomes
    if IS_OLD:
        outcomes |= row.before
    audited = og.audit(row.model(), levels=LEVELS)
    # Other nodes than gathers may refuse, and other rows may come from other nodes.
    operators = {gather.op for gather in (*audited.gathers, *audited.graph_gathers)}
    refusing = set(outcomes.values()) - {RUNS, DIFFERS}
    if not refusing & {*operators, LOAD}:
        return
    assert audited.verdict != "never"
    is_refused = any(graph.refused for graph in audited.graphs)
    if is_refused or audited.graph_gathers or audited.not_proved:
        return
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


def test_a_gather_of_a_range_that_becomes_a_slice_counts_from_the_start() -> None:
    audited = og.audit(parser.parse_model(SLICED))
    gather = only(audited)
    assert (gather.range.state, gather.rewritten_at) == ("proved-if", ("all",))
    below_0 = parser.parse_model(SLICED.replace("r = Range(p, q", "r = Range(m, p"))
    below_0.graph.initializer.append(numpy_helper.from_array(np.array(-1), "m"))
    found = only(og.audit(below_0, levels=()))
    assert (found.range.state, found.range.low) == ("not-proved", (-1,))


RANGED = """<ir_version: 9, opset_import: ["" : 21]>
g (float[8] t, int64 a, int64 b) => (float[M] y) <int64 one = {1}, int64 two = {-2}>
{ r = Range(a, b, one)  [rows] y = Gather(t, r) }
"""


def test_only_a_range_of_constants_has_numbers_below_0() -> None:
    model = parser.parse_model(RANGED)
    (start, *_) = only(og.audit(model)).range.conditions
    assert (start.input, start.low) == ("a", 0)
    # ONNX Runtime folds a Range of constants.
    folded = parser.parse_model(RANGED.replace("Range(a, b", "Range(two, one"))
    assert og.audit(folded).verdict == "never"
    # The CPU counts the index from the end, or returns other rows.
    feeds = {"t": np.ones(8, np.float32), "a": np.array(-2), "b": np.array(1)}
    gather = only(og.audit(model, feeds, levels=()))
    assert (gather.range.state, gather.range.seen) == ("proved-if", (-2, 0))


RANK = """<ir_version: 9, opset_import: ["" : 21]>
g (float[N] x, float[N] z) => (int64 y)
<float[1,1] one = {1.0}, int64 i = {1}>
{ d = Div(one, z)  e = Mul(d, z)  s = Shape(e)  [size] y = Gather(s, i) }
"""


def test_a_gather_of_a_graph_that_runs_is_reported_beside_those_of_the_file() -> None:
    model = parser.parse_model(RANK)
    audited = og.audit(model)
    assert only(audited).range.state == "proved"
    why = "indices[] is 1, a constant, on an axis of 1"
    (graph,) = audited.graphs
    assert msgspec.to_builtins(audited.runtime) == {
        "version": VERSION,
        "provider": "cpu",
        "graphs": [
            {
                "version": VERSION,
                "levels": ["all"],
                "gathers": 1,
                "not_proved": [
                    {
                        "node": "size",
                        "place": "main graph",
                        "op": "Gather",
                        "levels": ["all"],
                        "state": "out-of-range",
                        "why": why,
                        "in_file": False,
                    }
                ],
                "refused": None,
            }
        ],
    }
    assert graph.not_proved == audited.graph_gathers
    Path("m.onnx").write_bytes(model.SerializeToString())
    code, text, _ = outcome("audit m.onnx")
    assert code == 1
    assert text.splitlines()[:4] == [
        "m.onnx: a wrong input can leave an axis; 1 gather: 1 proved in range; 1 more"
        " not proved in ONNX Runtime's graphs",
        f"OUT OF RANGE  size (Gather, main graph at level all): {why}",
        "shapes        on the CPU, 1 gather: 1 proved in range",
        ALSO_AUDITED,
    ]
    code, text, _ = outcome("audit m.onnx --levels none")
    assert code == 0
    assert (
        "\nruntime       the file was audited by ONNX's specification alone: no level"
        " is asked for\n"
    ) in text


def test_levels_with_equal_graphs_are_audited_once() -> None:
    audits: list[str] = []
    audit_one = vars(audit_of)["audit_graph"]

    def counted(network: Any, *args: Any, **given: Any) -> AuditedGraph:
        audits.append(network.path)
        return audit_one(network, *args, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_of, "audit_graph", counted)
        audited = og.audit(parser.parse_model(PLAIN), levels=LEVELS)
    assert [graph.levels for graph in audited.graphs] == [list(LEVELS)]
    assert len(audits) == 2


NARROW = """<ir_version: 9, opset_import: ["" : 21]>
g (float[8] t, int64[N] i, float[N] z) => (float[M] y, int64 w)
<float[1,1] one = {1.0}, int64 at = {1}>
{ [rows] y = Gather(t, i)
  d = Div(one, z)  e = Mul(d, z)  s = Shape(e)  [size] w = Gather(s, at) }
"""


def test_the_graphs_are_audited_under_the_contract_of_the_file() -> None:
    audited = og.audit(parser.parse_model(NARROW))
    assert [gather.range.state for gather in audited.gathers] == ["proved-if", "proved"]
    # The contract proves `rows`, whose own conditions are in it.
    assert [row.node for row in audited.graph_gathers] == ["size"]
    (graph,) = audited.graphs
    assert (graph.gathers, len(graph.not_proved)) == (2, 1)


OPEN = """<ir_version: 9, opset_import: ["" : 21]>
g (float[8,2] t, float[1] x) => ({}) {{ r = RandomNormalLike(x)  c = Cast<to = 7>(r)
  [rows] y = Gather(t, c)  z = Shape(y) }}
"""


def test_a_gather_that_is_open_in_the_file_is_a_finding_once() -> None:
    audited = og.audit(parser.parse_model(OPEN.format("float[1,2] y")))
    assert only(audited).range.state == "not-proved"
    (graph,) = audited.graphs
    assert [(row.node, row.in_file) for row in graph.not_proved] == [("rows", True)]
    assert audited.graph_gathers == []
    assert only(audited).rewritten_at == ()


def test_a_gather_that_is_folded_away_has_its_words() -> None:
    model = parser.parse_model(OPEN.format("int64[2] z"))
    Path("m.onnx").write_bytes(model.SerializeToString())
    _, text, _ = outcome("audit m.onnx")
    assert text.splitlines()[2] == (
        "    rows (Gather, main graph): index unbounded; the axis has 8 elements;"
        " folded or rewritten at level all"
    )


def test_the_exit_code_counts_what_a_graph_leaves_open() -> None:
    row = next(row for row in REWRITTEN_MODELS if row.name == "gelu of a scalar")
    Path("m.onnx").write_bytes(row.model().SerializeToString())
    assert outcome("audit m.onnx")[0] == 0
    code, text, _ = outcome("audit m.onnx --fail-on not-proved")
    assert code == 1
    assert "not proved    z (Gather, main graph at level all)" in text
    outcome("audit m.onnx --fail-on not-proved --write-baseline b.json")
    assert outcome("audit m.onnx --fail-on not-proved --baseline b.json")[0] == 0
    (entry,) = json.loads(Path("b.json").read_text())["findings"]
    assert (entry["place"], entry["state"]) == ("main graph", "not-proved")
    # A finding is the same, whichever levels are audited.
    levels = "--levels basic,extended,all"
    command = f"audit m.onnx --fail-on not-proved {levels} --baseline b.json"
    code, text, _ = outcome(command)
    assert (code, text.count("NEW  ")) == (0, 0)


def test_files_for_builds_have_what_a_graph_leaves_open() -> None:
    """A graph's gather has a testcase, a result and an item of its own."""
    for name in ("a.onnx", "b.onnx"):
        model = parser.parse_model(RANK)
        Path(name).write_bytes(model.SerializeToString())
    files = "--junit j.xml --sarif s.json --markdown s.md --html p.html"
    code, text, _ = outcome(f"audit a.onnx b.onnx {files}")
    said = "size (Gather, main graph at level all)"
    why = "indices[] is 1, a constant, on an axis of 1"
    assert code == 1
    assert f"OUT OF RANGE  a.onnx: {said} and 1 more in 2 models: {why}\n" in text
    # The table counts the gathers of the file.
    (row,) = [line for line in text.splitlines() if line.startswith("a.onnx ")]
    assert row.split()[1:] == ["1", "0", "0", "0", "0", "0", "1"]
    assert f'name="{said}"' in Path("j.xml").read_text()
    results = json.loads(Path("s.json").read_text())["runs"][0]["results"]
    assert [result["message"]["text"] for result in results] == [f"{said}: {why}"] * 2
    assert f"- **out-of-range** a.onnx: {said}: " in Path("s.md").read_text()
    page = Page(Path("p.html").read_bytes())
    assert page.texts["li"].count(f" {said}: {why}") == 2
    census = "2 gathers: 2 proved in range; 2 more not proved in ONNX Runtime's graphs"
    assert census in page.texts["p"]


def test_a_large_model_is_asked_for_only_by_a_level(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "MOST_UNASKED", 100)
    model = parser.parse_model(PLAIN)
    audited = og.audit(model)
    assert audited.runtime is None
    assert audited.runtime_reason == (
        "the model has more than 1 GiB, and no level is named"
    )
    assert og.audit(model, levels=["all"]).runtime is not None


PLAIN = """<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
g (float[8] t, int64[N] i) => (float[M] y) { [rows] y = Gather(t, i) }
"""


def test_levels_and_runtimes_are_any_sequence() -> None:
    model = parser.parse_model(PLAIN)
    expected = og.audit(model, levels=["basic"])
    assert expected.runtime is not None
    none: Any = np.array([])
    text: Any = np.array(["basic"])
    forms: list[Any] = [text, iter(["basic"])]
    for levels in forms:
        assert og.audit(model, levels=levels, runtimes=none) == expected
    python: Any = iter([sys.executable])
    assert og.audit(model, levels=["basic"], runtimes=python) == expected
    assert og.audit(model, levels=none).runtime is None


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
    assert audited.runtime is None
    (not_judged,) = audited.notes
    reason = audited.runtime_reason or ""
    assert reason.startswith(f"ONNX Runtime {VERSION} does not open the model: ")
    assert not_judged.startswith("not judged: 1 node of own (Mine)")
    Path("m.onnx").write_bytes(parser.parse_model(CUSTOM).SerializeToString())
    outcome("audit m.onnx --html p.html")
    texts = Page(Path("p.html").read_bytes()).texts["li"]
    alone = "the file was audited by ONNX's specification alone"
    assert any(text.startswith(f"{alone}: ONNX Runtime {VERSION}") for text in texts)


FOLDED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x, int64[M] i) => (float[K] y, int64 z)
<int64[1] five = {5}, int64[2] two = {1, 2}>
{ [wrong] z = Gather(two, five)  [rows] y = Gather(x, i) }
"""


def test_a_model_that_only_opens_without_optimizations_is_not_proved() -> None:
    """ONNX Runtime folds the gather of constants, and fails with it."""
    audited = og.audit(parser.parse_model(FOLDED), ranges={"i": (0, 0)})
    states = [gather.range.state for gather in audited.gathers]
    assert states == ["out-of-range", "proved"]
    (graph,) = audited.graphs
    # A version that keeps a gather that fails opens the model at each level.
    assert (graph.refused is not None) == (not graph.gathers)


def test_a_level_that_alone_does_not_open_the_model_proves_nothing() -> None:
    row = next(row for row in REWRITTEN_MODELS if row.name == "normalized: the scale")
    audited = og.audit(row.model())
    assert only(audited).range.state == "proved"
    if not IS_OLD:
        (graph,) = audited.graphs
        (note,) = audited.notes
        where = f"ONNX Runtime {VERSION} at level all does not open the model: "
        assert note.startswith(where)
        assert note.endswith(f" {graph.refused}")
        assert audited.verdict == "perhaps"


INLINED = """<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
g (float[8,2] t, int64[N] i, bool b) => (float[M,2] y, float[K,2] z)
<bool yes = {1}>
{ y = own.Rows(t, i)
  z = If(yes) <then_branch = g1 () => (a) { [then] a = Gather(t, i) },
               else_branch = g2 () => (c) { c = Identity(t) }> }
<domain: "own", opset_import: ["" : 21]>
Rows (x, k) => (r) { k2 = Add(k, k)  [own] r0 = Gather(x, k2)  r = Neg(r0) }
"""


def test_gathers_of_functions_and_branches_are_those_of_the_graph() -> None:
    audited = og.audit(parser.parse_model(INLINED))
    assert audited.notes == []
    assert [graph.gathers for graph in audited.graphs] == [2]
    assert audited.graph_gathers == []


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
        audited = og.audit(path)
    assert len(lengths) == 1
    assert max(lengths) < 5000
    assert only(audited).range.state == "proved-if"
    (graph,) = audited.graphs
    assert (graph.gathers, graph.not_proved) == (1, [])


def test_a_large_constant_of_indices_is_read_in_each_graph() -> None:
    indices = constant("indices", np.arange(2**17) % 7)
    model = written("(float[7] t) => (y) { [rows] y = Gather (t, indices) }", indices)
    for small in (2**26, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(graphs, "SMALL_MODEL", small)
            assert og.audit(model).verdict == "never"


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
        assert og.audit(model, levels=LEVELS).verdict == "never"
    expected = [f"{n}.{kind}" for n in (1, 2, 99) for kind in ("onnx", "weights")]
    assert names == [*expected, "model.onnx"]


def test_a_worker_that_dies_leaves_the_audit_of_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "WRITING_TIMEOUT", 1e-4)
    audited = og.audit(parser.parse_model(PLAIN))
    assert audited.runtime_reason == (
        "ONNX Runtime was not asked: the worker did not answer within 0.0001 s and"
        " printed nothing"
    )
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
def test_a_gather_with_another_name_in_a_graph_is_open_there(name: str) -> None:
    model = parser.parse_model(HIDDEN[name])
    # The gather of a Range is open in the file, too.
    is_slice = "Range" in HIDDEN[name]
    assert (og.audit(model, levels=()).verdict == "never") != is_slice
    audited = og.audit(model)
    assert audited.verdict != "never"
    assert bool(audited.graph_gathers) != is_slice
    if is_slice:
        assert only(audited).range.state == "not-proved"


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
    assert [graph.not_proved for graph in audited.graphs] == [[]]


def test_each_note_is_printed_once() -> None:
    Path("m.onnx").write_bytes(parser.parse_model(CUSTOM).SerializeToString())
    _, text, _ = outcome("audit m.onnx")
    assert text.count("does not open the model") == 1


def test_a_graph_that_needs_more_than_the_contract_counts_beside_the_file() -> None:
    """ONNX Runtime believes the size that the file declares of v."""
    model = parser.parse_model("""<ir_version: 9, opset_import: ["" : 17]>
        g (float[n] x) => (float y)
        <int64 one = {1}, int64[1] zero = {0}, int64[1] first = {1}, float[7] v>
        {
            v = Neg (x)
            sizes = Shape (v)
            size = Slice (sizes, zero, first, zero)
            count = Squeeze (size, zero)
            last = Sub (count, one)
            y = Gather (x, last)
        }""")
    audit = og.audit(model, allow_empty=True)
    assert audit.gathers[0].range.state == "proved-if"
    (row,) = audit.graph_gathers
    assert (row.state, row.in_file) == ("proved-if", False)
    assert row.why.startswith("size 0 of x (n) is at least 7")
