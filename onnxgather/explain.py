"""Where an output element comes from, in one line: which index, which input element, which value.

`source_map` says the same of all output elements at once, as offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from onnxgather.arrays import (
    Array,
    brought_in_range,
    check_array,
    check_descriptor,
    check_indices,
    check_policy,
    counted_dimensions,
    elements,
    outside,
)
from onnxgather.checks import integer, sequence, shown
from onnxgather.descriptors import Descriptor
from onnxgather.errors import DescriptorError, IndexOutOfRangeError
from onnxgather.options import OutOfRange
from onnxgather.reference import coordinates, directml_strides, offsets, source_map
from onnxgather.tensors import TensorDesc

__all__ = ["Coordinates", "Explanation", "element_at", "explain", "source_map", "value_text"]

Coordinates = tuple[int, ...]
"""A place in a tensor: one per dimension."""


class Explanation(msgspec.Struct, frozen=True):
    """One output element and what it is read from, in DirectML's coordinates.

    str() is the line `text`.
    """

    text: str
    """Such as `output[1,0] = input[1, indices[0]] = input[1, 2] = 6`."""
    at: Coordinates
    """The place in OutputTensor."""
    index_places: tuple[Coordinates, ...]
    """Where in IndicesTensor each coordinate of the index tuple stands; one of a plain index."""
    index_values: tuple[int, ...]
    """What stands there."""
    before: Coordinates
    """The place in InputTensor that the index values say."""
    after: Coordinates | None
    """The place in InputTensor that is read; None where none is, or it is not an element."""
    offset: int | None
    """The element of InputTensor's buffer that is read; None where none is."""
    value: str | None
    """The output element; None where its index is an error."""
    value_bytes: str | None
    """In hexadecimal, in the order of memory."""
    notes: tuple[str, ...]
    """What the text says in parentheses."""

    def __str__(self) -> str:
        return self.text


class _Element(NamedTuple):
    """An output element and the coordinates that it reads, one array of one value each."""

    desc: Descriptor
    at: Coordinates
    read: list[Array]
    indexed: list[int]
    index_places: tuple[Coordinates, ...]

    @property
    def before(self) -> Coordinates:
        return tuple(int(coordinate.item()) for coordinate in self.read)

    @property
    def wild(self) -> list[int]:
        """The dimensions of InputTensor whose index is out of range."""
        sizes = self.desc.input_tensor.sizes
        return [k for k in self.indexed if outside(self.read[k], sizes[k]).item()]


class _Step(NamedTuple):
    """What becomes of the coordinates that the index values say."""

    text: str
    notes: list[str]
    after: Coordinates | None


def explain(
    desc: Descriptor,
    data: Array,
    indices: Array,
    at: Sequence[int],
    out_of_range: OutOfRange = "clamp",
) -> Explanation:
    """Return where an output element comes from.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        at: The element's place in OutputTensor, a coordinate per size, strides or not.
        out_of_range: What an index out of range does; "error" is told, not raised.

    Raises:
        DescriptorError: An array does not fit its tensor, or `at` is no place in OutputTensor.
    """
    check_descriptor(desc)
    check_policy(out_of_range)
    check_array("InputTensor", desc.input_tensor, data)
    check_array("IndicesTensor", desc.indices_tensor, indices)
    element = _element(desc, indices, _place(desc.output_tensor, at))
    offset = int(offsets(desc, element.read, element.indexed, out_of_range).item())
    value = np.zeros(1, data.dtype)
    if 0 <= offset < data.size:
        value = data.reshape(-1)[offset : offset + 1]
    number: str | None = value_text(value[0])
    outcome, last = f" = {number}", list[str]()
    if out_of_range == "directml":
        step = _by_offset(element, offset, padding=offset >= data.size)
    elif element.wild and out_of_range != "clamp":
        step, last = _Step("", [], None), _out_of_range(element)
        if out_of_range == "error":
            number, outcome, offset = None, ": an error", -1
    else:
        step = _brought_in_range(element)
        last = _error_elsewhere(desc, indices) if out_of_range == "error" else []
    last += _buffers(element, None if offset < 0 or out_of_range == "directml" else offset)
    left = f"output[{','.join(map(str, element.at))}] = {_equation(element)}"
    return Explanation(
        left + step.text + outcome + _parenthesis(last),
        element.at,
        element.index_places,
        tuple(element.before[k] for k in element.indexed),
        element.before,
        step.after,
        None if offset < 0 else offset,
        number,
        None if number is None else value.tobytes().hex(),
        (*step.notes, *last),
    )


