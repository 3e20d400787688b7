"""`audit --write-inputs` with `--for` and `--boundary`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from command_line import files, outcome, read_json
from onnx import parser

import onnxgather as og

EMBEDDING = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[n] ids) => (y) <float[3] table = {0, 1, 2}> { y = Gather (table, ids) }"""


def saved(path: str = "m.onnx") -> str:
    """Write a model with an embedding."""
    Path(path).write_bytes(parser.parse_model(EMBEDDING).SerializeToString())
    return path


def audited(*options: str) -> tuple[int, str, str]:
    """Return exit code and outputs of an audit that writes inputs."""
    return outcome("audit", saved(), "--levels", "none", *options)


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_command_line_of_a_tool_has_each_name_whole(form: list[str]) -> None:
    name = "n" * 320
    model = parser.parse_model(EMBEDDING.replace("ids", name))
    Path("m.onnx").write_bytes(model.SerializeToString())
    options = ["--levels", "none", "--write-inputs", "out", "--for", "trtexec", *form]
    _, text, error = outcome("audit", "m.onnx", *options)
    # With --json the standard output has the JSON alone.
    told = error if form else text
    (file,) = Path("out").iterdir()
    loaded = f"--loadInputs={name}:{file.as_posix()}"
    assert f"trtexec --onnx=m.onnx --shapes={name}:5 {loaded}" in told.splitlines()


@pytest.mark.parametrize(
    ("tool", "path", "written", "command"),
    [
        (
            "trtexec",
            "out",
            ["out/0-ids.bin"],
            "trtexec --onnx=m.onnx --shapes=ids:5 --loadInputs=ids:out/0-ids.bin",
        ),
        (
            "onnxruntime_perf_test",
            "out",
            ["out/test_data_set_0/input_0.pb"],
            "cp m.onnx out/ && onnxruntime_perf_test -m times -r 10 out/m.onnx",
        ),
        (
            "polygraphy",
            "out.json",
            ["out.json"],
            "polygraphy run m.onnx --onnxrt --load-inputs out.json",
        ),
        (
            "benchmark_app",
            "out",
            ["out/0-ids.npy"],
            "benchmark_app -m m.onnx -layout '[...]' -i ids:out/0-ids.npy",
        ),
        (
            "perf_analyzer",
            "out.json",
            ["out.json"],
            "perf_analyzer -m m --input-data out.json",
        ),
        (
            "onnx-mlir",
            "out",
            ["out/test_data_set_0/input_0.pb"],
            "RunONNXModel.py --model=m.onnx --load-ref=out/test_data_set_0",
        ),
    ],
)
def test_audit_writes_inputs_for_a_tool_and_says_what_reads_them(
    tool: str, path: str, written: list[str], command: str
) -> None:
    code, text, error = audited("--write-inputs", path, "--for", tool)
    assert code == 0
    assert text == f"{audited()[1]}{command}\n"
    assert files() == sorted(["m.onnx", *written])
    count = "" if path.endswith(".json") else ", 1 file"
    assert error == f"written: {path}{count}\n"


def test_inputs_are_made_at_both_ends_of_each_condition() -> None:
    code, text, error = audited("--write-inputs", "out", "--boundary")
    assert (code, files()) == (0, ["m.onnx", "out/0.npz", "out/1.npz", "out/2.npz"])
    condition = "each value of ids is from -3 to 2"
    assert error == "written: out, 3 files\n"
    lines = (
        "set 0: random, in range\n"
        f"set 1: {condition}: low end, -3\n"
        f"set 2: {condition}: high end, 2\n"
    )
    assert text == audited()[1] + lines
    # The standard output is for JSON alone.
    options = ("--write-inputs", "other", "--boundary", "--json")
    _, text, error = audited(*options)
    assert json.loads(text)["schema"] == 3
    assert error == f"written: other, 3 files\n{lines}"
    contract = og.audit("m.onnx", levels=[]).contract
    for number, end in ((1, -3), (2, 2)):
        with np.load(f"out/{number}.npz") as made:
            assert end in made["ids"]
            og.check_inputs(contract, dict(made))


