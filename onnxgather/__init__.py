"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`) becomes an ONNX
model with `to_onnx`, a result with `run` on one execution provider, and a result by DirectML's own
formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgather.descriptors.cpp import to_cpp as to_cpp
    from onnxgather.descriptors.datatypes import TensorDataType as TensorDataType
    from onnxgather.descriptors.feature_levels import minimum_feature_level as minimum_feature_level
    from onnxgather.descriptors.operators import OPERATORS as OPERATORS
    from onnxgather.descriptors.operators import Descriptor as Descriptor
    from onnxgather.descriptors.operators import GatherDesc as GatherDesc
    from onnxgather.descriptors.operators import GatherElementsDesc as GatherElementsDesc
    from onnxgather.descriptors.operators import GatherND1Desc as GatherND1Desc
    from onnxgather.descriptors.operators import GatherNDDesc as GatherNDDesc
    from onnxgather.descriptors.reference import reference as reference
    from onnxgather.descriptors.spelling import from_dict as from_dict
    from onnxgather.descriptors.spelling import to_dict as to_dict
    from onnxgather.descriptors.tensors import TensorDesc as TensorDesc
    from onnxgather.descriptors.tensors import TensorFlags as TensorFlags
    from onnxgather.errors import DescriptorError as DescriptorError
    from onnxgather.errors import FileFormatError as FileFormatError
    from onnxgather.errors import IndexOutOfRangeError as IndexOutOfRangeError
    from onnxgather.errors import OnnxGatherError as OnnxGatherError
    from onnxgather.errors import ProviderError as ProviderError
    from onnxgather.execution.kernels import custom_ops_library as custom_ops_library
    from onnxgather.execution.prepared import Gather as Gather
    from onnxgather.execution.session import Session as Session
    from onnxgather.execution.session import run as run
    from onnxgather.gather import from_onnx as from_onnx
    from onnxgather.model.parts import add_to as add_to
    from onnxgather.model.parts import functions as functions
    from onnxgather.model.write import to_onnx as to_onnx
    from onnxgather.networks.contract import check_inputs as check_inputs
    from onnxgather.networks.gathers import audit as audit
    from onnxgather.networks.hardening import harden as harden
    from onnxgather.options import OutOfRange as OutOfRange
    from onnxgather.programs.whole import program_to_onnx as program_to_onnx

__version__: str

# numpy, onnx and onnxruntime take longer to import than all else together, and each caller needs
# some of the names only: each name waits for its use.
_LATE = {
    "OPERATORS": "onnxgather.descriptors.operators",
    "Descriptor": "onnxgather.descriptors.operators",
    "DescriptorError": "onnxgather.errors",
    "FileFormatError": "onnxgather.errors",
    "Gather": "onnxgather.execution.prepared",
    "GatherDesc": "onnxgather.descriptors.operators",
    "GatherElementsDesc": "onnxgather.descriptors.operators",
    "GatherND1Desc": "onnxgather.descriptors.operators",
    "GatherNDDesc": "onnxgather.descriptors.operators",
    "IndexOutOfRangeError": "onnxgather.errors",
    "OnnxGatherError": "onnxgather.errors",
    "OutOfRange": "onnxgather.options",
    "ProviderError": "onnxgather.errors",
    "Session": "onnxgather.execution.session",
    "TensorDataType": "onnxgather.descriptors.datatypes",
    "TensorDesc": "onnxgather.descriptors.tensors",
    "TensorFlags": "onnxgather.descriptors.tensors",
    "add_to": "onnxgather.model.parts",
    "audit": "onnxgather.networks.gathers",
    "check_inputs": "onnxgather.networks.contract",
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
"""The public names, each with the module that defines it."""

__all__ = [*_LATE]  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # a type checker knows the names, and tells of others

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
