"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`)
becomes an ONNX model with `to_onnx`, a result with `run` on one execution provider, and
a result by DirectML's own formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgather.certificates.certify import certify as certify
    from onnxgather.descriptors.datatypes import TensorDataType as TensorDataType
    from onnxgather.descriptors.explain import explain as explain
    from onnxgather.descriptors.feature_levels import (
        minimum_feature_level as minimum_feature_level,
    )
    from onnxgather.descriptors.operators import OPERATORS as OPERATORS
    from onnxgather.descriptors.operators import Descriptor as Descriptor
    from onnxgather.descriptors.operators import GatherDesc as GatherDesc
    from onnxgather.descriptors.operators import (
        GatherElementsDesc as GatherElementsDesc,
    )
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
    from onnxgather.lowering.show import show as show
    from onnxgather.model.parts import add_to as add_to
    from onnxgather.model.parts import functions as functions
    from onnxgather.model.write import to_onnx as to_onnx
    from onnxgather.networks.contract import check_inputs as check_inputs
    from onnxgather.networks.extraction import extract as extract
    from onnxgather.networks.gathers import audit as audit
    from onnxgather.networks.hardening import harden as harden
    from onnxgather.options import OutOfRange as OutOfRange
    from onnxgather.parity.checking import check as check
    from onnxgather.programs.whole import program_to_onnx as program_to_onnx

__version__: str

# numpy, onnx and onnxruntime take longer to import than all else together, and each
# caller needs some of the names only: each name waits for its use.
_MODULES = {
    "certificates.certify": "certify",
    "descriptors.datatypes": "TensorDataType",
    "descriptors.explain": "explain",
    "descriptors.feature_levels": "minimum_feature_level",
    "descriptors.operators": (
        "Descriptor GatherDesc GatherElementsDesc GatherND1Desc GatherNDDesc OPERATORS"
    ),
    "descriptors.reference": "reference",
    "descriptors.spelling": "from_dict to_dict",
    "descriptors.tensors": "TensorDesc TensorFlags",
    "errors": (
        "DescriptorError FileFormatError IndexOutOfRangeError OnnxGatherError"
        " ProviderError"
    ),
    "execution.kernels": "custom_ops_library",
    "execution.prepared": "Gather",
    "execution.session": "Session run",
    "gather": "from_onnx",
    "lowering.show": "show",
    "model.parts": "add_to functions",
    "model.write": "to_onnx",
    "networks.contract": "check_inputs",
    "networks.extraction": "extract",
    "networks.gathers": "audit",
    "networks.hardening": "harden",
    "options": "OutOfRange",
    "parity.checking": "check",
    "programs.whole": "program_to_onnx",
}
"""The modules that define the public names, and these names."""

_LATE = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_LATE)  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # a type checker knows the names, and tells of others

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for."""
        if name == "__version__":
            from importlib.metadata import version

            value = version("onnxgather")
        elif name in _LATE:
            value = getattr(import_module(f"onnxgather.{_LATE[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, though each is imported when it is first asked for."""
    return [*__all__, "__version__"]
