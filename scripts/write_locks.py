"""Writes all locks anew: `pip install uv && python scripts/write_locks.py`.

A lock has each package of an environment with its version and its digests, for each
platform and each Python that onnxgather supports. pip takes nothing else where a lock
is named: `pip install --require-hashes -r locks/test.txt`. The versions are the newest
that the requirements allow on the day on which this script runs.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

OLDEST = "onnxruntime==1.24.4"
"""The oldest ONNX Runtime that onnxgather supports."""

WITHIN = {"tools": "test"}
"""The environments that are installed into another one, and so have its versions."""


def environments() -> dict[str, list[str]]:
    """Return what each environment asks for, by the name of its lock."""
    extras = PROJECT["optional-dependencies"]
    own = [*PROJECT["dependencies"], *extras["cpu"], *extras["test"]]
    asked = {
        "test": [*own, *extras["proof"]],
        "tools": [*extras["lint"], *extras["docs"], *extras["wheels"]],
        "oldest": [*own, OLDEST],
        "openvino": ["onnxruntime-openvino==1.24.1", "numpy"],
    }
    for row in OTHER_RUNTIMES.values():
        asked[f"runtimes/{row.name}"] = [*row.wheels, "numpy"]
    return asked


def path_of(name: str) -> Path:
    """Return the path of a lock."""
    return FOLDER / f"{name}.txt"


def write(name: str, requirements: list[str]) -> int:
    """Write a lock; return uv's exit code."""
    options = (
        "--quiet --no-config --universal --upgrade --generate-hashes --no-annotate"
    )
    oldest_python = PROJECT["requires-python"].removeprefix(">=")
    command = [sys.executable, "-m", "uv", "pip", "compile", *options.split()]
    command += ["--python-version", oldest_python]
    command += ["--custom-compile-command", "python scripts/write_locks.py"]
    if name in WITHIN:
        command += ["--constraints", str(path_of(WITHIN[name]))]
    path_of(name).parent.mkdir(exist_ok=True)
    command += ["--output-file", str(path_of(name)), "-"]
    asked = "\n".join(requirements)
    return subprocess.run(command, input=asked, text=True, cwd=ROOT).returncode


def main() -> int:
    """Write all locks; the exit code is 1 if uv refuses one, and 2 without uv."""
    if find_spec("uv") is None:
        print("write_locks.py: uv is not installed: pip install uv", file=sys.stderr)
        return 2
    codes = [write(name, asked) for name, asked in environments().items()]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
