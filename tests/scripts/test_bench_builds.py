"""Builds of the kernels beside one another: how they are named, built and compared."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import bench_builds
import pytest
from bench_builds import (
    KERNELS,
    Build,
    BuildError,
    Comparison,
    Package,
    build_of,
    compared,
    save_losses,
    summary,
)
from bench_report import read_thresholds
from bench_timing import Times
from bench_workloads import WORKLOADS, Workload
from folders import ROOT

import onnxgather as og

SMALL = Workload("small", "rows", "GATHER", "FLOAT16", (9, 40), (5, 2))
ONCE = Namespace(threads=1, rounds=1, offset=16)


def compiled(name: str, folder: Path) -> Build:
    """Return a build, where there is a C compiler."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    return build_of(name, folder)


@pytest.mark.slow
def test_a_changed_threshold_is_a_build_of_its_own(tmp_path: Path) -> None:
    threshold = read_thresholds()[0]
    change = f"{threshold.name}=64"
    builds = {
        ".": compiled(".", tmp_path / "0"),
        change: compiled(change, tmp_path / "1"),
    }
    assert len({id(build.kernels) for build in builds.values()}) == 2
    original = (ROOT / KERNELS / "thresholds.h").read_text()
    changed = (tmp_path / "1" / KERNELS / "thresholds.h").read_text()
    line = f"    {threshold.name} = "
    assert changed == original.replace(f"{line}{threshold.value},", f"{line}64,")
    assert changed != original
    comparison = compared(SMALL, builds, ONCE)
    assert set(comparison.times) == set(builds)
    assert min(time.minimum for time in comparison.times.values()) > 0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (True, "workload small: wrong differs from the reference"),
        (None, "workload small: wrong refuses it"),
    ],
)
def test_a_build_with_other_bytes_is_refused(answer: bool | None, message: str) -> None:
    class Unwritten:
        """A kernel that writes no output."""

        def __init__(self, *_: object) -> None:
            pass

        def run(self, *_: object) -> bool | None:
            return answer

    wrong = ModuleType("wrong")
    wrong.__dict__["Gather"] = Unwritten
    with pytest.raises(AssertionError) as caught:
        compared(SMALL, {"wrong": Build(wrong, Package())}, ONCE)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "TILE=1",
            "TILE must be a number of thresholds.h or a macro that the sources test",
        ),
        (
            "no-such-thing",
            "a build must be a change, a revision, a folder or a file, got"
            " no-such-thing",
        ),
    ],
)
def test_what_is_no_build_is_refused(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build_of(name, tmp_path / "0")
    assert str(caught.value) == message


def test_a_folder_without_kernels_is_no_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build_of(str(tmp_path), tmp_path / "0")
    assert str(caught.value) == f"{tmp_path} must contain onnxgather/native/kernels"


def test_another_checkout_is_a_package_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "onnxgather"
    folder.mkdir()
    (folder / "__init__.py").write_text("VALUE = 7\n")
    package = Package(tmp_path)
    before = dict(sys.modules)
    for _ in range(2):
        with package.imported():
            other = import_module("onnxgather")
            assert other.__dict__["VALUE"] == 7
        assert package.modules == {"onnxgather": other}
    assert sys.modules["onnxgather"] is og
    assert dict(sys.modules) == before
    assert str(tmp_path) not in sys.path


def test_a_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.so"
    path.write_text("text")
    with pytest.raises(BuildError) as caught:
        build_of(str(path), tmp_path / "0")
    assert str(caught.value).startswith(f"{path} must be a compiled module: ")


def test_a_macro_that_the_sources_test_is_defined_for_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    kernels = root / KERNELS
    kernels.mkdir(parents=True)
    (kernels / "thresholds.h").write_text("enum {\n    ROWS = 8,\n};\n")
    (kernels / "machine.c").write_text("#ifdef CACHE_BYTES\n#endif\n")
    monkeypatch.setattr(bench_builds, "ROOT", root)
    commands: list[list[str]] = []

    class Compiler:
        SHARED = ("machine.c",)

        @staticmethod
        def fault_in(output: str) -> str:
            return output.strip().splitlines()[-1]

        @staticmethod
        def words(_: str) -> list[str]:
            return ["cc"]

        @staticmethod
        def libraries_of(_: str) -> dict[str, str]:
            return {"_native.so": "python.c"}

        @staticmethod
        def command_of(*words: object) -> list[str]:
            sources = words[3]
            assert isinstance(sources, list)
            return ["cc", *map(str, sources)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "note\nerror: no\n")

    monkeypatch.setattr(bench_builds, "load_build_hook", Compiler)
    monkeypatch.setattr(subprocess, "run", run)
    name = "ROWS=9,CACHE_BYTES=4194304"
    with pytest.raises(BuildError) as caught:
        build_of(name, tmp_path / "0")
    assert str(caught.value) == f"the compiler refuses {name}: error: no"
    folder = tmp_path / "0" / KERNELS
    assert commands == [["cc", str(folder / "machine.c"), "-DCACHE_BYTES=4194304"]]
    assert (folder / "thresholds.h").read_text() == "enum {\n    ROWS = 9,\n};\n"


COMPARISONS = [
    Comparison(WORKLOADS[0], {".": Times(1.0, 2.0), "A=1": Times(2.0, 2.0)}),
    Comparison(WORKLOADS[1], {".": Times(4.0, 4.0), "A=1": Times(2.0, 4.0)}),
]


def test_the_summary_of_a_build() -> None:
    assert summary("A=1", ".", COMPARISONS) == (
        "A=1 / .: geometric mean 1.00 / 1.00, worst 2.00 / 1.00 (workload 1), best"
        " 0.50 / 1.00 (workload 1b)"
    )


def test_a_loss_takes_the_place_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_builds, "machine_kind", lambda: "fast")
    path = tmp_path / "thresholds.json"
    other = {"machine": "slow", "base": ".", "change": "A=1"}
    path.write_text(json.dumps([other]))
    for load in (1.0, 2.0):
        save_losses(path, [".", "A=1", "HEAD"], COMPARISONS, (load, load))
    assert json.loads(path.read_text()) == [
        {
            "machine": "fast",
            "base": ".",
            "change": "A=1",
            "load": [2.0, 2.0],
            "mean": [1.0, 1.0],
            "worst": [2.0, 1.0],
            "worst_workload": "1",
        },
        other,
    ]


def test_builds_are_refused_that_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = {
        ". --rounds 0": "--rounds and --threads must be at least 1",
        ". --random -1": "--random and --seed must be at least 0",
        ". --offset 4096": "--offset must be less than 4096",
        ". .": "each build must be named once",
        ". --only 99": "--only must name a workload or a random shape",
    }
    for words, message in messages.items():
        monkeypatch.setattr(sys, "argv", ["bench_builds.py", *words.split()])
        with pytest.raises(SystemExit):
            bench_builds.main()
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"bench_builds.py: error: {message}"
    monkeypatch.setattr(sys, "argv", ["bench_builds.py", "no-such-thing"])
    with pytest.raises(SystemExit) as caught:
        bench_builds.main()
    assert caught.value.code == (
        "bench_builds.py: a build must be a change, a revision, a folder or a file, got"
        " no-such-thing"
    )
