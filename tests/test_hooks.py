"""What the GitHub Action, the workflows and the pre-commit hook run: none runs here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from command_line import output_of
from folders import MODELS, ROOT

import onnxgather as og

ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
WORKFLOWS = {
    path.name: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github" / "workflows").iterdir())
}
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


NOT_SEEN = "# The digest of this tag was not seen."


@pytest.mark.parametrize("name", ["action.yml", *WORKFLOWS])
def test_each_action_has_the_digest_of_its_tag(name: str) -> None:
    lines = (ACTION if name == "action.yml" else WORKFLOWS[name]).splitlines()
    digests: dict[str, str] = {}
    for before, line in pairwise(lines):
        if "uses:" not in line:
            continue
        action, _, place = line.partition("uses: ")[2].partition("@")
        if before.strip().startswith(NOT_SEEN):
            assert re.fullmatch(r"v\d+\.\d+\.\d+", place), line
        else:
            assert re.fullmatch(r"[0-9a-f]{40} # v\d+\.\d+\.\d+", place), line
        assert digests.setdefault(action, place) == place
    assert "actions/setup-python" in digests


def test_the_pages_name_the_tags_of_the_workflows() -> None:
    tags = dict[str, str]()
    for text in WORKFLOWS.values():
        tags |= re.findall(r"uses: (actions/.+)@.+ # (.+)", text)
    named: list[str] = []
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for action, tag in re.findall(r"uses: (actions/.+)@(.+)", text):
            assert tag == tags[action], f"{page.name}: {action}"
            named.append(action)
    assert "actions/checkout" in named


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_the_checkout_alone(name: str) -> None:
    text = WORKFLOWS[name]
    assert "\npermissions:\n  contents: read\n\n" in text
    assert "\nconcurrency:\n" in text
    checkouts = text.count("actions/checkout@")
    assert text.count("\n          persist-credentials: false\n") == checkouts > 0
    # pip installs what is locked, or the checkout and its wheels.
    for options in re.findall(r"pip install (.+)", text):
        assert options.startswith(("--require-hashes ", "--no-deps "))
    # Only the upload gets a token, and it runs after the tests of the wheels.
    tokens = re.findall(
        r"\n  (\w+):\n    needs: \[wheels, tests\]\n(?s:.)*: write\n", text
    )
    assert (tokens, text.count(": write")) == (
        (["publish"], 1) if name == "wheels.yml" else ([], 0)
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the step is for bash")
def test_a_tag_that_is_not_the_version_is_told(tmp_path: Path) -> None:
    _, _, step = WORKFLOWS["wheels.yml"].partition("- name: The tag is the version\n")
    indented = step.partition("run: |\n")[2].partition("\n      - ")[0]
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "$@"\n')
    python.chmod(0o755)
    given = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def told(tag: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", indented],
            env={**os.environ, **given, "GITHUB_REF_NAME": tag},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    version = f"v{og.__version__}"
    assert told(version) == (0, "")
    wrong = f"{version}.dev1"
    assert told(wrong) == (1, f"the tag must be {version}, got {wrong}\n")
