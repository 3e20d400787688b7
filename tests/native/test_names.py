"""The C sources use no name that a header of some platform defines."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sanitize import NATIVE

SOURCES = sorted([*NATIVE.glob("*.[ch]"), *Path(__file__).parent.glob("*.c")])

KERNELS = sorted(path for path in NATIVE.glob("*.c") if path.name != "python.c")
"""The sources that need no Python."""

WINDOWS = """
near far small hyper interface huge cdecl pascal uuid min max Yield
IN OUT OPTIONAL NEAR FAR CONST VOID TRUE FALSE ERROR STRICT NOERROR DELETE IGNORE
ABSOLUTE RELATIVE TRANSPARENT OPAQUE ALTERNATE WINDING PASSTHROUGH DIFFERENCE
MAX_PATH MAXCHAR MAXBYTE MINCHAR MINSHORT MAXSHORT MINLONG MAXLONG
CHAR SHORT INT LONG UCHAR USHORT UINT ULONG FLOAT DOUBLE BOOL BOOLEAN BYTE WORD
POINT RECT SIZE INPUT MSG PROC ATOM COLORREF LUID HALF_PTR
"""
"""Macros of windows.h, some of them plain words, and its types."""

OTHERS = """
unix linux i386 major minor makedev signbit isnan isinf I errno
PAGE_SIZE MIN MAX howmany roundup powerof2 NBBY MAXPATHLEN nil Nil check
"""
"""Macros of the headers of Linux and macOS."""

TOKEN = re.compile(
    r"/\*.*?\*/ | //[^\n]* | \"(?:\\.|[^\"\\])*\" | ^\s*\#\s*include[^\n]* |"
    r" \b[A-Za-z_]\w*",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def names(text: str) -> set[str]:
    """Return the words of a C source that stand neither in a comment nor in a
    string."""
    return {token for token in TOKEN.findall(text) if token.isidentifier()}


def test_words_are_told_from_comments_and_strings() -> None:
    source = (
        '#include <far.h>\n/* near\n far */ int small = f("min \\" max"); //'
        " FAR\n#define IN\n"
    )
    assert names(source) == {"int", "small", "f", "define", "IN"}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_name_is_taken_by_a_header_of_a_platform(source: Path) -> None:
    found = names(source.read_text(encoding="utf-8"))
    assert len(found) > 5
    assert found & {*WINDOWS.split(), *OTHERS.split()} == set()


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("ziglang") is None, reason="the extra `wheels` is not installed"
)
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.name)
def test_each_source_compiles_behind_windows_h(source: Path, tmp_path: Path) -> None:
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"]
    options = ["-std=c11", "-c", "-Wall", "-Wextra", "-Werror", "-include", "windows.h"]
    command = [*zig, *options, f"-o{tmp_path / 'made.o'}", str(source)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
