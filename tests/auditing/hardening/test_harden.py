"""A model hardened as a whole: files, external data, and the choice of gathers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import SIGNED_DESC as DESC
from folders import MODELS
from index_arithmetic import index_values
from onnx import (
    ModelProto,
    TensorProto,
    external_data_helper,
    helper,
    numpy_helper,
    parser,
)
from onnx_graphs import constant, written
from rewritten_models import REWRITTEN_MODELS
from rings import by_ring, one_quick_in
from sizes_of_one import recorded_nodes

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import harden_file, hardened
from onnxgather.auditing.hardening.verify import verify
from onnxgather.auditing.proof.contract import Condition
from onnxgather.core.model import wire
from onnxgather.core.model.network import read_network
from onnxgather.core.model.own import drop_entries, own_entry
from onnxgather.core.model.wire import whole_tensor
from onnxgather.core.options import OutOfRange
from onnxgather.core.replacing import check_replaceable

MODEL = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
g (int64[n] ids) => (y, z)
<float[8, 2] table = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, int64[2] i = {7, -8}>
{
  [embedding] y = Gather (table, ids)
  z = Gather (table, i)
}""")  # noqa: E501

for tensor in MODEL.graph.initializer:
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))


def saved(folder: Path, external: bool = False) -> str:
    """Write the model and return its path."""
    folder.mkdir(exist_ok=True)
    model = onnx.ModelProto.FromString(MODEL.SerializeToString())
    if external:
        external_data_helper.convert_model_to_external_data(
            model, True, "weights.bin", 0
        )
        external_data_helper.write_external_data_tensors(model, str(folder))
    path = str(folder / "model.onnx")
    Path(path).write_bytes(model.SerializeToString())
    return path


def loaded(path: str) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(Path(path).read_bytes())


def error(path: str, output: str, policy: object = "clamp") -> str:
    """Return the error that hardening a file raises."""
    with pytest.raises(og.OnnxGatherError) as raised:
        harden_file(Premises(read_network(path)), output, policy)  # pyright: ignore[reportArgumentType]
    return str(raised.value)


def test_only_gathers_that_are_not_proved_are_rewritten(tmp_path: Path) -> None:
    path, output = saved(tmp_path), str(tmp_path / "out.onnx")
    (done,) = harden_file(Premises(read_network(path)), output).rewritten
    assert (done.place, done.node, done.operator) == (
        "main graph",
        "embedding",
        "Gather",
    )
    written = loaded(output)
    assert written == og.harden(path) == og.harden(MODEL)
    assert written.graph.node[-1] == MODEL.graph.node[-1]


def test_a_range_that_is_given_can_prove_a_gather() -> None:
    assert og.harden(MODEL, ranges={"ids": (-8, 7)}).graph == MODEL.graph
    assert og.harden(MODEL, ranges={"ids": (-8, 8)}).graph != MODEL.graph


def test_hardening_again_changes_nothing() -> None:
    once = og.harden(MODEL)
    assert og.harden(once) == once
    assert once.graph != MODEL.graph


@pytest.mark.parametrize("rule", ["clamp", "zero", "index=3"])
def test_a_hardened_model_says_in_one_entry_that_it_is_one(rule: str) -> None:
    model = ModelProto()
    model.CopyFrom(MODEL)
    model.metadata_props.add(key="author", value="somebody")
    made = og.harden(model, rule)
    entry = own_entry(made)
    assert entry is not None
    assert (entry.hardened, entry.descriptor) == (rule, None)
    drop_entries(made)
    assert made.metadata_props == model.metadata_props
    # Only the nodes and the entry are new.
    del made.graph.node[:]
    del model.graph.node[:]
    assert made == model


def test_a_model_of_onnxgather_keeps_its_entry_while_its_graph_is_the_same() -> None:
    clamping = og.to_onnx(DESC, "clamp")
    assert og.harden(clamping) == clamping
    failing = og.to_onnx(DESC, "error")
    entry = own_entry(og.harden(failing, "zero"))
    assert entry is not None
    assert (entry.hardened, entry.descriptor) == ("zero", None)
    # A tool added what the entry does not speak of, so it is written anew.
    shaped = onnx.shape_inference.infer_shapes(og.to_onnx(DESC, "clamp"))
    shaped.doc_string = "mine"
    renewed = og.harden(shaped)
    assert own_entry(renewed) == own_entry(clamping)
    assert renewed.metadata_props[0].key != clamping.metadata_props[0].key


def test_a_hardened_model_is_one_of_others_whose_metadata_are_its_own() -> None:
    made = og.harden(MODEL)
    changed = "one whose metadata of onnxgather are of another graph"
    for found in ("another model", changed):
        if found == changed:
            del made.graph.node[-1]
        with pytest.raises(og.FileFormatError) as raised:
            og.load(made)
        assert f"wrote from a descriptor, got {found}; onnxgather" in str(raised.value)


