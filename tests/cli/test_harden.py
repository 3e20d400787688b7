"""The command `harden`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import (
    error_of,
    outcome,
    output_of,
    posix,
    read_bytes,
    spawn,
    succeed,
    write_text,
)
from messages import rows_of
from onnx import parser

from onnxgather.cli.terminal import Progress
from onnxgather.core.model.own import drop_entries
from onnxgather.core.model.values import load_model

EMBEDDING = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[n] ids) => (y) <float[3] table = {0, 1, 2}> { y = Gather (table, ids) }"""


def saved(path: str = "model.onnx") -> None:
    """Write a model with an embedding."""
    Path(path).write_bytes(parser.parse_model(EMBEDDING).SerializeToString())


def test_harden_says_of_each_gather_what_it_changed() -> None:
    saved()
    assert outcome("harden model.onnx -o out.onnx --out-of-range zero") == (
        0,
        (
            "main graph: Gather 'y': an index outside [-3, 3) was an error, and now the"
            " output holds zeros\nmodel.onnx -> out.onnx: 1 node rewritten\n"
        ),
        "out.onnx no longer fails on a bad index; it returns zeros.\n",
    )
    assert "Concat" in {
        node.op_type
        for node in onnx.ModelProto.FromString(read_bytes("out.onnx")).graph.node
    }


def test_harden_says_that_a_scatter_drops_its_write() -> None:
    header, inputs = EMBEDDING.split("g (")[0], "int64[n] ids, float[3] x, float[n] u"
    scatter, gather = "s = ScatterElements (x, ids, u)", "y = Gather (x, ids)"
    drops = "drops the write of a scatter"
    for nodes, outputs, does in (
        (scatter, "s", drops),
        (f"{scatter} {gather}", "s, y", f"returns the clamped element and {drops}"),
    ):
        made = parser.parse_model(f"{header} g ({inputs}) => ({outputs}) {{ {nodes} }}")
        Path("model.onnx").write_bytes(made.SerializeToString())
        told = outcome("harden model.onnx -o out.onnx")[2]
        assert told == f"out.onnx no longer fails on a bad index; it {does}.\n"


def test_harden_says_it_as_json() -> None:
    saved()
    code, text, _ = outcome("harden model.onnx -o out.onnx --json")
    changes = [
        "an index outside [-3, 3) was an error, and now the output holds the elements"
        " at the clamped indices"
    ]
    gather = {
        "place": "main graph",
        "node": "y",
        "operator": "Gather",
        "changes": changes,
    }
    expected = {
        "model": "model.onnx",
        "output": "out.onnx",
        "rewritten": [gather],
        "left": [],
    }
    assert (code, json.loads(text)) == (0, expected)


