"""A gather of any ONNX model becomes a case: its descriptor, and what it gets in a
run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from agreement import EXAMPLES, same
from command_line import POSIX
from hypothesis import given, settings
from messages import message_of, rows_of
from onnx import TensorProto, helper
from onnx_gathers import ONNX_GATHERS, write_gather
from onnx_graphs import constant, function, nodes_of, written
from rings import one_quick_in
from short_descriptors import descriptor
from strategies import cases
from stub_runtime import environment

import onnxgather as og
from onnxgather.auditing import whole_run
from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.extracting import extract as extraction

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
IDS = np.array([3, 1, 0])


def case_of_node(
    path: str, name: str, inputs: Mapping[str, Array], timeout: float = 60
) -> Case:
    """Return the case of a node."""
    return extraction.case_of_node(path, inputs, name, timeout)


TABLE = constant("table", DATA)


def save(
    folder: Path,
    graph: str,
    *functions: onnx.FunctionProto,
    table: Sequence[onnx.TensorProto] = (TABLE,),
    opset: int = 17,
    ir_version: int = 8,
) -> str:
    """Write the model of a graph in ONNX's textual syntax, and return its path."""
    model = written(graph, *table, functions=functions, ir_version=ir_version)
    model.opset_import[0].version = opset
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


GATHER = "(int64[n] ids) => (rows) { [gather] rows = Gather (table, ids) }"
MOVED = """(int64[n] ids) => (rows) {
    moved = Neg (ids)
    [gather] rows = Gather (table, moved)
}"""
TURNED = """(int64[n] ids) => (other) {
    turned = Transpose (table)
    other = Gather (turned, ids)
}"""


def make_external(path: str, location: str) -> None:
    """Move the initializers of a model to a file beside it."""
    library: Any = onnx
    model = library.load(path)
    options = {"save_as_external_data": True, "location": location, "size_threshold": 0}
    library.save_model(model, path, **options)


def refusal(path: str, name: str, inputs: Mapping[str, Array] | None = None) -> str:
    """Return what is wrong, without the path and the main graph."""
    return (
        message_of(OnnxGatherError, case_of_node, path, name, inputs or {})
        .replace(f"{path}: ", "")
        .replace("main graph: ", "")
    )


def output(case: Case) -> Array:
    expected = case.expected()
    assert not isinstance(expected, str)
    return expected


DESCRIPTORS = """
() => (rows) <int64 ids = {-2}> { [gather] rows = Gather (table, ids) }
GATHER: FLOAT32 5x4, INT64 1x1, FLOAT32 1x4, 0, 0

() => (rows) <int32[5,1] ids = {1,1,1,1,1}> { [gather] rows = GatherElements <axis=1> (table, ids) }
GATHER_ELEMENTS: FLOAT32 5x4, INT32 5x1, FLOAT32 5x1, 1

() => (rows) <int64[5,1,1] ids = {1,1,1,1,1}> { [gather] rows = GatherND <batch_dims=1> (table, ids) }
GATHER_ND1: FLOAT32 1x5x4, INT64 5x1x1, FLOAT32 1x5x1, 2, 3, 1
"""  # noqa: E501


def test_gather_pads_to_the_largest_rank(tmp_path: Path) -> None:
    path = save(tmp_path, GATHER.replace("Gather", "Gather <axis=-1>"))
    case = case_of_node(path, "gather", {"ids": IDS})
    assert isinstance(case, DescriptorCase)
    wanted = "GATHER: FLOAT32 5x4, INT64 1x3, FLOAT32 5x3, 1, 1"
    assert case.descriptor == descriptor(wanted)
    assert output(case).tolist() == DATA[:, [3, 1, 0]].tolist()
    assert case.name == f"{path}: main graph: node 'gather'"
    assert case.out_of_range == "error"


@pytest.mark.parametrize(("graph", "expected"), rows_of(DESCRIPTORS))
def test_each_operator_has_its_descriptor(
    tmp_path: Path, graph: str, expected: str
) -> None:
    case = case_of_node(save(tmp_path, graph), "gather", {})
    assert isinstance(case, DescriptorCase)
    assert case.descriptor == descriptor(expected)


