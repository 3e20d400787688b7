"""The scripts around DirectML.dll: with hosts of our own, and with the real one."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import signal as signals
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_directml import done, failed, fake_folder

from onnxgather.lanes.directml_host import find_host, setup_command

SCRIPTS = Path(__file__).parent.parent / "scripts" / "directml"
OBSERVED = Path(__file__).parent / "data" / "observed"

live = pytest.mark.skipif(
    find_host() is None, reason=f"DirectML.dll is not set up; {setup_command()} makes it"
)
stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")
root = pytest.mark.skipif(sys.platform == "linux" and os.getuid() != 0, reason="needs root")
debian = pytest.mark.skipif(sys.platform != "linux", reason="setup.sh is for Debian")


def script(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Return what a script printed, and its exit code."""
    command = [sys.executable, str(SCRIPTS / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Return a recording."""
    found: list[dict[str, Any]] = json.loads(
        lzma.decompress((folder / f"{kind}.json.xz").read_bytes())
    )
    return found


@pytest.mark.parametrize("name", ["record.py", "validity.py", "levels.py"])
def test_without_a_host(name: str, tmp_path: Path) -> None:
    file = [tmp_path / "file"] if name == "levels.py" else []
    found = script(name, "--host", tmp_path, *file)
    assert (found.returncode, found.stdout) == (3, "")
    assert found.stderr == f"no host of DirectML.dll; {setup_command(str(tmp_path))} makes it\n"
    assert not list(tmp_path.iterdir())


@stand_in
class TestRecord:
    FEW = ("--in-range", 2, "--out-of-range", 2, "--invalid", 2)

    @pytest.mark.parametrize(
        ("action", "reason"),
        [
            ("sys.exit(3)", "crashed: the host ended with exit code 3"),
            (done("b''", flags=1), "bytes beside OutputTensor were written"),
            (failed(6, 0x8007000E), "initialize gave 0x8007000E"),
        ],
    )
    def test_what_gave_no_output_says_why(self, action: str, reason: str, tmp_path: Path) -> None:
        folder = tmp_path / "recorded"
        found = script("record.py", folder, "--host", fake_folder(tmp_path, action), *self.FEW)
        assert (found.returncode, found.stderr) == (0, "")
        for kind in ("in_range", "out_of_range"):
            ends = [(record["output_hex"], record["reason"]) for record in records(folder, kind)]
            assert ends == [(None, reason)] * 2

    @pytest.mark.parametrize(
        ("action", "verdict", "reason"),
        [
            ("sys.exit(3)", None, "crashed: the host ended with exit code 3"),
            (failed(3, 0x80070057), False, "CreateOperator gave 0x80070057"),
            (done("b''"), True, None),
        ],
    )
    def test_verdicts(
        self, action: str, verdict: bool | None, reason: str | None, tmp_path: Path
    ) -> None:
        few = ("--in-range", 0, "--out-of-range", 0, "--invalid", 2)
        script("record.py", tmp_path, "--host", fake_folder(tmp_path, action), *few)
        ends = [(r["directml_accepts"], r.get("reason")) for r in records(tmp_path, "invalid")]
        assert ends == [(verdict, reason)] * 2

    @live
    def test_the_recordings_are_made_again(self, tmp_path: Path) -> None:
        counts = {"in_range": 60, "out_of_range": 60, "invalid": 32}
        options = [str(o) for k, n in counts.items() for o in (f"--{k.replace('_', '-')}", n)]
        found = script("record.py", tmp_path, *options)
        assert found.returncode == 0, found.stderr
        for kind, count in counts.items():
            assert records(tmp_path, kind) == records(OBSERVED, kind)[:count]


@stand_in
class TestValidity:
    def test_what_directml_refuses_must_be_refused(self, tmp_path: Path) -> None:
        host = fake_folder(tmp_path, failed(3, 0x80070057))
        found = script("validity.py", "--count", 64, "--host", host)
        assert found.returncode == 1
        assert "\nFINDING (none), refused: CreateOperator gave 0x80070057 {" in found.stdout

    def test_what_crashes_it_must_be_refused(self, tmp_path: Path) -> None:
        host = fake_folder(tmp_path, "sys.exit(3)")
        found = script("validity.py", "--count", 16, "--host", host)
        assert found.returncode == 1
        assert "\nFINDING (none), crashed: the host ended with exit code 3 {" in found.stdout

    def test_what_directml_accepts_must_have_a_reason(self, tmp_path: Path) -> None:
        host = fake_folder(tmp_path, done("b''"))
        found = script("validity.py", "--count", 64, "--host", host)
        assert found.returncode == 1
        assert "\nFINDING ALIGNMENT, accepted:  {" in found.stdout
        assert "\nFINDING ND_BATCH_SIZES" not in found.stdout
        assert (
            "\n  ND_BATCH_SIZES: ONNX forbids it, and DirectML reads past a batch\n" in found.stdout
        )

    @live
    def test_directml_and_onnxgather_agree(self) -> None:
        found = script("validity.py", "--count", 640, "--seed", 3)
        assert (found.returncode, found.stderr) == (0, "")
        assert "\n640 descriptors, 0 findings, " in found.stdout


@debian
class TestSetup:
    def lane(self, folder: Path) -> Path:
        """Return a folder that looks as if setup.sh had made it."""
        lane = folder / "lane"
        for name in (".onnxgather-stamps", "root"):
            (lane / name).mkdir(parents=True)
        return lane

    def setup(self, *arguments: object, user: int = 0) -> tuple[int, str]:
        """Return the exit code of setup.sh and what it said of its failure."""
        drop = ["setpriv", f"--reuid={user}", "--clear-groups"] if user != os.getuid() else []
        command = [*drop, "bash", str(SCRIPTS / "setup.sh"), *map(str, arguments)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return found.returncode, found.stderr or found.stdout

    def test_it_is_for_root(self, tmp_path: Path) -> None:
        if os.getuid() == 0 and shutil.which("setpriv") is None:
            pytest.skip("no setpriv, to be somebody else")
        code, says = self.setup(tmp_path / "lane", user=os.getuid() or 65534)
        if code == 126 or code == 127:
            pytest.skip("somebody else cannot read this checkout")
        assert (code, says) == (1, "setup.sh: must be root, to mount and to change roots\n")

    @root
    def test_what_is_somebody_elses_stays(self, tmp_path: Path) -> None:
        (tmp_path / "stamps").mkdir()
        (tmp_path / "letters").write_text("dear", encoding="utf-8")
        says = f"setup.sh: {tmp_path} is not removed, as setup.sh did not make it\n"
        assert self.setup("--remove", tmp_path) == (1, says)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["letters", "stamps"]

    @root
    def test_a_folder_is_not_removed_with_what_was_put_into_it(self, tmp_path: Path) -> None:
        lane = self.lane(tmp_path)
        (lane / "letters").touch()
        says = f"setup.sh: {lane} stays, as it holds what setup.sh did not make\n"
        assert self.setup("--remove", lane) == (1, says)
        assert [path.name for path in lane.iterdir()] == ["letters"]

    @root
    @pytest.mark.parametrize("first", [True, False])
    def test_removing(self, first: bool, tmp_path: Path) -> None:
        lane = self.lane(tmp_path)
        arguments = ("--remove", lane) if first else (lane, "--remove")
        assert self.setup(*arguments) == (0, f"removed {lane}\n")
        assert not list(tmp_path.iterdir())

    def test_there_is_nothing_to_remove(self, tmp_path: Path) -> None:
        lane = tmp_path / "lane"
        says = f"there is no {lane}\n"
        assert self.setup("--remove", lane, user=os.getuid()) == (0, says)

    def test_an_option_that_it_does_not_know(self) -> None:
        code, says = self.setup("--fast", user=os.getuid())
        assert (code, says) == (1, "setup.sh: unknown option --fast\n")

    def test_two_folders(self) -> None:
        code, says = self.setup("a", "--remove", "b", user=os.getuid())
        assert (code, says) == (1, "setup.sh: takes one folder, got 2: a b\n")

    def test_no_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        says = "setup.sh: needs a folder, as neither XDG_CACHE_HOME nor HOME is set\n"
        assert self.setup(user=os.getuid()) == (1, says)

    @root
    @pytest.mark.parametrize("signal", ["TERM", "INT", "HUP"])
    @pytest.mark.parametrize("send", ["kill", "killpg"])
    def test_a_signal_ends_what_it_started(
        self, send: str, signal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # apt-get waits, with a child of its own.
        begun = tmp_path / "begun"
        apt = f"trap '' TERM INT HUP\nsleep 100 &\necho $$ $! >{begun}.part\n"
        apt += f"mv {begun}.part {begun}\nwait\n"
        self.programs(tmp_path, monkeypatch, {"apt-get": apt})
        lane = tmp_path / "lane"
        # Past the step that may need no apt-get.
        self.lane(tmp_path)
        (lane / ".onnxgather-stamps" / "debootstrap").touch()
        command = ["bash", str(SCRIPTS / "setup.sh"), str(lane)]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command,
            stderr=pipe,
            stdout=pipe,
            start_new_session=True,
            # A suite run by `&` ignores SIGINT, and a shell cannot trap what it ignores.
            preexec_fn=lambda: signals.signal(signals.SIGINT, signals.SIG_DFL),
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
        assert not [one for one in begun.read_text().split() if self.alive(one)]

    @root
    def test_what_is_out_of_date_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A machine without package lists, and a root of the files that setup.sh expects in one.
        lane = tmp_path / "lane"
        apt = f'case "$*" in\n*" Dir::State::Lists={lane}/"*) ;;\n'
        apt += "*download*) exit 100 ;;\n*) exit ;;\nesac\n"
        apt += 'case "$*" in *indextargets*) echo "Debian Debian http://mirror" ;; esac\n'
        files = "/etc/apt/apt.conf.d /etc/dpkg/dpkg.cfg.d /etc/ssl /prefix"
        unshare = f"[ -d {lane}/.onnxgather-stamps ] || exit 0\n"
        unshare += "".join(f"mkdir -p {lane}/root{name}\n" for name in files.split())
        unshare += f"echo vulkan >{lane}/root/prefix/user.reg\n"
        unshare += 'case "$*" in *" --example") echo an answer ;; esac\n'
        self.programs(tmp_path, monkeypatch, {"apt-get": apt, "unshare": unshare})
        command = ["bash", str(SCRIPTS / "setup.sh"), str(lane)]

        def made() -> list[str]:
            """Return the steps that setup.sh took."""
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (found.returncode, found.stderr) == (0, "")
            first, *lines, answer, ready = found.stdout.splitlines()
            assert (first, answer) == (f"DirectML.dll in {lane}", "an answer")
            assert ready.endswith(f" s: {lane}/run-host")
            return [line.split()[0] for line in lines if not line.endswith(": done before")]

        everything = [
            "debootstrap,",
            "Debian",
            "Wine,",
            "Wine's",
            "DirectML.dll",
            "host.exe",
            "One",
        ]
        assert made() == everything
        assert made() == ["One"]
        stamps = lane / ".onnxgather-stamps"
        now = sorted(path.name for path in stamps.iterdir())
        for kind, steps in {
            "root": everything[1:],
            "packages": ["Wine,", "Wine's", "host.exe", "One"],
            "wheels": ["DirectML.dll", "One"],
            "host": ["host.exe", "One"],
        }.items():
            (stamp,) = stamps.glob(f"{kind}-*")
            stamp.rename(stamps / f"{kind}-older")
            assert made() == steps
            # The older stamp is gone, so that what it stands for would be made again.
            assert sorted(path.name for path in stamps.iterdir()) == now

    @staticmethod
    def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, bodies: dict[str, str]) -> None:
        """Put programs first on the path; those that setup.sh needs do nothing otherwise."""
        programs = folder / "programs"
        programs.mkdir()
        for name in ("dpkg-deb", "wget", "gpgv", "unshare", "python3", "apt-get"):
            body = "#!/bin/sh\n" + bodies.get(name, "")
            (programs / name).write_text(body, encoding="utf-8")
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    @staticmethod
    def alive(identifier: str) -> bool:
        """Return whether a program runs; one that ended may still wait for its parent."""
        try:
            stat = Path("/proc", identifier, "stat").read_text(encoding="utf-8")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] != "Z"
