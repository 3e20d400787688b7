"""Models in the text form of ONNX, which `onnx.parser` reads."""

from __future__ import annotations

from typing import Any

import onnx
import onnx.parser

OPSETS = 'opset_import: ["": 17, "own": 1]'


def model_of(graph: str, *functions: str, **fields: Any) -> onnx.ModelProto:
    """Return a model.

    Args:
        graph: The text of its graph.
        functions: The texts of its functions, which are of the domain `own`.
        fields: Fields of the model that become others.
    """
    own = [f'<domain: "own", {OPSETS}> {function}' for function in functions]
    text = "\n".join([f"<ir_version: 8, {OPSETS}> {graph}", *own])
    made = onnx.parser.parse_model(text)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
