"""Pictures of gathers as data: grids of elements, and which element came from where.

An element is identified by its offset in the buffer of its tensor, so that strides,
gaps and elements that share an offset need no extra code. Of a large tensor a picture
shows a part, around the first element that differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

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

SMALL_BLOCK = (3, 3)
"""The most elements along the last dimension and the one before it, where a picture
shows few; along the others there is one."""

LARGEST_OUTPUT = 2**20
"""The most elements of an output that is drawn."""


class Grid(Struct, frozen=True, omit_defaults=True):
    """A block of a tensor's elements, row by row; all of them if `shape` is `sizes`."""

    sizes: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    offsets: tuple[int, ...]
    """The offsets of the elements in the tensor's buffer."""
    values: str
    """The elements as text, with a blank between each two."""
    buffer: bool = False
    """Whether the grid is the buffer of a tensor with strides."""


class Wrong(Struct, frozen=True, omit_defaults=True):
    """A wrong output of a lane."""

    count: int = 0
    """How many elements differ."""
    total: int = 0
    got: dict[int, str] = {}
    """The differing elements among those in the picture, by their offsets."""
    instead: list[Grid] = []
    """The whole output, if it cannot be compared element by element."""
    note: str = ""
    """Why the output cannot be compared element by element."""


class Link(Struct, frozen=True, array_like=True):
    """The origin of an output element, all as offsets."""

    output: int
    source: int
    """-1 where an index out of range makes the element zero."""
    indices: tuple[int, ...]


class Picture(Struct, frozen=True, omit_defaults=True):
    """A gather: its tensors, the links between them, and the wrong outputs of lanes."""

    input: list[Grid]
    indices: list[Grid]
    output: list[Grid]
    links: list[Link] = []
    outside: list[int] = []
    """The offsets of the indices out of range, among those in the picture."""
    lanes: dict[str, Wrong] = {}
    is_large: bool = False
    """Whether the output is too large to draw."""


def picture_of(
    desc: Descriptor | None,
    data: Array,
    indices: Array,
    out_of_range: OutOfRange,
    got: Mapping[str, Array] | None = None,
    shows_few: bool = False,
) -> Picture:
    """Return the picture of a gather.

    Of a large tensor it shows a part: around the first element that differs, else
    around the first index out of range, else the start.

    Args:
        desc: The descriptor. Without a descriptor there are neither links nor an
            expected output.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer if it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does.
        got: The wrong outputs, by the names of lanes.
        shows_few: Whether the part of each tensor is as small as `SMALL_BLOCK`.

    Raises:
        DescriptorError: The arrays do not fit the descriptor.
    """
    got = got or {}
    if desc is None:
        return Picture(
            input=_grids(data, None, 0),
            indices=_grids(indices, None, 0),
            output=[],
            lanes={
                lane: _wrong(array, None, None, set()) for lane, array in got.items()
            },
        )
    data = check_array("InputTensor", desc.input_tensor, data)
    indices = check_array("IndicesTensor", desc.indices_tensor, indices)
    expected = _expected(desc, data, indices, out_of_range)
    differences = {
        lane: _differing_offsets(array, expected) for lane, array in got.items()
    }
    first_offsets = [offsets[0] for offsets in differences.values() if offsets]
    outside = _outside(desc, indices)

    output: list[Grid] = []
    links: list[Link] = []
    shown: set[int] = set()
    first = min(first_offsets, default=0)
    if expected is not None:
        links = _links(desc, indices, out_of_range)
        if not first_offsets:
            first = _first_outside(links, outside)
        output = _grids(expected, desc.output_tensor, first, shows_few)
        for grid in output:
            shown.update(grid.offsets)
        links = [link for link in links if link.output in shown]
    source, index = _origin(links, first)

    index_grids = _grids(indices, desc.indices_tensor, index, shows_few)
    lanes: dict[str, Wrong] = {}
    for lane, array in got.items():
        lanes[lane] = _wrong(array, expected, differences[lane], shown)
    return Picture(
        input=_grids(data, desc.input_tensor, source, shows_few),
        indices=index_grids,
        output=output,
        links=links,
        outside=sorted(outside.intersection(index_grids[0].offsets)),
        lanes=lanes,
        is_large=_is_large(desc),
    )


def _is_large(desc: Descriptor) -> bool:
    """Return whether the output is too large to draw."""
    return math.prod(desc.output_tensor.array_shape) > LARGEST_OUTPUT


def _first_outside(links: Sequence[Link], outside: set[int]) -> int:
    """Return the first output element that an index out of range chooses; else 0."""
    for link in links:
        if outside.intersection(link.indices):
            return link.output
    return 0


def _expected(
    desc: Descriptor, data: Array, indices: Array, out_of_range: OutOfRange
) -> Array | None:
    """Return the output of the reference; None if it refuses or the output is large."""
    if _is_large(desc):
        return None
    try:
        return reference(desc, data, indices, out_of_range)
    except IndexOutOfRangeError:
        return None


def _origin(links: Sequence[Link], output: int) -> tuple[int, int]:
    """Return the offsets of the source and the index of an output element.

    They are 0 if no link leads to the element.
    """
    for link in links:
        if link.output == output:
            # Case -1: an index out of range makes the element zero.
            source = max(0, link.source)
            return source, link.indices[0]
    return 0, 0


