"""C and C++ on the command line: read by `convert` and `show`, written by `show --cpp`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import DESC, files, outcome, program, renamed

import onnxgather as og


def source(path: str, *more: str) -> str:
    """Write a file with the gather `tableDesc`, and return its path."""
    Path(path).write_text(og.to_cpp(DESC, "table") + "\n".join(more), encoding="utf-8")
    return path


PARAMETER = """
void Build(UINT axis) {
    DML_GATHER_OPERATOR_DESC late{&tableInputTensor, &tableIndicesTensor, &tableOutputTensor, axis};
}
"""


def test_convert_writes_the_model_beside_the_file() -> None:
    assert outcome("convert", source("x.cpp")) == (0, "x.cpp -> x.onnx\n", "")
    wanted = og.to_onnx(DESC).SerializeToString(deterministic=True)
    assert Path("x.onnx").read_bytes() == wanted
    assert files() == ["x.cpp", "x.onnx"]


def test_convert_names_the_models_of_several_by_their_variables() -> None:
    source("x.h", og.to_cpp(DESC, "other"))
    out = "x.h -> out/x.tableDesc.onnx\nx.h -> out/x.otherDesc.onnx\n"
    assert outcome("convert", "x.h", "-o", "out") == (0, out, "")


def test_what_a_file_does_not_say_is_told_and_the_others_are_converted() -> None:
    line = og.to_cpp(DESC, "table").count("\n") + 2
    sentence = f"Error: x.cpp:{line}: late.Axis must be a constant, got 'axis', a parameter\n"
    source("x.cpp", PARAMETER)
    assert outcome("convert", "x.cpp") == (2, "x.cpp -> x.onnx\n", sentence)


def test_a_descriptor_that_directml_refuses_is_a_finding() -> None:
    text = og.to_cpp(DESC).replace("1,                     // Axis", "2,  // Axis")
    Path("x.cc").write_text(text, encoding="utf-8")
    line = text.splitlines().index("const DML_GATHER_OPERATOR_DESC gatherDesc = {") + 1
    rule = "gatherDesc: Axis must be less than InputTensor.DimensionCount (2), got 2"
    assert outcome("convert", "x.cc") == (1, "", f"Error: x.cc:{line}: {rule}\n")


def test_show_explains_each_variable() -> None:
    code, out, err = outcome("show", source("x.hpp"))
    assert (code, err) == (0, "")
    assert out.startswith("x.hpp: variable 'tableDesc'\n\nDML_GATHER_OPERATOR_DESC\n")
    assert out.partition("\n")[2] == outcome("show", program("x.json"))[1].partition("\n")[2]


def test_show_writes_cpp_of_programs_and_of_cpp() -> None:
    assert outcome("show", source("x.cpp"), "--cpp") == (0, og.to_cpp(DESC, "table"), "")
    renamed(program("x.json"), "first", "my second")
    text = f"{og.to_cpp(DESC, 'first')}\n{og.to_cpp(DESC, 'my_second')}"
    assert outcome("show", "x.json", "--cpp") == (0, text, "")


@pytest.mark.parametrize("other", [["--json"], ["--html", "x.html"]])
def test_show_writes_one_thing(other: list[str]) -> None:
    code, out, err = outcome("show", source("x.cpp"), "--cpp", *other)
    assert (code, out) == (2, "")
    assert err.endswith("Error: --cpp, --json and --html must come one at a time\n")


@pytest.mark.parametrize("command", ["run", "explain", "check"])
def test_other_commands_say_which_ones_take_cpp(command: str) -> None:
    sentence = "Error: x.cpp: must be a DxDispatch program, which is JSON, got C or C++, which "
    sentence += "onnxgather convert and show take\n"
    assert outcome(command, source("x.cpp"))[::2] == (2, sentence)
