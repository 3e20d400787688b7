"""The colours of an audit on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import call
from folders import MODELS

from onnxgather.auditing.output.colours import coloured

KEYWORDS = MODELS / "networks" / "keywords.onnx"
INPUTS = MODELS / "networks" / "keywords.npz"

RED_LINE = "\x1b[1;31mOUT OF RANGE\x1b[0m  word_embedding (Gather, main graph): "


def audited(*options: str) -> str:
    return call("audit", str(KEYWORDS), "--inputs", str(INPUTS), *options).stdout


def test_the_verdict_and_each_label_have_the_colour_of_their_states() -> None:
    lines = [
        "m.onnx: a wrong input can leave an axis; 2 gathers",
        "OUT OF RANGE  a (Gather): index 9 of 4",
        "    directml  No error: returns zeros",
        "INVALID       c (Gather): axis 9",
        "REFUSED       b (Gather): rank 9",
        "not proved    1 gather; because of ids:",
        "proved if     c (Gather): ids is 0..3",
        "proved        d (Gather): constant",
        "note          some words",
        "NEW           m.onnx: a (Gather): out-of-range",
        "",
        "    onnxgather harden m.onnx -o out.onnx",
    ]
    assert list(coloured(lines, "DIFF")) == [
        "\x1b[1;1;31mm.onnx: a wrong input can leave an axis; 2 gathers\x1b[0m",
        "\x1b[1;31mOUT OF RANGE\x1b[0m  a (Gather): index 9 of 4",
        "    \x1b[2mdirectml\x1b[0m  No error: returns zeros",
        "\x1b[1;31mINVALID\x1b[0m       c (Gather): axis 9",
        "\x1b[1;31mREFUSED\x1b[0m       b (Gather): rank 9",
        "\x1b[33mnot proved\x1b[0m    1 gather; because of ids:",
        "\x1b[33mproved if\x1b[0m     c (Gather): ids is 0..3",
        "\x1b[32mproved\x1b[0m        d (Gather): constant",
        "\x1b[2mnote\x1b[0m          some words",
        "\x1b[1;31mNEW\x1b[0m           m.onnx: a (Gather): out-of-range",
        "",
        "    onnxgather harden m.onnx -o out.onnx",
    ]


@pytest.mark.slow
def test_audit_prints_colours_where_they_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    plain = audited()
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    in_colour = audited()
    assert RED_LINE in in_colour
    assert re.sub(r"\x1b\[[\d;]*m", "", in_colour) == plain
    assert "\x1b" not in audited("--json")


GIVEN = ("--range", "words=0:31", "--shape", "words=2,12")
REMAP = str(MODELS / "image_remap.onnx")


@pytest.fixture
def shows_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.usefixtures("shows_colours")
@pytest.mark.parametrize(
    ("arguments", "colour"),
    [
        # Inputs beyond the exact conditions leave an axis.
        ((str(KEYWORDS),), "1;31"),
        ((REMAP, str(KEYWORDS)), "1;31"),
        ((str(KEYWORDS), *GIVEN), "32"),
        # The options are for no input of this model, so it is not audited.
        ((REMAP, str(KEYWORDS), *GIVEN), "33"),
    ],
)
def test_the_first_line_has_the_colour_of_harm_if_a_wrong_input_can_leave(
    arguments: tuple[str, ...], colour: str
) -> None:
    first_line = call("audit", *arguments).stdout.splitlines()[0]
    assert first_line.startswith(f"\x1b[1;{colour}m")
    assert first_line.endswith("\x1b[0m")


@pytest.mark.usefixtures("shows_colours")
def test_a_colour_in_a_name_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred.onnx"
    path.write_bytes(KEYWORDS.read_bytes())
    first_line = call("audit", str(path)).stdout.splitlines()[0]
    assert first_line.startswith(f"\x1b[1;1;31m{tmp_path}/\\x1b[31mred.onnx: ")
