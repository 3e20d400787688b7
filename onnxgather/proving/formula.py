"""DirectML's formulas, from Microsoft's pages: where each element of OutputTensor comes from.

The formulas share nothing with `reference` and `gather`, so that certificates see their
mistakes. Under the policy "directml" they say what DirectML.dll 1.15.4 was measured to
do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from onnxgather.core.descriptors.operators import (
    Descriptor,
    GatherDesc,
    GatherElementsDesc,
)
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.options import OutOfRange, Target
from onnxgather.proving import terms
from onnxgather.proving.terms import Int, Truth

_INDICES = "IndicesTensor"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an element of OutputTensor comes from."""

    is_input: Truth
    """Whether it is an element of InputTensor's array; else it is 0."""
    position: Int
    """The position of that element in the array, in elements."""
    outside: Truth
    """Whether an index that leads to it is out of range."""


@dataclass(frozen=True, slots=True)
class GatherFormula:
    """The formula of a descriptor."""

    desc: Descriptor
    policy: OutOfRange
    index: Callable[[Int], Int]
    """The element of IndicesTensor's buffer at a position."""

    def source(self, coordinates: Sequence[Int]) -> Provenance:
        """Where the element of OutputTensor at some coordinates comes from."""
        tensor = self.desc.input_tensor
        read_at = [*self._coordinates(coordinates)]
        outside = terms.any_of(
            *(self._is_outside(k, at) for at, k in read_at if k is not None)
        )
        if self.policy == "directml":
            position = self._measured(read_at)
        else:
            limited = [self._limited(at, k) for at, k in read_at]
            position = terms.weighted(zip(limited, tensor.element_strides, strict=True))
        is_input = position < math.prod(tensor.array_shape)
        if self.policy == "zero":
            is_input = terms.no(outside)
        return Provenance(is_input, position, outside)

    def is_outside(self, coordinates: Sequence[Int]) -> Truth:
        """Whether the element of IndicesTensor at some coordinates is out of range."""
        desc, index, number = self.desc, self._index(coordinates), coordinates[-1]
        if isinstance(desc, GatherDesc | GatherElementsDesc):
            return self._is_outside(desc.axis, index)
        first = (
            desc.input_tensor.dimension_count
            - desc.input_dimension_count
            + desc.batches
        )
        each = enumerate(
            self._is_outside(first + k, index) for k in range(desc.tuple_size)
        )
        return terms.any_of(
            *(terms.all_of(terms.is_equal(number, k), o) for k, o in each)
        )

    def _is_outside(self, dimension: int, index: Int) -> Truth:
        size = self.desc.input_tensor.sizes[dimension]
        return terms.any_of(index < -size, size - 1 < index)

    def _limited(self, at: Int, dimension: int | None) -> Int:
        """A coordinate; an index counts from the end where negative, and stays in its axis."""
        if dimension is None:
            return at
        size = self.desc.input_tensor.sizes[dimension]
        counted = terms.choose(at < 0, at + size, at)
        return terms.larger_of(0, terms.smaller_of(counted, size - 1))

    def _index(self, coordinates: Sequence[Int]) -> Int:
        strides = self.desc.indices_tensor.element_strides
        return self.index(terms.weighted(zip(coordinates, strides, strict=True)))

    def _coordinates(self, output: Sequence[Int]) -> Iterator[tuple[Int, int | None]]:
        """Yield the coordinates in InputTensor, of indices with the number of the dimension."""
        desc = self.desc
        count = desc.input_tensor.dimension_count
        if isinstance(desc, GatherElementsDesc):
            # OutputTensor[x, y, z] = InputTensor[x, IndicesTensor[x, y, z], z], for
            # Axis 1.
            for k in range(count):
                yield (self._index(output), k) if k == desc.axis else (output[k], None)
        elif isinstance(desc, GatherDesc):
            # The sizes of OutputTensor are those of InputTensor, with the last
            # IndexDimensions of IndicesTensor in the place of Axis; leading ones are
            # dropped or added.
            kept = desc.index_dimensions
            whole = [*[0] * (kept - 1), *output[int(kept == 0) :]]
            chosen = [0] * (count - kept) + whole[desc.axis : desc.axis + kept]
            for k in range(count):
                if k == desc.axis:
                    yield self._index(chosen), k
                else:
                    yield whole[k if k < desc.axis else k + kept - 1], None
        else:
            # Batches, then the sizes of IndicesTensor but the last, then what the tuple
            # leaves.
            length = desc.tuple_size
            tuples = desc.indices_dimension_count - 1
            after = desc.input_dimension_count - desc.batches - length
            own = output[count - tuples - after :]
            ignored = count - desc.input_dimension_count
            chosen = [0] * (count - tuples - 1) + [*own[:tuples]]
            yield from [(0, None)] * ignored
            yield from ((own[k], None) for k in range(desc.batches))
            for k in range(length):
                yield self._index([*chosen, k]), ignored + desc.batches + k
            yield from ((at, None) for at in own[tuples:])

    def _measured(self, read_at: Sequence[tuple[Int, int | None]]) -> Int:
        """The position that DirectML.dll reads: an offset modulo 2^32, at most the last one."""
        desc, tensor = self.desc, self.desc.input_tensor
        strides = tensor.element_strides
        if isinstance(desc, GatherElementsDesc):
            strides = [
                0 if n == 1 else s for n, s in zip(tensor.sizes, strides, strict=True)
            ]
        words = [self._word(at, k) for at, k in read_at]
        offset = terms.weighted(zip(words, strides, strict=True)) % (2**32)
        return terms.smaller_of(offset, tensor.reachable_count - 1)

    def _word(self, at: Int, dimension: int | None) -> Int:
        """The low 32 bits of an index, with the size of the axis added where it is negative."""
        if dimension is None:
            return at
        if self.desc.indices_tensor.data_type == "UINT64":
            at = terms.in_twos_complement(at, -(2**63), 2**63 - 1)
        size = self.desc.input_tensor.sizes[dimension]
        return terms.choose(at < 0, at % (2**32) + size, at % (2**32))


def formula_of(
    desc: Descriptor, policy: OutOfRange, target: Target = "portable"
) -> tuple[GatherFormula, tuple[str, ...]]:
    """The formula of a descriptor for any indices, and what a target needs of them.

    Of the preconditions the formula knows the first one under the policy "error"; the
    others are those of WebGPU's provider itself.
    """
    indices, needed = desc.indices_tensor, list[str]()
    index = index_reader(indices)
    if target == "webgpu" and policy == "error":
        if indices.data_type != "INT32":
            low, high = -(2**31), 2**31 - 65
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
    """The elements of IndicesTensor, of which nothing is known but data type and bounds."""
    info = np.iinfo(tensor.data_type.numpy)
    low, high = max(low, int(info.min)), min(high, int(info.max))
    return lambda position: terms.read(_INDICES, position, low, high)