@pytest.mark.parametrize(
    ("nodes", "rule"),
    [
        ("y = Gather <axis = 5> (table, ids)", "axis must be in [-2, 2), got 5"),
        (
            "y = GatherND <batch_dims = -1> (table, ids)",
            "batch_dims must be at least 0 and less than both ranks (2), got -1",
        ),
        (
            "y = GatherElements (table, long)",
            "size 1 of long must be at most size 1 of table, got 9 and 2",
        ),
    ],
)
def test_an_invalid_node_is_left_as_it_is(nodes: str, rule: str) -> None:
    made = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 2] table, int64[2, 2] ids, int64[4, 9] long) => (y) {{ {nodes} }}
    """)
    Path("model.onnx").write_bytes(made.SerializeToString())
    code, text, error = outcome("harden model.onnx -o out.onnx --levels none")
    assert (code, error) == (
        1,
        f"1 of 1 gather can still fail: the node is invalid: {rule}.\n",
    )
    operator = made.graph.node[0].op_type
    left = f"left: main graph: {operator} 'y': the node is invalid: {rule}"
    assert left in text.splitlines()
    assert load_model("out.onnx").graph == made.graph


def test_sizes_and_ranges_of_a_wrong_form_are_refused() -> None:
    saved()
    for option, value, form in (
        ("--shape", "ids=2,x", "NAME=2,16"),
        ("--shape", "ids", "NAME=2,16"),
        ("--range", "ids=2", "NAME=LO:HI"),
        ("--range", "ids=1:2:3", "NAME=LO:HI"),
    ):
        code, _, told = outcome(f"harden model.onnx -o out.onnx {option}", value)
        assert code == 2
        assert f"Invalid value for '{option}': must be {form}, got '{value}'" in told
    assert not Path("out.onnx").exists()


def test_a_file_that_is_no_model_is_refused() -> None:
    write_text("a.json", "{}")
    assert error_of("harden a.json -o out.onnx") == (
        "a.json: must be an ONNX model, got bytes that are cut short, or no model"
    )


def test_a_pointer_in_the_place_of_a_model_is_told_as_one() -> None:
    write_text("a.onnx", "version https://git-lfs.github.com/spec/v1\n")
    assert error_of("harden a.onnx -o out.onnx") == (
        "a.onnx: must be an ONNX model, got a pointer of Git LFS, which git"
        " lfs pull replaces by the file"
    )


@pytest.mark.slow
def test_a_model_for_the_standard_output_is_printed_and_the_rest_beside_it() -> None:
    saved()
    assert spawn("harden model.onnx -o out.onnx").returncode == 0
    ended = spawn("harden model.onnx -o -")
    assert ended.stdout == read_bytes("out.onnx")
    assert (ended.returncode, posix(ended.stderr.decode())) == (
        0,
        (
            "main graph: Gather 'y': an index outside [-3, 3) was an error, and now the"
            " output holds the elements at the clamped indices\nmodel.onnx -> -: 1 node"
            " rewritten\nthe model no longer fails on a bad index; it returns the"
            " clamped element.\n"
        ),
    )
    assert (
        error_of("harden model.onnx -o - --json")
        == "--json must come with a file as --output, as - prints the model"
    )
    assert not Path("-").exists()


def test_no_model_is_printed_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    saved()
    monkeypatch.setattr("onnxgather.cli.outputs.is_terminal", bool)  # any stream is one
    assert (
        error_of("harden model.onnx -o -")
        == "--output must be a file, as a terminal does not show a model"
    )


def test_the_runs_of_verify_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    saved()
    told = list[str]()

    def show(_: Progress, text: str, share: float | None = None) -> None:
        assert share is None
        told.append(text)

    monkeypatch.setattr(Progress, "show", show)
    succeed("harden model.onnx -o out.onnx --verify")
    # 8, the same 8, and 64 wild ones
    assert told == ["model.onnx", *(f"Runs tried: {k}" for k in range(1, 81))]


def test_harden_verifies_what_it_wrote() -> None:
    saved()
    lines = [
        "audit: holds: 1 node with indices, 0 left, 0 others not proved",
        "bytes: holds: equal bytes in 8 of 8 runs with inputs made with seed 0",
        "wild: holds: 64 runs with wild ids, 0 failed",
        "again: holds: a second time changes nothing",
    ]
    text = succeed("harden model.onnx -o out.onnx --verify")
    assert text.splitlines()[2:] == lines
    np.savez("inputs.npz", ids=np.array([0, -3]))
    options = ("--verify", "--inputs", "inputs.npz", "--json")
    code, text, _ = outcome("harden model.onnx -o out.onnx", *options)
    found = json.loads(text)["verified"]
    said = {
        "check": "bytes",
        "holds": True,
        "said": "equal bytes in 1 of 1 run with given inputs",
    }
    assert (code, found[1]) == (0, said)
    np.savez("inputs.npz", ids=np.array([0, -4]))
    code, _, told = outcome("harden model.onnx -o out.onnx", *options)
    assert code == 2
    rule = "the model must run with the given inputs, which audit --write-inputs makes"
    assert f"Error: model.onnx: {rule}, but [ONNX" in told
    assert (
        error_of("harden model.onnx -o out.onnx", *options[1:3])
        == "--inputs must come with --verify, which runs the model"
    )


def test_no_input_is_replaced_by_the_hardened_model() -> None:
    saved()
    np.savez("inputs.npz", ids=np.array([0]))
    outcome("audit model.onnx --contract contract.json")
    for name, *options in (
        ("inputs.npz", "--verify", "--inputs", "inputs.npz"),
        ("contract.json", "--assume", "contract.json"),
    ):
        before = read_bytes(name)
        assert (
            error_of("harden model.onnx -o", name, *options)
            == f"{name} must not be written, as it is an input"
        )
        assert read_bytes(name) == before


UNRANKED = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[n] x, int64[r] sizes, int64[k] ids) => (y, z)
<float[3] table = {0, 1, 2}> {
  data = Reshape (x, sizes)
  y = Gather (data, ids)
  z = Gather (table, ids)
}"""
REWRITTEN = (
    "an index outside [-3, 3) was an error, and now the output holds the elements at"
    " the clamped indices"
)


