"""Reads a wheel back: its tag, its files and licences, and what its libraries need.

The rules are those of a wheel with native kernels, for each platform of
scripts/wheels.py. lief reads the libraries; abi3audit and auditwheel judge the wheel
again, by their own rules.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from onnxgather.core.version import __version__

ROOT = Path(__file__).parents[1]

LARGEST = 3_800_000
"""The bytes that the files of a wheel may have together; the largest wheel of 0.1.0
has 3,406,678."""


@dataclass(frozen=True)
class System:
    """What the libraries of an operating system are named, and what they may import."""

    module: str
    operators: str
    imports: str
    """A pattern of libraries; python3.dll besides, which the module for Windows
    imports."""


@dataclass(frozen=True)
class Platform:
    """What the libraries of a platform must be."""

    target: str
    """What zig calls it."""
    machine: str
    """What lief calls its machine."""
    system: System
    oldest: tuple[int, int] = (0, 0)
    """The oldest glibc, or the oldest macOS, that its libraries run on."""
    ran: str = "its libraries have not run"
    """What of it has run."""


WINDOWS = System(
    "_native.pyd",
    "onnxgather_operators.dll",
    r"KERNEL32\.dll|api-ms-win-crt-[a-z]+-l1-1-0\.dll",
)
MACOS = System(
    "_native.abi3.so", "onnxgather_operators.dylib", r"/usr/lib/libSystem\.B\.dylib"
)
GLIBC = System(
    "_native.abi3.so", "onnxgather_operators.so", r"libc\.so\.6|libpthread\.so\.0"
)
MUSL = System("_native.abi3.so", "onnxgather_operators.so", r"libc\.so")

PLATFORMS = {
    "win_amd64": Platform(
        "x86_64-windows-gnu",
        "AMD64",
        WINDOWS,
        ran="onnxgather_operators.dll runs under Wine, _native.pyd has not run",
    ),
    "win_arm64": Platform("aarch64-windows-gnu", "ARM64", WINDOWS),
    "macosx_11_0_arm64": Platform("aarch64-macos.11.0", "ARM64", MACOS, (11, 0)),
    "macosx_10_13_x86_64": Platform("x86_64-macos.10.13", "X86_64", MACOS, (10, 13)),
    "manylinux_2_28_x86_64": Platform(
        "x86_64-linux-gnu.2.28", "X86_64", GLIBC, (2, 28), "its libraries run in CI"
    ),
    "manylinux_2_28_aarch64": Platform(
        "aarch64-linux-gnu.2.28",
        "AARCH64",
        GLIBC,
        (2, 28),
        "its kernels run in an emulator, its libraries have not run",
    ),
    "musllinux_1_2_x86_64": Platform("x86_64-linux-musl", "X86_64", MUSL),
}
"""The platforms, by the tags of their wheels."""

MODULE_EXPORTS = {"PyInit__native"}
"""What the Python module exports."""

OPERATORS_EXPORTS = {
    "RegisterCustomOps",
    "CreateEpFactories",
    "ReleaseEpFactory",
    "onnxgather_provider_report",
}
"""What the library of the operators exports: for them, for the provider, for its
report."""

LINKERS_OWN = {"__mh_dylib_header", "___dso_handle"}
"""What zig's linker exports of each library for macOS."""


def faults(wheel: Path, tag: str) -> list[str]:
    """Return what is wrong with the wheel of a platform, each in a sentence."""
    system = PLATFORMS[tag].system
    with ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    found = [*of_names(wheel.name, files, tag), *of_files(files)]
    for name, exports in (
        (system.module, MODULE_EXPORTS),
        (system.operators, OPERATORS_EXPORTS),
    ):
        if library := files.get(f"onnxgather/{name}"):
            found += [
                f"{name} {fault}"
                for fault in of_library(library, exports, PLATFORMS[tag])
            ]
    return found or [*of_others(wheel, tag)]


def of_names(name: str, files: dict[str, bytes], tag: str) -> Iterator[str]:
    """Yield what is wrong with the names of a wheel and its libraries, and its tags."""
    system = PLATFORMS[tag].system
    right = f"onnxgather-{__version__}-cp311-abi3-{tag}.whl"
    if name != right:
        yield f"the wheel must be named {right}, got {name}"
    pattern = r".*\.(so|dylib|pyd|dll|lib|a|pdb|o|obj)(\.\d+)*"
    there = sorted(file for file in files if re.fullmatch(pattern, file))
    wanted = sorted(f"onnxgather/{each}" for each in (system.module, system.operators))
    if there != wanted:
        yield (
            f"its libraries must be {', '.join(wanted)}, got"
            f" {', '.join(there) or 'none'}"
        )
    said = message_from_bytes(
        files.get(f"onnxgather-{__version__}.dist-info/WHEEL", b"")
    )
    for key, value in {"Root-Is-Purelib": "false", "Tag": f"cp311-abi3-{tag}"}.items():
        if said.get_all(key) != [value]:
            yield (
                f"{key} of WHEEL must be {value}, got"
                f" {', '.join(said.get_all(key, ['none']))}"
            )


def of_files(files: dict[str, bytes]) -> Iterator[str]:
    """Yield which licences a wheel lacks, and whether it is too large."""
    for path in (ROOT / "LICENSE", *sorted((ROOT / "licenses").iterdir())):
        name = path.relative_to(ROOT).as_posix()
        there = files.get(f"onnxgather-{__version__}.dist-info/licenses/{name}")
        if there != path.read_bytes():
            yield f"the wheel must have {name} as it is in the checkout"
    size = sum(map(len, files.values()))
    if size > LARGEST:
        yield f"its files must have at most {LARGEST:,} bytes, got {size:,}"


