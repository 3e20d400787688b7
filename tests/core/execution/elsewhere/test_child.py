"""Programs behind lanes: they end with the program that asks, and hold nothing up."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from foreign_exceptions import counted, raised_at, unraisable
from messages import message_of
from rings import one_quick_in
from stub_runtime import environment, gone

import onnxgather as og
from onnxgather.core.execution.elsewhere.child import (
    LARGEST_PRINTED,
    Breakdown,
    Child,
    NoAnswerError,
)
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.runtime import MAGIC

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="signals, sessions and forks are POSIX's"
)


class Echo(Child):
    """A program that answers each request with the same bytes."""

    name = "program"

    def _printed(self, content: bytes) -> str:
        return f", {len(content)} bytes printed, the last {content[-5:]!r}"


def echo(action: str, timeout: float = 30) -> Echo:
    """Return a program that greets and then does something with each request."""
    code = (
        "import os, subprocess, sys, time\n"
        f"os.write(1, {MAGIC!r})\n"
        "while count := sys.stdin.buffer.read(8):\n"
        "    content = sys.stdin.buffer.read(int.from_bytes(count, 'little'))\n"
        f"    {action}\n"
        "    sys.stdout.buffer.write(count + content); sys.stdout.flush()\n"
    )
    return Echo([sys.executable, "-c", code], timeout)


Read = Callable[[bytes, bytes], object]


def both(header: bytes, content: bytes) -> tuple[bytes, bytes]:
    """Return the JSON and the bytes of an answer as they are."""
    return header, content


def ask(child: Child, blobs: bytes = b"", read: Read = both) -> object:
    """Return the answer to a request, as a function decodes it."""
    return child.exchange(read, {}, blobs)


def broken(child: Child, read: Read = both) -> tuple[Breakdown, str]:
    """Return how a program broke down, and the message."""
    with pytest.raises(NoAnswerError) as caught:
        ask(child, read=read)
    return caught.value.how, str(caught.value)


ESCAPED = "subprocess.Popen(['sleep', '60'], start_new_session=True)"
"""Starts a program that leaves the group and holds the pipes open."""


class TestEscaped:
    """What a program started, and what left its group, holds its pipes open."""

    @pytest.mark.slow
    def test_a_program_that_died_is_told_at_once(self) -> None:
        child = echo(f"{ESCAPED}; os._exit(7)")
        start = time.monotonic()
        how, reason = broken(child)
        assert how is Breakdown.EXITED
        assert reason.startswith("the program ended with exit code 7, ")
        child.close()
        assert time.monotonic() - start < 30

    @pytest.mark.slow
    def test_a_deadline_holds(self) -> None:
        child = echo(f"{ESCAPED}; time.sleep(60)", timeout=0.5)
        start = time.monotonic()
        assert broken(child)[0] is Breakdown.LATE
        assert time.monotonic() - start < 30

    def test_a_program_is_closed(self) -> None:
        child = echo(ESCAPED)
        assert ask(child, b"blobs") == (b"{}", b"blobs")
        start = time.monotonic()
        child.close()
        assert time.monotonic() - start < 30

    @pytest.mark.slow
    def test_a_busy_program_is_closed(self) -> None:
        child = echo(f"{ESCAPED}; time.sleep(60)")
        threading.Timer(0.5, child.close).start()
        start = time.monotonic()
        assert broken(child)[0] is Breakdown.DIED
        assert time.monotonic() - start < 30


class TestPrinted:
    def test_the_end_of_much_is_kept(self) -> None:
        child = echo(
            "[os.write(2, b'x' * 2**20) for _ in range(8)]; os.write(2, b'end'); 1/0"
        )
        reason = broken(child)[1]
        child.close()
        assert reason.startswith(
            "the program ended with exit code 1, 65537 bytes printed, "
        )

    @pytest.mark.slow
    def test_a_program_that_prints_forever_fills_no_disk(self) -> None:
        child = echo("while True: os.write(2, b'x' * 2**16)", timeout=1)
        largest = 0

        def look() -> None:
            nonlocal largest
            while child._program is None:  # type: ignore[reportPrivateUsage]
                time.sleep(0.01)
            errors: Any = child._program._errors  # type: ignore[reportPrivateUsage]
            while not errors.closed:
                largest = max(largest, os.fstat(errors.fileno()).st_size)
                time.sleep(0.01)

        looking = threading.Thread(target=look)
        looking.start()
        assert broken(child)[0] is Breakdown.LATE
        looking.join(5)
        assert 0 < largest < 40 * LARGEST_PRINTED

    @pytest.mark.parametrize(
        ("start", "forever", "how"),
        one_quick_in(
            4,
            [
                ("", "sys.stdout.flush()", Breakdown.LATE),
                ("", "sys.stdout.write('x' * 2**16)", Breakdown.STRAY),
                (
                    f"os.write(1, {MAGIC + bytes(8)!r})",
                    "os.write(1, bytes(8))",
                    Breakdown.NONSENSE,
                ),
                (
                    f"os.write(1, {MAGIC + (2**30).to_bytes(8, 'little')!r})",
                    "time.sleep(0.01); sys.stdout.write('x')",
                    Breakdown.LATE,
                ),
            ],
        ),
        ids=["silent", "banner", "frames", "frame"],
    )
    def test_a_program_that_answers_forever_is_ended(
        self, start: str, forever: str, how: Breakdown
    ) -> None:
        code = f"import os, sys, time\n{start}\nwhile True: {forever}"
        timeout = 0.5 if how is Breakdown.LATE else 60
        child = Echo([sys.executable, "-c", code], timeout)
        found, _ = broken(child, lambda header, _: 1 / len(header))
        assert found is how
        assert child._program is None  # type: ignore[reportPrivateUsage]


class TestCommands:
    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            ("/", "/ does not start: Permission denied"),
            ("/etc/passwd", "/etc/passwd does not start: Permission denied"),
            ("a\0b", r"a\x00b does not start: embedded null byte"),
            (
                "x" * 5000,
                f"{'x' * 150}…{'x' * 150} does not start: File name too long",
            ),
        ],
    )
    def test_a_command_that_is_no_program_is_told(
        self, command: str, reason: str
    ) -> None:
        how, found = broken(Echo([command], 5))
        assert (how, found) == (Breakdown.NOT_STARTED, reason)

    def test_a_large_file_that_is_no_program_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "python"
        with path.open("wb") as file:
            file.truncate(2**32)
        path.chmod(0o755)
        assert (
            broken(Echo([str(path)], 5))[1]
            == f"{path} does not start: Exec format error"
        )

    def test_only_what_a_host_says_at_its_start_stands_for_the_message(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "program"
        path.write_text("#!/bin/sh\necho 'no host: name' >&2; exit 3\n")
        path.chmod(0o755)
        reason = "the worker ended with exit code 3; it printed: no host: name"
        assert broken(Worker(str(path), 5))[1] == reason
        path.write_text("#!/bin/sh\necho 'host: no device' >&2; exit 3\n")
        assert broken(Worker(str(path), 5))[1] == "no device"

    def test_an_error_that_no_system_gives_reaches_the_caller(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError("no programs here")

        monkeypatch.setattr("subprocess.Popen.__init__", fail)
        with pytest.raises(RuntimeError, match="no programs here"):
            broken(Echo([sys.executable], 5))

    @pytest.mark.parametrize(
        "timeout", [0, -1, float("nan"), float("inf"), 86_401, 10**30, "5", None]
    )
    def test_a_timeout_that_is_none_is_refused(self, timeout: Any) -> None:
        rule = "timeout must be a number of seconds above 0, up to 86400"
        assert (
            message_of(og.OnnxGatherError, Worker, sys.executable, timeout)
            == f"{rule}, got {timeout!r}"
        )


SPIN = "while True: pass"
HOLD = "import ctypes; ctypes.PyDLL(None).sleep(60)"
"""Holds the interpreter's lock, as ONNX Runtime 1.24 does while it makes a session."""


