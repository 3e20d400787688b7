"""Descriptors written as C++, compiled by MinGW, and created and run by DirectML.dll."""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
from folders import ROOT

import onnxgather as og
from onnxgather.descriptors.reference import reference
from onnxgather.descriptors.spelling import to_dict
from onnxgather.execution.child import NoAnswerError
from onnxgather.parity.cases import DescriptorCase
from onnxgather.parity.corpus import built_in_cases
from onnxgather.parity.lanes.directml import Host, find_host, setup_command

live = pytest.mark.skipif(
    find_host() is None or sys.platform != "linux",
    reason=f"DirectML.dll is not set up; {setup_command()} makes it",
)

COMPILE = """
cp -r "$SOURCES" "$root/tmp/written"
chroot "$root" x86_64-w64-mingw32-g++-win32 -std=c++17 -Wall -Wextra -Werror -static \
    -I/tmp/written -o /tmp/written/host.exe /tmp/written/written_host.cpp \
    -ld3d12 -ldxgi -ldxguid -lversion >&2
cp "$root"/lane/*.dll "$root/tmp/written"
"""
"""What the script that runs the host does before: it compiles another host, of C++17."""


def written_host(folder: Path, descriptors: list[og.Descriptor]) -> list[str]:
    """Return the command of a host that has these descriptors as C++."""
    sources = folder / "sources"
    shutil.copytree(ROOT / "onnxgather" / "native" / "hosts", sources)
    shutil.copy(Path(__file__).with_name("written_host.cpp"), sources)
    names = [f"gather{k}" for k in range(len(descriptors))]
    text = "\n".join(map(og.to_cpp, descriptors, names))
    operators = ", ".join(f"&{name}Operator" for name in names)
    text += f"\nconst DML_OPERATOR_DESC* const written[] = {{{operators}}};\n"
    (sources / "written.h").write_text(text, encoding="utf-8")
    (made,) = find_host() or [""]
    script = Path(made).read_text(encoding="utf-8")
    root = Path(made).parent / "root"
    where = f"root={root} SOURCES={sources}; export SOURCES"
    for old, new in {
        'root=$(cd "$(dirname "$0")" && pwd -P)/root': where,
        "exec env -i": f"{COMPILE}exec env -i",
        "/lane/run /lane/directml_host.exe": "/lane/run /tmp/written/host.exe",
    }.items():
        assert script.count(old) == 1
        script = script.replace(old, new)
    command = folder / "run-written"
    command.write_text(script, encoding="utf-8")
    command.chmod(0o755)
    return [str(command)]


@live
def test_directml_takes_the_corpus_as_cpp(tmp_path: Path) -> None:
    cases = {case.descriptor: case for case in built_in_cases() if isinstance(case, DescriptorCase)}
    run = list(cases)[:: len(cases) // 30]
    with closing(Host(written_host(tmp_path, [*cases, *run]), timeout=300)) as host:
        for descriptor in cases:
            assert host.ask(to_dict(descriptor)).stage == "done"
        for descriptor in run:
            case = cases[descriptor]
            verdict = host.ask(
                to_dict(descriptor), (case.data.tobytes(), case.indices.tobytes(), b"")
            )
            expected = reference(descriptor, case.data, case.indices, "directml").tobytes()
            assert verdict.output is not None
            assert verdict.output[: len(expected)] == expected


@live
def test_a_descriptor_that_differs_ends_the_host(tmp_path: Path) -> None:
    cases = (case for case in built_in_cases() if isinstance(case, DescriptorCase))
    first, second = islice(dict.fromkeys(case.descriptor for case in cases), 2)
    with closing(Host(written_host(tmp_path, [first, first]), timeout=300)) as host:
        assert host.ask(to_dict(first)).accepted
        with pytest.raises(NoAnswerError, match="descriptor 1 differs"):
            host.ask(to_dict(second))
