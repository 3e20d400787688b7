"""Models of several gathers on the CPU provider, with the library of operators and
without."""

from __future__ import annotations

import onnx

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import kernels
from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.model.write import check_model

LIBRARIES = [None, *filter(None, [kernels.operators_library()])]


def computed(
    model: onnx.ModelProto, inputs: dict[str, Array], library: str | None = None
) -> list[bytes]:
    """Return the bytes of the outputs of a model on the CPU provider."""
    check_model(model)
    session = Opened(model.SerializeToString(), Setup(CPU, 1, operators=library))
    return [output.tobytes() for output in session.run_all(inputs)]
