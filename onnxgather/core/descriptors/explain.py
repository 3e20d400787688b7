"""Where an output element comes from, in one line: which index, which input element, which value.

An explanation says what the reference does. It is made with `reference` and `arrays`,
so that a mistake in `gather` does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np

from onnxgather.core.checks import integer, number_of, require, sequence, shown
from onnxgather.core.descriptors.arrays import (
    Array,
    check_arrays,
    check_indices,
    elements,
)
from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.reference import coordinates, directml_strides, offsets
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.options import OutOfRange

Coordinates = tuple[int, ...]
"""The coordinates of an element of a tensor, one per dimension."""


MOST_EXPLAINED = 64
"""The most elements of a tensor that are all written out."""


class Explanation(msgspec.Struct, frozen=True):
    """One output element and what it is read from, in DirectML's coordinates.

    str() is the line `text`.
    """

    text: str
    """Such as `output[1,0] = input[1, indices[0]] = input[1, 2] = 6`."""
    at: Coordinates
    """The element of OutputTensor."""
    index_places: tuple[Coordinates, ...]
    """The elements of IndicesTensor that it depends on: a tuple has an element per
    coordinate."""
    index_values: tuple[int, ...]
    """The values of those elements."""
    before: Coordinates
    """The coordinates in InputTensor with the index values as they are."""
    after: Coordinates | None
    """The element of InputTensor that is read; None if padding, a gap or nothing is
    read."""
    offset: int | None
    """The offset that is read in InputTensor's buffer, in elements; None if nothing is
    read."""
    value: str | None
    """The value of the output element; None where its index is an error."""
    value_bytes: str | None
    """The bytes of the value in hexadecimal, in the order of memory."""
    notes: tuple[str, ...]
    """The parts of the text that stand in parentheses."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class _Element:
    """An output element, and the coordinates in InputTensor before indices are brought in range."""

    desc: Descriptor
    at: Coordinates
    read: list[Array]
    """The coordinates as arrays of one value each, of the type of the indices where
    indexed."""
    indexed: list[int]
    """The dimensions of InputTensor whose coordinates are index values."""
    index_places: tuple[Coordinates, ...]

    @property
    def before(self) -> Coordinates:
        return tuple(int(coordinate.item()) for coordinate in self.read)


_Step = tuple[str, list[str], Coordinates | None]
"""The step from the coordinates with the index values to the element that is read: its
text, its notes, and that element."""


def explain(
    desc: Descriptor,
    data: Array,
    indices: Array,
    at: Sequence[int],
    out_of_range: OutOfRange = "clamp",
) -> Explanation:
    """Explain where an output element comes from.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        at: The coordinates of the element in OutputTensor, one per size, with strides or without.
        out_of_range: What an index out of range does. Under "error" the explanation says that
            the index is an error; nothing is raised.

    Raises:
        DescriptorError: An array does not fit its tensor, or OutputTensor has no element `at`.
    """
    data, indices = check_arrays(desc, data, indices, out_of_range)
    element = _element(desc, indices, _checked(desc.output_tensor, at))
    offset = int(offsets(desc, element.read, element.indexed, out_of_range).item())
    inside = 0 <= offset < data.size
    value = data.reshape(-1)[offset : offset + 1] if inside else np.zeros(1, data.dtype)
    number: str | None = value_text(value[0])
    outcome, last = f" = {number}", list[str]()
    pairs = [(element.before[k], desc.input_tensor.sizes[k]) for k in element.indexed]
    wild = [f"index {c} is out of range of {n}" for c, n in pairs if not -n <= c < n]
    if out_of_range == "directml":
        text, notes, after = _by_offset(element, offset, padding=not inside)
    elif wild and out_of_range != "clamp":
        text, notes, after, last = "", list[str](), None, wild
        if out_of_range == "error":
            number, outcome, offset = None, ": an error", -1
    else:
        text, notes, after = _brought_in_range(element)
        if out_of_range == "error":
            try:
                check_indices(desc, indices)
            except IndexOutOfRangeError as error:  # of another element
                last = [f"but the gather is an error: {error}"]
    last += _buffers(element, None if out_of_range == "directml" else after)
    left = f"output[{','.join(map(str, element.at))}] = {_equation(element)}"
    return Explanation(
        left + text + outcome + _parenthesis(last),
        element.at,
        element.index_places,
        tuple(element.before[k] for k in element.indexed),
        element.before,
        after,
        None if offset < 0 else offset,
        number,
        None if number is None else value.tobytes().hex(),
        (*notes, *last),
    )