class TestOrphans:
    """A worker ends with the program that asks it, however that ends."""

    @pytest.mark.parametrize("script", ["exec ", ""], ids=["exec", "script"])
    @pytest.mark.parametrize(
        "busy", [SPIN, HOLD, "time.sleep(60)"], ids=["spin", "hold", "sleep"]
    )
    @pytest.mark.slow
    def test_a_busy_worker_ends_with_a_parent_that_is_killed(
        self, tmp_path: Path, busy: str, script: str
    ) -> None:
        python = Path(
            environment(
                tmp_path,
                f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n{busy}",
            )
        )
        python.write_text(python.read_text().replace("exec ", script) + "exit 0\n")
        code = f"""
import sys
from onnxgather.core.execution.elsewhere.worker import Worker
Worker({str(python)!r}, 60).about()
"""
        self._killed(code, tmp_path / "pid")

    @pytest.mark.slow
    def test_a_worker_that_runs_a_model_ends_with_a_parent_that_is_killed(
        self, tmp_path: Path
    ) -> None:
        code = f"""
import sys
import onnx.parser
from pathlib import Path
from onnxgather.core.execution.elsewhere.worker import Worker
model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
main (bool go) => (int64 y) {{
    n = Constant <value = int64 {{4611686018427387904}}> ()
    zero = Constant <value = int64 {{0}}> ()
    y = Loop (n, go, zero) <body = body (int64 k, bool on, int64 a) => (bool on_out, int64 b) {{
        on_out = Identity (on)
        b = Add (a, k)
    }}>
}}''')
worker = Worker(sys.executable, 60)
worker.about()
Path({str(tmp_path / "pid")!r}).write_text(str(worker._program.popen.pid))
content = model.SerializeToString()
session = {{"provider": "CPUExecutionProvider"}}
feeds = [{{"go": ["bool", [], len(content)]}}]
request = {{"model": len(content), "session": session, "feeds": feeds}}
worker.exchange(lambda header, _: print(header), request, content + b"\\1")
"""  # noqa: E501
        self._killed(code, tmp_path / "pid")

    def _killed(self, code: str, told: Path) -> None:
        """Kill a program that asks a worker, whose number it writes to a file, for
        long."""
        with subprocess.Popen([sys.executable, "-c", code]) as parent:
            until = time.monotonic() + 30
            while not (told.exists() and told.read_text()) and time.monotonic() < until:
                assert parent.poll() is None
                time.sleep(0.02)
            pid = int(told.read_text())
            time.sleep(0.5)
            assert not gone(pid, 0.1)
            assert parent.poll() is None
            parent.kill()
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)
            pytest.fail("the worker lives on")


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is Linux's")
def test_a_program_outlives_the_thread_that_asks_it_first() -> None:
    child = echo("pass")
    # as the launcher of DirectML's host has
    child.command[:0] = ["setpriv", "--pdeathsig", "KILL"]
    first = threading.Thread(target=ask, args=[child])
    first.start()
    first.join()
    program = child._program  # type: ignore[reportPrivateUsage]
    time.sleep(0.1)
    assert ask(child, b"blobs") == (b"{}", b"blobs")
    assert child._program is program  # type: ignore[reportPrivateUsage]
    child.close()