def test_what_onnx_forbids_is_a_forbidden_node(tmp_path: Path) -> None:
    graph = """() => (rows) <int64[3,1] ids = {0, 0, 0}> {
            [gather] rows = GatherND <batch_dims=1> (table, ids)
        }"""
    case = case_of_node(save(tmp_path, graph), "gather", {})
    assert isinstance(case, NodeCase)
    assert case.node == GatherNode(
        "GatherND",
        {"batch_dims": 1},
        (3,),
        "the first batch_dims (1) sizes of indices must be those of data, [5], got [3]",
    )


@pytest.mark.parametrize("name", ONNX_GATHERS)
def test_a_node_that_no_descriptor_says_is_a_node(tmp_path: Path, name: str) -> None:
    gather = ONNX_GATHERS[name]
    write_gather(tmp_path, name, gather)
    inputs = {"data": gather.data, "ids": gather.indices}
    case = case_of_node(str(tmp_path / f"{name}.onnx"), "g", inputs)
    assert isinstance(case, NodeCase)
    assert case.node == gather.case.node
    assert same(case.data, gather.data)
    assert same(case.indices, gather.indices)
    assert case.why_no_descriptor == gather.why


@pytest.mark.slow
@settings(max_examples=EXAMPLES // 50)  # each starts a worker
@given(cases(wild=False, packed=True))
def test_the_node_of_a_descriptors_model_computes_the_same(
    tmp_path_factory: Any, case: Any
) -> None:
    model = og.to_onnx(case.desc, "error")
    gather = next(n for n in model.graph.node if n.op_type.startswith("Gather"))
    path = str(tmp_path_factory.mktemp("law") / "model.onnx")
    Path(path).write_bytes(model.SerializeToString())
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    found = case_of_node(path, gather.name, inputs)
    assert (
        output(found).tobytes()
        == og.reference(case.desc, case.data, case.indices).tobytes()
    )


def test_inputs_that_other_nodes_compute_are_computed(tmp_path: Path) -> None:
    graph = """(int64[n] ids) => (unrelated) {
            one = Constant <value = int64 {1}> ()
            turned = Transpose (table)
            moved = Sub (ids, one)
            [gather] rows = Gather (turned, moved)
            unrelated = Log (ids)
        }"""
    case = case_of_node(save(tmp_path, graph), "gather", {"ids": IDS})
    assert case.data.tolist() == DATA.T.tolist()
    assert case.indices.tolist() == [[2, 0, -1]]


@pytest.mark.parametrize("opset", one_quick_in(3, [1, 7, 13]))
def test_inputs_computed_by_old_operator_sets_are_computed(
    tmp_path: Path, opset: int
) -> None:
    graph = TURNED.replace("[n] ids", "[3] ids, float[5,4] table")
    path = save(tmp_path, graph, opset=opset, ir_version=3)
    case = case_of_node(path, "other", {"ids": IDS})
    assert output(case).tolist() == DATA.T[IDS].tolist()
    given_table = case_of_node(path, "other", {"ids": IDS, "table": DATA + 1})
    assert output(given_table).tolist() == (DATA.T[IDS] + 1).tolist()


def test_any_value_may_be_given(tmp_path: Path) -> None:
    graph = """(int64[n] ids) => (rows) {
            kept = Identity (ids)
            moved = Neg (kept)
            [gather] rows = Gather (table, moved)
        }"""
    path = save(tmp_path, graph)
    for name, wanted in (("kept", [[-3, -1, 0]]), ("moved", [[3, 1, 0]])):
        assert case_of_node(path, "gather", {name: IDS}).indices.tolist() == wanted


def test_branches_that_lead_there_see_the_outer_values(tmp_path: Path) -> None:
    graph = """(int64[n] ids, bool yes) => (rows) {
            moved = If (yes) <
                then_branch = t () => (turned) { turned = Neg (ids) },
                else_branch = e () => (turned) { turned = Neg (ids) }
            >
            rows = Gather (table, moved)
        }"""
    inputs = {"ids": IDS, "yes": np.array(True)}
    found = case_of_node(save(tmp_path, graph), "rows", inputs)
    assert found.indices.tolist() == [[-3, -1, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("large", [0, whole_run.LARGE])
def test_external_data_is_found_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    monkeypatch.setattr(whole_run, "LARGE", large)
    both = TURNED.replace("{", "{ [gather] rows = Gather (table, ids)")
    path = save(tmp_path, both)
    make_external(path, "data")
    assert case_of_node(path, "gather", {"ids": IDS}).data.tolist() == DATA.tolist()
    save(tmp_path, TURNED)
    turned = case_of_node(path, "other", {"ids": IDS})
    assert turned.data.tolist() == DATA.T.tolist()
    Path(tmp_path, "data").unlink()
    make_external(path, "more")
    Path(tmp_path, "more").write_bytes(b"")
    said = refusal(path, "other", {"ids": IDS})
    assert said.startswith("node 'other': turned fails: ")


def test_the_nodes_before_the_gather_must_run(tmp_path: Path) -> None:
    path = save(tmp_path, MOVED.replace("Neg", "NoSuchOperator"))
    assert refusal(path, "gather", {"ids": IDS}).startswith(CANNOT)


def test_a_name_of_no_gather_is_refused(tmp_path: Path) -> None:
    twice = """(int64[n] ids) => (d) {
            [same] a = Gather (table, ids)
            [same] b = Gather (table, ids)
            [neg] c = Neg (a)
            d = of.others.Gather (table, ids)
        }"""
    path = save(tmp_path, twice)
    assert refusal(path, "same", {"ids": IDS}) == "--node must be one of 'a', 'b'"
    for name in ("neg", "other", "", "d"):
        said = f"node {name!r} must be one of the model's 2 gathers"
        assert refusal(path, name) == said
    said = "node 'gathr' must be one of the model's 1 gathers; did you mean"
    assert refusal(save(tmp_path, GATHER), "gathr") == f'{said} "gather"?'
    path = save(tmp_path, "(int64[n] ids) => (n) { n = Neg (ids) }", table=())
    assert refusal(path, "gather") == "the model must have a gather, got none"


@pytest.mark.parametrize(
    ("outer", "where"),
    [
        (
            "out = own.Rows (table, kept)",
            "function Rows, called by",
        ),
        (
            """[choose] out = If (yes) <
                    then_branch = t () => (rows) {[gather] rows = Gather (table, ids)},
                    else_branch = e () => (rows) {[gather] rows = Gather (table, ids)}
                >""",
            "then_branch of choose",
        ),
    ],
)
def test_a_gather_inside_another_node_needs_what_leads_to_that_node(
    tmp_path: Path, outer: str, where: str
) -> None:
    gather = nodes_of("[gather] rows = Gather (table, ids)")
    rows = function("Rows", ["table", "ids"], gather)
    graph = f"""(int64[n] ids, bool yes, float[] rest) => (out) {{
            kept = Identity (ids)
            unrelated = Neg (rest)
            {outer}
        }}"""
    path = save(tmp_path, graph, rows)
    case = case_of_node(path, "gather", {"ids": IDS, "yes": np.array(True)})
    assert where in case.name
    assert case.indices.tolist() == [IDS.tolist()]


def test_a_data_type_that_only_running_tells_makes_a_node(tmp_path: Path) -> None:
    graph = """(int64[n] ids) => (rows) {
            cast = Cast <to=9> (table)
            [gather] rows = Gather (cast, ids)
        }"""
    case = case_of_node(save(tmp_path, graph), "gather", {"ids": IDS})
    assert isinstance(case, NodeCase)
    assert output(case).tolist() == (DATA != 0)[IDS].tolist()


def test_inputs_that_do_not_fit_the_model_are_refused(tmp_path: Path) -> None:
    graph = """(int64[n,3] ids, float[] rest) => (rows) {
            unrelated = Neg (rest)
            [gather] rows = Gather (table, ids)
        }"""
    path = save(tmp_path, graph)
    assert refusal(path, "gather") == MISSING.format("ids")
    ids = np.zeros((2, 3), np.int64)
    assert case_of_node(path, "gather", {"ids": ids}).indices.shape == (1, 2, 3)
    rule = "input 'ids' must be INT64 [?, 3], got"
    for wrong in (ids.astype(np.int32), ids[:, :2], ids[0]):
        said = f"{rule} {wrong.dtype} {list(wrong.shape)}"
        assert refusal(path, "gather", {"ids": wrong}) == said
    assert refusal(path, "gather", {"ids": ids, "idx": ids}) == (
        "the given inputs hold 'idx', but the model's inputs are 'ids', 'rest'"
    )
    assert refusal(path, "gather", {"ids": ids, "rest": ids}) == (
        "input 'rest' must be FLOAT, got int64 [2, 3]"
    )


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "model.onnx")
    assert refusal(path, "gather") == "no such file or directory"
    Path(path).write_text("no model")
    assert (
        refusal(path, "gather")
        == "must be an ONNX model, got bytes that are cut short, or no model"
    )
    Path(path).write_bytes(b"")
    assert (
        refusal(path, "gather") == "must be an ONNX model with nodes, got an empty file"
    )


CANNOT = "node 'gather': moved fails: "
MISSING = (
    "the inputs must hold an array for each input of the model, got none for {!r}; give"
    " --inputs FILE.npz"
)


def type_99(model: Any) -> None:
    model.graph.initializer[0].data_type = 99


def input_of_type_99(model: Any) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 99


def axes(model: Any, *values: float) -> None:
    """Give the gather these axes."""
    for value in values:
        model.graph.node[-1].attribute.append(helper.make_attribute("axis", value))


def inputs(model: Any, *names: str) -> None:
    """Give the gather other inputs."""
    model.graph.node[-1].input[:] = names


def no_output(model: Any) -> None:
    del model.graph.node[-1].output[:]


def sizes(model: Any, *values: int) -> None:
    """Give the table's initializer other sizes."""
    model.graph.initializer[0].dims[:] = values


def content(model: Any, text: str) -> None:
    """Give the table's initializer other bytes."""
    model.graph.initializer[0].raw_data = text.encode()


def external(model: Any, key: str, value: str) -> None:
    """Put the table into a file of 80 bytes beside the model, or somewhere else."""
    table = model.graph.initializer[0]
    table.ClearField("raw_data")
    table.data_location = TensorProto.EXTERNAL
    said = {"location": "data", "offset": "0", "length": "80", key: value}
    for key, value in said.items():
        table.external_data.add(key=key, value=value)


def twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


def no_text(model: Any, name: str) -> None:
    """Put a byte that is no UTF-8 in place of the second letter of a name."""
    wanted, wrong = name.encode(), name.encode().replace(name[1].encode(), b"\xff", 1)
    model.ParseFromString(model.SerializeToString().replace(wanted, wrong))


def axis_no_text(model: Any) -> None:
    axes(model, 1)
    no_text(model, "axis")


def external_no_text(model: Any) -> None:
    external(model, "location", "data")
    no_text(model, "data")


def size_no_text(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "size"
    no_text(model, "size")


def cycle(model: Any) -> None:
    model.graph.node[0].input[0] = "rows"


def operator(model: Any, name: str) -> None:
    model.graph.node[0].op_type = name


def no_opset(model: Any) -> None:
    del model.opset_import[:]


def ir_version(model: Any, number: int) -> None:
    model.ir_version = number


CHANGES = (
    *(type_99, input_of_type_99, axes, inputs, no_output, sizes, content, external),
    *(twice, no_text, axis_no_text, external_no_text, size_no_text),
    *(cycle, operator, no_opset, ir_version),
)

BROKEN = r"""
type_99
what leads to 'table' cannot be read: its type must be one of ONNX's, got data type 99

input_of_type_99
input 'ids' must be data type 99 [?], got int64 [3]

inputs
node 'gather' must have two inputs and one output

inputs "table", ""
node 'gather' must have two inputs and one output

inputs "table", "no"
node 'gather' must take values of its graph or of a graph around it, got 'no'

no_output
node 'gather' must have two inputs and one output

axes 1.5
node 'gather' must be one that ONNX allows

axes 0, 1
node 'gather' must be one that ONNX allows

axis_no_text
node 'gather' must be one that ONNX allows

sizes -1, 4
what leads to 'table' cannot be read: its sizes must be at least 0, got [-1, 4]

sizes 4611686018427387904, 4
what leads to 'table' cannot be read: cannot reshape array of size 20 into shape
(4611686018427387904,4)

content "123"
what leads to 'table' cannot be read: buffer size must be a multiple of element size

content ""
what leads to 'table' cannot be read: cannot reshape array of size 0 into shape (5,4)

external "location", "/etc/passwd"
what leads to 'table' cannot be read:

external "location", "../data"
what leads to 'table' cannot be read:

external "location", "none"
what leads to 'table' cannot be read:

external "location", ""
what leads to 'table' cannot be read:

external "location", "a\u0000b"
external data must be in a file with a name in UTF-8 without NUL, got 'a\x00b'

external_no_text
external data must be in a file with a name in UTF-8 without NUL, got b'd\xffta'

external "offset", "-4"
what leads to 'table' cannot be read:

external "offset", "x"
what leads to 'table' cannot be read: invalid literal for int() with base 10: 'x'

external "length", "84"
what leads to 'table' cannot be read:

external "length", "79"
what leads to 'table' cannot be read:

twice
name 'table' must be of one value, got 2

no_text "moved"
name b'm\xffved' must be UTF-8

size_no_text
name b's\xffze' must be UTF-8

cycle
a value must not lead to itself, got 'moved', 'rows', 'moved'

operator ""
node 'gather': moved fails:

no_opset
opset_import must name the version of ai.onnx, got none

ir_version 2147483648
ir_version must be an integer from 0 to 14, got 2147483648

operator "SequenceConstruct"
node 'gather': gather fails:
"""
"""How a model is broken, and what is said of it; after a colon the rest is onnx's or
ONNX Runtime's."""


@pytest.mark.parametrize(("change", "said"), one_quick_in(12, rows_of(BROKEN)))
def test_a_broken_model_is_one_sentence(tmp_path: Path, change: str, said: str) -> None:
    path = save(tmp_path, MOVED)
    tmp_path.joinpath("data").write_bytes(bytes(80))
    model = onnx.ModelProto.FromString(Path(path).read_bytes())
    name, _, values = change.partition(" ")
    (broken,) = [one for one in CHANGES if one.__name__ == name]
    broken(model, *json.loads(f"[{values}]"))
    Path(path).write_bytes(model.SerializeToString())
    found = refusal(path, "gather", {"ids": IDS})
    assert found.startswith(said)
    assert "\n" not in found
    assert said.endswith(":") or found == said


def test_a_model_of_more_than_2_gib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.truncate(3 << 30)
    assert refusal(str(path), "gather") == "must be an ONNX model of at most 2 GiB"


@POSIX
def test_a_model_is_a_file_as_a_device_may_have_no_end(tmp_path: Path) -> None:
    rule = "must be a file, not a folder or a device"
    assert refusal(os.devnull, "gather") == rule
    assert refusal(str(tmp_path), "gather") == rule


def test_a_path_that_no_file_can_have_is_refused() -> None:
    assert refusal("a\0b", "gather") == "a\\x00b: embedded null byte"


def test_a_sparse_initializer_is_not_read(tmp_path: Path) -> None:
    path = save(tmp_path, GATHER, table=())
    model = onnx.ModelProto.FromString(Path(path).read_bytes())
    values, where = constant("table", np.ones(1, "f4")), constant("where", [3])
    sparse = helper.make_sparse_tensor(values, where, [5])
    model.graph.sparse_initializer.append(sparse)
    Path(path).write_bytes(model.SerializeToString())
    said = "node 'gather': it did not run with these inputs"
    assert refusal(path, "gather", {"ids": IDS}) == said


def test_odd_models_that_onnx_runtime_takes_are_read(tmp_path: Path) -> None:
    path = save(tmp_path, MOVED, ir_version=0)
    model = onnx.ModelProto.FromString(Path(path).read_bytes())
    neg, gather = model.graph.node
    neg.output[0] = gather.input[1] = "m\0"
    del model.graph.output[:]
    model.graph.value_info.append(onnx.ValueInfoProto(name="m\0"))  # of no type
    Path(path).write_bytes(model.SerializeToString())
    found = case_of_node(path, "gather", {"ids": IDS})
    assert found.indices.tolist() == [[-3, -1, 0]]


@pytest.mark.slow
def test_a_gather_of_many_nodes_is_found_quickly(tmp_path: Path) -> None:
    chain = " ".join(f"n{k + 1} = Neg (n{k})" for k in range(30_000))
    graph = f"{chain} [gather] rows = Gather (table, n30000)"
    path = save(tmp_path, f"(int64[n] n0) => (rows) {{ {graph} }}")
    start = time.process_time()
    found = case_of_node(path, "gather", {"n30000": IDS})
    assert found.indices.tolist() == [[3, 1, 0]]
    assert refusal(path, "gather") == MISSING.format("n0")
    assert time.process_time() - start < 10


ENDS = """
class InferenceSession:
    def __init__(*_, **__): os.kill(os.getpid(), signal.SIGSEGV)
"""
DIED = "the worker died of SIGSEGV and printed nothing"
NO_RUNTIME = (
    "the environment of CPUExecutionProvider does not contain ONNX Runtime; install"
    " onnxruntime"
)


@pytest.mark.slow
def test_nodes_that_do_not_end_meet_the_deadline(tmp_path: Path) -> None:
    graph = """(int64[n] ids) => (rows) <int64 count = {4611686018427387904}> {
            moved = Loop (count, "", ids) <
                body = b (int64 k, bool on, int64[n] v) => (bool still, int64[n] w) {
                    still = Identity (on)
                    w = Neg (v)
                }
            >
            [gather] rows = Gather (table, moved)
        }"""
    path = save(tmp_path, graph)
    with pytest.raises(OnnxGatherError) as caught:
        case_of_node(path, "gather", {"ids": IDS}, timeout=2)
    assert (caught.value.exit_code, str(caught.value)) == (
        3,
        (
            f"{path}: the model must run with the given inputs, but the worker did"
            " not answer within 2 s and printed nothing"
        ),
    )


@POSIX
@pytest.mark.parametrize(
    ("change", "code", "said"),
    one_quick_in(
        2,
        [
            (ENDS, 2, f"{{}}: main graph: {CANNOT}{DIED}"),
            ("raise ImportError('no onnxruntime')", 3, NO_RUNTIME),
        ],
    ),
)
def test_a_worker_that_cannot_is_one_sentence(
    tmp_path: Path,
    change: str,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub = f"PROVIDERS = ['CPUExecutionProvider']\n{change}"
    python = environment(tmp_path / "stub", stub)
    path = save(tmp_path, MOVED)
    monkeypatch.setattr(sys, "executable", python)
    with pytest.raises(OnnxGatherError) as caught:
        case_of_node(path, "gather", {"ids": IDS})
    found = caught.value.exit_code, str(caught.value)
    assert found == (code, said.format(path))


def test_a_worker_without_a_thread_for_it_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", start)
    assert (
        message_of(
            og.ProviderError,
            og.audit,
            save(tmp_path, MOVED),
            inputs={"ids": IDS},
        )
        == f"{sys.executable} does not start: can't start new thread"
    )


def test_an_output_beyond_all_memory_is_one_sentence(tmp_path: Path) -> None:
    graph = """(int64[n] ids) => (rows) <int64[1] count = {1099511627776}> {
            moved = ConstantOfShape (count)
            [gather] rows = Gather (table, moved)
        }"""
    path = save(tmp_path, graph)
    said = refusal(path, "gather", {"ids": IDS})
    assert said.startswith(CANNOT)
    # ONNX Runtime's own words, which differ by version.
    assert "Failed to allocate memory" in said or said.endswith("std::bad_alloc")


def test_onnx_runtime_is_not_asked_for_the_descriptors_of_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def audit(path: str, levels: object, **given: Any) -> og.Audit:
        asked.append(levels)
        return og.audit(path, levels=(), **given)

    monkeypatch.setattr(extraction, "audit", audit)
    path = tmp_path / "model.onnx"
    model = written("(float[4] x, int64[2] i) => (y) { [gather] y = Gather (x, i) }")
    path.write_bytes(model.SerializeToString())
    ((name, found),) = extraction.gather_descriptors(str(path), {}, None)
    expected = og.from_onnx("Gather", ("FLOAT32", [4]), ("INT64", [2]))
    assert (name, found, asked) == ("gather", expected, [()])
