"""The native kernels where they are built, where they are not, and how installing builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

import onnxgather as og
from onnxgather.execution import kernels

ROOT = Path(__file__).parents[2]
built = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)
SUFFIXES = {".so", ".pyd", ".dll", ".dylib"}
posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in compiler is a shell script")


@built
def test_both_libraries_are_there() -> None:
    assert og.custom_ops_library() == kernels.operators_library()
    module = kernels.python_kernels()
    assert module is not None
    assert module.__name__ == "onnxgather._native"


def test_a_variable_hides_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    assert (kernels.operators_library(), kernels.python_kernels()) == (None, None)
    with pytest.raises(og.ProviderError) as error:
        og.custom_ops_library()
    assert str(error.value) == "the native kernels must be there, but ONNXGATHER_NATIVE is 0"


def test_without_the_kernels_the_library_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONNXGATHER_NATIVE", raising=False)
    monkeypatch.setattr(kernels, "_OPERATORS", tmp_path / "gone.so")
    monkeypatch.setitem(sys.modules, "onnxgather._native", None)
    assert (kernels.operators_library(), kernels.python_kernels()) == (None, None)
    with pytest.raises(og.ProviderError) as error:
        og.custom_ops_library()
    assert str(error.value) == (
        "the native kernels must be there, but they were not built when onnxgather was installed; "
        "install a C compiler, and onnxgather once more"
    )


class TestBuilding:
    @pytest.fixture(autouse=True)
    def _project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder = tmp_path / "project", tmp_path / "dist"
        self.root.mkdir()
        for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
            shutil.copy(ROOT / name, self.root)
        native = "onnxgather/native"
        shutil.copytree(ROOT / native, self.root / native)
        shutil.copy(ROOT / "onnxgather" / "py.typed", self.root / "onnxgather")
        (self.root / "onnxgather" / "__init__.py").touch()
        for variable in ("ONNXGATHER_NATIVE", "CC"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("CFLAGS", "-O0")  # quicker to compile

    def build(self, *arguments: str) -> tuple[int, str]:
        """Build a wheel, or what the arguments say; return the exit code and the errors."""
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(self.folder)]
        command += arguments or ["-t", "wheel"]
        run = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        return run.returncode, run.stderr

    def wheel(self) -> tuple[str, set[str]]:
        """Return the tag of the wheel that was built, and the files of its package."""
        (path,) = self.folder.glob("*.whl")
        with ZipFile(path) as wheel:
            names = {name for name in wheel.namelist() if "dist-info" not in name}
        return path.stem.removeprefix("onnxgather-0.1.0-"), names

    HOST = {
        f"onnxgather/native/hosts/{name}"
        for name in (
            "directml_host.cpp",
            "runtime_host.cpp",
            "protocol.h",
            "direct3d.h",
            "directml.h",
        )
    }
    PURE = "py3-none-any", {"onnxgather/__init__.py", "onnxgather/py.typed", *HOST}

    @built
    @pytest.mark.slow
    def test_a_wheel_with_kernels_says_so_in_its_tag(self) -> None:
        assert self.build()[0] == 0
        tag, names = self.wheel()
        assert tag.startswith("cp311-abi3-")
        assert tag != "cp311-abi3-any"
        added = {f"onnxgather/{path.name}" for path in self.libraries(ROOT)}
        assert len(added) == 2
        assert names == self.PURE[1] | added
        assert self.libraries(self.root) == []

    @pytest.mark.parametrize(
        ("variable", "value"), [("ONNXGATHER_NATIVE", "0"), ("CC", "/nonexistent/cc")]
    )
    def test_without_kernels_the_wheel_is_pure(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        code, said = self.build()
        assert (code, said.count("\n")) == (0, 1)  # the path of the wheel
        assert self.wheel() == self.PURE

    @posix
    @pytest.mark.parametrize("forced", [False, True])
    def test_a_compiler_that_fails_makes_a_pure_wheel_unless_the_kernels_are_forced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forced: bool
    ) -> None:
        fails = tmp_path / "cc"
        fails.write_text('#!/bin/sh\necho "note"; echo "python.c:3: error: no Python.h"; exit 1\n')
        fails.chmod(0o755)
        monkeypatch.setenv("CC", str(fails))
        if not forced:
            assert self.build()[0] == 0
            assert self.wheel() == self.PURE
            return
        monkeypatch.setenv("ONNXGATHER_NATIVE", "1")
        assert self.build() == (
            1,
            "the native kernels must be built, as ONNXGATHER_NATIVE is 1: python.c:3: error: no "
            "Python.h\n",
        )
        assert not self.folder.exists() or not [*self.folder.iterdir()]

    @pytest.mark.parametrize(
        ("variables", "message"),
        [
            (
                {"ONNXGATHER_NATIVE": "1", "CC": "/nonexistent/cc"},
                "the native kernels must be built, as ONNXGATHER_NATIVE is 1: /nonexistent/cc: No "
                "such file or directory\n",
            ),
            (
                {"ONNXGATHER_NATIVE": "1", "PATH": ""},
                "the native kernels must be built, as ONNXGATHER_NATIVE is 1: there is no C "
                "compiler\n",
            ),
            ({"ONNXGATHER_NATIVE": "yes"}, "ONNXGATHER_NATIVE must be 0 or 1, got yes\n"),
        ],
    )
    def test_what_forbids_a_wheel_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
    ) -> None:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        assert self.build() == (1, message)

    def libraries(self, root: Path) -> list[Path]:
        """Return the libraries beside the modules."""
        return sorted(path for path in (root / "onnxgather").iterdir() if path.suffix in SUFFIXES)

    @built
    @pytest.mark.slow
    def test_an_editable_install_has_the_kernels_beside_the_modules(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.build("-t", "wheel:editable")[0] == 0
        assert [path.name for path in self.libraries(self.root)] == [
            path.name for path in self.libraries(ROOT)
        ]
        monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
        assert self.build("-t", "wheel:editable")[0] == 0
        assert self.libraries(self.root) == []

    def test_the_source_distribution_holds_the_sources(self) -> None:
        assert self.build("-t", "sdist")[0] == 0
        (path,) = self.folder.glob("*.tar.gz")
        with tarfile.open(path) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        sources = {
            path.relative_to(ROOT).as_posix() for path in (ROOT / "onnxgather/native").glob("*/*.*")
        }
        assert names >= {"hatch_build.py", *sources}
