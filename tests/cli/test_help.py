"""`onnxgather` itself: its help and its usage."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import call, outcome, output_of, program, spawn, succeed
from folders import MODELS
from messages import rows_of
from rings import but_slow, one_quick_in

import onnxgather
from onnxgather.cli.commands import COMMANDS, OTHER_WORDS, TASKS, find_command

EXIT_CODES = {
    # The runtime fails in the only case that it answers.
    "onnxgather judge cases answers": 1,
    "onnxgather judge cases answers -k gather-nd/ --html judged.html": 1,
}
"""The exit codes of examples that do not end with 0."""

BEFORE = {
    "judge": ["corpus export cases --format json"],
    "report merge": [
        "check models --shard 1/2 --json=first.json",
        "check models --shard 2/2 --json=second.json",
    ],
    "repro": ["check models --json=report.json"],
}
"""The commands that write what the examples of a command read."""


def examples_of(*command: str) -> list[str]:
    """Return the examples at the end of the help of a command, each as one line."""
    text = call(*command, "--help").stdout
    _, _, end = text.partition("\n  Examples:\n")
    # A backslash says that the next line belongs to the same command.
    lines = end.replace("\\\n", " ").splitlines()
    return [" ".join(line.split()) for line in lines if line.strip()]


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command, also of those in a group."""
    for name in COMMANDS:
        command = find_command(name)
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in command.commands)
        else:
            yield (name,)


EXAMPLES = {
    " ".join(command): examples
    for command in commands()
    if (examples := examples_of(*command))
}
"""The examples of each command that has some."""


