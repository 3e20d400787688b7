"""The picture of a gather as data: grids of elements, and which element came from where.

An element is identified by its offset in the buffer of its tensor, so that strides,
gaps and elements that share an offset need no extra code. The picture has a part of a
large tensor, around the first element that differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from onnxgather.core.descriptors.arrays import (
    Array,
    check_array,
    differing,
    elements,
    indices_outside,
)
from onnxgather.core.descriptors.explain import element_at, value_text
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import coordinates, reference, source_map
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.options import OutOfRange

LARGEST_GRID = 240
"""The most elements of a grid."""

LARGEST_OUTPUT = 2**20
"""The most elements of an output that is drawn."""


class Grid(msgspec.Struct, frozen=True, omit_defaults=True):
    """A block of a tensor's elements, row by row; all of them where `shape` is `sizes`."""

    sizes: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    """The offsets of the elements in the tensor's buffer."""
    values: str
    """The elements as text, with a blank between each two."""
    buffer: bool = False
    """Whether the grid is the buffer of a tensor with strides."""


class Wrong(msgspec.Struct, frozen=True, omit_defaults=True):
    """The wrong output of a lane."""

    count: int = 0
    """How many elements differ."""
    total: int = 0
    got: dict[int, str] = {}
    """The differing elements among those in the picture, by their offsets."""
    instead: list[Grid] = []
    """The whole output, if it cannot be compared element by element."""
    note: str = ""
    """Why the output cannot be compared element by element."""


class Link(msgspec.Struct, frozen=True, array_like=True):
    """Where an output element comes from, all as offsets."""

    output: int
    source: int
    """-1 where an index out of range makes the element zero."""
    indices: tuple[int, ...]


