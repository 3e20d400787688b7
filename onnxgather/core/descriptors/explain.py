"""Where an output element comes from: which index, input element and value.

An explanation says what the reference does. It is made with `reference` and `arrays`,
so that a mistake in `gather` does not change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct

from onnxgather.core.checks import integer, number_of, require, sequence, shown
from onnxgather.core.descriptors.arrays import (
    Array,
    check_arrays,
    check_indices,
    check_policy,
    content_of,
    elements,
)
from onnxgather.core.descriptors.onnx_reference import reference_onnx
from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.reference import coordinates, directml_strides, offsets
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.options import OutOfRange
from onnxgather.core.public import public

Coordinates = tuple[int, ...]
"""The coordinates of an element of a tensor, one per dimension."""


MOST_EXPLAINED = 64
"""The most elements of a tensor that are all written out."""

MOST_NAMED = 2**24
"""The most elements of indices that are explained without their values."""

_NO_OFFSET = -1
"""The offset of an output element that is read from nowhere."""


@public
class Explanation(Struct, frozen=True):
    """One output element and what it is read from, in DirectML's coordinates.

    str() returns the line `text`.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        >>> data = np.array([10, 20, 30], np.float32)
        >>> why = og.explain(desc, data, np.array([2, 7], np.int64), at=(1,))
        >>> why.before, why.after, why.value, why.notes
        ((7,), (2,), '30', ('7 is past the end, clamped to 2',))
    """

    text: str
    """Such as `output[1,0] = input[1, indices[0]] = input[1, 2] = 6`."""
    at: Coordinates
    """The element of OutputTensor."""
    index_places: tuple[Coordinates, ...]
    """The elements of IndicesTensor that it depends on: an element per coordinate of a
    tuple."""
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
    """The bytes of the value in hexadecimal, in the order of memory; of a text, those
    of a list of JSON."""
    notes: tuple[str, ...]
    """The parts of the text in parentheses."""
    other_value: str | None = None
    """Where the bytes differ: the value that DirectML returns; under the policy
    "directml", the value if the index is clamped."""

    def __str__(self) -> str:
        return self.text


class _Element(Struct, frozen=True):
    """An output element, and its coordinates in InputTensor.

    The coordinates are those before indices are brought in range.
    """

    sizes: Sequence[int]
    """The sizes of InputTensor."""
    counted: int
    """How many of the last sizes of IndicesTensor count. The others are ones."""
    at: Coordinates
    read: list[Array]
    """The coordinates as arrays of a single value, of the type of the indices where
    indexed."""
    indexed: list[int]
    """The dimensions of InputTensor whose coordinates are index values."""
    index_places: tuple[Coordinates, ...]

    @property
    def before(self) -> Coordinates:
        return tuple(int(coordinate.item()) for coordinate in self.read)

    @property
    def index_values(self) -> tuple[int, ...]:
        return tuple(int(self.read[axis].item()) for axis in self.indexed)


_Step = tuple[str, list[str], Coordinates | None]
"""The step from the coordinates with the index values to the element that is read.

