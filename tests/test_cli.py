"""The command line: exit codes and whole texts, as a user gets them."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command_line import DATA_4X3, DESC, call, outcome, program

import onnxgather as og
from onnxgather import files as files_module
from onnxgather import model as model_module
from onnxgather import session as session_module
from onnxgather.arrays import Array
from onnxgather.cli import sources, terminal
from onnxgather.cli.terminal import has_colours
from onnxgather.cli.terminal import width as width_of
from onnxgather.corpus import corpus

DATA = Path(__file__).parent / "data"
POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links, odd names or POSIX errors")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(path: str, **fields: Any) -> str:
    """Replace fields of a program at its top level."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    Path(path).write_text(json.dumps({**content, **fields}), encoding="utf-8")
    return path


def renamed(path: str, *names: str) -> str:
    """Give a program its dispatchable under these names instead."""
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    gather = content["dispatchables"]["gather"]
    first = {**content["commands"][0], "dispatchable": names[0]}
    return changed(path, dispatchables=dict.fromkeys(names, gather), commands=[first])


def files() -> list[str]:
    """Return all files below the current folder."""
    return sorted(p.as_posix() for p in Path().rglob("*") if p.is_file())


def spawn(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the program as users do."""
    command = [sys.executable, "-m", "onnxgather", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, env=env)


class TestHelp:
    def test_main_help(self) -> None:
        assert outcome("--help") == (
            0,
            """\
Usage: onnxgather [OPTIONS] COMMAND [ARGS]...

  Turn DirectML gather descriptors into ONNX models, run them, check them.

  FILE is a DxDispatch program: JSON, comments allowed.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
  check    Compare providers with the reference.
  convert  Write programs as ONNX models.
  corpus   Export the built-in corpus.
  doctor   Say which wheels and providers work.
  explain  Say where an output element comes from.
  repro    Reduce a difference to a folder that shows it.
  run      Run a program, print what dxdispatch prints.
  show     Explain a program's gathers and their models.

  Exit codes:
    0  good
    1  findings: a difference, an error, an invalid descriptor or index
    2  unusable input or usage
    3  a provider asked for, or a required lane, did not run
  Where several things go wrong, 2 counts before 3, and 3 before 1.
""",
            "",
        )

    @pytest.mark.parametrize(
        "command", ["convert", "run", "check", "show", "explain", "doctor", "repro", "corpus"]
    )
    def test_command_help_fits_80_columns(self, command: str) -> None:
        result = call(command, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: onnxgather {command} [OPTIONS]")
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "\b" not in result.stdout

    def test_version(self) -> None:
        assert outcome("--version") == (0, "onnxgather 0.1.0\n", "")

    @pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["show", "x.json"]])
    def test_neither_help_nor_show_imports_onnx(self, arguments: list[str]) -> None:
        program("x.json")
        code = f"""\
import sys
from onnxgather.cli import main
try:
    main({arguments!r})
except SystemExit as exit:
    assert exit.code == 0, exit.code
heavy = [name for name in ("onnx", "onnxruntime") if name in sys.modules]
print("heavy:", heavy)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        assert done.stdout.decode().splitlines()[-1] == "heavy: []"
        assert done.stderr == b""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["convert"], "Missing argument 'FILE...'."),
            (["run"], "Missing argument 'FILE'."),
            (["chekc"], "No such command 'chekc'."),
            (
                ["check", "x.json", "--provider", "gpu"],
                "Invalid value for '--provider': provider must be one of cpu, directml, openvino, "
                "cuda, tensorrt, webgpu, qnn, coreml, or ONNX Runtime's full name of one, got "
                "'gpu'",
            ),
            (
                ["run", "x.json", "--out-of-range", "wrap"],
                "Invalid value for '--out-of-range': 'wrap' is not one of 'clamp', 'error', "
                "'zero', 'directml'.",
            ),
            (
                ["show", "x.json", "--opset", "12"],
                "Invalid value for '--opset': 12 is not in the range 13<=x<=25.",
            ),
        ],
    )
    def test_usage_is_exit_code_2(self, arguments: list[str], sentence: str) -> None:
        code, out, err = outcome(*arguments)
        assert (code, out) == (2, "")
        found = err[err.index("Error: ") :].splitlines()[0]
        # click words a mistyped command with a suggestion where it finds one.
        assert found.startswith(f"Error: {sentence}")


