"""The figure of what makes hardened models fail: a sample, and planted mistakes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hardened
import numpy as np
import onnx
import pytest
from onnx_graphs import INT64, constant, info, model, node
from rings import by_ring

import onnxgather as og
from onnxgather.auditing.hardening.harden import HardenedModel

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


def embedding() -> onnx.ModelProto:
    """A model that reads rows of a table by its input."""
    nodes = [node("Gather", ["table", "ids"], "y", "embedding")]
    return model(nodes, [info("ids", INT64, ["n"])], ["y"], [constant("table", TABLE)])


@pytest.fixture
def small(tmp_path: Path) -> str:
    """A folder with that model and an input."""
    tmp_path.joinpath("small.onnx").write_bytes(embedding().SerializeToString())
    np.savez(tmp_path / "small.npz", ids=np.array([1, 3]))
    return str(tmp_path)


def told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, list[str]]:
    monkeypatch.setattr(sys, "argv", ["hardened.py", *arguments])
    return hardened.main(), capsys.readouterr().out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bilinear", "boolmask", "hand_scatter", "nms"])
def test_no_input_makes_a_hardened_network_fail(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = by_ring(30, 150)
    found, lines = told(capsys, monkeypatch, "--only", name, "--runs", str(runs))
    assert found == hardened.HOLDS, lines
    assert lines[-1].startswith("1 model, hardened in 3 ways, ")
    assert lines[-1].endswith(" 0 wrong")
    assert f"; {runs} runs, " in lines[-1]


@pytest.mark.slow
def test_the_table_has_a_row_per_policy(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, lines = told(capsys, monkeypatch, small, "--runs", "90")
    assert found == hardened.HOLDS
    assert [line.split()[1] for line in lines[:-1]] == ["clamp", "zero", "index=0"]
    assert all("1 proved-if; +" in line and "30 runs" in line for line in lines[:-1])


def replaced(
    monkeypatch: pytest.MonkeyPatch,
    made: onnx.ModelProto,
    again: onnx.ModelProto | None = None,
) -> None:
    """Let harden make these models."""

    def first(*_: object) -> HardenedModel:
        return HardenedModel(made)

    def second(*_: object) -> onnx.ModelProto:
        return again or made

    monkeypatch.setattr(hardened, "hardened", first)
    monkeypatch.setattr(og, "harden", second)


def test_a_model_that_is_not_hardened_fails(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(monkeypatch, embedding())
    found, lines = told(capsys, monkeypatch, small, "--runs", "30", "--policy", "clamp")
    assert found == hardened.DOES_NOT
    assert lines[1] == "    main graph: embedding is proved-if"
    assert lines[2].startswith("    run ")
    assert "indices element out of data bounds" in lines[2]
    assert int(lines[-1].split()[-2]) > 10


@pytest.mark.slow
def test_other_bytes_are_told(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = og.harden(embedding())
    (table,) = (each for each in made.graph.initializer if each.name == "table")
    table.CopyFrom(constant("table", TABLE + (TABLE == 4)))
    replaced(monkeypatch, made)
    found, lines = told(capsys, monkeypatch, small, "--runs", "1", "--policy", "clamp")
    assert found == hardened.DOES_NOT
    assert lines[1] == "    other bytes of y"


@pytest.mark.slow
def test_a_second_hardening_that_changes_the_model_is_told(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = og.harden(embedding())
    again = onnx.ModelProto.FromString(made.SerializeToString())
    again.doc_string = "again"
    replaced(monkeypatch, made, again)
    found, lines = told(capsys, monkeypatch, small, "--runs", "1", "--policy", "clamp")
    assert found == hardened.DOES_NOT
    assert lines[1:-1] == ["    hardening it again changes it"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
def test_a_program_that_ends_has_failed_in_the_run_at_hand(
    small: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_in = tmp_path / "python"
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "folder, first, count, name = sys.argv[3].split(':')\n"
        "for run in range(int(first), int(count)):\n"
        "    if run == 3: os.abort()\n"
        "    print(json.dumps({'run': run, 'ratio': 1}), flush=True)\n"
    )
    stand_in.chmod(0o755)
    arguments = ("--runs", "8", "--policy", "clamp", "--python", str(stand_in))
    found, lines = told(capsys, monkeypatch, small, *arguments)
    assert found == hardened.DOES_NOT
    assert lines[1:-1] == ["    the program ends in run 3 with -6"]
    assert "7 runs" in lines[0]
