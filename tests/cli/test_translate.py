"""`onnxgather convert`, `run`, `show` and `explain`: exit codes and whole texts."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
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
    call,
    changed,
    error_of,
    files,
    invalid,
    json_of,
    outcome,
    output_of,
    posix,
    program,
    read_bytes,
    read_json,
    renamed,
    spawn,
    succeed,
    write_json,
    write_text,
)
from folders import DATA, MODELS, ROOT
from hatchling.builders.wheel import WheelBuilder
from messages import rows_of
from short_descriptors import descriptor, tensor_desc
from terminal import run_on_terminal

import onnxgather as og
from onnxgather.cli import main
from onnxgather.cli.unforeseen import REQUEST
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import session as session_module
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.model import write
from onnxgather.core.model.values import load_model
from onnxgather.core.options import TARGETS


class TestConvert:
    def test_writes_the_model_beside_the_file(self) -> None:
        program("models/x.json")
        assert output_of("convert models/x.json") == "models/x.json -> models/x.onnx\n"
        assert files() == ["models/x.json", "models/x.onnx"]
        checker: Any = onnx.checker
        checker.check_model("models/x.onnx", full_check=True)
        wanted = og.to_onnx(DESC).SerializeToString(deterministic=True)
        assert read_bytes("models/x.onnx") == wanted

    def test_options_reach_the_model(self) -> None:
        program("x.json")
        arguments = "--out-of-range directml --opset 21 --target portable"
        succeed(f"convert x.json {arguments}")
        wanted = og.to_onnx(DESC, "directml", opset=21).SerializeToString(
            deterministic=True
        )
        assert read_bytes("x.onnx") == wanted

    def test_whole_writes_one_model_per_program(self) -> None:
        renamed(program("programs/x.json"), "first", "second")
        written = "programs/x.json -> out/x.onnx\n"
        Path("out").mkdir()
        told = (
            "programs/x.json: the model has no inputs, as the program contains all"
            " data; to give it inputs, add --input data --input indices\n"
        )
        assert outcome("convert --whole programs -o out") == (
            0,
            written,
            told,
        )
        wanted = og.program_to_onnx("programs/x.json").SerializeToString(
            deterministic=True
        )
        assert read_bytes("out/x.onnx") == wanted
        arguments = "--out-of-range zero --target cpu --opset 21 --input data"
        succeed(f"convert --whole programs/x.json {arguments}")
        made = og.program_to_onnx("programs/x.json", "zero", "cpu", 21, inputs=["data"])
        assert read_bytes("programs/x.onnx") == made.SerializeToString(
            deterministic=True
        )

    def test_a_whole_model_without_inputs_is_told(self) -> None:
        program("x.json")
        written = "x.json -> x.onnx\n"
        told = (
            "x.json: the model has no inputs, as the program contains all data; to give"
            " it inputs, add --input data --input indices\n"
        )
        assert outcome("convert --whole x.json") == (0, written, told)
        arguments = "--input data --input indices"
        assert output_of(f"convert --whole x.json {arguments}") == written
        model = load_model("x.onnx")
        assert [each.name for each in model.graph.input] == ["data", "indices"]

    def test_new_folders_are_told(self) -> None:
        program("x.json")
        written = "x.json -> no/such/x.onnx\n"
        told = "new folder: no\n"
        arguments = "convert x.json -o no/such/x.onnx"
        assert outcome(arguments) == (0, written, told)
        assert output_of(arguments) == written
        shutil.rmtree("no/such")
        assert outcome(arguments) == (0, written, "new folder: no/such\n")

    def test_whole_is_for_programs_and_input_for_whole(self) -> None:
        program("x.json")
        call("convert x.json")
        usage = "Usage: onnxgather convert [OPTIONS] FILE...\n"
        usage += "Try 'onnxgather convert --help' for help.\n\n"
        told = "Error: --whole must come with programs, got x.onnx\n"
        assert outcome("convert --whole x.onnx") == (2, "", usage + told)
        told = "Error: --input must come with --whole\n"
        assert outcome("convert x.json --input data") == (2, "", usage + told)

    def test_whole_keeps_the_feature_level(self) -> None:
        desc = msgspec.structs.replace(DESC, indices_tensor=tensor_desc("INT64 1x2"))
        program("x.json", desc, indices=np.array([[2, 0]], np.int64))
        assert error_of("convert --whole x.json --feature-level 2_1", code=1) == (
            "x.json: $.commands: the feature level must be at most 2_1, got "
            "3_0 (IndicesTensor.DataType INT64 needs 3_0; DimensionCount 2 needs 3_0)"
        )

    def test_one_model_per_dispatchable(self) -> None:
        renamed(program("x.json"), "first", "a/../b:%", "größe")
        assert output_of("convert x.json") == (
            "x.json -> x.first.onnx\nx.json -> x.a%2F..%2Fb%3A%25.onnx\nx.json ->"
            " x.größe.onnx\n"
        )
        wanted = ["x.a%2F..%2Fb%3A%25.onnx", "x.first.onnx", "x.größe.onnx", "x.json"]
        assert files() == wanted

    def test_output_names_the_file_of_a_single_model(self) -> None:
        program("x.json")
        assert outcome("convert x.json -o new/y.onnx") == (
            0,
            "x.json -> new/y.onnx\n",
            "new folder: new\n",
        )
        assert files() == ["new/y.onnx", "x.json"]

    def test_output_folder_keeps_the_tree_of_an_input_folder(self) -> None:
        program("in/a/x.json")
        program("in/b/x.json")
        program("in/Y.JSON")
        program("z.json")
        write_text("in/notes.txt", "no program")
        assert outcome("convert in z.json -o out") == (
            0,
            (
                "in/Y.JSON -> out/Y.onnx\nin/a/x.json -> out/a/x.onnx\nin/b/x.json ->"
                " out/b/x.onnx\nz.json -> out/z.onnx\n4 programs: 4 models written\n"
            ),
            "new folder: out\n",
        )
        assert [f for f in files() if f.endswith(".onnx")] == [
            "out/Y.onnx",
            "out/a/x.onnx",
            "out/b/x.onnx",
            "out/z.onnx",
        ]

    def test_a_folder_may_be_named_as_a_model(self) -> None:
        program("x.json")
        Path("o.onnx").mkdir()
        succeed("convert x.json -o o.onnx")
        assert files() == ["o.onnx/x.onnx", "x.json"]

    @pytest.mark.parametrize("output", ["o.onnx", "-"])
    def test_several_models_do_not_go_to_one_file(self, output: str) -> None:
        renamed(program("two.json"), "a", "b")
        program("x.json")
        sentence = f"Error: --output must be a folder for 2 models, got {output}"
        for arguments in ("two.json", "x.json none.json"):
            code, out, err = outcome(f"convert {arguments} -o {output}")
            assert (code, out, err.splitlines()[-1]) == (2, "", sentence)
        assert files() == ["two.json", "x.json"]

    def test_the_output_is_not_empty(self) -> None:
        program("x.json")
        code, _, err = outcome("convert x.json -o", "")
        sentence = "Error: Invalid value for '-o' / '--output': must not be empty"
        assert (code, err.splitlines()[-1], files()) == (2, sentence, ["x.json"])
        assert (
            error_of("convert", "") == "Invalid value for 'FILE...': must not be empty"
        )

    def test_a_model_goes_to_the_standard_output(self) -> None:
        program("x.json")
        result = call("convert x.json -o -")
        assert result.stdout_bytes == og.to_onnx(DESC).SerializeToString(
            deterministic=True
        )
        assert (result.exit_code, result.stderr, files()) == (0, "", ["x.json"])

    def test_no_model_goes_to_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        program("x.json")
        # any stream is a terminal
        monkeypatch.setattr("onnxgather.cli.outputs.is_terminal", bool)
        assert (
            error_of("convert x.json -o -")
            == "--output must be a file, as a terminal does not show a model"
        )

    @POSIX
    def test_names_that_differ_in_case_are_two_files_where_the_system_says_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        renamed(program("x.json"), "a", "A")
        succeed("convert x.json -o o")
        assert files() == ["o/x.A.onnx", "o/x.a.onnx", "x.json"]
        monkeypatch.setattr("onnxgather.core.files._CASELESS", True)
        assert outcome("convert x.json -o p") == (
            2,
            "",
            "".join(
                f"Error: p/x.{name}.onnx must not be written twice, for"
                " x.json: $.dispatchables.a and x.json: $.dispatchables.A\n"
                for name in "aA"
            ),
        )

    def test_characters_that_are_not_plain_to_see_are_in_no_name(self) -> None:
        renamed(program("x.json"), "\u202ea\x9b", "b\n")
        succeed("convert x.json")
        assert files() == ["x.%202Ea%9B.onnx", "x.b%0A.onnx", "x.json"]

    def test_a_bad_file_does_not_stop_the_others(self) -> None:
        for name in ("a", "c"):
            program(f"{name}.json")
        write_text("b.json", "{")
        invalid("bb.json", Axis=2)
        assert outcome("convert . none.json -o o") == (
            2,
            (
                "./a.json -> o/a.onnx\n./c.json -> o/c.onnx\n"
                "5 programs: 2 models written, 3 errors\n"
            ),
            (
                "Error: ./b.json: line 1 column 2: expected a field name in double"
                " quotes, got the end of the text\nError: ./bb.json:"
                " $.dispatchables.gather.desc: Axis must be less than"
                " InputTensor.DimensionCount (2), got 2; did you mean Axis 1?\n"
                "Error: none.json: no such file or directory\nnew folder: o\n"
            ),
        )

    def test_an_invalid_descriptor_alone_is_exit_code_1(self) -> None:
        invalid("x.json", IndexDimensions=3)
        assert error_of("convert x.json", code=1) == (
            "x.json: $.dispatchables.gather.desc: IndexDimensions must be 0"
            " to IndicesTensor.DimensionCount (2), got 3; did you mean"
            " IndexDimensions 1?"
        )
        assert files() == ["x.json"]

    def test_a_descriptor_above_the_feature_level_is_refused(self) -> None:
        program("x.json")
        assert error_of("convert x.json --feature-level 2_1", code=1) == (
            "x.json: $.dispatchables.gather: the feature level must be at"
            " most 2_1, got 3_0 (DimensionCount 2 needs 3_0)"
        )
        assert files() == ["x.json"]
        succeed("convert x.json --feature-level 3_0")

    def test_the_feature_level_names_the_dispatchable(self) -> None:
        renamed(program("x.json"), "a b")
        assert call("convert x.json --feature-level 1_0").stderr.startswith(
            'Error: x.json: $.dispatchables["a b"]: the feature level must be at'
            " most 1_0"
        )

    def test_a_folder_without_programs_is_refused(self) -> None:
        Path("empty").mkdir()
        assert (
            error_of("convert empty")
            == "empty: the folder must have a *.json file, got none"
        )

    def test_a_folder_that_cannot_be_read_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program("in/x.json")
        program("in/secret/y.json")
        original: Any = os.scandir

        def refuse(path: str) -> Any:
            if path.endswith("secret"):
                raise PermissionError(13, "Permission denied", path)
            return original(path)

        monkeypatch.setattr(os, "scandir", refuse)
        assert error_of("convert in") == "in/secret: permission denied"

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        rows_of("""
x.json ./x.json
./x.onnx must not be written twice, for x.json: $.dispatchables.gather and ./x.json:
$.dispatchables.gather

