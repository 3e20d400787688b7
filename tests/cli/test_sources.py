"""Programs that paths stand for: files, folders and pipes, and what of them is left
out."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import (
    POSIX,
    changed,
    error_of,
    files,
    outcome,
    output_of,
    program,
    read_json,
    succeed,
    write_text,
)
from folders import MODELS
from messages import rows_of
from onnx import parser
from rings import one_quick_in


@POSIX
def test_a_folder_gives_its_regular_files_alone() -> None:
    program("models/x.json")
    os.mkfifo("models/pipe.json")
    os.symlink("/dev/zero", "models/zero.json")
    os.symlink("../models", "models/again")
    os.symlink("x.json", "models/y.json")
    code, out, err = outcome("convert models -o out")
    assert (code, err) == (0, "new folder: out\n")
    assert out == (
        "models/x.json -> out/x.onnx\nmodels/y.json -> out/y.onnx\n"
        "2 programs: 2 models written\n"
    )


@POSIX
def test_a_link_that_leads_nowhere_is_told() -> None:
    program("models/x.json")
    os.symlink("gone", "models/y.json")
    assert outcome("convert models") == (
        2,
        "models/x.json -> models/x.onnx\n2 programs: 1 model written, 1 error\n",
        "Error: models/y.json: no such file or directory\n",
    )


def test_a_named_program_may_have_any_extension() -> None:
    os.rename(program("x.json"), "x.jsonc")
    assert output_of("convert x.jsonc") == "x.jsonc -> x.onnx\n"


def test_a_field_that_is_ignored_though_its_name_is_nearly_right_is_told() -> None:
    content = read_json(program("x.json"))
    (gather,) = content["dispatchables"].values()
    tensor = gather["desc"]["OutputTensor"]
    tensor |= {
        "Strids": [1, 1],
        "_Strides": [1, 1],
        "TotalTensorSize": 9,
        "comment": "none",
    }
    changed("x.json", dispatchables=content["dispatchables"])
    where = "x.json: $.dispatchables.gather.desc.OutputTensor has no field"
    told = f"""{where} 'Strids', so it is ignored; did you mean "Strides"?
{where} 'TotalTensorSize', so it is ignored; did you mean "TotalTensorSizeInBytes"?
"""
    for command in ("convert", "show", "run", "check", "explain"):
        code, _, err = outcome(f"{command} x.json")
        assert (command, code, err) == (command, 0, told)


def test_other_operators_are_left_out_and_told() -> None:
    content = read_json(program("x.json"))
    add: dict[str, Any] = {"type": "DML_OPERATOR_ELEMENT_WISE_ADD", "desc": {}}
    command: dict[str, Any] = {
        "type": "dispatch",
        "dispatchable": "add",
        "bindings": {},
    }
    changed(
        "x.json",
        dispatchables={**content["dispatchables"], "add": add},
        commands=[*content["commands"], command],
    )
    told = (
        "x.json: left out, as only gathers are translated: $.dispatchables.add,"
        " $.commands[2]\n"
    )
    assert outcome("convert x.json") == (0, "x.json -> x.onnx\n", told)
    assert files() == ["x.json", "x.onnx"]
    code, out, err = outcome("show x.json")
    assert (code, err, out.count("$.dispatchables")) == (0, told, 1)
    code, out, err = outcome("check x.json")
    assert (code, err) == (0, told)
    assert "$.commands[0]" in out
    assert error_of("run x.json") == (
        "x.json: $.dispatchables.add.type must be one of GATHER,"
        " GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, got 'DML_OPERATOR_ELEMENT_WISE_ADD'"
    )


TAKERS = {
    "an ONNX model": {
        "audit",
        "certify",
        "check",
        "convert",
        "explain",
        "extract",
        "harden",
        "repro",
        "show",
    },
    "a DxDispatch program": {
        "certify",
        "check",
        "convert",
        "explain",
        "repro",
        "run",
        "show",
    },
    "a report": {"repro", "report merge"},
    "an .npz or zip file": set[str](),
}


@pytest.mark.parametrize("kind", one_quick_in(4, TAKERS))
def test_a_command_takes_a_file_of_its_kind_and_says_which_take_another(
    kind: str,
) -> None:
    Path("model.onnx").write_bytes((MODELS / "networks/keywords.onnx").read_bytes())
    Path("x.npz").write_bytes((MODELS / "networks/keywords.npz").read_bytes())
    write_text("report.json", '{"schema": 1, "onnxgather": "0.1"}')
    file = {
        "an ONNX model": "model.onnx",
        "a DxDispatch program": program("x.json"),
        "a report": "report.json",
        "an .npz or zip file": "x.npz",
    }[kind]
    commands = {
        "audit": "",
        "certify": "",
        "check": "",
        "convert": "-o out",
        "explain": "",
        "extract": "--all --inputs x.npz -o gathers",
        "harden": "-o hardened.onnx",
        "repro": "-o repro",
        "report merge": "",
        "run": "",
        "show": "",
    }
    # It takes some models, and says of others which these are; see below.
    if kind == "an ONNX model":
        del commands["run"]
    refused = {
        name: outcome(f"{name} {file} {more}") for name, more in commands.items()
    }
    said = {
        name: err for name, (_, _, err) in refused.items() if f", got {kind}" in err
    }
    assert commands.keys() - said == TAKERS[kind]
    for name, err in said.items():
        assert refused[name][0] == 2
        told = re.search(r"which onnxgather ([\w, ]+) take(?: with --inputs)?\n", err)
        assert told is not None
        listed = {one for part in told[1].split(", ") for one in part.split(" and ")}
        assert listed == TAKERS[kind] or "--inputs" in told[0]


def test_run_takes_no_model_of_others() -> None:
    model = str(MODELS / "networks/keywords.onnx")
    assert error_of("run", model) == (
        f"{model}: must be a model that onnxgather wrote from a descriptor,"
        " got another model; onnxgather audit (in Python og.audit) lists its"
        " gathers, and onnxgather extract writes programs of them"
    )


def test_a_program_may_be_named_as_a_model() -> None:
    os.rename(program("x.json"), "x.onnx")
    assert outcome("convert x.onnx -o out")[:2] == (
        0,
        "x.onnx -> out/x.onnx\n",
    )


@pytest.fixture
def model() -> None:
    """A model with a gather of known sizes, an open one, one that DirectML refuses,
    nested ones."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 2] data, int64[k] ids, int64[2] two, bool yes, string[2] words) => (y, o, z, s)
        {
          y = Gather (data, two)
          o = Gather (data, ids)
          z = If (yes) <
            then_branch = t () => (a) { a = Gather <axis = 1> (data, ids) },
            else_branch = f () => (a) { a = Gather (data, two) } >
          s = Gather (words, two)
        }"""  # noqa: E501
    Path("m.onnx").write_bytes(parser.parse_model(text).SerializeToString())
    arrays = {
        "data": np.arange(6, dtype=np.float32).reshape(3, 2),
        "ids": np.array([1, 0, 1]),
    }
    more = {
        "two": np.array([2, 7]),
        "yes": np.array(True),
        "words": np.array(["a", "b"]),
    }
    np.savez("x.npz", allow_pickle=False, **arrays, **more)


OPEN = "its sizes must be known, as --shape ids=2 may tell, got data [3, 2] and "
REFUSED = (
    "Error: m.onnx: node 's': DirectML refuses it: InputTensor.DataType must be one of"
    " FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16, INT8, UINT64, UINT32, UINT16,"
    " UINT8, got 'STRING'\n"
)


@pytest.mark.usefixtures("model")
class TestModel:
    def test_each_gather_of_known_sizes_becomes_a_model_and_a_program(self) -> None:
        code, out, err = outcome("convert m.onnx -o out")
        stems = "001_y", "004_a_in_else_branch_of_z"
        written = [f"out/m.{stem}.{end}" for stem in stems for end in ("json", "onnx")]
        assert (code, files()) == (2, ["m.onnx", *written, "x.npz"])
        assert out.count("m.onnx -> out/m.001_y.") == 2
        assert (
            err == f"Error: m.onnx: node 'o': {OPEN}indices [?]\n"
            f"Error: m.onnx: node 'a in then_branch of z': {OPEN}indices [?]\n{REFUSED}"
            "new folder: out\n"
        )
        assert output_of("run out/m.001_y.json") == "Resource 'output': 0, 0, 0, 0\n"

    def test_sizes_that_no_input_tells_are_known_by_a_run(self) -> None:
        text = """
            <ir_version: 8, opset_import: ["" : 17]>
            g (float[3] x) => (y) { i = NonZero (x)  y = Gather (x, i) }"""
        Path("n.onnx").write_bytes(parser.parse_model(text).SerializeToString())
        assert error_of("show n.onnx") == (
            "n.onnx: node 'y': its sizes must be known, as a run by"
            " onnxgather extract --inputs FILE.npz may tell, got data [3] and"
            " indices [1, ?]"
        )

    def test_given_sizes_leave_only_what_directml_refuses(self) -> None:
        given = "m.onnx --shape ids=3 -o out"
        assert outcome(f"convert {given}")[::2] == (1, f"{REFUSED}new folder: out\n")
        assert len(files()) == 10
        succeed(f"convert {given} --node o")

    def test_a_gather_is_shown(self) -> None:
        out = output_of("show m.onnx --node y")
        assert out.startswith("m.onnx: node 'y'\n\nDML_GATHER_OPERATOR_DESC\n")
        assert ", target portable, out of range: error\n" in out
        assert "Clip" not in out
        clamped = output_of("show m.onnx --node y --out-of-range clamp")
        assert ", target portable, out of range: clamp\n" in clamped
        code, out, err = outcome("show m.onnx --json --shape ids=3")
        assert (code, err) == (1, REFUSED)
        assert len(json.loads(out)["gathers"]) == 4

    def test_an_element_of_a_nested_gather_is_explained(self) -> None:
        given = "m.onnx --node a --inputs x.npz --at 2,0"
        assert (
            output_of(f"explain {given}")
            == "output[2,0] = input[2, indices[0]] = input[2, 1] = 5\n"
        )

    @pytest.mark.slow
    def test_an_index_out_of_range_is_explained_as_the_audit_tells_it(self) -> None:
        for end in ("onnx", "npz"):
            shutil.copy(MODELS / f"networks/keywords.{end}", f"k.{end}")
        assert "input[31,7]" in outcome("audit k.onnx --inputs k.npz")[1]
        given = "explain k.onnx --inputs k.npz --node word_embedding --at 1,4,0"
        assert output_of(given) == (
            "output[1,4,0] = input[0, indices[1, 4], 0] = input[0, 32, 0]: an error,"
            " -0.4699001 under directml (index 32 is out of range of 32)\n"
        )
        said = output_of(f"{given} --out-of-range directml")
        assert said.endswith(
            " = input[0, 31, 7] = -0.4699001, -0.35480413 under clamp\n"
        )
        said = output_of(f"{given} --out-of-range clamp")
        assert "= input[0, 31, 0]" in said.replace("->", "=")

    def test_the_gathers_are_checked_with_what_they_get(self) -> None:
        code, out, err = outcome("check m.onnx --inputs x.npz --json")
        report = json.loads(out)
        states = {case["name"]: case["results"][0]["state"] for case in report["cases"]}
        assert states == {
            "m.onnx: main graph: node 'y'": "PASS",
            "m.onnx: main graph: node 'o'": "PASS",
            "m.onnx: main graph: node 's'": "PASS",
            "m.onnx: then_branch of z: node 'a'": "PASS",
        }
        assert (code, err) == (
            0,
            (
                "m.onnx: left out: else_branch of z: Gather 'a': it did not run with"
                " these inputs\n"
                "m.onnx: main graph: node 's': no descriptor of DirectML says it, as"
                " DirectML gathers no STRING; so the formula of ONNX counts, in which"
                " an index out of range is an error\n"
            ),
        )

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        one_quick_in(
            4,
            rows_of("""
explain m.onnx --inputs x.npz
m.onnx: --node must be one of 'y', 'o', 's', 'a'

show m.onnx --node yy
m.onnx: node 'yy' must be one of the model's 5 gathers

check m.onnx
m.onnx: the inputs must hold an array for each input of the model, got none for 'data',
'ids', 'two', 'yes', 'words'; give --inputs FILE.npz

show none.onnx --node y
none.onnx: no such file or directory
"""),
        ),
    )
    def test_what_a_command_cannot_do_is_one_sentence(
        self, arguments: str, sentence: str
    ) -> None:
        assert error_of(arguments) == sentence

    @pytest.mark.parametrize(
        ("arguments", "rule"),
        rows_of("""
show --node y
--node and --shape must come with an ONNX model

check --node=y
--node and --shape must come with an ONNX model

explain --inputs x.npz
--inputs must come with a model or with one descriptor alone

check --inputs x.npz
--inputs must come with a model or with one descriptor alone

run --inputs x.npz
--inputs must come with a model or with one descriptor alone
"""),
    )
    def test_the_options_of_models_are_refused_for_programs(
        self, arguments: str, rule: str
    ) -> None:
        assert error_of(arguments, program("x.json")) == f"{rule}, got x.json"
