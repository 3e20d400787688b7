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
"""The compilers that are looked for, by `sys.platform`."""
OTHER_COMPILERS = ["cc", "gcc", "clang"]
"""The compilers that are looked for elsewhere."""
AGAIN = "install onnxgather from its sources once more"
FAULT = re.compile(r"error(?!: ld returned)|cannot find|undefined reference")
"""What the line of a compiler or a linker contains that says what is wrong."""


class NativeKernels(BuildHookInterface[Any]):
    """Compiles both libraries of the package, or neither."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to a wheel, or to the modules of an editable install."""
        self.folder = TemporaryDirectory()
        platform = os.environ.get("ONNXGATHER_PLATFORM")
        native = os.environ.get("ONNXGATHER_NATIVE")
        self.check_variables(platform, native)
        libraries = libraries_of(system_of(platform))
        if native == "0":
            reason = "ONNXGATHER_NATIVE was 0"
            advice = f"{AGAIN} without it"
        else:
            try:
                reason, advice = self.compile(libraries, platform)
            except ValueError as error:
                # Case: the quotes of a variable do not match.
                self.app.abort(
                    f"CC, CFLAGS, LDFLAGS and ARCHFLAGS must be words: {error}"
                )
        if reason and native == "1":
            self.app.abort(
                "the native kernels must be built, as ONNXGATHER_NATIVE is 1, but"
                f" {reason}"
            )
        files = list(libraries)
        if reason:
            self.app.display_warning(f"the native kernels are not built, as {reason}")
            explanation = Path(self.folder.name, WHY_NOT)
            explanation.write_text(f"{reason}; {advice}\n", encoding="utf-8")
            files = [WHY_NOT]
        if version == "editable":
            self.replace_in_package(files, [*libraries, WHY_NOT])
        else:
            for name in files:
                source = f"{self.folder.name}/{name}"
                build_data["force_include"][source] = f"onnxgather/{name}"
        if not reason:
            tag_of_machine = self.build_config.builder.get_best_matching_tag()
            machine = tag_of_machine.rpartition("-")[2]
            build_data["pure_python"] = False
            build_data["tag"] = f"cp311-abi3-{platform or machine}"

    def check_variables(self, platform: str | None, native: str | None) -> None:
        """End the build if a variable has a value that it may not have."""
        if native not in (None, "", "0", "1"):
            self.app.abort(f"ONNXGATHER_NATIVE must be 0 or 1, got {native}")
        is_tag = re.compile(r"(win|macosx|manylinux|musllinux)_\w+").fullmatch
        if platform and not is_tag(platform):
            self.app.abort(
                f"ONNXGATHER_PLATFORM must be a tag such as win_amd64, got {platform}"
            )

    def replace_in_package(self, files: Sequence[str], former: Sequence[str]) -> None:
        """Copy files into the package, in the place of those of a former build."""
        for name in former:
            Path(self.root, "onnxgather", name).unlink(missing_ok=True)
        for name in files:
            copy = Path(self.root, "onnxgather", name)
            shutil.copy(Path(self.folder.name, name), copy)

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact_path: str
    ) -> None:
        """Remove the temporary folder."""
        self.folder.cleanup()

    def compile(
        self, libraries: dict[str, list[str]], platform: str | None
    ) -> tuple[str, str]:
        """Compile the libraries into the temporary folder.

        Returns:
            Why that failed, and what to do; nothing where it did not.
        """
        if sys.implementation.name != "cpython":
            return "they need CPython", "all else runs without them"
        compiler = words("CC") or first_compiler()
        if not compiler:
            names = " or ".join(COMPILERS.get(sys.platform, OTHER_COMPILERS))
            reason = f"the path had no C compiler named {names}"
            return reason, f"install one, or name yours in CC, and {AGAIN}"
        python = None
        # For another machine the variables say where its Python is.
        if not platform:
            python = (sysconfig.get_path("include"), sys.base_prefix)
        kernels = Path(self.root, "onnxgather", "native", "kernels")
        for name, own_sources in libraries.items():
            sources = [str(kernels / file) for file in (*own_sources, *SHARED)]
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
                reason = f"{compiler[0]} did not start: {error.strerror}"
                return reason, f"mend CC, and {AGAIN}"
            if run.returncode != 0:
                fault = fault_in(run.stderr + run.stdout) or str(run.returncode)
                reason = f"the C compiler failed: {fault}"
                return reason, f"mend that, and {AGAIN}"
        return "", ""


