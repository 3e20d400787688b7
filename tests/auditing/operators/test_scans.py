"""What is known of the slices of Scan holds in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from network_draft import results, session
from onnx import TensorProto, helper, numpy_helper

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.proof.index_range import IndexRange, proof_of
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import read_network

LEVELS = range(4)
"""Of the optimizations of ONNX Runtime."""
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
Known = tuple[str, Any, int, int]
"""The data type, the sizes as text, the least and the greatest element."""


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    # "_" is an input that is left out.
    names = [name.strip("_") for name in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), **attributes)


def info(name: str, *shape: Any, data_type: int = INT64) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, data_type, shape)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    outputs: str,
    *inputs: Any,
    opset: int = 17,
    **constants: Any,
) -> onnx.ModelProto:
    arrays = [
        numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()
    ]
    told = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    graph = helper.make_graph(nodes, "g", inputs, told, arrays)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )


def run(model: onnx.ModelProto, level: int, feeds: dict[str, Any]) -> list[Array]:
    return [*results(session(model, level), feeds).values()]


def known(model: onnx.ModelProto, **feeds: Any) -> list[Bounds]:
    """What is known of the outputs; each level of ONNX Runtime computes what it
    allows."""
    network = read_network(model)
    found = ranges_of(network)
    values = [found.value(network.main, name) for name in network.main.outputs]
    for level in LEVELS:
        for value, array in zip(values, run(model, level, feeds), strict=True):
            if value.sizes is not None:
                assert len(value.sizes) == array.ndim
                pairs = zip(value.sizes, array.shape, strict=True)
                assert all(n == real for n, real in pairs if isinstance(n, int))
            assert (value.closed.low <= array[..., None]).all()
            assert (array[..., None] <= value.closed.high).all()
    return values


def told(value: Bounds) -> Known:
    low, high = value.closed.whole
    sizes = None if value.sizes is None else ", ".join(map(str, value.sizes))
    return value.data_type, sizes, low, high


NUMBERS = np.arange(12).reshape(6, 2)


def scan(inner: Sequence[onnx.NodeProto], **attributes: Any) -> onnx.NodeProto:
    """A Scan whose state is the row before, and which keeps each row plus this
    state."""
    infos = [info("state", None), info("row", None)]
    outputs = [info("next", None), info("kept", None)]
    body = helper.make_graph(inner, "body", infos, outputs)
    return node(
        "Scan", "start x", "end all", body=body, num_scan_inputs=1, **attributes
    )


ROWS = [node("Identity", "row", "next"), node("Add", "row state", "kept")]


@pytest.mark.parametrize(
    ("attributes", "start", "sizes", "high"),
    [
        ({}, [0, 0], "6, 2", 20),
        (
            {"scan_input_directions": [1], "scan_output_directions": [1]},
            [0, 0],
            "6, 2",
            20,
        ),
        ({"scan_input_axes": [1]}, [0] * 6, "2, 6", 22),
        ({"scan_input_axes": [-1], "scan_output_axes": [1]}, [0] * 6, "6, 2", 22),
        ({"scan_output_axes": [-1]}, [0, 0], "2, 6", 20),
    ],
)
def test_the_slices_of_a_scan_lie_along_the_axes_that_it_names(
    attributes: dict[str, Any], start: list[int], sizes: str, high: int
) -> None:
    model = model_of([scan(ROWS, **attributes)], "end all", x=NUMBERS, start=start)
    end, every = known(model)
    assert told(every)[:3] == ("INT64", sizes, 0)
    assert told(every)[3] >= high
    assert told(end) == ("INT64", str(len(start)), 0, 11)


def test_a_scan_over_an_open_size_keeps_as_many_slices() -> None:
    nodes = [node("ReduceMin", "x", "start", axes=[0], keepdims=0), scan(ROWS)]
    end, every = known(model_of(nodes, "end all", info("x", "N", 2)), x=NUMBERS)
    assert [str(end.sizes), str(every.sizes)] == ["(2,)", "(N, 2)"]


def test_nothing_is_known_of_a_scan_with_a_batch() -> None:
    inner = [
        node("Cast", "state", "b", to=BOOL),
        node("Cast", "b", "i", to=INT64),
        node("Gather", "row i", "kept"),
        node("Identity", "state", "next"),
    ]
    body = helper.make_graph(
        inner, "body", [info("state"), info("row", 6)], [info("next"), info("kept")]
    )
    nodes = [node("Scan", "lengths start x", "end all", body=body, num_scan_inputs=1)]
    constants: dict[str, Any] = {
        "lengths": [1, 1],
        "start": [5, 7],
        "x": np.arange(12).reshape(2, 1, 6),
    }
    model = model_of(nodes, "end all", opset=8, **constants)
    assert [run(model, level, {})[1].tolist() for level in LEVELS] == [[[1], [7]]] * 4
    network = read_network(model)
    found = ranges_of(network)
    inside = network.main.operations[0].bodies["body"]
    assert proof_of(found, inside, inside.operations[2]) == IndexRange(
        "not-proved", (0,), (1,), (None,), "Cast", input="state"
    )
    for name in ("end", "all"):
        assert told(found.value(network.main, name))[1:] == (None, -np.inf, np.inf)