def write(path: str, text: str = EMBEDDING) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(parser.parse_model(text).SerializeToString())


def test_nodes_that_are_left_are_counted_with_the_reason() -> None:
    write("model.onnx", UNRANKED)
    code, text, told = outcome("harden model.onnx -o out.onnx")
    assert (code, text.splitlines()) == (
        1,
        [
            f"main graph: Gather 'z': {REWRITTEN}",
            "left: main graph: Gather 'y': the rank of the data is unknown",
            "model.onnx -> out.onnx: 1 node rewritten",
        ],
    )
    assert told == "1 of 2 gathers can still fail: the rank of the data is unknown.\n"
    assert Path("out.onnx").exists()
    code, text, _ = outcome("harden model.onnx -o out.onnx --json")
    assert (code, [one["node"] for one in json.loads(text)["left"]]) == (1, ["y"])


def test_the_models_of_a_folder_are_hardened_to_a_folder() -> None:
    write("m/a.onnx")
    write("m/below/b.onnx", UNRANKED)
    write("m/c.onnx", EMBEDDING.replace("Gather (table, ids)", "Size (ids)"))
    Path("m/d.onnx").write_bytes(b"none")
    code, text, told = outcome("harden m -o out/new")
    broken = (
        "m/d.onnx: must be an ONNX model, got bytes that are cut short, or no model"
    )
    failing = "1 of 2 gathers can still fail: the rank of the data is unknown"
    below = "m/below/b.onnx -> out/new/below/b.onnx: 1 node rewritten"
    assert (code, text, told) == (
        2,
        f"""\
m/a.onnx -> out/new/a.onnx: 1 node rewritten
m/c.onnx -> out/new/c.onnx: 0 nodes rewritten
{below}; {failing}
3 models -> out/new: 2 nodes rewritten; in 1 model {failing}; 1 model could not be \
hardened
""",
        f"Error: {broken}\n",
    )
    files = sorted(path.as_posix() for path in Path("out").rglob("*.onnx"))
    assert files == ["out/new/a.onnx", "out/new/below/b.onnx", "out/new/c.onnx"]
    kept = load_model("out/new/c.onnx")
    drop_entries(kept)
    assert kept.SerializeToString() == read_bytes("m/c.onnx")
    succeed("harden m/a.onnx -o a.onnx")
    assert read_bytes("out/new/a.onnx") == read_bytes("a.onnx")

    code, text, _ = outcome("harden m -o out/new --json")
    record = json.loads(text)
    assert (code, record["unusable"]) == (2, [broken])
    outputs = [one["output"] for one in record["models"]]
    assert outputs == ["out/new/a.onnx", "out/new/c.onnx", "out/new/below/b.onnx"]


def test_a_pattern_and_an_existing_folder_are_for_several_models() -> None:
    write("m/a.onnx")
    text = output_of("harden m/*.onnx -o out")
    assert text == (
        """\
m/a.onnx -> out/a.onnx: 1 node rewritten
1 model -> out: 1 node rewritten; none of them can fail on a bad index
"""
    )
    # The folder is there now: a model goes into it, and replaces the one before.
    before = read_bytes("out/a.onnx")
    options = "--out-of-range zero"
    succeed(f"harden m/a.onnx m/a.onnx -o out {options}")
    assert read_bytes("out/a.onnx") != before
    assert output_of("harden m/a.onnx -o out") == text
    assert read_bytes("out/a.onnx") == before
    assert [path.name for path in Path("out").iterdir()] == ["a.onnx"]


