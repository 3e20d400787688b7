"""Gathers that ONNX allows and that no descriptor of DirectML says, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from onnxgather.checking.cases import GatherNode, NodeCase
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.gather import gather_of_node


class OnnxGather(NamedTuple):
    """A node of ONNX with its inputs, and why no descriptor says it."""

    operator: str
    attributes: Mapping[str, int]
    data: Array
    indices: Array
    why: str

    @property
    def case(self) -> NodeCase:
        (number,) = self.attributes.values()
        shapes = self.data.shape, self.indices.shape
        output = gather_of_node(self.operator, *shapes, number).output
        node = GatherNode(self.operator, dict(self.attributes), output)
        return NodeCase("node", node, self.data, self.indices)


TRUE_AT = np.eye(2, 6, dtype=bool)
LETTERS = np.array([*"abcdefgh"], object).reshape(4, 2)
NUMBERS = np.array([[10, 11, 12], [20, 21, 22]], np.float32)
ENDS = np.array([0, -1, 3])

ONNX_GATHERS = {
    "bool": OnnxGather(
        "Gather", {"axis": 1}, TRUE_AT, ENDS, "DirectML gathers no BOOL"
    ),
    "string": OnnxGather(
        "Gather", {"axis": 0}, LETTERS, ENDS, "DirectML gathers no STRING"
    ),
    "empty-data": OnnxGather(
        "Gather",
        {"axis": 0},
        np.zeros((4, 0), np.float32),
        np.arange(3),
        "InputTensor.Sizes[1] must be at least 1, got 0",
    ),
    "empty-indices": OnnxGather(
        "Gather",
        {"axis": 0},
        np.zeros((4, 2), np.float32),
        np.zeros(0, np.int64),
        "IndicesTensor.Sizes[1] must be at least 1, got 0",
    ),
    "rank-9": OnnxGather(
        "Gather",
        {"axis": 8},
        np.arange(3, dtype=np.float32).reshape((1,) * 8 + (3,)),
        np.array(1),
        "InputTensor.DimensionCount must be 1 to 8, got 9",
    ),
    "fewer-indices": OnnxGather(
        "GatherElements",
        {"axis": 1},
        NUMBERS,
        np.array([[2, 0]]),
        "IndicesTensor.Sizes[0] must be InputTensor.Sizes[0] (2), as it is not at Axis,"
        " got 1",
    ),
}
"""The gathers by name."""


def write_gather(folder: Path, name: str, gather: OnnxGather) -> None:
    """Write NAME.onnx, the model of a gather called g, and NAME.npz, its inputs."""
    attributes: dict[str, Any] = dict(gather.attributes)
    node = helper.make_node(
        gather.operator, ["data", "ids"], ["rows"], "g", **attributes
    )
    inputs = [
        helper.make_tensor_value_info(
            value, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for value, array in (("data", gather.data), ("ids", gather.indices))
    ]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="rows")])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    data = gather.data
    if data.dtype.hasobject:
        data = data.astype(str)
    np.savez(folder / f"{name}.npz", allow_pickle=False, data=data, ids=gather.indices)
