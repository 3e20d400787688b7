"""The native kernels where they are built, where they are not, and how installing
builds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest
from build_hook import load_build_hook
from messages import message_of
from rings import one_quick_in

import onnxgather as og
from onnxgather.core.execution import kernels

ROOT = Path(__file__).parents[3]
built = pytest.mark.skipif(
    kernels.operators_library() is None, reason="the native kernels are not built"
)


hatch_build = load_build_hook()
SUFFIXES = {".so", ".pyd", ".dll", ".dylib"}
posix = pytest.mark.skipif(
    os.name == "nt", reason="the stand-in compiler is a shell script"
)


@built
def test_both_libraries_are_there() -> None:
    assert og.custom_ops_library() == kernels.operators_library()
    module = kernels.python_kernels()
    assert module is not None
    assert module.__name__ == "onnxgather._native"


def test_a_variable_hides_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    assert (kernels.operators_library(), kernels.python_kernels()) == (None, None)
    assert message_of(og.ProviderError, og.custom_ops_library) == (
        "the native kernels must be there, but ONNXGATHER_NATIVE is 0"
    )


def test_without_the_kernels_the_library_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONNXGATHER_NATIVE", raising=False)
    monkeypatch.setattr(kernels, "_OPERATORS", tmp_path / "gone.so")
    monkeypatch.setattr(kernels, "_WHY_NOT", tmp_path / "gone.txt")
    monkeypatch.setitem(sys.modules, "onnxgather._native", None)
    assert (kernels.operators_library(), kernels.python_kernels()) == (None, None)
    assert message_of(og.ProviderError, og.custom_ops_library) == (
        "the native kernels must be there, but they are not beside onnxgather's"
        " modules; install onnxgather once more"
    )


class TestBuilding:
    @pytest.fixture(autouse=True)
    def _project(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder = tmp_path / "project", tmp_path / "dist"
        self.root.mkdir()
        for name in (
            "pyproject.toml",
            "hatch_build.py",
            "hatch_description.py",
            "README.md",
            "LICENSE",
            ".gitignore",
        ):
            shutil.copy(ROOT / name, self.root)
        native = "onnxgather/native"
        shutil.copytree(ROOT / native, self.root / native)
        (self.root / "onnxgather" / "core").mkdir()
        for module in self.PYTHON:
            shutil.copy(ROOT / module, self.root / module)
        for variable in ("ONNXGATHER_NATIVE", "CC"):
            monkeypatch.delenv(variable, raising=False)
        monkeypatch.setenv("CFLAGS", "-O0")  # quicker to compile

    def build(self, *arguments: str) -> tuple[int, str]:
        """Build a wheel, or what the arguments say; return the exit code and the
        errors."""
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
            "web_page.mjs",
            "webnn_programs.mjs",
        )
    }
    WHY_NOT = "onnxgather/no_kernels.txt"
    CAPTURE = "onnxgather/native/directml_capture.h"
    PYTHON = {
        "onnxgather/__init__.py",
        "onnxgather/__init__.pyi",
        "onnxgather/core/version.py",
        "onnxgather/py.typed",
    }
    PURE = "py3-none-any", {*PYTHON, WHY_NOT, CAPTURE, *HOST}

    @built
    @pytest.mark.slow
    def test_a_wheel_with_kernels_says_so_in_its_tag(self) -> None:
        assert self.build()[0] == 0
        tag, names = self.wheel()
        assert tag.startswith("cp311-abi3-")
        assert tag != "cp311-abi3-any"
        added = {f"onnxgather/{path.name}" for path in self.libraries(ROOT)}
        assert len(added) == 2
        assert names == (self.PURE[1] | added) - {self.WHY_NOT}
        assert self.libraries(self.root) == []

    AGAIN = "install onnxgather from its sources once more"

    @pytest.mark.parametrize(
        ("variable", "value", "why", "advice"),
        one_quick_in(
            3,
            [
                (
                    "ONNXGATHER_NATIVE",
                    "0",
                    "ONNXGATHER_NATIVE was 0",
                    f"{AGAIN} without it",
                ),
                (
                    "CC",
                    "/nonexistent/cc -m64",
                    "/nonexistent/cc did not start: No such file or directory",
                    f"mend CC, and {AGAIN}",
                ),
                pytest.param(
                    "PATH",
                    "",
                    "the path had no C compiler named cc or gcc or clang",
                    f"install one, or name yours in CC, and {AGAIN}",
                    marks=posix,
                ),
            ],
        ),
    )
    def test_a_wheel_without_kernels_says_why(
        self,
        monkeypatch: pytest.MonkeyPatch,
        variable: str,
        value: str,
        why: str,
        advice: str,
    ) -> None:
        """When it is built, and in a file that the doctor reads."""
        monkeypatch.setenv(variable, value)
        self.says_why(monkeypatch, why, advice)

    def says_why(self, monkeypatch: pytest.MonkeyPatch, why: str, advice: str) -> None:
        """Build a wheel without kernels, and see what it says."""
        code, said = self.build()
        lines = said.splitlines()  # the last one is the path of the wheel
        assert (code, lines[:-1]) == (
            0,
            [f"the native kernels are not built, as {why}"],
        )
        assert self.wheel() == self.PURE
        (wheel,) = self.folder.glob("*.whl")
        with ZipFile(wheel) as archive:
            archive.extract(self.WHY_NOT, self.folder)
        monkeypatch.setattr(kernels, "_WHY_NOT", self.folder / self.WHY_NOT)
        monkeypatch.delenv("ONNXGATHER_NATIVE", raising=False)
        assert (
            kernels.why_not()
            == f"they were not built with onnxgather, as {why}; {advice}"
        )

    @posix
    @pytest.mark.parametrize(
        ("printed", "line"),
        one_quick_in(
            5,
            [
                (
                    "a note\npython.c:3: error: no Python.h\n",
                    "python.c:3: error: no Python.h",
                ),
                (
                    (
                        "ld: cannot find -lpthread\ncollect2: error: ld returned 1 exit"
                        " status\n"
                    ),
                    "ld: cannot find -lpthread",
                ),
                (
                    (
                        "ld: a.o: file in wrong format\ncollect2: error:"
                        " ld returned 1 exit"
                        " status\n"
                    ),
                    "ld: a.o: file in wrong format",
                ),
                ("Lizenz \udce4bgelaufen\n", "Lizenz \ufffdbgelaufen"),
                ("", "7"),
            ],
        ),
    )
    def test_of_a_compiler_that_fails_the_line_with_the_error_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: str, line: str
    ) -> None:
        said = tmp_path / "said"
        said.write_text(printed, encoding="utf-8", errors="surrogateescape")
        fails = tmp_path / "cc"
        fails.write_text(f'#!/bin/sh\ncat "{said}"; exit 7\n')
        fails.chmod(0o755)
        monkeypatch.setenv("CC", str(fails))
        why = f"the C compiler failed: {line}"
        self.says_why(monkeypatch, why, f"mend that, and {self.AGAIN}")
        for path in self.folder.glob("*.whl"):
            path.unlink()
        monkeypatch.setenv("ONNXGATHER_NATIVE", "1")
        forced = "the native kernels must be built, as ONNXGATHER_NATIVE is 1, but"
        assert self.build() == (1, f"{forced} {why}\n")
        assert not [*self.folder.glob("*.whl")]

    @pytest.mark.parametrize(
        ("variables", "message"),
        one_quick_in(
            5,
            [
                (
                    {"ONNXGATHER_NATIVE": "1", "CC": "/nonexistent/cc"},
                    (
                        "the native kernels must be built, as"
                        " ONNXGATHER_NATIVE is 1, but"
                        " /nonexistent/cc did not start: No such file or directory\n"
                    ),
                ),
                (
                    {"ONNXGATHER_NATIVE": "1", "PATH": ""},
                    (
                        "the native kernels must be built, as"
                        " ONNXGATHER_NATIVE is 1, but"
                        " the path had no C compiler named cc or gcc or clang\n"
                    ),
                ),
                (
                    {"ONNXGATHER_NATIVE": "yes"},
                    "ONNXGATHER_NATIVE must be 0 or 1, got yes\n",
                ),
                (
                    {"ONNXGATHER_PLATFORM": "windows"},
                    (
                        "ONNXGATHER_PLATFORM must be a tag such as"
                        " win_amd64, got windows\n"
                    ),
                ),
                (
                    {"CC": "'/usr/bin/cc"},
                    (
                        "CC, CFLAGS, LDFLAGS and ARCHFLAGS must be words: No closing"
                        " quotation\n"
                    ),
                ),
            ],
        ),
    )
    def test_what_forbids_a_wheel_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
    ) -> None:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        assert self.build() == (1, message)

    def libraries(self, root: Path) -> list[Path]:
        """Return the libraries beside the modules."""
        return sorted(
            path for path in (root / "onnxgather").iterdir() if path.suffix in SUFFIXES
        )

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
        assert "ONNXGATHER_NATIVE was 0" in (self.root / self.WHY_NOT).read_text(
            encoding="utf-8"
        )
        monkeypatch.delenv("ONNXGATHER_NATIVE")
        assert self.build("-t", "wheel:editable")[0] == 0
        assert not (self.root / self.WHY_NOT).exists()

    HEADERS = "-IC:\\Python\\include"
    FLAGS = "-O2 -std=c11 -fvisibility=hidden -shared"
    LIBRARY = "C:\\Python"

    @pytest.mark.parametrize(
        ("compiler", "system", "made", "command"),
        [
            (
                "C:\\VC\\cl.exe",
                "win32",
                "_native.pyd",
                (
                    f"{HEADERS} /nologo /O2 /std:c11 /experimental:c11atomics /LD"
                    f" /Fe_native.pyd python.c /link /LIBPATH:{LIBRARY}\\libs"
                ),
            ),
            (
                "gcc",
                "win32",
                "_native.pyd",
                f"{HEADERS} {FLAGS} -o_native.pyd python.c -L{LIBRARY}\\libs -lpython3",
            ),
            (
                "C:\\LLVM\\bin\\clang.exe",
                "win32",
                "onnxgather_operators.dll",
                f"{HEADERS} {FLAGS} -oonnxgather_operators.dll python.c",
            ),
            (
                "clang",
                "darwin",
                "_native.abi3.so",
                (
                    f"{HEADERS} {FLAGS} -o_native.abi3.so -Wl,-undefined,dynamic_lookup"
                    " -Wl,-install_name,@rpath/_native.abi3.so -fPIC -pthread"
                    " -falign-loops=32 python.c"
                ),
            ),
            (
                "cc",
                "linux",
                "_native.abi3.so",
                (
                    f"{HEADERS} {FLAGS} -o_native.abi3.so -fPIC -pthread"
                    " -falign-loops=32 python.c"
                ),
            ),
        ],
    )
    def test_each_compiler_gets_its_own_options(
        self,
        monkeypatch: pytest.MonkeyPatch,
        compiler: str,
        system: str,
        made: str,
        command: str,
    ) -> None:
        """Windows' own are not run here; nor are macOS'."""
        for variable in ("CFLAGS", "LDFLAGS", "ARCHFLAGS"):
            monkeypatch.delenv(variable, raising=False)
        python = (self.HEADERS.removeprefix("-I"), self.LIBRARY)
        found = hatch_build.command_of([compiler], system, made, ["python.c"], python)
        assert found == [compiler, *command.split()]
        bare = hatch_build.command_of([compiler], system, made, ["python.c"], None)
        assert bare == [
            word for word in found if self.LIBRARY not in word or word == compiler
        ]

    @pytest.mark.parametrize(
        ("platform", "libraries"),
        [
            ("win_arm64", ["_native.pyd", "onnxgather_operators.dll"]),
            ("macosx_11_0_arm64", ["_native.abi3.so", "onnxgather_operators.dylib"]),
            ("musllinux_1_2_x86_64", ["_native.abi3.so", "onnxgather_operators.so"]),
        ],
    )
    def test_each_platform_has_its_own_names(
        self, platform: str, libraries: list[str]
    ) -> None:
        assert [*hatch_build.libraries_of(hatch_build.system_of(platform))] == libraries

    @pytest.mark.parametrize(
        ("text", "system", "words"),
        [
            (
                "C:\\mingw64\\bin\\gcc.exe -m64",
                "win32",
                ["C:\\mingw64\\bin\\gcc.exe", "-m64"],
            ),
            (
                '"C:\\Program Files\\LLVM\\clang.exe" -I"C:\\a b"',
                "win32",
                ["C:\\Program Files\\LLVM\\clang.exe", "-IC:\\a b"],
            ),
            ("C:\\O'Brien\\gcc.exe", "win32", ["C:\\O'Brien\\gcc.exe"]),
            ("cc -DNAME='a b' -I/a\\ b", "linux", ["cc", "-DNAME=a b", "-I/a b"]),
            ("cc#1", "linux", ["cc#1"]),
            ("", "win32", []),
        ],
    )
    def test_a_variable_is_words(
        self, monkeypatch: pytest.MonkeyPatch, text: str, system: str, words: list[str]
    ) -> None:
        monkeypatch.setenv("CC", text)
        assert hatch_build.words("CC", system) == words

    def test_the_source_distribution_holds_the_sources(self) -> None:
        assert self.build("-t", "sdist")[0] == 0
        (path,) = self.folder.glob("*.tar.gz")
        with tarfile.open(path) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        sources = {
            path.relative_to(ROOT).as_posix()
            for path in (ROOT / "onnxgather/native").glob("*/*.*")
        }
        assert names >= {"hatch_build.py", *sources}