def test_verify_checks_each_model_of_a_folder() -> None:
    write("m/a.onnx")
    write("m/b.onnx")
    code, text, _ = outcome("harden m -o out --verify")
    assert (code, text.count("bytes: holds: "), text.count("again: holds: ")) == (
        0,
        2,
        2,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    rows_of("""
m -o m/hardened
m/hardened must be outside of m, whose models are hardened

m -o m
m must be outside of m, whose models are hardened

m/*.onnx -o m
m/a.onnx must be outside of m, to which models are written

m/**/*.onnx -o m/n
m/n/a.onnx must be outside of m/n, to which models are written

m/b.onnx m/n/a.onnx -o m/n
m/n/a.onnx must be outside of m/n, to which models are written

m/b.onnx m/n/o/c.onnx -o m/n
m/n/o/c.onnx must be outside of m/n, to which models are written

m -o out.onnx
--output must be a folder for several models, got out.onnx

m -o -
--output must be a folder for several models, got -

m -o file
--output must be a folder for several models, got file

none -o out
none: no such file or directory
"""),
)
def test_a_folder_that_would_lose_a_model_is_refused(
    arguments: str, sentence: str
) -> None:
    for path in ("m/a.onnx", "m/b.onnx", "m/n/a.onnx", "m/n/o/c.onnx"):
        write(path)
    Path("file").write_bytes(b"kept")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert error_of(f"harden {arguments}") == sentence
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert after == before


def test_two_models_for_one_file_fail_and_the_others_are_written() -> None:
    for path in ("m/a.onnx", "m/b.onnx", "m/n/a.onnx"):
        write(path)
    code, text, told = outcome("harden m/*.onnx m/n -o out")
    sentence = "out/a.onnx must not be written twice, for m/a.onnx and m/n/a.onnx"
    assert (code, told) == (2, f"Error: {sentence}\n" * 2)
    assert text.startswith("m/b.onnx -> out/b.onnx: 1 node rewritten\n")
    assert [path.name for path in Path("out").iterdir()] == ["b.onnx"]


def test_an_input_of_the_command_is_no_output() -> None:
    write("m/a.onnx")
    Path("out").mkdir()
    outcome("audit m/a.onnx --contract c.json")
    Path("c.json").rename("out/a.onnx")
    sentence = "Error: out/a.onnx must not be written, as it is an input\n"
    assert outcome("harden m -o out --assume out/a.onnx")[::2] == (2, sentence)


def test_a_model_that_cannot_be_written_loses_nothing() -> None:
    write("m/a.onnx")
    write("m/b.onnx")
    Path("out/a.onnx").mkdir(parents=True)
    code, text, told = outcome("harden m -o out")
    sentence = "out/a.onnx must not be replaced, as it is a folder"
    assert (code, told) == (2, f"Error: {sentence}\n")
    assert text.startswith("m/b.onnx -> out/b.onnx: 1 node rewritten\n")
    assert Path("out/a.onnx").is_dir()


def test_a_model_with_external_data_is_refused_and_the_others_are_written() -> None:
    write("m/a.onnx")
    made = parser.parse_model(EMBEDDING)
    table = made.graph.initializer[0]
    content = np.arange(3, dtype=np.float32).tobytes()
    table.ClearField("float_data")
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="b.data")
    Path("m/b.data").write_bytes(content)
    Path("m/b.onnx").write_bytes(made.SerializeToString())
    code, text, told = outcome("harden m -o out")
    why = "as it refers to its external data, 'b.data'"
    assert (code, told) == (
        2,
        f"Error: out/b.onnx must be in the folder of m/b.onnx, {why}\n",
    )
    assert text.startswith("m/a.onnx -> out/a.onnx: 1 node rewritten\n1 model -> ")
    assert not Path("out/b.onnx").exists()
