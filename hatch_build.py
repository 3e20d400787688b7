"""Builds the native kernels when onnxgather is installed, if there is a C compiler.

Without one, or without Python's headers, the wheel is pure Python, and one of its files
says why. Variables that count while it is built:

  ONNXGATHER_NATIVE                forbids (0) or forces (1) the kernels
  CC, CFLAGS, LDFLAGS, ARCHFLAGS   the compiler and its options; ARCHFLAGS is macOS's
  ONNXGATHER_PLATFORM              the platform tag of a wheel for another machine; CC
                                   compiles for it, and CFLAGS and LDFLAGS say where
                                   its Python is
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED = ("loops.c", "offsets.c", "rows.c", "check.c", "machine.c")
"""The sources of both libraries."""
WHY_NOT = "no_kernels.txt"
"""The file of the package that says why it has no kernels;
onnxgather/core/execution/kernels.py reads it."""

COMPILERS = {"win32": ["cl", "gcc", "clang"]}
"""The compilers that are looked for, by `sys.platform`; elsewhere `cc`, `gcc` and
`clang`."""
AGAIN = "install onnxgather from its sources once more"
FAULT = re.compile(r"error(?!: ld returned)|cannot find|undefined reference")
"""What stands in the line of a compiler or a linker that says what is wrong."""


class NativeKernels(BuildHookInterface[Any]):
    """Compiles both libraries of the package, or neither."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to a wheel, or to the modules of an editable install."""
        self.folder = TemporaryDirectory()
        platform, wanted = map(
            os.environ.get, ("ONNXGATHER_PLATFORM", "ONNXGATHER_NATIVE")
        )
        if wanted not in (None, "", "0", "1"):
            self.app.abort(f"ONNXGATHER_NATIVE must be 0 or 1, got {wanted}")
        if platform and not re.fullmatch(
            r"(win|macosx|manylinux|musllinux)_\w+", platform
        ):
            self.app.abort(
                f"ONNXGATHER_PLATFORM must be a tag such as win_amd64, got {platform}"
            )
        libraries = libraries_of(system_of(platform))
        why, advice = "ONNXGATHER_NATIVE was 0", f"{AGAIN} without it"
        if wanted != "0":
            try:
                why, advice = self.compile(libraries, platform)
            except ValueError as error:  # of quotes
                self.app.abort(
                    f"CC, CFLAGS, LDFLAGS and ARCHFLAGS must be words: {error}"
                )
        if why and wanted == "1":
            self.app.abort(
                "the native kernels must be built, as ONNXGATHER_NATIVE is 1, but"
                f" {why}"
            )
        if why:
            self.app.display_warning(f"the native kernels are not built, as {why}")
            Path(self.folder.name, WHY_NOT).write_text(
                f"{why}; {advice}\n", encoding="utf-8"
            )
        made = [WHY_NOT] if why else [*libraries]
        for name in (*libraries, WHY_NOT):
            there = Path(self.root, "onnxgather", name)
            if version == "editable":
                there.unlink(missing_ok=True)
                if name in made:
                    shutil.copy(Path(self.folder.name, name), there)
            elif name in made:
                build_data["force_include"][f"{self.folder.name}/{name}"] = (
                    f"onnxgather/{name}"
                )
        if not why:
            here = self.build_config.builder.get_best_matching_tag().rpartition("-")[2]
            build_data.update(pure_python=False, tag=f"cp311-abi3-{platform or here}")

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Remove the temporary folder."""
        self.folder.cleanup()

    def compile(
        self, libraries: dict[str, str], platform: str | None
    ) -> tuple[str, str]:
        """Compile the libraries into the temporary folder.

        Returns:
            Why that failed, and what to do; nothing where it did not.
        """
        if sys.implementation.name != "cpython":
            return "they need CPython", "all else runs without them"
        names = COMPILERS.get(sys.platform, ["cc", "gcc", "clang"])
        compiler = words("CC") or [name for name in names if shutil.which(name)][:1]
        if not compiler:
            why = f"the path had no C compiler named {' or '.join(names)}"
            return why, f"install one, or name yours in CC, and {AGAIN}"
        python = None if platform else (sysconfig.get_path("include"), sys.base_prefix)
        kernels = Path(self.root, "onnxgather", "native", "kernels")
        for name, own in libraries.items():
            sources = [str(kernels / file) for file in (own, *SHARED)]
            command = command_of(compiler, system_of(platform), name, sources, python)
            try:
                run = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    cwd=self.folder.name,
                )
            except OSError as error:
                return (
                    f"{compiler[0]} did not start: {error.strerror}",
                    f"mend CC, and {AGAIN}",
                )
            if run.returncode:
                lines = (run.stderr + run.stdout).strip().splitlines() or [
                    f"{run.returncode}"
                ]
                line = next(filter(FAULT.search, lines), lines[0]).strip()
                return f"the C compiler failed: {line}", f"mend that, and {AGAIN}"
        return "", ""


def system_of(platform: str | None) -> str:
    """Return the `sys.platform` of a platform tag; without one this machine's."""
    known = {"win": "win32", "macosx": "darwin"}
    return known.get(platform.partition("_")[0], "linux") if platform else sys.platform


