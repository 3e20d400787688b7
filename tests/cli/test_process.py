"""What only a real process of the command line shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import PIPE
from typing import IO

import pytest
from command_line import (
    DESC,
    POSIX,
    files,
    invalid,
    program,
    read_bytes,
    spawn,
    write_text,
)
from onnx_graphs import written
from report_samples import small
from rings import one_quick_in

from onnxgather.cli import main
from onnxgather.cli.terminal import json_bytes
from onnxgather.core.model.write import descriptor_model

PRINTING = """\
--help
-h
--version
show --help
corpus export --help
convert x.json
run x.json
show x.json
show x.json --json
explain x.json --at 0,0
check x.json
check x.json --json
doctor
repro x.json -o folder
audit x.onnx
audit x.onnx --json
harden x.onnx -o y.onnx
certify x.json
report merge report.json
report merge report.json --json
""".splitlines()
"""Ways to make the commands print."""

needs_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="needs /dev/full"
)


def _buffered(
    line: str, stdout: int | IO[bytes] = PIPE, stderr: int | IO[bytes] = PIPE
) -> subprocess.CompletedProcess[bytes]:
    """Run a command with Python's own buffers, which a test runner may have switched
    off."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "onnxgather", *line.split()]
    return subprocess.run(
        command, stdout=stdout, stderr=stderr, check=False, env=environment
    )


def opened_for_writing(path: str) -> int:
    """The number of an open pipe, as soon as a program reads it."""
    for _ in range(600):
        with suppress(OSError):
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.05)
    pytest.fail(f"{path} was not read within 30 seconds")


