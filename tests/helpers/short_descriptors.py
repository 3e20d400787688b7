"""Descriptors whose tensors are texts: `"FLOAT32 4x3"` has the sizes 4 and 3.

`"FLOAT32 4x3 strides 1x4 bytes 64"` has strides and a size in bytes, too.
"""

from __future__ import annotations

import onnxgather as og

Tensor = str | og.TensorDesc


def tensor_desc(tensor: Tensor) -> og.TensorDesc:
    """Return the tensor of a text, or the tensor that is given."""
    if isinstance(tensor, og.TensorDesc):
        return tensor
    data_type, sizes, *words = tensor.split()
    more = dict(zip(words[::2], words[1::2], strict=True))
    strides = _numbers(more["strides"]) if "strides" in more else None
    return og.TensorDesc(data_type, _numbers(sizes), strides, int(more.get("bytes", 0)))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split("x")]


def gather_desc(
    data: Tensor, indices: Tensor, output: Tensor, axis: int, index_dimensions: int
) -> og.GatherDesc:
    three = (tensor_desc(data), tensor_desc(indices), tensor_desc(output))
    return og.GatherDesc(*three, axis, index_dimensions)


def gather_elements_desc(
    data: Tensor, indices: Tensor, output: Tensor, axis: int
) -> og.GatherElementsDesc:
    three = (tensor_desc(data), tensor_desc(indices), tensor_desc(output))
    return og.GatherElementsDesc(*three, axis)


def gather_nd_desc(
    data: Tensor, indices: Tensor, output: Tensor, data_count: int, index_count: int
) -> og.GatherNDDesc:
    three = (tensor_desc(data), tensor_desc(indices), tensor_desc(output))
    return og.GatherNDDesc(*three, data_count, index_count)


def gather_nd1_desc(
    data: Tensor,
    indices: Tensor,
    output: Tensor,
    data_count: int,
    index_count: int,
    batches: int,
) -> og.GatherND1Desc:
    three = (tensor_desc(data), tensor_desc(indices), tensor_desc(output))
    return og.GatherND1Desc(*three, data_count, index_count, batches)
