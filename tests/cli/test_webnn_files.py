"""`convert --target webnn` and `show --webnn`: files, exit codes and whole texts."""

from __future__ import annotations

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import (
    DESC,
    INDICES,
    SIGNED_DESC,
    call,
    error_of,
    files,
    outcome,
    output_of,
    program,
    read_json,
    read_text,
    renamed,
    succeed,
)
from folders import MODELS
from messages import message_of, rows_of
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.options import POLICIES, OutOfRange

USAGE = (
    "Usage: onnxgather convert [OPTIONS] FILE...\nTry 'onnxgather convert --help' for"
    " help.\n\n"
)


def module_in(path: str) -> str:
    """Return a module without the line that says who wrote the file."""
    line, _, module = read_text(path).partition("\n")
    digest = sha256(module.encode()).hexdigest()
    writer = f"// Written by onnxgather {og.__version__}"
    assert line == f"{writer}; SHA-256 of the lines below: {digest}"
    return module


def test_a_module_goes_beside_its_program() -> None:
    program("x.json")
    assert output_of("convert x.json --target webnn") == "x.json -> x.mjs\n"
    assert files() == ["x.json", "x.mjs"]
    assert module_in("x.mjs") == og.to_webnn(DESC).to_javascript()


@pytest.mark.parametrize("name", ["y.mjs", "new/y.mjs", "Y.MJS"])
def test_a_module_goes_to_the_file_that_is_named(name: str) -> None:
    program("x.json")
    arguments = ["--target", "webnn", "--out-of-range", "error", "-o", name]
    told = "new folder: new\n" if "/" in name else ""
    assert outcome("convert x.json", *arguments) == (
        0,
        f"x.json -> {name}\n",
        told,
    )
    assert read_text(name) == og.to_webnn(DESC, "error").to_javascript()


def test_a_file_of_json_has_the_steps() -> None:
    program("x.json", SIGNED_DESC, indices=INDICES.astype(np.int64))
    arguments = "--target webnn --form typed -o y.json"
    assert output_of(f"convert x.json {arguments}") == "x.json -> y.json\n"
    steps = og.to_webnn(SIGNED_DESC, form="typed").to_json()
    assert read_text("y.json") == steps


def test_a_module_goes_to_the_standard_output() -> None:
    program("x.json")
    result = call("convert x.json --target webnn -o -")
    assert result.stdout == og.to_webnn(DESC).to_javascript()
    assert (result.exit_code, result.stderr, files()) == (0, "", ["x.json"])


def test_each_gather_has_a_module() -> None:
    renamed(program("x.json"), "a", "b")
    assert outcome("convert x.json --target webnn -o o") == (
        0,
        "x.json -> o/x.a.mjs\nx.json -> o/x.b.mjs\n",
        "new folder: o\n",
    )


def test_a_gather_of_a_model_has_a_module() -> None:
    Path("x.onnx").write_bytes(og.to_onnx(DESC).SerializeToString())
    code, out, err = outcome("convert x.onnx --target webnn")
    (module,) = [file for file in files() if file != "x.onnx"]
    assert (code, out, err) == (0, f"x.onnx -> {module}\n", "")
    assert Path(module).suffix == ".mjs"


def test_the_case_of_an_ending_does_not_count() -> None:
    program("x.json")
    assert outcome("convert x.json --target webnn -o y.JSON")[::2] == (0, "")
    assert Path("y.JSON").read_text("utf-8") == og.to_webnn(DESC).to_json()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    rows_of("""
--target webnn -o y.onnx
--output must be a folder or end in .mjs or .json, got y.onnx

--target webnn -o y.js
--output must be a folder or end in .mjs or .json, got y.js

-o y.mjs
--output must be a folder or end in .onnx, got y.mjs

-o y.json
--output must be a folder or end in .onnx, got y.json

--form typed
--form must come with --target webnn

--target webnn --whole --input data
--input must not come with --target webnn, as it is for ONNX models

--target webnn --whole --form bytes
--form must not come with --whole

--target webnn --opset 17
--opset must not come with --target webnn, as it is for ONNX models

--target webnn --threads 1
--threads must not come with --target webnn, as it is for ONNX models
"""),
)
def test_an_option_that_does_not_fit_is_a_sentence(
    arguments: str, sentence: str
) -> None:
    program("x.json")
    told = f"{USAGE}Error: {sentence}\n"
    assert outcome(f"convert x.json {arguments}") == (2, "", told)
    assert files() == ["x.json"]


def test_several_modules_do_not_go_to_one_file() -> None:
    renamed(program("x.json"), "a", "b")
    told = f"{USAGE}Error: --output must be a folder for 2 models, got y.mjs\n"
    arguments = "--target webnn -o y.mjs"
    assert outcome(f"convert x.json {arguments}") == (2, "", told)


