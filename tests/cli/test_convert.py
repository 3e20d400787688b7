"""`onnxgather convert`: what it verifies, its manifest, and what it leaves out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from command_line import (
    DATA_4X3,
    DESC,
    POSIX,
    SIGNED_DESC,
    call,
    changed,
    error_of,
    files,
    json_of,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    renamed,
    succeed,
    write_json,
    write_text,
)
from folders import MODELS
from messages import rows_of
from onnx import numpy_helper
from onnx_graphs import constant
from onnx_graphs import written as parsed
from rings import one_quick_in
from short_descriptors import tensor_desc
from terminal import run_on_terminal

import onnxgather as og
from onnxgather.core.model import write
from onnxgather.core.model.values import ModelProto, load_model
from onnxgather.core.options import POLICIES, TARGETS
from onnxgather.core.programs import whole
from onnxgather.proving import solvers, verify

PROVED = "ran 4 cases, proved for every index"


def descriptor(operator: str) -> dict[str, object]:
    """Return a descriptor of an operator, without its fields."""
    return {"type": operator, "desc": dict[str, object]()}


CONVOLUTION = descriptor("DML_OPERATOR_CONVOLUTION")


def written(path: str, value: object) -> str:
    """Write a file of JSON, and return its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_json(path, value)
    return path


def manifest(line: str) -> dict[str, Any]:
    """Return what --json prints."""
    return json_of(f"convert --json {line}")


def keywords() -> str:
    """Copy a network of the repository; return its path."""
    return shutil.copy(MODELS / "networks" / "keywords.onnx", "k.onnx")