class Picture(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gather: its three tensors, the links between them, and what lanes made of it."""

    input: list[Grid]
    indices: list[Grid]
    output: list[Grid]
    links: list[Link] = []
    outside: list[int] = []
    """The offsets of the indices out of range, among those in the picture."""
    lanes: dict[str, Wrong] = {}


def picture_of(
    desc: Descriptor | None,
    data: Array,
    indices: Array,
    out_of_range: OutOfRange,
    got: Mapping[str, Array] | None = None,
) -> Picture:
    """The picture of a gather.

    Args:
        desc: The descriptor; without one there are neither links nor an expected output.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does.
        got: The wrong outputs, by the names of lanes.

    Raises:
        DescriptorError: The arrays do not fit the descriptor.
    """
    got, expected = got or {}, None
    if desc is not None:
        check_array("InputTensor", desc.input_tensor, data)
        check_array("IndicesTensor", desc.indices_tensor, indices)
        if math.prod(desc.output_tensor.array_shape) <= LARGEST_OUTPUT:
            with suppress(IndexOutOfRangeError):
                expected = reference(desc, data, indices, out_of_range)
    wrong = {lane: _differing(array, expected) for lane, array in got.items()}
    first = min((offsets[0] for offsets in wrong.values() if offsets), default=0)
    tensors = (
        [desc.input_tensor, desc.indices_tensor, desc.output_tensor]
        if desc
        else [None] * 3
    )
    output = [] if expected is None else _grids(expected, tensors[2], first)
    shown = {offset for grid in output for offset in grid.offsets}
    links: list[Link] = []
    source = index = 0
    if desc is not None and expected is not None:
        every = _links(desc, indices, out_of_range)
        links = [link for link in every if link.output in shown]
        focus = next((link for link in links if link.output == first), Link(0, 0, (0,)))
        source, index = max(0, focus.source), focus.indices[0]
    index_grids = _grids(indices, tensors[1], index)
    wild = _outside(desc, indices) if desc else set[int]()
    return Picture(
        _grids(data, tensors[0], source),
        index_grids,
        output,
        links,
        sorted(wild.intersection(*[grid.offsets for grid in index_grids[:1]])),
        {lane: _wrong(got[lane], expected, wrong[lane], shown) for lane in got},
    )


def _grids(array: Array, tensor: TensorDesc | None, focus: int) -> list[Grid]:
    """The elements of an array, and its buffer where its tensor has strides.

    Args:
        array: The array that stands for the tensor.
        tensor: None for an array of its own shape.
        focus: The offset of an element that the grid must have.
    """
    offsets = _offsets(array.shape)
    at = np.unravel_index(min(focus, array.size - 1), array.shape) if array.size else ()
    whole = _grid(array, offsets, at)
    if tensor is None or tensor.strides is None:
        return [whole]
    # Its elements may be more than its buffer has: they are a view, which is never
    # searched.
    logical = _grid(
        elements(tensor, array), elements(tensor, offsets), element_at(tensor, focus)
    )
    return [logical, msgspec.structs.replace(whole, buffer=True)]


def _grid(array: Array, offsets: Array, focus: Sequence[np.intp | int] | None) -> Grid:
    at = focus or [0] * array.ndim
    shape = list(array.shape)
    while math.prod(shape) > LARGEST_GRID:
        longest = shape.index(max(shape))
        shape[longest] = (shape[longest] + 1) // 2
    start = tuple(
        min(max(0, int(middle) - part // 2), size - part)
        for middle, part, size in zip(at, shape, array.shape, strict=True)
    )
    block = tuple(
        slice(low, low + part) for low, part in zip(start, shape, strict=True)
    )
    values = " ".join(map(value_text, array[block].flat))
    return Grid(
        array.shape, start, tuple(shape), tuple(offsets[block].ravel().tolist()), values
    )


def _offsets(shape: Sequence[int]) -> Array:
    """An array of this shape whose elements are their own offsets."""
    return np.arange(math.prod(shape)).reshape(shape)


def _links(desc: Descriptor, indices: Array, out_of_range: OutOfRange) -> list[Link]:
    """Where each element of OutputTensor.Sizes comes from."""
    output = desc.output_tensor
    sources = source_map(desc, indices, out_of_range)
    read, indexed = coordinates(
        desc, elements(desc.indices_tensor, _offsets(indices.shape))
    )
    offsets = elements(output, _offsets(output.array_shape))
    columns = [offsets, sources, *(read[k] for k in indexed)]
    rows = np.stack(
        [np.broadcast_to(column, output.sizes).ravel() for column in columns], 1
    )
    return [
        Link(offset, source, tuple(index)) for offset, source, *index in rows.tolist()
    ]


def _outside(desc: Descriptor, indices: Array) -> set[int]:
    """The offsets of the indices out of range."""
    tensor = desc.indices_tensor
    if math.prod(tensor.sizes) > 8 * LARGEST_OUTPUT:
        return set()
    offsets = elements(tensor, _offsets(indices.shape))
    return set(offsets[indices_outside(desc, indices)].tolist())


def _differing(array: Array, expected: Array | None) -> list[int] | None:
    """The offsets at which an array differs; None where it cannot be compared."""
    if expected is None or (array.dtype, array.shape) != (
        expected.dtype,
        expected.shape,
    ):
        return None
    return differing(expected, array).tolist()


def _wrong(
    array: Array, expected: Array | None, offsets: list[int] | None, shown: set[int]
) -> Wrong:
    if expected is None or offsets is None:
        wanted = ", but must refuse"
        if expected is not None:
            wanted = f" in place of {expected.dtype} {list(expected.shape)}"
        note = f"returned {array.dtype} {list(array.shape)}{wanted}"
        return Wrong(total=array.size, instead=_grids(array, None, 0), note=note)
    got: dict[int, str] = {}
    for offset in shown.intersection(offsets):
        value, wanted = array.flat[offset], expected.flat[offset]
        text = value_text(value)
        same = text == value_text(wanted)
        got[offset] = f"{text} ({value.tobytes().hex(' ')})" if same else text
    return Wrong(len(offsets), array.size, got)
