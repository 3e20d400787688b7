"""The scripts of scripts/directml, with stand-ins for the host and with the real
DirectML.dll."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import signal as signals
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from command_line import DESC
from fake_directml import NO_DEVICE, done, failed, fake_folder
from folders import ROOT
from messages import message_of, rows_of
from rings import one_quick_in

import onnxgather
from onnxgather.checking.lanes.directml import find_host, request_for, setup_command

SCRIPTS = ROOT / "scripts" / "directml"

live = pytest.mark.skipif(
    find_host() is None,
    reason=f"DirectML.dll is not set up; {setup_command()} makes it",
)
stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")
root = pytest.mark.skipif(
    sys.platform == "linux" and os.getuid() != 0, reason="setup.sh needs root"
)
debian = pytest.mark.skipif(sys.platform != "linux", reason="setup.sh is for Debian")


REFUSED = """
{"type": "DML_OPERATOR_SCATTER"}
type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1, got 'SCATTER'

{"DataType": "BOOL"}
InputTensor.DataType must be one of FLOAT64, FLOAT32, FLOAT16, INT64, INT32, INT16,
INT8, UINT64, UINT32, UINT16, UINT8, UNKNOWN, UINT4, INT4, got 'BOOL'

{"Strides": [1]}
InputTensor.Strides must have as many elements as Sizes (2), got 1

