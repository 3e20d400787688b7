"""Writing a DxDispatch program for one descriptor and its inputs."""

from __future__ import annotations

import json
import math
import textwrap
from typing import Any, cast

import numpy as np

from onnxgather.arrays import Array, check_array
from onnxgather.datatypes import TensorDataType
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch.bindings import is_owned, tensors
from onnxgather.dxdispatch.descriptor import to_dict
from onnxgather.dxdispatch.node import Node
from onnxgather.dxdispatch.values import read_numbers
from onnxgather.tensors import TensorDesc

WIDTH = 100

_ROWS = textwrap.TextWrapper(WIDTH - 16, break_on_hyphens=False, break_long_words=False)

_RESOURCES = {"InputTensor": "data", "IndicesTensor": "indices", "OutputTensor": "output"}


def write_program(
    desc: Descriptor, data: Array, indices: Array, *, comment: str | None = None
) -> str:
    """Return a program that runs a descriptor on two arrays and prints the output.

    The inputs survive bit for bit. JSON has no way to write most NaNs, so a tensor with such
    ones is written as the unsigned integers of the same bits.

    Args:
        desc: The descriptor.
        data: InputTensor: an array of its sizes, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        comment: Lines to put at the top.

    Raises:
        DescriptorError: An array does not fit its tensor.
    """
    named = tensors(desc)
    check_array("InputTensor", named["InputTensor"], data)
    check_array("IndicesTensor", named["IndicesTensor"], indices)
    output = named["OutputTensor"]
    blank = {"value": 0, "valueCount": math.prod(output.array_shape)}
    owned = {name for name, tensor in named.items() if is_owned(tensor)}
    dispatchable = to_dict(desc)
    if owned:
        dispatchable["bindings"] = _bindings(owned)
    program = {
        "resources": {
            "data": _resource(named["InputTensor"], data),
            "indices": _resource(named["IndicesTensor"], indices),
            "output": {
                "initialValuesDataType": str(output.data_type),
                "initialValues": blank,
                **_size(output),
            },
        },
        "dispatchables": {"gather": dispatchable},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "gather",
                "bindings": _bindings(named.keys() - owned),
            },
            {"type": "print", "resource": "output"},
        ],
    }
    lines = [f"// {line}".rstrip() for line in (comment or "").splitlines()]
    return "\n".join([*lines, _laid_out(program, "", 0), ""])


def _bindings(names: set[str]) -> dict[str, str]:
    return {name: resource for name, resource in _RESOURCES.items() if name in names}


def _resource(tensor: TensorDesc, array: Array) -> dict[str, Any]:
    data_type, values = tensor.data_type, np.ascontiguousarray(array).reshape(-1)
    numbers: list[Any] = values.tolist()
    if values.dtype.kind == "f":
        numbers = [_float(number) for number in values]
        if read_numbers(data_type, Node(numbers)).tobytes() != values.tobytes():
            bits = np.dtype(f"u{values.itemsize}")
            data_type, numbers = TensorDataType(bits.name.upper()), values.view(bits).tolist()
    return {
        "initialValuesDataType": str(data_type),
        "initialValues": numbers,
        **_size(tensor),
    }


def _float(number: np.floating[Any]) -> float | str:
    """Return the shortest JSON value that reads back as the number."""
    exact = float(number)
    if not math.isfinite(exact):
        return str(exact)
    if exact.is_integer() and abs(exact) < 2**53 and (exact or math.copysign(1, exact) > 0):
        return int(exact)
    short = float(str(number))
    # DxDispatch reads FLOAT64 first, for FLOAT16 then FLOAT32, and may round the other way.
    read = np.float32(short) if number.itemsize == 2 else np.float64(short)
    return short if read.astype(number.dtype) == number else exact


def _size(tensor: TensorDesc) -> dict[str, int]:
    """Return `sizeInBytes` where the values alone would make too small a resource."""
    size = (math.prod(tensor.array_shape) * tensor.data_type.size + 3) // 4 * 4
    total = tensor.total_tensor_size_in_bytes
    return {"sizeInBytes": total} if total > size else {}


def _laid_out(value: Any, indent: str, used: int) -> str:
    """Return JSON on one line where it fits beside what is `used` of it, else on several."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + used + len(line) < WIDTH and not _is_outline(value):
        return line
    deeper = indent + "    "
    items = cast("list[Any]", value)
    if isinstance(value, list) and not isinstance(items[0], dict):
        rows = _ROWS.wrap(line[1:-1])
        return "\n".join(["[", *(deeper + row for row in rows), indent + "]"])
    if isinstance(value, list):
        parts = [_laid_out(item, deeper, 1) for item in items]
        opening, closing = "[", "]"
    else:
        keys = {key: json.dumps(key) + ": " for key in value}
        parts = [keys[k] + _laid_out(v, deeper, len(keys[k]) + 1) for k, v in value.items()]
        opening, closing = "{", "}"
    return f"{opening}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{closing}"


def _is_outline(value: Any) -> bool:
    """Return whether a value is one of the outer ones, which keep lines of their own."""
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, Any]", value)
    tensor = fields.get("InputTensor")
    return "commands" in fields or "desc" in fields or isinstance(tensor, dict)
