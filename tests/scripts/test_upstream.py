"""The scripts of docs/upstream/ print what their pages say, with any version of ONNX
Runtime."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnxruntime
import pytest

UPSTREAM = Path(__file__).resolve().parents[2] / "docs" / "upstream"
PAGES = sorted(set(UPSTREAM.glob("*.md")) - {UPSTREAM / "README.md"})


def script_of(page: Path) -> Path:
    return page.with_name(page.stem.replace("-", "_") + ".py")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_script_prints_what_its_page_says(page: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-I", str(script_of(page))]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    version, _, printed = done.stdout.partition("\n")
    assert version == f"onnxruntime {onnxruntime.__version__}"
    blocks = re.findall(r"^```text\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    assert blocks == [printed]


def test_each_script_has_its_page_and_a_row() -> None:
    assert {script_of(page) for page in PAGES} == {*UPSTREAM.glob("*.py")}
    table = (UPSTREAM / "README.md").read_text("utf-8")
    for page in PAGES:
        assert f"({page.name}) | [{script_of(page).name}]" in table


def test_a_script_imports_onnxruntime_and_numpy_alone() -> None:
    imports = {
        name
        for page in PAGES
        for name in re.findall(
            r"^(?:import|from) (\w+)", script_of(page).read_text("utf-8"), re.M
        )
    }
    assert imports == {"base64", "numpy", "onnxruntime"}
