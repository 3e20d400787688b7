"""A warm host: what the next command gets, and what it never gets."""

from __future__ import annotations

import fcntl
import json
import os
import re
import runpy
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import DESC, spawn
from folders import MODELS, ROOT
from messages import message_of
from rings import one_quick_in
from stub_runtime import environment, gone

from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Child, NoAnswerError
from onnxgather.core.execution.elsewhere.hosts import find_runtime, made_folder
from onnxgather.core.execution.elsewhere.worker import Worker
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.runtime import MAGIC
from onnxgather.core.model.write import descriptor_model

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("setpriv"),
    reason="the lanes are Debian's",
)
as_other_user = pytest.mark.skipif(
    sys.platform == "win32"
    or os.geteuid() != 0
    or not os.path.exists("/usr/bin/python3"),
    reason=(
        "only root runs a program as another user, with a Python that all users have"
    ),
)

HOST = f"""#!{sys.executable}
import json, os, sys, time
os.write(1, {MAGIC!r})
while head := sys.stdin.buffer.read(8):
    content = sys.stdin.buffer.read(int.from_bytes(head, "little"))
    request = json.loads(content.partition(b"\\n")[0])
    answer = {{"pid": os.getpid(), "ppid": os.getppid(), "environment": dict(os.environ)}}
    exec(request.get("do", ""))
    content = json.dumps(answer).encode() + b"\\n" + content.partition(b"\\n")[2]
    sys.stdout.buffer.write(len(content).to_bytes(8, "little") + content)
    sys.stdout.flush()
"""  # noqa: E501
"""A host that says who it is, after it did what the request says."""


class Asking(Child):
    """A command that asks the host."""

    name = "host"

    def ask(self, do: str = "", blobs: bytes = b"") -> dict[str, Any]:
        """Have the host do something; return its answer."""
        return self.exchange(
            lambda header, content: {**json.loads(header), "content": content},
            {"do": do},
            blobs,
        )


