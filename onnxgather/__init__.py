"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`) becomes an ONNX
model with `to_onnx`, a result with `run` on one execution provider, and a result by DirectML's own
formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from onnxgather.cpp import to_cpp
from onnxgather.datatypes import TensorDataType
from onnxgather.descriptors import (
    OPERATORS,
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
)
from onnxgather.dxdispatch.descriptor import from_dict, to_dict
from onnxgather.errors import (
    DescriptorError,
    FileFormatError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.feature_levels import minimum_feature_level
from onnxgather.gather import from_onnx
from onnxgather.kernels import custom_ops_library
from onnxgather.options import OutOfRange
from onnxgather.prepared import Gather
from onnxgather.reference import reference
from onnxgather.tensors import TensorDesc, TensorFlags

if TYPE_CHECKING:
    from onnxgather.audit.gathers import audit
    from onnxgather.hardening import harden
    from onnxgather.model import add_to, functions, program_to_onnx, to_onnx
    from onnxgather.session import Session, run

__version__ = version("onnxgather")

__all__ = [
    "OPERATORS",
    "Descriptor",
    "DescriptorError",
    "FileFormatError",
    "Gather",
    "GatherDesc",
    "GatherElementsDesc",
    "GatherND1Desc",
    "GatherNDDesc",
    "IndexOutOfRangeError",
    "OnnxGatherError",
    "OutOfRange",
    "ProviderError",
    "Session",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "add_to",
    "audit",
    "custom_ops_library",
    "from_dict",
    "from_onnx",
    "functions",
    "harden",
    "minimum_feature_level",
    "program_to_onnx",
    "reference",
    "run",
    "to_cpp",
    "to_dict",
    "to_onnx",
]

# onnx and onnxruntime take longer to import than all else together, so they wait for their use.
_LATE = {
    "Session": "onnxgather.session",
    "add_to": "onnxgather.model",
    "audit": "onnxgather.audit.gathers",
    "functions": "onnxgather.model",
    "harden": "onnxgather.hardening",
    "program_to_onnx": "onnxgather.model",
    "run": "onnxgather.session",
    "to_onnx": "onnxgather.model",
}

# Else the first import of the package audit would put it where the function of its name belongs.
import_module("onnxgather.audit")
globals().pop("audit")


def __getattr__(name: str) -> Any:
    """Import the functions that need onnx or onnxruntime when they are first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LATE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, those too that are imported when they are first asked for."""
    return [*__all__, "__version__"]