class TestConvert:
    def test_writes_the_model_beside_the_file(self) -> None:
        program("models/x.json")
        assert outcome("convert", "models/x.json") == (0, "models/x.json -> models/x.onnx\n", "")
        assert files() == ["models/x.json", "models/x.onnx"]
        checker: Any = onnx.checker
        checker.check_model("models/x.onnx", full_check=True)
        wanted = og.to_onnx(DESC).SerializeToString(deterministic=True)
        assert Path("models/x.onnx").read_bytes() == wanted

    def test_options_reach_the_model(self) -> None:
        program("x.json")
        arguments = ["--out-of-range", "directml", "--opset", "21", "--target", "portable"]
        assert outcome("convert", "x.json", *arguments)[0] == 0
        wanted = og.to_onnx(DESC, "directml", opset=21).SerializeToString(deterministic=True)
        assert Path("x.onnx").read_bytes() == wanted

    def test_one_model_per_dispatchable(self) -> None:
        renamed(program("x.json"), "first", "a/../b:%", "größe")
        assert outcome("convert", "x.json") == (
            0,
            "x.json -> x.first.onnx\nx.json -> x.a%2F..%2Fb%3A%25.onnx\nx.json -> x.größe.onnx\n",
            "",
        )
        wanted = ["x.a%2F..%2Fb%3A%25.onnx", "x.first.onnx", "x.größe.onnx", "x.json"]
        assert files() == wanted

    def test_output_file(self) -> None:
        program("x.json")
        assert outcome("convert", "x.json", "-o", "new/y.onnx") == (
            0,
            "x.json -> new/y.onnx\n",
            "",
        )
        assert files() == ["new/y.onnx", "x.json"]

    def test_output_folder_keeps_the_tree_of_an_input_folder(self) -> None:
        program("in/a/x.json")
        program("in/b/x.json")
        program("in/Y.JSON")
        program("z.json")
        Path("in/notes.txt").write_text("no program")
        assert outcome("convert", "in", "z.json", "-o", "out") == (
            0,
            "in/Y.JSON -> out/Y.onnx\nin/a/x.json -> out/a/x.onnx\nin/b/x.json -> out/b/x.onnx\n"
            "z.json -> out/z.onnx\n",
            "",
        )
        assert [f for f in files() if f.endswith(".onnx")] == [
            "out/Y.onnx",
            "out/a/x.onnx",
            "out/b/x.onnx",
            "out/z.onnx",
        ]

    @pytest.mark.parametrize("exists", [True, False])
    def test_output_that_is_a_folder_whatever_its_name(self, exists: bool) -> None:
        program("x.json")
        if exists:
            Path("o.onnx").mkdir()
            assert outcome("convert", "x.json", "-o", "o.onnx")[0] == 0
            assert files() == ["o.onnx/x.onnx", "x.json"]
        else:  # two models
            renamed("x.json", "a", "b")
            assert outcome("convert", "x.json", "-o", "o.onnx")[0] == 0
            assert files() == ["o.onnx/x.a.onnx", "o.onnx/x.b.onnx", "x.json"]

    def test_an_unreadable_file_counts_as_a_model_too(self) -> None:
        program("x.json")
        assert outcome("convert", "x.json", "nope.json", "-o", "o.onnx")[0] == 2
        assert files() == ["o.onnx/x.onnx", "x.json"]

    def test_a_bad_file_does_not_stop_the_others(self) -> None:
        for name in ("a", "c"):
            program(f"{name}.json")
        Path("b.json").write_text("{")
        program("bb.json")
        content = json.loads(Path("bb.json").read_text())
        content["dispatchables"]["gather"]["desc"]["Axis"] = 2
        changed("bb.json", **content)
        assert outcome("convert", ".", "none.json", "-o", "o") == (
            2,
            "./a.json -> o/a.onnx\n./c.json -> o/c.onnx\n",
            "Error: ./b.json: line 1 column 2: expected a field name in double quotes, got the end "
            "of the text\n"
            "Error: ./bb.json: $.dispatchables.gather.desc: Axis must be less than "
            "InputTensor.DimensionCount (2), got 2\n"
            "Error: none.json: no such file or directory\n",
        )

    def test_an_invalid_descriptor_alone_is_exit_code_1(self) -> None:
        content = json.loads(Path(program("x.json")).read_text())
        content["dispatchables"]["gather"]["desc"]["IndexDimensions"] = 3
        assert outcome("convert", changed("x.json", **content)) == (
            1,
            "",
            "Error: x.json: $.dispatchables.gather.desc: IndexDimensions must be 0 to "
            "IndicesTensor.DimensionCount (2), got 3\n",
        )
        assert files() == ["x.json"]

    def test_feature_level(self) -> None:
        program("x.json")
        assert outcome("convert", "x.json", "--feature-level", "2_1") == (
            1,
            "",
            "Error: x.json: $.dispatchables.gather: the feature level must be at most 2_1, got "
            "DimensionCount 2 needs 3_0\n",
        )
        assert files() == ["x.json"]
        assert outcome("convert", "x.json", "--feature-level", "3_0")[0] == 0

    def test_the_feature_level_names_the_dispatchable(self) -> None:
        renamed(program("x.json"), "a b")
        assert call("convert", "x.json", "--feature-level", "1_0").stderr.startswith(
            'Error: x.json: $.dispatchables["a b"]: the feature level must be at most 1_0'
        )

    def test_a_program_without_gathers(self) -> None:
        changed(program("x.json"), dispatchables={}, commands=[])
        sentence = "Error: x.json: $.dispatchables must hold a gather\n"
        assert outcome("convert", "x.json") == (2, "", sentence)
        assert outcome("show", "x.json") == (2, "", sentence)

    def test_an_empty_folder(self) -> None:
        Path("empty").mkdir()
        sentence = "Error: empty: the folder must have a *.json file, got none\n"
        assert outcome("convert", "empty") == (2, "", sentence)

    def test_a_folder_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        program("in/x.json")
        program("in/secret/y.json")
        original: Any = os.scandir

        def refuse(path: str) -> Any:
            if path.endswith("secret"):
                raise PermissionError(13, "Permission denied", path)
            return original(path)

        monkeypatch.setattr(os, "scandir", refuse)
        sentence = "Error: in/secret: permission denied\n"
        assert outcome("convert", "in") == (2, "", sentence)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (
                ["x.json", "./x.json"],
                "./x.onnx must not be written twice, for $.dispatchables.gather of x.json and "
                "$.dispatchables.gather of ./x.json",
            ),
            (
                ["a", "b/x.json", "-o", "o"],
                "o/x.onnx must not be written twice, for $.dispatchables.gather of a/x.json and "
                "$.dispatchables.gather of b/x.json",
            ),
            (["in.onnx"], "in.onnx must not be written, as it is an input: in.onnx"),
            (
                ["x.json", "-o", "in.onnx", "in.onnx"],
                None,  # two models, so a folder
            ),
            (
                ["d/in.json", "in.onnx", "-o", "."],
                "./in.onnx must not be written, as it is an input: in.onnx",
            ),
            (
                ["from_file.json"],
                "from_file.onnx must not be written, as it is an input: ",
            ),
        ],
    )
    def test_no_output_replaces_an_input_or_another_output(
        self, arguments: list[str], sentence: str | None
    ) -> None:
        for path in ("x.json", "a/x.json", "b/x.json", "in.onnx", "d/in.json", "from_file.json"):
            program(path)
        Path("from_file.onnx").write_bytes(DATA_4X3.tobytes())
        content = json.loads(Path("from_file.json").read_text())
        content["resources"]["data"]["initialValues"] = {"sourcePath": "from_file.onnx"}
        changed("from_file.json", **content)
        before = {name: Path(name).read_bytes() for name in files()}
        code, out, err = outcome("convert", *arguments)
        assert (code, out) == (2, "")
        if sentence is None:
            assert err == (
                "Error: in.onnx/x.onnx: a file stands where its folder should be\n"
                "Error: in.onnx/in.onnx: a file stands where its folder should be\n"
            )
        elif sentence.endswith(": "):
            assert err.startswith(f"Error: {sentence}")
            assert err.endswith("/from_file.onnx\n")
            assert err.count("\n") == 1
        else:
            assert err == f"Error: {sentence}\n"
        assert {name: Path(name).read_bytes() for name in files()} == before

    def test_an_unreadable_input_is_not_replaced_either(self) -> None:
        program("x.json")
        Path("x.onnx").write_bytes(b"precious")
        code, out, err = outcome("convert", "x.json", "x.onnx")
        assert (code, out) == (2, "")
        last = "Error: x.onnx must not be written, as it is an input: x.onnx"
        assert err.splitlines()[-1] == last
        assert Path("x.onnx").read_bytes() == b"precious"

    @POSIX
    def test_a_link_does_not_lead_to_an_input(self) -> None:
        program("x.json")
        Path("y.onnx").symlink_to("x.json")
        sentence = "Error: y.onnx must not be written, as it is an input: x.json\n"
        assert outcome("convert", "x.json", "-o", "y.onnx") == (2, "", sentence)

    @pytest.mark.parametrize("existing", [None, b"before"])
    def test_a_failure_amid_writing_leaves_nothing_behind(
        self, monkeypatch: pytest.MonkeyPatch, existing: bytes | None
    ) -> None:
        class Full(io.FileIO):
            """A file on a device that has room for ten bytes."""

            def writelines(self, lines: Iterable[Any], /) -> None:
                self.write(b"".join(lines)[:10])
                assert Path(os.fsdecode(self.name)).parent == Path.cwd()
                assert len(files()) == 2 + (existing is not None)
                raise OSError(28, "No space left on device")

        program("x.json")
        if existing is not None:
            Path("x.onnx").write_bytes(existing)
        before = {name: Path(name).read_bytes() for name in files()}
        with monkeypatch.context() as patch:
            patch.setattr(files_module, "open", Full, raising=False)
            sentence = "Error: x.onnx: no space left on device\n"
            assert outcome("convert", "x.json") == (2, "", sentence)
        assert {name: Path(name).read_bytes() for name in files()} == before

    def test_a_model_is_checked_before_it_is_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        to_onnx = model_module.to_onnx

        def wrong(*_: object, **__: object) -> onnx.ModelProto:
            model = to_onnx(DESC)
            model.graph.node[0].op_type = "Nonsense"
            return model

        program("x.json")
        monkeypatch.setattr(model_module, "to_onnx", wrong)
        code, out, err = outcome("convert", "x.json")
        assert (code, out) == (2, "")
        assert err.startswith("Error: x.json: $.dispatchables.gather: ONNX refuses the model: ")
        assert "Nonsense" in err
        assert err.count("\n") == 1
        assert files() == ["x.json"]

    @POSIX
    def test_targets_that_cannot_be_written(self) -> None:
        program("x.json")
        Path("x.onnx").mkdir()
        assert outcome("convert", "x.json") == (2, "", "Error: x.onnx: is a directory\n")
        sentence = "Error: x.json/x.onnx: a file stands where its folder should be\n"
        assert outcome("convert", "x.json", "-o", "x.json") == (2, "", sentence)
        name = "n" * 300
        renamed("x.json", name, "b")
        assert outcome("convert", "x.json") == (
            2,
            "x.json -> x.b.onnx\n",
            f"Error: x.{name}.onnx: file name too long\n",
        )
        assert files() == ["x.b.onnx", "x.json"]

    @POSIX
    def test_odd_file_names(self) -> None:
        program("x.json")
        stems = [b"with space", "größe \u4e2d".encode(), b"\xff"]
        for stem in stems:
            shutil.copy(b"x.json", stem + b".json")
        names = [os.fsdecode(stem) + ".json" for stem in stems]
        done = spawn("convert", *names)
        assert (done.returncode, done.stderr) == (0, b"")
        lines = [stem + b".json -> " + stem + b".onnx\n" for stem in stems]
        assert done.stdout == b"".join(lines)
        assert all(os.path.exists(stem + b".onnx") for stem in stems)
        done = spawn("show", names[-1], "--json")
        assert json.loads(done.stdout)["file"] == names[-1]
        table = re.sub(rb"  +", b"  ", spawn("check", *names).stdout)
        for stem in stems:
            shown = stem.replace(b"\xff", rb"\udcff")  # in a table, what cannot be seen is spelled
            assert shown + b".json: $.commands[0] (gather)  PASS\n" in table