class Lane:
    """A folder as setup.sh makes it, with a host that is a script."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.host = folder / "warm", folder / "run-runtime"
        self.program = folder / "warm.py"
        shutil.copy(ROOT / "scripts" / "directml" / "warm.py", self.program)
        self.host.write_text(HOST)
        self.host.chmod(0o755)

    def command(self, timeout: float = 30) -> Asking:
        """Return a command that has not started."""
        relay = "setpriv", "--pdeathsig", "KILL", sys.executable, "-IS"
        return Asking([*relay, str(self.program), str(self.host)], timeout)

    @contextmanager
    def relay(self) -> Generator[subprocess.Popen[bytes]]:
        """Start what stands between a command and the host; give it after its
        greeting."""
        pipe = subprocess.PIPE
        with subprocess.Popen(self.command().command, stdin=pipe, stdout=pipe) as relay:
            try:
                assert relay.stdout is not None
                assert relay.stdout.read(len(MAGIC)) == MAGIC
                yield relay
            finally:
                relay.kill()

    def run_apart(self, code: str) -> subprocess.CompletedProcess[bytes]:
        """Run Python with a `command` in a program of its own."""
        start = (
            "import sys\nsys.path[:0] = sys.argv[1:3]\nfrom test_warm import Asking\n"
            "command = Asking(sys.argv[3:], 30)\n"
        )
        folders = [str(ROOT / "tests" / "scripts"), str(ROOT / "tests" / "helpers")]
        return subprocess.run(
            [sys.executable, "-c", start + code, *folders, *self.command().command],
            stderr=subprocess.PIPE,
            timeout=30,
        )

    def told(self, *do: str) -> dict[str, Any]:
        """Return the last answer that a command of its own got."""
        command, answer = self.command(), {}
        for each in do or [""]:
            answer = command.ask(each)
        command.close()
        return answer

    def check_fresh(self, first: dict[str, Any]) -> None:
        """Check that a host has ended, and that the next command has another one."""
        assert gone(first["pid"])
        assert self.pid() != first["pid"]

    def socket(self) -> Path:
        """Return the socket of the keeper."""
        (found,) = [path for path in self.folder.iterdir() if path.is_socket()]
        return found

    def kill_keeper(self) -> dict[str, Any]:
        """Kill the keeper of a host, which ends, too; return what the host told."""
        first = self.told()
        os.kill(first["ppid"], signal.SIGKILL)
        assert gone(first["pid"])  # at the end of its input
        return first

    def pid(self, *do: str) -> int:
        """Return which host served a command of its own."""
        return self.told(*do)["pid"]


@pytest.fixture
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lane]:
    """Return a lane whose hosts are gone afterwards."""
    monkeypatch.setenv("ONNXGATHER_WARM_SECONDS", "30")
    made = Lane(tmp_path)
    yield made
    for found in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(tmp_path) in found.read_bytes():
                os.kill(int(found.parent.name), signal.SIGKILL)


class TestNext:
    """What the next command gets."""

    def test_it_gets_the_same_host(self, lane: Lane) -> None:
        assert lane.pid() == lane.pid() == lane.pid("", "", "")

    @pytest.mark.slow
    def test_a_host_starts_once(self, lane: Lane) -> None:
        lane.host.write_text(HOST.replace("os.write", "time.sleep(1)\nos.write", 1))
        took: list[float] = []
        for _ in range(2):
            start = time.monotonic()
            lane.pid()
            took.append(time.monotonic() - start)
        assert took[1] < took[0] / 2

    def test_much_data_passes(self, lane: Lane) -> None:
        command, blobs = lane.command(), os.urandom(2**22 + 1)
        for _ in range(2):
            answer = command.ask("", blobs)
            assert answer["content"] == blobs
        command.close()

    def test_nothing_of_an_environment_reaches_the_host(
        self, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTHONPATH", "/nowhere")
        assert lane.told()["environment"].keys() <= {"LC_CTYPE"}

    def test_what_a_host_printed_for_another_command_is_not_told(
        self, lane: Lane
    ) -> None:
        lane.pid("os.write(2, b'the first')")
        assert (
            message_of(NoAnswerError, lane.pid, "os.write(2, b'second'); os._exit(7)")
            == "the host ended with exit code 7; it printed: second"
        )


class TestFresh:
    """When the next command gets a host of its own, as the other one is not fit, or
    lent."""

    @pytest.mark.parametrize(
        "do",
        one_quick_in(
            4,
            [
                "answer['refused'] = 'no'",
                "answer['outputs'] = [['float32', [1], 0], 'device removed']",
                "answer = []",
                "answer = {**answer, 'pad': 'x' * 2**21}",
            ],
        ),
    )
    def test_after_a_failure(self, lane: Lane, do: str) -> None:
        command = lane.command()
        first = command.ask()
        with suppress(Exception):
            command.ask(do)
        with suppress(Exception):
            command.ask()
        command.close()
        lane.check_fresh(first)

    def test_a_success_after_a_failure_changes_nothing(self, lane: Lane) -> None:
        assert lane.pid("", "answer['refused'] = 'no'", "") != lane.pid()

    def test_a_model_that_another_provider_would_run_is_no_failure(
        self, lane: Lane
    ) -> None:
        assert lane.pid("answer['not_run'] = ['elsewhere', '', None]") == lane.pid()

    @pytest.mark.parametrize(
        "do", one_quick_in(2, ["os._exit(7)", "os.kill(os.getpid(), 11)"])
    )
    def test_after_a_crash(self, lane: Lane, do: str) -> None:
        first = lane.pid()
        with pytest.raises(NoAnswerError) as caught:
            lane.pid(do)
        how = "ended with exit code 7" if "7" in do else "died of SIGSEGV"
        assert str(caught.value) == f"the host {how} and printed nothing"
        assert lane.pid() != first

    @pytest.mark.slow
    def test_after_bytes_that_belong_to_no_answer(self, lane: Lane) -> None:
        command = lane.command()
        late = "import threading; threading.Timer(0.2, os.write, (1, b'x')).start()"
        first = command.ask(late)["pid"]
        time.sleep(1)
        command.close()
        assert lane.pid() != first

    def test_after_a_crash_between_commands(self, lane: Lane) -> None:
        first = lane.told()
        os.kill(first["pid"], signal.SIGKILL)
        assert gone(first["ppid"])
        assert lane.pid() != first["pid"]

    @pytest.mark.slow
    def test_after_a_timeout(self, lane: Lane) -> None:
        command = lane.command(timeout=5)
        first = command.ask()
        command.timeout = 0.5
        assert (
            message_of(NoAnswerError, command.ask, "time.sleep(60)")
            == "the host did not answer within 0.5 s and printed nothing"
        )
        lane.check_fresh(first)

    @pytest.mark.slow
    def test_after_an_interruption(self, lane: Lane) -> None:
        first = lane.told()
        done = lane.run_apart(
            "import signal, threading, _thread\n"
            # it may be ignored
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "command.ask()\n"
            "threading.Timer(0.5, _thread.interrupt_main).start()\n"
            "command.ask('time.sleep(60)')\n"
        )
        assert b"KeyboardInterrupt" in done.stderr
        lane.check_fresh(first)

    @pytest.mark.slow
    def test_after_a_command_was_killed(self, lane: Lane) -> None:
        first = lane.told()
        lane.run_apart(
            "import os\ncommand.ask(f'os.kill({os.getpid()}, 9); time.sleep(60)')\n"
        )
        lane.check_fresh(first)

    @pytest.mark.parametrize("size", one_quick_in(2, [0, 2**21]))
    def test_after_a_command_closed_its_output_without_an_answer(
        self, lane: Lane, size: int
    ) -> None:
        first = lane.told()
        with lane.relay() as relay:
            assert relay.stdin is not None
            assert relay.stdout is not None
            relay.stdout.close()
            relay.stdin.write(runtime.message({"do": ""}, bytes(size)))
            relay.stdin.close()
            assert relay.wait(5) == 1
        # A short answer was read whole before it could not be passed on: the host owes
        # nothing.
        assert (lane.pid() == first["pid"]) == (size == 0)
        assert size == 0 or gone(first["pid"])

    @pytest.mark.parametrize("count", one_quick_in(3, [4, 12, 2**20]))
    def test_after_a_command_closed_its_input_in_a_request(
        self, lane: Lane, count: int
    ) -> None:
        first = lane.told()
        with lane.relay() as relay:
            relay.communicate(
                runtime.message({"do": ""}, bytes(2**22))[:count], timeout=5
            )
            assert relay.returncode == 0
        lane.check_fresh(first)

    def test_while_another_command_has_the_host(self, lane: Lane) -> None:
        one, two = lane.command(), lane.command()
        first, second = one.ask(), two.ask()
        assert first["pid"] != second["pid"]
        assert one.ask()["pid"] == first["pid"]
        two.close()
        assert gone(second["pid"])
        one.close()
        assert lane.pid() == first["pid"]

    def test_after_300_requests(self, lane: Lane) -> None:
        first = lane.pid(*[""] * 299)
        assert lane.pid() == first
        assert lane.pid() != first

    def test_when_the_host_was_made_anew(self, lane: Lane) -> None:
        first = lane.pid()
        lane.host.write_text(HOST + "\n")
        assert lane.pid() != first

    def test_on_other_cores(self, lane: Lane) -> None:
        cores = os.sched_getaffinity(0)
        if len(cores) < 2:
            pytest.skip("there is one core")
        first = lane.pid()
        os.sched_setaffinity(0, {min(cores)})
        try:
            assert lane.pid() != first
        finally:
            os.sched_setaffinity(0, cores)
        assert lane.pid() == first

    def test_after_the_keeper_was_killed(self, lane: Lane) -> None:
        first = lane.kill_keeper()
        left = lane.socket()
        second = lane.pid()
        assert second != first["pid"]
        assert lane.pid() == second
        assert left.is_socket()

    def test_while_another_command_makes_a_keeper(self, lane: Lane) -> None:
        lane.kill_keeper()
        (path,) = lane.folder.glob("*.lock")
        with path.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert gone(lane.pid())
        second = lane.pid()
        assert lane.pid() == second

    @pytest.mark.slow
    def test_while_the_keeper_hangs(self, lane: Lane) -> None:
        first = lane.told()
        os.kill(first["ppid"], signal.SIGSTOP)
        assert lane.pid() != first["pid"]

    @pytest.mark.slow
    def test_after_some_seconds(
        self, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ONNXGATHER_WARM_SECONDS", "1")
        first = lane.told()
        assert gone(first["pid"])
        assert gone(first["ppid"])
        assert not any(lane.folder.iterdir())

    def test_while_a_keeper_ends(
        self, lane: Lane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lane.folder.mkdir()
        path = lane.folder / "key"

        def locked_too_late(lock: int, how: int) -> None:
            os.unlink(f"{path}.lock")  # as the keeper that ends does
            Path(f"{path}.lock").touch()  # as the next command does
            fcntl.lockf(lock, how)

        monkeypatch.setattr(fcntl, "flock", locked_too_late)
        with pytest.raises(BlockingIOError, match="key"):
            runpy.run_path(str(lane.program))["make_keeper"](
                str(path), [str(lane.host)], 1
            )
        assert [each.name for each in lane.folder.iterdir()] == ["key.lock"]

    @pytest.mark.parametrize("variable", ["ONNXGATHER_WARM_SECONDS", "WINEDEBUG"])
    def test_if_the_environment_says_so(
        self, lane: Lane, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        monkeypatch.setenv(variable, "0")
        first = lane.told()
        assert variable in first["environment"]
        assert gone(first["pid"])
        assert not lane.folder.exists()


class TestOthers:
    """A folder or a keeper that may be another user's is not used; each command has a
    host."""

    def cold(self, lane: Lane) -> None:
        """Check that two commands have a host each, which ends with its command."""
        first, second = lane.told(), lane.told()
        assert first["pid"] != second["pid"]
        assert gone(first["pid"])
        assert gone(second["pid"])

    @pytest.mark.parametrize("mode", one_quick_in(4, [0o755, 0o710, 0o702, 0o500]))
    def test_a_folder_with_other_rights(self, lane: Lane, mode: int) -> None:
        lane.folder.mkdir()
        lane.folder.chmod(mode)
        self.cold(lane)
        assert not any(lane.folder.iterdir())

    def test_a_folder_has_its_rights_from_the_start(self, lane: Lane) -> None:
        umask = os.umask(0)
        try:
            lane.pid()
        finally:
            os.umask(umask)
        assert stat.S_IMODE(lane.folder.stat().st_mode) == 0o700

    def test_a_link_to_a_folder(self, lane: Lane, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir(0o700)
        lane.folder.symlink_to(other)
        self.cold(lane)

    @as_other_user
    def test_a_folder_of_another_user(self, lane: Lane) -> None:
        lane.folder.mkdir(0o700)
        os.chown(lane.folder, 65534, 65534)
        self.cold(lane)

    @as_other_user
    def test_a_command_of_another_user(self, lane: Lane) -> None:
        first = lane.pid()
        path = lane.socket()
        for opened in (path, lane.folder):
            opened.chmod(0o777)
        ask = (
            "import socket, sys\n"
            "keeper = socket.socket(socket.AF_UNIX); keeper.connect(sys.argv[1])\n"
            "print(socket.recv_fds(keeper, 1, 3)[:2])\n"
        )
        done = subprocess.run(
            ["/usr/bin/python3", "-IS", "-c", ask, path.name],
            cwd=lane.folder,
            user=65534,
            capture_output=True,
            check=True,
        )
        assert done.stdout == b"(b'', [])\n"
        lane.folder.chmod(0o700)
        assert lane.pid() == first

    @as_other_user
    def test_a_keeper_of_another_user(self, lane: Lane) -> None:
        lane.kill_keeper()
        path = lane.socket()
        path.unlink()
        lent = (
            "import os, socket, sys\nlistener = socket.socket(fileno=int(sys.argv[1]));"
            " listener.listen()\nprint(flush=True)\nclient ="
            " listener.accept()[0]\nsocket.send_fds(client, [b'!'],"
            " [os.open('/dev/null', 0)] * 3); client.recv(1)\n"
        )
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(lane.folder)
            listener.bind(path.name)
            with subprocess.Popen(
                ["/usr/bin/python3", "-IS", "-c", lent, str(listener.fileno())],
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno()],
                user=65534,
            ) as other:
                assert other.stdout is not None
                other.stdout.readline()
                cold = lane.told()
                assert gone(cold["pid"])
                other.kill()


STAND_IN = """
from types import SimpleNamespace
PLACE = "DmlExecutionProvider"
PROVIDERS = [PLACE]
ExecutionMode = SimpleNamespace(ORT_SEQUENTIAL=0)
with open(FILE, "a") as file: print(os.getpid(), file=file)
class InferenceSession(InferenceSession):
    def open(self): time.sleep(2.3)
