"""Where hosts are: programs that run models where this environment lacks the provider.

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
from onnxgather.core.errors import OnnxGatherError, pass_foreign
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.child import Breakdown, NoAnswerError
from onnxgather.core.execution.providers import PROVIDERS, SETUP, WEB_SETUP, Provider

HOSTS = Path(__file__).parents[3] / "native" / "hosts"
"""The folder of the host's sources."""
SOURCES = ("runtime_host.cpp", "protocol.h", "direct3d.h", "directml.h")

WINDOWS_LANE = "cpu@windows"
"""The CPU provider of ONNX Runtime for Windows: elsewhere in a host, on Windows the
local one."""
WINDOWS_HOST = "run-windows"
"""The name of its host among the programs that `SETUP` makes."""
WINDOWS_OPERATORS = "Z:\\lane\\onnxgather_operators.dll"
"""The library of onnxgather's own operators for Windows, where that host finds it."""

BROWSER = "onnxgather.core.execution.elsewhere.browser"
"""The program that runs models in a browser."""

LONGEST_COMPILATION = 600
"""The most seconds that a compiler may take."""


def is_library(path: str) -> bool:
    """Return whether a path names a shared library, such as libonnxruntime.so.1."""
    return re.search(r"\.(so(\.\d+)*|dll|dylib)\Z", path) is not None


def cache_folder() -> Path:
    """Return the folder for what onnxgather makes and can make again."""
    variable = "XDG_CACHE_HOME"
    default = ".cache"
    if sys.platform == "win32":
        variable = "LOCALAPPDATA"
        default = "AppData/Local"
    parent = os.environ.get(variable) or Path.home() / default
    return Path(parent) / "onnxgather"


def compiled_host() -> str:
    """Return the path of the host, which is compiled if it is not there.

    It is there if this compiler has compiled this source before.

    Raises:
        NoAnswerError: There is no C++ compiler, or it fails.
    """
    command = os.environ.get("CXX") or "c++"
    try:
        sources = [(HOSTS / name).read_bytes() for name in SOURCES]
        version = _compiler_output(command, "--version")
        key = hashlib.sha256(b"\0".join([*sources, command.encode(), version]))
        host = cache_folder() / f"runtime_host-{key.hexdigest()[:16]}.exe"
        if not host.exists():
            # It is compiled beside its place and moved there, whole or not at all.
            linked = ["-ldl"]
            if sys.platform == "win32":
                linked = ["-static", "-ld3d12", "-ldxguid"]
            host.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=host.parent) as folder:
                program = Path(folder) / host.name
                source = HOSTS / SOURCES[0]
                _compiler_output(
                    command, "-std=c++20", "-O2", "-o", program, source, *linked
                )
                program.replace(host)
        return str(host)
    except OSError as error:
        pass_foreign(error)
        why = f"{error.filename}: {error.strerror}"
    except (ValueError, subprocess.SubprocessError) as error:
        # The compiler's own words, or else the error's.
        errors: bytes = getattr(error, "stderr", None) or b""
        why = " ".join(errors.decode(errors="replace").split()) or str(error)
    rule = (
        f"the host of a shared library must be compiled by {command}, or what CXX names"
    )
    raise NoAnswerError(Breakdown.NOT_STARTED, f"{rule}: {why[:LONGEST_SHOWN]}", why)


def _compiler_output(command: str, *arguments: str | Path) -> bytes:
    result = subprocess.run(
        [*shlex.split(command), *arguments],
        capture_output=True,
        check=True,
        timeout=LONGEST_COMPILATION,
    )
    return result.stdout


def made_folder() -> Path:
    """Return the folder that `SETUP` makes."""
    return cache_folder() / "directml"


_WEB_LIBRARY = "node_modules/onnxruntime-web"
_WEBNN_BROWSER = "chromium"


def web_folder() -> Path:
    """Return the folder of onnxruntime-web that `WEB_SETUP` makes."""
    return cache_folder() / "web" / _WEB_LIBRARY


def webnn_folder(library: str | None = None) -> Path:
    """Return the folder of the browser with WebNN that `WEB_SETUP` makes.

    Args:
        library: The folder of onnxruntime-web, which may be in a folder that
            `WEB_SETUP` filled with a browser too. None means the folder by default.
    """
    if library is not None:
        packages = Path(library).parent
        browser = packages.parent / _WEBNN_BROWSER
        # Else the folder was not filled by `WEB_SETUP`, such as a checkout's build.
        if packages.name == "node_modules" and browser.is_dir():
            return browser
    return cache_folder() / "web" / _WEBNN_BROWSER


def path_in_web_folder(provider: Provider) -> str:
    """Return where what a provider needs is in a folder that `WEB_SETUP` fills."""
    return _WEBNN_BROWSER if provider.runs_programs else _WEB_LIBRARY


