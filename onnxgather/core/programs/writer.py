"""Writing a DxDispatch program for one descriptor and its inputs."""

from __future__ import annotations

import io
import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from onnxgather.core.descriptors.arrays import Array, check_arrays
from onnxgather.core.descriptors.datatypes import TensorDataType
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import is_owned, tensors, to_dict
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.documents import Field
from onnxgather.core.programs.resources import read_numbers

_WIDTH = 100

MOST_LISTED_BYTES = 2**16
"""The most bytes of an array that a program lists; a larger array is in a file of its
own."""

_ROWS = textwrap.TextWrapper(
    _WIDTH - 16, break_on_hyphens=False, break_long_words=False
)

_RESOURCES = {
    "InputTensor": "data",
    "IndicesTensor": "indices",
    "OutputTensor": "output",
}


def program_files(
    desc: Descriptor, data: Array, indices: Array, comment: str
) -> dict[str, bytes]:
    """Return the file program.json, and an .npy file for each large array.

    The program is as of `write_program`.
    """
    files: dict[str, bytes] = {}
    arrays = check_arrays(desc, data, indices)
    program = _program(desc, arrays, comment, files)
    return {**files, "program.json": program.encode()}


def write_program(
    desc: Descriptor, data: Array, indices: Array, comment: str = ""
) -> str:
    """Return a program that runs a descriptor on two arrays and prints the output.

    The inputs are written bit for bit. JSON cannot express most NaNs, so a tensor that
    contains them is written as the unsigned integers of the same bits.

    Args:
        desc: The descriptor.
        data: InputTensor: an array of its sizes, or its 1-D buffer where it has
            strides.
        indices: IndicesTensor, likewise.
        comment: Lines to put at the top.

    Raises:
        DescriptorError: An array does not fit its tensor.
    """
    arrays = check_arrays(desc, data, indices)
    return _program(desc, arrays, comment)


def write_program_of_zeros(desc: Descriptor, comment: str) -> str:
    """Return a program as of `write_program`, whose inputs are zeros."""
    return _program(desc, (), comment)


def _program(
    desc: Descriptor,
    arrays: Sequence[Array],
    comment: str,
    files: dict[str, bytes] | None = None,
) -> str:
    """Return a program whose inputs are arrays, or zeros where there are none.

    `files` receives the .npy files of large arrays, by name. With None the program
    lists all values.
    """
    # The output has no array: it starts as zeros.
    arrays_by_name = dict(zip(_RESOURCES.values(), arrays, strict=False))
    resources: dict[str, Any] = {}
    bound_by_program: dict[str, str] = {}
    for role, tensor in tensors(desc).items():
        name = _RESOURCES[role]
        array = arrays_by_name.get(name)
        resources[name] = _resource(tensor, name, array, files)
        if is_owned(tensor):
            bound_by_program[role] = name
    bound_by_dispatch = {
        role: name for role, name in _RESOURCES.items() if role not in bound_by_program
    }
    dispatchable = to_dict(desc)
    if bound_by_program:
        dispatchable["bindings"] = bound_by_program
    dispatch = {
        "type": "dispatch",
        "dispatchable": "gather",
        "bindings": bound_by_dispatch,
    }
    program = {
        "resources": resources,
        "dispatchables": {"gather": dispatchable},
        "commands": [dispatch, {"type": "print", "resource": "output"}],
    }
    lines = [f"// {line}".rstrip() for line in comment.splitlines()]
    lines.append(_layout(program, "", 0))
    return "\n".join(lines) + "\n"


def _resource(
    tensor: TensorDesc, name: str, array: Array | None, files: dict[str, bytes] | None
) -> dict[str, Any]:
    """Return the resource for a tensor, with an array or with zeros.

    It has a size where its initial values alone would be too few.
    """
    data_type = tensor.data_type
    count = math.prod(tensor.array_shape)
    values: object
    if array is None:
        values = {"value": 0, "valueCount": count}
    elif files is None or array.nbytes <= MOST_LISTED_BYTES:
        data_type, values = _listed_numbers(array)
    else:
        file = f"{name}.npy"
        files[file] = _npy_content(array)
        values = {"sourcePath": file}
    resource: dict[str, Any] = {
        "initialValuesDataType": str(data_type),
        "initialValues": values,
    }

    size_of_values = count * tensor.data_type.size
    default_size = (size_of_values + 3) // 4 * 4  # DxDispatch rounds up to 4 bytes
    total = tensor.total_tensor_size_in_bytes
    if total > default_size:
        resource["sizeInBytes"] = total
    return resource


def _npy_content(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _listed_numbers(array: Array) -> tuple[TensorDataType, list[Any]]:
    """Return the data type and the JSON values that an array is written as."""
    values = np.ascontiguousarray(array).reshape(-1)
    data_type = TensorDataType(values.dtype.name.upper())
    if values.dtype.kind != "f":
        return data_type, values.tolist()

    numbers = [_float(number) for number in values]
    numbers_as_read = read_numbers(data_type, Field(numbers))
    if numbers_as_read.tobytes() == values.tobytes():
        return data_type, numbers
    # JSON cannot express all of them, such as a NaN with a payload.
    return _listed_numbers(values.view(f"u{values.itemsize}"))


def _float(number: np.floating[Any]) -> float | str:
    """Return the shortest JSON value that reads back as the number."""
    exact = float(number)
    if not math.isfinite(exact):
        return str(exact)
    is_negative_zero = exact == 0 and math.copysign(1, exact) < 0
    if exact.is_integer() and abs(exact) < 2**53 and not is_negative_zero:
        return int(exact)
    short = float(str(number))
    # DxDispatch reads FLOAT64 first, for FLOAT16 then FLOAT32, and may round the other
    # way.
    read_as = np.float32 if number.itemsize == 2 else np.float64
    if read_as(short).astype(number.dtype) == number:
        return short
    return exact


def _layout(value: Any, indent: str, used: int) -> str:
    """Return JSON on one line if it fits after `used` more characters, else on several.

    Args:
        value: What is written.
        indent: What stands before the line.
        used: How many further characters stand before or after the value.
    """
    line = json.dumps(value, ensure_ascii=False)
    fits = len(indent) + used + len(line) < _WIDTH
    if fits and not _is_outline(value):
        return line
    deeper = indent + "    "
    rows = list[str]()
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name, content in fields.items():
            key = json.dumps(name) + ": "
            rows.append(key + _layout(content, deeper, len(key) + 1))
    elif isinstance(value[0], dict):
        rows = [_layout(item, deeper, 1) for item in value]
    else:  # numbers, as many in a row as fit
        rows = [row.removesuffix(",") for row in _ROWS.wrap(line[1:-1])]
    body = ",\n".join(deeper + row for row in rows)
    return f"{line[0]}\n{body}\n{indent}{line[-1]}"


def _is_outline(value: Any) -> bool:
    """Return whether a value is always written on several lines.

    These are the program, a dispatchable and the fields of a descriptor.
    """
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, Any]", value)
    if "commands" in fields or "desc" in fields:
        return True
    return isinstance(fields.get("InputTensor"), dict)
