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
from onnxgather.core.public import public

_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
_OPERATORS = Path(__file__).parents[2] / f"onnxgather_operators{_SUFFIX}"
_WHY_NOT = Path(__file__).parents[2] / "no_kernels.txt"
"""Says why there are no kernels; hatch_build.py writes the file in their place."""


def python_kernels() -> ModuleType | None:
    """Return the module that gathers without ONNX Runtime; None if it is not built."""
    if _are_ignored():
        return None
    try:
        return import_module("onnxgather._native")
    except ImportError:
        return None


def operators_library() -> str | None:
    """Return the path of the custom operators' library; None if it is not built."""
    if not _OPERATORS.exists() or _are_ignored():
        return None
    return str(_OPERATORS)


def operators_of(
    provider: Provider, target: Target, library: str | None = None
) -> str | None:
    """Return the library of onnxgather's own operators for models of a target.

    Args:
        provider: The provider; only the CPU provider uses the library, and not in a
            browser.
        target: The target.
        library: The library if it is not that of this environment.
    """
    # Other providers cannot run the kernels, and other targets have no own operators.
    if provider != PROVIDERS["cpu"] or target != "native":
        return None
    return library or operators_library()


@public
def custom_ops_library() -> str:
    """Return the path of the library that runs models of target "native" fast.

    Any ONNX Runtime loads it by `SessionOptions.register_custom_ops_library`.

    Raises:
        ProviderError: The library is not there.

    Example:
        >>> import onnxruntime
        >>> options = onnxruntime.SessionOptions()
        >>> options.register_custom_ops_library(og.custom_ops_library())
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> model = og.to_onnx(desc, target="native").SerializeToString()
        >>> session = onnxruntime.InferenceSession(model, options)
        >>> session.get_outputs()[0].name
        'OutputTensor'
    """
    path = operators_library()
    if path is None:
        raise ProviderError(error_without_kernels())
    return path


def error_without_kernels() -> str:
    """Return the sentence of what needs the kernels where there are none."""
    return f"the native kernels must be there, but {why_not()}"


def why_not() -> str:
    """Return why there are no kernels, and what to do."""
    if _are_ignored():
        return "ONNXGATHER_NATIVE is 0"
    if not _WHY_NOT.exists():
        return "they are not beside onnxgather's modules; install onnxgather once more"
    reason = _WHY_NOT.read_text("utf-8").strip()
    return f"they were not built with onnxgather, as {reason}"


def _are_ignored() -> bool:
    return os.environ.get("ONNXGATHER_NATIVE") == "0"
