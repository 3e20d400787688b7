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
"""The most bytes of an array that a program lists; a larger one is in a file of its
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
    """The file program.json, as of `write_program`, and an .npy file for each large array."""
    files = dict[str, bytes]()
    program = _program(desc, check_arrays(desc, data, indices), comment, files)
    return {**files, "program.json": program.encode()}


def write_program(
    desc: Descriptor, data: Array, indices: Array, comment: str = ""
) -> str:
    """A program that runs a descriptor on two arrays and prints the output.

    The inputs are written bit for bit. JSON cannot express most NaNs, so a tensor that
    has such NaNs is written as the unsigned integers of the same bits.

    Args:
        desc: The descriptor.
        data: InputTensor: an array of its sizes, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        comment: Lines to put at the top.

    Raises:
        DescriptorError: An array does not fit its tensor.
    """
    return _program(desc, check_arrays(desc, data, indices), comment)


def write_program_of_zeros(desc: Descriptor, comment: str) -> str:
    """A program as of `write_program`, whose inputs are zeros."""
    return _program(desc, (), comment)


def _program(
    desc: Descriptor,
    arrays: Sequence[Array],
    comment: str,
    files: dict[str, bytes] | None = None,
) -> str:
    """A program whose inputs are arrays, or zeros where there are none.

    `files` receives the .npy files of large arrays, by name. With None the program
    lists all values.
    """
    given = dict(zip(_RESOURCES.values(), arrays, strict=False))
    resources = dict[str, Any]()
    for role, tensor in tensors(desc).items():
        name = _RESOURCES[role]
        data_type: TensorDataType = tensor.data_type
        values: object = {"value": 0, "valueCount": math.prod(tensor.array_shape)}
        if (array := given.get(name)) is not None:
            if files is None or array.nbytes <= MOST_LISTED_BYTES:
                data_type, values = _numbers(array)
            else:
                values, stream = {"sourcePath": f"{name}.npy"}, io.BytesIO()
                np.save(stream, np.ascontiguousarray(array), allow_pickle=False)
                files[f"{name}.npy"] = stream.getvalue()
        resources[name] = _resource(tensor, data_type, values)
    owned = {
        name: _RESOURCES[name]
        for name, tensor in tensors(desc).items()
        if is_owned(tensor)
    }
    bound = {name: _RESOURCES[name] for name in _RESOURCES if name not in owned}
    program = {
        "resources": resources,
        "dispatchables": {
            "gather": to_dict(desc) | ({"bindings": owned} if owned else {})
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "gather", "bindings": bound},
            {"type": "print", "resource": "output"},
        ],
    }
    lines = [f"// {line}".rstrip() for line in comment.splitlines()]
    return "\n".join([*lines, _laid_out(program, "", 0), ""])


def _resource(
    tensor: TensorDesc, data_type: TensorDataType, values: object
) -> dict[str, Any]:
    """A resource for a tensor; it has a size where its initial values alone would be too few."""
    resource = {"initialValuesDataType": str(data_type), "initialValues": values}
    size = (math.prod(tensor.array_shape) * tensor.data_type.size + 3) // 4 * 4
    total = tensor.total_tensor_size_in_bytes
    return resource | ({"sizeInBytes": total} if total > size else {})


def _numbers(array: Array) -> tuple[TensorDataType, list[Any]]:
    """The data type and the JSON values that an array is written as."""
    values = np.ascontiguousarray(array).reshape(-1)
    data_type = TensorDataType(values.dtype.name.upper())
    if values.dtype.kind != "f":
        return data_type, values.tolist()
    numbers = [_float(number) for number in values]
    if read_numbers(data_type, Field(numbers)).tobytes() != values.tobytes():
        return _numbers(values.view(f"u{values.itemsize}"))
    return data_type, numbers


def _float(number: np.floating[Any]) -> float | str:
    """The shortest JSON value that reads back as the number."""
    exact = float(number)
    if not math.isfinite(exact):
        return str(exact)
    if (
        exact.is_integer()
        and abs(exact) < 2**53
        and (exact or math.copysign(1, exact) > 0)
    ):
        return int(exact)
    short = float(str(number))
    # DxDispatch reads FLOAT64 first, for FLOAT16 then FLOAT32, and may round the other
    # way.
    read = np.float32(short) if number.itemsize == 2 else np.float64(short)
    return short if read.astype(number.dtype) == number else exact


def _laid_out(value: Any, indent: str, used: int) -> str:
    """JSON on one line if it fits after `used` more characters, else on several."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + used + len(line) < _WIDTH and not _is_outline(value):
        return line
    deeper = indent + "    "
    if isinstance(value, dict):
        fields = {
            json.dumps(key) + ": ": v
            for key, v in cast("dict[str, Any]", value).items()
        }
        rows = [key + _laid_out(v, deeper, len(key) + 1) for key, v in fields.items()]
    elif isinstance(value[0], dict):
        rows = [_laid_out(item, deeper, 1) for item in value]
    else:
        rows = [row.removesuffix(",") for row in _ROWS.wrap(line[1:-1])]
    body = ",\n".join(deeper + row for row in rows)
    return f"{line[0]}\n{body}\n{indent}{line[-1]}"


def _is_outline(value: Any) -> bool:
    """Whether a value is the program, a dispatchable or the fields of a descriptor.

    These are always written on several lines.
    """
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, Any]", value)
    return (
        "commands" in fields
        or "desc" in fields
        or isinstance(fields.get("InputTensor"), dict)
    )
