"""The mistakes that are planted into the audit, and what counts as caught."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT
from planted import AUDITING, FILES, PARTS, TESTS, mistakes

CODE = '''
@computes("Add", numbers=False)
def rule(a: tuple[int, 2]) -> int | None:
    """Add one."""
    if a[0] < 2 and known:
        return max(-a, b)
    return [x - 1 for x in a if x]
'''


def test_a_mistake_is_another_comparison_constant_sign_branch_or_name() -> None:
    assert [
        str(mistake).removeprefix("file: ") for mistake in mistakes("file", CODE)
    ] == [
        "if a[0] < 2 and known: => if not (a[0] < 2 and known):",
        "if a[0] < 2 and known: => if False:",
        "if a[0] < 2 and known: => if a[0] < 2 or known:",
        "if a[0] < 2 and known: => if known:",
        "if a[0] < 2 and known: => if a[0] < 2:",
        "if a[0] < 2 and known: => if a[0] <= 2 and known:",
        "if a[0] < 2 and known: => if a[0] > 2 and known:",
        "if a[0] < 2 and known: => if a[1] < 2 and known:",
        "if a[0] < 2 and known: => if a[-1] < 2 and known:",
        "if a[0] < 2 and known: => if a[0] < 3 and known:",
        "if a[0] < 2 and known: => if a[0] < 1 and known:",
        "return max(-a, b) => return None",
        "return max(-a, b) => return min(-a, b)",
        "return max(-a, b) => return max(--a, b)",
        "return [x - 1 for x in a if x] => return None",
        "return [x - 1 for x in a if x] => return [x + 1 for x in a if x]",
        "return [x - 1 for x in a if x] => return [x - 2 for x in a if x]",
        "return [x - 1 for x in a if x] => return [x - 0 for x in a if x]",
        "return [x - 1 for x in a if x] => return [x - 1 for x in a]",
        "@computes('Add', numbers=False) => @computes('Nothing', numbers=False)",
        "@computes('Add', numbers=False) => @computes('Add', numbers=True)",
    ]


def planted(
    tmp_path: Path, test: str, *mistakes: str
) -> subprocess.CompletedProcess[str]:
    """Run the script with some mistakes and one test."""
    tmp_path.joinpath("test_one.py").write_text(test)
    tmp_path.joinpath("again").write_text("\n".join(mistakes))
    command = [sys.executable, "scripts/planted.py", "--again", str(tmp_path / "again")]
    command += ["--tests", str(tmp_path / "test_one.py")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


TEST = """
from onnxgather.auditing.algebra.sizes import Size, Symbol

def test_one():
    assert not Size({(Symbol("n", 1),): 1}) < 0
"""
STRICT = (
    "algebra/sizes: return never_negative(other - self - 1)"
    " => return never_negative(other + self - 1)"
)
LOOSE = (
    "algebra/sizes: return never_negative(other - self - 1)"
    " => return never_negative(other - self - 2)"
)


def test_the_files_their_functions_and_the_tests_are_there() -> None:
    for file in FILES:
        tree = ast.parse((AUDITING / f"{file}.py").read_text("utf-8"))
        names = {getattr(statement, "name", "") for statement in tree.body}
        assert names.issuperset(PARTS.get(file, ()))
    assert {*PARTS} <= {*FILES}
    for test in TESTS:
        assert (ROOT / f"tests/auditing/{test}.py").is_file()


@pytest.mark.slow
def test_a_mistake_that_a_test_sees_is_caught_and_another_one_is_printed(
    tmp_path: Path,
) -> None:
    run = planted(tmp_path, TEST, STRICT, LOOSE)
    assert (run.returncode, run.stdout) == (1, LOOSE + "\n")
    assert "test_one.py::test_one: line" in run.stderr
    assert "'caught': 1" in run.stderr


@pytest.mark.slow
def test_without_a_mistake_the_tests_must_pass(tmp_path: Path) -> None:
    run = planted(tmp_path, "def test_one():\n    assert False\n")
    assert (run.returncode, run.stdout) == (2, "")
    assert "AssertionError" in run.stderr