def test_several_sets_are_in_folders_of_their_own_or_in_one_file() -> None:
    for tool, path in (
        ("trtexec", "a"),
        ("benchmark_app", "b"),
        ("onnxruntime_perf_test", "c"),
        ("polygraphy", "d.json"),
        ("perf_analyzer", "e.json"),
    ):
        options = ("--write-inputs", path, "--for", tool, "--boundary")
        assert audited(*options)[0] == 0
    assert files() == [
        *[f"a/{number}/0-ids.bin" for number in range(3)],
        *[f"b/{number}/0-ids.npy" for number in range(3)],
        *[f"c/test_data_set_{number}/input_0.pb" for number in range(3)],
        "d.json",
        "e.json",
        "m.onnx",
    ]
    assert len(read_json("d.json")) == 3
    assert len(read_json("e.json")["data"]) == 3


POSITIONS = """
<ir_version: 8, opset_import: ["" : 17]>
g (int64[batch, length] words, float[length, past, 2] x, float[2] z) => (y)
<float[3, 1] table = {0, 1, 2}> {
  one = Constant <value_int: int = 1> ()
  zero = Constant <value_int: int = 0> ()
  sizes = Shape (words)
  count = Gather (sizes, one)
  numbers = Range (zero, count, one)
  y = Gather (table, numbers)
}"""
"""A model in which the size `length` is at most 3."""


def bounds_for(tool: str, *options: str) -> list[str]:
    """Return the lines of an audit on bounds, which come last."""
    Path("p.onnx").write_bytes(parser.parse_model(POSITIONS).SerializeToString())
    path = "o.json" if tool in ("polygraphy", "perf_analyzer") else "o"
    words = ("--levels", "none", "--write-inputs", path, "--for", tool)
    code, text, _ = outcome("audit p.onnx", *words, *options)
    assert code == 0
    _, mark, bounds = text.partition("bounds of open sizes")
    return f"{mark}{bounds}".splitlines()


@pytest.mark.parametrize(
    ("tool", "bounds"),
    [
        (
            "trtexec",
            "--minShapes=words:3x1,x:1x4x2 --optShapes=words:4x1,x:1x6x2"
            " --maxShapes=words:9x3,x:3x6x2",
        ),
        (
            "polygraphy",
            "--trt --trt-min-shapes 'words:[3,1]' 'x:[1,4,2]' --trt-opt-shapes"
            " 'words:[4,1]' 'x:[1,6,2]' --trt-max-shapes 'words:[9,3]' 'x:[3,6,2]'",
        ),
        ("benchmark_app", "-shape 'words[3..9,1..3],x[1..3,4..,2..2]'"),
        ("onnx-mlir", "--shapeInformationUB=0:9x3,1:3x-1x2,2:2"),
    ],
)
def test_a_tool_gets_the_bounds_of_open_sizes(tool: str, bounds: str) -> None:
    sizes = ("--size", "batch=3:9", "--size", f"past=4:{2**28}")
    line, *more = bounds_for(tool, *sizes)
    assert line == f"bounds of open sizes, for {tool}: {bounds}"
    no_bound = "no upper bound: past; the largest of the inputs stands there"
    assert more == ([no_bound] if tool in ("trtexec", "polygraphy") else [])


