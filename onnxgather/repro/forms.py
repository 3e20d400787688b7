"""A case in ONNX's terms, where sizes, ranks and layouts change one by one.

A form is also how ONNX Runtime's DirectML provider comes from a node to a descriptor: all three
tensors get leading ones up to the largest of their ranks, and an axis moves along.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from onnxgather.arrays import Array, OutOfRange, elements
from onnxgather.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.datatypes import TensorDataType
from onnxgather.descriptors import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
)
from onnxgather.strides import packed_strides
from onnxgather.tensors import TensorDesc, TensorFlags

Shape = tuple[int, ...]


def _reversed(sizes: Shape) -> Shape:
    return packed_strides(sizes[::-1])[::-1]


def _doubled(sizes: Shape) -> Shape:
    return tuple(2 * stride for stride in packed_strides(sizes))


STRIDES: dict[str, Callable[[Shape], Shape]] = {
    "packed": packed_strides,
    "column-major": _reversed,
    "every second": _doubled,
    "repeated": lambda sizes: (0,) * len(sizes),
}
"""Strides that follow from the sizes, from the plainest to the oddest."""


class Layout(NamedTuple):
    """How a tensor lies in its buffer."""

    strides: str | Shape | None = None
    """None, a key of `STRIDES`, or the strides themselves."""
    extra: int = 0
    """Bytes of TotalTensorSizeInBytes beyond the smallest."""
    flags: TensorFlags = TensorFlags.NONE
    alignment: int = 0

    def tensor(self, dtype: np.dtype[Any], sizes: Shape) -> TensorDesc:
        """Return a tensor of these sizes.

        Raises:
            DescriptorError: They do not fit the layout.
        """
        strides = self.strides
        if isinstance(strides, str):
            strides = STRIDES[strides](sizes)
        elif strides is not None:  # those of the last sizes, where some were dropped in front
            strides = (0,) * (len(sizes) - len(strides)) + strides[-len(sizes) :]
        data_type = TensorDataType.parse(dtype.name.upper())
        plain = TensorDesc(data_type, sizes, strides)
        total = plain.total_tensor_size_in_bytes + self.extra
        return TensorDesc(data_type, sizes, strides, total, self.flags, self.alignment)


@dataclass(frozen=True, slots=True)
class Form:
    """What a case computes, and how it is said."""

    operator: str
    """Gather, GatherElements or GatherND."""
    number: int
    """`axis`, or the `batch_dims` of GatherND."""
    data: Array
    """The elements, without leading ones that do not count."""
    indices: Array
    spare: int = 0
    """How many more leading ones DimensionCount has than it must."""
    batched: bool = True
    """Of GatherND: whether it is a GATHER_ND1."""
    layouts: tuple[Layout, Layout, Layout] = field(default=(Layout(), Layout(), Layout()))
    """Of InputTensor, IndicesTensor and OutputTensor."""

    @property
    def attribute(self) -> str:
        """What ONNX calls `number`."""
        return "batch_dims" if self.operator == "GatherND" else "axis"

    @property
    def tuple_size(self) -> int:
        """How many coordinates an index has."""
        return (self.indices.shape or (1,))[-1] if self.operator == "GatherND" else 1

    @property
    def indexed(self) -> range:
        """The dimensions of the data that are indexed."""
        return range(self.number, self.number + self.tuple_size)

    @property
    def output_shape(self) -> Shape:
        """The shape that ONNX gives the output, leading ones aside."""
        data, indices = self.data.shape, self.indices.shape
        if self.operator == "GatherElements":
            return indices
        if self.operator == "GatherND":
            return indices[:-1] + data[self.number + self.tuple_size :]
        return data[: self.number] + indices + data[self.number + 1 :]

    def descriptor(self) -> Descriptor:
        """Return the descriptor that ONNX Runtime's DirectML provider makes of it.

        Raises:
            DescriptorError: There is none; which rule it would break.
        """
        shapes = (self.data.shape, self.indices.shape, self.output_shape)
        count = max(1, *map(len, shapes)) + self.spare
        types = (self.data.dtype, self.indices.dtype, self.data.dtype)
        data, indices, output = (
            layout.tensor(dtype, (1,) * (count - len(shape)) + shape)
            for layout, dtype, shape in zip(self.layouts, types, shapes, strict=True)
        )
        ranks = (self.data.ndim, self.indices.ndim)
        if self.operator == "GatherND" and self.batched:
            return GatherND1Desc(data, indices, output, *ranks, self.number)
        if self.operator == "GatherND":
            return GatherNDDesc(data, indices, output, *ranks)
        axis = self.number + count - self.data.ndim
        if self.operator == "Gather":
            return GatherDesc(data, indices, output, axis, self.indices.ndim)
        return GatherElementsDesc(data, indices, output, axis)


def form_of(case: Case) -> Form:
    """Return a case in ONNX's terms."""
    if isinstance(case, NodeCase):
        number = case.node.attributes.get("batch_dims", case.node.attributes.get("axis", 0))
        return Form(case.node.operator, number, case.data, case.indices)
    desc = case.descriptor
    tensors = (desc.input_tensor, desc.indices_tensor, desc.output_tensor)
    data = elements(desc.input_tensor, case.data)
    indices = elements(desc.indices_tensor, case.indices)
    count, batched = data.ndim, False
    if isinstance(desc, GatherDesc):
        operator, number = "Gather", desc.axis
        indices = indices.reshape(indices.shape[count - desc.index_dimensions :])
        ones = _leading_ones(data.shape[: desc.axis])
        data, number = data.reshape(data.shape[ones:]), desc.axis - ones
    elif isinstance(desc, GatherElementsDesc):
        operator = "GatherElements"
        ones = _leading_ones(data.shape[: desc.axis])
        data, indices = (array.reshape(array.shape[ones:]) for array in (data, indices))
        number = desc.axis - ones
    else:
        operator, number, batched = "GatherND", desc.batches, desc.operator == "GATHER_ND1"
        data = data.reshape(data.shape[count - desc.input_dimension_count :])
        indices = indices.reshape(indices.shape[count - desc.indices_dimension_count :])
    layouts = [
        Layout(
            tensor.strides,
            tensor.total_tensor_size_in_bytes - tensor.default_total_tensor_size_in_bytes,
            tensor.flags,
            tensor.guaranteed_base_offset_alignment,
        )
        for tensor in tensors
    ]
    form = Form(operator, number, data, indices, 0, batched, (layouts[0], layouts[1], layouts[2]))
    needed = max(1, data.ndim, indices.ndim, len(form.output_shape))
    return replace(form, spare=count - needed)


