"""The examples of docstrings: each public name has one, and it prints what it says."""

from __future__ import annotations

import doctest
import inspect
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest
from folders import ROOT
from public_names import CALLED, DEFINED, VALUES

import onnxgather as og
from onnxgather.core.execution.kernels import operators_library
from onnxgather.core.version import SUMMARY

FLAGS = doctest.NORMALIZE_WHITESPACE
"""A docstring breaks what is printed on a line of more than 80 columns."""

OF_LIBRARY = {
    "GatherCounts",
    "add_provider",
    "custom_ops_library",
    "provider_library",
    "provider_report",
}
"""The names whose examples need the native kernels."""

LONGEST = 8
"""The most lines of code of an example."""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder with the models of the checkout, where an example may write."""
    (tmp_path / "models").symlink_to(ROOT / "models", target_is_directory=True)
    monkeypatch.chdir(tmp_path)


def docstring_of(value: object) -> str:
    """Return the docstring of a function, a class or a module itself, not of a base."""
    return inspect.cleandoc(vars(value).get("__doc__") or getattr(value, "__doc__", ""))


def failures(name: str, docstring: str) -> str:
    """Return what the examples of a docstring print otherwise; "" if nothing."""
    known = {"np": np, "og": og}
    test = doctest.DocTestParser().get_doctest(docstring, known, name, None, None)
    assert test.examples, f"{name} must have an example"
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=printed.append)
    return "".join(printed)


@pytest.mark.parametrize("name", DEFINED)
def test_the_example_of_a_public_name_prints_what_it_says(name: str) -> None:
    if name in OF_LIBRARY:
        if operators_library() is None:
            pytest.skip("the native kernels are not built")
        # Other tests leave rows in the report, of which a process has one.
        og.provider_report(reset=True)
    assert failures(name, docstring_of(getattr(og, name))) == ""


def test_the_example_of_the_package_prints_what_it_says() -> None:
    assert failures("onnxgather", docstring_of(og)) == ""


@pytest.mark.parametrize("name", DEFINED)
def test_an_example_ends_its_docstring_and_is_short(name: str) -> None:
    prose, _, example = docstring_of(getattr(og, name)).partition("\nExample:\n")
    assert ">>>" not in prose
    assert len(re.findall(r"^    (?:>>>|\.\.\.) ", example, re.MULTILINE)) <= LONGEST
    # What functions return is made by a function, which the example calls.
    assert f"og.{name}" in example or name not in CALLED


@pytest.mark.parametrize(
    ("docstring", "said"),
    [
        ("Return 2.", "NAME must have an example"),
        ("Return 2.\n\n>>> 1 + 1\n3\n", "Expected:\n    3\nGot:\n    2"),
        (
            ">>> og.TensorDesc('INT8', [0])\n",
            "onnxgather.DescriptorError: Sizes[0] must",
        ),
    ],
)
def test_a_wrong_example_is_detected(docstring: str, said: str) -> None:
    try:
        found = failures("NAME", docstring)
    except AssertionError as error:
        found = str(error)
    assert said in found


def test_the_help_of_the_package_begins_with_the_translator() -> None:
    name, example, *_ = pydoc.plain(pydoc.render_doc(og)).split("\n\n")[1:]
    assert name == f"NAME\n    onnxgather - {SUMMARY}"
    assert example.startswith("DESCRIPTION\n    A descriptor")
    assert "DML_GATHER_OPERATOR_DESC" in example


def test_the_help_of_the_package_explains_the_names_without_a_docstring() -> None:
    # `help` of a union, of literals or of a dict shows the docstring of its type.
    text = docstring_of(og)
    assert [name for name in VALUES if f"`{name}`" not in text] == []
