"""Hosts, programs that run models where this environment lacks the provider: where each is found.

The host for shared libraries of ONNX Runtime is compiled where it is first needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from onnxgather.core.checks import LONGEST_SHOWN, shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.providers import SETUP, WEB_SETUP, Provider

HOSTS = Path(__file__).parents[3] / "native" / "hosts"
"""The folder of the host's sources."""
SOURCES = ("runtime_host.cpp", "protocol.h", "direct3d.h", "directml.h")

WINDOWS_LANE = "cpu@windows"
"""The CPU provider of ONNX Runtime for Windows: elsewhere in a host, on Windows the
local one."""
WINDOWS_HOST = "run-windows"
"""Its host, of the programs that `SETUP` makes."""
WINDOWS_OPERATORS = "Z:\\lane\\onnxgather_operators.dll"
"""The library of onnxgather's own operators for Windows, where that host finds it."""

BROWSER = "onnxgather.core.execution.elsewhere.browser"
"""The program that runs models in a browser."""

LONGEST_COMPILATION = 600
"""The most seconds that a compiler may take."""


def is_library(path: str) -> bool:
    """Whether a path is a shared library's by its name, such as libonnxruntime.so.1."""
    return re.search(r"\.(so(\.\d+)*|dll|dylib)\Z", path) is not None


def cache_folder() -> Path:
    """The folder for what onnxgather makes and can make again."""
    variable, other = "XDG_CACHE_HOME", ".cache"
    if sys.platform == "win32":
        variable, other = "LOCALAPPDATA", "AppData/Local"
    return Path(os.environ.get(variable) or Path.home() / other) / "onnxgather"


def compiled_host() -> str:
    """The path of the host, which is compiled unless this compiler has compiled this source before.

    Raises:
        NoAnswerError: There is no C++ compiler, or it fails.
    """
    command = os.environ.get("CXX") or "c++"
    linked = ["-static", "-ld3d12", "-ldxguid"] if sys.platform == "win32" else ["-ldl"]

    def run(*arguments: str | Path) -> bytes:
        compiler = [*shlex.split(command), *arguments]
        limit = LONGEST_COMPILATION
        return subprocess.run(
            compiler, capture_output=True, check=True, timeout=limit
        ).stdout

    try:
        parts = [(HOSTS / name).read_bytes() for name in SOURCES]
        key = hashlib.sha256(b"\0".join([*parts, command.encode(), run("--version")]))
        host = cache_folder() / f"runtime_host-{key.hexdigest()[:16]}.exe"
        if not host.exists():
            host.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=host.parent) as folder:
                made = Path(folder) / host.name
                source = HOSTS / SOURCES[0]
                run("-std=c++20", "-O2", "-o", made, source, *linked)
                made.replace(host)
        return str(host)
    except OSError as error:
        why = f"{error.filename}: {error.strerror}"
    except (ValueError, subprocess.SubprocessError) as error:
        said: bytes = getattr(error, "stderr", None) or b""
        why = " ".join(said.decode(errors="replace").split()) or str(error)
    rule = (
        f"the host of a shared library must be compiled by {command}, or what CXX names"
    )
    raise NoAnswerError(Breakdown.NOT_STARTED, f"{rule}: {why[:LONGEST_SHOWN]}", why)


def made_folder() -> Path:
    """The folder that `SETUP` makes."""
    return cache_folder() / "directml"


def web_folder() -> Path:
    """The folder of onnxruntime-web that `WEB_SETUP` makes."""
    return cache_folder() / "web/node_modules/onnxruntime-web"


def web_host(provider: Provider, folder: str | None = None) -> list[str]:
    """The command of the host that runs a provider in a browser, whether it is set up or not.

    Args:
        provider: A provider of onnxruntime-web.
        folder: The folder of onnxruntime-web; None means the one that `WEB_SETUP` makes.
    """
    path = Path(folder).expanduser().absolute() if folder else web_folder()
    return [sys.executable, "-P", "-m", BROWSER, provider.library, str(path)]


def find_runtime(provider: Provider, warm: bool = False) -> list[str]:
    """The command of the host that runs a provider; empty if it is not there.

    On Windows a provider without a browser runs as all others do and has no host.

    Args:
        provider: The provider.
        warm: Whether the host may be one that an earlier command left.

    Raises:
        OnnxGatherError: The variable for how long such a host stays has a wrong value.
    """
    if provider.library:
        command = web_host(provider)
        return command if os.path.isdir(command[-1]) else []
    folder, name = made_folder(), provider.host
    path, kept = folder / name, folder / name.replace("run-", "warm-")
    if warm and kept.is_file():
        path, seconds = kept, os.environ.get("ONNXGATHER_WARM_SECONDS", "")
        if not re.fullmatch(r"[0-9]{0,4}", seconds):
            rule = (
                "the variable ONNXGATHER_WARM_SECONDS must be a whole number of seconds"
            )
            raise OnnxGatherError(f"{rule} up to 9999, got {shown(seconds)}")
    worker = ["-u", runtime.__file__] if provider.host_is_python else []
    return [str(path), *worker] if sys.platform != "win32" and path.is_file() else []


def windows_host(folder: str | None = None) -> str:
    """The path of `WINDOWS_HOST`, whether it is there or not.

    Args:
        folder: The folder that `SETUP` makes; None means the one that it makes by default.
    """
    return str(
        (Path(folder).expanduser().absolute() if folder else made_folder())
        / WINDOWS_HOST
    )


def startable(command: list[str]) -> list[str]:
    """The command of a host that can start: that of a shared library is compiled first.

    Raises:
        NoAnswerError: The host cannot be compiled, or `SETUP` has not made it.
    """
    if is_library(command[0]):
        return [compiled_host(), *command]
    if BROWSER in command and not os.path.isdir(command[-1]):
        made = command[-1] == str(web_folder())
        how = f"run {WEB_SETUP}" if made else f"got no folder {shown(command[-1])}"
        raise NoAnswerError(
            Breakdown.NOT_STARTED, f"onnxruntime-web is not set up; {how}"
        )
    folder, name = os.path.split(command[0])
    if name == WINDOWS_HOST and not os.path.isfile(command[0]):
        made = [] if folder == str(made_folder()) else [folder]
        how = shlex.join([SETUP, "--lanes", WINDOWS_LANE, *made])
        rule = f"ONNX Runtime for Windows is not set up; run {how}"
        raise NoAnswerError(Breakdown.NOT_STARTED, rule)
    return command