class TestProcess:
    """What only a real process shows."""

    def test_run_prints_the_output_and_ends_with_0(self) -> None:
        program("x.json")
        done = spawn("run x.json")
        line = b"Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, line, b"")

    def test_an_error_is_one_sentence_on_the_standard_error(self) -> None:
        done = spawn("check none.json")
        assert done.returncode == 2
        out = done.stdout.splitlines()
        assert out == []
        assert done.stderr.splitlines() == [
            b"Error: none.json: no such file or directory"
        ]

    @POSIX
    @pytest.mark.parametrize("line", one_quick_in(2, ["--help", "show x.json"]))
    def test_a_broken_pipe_is_quiet(self, line: str) -> None:
        program("x.json")
        read, write = os.pipe()
        os.close(read)
        done = _buffered(line, stdout=write)
        os.close(write)
        assert (done.returncode, done.stderr) == (141, b"")

    @POSIX
    @needs_full
    @pytest.mark.parametrize("line", one_quick_in(2, ["--version", "show x.json"]))
    def test_a_full_device_is_one_sentence(self, line: str) -> None:
        program("x.json")
        with open("/dev/full", "wb") as full:
            done = _buffered(line, stdout=full)
        sentence = b"Error: standard output: no space left on device\n"
        assert (done.returncode, done.stderr) == (2, sentence)

    @POSIX
    @needs_full
    @pytest.mark.parametrize("line", one_quick_in(8, PRINTING))
    def test_no_command_succeeds_that_cannot_print(
        self,
        line: str,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        program("x.json")
        Path("x.onnx").write_bytes(descriptor_model(DESC).SerializeToString())
        Path("report.json").write_bytes(json_bytes(small()))
        read, write = os.pipe()
        os.close(read)
        ends: list[tuple[object, str]] = []
        # A broken pipe comes last, as it closes the standard error, too.
        for file in ("/dev/full", None, write):
            with ExitStack() as opened, monkeypatch.context() as patch:
                stream = None
                if file is not None:
                    stream = opened.enter_context(open(file, "w", encoding="utf-8"))
                patch.setattr(sys, "stdout", stream)
                with pytest.raises(SystemExit) as end:
                    main(line.split(), prog_name="onnxgather")
            # The error is the last line; those before it are advice.
            *_, last = ["", *capfd.readouterr().err.splitlines()]
            ends.append((end.value.code, last))
        assert ends == [
            (2, "Error: standard output: no space left on device"),
            (2, "Error: standard output: closed, so nothing was printed"),
            (141, ""),
        ]

    @POSIX
    @needs_full
    @pytest.mark.parametrize(
        ("line", "code"),
        one_quick_in(
            4,
            [
                *(("--none", 2), ("", 2)),
                *(("convert bad.json", 1), ("run x.json --provider qnn", 3)),
            ],
        ),
    )
    def test_an_error_that_cannot_be_printed_keeps_its_exit_code(
        self, line: str, code: int
    ) -> None:
        program("x.json")
        invalid("bad.json", Axis=9)
        with open("/dev/full", "wb") as full:
            assert _buffered(line, stderr=full).returncode == code

    @pytest.mark.slow
    def test_a_program_comes_from_the_standard_input(self) -> None:
        text = read_bytes(program("x.json"))

        def fed(line: str, text: bytes = text) -> tuple[int, bytes, bytes]:
            command = [sys.executable, "-m", "onnxgather", *line.split()]
            done = subprocess.run(command, input=text, capture_output=True, check=False)
            return done.returncode, done.stdout, done.stderr

        model = descriptor_model(DESC).SerializeToString(deterministic=True)
        assert fed("convert - -o -") == (0, model, b"")
        assert fed("convert - -o o") == (
            0,
            f"- -> {Path('o/stdin.onnx')}\n".encode(),
            b"new folder: o\n",
        )
        assert fed("run -") == (
            0,
            b"Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n",
            b"",
        )
        if os.name == "posix":
            told = b"/dev/stdin -> p/stdin.onnx\n"
            assert fed("convert /dev/stdin -o p") == (0, told, b"new folder: p\n")
            sentence = b"Error: /dev/stdin: the models of a pipe must come with -o PATH"
            assert fed("convert /dev/stdin")[2].splitlines()[-1] == sentence
        element = b"output[1,0] = input[1, indices[0]] = input[1, 2] = 5\n"
        assert fed("explain - --at 1,0") == (0, element, b"")
        assert fed("show -")[1].startswith(b"-: $.dispatchables.gather\n")
        sentence = (
            b"Error: standard input: $ must have a descriptor, got an empty array\n"
        )
        assert fed("run -", b"[]") == (2, b"", sentence)
        sentence = b"Error: -: the models of a pipe must come with -o PATH"
        assert fed("convert -")[2].splitlines()[-1] == sentence

    @pytest.mark.slow
    @POSIX
    def test_ctrl_c_is_quiet(self) -> None:
        os.mkfifo("slow.json")  # reading it waits for a writer
        code = """\
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite run by `&` ignores it
from onnxgather.cli import main
print("ready", flush=True)
main(["run", "slow.json"])
"""  # noqa: E501
        command = [sys.executable, "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            try:
                writer = opened_for_writing("slow.json")
                # A signal between opening and reading is seen only after the reading.
                time.sleep(0.5)
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=30)
                os.close(writer)
            finally:
                child.kill()
        assert (child.returncode, out, err) == (130, b"", b"")

    @pytest.mark.slow
    @POSIX
    def test_a_name_that_the_encoding_lacks_is_printed_in_utf_8(self) -> None:
        program("größe.json")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = spawn("convert größe.json", env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == "größe.json -> größe.onnx\n"

    @POSIX
    @pytest.mark.parametrize(
        ("command", "closed", "code"),
        one_quick_in(
            4,
            [
                ("--help", ">&-", 2),
                ("--version", ">&- 2>&-", 2),
                ("show x.json --html x.html", ">&- 2>&-", 0),
                ("convert x.json", "2>&-", 0),
                ("check x.json", "<&- 2>&-", 0),
                ("check x.json", "<&- >&- 2>&-", 2),
            ],
        ),
    )
    def test_a_command_succeeds_unless_it_prints_to_a_closed_output(
        self, command: str, closed: str, code: int
    ) -> None:
        program("x.json")
        line = f"{sys.executable} -m onnxgather {command} {closed}"
        done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
        said = b""
        if code and "2>&-" not in closed:
            said = b"Error: standard output: closed, so nothing was printed\n"
        assert (done.returncode, done.stderr) == (code, said)
        made = {"convert x.json": ["x.onnx"], "show x.json --html x.html": ["x.html"]}
        assert files() == sorted(["x.json", *made.get(command, [])])

    @pytest.mark.slow
    @POSIX
    def test_no_file_takes_the_number_of_a_closed_stream(self) -> None:
        program("x.json")
        code = """\
import os, sys
from onnxgather.cli import main
def written(path, *_, **__):
    with open(path, "wb") as file:
        os._exit(file.fileno())
import onnxgather.cli.outputs as outputs
outputs.write_made = written
main(["convert", "x.json"])
"""
        write_text("code.py", code)
        command = f"{sys.executable} code.py <&- >&- 2>&-"
        assert subprocess.run(["sh", "-c", command], check=False).returncode > 2


LIMITED = """
import resource, sys
from onnxgather.cli import main
from onnxgather.auditing.hardening import harden
from onnxgather.extracting import extract
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = size + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main(sys.argv[2:], prog_name="onnxgather")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="no other system limits the address space"
)
@pytest.mark.parametrize("room", [60, 150])
def test_too_little_memory_is_one_sentence(room: int) -> None:
    """For a file of 100 MB, and for the message that it holds.

    A text is as large, as elements of constants stay in the file.
    """
    model = written("(float[9] x, int64[2] ids) => (y) { y = Gather(x, ids) }")
    model.graph.doc_string = "x" * (100 * 2**20)
    Path("m.onnx").write_bytes(model.SerializeToString())
    line = f"{room} harden m.onnx -o out.onnx"
    command = [sys.executable, "-c", LIMITED, *line.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sentences = {
        "Error: there is not enough memory\n",
        (
            "Error: the model must have at most 2 GiB, and memory must hold another"
            " copy of it\n"
        ),
    }
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr in sentences
    assert not Path("out.onnx").exists()