a b/x.json -o o
o/x.onnx must not be written twice, for a/x.json: $.dispatchables.gather and b/x.json:
$.dispatchables.gather

in.onnx
in.onnx must not be written, as it is an input

d/in.json in.onnx -o .
./in.onnx must not be written, as it is an input: in.onnx

from_file.json
from_file.onnx must not be written, as it is an input: HERE/from_file.onnx
"""),
    )
    def test_no_output_replaces_an_input_or_another_output(
        self, arguments: str, sentence: str
    ) -> None:
        for path in ("x", "a/x", "b/x", "d/in", "from_file"):
            program(f"{path}.json")
        program("in.onnx")
        Path("from_file.onnx").write_bytes(DATA_4X3.tobytes())
        content = read_json("from_file.json")
        content["resources"]["data"]["initialValues"] = {"sourcePath": "from_file.onnx"}
        changed("from_file.json", **content)
        before = {name: read_bytes(name) for name in files()}
        code, out, err = outcome(f"convert {arguments}")
        # Of two programs for one file, each fails.
        is_of_two = "twice" in sentence or "d/in.json" in arguments
        counts = "2 programs: 0 models written, 2 errors\n" if is_of_two else ""
        assert (code, out) == (2, counts)
        *other, last = err.splitlines()
        assert last == f"Error: {sentence.replace('HERE', posix(os.getcwd()))}"
        assert len(other) == is_of_two
        assert {name: read_bytes(name) for name in files()} == before

    def test_an_unreadable_input_is_not_replaced_either(self) -> None:
        program("x.json")
        Path("x.onnx").write_bytes(b"precious")
        code, out, err = outcome("convert x.json x.onnx")
        assert (code, out) == (2, "2 files: 0 models written, 2 errors\n")
        last = "Error: x.onnx must not be written, as it is an input"
        assert err.splitlines()[-1] == last
        assert read_bytes("x.onnx") == b"precious"

    @POSIX
    def test_a_link_does_not_lead_to_an_input(self) -> None:
        program("x.json")
        Path("y.onnx").symlink_to("x.json")
        assert (
            error_of("convert x.json -o y.onnx")
            == "y.onnx must not be written, as it is an input: x.json"
        )

    @POSIX
    def test_a_link_where_a_model_goes_is_kept_unless_the_user_names_it(self) -> None:
        program("x.json")
        Path("secret").write_bytes(b"precious")
        Path("x.onnx").symlink_to("secret")
        assert (
            error_of("convert x.json --force")
            == "x.onnx must not be replaced, as it is a link"
        )
        assert (read_bytes("secret"), Path("x.onnx").is_symlink()) == (
            b"precious",
            True,
        )
        Path("named.onnx").symlink_to("secret")
        succeed("convert x.json -o named.onnx")
        assert read_bytes("secret") == og.to_onnx(DESC).SerializeToString()
        assert Path("named.onnx").is_symlink()

    def test_a_model_is_checked_before_it_is_written(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        descriptor_model = write.descriptor_model

        def wrong(*_: object, **__: object) -> onnx.ModelProto:
            model = descriptor_model(DESC)
            model.graph.node[0].op_type = "Nonsense"
            return model

        program("x.json")
        monkeypatch.setattr(write, "descriptor_model", wrong)
        err = error_of("convert x.json")
        assert err.startswith(
            "x.json: $.dispatchables.gather: ONNX refuses the model: "
        )
        assert "Nonsense" in err
        assert files() == ["x.json"]

    @POSIX
    def test_outputs_that_cannot_be_written_are_one_sentence(self) -> None:
        program("x.json")
        Path("x.onnx").mkdir()
        assert (
            error_of("convert x.json")
            == "x.onnx must not be replaced, as it is a folder"
        )
        assert (
            error_of("convert x.json -o new.json")
            == "--output must be a folder or end in .onnx, got new.json"
        )
        assert not Path("new.json").exists()
        assert (
            error_of("convert x.json -o x.json")
            == "x.json/x.onnx: a file stands where its folder should be"
        )
        name = "n" * 300
        renamed("x.json", name, "b")
        assert outcome("convert x.json") == (
            2,
            "x.json -> x.b.onnx\n",
            f"Error: x.{name[:148]}…{name[:144]}.onnx: file name too long\n",
        )
        assert files() == ["x.b.onnx", "x.json"]

    @POSIX
    @pytest.mark.slow
    def test_names_with_spaces_or_without_an_encoding_are_kept(self) -> None:
        program("x.json")
        stems = [b"with space", "größe \u4e2d".encode(), b"\xff"]
        for stem in stems:
            shutil.copy(b"x.json", stem + b".json")
        names = [os.fsdecode(stem) + ".json" for stem in stems]
        done = spawn("convert", *names)
        assert (done.returncode, done.stderr) == (0, b"")
        shown = [*stems[:2], rb"\udcff"]  # a byte that is no text is spelled
        lines = [stem + b".json -> " + stem + b".onnx\n" for stem in shown]
        last = b"3 programs: 3 models written\n"
        assert done.stdout == b"".join([*lines, last])
        assert all(os.path.exists(stem + b".onnx") for stem in stems)
        done = spawn("show", names[-1], "--json")
        assert json.loads(done.stdout)["file"] == names[-1]
        table = re.sub(rb"  +", b"  ", spawn("check", *names).stdout)
        for stem in shown:
            assert stem + b".json: $.commands[0] (gather)  PASS\n" in table


UNDER_DIRECTML = (
    "1 of 3 output elements differ, first OutputTensor[0]: 0 under directml, 2 under"
    " clamp; for the other output: --out-of-range clamp"
)
BYTES = descriptor("GATHER: UINT8 4, INT32 3, UINT8 3, 0, 1")


class TestRun:
    @pytest.mark.parametrize("path", sorted((MODELS).glob("*.json")))
    def test_prints_what_dxdispatch_prints(self, path: Path) -> None:
        result = call("run", str(path))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout_bytes == path.with_suffix(".txt").read_bytes()

    def test_prints_raw_bytes(self) -> None:
        codes, indices = (
            np.array([1, 255, 233, 65], np.uint8),
            np.array([1, 2, -1], np.int32),
        )
        program("x.json", BYTES, codes, indices)
        result = call("run x.json")
        assert result.stdout_bytes == b"Resource 'output': \xff, \xe9, A\n"
        assert result.stderr == (
            "x.json: $.commands[1]: 8-bit values are printed as bytes, as dxdispatch"
            " does; --numbers prints numbers\n"
        )
        assert output_of("run x.json --numbers") == "Resource 'output': 255, 233, 65\n"

    @POSIX
    @pytest.mark.slow
    def test_a_terminal_has_escapes(self) -> None:
        codes = np.array([0, 27, 255, 65], np.uint8)
        program("x.json", BYTES, codes, np.array([0, 1, 3], np.int32))
        command = [sys.executable, "-m", "onnxgather", "run", "x.json"]
        text, _ = run_on_terminal(command, "stdout")
        assert text == "Resource 'output': \\x00, \\x1b, A\r\n"

    @POSIX
    @pytest.mark.slow
    def test_a_terminal_gets_long_lines_whole(self) -> None:
        codes = np.zeros(4, np.uint8)
        path = program("x.json", BYTES, codes, np.array([0, 1, 3], np.int32))
        dispatch, printed = read_json(path)["commands"]
        changed("x.json", commands=[dispatch, *[printed] * 9000])
        command = [sys.executable, "-m", "onnxgather", "run", "x.json"]
        text, _ = run_on_terminal(command, "stdout")
        assert text == "Resource 'output': \\x00, \\x00, \\x00\r\n" * 9000

    @pytest.mark.parametrize("where", [None, "new/folder"])
    def test_files_are_written_below_the_output_folder(self, where: str | None) -> None:
        content = read_json(program("x.json"))
        write = {"type": "writeFile", "resource": "output", "targetPath": "y.npy"}
        changed(
            "x.json", commands=[*content["commands"], {**write, "dimensions": [4, 2]}]
        )
        options = ["--output-folder", where] if where else []
        path = posix(os.path.abspath(os.path.join(where or ".", "y.npy")))
        assert output_of("run x.json", *options) == (
            "Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\nResource 'output' written"
            f" to '{path}'\n"
        )
        assert np.array_equal(np.load(Path(where or ".", "y.npy")), DATA_4X3[:, [2, 0]])
        assert len(files()) == 2

    def test_files_outside_the_folder_need_an_option(self, folder: Path) -> None:
        content = read_json(program("in/x.json"))
        target = "../outside.bin"
        write = {"type": "writeFile", "resource": "output", "targetPath": target}
        changed("in/x.json", commands=[*content["commands"], write])
        arguments = "run in/x.json --output-folder in"
        assert error_of(arguments) == (
            "in/x.json: $.commands[2].targetPath must stay in the output"
            f" folder, got {target!r}"
        )
        assert files() == ["in/x.json"]
        succeed(f"{arguments} --allow-outside")
        assert files() == ["in/x.json", "outside.bin"]

    @pytest.mark.parametrize(
        ("options", "printed", "told"),
        [
            ("", "0, 3, 0", UNDER_DIRECTML),
            ("--out-of-range directml", "0, 3, 0", UNDER_DIRECTML),
            (
                "--out-of-range clamp",
                "2, 3, 0",
                "1 of 3 output elements differ, first OutputTensor[0]: 2 under"
                " clamp, 0 under directml; for the other"
                " output: --out-of-range directml",
            ),
            ("--out-of-range zero", "0, 3, 0", "the output is the same under directml"),
        ],
    )
    def test_out_of_range_chooses_the_policy_and_directml_is_the_default(
        self, options: str, printed: str, told: str
    ) -> None:
        desc = descriptor("GATHER: INT16 3, INT32 3, INT16 3, 0, 1")
        # -9 + 3 wraps far past the end, and the last element of the padded buffer is 0.
        data, indices = np.array([0, 3, 2], np.int16), np.array([9, 1, -9], np.int32)
        program("x.json", desc, data, indices)
        assert outcome(f"run x.json {options}") == (
            0,
            f"Resource 'output': {printed}\n",
            (
                "x.json: $.commands[0]: indices out of range: 2 of 3, first"
                f" IndicesTensor[0] = 9; {told}\n"
            ),
        )

    def test_numbers_of_another_type_are_told_and_check_refuses_them(self) -> None:
        program("x.json")
        np.save("x.npy", np.zeros((4, 3)))
        resources = read_json("x.json")["resources"]
        resources["data"] = {"initialValues": {"sourcePath": "x.npy"}}
        changed("x.json", resources=resources)
        sentence = (
            "x.json: $.resources.data must hold FLOAT32, as InputTensor of"
            " $.commands[0], got FLOAT64"
        )
        assert outcome("run x.json") == (
            0,
            "Resource 'output': 0, 0, 0, 0, 0, 0, 0, 0\n",
            f"{sentence}; its bytes are bound as they are\n",
        )
        assert outcome("check x.json")[::2] == (2, f"Error: {sentence}\n")

    @pytest.mark.parametrize(
        "target", [t for t in TARGETS if t != "native" or operators_library()]
    )
    def test_the_models_are_made_for_a_target(
        self, target: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[object] = []

        def descriptor_model(*given: Any, **more: Any) -> object:
            made.append(given[2])
            return write.descriptor_model(*given, **more)

        session_module.open_session.cache_clear()
        monkeypatch.setattr(session_module, "descriptor_model", descriptor_model)
        program = str(MODELS / "token_embedding.json")
        ran = outcome("run", program, "--target", target)
        assert made == [target]
        assert ran == outcome("run", program)

    @pytest.mark.slow
    @POSIX
    def test_a_pipe_that_is_closed_ends_run_silently(self) -> None:
        values = {"value": 0.5, "valueCount": 2**20}
        x = {"initialValuesDataType": "FLOAT32", "initialValues": values}
        commands = [{"type": "print", "resource": "x"}]
        content = {"resources": {"x": x}, "dispatchables": {}, "commands": commands}
        write_json("x.json", content)
        command = [sys.executable, "-m", "onnxgather", "run", "x.json"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as done:
            assert done.stdout is not None
            assert done.stderr is not None
            assert done.stdout.read(20) == b"Resource 'x': 0.5, 0"
            done.stdout.close()
            assert (done.wait(60), done.stderr.read()) == (141, b"")
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                failed = subprocess.run(
                    command,
                    stdout=full,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=60,
                )
            sentence = b"Error: standard output: no space left on device\n"
            assert (failed.returncode, failed.stderr) == (2, sentence)

    def test_an_index_out_of_range_is_exit_code_1(self) -> None:
        program("x.json", indices=np.array([[2, 3]], np.uint32))
        assert error_of("run x.json --out-of-range error", code=1) == (
            "x.json: $.commands[0]: IndicesTensor[0,1] must be in [0, 3), got 3"
        )

    def test_a_missing_provider_is_exit_code_3(self) -> None:
        program("x.json")
        code, out, err = outcome("run x.json --provider XyzExecutionProvider")
        assert (code, out) == (3, "")
        start = (
            "Error: x.json: $.commands[0]: XyzExecutionProvider is not available"
            " (available: "
        )
        assert err.startswith(start)
        assert err.endswith("); install an ONNX Runtime with XyzExecutionProvider\n")
        assert err.count("\n") == 1

    @pytest.mark.parametrize("path", sorted((DATA / "invalid").glob("*.json")))
    def test_invalid_files_are_one_sentence(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(path.parent)
        code, out, err = outcome("run", path.name)
        expected = path.read_bytes().splitlines()[0].decode("utf-8", "replace")
        assert code in (1, 2)
        assert out == ""
        assert err.startswith("Error: ")
        assert err.count("\n") == 1
        if expected.startswith("// expect: "):
            assert err == f"Error: {expected.removeprefix('// expect: ')}\n"

    def test_a_bug_is_one_line_and_debug_shows_its_traceback(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> Array:
            raise TypeError("a bug")

        monkeypatch.setattr(session_module, "run", broken)
        program("x.json")
        sentence = f"Error: TypeError: a bug; {REQUEST}\n"
        assert outcome("run x.json") == (2, "", sentence)
        code, out, err = outcome("--debug run x.json")
        assert (code, out) == (2, "")
        assert err.startswith("Traceback (most recent call last):\n")
        assert err.endswith(f"TypeError: a bug\n{sentence}")
        assert "in broken\n" in err

    @pytest.mark.parametrize(
        ("error", "code", "err"),
        [
            (BrokenPipeError(32, "Broken pipe"), 141, ""),
            (
                OSError(28, "No space left"),
                2,
                "Error: standard output: no space left\n",
            ),
            (
                PermissionError(13, "Permission denied", "a/b"),
                2,
                "Error: a/b: permission denied\n",
            ),
        ],
    )
    def test_an_error_of_the_system_ends_a_command(
        self, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, err: str
    ) -> None:
        def fail(*_: object) -> Array:
            raise error

        monkeypatch.setattr(session_module, "run", fail)
        program("x.json")
        assert outcome("run x.json") == (code, "", err)

    @POSIX
    @pytest.mark.parametrize(
        ("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)]
    )
    def test_a_signal_ends_a_command_with_its_exit_code(
        self, monkeypatch: pytest.MonkeyPatch, name: str, code: int
    ) -> None:
        number = getattr(signal, name)

        def sent(*_: object) -> Array:
            signal.raise_signal(number)
            raise AssertionError

        before = signal.signal(number, signal.SIG_DFL)
        monkeypatch.setattr(session_module, "run", sent)
        program("x.json")
        assert outcome("run x.json") == (code, "", "")
        assert signal.signal(number, before) == signal.SIG_DFL

    @POSIX
    @pytest.mark.parametrize("place", ["import", "__del__"])
    def test_a_signal_where_an_error_would_be_lost_ends_a_command_soon(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
    ) -> None:
        finished: list[str] = []
        monkeypatch.setattr(signal, "finished", finished, raising=False)
        lines = ["import signal", "signal.raise_signal(signal.SIGTERM)"]
        lines.append("signal.finished.append(__name__)")
        (tmp_path / "own_import.py").write_text("\n".join(lines))
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

        class Own:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGTERM)
                finished.append("__del__")

        def sent(*_: object) -> Array:
            if place == "import":
                import_module("own_import")
            else:
                Own()
            time.sleep(60)
            raise AssertionError

        monkeypatch.setattr(session_module, "run", sent)
        program("x.json")
        start = time.monotonic()
        assert outcome("run x.json") == (143, "", "")
        assert time.monotonic() - start < 30
        name = "own_import" if place == "import" else place
        assert finished == [name]

    @POSIX
    def test_a_broken_pipe_that_is_not_the_standard_output_is_one_sentence(
        self,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        def fail(*_: object) -> Array:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        monkeypatch.setattr(session_module, "run", fail)
        program("x.json")
        with open(tmp_path / "out", "w", encoding="utf-8") as stream:
            monkeypatch.setattr(sys, "stdout", stream)
            with pytest.raises(SystemExit) as end:
                main(["run", "x.json"], prog_name="onnxgather")
        sentence = (
            "Error: a pipe that the command writes to must be read, got a broken pipe\n"
        )
        assert (end.value.code, capfd.readouterr().err) == (2, sentence)

    @POSIX
    def test_a_signal_that_is_ignored_stays_so(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        original = session_module.run

        def sent(*given: Any) -> Array:
            signal.raise_signal(signal.SIGINT)
            return original(*given)

        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        monkeypatch.setattr(session_module, "run", sent)
        program("x.json")
        code, _, err = outcome("run x.json")
        assert signal.signal(signal.SIGINT, before) == signal.SIG_IGN
        assert (code, err) == (0, "")

    def test_a_lack_of_memory_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise MemoryError

        monkeypatch.setattr("onnxgather.cli.translate.read_source", fail)
        assert error_of("run x.json") == "there is not enough memory"


class TestShow:
    def test_show_prints_descriptor_formula_and_model(self) -> None:
        program("x.json")
        assert (
            output_of("show x.json --out-of-range error")
            == """\
