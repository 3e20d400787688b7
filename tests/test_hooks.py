"""The GitHub Action and the pre-commit hook: what they run, as neither runs here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from command_line import output_of
from folders import MODELS, ROOT

ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
HOOK = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
NETWORKS = MODELS / "networks"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the script is for bash")
@pytest.mark.parametrize(
    ("models", "options", "code", "summary"),
    [
        (f"{NETWORKS}/keywo*.onnx", "", 0, "## "),
        (f"{NETWORKS}/keywords.onnx", "--fail-on proved-if", 1, "## "),
        ("none.onnx", "", 2, ""),
    ],
)
def test_the_script_of_the_action_audits(
    tmp_path: Path, models: str, options: str, code: int, summary: str
) -> None:
    command = tmp_path / "bin" / "onnxgather"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m onnxgather "$@"\n')
    command.chmod(0o755)
    told = tmp_path / "summary.md"
    told.write_text("before\n")
    given = {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(told),
        "MODELS": models,
        "OPTIONS": options,
    }
    script = textwrap.dedent(ACTION.rpartition("run: |\n")[2])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert told.read_text().startswith(f"before\n{summary}")
    assert (told.read_text() == "before\n") == (not summary)


def test_the_action_uses_each_input_and_no_other() -> None:
    declared = re.findall(r"^  (\w+):\n    description:", ACTION, re.MULTILINE)
    assert declared == ["models", "options", "package"]
    assert set(re.findall(r"inputs\.(\w+)", ACTION)) == {*declared}
    # no input becomes a part of the script
    assert "${{" not in ACTION.rpartition("run: |\n")[2]


def test_the_entry_of_the_hook_takes_the_files_that_it_is_for() -> None:
    entry, files = (
        re.findall(rf"^  {key}: (.+)$", HOOK, re.MULTILINE)
        for key in ("entry", "files")
    )
    assert (entry, files) == (["onnxgather audit"], [r"\.onnx$"])
    out = output_of("audit", *map(str, sorted(NETWORKS.glob("*.onnx"))))
    assert "keywords.onnx" in out


def test_the_action_says_that_it_has_not_run() -> None:
    assert " has not run " in ACTION.splitlines()[0]