def first_compiler() -> list[str]:
    """Return the first C compiler on the path; an empty list without one."""
    for name in COMPILERS.get(sys.platform, OTHER_COMPILERS):
        if shutil.which(name):
            return [name]
    return []


def fault_in(output: str) -> str:
    """Return the line of a compiler's output that says what is wrong.

    It is the first line if none is of the usual form, and "" without a line.
    """
    lines = output.strip().splitlines()
    for line in lines:
        if FAULT.search(line):
            return line.strip()
    return lines[0].strip() if lines else ""


def system_of(platform: str | None) -> str:
    """Return the `sys.platform` of a platform tag; without one this machine's."""
    if not platform:
        return sys.platform
    systems = {"win": "win32", "macosx": "darwin"}
    return systems.get(platform.partition("_")[0], "linux")


def libraries_of(system: str) -> dict[str, list[str]]:
    """Return the libraries of a `sys.platform`, each with its own sources."""
    suffixes = {"win32": ".dll", "darwin": ".dylib"}
    operators = "onnxgather_operators" + suffixes.get(system, ".so")
    module = "_native.pyd" if system == "win32" else "_native.abi3.so"
    own = ["operator.c", "provider.c", "onnxruntime_calls.c", "report.c", "onnx_node.c"]
    return {module: ["python.c"], operators: own}


def command_of(
    compiler: Sequence[str],
    system: str,
    library: str,
    sources: Sequence[str],
    python: tuple[str, str] | None,
) -> list[str]:
    """Return the command that compiles a library into the working directory.

    Args:
        compiler: The compiler, and options of it.
        system: The `sys.platform` that it compiles for.
        library: The name of the file to make.
        sources: The paths of its sources.
        python: The folder of Python's headers, and the folder of Python; None if the
            variables name them.
    """
    headers: list[str] = []
    if python:
        headers = [f"-I{python[0]}"]
    options = [*words("CFLAGS"), *words("ARCHFLAGS")]
    program = Path(compiler[0].replace("\\", "/")).stem.lower()
    if program in ("cl", "clang-cl"):
        flags = ["/nologo", "/O2", "/std:c11", "/experimental:c11atomics", "/LD"]
        flags.append(f"/Fe{library}")
        linked = ["/link"]
        if python:
            linked.append(f"/LIBPATH:{python[1]}\\libs")
    else:
        flags = ["-O2", "-std=c11", "-fvisibility=hidden", "-shared", f"-o{library}"]
        linked = []
        if system == "darwin":
            flags.append("-Wl,-undefined,dynamic_lookup")
            flags.append(f"-Wl,-install_name,@rpath/{library}")
        if system != "win32":
            # Windows' code needs no such options, and the locks are Windows' own.
            flags += ["-fPIC", "-pthread"]
            # Short loops that cross a block of 32 bytes of code take up to 1.5 times as
            # long. clang cannot do this for Windows on ARM.
            flags.append("-falign-loops=32")
        elif library.endswith(".pyd"):
            if python:
                linked.append(f"-L{python[1]}\\libs")
            linked.append("-lpython3")
    return [
        *compiler,
        *headers,
        *flags,
        *options,
        *sources,
        *linked,
        *words("LDFLAGS"),
    ]


def words(variable: str, system: str = sys.platform) -> list[str]:
    r"""Return a variable's words as a shell reads them; Windows' paths have a \."""
    lexer = shlex.shlex(os.environ.get(variable, ""), posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    if system == "win32":
        lexer.escape = ""
        lexer.quotes = '"'
    return list(lexer)