def test_constants_that_are_shared_count_in_the_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = og.harden(MODEL)
    monkeypatch.setattr(wire, "LEAST_WEIGHT_LEFT_OUT", 0)
    monkeypatch.setattr(wire, "LARGE", 8)
    done = hardened(Premises(read_network(MODEL)))
    left_out = [whole_tensor(weight).name for weight in done.weights.values()]
    assert left_out == ["table", "i"]
    assert done.model == whole
    assert own_entry(done.model) is not None
    assert own_entry(done.light) is None


def test_external_data_stays_in_its_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "a", external=True)
    output = str(tmp_path / "a" / "out.onnx")
    harden_file(Premises(read_network(path)), output)
    assert own_entry(loaded(output)) is not None
    check_replaceable(output)
    tensor = loaded(output).graph.initializer[0]
    assert tensor == loaded(path).graph.initializer[0]
    assert {file.name for file in (tmp_path / "a").iterdir()} == {
        "model.onnx",
        "weights.bin",
        "out.onnx",
    }
    other = str(tmp_path / "b.onnx")
    assert (
        error(path, other)
        == f"{other} must be in the folder of {path}, as it refers to its external"
        " data, 'weights.bin'"
    )
    assert not Path(other).exists()
    weights = tmp_path / "a" / "weights.bin"
    before = weights.read_bytes()
    assert (
        error(path, str(weights)) == f"{weights} must not be written, as it is an input"
    )
    assert weights.read_bytes() == before


@pytest.mark.parametrize(
    "place",
    [
        "default",
        "indices",
        "values",
        "attribute",
        "several",
        "training",
        "training_node",
    ],
)
def test_external_data_is_seen_wherever_a_model_has_tensors(
    tmp_path: Path, place: str
) -> None:
    """Of a function's default, sparse ones, attributes, and the graphs of the
    training."""
    away = TensorProto(name="away", data_type=TensorProto.FLOAT, dims=[4])
    away.data_location = TensorProto.EXTERNAL
    away.external_data.add(key="location", value="w.bin")
    sparse = onnx.SparseTensorProto(dims=[4])
    (sparse.values if place == "values" else sparse.indices).CopyFrom(away)
    model = ModelProto()
    model.CopyFrom(MODEL)
    attributes = {
        "default": helper.make_attribute("a", away),
        "attribute": helper.make_attribute("a", sparse),
        "several": helper.make_attribute("a", [sparse, sparse]),
        "training_node": helper.make_attribute("a", away),
    }
    hidden = helper.make_node("Odd", [], ["odd"], domain="own")
    if place == "default":
        function = model.functions.add(name="Odd", domain="own")
        function.attribute_proto.append(attributes[place])
    elif place in ("indices", "values"):
        model.graph.sparse_initializer.append(sparse)
    elif place == "training":
        model.training_info.add().initialization.initializer.append(away)
    else:
        hidden.attribute.append(attributes[place])
        owner = (
            model.training_info.add().algorithm if "training" in place else model.graph
        )
        owner.node.append(hidden)
    path, output = str(tmp_path / "model.onnx"), str(tmp_path / "other" / "out.onnx")
    Path(path).write_bytes(model.SerializeToString())
    assert (
        error(path, output)
        == f"{output} must be in the folder of {path}, as it refers to its external"
        " data, 'w.bin'"
    )


def test_a_model_is_not_written_over_itself(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert error(path, path) == f"{path} must not be written, as it is an input"
    assert loaded(path) == MODEL


def test_the_policy_must_make_a_value(tmp_path: Path) -> None:
    path = saved(tmp_path)
    assert (
        error(path, "out.onnx", "error")
        == "out_of_range must be one of clamp, zero, directml, index=N, got 'error'"
    )


def test_sizes_that_are_given_are_not_written_into_the_arithmetic() -> None:
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17]>
g (float[n] data, int64[k] i) => (y) { y = Gather (data, i) }""")
    given = {"data": [3], "i": [2]}
    assert og.harden(model, shapes=given) == og.harden(model)
    fixed = og.harden(model, "directml", shapes=given)
    operators = {node.op_type for node in fixed.graph.node}
    assert "Shape" not in operators
    assert "Min" in operators
    assert [*fixed.graph.input] == [*model.graph.input]


@pytest.mark.parametrize("is_static", one_quick_in(2, [True, False]))
def test_under_directml_a_size_of_1_is_read_as_the_provider_reads_it(
    is_static: bool,
) -> None:
    for row in recorded_nodes():
        shapes = {} if is_static else {"data": row.data, "indices": row.indices}
        hardened = og.harden(row.model(is_static), "directml", shapes=shapes)
        session: Any = onnxruntime.InferenceSession(hardened.SerializeToString())
        for run in row.runs:
            (output,) = session.run(None, row.inputs(run))
            assert output.ravel().tolist() == run.of(is_static), (row, run)


@pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
def test_a_hardened_network_does_not_fail_whatever_its_indices_are(
    policy: OutOfRange,
) -> None:
    path = MODELS / "networks" / "keywords.onnx"
    ort: Any = onnxruntime
    given = {"words": (2, 6)}
    hardened = og.harden(path, policy, given).SerializeToString()
    original, run = (ort.InferenceSession(m).run for m in (path.read_bytes(), hardened))
    random, count = np.random.default_rng(0), by_ring(50, 200)
    values = index_values("int64", 32)
    for _ in range(count):
        anywhere = random.integers(-(2**63), 2**63 - 1, (2, 6), endpoint=True)
        near = random.choice(values, (2, 6))
        words = np.where(random.random((2, 6)) < 0.5, anywhere, near)
        assert run(None, {"words": words})[0].shape == (2, 2, 8)
        inside = random.integers(-32, 32, (2, 6))
        (expected,), (found,) = (
            each(None, {"words": inside}) for each in (original, run)
        )
        assert found.tobytes() == expected.tobytes()


def test_a_gather_of_a_function_that_is_never_called_is_named() -> None:
    model = parser.parse_model("""
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (int64[n] ids) => (y) { y = Neg (ids) }
<domain: "own", opset_import: ["" : 17]>
Look (table, i) => (z) { [look] z = Gather (table, i) }""")
    done = hardened(Premises(read_network(model)))
    assert done.model.graph == model.graph
    assert done.model.functions == model.functions
    assert [*map(str, done.left)] == [
        "left: function Look, not called: Gather 'look': the function is never called"
    ]


@pytest.mark.parametrize("is_first", [True, False])
def test_gathers_behind_a_function_that_is_never_called_are_named(
    is_first: bool,
) -> None:
    functions = [
        """
