"""The script that makes wheels of all platforms, and what reads them back."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from email import message_from_string
from importlib.metadata import distribution, requires
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from unittest.mock import patch
from zipfile import ZipFile

import pytest
import wheels
from packaging.requirements import Requirement
from wheel_checks import LARGEST, faults

SCRIPT = Path(wheels.__file__)
made_here = pytest.mark.skipif(
    None in map(find_spec, wheels.EXTRA), reason="the extra `wheels` is not installed"
)


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the script; return the exit code and what it says."""
    out, err = StringIO(), StringIO()
    words = patch.object(sys, "argv", ["wheels.py", *arguments])
    with words, redirect_stdout(out), redirect_stderr(err):
        code = wheels.main()
    return code, out.getvalue(), err.getvalue()


def test_an_unknown_platform_is_told_in_a_sentence(tmp_path: Path) -> None:
    output = tmp_path / "dist"
    assert run("--platform", "win32", "-o", str(output)) == (
        2,
        "",
        (
            "wheels.py: a platform must be one of win_amd64, win_arm64,"
            " macosx_11_0_arm64, macosx_10_13_x86_64, manylinux_2_28_x86_64,"
            " manylinux_2_28_aarch64, musllinux_1_2_x86_64, got win32\n"
        ),
    )
    assert not output.exists()


def test_without_the_extra_it_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wheels, "EXTRA", ("a_compiler",))
    assert run("-o", str(tmp_path / "dist")) == (
        2,
        "",
        "wheels.py: a_compiler is not installed: pip install -e '.[wheels]'\n",
    )


@made_here
def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, _, said = run("--platform", "win_amd64", "-o", str(file))
    assert (code, said) == (2, f"wheels.py: {file}: File exists\n")


@pytest.mark.slow
@made_here
def test_a_compile_that_fails_is_told_in_the_words_of_the_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_headers(folder: Path) -> Path:
        return folder

    monkeypatch.setattr(wheels, "headers", no_headers)
    output = tmp_path / "dist"
    code, _, said = run("--platform", "manylinux_2_28_x86_64", "-o", str(output))
    assert code == 1
    assert re.fullmatch(
        r"wheels\.py: manylinux_2_28_x86_64: the native kernels must be built, as "
        r"ONNXGATHER_NATIVE is 1, but the C compiler failed: .*python\.c:\d+:\d+: fatal"
        r" error: "
        r"'Python\.h' file not found\n",
        said,
    )
    assert [*output.iterdir()] == []