{"Sizes": [1, 4294967296]}
InputTensor.Sizes[1] must be an integer from 0 to 4294967295, got 4294967296
"""


@pytest.mark.parametrize(("changed", "message"), rows_of(REFUSED))
def test_a_descriptor_that_the_protocol_cannot_hold_is_refused(
    monkeypatch: pytest.MonkeyPatch, changed: str, message: str
) -> None:
    changes = json.loads(changed)
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    raw = onnxgather.to_dict(DESC)
    if "type" in changes:
        raw |= changes
    else:
        raw["desc"]["InputTensor"] |= changes
    request = importlib.import_module("validity").raw_request
    assert message_of(onnxgather.DescriptorError, request, raw) == message


def test_the_request_for_a_valid_descriptor_is_that_of_the_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    found = importlib.import_module("validity").raw_request(onnxgather.to_dict(DESC))
    assert msgspec.json.encode(found) == msgspec.json.encode(request_for(DESC))


def validity(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the script; returns its exit code and what it printed."""
    command = [sys.executable, str(SCRIPTS / "validity.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_without_a_host_the_script_says_how_to_make_one(tmp_path: Path) -> None:
    found = validity("--host", tmp_path)
    assert (found.returncode, found.stdout) == (3, "")
    assert (
        found.stderr
        == f"no host of DirectML.dll; {setup_command(str(tmp_path))} makes it\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@stand_in
def test_the_script_ends_where_directml_does_not_start(tmp_path: Path) -> None:
    host = fake_folder(tmp_path, "pass", start=NO_DEVICE)
    found = validity("--host", host)
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr == "DirectML.dll cannot run: DMLCreateDevice1 gave 0x8007007E\n"


@pytest.mark.slow
@stand_in
class TestValidity:
    def test_accepting_what_directml_refuses_is_a_finding(self, tmp_path: Path) -> None:
        host = fake_folder(tmp_path, failed("CreateOperator", 0x80070057))
        found = validity("--count", 64, "--host", host)
        assert found.returncode == 1
        assert (
            "\nFINDING (none), refused: CreateOperator gave 0x80070057 {"
            in found.stdout
        )

    def test_accepting_what_crashes_directml_is_a_finding(self, tmp_path: Path) -> None:
        host = fake_folder(tmp_path, "sys.exit(3)")
        found = validity("--count", 16, "--host", host)
        assert found.returncode == 1
        assert (
            "\nFINDING (none), crashed: the host ended with exit code 3 {"
            in found.stdout
        )

    def test_refusing_what_directml_accepts_without_a_reason_is_a_finding(
        self, tmp_path: Path
    ) -> None:
        host = fake_folder(tmp_path, done("b''"))
        found = validity("--count", 64, "--host", host)
        assert found.returncode == 1
        assert "\nFINDING ALIGNMENT, accepted:  {" in found.stdout
        assert "\nFINDING ND_BATCH_SIZES" not in found.stdout
        assert (
            "\n  ND_BATCH_SIZES: ONNX forbids it, and DirectML reads past a batch\n"
            in found.stdout
        )

    @live
    def test_directml_and_onnxgather_agree(self) -> None:
        found = validity("--count", 640, "--seed", 3)
        assert (found.returncode, found.stderr) == (0, "")
        assert "\n640 descriptors, 0 findings, " in found.stdout


@debian
class TestSetup:
    def lane(self, folder: Path) -> Path:
        """A folder that looks as if setup.sh had made it."""
        lane = folder / "lane"
        for name in (".onnxgather-stamps", "root"):
            (lane / name).mkdir(parents=True)
        return lane

    def setup(self, *arguments: object, user: int = 0) -> tuple[int, str]:
        """Run setup.sh as a user; returns its exit code and what it said."""
        drop = (
            ["setpriv", f"--reuid={user}", "--clear-groups"]
            if user != os.getuid()
            else []
        )
        command = [*drop, "bash", str(SCRIPTS / "setup.sh"), *map(str, arguments)]
        found = subprocess.run(command, capture_output=True, text=True)
        return found.returncode, found.stderr or found.stdout

    def test_only_root_can_run_it(self, tmp_path: Path) -> None:
        if os.getuid() == 0 and shutil.which("setpriv") is None:
            pytest.skip("without setpriv, root cannot run it as another user")
        code, says = self.setup(tmp_path / "lane", user=os.getuid() or 65534)
        if code == 126 or code == 127:
            pytest.skip("another user cannot read this checkout")
        assert (code, says) == (
            1,
            "setup.sh: must be root, to mount and to change roots\n",
        )

    @root
    def test_removal_keeps_files_that_it_did_not_make(self, tmp_path: Path) -> None:
        lane = self.lane(tmp_path)
        (lane / "letters").touch()
        says = f"setup.sh: {lane} stays, as it holds files that setup.sh did not make\n"
        assert self.setup("--remove", lane) == (1, says)
        assert [path.name for path in lane.iterdir()] == ["letters"]

    @root
    @pytest.mark.parametrize("first", [True, False])
    def test_removal_removes_the_folder(self, first: bool, tmp_path: Path) -> None:
        lane = self.lane(tmp_path)
        arguments = ("--remove", lane) if first else (lane, "--remove")
        assert self.setup(*arguments) == (0, f"removed {lane}\n")
        assert not list(tmp_path.iterdir())

    def test_removal_of_a_missing_folder_is_good(self, tmp_path: Path) -> None:
        lane = tmp_path / "lane"
        says = f"there is no {lane}\n"
        assert self.setup("--remove", lane, user=os.getuid()) == (0, says)

    def test_help_is_the_head_of_the_script(self) -> None:
        code, says = self.setup("--help", user=os.getuid())
        assert code == 0
        assert says.startswith(
            "Fills one folder with all that it takes to run lanes on a Debian"
        )
        assert says.endswith(
            "says why, the exit code is 1, and every program that it started has"
            " ended.\n"
        )

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--lanes="], "--lanes must name a lane, got none"),
            (["--operators"], '--operators must have a file behind it, got ""'),
            (
                ["--operators", "/none.whl"],
                '--operators must have a file behind it, got "/none.whl"',
            ),
        ],
    )
    def test_lanes_and_operators_must_be_those_that_there_are(
        self, arguments: list[str], says: str
    ) -> None:
        assert self.setup(*arguments, user=os.getuid()) == (1, f"setup.sh: {says}\n")

    @root
    @pytest.mark.parametrize("terminal", [True, False])
    def test_a_long_step_shows_that_time_goes_on(
        self, terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import pty  # not on Windows

        # A step that never ends, and a sleep that takes no time.
        self.programs(tmp_path, monkeypatch, {"apt-get": "sleep 100\n"})
        self.lane(tmp_path)
        (tmp_path / "lane" / ".onnxgather-stamps" / "debootstrap").touch()
        clock = tmp_path / "clock"
        clock.write_text("sleep() { command sleep 0.01; }\n")
        monkeypatch.setenv("BASH_ENV", str(clock))
        ours, theirs = pty.openpty() if terminal else os.pipe()
        command = ["bash", str(SCRIPTS / "setup.sh"), str(tmp_path / "lane")]
        sign = (
            rb"\rDebian trixie, minimal \.\.\. \d+ s"
            if terminal
            else rb"minimal \.\.\. \. \. "
        )
        with subprocess.Popen(
            command, stdout=theirs, start_new_session=True
        ) as running:
            shown = b""
            try:
                while not re.search(sign, shown):
                    shown += os.read(ours, 1000)
            finally:
                os.close(ours)
                os.killpg(running.pid, signals.SIGKILL)
                os.close(theirs)

    @root
    @pytest.mark.parametrize("signal", one_quick_in(3, ["TERM", "INT", "HUP"]))
    @pytest.mark.parametrize("send", ["kill", "killpg"])
    def test_a_signal_ends_it_and_all_that_it_started(
        self, send: str, signal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A stand-in for apt-get that ignores the signals, starts a child and waits for
        # it.
        begun = tmp_path / "begun"
        apt = f"trap '' TERM INT HUP\nsleep 100 &\necho $$ $! >{begun}.part\n"
        apt += f"mv {begun}.part {begun}\nwait\n"
        self.programs(tmp_path, monkeypatch, {"apt-get": apt})
        lane = tmp_path / "lane"
        # The first step is marked as done, as it may need no apt-get.
        self.lane(tmp_path)
        (lane / ".onnxgather-stamps" / "debootstrap").touch()
        command = ["bash", str(SCRIPTS / "setup.sh"), str(lane)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            stderr=pipe,
            stdout=pipe,
            start_new_session=True,
            # A test suite that a shell runs with `&` ignores SIGINT, one under nohup
            # SIGHUP, and so would setup.sh: bash cannot trap a signal that is ignored
            # from the start.
            preexec_fn=lambda: signals.signal(
                getattr(signals, f"SIG{signal}"), signals.SIG_DFL
            ),
        ) as running:
            try:
                while not begun.exists():
                    assert running.poll() is None
                    time.sleep(0.01)
                getattr(os, send)(running.pid, getattr(signals, f"SIG{signal}"))
                out, says = running.communicate(timeout=20)
            finally:
                running.kill()
        assert (running.returncode, says.decode()) == (
            1,
            f"setup.sh: interrupted by SIG{signal} (run again to go on)\n",
        )
        assert out.decode().endswith("interrupted\n")
        # A process that is killed ends when the machine has time for it.
        deadline = time.monotonic() + 20
        while alive := [one for one in begun.read_text().split() if self.alive(one)]:
            assert time.monotonic() < deadline, alive
            time.sleep(0.01)

    @root
    @pytest.mark.slow
    def test_a_step_whose_sources_changed_runs_again_with_those_that_depend_on_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The stand-in for apt-get has no package lists but those in the folder. The one
        # for unshare, through which setup.sh makes the root, makes the few files that
        # it expects there.
        lane = tmp_path / "lane"
        apt = f"""
        case "$*" in
        *" Dir::State::Lists={lane}/"*) ;;
        *download*) exit 100 ;;
        *) exit ;;
        esac
        case "$*" in *indextargets*) echo "Debian Debian http://mirror" ;; esac
        """
        unshare = f"""
        [ -d {lane}/.onnxgather-stamps ] || exit 0
        for name in /etc/apt/apt.conf.d /etc/dpkg/dpkg.cfg.d /etc/ssl /prefix; do
            mkdir -p {lane}/root$name
        done
        echo vulkan >{lane}/root/prefix/user.reg
        case "$*" in *" --example") echo an answer ;; esac
        """
        # The lane's Python is a script that runs this library.
        python = f"""
        [ -d {lane}/root ] || exit 0
        mkdir -p {lane}/root/usr/lib/x86_64-linux-gnu
        cd {lane}/root/usr/lib/x86_64-linux-gnu
        printf '#!/bin/sh\\necho an answer\\n' >ld-linux-x86-64.so.2
        chmod +x ld-linux-x86-64.so.2
        case "$2" in */run-windows) echo an answer ;; esac
        if [ "$2" = zipfile ]; then
            mkdir -p "$5/onnxgather"
            echo MZ of a wheel >"$5/onnxgather/onnxgather_operators.dll"
        fi
        """
        self.programs(
            tmp_path,
            monkeypatch,
            {"apt-get": apt, "unshare": unshare, "python3": python},
        )

        def run_setup(*words: object) -> subprocess.CompletedProcess[str]:
            command = ["bash", str(SCRIPTS / "setup.sh"), *map(str, words)]
            return subprocess.run(command, capture_output=True, text=True)

        def steps_run(
            lanes: str = "directml-dll,directml,cpu@windows,webgpu", *more: str
        ) -> list[str]:
            """Run setup.sh; returns the first word of each step that was not done
            before."""
            found = run_setup("--lanes", lanes, *more, lane)
            assert (found.returncode, found.stderr) == (0, "")
            first, *lines, ready = found.stdout.splitlines()
            assert first == f"{lanes.replace(',', ' ')} in {lane}"
            options = " ".join(f"--lane {name}={lane}" for name in lanes.split(","))
            command_line = f"onnxgather check --corpus --shard 1/15 {options}"
            assert ready.endswith(f" s: {command_line}")
            done = [line for line in lines if not line.endswith(": done before")]
            assert "an answer" in done
            return [line.split()[0] for line in done if line != "an answer"]

        start, webgpu = ["debootstrap,", "Debian", "Vulkan"], ["Python", "One"]
        directml, operators = (
            ["Wine,", "Wine's", "DirectML.dll,", "The", "One"],
            ["The", "One"],
        )
        assert steps_run("webgpu") == start + webgpu
        assert not (lane / "run-host").exists()
        assert steps_run("directml") == directml
        assert not (lane / "run-windows").exists()
        assert steps_run("cpu@windows") == operators
        assert steps_run() == ["One"] * 3
        stamps = lane / ".onnxgather-stamps"
        now = sorted(path.name for path in stamps.iterdir())
        for kind, steps in {
            "root": start[1:] + directml + operators + webgpu,
            "wine": ["Wine,", "Wine's", "The", "One", *operators, "One"],
            "wheels": ["DirectML.dll,", "One", "One", "One"],
            "host": ["The", "One", "One", "One"],
            "operators": ["One", *operators, "One"],
            "python": ["One", "One", "Python", "One"],
        }.items():
            (stamp,) = stamps.glob(f"{kind}-*")
            stamp.rename(stamps / f"{kind}-older")
            assert steps_run() == steps
            # The older stamp is gone. Were it still there, going back to the older
            # sources would leave what the newer ones made.
            assert sorted(path.name for path in stamps.iterdir()) == now
        # Operators of a file stay until setup.sh runs without it.
        made = lane / "root" / "lane" / "onnxgather_operators.dll"
        for name, content in (
            ("other.dll", "MZ of a file\n"),
            ("other.whl", "MZ of a wheel\n"),
        ):
            (tmp_path / name).write_text(content)
            for expected in (operators, operators[1:]):
                assert (
                    steps_run("cpu@windows", "--operators", str(tmp_path / name))
                    == expected
                )
            assert made.read_text() == content
        wrong = tmp_path / "a program.txt"
        wrong.write_text("no DLL")
        found = run_setup("--lanes", "cpu@windows", "--operators", wrong, lane)
        assert found.returncode == 1
        rule = "setup.sh: --operators must be a DLL of Windows or a wheel with one, got"
        told = f'setup.sh: "The operators for Windows" failed: {rule} "{wrong}" ('
        assert found.stderr.startswith(told)
        assert made.read_text() == content  # as before
        assert steps_run("cpu@windows") == operators
        assert not made.exists()  # as the stand-in compiles nothing

    @staticmethod
    def programs(
        folder: Path, monkeypatch: pytest.MonkeyPatch, bodies: dict[str, str]
    ) -> None:
        """Put stand-ins for programs that setup.sh needs first on the path.

        Args:
            folder: Where they are made.
            monkeypatch: Changes the path.
            bodies: What they do, by name, as shell commands. The others do nothing.
        """
        programs = folder / "programs"
        programs.mkdir()
        for name in ("dpkg-deb", "wget", "gpgv", "unshare", "python3", "apt-get"):
            body = "#!/bin/sh\n" + bodies.get(name, "")
            (programs / name).write_text(body, "utf-8")
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    @staticmethod
    def alive(identifier: str) -> bool:
        """Whether a process runs. One that ended may still be there until its parent
        asks."""
        try:
            stat = Path("/proc", identifier, "stat").read_text("utf-8")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"
