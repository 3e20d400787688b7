"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`) becomes an ONNX
model with `to_onnx`, a result with `run` on one execution provider, and a result by DirectML's own
formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from onnxgather.execution.session import Session, run
    from onnxgather.gather import from_onnx
    from onnxgather.model.parts import add_to, functions
    from onnxgather.model.write import to_onnx
    from onnxgather.networks.gathers import audit
    from onnxgather.networks.hardening import harden
    from onnxgather.options import OutOfRange
    from onnxgather.programs.whole import program_to_onnx

__version__: str

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

# numpy, onnx and onnxruntime take longer to import than all else together, and each caller needs
# some of the names only: each name waits for its use.
_LATE = {
    "Descriptor": "onnxgather.descriptors.operators",
    "DescriptorError": "onnxgather.errors",
    "FileFormatError": "onnxgather.errors",
    "Gather": "onnxgather.execution.prepared",
    "GatherDesc": "onnxgather.descriptors.operators",
    "GatherElementsDesc": "onnxgather.descriptors.operators",
    "GatherND1Desc": "onnxgather.descriptors.operators",
    "GatherNDDesc": "onnxgather.descriptors.operators",
    "IndexOutOfRangeError": "onnxgather.errors",
    "OPERATORS": "onnxgather.descriptors.operators",
    "OnnxGatherError": "onnxgather.errors",
    "OutOfRange": "onnxgather.options",
    "ProviderError": "onnxgather.errors",
    "Session": "onnxgather.execution.session",
    "TensorDataType": "onnxgather.descriptors.datatypes",
    "TensorDesc": "onnxgather.descriptors.tensors",
    "TensorFlags": "onnxgather.descriptors.tensors",
    "add_to": "onnxgather.model.parts",
    "audit": "onnxgather.networks.gathers",
    "custom_ops_library": "onnxgather.execution.kernels",
    "from_dict": "onnxgather.descriptors.spelling",
    "from_onnx": "onnxgather.gather",
    "functions": "onnxgather.model.parts",
    "harden": "onnxgather.networks.hardening",
    "minimum_feature_level": "onnxgather.descriptors.feature_levels",
    "program_to_onnx": "onnxgather.programs.whole",
    "reference": "onnxgather.descriptors.reference",
    "run": "onnxgather.execution.session",
    "to_cpp": "onnxgather.descriptors.cpp",
    "to_dict": "onnxgather.descriptors.spelling",
    "to_onnx": "onnxgather.model.write",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name == "__version__":
        from importlib.metadata import version

        value = version("onnxgather")
    elif name in _LATE:
        value = getattr(import_module(_LATE[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, though each is imported when it is first asked for."""
    return [*__all__, "__version__"]
