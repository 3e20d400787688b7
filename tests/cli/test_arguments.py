"""What a shell completes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from onnxgather.cli import main


def _completed(*words: str) -> list[tuple[str, str]]:
    """Return the kinds and the values of what the last word of a command line may
    become."""
    completion = ShellComplete(main, {}, "onnxgather", "_ONNXGATHER_COMPLETE")
    found = completion.get_completions(list(words[:-1]), words[-1])
    return [(item.type, item.value) for item in found]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["sh"], ["show"]),
        (["run", "x.json", "--prov"], ["--provider", "--provider-option"]),
        (["run", "x.json", "--provider", "o"], ["openvino", "onnxgather"]),
        (
            ["check", "--lanes", "cpu,op"],
            ["cpu,openvino", "cpu,openvino-runtime", "cpu,opencv"],
        ),
        (["check", "--target", ""], ["portable", "cpu", "webgpu", "native"]),
        (["show", "--out-of-range", ""], ["clamp", "error", "zero", "directml"]),
        (["convert", "--feature-level", "3"], ["3_0", "3_1"]),
        (["corpus", "export", "--format", "d"], ["dxdispatch"]),
    ],
    ids=lambda words: " ".join(words),
)
def test_commands_options_and_names_are_completed(
    words: list[str], values: list[str]
) -> None:
    assert _completed(*words) == [("plain", value) for value in values]


@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["convert", "x.json", "-o"],
        ["run"],
        ["show"],
        ["explain"],
        ["check"],
        ["check", "--json"],
        ["check", "--junit"],
        ["check", "--html"],
        ["repro"],
        ["repro", "--plugin"],
        ["repro", "--inputs"],
    ],
    ids=" ".join,
)
def test_files_are_completed(words: list[str]) -> None:
    assert _completed(*words, "mod") == [("file", "mod")]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--output-folder"],
        ["repro", "-o"],
        ["corpus", "export", "--format", "json"],
    ],
    ids=" ".join,
)
def test_folders_are_completed(words: list[str]) -> None:
    assert _completed(*words, "mod") == [("dir", "mod")]


def test_a_file_in_place_of_the_command_is_no_error_yet() -> None:
    Path("x.json").touch()
    assert ("plain", "--json") not in _completed("x.json", "--js")
