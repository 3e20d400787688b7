"""What only a real process of the command line shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from command_line import POSIX, files, program, spawn


class TestProcess:
    """What only a real process shows."""

    def test_run_prints_the_output_and_ends_with_0(self) -> None:
        program("x.json")
        done = spawn("run", "x.json")
        line = b"Resource 'output': 2, 0, 5, 3, 8, 6, 11, 9\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, line, b"")

    def test_an_error_is_one_sentence_on_the_standard_error(self) -> None:
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
    def test_a_name_that_the_encoding_lacks_is_printed_in_utf_8(self) -> None:
        program("größe.json")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = spawn("convert", "größe.json", env=environment)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode() == "größe.json -> größe.onnx\n"

    @POSIX
    def test_a_closed_output_does_not_stop_a_command(self) -> None:
        program("x.json")
        command = f"{sys.executable} -m onnxgather convert x.json >&- 2>&-"
        done = subprocess.run(["sh", "-c", command], check=False)
        assert done.returncode == 0
        assert files() == ["x.json", "x.onnx"]
