"""DirectML's formulas: where each element of OutputTensor comes from.

They are written from Microsoft's pages, and share nothing with `reference` and
`gather`, so that certificates see the mistakes of both. Under the policy "directml"
they say what DirectML.dll 1.15.4 was measured to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
    GatherND1Desc,
    GatherNDDesc,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.options import OutOfRange, ProvedTarget
from onnxgather.proving import terms
from onnxgather.proving.terms import Int, Truth

_INDICES = "IndicesTensor"

ReadAt = Sequence[tuple[Int, int | None]]
"""The coordinates in InputTensor; an index comes with the number of its dimension."""


class Provenance(Struct, frozen=True):
    """Where an element of OutputTensor comes from."""

    is_input: Truth
    """Whether it is an element of InputTensor's array; else it is 0."""
    position: Int
    """The position of that element in the array, in elements."""
    outside: Truth
    """Whether an index that leads to it is out of range."""


class GatherFormula(Struct, frozen=True):
    """The formula of a descriptor."""

    desc: Descriptor
    policy: OutOfRange
    index: Callable[[Int], Int]
    """The element of IndicesTensor's buffer at a position."""

    def source(self, coordinates: Sequence[Int]) -> Provenance:
        """Return where the element of OutputTensor at some coordinates comes from."""
        tensor = self.desc.input_tensor
        read_at = self._read_at(coordinates)
        are_outside: list[Truth] = []
        for at, dimension in read_at:
            if dimension is not None:
                are_outside.append(self._is_outside(dimension, at))
        outside = terms.any_of(*are_outside)
        if self.policy == "directml":
            position = self._measured(read_at)
        else:
            limited = [self._limited(at, dimension) for at, dimension in read_at]
            position = terms.weighted(zip(limited, tensor.element_strides, strict=True))
        is_input = position < math.prod(tensor.array_shape)
        if self.policy == "zero":
            is_input = terms.no(outside)
        return Provenance(is_input, position, outside)

    def is_outside(self, coordinates: Sequence[Int]) -> Truth:
        """Return whether an element of IndicesTensor is out of range."""
        desc = self.desc
        index = self._index(coordinates)
        if isinstance(desc, GatherDesc | GatherElementsDesc):
            return self._is_outside(desc.axis, index)
        # The last coordinate says which dimension an index is for.
        last = coordinates[-1]
        padding = desc.input_tensor.dimension_count - desc.input_dimension_count
        first_dimension = padding + desc.batches
        are_outside: list[Truth] = []
        for number in range(desc.tuple_size):
            is_outside = self._is_outside(first_dimension + number, index)
            is_here = terms.is_equal(last, number)
            are_outside.append(terms.all_of(is_here, is_outside))
        return terms.any_of(*are_outside)

    def _is_outside(self, dimension: int, index: Int) -> Truth:
        """Return whether an index is out of the range of a dimension."""
        size = self.desc.input_tensor.sizes[dimension]
        return terms.any_of(index < -size, size - 1 < index)

    def _limited(self, at: Int, dimension: int | None) -> Int:
        """Return a coordinate of InputTensor.

        An index counts from the end where negative, and stays in its axis.
        """
        if dimension is None:
            return at
        size = self.desc.input_tensor.sizes[dimension]
        counted = terms.choose(at < 0, at + size, at)
        return terms.larger_of(0, terms.smaller_of(counted, size - 1))

    def _index(self, coordinates: Sequence[Int]) -> Int:
        """Return the element of IndicesTensor at some coordinates."""
        strides = self.desc.indices_tensor.element_strides
        return self.index(terms.weighted(zip(coordinates, strides, strict=True)))

    def _read_at(self, output: Sequence[Int]) -> ReadAt:
        """Return the coordinates in InputTensor for those in OutputTensor."""
        if isinstance(self.desc, GatherDesc):
            return self._gather(self.desc, output)
        if isinstance(self.desc, GatherElementsDesc):
            return self._gather_elements(self.desc, output)
        return self._gather_nd(self.desc, output)

    def _gather_elements(
        self, desc: GatherElementsDesc, output: Sequence[Int]
    ) -> ReadAt:
        # OutputTensor[x, y, z] = InputTensor[x, IndicesTensor[x, y, z], z], for Axis 1.
        read_at: list[tuple[Int, int | None]] = [(at, None) for at in output]
        read_at[desc.axis] = (self._index(output), desc.axis)
        return read_at

    def _gather(self, desc: GatherDesc, output: Sequence[Int]) -> ReadAt:
        # The sizes of OutputTensor are those of InputTensor, with the last
        # IndexDimensions of IndicesTensor in the place of Axis; leading ones are
        # dropped or added.
        count = desc.input_tensor.dimension_count
        kept = desc.index_dimensions
        added = [0] * (kept - 1)
        dropped = 1 if kept == 0 else 0
        whole = [*added, *output[dropped:]]
        after = desc.axis + kept
        index_at = [0] * (count - kept) + whole[desc.axis : after]
        read_at: list[tuple[Int, int | None]] = []
        read_at.extend((at, None) for at in whole[: desc.axis])
        read_at.append((self._index(index_at), desc.axis))
        read_at.extend((at, None) for at in whole[after:])
        return read_at

    def _gather_nd(
        self, desc: GatherNDDesc | GatherND1Desc, output: Sequence[Int]
    ) -> ReadAt:
        # Batches, then the sizes of IndicesTensor but the last, then what the tuple
        # leaves.
        count = desc.input_tensor.dimension_count
        tuples = desc.indices_dimension_count - 1
        after = desc.input_dimension_count - desc.batches - desc.tuple_size
        significant = output[count - tuples - after :]
        padding = count - desc.input_dimension_count
        tuple_at = [0] * (count - tuples - 1) + [*significant[:tuples]]
        read_at: list[tuple[Int, int | None]] = [(0, None)] * padding
        read_at.extend((at, None) for at in significant[: desc.batches])
        for number in range(desc.tuple_size):
            index = self._index([*tuple_at, number])
            read_at.append((index, padding + desc.batches + number))
        read_at.extend((at, None) for at in significant[tuples:])
        return read_at

    def _measured(self, read_at: ReadAt) -> Int:
        """Return the position that DirectML.dll 1.15.4 reads.

        It is an offset modulo 2^32, at most the last position.
        """
        tensor = self.desc.input_tensor
        strides = tensor.element_strides
        if isinstance(self.desc, GatherElementsDesc):
            # Here a dimension of size 1 adds nothing to the offset.
            pairs = zip(tensor.sizes, strides, strict=True)
            strides = [0 if size == 1 else stride for size, stride in pairs]
        words = [self._word(at, dimension) for at, dimension in read_at]
        offset = terms.weighted(zip(words, strides, strict=True)) % (2**32)
        return terms.smaller_of(offset, tensor.reachable_count - 1)

    def _word(self, at: Int, dimension: int | None) -> Int:
        """Return the low 32 bits of an index.

        The size of the axis is added where the index is negative.
        """
        if dimension is None:
            return at
        if self.desc.indices_tensor.data_type == "UINT64":
            at = terms.in_twos_complement(at, -(2**63), 2**63 - 1)
        size = self.desc.input_tensor.sizes[dimension]
        is_negative = at < 0
        word = at % (2**32)
        return terms.choose(is_negative, word + size, word)


