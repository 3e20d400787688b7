"""Descriptors that are written as texts.

`"FLOAT32 4x3"` is a tensor of the sizes 4 and 3. Its other fields may follow:
`"FLOAT32 4x3 strides 1x4 bytes 64 flags OWNED_BY_DML alignment 16"`. A descriptor has
its three tensors, and then its other fields in the order of directml.h:
`"GATHER: FLOAT32 4x3, INT64 1x2, FLOAT32 4x2, 1, 1"`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array


def tensor_desc(text: str) -> og.TensorDesc:
    """Return the tensor of a text."""
    data_type, sizes, *words = text.split()
    more = dict(zip(words[::2], words[1::2], strict=True))
    return og.TensorDesc(
        data_type,
        _numbers(sizes),
        _numbers(more["strides"]) if "strides" in more else None,
        int(more.get("bytes", 0)),
        more.get("flags", "NONE"),
        int(more.get("alignment", 0)),
    )


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split("x")]


def descriptor(text: str) -> Any:
    """Return the descriptor of a text."""
    operator, _, fields = text.partition(": ")
    data, indices, output, *numbers = fields.split(", ")
    three = map(tensor_desc, (data, indices, output))
    cls: Any = og.OPERATORS[operator]
    return cls(*three, *map(int, numbers))


def ascending(tensor: str | og.TensorDesc) -> Array:
    """Return the numbers from 0 on as the array of a tensor, which may be a text."""
    if isinstance(tensor, str):
        tensor = tensor_desc(tensor)
    numbers = np.arange(math.prod(tensor.array_shape))
    return numbers.astype(tensor.data_type.numpy).reshape(tensor.array_shape)