class TestExamples:
    def test_each_command_has_two_examples(self) -> None:
        assert {" ".join(command) for command in commands()} == EXAMPLES.keys()
        assert {len(examples) for examples in EXAMPLES.values()} == {2}

    @pytest.mark.parametrize(
        "command",
        but_slow(["certify", "check", "corpus export", "doctor", "judge"], EXAMPLES),
    )
    def test_the_examples_of_a_command_run_in_a_checkout(
        self, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shutil.copytree(MODELS, tmp_path / "models")
        monkeypatch.chdir(tmp_path)
        # The doctor would try each lane that is set up here.
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        # What a runtime answered that fails.
        answer = tmp_path / "answers" / "gather-nd" / "float32" / "int64" / "forward"
        answer.mkdir(parents=True)
        (answer / "error.txt").write_text("it fails", encoding="utf-8")
        name = '{"name": "my-runtime", "version": "1.2.0"}'
        (tmp_path / "answers" / "runtime.json").write_text(name, encoding="utf-8")
        for words in BEFORE.get(command, ()):
            succeed(*words.split())
        for example in EXAMPLES[command]:
            assert f"{example} ".startswith(f"onnxgather {command} ")
            _, *words = shlex.split(example)
            result = call(*words)
            assert result.exit_code == EXIT_CODES.get(example, 0), result.output
            assert result.output


class TestHelp:
    def test_each_command_is_in_one_task(self) -> None:
        assert sorted(chain.from_iterable(TASKS.values())) == sorted(COMMANDS)

    def test_help_lists_the_commands(self) -> None:
        assert (
            output_of("--help")
            == """\
Usage: onnxgather [OPTIONS] COMMAND [ARGS]...

  Translates DirectML's gather operators to ONNX models, runs them with ONNX
  Runtime, and proves that they return the same bytes.

  A program is DxDispatch's: JSON, comments allowed.

Options:
  --debug     Show the traceback of an unexpected error.
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

DirectML's gathers:
  convert  Write descriptors and programs as ONNX models.
  run      Run a program, print what dxdispatch prints.
  show     Explain gathers and their models.
  explain  Say where an output element comes from.
  certify  Prove models for every index.

Providers and runtimes:
  check    Compare providers with the reference.
  repro    Reduce a difference to a folder that shows it.
  report   Make one report of several.
  corpus   Export the built-in corpus.
  judge    Compare the answers of your program with the reference.

ONNX models:
  audit    Say whether an input can take an index out of range.
  harden   Keep the indices of an ONNX model in range.
  extract  Take gathers out of an ONNX model, with their data.

Setup:
  doctor   Say which wheels and providers work.

  Exit codes:
    0  good
    1  findings: a difference, an error, an invalid descriptor or index
    2  unusable input or usage
    3  a lane did not start, or a required one did not run a case
  Where several apply: 2, then 1, then 3. Interrupted: 130 (SIGINT), 143 (SIGTERM).
"""
        )

    @pytest.mark.parametrize(
        "command",
        [
            *(
                "audit",
                "certify",
                "check",
                "convert",
                "corpus",
                "doctor",
                "explain",
                "extract",
                "harden",
                "repro",
                "run",
            ),
            "show",
        ],
    )
    def test_command_help_fits_80_columns(self, command: str) -> None:
        result = call(f"{command} --help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: onnxgather {command} [OPTIONS]")
        assert max(map(len, result.stdout.splitlines())) <= 80
        assert "\b" not in result.stdout

    def test_version_is_printed(self) -> None:
        assert output_of("--version") == "onnxgather 0.1.0\n"

    @pytest.mark.parametrize(
        "arguments", one_quick_in(3, ["--version", "--help", "nonsense"])
    )
    def test_neither_version_nor_help_imports_what_commands_need(
        self, arguments: str
    ) -> None:
        code = f"""\
import runpy, sys
sys.argv = ["onnxgather", "{arguments}"]
try:
    runpy.run_module("onnxgather", run_name="__main__")
except SystemExit:
    print()
    print(*sorted(name for name in sys.modules if name.startswith("onnxgather.")))
    print(*sorted({{"msgspec", "numpy", "onnx", "onnxruntime"}} & {{*sys.modules}}))
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        )
        ours, heavy = done.stdout.decode().splitlines()[-2:]
        assert heavy == ""
        assert ours.split() == [
            "onnxgather.cli",
            "onnxgather.cli.commands",
            "onnxgather.cli.terminal",
            "onnxgather.cli.unforeseen",
            "onnxgather.core",
            "onnxgather.core.checks",
            "onnxgather.core.errors",
            "onnxgather.core.public",
            "onnxgather.core.version",
        ]

    def test_the_options_of_all_commands_load_nothing_that_runs(self) -> None:
        code = """\
import sys
from onnxgather.cli.commands import COMMANDS, find_command
for name in COMMANDS:
    find_command(name)
late = ("onnx", "onnxgather.core.execution.runtime", "onnxgather.core.lowering", "onnxgather.checking.corpus")
print("early:", [name for name in late if name in sys.modules])
"""  # noqa: E501
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        )
        assert done.stdout.decode() == "early: []\n"

    @pytest.mark.parametrize(
        "arguments",
        one_quick_in(3, [["--help"], ["check", "--help"], ["show", "x.json"]]),
    )
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
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True
        )
        assert done.stdout.decode().splitlines()[-1] == "heavy: []"
        assert done.stderr == b""

    def test_each_option_that_the_package_names_is_one_of_a_command(self) -> None:
        commands: list[Any] = [*map(find_command, COMMANDS)]
        inner = (
            inner
            for command in commands
            for inner in getattr(command, "commands", {}).values()
        )
        options = {
            name
            for command in chain(commands, inner)
            for one in command.params
            for name in one.opts
        }
        assert {*chain.from_iterable(OTHER_WORDS.values())} <= options
        # The others name options of pip, of browsers, of pytest, of a script, of the
        # tools that read inputs, of programs of runtimes and of Python's web server.
        package = Path(onnxgather.__file__).parent
        others = (
            "doctor",
            "browser",
            "pytest_plugin",
            "words",
            "folder",
            "forms",
            "formats",
            "iree",
            "mnn",
        )
        for path in package.rglob("*.py"):
            named = {
                *re.findall(
                    r"(?<![\w-])--[a-z][a-z-]+", path.read_text(encoding="utf-8")
                )
            }
            known = options | OTHER_WORDS.keys() | {"--help", "--version", "--debug"}
            assert path.stem in others or named <= known, path

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        rows_of("""
convert
Missing argument 'FILE...'.

run
Missing argument 'FILE'.

chekc
No such command 'chekc'. Did you mean 'check'?

corpus exprot
No such command 'exprot'. Did you mean 'export'?

x.json
a command must come before x.json, such as run or show

doctor --jsno
No such option '--jsno'. Did you mean '--json'?

harden --policy
No such option '--policy'. Did you mean '--out-of-range'?

audit --policy
No such option '--policy'.

audit --ep x
No such option '--ep'.

audit m.onnx --lanes cpu
No such option '--lanes'. Did you mean 'onnxgather check MODEL --inputs FILE --lanes
NAMES'?

run --lanes x
No such option '--lanes'. Did you mean '--provider'?

repro --lanes x
No such option '--lanes'. Did you mean '--lane'?

check x.json --provider cpu
No such option '--provider'. Did you mean '--lanes'?

run x.json --provider gpu
Invalid value for '--provider': provider must be one of directml-dll, cpu, directml,
openvino, cuda, tensorrt, webgpu, qnn, coreml, onnxgather, web-wasm, web-webgpu,
web-webnn, webnn, or ONNX Runtime's full name of one, which ends in ExecutionProvider,
got 'gpu'

run x.json --out-of-range wrap
Invalid value for '--out-of-range': 'wrap' is not one of 'clamp', 'error', 'zero',
'directml'.

show x.json --opset 12
Invalid value for '--opset': 12 is not in the range 13<=x<=25.
"""),
    )
    def test_usage_is_exit_code_2(self, arguments: str, sentence: str) -> None:
        program("x.json")
        code, out, err = outcome(arguments)
        assert (code, out) == (2, "")
        found = err[err.index("Error: ") :].splitlines()[0]
        assert found == f"Error: {sentence}"

    def test_no_command_at_all_is_answered_with_the_help(self) -> None:
        assert outcome("") == (2, "", call("--help").stdout)

    def test_the_program_has_one_name(self) -> None:
        assert spawn("--version").stdout == b"onnxgather 0.1.0\n"
        assert b"Usage: onnxgather show " in spawn("show").stderr
