"""The native kernels, if they were built when onnxgather was installed.

If the variable `ONNXGATHER_NATIVE` is 0, kernels that were built are ignored.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.providers import PROVIDERS, Provider
from onnxgather.core.options import Target

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_OPERATORS = Path(__file__).parents[2] / f"onnxgather_operators{_SUFFIX}"
_WHY_NOT = Path(__file__).parents[2] / "no_kernels.txt"
"""The file that says why there are no kernels; hatch_build.py writes it in their
place."""


def python_kernels() -> ModuleType | None:
    """The module that gathers without ONNX Runtime; None if there is none."""
    try:
        return None if _ignored() else import_module("onnxgather._native")
    except ImportError:
        return None


def operators_library() -> str | None:
    """The path of the custom operators' library; None if there is none."""
    return str(_OPERATORS) if _OPERATORS.exists() and not _ignored() else None


def operators_of(
    provider: Provider, target: Target, library: str | None = None
) -> str | None:
    """The library of onnxgather's own operators that a provider takes for models of a target.

    Args:
        provider: The provider; the kernels are the CPU provider's, not in a browser.
        target: The target.
        library: The library if it is not that of this environment.
    """
    is_theirs = (provider, target) == (PROVIDERS["cpu"], "native")
    return library or operators_library() if is_theirs else None


def custom_ops_library() -> str:
    """The path of the library that runs models of target "native" fast, in any ONNX Runtime.

    A session takes it by `SessionOptions.register_custom_ops_library`.

    Raises:
        ProviderError: There is none.
    """
    path = operators_library()
    if path is None:
        raise ProviderError(f"the native kernels must be there, but {why_not()}")
    return path


def why_not() -> str:
    """Why there are no kernels, and what to do."""
    if _ignored():
        return "ONNXGATHER_NATIVE is 0"
    if not _WHY_NOT.exists():
        return "they are not beside onnxgather's modules; install onnxgather once more"
    return (
        f"they were not built with onnxgather, as {_WHY_NOT.read_text('utf-8').strip()}"
    )


def _ignored() -> bool:
    return os.environ.get("ONNXGATHER_NATIVE") == "0"
