"""Gathers along sizes of 1, with what ONNX Runtime's DirectML provider read there."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import onnx
from folders import OBSERVED
from msgspec import Struct
from onnx_graphs import info, model, node

import onnxgather as og
from onnxgather.core.gather import ATTRIBUTES


class Run(Struct):
    """Indices, and the elements that the provider read for them."""

    indices: list[int]
    static: list[int]
    """Of a model with these sizes."""
    open: list[int]
    """Of a model whose sizes are open."""

    def of(self, is_static: bool) -> list[int]:
        """Return the elements of one of the two models."""
        return self.static if is_static else self.open


class RecordedNode(Struct):
    """A node that ran on the provider; its data are 1, 2, 3 and so on."""

    operator: str
    data: tuple[int, ...]
    indices: tuple[int, ...]
    number: int
    """The axis or batch_dims."""
    runs: list[Run]

    def model(self, is_static: bool) -> onnx.ModelProto:
        """Return a model of the node, with its sizes or with open ones."""
        data: list[Any] = [*self.data]
        indices: list[Any] = [*self.indices]
        if not is_static:
            data = [f"data{axis}" for axis in range(len(data))]
            indices = [f"indices{axis}" for axis in range(len(indices))]
        # The rank of the output of a GatherND depends on the length of its tuples.
        if self.operator == "GatherND":
            indices[-1] = self.indices[-1]
        attributes: dict[str, Any] = {ATTRIBUTES[self.operator]: self.number}
        gather = node(self.operator, ["data", "indices"], "output", **attributes)
        inputs = [
            info("data", onnx.TensorProto.FLOAT, data),
            info("indices", onnx.TensorProto.INT64, indices),
        ]
        return model([gather], inputs, ["output"])

    def inputs(self, run: Run) -> dict[str, Any]:
        """Return the inputs of a run of the model."""
        count = int(np.prod(self.data))
        data = np.arange(1, count + 1, dtype=np.float32).reshape(self.data)
        indices = np.array(run.indices).reshape(self.indices)
        return {"data": data, "indices": indices}

    def descriptor(self, is_static: bool) -> og.Descriptor:
        """Return the descriptor of the node, by whose formulas the provider reads."""
        data = ("FLOAT32", self.data)
        indices = ("INT64", self.indices)
        number = self.number
        return og.from_onnx(self.operator, data, indices, number, number, is_static)


def recorded_nodes() -> list[RecordedNode]:
    """Return the nodes that were recorded."""
    text = (OBSERVED / "sizes_of_one.json").read_bytes()
    return msgspec.json.decode(text, type=list[RecordedNode])