x.json: $.dispatchables.gather

DML_GATHER_OPERATOR_DESC
  InputTensor      FLOAT32 [4, 3]
  IndicesTensor    UINT32 [1, 2]
  OutputTensor     FLOAT32 [4, 2]
  Axis             1
  IndexDimensions  1

Feature level 3_0, needed by
  DimensionCount 2

Formula
  out[a, i] = in[a, idx[0, i]]
  a < 4, i < 2
  0 <= idx < 3; an index out of range is an error

ONNX, opset 17, target portable, out of range: error
  InputTensor: float32[4, 3]
  IndicesTensor: uint32[1, 2]
  1.  Reshape(IndicesTensor, [2]) -> indices: uint32[2]
      drops the leading ones that do not count
  2.  Cast(indices, to=int64) -> indices_int64: int64[2]
      the index type that Gather takes
  3.  Gather(InputTensor, indices_int64, axis=1) -> OutputTensor: float32[4, 2]
      DML_OPERATOR_GATHER
"""
        )

    def test_show_prints_every_field_of_a_tensor(self) -> None:
        desc = descriptor(
            "GATHER_ELEMENTS: FLOAT16 3x3 strides 4x1 bytes 44 flags OWNED_BY_DML"
            " alignment 16, INT64 2x3, FLOAT16 2x3 strides 40x1, 0"
        )
        data, indices = np.zeros(22, np.float16), np.zeros((2, 3), np.int64)
        program("x.json", desc, data, indices)
        out = output_of("show x.json")
        assert out.startswith("""\
