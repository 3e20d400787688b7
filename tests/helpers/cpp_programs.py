"""C++ programs of the pages, compiled with ONNX Runtime's headers and the library of
its wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HEADERS = Path(os.environ.get("ONNXRUNTIME_HEADERS", "/usr/include/onnxruntime"))
"""The folder of ONNX Runtime's headers; Debian's package fills the second."""

needs_headers = pytest.mark.skipif(
    not (HEADERS / "onnxruntime_cxx_api.h").exists()
    or shutil.which("c++") is None
    or sys.platform != "linux",
    reason=(
        "needs c++, and ONNX Runtime's headers in /usr/include/onnxruntime or in the"
        " folder that ONNXRUNTIME_HEADERS names"
    ),
)
"""The mark of a test that compiles a program."""


_INLINE = HEADERS / "onnxruntime_cxx_inline.h"

needs_headers_of_plugins = pytest.mark.skipif(
    not _INLINE.exists()
    or "AppendExecutionProvider_V2" not in _INLINE.read_text(encoding="utf-8"),
    reason="needs ONNX Runtime's headers of 1.22 or later, which know plugin libraries",
)
"""The mark, beside `needs_headers`, of a program that adds a plugin's provider."""


def compile_program(code: str, folder: Path) -> Path:
    """Compile a program, and return its path.

    Args:
        code: The code of the program.
        folder: The folder that gets the code, the program, and a link to the library.
    """
    spec = find_spec("onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    (library,) = (Path(spec.origin).parent / "capi").glob("libonnxruntime.so.*")
    (folder / "program.cpp").write_text(code, encoding="utf-8")
    # The library is named by its version, and asks for itself by its first number.
    link = folder / "libonnxruntime.so.1"
    if not link.exists():
        link.symlink_to(library)
    command = ["c++", "-std=c++20", "-Wall", "-I", str(HEADERS), "-o", "program"]
    command += ["program.cpp", str(library), f"-Wl,-rpath,{folder}"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"