def libraries_of(system: str) -> dict[str, str]:
    """Return the libraries of a `sys.platform`, each with its own source."""
    suffix = {"win32": ".dll", "darwin": ".dylib"}.get(system, ".so")
    module = "_native.pyd" if system == "win32" else "_native.abi3.so"
    return {module: "python.c", f"onnxgather_operators{suffix}": "operator.c"}


def command_of(
    compiler: Sequence[str],
    system: str,
    made: str,
    sources: Sequence[str],
    python: tuple[str, str] | None,
) -> list[str]:
    """Return the command that compiles a library into the working directory.

    Args:
        compiler: The compiler, and options of it.
        system: The `sys.platform` that it compiles for.
        made: The name of the library.
        sources: The paths of its sources.
        python: The folder of Python's headers, and the folder of Python; None if the
            variables name them.
    """
    headers = [f"-I{python[0]}"] if python else []
    options = [*words("CFLAGS"), *words("ARCHFLAGS")]
    if Path(compiler[0].replace("\\", "/")).stem.lower() in ("cl", "clang-cl"):
        flags = [
            "/nologo",
            "/O2",
            "/std:c11",
            "/experimental:c11atomics",
            "/LD",
            f"/Fe{made}",
        ]
        linked = ["/link", *([f"/LIBPATH:{python[1]}\\libs"] if python else [])]
        return [
            *compiler,
            *headers,
            *flags,
            *options,
            *sources,
            *linked,
            *words("LDFLAGS"),
        ]
    flags = ["-O2", "-std=c11", "-fvisibility=hidden", "-shared", f"-o{made}"]
    linked = words("LDFLAGS")
    if system == "darwin":
        flags += ["-Wl,-undefined,dynamic_lookup", f"-Wl,-install_name,@rpath/{made}"]
    # Windows' code needs no such option, and the locks are Windows' own
    if system != "win32":
        flags += ["-fPIC", "-pthread"]
        # Short loops that cross a block of 32 bytes of code take up to 1.5 times as
        # long.
        flags += ["-falign-loops=32"]  # which clang cannot do for Windows on ARM
    elif made.endswith(".pyd"):
        linked += [*([f"-L{python[1]}\\libs"] if python else []), "-lpython3"]
    return [*compiler, *headers, *flags, *options, *sources, *linked]


def words(variable: str, system: str = sys.platform) -> list[str]:
    r"""Return a variable's words as a shell reads them; Windows' paths have a \."""
    lexer = shlex.shlex(os.environ.get(variable, ""), posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if system == "win32":
        lexer.escape, lexer.quotes = "", '"'
    return [*lexer]
