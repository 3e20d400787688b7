"""Where onnxgather keeps what it makes, and the hosts there that run a provider."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from onnxgather.runtime import DIRECTML

HOSTS = {DIRECTML: "run-runtime"}
"""The programs in `made_folder` that speak the workers' protocol, by the provider that they run."""


def cache_folder() -> Path:
    """The folder for what onnxgather makes and can make again."""
    variable, other = "XDG_CACHE_HOME", ".cache"
    if sys.platform == "win32":
        variable, other = "LOCALAPPDATA", "AppData/Local"
    return Path(os.environ.get(variable) or Path.home() / other) / "onnxgather"


def made_folder() -> Path:
    """The folder that scripts/directml/setup.sh makes."""
    return cache_folder() / "directml"


def find_runtime(provider: str) -> list[str]:
    """The command of the host that runs a provider; empty if it is not there.

    Args:
        provider: The provider's full name. On Windows, where it runs as all others do, it has no
            host.
    """
    path = made_folder() / HOSTS.get(provider, "")
    return [str(path)] if sys.platform != "win32" and path.is_file() else []
