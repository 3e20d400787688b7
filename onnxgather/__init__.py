"""DirectML gather descriptors as ONNX models, run and checked.

A descriptor (`GatherDesc`, `GatherElementsDesc`, `GatherNDDesc`, `GatherND1Desc`)
becomes an ONNX model with `to_onnx`, a result with `run` on one execution provider, and
a result by DirectML's own formulas, without ONNX, with `reference`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgather.auditing.audit import audit as audit
    from onnxgather.auditing.hardening.harden import harden as harden
    from onnxgather.auditing.proof.contract import check_inputs as check_inputs
    from onnxgather.auditing.proof.contract_model import (
        contract_model as contract_model,
    )
    from onnxgather.checking.run import check as check
    from onnxgather.core.descriptors.datatypes import TensorDataType as TensorDataType
    from onnxgather.core.descriptors.explain import explain as explain
    from onnxgather.core.descriptors.feature_levels import (
        minimum_feature_level as minimum_feature_level,
    )
    from onnxgather.core.descriptors.operators import OPERATORS as OPERATORS
    from onnxgather.core.descriptors.operators import Descriptor as Descriptor
    from onnxgather.core.descriptors.operators import GatherDesc as GatherDesc
    from onnxgather.core.descriptors.operators import (
        GatherElementsDesc as GatherElementsDesc,
    )
    from onnxgather.core.descriptors.operators import GatherND1Desc as GatherND1Desc
    from onnxgather.core.descriptors.operators import GatherNDDesc as GatherNDDesc
    from onnxgather.core.descriptors.reference import reference as reference
    from onnxgather.core.descriptors.spelling import from_dict as from_dict
    from onnxgather.core.descriptors.spelling import to_dict as to_dict
    from onnxgather.core.descriptors.tensors import TensorDesc as TensorDesc
    from onnxgather.core.descriptors.tensors import TensorFlags as TensorFlags
    from onnxgather.core.errors import DescriptorError as DescriptorError
    from onnxgather.core.errors import FileFormatError as FileFormatError
    from onnxgather.core.errors import IndexOutOfRangeError as IndexOutOfRangeError
    from onnxgather.core.errors import OnnxGatherError as OnnxGatherError
    from onnxgather.core.errors import ProviderError as ProviderError
    from onnxgather.core.execution.kernels import (
        custom_ops_library as custom_ops_library,
    )
    from onnxgather.core.execution.prepared import Gather as Gather
    from onnxgather.core.execution.session import Session as Session
    from onnxgather.core.execution.session import run as run
    from onnxgather.core.gather import from_onnx as from_onnx
    from onnxgather.core.lowering.show import show as show
    from onnxgather.core.lowering.webnn.program import to_webnn as to_webnn
    from onnxgather.core.model.parts import add_to as add_to
    from onnxgather.core.model.parts import functions as functions
    from onnxgather.core.options import OutOfRange as OutOfRange
    from onnxgather.core.programs.whole import program_to_onnx as program_to_onnx
    from onnxgather.core.programs.whole_webnn import (
        program_to_webnn as program_to_webnn,
    )
    from onnxgather.extracting.extract import extract as extract
    from onnxgather.proving.certify import certify as certify
    from onnxgather.proving.verified import to_onnx as to_onnx

__version__ = "0.1.0"

# numpy, onnx and onnxruntime take longer to import than all else together, and a caller
# needs only some of the names: so each is imported at its first use.
_MODULES = {
    "proving.certify": "certify",
    "proving.verified": "to_onnx",
    "core.descriptors.datatypes": "TensorDataType",
    "core.descriptors.explain": "explain",
    "core.descriptors.feature_levels": "minimum_feature_level",
    "core.descriptors.operators": (
        "Descriptor GatherDesc GatherElementsDesc GatherND1Desc GatherNDDesc OPERATORS"
    ),
    "core.descriptors.reference": "reference",
    "core.descriptors.spelling": "from_dict to_dict",
    "core.descriptors.tensors": "TensorDesc TensorFlags",
    "core.errors": (
        "DescriptorError FileFormatError IndexOutOfRangeError OnnxGatherError"
        " ProviderError"
    ),
    "core.execution.kernels": "custom_ops_library",
    "core.execution.prepared": "Gather",
    "core.execution.session": "Session run",
    "core.gather": "from_onnx",
    "core.lowering.show": "show",
    "core.lowering.webnn.program": "to_webnn",
    "core.model.parts": "add_to functions",
    "auditing.proof.contract": "check_inputs",
    "auditing.proof.contract_model": "contract_model",
    "extracting.extract": "extract",
    "auditing.audit": "audit",
    "auditing.hardening.harden": "harden",
    "core.options": "OutOfRange",
    "checking.run": "check",
    "core.programs.whole": "program_to_onnx",
    "core.programs.whole_webnn": "program_to_webnn",
}
"""The modules that define the public names, and these names."""

_LATE = {name: module for module, names in _MODULES.items() for name in names.split()}
"""The module that defines each public name."""

__all__ = sorted(_LATE)  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # a type checker has the names, and reports all others

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use."""
        if name not in _LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"onnxgather.{_LATE[name]}")
        value = getattr(module, name)
        globals()[name] = value  # so that the next use does not come here
        return value


def __dir__() -> list[str]:
    """Return the public names, though each is imported at its first use."""
    return [*__all__, "__version__"]