class TestForks:
    """A forked process has programs of its own."""

    @pytest.mark.slow
    def test_a_child_asks_while_its_parent_asks(self, tmp_path: Path) -> None:
        code = f"""
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
from onnxgather.core.execution.elsewhere.worker import Worker
worker = Worker({environment(tmp_path, "time.sleep(1)")!r}, 30)
worker.about()
asking = threading.Thread(target=worker.about)
asking.start()
time.sleep(0.3)
child = os.fork()
if not child:
    print(worker.about().versions["onnxruntime"], flush=True)
    worker.close()
    os._exit(0)
code = os.waitpid(child, 0)[1]
asking.join()
print(code, worker.about().versions["onnxruntime"])
worker.close()
"""
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=30, check=False
        )
        assert (done.stdout, done.stderr) == (b"9.9.9\n0 9.9.9\n", b"")

    def test_a_child_that_asks_keeps_no_worker_of_its_parent_alive(
        self, tmp_path: Path
    ) -> None:
        code = f"""
import os, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from pathlib import Path
from onnxgather.core.execution.elsewhere.worker import Worker
worker = Worker({environment(tmp_path, "")!r}, 30)
worker.about()
asked, told = os.pipe()
if not os.fork():
    os.close(1)
    worker.about()
    os.write(told, b"!")
    time.sleep(5)
    os._exit(0)
os.read(asked, 1)
print(worker._program.popen.pid, flush=True)
os.kill(os.getpid(), 9)
"""
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            timeout=30,
            check=False,
        )
        assert gone(int(done.stdout))

    def test_a_child_that_closes_a_worker_does_not_end_its_parents(
        self, tmp_path: Path
    ) -> None:
        code = f"""
import os
from onnxgather.core.execution.elsewhere.worker import Worker
worker = Worker({environment(tmp_path, "")!r}, 30)
worker.about()
program = worker._program
child = os.fork()
if not child:
    worker.close()
    try:
        worker.about()
    except Exception as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(worker.about().versions["onnxruntime"], worker._program is program)
worker.close()
"""
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        assert (done.stdout, done.stderr) == (
            b"the worker was ended\n9.9.9 True\n",
            b"",
        )


@pytest.mark.slow
def test_an_answer_that_nobody_waited_for_is_not_the_next_answer() -> None:
    child = echo("")
    question = itertools.count()

    def asked() -> object:
        return ask(child, str(next(question)).encode())

    asked()
    warm = counted(asked)
    child.restart()
    cold = counted(asked)
    threads = threading.active_count()
    for moments in (warm, cold):
        for moment in moments.first:
            if moments is cold:
                child.restart()
            foreign = TimeoutError("the caller's own limit")
            with unraisable():
                caught, place = raised_at(asked, moment, foreign)
            assert caught is foreign or not place
            blobs = f"after {moment}".encode()
            assert ask(child, blobs) == (b"{}", blobs)
    child.close()
    until = time.monotonic() + 5
    # Each program has a thread.
    while threading.active_count() >= threads and time.monotonic() < until:
        time.sleep(0.02)
    assert threading.active_count() < threads
