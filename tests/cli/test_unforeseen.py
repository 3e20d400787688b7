"""An exception that nothing foresees is one line and exit code 2, and the other files
keep their results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import error_of, outcome, program
from onnx_graphs import FLOAT, INT64, info, model, node

from onnxgather.cli.processes import finished
from onnxgather.cli.sources import Batch
from onnxgather.cli.unforeseen import REQUEST, UnforeseenError, foreseen
from onnxgather.core.model import network

FAILS = f"cannot be read: KeyError: 'two lines'; {REQUEST}"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a mistake where a model with the name `b` is read."""
    read = network.read_network

    def fails(given: Any, *more: Any, **options: Any) -> Any:
        path = getattr(given, "path", given)
        if isinstance(path, str) and os.path.basename(path) == "b.onnx":
            raise KeyError("two lines")
        return read(given, *more, **options)

    for module in (
        "core.model.network",
        "auditing.audit",
        "auditing.hardening.harden",
        "cli.arguments",
        "extracting.extract",
        "proving.certify",
    ):
        monkeypatch.setattr(f"onnxgather.{module}.read_network", fails, raising=False)


def save(*paths: str) -> None:
    inputs = [info("x", FLOAT, [4, 3]), info("i", INT64, [2])]
    made = model([node("Gather", ["x", "i"], "y")], inputs, ["y"])
    for path in paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(made.SerializeToString())
    np.savez("inputs.npz", x=np.zeros((4, 3), np.float32), i=np.array([0, 1]))


def test_the_other_models_of_a_folder_keep_their_reports() -> None:
    save("m/a.onnx", "m/b.onnx", "m/c.onnx")
    code, text, error = outcome("audit m --json")
    assert (code, error) == (2, f"Error: m/b.onnx: {FAILS}\n")
    record = json.loads(text)
    assert [row["model"] for row in record["models"]] == ["m/a.onnx", "m/c.onnx"]
    assert record["unusable"] == [f"m/b.onnx: {FAILS}"]


@pytest.mark.parametrize("command", ["convert", "show"])
def test_the_other_files_of_a_command_are_read(command: str) -> None:
    save("a.onnx", "b.onnx", "c.onnx")
    Path("out").mkdir()
    more = ["-o", "out"] if command == "convert" else []
    code, text, error = outcome(f"{command} a.onnx b.onnx c.onnx", *more)
    assert (code, error) == (2, f"Error: b.onnx: {FAILS}\n")
    assert "a.onnx" in text
    assert "c.onnx" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["audit", "b.onnx"],
        ["harden", "b.onnx", "-o", "out.onnx"],
        ["extract", "b.onnx", "--all", "--inputs", "inputs.npz", "-o", "out"],
        ["explain", "b.onnx", "--node", "y", "--inputs", "inputs.npz"],
        ["repro", "b.onnx", "--node", "y", "--inputs", "inputs.npz", "-o", "out"],
        ["check", "b.onnx", "--inputs", "inputs.npz"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_only_model_is_one_line(arguments: list[str]) -> None:
    save("b.onnx")
    assert error_of(*arguments) == f"b.onnx: {FAILS}"


def test_the_model_of_a_certificate_is_one_line() -> None:
    pytest.importorskip("z3")
    save("b.onnx")
    place = "x.json: $.dispatchables.gather: clamp, b.onnx"
    found = outcome("certify", program("x.json"), "--model", "b.onnx")
    assert found == (2, "", f"Error: {place}: {FAILS}\n")


def test_debug_shows_the_traceback() -> None:
    save("m/a.onnx", "m/b.onnx")
    code, text, error = outcome("--debug audit m")
    assert code == 2
    assert "m/a.onnx" in text
    first, *lines, cause, sentence = error.splitlines()
    assert first == "Traceback (most recent call last):"
    assert any(line.endswith("in fails") for line in lines)
    assert cause == "KeyError: 'two lines'"
    assert sentence == f"Error: m/b.onnx: {FAILS}"


@pytest.mark.slow
def test_other_processes_tell_their_exceptions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch = Batch()
    results = finished(batch, 2, eval, ["1 + 1", "{}[0]", "open('none')", "3"], "item")
    assert results == {"1 + 1": 2, "3": 3}
    assert capsys.readouterr().err.splitlines() == [
        f"Error: {{}}[0]: cannot be read: KeyError: 0; {REQUEST}",
        "Error: open('none'): no such file or directory",
    ]
    assert batch.finish() == 2


def test_a_lack_of_memory_leaves_the_other_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch = Batch()
    with batch.step("a.json"):
        raise MemoryError
    assert capsys.readouterr().err == "Error: a.json: there is not enough memory\n"
    assert batch.finish() == 2


def test_a_file_that_is_written_is_told_as_such(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch = Batch()
    with batch.step("out.html", failing="be written"):
        raise IndexError
    sentence = f"Error: out.html: cannot be written: IndexError; {REQUEST}\n"
    assert capsys.readouterr().err == sentence


def test_a_message_is_one_short_line() -> None:
    with pytest.raises(UnforeseenError) as caught, foreseen("a"):
        raise ValueError("one\n  two\t" + "3" * 900)
    shown = f"one two {'3' * 92}…{'3' * 100}"
    assert str(caught.value) == f"a: ValueError: {shown}; {REQUEST}"
