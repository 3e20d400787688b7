"""Plugin libraries of providers: a file, or a Python package that has one."""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache

import msgspec

from onnxgather.checking.lanes.lane import CASE_TIMEOUT
from onnxgather.core.checks import shown
from onnxgather.core.errors import FAULTS, OnnxGatherError, pass_foreign
from onnxgather.core.execution.providers import Provider, plugin_provider

_PACKAGE = "[A-Za-z_][A-Za-z0-9_-]*"

_PROGRAM = """
import importlib, json, sys
try:
    package = importlib.import_module(sys.argv[1])
    several = getattr(package, "get_ep_names", None)
    names = several() if several else [package.get_ep_name()]
    answer = ", ".join(names), str(package.get_library_path())
except Exception as error:
    answer = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""
"""It asks a package by the functions that packages of plugin libraries have."""


def is_package(plugin: str) -> bool:
    """Return whether a plugin is the name of a package, as pip or Python spells it."""
    is_name = re.fullmatch(_PACKAGE, plugin) is not None
    return is_name and not os.path.exists(plugin)


def provider_of_plugin(lane: str, plugin: str, python: str) -> tuple[Provider, str]:
    """Return the provider of a lane, and the path of the library that brings it.

    Args:
        lane: The name of the lane, which begins with the provider or the package.
        plugin: The path of a library, or the name of a package.
        python: The interpreter of the lane, which has the package.

    Raises:
        ProviderError: The name of the provider has signs that it must not have, or the
            package has several providers.
        OnnxGatherError: The package does not answer.
    """
    name = lane.partition("@")[0]
    if not is_package(plugin):
        return plugin_provider(name), os.path.abspath(plugin)
    own_name, library = _name_and_library(plugin, python)
    # Case: the lane has the name of the package, which names the provider.
    if name == plugin:
        name = own_name
    return plugin_provider(name), library


@cache
def _name_and_library(package: str, python: str) -> tuple[str, str]:
    """Return the name of a package's provider, or of several; and its library."""
    command = [python, "-c", _PROGRAM, package.replace("-", "_")]
    answer: tuple[str, str] | str = "no answer"
    try:
        run = subprocess.run(
            command, capture_output=True, timeout=CASE_TIMEOUT, check=False
        )
        # An environment may print something before.
        last_line = run.stdout.splitlines()[-1]
        answer = msgspec.json.decode(last_line, type=tuple[str, str] | str)
    except (*FAULTS, OSError, subprocess.SubprocessError) as error:
        pass_foreign(error)
    if isinstance(answer, str):
        raise OnnxGatherError(
            f"the package {shown(package)} of {python} must have get_library_path() and"
            f" get_ep_name(), got {shown(answer)}; NAME=LIBRARY names a library itself"
        )
    return answer