<domain: "own", opset_import: ["" : 17, "own" : 1]>
Look (table, i, yes) => (z)
{
  [if] z = If (yes) <
    then_branch = t () => (a) { [look] a = Gather (table, i) },
    else_branch = e () => (b) { [call] b = own.Deep (table, i) } >
}""",
        """
<domain: "own", opset_import: ["" : 17]>
Deep (table, i) => (z) { [deep] z = Gather (table, i) }""",
    ]
    main = """
<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (int64[n] ids) => (y) { y = Neg (ids) }"""
    premises = Premises(
        read_network(
            parser.parse_model(main + "".join(functions[:: 1 if is_first else -1]))
        )
    )
    done = hardened(premises)
    way = "function Look, not called"
    deep = f"function Deep, called by call in else_branch of if in {way}"
    look = (
        f"left: then_branch of if in {way}: Gather 'look': the function is never called"
    )
    assert sorted(map(str, done.left)) == [
        f"left: {deep}: Gather 'deep': the function is never called",
        look,
    ]
    audit, *_ = verify(premises, done)
    assert audit.said == "2 nodes with indices, 2 left, 0 others not proved"


def test_only_the_data_is_cropped_of_a_node_that_is_proved() -> None:
    """The sizes that are given show that the data is too large."""
    which = constant("which", np.zeros((1, 3), np.int64))
    made = written(
        "(float[n, m] x) => (y) { y = GatherElements <axis = 1> (x, which) }", which
    )
    done = hardened(Premises(read_network(made), {"x": [5, 3]}))
    assert [str(each) for each in done.rewritten] == [
        "main graph: GatherElements 'y': the data is cropped to the sizes of the"
        " indices in dimension 0, as DirectML refuses more data than indices off the"
        " axis"
    ]


def test_conditions_that_are_given_are_not_written_into_the_arithmetic() -> None:
    """The axis may be empty but for the condition."""
    made = written("(float[n] x, int64[2] i) => (y) { y = Gather (x, i) }")
    plain = read_network(made)
    condition = Condition(of="size", input="x", dim=0, expression="n", low=1)
    given = Premises(plain, None, [condition], allow_empty=True)
    expected = hardened(Premises(plain, allow_empty=True), "zero").model
    assert hardened(given, "zero").model.graph == expected.graph


@pytest.mark.parametrize(
    ("name", "rewritten", "verdict"),
    [("cast to BOOL", 1, "never"), ("divided: the shape", 0, "can-leave")],
)
def test_a_node_that_only_the_graph_that_runs_leaves_open_is_rewritten_or_left(
    name: str, rewritten: int, verdict: str
) -> None:
    row = next(row for row in REWRITTEN_MODELS if row.name == name)
    result = hardened(Premises(read_network(row.model())))
    assert len(result.rewritten) == rewritten
    assert og.audit(result.model).verdict == verdict
    left = "no limit of its indices would be proved in the graph that runs"
    assert [each.why for each in result.left] == [left] * (1 - rewritten)


def test_a_node_that_only_a_graph_has_is_left_if_it_is_open() -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["" : 21, "own" : 1]>
        g (float[N] z) => (int64 y) <float[1,1] one = {1.0}, int64 i = {1}>
        { d = Div(one, z)  e = Mul(d, z)  s = Shape(e)  y = own.f(s, i) }
        <domain: "own", opset_import: ["" : 21]>
        f (s, i) => (r) { [inner] t = Gather(s, i)  r = Neg(t) }""")
    result = hardened(Premises(read_network(model)))
    assert [str(each) for each in result.left] == [
        "left: main graph at level all: Gather '_inlfunc_f_inner': ONNX Runtime runs"
        " another graph, which does not prove it"
    ]
