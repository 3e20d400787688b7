"""Plugin libraries of providers: a file, or a Python package that has one."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache

import msgspec

from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.providers import Provider, plugin_provider

_PACKAGE = "[A-Za-z_][A-Za-z0-9_-]*"

_PROGRAM = """
import importlib, json, sys
package = importlib.import_module(sys.argv[1])
several = getattr(package, "get_ep_names", None)
names = several() if several else [package.get_ep_name()]
print(json.dumps([str(package.get_library_path()), names]))
"""
"""It asks a package as ONNX Runtime's documentation has packages of plugins answer."""

_LONGEST_IMPORT = 60.0
"""The most seconds that the import of a package may take."""


def is_package(plugin: str) -> bool:
    """Return whether a plugin is the name of a package, as pip or Python spells it."""
    is_name = re.fullmatch(_PACKAGE, plugin) is not None
    return is_name and not os.path.exists(plugin)


def provider_of_plugin(lane: str, python: str, plugin: str) -> tuple[Provider, str]:
    """Return the provider of a lane, and the path of the library that brings it.

    Args:
        lane: The name of the lane, which begins with the provider or the package.
        python: The interpreter of the lane, which has the package.
        plugin: The path of a library, or the name of a package.

    Raises:
        ProviderError: The name of the provider has signs that it must not have.
        OnnxGatherError: The package does not answer, or has several providers.
    """
    name = lane.partition("@")[0]
    if not is_package(plugin):
        return plugin_provider(name), os.path.abspath(plugin)
    library, names = _library_and_names(plugin, python)
    # Case: a lane has the name of the package, and the package names the provider.
    if name == plugin:
        if len(names) != 1:
            option = "--plugin NAME=PACKAGE"
            raise OnnxGatherError(
                f"package {shown(plugin)} must have one provider, got {len(names)}:"
                f" {', '.join(names)}; {option} chooses one"
            )
        (name,) = names
    return plugin_provider(name), library


@cache
def _library_and_names(package: str, python: str) -> tuple[str, list[str]]:
    """Return the library of a package, and the names of its providers."""
    module = package.replace("-", "_")
    command = [python, "-c", _PROGRAM, module]
    try:
        run = subprocess.run(
            command, capture_output=True, timeout=_LONGEST_IMPORT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OnnxGatherError(f"{python} does not start: {error}") from None
    try:
        # An environment may print something before.
        last_line = run.stdout.splitlines()[-1]
        return msgspec.json.decode(last_line, type=tuple[str, list[str]])
    except (LookupError, msgspec.MsgspecError):
        said = run.stderr.decode(errors="replace").strip().split("\n")[-1]
    option = "--plugin NAME=LIBRARY"
    raise OnnxGatherError(
        f"package {shown(package)} of {python} must have get_library_path() and"
        f" get_ep_name(), got {shown(said)}; {option} names a library itself"
    )
