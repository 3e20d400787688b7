"""The script that compares the kernels of another processor with the reference, run
without one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import emulated
import pytest
from rings import one_quick_in

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler"
)
HERE = ["--cc", "cc", "--emulator", ""]


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, list[str], str]:
    """Run the script; return the exit code, and what it says."""
    monkeypatch.setattr(sys, "argv", ["emulated.py", *arguments])
    code = emulated.main()
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


@pytest.mark.slow
def test_the_kernels_of_this_machine_answer_as_the_reference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = run(monkeypatch, capsys, "--count", "400", *HERE)
    assert (code, lines[-1]) == (0, "400 gathers, 0 differences")


@pytest.mark.slow
def test_a_mistake_planted_in_the_kernels_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(emulated.NATIVE, tmp_path / "kernels")
    text = (folder / "tiles.h").read_text()
    assert text.count("value + (size & negative)") == 1
    (folder / "tiles.h").write_text(text.replace("value + (size & negative)", "value"))
    monkeypatch.setattr(emulated, "NATIVE", folder)
    code, lines, _ = run(monkeypatch, capsys, "--count", "400", *HERE)
    assert code == 1
    assert lines[-1].startswith("400 gathers, ")
    assert lines[-1] != "400 gathers, 0 differences"


@pytest.mark.parametrize("count", one_quick_in(3, ["0", "-5", "1.5"]))
def test_a_count_is_a_number_from_1_on(count: str) -> None:
    command = [sys.executable, emulated.__file__, "--count", count]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    said = (
        f"emulated.py: error: argument --count: must be a number from 1 on, got {count}"
    )
    assert done.stderr.splitlines()[-1] == said


def test_without_the_compiler_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing: dict[str, None] = {}
    monkeypatch.setattr(emulated, "find_spec", nothing.get)
    said = "emulated.py: ziglang is not installed: pip install -e '.[wheels]'\n"
    assert run(monkeypatch, capsys) == (2, [], said)


@pytest.mark.slow
def test_sources_that_do_not_compile_are_told_by_the_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--cc", "cc -DMOST_LOOPS=nonsense -Dmain=main(", "--emulator", ""]
    code, lines, said = run(monkeypatch, capsys, *asked)
    assert (code, lines, said) == (2, [], "emulated.py: the compiler ended with 1\n")


def test_a_program_that_ends_early_is_a_difference(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.stdout.write('f12'); sys.exit('no memory')")
    asked = [("one", b"", b"f12"), ("two", b"", b"f3"), ("three", b"", b"o")]
    assert [*emulated.differing([sys.executable, str(program)], asked)] == [
        "two",
        f"{sys.executable} ended with 1 and 3 bytes: no memory",
    ]


@pytest.mark.slow
def test_an_emulator_that_is_not_there_is_one_sentence() -> None:
    command = [
        sys.executable,
        emulated.__file__,
        "--cc",
        "cc",
        "--emulator",
        "/nonexistent/qemu",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "emulated.py: /nonexistent/qemu: No such file or directory\n",
    )