def _grids(
    array: Array, tensor: TensorDesc | None, focus: int, shows_few: bool = False
) -> list[Grid]:
    """Return the elements of an array, and its buffer too if its tensor has strides.

    Args:
        array: The array that stands for the tensor.
        tensor: None for an array of its own shape.
        focus: The offset of an element that the grid must contain.
        shows_few: As of `picture_of`.
    """
    offsets = _offsets(array.shape)
    middle: Sequence[np.intp | int] = ()
    if array.size:
        middle = np.unravel_index(min(focus, array.size - 1), array.shape)
    whole = _grid(array, offsets, middle, shows_few)
    if tensor is None or tensor.strides is None:
        return [whole]
    # The elements are a view with possibly more elements than the buffer. Searching it
    # for the focus could take long, so that `element_at` computes the place.
    middle = element_at(tensor, focus) or ()
    logical = _grid(
        elements(tensor, array), elements(tensor, offsets), middle, shows_few
    )
    return [logical, msgspec.structs.replace(whole, buffer=True)]


def _grid(
    array: Array,
    offsets: Array,
    focus: Sequence[np.intp | int],
    shows_few: bool,
) -> Grid:
    """Return the block of an array around an element, if any, else at its start."""
    shape = list(array.shape)
    if shows_few:
        limits = [*SMALL_BLOCK] + [1] * array.ndim
        # The limits begin with that of the last dimension.
        shape = [min(pair) for pair in zip(shape[::-1], limits, strict=False)][::-1]
    while math.prod(shape) > LARGEST_GRID:
        longest = shape.index(max(shape))
        shape[longest] = (shape[longest] + 1) // 2
    start: list[int] = []
    block: list[slice] = []
    middles = focus or [0] * array.ndim
    for middle, length, size in zip(middles, shape, array.shape, strict=True):
        # The block is moved into the array where the element is near an edge.
        first = min(max(0, int(middle) - length // 2), size - length)
        start.append(first)
        block.append(slice(first, first + length))
    values = map(value_text, array[tuple(block)].flat)
    return Grid(
        sizes=array.shape,
        start=tuple(start),
        shape=tuple(shape),
        offsets=tuple(offsets[tuple(block)].ravel().tolist()),
        values=" ".join(values),
    )


def _offsets(shape: Sequence[int]) -> Array:
    """Return an array of a shape whose elements are their own offsets."""
    return np.arange(math.prod(shape)).reshape(shape)


def _links(desc: Descriptor, indices: Array, out_of_range: OutOfRange) -> list[Link]:
    """Return where each element of OutputTensor.Sizes comes from."""
    output = desc.output_tensor
    output_offsets = elements(output, _offsets(output.array_shape))
    sources = source_map(desc, indices, out_of_range)
    # Given offsets as indices, `coordinates` returns which index each element reads.
    index_offsets = elements(desc.indices_tensor, _offsets(indices.shape))
    coordinates_read, indexed = coordinates(desc, index_offsets)
    columns = [output_offsets, sources]
    for dimension in indexed:
        columns.append(coordinates_read[dimension])
    flat = [np.broadcast_to(column, output.sizes).ravel() for column in columns]
    rows = np.stack(flat, 1).tolist()
    return [Link(offset, source, tuple(index)) for offset, source, *index in rows]


def _outside(desc: Descriptor, indices: Array) -> set[int]:
    """Return the offsets of the indices out of range; none of a very large tensor."""
    tensor = desc.indices_tensor
    if math.prod(tensor.sizes) > 8 * LARGEST_OUTPUT:
        return set()
    offsets = elements(tensor, _offsets(indices.shape))
    return set(offsets[indices_outside(desc, indices)].tolist())


def _differing_offsets(array: Array, expected: Array | None) -> list[int] | None:
    """Return the offsets at which an array differs; None if it cannot be compared."""
    if expected is None:
        return None
    if array.dtype != expected.dtype or array.shape != expected.shape:
        return None
    return differing(expected, array).tolist()


def _wrong(
    array: Array, expected: Array | None, offsets: list[int] | None, shown: set[int]
) -> Wrong:
    """Return the wrong output of a lane.

    Args:
        array: The output.
        expected: The output of the reference, if any.
        offsets: Where the two differ; None if they cannot be compared.
        shown: The offsets of the elements in the picture.
    """
    # Case: no comparison element by element; the whole output is shown.
    if expected is None or offsets is None:
        contrast = ", but must refuse"
        if expected is not None:
            contrast = f" in place of {expected.dtype} {list(expected.shape)}"
        note = f"returned {array.dtype} {list(array.shape)}{contrast}"
        return Wrong(total=array.size, instead=_grids(array, None, 0), note=note)
    got: dict[int, str] = {}
    for offset in shown.intersection(offsets):
        value = array.flat[offset]
        text = value_text(value)
        # Elements that differ may read the same, such as NaNs; their bytes differ.
        if text == value_text(expected.flat[offset]):
            text = f"{text} ({value.tobytes().hex(' ')})"
        got[offset] = text
    return Wrong(len(offsets), array.size, got)
