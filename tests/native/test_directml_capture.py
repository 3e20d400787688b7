"""The header that writes the gathers of a program, compiled by MinGW, in front of
DirectML.dll."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from corpus_cases import descriptor_cases
from folders import ROOT
from messages import message_of
from wine_programs import live, wine_program

import onnxgather as og
from onnxgather.core.programs.program import Program, read_program
from onnxgather.core.programs.running import execute

pytestmark = pytest.mark.slow  # the program is compiled and run for all tests
HERE, HEADER = (
    Path(__file__).parent,
    ROOT / "onnxgather" / "native" / "directml_capture.h",
)

CORPUS = list(dict.fromkeys(case.descriptor for case in descriptor_cases()))
"""The corpus' descriptors, each once."""

BEFORE = """
chroot "$root" x86_64-w64-mingw32-g++-win32 -std=c++17 -Wall -Wextra -Werror \
    -fno-exceptions -fno-rtti -I/tmp/sources -c -o /tmp/out/plain.o \
    /tmp/sources/directml_capture_plain.cpp >&2 || true
mkdir "$root/tmp/out/full"
mount -t tmpfs -o size=16k tmpfs "$root/tmp/out/full"
cp -a "$root/prefix/dosdevices" "$root/tmp/drives"
ln -s /tmp/out/drive "$root/tmp/drives/y:"
mount --bind "$root/tmp/drives" "$root/prefix/dosdevices"
"""
"""An object file without exceptions, a disk of 16 KiB, and a drive Y:."""

LONG = "/".join(["long" * 25] * 3)
"""Folders whose path is longer than MAX_PATH."""

PARTS = (
    *("references", "forwarding", "interfaces", "lists that never run", "bounds"),
    *("failed copies", "reports", "bad folders", "full disk", "names", "taken names"),
    *("current folder", "other folders", "no memory", "every descriptor"),
    *("graphs", "use", "indices", "no JSON", "threads"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    lines: list[str]
    out: Path

    def programs(self, folder: str) -> list[Program]:
        """Read what it wrote to a folder."""
        paths = sorted((self.out / folder).iterdir())
        assert all(
            re.fullmatch(r"gather-[0-9a-f]{16}\.json", path.name) for path in paths
        )
        return [read_program(path) for path in paths]

    def descriptors(self, folder: str) -> list[og.Descriptor]:
        """Read the descriptors that it wrote to a folder."""
        return [
            program.dispatchables["gather"].descriptor
            for program in self.programs(folder)
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("the folder's name")
    sources = ("directml_capture_test.cpp", "directml_capture_plain.cpp", "DirectML.h")
    files = [*(HERE / name for name in sources), HEADER]
    command = wine_program(folder, files, CORPUS, BEFORE)
    done = subprocess.run(
        [*command, r"Z:\tmp\out"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    print(done.stdout, done.stderr)
    return Run(done.stdout.splitlines(), folder / "sources" / "out")


@pytest.mark.slow
@live
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_program_holds(run: Run, part: str) -> None:
    assert f"{part}: holds" in run.lines


@pytest.mark.slow
@live
def test_a_folder_that_cannot_be_written_to_is_told_in_a_sentence(run: Run) -> None:
    assert (
        'reported: onnxgather: a gather was not written to "Z:\\nowhere\\at all",'
        " Windows error 3; later failures are not reported" in run.lines
    )


@pytest.mark.slow
@live
def test_every_descriptor_of_the_corpus_is_read_back(run: Run) -> None:
    written = run.descriptors("all")
    assert len(written) == len(CORPUS) > 500
    assert set(written) == set(CORPUS)


@pytest.mark.slow
@live
@pytest.mark.parametrize(
    "folder", ["gäthers 収集", "slash", "backslash", "prefix", "drive", "long/" + LONG]
)
def test_a_folder_of_any_name_gets_its_gather(run: Run, folder: str) -> None:
    assert run.descriptors(folder) == CORPUS[:1]


@pytest.mark.slow
@live
def test_what_a_graph_and_threads_create_is_written_once(run: Run) -> None:
    for folder, expected in {"graphs": CORPUS[::20], "threads": CORPUS[:100]}.items():
        written = run.descriptors(folder)
        assert len(written) == len(expected)
        assert set(written) == set(expected)


@pytest.mark.slow
@live
def test_the_header_compiles_without_exceptions_and_type_information(run: Run) -> None:
    assert (run.out / "plain.o").is_file()


@pytest.mark.slow
@live
def test_programs_have_the_indices_that_dispatches_read(
    run: Run, tmp_path: Path
) -> None:
    expected = {
        *((0, 0), (0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0, 0)),  # when they were created
        *((2, 7), (3, 7)),
        *((-4, 1, 0), (-3, 1, 0)),
        *((2**63, 1, 0, 0), (2**63 + 1, 1, 0, 0)),
        *((-(2**40), 0, 1, 2, 0), (-(2**40) + 1, 0, 1, 2, 0)),
    }
    found = set[tuple[int, ...]]()
    notes: list[str] = []
    for program in run.programs("indices"):
        (dispatch,) = program.dispatched(partial(og.reference, out_of_range="clamp"))
        found.add(tuple(dispatch.indices.ravel().tolist()))
        run_it = execute(
            program,
            og.reference,
            output_folder=tmp_path,
            note=notes.append,
        )
        assert b"".join(run_it).startswith(b"Resource 'output': ")
    assert found == expected
    assert len(run.programs("indices")) == len(expected)
    counts = [re.findall(r"out of range: (\d of \d)", note) for note in notes]
    expected_counts = ["1 of 2", "2 of 2", "1 of 3", "1 of 4", "1 of 4"]
    expected_counts += ["1 of 5", "1 of 5"]
    assert sorted(counts) == sorted([count] for count in expected_counts)


@pytest.mark.slow
@live
def test_a_program_runs_with_indices_in_range(run: Run, tmp_path: Path) -> None:
    for program in run.programs("all")[::10]:
        lines = list(execute(program, og.reference, "error", output_folder=tmp_path))
        assert lines[0].startswith(b"Resource 'output': ")


@pytest.mark.slow
@live
def test_a_descriptor_that_directml_refuses_is_written_and_refused(run: Run) -> None:
    (path,) = (run.out / "no json").iterdir()
    assert message_of(og.DescriptorError, read_program, path) == (
        f"{path}: $.dispatchables.gather.desc: InputTensor.TotalTensorSizeInBytes"
        " must be at least 8 (2 elements of UINT32, rounded up to 4 bytes), got 4"
    )