def of_library(content: bytes, exports: set[str], platform: Platform) -> Iterator[str]:
    """Yield what is wrong with a library, which must export some symbols alone."""
    library = read(content)
    if library is None:
        yield "must be one library that lief reads"
        return
    if library.machine != platform.machine:
        yield f"must be for {platform.machine}, got {library.machine}"
    if library.exports != exports:
        yield f"must export {listed(exports)} alone, got {listed(library.exports)}"
    is_module = exports == MODULE_EXPORTS
    allowed = platform.system.imports
    if is_module and platform.system == WINDOWS:
        allowed += r"|python3\.dll"
    if others := {
        name for name in library.libraries if not re.fullmatch(allowed, name)
    }:
        yield f"must import the system's libraries alone, got {listed(others)}"
    python = {name for name in library.imports if re.match(r"_?Py", name)}
    if unstable := python - (stable_abi() if is_module else set()):
        yield f"must keep to the stable ABI of Python 3.11, got {listed(unstable)}"
    if is_module and not python:
        yield "must import functions of Python, but imports no function"
    if library.oldest > platform.oldest:
        yield (
            f"must run on version {numbers(platform.oldest)}, needs"
            f" {numbers(library.oldest)}"
        )
    if not library.signed:
        yield "must be signed, as macOS on ARM runs nothing else"


@dataclass(frozen=True)
class Library:
    """What a shared library says of itself."""

    machine: str
    exports: set[str]
    imports: set[str]
    """The symbols that it imports."""
    libraries: set[str]
    """The libraries that it imports."""
    oldest: tuple[int, ...] = (0, 0)
    """The oldest glibc, or the oldest macOS, that it runs on."""
    signed: bool = True


def read(content: bytes) -> Library | None:
    """Read a library; None unless it is one library."""
    lief = import_module("lief")
    lief.logging.disable()
    binary: Any = lief.parse(list(content))
    if isinstance(binary, lief.PE.Binary):
        exports = {entry.name for entry in binary.get_export().entries}
        imports = {entry.name for each in binary.imports for entry in each.entries}
        libraries = {each.name for each in binary.imports}
        return Library(short(binary.header.machine), exports, imports, libraries)
    if isinstance(binary, lief.ELF.Binary):
        named = [each for each in binary.dynamic_symbols if each.name]
        needs = [
            tuple(map(int, version.name.removeprefix("GLIBC_").split(".")))
            for each in binary.symbols_version_requirement
            for version in each.get_auxiliary_symbols()
        ]
        return Library(
            short(binary.header.machine_type),
            {each.name for each in named if each.shndx},
            {each.name for each in named if not each.shndx},
            {*binary.libraries},
            max(needs, default=(0, 0)),
        )
    if (
        isinstance(binary, lief.MachO.Binary)
        and lief.MachO.parse(list(content)).size == 1
    ):
        has_build = binary.has_build_version
        oldest = binary.build_version.minos if has_build else binary.version_min.version
        exports = {
            each.name for each in binary.exported_symbols if each.has_export_info
        }
        machine = short(binary.header.cpu_type)
        own = lief.MachO.LoadCommand.TYPE.ID_DYLIB
        return Library(
            machine,
            {name.removeprefix("_") for name in exports - LINKERS_OWN},
            {each.name.removeprefix("_") for each in binary.imported_symbols},
            {each.name for each in binary.libraries if each.command != own},
            tuple(oldest[:2]),
            binary.has_code_signature or machine != "ARM64",
        )
    return None


def of_others(wheel: Path, tag: str) -> Iterator[str]:
    """Yield what abi3audit says against a wheel, and auditwheel for glibc."""
    abi3 = "abi3audit --strict --verbose --assume-minimum-abi3 3.11"
    code, said = told([*abi3.split(), str(wheel)])
    right = r": [12] extensions scanned; 0 ABI version mismatches and 0 ABI violations"
    if code or not re.search(right, said):
        yield f"abi3audit says {said or 'nothing'}"
    if PLATFORMS[tag].system == GLIBC:
        code, said = told(["auditwheel", "show", str(wheel)])
        tags = re.findall(rf'"manylinux_(\d+)_(\d+)_{tag.partition("28_")[2]}"', said)
        oldest = max((tuple(map(int, each)) for each in tags), default=(99,))
        if code or oldest > PLATFORMS[tag].oldest:
            yield f"auditwheel says {said or 'nothing'}"


def told(command: list[str]) -> tuple[int, str]:
    """Run a module; return its exit code, and what it prints as one line."""
    run = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True
    )
    return run.returncode, " ".join((run.stdout + run.stderr).split())


def stable_abi() -> set[str]:
    """Return the names of the stable ABI of Python 3.11."""
    abi3 = import_module("abi3info")
    tables = [*abi3.FUNCTIONS.items(), *abi3.DATAS.items()]
    return {
        symbol.name
        for symbol, entry in tables
        if (entry.added.major, entry.added.minor) <= (3, 11)
    }


def short(value: object) -> str:
    """Return the last part of the name of one of lief's values."""
    return str(value).rpartition(".")[2]


def listed(names: set[str]) -> str:
    """Return names in their order."""
    return ", ".join(sorted(names)) or "none"


def numbers(version: tuple[int, ...]) -> str:
    """Return a version as it is written."""
    return ".".join(map(str, version))
