"""Builds the native kernels when onnxgather is installed, if there is a C compiler.

Without one, or without Python's headers, the wheel is pure Python. While it is built, the variable
`ONNXGATHER_NATIVE` forbids (0) or forces (1) the kernels. `CC`, `CFLAGS`, `LDFLAGS` and macOS's
`ARCHFLAGS` are the compiler's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
LIBRARIES = {
    "_native.pyd" if sys.platform == "win32" else "_native.abi3.so": "python.c",
    f"onnxgather_operators{SUFFIX}": "operator.c",
}
"""The libraries, each with its own source."""
SHARED = ("loops.c", "offsets.c", "rows.c", "check.c", "machine.c")
"""The sources of both libraries."""

OTHERS = ["-O2", "-std=c11", "-fvisibility=hidden", "-shared", "-fPIC", "-pthread"]
if sys.platform == "darwin":
    OTHERS += ["-undefined", "dynamic_lookup"]
MSVC = ["/nologo", "/O2", "/std:c11", "/experimental:c11atomics", "/LD"]
MSVC_LINKED = ["/link", f"/LIBPATH:{sys.base_prefix}\\libs"]


class NativeKernels(BuildHookInterface[Any]):
    """Compiles both libraries of the package, or neither."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to a wheel; an editable install gets them beside the modules."""
        self.folder = TemporaryDirectory()
        wanted = os.environ.get("ONNXGATHER_NATIVE", "")
        if wanted not in ("", "0", "1"):
            self.app.abort(f"ONNXGATHER_NATIVE must be 0 or 1, got {wanted}")
        why_not = "ONNXGATHER_NATIVE is 0" if wanted == "0" else self.compile()
        if why_not and wanted == "1":
            self.app.abort(
                f"the native kernels must be built, as ONNXGATHER_NATIVE is 1: {why_not}"
            )
        for name in LIBRARIES:
            made, there = Path(self.folder.name, name), Path(self.root, "onnxgather", name)
            if version == "editable":
                there.unlink(missing_ok=True)
                if not why_not:
                    shutil.copy(made, there)
            elif not why_not:
                build_data["force_include"][str(made)] = f"onnxgather/{name}"
        if not why_not:
            platform = self.build_config.builder.get_best_matching_tag().rpartition("-")[2]
            build_data.update(pure_python=False, tag=f"cp311-abi3-{platform}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder."""
        self.folder.cleanup()

    def compile(self) -> str | None:
        """Compile the libraries into the temporary folder; why not, if that fails."""
        if sys.implementation.name != "cpython":
            return "the Python module needs CPython"
        names = ["cl"] if sys.platform == "win32" else ["cc", "gcc", "clang"]
        compiler = words("CC") or [name for name in names if shutil.which(name)][:1]
        if not compiler:
            return "there is no C compiler"
        like_msvc = Path(compiler[0]).stem.lower() in ("cl", "clang-cl")
        flags = MSVC if like_msvc else OTHERS
        for name, own in LIBRARIES.items():
            sources = [
                Path(self.root, "onnxgather", "native", "kernels", file) for file in (own, *SHARED)
            ]
            made = f"/Fe{name}" if like_msvc else f"-o{name}"
            command = [*compiler, f"-I{sysconfig.get_path('include')}", *flags, *words("CFLAGS")]
            command += [*words("ARCHFLAGS"), made, *map(str, sources)]
            command += [*(MSVC_LINKED if like_msvc else []), *words("LDFLAGS")]
            try:
                run = subprocess.run(command, capture_output=True, text=True, cwd=self.folder.name)
            except OSError as error:
                return f"{compiler[0]}: {error.strerror}"
            if run.returncode:
                lines = (run.stderr + run.stdout).strip().splitlines() or [f"{run.returncode}"]
                return next((line for line in lines if "error" in line), lines[0]).strip()
        return None


def words(variable: str) -> list[str]:
    """The words of an environment variable, as a shell reads them."""
    return shlex.split(os.environ.get(variable, ""))