It has a text, its notes, and that element.
"""


@public
def explain(
    desc: Descriptor,
    data: Any,
    indices: Any,
    at: Sequence[int],
    out_of_range: OutOfRange = "clamp",
) -> Explanation:
    """Explain where an output element comes from.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has
            strides; or nested lists of numbers.
        indices: IndicesTensor, likewise.
        at: The coordinates of the element in OutputTensor, one per size, with strides
            or without.
        out_of_range: What an index out of range does. Under "error" the explanation
            says that the index is an error; nothing is raised.

    Raises:
        DescriptorError: An array does not fit its tensor, or OutputTensor has no
            element `at`.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        >>> data = np.array([10, 20, 30], np.float32)
        >>> indices = np.array([2, 7], np.int64)
        >>> print(og.explain(desc, data, indices, at=(0,)))
        output[0] = input[indices[0]] = input[2] = 30
        >>> print(og.explain(desc, data, indices, at=(1,)))
        output[1] = input[indices[1]] = input[7] -> input[2] (7 is past the end,
        clamped to 2) = 30
    """
    out_of_range = check_policy(out_of_range)
    data, indices = check_arrays(desc, data, indices)
    element = _element(desc, indices, _checked(desc.output_tensor.sizes, at))
    read_offsets = offsets(desc, element.read, element.indexed, out_of_range)
    offset = int(read_offsets.item())
    is_inside = 0 <= offset < data.size
    value = _value(desc, data, element, out_of_range)
    number: str | None = value_text(value[0])
    outcome = f" = {number}"
    last_notes: list[str] = []
    outside = _notes_of_indices_outside(element)

    if out_of_range == "directml":
        text, notes, after = _by_offset(desc, element, offset, padding=not is_inside)
    elif outside and out_of_range == "error":
        text, notes, after = _NO_STEP
        last_notes = outside
        number = None
        outcome = ": an error"
        offset = _NO_OFFSET
    elif outside and out_of_range == "zero":
        text, notes, after = _NO_STEP
        last_notes = outside
    else:
        text, notes, after = _brought_in_range(element)
        if out_of_range == "error":
            last_notes = _note_of_other_error(partial(check_indices, desc, indices))

    # DirectML reads by the offset, which the text has already.
    input_element = None if out_of_range == "directml" else after
    last_notes += _notes_of_buffers(desc, element, input_element)
    other: OutOfRange = "clamp" if out_of_range == "directml" else "directml"
    other_value = None
    other_element = _value(desc, data, element, other)
    if number is None or other_element.tobytes() != value.tobytes():
        other_value = value_text(other_element[0])
        outcome += f", {other_value} under {other}"
    equation = f"{_output(element.at)} = {_equation(element)}"
    return Explanation(
        equation + text + outcome + _parenthesis(last_notes),
        element.at,
        element.index_places,
        element.index_values,
        element.before,
        after,
        None if offset < 0 else offset,
        number,
        None if number is None else value.tobytes().hex(),
        (*notes, *last_notes),
        other_value,
    )


def explain_node(
    operator: str,
    attributes: Mapping[str, int],
    data: Array,
    indices: Array,
    output_sizes: Sequence[int],
    at: Sequence[int],
) -> Explanation:
    """Explain where an output element of an ONNX node comes from, by ONNX's formula.

    An index out of range is an error.

    Args:
        operator: Gather, GatherElements or GatherND.
        attributes: The `axis` or `batch_dims` of the node, by its name.
        data: The data, of any type and rank.
        indices: The indices.
        output_sizes: The sizes of the output.
        at: The coordinates of the element in the output.

    Raises:
        DescriptorError: The output has no element `at`.
    """
    (axis,) = attributes.values()
    place = _checked(output_sizes, at)
    element = _element_of_node(operator, data.shape, indices, axis, place)
    text, notes, after = _NO_STEP
    last_notes = _notes_of_indices_outside(element)
    outcome = ": an error"
    offset = number = value_bytes = None
    if not last_notes:
        text, notes, after = _brought_in_range(element)
        assert after is not None, "an index in range reads an element"
        last_notes = _note_of_other_error(
            partial(reference_onnx, operator, data, indices, **attributes)
        )
        value = data[after]
        offset = int(np.ravel_multi_index(after, data.shape))
        number = value_text(value)
        outcome = f" = {number}"
        one = np.array([value], data.dtype)
        value_bytes = content_of(one).hex()
    equation = f"{_output(place)} = {_equation(element)}"
    return Explanation(
        equation + text + outcome + _parenthesis(last_notes),
        place,
        element.index_places,
        element.index_values,
        element.before,
        after,
        offset,
        number,
        value_bytes,
        (*notes, *last_notes),
    )


class NamedSource(Struct, frozen=True):
    """What an output element is read from, whatever the values of the indices.

    str() returns the line `text`.
    """

    text: str
    """Such as `output[0,0] = input[0, IndicesTensor[0,0]]`."""
    at: Coordinates
    """The element of OutputTensor."""
    index_places: tuple[Coordinates, ...]
    """The elements of IndicesTensor that it depends on: an element per coordinate of a
    tuple."""

    def __str__(self) -> str:
        return self.text


def named_source(desc: Descriptor, at: Sequence[int]) -> NamedSource:
    """Say where an output element comes from, with names for the values of indices.

    Args:
        desc: Any of the four gather descriptors.
        at: As for `explain`.

    Raises:
        DescriptorError: OutputTensor has no element `at`.
    """
    tensor = desc.indices_tensor
    rule = f"IndicesTensor must have at most {MOST_NAMED} elements to be explained"
    require(prod(tensor.sizes) <= MOST_NAMED, rule, prod(tensor.sizes))
    zeros = np.zeros(tensor.array_shape, tensor.data_type.numpy)
    element = _element(desc, zeros, _checked(desc.output_tensor.sizes, at))
    names = [str(coordinate) for coordinate in element.before]
    for axis, place in zip(element.indexed, element.index_places, strict=True):
        names[axis] = f"IndicesTensor[{','.join(map(str, place))}]"
    text = f"{_output(element.at)} = input[{', '.join(names)}]"
    return NamedSource(text, element.at, element.index_places)


def named_sources(desc: Descriptor) -> list[NamedSource]:
    """Say where each output element comes from, in row-major order.

    Args:
        desc: As for `named_source`.

    Raises:
        DescriptorError: OutputTensor has more than `MOST_EXPLAINED` elements.
    """
    return [named_source(desc, at) for at in all_places(desc.output_tensor.sizes)]


def _output(at: Coordinates) -> str:
    return f"output[{','.join(map(str, at))}]"


def _value(
    desc: Descriptor, data: Array, element: _Element, out_of_range: OutOfRange
) -> Array:
    """Return the value of an output element under a policy, as an array of one."""
    read_offsets = offsets(desc, element.read, element.indexed, out_of_range)
    offset = int(read_offsets.item())
    if 0 <= offset < data.size:
        return data.reshape(-1)[offset : offset + 1]
    return np.zeros(1, data.dtype)


def all_places(sizes: Sequence[int]) -> Iterator[Coordinates]:
    """Return the coordinates of all elements of an output, in row-major order.

    Raises:
        DescriptorError: The output has more than `MOST_EXPLAINED` elements.
    """
    rule = (
        f"at must be given where OutputTensor has more than {MOST_EXPLAINED} elements"
    )
    count = prod(sizes)
    require(count <= MOST_EXPLAINED, rule, count)
    return np.ndindex(*sizes)


def explanation_text(
    data_type: str,
    data: Array,
    index_type: str,
    indices: Array,
    explanations: Sequence[Explanation],
) -> str:
    """Return a gather as text.

    The text has the inputs where they are small, and a line for each output element.

    Args:
        data_type: The name of the data's type, such as FLOAT32.
        data: The elements of InputTensor, in its sizes.
        index_type: The name of the indices' type.
        indices: The elements of IndicesTensor, in its sizes.
        explanations: The lines.
    """
    lines = "\n".join(map(str, explanations))
    sections = [
        _array_text("input", data_type, data),
        _array_text("indices", index_type, indices),
        lines or "The output has no elements.",
    ]
    return "\n\n".join(sections)


def _array_text(name: str, data_type: str, array: Array) -> str:
    head = f"{name}: {data_type} {list(array.shape)}"
    if array.size > MOST_EXPLAINED:
        return head
    formatter: Any = {"all": value_text}
    text = np.array2string(array, separator=", ", formatter=formatter)
    return f"{head}\n{text}"


def element_at(tensor: TensorDesc, offset: int) -> Coordinates | None:
    """Return the coordinates of the element at an offset of a tensor's buffer.

    The offset is in elements. The result is None where it is padding or a gap. The
    search goes through the strides from the largest down, so where elements overlap, it
    may also end in None.
    """
    strides = tensor.element_strides
    at = [0] * tensor.dimension_count
    for axis in sorted(range(len(at)), key=lambda axis: -strides[axis]):
        if strides[axis] == 0:
            continue
        last = tensor.sizes[axis] - 1
        at[axis] = min(offset // strides[axis], last)
        offset -= at[axis] * strides[axis]
    return None if offset else tuple(at)


def value_text(value: np.generic | str) -> str:
    """Return an element as short text; no other number of its type has the same."""
    # Case: an array of texts, which may be Python's own objects.
    if isinstance(value, str):
        return shown(str(value))
    number: object = value.item()
    # Larger numbers are shorter with the exponent that numpy writes.
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e16:
        return f"{number:.0f}"
    return str(value)


def _checked(sizes: Sequence[int], at: object) -> Coordinates:
    """Return the coordinates of an element of an output with these sizes."""
    values = sequence("at", at)
    pairs = zip(values, sizes, strict=False)
    are_inside = [integer(value) in range(size) for value, size in pairs]
    count = number_of(len(sizes), "coordinate")
    rule = f"at must have {count} within OutputTensor.Sizes {list(sizes)}"
    require(len(values) == len(sizes) and all(are_inside), rule, shown(values))
    return tuple(map(int, values))


def _element(desc: Descriptor, indices: Array, at: Coordinates) -> _Element:
    read, indexed = coordinates(desc, elements(desc.indices_tensor, indices))

    def value_at(array: Array) -> Array:
        """Return the value for the output element in an array that broadcasts."""
        return np.broadcast_to(array, desc.output_tensor.sizes)[at].reshape(1)

    # Where each index is read from, the gather itself says: with indices whose values
    # are their own coordinates along a dimension of IndicesTensor.
    sizes = desc.indices_tensor.sizes
    reads_of_own: list[list[Array]] = []
    for own_coordinate in np.indices(sizes, sparse=True):
        own_values = np.broadcast_to(own_coordinate, sizes)
        own_read, _ = coordinates(desc, own_values)
        reads_of_own.append(own_read)
    index_places: list[Coordinates] = []
    for axis in indexed:
        place = [int(value_at(own_read[axis]).item()) for own_read in reads_of_own]
        index_places.append(tuple(place))

    return _Element(
        desc.input_tensor.sizes,
        _counted_dimensions(desc),
        at,
        [value_at(array) for array in read],
        indexed,
        tuple(index_places),
    )


def _element_of_node(
    operator: str, sizes: Sequence[int], indices: Array, number: int, at: Coordinates
) -> _Element:
    """Return an output element of an ONNX node, by the formula of its operator.

    Args:
        operator: Gather, GatherElements or GatherND.
        sizes: The sizes of the data.
        indices: The indices.
        number: The `axis` or `batch_dims` of the node.
        at: The coordinates of the element in the output.
    """
    rank = len(sizes)
    if operator == "GatherND":
        # output[n…, i…, s…] = data[n…, *indices[n…, i…], s…]
        tuple_rank = indices.ndim - 1
        tuple_place = at[:tuple_rank]
        index = indices[tuple_place]
        before = at[:number]
        behind = at[tuple_rank:]
        places = tuple((*tuple_place, coordinate) for coordinate in range(index.size))
    elif operator == "Gather":
        # output[a…, i…, b…] = data[a…, indices[i…], b…]
        axis = number % rank
        place = at[axis : axis + indices.ndim]
        index = indices[place].reshape(1)
        before = at[:axis]
        behind = at[axis + indices.ndim :]
        places = (place,)
    else:
        # output[…, i, …] = data[…, indices[…, i, …], …]
        axis = number % rank
        index = indices[at].reshape(1)
        before = at[:axis]
        behind = at[axis + 1 :]
        places = (at,)
    read = [np.array([value]) for value in (*before, *index.tolist(), *behind)]
    indexed = list(range(len(before), len(before) + index.size))
    return _Element(sizes, indices.ndim, at, read, indexed, places)


def _equation(element: _Element) -> str:
    """Return an equation such as `input[1, indices[0]] = input[1, 7]`.

    Leading ones of the indices are left out.
    """
    first, *others = element.indexed
    dimensions = element.counted
    index = [str(place) for place in element.index_places[0][-dimensions:]]
    if others:  # a whole tuple: its coordinates are along the last dimension
        index[-1] = ":"
    before = enumerate(element.before)
    names = [str(coordinate) for axis, coordinate in before if axis not in others]
    names[first] = f"indices[{', '.join(index)}]" if dimensions else "indices"
    return f"input[{', '.join(names)}] = {_input(element, element.before)}"


def _counted_dimensions(desc: Descriptor) -> int:
    """Return how many of the last sizes of IndicesTensor count.

    The sizes before them are ones.
    """
    if isinstance(desc, GatherDesc):
        return desc.index_dimensions
    if isinstance(desc, GatherElementsDesc):
        return desc.indices_tensor.dimension_count
    return desc.indices_dimension_count


def _input(element: _Element, at: Coordinates) -> str:
    """Return `input[0, 7]`, or `input[0, (1, 7)]` where 1 and 7 are an index tuple."""
    texts = [str(coordinate) for coordinate in at]
    first = element.indexed[0]
    last = element.indexed[-1]
    if first < last:
        texts[first] = f"({texts[first]}"
        texts[last] += ")"
    return f"input[{', '.join(texts)}]"


_NO_STEP: _Step = ("", [], None)
"""The step of an output element that is read from nowhere."""


def _notes_of_indices_outside(element: _Element) -> list[str]:
    """Return a note for each coordinate of the index that is out of range."""
    notes: list[str] = []
    for axis, index in zip(element.indexed, element.index_values, strict=True):
        size = element.sizes[axis]
        if not -size <= index < size:
            notes.append(f"index {index} is out of range of {size}")
    return notes


def _note_of_other_error(check: Callable[[], object]) -> list[str]:
    """Return a note where the index of another output element is an error.

    Args:
        check: Raises the error.
    """
    try:
        check()
    except IndexOutOfRangeError as error:
        return [f"but the gather is an error: {error}"]
    return []


def _brought_in_range(element: _Element) -> _Step:
    """Return the step that brings each index in range of its own axis."""
    moved = list(element.before)
    notes: list[str] = []
    for axis in element.indexed:
        index = moved[axis]
        size = element.sizes[axis]
        from_start = index + size if index < 0 else index
        clamped = min(max(0, from_start), size - 1)
        moved[axis] = clamped
        if index >= size:
            notes.append(f"{index} is past the end, clamped to {clamped}")
        elif index < -size:
            notes.append(f"{index} is before the start, clamped to {clamped}")
        elif index < 0:
            notes.append(f"{index} is counted from the end of {size}")
    after = tuple(moved)
    text = ""
    if notes:
        text = f" -> {_input(element, after)}{_parenthesis(notes)}"
    return text, notes, after


def _by_offset(
    desc: Descriptor, element: _Element, offset: int, *, padding: bool
) -> _Step:
    """Return the step to the element of the buffer that DirectML.dll reads.

    Its notes have the sum of the offset.
    """
    tensor = desc.input_tensor
    strides = directml_strides(desc)
    moved: list[int] = []
    terms: list[str] = []
    notes: list[str] = []
    for index, size, stride in zip(element.before, tensor.sizes, strides, strict=True):
        if index >= 2**63:  # DirectML reads UINT64 as INT64
            signed = index - 2**64
            notes.append(f"{index} is read as {signed}")
            index = signed
        if index < 0:
            moved.append(index + size)
            terms.append(f"({index} + {size}) x {stride}")
        else:
            moved.append(index)
            terms.append(f"{index} x {stride}")

    products = [at * stride for at, stride in zip(moved, strides, strict=True)]
    total = sum(products)
    low_bits = total % 2**32
    modulo = f", modulo 2^32 {low_bits}" if low_bits != total else ""
    notes.append(f"{' + '.join(terms)} = {total}{modulo}")
    if low_bits != offset:
        notes.append(f"{low_bits} is past the last element, clamped to {offset}")
    if padding:
        notes.append("padding reads as zero")

    # Where strides overlap, several elements are at the offset: the coordinates are
    # those of the sum if they are of an element.
    after: Coordinates | None = tuple(moved)
    if not _is_inside(moved, tensor.sizes):
        after = element_at(tensor, offset)
    text = f" -> buffer element {offset}{_parenthesis(notes)}"
    if after is not None and after != element.before:
        text += f" = {_input(element, after)}"
    return text, notes, after


def _is_inside(at: Sequence[int], sizes: Sequence[int]) -> bool:
    pairs = zip(at, sizes, strict=True)
    return all(0 <= coordinate < size for coordinate, size in pairs)


def _notes_of_buffers(
    desc: Descriptor, element: _Element, input_element: Coordinates | None
) -> list[str]:
    """Return a note with the buffer offsets of the elements.

    It names the tensors that have strides.
    """
    input_places = [input_element] if input_element else []
    tensors = (
        ("output", desc.output_tensor, [element.at]),
        ("indices", desc.indices_tensor, element.index_places),
        ("input", desc.input_tensor, input_places),
    )
    parts = list[str]()
    for name, tensor, places in tensors:
        if tensor.strides is None or not places:
            continue
        places_in_buffer = [np.dot(at, tensor.element_strides) for at in places]
        parts.append(f"{name} {' '.join(map(str, places_in_buffer))}")
    return [f"buffer offsets: {', '.join(parts)}"] if parts else []


def _parenthesis(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""