x.json: $.dispatchables.gather

DML_GATHER_ELEMENTS_OPERATOR_DESC
  InputTensor    FLOAT16 [3, 3], Strides [4, 1], TotalTensorSizeInBytes 44,
                 Flags OWNED_BY_DML, GuaranteedBaseOffsetAlignment 16
  IndicesTensor  INT64 [2, 3]
  OutputTensor   FLOAT16 [2, 3], Strides [40, 1]
  Axis           0

Feature level 3_0, needed by
  IndicesTensor.DataType INT64
  DimensionCount 2

Formula
  out[i, a] = in[idx[i, a], a]
  i < 2, a < 3
  -3 <= idx < 3, from the end where negative; an index out of range is clamped

""")
        assert "-> OutputTensor: float16[44]\n" in out

    def test_show_says_why_forms_are_passed_over(self) -> None:
        desc = descriptor("GATHER: FLOAT32 4x1000, UINT32 1x300, FLOAT32 4x300, 1, 1")
        data = np.zeros((4, 1000), np.float32)
        program("x.json", desc, data, np.zeros((1, 300), np.uint32))
        lines = call("show x.json --target cpu").stdout.splitlines()
        start = lines.index("  passed over:")
        assert lines[start + 1 : start + 5] == [
            (
                "    repeated rows: GATHER has one index for a row, this form joins"
                " those of"
            ),
            "    elements",
            "    elements: the data has 4 rows to choose from, this form reads one",
            "  InputTensor: float32[4, 1000]",
        ]
        shown = json.loads(call("show x.json --target cpu --json").stdout)
        passed_over = shown["dispatchables"]["gather"]["passed_over"]
        why = "the data has 4 rows to choose from, this form reads one"
        assert [each["form"] for each in passed_over] == ["repeated rows", "elements"]
        assert passed_over[-1] == {"form": "elements", "why": why}

    def test_show_prints_each_dispatchable(self) -> None:
        renamed(program("x.json"), "a", "b c")
        text = call("show x.json").stdout
        first, second = text.split("\n\n\n")
        assert first.splitlines()[0] == "x.json: $.dispatchables.a"
        assert second.splitlines()[0] == 'x.json: $.dispatchables["b c"]'
        assert first.splitlines()[1:] == second.splitlines()[1:]

    def test_show_prints_json(self) -> None:
        program("x.json")
        out = output_of("show x.json --json --opset 19")
        shown = json.loads(out)
        description = shown["dispatchables"].pop("gather")
        assert shown == {"file": "x.json", "dispatchables": {}}
        nodes = description.pop("nodes")
        assert description == {
            "descriptor": og.to_dict(DESC),
            "feature_level": "3_0",
            "needs": [{"feature_level": "3_0", "field": "DimensionCount 2"}],
            "out_of_range": "clamp",
            "formula": {
                "equation": "out[a, i] = in[a, idx[0, i]]",
                "coordinates": None,
                "bounds": "a < 4, i < 2",
                "range": "0 <= idx < 3; an index out of range is clamped",
            },
            "target": "portable",
            "choice": "",
            "passed_over": [],
            "opset": 19,
            "inputs": [
                {"name": "InputTensor", "data_type": "float32", "shape": [4, 3]},
                {"name": "IndicesTensor", "data_type": "uint32", "shape": [1, 2]},
            ],
            "constants": description["constants"],
        }
        model = og.to_onnx(DESC, opset=19)
        assert [
            (n["operator"], n["inputs"], n["output"]["name"], n["why"]) for n in nodes
        ] == [
            (n.op_type, list(n.input), n.output[0], n.doc_string)
            for n in model.graph.node
        ]
        assert [c["name"] for c in description["constants"]] == [
            t.name for t in model.graph.initializer
        ]

    def test_show_writes_a_document_or_a_page(self) -> None:
        assert (
            error_of("show", program("x.json"), "--json", "--html", "x.html")
            == "--json and --html must come one at a time"
        )

    def test_show_goes_on_after_a_bad_file(self) -> None:
        for name in ("a", "d/b"):
            program(f"{name}.json")
        write_text("bad.json", "[]")
        arguments = "show a.json bad.json none.json d"
        code, out, err = outcome(arguments)
        assert [text.splitlines()[0] for text in out.split("\n\n\n")] == [
            "a.json: $.dispatchables.gather",
            "d/b.json: $.dispatchables.gather",
        ]
        errors = (
            "Error: bad.json: $ must have a descriptor, got an empty array\n"
            "Error: none.json: no such file or directory\n"
        )
        assert (code, sorted(err.splitlines())) == (2, errors.splitlines())
        code, out, _ = outcome(f"{arguments} --json")
        assert (code, [shown["file"] for shown in json.loads(out)]) == (
            2,
            ["a.json", "d/b.json"],
        )
        assert [shown["file"] for shown in json_of("show d --json")] == ["d/b.json"]
        assert outcome("show none.json --json")[:2] == (2, "")


class TestExplain:
    def test_explain_says_where_an_element_comes_from(self) -> None:
        program("x.json")
        assert (
            output_of("explain x.json --at 1,0")
            == "output[1,0] = input[1, indices[0]] = input[1, 2] = 5\n"
        )

    def test_explain_shows_a_small_gather_whole(self) -> None:
        program("x.json", indices=np.array([[2, 9]], np.uint32))
        assert outcome("explain x.json") == (
            0,
            """\
