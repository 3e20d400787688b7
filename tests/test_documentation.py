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
from unittest.mock import Mock

import cli_page
import click
import numpy as np
import pytest
from click import shell_completion
from click.testing import CliRunner
from corpus_cases import corpus
from folders import ROOT
from page_blocks import BLOCKS, PAGES, Block
from picture import PICTURE
from rings import but_slow
from runtime_faults import CPU_COMPARES_HALVES

import onnxgather as og
from onnxgather.cli import main
from onnxgather.cli.commands import find_command
from onnxgather.cli.terminal import Progress
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.options import OPSETS
from onnxgather.core.programs.program import read_program
from onnxgather.core.version import SUMMARY

README = (ROOT / "README.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


ELSEWHERE = {"parts.md": "tests/core/model/test_libraries.py"}
"""Pages whose blocks another file of tests runs."""
PARITY = "parity-tests.md"
NOT_RUN = [
    block
    for block in BLOCKS
    if block.mark.startswith("not run: ")
    # .ci/run has these commands
    or (block.page == "README.md" and block.text.startswith("python3 -m venv"))
]
HAS_LIBRARY = operators_library() is not None
ON_PROVIDER = [
    block
    for block in BLOCKS
    if block.page == "provider.md"
    or "og.add_provider" in block.text
    or "under clamp" in (block.output or "")
]
"""The blocks that need onnxgather's library for ONNX Runtime."""
RUN = [
    block
    for block in BLOCKS
    if block not in NOT_RUN
    and block.page not in ELSEWHERE
    and (HAS_LIBRARY or block not in ON_PROVIDER)
]


def _run(words: list[str]) -> tuple[int, str]:
    """Return the exit code of a command, and what it prints."""
    if words[0] in ("onnxslim", "pytest"):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout
    if words[0] == "python":
        command = [sys.executable, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout
    assert words[0] == "onnxgather", f"a block with {words[0]} must say where it runs"
    result = CliRunner().invoke(main, words[1:])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    "page",
    but_slow(
        [
            *("certificates.md", "examples.md", "install.md", "models.md"),
            *("parity-tests.md", "provider-ci.md", "runtimes.md", "tutorial.md"),
            "wpt.md",
        ],
        sorted({block.page for block in RUN}),
    ),
)
def test_blocks_of_a_page_print_what_the_page_says(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They run in their order, in one folder, with the same names of Python.

    A block with the mark `file: NAME` is a file of that name, for later commands.
    """
    shutil.copytree(ROOT / "models", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    # A slow machine has lines of progress.
    monkeypatch.setattr(Progress, "show", Mock())
    # Other tests leave rows in the report, of which a process has one.
    if HAS_LIBRARY:
        og.provider_report(reset=True)
    names: dict[str, Any] = {}
    for block in RUN:
        if block.page != page:
            continue
        if block.mark.startswith("file: "):
            name = block.mark.removeprefix("file: ")
            (tmp_path / name).write_text(block.text, encoding="utf-8")
            said = ""
        elif block.kind == "python":
            exec(compile(block.text, page, "exec"), names)
            said = capsys.readouterr().out
        else:
            done = [_run(words) for words in block.commands]
            codes = [
                int(code) for code in block.mark.removeprefix("exit codes: ").split()
            ]
            assert [code for code, _ in done] == (codes or [0] * len(done)), done
            said = "".join(output for _, output in done)
        if block.output is not None:
            promised = block.output
            # the runtime has the fault, and shows what it computes
            if CPU_COMPARES_HALVES:
                cut = r" and InputTensor counts.+"
                said, promised = re.sub(cut, "", said), re.sub(cut, "", promised)
            # A page names the newest version.
            version = r"ONNX Runtime \d+\.\d+\.\d+"
            said = re.sub(version, "ONNX Runtime", said)
            promised = re.sub(version, "ONNX Runtime", promised)
            pieces = re.split(r"^\.\.\.\n|\.\.\.", promised, flags=re.MULTILINE)
            pattern = ".*".join(map(re.escape, pieces))
            assert re.fullmatch(pattern, said, re.DOTALL), f"{block.text}prints\n{said}"


@pytest.mark.parametrize(
    "block", NOT_RUN, ids=lambda block: f"{block.page}: {block.mark or '.ci/run'}"
)
def test_block_that_does_not_run_here_is_good_usage(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block.kind == "python":
        (path,) = re.findall(r"not run: (\S+) runs it", block.mark)
        assert (ROOT / path).exists()
        return
    for name, *words in block.commands:
        if name == "onnxgather":
            parent = click.Context(main, **main.context_settings)
            # this test lacks the files of the lanes
            with monkeypatch.context() as there:
                there.setattr("os.path.exists", bool)
                command = find_command(words[0])
                with command.make_context(
                    words[0], words[1:], parent=parent
                ) as context:
                    assert context.params
        elif name == "python" and words[0] == "-m":
            # Python or an extra of the package brings the module.
            extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
            assert words[1] in sys.stdlib_module_names or words[1] in extras
        elif name == "python":
            assert (ROOT / words[0]).exists()
        elif name.startswith("scripts/"):
            assert (ROOT / name).exists()


@pytest.mark.slow
def test_the_workflow_of_parity_tests_runs_on_lanes_that_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.mark: block.text for block in BLOCKS if block.page == PARITY}
    (tmp_path / "test_gathers.py").write_text(files["file: test_gathers.py"], "utf-8")
    shutil.copytree(ROOT / "models", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"-m (pytest .+)", files["file: parity.yml"])
    assert len(lines) == 2
    for line in lines:
        # The lanes that a user sets up are lanes on the CPU here.
        line = line.replace(
            "openvino=../openvino/bin/python", f"cpu@2={sys.executable}"
        )
        line = line.replace("cpu,directml", "cpu,cpu@2")
        assert "cpu@2" in line
        code, said = _run(shlex.split(line))
        assert (code, "33 passed" in said) == (0, True), said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_sentences_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    spans = re.findall(r"`((?:onnxgather|python) [^`\n]+)`", text)
    spans += re.findall(r"run: (onnxgather [^\n]+)", text)  # of workflows
    for program, name, *words in map(str.split, spans):
        if program == "python":
            assert name == "-m" or (ROOT / name).exists(), name
        elif name != "COMMAND":
            command = find_command(name)
            if isinstance(command, click.Group):
                command = command.commands[words[0]]
            options = {flag for parameter in command.params for flag in parameter.opts}
            named = {word.partition("=")[0] for word in words if word.startswith("-")}
            assert named <= options, (
                name,
                words,
            )


def test_the_first_sentence_is_that_of_the_package() -> None:
    sentence = f"**onnxgather t{SUMMARY.removeprefix('T')}**"
    assert README.split("\n\n")[1].startswith(sentence)
    assert (og.__doc__ or "").startswith(SUMMARY)
    assert (main.help or "").startswith(SUMMARY)


def test_readme_and_pages_name_the_structs_of_the_header() -> None:
    page = (ROOT / "docs" / "migrate-directml.md").read_text(encoding="utf-8")
    for operator in og.OPERATORS:
        assert f"`DML_{operator}_OPERATOR_DESC`" in README
        assert f"`DML_{operator}_OPERATOR_DESC`" in page


def test_each_public_name_stands_on_the_page_on_python() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = "".join(re.findall(r"^\|.*", page, re.MULTILINE))
    assert set(og.__all__) == set(re.findall(r"`(\w+)`", rows)) & {*dir(og)}


def test_the_page_of_commands_is_what_their_help_says() -> None:
    assert cli_page.PAGE.read_text(encoding="utf-8") == cli_page.page()


def test_the_picture_of_a_translation_is_what_the_package_computes() -> None:
    text = (ROOT / "docs" / "translation.svg").read_text(encoding="utf-8")
    program = read_program(str(ROOT / "models" / "gather_2_concatenate_rows.json"))
    (dispatch,) = program.dispatches
    assert dispatch.data is not None
    assert dispatch.indices is not None
    desc = dispatch.descriptor
    output = og.reference(desc, dispatch.data, dispatch.indices)
    words = [f"DML_{desc.operator}_OPERATOR_DESC gather = {{"]
    for tensor in (desc.input_tensor, desc.indices_tensor, desc.output_tensor):
        sizes = ", ".join(map(str, tensor.sizes))
        words.append(f"// {tensor.data_type} {{{sizes}}}")
    words += ["// Axis", "// IndexDimensions", "};", "IndicesTensor"]
    for node in og.to_onnx(desc).graph.node:
        axis = [f" axis={attribute.i}" for attribute in node.attribute][:1]
        is_gather = node.op_type == "Gather"
        words.append(node.op_type + (axis[0] if is_gather else ""))
    for name, array in (
        ("InputTensor", dispatch.data),
        ("IndicesTensor", dispatch.indices),
        ("OutputTensor", output),
    ):
        words += [name, *(f"{value:g}" for value in array.reshape(-1))]
    drawn = iter(re.findall("<text[^>]*>([^<]*)</text>", text))
    missing = [word for word in words if word not in drawn]
    assert missing == []
    assert "](docs/translation.svg)" in README
    # A picture in a page must load nothing.
    assert not re.search(r"url\((?!#)|href", text)


def test_the_picture_of_an_index_out_of_range_is_small() -> None:
    picture = PICTURE.read_bytes()
    assert "](docs/picture.png)" in README
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 150_000


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_line_that_switches_completion_on_prints_a_script(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"_ONNXGATHER_COMPLETE={shell}_source onnxgather" in page
    monkeypatch.setenv("_ONNXGATHER_COMPLETE", f"{shell}_source")
    monkeypatch.setattr(
        shell_completion.BashComplete, "_check_version", staticmethod(lambda: None)
    )
    with pytest.raises(SystemExit, match="0"):
        main([], prog_name="onnxgather")
    assert f"_ONNXGATHER_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


def test_readme_counts_the_models_and_the_corpus() -> None:
    assert len(list((ROOT / "models").glob("*.json"))) == 16
    assert "such as the sixteen of `models/`" in README
    names = {case.name for case in corpus()}
    page = (ROOT / "docs" / "provider-ci.md").read_text(encoding="utf-8")
    assert f"strides: {len(names):,} cases agree" in README
    assert f"`--corpus` is {len(names):,} cases" in page
    assert f"a corpus of {len(names):,} cases" in CHANGELOG
    (case,) = re.findall(r"repro report.json --case (gather/\S+)", page)
    assert case in names


def test_a_page_and_the_changelog_name_the_policies_and_opsets() -> None:
    page = (ROOT / "docs" / "migrate-directml.md").read_text(encoding="utf-8")
    for policy in ("clamp", "error", "zero", "directml"):
        assert f'| `"{policy}"` |' in page
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_paths_of_a_page_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (page.parent / target).exists(), target
    for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*\.(?:py|json|c|cpp|h|sh))`", text):
        places = (ROOT, ROOT / "onnxgather", ROOT / "onnxgather/native")
        assert any((place / path).exists() for place in places), path


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    letters = re.sub(r"[^\w\- ]", "", heading.lower())
    return letters.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_in_the_links_of_a_page_are_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#([^)]+)\)", text):
        linked = page.parent / target if target else page
        prose = re.sub(r"```.*?```", "", linked.read_text("utf-8"), flags=re.DOTALL)
        headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
        assert anchor in map(_anchor, headings), f"{target}#{anchor}"


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