BYTES = og.GatherDesc(
    og.TensorDesc("UINT8", [4]),
    og.TensorDesc("INT32", [3]),
    og.TensorDesc("UINT8", [3]),
    axis=0,
    index_dimensions=1,
)


class TestRun:
    @pytest.mark.parametrize("path", sorted((DATA.parent.parent / "models").glob("*.json")))
    def test_prints_what_dxdispatch_prints(self, path: Path) -> None:
        result = call("run", str(path))
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout_bytes == path.with_suffix(".txt").read_bytes()

    def test_prints_raw_bytes(self) -> None:
        codes, indices = np.array([1, 255, 233, 65], np.uint8), np.array([1, 2, -1], np.int32)
        program("x.json", BYTES, codes, indices)
        result = call("run", "x.json")
        assert result.stdout_bytes == b"Resource 'output': \xff, \xe9, A\n"

    @pytest.mark.parametrize("where", [None, "new/folder"])
    def test_writes_files(self, where: str | None) -> None:
        content = json.loads(Path(program("x.json")).read_text())
        write = {"type": "writeFile", "resource": "output", "targetPath": "y.npy"}
        changed("x.json", commands=[*content["commands"], {**write, "dimensions": [4, 2]}])
        options = ["--output-folder", where] if where else []
        assert outcome("run", "x.json", *options) == (
            0,
            "Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n",
            "",
        )
        assert np.array_equal(np.load(Path(where or ".", "y.npy")), DATA_4X3[:, [2, 0]])
        assert len(files()) == 2

    def test_files_outside_need_leave(self, folder: Path) -> None:
        content = json.loads(Path(program("in/x.json")).read_text())
        target = "../outside.bin"
        write = {"type": "writeFile", "resource": "output", "targetPath": target}
        changed("in/x.json", commands=[*content["commands"], write])
        arguments = ["run", "in/x.json", "--output-folder", "in"]
        assert outcome(*arguments) == (
            2,
            "",
            "Error: in/x.json: $.commands[2].targetPath must stay in the output folder, got "
            f"{target!r}\n",
        )
        assert files() == ["in/x.json"]
        assert outcome(*arguments, "--allow-outside")[0] == 0
        assert files() == ["in/x.json", "outside.bin"]

    @pytest.mark.parametrize(
        ("rule", "printed"), [("clamp", "2, 3, 0"), ("zero", "0, 3, 0"), ("directml", "2, 3, 2")]
    )
    def test_out_of_range(self, rule: str, printed: str) -> None:
        desc = og.GatherDesc(
            og.TensorDesc("INT16", [3]),
            og.TensorDesc("INT32", [3]),
            og.TensorDesc("INT16", [3]),
            axis=0,
            index_dimensions=1,
        )
        data, indices = np.array([0, 3, 2], np.int16), np.array([9, 1, -9], np.int32)
        program("x.json", desc, data, indices)
        if rule == "directml":
            # -9 + 3 wraps far past the end, and the last element of the padded buffer is 0.
            wanted = og.reference(desc, data, indices, "directml")
            printed = ", ".join(map(str, wanted))
        assert outcome("run", "x.json", "--out-of-range", rule) == (
            0,
            f"Resource 'output': {printed}\n",
            "",
        )

    def test_an_index_out_of_range_is_exit_code_1(self) -> None:
        program("x.json", indices=np.array([[2, 3]], np.uint32))
        assert outcome("run", "x.json", "--out-of-range", "error") == (
            1,
            "",
            "Error: x.json: $.commands[0]: IndicesTensor[0,1] must be in [0, 3), got 3\n",
        )

    def test_a_missing_provider_is_exit_code_3(self) -> None:
        program("x.json")
        code, out, err = outcome("run", "x.json", "--provider", "XyzExecutionProvider")
        assert (code, out) == (3, "")
        start = "Error: x.json: $.commands[0]: XyzExecutionProvider is not available (available: "
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

    def test_a_bug_keeps_its_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> Array:
            raise TypeError("a bug")

        monkeypatch.setattr(session_module, "run", broken)
        program("x.json")
        with pytest.raises(TypeError, match="a bug"):
            call("run", "x.json")

    @pytest.mark.parametrize(
        ("error", "code", "err"),
        [
            (KeyboardInterrupt(), 130, ""),
            (BrokenPipeError(), 141, ""),
            (OSError(28, "No space left"), 2, "Error: standard output: no space left\n"),
            (PermissionError(13, "Permission denied", "a/b"), 2, "Error: a/b: permission denied\n"),
        ],
    )
    def test_what_interrupts_a_command(
        self, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, err: str
    ) -> None:
        def fail(*_: object) -> Array:
            raise error

        monkeypatch.setattr(session_module, "run", fail)
        program("x.json")
        assert outcome("run", "x.json") == (code, "", err)

    def test_a_lack_of_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object, **__: object) -> None:
            raise MemoryError

        monkeypatch.setattr("onnxgather.cli.translate.read_program", fail)
        assert outcome("run", "x.json") == (2, "", "Error: there is not enough memory\n")


