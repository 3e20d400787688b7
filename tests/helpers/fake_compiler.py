"""A compiler whose host is the stand-in for ONNX Runtime, in place of one for a shared
library."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_runtime import environment

from onnxgather.core.execution import runtime


def library_of(folder: Path, monkeypatch: pytest.MonkeyPatch, change: str = "") -> str:
    """Make the compiler the one in use; return the path of a library that its host
    runs.

    Args:
        folder: An empty folder.
        monkeypatch: Undoes it.
        change: What the stand-in does otherwise.
    """
    python, compiler = environment(folder, change), folder / "compiler"
    compiler.write_text(
        "#!/bin/sh\n"
        '[ "$1" != --version ] || exit 0\n'
        'while [ "$1" != -o ]; do shift; done\n'
        f'printf \'#!/bin/sh\\nexec "{python}" -u "{runtime.__file__}"\\n\' >"$2"\n'
        'chmod +x "$2"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("CXX", str(compiler))
    return str(folder / "libonnxruntime.so.1.31.1")
