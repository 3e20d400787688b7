"""Descriptors as programs for WebNN: calls of an MLGraphBuilder, made without ONNX."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgather.core.checks import check_choice
from onnxgather.core.descriptors.arrays import (
    Array,
    check_array,
    check_descriptor,
    check_policy,
)
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import tensors, to_dict
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.portable import INPUT
from onnxgather.core.lowering.webnn.gathering import gather_steps
from onnxgather.core.lowering.webnn.javascript import module_text
from onnxgather.core.lowering.webnn.steps import (
    LONGEST_LIST,
    Constant,
    MLOperand,
    Step,
    StepList,
    little_endian,
)
from onnxgather.core.options import WEBNN_FORMS, OutOfRange, WebnnForm
from onnxgather.core.public import public

MOST_COUNTED = 2**31 - 1
"""The most elements of a tensor, as offsets are int32."""

MOST_CONSTANT_BYTES = 2**28
"""The most bytes of data that a program holds; a JavaScript engine limits texts."""

_DATA_TYPES = ("FLOAT32", "FLOAT16", "INT64", "INT32", "INT8", "UINT8")
"""The data types of DirectML that WebNN has, but those that no gather of it needs."""

_INDEX_TYPES = ("INT64", "INT32", "UINT32")
"""The data types of indices that WebNN can compare or cast."""


@public
@dataclass(frozen=True, slots=True)
class WebnnProgram:
    """A WebNN graph as calls of an MLGraphBuilder, which is data.

    `to_webnn` makes it of a descriptor.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT32", [2]))
        >>> program = og.to_webnn(desc, form="typed")
        >>> program
        <WebnnProgram of DML_OPERATOR_GATHER, 11 steps>
        >>> program.to_dict()["inputs"]["IndicesTensor"]
        {'dataType': 'int32', 'shape': [2]}
    """

    descriptor: Descriptor
    out_of_range: OutOfRange
    form: WebnnForm
    graph: StepList
    """The calls. Inputs are InputTensor, if that is no constant, and IndicesTensor;
    outputs are OutputTensor, and under "error" Outside, the number of indices out of
    range."""

    def __repr__(self) -> str:
        kind = f"DML_OPERATOR_{self.descriptor.operator}"
        return f"<WebnnProgram of {kind}, {len(self.graph.steps)} steps>"

    def to_dict(self) -> dict[str, Any]:
        """Return the program as plain data.

        A constant has its elements in a list, `data`; or if it has more than 32, the
        bytes in `base64`, little-endian.
        """
        return {
            "descriptor": to_dict(self.descriptor),
            "out_of_range": self.out_of_range,
            "form": self.form,
            **graph_as_data(self.graph),
        }

    def to_json(self) -> str:
        """Return the program as JSON, which `to_dict` describes."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def to_javascript(self) -> str:
        """Return the program as an ES module, which docs/webnn.md describes."""
        return module_text(self.descriptor, self.out_of_range, self.graph)


@public
def to_webnn(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    form: WebnnForm = "bytes",
    data: Any = None,
) -> WebnnProgram:
    """Return the WebNN program that computes what a descriptor computes.

    In the form "bytes" a program calls only what the WebNN specification requires of
    every implementation, for every data type.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`. Under "error"
            the program has a second output, Outside: int32 [1], the number of indices
            out of range; its OutputTensor is that of "clamp".
        form: "bytes" has operands of the buffers' words or bytes; "typed", for a
            gather inside a larger graph, operands of the descriptor's own data types.
        data: The array of InputTensor, or nested lists, if it is known: it becomes a
            constant, in place of an input.

    Raises:
        OnnxGatherError: An option is not one of those above, WebNN lacks a data type
            of the form "typed", a tensor has 2^31 elements or more, or `data` exceeds
            256 MiB.
        DescriptorError: `desc` is no descriptor, or `data` does not fit InputTensor.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> program = og.to_webnn(desc)
        >>> program
        <WebnnProgram of DML_OPERATOR_GATHER, 16 steps>
        >>> program.to_javascript().splitlines()[0]
        '// DML_OPERATOR_GATHER as a WebNN graph. An index out of range is clamped.'
    """
    check_descriptor(desc)
    out_of_range = check_policy(out_of_range)
    form = check_choice("form", form, WEBNN_FORMS)
    check_counted(desc)
    if form == "typed":
        rows = {
            "InputTensor": (desc.input_tensor, _DATA_TYPES),
            "IndicesTensor": (desc.indices_tensor, _INDEX_TYPES),
        }
        for name, (tensor, accepted) in rows.items():
            data_type = tensor.data_type
            if data_type not in accepted:
                types = ", ".join(accepted)
                rule = f'{name}.DataType must be one of {types} in the form "typed"'
                advice = 'as WebNN has no others for it; the form "bytes" has all'
                raise OnnxGatherError(f"{rule}, {advice}, got {data_type}")
    graph = gather_steps(desc, out_of_range, form)
    if data is not None:
        data = check_array(INPUT, desc.input_tensor, data)
        operand = graph.inputs.pop(0)
        graph.constants.insert(0, _constant_data(operand, data))
    return WebnnProgram(desc, out_of_range, form, graph)


def check_counted(desc: Descriptor) -> None:
    """Check that int32 counts the elements of each tensor, and of each buffer."""
    for name, tensor in tensors(desc).items():
        most = max(math.prod(tensor.sizes), math.prod(tensor.array_shape))
        if most > MOST_COUNTED:
            rule = f"{name} must have elements that int32 counts for WebNN"
            raise OnnxGatherError(f"{rule}, got {most} elements")


def _constant_data(operand: MLOperand, data: Array) -> Constant:
    """Return the constant that stands for an input."""
    if data.nbytes > MOST_CONSTANT_BYTES:
        rule = f"data must have at most {MOST_CONSTANT_BYTES} bytes as a constant"
        advice = "build of the module takes InputTensor too"
        raise OnnxGatherError(f"{rule}, got {data.nbytes}; {advice}")
    contiguous = np.ascontiguousarray(data).reshape(-1)
    array = contiguous.view(operand.data_type).reshape(operand.shape)
    return Constant(operand, array, "the data")


def graph_as_data(graph: StepList) -> dict[str, Any]:
    """Return the inputs, constants, steps and outputs of a graph as plain data."""
    constants: dict[str, Any] = {}
    for constant in graph.constants:
        row = _described(constant.operand)
        row |= _elements_of(constant.array)
        row["why"] = constant.why
        constants[constant.operand.name] = row
    return {
        "inputs": {operand.name: _described(operand) for operand in graph.inputs},
        "constants": constants,
        "steps": [_step_as_data(step) for step in graph.steps],
        "outputs": {name: operand.name for name, operand in graph.outputs.items()},
    }


def _described(operand: MLOperand) -> dict[str, Any]:
    return {"dataType": operand.data_type, "shape": list(operand.shape)}


def _elements_of(array: Array) -> dict[str, Any]:
    if array.size <= LONGEST_LIST and array.dtype.kind in "iu":
        return {"data": array.reshape(-1).tolist()}
    return {"base64": base64.b64encode(little_endian(array)).decode()}


def _step_as_data(step: Step) -> dict[str, Any]:
    return {
        "result": step.result.name,
        **_described(step.result),
        "method": step.method,
        "operands": [operand.name for operand in step.operands],
        "arguments": list(step.arguments),
        "options": dict(step.options),
        "why": step.why,
    }