def serialized(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


class TestVerify:
    def test_a_line_says_what_ran_and_what_is_proved(self) -> None:
        program("a.json")
        assert output_of("convert a.json --verify") == f"a.json -> a.onnx: {PROVED}\n"
        assert read_bytes("a.onnx") == serialized(og.to_onnx(DESC))

    def test_each_dispatch_is_a_case_beside_those_that_are_drawn(self) -> None:
        content = read_json(program("a.json"))
        dispatch, shown = content["commands"]
        changed("a.json", commands=[dispatch, shown, dispatch])
        told = "a.json -> a.onnx: ran 5 cases, proved for every index\n"
        assert output_of("convert a.json --verify") == told
        changed("a.json", commands=[])
        told = "a.json -> a.onnx: ran 3 cases, proved for every index\n"
        assert output_of("convert a.json --verify") == told

    def test_each_gather_runs_with_its_own_data(self) -> None:
        renamed(program("a.json"), "first", "second")
        assert output_of("convert a.json --verify") == (
            f"a.json -> a.first.onnx: {PROVED}\n"
            "a.json -> a.second.onnx: ran 3 cases, proved for every index\n"
        )

    @pytest.mark.parametrize("policy", POLICIES)
    def test_an_index_out_of_range_is_a_case_too(self, policy: str) -> None:
        """Also where DirectML reads what lies behind the elements."""
        padded = tensor_desc("FLOAT32 4x3 bytes 64")
        desc = msgspec.structs.replace(DESC, input_tensor=padded)
        program("a.json", desc, indices=np.array([[2, 9]], np.uint32))
        resources = read_json("a.json")["resources"]
        resources["data"]["initialValues"] = [*range(16)]
        changed("a.json", resources=resources)
        given = f"convert a.json --verify --out-of-range {policy}"
        assert succeed(given) == f"a.json -> a.onnx: {PROVED}\n"

    @pytest.mark.parametrize("target", one_quick_in(len(TARGETS), TARGETS))
    def test_the_models_of_all_programs_are_verified(self, target: str) -> None:
        shutil.copytree(MODELS, "models")
        for model in Path("models").glob("*.onnx"):
            model.unlink()
        given = f"convert models -o out --target {target}"
        code, out, err = outcome(f"{given} --verify")
        *lines, last = out.splitlines()
        assert (code, err, last) == (
            0,
            "new folder: out\n",
            "16 programs: 16 models written, 16 of them proved",
        )
        assert len(lines) == 16
        for line in lines:
            assert ": ran 4 cases, proved" in line

    def test_a_model_of_onnxgather_is_verified_under_its_own_policy(self) -> None:
        program("a.json")
        call("convert a.json --out-of-range zero -o m.onnx")
        assert (
            output_of("convert m.onnx --target cpu -o c.onnx") == "m.onnx -> c.onnx\n"
        )
        wanted = serialized(og.to_onnx(DESC, "zero", "cpu"))
        assert read_bytes("c.onnx") == wanted
        given = "convert m.onnx -o v.onnx --verify"
        told = "m.onnx -> v.onnx: ran 3 cases, proved for every index\n"
        assert output_of(given) == told

    def test_a_gather_of_a_network_is_verified_as_an_error(self) -> None:
        given = f"{keywords()} --node word_embedding --shape words=2,6 -o out"
        out = succeed(f"convert {given} --verify")
        first, beside = out.splitlines()
        assert first.endswith("onnx: ran 3 cases, proved for every index")
        assert beside.endswith(".json")
        (name,) = Path("out").glob("*.onnx")
        (entry,) = load_model(str(name)).metadata_props
        assert json.loads(entry.value)["out_of_range"] == "error"

    def test_a_program_for_webnn_is_proved(self) -> None:
        program("a.json")
        told = "a.json -> a.mjs: ran no case, proved for every index\n"
        assert output_of("convert a.json --target webnn --verify") == told

    @pytest.mark.parametrize("target", ["portable", "webnn"])
    def test_a_whole_program_is_verified(self, target: str) -> None:
        shutil.copy(MODELS / "detector_topk_boxes.json", "a.json")
        given = f"convert a.json --whole --target {target} --verify"
        ending, ran = {"portable": ("onnx", "1"), "webnn": ("mjs", "no")}[target]
        assert outcome(given)[:2] == (
            0,
            (
                f"a.json -> a.{ending}: ran {ran} case, each dispatch proved for every"
                " index\n"
            ),
        )

    def test_a_model_on_the_standard_output_is_told_of_elsewhere(self) -> None:
        program("a.json")
        result = call("convert a.json -o - --verify")
        assert (result.exit_code, result.stderr) == (0, f"a.json: {PROVED}\n")
        assert result.stdout_bytes == serialized(og.to_onnx(DESC))

    def test_a_program_that_cannot_run_leaves_drawn_data(self) -> None:
        program("a.json")
        np.save("x.npy", np.zeros((4, 3)))
        resources = read_json("a.json")["resources"]
        resources["data"] = {"initialValues": {"sourcePath": "x.npy"}}
        changed("a.json", resources=resources)
        assert outcome("convert a.json --verify") == (
            0,
            "a.json -> a.onnx: ran 3 cases, proved for every index\n",
            (
                "a.json: $.resources.data must hold FLOAT32, as InputTensor of"
                " $.commands[0], got FLOAT64; so the models run with drawn data alone\n"
            ),
        )

    def test_without_a_runtime_no_model_is_made(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        program("a.json")
        assert error_of("convert a.json --verify", code=3) == (
            "the environment of CPUExecutionProvider does not contain ONNX"
            " Runtime; install onnxruntime"
        )
        assert files() == ["a.json"]
        succeed("convert a.json --verify --target webnn")

    def test_a_broken_solver_does_not_end_the_work(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        solvers.end_programs()
        monkeypatch.setattr(solvers, "_PROGRAM", "import os; os._exit(3)")
        monkeypatch.setattr(solvers, "_proved", set[object]())
        program("a.json", SIGNED_DESC, indices=np.array([[0, 1]]))
        program("b.json")
        assert output_of("convert a.json b.json --verify") == (
            "a.json -> a.onnx: ran 4 cases; not proved: z3: its program ended with"
            f" code 3\nb.json -> b.onnx: {PROVED}\n2 programs: 2 models written,"
            " 1 of them proved\n"
        )

    def test_what_takes_too_long_is_not_proved(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verify, "SECONDS", 1e-9)
        told = "a.json -> a.onnx: ran 4 cases; not proved: time\n"
        assert output_of("convert", program("a.json"), "--verify") == told


def changed_by(step: int, model: ModelProto) -> ModelProto:
    """Change the last element of the last constant of a model."""
    tensor = model.graph.initializer[-1]
    array = numpy_helper.to_array(tensor).copy()
    elements = array.reshape(-1)
    elements[-1] = int(elements[-1]) + step
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return model


class TestPlantedMistake:
    """A constant that changes between the translation and the verification."""

    def test_no_wrong_model_is_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = write.descriptor_model

        def wrong(desc: og.Descriptor, **options: Any) -> ModelProto:
            model = right(desc, **options)
            return changed_by(-1, model) if desc == DESC else model

        monkeypatch.setattr(write, "descriptor_model", wrong)
        program("a.json")
        program("b.json", SIGNED_DESC, indices=np.array([[0, 1]]))
        given = "convert a.json b.json --verify"
        assert outcome(given) == (
            1,
            f"b.json -> b.onnx: {PROVED}\n2 programs: 1 model written, 1 of them"
            " proved, 1 error\n",
            (
                "Error: a.json: $.dispatchables.gather: with $.commands[0], the model's"
                " OutputTensor[0,0] must be 2.0, got 1.0; 4 of 8 elements differ\n"
            ),
        )
        assert files() == ["a.json", "b.json", "b.onnx"]
        # Without --verify nobody sees it.
        succeed("convert a.json")

    def test_no_wrong_whole_model_is_written(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = whole.program_to_onnx

        def wrong(*arguments: Any, **options: Any) -> ModelProto:
            return changed_by(1, right(*arguments, **options))

        monkeypatch.setattr(whole, "program_to_onnx", wrong)
        shutil.copy(MODELS / "gather_3_swap_columns.json", "a.json")
        assert error_of("convert a.json --whole --verify", code=1) == (
            "a.json: with the data of the program, the model's output"
            " 'output'[0,1] must be 1.0, got 2.0; 3 of 6 elements differ"
        )
        assert files() == ["a.json"]


class TestManifest:
    def test_it_has_the_models_with_their_inputs(self) -> None:
        program("a.json")
        written("package.json", {"type": "module"})
        write_text("b.json", "{")
        code, out, err = outcome("convert . --json")
        assert code == 2
        error = (
            "./b.json: line 1 column 2: expected a field name in double quotes, got the"
            " end of the text"
        )
        assert err == f"1 JSON file is no program: package.json\nError: {error}\n"
        assert json.loads(out) == {
            "schema": 1,
            "files": [
                {
                    "program": "./a.json",
                    "dispatchable": "gather",
                    "model": "./a.onnx",
                    "inputs": {
                        "InputTensor": {"type": "FLOAT32", "sizes": [4, 3]},
                        "IndicesTensor": {"type": "UINT32", "sizes": [1, 2]},
                    },
                    "out_of_range": "clamp",
                    "target": "portable",
                    "verified": None,
                }
            ],
            "left_out": 1,
            "errors": [{"file": "./b.json", "error": error}],
        }

    def test_a_file_gets_it_and_the_lines_are_printed(self) -> None:
        program("a.json")
        assert outcome("convert a.json --json=m.json --verify") == (
            0,
            f"a.json -> a.onnx: {PROVED}\n",
            "written: m.json\n",
        )
        (row,) = read_json("m.json")["files"]
        assert row["verified"] == {"cases": 4, "proved": True}

    def test_it_says_why_a_model_is_not_proved(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(verify, "SECONDS", 1e-9)
        (row,) = manifest(f"{program('a.json')} --verify")["files"]
        assert row["verified"] == {"cases": 4, "proved": False, "why": "time"}

    def test_a_whole_program_has_no_dispatchable(self) -> None:
        renamed(program("a.json"), "first", "second")
        given = "a.json --whole --input data --out-of-range directml"
        (row,) = manifest(given)["files"]
        assert row == {
            "program": "a.json",
            "dispatchable": None,
            "model": "a.onnx",
            "inputs": {"data": {"type": "FLOAT32", "sizes": [4, 3]}},
            "out_of_range": "directml",
            "target": "portable",
            "verified": None,
        }

    def test_each_gather_of_a_program_has_a_row(self) -> None:
        renamed(program("a.json"), "first", "second")
        rows = manifest("a.json")["files"]
        found = [(row["dispatchable"], row["model"]) for row in rows]
        assert found == [("first", "a.first.onnx"), ("second", "a.second.onnx")]

    def test_a_gather_of_a_network_is_named_as_its_node(self) -> None:
        given = f"{keywords()} --node word_embedding --shape words=2,6 -o out"
        (row,) = manifest(given)["files"]
        assert row["dispatchable"] == "word_embedding"
        assert row["out_of_range"] == "error"
        # The program beside the model is no model.
        assert row["model"].endswith(".onnx")

    def test_a_program_for_webnn_has_the_operands_of_its_graph(self) -> None:
        program("a.json")
        (row,) = manifest("a.json --target webnn --verify")["files"]
        assert row["inputs"] == {
            "InputTensor": {"type": "INT32", "sizes": [12, 1]},
            "IndicesTensor": {"type": "INT32", "sizes": [2, 1]},
        }
        assert row["verified"] == {"cases": 0, "proved": True}

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        rows_of("""
a.json --json -o -
Error: --json must have a FILE, as --json=FILE, where a model goes to the standard
output

a.json --json=a.json
Error: a.json must not be written, as it is an input

a.json --json=a.onnx
Error: a.onnx must not be written twice, for a.json: $.dispatchables.gather and --json
"""),
    )
    def test_it_is_apart_from_all_else(self, arguments: str, sentence: str) -> None:
        program("a.json")
        code, out, err = outcome(f"convert {arguments}")
        assert (code, out, err.splitlines()[-1]) == (2, "", sentence)
        assert files() == ["a.json"]


class TestDescriptorsAlone:
    def test_one_becomes_a_model(self) -> None:
        written("a.json", og.to_dict(DESC))
        assert output_of("convert a.json") == "a.json -> a.onnx\n"
        assert read_bytes("a.onnx") == serialized(og.to_onnx(DESC))
        told = "a.json -> a.onnx: ran 3 cases, proved for every index\n"
        assert output_of("convert a.json --verify") == told
        (row,) = manifest("a.json")["files"]
        assert row["dispatchable"] == "descriptor"

    def test_a_list_becomes_models_with_numbers(self) -> None:
        written("a.json", [og.to_dict(DESC), CONVOLUTION, og.to_dict(SIGNED_DESC)])
        assert outcome("convert a.json") == (
            0,
            "a.json -> a.1.onnx\na.json -> a.3.onnx\n",
            "a.json: left out, as only gathers are translated: $[1]\n",
        )
        assert [row["dispatchable"] for row in manifest("a.json")["files"]] == [
            "1",
            "3",
        ]

    @pytest.mark.parametrize("in_list", [False, True])
    def test_errors_have_the_paths_of_the_file(self, in_list: bool) -> None:
        document = og.to_dict(DESC)
        document["desc"]["Axis"] = 7
        written("a.json", [document] if in_list else document)
        place = "$[0].desc" if in_list else "$.desc"
        rule = "Axis must be less than InputTensor.DimensionCount (2), got 7"
        rule += "; did you mean Axis 1?"
        assert error_of("convert a.json", code=1) == f"a.json: {place}: {rule}"

    def test_a_descriptor_alone_is_no_whole_program(self) -> None:
        """The other files of a folder are converted."""
        program("in/b.json")
        written("in/a.json", og.to_dict(DESC))
        code, out, err = outcome("convert in --whole --input data")
        assert (code, out) == (
            2,
            "in/b.json -> in/b.onnx\n2 programs: 1 model written, 1 error\n",
        )
        assert err == (
            "Error: in/a.json: must be a program with commands to be one model, got"
            " descriptors alone\n"
        )


class TestOwnModel:
    def test_it_is_not_replaced(self) -> None:
        call("convert", program("a.json"))
        before = read_bytes("a.onnx")
        assert error_of("convert a.onnx --target cpu") == (
            "a.onnx: the new model must come with -o PATH, as a.onnx is the input"
        )
        assert read_bytes("a.onnx") == before
        assert files() == ["a.json", "a.onnx"]

    def test_a_program_for_webnn_goes_beside_it(self) -> None:
        call("convert", program("a.json"), "--out-of-range", "zero")
        assert output_of("convert a.onnx --target webnn") == "a.onnx -> a.mjs\n"
        wanted = og.to_webnn(DESC, "zero").to_javascript()
        assert Path("a.mjs").read_text("utf-8").endswith(wanted)


OTHERS: dict[str, object] = {
    "package.json": {"name": "x", "type": "module", "description": "to gather"},
    "tsconfig.json": {"compilerOptions": {"strict": True}},
    "empty.json": {},
    "list.json": [1, {"command": "cc", "file": "a.c"}],
    "text.json": "DML_OPERATOR_GATHER",
    "shader.json": {"type": "hlsl", "sourcePath": "a.hlsl"},
}
"""Files of JSON that are no programs, and have nothing to do with DirectML."""

SLIPS: dict[str, object] = {
    "a field": {"resource": {}},
    "a field in capitals": {"Commands": []},
    "a type": {"type": "DML_OPERATOR_GATHR", "desc": {}},
    "the name of a type": {"typ": "DML_OPERATOR_GATHER", "desc": {}},
    "a type without its prefix": {"type": "GATHER_ND2", "desc": {}},
    "an item": [{"type": "DML_OPERATOR_GATHER_ND2", "desc": {}}],
}
"""What may be a program, with a slip; left out, a conversion would be lost."""


class TestLeftOut:
    def test_json_that_is_no_program_is_left_out_and_counted(self) -> None:
        program("in/a.json")
        for name, value in OTHERS.items():
            written(f"in/x/{name}", value)
        told = (
            "6 JSON files are no programs: x/empty.json, x/list.json, x/package.json,"
            " x/shader.json and 2 more\n"
        )
        assert outcome("convert in") == (
            0,
            "in/a.json -> in/a.onnx\n1 program: 1 model written, 6 files left out\n",
            told,
        )
        for command in ("show", "certify", "check"):
            assert outcome(f"{command} in")[::2] == (0, told), command

    @pytest.mark.parametrize("slip", SLIPS)
    def test_a_program_with_a_slip_is_an_error(self, slip: str) -> None:
        program("in/a.json")
        written("in/b.json", SLIPS[slip])
        code, out, err = outcome("convert in")
        assert (code, out) == (
            2,
            "in/a.json -> in/a.onnx\n2 programs: 1 model written, 1 error\n",
        )
        assert err.startswith("Error: in/b.json: $")

    def test_a_descriptor_of_another_operator_is_named(self) -> None:
        program("in/a.json")
        scatter = descriptor("DML_OPERATOR_SCATTER_ELEMENTS")
        written("in/b.json", CONVOLUTION)
        written("in/c.json", [CONVOLUTION, scatter, CONVOLUTION])
        rule = "left out, as only gathers are translated: DML_OPERATOR_CONVOLUTION"
        assert outcome("convert in") == (
            0,
            "in/a.json -> in/a.onnx\n1 program: 1 model written, 2 files left out\n",
            f"in/b.json: {rule}\nin/c.json: {rule}, DML_OPERATOR_SCATTER_ELEMENTS\n",
        )

    @pytest.mark.parametrize("name", [*OTHERS, "convolution.json"])
    def test_a_file_that_is_named_is_never_left_out(self, name: str) -> None:
        written(name, OTHERS.get(name, CONVOLUTION))
        assert error_of("convert", name).startswith(f"{name}: $")

    def test_a_folder_without_programs_is_an_error(self) -> None:
        written("in/package.json", {"type": "module"})
        assert outcome("convert in") == (
            2,
            "",
            (
                "Error: in: the folder must have a program, got 1 JSON file of other"
                " kinds\n1 JSON file is no program: package.json\n"
            ),
        )

    def test_our_own_reports_are_left_out(self) -> None:
        path = program("in/a.json")
        call(f"convert {path} --json=in/manifest.json")
        network = keywords()
        reports = {
            "check": f"check {path} --lanes cpu",
            "show": f"show {path}",
            "shown": f"show {path} {path}",
            "network": f"show {network} --shape words=2,6",
            "explain": f"explain {path}",
            "certify": f"certify {path}",
            "audit": f"audit {network} --levels none",
        }
        for name, line in reports.items():
            call(f"{line} --json=in/{name}.json")
        call(f"audit {network} --levels none --contract in/contract.json")
        call(f"convert {path} --target webnn -o in/webnn.json")
        call(f"convert {path} --whole --target webnn -o in/whole.json")
        call("corpus export corpus")
        index = [*Path("corpus").rglob("index.json")]
        for number, file in enumerate(index):
            shutil.copy(file, f"in/index{number}.json")
        assert len([*Path("in").glob("*.json")]) == 12 + len(index)
        code, out, _ = outcome("convert in -o out")
        others = 11 + len(index)
        assert (code, out) == (
            0,
            (
                "in/a.json -> out/a.onnx\n"
                f"1 program: 1 model written, {others} files left out\n"
            ),
        )


@POSIX
class TestTerminal:
    @pytest.mark.slow
    def test_errors_come_last_and_their_word_is_red(self) -> None:
        program("a.json")
        write_text("b.json", "{")
        program("c.json")
        program("d.json")
        command = f"{sys.executable} -m onnxgather convert a.json b.json c.json || true"
        text, err = run_on_terminal(["sh", "-c", f"{command}"], "stdout")
        last = "3 programs: 2 models written, 1 error"
        assert text.splitlines() == ["a.json -> a.onnx", "c.json -> c.onnx", last]
        both, _ = run_on_terminal(["sh", "-c", f"({command}) 2>&1"], "stdout")
        error = (
            "\x1b[1;31mError:\x1b[0m b.json: line 1 column 2: expected a field name in"
            " double quotes, got the end of the text"
        )
        assert both.splitlines()[-2:] == [error, last]
        assert b"\x1b" not in err

    @pytest.mark.slow
    def test_an_interruption_keeps_what_there_is(self) -> None:
        for number in range(400):
            program(f"in/{number:03}.json")
        command = [sys.executable, "-m", "onnxgather", "convert", "in", "-o", "out"]
        process = subprocess.Popen(
            [*command, "--verify", "--json=m.json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            end = time.monotonic() + 60
            while not os.path.isdir("out") and time.monotonic() < end:
                time.sleep(0.05)
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 143
        rows = read_json("m.json")["files"]
        assert 0 < len(rows) < 400
        assert len([*Path("out").glob("*.onnx")]) - len(rows) in (0, 1)
        sentence = f"interrupted by SIGTERM after {len(rows)} of 400 models"
        assert f"Error: {sentence}\n" in err
        assert out.splitlines()[-1] == (
            f"400 programs: {number_of_models(len(rows))} written, {len(rows)} of them"
            " proved, 1 error"
        )


def number_of_models(count: int) -> str:
    return "1 model" if count == 1 else f"{count} models"


def test_the_external_data_of_a_network_is_an_input() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    text = "(int64[2] ids) => (float[2, 3] rows) { rows = Gather(table, ids) }"
    network = parsed(text, constant("table", table))
    onnx.save(  # pyright: ignore[reportUnknownMemberType]
        network,
        "net.onnx",
        save_as_external_data=True,
        size_threshold=0,
        location="weights.onnx",
    )
    weights = read_bytes("weights.onnx")
    assert outcome("convert net.onnx -o weights.onnx")[::2] == (
        2,
        "Error: weights.onnx must not be written, as it is an input:"
        f" {Path('weights.onnx').absolute()}\n",
    )
    outcome("convert net.onnx -o out --json=weights.onnx")
    assert read_bytes("weights.onnx") == weights


def test_a_gather_that_indices_leave_is_told_under_directml_too() -> None:
    program("p.json", DESC, DATA_4X3, np.array([[2, 9]], np.uint32))
    options = "-o p.onnx --out-of-range directml"
    error = outcome(f"convert p.json {options}")[2]
    assert error == (
        "p.json: $.commands[0] (gather): indices out of range: 1 of 2, first"
        " IndicesTensor[0,1] = 9; 3 of 8 output elements differ, first"
        " OutputTensor[0,1]: 9 under directml, 2 under clamp; for the other output:"
        " --out-of-range clamp\n"
    )