def test_a_condition_on_several_sizes_is_no_bound() -> None:
    text = POSITIONS.replace("Range (zero, count, one)", "Range (zero, both, one)")
    text = text.replace(
        "numbers =",
        "of_x = Shape (x)  past = Gather (of_x, one)  both = Add (past, count)"
        " numbers =",
    )
    Path("s.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    words = "audit s.onnx --levels none --size batch=1:2 --write-inputs o"
    code, text, _ = outcome(f"{words} --for benchmark_app")
    assert code == 0
    assert text.splitlines()[-2:] == [
        "bounds of open sizes, for benchmark_app: -shape 'words[1..2,?],x[?,?,2..2]'",
        "not in these bounds: past + length is at most 3",
    ]


@pytest.mark.parametrize("tool", ["perf_analyzer", "onnxruntime_perf_test"])
def test_a_tool_that_takes_no_bounds_gets_none(tool: str) -> None:
    assert bounds_for(tool) == []


def test_json_for_a_tool_may_be_printed() -> None:
    code, text, error = audited("--write-inputs", "-", "--for", "perf_analyzer")
    assert (code, error) == (0, "")
    assert [*json.loads(text)["data"][0]] == ["ids"]


def test_an_input_with_a_default_is_not_written_for_a_tool() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (int64[n] ids, float[1] x) => (y) <float[3] t = {0, 1, 2}> "
        "{ z = Gather (t, ids)  y = Add (z, x) }"
    )
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([5], np.float32), "x")
    )
    Path("d.onnx").write_bytes(model.SerializeToString())
    for tool, path, expected in (
        ("polygraphy", "out.json", ["ids"]),
        (None, "out.npz", ["ids", "x"]),
    ):
        options = ["--for", tool] if tool else []
        code, _, _ = outcome(
            f"audit d.onnx --levels none --write-inputs {path}", *options
        )
        assert code == 0
        if tool:
            assert [*read_json(path)[0]] == expected
        else:
            with np.load(path) as made:
                assert made.files == expected


USAGE = [
    (["--for", "trtexec"], "--for must come with --write-inputs"),
    (["--boundary"], "--boundary must come with --write-inputs"),
    (
        ["--for", "trtexex", "--write-inputs", "out"],
        "Invalid value for '--for': the tool must be one of trtexec,"
        " onnxruntime_perf_test, polygraphy, benchmark_app, perf_analyzer,"
        " onnx-mlir, got 'trtexex'; did you mean \"trtexec\"?",
    ),
    (
        ["--for", "trtexec", "--write-inputs", "-"],
        "--write-inputs must be a folder, as there are several files, got -",
    ),
    (
        ["--boundary", "--write-inputs", "-"],
        "--write-inputs must be a folder, as there are several files, got -",
    ),
    (
        ["--for", "polygraphy", "--write-inputs", "out"],
        "--write-inputs must end in .json for polygraphy, got out",
    ),
    (
        ["--write-inputs", "x.json"],
        "--write-inputs must end in .npz without --for, got x.json",
    ),
    (
        ["--write-inputs", "t.npz", "--boundary"],
        "--write-inputs must be a folder with --boundary, got t.npz",
    ),
    (
        ["--write-inputs", "t.json", "--for", "trtexec"],
        "--write-inputs must be a folder for trtexec, got t.json",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), USAGE)
def test_options_of_inputs_that_do_not_go_together_are_a_sentence(
    options: list[str], sentence: str
) -> None:
    code, text, error = audited(*options)
    assert (code, text) == (2, "")
    assert error.endswith(f"Error: {sentence}\n")


def test_inputs_for_a_tool_are_of_one_model() -> None:
    options = ("--write-inputs", "out", "--for", "trtexec")
    code, _, error = outcome("audit", saved(), saved("n.onnx"), *options)
    assert code == 2
    assert error.endswith("Error: --write-inputs must be given with one model\n")


def test_a_folder_of_inputs_must_be_new_or_empty() -> None:
    options = ("--write-inputs", "out", "--for", "trtexec")
    Path("out").mkdir()
    assert audited(*options)[0] == 0
    assert audited(*options) == (
        2,
        "",
        "Error: out: must be a new or an empty folder\n",
    )
    Path("file").touch()
    assert audited("--write-inputs", "file", "--boundary") == (
        2,
        "",
        "Error: file: must be a folder, got a file\n",
    )


def test_a_name_that_a_tool_cannot_read_is_a_sentence() -> None:
    text = EMBEDDING.replace("ids", "i")
    model = parser.parse_model(text)
    model.graph.input[0].name = model.graph.node[0].input[1] = "a,b"
    Path("n.onnx").write_bytes(model.SerializeToString())
    options = "--write-inputs out --for trtexec --levels none"
    code, _, error = outcome(f"audit n.onnx {options}")
    assert code == 2
    assert error == (
        "Error: n.onnx: input 'a,b' must have a name without ',',"
        " which trtexec reads otherwise\n"
    )
