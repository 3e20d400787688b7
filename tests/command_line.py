"""The command line as a user calls it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

import onnxgather as og
from onnxgather.arrays import Array
from onnxgather.cli import main
from onnxgather.dxdispatch import write_program

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [4, 3]),
    og.TensorDesc("UINT32", [1, 2]),
    og.TensorDesc("FLOAT32", [4, 2]),
    axis=1,
    index_dimensions=1,
)
DATA_4X3 = np.arange(12, dtype=np.float32).reshape(4, 3)
INDICES = np.array([[2, 0]], np.uint32)


def call(*arguments: str) -> Result:
    """Run a command; a traceback is a failure."""
    result = CliRunner().invoke(main, arguments, prog_name="onnxgather", catch_exceptions=False)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def outcome(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command."""
    result = call(*arguments)
    return result.exit_code, posix(result.stdout), posix(result.stderr)


def posix(text: str) -> str:
    """Return text with the separators of POSIX paths."""
    return text.replace("\\", "/") if os.name == "nt" else text


def program(
    path: str, desc: og.Descriptor = DESC, data: Array = DATA_4X3, indices: Array = INDICES
) -> str:
    """Write a program and return its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(write_program(desc, data, indices), encoding="utf-8")
    return path