def formula_of(
    desc: Descriptor, policy: OutOfRange, target: ProvedTarget = "portable"
) -> tuple[GatherFormula, tuple[str, ...]]:
    """Return the formula of a descriptor, and what a target needs of the indices.

    Of the preconditions the formula knows the first one under the policy "error"; the
    others are those of WebGPU's provider itself.
    """
    indices = desc.indices_tensor
    index = index_reader(indices)
    needed: list[str] = []
    if target == "webgpu" and policy == "error":
        if indices.data_type != "INT32":
            low = -(2**31)
            high = 2**31 - 65
            index = index_reader(indices, low, high)
            needed.append(
                f"each index is from {low:,} to {high:,}, so FLOAT32 of it fits INT32"
            )
        needed.append(
            "no index is out of range on WebGPU's provider, which does not check it"
        )
    elif target == "webgpu" and indices.data_type == "INT64":
        needed.append(
            "each index fits INT32 on WebGPU's provider, which reads the low half"
        )
    return GatherFormula(desc, policy, index), tuple(needed)


def index_reader(
    tensor: TensorDesc, low: int = -(2**64), high: int = 2**64
) -> Callable[[Int], Int]:
    """Return the elements of IndicesTensor by their positions.

    Nothing is known of them but their data type and bounds.
    """
    info = np.iinfo(tensor.data_type.numpy)
    lowest = max(low, int(info.min))
    highest = min(high, int(info.max))
    return lambda position: terms.read(_INDICES, position, lowest, highest)
