"""The models for onnxruntime-web's WebNN provider, run on the CPU provider."""

from __future__ import annotations

import numpy as np
import pytest
from corpus_cases import descriptor_cases
from messages import message_of
from rings import by_ring
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.runtime import CPU, Opened, Setup
from onnxgather.core.lowering import positions
from onnxgather.core.model.write import to_onnx_for_webnn
from onnxgather.core.options import OutOfRange

POLICIES: tuple[OutOfRange, ...] = ("clamp", "zero", "directml")

STRIDED = descriptor("GATHER: INT16 4x3, INT32 1x2, INT16 4x2 strides 3x1, 1, 1")


def test_its_gathers_are_along_axis_0_and_nothing_scatters() -> None:
    rows = descriptor_cases()
    strided = [row for row in rows if row.descriptor.output_tensor.strides is not None]
    step = by_ring(211, 9)
    checked = 0
    for case in (*rows[::step], *strided[::step]):
        desc = case.descriptor
        for policy in POLICIES:
            model = to_onnx_for_webnn(desc, policy)
            for node in model.graph.node:
                assert node.op_type not in ("GatherElements", "GatherND")
                assert node.op_type != "ScatterElements"
                # A tensor of no dimensions is the target of no Reshape.
                if node.op_type == "Reshape":
                    (sizes,) = [
                        tensor.dims
                        for tensor in model.graph.initializer
                        if tensor.name == node.input[1]
                    ]
                    assert [*sizes] != [0]
            if not case.in_range and policy != "directml":
                continue
            opened = Opened(model.SerializeToString(), Setup(CPU, 1))
            feed = {"InputTensor": case.data, "IndicesTensor": case.indices}
            expected = og.reference(desc, case.data, case.indices, policy)
            assert opened.run(feed).tobytes() == expected.tobytes(), case.name
            checked += 1
    assert checked > len(rows) // step


def test_a_strided_output_has_zeros_in_its_gaps() -> None:
    data = np.arange(1, 13, dtype=np.int16).reshape(4, 3)
    indices = np.array([[2, -3]], np.int32)
    model = to_onnx_for_webnn(STRIDED, "clamp")
    opened = Opened(model.SerializeToString(), Setup(CPU, 1))
    output = opened.run({"InputTensor": data, "IndicesTensor": indices})
    assert output.tolist() == [3, 1, 0, 6, 4, 0, 9, 7, 0, 12, 10, 0]
    last = model.graph.node[-1]
    assert (last.op_type, last.output[0]) == ("Gather", "OutputTensor")


def test_a_mistake_in_the_map_of_a_strided_output_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = positions.elements

    def reversed_elements(tensor: og.TensorDesc, array: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return own(tensor, array)[::-1]

    monkeypatch.setattr(positions, "elements", reversed_elements)
    with pytest.raises(AssertionError):
        test_a_strided_output_has_zeros_in_its_gaps()


def test_a_tensor_that_int32_does_not_count_is_refused() -> None:
    desc = descriptor(f"GATHER_ELEMENTS: UINT8 {2**31}, UINT32 2, UINT8 2, 0")
    rule = 'target "webgpu" must have tensors whose elements INT32 counts'
    assert (
        message_of(OnnxGatherError, to_onnx_for_webnn, desc, "error")
        == f"{rule}, got {2**31} elements"
    )
