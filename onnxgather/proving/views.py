"""Lazy tensors made of the elements of others: moved, broadcast, computed of each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from onnxgather.proving import tensors, terms
from onnxgather.proving.tensors import Item, LazyTensor, Place, ensure, lazy
from onnxgather.proving.terms import Int, Term


def viewed(
    tensor: LazyTensor, shape: Sequence[Int], source: Callable[[Place], Place]
) -> LazyTensor:
    """Return a tensor whose elements are those of another tensor at `source`."""
    return lazy(tensor.dtype, shape, lambda place: tensor.at(source(place)))


def expanded(tensor: LazyTensor, shape: Sequence[Int]) -> LazyTensor:
    """Return a tensor in a shape that it broadcasts to."""
    first = len(shape) - len(tensor.shape)

    def source(place: Place) -> Place:
        pairs = zip(tensor.shape, place[first:], strict=True)
        return tuple(0 if size == 1 else at for size, at in pairs)

    return viewed(tensor, shape, source)


def common_shape(shapes: Sequence[Sequence[Int]]) -> list[Int]:
    """Return the shape that several shapes broadcast to."""
    common: list[Int] = []
    backwards = [shape[::-1] for shape in shapes]
    for sizes in itertools.zip_longest(*backwards, fillvalue=1):
        larger = [size for size in sizes if size != 1]
        common_size = larger[0] if larger else 1
        is_common = all(size - common_size == 0 for size in larger)
        ensure(is_common, "sizes that do not broadcast")
        common.insert(0, common_size)
    return common


def elementwise(
    dtype: Any, compute: Callable[..., Item], inputs: Sequence[LazyTensor]
) -> LazyTensor:
    """Return what is computed of the elements of tensors that broadcast."""
    shape = common_shape([tensor.shape for tensor in inputs])
    alike = [expanded(tensor, shape) for tensor in inputs]

    def element(place: Place) -> Item:
        return compute(*(tensor.at(place) for tensor in alike))

    return lazy(dtype, shape, element)


def reshaped(tensor: LazyTensor, shape: Sequence[int]) -> LazyTensor:
    """Return a tensor in a shape with as many elements."""
    sizes = tensor.sizes
    is_usual = math.prod(shape) == math.prod(sizes)
    ensure(is_usual, f"a Reshape of {[*sizes]} to {[*shape]}")
    larger_before = [size for size in sizes if size != 1]
    larger_after = [size for size in shape if size != 1]

    def source(place: Place) -> Place:
        # Case 1: an element keeps only its number.
        if larger_after != larger_before:
            return tensors.unflat(tensors.flat(place, shape), sizes)
        # Case 2: only dimensions of size 1 come or go. A coordinate that is passed on
        # is simpler than a quotient and a remainder.
        pairs = zip(place, shape, strict=True)
        kept = iter([at for at, size in pairs if size != 1])
        return tuple([0 if size == 1 else next(kept) for size in sizes])

    return viewed(tensor, shape, source)


def concatenated(parts: Sequence[LazyTensor], axis: int) -> LazyTensor:
    """Return tensors one after the other."""
    first = parts[0]
    axis = axis_of(axis, len(first.shape))
    kinds = {(part.dtype, len(part.shape), instead(part.shape, axis)) for part in parts}
    ensure(len(kinds) == 1, "tensors of other sizes or types one after the other")

    def element(place: Place, number: int = 0) -> Item:
        """Return an element, whose place counts from the start of the numbered part."""
        while True:
            part = parts[number]
            size = part.shape[axis]
            is_last = number == len(parts) - 1
            is_here = is_last or place[axis] < size
            if is_here is True:
                return part.at(place)
            later = instead(place, axis, place[axis] - size)
            if is_here is not False:  # a truth that is not known
                here = part.at(place)
                behind = element(later, number + 1)
                return tensors.chosen(is_here, here, behind, first.dtype)
            place = later
            number += 1

    whole = sum(part.shape[axis] for part in parts)
    return lazy(first.dtype, instead(first.shape, axis, whole), element)


def wrapped_integer(value: Int, dtype: np.dtype[Any]) -> Int:
    """Return an integer in the two's complement of a data type."""
    info = np.iinfo(dtype)
    return terms.in_twos_complement(value, int(info.min), int(info.max))


def product(first: Int, second: Int) -> Int:
    """Return the product of two integers, of which at least one is a constant."""
    if isinstance(first, Term):
        return first * tensors.known_integer(second, "a factor")
    return second * tensors.known_integer(first, "a factor")


def instead(place: Place, axis: int, *new: Int) -> Place:
    """Return coordinates with others in the place of one coordinate."""
    return (*place[:axis], *new, *place[axis + 1 :])


def axis_of(number: int, rank: int) -> int:
    """Return the number of an axis counted from the first."""
    ensure(-rank <= number < rank, f"the axis {number} of {rank} dimensions")
    return number % rank