def explain_all(
    desc: Descriptor, data: Array, indices: Array, out_of_range: OutOfRange = "clamp"
) -> list[Explanation]:
    """Explain where each output element comes from, in row-major order.

    Args:
        desc: As for `explain`.
        data: As for `explain`.
        indices: As for `explain`.
        out_of_range: As for `explain`.

    Raises:
        DescriptorError: As `explain`; or OutputTensor has more than `MOST_EXPLAINED` elements.
    """
    count = prod(desc.output_tensor.sizes)
    rule = (
        f"at must be given where OutputTensor has more than {MOST_EXPLAINED} elements"
    )
    require(count <= MOST_EXPLAINED, rule, count)
    every = np.ndindex(*desc.output_tensor.sizes)
    return [explain(desc, data, indices, at, out_of_range) for at in every]


def explanation_text(
    desc: Descriptor, data: Array, indices: Array, explanations: Sequence[Explanation]
) -> str:
    """A gather as text: its inputs where they are small, and a line for each output element.

    Args:
        desc: As for `explain`.
        data: As for `explain`.
        indices: As for `explain`.
        explanations: The lines, as `explain_all` returns them.
    """
    sections = [
        _tensor_text("input", desc.input_tensor, data),
        _tensor_text("indices", desc.indices_tensor, indices),
        "\n".join(map(str, explanations)),
    ]
    return "\n\n".join(sections)


def _tensor_text(name: str, tensor: TensorDesc, array: Array) -> str:
    head = f"{name}: {tensor.data_type} {list(tensor.sizes)}"
    if prod(tensor.sizes) > MOST_EXPLAINED:
        return head
    texts: Any = {"all": value_text}
    return f"{head}\n{np.array2string(elements(tensor, array), separator=', ', formatter=texts)}"


