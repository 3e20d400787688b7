"""Programs that paths stand for: files, folders and pipes, and what of them is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from command_line import POSIX, changed, files, outcome, program


@POSIX
def test_a_folder_gives_its_regular_files_alone() -> None:
    program("models/x.json")
    os.mkfifo("models/pipe.json")
    os.symlink("/dev/zero", "models/zero.json")
    os.symlink("../models", "models/again")
    os.symlink("x.json", "models/y.json")
    code, out, err = outcome("convert", "models", "-o", "out")
    assert (code, err) == (0, "")
    assert out == "models/x.json -> out/x.onnx\nmodels/y.json -> out/y.onnx\n"


@POSIX
def test_a_link_that_leads_nowhere_is_told() -> None:
    program("models/x.json")
    os.symlink("gone", "models/y.json")
    assert outcome("convert", "models") == (
        2,
        "models/x.json -> models/x.onnx\n",
        "Error: models/y.json: no such file or directory\n",
    )


@POSIX
def test_a_program_comes_from_the_standard_input() -> None:
    def convert(*more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "onnxgather", "convert", "/dev/stdin", *more]
        text = Path(program("x.json")).read_bytes()
        found = subprocess.run(command, input=text, capture_output=True, check=False, timeout=60)
        return found.returncode, (found.stdout + found.stderr).decode()

    assert convert("-o", "out") == (0, "/dev/stdin -> out/stdin.onnx\n")
    sentence = "Error: /dev/stdin: the models of a pipe must come with -o PATH\n"
    assert convert() == (2, sentence)


def test_a_named_program_may_have_any_extension() -> None:
    os.rename(program("x.json"), "x.jsonc")
    assert outcome("convert", "x.jsonc") == (0, "x.jsonc -> x.onnx\n", "")


def test_a_field_that_is_ignored_though_its_name_is_nearly_right_is_told() -> None:
    content = json.loads(Path(program("x.json")).read_text(encoding="utf-8"))
    (gather,) = content["dispatchables"].values()
    tensor = gather["desc"]["OutputTensor"]
    tensor |= {"Strids": [1, 1], "_Strides": [1, 1], "TotalTensorSize": 9, "comment": "none"}
    changed("x.json", dispatchables=content["dispatchables"])
    where = "x.json: $.dispatchables.gather.desc.OutputTensor has no field"
    told = f"""{where} 'Strids', so it is ignored; did you mean "Strides"?
{where} 'TotalTensorSize', so it is ignored; did you mean "TotalTensorSizeInBytes"?
"""
    for command in ("convert", "show", "run", "check", "explain"):
        code, _, err = outcome(command, "x.json")
        assert (command, code, err) == (command, 0, told)


def test_other_operators_are_left_out_and_told() -> None:
    content = json.loads(Path(program("x.json")).read_text(encoding="utf-8"))
    add: dict[str, Any] = {"type": "DML_OPERATOR_ELEMENT_WISE_ADD", "desc": {}}
    command: dict[str, Any] = {"type": "dispatch", "dispatchable": "add", "bindings": {}}
    changed(
        "x.json",
        dispatchables={**content["dispatchables"], "add": add},
        commands=[*content["commands"], command],
    )
    told = "x.json: left out, as only gathers are translated: $.dispatchables.add, $.commands[2]\n"
    assert outcome("convert", "x.json") == (0, "x.json -> x.onnx\n", told)
    assert files() == ["x.json", "x.onnx"]
    code, out, err = outcome("show", "x.json")
    assert (code, err, out.count("$.dispatchables")) == (0, told, 1)
    code, out, err = outcome("check", "x.json")
    assert (code, err) == (0, told)
    assert "$.commands[0]" in out
    sentence = (
        "Error: x.json: $.dispatchables.add.type must be one of GATHER, GATHER_ELEMENTS, "
        "GATHER_ND, GATHER_ND1, got 'DML_OPERATOR_ELEMENT_WISE_ADD'\n"
    )
    assert outcome("run", "x.json") == (2, "", sentence)