class TestShow:
    def test_gather(self) -> None:
        program("x.json")
        assert outcome("show", "x.json", "--out-of-range", "error") == (
            0,
            """\
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
""",
            "",
        )

    def test_every_field_of_a_tensor(self) -> None:
        desc = og.GatherElementsDesc(
            og.TensorDesc("FLOAT16", [3, 3], [4, 1], 44, "OWNED_BY_DML", 16),
            og.TensorDesc("INT64", [2, 3]),
            og.TensorDesc("FLOAT16", [2, 3], [40, 1]),
            axis=0,
        )
        data, indices = np.zeros(22, np.float16), np.zeros((2, 3), np.int64)
        program("x.json", desc, data, indices)
        code, out, err = outcome("show", "x.json")
        assert (code, err) == (0, "")
        assert out.startswith(
            """\
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

"""
        )
        assert "-> OutputTensor: float16[44]\n" in out

    def test_why_forms_are_passed_over(self) -> None:
        desc = og.GatherDesc(
            og.TensorDesc("FLOAT32", [4, 1000]),
            og.TensorDesc("UINT32", [1, 300]),
            og.TensorDesc("FLOAT32", [4, 300]),
            axis=1,
            index_dimensions=1,
        )
        data = np.zeros((4, 1000), np.float32)
        program("x.json", desc, data, np.zeros((1, 300), np.uint32))
        lines = call("show", "x.json", "--target", "cpu").stdout.splitlines()
        start = lines.index("  passed over:")
        assert lines[start + 1 : start + 7] == [
            "    runs: this form takes known indices of GATHER",
            "    transposed data: the data is packed, this form takes transposed data",
            "    repeated rows: GATHER has one index for a row, this form joins those of",
            "    elements",
            "    elements: the data has 4 rows to choose from, this form reads one",
            "  InputTensor: float32[4, 1000]",
        ]
        shown = json.loads(call("show", "x.json", "--target", "cpu", "--json").stdout)
        passed_over = shown["dispatchables"]["gather"]["passed_over"]
        why = "the data has 4 rows to choose from, this form reads one"
        assert [each["form"] for each in passed_over] == [
            "runs",
            "transposed data",
            "repeated rows",
            "elements",
        ]
        assert passed_over[-1] == {"form": "elements", "why": why}

    def test_several_dispatchables(self) -> None:
        renamed(program("x.json"), "a", "b c")
        text = call("show", "x.json").stdout
        first, second = text.split("\n\n\n")
        assert first.splitlines()[0] == "x.json: $.dispatchables.a"
        assert second.splitlines()[0] == 'x.json: $.dispatchables["b c"]'
        assert first.splitlines()[1:] == second.splitlines()[1:]

    def test_json(self) -> None:
        program("x.json")
        code, out, err = outcome("show", "x.json", "--json", "--opset", "19")
        assert (code, err) == (0, "")
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
        assert [(n["operator"], n["inputs"], n["output"]["name"], n["why"]) for n in nodes] == [
            (n.op_type, list(n.input), n.output[0], n.doc_string) for n in model.graph.node
        ]
        assert [c["name"] for c in description["constants"]] == [
            t.name for t in model.graph.initializer
        ]

    def test_a_broken_file(self) -> None:
        Path("x.json").write_text("[]")
        assert outcome("show", "x.json") == (
            2,
            "",
            "Error: x.json: $ must be an object, got an array\n",
        )