def runtime_python(name: str) -> str | None:
    """Return the interpreter of the environment of a runtime that is no provider.

    scripts/runtimes/setup.sh makes it; it is None if there is none.
    """
    python = cache_folder() / "runtimes" / name / "bin/python"
    return str(python) if python.exists() else None


def web_host(provider: Provider, folder: str | None = None) -> list[str]:
    """Return the command of the host that runs a provider in a browser.

    The host need not be set up.

    Args:
        provider: A provider in a browser.
        folder: The folder of onnxruntime-web, or of the browser for a provider that
            runs programs of WebNN; or the folder that `WEB_SETUP` filled. None means
            the one that it fills by default.
    """
    path = webnn_folder() if provider.runs_programs else web_folder()
    if folder:
        path = Path(folder).expanduser().absolute()
        # Case: the folder that `WEB_SETUP` filled, which has the wanted one in it.
        inside = path / path_in_web_folder(provider)
        if inside.is_dir():
            path = inside
    return [sys.executable, "-P", "-m", BROWSER, provider.library, str(path)]


def find_runtime(provider: Provider, warm: bool = False) -> list[str]:
    """Return the command of the host that runs a provider; empty if it is not there.

    On Windows a provider without a browser runs as all others do and has no host.

    Args:
        provider: The provider.
        warm: Whether the host may be one that an earlier command left.

    Raises:
        OnnxGatherError: The variable for how long an earlier host stays has a wrong
            value.
    """
    # Case 1: a provider in a browser.
    if provider.in_browser:
        command = web_host(provider)
        return command if os.path.isdir(command[-1]) else []

    # Case 2: a program that `SETUP` makes.
    path = made_folder() / provider.host
    warm_path = made_folder() / provider.host.replace("run-", "warm-")
    if warm and warm_path.is_file():
        path = warm_path
        seconds = os.environ.get("ONNXGATHER_WARM_SECONDS", "")
        if not re.fullmatch(r"[0-9]{0,4}", seconds):
            rule = (
                "the variable ONNXGATHER_WARM_SECONDS must be a whole number of seconds"
            )
            raise OnnxGatherError(f"{rule} up to 9999, got {shown(seconds)}")
    if sys.platform == "win32" or not path.is_file():
        return []
    return _host_command(path, provider)


def _host_command(path: Path, provider: Provider) -> list[str]:
    worker = ["-u", runtime.__file__] if provider.host_is_python else []
    return [str(path), *worker]


def host_in(folder: str, provider: Provider) -> list[str]:
    """Return the command of the host that runs a provider, whether it is there or not.

    Args:
        folder: A folder that `SETUP` fills.
        provider: A provider that has a host.
    """
    path = Path(folder).expanduser().absolute()
    return _host_command(path / provider.host, provider)


def windows_host(folder: str | None = None) -> str:
    """Return the path of `WINDOWS_HOST`, whether it is there or not.

    Args:
        folder: The folder that `SETUP` makes; None means the one that it makes by
            default.
    """
    path = made_folder()
    if folder:
        path = Path(folder).expanduser().absolute()
    return str(path / WINDOWS_HOST)


_LANES = {provider.host: name for name, provider in PROVIDERS.items() if provider.host}
_LANES[WINDOWS_HOST] = WINDOWS_LANE
"""The lanes that `SETUP` makes, by the names of their hosts."""


def startable(command: list[str]) -> list[str]:
    """Return the command of a host that can start.

    The host of a shared library is compiled first.

    Raises:
        NoAnswerError: The host cannot be compiled, or `SETUP` has not made it.
    """
    # Case 1: a shared library.
    if is_library(command[0]):
        return [compiled_host(), *command]
    # Case 2: a browser without onnxruntime-web, or none with WebNN.
    if BROWSER in command and not os.path.isdir(command[-1]):
        how = f"got no folder {shown(command[-1])}"
        if command[-1] in (str(web_folder()), str(webnn_folder())):
            how = f"run {WEB_SETUP}"
        *_, library, _ = command
        what = "onnxruntime-web" if library else "a browser with WebNN"
        rule = f"{what} is not set up; {how}"
        raise NoAnswerError(Breakdown.NOT_STARTED, rule)
    # Case 3: a host that `SETUP` has not made.
    folder, name = os.path.split(command[0])
    lane = _LANES.get(name)
    if lane is not None and not os.path.isfile(command[0]):
        setup = [SETUP, "--lanes", lane]
        if folder != str(made_folder()):
            setup.append(folder)
        what = f"the lane {lane}"
        if lane == WINDOWS_LANE:
            what = "ONNX Runtime for Windows"
        rule = f"{what} is not set up; run {shlex.join(setup)}"
        raise NoAnswerError(Breakdown.NOT_STARTED, rule)
    return command
