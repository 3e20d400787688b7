"""The script that sets up the lanes in a browser, with stand-ins for npm and the
browser."""

from __future__ import annotations

import base64
import os
import re
import shlex
import shutil
import subprocess
import sys
from hashlib import sha512
from pathlib import Path

import pytest
from folders import ROOT

from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.core.execution.elsewhere.hosts import webnn_folder

SETUP = ROOT / "scripts" / "web" / "setup.sh"

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="setup.sh is for POSIX systems"
)

NPM = """
echo "$*" >>npm.txt
if [ "$1" = pack ]; then
    touch sparticuz-chromium-153.0.0.tgz
    exit
fi
mkdir -p node_modules/onnxruntime-web
echo '  "version": "1.30.0",' >node_modules/onnxruntime-web/package.json
"""

NODE = """
echo "$*" >>node.txt
echo 'echo Chromium 153' >chromium
chmod +x chromium
"""

LINUX = "echo Linux x86_64"

USED = "cat chmod cmp cp dirname grep ls mkdir rm rmdir sed tail touch"

PROGRAMS = {"chromium": "", "npm": NPM, "node": NODE, "uname": LINUX}


def setup(
    folder: Path, *arguments: str, programs: dict[str, str] | None = None, **more: str
) -> tuple[int, str, str]:
    """Run setup.sh with some programs alone; return its exit code and what it
    printed."""
    there = folder / "bin"
    there.mkdir(exist_ok=True)
    for name in USED.split():
        if not (there / name).exists():
            (there / name).symlink_to(str(shutil.which(name)))
    for name, text in (programs or {}).items():
        (there / name).write_text(f"#!/bin/bash\n{text}\n", "utf-8")
        (there / name).chmod(0o755)
    env = {"PATH": str(there), "XDG_CACHE_HOME": str(folder / "cache"), **more}
    command = ["/bin/bash", str(SETUP), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    return ran.returncode, ran.stdout, ran.stderr


def test_it_makes_the_folder_and_removes_it(tmp_path: Path) -> None:
    programs = PROGRAMS
    web = tmp_path / "cache/onnxgather/web"
    code, out, errors = setup(tmp_path, programs=programs)
    assert (code, errors) == (0, "")
    assert out.splitlines()[0] == f"browser: {tmp_path}/bin/chromium"
    assert out.splitlines()[1].startswith("onnxruntime-web, by npm (148 MB) ... ")
    assert out.splitlines()[2] == f"{web} has onnxruntime-web 1.30.0"
    step = "Chromium 153.0.0 with WebNN, by npm (211 MB) ... "
    assert out.splitlines()[3].startswith(step)
    assert out.splitlines()[4:] == [
        f"{web} has Chromium 153.0.0 with WebNN",
        (
            "Ready: onnxgather check --corpus --shard 1/15 --lanes"
            " web-wasm,web-webgpu,web-webnn,webnn"
        ),
    ]
    assert (web / "npm.txt").read_text() == "ci --ignore-scripts --no-audit --no-fund\n"
    code, out, _ = setup(tmp_path, programs=programs)
    assert (code, "onnxruntime-web: done before\n" in out) == (0, True)
    assert "Chromium with WebNN: done before\n" in out
    pack = "pack --ignore-scripts @sparticuz/chromium@153.0.0\n"
    assert (web / "chromium/npm.txt").read_text() == pack
    script = SETUP.parent / "chromium.mjs"
    unpack = f"{script} sparticuz-chromium-153.0.0.tgz .\n"
    assert (web / "chromium/node.txt").read_text() == unpack
    assert not (web / "chromium/sparticuz-chromium-153.0.0.tgz").exists()
    (web / "npm.txt").unlink()
    assert setup(tmp_path, "--remove") == (0, f"removed {web}\n", "")
    assert setup(tmp_path, "--remove") == (0, f"there is no {web}\n", "")


def test_it_makes_the_named_lanes_alone(tmp_path: Path) -> None:
    web = tmp_path / "cache/onnxgather/web"
    programs = {name: PROGRAMS[name] for name in ("npm", "node", "uname")}
    code, out, errors = setup(tmp_path, "--lanes", "webnn", programs=programs)
    assert (code, errors) == (0, "")
    ready = "Ready: onnxgather check --corpus --shard 1/15"
    assert out.splitlines()[2:] == [f"{ready} --lanes webnn"]
    assert not (web / "node_modules").exists()
    code, out, _ = setup(tmp_path, "--lanes=web-webnn", programs=programs)
    assert (code, (web / "node_modules").exists()) == (0, True)
    assert "browser: " not in out


def test_its_last_line_names_a_folder_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "a folder"
    arguments = ["--lanes", "web-wasm,webnn", str(own)]
    code, out, errors = setup(tmp_path, *arguments, programs=PROGRAMS)
    assert (code, errors) == (0, "")
    ready, *words = shlex.split(out.splitlines()[-1])
    assert (ready, words) == (
        "Ready:",
        [
            *("onnxgather", "check", "--corpus", "--shard", "1/15"),
            *("--lane", f"web-wasm={own}", "--lane", f"webnn={own}"),
        ],
    )
    lanes = open_lanes([], {"web-wasm": str(own), "webnn": str(own)})
    commands = [lane.host for lane in lanes if isinstance(lane, ModelLane)]
    assert [command[-1] for command in commands] == [
        str(own / "node_modules/onnxruntime-web"),
        str(own / "chromium"),
    ]
    library = str(own / "node_modules/onnxruntime-web")
    assert webnn_folder(library) == own / "chromium"


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    def fails(why: str, *arguments: str, programs: dict[str, str], **more: str) -> None:
        code, _, errors = setup(tmp_path, *arguments, programs=programs, **more)
        assert (code, errors) == (1, f"setup.sh: {why}\n")

    no = "CHROMIUM names /no/browser, which is no program"
    fails(no, programs={}, CHROMIUM="/no/browser")
    needs = (
        "needs Chromium, which root gets by: apt-get install --no-install-recommends"
        " chromium"
    )
    fails(needs, programs={})
    needs = "needs npm, which root gets by: apt-get install --no-install-recommends npm"
    fails(needs, programs={"chromium": ""})
    log = tmp_path / "cache/onnxgather/web/setup.log"
    why = (
        '"onnxruntime-web, by npm (148 MB)" failed: npm error 404 (full output:'
        f" {log}; "
    )
    npm = {"chromium": "", "npm": "echo npm error 404 >&2; exit 1"}
    needs = (
        "Chromium with WebNN is for Linux on x86-64, got Darwin arm64; leave web-webnn"
        " and webnn out of --lanes"
    )
    mac = {"uname": "echo Darwin arm64"}
    fails(needs, "--lanes", "webnn", programs=mac)
    fails(f"{why}run again to go on)", programs=npm)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_an_archive_of_something_else_is_not_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "archive.tgz"
    archive.write_bytes(b"")
    script = SETUP.parent / "chromium.mjs"
    text = script.read_text("utf-8")
    (digest,) = re.findall(r'SHA512 = "(.*)"', text)
    command = ["node", str(script), str(archive), str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    empty = base64.b64encode(sha512(b"").digest()).decode()
    rule = f"{archive} must be @sparticuz/chromium 153.0.0, of SHA-512 {digest}"
    assert (ran.returncode, ran.stderr) == (1, f"{rule}, got {empty}\n")
    assert [*tmp_path.iterdir()] == [archive]


def test_the_packages_are_locked(tmp_path: Path) -> None:
    text = (SETUP.parent / "package-lock.json").read_text("utf-8")
    packages = text.count('"version":')
    assert packages == text.count('"integrity": "sha512-') > 10
    assert "http" not in text  # the machine's registry has them
    assert os.access(SETUP, os.X_OK)
