"""The command line: exit codes and whole texts, as a user gets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

import onnxgather as og
from onnxgather import model as model_module
from onnxgather import terminal
from onnxgather.arrays import Array
from onnxgather.cli import main
from onnxgather.dxdispatch import write_program
from onnxgather.errors import ProviderError
from onnxgather.session import Session

DATA = Path(__file__).parent / "data"
POSIX = pytest.mark.skipif(os.name == "nt", reason="makes links, odd names or POSIX errors")

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [4, 3]),
    og.TensorDesc("UINT32", [1, 2]),
    og.TensorDesc("FLOAT32", [4, 2]),
    axis=1,
    index_dimensions=1,
)
DATA_4X3 = np.arange(12, dtype=np.float32).reshape(4, 3)
INDICES = np.array([[2, 0]], np.uint32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments: str) -> Result:
    """Run a command; a traceback is a failure."""
    result = CliRunner().invoke(main, arguments, prog_name="onnxgather", catch_exceptions=False)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def outcome(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command."""
    result = call(*arguments)
    return result.exit_code, result.stdout, result.stderr


def program(
    path: str, desc: og.Descriptor = DESC, data: Array = DATA_4X3, indices: Array = INDICES
) -> str:
    """Write a program and return its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(write_program(desc, data, indices), encoding="utf-8")
    return path


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


def spawn(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the program as users do."""
    command = [sys.executable, "-m", "onnxgather", *arguments]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


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
  check    Compare models with the reference.
  convert  Write programs as ONNX models.
  run      Run a program, print what dxdispatch prints.
  show     Explain a program's gathers and their models.

  Exit codes:
    0  good
    1  findings: a difference, an error, an invalid descriptor or index
    2  unusable input or usage
    3  the provider that was asked for did not run
  Where several things go wrong, 2 counts before 3, and 3 before 1.
""",
            "",
        )

    @pytest.mark.parametrize("command", ["convert", "run", "check", "show"])
    def test_command_help_fits_80_columns(self, command: str) -> None:
        result = call(command, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: onnxgather {command} [OPTIONS] ")
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "\b" not in result.stdout

    def test_check_help_lists_the_states(self) -> None:
        assert call("check", "--help").stdout.endswith(
            """
  States:
    PASS     model and reference agree in data type, shape and bytes
    DIFF     they differ; the line says how, and where first
    ERROR    the provider failed, or the descriptor is invalid
    NOT-RUN  the provider is missing, or did not get every node
"""
        )

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
        model = onnx.load("models/x.onnx")
        onnx.checker.check_model(model, full_check=True)
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
            "x.json -> x.first.onnx\n"
            "x.json -> x.a%2F..%2Fb%3A%25.onnx\n"
            "x.json -> x.größe.onnx\n",
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
        out = str(Path("out"))
        assert outcome("convert", "in", "z.json", "-o", out) == (
            0,
            "in/Y.JSON -> out/Y.onnx\nin/a/x.json -> out/a/x.onnx\nin/b/x.json -> out/b/x.onnx\n"
            "z.json -> out/z.onnx\n".replace("/", os.sep),
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
        bad_axis = json.loads(Path("a.json").read_text())
        bad_axis["dispatchables"]["gather"]["desc"]["Axis"] = 2
        Path("bb.json").write_text(json.dumps(bad_axis))
        assert outcome("convert", ".", "none.json", "-o", "o") == (
            2,
            f"{Path('./a.json')} -> o/a.onnx\n{Path('./c.json')} -> o/c.onnx\n".replace(
                "a.json ->", "a.json ->"
            )
            if os.name == "nt"
            else "./a.json -> o/a.onnx\n./c.json -> o/c.onnx\n",
            "Error: ./b.json: line 1 column 2: expected a string as name, got the end of the text"
            "\n"
            "Error: ./bb.json: $.dispatchables.gather.desc: Axis must be less than "
            "InputTensor.DimensionCount (2), got 2\n"
            "Error: none.json: no such file or directory\n",
        )
