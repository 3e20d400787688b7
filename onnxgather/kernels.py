"""The native kernels, if they were built when onnxgather was installed.

If the variable `ONNXGATHER_NATIVE` is 0, kernels that were built are ignored.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from onnxgather.errors import ProviderError

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_OPERATORS = Path(__file__).with_name(f"onnxgather_operators{_SUFFIX}")


def python_kernels() -> ModuleType | None:
    """The module that gathers without ONNX Runtime; None if there is none."""
    try:
        return None if _ignored() else import_module("onnxgather._native")
    except ImportError:
        return None


def operators() -> str | None:
    """The path of the custom operators' library; None if there is none."""
    return str(_OPERATORS) if _OPERATORS.exists() and not _ignored() else None


def custom_ops_library() -> str:
    """The path of the library that runs models of target "native" fast, in any ONNX Runtime.

    A session takes it by `SessionOptions.register_custom_ops_library`.

    Raises:
        ProviderError: There is none.
    """
    path = operators()
    if path is None:
        raise ProviderError(f"the native kernels must be there, but {why_not()}")
    return path


def why_not() -> str:
    """Why there are no kernels, and what to do."""
    if _ignored():
        return "ONNXGATHER_NATIVE is 0"
    return (
        "they were not built when onnxgather was installed; install a C compiler, and onnxgather "
        "once more"
    )


def _ignored() -> bool:
    return os.environ.get("ONNXGATHER_NATIVE") == "0"