def element_at(tensor: TensorDesc, offset: int) -> Coordinates | None:
    """The coordinates of the element at an offset, in elements, of a tensor's buffer.

    None where the offset is padding or a gap. Where elements overlap, the search, which
    takes one stride after the other from the largest down, may also end in None.
    """
    found, strides = [0] * tensor.dimension_count, tensor.element_strides
    for k in sorted(range(len(found)), key=lambda k: -strides[k]):
        if strides[k]:
            found[k] = min(offset // strides[k], tensor.sizes[k] - 1)
            offset -= found[k] * strides[k]
    return None if offset else tuple(found)


def value_text(value: np.generic) -> str:
    """A number as text: short, but no other value of its type reads the same."""
    number: object = value.item()
    whole = isinstance(number, float) and number.is_integer() and abs(number) < 1e16
    return f"{number:.0f}" if whole else str(value)


def _checked(tensor: TensorDesc, at: object) -> Coordinates:
    values, sizes = sequence("at", at), tensor.sizes
    inside = [
        integer(value) in range(n) for value, n in zip(values, sizes, strict=False)
    ]
    count = number_of(len(sizes), "coordinate")
    rule = f"at must have {count} within OutputTensor.Sizes {list(sizes)}"
    require(len(values) == len(sizes) and all(inside), rule, shown(values))
    return tuple(map(int, values))


def _element(desc: Descriptor, indices: Array, at: Coordinates) -> _Element:
    def one(array: Array) -> Array:
        """The value for the output element, of an array that broadcasts to the output."""
        return np.broadcast_to(array, desc.output_tensor.sizes)[at].reshape(1)

    read, indexed = coordinates(desc, elements(desc.indices_tensor, indices))
    # Gathered by indices whose values are their own coordinates, the element reads the
    # coordinates of its indices.
    sizes = desc.indices_tensor.sizes
    own = np.indices(sizes, sparse=True)
    along = [coordinates(desc, np.broadcast_to(values, sizes))[0] for values in own]
    index_at = tuple(
        tuple(int(one(found[k]).item()) for found in along) for k in indexed
    )
    return _Element(desc, at, [one(array) for array in read], indexed, index_at)


def _equation(element: _Element) -> str:
    """Such as `input[1, indices[0]] = input[1, 7]`; leading ones of the indices are left out."""
    first, *more = element.indexed
    counted = _counted_dimensions(element.desc)
    index = [str(k) for k in element.index_places[0][-counted:]]
    if more:
        index[-1] = ":"
    named = [str(c) for k, c in enumerate(element.before) if k not in more]
    named[first] = f"indices[{', '.join(index)}]" if counted else "indices"
    return f"input[{', '.join(named)}] = {_input(element, element.before)}"


def _counted_dimensions(desc: Descriptor) -> int:
    """How many of the last sizes of IndicesTensor count; the sizes before them are ones."""
    if isinstance(desc, GatherDesc):
        return desc.index_dimensions
    if isinstance(desc, GatherElementsDesc):
        return desc.indices_tensor.dimension_count
    return desc.indices_dimension_count


def _input(element: _Element, at: Coordinates) -> str:
    """Such as `input[0, 7]`, or `input[0, (1, 7)]` where 1 and 7 are an index tuple."""
    texts = [str(c) for c in at]
    first, last = element.indexed[0], element.indexed[-1]
    if first < last:
        texts[first] = f"({texts[first]}"
        texts[last] += ")"
    return f"input[{', '.join(texts)}]"


def _brought_in_range(element: _Element) -> _Step:
    """The step to the coordinates with each index brought in range of its own axis."""
    moved, notes = list(element.before), list[str]()
    for k in element.indexed:
        index, size = moved[k], element.desc.input_tensor.sizes[k]
        moved[k] = min(max(0, index + size if index < 0 else index), size - 1)
        if index >= size:
            notes.append(f"{index} is past the end, clamped to {moved[k]}")
        elif index < -size:
            notes.append(f"{index} is before the start, clamped to {moved[k]}")
        elif index < 0:
            notes.append(f"{index} is counted from the end of {size}")
    after = tuple(moved)
    text = f" -> {_input(element, after)}{_parenthesis(notes)}" if notes else ""
    return text, notes, after


def _by_offset(element: _Element, offset: int, *, padding: bool) -> _Step:
    """The step to the element of the buffer that DirectML.dll reads, with the sum of its offset."""
    tensor, strides = element.desc.input_tensor, directml_strides(element.desc)
    moved, terms, notes = list[int](), list[str](), list[str]()
    for index, size, stride in zip(element.before, tensor.sizes, strides, strict=True):
        if index >= 2**63:
            notes.append(f"{index} is read as {index - 2**64}")
            index -= 2**64
        moved.append(index + size if index < 0 else index)
        terms.append(f"{f'({index} + {size})' if index < 0 else index} x {stride}")
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
    if after not in (None, element.before):
        text += f" = {_input(element, after)}"
    return text, notes, after


def _buffers(element: _Element, after: Coordinates | None) -> list[str]:
    """A note with the buffer offsets of the elements, for the tensors that have strides."""
    desc, found = element.desc, list[str]()
    for name, tensor, known in (
        ("output", desc.output_tensor, [element.at]),
        ("indices", desc.indices_tensor, element.index_places),
        ("input", desc.input_tensor, [after] if after else []),
    ):
        if tensor.strides is not None and known:
            offsets = " ".join(str(np.dot(at, tensor.element_strides)) for at in known)
            found.append(f"{name} {offsets}")
    return [f"buffer offsets: {', '.join(found)}"] if found else []


def _parenthesis(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""
