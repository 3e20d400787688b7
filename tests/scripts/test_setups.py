"""What each script that sets up lanes refuses in the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT

from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="directml's setup.sh is for Debian"
)

NAMES = ("directml", "runtimes", "web")
LANES = {
    "directml": "directml-dll, directml, cpu@windows or webgpu",
    "runtimes": f"one of {' '.join(OTHER_RUNTIMES)}",
    "web": "one of web-wasm web-webgpu web-webnn webnn",
}


def refused(name: str, *arguments: str, **variables: str) -> str:
    """Return what setup.sh says, which refuses its arguments."""
    path = ROOT / "scripts" / name / "setup.sh"
    command = ["/bin/bash", str(path), *arguments]
    env = {"PATH": "/usr/bin:/bin", **variables}
    ran = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (ran.returncode, ran.stdout) == (1, "")
    return ran.stderr


@pytest.mark.parametrize("name", NAMES)
def test_options_that_there_are_not(name: str) -> None:
    for arguments, message in (
        (["--quick"], "unknown option --quick"),
        (["--lanes"], "--lanes must have names behind it"),
        (["--lanes", "cpu", "/a"], f'a lane must be {LANES[name]}, got "cpu"'),
        (["a", "b"], "takes one folder, got 2: a b"),
        (["a", "--remove", "b"], "takes one folder, got 2: a b"),
        ([], "needs a folder, as neither XDG_CACHE_HOME nor HOME is set"),
    ):
        assert refused(name, *arguments) == f"setup.sh: {message}\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_with_other_files_is_neither_filled_nor_removed(
    name: str, tmp_path: Path
) -> None:
    if name == "directml" and os.getuid() != 0:
        pytest.skip("setup.sh needs root")
    (tmp_path / "stamps").mkdir()
    (tmp_path / "letters").write_text("dear", "utf-8")
    folder = str(tmp_path)
    cache = {"XDG_CACHE_HOME": folder}
    says = f"setup.sh: {folder} holds files that setup.sh did not make\n"
    assert refused(name, folder, **cache) == says
    says = f"setup.sh: {folder} is not removed, as setup.sh did not make it\n"
    assert refused(name, "--remove", folder, **cache) == says
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letters", "stamps"]
