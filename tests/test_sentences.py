"""Sentences that readers did not understand stand nowhere in the package or on a
page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from folders import ROOT

FORBIDDEN = (
    "it reads some other element of the tensor, without a word",
    "The installation takes some minutes without a word.",
    "ONNX Runtime's CPU provider runs two models that it must refuse",
    "a struct that DirectML's documentation gives no meaning",
    "a file with all conditions of a model, which its inputs must meet",
    "0..281474976710656",
    "the axis has an unknown size",
    "; else the indices are ",
    "to know the same of the first of ",
    "`--json PATH`, and PATH is new or is JSON that check or audit wrote",
    "it cannot see that a worker makes up every answer",
    "no longer fails on a bad index, but in ",
    "install onnxgather[",
    "pip install onnxgather",
    "Say what becomes of each gather",
    "an ONNX model in which no index that may be out of range is an error",
    "as its axis may be empty: a copy of it",
)
"""Each sentence, or of a sentence with numbers the part between them."""


def forbidden_in(path: Path) -> list[str]:
    """Return the forbidden sentences that a file contains.

    A sentence may span lines, and of Python several strings.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        text = re.sub(r"[\"']\s*\n\s*[fr]?[\"']", "", text)
    text = re.sub(r"\s+", " ", text)
    return [sentence for sentence in FORBIDDEN if sentence.strip() in text]


SUFFIXES = (".py", ".mjs", ".html", ".json", ".template", ".h", ".cpp", ".md")
FOLDERS = ("onnxgather", "docs", "scripts")
NAMES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")


def files() -> list[Path]:
    """Return the files of the package and the pages."""
    in_folders = [path for name in FOLDERS for path in (ROOT / name).rglob("*")]
    of_text = [path for path in in_folders if path.suffix in SUFFIXES]
    return [*of_text, *(ROOT / name for name in NAMES)]


def test_no_file_contains_a_forbidden_sentence() -> None:
    paths = files()
    assert len(paths) > 200
    forbidden = [(path.name, each) for path in paths for each in forbidden_in(path)]
    assert forbidden == []


@pytest.mark.parametrize("sentence", FORBIDDEN)
def test_a_forbidden_sentence_is_detected(sentence: str, tmp_path: Path) -> None:
    words = sentence.split(" ")
    middle = len(words) // 2
    first = " ".join(words[:middle]) + " "
    second = " ".join(words[middle:])
    page = tmp_path / "page.md"
    page.write_text(f"Some words.\n{first}\n{second} More.\n", encoding="utf-8")
    module = tmp_path / "module.py"
    module.write_text(
        f"TEXT = (\n    {first!r}\n    f{second!r}\n)\n", encoding="utf-8"
    )
    assert forbidden_in(page) == forbidden_in(module) == [sentence]
