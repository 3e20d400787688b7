"""The command `harden`: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import outcome, posix, spawn
from onnx import parser

from onnxgather.cli.terminal import Progress

EMBEDDING = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[n] ids) => (y) <float[3] table = {0, 1, 2}> { y = Gather (table, ids) }"""


def saved(path: str = "model.onnx") -> None:
    """Write a model with an embedding."""
    Path(path).write_bytes(parser.parse_model(EMBEDDING).SerializeToString())


def test_harden_says_of_each_gather_what_it_changed() -> None:
    saved()
    assert outcome(
        "harden", "model.onnx", "-o", "out.onnx", "--out-of-range", "zero"
    ) == (
        0,
        (
            "main graph: Gather 'y': an index outside [-3, 3) was an error, and now the"
            " output holds zeros\nmodel.onnx -> out.onnx: 1 node rewritten\n"
        ),
        "out.onnx no longer fails on a bad index; it returns zeros.\n",
    )
    assert "Concat" in {
        node.op_type
        for node in onnx.ModelProto.FromString(Path("out.onnx").read_bytes()).graph.node
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
        told = outcome("harden", "model.onnx", "-o", "out.onnx")[2]
        assert told == f"out.onnx no longer fails on a bad index; it {does}.\n"


def test_harden_says_it_as_json() -> None:
    saved()
    code, text, _ = outcome("harden", "model.onnx", "-o", "out.onnx", "--json")
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


def test_sizes_and_ranges_of_a_wrong_form_are_refused() -> None:
    saved()
    for option, value, form in (
        ("--shape", "ids=2,x", "NAME=2,16"),
        ("--shape", "ids", "NAME=2,16"),
        ("--range", "ids=2", "NAME=LO:HI"),
        ("--range", "ids=1:2:3", "NAME=LO:HI"),
    ):
        code, _, told = outcome("harden", "model.onnx", "-o", "out.onnx", option, value)
        assert code == 2
        assert f"Invalid value for '{option}': must be {form}, got '{value}'" in told
    assert not Path("out.onnx").exists()


def test_a_file_that_is_no_model_is_refused() -> None:
    Path("a.json").write_text("{}", encoding="utf-8")
    code, _, told = outcome("harden", "a.json", "-o", "out.onnx")
    assert (code, told) == (
        2,
        (
            "Error: a.json: must be an ONNX model, got bytes that are cut short, or no"
            " model\n"
        ),
    )


def test_a_pointer_in_the_place_of_a_model_is_told_as_one() -> None:
    Path("a.onnx").write_text(
        "version https://git-lfs.github.com/spec/v1\n", encoding="utf-8"
    )
    assert outcome("harden", "a.onnx", "-o", "out.onnx") == (
        2,
        "",
        (
            "Error: a.onnx: must be an ONNX model, got a pointer of Git LFS, which git"
            " lfs pull replaces by the file\n"
        ),
    )


def test_a_model_for_the_standard_output_is_printed_and_the_rest_beside_it() -> None:
    saved()
    assert spawn("harden", "model.onnx", "-o", "out.onnx").returncode == 0
    ended = spawn("harden", "model.onnx", "-o", "-")
    assert ended.stdout == Path("out.onnx").read_bytes()
    assert (ended.returncode, posix(ended.stderr.decode())) == (
        0,
        (
            "main graph: Gather 'y': an index outside [-3, 3) was an error, and now the"
            " output holds the elements at the clamped indices\nmodel.onnx -> -: 1 node"
            " rewritten\nthe model no longer fails on a bad index; it returns the"
            " clamped element.\n"
        ),
    )
    code, text, told = outcome("harden", "model.onnx", "-o", "-", "--json")
    rule = "Error: --json must come with a file as --output, as - prints the model"
    assert (code, text, told.splitlines()[-1]) == (2, "", rule)
    assert not Path("-").exists()


def test_no_model_is_printed_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    saved()
    monkeypatch.setattr("onnxgather.cli.outputs.is_terminal", bool)  # any stream is one
    code, text, told = outcome("harden", "model.onnx", "-o", "-")
    rule = "Error: --output must be a file, as a terminal does not show a model"
    assert (code, text, told.splitlines()[-1]) == (2, "", rule)


def test_the_runs_of_verify_are_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    saved()
    told = list[str]()

    def show(_: Progress, text: str, share: float | None = None) -> None:
        assert share is None
        told.append(text)

    monkeypatch.setattr(Progress, "show", show)
    assert outcome("harden", "model.onnx", "-o", "out.onnx", "--verify")[0] == 0
    # 8, the same 8, and 64 wild ones
    assert told == [f"Runs tried: {k}" for k in range(1, 81)]


def test_harden_verifies_what_it_wrote() -> None:
    saved()
    lines = [
        "audit: holds: 1 node with indices, 0 left, 0 others not proved",
        "bytes: holds: equal bytes in 8 of 8 runs with inputs made with seed 0",
        "wild: holds: 64 runs with wild ids, 0 failed",
        "again: holds: a second time changes nothing",
    ]
    code, text, _ = outcome("harden", "model.onnx", "-o", "out.onnx", "--verify")
    assert (code, text.splitlines()[2:]) == (0, lines)
    np.savez("inputs.npz", ids=np.array([0, -3]))
    options = ("--verify", "--inputs", "inputs.npz", "--json")
    code, text, _ = outcome("harden", "model.onnx", "-o", "out.onnx", *options)
    found = json.loads(text)["verified"]
    said = {
        "check": "bytes",
        "holds": True,
        "said": "equal bytes in 1 of 1 run with given inputs",
    }
    assert (code, found[1]) == (0, said)
    np.savez("inputs.npz", ids=np.array([0, -4]))
    code, _, told = outcome("harden", "model.onnx", "-o", "out.onnx", *options)
    assert code == 2
    rule = "the model must run with the given inputs, which audit --write-inputs makes"
    assert f"Error: model.onnx: {rule}, but [ONNX" in told
    code, _, told = outcome("harden", "model.onnx", "-o", "out.onnx", *options[1:3])
    rule = "Error: --inputs must come with --verify, which runs the model"
    assert (code, told.splitlines()[-1]) == (2, rule)


def test_no_input_is_replaced_by_the_hardened_model() -> None:
    saved()
    np.savez("inputs.npz", ids=np.array([0]))
    outcome("audit", "model.onnx", "--contract", "contract.json")
    for name, *options in (
        ("inputs.npz", "--verify", "--inputs", "inputs.npz"),
        ("contract.json", "--assume", "contract.json"),
    ):
        before = Path(name).read_bytes()
        rule = f"Error: {name} must not be written, as it is an input\n"
        assert outcome("harden", "model.onnx", "-o", name, *options) == (2, "", rule)
        assert Path(name).read_bytes() == before
