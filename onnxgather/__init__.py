"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`) becomes an ONNX
model with `to_onnx`, a result with `run` on one execution provider, and a result by DirectML's own
formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from onnxgather.descriptors.cpp import to_cpp
from onnxgather.descriptors.datatypes import TensorDataType
from onnxgather.descriptors.feature_levels import minimum_feature_level
from onnxgather.descriptors.operators import (
    OPERATORS,
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
)
from onnxgather.descriptors.reference import reference
from onnxgather.descriptors.spelling import from_dict, to_dict
from onnxgather.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.errors import (
    DescriptorError,
    FileFormatError,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.execution.kernels import custom_ops_library
from onnxgather.execution.prepared import Gather
from onnxgather.gather import from_onnx
from onnxgather.options import OutOfRange

if TYPE_CHECKING:
    from onnxgather.execution.session import Session, run
    from onnxgather.model import add_to, functions, to_onnx
    from onnxgather.networks.gathers import audit
    from onnxgather.networks.hardening import harden
    from onnxgather.programs.whole import program_to_onnx

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
    "Session": "onnxgather.execution.session",
    "add_to": "onnxgather.model",
    "audit": "onnxgather.networks.gathers",
    "functions": "onnxgather.model",
    "harden": "onnxgather.networks.hardening",
    "program_to_onnx": "onnxgather.programs.whole",
    "run": "onnxgather.execution.session",
    "to_onnx": "onnxgather.model",
}


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
