"""Small ONNX models with subgraphs and functions, put together by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(
    operator: str, inputs: Sequence[str], output: str, name: str = "", **more: Any
) -> Any:
    return helper.make_node(operator, inputs, [output], name, **more)


def info(name: str, data_type: int = FLOAT, shape: Sequence[Any] | None = None) -> Any:
    return helper.make_tensor_value_info(name, data_type, shape)


def constant(name: str, array: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def graph(
    nodes: Sequence[Any],
    inputs: Sequence[Any] = (),
    outputs: Sequence[str] = (),
    constants: Sequence[TensorProto] = (),
) -> onnx.GraphProto:
    outs = [onnx.ValueInfoProto(name=name) for name in outputs]
    return helper.make_graph(nodes, "g", inputs, outs, constants)


def model(*given: Any, functions: Sequence[Any] = (), **more: Any) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_model(
        graph(*given), opset_imports=opsets, functions=functions, ir_version=8
    )
    for name, value in more.items():
        setattr(made, name, value)
    return made


def function(
    name: str, inputs: Sequence[str], nodes: Sequence[Any], **more: Any
) -> Any:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    outputs = [nodes[-1].output[0]]
    return helper.make_function("own", name, inputs, outputs, nodes, opsets, **more)


def nodes_of(text: str) -> list[onnx.NodeProto]:
    """Return the nodes that stand in ONNX's textual syntax."""
    return list(onnx.parser.parse_graph(f"g () => () {{ {text} }}").node)


def written(
    text: str,
    *constants: TensorProto,
    functions: Sequence[Any] = (),
    **more: Any,
) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's textual syntax, with more constants."""
    made = model([], functions=functions, **more)
    made.graph.CopyFrom(onnx.parser.parse_graph(f"g {text}"))
    made.graph.initializer.extend(constants)
    return made
