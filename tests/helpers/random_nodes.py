"""Random nodes of ONNX that gather, and what each policy makes of them.

The outputs are computed by `reference_onnx`, or by `reference` of the descriptor, from
other indices and other data where a policy gives an index out of range a meaning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from provider_models import Shape, one_gather

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array, is_outside
from onnxgather.core.gather import gather_of_node
from onnxgather.core.options import OutOfRange

DATA_TYPES: tuple[Any, ...] = (
    *(np.float32, np.float16, np.float64, ml_dtypes.bfloat16, np.bool_),
    *(np.uint8, np.int8, np.uint16, np.int16),
    *(np.uint32, np.int32, np.uint64, np.int64),
)
"""The data types that the provider takes."""

FIRST_OPSETS = {"Gather": 1, "GatherElements": 11, "GatherND": 11}
NEWEST_OPSET = 23
MOST_ELEMENTS = 400


@dataclass(frozen=True)
class RandomNode:
    """A node with its inputs, and with the shapes that its model declares."""

    name: str
    operator: str
    opset: int
    attributes: Mapping[str, int]
    data: Array
    indices: Array
    shapes: tuple[Shape, Shape, Shape]

    @property
    def model(self) -> onnx.ModelProto:
        return one_gather(
            self.operator,
            self.data,
            self.indices,
            name=self.name,
            shapes=self.shapes,
            opset=self.opset,
            graph="random nodes",
            **self.attributes,
        )

    @property
    def axis(self) -> int:
        """The axis of Gather and GatherElements, from the front."""
        return self.attributes.get("axis", 0) % self.data.ndim

    @property
    def batch_dims(self) -> int:
        return self.attributes.get("batch_dims", 0)

    @property
    def axis_sizes(self) -> Array:
        """The size that each index must be in range of, to broadcast to them."""
        if self.operator != "GatherND":
            return np.array(self.data.shape[self.axis])
        first = self.batch_dims
        return np.array(self.data.shape[first : first + self.indices.shape[-1]])

    @property
    def outside(self) -> Array:
        """Which indices are out of range."""
        return np.broadcast_to(
            is_outside(self.indices, self.axis_sizes), self.indices.shape
        )

    @property
    def is_static(self) -> bool:
        """Whether the model says all sizes of both inputs."""
        return all(
            shape is not None and all(isinstance(size, int) for size in shape)
            for shape in self.shapes[:2]
        )

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output."""
        number = next(iter(self.attributes.values()), 0)
        shapes = self.data.shape, self.indices.shape
        return gather_of_node(self.operator, *shapes, number).output


def random_nodes(
    count: int, seed: int, data_types: Sequence[Any] = DATA_TYPES
) -> list[RandomNode]:
    """Return random nodes, the same on every machine."""
    return [
        _random_node(Random(f"{seed}/{number}"), number, data_types)
        for number in range(count)
    ]


def _sizes(random: Random, rank: int, most: int = MOST_ELEMENTS) -> tuple[int, ...]:
    """Return random sizes of a product up to `most`; a few are 0."""
    sizes = [1] * rank
    left = most
    for dimension in random.sample(range(rank), rank):
        size = random.randint(1, max(1, min(6, left)))
        sizes[dimension] = size
        left //= size
    if rank and random.random() < 0.06:
        sizes[random.randrange(rank)] = 0
    return tuple(sizes)


