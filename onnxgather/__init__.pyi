"""The public names, each once: `__init__.py` and type checkers read them here."""

from onnxgather.auditing.audit import audit as audit
from onnxgather.auditing.hardening.harden import harden as harden
from onnxgather.auditing.proof.contract import Condition as Condition
from onnxgather.auditing.proof.contract import check_inputs as check_inputs
from onnxgather.auditing.proof.contract_model import contract_model as contract_model
from onnxgather.auditing.proof.index_range import IndexRange as IndexRange
from onnxgather.auditing.records import Audit as Audit
from onnxgather.auditing.records import AuditedGather as AuditedGather
from onnxgather.checking.results import Result as Result
from onnxgather.checking.run import check as check
from onnxgather.core.descriptors.datatypes import TensorDataType as TensorDataType
from onnxgather.core.descriptors.explain import Explanation as Explanation
from onnxgather.core.descriptors.explain import explain as explain
from onnxgather.core.descriptors.feature_levels import (
    minimum_feature_level as minimum_feature_level,
)
from onnxgather.core.descriptors.onnx_reference import reference_onnx as reference_onnx
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
from onnxgather.core.execution.gather_provider import GatherCounts as GatherCounts
from onnxgather.core.execution.gather_provider import add_provider as add_provider
from onnxgather.core.execution.gather_provider import (
    provider_library as provider_library,
)
from onnxgather.core.execution.gather_provider import provider_report as provider_report
from onnxgather.core.execution.kernels import custom_ops_library as custom_ops_library
from onnxgather.core.execution.prepared import Gather as Gather
from onnxgather.core.execution.session import Session as Session
from onnxgather.core.execution.session import run as run
from onnxgather.core.gather import from_onnx as from_onnx
from onnxgather.core.lowering.show import Description as Description
from onnxgather.core.lowering.show import show as show
from onnxgather.core.lowering.webnn.program import WebnnProgram as WebnnProgram
from onnxgather.core.lowering.webnn.program import to_webnn as to_webnn
from onnxgather.core.model.parts import add_to as add_to
from onnxgather.core.model.parts import functions as functions
from onnxgather.core.options import OutOfRange as OutOfRange
from onnxgather.core.options import ProvedTarget as ProvedTarget
from onnxgather.core.options import Target as Target
from onnxgather.core.options import WebnnForm as WebnnForm
from onnxgather.core.programs.loading import load as load
from onnxgather.core.programs.memory import Dispatch as Dispatch
from onnxgather.core.programs.program import Program as Program
from onnxgather.core.programs.whole import program_to_onnx as program_to_onnx
from onnxgather.core.programs.whole_webnn import WholeWebnnProgram as WholeWebnnProgram
from onnxgather.core.programs.whole_webnn import program_to_webnn as program_to_webnn
from onnxgather.core.version import __version__ as __version__
from onnxgather.extracting.extract import Extracted as Extracted
from onnxgather.extracting.extract import extract as extract
from onnxgather.proving.certify import Certified as Certified
from onnxgather.proving.certify import certify as certify
from onnxgather.proving.counterexamples import Counterexample as Counterexample
from onnxgather.proving.to_onnx import to_onnx as to_onnx

__all__: list[str]
