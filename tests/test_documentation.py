"""What the README and the other pages say is so."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from rlcompleter import Completer
from typing import Any

import click
import numpy as np
import pytest
from click import shell_completion
from click.testing import CliRunner
from folders import ROOT
from runtime_faults import CPU_COMPARES_HALVES

import onnxgather as og
from onnxgather.cli import main
from onnxgather.cli.commands import find_command
from onnxgather.options import OPSETS
from onnxgather.parity.corpus import built_in_cases

README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_python_blocks_of_the_readme_run() -> None:
    block = "".join(re.findall(r"```python\n(.+?)```", README, re.DOTALL))
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    (promised,) = re.findall(r"# (\[\[.+\]\])", block)
    assert names["result"].tolist() == eval(promised)
    assert names["model"].producer_name == "onnxgather"


def _commands() -> list[list[str]]:
    """Return the arguments of each onnxgather command in the blocks for shells."""
    blocks = re.findall(r"```sh\n(.+?)```", README, re.DOTALL)
    lines = [part for block in blocks for part in re.split(r"\n|&&", block)]
    found = [shlex.split(line) for line in lines]
    return [words[1:] for words in found if words and words[0].endswith("onnxgather")]


@pytest.mark.parametrize("arguments", _commands(), ids=" ".join)
def test_commands_of_the_readme_are_good_usage(arguments: list[str]) -> None:
    name, *rest = arguments
    with find_command(name).make_context(name, rest, parent=click.Context(main)) as context:
        assert context.params


def test_table_of_commands_is_that_of_the_program() -> None:
    (block,) = re.findall(r"```\n(onnxgather convert.+?)```", README, re.DOTALL)
    for line in block.splitlines():
        usage, told = re.split(r" {2,}", line)
        _, name, *words = usage.split()
        command, listed = find_command(name), main.commands[name]
        if isinstance(command, click.Group):
            command = listed = command.commands[words[0]]
        assert listed.get_short_help_str(80).lower().startswith(told.split()[0]), line
        options = {flag for parameter in command.params for flag in parameter.opts}
        assert {word.strip("[]") for word in words if word.strip("[").startswith("-")} <= options
    assert sorted(line.split()[1] for line in block.splitlines()) == sorted(main.commands)


def test_readme_program_prints_what_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    ((path, promised),) = re.findall(r"onnxgather run (\S+)\n```\n\n```\n(.+?\n)```", README)
    with pytest.raises(SystemExit, match="0"):
        main(["run", str(ROOT / path)], prog_name="onnxgather")
    assert capsys.readouterr() == (promised, "")


SAID = re.findall(
    r"```sh\n(onnxgather \w+ models/networks[^\n]+)\n```\n\n```\n(.+?\n)```", README, re.DOTALL
)


@pytest.mark.parametrize(("command", "promised"), SAID, ids=[line.split()[1] for line, _ in SAID])
def test_readme_says_what_the_commands_say_of_a_model(
    command: str, promised: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "models" / "networks", tmp_path / "models" / "networks")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, shlex.split(command)[1:], catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, promised)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_line_that_switches_completion_on_prints_a_script(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"_ONNXGATHER_COMPLETE={shell}_source onnxgather" in README
    monkeypatch.setenv("_ONNXGATHER_COMPLETE", f"{shell}_source")
    monkeypatch.setattr(shell_completion.BashComplete, "_check_version", staticmethod(lambda: None))
    with pytest.raises(SystemExit, match="0"):
        main([], prog_name="onnxgather")
    assert f"_ONNXGATHER_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_readme_counts_the_models_and_the_corpus() -> None:
    assert len(list((ROOT / "models").glob("*.json"))) == 16
    assert "`models/` has sixteen" in README
    names = {case.name for case in built_in_cases()}
    assert f"`--corpus` is {len(names):,} cases" in README
    assert f"a corpus of {len(names):,} cases" in CHANGELOG
    (case,) = re.findall(r"repro report.json --case (\S+)", README)
    assert case in names


def test_readme_and_changelog_name_the_policies_and_opsets() -> None:
    for policy in ("clamp", "error", "zero", "directml"):
        assert f'| `"{policy}"` |' in README
    assert f"opset {OPSETS[0]} to {OPSETS[-1]}" in CHANGELOG
    assert f"## {og.__version__}" in CHANGELOG


def test_a_session_completes_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run", "to_onnx"):  # as before their first use
        monkeypatch.delitem(vars(og), name, raising=False)
    assert dir(og) == [*sorted([*og.__all__, "__version__"])]
    completer = Completer({"og": og})
    for name in og.__all__:
        found = completer.attr_matches(f"og.{name}")
        assert any(match.rstrip("()") == f"og.{name}" for match in found), name


def test_examples_of_the_page_on_certificates_are_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "models", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "certificates.md").read_text(encoding="utf-8")
    found = re.findall(r"```(sh|python)\n([^`]+)```\n\n```\n([^`]+)```", page)
    assert [kind for kind, _, _ in found] == ["sh", "sh", "sh", "python"]
    for kind, example, promised in found:
        told = ""
        if kind == "python":
            exec(compile(example, "certificates.md", "exec"), {})
            told = capsys.readouterr().out
        for command in map(shlex.split, example.splitlines() if kind == "sh" else ()):
            if command[0] == "onnxslim":
                subprocess.run([sys.executable, "-m", *command], check=True, capture_output=True)
                continue
            result = CliRunner().invoke(main, command[1:], catch_exceptions=False)
            assert result.exit_code == 0
            told += result.output if command[1] == "certify" else ""
        # ONNX Runtime before 1.32 has the fault, and shows what it computes.
        cut = r" and InputTensor counts.+" if CPU_COMPARES_HALVES else "$^"
        assert re.sub(cut, "", told) == re.sub(cut, "", promised)


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|json|c|cpp|h|sh))`", text):
        places = (ROOT, ROOT / "onnxgather", ROOT / "onnxgather/native")
        assert any((place / path).exists() for place in places), path


def test_negative_zero_survives_out_of_range_zero() -> None:
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [2]),
        og.TensorDesc("INT32", [3]),
        og.TensorDesc("FLOAT32", [3]),
        axis=0,
        index_dimensions=1,
    )
    data = np.array([-0.0, 1], np.float32)
    result = og.run(desc, data, np.array([0, 1, 2], np.int32), "zero")
    assert result.tobytes() == np.array([-0.0, 1, 0], np.float32).tobytes()