def build(kind: str, folder: Path, output: Path) -> Path:
    """Build a wheel or an sdist of a checkout in an empty folder; return its path."""
    words = f"-m hatchling build -t {kind} -d".split()
    command = [sys.executable, *words, str(output)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (made,) = output.iterdir()
    return made


@pytest.mark.slow
def test_the_sdist_makes_the_same_wheel_which_has_the_licences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONNXGATHER_NATIVE", "0")
    root = SCRIPT.parents[1]
    with tarfile.open(build("sdist", root, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    own = build("wheel", root, tmp_path / "own")
    other = build("wheel", tmp_path / "onnxgather-0.1.0", tmp_path / "other")
    assert (own.name, own.read_bytes()) == (other.name, other.read_bytes())
    with ZipFile(own) as archive:
        wanted = [*root.glob("onnxgather/**/*.mjs"), root / "onnxgather" / "py.typed"]
        names = {path.relative_to(root).as_posix() for path in wanted}
        assert names <= {*archive.namelist()}
        for path in [root / "LICENSE", *(root / "licenses").iterdir()]:
            name = path.relative_to(root).as_posix()
            assert archive.read(f"{INFO}/licenses/{name}") == path.read_bytes()


def wheel_of(name: str, folder: Path) -> set[str]:
    """Write a wheel of the files of an installed package; return what it asks for."""
    installed = distribution(name)
    tag = message_from_string(installed.read_text("WHEEL") or "")["Tag"]
    path = folder / f"{name.replace('-', '_')}-{installed.version}-{tag}.whl"
    with ZipFile(path, "w") as archive:
        for file in installed.files or []:
            is_of_wheel = ".." not in file.parts and file.suffix != ".pyc"
            if is_of_wheel:
                archive.write(file.locate(), file)
    asked = map(Requirement, installed.requires or [])
    return {
        each.name.replace("_", "-").lower()
        for each in asked
        if not each.marker or each.marker.evaluate({"extra": ""})
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of POSIX")
def test_the_sdist_installs_without_a_compiler_an_index_and_onnx_runtime(
    tmp_path: Path,
) -> None:
    root = SCRIPT.parents[1]
    packages = tmp_path / "packages"
    sdist = build("sdist", root, packages)
    own = map(Requirement, requires("onnxgather") or [])
    names = {each.name for each in own if not each.marker} | {"hatchling"}
    written: set[str] = set()
    while names:
        name = names.pop()
        written.add(name)
        names |= wheel_of(name, packages) - written
    fresh = tmp_path / "fresh"
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)

    def told(*command: str) -> subprocess.CompletedProcess[str]:
        alone = {"PATH": f"{fresh}/bin", "HOME": str(tmp_path)}
        return subprocess.run(
            command, capture_output=True, text=True, env=alone, cwd=tmp_path
        )

    pip = [f"{fresh}/bin/python", "-m", "pip", "--isolated", "install", "--no-index"]
    installed = told(*pip, "--find-links", str(packages), str(sdist))
    assert installed.returncode == 0, installed.stderr

    # It says what is missing.
    reason = (
        "the path had no C compiler named cc or gcc or clang; install one, or name"
        " yours in CC, and install onnxgather from its sources once more"
    )
    doctor = told(f"{fresh}/bin/onnxgather", "doctor")
    built = "they were not built with onnxgather"
    assert f"native kernels: none, as {built}, as {reason}\n" in doctor.stdout
    missing = f"the native kernels must be there, but {built}, as {reason}\n"
    for call in ("provider_library()", "add_provider(None)"):
        python = [f"{fresh}/bin/python", "-c", f"import onnxgather as og; og.{call}"]
        assert told(*python).stderr.endswith(f"onnxgather.ProviderError: {missing}")

    # It translates a gather.
    program = "gather_2_concatenate_rows.json"
    output = tmp_path / "rows.onnx"
    model = root / "models" / program
    convert = [f"{fresh}/bin/onnxgather", "convert", str(model), "-o", str(output)]
    assert told(*convert).returncode == 0
    assert output.read_bytes() == model.with_suffix(".onnx").read_bytes()


TAG = "manylinux_2_28_x86_64"
MODULE, OPERATORS = "onnxgather/_native.abi3.so", "onnxgather/onnxgather_operators.so"
INFO = "onnxgather-0.1.0.dist-info"

Files = dict[str, bytes]


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Files], None]:
    """Return a change of one file."""

    def change(files: Files) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new)

    return change


def without_operators(files: Files) -> None:
    del files[OPERATORS]


def with_symbols(files: Files) -> None:
    files["onnxgather/_native.pdb"] = b""


def without_a_licence(files: Files) -> None:
    del files[f"{INFO}/licenses/licenses/zig.txt"]


def with_a_large_file(files: Files) -> None:
    rest = sum(map(len, files.values()))
    files["onnxgather/model.onnx"] = b"0" * (LARGEST + 1 - rest)


def with_operators_twice(files: Files) -> None:
    files[MODULE] = files[OPERATORS]


def for_another_machine(files: Files) -> None:
    files[OPERATORS] = files[OPERATORS][:18] + b"\xb7\0" + files[OPERATORS][20:]


def with_text(files: Files) -> None:
    files[MODULE] = b"no library"