def _random_node(random: Random, number: int, data_types: Sequence[Any]) -> RandomNode:
    operator = random.choice([*FIRST_OPSETS])
    opset = random.randint(FIRST_OPSETS[operator], NEWEST_OPSET)
    data_rank = random.randint(1, 8)
    data = _sizes(random, data_rank)
    attributes: dict[str, int] = {}
    least_axis = -data_rank if opset >= 11 else 0
    axis = random.randint(least_axis, data_rank - 1)
    if operator == "GatherND":
        indices, batch_dims = _shape_of_tuples(random, data, opset)
        if batch_dims or (opset >= 12 and random.random() < 0.5):
            attributes["batch_dims"] = batch_dims
    elif operator == "GatherElements":
        indices = _shape_of_elements(random, data, axis % data_rank)
    else:
        rest = math.prod(data) // max(1, data[axis])
        most = max(1, MOST_ELEMENTS // max(1, rest))
        indices = _sizes(random, random.randint(0, 8), most)
    if operator != "GatherND" and (axis or random.random() < 0.5):
        attributes["axis"] = axis

    types = [kind for kind in data_types if opset >= 13 or kind != ml_dtypes.bfloat16]
    index_type: Any = np.int64
    if operator != "GatherND" and random.random() < 0.5:
        index_type = np.int32
    data_array = _data(random, random.choice(types), data)
    node = RandomNode(
        f"node {number}",
        operator,
        opset,
        attributes,
        data_array,
        np.zeros(indices, index_type),
        (None, None, None),
    )
    return RandomNode(
        node.name,
        operator,
        opset,
        attributes,
        data_array,
        _indices(random, node),
        _declared(random, node),
    )


def _shape_of_tuples(
    random: Random, data: tuple[int, ...], opset: int
) -> tuple[tuple[int, ...], int]:
    """Return the shape of the indices of a GatherND, and its batch_dims."""
    batch_dims = random.randint(0, len(data) - 1) if opset >= 12 else 0
    length = random.randint(1, len(data) - batch_dims)
    each = math.prod(data[:batch_dims]) * math.prod(data[batch_dims + length :])
    most = max(1, MOST_ELEMENTS // max(1, each))
    rows = _sizes(random, random.randint(0, 8 - batch_dims - 1), most)
    return (*data[:batch_dims], *rows, length), batch_dims


def _shape_of_elements(
    random: Random, data: tuple[int, ...], axis: int
) -> tuple[int, ...]:
    """Return the shape of the indices of a GatherElements: off the axis at most that of
    the data."""
    shape = list(data)
    if random.random() < 0.4:
        shape = [random.randint(min(1, size), size) for size in data]
    rest = math.prod(shape) // max(1, shape[axis])
    most = max(1, min(7, MOST_ELEMENTS // max(1, rest)))
    shape[axis] = random.randint(1, most)
    if random.random() < 0.05:
        shape[axis] = 0
    return tuple(shape)


def _data(random: Random, kind: Any, shape: tuple[int, ...]) -> Array:
    """Return random bytes as elements of a type."""
    dtype = np.dtype(kind)
    content = random.randbytes(math.prod(shape) * dtype.itemsize)
    if dtype == np.bool_:
        content = bytes(each & 1 for each in content)
    return np.frombuffer(content, dtype).reshape(shape)


def _indices(random: Random, node: RandomNode) -> Array:
    """Return indices, of which none, some or all are out of range."""
    shape, dtype = node.indices.shape, node.indices.dtype
    wild_share = random.choice([0, 0, 0.2, 1])
    sizes = np.broadcast_to(node.axis_sizes, shape).ravel().tolist()
    values: list[int] = []
    for size in sizes:
        # An axis of size 0 has no index in range.
        if size == 0 or random.random() < wild_share:
            values.append(random.choice(_wild(size, dtype)))
        else:
            values.append(random.randint(-size, size - 1))
    return np.array(values, dtype).reshape(shape)


@cache
def _wild(size: int, dtype: np.dtype[Any]) -> list[int]:
    """Return indices out of range: near the ends of an axis, and around powers of
    two."""
    limits = np.iinfo(dtype)
    near = [size, size + 1, 2 * size, -size - 1, -2 * size - 1, 1000 * size + 1]
    far = [
        sign * (2**bits + offset)
        for bits in (31, 32, 33, 63)
        for offset in (-size, -1, 0, 1, size)
        for sign in (1, -1)
    ]
    return [each for each in (*near, *far) if limits.min <= each <= limits.max]


def _declared(random: Random, node: RandomNode) -> tuple[Shape, Shape, Shape]:
    """Return the shapes that a model declares: all sizes, some, or none."""
    shapes = (node.data.shape, node.indices.shape, node.output_shape)
    how = random.choice(["static", "static", "open", "partly", "no rank"])
    if how == "static":
        return shapes
    if how == "no rank" and node.operator == "Gather":
        return None, None, None
    opened: list[Shape] = []
    for which, shape in zip("dio", shapes, strict=True):
        sizes: list[int | str] = [*shape]
        for place in range(len(sizes)):
            if how != "partly" or random.random() < 0.4:
                sizes[place] = f"{which}{place}"
        opened.append(sizes)
    # An open size of the output is open, too, where that of an input is.
    return opened[0], opened[1], [f"o{place}" for place in range(len(shapes[2]))]


def wanted(node: RandomNode, policy: OutOfRange) -> Array | str:
    """Return the output of a node under a policy, or the sentence of its error."""
    if policy == "error":
        return _by_onnx(node, node.data, node.indices)
    sizes = np.broadcast_to(node.axis_sizes, node.indices.shape)
    # Case: there is no element to which an index is moved, or none that moves.
    if node.data.size == 0 or math.prod(node.output_shape) == 0:
        return np.zeros(node.output_shape, node.data.dtype)
    if policy == "clamp":
        below = np.where(node.indices < -sizes, 0, node.indices)
        clamped = np.where(below >= sizes, sizes - 1, below).astype(node.indices.dtype)
        return _by_onnx(node, node.data, clamped)
    if policy == "zero":
        return _with_zeros(node, sizes)
    return _as_directml(node, sizes)


def _by_onnx(node: RandomNode, data: Array, indices: Array) -> Array | str:
    try:
        return og.reference_onnx(node.operator, data, indices, **node.attributes)
    except og.IndexOutOfRangeError as error:
        sentence = str(error).replace("indices", "IndicesTensor", 1)
        return f"{node.operator} '{node.name}': {sentence}"


def _with_zeros(node: RandomNode, sizes: Array) -> Array | str:
    """Return the output where each axis has a further element 0, to which an index out
    of range leads."""
    axes = [node.axis]
    outside = node.outside
    if node.operator == "GatherND":
        axes = [node.batch_dims + place for place in range(node.indices.shape[-1])]
        outside = np.broadcast_to(outside.any(-1, keepdims=True), outside.shape)
    padding = [(0, int(axis in axes)) for axis in range(node.data.ndim)]
    padded = np.pad(node.data, padding)
    from_start = np.where(node.indices < 0, node.indices + sizes, node.indices)
    chosen = np.where(outside, sizes, from_start).astype(node.indices.dtype)
    return _by_onnx(node, padded, chosen)


def _as_directml(node: RandomNode, sizes: Array) -> Array:
    """Return the output by the descriptor.

    Where all shapes are static, DirectML's provider gives dimensions of size 1 the
    stride 0, so that each index along such an axis leads to the element 0.
    """
    indices = node.indices
    if node.is_static:
        indices = np.where(sizes == 1, 0, indices).astype(indices.dtype)
    data = node.data
    operator, attributes = node.operator, dict(node.attributes)
    # Case: a GatherElements whose indices are smaller than a descriptor has them.
    kept = tuple(slice(size) for size in indices.shape)
    if operator == "GatherElements":
        whole = [*data.shape]
        whole[node.axis] = indices.shape[node.axis]
        indices = np.zeros(whole, indices.dtype)
        indices[kept] = node.indices
        if node.is_static and data.shape[node.axis] == 1:
            indices[...] = 0
    # Case: more dimensions than a descriptor has, or none. Dimensions that are no axes
    # are one.
    elif max(data.ndim, indices.ndim, len(node.output_shape)) > 8 or (
        node.output_shape == () and operator == "GatherND"
    ):
        if operator == "Gather":
            rows = math.prod(data.shape[: node.axis])
            data = data.reshape(rows, data.shape[node.axis], -1)
            indices = indices.ravel()
            attributes = {"axis": 1}
        else:
            length = indices.shape[-1]
            behind = node.batch_dims + length
            batches = [math.prod(data.shape[: node.batch_dims])]
            slices = [math.prod(data.shape[behind:])]
            axes = data.shape[node.batch_dims : behind]
            attributes = {"batch_dims": 1}
            if node.batch_dims == 0:
                batches = []
                attributes = {}
            if behind == data.ndim:
                slices = []
            data = data.reshape(*batches, *axes, *slices)
            indices = indices.reshape(*batches, -1, length)
    # DirectML has each element of 1 or 2 bytes as a number.
    kind = data.dtype
    bits = data
    if kind == np.bool_ or kind == ml_dtypes.bfloat16:
        bits = data.view(f"u{kind.itemsize}")
    desc = og.from_onnx(
        operator,
        (bits.dtype.name.upper(), bits.shape),
        (indices.dtype.name.upper(), indices.shape),
        **attributes,
    )
    data_sizes = desc.input_tensor.sizes
    index_sizes = desc.indices_tensor.sizes
    output = og.reference(
        desc, bits.reshape(data_sizes), indices.reshape(index_sizes), "directml"
    )
    if operator == "GatherElements":
        output = output[kept]
    return output.view(kind).reshape(node.output_shape)