def element_at(tensor: TensorDesc, offset: int) -> Coordinates | None:
    """Return the place in a tensor of the element at an offset of its buffer.

    None where the offset is padding or a gap; also, in an input whose strides make elements
    overlap, where the place does not follow from one stride after the other.
    """
    place, strides = [0] * tensor.dimension_count, tensor.element_strides
    for k in sorted(range(len(place)), key=lambda k: -strides[k]):
        if strides[k]:
            place[k] = min(offset // strides[k], tensor.sizes[k] - 1)
            offset -= place[k] * strides[k]
    return None if offset else tuple(place)


def value_text(value: np.generic) -> str:
    """Return a number: short, but never such that its type would read another one."""
    number: object = value.item()
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e16
    return f"{number:.0f}" if whole else str(value)


def _place(tensor: TensorDesc, at: object) -> Coordinates:
    values, sizes = sequence("at", at), tensor.sizes
    place = [integer(value) for value in values]
    inside = tuple(p for p, n in zip(place, sizes, strict=False) if p is not None and 0 <= p < n)
    if not len(inside) == len(place) == len(sizes):
        count = f"{len(sizes)} coordinate{'s' if len(sizes) > 1 else ''}"
        rule = f"at must have {count} within OutputTensor.Sizes {list(sizes)}"
        raise DescriptorError(f"{rule}, got {shown(values)}")
    return inside


def _element(desc: Descriptor, indices: Array, at: Coordinates) -> _Element:
    sizes = desc.indices_tensor.sizes
    read, indexed = coordinates(desc, elements(desc.indices_tensor, indices))
    # Indices whose values are their own positions say where each one stands.
    positions = np.indices(sizes, sparse=True)
    placed = [coordinates(desc, np.broadcast_to(p, sizes))[0] for p in positions]
    places = (tuple(int(_one(along[k], at).item()) for along in placed) for k in indexed)
    return _Element(desc, at, [_one(array, at) for array in read], indexed, tuple(places))


def _one(array: Array, at: Coordinates) -> Array:
    """Return the one element at a place that an array is broadcast to, as an array of rank n."""
    places = zip(at, array.shape, strict=True)
    return array[tuple(slice(p, p + 1) if n > 1 else slice(1) for p, n in places)]


def _equation(element: _Element) -> str:
    """Return `input[1, indices[0]] = input[1, 7]`; leading sizes that do not count are left out."""
    first, *more = element.indexed
    place = [str(p) for p in element.index_places[0][-counted_dimensions(element.desc) :]]
    if more:
        place[-1] = ":"
    named = [str(c) for k, c in enumerate(element.before) if k not in more]
    named[first] = f"indices[{', '.join(place)}]" if counted_dimensions(element.desc) else "indices"
    return f"input[{', '.join(named)}] = {_input(element, element.before)}"


def _input(element: _Element, place: Coordinates) -> str:
    """Return `input[0, 7]`, or `input[0, (1, 7)]` where a tuple of coordinates indexes."""
    texts = [str(c) for c in place]
    first, last = element.indexed[0], element.indexed[-1]
    if first < last:
        texts[first] = f"({texts[first]}"
        texts[last] += ")"
    return f"input[{', '.join(texts)}]"


def _brought_in_range(element: _Element) -> _Step:
    after, notes = list(element.before), list[str]()
    for k in element.indexed:
        size = element.desc.input_tensor.sizes[k]
        index, moved = after[k], int(brought_in_range(element.read[k], np.array(size)).item())
        after[k] = moved
        if index >= size:
            notes.append(f"{index} is past the end, clamped to {moved}")
        elif index < -size:
            notes.append(f"{index} is before the start, clamped to {moved}")
        elif index < 0:
            notes.append(f"{index} is counted from the end of {size}")
    place = tuple(after)
    text = f" -> {_input(element, place)}{_parenthesis(notes)}" if notes else ""
    return _Step(text, notes, place)


def _by_offset(element: _Element, offset: int, *, padding: bool) -> _Step:
    """Return how DirectML.dll comes from coordinates to an element of the buffer."""
    tensor, strides = element.desc.input_tensor, directml_strides(element.desc)
    moved, terms, notes = list[int](), list[str](), list[str]()
    for coordinate, size, stride in zip(element.before, tensor.sizes, strides, strict=True):
        if coordinate >= 2**63:
            notes.append(f"{coordinate} is read as {coordinate - 2**64}")
            coordinate -= 2**64
        negative = coordinate < 0
        moved.append(coordinate + size * negative)
        terms.append(f"{f'({coordinate} + {size})' if negative else coordinate} x {stride}")
    total = sum(c * stride for c, stride in zip(moved, strides, strict=True))
    low = total % 2**32
    rest = f", modulo 2^32 {low}" if low != total else ""
    notes.append(f"{' + '.join(terms)} = {total}{rest}")
    if low != offset:
        notes.append(f"{low} is past the last element, clamped to {offset}")
    if padding:
        notes.append("padding reads as zero")
    inside = all(0 <= c < size for c, size in zip(moved, tensor.sizes, strict=True))
    after = tuple(moved) if inside else element_at(tensor, offset)
    text = f" -> buffer element {offset}{_parenthesis(notes)}"
    if after is not None and after != element.before:
        text += f" = {_input(element, after)}"
    return _Step(text, notes, after)


def _out_of_range(element: _Element) -> list[str]:
    sizes = element.desc.input_tensor.sizes
    return [f"index {element.before[k]} is out of range of {sizes[k]}" for k in element.wild]


def _error_elsewhere(desc: Descriptor, indices: Array) -> list[str]:
    """Return why the gather is an error though this element's index is none."""
    try:
        check_indices(desc, indices)
    except IndexOutOfRangeError as error:
        return [f"but the gather is an error: {error}"]
    return []


def _buffers(element: _Element, offset: int | None) -> list[str]:
    """Return where in their buffers the elements of the tensors with strides are."""
    desc, found = element.desc, list[str]()
    if desc.output_tensor.strides is not None:
        found.append(f"output {_offset(desc.output_tensor, element.at)}")
    if desc.indices_tensor.strides is not None:
        places = [_offset(desc.indices_tensor, place) for place in element.index_places]
        found.append(f"indices {' '.join(map(str, places))}")
    if desc.input_tensor.strides is not None and offset is not None:
        found.append(f"input {offset}")
    return [f"buffer offsets: {', '.join(found)}"] if found else []


def _offset(tensor: TensorDesc, place: Coordinates) -> int:
    return sum(p * stride for p, stride in zip(place, tensor.element_strides, strict=True))


def _parenthesis(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""