MISTAKES: dict[Callable[[Files], None], list[str]] = {
    without_operators: [f"its libraries must be {MODULE}, {OPERATORS}, got {MODULE}"],
    with_symbols: [
        f"its libraries must be {MODULE}, {OPERATORS}, got {MODULE},"
        f" onnxgather/_native.pdb, {OPERATORS}"
    ],
    without_a_licence: [
        "the wheel must have licenses/zig.txt as it is in the checkout"
    ],
    with_a_large_file: [
        "its files must have at most 3,800,000 bytes, got 3,800,001",
    ],
    with_operators_twice: [
        "_native.abi3.so must export PyInit__native alone, got CreateEpFactories,"
        " RegisterCustomOps, ReleaseEpFactory, onnxgather_provider_report",
        "_native.abi3.so must import functions of Python, but imports no function",
    ],
    for_another_machine: ["onnxgather_operators.so must be for X86_64, got AARCH64"],
    with_text: ["_native.abi3.so must be one library that lief reads"],
    replaced(MODULE, b"PyTuple_GetItem\0", b"PyTuple_GetIten\0"): [
        "_native.abi3.so must keep to the stable ABI of Python 3.11, got"
        " PyTuple_GetIten"
    ],
    replaced(OPERATORS, b"\0fclose\0", b"\0Py_Run\0"): [
        "onnxgather_operators.so must keep to the stable ABI of Python 3.11, got Py_Run"
    ],
    replaced(MODULE, b"libc.so.6", b"libz.so.6"): [
        "_native.abi3.so must import the system's libraries alone, got libz.so.6"
    ],
    replaced(MODULE, b"GLIBC_2.2.5", b"GLIBC_2.999"): [
        "_native.abi3.so must run on version 2.28, needs 2.999"
    ],
    replaced(f"{INFO}/WHEEL", b"Purelib: false", b"Purelib: true"): [
        "Root-Is-Purelib of WHEEL must be false, got true"
    ],
    replaced(f"{INFO}/WHEEL", b"manylinux_2_28", b"manylinux_2_17"): [
        f"Tag of WHEEL must be cp311-abi3-{TAG}, got cp311-abi3-manylinux_2_17_x86_64"
    ],
}
"""What is wrong with a wheel, and what is said of it."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of a platform, which is right, made once."""
    output = tmp_path_factory.mktemp("dist")
    code, said, wrong = run("--platform", TAG, "-o", str(output))
    (made,) = output.iterdir()
    lines = [re.sub(r"^ *\d+ s  ", "", line) for line in said.splitlines()]
    assert (code, wrong, lines) == (
        0,
        "",
        [
            f"{TAG}: compiling",
            f"{TAG}: reading back",
            f"{TAG}: {made.name}; its libraries run in CI",
            f"1 wheel in {output}",
        ],
    )
    assert made.name == f"onnxgather-0.1.0-cp311-abi3-{TAG}.whl"
    return made


def write(wheel: Path, files: Files) -> None:
    """Write a wheel of files."""
    with ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


@made_here
@pytest.mark.slow
def test_mistakes_planted_in_a_wheel_are_told(wheel: Path, tmp_path: Path) -> None:
    copy = tmp_path / wheel.name
    with ZipFile(wheel) as archive:
        right = {name: archive.read(name) for name in archive.namelist()}
    write(copy, right)
    assert faults(copy, TAG) == []
    for change, sentences in MISTAKES.items():
        files = right.copy()
        change(files)
        write(copy, files)
        assert faults(copy, TAG) == sentences


@made_here
@pytest.mark.slow
def test_the_wheel_of_another_platform_is_told(wheel: Path) -> None:
    found = faults(wheel, "musllinux_1_2_x86_64")
    assert [sentence.partition(",")[0] for sentence in found] == [
        "the wheel must be named onnxgather-0.1.0-cp311-abi3-musllinux_1_2_x86_64.whl",
        "Tag of WHEEL must be cp311-abi3-musllinux_1_2_x86_64",
        "_native.abi3.so must import the system's libraries alone",
        "_native.abi3.so must run on version 0.0",
        "onnxgather_operators.so must import the system's libraries alone",
        "onnxgather_operators.so must run on version 0.0",
    ]


@made_here
@pytest.mark.slow
def test_a_library_for_macos_is_thin_and_signed(tmp_path: Path) -> None:
    tag, output = "macosx_11_0_arm64", tmp_path / "dist"
    assert run("--platform", tag, "-o", str(output))[0] == 0
    (wheel,) = output.iterdir()
    with ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = "onnxgather/onnxgather_operators.dylib"
    thin = files[name]
    # a file for two machines, the first of which is right
    kinds = ((0x100000C, 0), (0x1000007, 3))
    places = [struct.pack(">5I", *kind, 1 << 14, len(thin), 14) for kind in kinds]
    head = struct.pack(">2I", 0xCAFEBABE, 2) + b"".join(places)
    write(wheel, files | {name: head.ljust(1 << 14, b"\0") + thin})
    assert faults(wheel, tag) == [
        "onnxgather_operators.dylib must be one library that lief reads"
    ]
    unsigned = thin.replace(struct.pack("<2I", 0x1D, 16), struct.pack("<2I", 0x2B, 16))
    write(wheel, files | {name: unsigned})
    assert faults(wheel, tag) == [
        "onnxgather_operators.dylib must be signed, as macOS on ARM runs nothing else"
    ]