def test_a_refusal_names_the_gather() -> None:
    desc = descriptor("GATHER: INT16 4, INT32 2, INT16 2, 0, 1")
    data = np.zeros(4, np.int16)
    program("x.json", desc, data, np.zeros(2, np.int32))
    assert error_of("convert x.json --target webnn --form typed") == (
        "x.json: $.dispatchables.gather: InputTensor.DataType must be one of"
        ' FLOAT32, FLOAT16, INT64, INT32, INT8, UINT8 in the form "typed", as WebNN has'
        ' no others for it; the form "bytes" has all, got INT16'
    )
    assert files() == ["x.json"]


@pytest.mark.parametrize("policy", ["directml", "clamp"])
def test_a_whole_program_is_one_module(policy: OutOfRange) -> None:
    program("x.json")
    options = [] if policy == "clamp" else ["--out-of-range", policy]
    arguments = ["convert", "x.json", "--target", "webnn", "--whole", *options]
    assert output_of(*arguments) == "x.json -> x.mjs\n"
    whole = og.program_to_webnn("x.json", policy)
    assert module_in("x.mjs") == whole.to_javascript()
    succeed(*arguments, "-o", "y.json")
    assert read_text("y.json") == whole.to_json()


def test_a_whole_program_does_not_fail_at_an_index() -> None:
    program("x.json")
    arguments = "--target webnn --whole --out-of-range error"
    assert error_of(f"convert x.json {arguments}") == (
        "out_of_range must not be error for a whole program of WebNN, as"
        " a graph cannot fail between two gathers; the policy zero shows them"
    )


def test_the_programs_of_the_repository_convert() -> None:
    paths = sorted(map(str, MODELS.glob("*.json")))
    assert len(paths) == 16
    succeed("convert", *paths, "--target", "webnn", "-o", "o")
    modules = files()
    assert len(modules) == 16
    for module in modules:
        assert module_in(module).startswith("// DML_OPERATOR_GATHER")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is missing")
def test_node_reads_the_modules_of_the_repository() -> None:
    paths = sorted(map(str, MODELS.glob("*.json")))
    for policy in POLICIES:
        arguments = ["--target", "webnn", "--out-of-range", policy, "-o", policy]
        succeed("convert", *paths, *arguments)
    modules = files()
    assert len(modules) == 64
    for module in modules:
        command = ["node", "--check", module]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (result.returncode, result.stderr) == (0, "")


# show


def test_show_has_the_program_beside_the_graph() -> None:
    program("x.json")
    _, alone, _ = outcome("show x.json")
    text = output_of("show x.json --webnn bytes")
    assert (
        text
        == f"""{alone}
WebNN, form bytes, out of range: clamp
  InputTensor: int32[12, 1]
  IndicesTensor: int32[2, 1]
  1.  min(IndicesTensor, [2]) -> limited: int32[2, 1]
      clamps to the last element of the axis
  2.  lesser(IndicesTensor, [0]) -> isBeyond: uint8[2, 1]
      finds the indices of 2^31 or more
  3.  where(isBeyond, [2], limited) -> clamped: int32[2, 1]
      clamps those of 2^31 or more
  4.  reshape(clamped, newShape=[1, 2, 1]) -> spread: int32[1, 2, 1]
      along the output's dimensions
  5.  add(spread, [[[0]], [[3]], [[6]], [[9]]]) -> offsets: int32[4, 2, 1]
      adds the offsets of the dimensions in front
  6.  reshape(offsets, newShape=[8]) -> rowOffsets: int32[8]
      1-D, as gather takes
  7.  gather(InputTensor, rowOffsets, axis=0) -> rows: int32[8, 1]
      copies the rows at the offsets
"""
    )


def test_show_has_the_program_as_json_and_on_its_page() -> None:
    program("x.json", SIGNED_DESC, indices=INDICES.astype(np.int64))
    arguments = "show x.json --webnn typed"
    succeed(f"{arguments} --json=x.shown.json")
    shown = read_json("x.shown.json")
    webnn = shown["dispatchables"]["gather"]["webnn"]
    assert webnn["form"] == "typed"
    steps = og.to_webnn(SIGNED_DESC, form="typed").graph.steps
    assert [node["operator"] for node in webnn["nodes"]] == [
        step.method for step in steps
    ]
    succeed(f"{arguments} --html=x.html")
    page = read_text("x.html")
    assert '"form":"typed"' in page
    succeed("show x.json --html=y.html")
    assert '"form":' not in read_text("y.html")


def test_show_in_python_refuses_another_form() -> None:
    form: Any = "byte"
    assert (
        message_of(og.OnnxGatherError, og.show, DESC, webnn=form)
        == "webnn must be one of bytes, typed, got 'byte'; did you mean \"bytes\"?"
    )


def test_show_in_python_has_the_program() -> None:
    assert og.show(DESC).webnn is None
    described = og.show(DESC, "zero", webnn="bytes").webnn
    assert described is not None
    steps = og.to_webnn(DESC, "zero").graph.steps
    assert [node.why for node in described.nodes] == [step.why for step in steps]
    assert "WebNN, form bytes, out of range: zero" in str(
        og.show(DESC, "zero", webnn="bytes")
    )
