"""What a command does not use, it does not import, as imports are most of its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from rings import one_quick_in

ROOT = Path(__file__).parents[2]
DESCRIPTOR = str(ROOT / "models" / "gather_3_swap_columns.json")
MODEL = str(ROOT / "models" / "token_embedding.onnx")

SLOW = {
    "concurrent.futures.process",
    "importlib.metadata",
    "multiprocessing",
    "numpy",
    "numpy.ma",
    "onnx",
    "onnxruntime",
    "xml.etree",
    "z3",
}
"""Modules that take long to import, or that few commands need."""

WITH_ONNX = {"importlib.metadata", "numpy", "onnx"}
"""What onnx and numpy need."""

USED: dict[tuple[str, ...], set[str]] = {
    ("--version",): set(),
    ("--help",): set(),
    ("convert", "--help"): {"numpy"},
    ("explain", DESCRIPTOR, "--at", "0,0"): {"numpy"},
    ("show", DESCRIPTOR): {"numpy"},
    ("convert", DESCRIPTOR, "--target", "webnn", "-o", "x.mjs"): {"numpy", "numpy.ma"},
    ("convert", DESCRIPTOR, "-o", "x.onnx"): WITH_ONNX,
    ("convert", DESCRIPTOR, "-o", "x.onnx", "--verify"): WITH_ONNX | {"onnxruntime"},
    ("certify", DESCRIPTOR): WITH_ONNX,
    ("run", DESCRIPTOR): WITH_ONNX | {"onnxruntime"},
    ("harden", MODEL, "-o", "x.onnx"): WITH_ONNX,
    ("audit", MODEL): WITH_ONNX | {"xml.etree"},
}
"""The commands, and which slow modules each may import."""

PROGRAM = """
import sys
sys.argv = ["onnxgather", *sys.argv[1:]]
from onnxgather.__main__ import run_command_line
try:
    run_command_line()
finally:
    sys.stdout.flush()
    print("imported:", *sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", one_quick_in(6, map(list, USED)), ids=" ".join)
def test_a_command_imports_no_slow_module_that_it_does_not_use(
    arguments: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    _, _, imported = run.stderr.rpartition("imported:")
    assert "onnxgather" in imported.split()
    slow = SLOW & {*imported.split()}
    used = USED[tuple(arguments)]
    assert slow <= used
    # Else the program did not do what the command does.
    assert bool(slow) == bool(used)
