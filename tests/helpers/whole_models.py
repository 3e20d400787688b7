"""Models of several gathers on the CPU provider, with the library of operators and
without."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from strategies import Case

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution import kernels
from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OutOfRange

LIBRARIES = [None, *filter(None, [kernels.operators_library()])]


def computed(
    model: onnx.ModelProto, inputs: dict[str, Array], library: str | None = None
) -> list[bytes]:
    """Return the bytes of the outputs of a model on the CPU provider."""
    check_model(model)
    session = Opened(model.SerializeToString(), Setup(CPU, 1, operators=library))
    return [output.tobytes() for output in session.run_all(inputs)]


def assert_as_alone(
    model: onnx.ModelProto, parts: Sequence[tuple[Case, OutOfRange]]
) -> None:
    """Each gather of a model, from x0 and i0 on, gives what it gives alone."""
    feeds: dict[str, Array] = {}
    expected: list[bytes] = []
    for k, (case, policy) in enumerate(parts):
        feeds |= {f"x{k}": case.data, f"i{k}": case.indices}
        alone = og.reference(case.desc, case.data, case.indices, policy)
        expected.append(alone.tobytes())
    for library in LIBRARIES:
        assert computed(model, feeds, library) == expected
