"""What the lane `webnn` runs: WebNN programs of descriptors, and no ONNX models."""

from __future__ import annotations

from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.lanes.lane import Answer, beyond_descriptors
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.execution.elsewhere.worker import output_of_bytes
from onnxgather.core.lowering.webnn.program import to_webnn


def why_no_program(case: Case) -> str | None:
    """Return why no WebNN program says a case; None if one does."""
    what = beyond_descriptors(case)
    if what is None:
        return None
    return f"a WebNN program is that of a descriptor, and no descriptor says {what}"


def given_to_webnn(case: DescriptorCase) -> tuple[bytes, dict[str, Array]]:
    """Return what the browser is given for a case.

    It is the text of the program's module, and the inputs.

    Raises:
        OnnxGatherError: There is no program of the descriptor.
    """
    program = to_webnn(case.descriptor, case.out_of_range)
    inputs = {"InputTensor": case.data, "IndicesTensor": case.indices}
    return program.to_javascript().encode(), inputs


def with_own_type(answer: Answer, tensor: TensorDesc) -> Answer:
    """Return an answer whose output is an array of OutputTensor, not its bytes."""
    if answer.output is None:
        return answer
    return replace(answer, output=output_of_bytes(answer.output, tensor))
