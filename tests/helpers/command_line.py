"""The command line as a user calls it, with programs for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner, Result
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.cli import main
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.programs.writer import write_program

DESC = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")
SIGNED_DESC = og.GatherDesc(
    DESC.input_tensor,
    tensor_desc("INT64 1x2"),
    DESC.output_tensor,
    axis=1,
    index_dimensions=1,
)
DATA_4X3 = np.arange(12, dtype=np.float32).reshape(4, 3)
INDICES = np.array([[2, 0]], np.uint32)


ALSO_AUDITED = (
    f"runtime       also audited: what ONNX Runtime {onnxruntime.__version__} runs at"
    " level all"
)
"""The line of an audit on the graphs of the installed ONNX Runtime."""


def call(line: str, *arguments: str) -> Result:
    """Run a command; a traceback is a failure.

    Args:
        line: The words of the command line, with a space between two.
        arguments: What follows, each as it is, such as a path with spaces.
    """
    words = [*line.split(), *arguments]
    result = CliRunner().invoke(
        main, words, prog_name="onnxgather", catch_exceptions=False
    )
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def outcome(line: str, *arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of a command; see `call`."""
    result = call(line, *arguments)
    return result.exit_code, posix(result.stdout), posix(result.stderr)


def succeed(line: str, *arguments: str) -> str:
    """Return the standard output of a command that succeeds and may warn."""
    code, output, error = outcome(line, *arguments)
    assert code == 0, error
    return output


def output_of(line: str, *arguments: str) -> str:
    """Return the standard output of a command that succeeds and warns of nothing."""
    code, output, error = outcome(line, *arguments)
    assert (code, error) == (0, "")
    return output


def error_of(line: str, *arguments: str, code: int = 2) -> str:
    """Return the one sentence of a command that fails and prints nothing.

    Args:
        line: The words of the command line; see `call`.
        arguments: What follows.
        code: The exit code; before the sentence of a wrong usage stands the usage.
    """
    found, output, error = outcome(line, *arguments)
    *usage, sentence = error.splitlines()
    assert (found, output) == (code, ""), error
    assert not usage or (code, usage[0][:6], len(usage)) == (2, "Usage:", 3), error
    assert sentence.startswith("Error: ")
    return sentence.removeprefix("Error: ")


def json_of(line: str, *arguments: str) -> Any:
    """Return the JSON that a command prints, whatever its exit code."""
    return json.loads(outcome(line, *arguments)[1])


def read_json(path: str) -> Any:
    """Return the content of a JSON file."""
    return json.loads(read_bytes(path))


def write_json(path: str, content: Any) -> None:
    """Write a JSON file."""
    write_text(path, json.dumps(content))


def read_text(path: str) -> str:
    """Return the content of a text in UTF-8."""
    return Path(path).read_text(encoding="utf-8")


def write_text(path: str, text: str) -> None:
    """Write a text in UTF-8."""
    Path(path).write_text(text, encoding="utf-8")


def read_bytes(path: str) -> bytes:
    """Return the bytes of a file."""
    return Path(path).read_bytes()


def posix(text: str) -> str:
    """Return text with the separators of POSIX paths."""
    return text.replace("\\", "/") if os.name == "nt" else text


def program(
    path: str,
    desc: og.Descriptor = DESC,
    data: Array = DATA_4X3,
    indices: Array = INDICES,
) -> str:
    """Write a program and return its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(path, write_program(desc, data, indices))
    return path


POSIX = pytest.mark.skipif(
    os.name == "nt", reason="makes links, odd names or POSIX errors"
)


def changed(path: str, **fields: Any) -> str:
    """Replace fields of a program at its top level."""
    content = read_json(path)
    write_json(path, {**content, **fields})
    return path


def invalid(path: str, **fields: Any) -> str:
    """Write a program whose descriptor has these fields instead; return its path."""
    content = read_json(program(path))
    content["dispatchables"]["gather"]["desc"] |= fields
    return changed(path, **content)


def renamed(path: str, *names: str) -> str:
    """Give a program its dispatchable under these names instead."""
    content = read_json(path)
    gather = content["dispatchables"]["gather"]
    first = {**content["commands"][0], "dispatchable": names[0]}
    return changed(path, dispatchables=dict.fromkeys(names, gather), commands=[first])


def files() -> list[str]:
    """Return all files below the current folder."""
    return sorted(p.as_posix() for p in Path().rglob("*") if p.is_file())


def spawn(
    line: str, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the program as users do; see `call`."""
    command = [sys.executable, "-m", "onnxgather", *line.split(), *arguments]
    return subprocess.run(
        command, capture_output=True, check=False, timeout=60, env=env
    )