def case_of(form: Form, name: str, out_of_range: OutOfRange) -> Case:
    """Return a form as a case, as a forbidden node where ONNX forbids it.

    Raises:
        DescriptorError: ONNX allows it but no descriptor says it.
    """
    rule = forbidden(form)
    if rule is not None:
        attributes = {form.attribute: form.number}
        node = ForbiddenNode(form.operator, attributes, form.output_shape, rule)
        return NodeCase(name, node, form.data, form.indices)
    desc = form.descriptor()
    data = _buffer(desc.input_tensor, form.data, distinct(desc.input_tensor.array_shape))
    indices = _buffer(desc.indices_tensor, form.indices, np.zeros(1))
    return DescriptorCase(name, desc, data, indices, out_of_range)


def forbidden(form: Form) -> str | None:
    """Return which rule of ONNX's operator a form breaks, None if none."""
    data, indices, number = form.data.shape, form.indices.shape, form.number
    rank = len(data)
    if not rank or not (indices or form.operator != "GatherND"):
        shapes = f"{list(data)} and {list(indices)}"
        return f"what {form.operator} takes must have a dimension, got the shapes {shapes}"
    if form.operator != "GatherND":
        if not -rank <= number < rank:
            return f"axis must be in [{-rank}, {rank}), got {number}"
        if form.operator == "Gather":
            return None
        if len(indices) != rank:
            return f"indices must have the rank of data ({rank}), got {len(indices)}"
        beyond = [k for k in range(rank) if k != number % rank and indices[k] > data[k]]
        if beyond:
            rule = f"no size of indices but that at axis may exceed data's {list(data)}"
            return f"{rule}, got {list(indices)}"
        return None
    least = min(rank, len(indices))
    if not 0 <= number < least:
        return f"batch_dims must be at least 0 and less than both ranks ({least}), got {number}"
    if not 1 <= indices[-1] <= rank - number:
        rule = f"the last size of indices must be 1 to rank(data) - batch_dims ({rank - number})"
        return f"{rule}, got {indices[-1]}"
    if data[:number] != indices[:number]:
        rule = f"the first batch_dims ({number}) sizes of indices must be those of data"
        return f"{rule}, {list(data[:number])}, got {list(indices[:number])}"
    return None


def forbidden_node(form: Form) -> str | None:
    """Return which rule of ONNX's operator a form breaks as a node of its own, None if none.

    Data types count here; models of descriptors cast indices of types that ONNX has not.
    """
    if (rule := forbidden(form)) is not None:
        return rule
    types = ("INT64",) if form.operator == "GatherND" else ("INT32", "INT64")
    found = form.indices.dtype.name.upper()
    return None if found in types else f"indices must be {' or '.join(types)}, got {found}"


def distinct(shape: Sequence[int]) -> Array:
    """Return small whole numbers from 1, different as far as every data type goes."""
    return (np.arange(math.prod(shape)) % 100 + 1).reshape(tuple(shape))


def _buffer(tensor: TensorDesc, values: Array, between: Array) -> Array:
    """Return elements as the array that stands for a tensor, with something between them."""
    dtype = tensor.data_type.numpy
    array = np.empty(tensor.array_shape, dtype)
    array[...] = between.astype(dtype)
    if tensor.strides is None:
        array[...] = values.reshape(tensor.sizes)
        return array
    steps = [stride * dtype.itemsize for stride in tensor.strides]
    np.lib.stride_tricks.as_strided(array, tensor.sizes, steps)[...] = values.reshape(tensor.sizes)
    return array


def _leading_ones(sizes: Sequence[int]) -> int:
    return next((k for k, size in enumerate(sizes) if size != 1), len(sizes))
