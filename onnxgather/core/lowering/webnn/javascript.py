"""WebNN programs written as ES modules."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from onnxgather.core.descriptors.arrays import Array, axis_sizes
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import tensors, to_dict
from onnxgather.core.files import script_filled_in
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.lowering.webnn.steps import (
    LONGEST_LIST,
    Constant,
    MLOperand,
    Step,
    StepList,
    little_endian,
)
from onnxgather.core.options import POLICIES, OutOfRange
from onnxgather.core.version import __version__

_WIDTH = 120
"""The most columns of a line that has both a call and its comment."""

_ARRAYS = {
    "float16": "Uint16Array",
    "float32": "Float32Array",
    "int32": "Int32Array",
    "int64": "BigInt64Array",
    "int8": "Int8Array",
    "uint32": "Uint32Array",
    "uint64": "BigUint64Array",
    "uint8": "Uint8Array",
}
"""JavaScript's typed arrays for the bits of integers and floats, by numpy's names."""

_FUNCTIONS = "core/lowering/webnn/module"
"""The folder of the functions that modules have as they are, but for some places."""


def whole_module_text(
    out_of_range: OutOfRange,
    graph: StepList,
    resources: Mapping[str, MLOperand],
    sizes_in_bytes: Mapping[str, int],
    commands: Mapping[str, str],
) -> str:
    """Return the text of an ES module for a graph of several gathers.

    It exports `tensors`, `commands`, `add`, `build` and `run`.

    Args:
        out_of_range: What an index out of range does.
        graph: The calls.
        resources: The inputs of the graph, by the names of resources.
        sizes_in_bytes: The bytes of each input and output.
        commands: The outputs that commands print or write to files, by the paths of
            the commands.
    """
    brief = POLICIES[out_of_range].brief
    lines = [
        f"// A DxDispatch program as a WebNN graph. An index out of range {brief}.",
        f"// Written by onnxgather {__version__}.",
        "",
        "// The resources: their bytes, and what the graph has for them.",
        "export const tensors = {",
    ]
    for name, operand in (graph.outputs | dict(resources)).items():
        row = {
            "bytes": sizes_in_bytes[name],
            "operand": {"dataType": operand.data_type, "shape": list(operand.shape)},
        }
        lines.append(f"  {json.dumps(name)}: {_literal(row)},")
    lines.append("};\n")
    lines.append("// The outputs that commands of the program print or write to files.")
    lines.append(f"export const commands = {json.dumps(dict(commands))};\n")
    lines.append("// Adds the gathers to the graph of an MLGraphBuilder.")
    names: list[str] = []
    for name, operand in resources.items():
        names.append(f"{json.dumps(name)}: {operand.name}")
    lines.append(f"export function add(builder, {{{', '.join(names)}}}) {{")
    lines += _calls(graph)
    results: list[str] = []
    for name, operand in graph.outputs.items():
        results.append(f"{json.dumps(name)}: {operand.name}")
    lines.append(f"  return {{{', '.join(results)}}};")
    lines.append("}\n")
    parts = [
        "\n".join(lines),
        _function("bytes_of"),
        _function("build_whole", NAMES=json.dumps(list(resources))),
        _function("run_whole"),
    ]
    return _with_base64(parts)


def module_text(desc: Descriptor, out_of_range: OutOfRange, graph: StepList) -> str:
    """Return the text of an ES module for a graph.

    It exports `tensors`, `add`, `build` and `run`, imports nothing, and evaluates no
    text.

    Args:
        desc: The descriptor that the graph computes.
        out_of_range: What an index out of range does.
        graph: The calls.
    """
    brief = POLICIES[out_of_range].brief
    described = json.dumps(to_dict(desc)["desc"])
    head = (
        f"// DML_OPERATOR_{desc.operator} as a WebNN graph. An index out of range"
        f" {brief}.\n"
        f"// Written by onnxgather {__version__} for {described}.\n"
    )
    parts = [head, _tensors(desc, graph), _add(graph), _function("bytes_of")]
    has_input = any(operand.name == INPUT for operand in graph.inputs)
    parts.append(_function("build" if has_input else "build_with_data"))
    if out_of_range == "error":
        array = _ARRAYS[desc.indices_tensor.data_type.numpy.name]
        parts += [_function("run_checked", ARRAY=array), _first_outside(desc)]
    else:
        parts.append(_function("run"))
    return _with_base64(parts)


def _function(name: str, **places: object) -> str:
    """Return a function of a module; see `script_filled_in`."""
    return script_filled_in(f"{_FUNCTIONS}/{name}.mjs", **places)


def _with_base64(parts: Sequence[str]) -> str:
    """Return the parts of a module, with the function that reads base64 if one does."""
    text = "\n".join(parts)
    if "fromBase64(" in text:
        text = f"{text}\n{_function('from_base64')}"
    return text


def _tensors(desc: Descriptor, graph: StepList) -> str:
    """Return the table of the tensors: as DirectML has them, and as operands."""
    operands = {operand.name: operand for operand in graph.inputs}
    for constant in graph.constants:
        operands.setdefault(constant.operand.name, constant.operand)
    operands[OUTPUT] = graph.outputs[OUTPUT]
    lines = [
        "// The tensors: `bytes` is the length of the array of dataType, `operand`"
        " what the graph has.",
        "export const tensors = {",
    ]
    for name, tensor in tensors(desc).items():
        row: dict[str, Any] = {
            "dataType": str(tensor.data_type),
            "sizes": list(tensor.sizes),
        }
        if tensor.strides is not None:
            row["strides"] = list(tensor.strides)
        count = int(np.prod(tensor.array_shape, dtype=np.int64))
        row["bytes"] = count * tensor.data_type.size
        operand = operands[name]
        row["operand"] = {"dataType": operand.data_type, "shape": list(operand.shape)}
        lines.append(f"  {name}: {_literal(row)},")
    lines.append("};\n")
    return "\n".join(lines)


def _add(graph: StepList) -> str:
    """Return the function that adds the steps to a graph."""
    names = [operand.name for operand in graph.inputs]
    lines = [
        "// Adds the gather to the graph of an MLGraphBuilder; returns its outputs.",
        f"export function add(builder, {', '.join(names)}) {{",
        *_calls(graph),
    ]
    results: list[str] = []
    for name, operand in graph.outputs.items():
        results.append(name if name == operand.name else f"{name}: {operand.name}")
    lines.append(f"  return {{{', '.join(results)}}};")
    lines.append("}\n")
    return "\n".join(lines)


def _calls(graph: StepList) -> list[str]:
    """Return the lines of the calls that make constants, and of the steps."""
    lines = [
        "  const constant = (dataType, shape, elements) =>"
        " builder.constant({dataType, shape}, elements);",
    ]
    for constant in graph.constants:
        lines += _with_comment(_constant_call(constant), constant.why)
    for step in graph.steps:
        lines += _with_comment(_step_call(step), step.why)
    return lines


def _with_comment(call: str, why: str) -> list[str]:
    """Return the lines of a call and of its comment, a single line if it is short."""
    line = f"  {call}  // {why}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"  // {why}", f"  {call}"]


def _constant_call(constant: Constant) -> str:
    name, data_type, shape = constant.operand
    elements = _elements(constant.array)
    sizes = list(shape)
    return f'const {name} = constant("{data_type}", {sizes}, {elements});'


def _elements(array: Array) -> str:
    """Return the JavaScript expression for the elements of a constant."""
    name = _ARRAYS[array.dtype.name]
    flat = np.ascontiguousarray(array).reshape(-1)
    # Case 1: zeros. -0.0 is none, as its bits are not all zero.
    if not flat.view(np.uint8).any():
        return f"new {name}({flat.size})"
    is_integer = flat.dtype.kind in "iu"
    # Case 2: a few integers.
    if is_integer and flat.size <= LONGEST_LIST:
        suffix = "n" if flat.itemsize == 8 else ""
        numbers = ", ".join(f"{number}{suffix}" for number in flat)
        return f"new {name}([{numbers}])"
    # Case 3: equal steps.
    if flat.dtype == np.int32:
        wide = flat.astype(np.int64)
        step = int(wide[1] - wide[0])
        if (np.diff(wide) == step).all():
            return f"{name}.from({{length: {flat.size}}}, {_progression(wide, step)})"
    # Case 4: any others.
    text = base64.b64encode(little_endian(flat)).decode()
    return f'fromBase64("{text}", {name})'


def _progression(numbers: Array, step: int) -> str:
    """Return the JavaScript function for numbers that differ by a step."""
    first = int(numbers[0])
    product = "k" if step == 1 else f"{step} * k"
    start = f"{first} + " if first else ""
    return f"(_, k) => {start}{product}"


def _step_call(step: Step) -> str:
    operands = [operand.name for operand in step.operands]
    arguments = [_literal(argument) for argument in step.arguments]
    if step.method == "concat":
        operands = [f"[{', '.join(operands)}]"]
    options = [_literal(dict(step.options))] if step.options else []
    inside = ", ".join(operands + arguments + options)
    return f"const {step.result.name} = builder.{step.method}({inside});"


def _literal(value: Any) -> str:
    """Return a value of JSON as JavaScript, with plain keys."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        pairs = [f"{key}: {_literal(item)}" for key, item in fields.items()]
        return f"{{{', '.join(pairs)}}}"
    return json.dumps(value)


def _first_outside(desc: Descriptor) -> str:
    tensor = desc.indices_tensor
    is_signed = tensor.data_type.is_signed
    axes = axis_sizes(desc)
    return _function(
        "first_outside",
        SIZES=json.dumps(list(tensor.sizes)),
        STRIDES=json.dumps(list(tensor.element_strides)),
        AXES=json.dumps(axes),
        COUNT=len(axes),
        LOWEST="-size" if is_signed else "0",
        BOUND="${-size}" if is_signed else "0",
    )