input: FLOAT32 [4, 3]
[[0, 1, 2],
 [3, 4, 5],
 [6, 7, 8],
 [9, 10, 11]]

indices: UINT32 [1, 2]
[[2, 9]]

output[0,0] = input[0, indices[0]] = input[0, 2] = 2
output[0,1] = input[0, indices[1]] = input[0, 9] -> input[0, 2] (9 is past the end, clamped to 2) = 2, 9 under directml
output[1,0] = input[1, indices[0]] = input[1, 2] = 5
output[1,1] = input[1, indices[1]] = input[1, 9] -> input[1, 2] (9 is past the end, clamped to 2) = 5, 11 under directml
output[2,0] = input[2, indices[0]] = input[2, 2] = 8
output[2,1] = input[2, indices[1]] = input[2, 9] -> input[2, 2] (9 is past the end, clamped to 2) = 8, 11 under directml
output[3,0] = input[3, indices[0]] = input[3, 2] = 11
output[3,1] = input[3, indices[1]] = input[3, 9] -> input[3, 2] (9 is past the end, clamped to 2) = 11
""",  # noqa: E501
            (
                "x.json: $.commands[0] (gather): indices out of range: 1 of 2, first"
                " IndicesTensor[0,1] = 9; 3 of 8 output elements differ, first"
                " OutputTensor[0,1]: 2 under clamp, 9 under directml; for the other"
                " output: --out-of-range directml\n"
            ),
        )
        every = json_of("explain x.json --json")
        assert [(one["at"], one["value"]) for one in every][:3] == [
            ([0, 0], "2"),
            ([0, 1], "2"),
            ([1, 0], "5"),
        ]

    def test_explain_asks_for_the_element_of_a_big_gather(self) -> None:
        desc = descriptor("GATHER: UINT8 5, UINT32 65, UINT8 65, 0, 1")
        program("x.json", desc, np.zeros(5, np.uint8), np.zeros(65, np.uint32))
        assert error_of("explain x.json") == (
            "Invalid value for --at: at must be given where OutputTensor has"
            " more than 64 elements, got 65"
        )

    def test_explain_says_both_elements_of_an_index_out_of_range(self) -> None:
        program("x.json", indices=np.array([[2, 9]], np.uint32))
        arguments = "explain x.json --at 1,1"
        found = (
            "x.json: $.commands[0] (gather): indices out of range: 1 of 2, first"
            " IndicesTensor[0,1] = 9; "
        )
        directml = (
            "output[1,1] = input[1, indices[1]] = input[1, 9] -> buffer element 11"
            " (1 x 3 + 9 x 1 = 12; 12 is past the last element, clamped to 11) ="
            " input[3, 2] = 11, 5 under clamp\n"
        )
        told = (
            f"{found}3 of 8 output elements differ, first OutputTensor[0,1]: 9 under"
            " directml, 2 under clamp; for the other output: --out-of-range clamp\n"
        )
        assert outcome(f"{arguments} --out-of-range directml") == (0, directml, told)
        clamp = (
            "output[1,1] = input[1, indices[1]] = input[1, 9] -> input[1, 2] (9 is"
            " past the end, clamped to 2) = 5, 11 under directml\n"
        )
        told = (
            f"{found}3 of 8 output elements differ, first OutputTensor[0,1]: 2 under"
            " clamp, 9 under directml; for the other output: --out-of-range directml\n"
        )
        assert outcome(arguments) == (0, clamp, told)
        error = (
            "output[1,1] = input[1, indices[1]] = input[1, 9]: an error, 11 under"
            " directml (index 9 is out of range of 3)\n"
        )
        told = (
            f"{found}OutputTensor[0,1] is an error, 9 under directml; for the other"
            " output: --out-of-range directml\n"
        )
        assert outcome(f"{arguments} --out-of-range error") == (0, error, told)

    def test_explain_prints_json(self) -> None:
        program("x.json")
        out = output_of("explain x.json --at", "1, 0", "--json")
        found = json.loads(out)
        assert (found["index_values"], found["after"], found["value"]) == (
            [2],
            [1, 2],
            "5",
        )

    def test_explain_takes_the_dispatch_of_a_command(self) -> None:
        content = read_json(program("x.json"))
        dispatch, printing = content["commands"]
        changed("x.json", commands=[dispatch, printing, dispatch])
        arguments = "explain x.json --at 1,0 --dispatch"
        succeed(f"{arguments} 2")
        assert (
            error_of(f"{arguments} 3")
            == "x.json: the file must have 3 gathers for --dispatch 3, got 2"
        )

    @pytest.mark.parametrize(
        ("at", "sentence"),
        rows_of("""
1,9
at must have 2 coordinates within OutputTensor.Sizes [4, 2], got [1, 9]

1
at must have 2 coordinates within OutputTensor.Sizes [4, 2], got [1]

1,x
must be integers with commas, got '1,x'
"""),
    )
    def test_coordinates_outside_the_output_are_refused(
        self, at: str, sentence: str
    ) -> None:
        program("x.json")
        assert (
            error_of(f"explain x.json --at {at}")
            == f"Invalid value for --at: {sentence}"
        )


class TestTheHeaderForApplications:
    def test_page_and_header_have_the_same_lines(self) -> None:
        include, attach = (
            '#include "directml_capture.h"',
            'device.Attach(onnxgather::capture(device.Get(), L"C:/gathers"));',
        )
        header = ROOT / "onnxgather" / "native" / "directml_capture.h"
        page = ROOT / "docs" / "capture.md"
        for path in (header, page):
            text = path.read_text(encoding="utf-8")
            assert text.index(include) < text.index(attach)

    def test_a_wheel_has_the_header(self) -> None:
        files = WheelBuilder(str(ROOT)).recurse_included_files()
        names = {file.distribution_path for file in files}
        assert "onnxgather/native/directml_capture.h" in names