"""
"""A stand-in with DirectML's provider, which notes its number, and opens models
slowly."""

MODEL = descriptor_model(DESC, "clamp", "portable").SerializeToString()


class TestRun:
    """`onnxgather run --provider directml`."""

    @pytest.mark.slow
    @pytest.mark.usefixtures("lane")
    def test_two_commands_have_one_host_and_tell_what_they_wait_for(
        self, tmp_path: Path
    ) -> None:
        folder = tmp_path / "onnxgather" / "directml"
        folder.mkdir(parents=True)
        notes = tmp_path / "notes"
        python = environment(tmp_path, f"FILE = {str(notes)!r}\n{STAND_IN}")
        Lane(folder).host.write_text(
            f'#!/bin/sh\nexec "{python}" -u "{runtime.__file__}"\n'
        )
        (folder / "warm-runtime").write_text(warm_runtime())
        (folder / "warm-runtime").chmod(0o755)
        path = MODELS / "gather_1_remap_1d.json"
        for target in ("portable", "webgpu"):  # another model each
            variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
            options = ["--provider", "directml", "--target", target]
            done = spawn("run", str(path), *options, env=variables)
            assert (done.returncode, done.stdout) == (
                0,
                path.with_suffix(".txt").read_bytes(),
            )
            assert re.fullmatch(
                rb"(directml: waiting for its host, \d+ s; "
                rb"a start takes 2 to 20 s\n)+",
                done.stderr,
            )
        assert len(notes.read_text().split()) == 1

    @pytest.mark.slow
    @pytest.mark.skipif(
        not (made_folder() / "warm-runtime").is_file(),
        reason="scripts/directml/setup.sh has not run",
    )
    def test_under_wine_the_second_start_takes_less_than_half_of_the_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def took(seconds: str) -> float:
            monkeypatch.setenv("ONNXGATHER_WARM_SECONDS", seconds)
            worker = Worker("", 60, find_runtime(PROVIDERS["directml"], warm=True))
            start = time.monotonic()
            session = {"provider": "DmlExecutionProvider", "threads": 1}
            assert ("OutputTensor", "Gather") in worker.run(MODEL, session).assignment
            worker.close()
            return time.monotonic() - start

        first = took("0")
        took("3")
        assert took("3") < first / 2


def warm_runtime() -> str:
    """Return the script warm-runtime, as setup.sh writes it."""
    text = (ROOT / "scripts" / "directml" / "setup.sh").read_text()
    return text.partition("cat >\"$folder/warm-runtime\" <<'RUN'\n")[2].partition(
        "RUN\n"
    )[0]


@pytest.mark.parametrize("value", one_quick_in(5, ["-1", "1.5", "10000", "٣", "a\n"]))
class TestWrongSeconds:
    """A variable that is no number of seconds."""

    @pytest.fixture(autouse=True)
    def sentence(self, monkeypatch: pytest.MonkeyPatch, value: str) -> str:
        """Set the variable; return the start of what is told."""
        monkeypatch.setenv("ONNXGATHER_WARM_SECONDS", value)
        rule = (
            "the variable ONNXGATHER_WARM_SECONDS must be a whole number of seconds up"
            " to 9999"
        )
        return f"{rule}, got "

    def test_a_relay_tells_it(self, lane: Lane, sentence: str, value: str) -> None:
        os.environ["ONNXGATHER_WARM_SECONDS"] = value  # the lane has set another one
        assert message_of(NoAnswerError, lane.pid) == f"{sentence}{value!a}"

    @pytest.mark.slow
    def test_run_tells_it_and_blames_no_provider(
        self, tmp_path: Path, sentence: str, value: str
    ) -> None:
        folder = tmp_path / "onnxgather" / "directml"
        folder.mkdir(parents=True)
        (folder / "warm-runtime").touch()
        variables = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        path = str(MODELS / "gather_1_remap_1d.json")
        done = spawn("run", path, "--provider", "directml", env=variables)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.decode() == f"Error: {sentence}{value!r}\n"


def test_seconds_that_are_empty_are_a_minute(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNXGATHER_WARM_SECONDS", "")
    assert lane.pid() == lane.pid()
