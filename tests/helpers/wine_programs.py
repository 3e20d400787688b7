"""Programs in C++ that the tests compile with the MinGW of the lanes, and run under
their Wine."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from cpp_descriptors import cpp_of
from folders import ROOT

import onnxgather as og
from onnxgather.checking.lanes.directml import find_host, setup_command

live = pytest.mark.skipif(
    find_host() is None or sys.platform != "linux",
    reason=f"DirectML.dll is not set up; {setup_command()} makes it",
)

COMPILE = """
cp -r "$SOURCES" "$root/tmp/sources"
chroot "$root" x86_64-w64-mingw32-g++-win32 -std=c++17 -Wall -Wextra -Werror -static \
    -I/tmp/sources -o /tmp/sources/program.exe /tmp/sources/PROGRAM \
    -ld3d12 -ldxgi -ldxguid -lversion >&2
cp "$root"/lane/*.dll "$root/tmp/sources"
mkdir "$root/tmp/out"
mount --bind "$SOURCES/out" "$root/tmp/out"
"""
"""What the script that runs the host does before: it compiles another program."""


def wine_program(
    folder: Path,
    files: Sequence[Path],
    descriptors: Iterable[og.Descriptor],
    before: str = "",
) -> list[str]:
    """Return the command that compiles and runs a program, and that takes its
    arguments.

    Args:
        folder: A folder for it. The program finds `folder / "sources" / "out"` at
            Z:/tmp/out.
        files: The source of the program and what it includes, beside the sources of the
            hosts.
        descriptors: Those of written.h, in C++:
            `const DML_OPERATOR_DESC* const written[]`.
        before: Commands of the shell to run before the program.
    """
    sources = folder / "sources"
    shutil.copytree(ROOT / "onnxgather" / "native" / "hosts", sources)
    (sources / "out").mkdir()
    for file in files:
        shutil.copy(file, sources)
    text, operators = "", list[str]()
    for number, descriptor in enumerate(descriptors):
        text += cpp_of(descriptor, f"gather{number}")
        operators.append(f"&gather{number}Operator")
    text += (
        f"\nconst DML_OPERATOR_DESC* const written[] = {{{', '.join(operators)}}};\n"
    )
    (sources / "written.h").write_text(text, encoding="utf-8")
    (made,) = find_host() or [""]
    script = Path(made).read_text(encoding="utf-8")
    root = Path(made).parent / "root"
    where = (
        f"root={shlex.quote(str(root))} SOURCES={shlex.quote(str(sources))}; export"
        " SOURCES"
    )
    for old, new in {
        'root=$(cd "$(dirname "$0")" && pwd -P)/root': where,
        "exec env -i": (
            f"{COMPILE.replace('PROGRAM', files[0].name)}{before}\nexec env -i"
        ),
        "/lane/run /lane/directml_host.exe": "/lane/run /tmp/sources/program.exe",
    }.items():
        assert script.count(old) == 1
        script = script.replace(old, new)
    command = folder / "run-program"
    command.write_text(script, encoding="utf-8")
    command.chmod(0o755)
    return [str(command)]