class TestExplain:
    def test_an_element(self) -> None:
        program("x.json")
        assert outcome("explain", "x.json", "--at", "1,0") == (
            0,
            "output[1,0] = input[1, indices[0]] = input[1, 2] = 5\n",
            "",
        )

    def test_an_index_out_of_range(self) -> None:
        program("x.json", indices=np.array([[2, 9]], np.uint32))
        arguments = ("explain", "x.json", "--at", "1,1")
        assert outcome(*arguments)[1] == (
            "output[1,1] = input[1, indices[1]] = input[1, 9] -> input[1, 2] (9 is past the end, "
            "clamped to 2) = 5\n"
        )
        assert outcome(*arguments, "--out-of-range", "error") == (
            0,
            "output[1,1] = input[1, indices[1]] = input[1, 9]: an error (index 9 is out of range "
            "of 3)\n",
            "",
        )

    def test_json(self) -> None:
        program("x.json")
        code, out, err = outcome("explain", "x.json", "--at", "1, 0", "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["index_values"], found["after"], found["value"]) == ([2], [1, 2], "5")

    def test_a_later_dispatch(self) -> None:
        content = json.loads(Path(program("x.json")).read_text())
        dispatch, printing = content["commands"]
        changed("x.json", commands=[dispatch, printing, dispatch])
        arguments = ("explain", "x.json", "--at", "1,0", "--dispatch")
        assert outcome(*arguments, "2")[0] == 0
        assert outcome(*arguments, "3") == (
            2,
            "",
            "Error: x.json: $.commands must hold 3 dispatches for --dispatch 3, got 2\n",
        )

    @pytest.mark.parametrize(
        ("at", "sentence"),
        [
            ("1,9", "at must have 2 coordinates within OutputTensor.Sizes [4, 2], got [1, 9]"),
            ("1", "at must have 2 coordinates within OutputTensor.Sizes [4, 2], got [1]"),
            ("1,x", "must be integers with commas, got '1,x'"),
        ],
    )
    def test_a_place_that_is_none(self, at: str, sentence: str) -> None:
        program("x.json")
        found, out, err = outcome("explain", "x.json", "--at", at)
        assert (found, out) == (2, "")
        assert err.endswith(f"Error: Invalid value: {sentence}\n")


class TestCorpus:
    @pytest.mark.parametrize(
        ("form", "left"),
        [("dxdispatch", "an ONNX node that no descriptor says"), ("json", None)],
    )
    def test_export(self, form: str, left: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("onnxgather.corpus.corpus", lambda: list(corpus())[::7])
        code, out, err = outcome("corpus", "export", "--format", form, "out")
        assert (code, err) == (0, "")
        first, *rest = out.splitlines()
        assert re.fullmatch(r"out: 2\d\d cases", first)
        assert bool(rest) == (left is not None)
        if left:
            assert re.fullmatch(rf"left out: \d+, as each is {left}", rest[0])
        assert Path("out/README.md").exists()

    def test_a_folder_of_something_else_is_kept(self) -> None:
        program("out/x.json")
        code, out, err = outcome("corpus", "export", "--format", "json", "out")
        assert (code, out) == (2, "")
        assert err.startswith("Error: out: ")
        assert files() == ["out/x.json"]


class TestProcess:
    """What only a real process shows."""

    def test_a_good_run(self) -> None:
        program("x.json")
        done = spawn("run", "x.json")
        line = b"Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, line, b"")

    def test_an_error(self) -> None:
        done = spawn("check", "none.json")
        assert done.returncode == 2
        out = done.stdout.splitlines()
        assert out == []
        assert done.stderr.splitlines() == [b"Error: none.json: no such file or directory"]

    @POSIX
    def test_a_broken_pipe_is_quiet(self) -> None:
        program("x.json")
        buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-m", "onnxgather", "show", "x.json"]
        done = subprocess.run(
            command, stdout=write, stderr=subprocess.PIPE, check=False, env=buffered
        )
        os.close(write)
        assert (done.returncode, done.stderr) == (141, b"")

    @POSIX
    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_a_full_device_is_one_sentence(self) -> None:
        program("x.json")
        command = [sys.executable, "-m", "onnxgather", "show", "x.json"]
        buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, check=False, env=buffered
            )
        sentence = b"Error: standard output: no space left on device\n"
        assert (done.returncode, done.stderr) == (2, sentence)

    @POSIX
    def test_ctrl_c_is_quiet(self) -> None:
        os.mkfifo("slow.json")  # reading it waits for a writer
        code = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite run by `&` ignores it
from onnxgather.cli import main
print("ready", flush=True)
main(["run", "slow.json"])
"""
        command = [sys.executable, "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
        assert (child.returncode, out, err) == (130, b"", b"")

    @POSIX
    def test_an_encoding_that_lacks_the_name(self) -> None:
        program("größe.json")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = spawn("convert", "größe.json", env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == "größe.json -> größe.onnx\n"

    @POSIX
    def test_a_closed_output(self) -> None:
        program("x.json")
        command = f"{sys.executable} -m onnxgather convert x.json >&- 2>&-"
        done = subprocess.run(["sh", "-c", command], check=False)
        assert done.returncode == 0
        assert files() == ["x.json", "x.onnx"]


class _Terminal:
    """A stream that says whether it is a terminal and keeps what it is told."""

    encoding = "utf-8"

    def __init__(self, is_terminal: bool) -> None:
        self.text = ""
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None: ...


class TestProgress:
    @pytest.mark.parametrize(
        ("stdout", "stderr", "seconds", "shown"),
        [
            (False, True, 2, "1/2 xxx\r       \r"),
            (False, True, 0.5, ""),
            (True, True, 2, ""),
            (False, False, 2, ""),
        ],
    )
    def test_shows_after_a_second_on_a_terminal(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stdout: bool,
        stderr: bool,
        seconds: float,
        shown: str,
    ) -> None:
        out, err = _Terminal(stdout), _Terminal(stderr)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        now = [100.0]
        monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
        batch = sources.Batch()
        now[0] += seconds
        with batch.step("xxx", 1, 2):
            pass
        batch.say("done")
        assert (out.text, err.text) == ("done\n", shown)

    def test_an_error_has_a_line_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        out, err = _Terminal(False), _Terminal(True)
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        now = [100.0]
        monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
        batch = sources.Batch()
        now[0] += 2
        with batch.step("xxx"):
            raise og.OnnxGatherError("no")
        assert err.text == "xxx\r   \rError: no\n"
        assert batch.finish() == 2

    def test_a_count_tells_the_time_that_is_left(self, monkeypatch: pytest.MonkeyPatch) -> None:
        err = _Terminal(True)
        monkeypatch.setattr(sys, "stdout", _Terminal(True))
        monkeypatch.setattr(sys, "stderr", err)
        now = [100.0]
        monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
        progress = sources.Batch(prints=False).progress
        for _ in range(1000):
            progress.count("Checking", 3000)
        assert err.text == ""
        now[0] += 40
        progress.count("Checking", 3000)
        line = "Checking 1,001/3,000, 0:01:20 left"
        assert err.text == line
        progress.show("a" * 100)
        progress.clear()
        progress.clear()
        assert err.text == f"{line}\r{' ' * len(line)}\r{'a' * 79}\r{' ' * 79}\r"

    def test_without_a_standard_error_there_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", None)
        now = [100.0]
        monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
        progress = terminal.Progress()
        now[0] += 2
        progress.count("Checking")
        progress.clear()


class TestTable:
    """How wide and how colourful a table is."""

    @pytest.mark.parametrize(
        ("terminal", "no_colour", "columns", "width", "colours"),
        [
            (False, "", "200", 100, False),
            (True, "", "70", 70, True),
            (True, "", "400", 160, True),
            (True, "1", "20", 60, False),
        ],
    )
    def test_what_the_terminal_is(
        self,
        monkeypatch: pytest.MonkeyPatch,
        terminal: bool,
        no_colour: str,
        columns: str,
        width: int,
        colours: bool,
    ) -> None:
        monkeypatch.setattr(sys, "stdout", _Terminal(terminal))
        monkeypatch.setenv("NO_COLOR", no_colour)
        monkeypatch.setenv("COLUMNS", columns)
        assert (width_of(), has_colours()) == (width, colours)
