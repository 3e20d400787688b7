"""The values of a model as lazy tensors: each element is made when it is asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from onnxgather.certificates.terms import (
    Int,
    Term,
    Truth,
    choose,
    choose_truth,
    weighted,
)
from onnxgather.descriptors.arrays import Array
from onnxgather.networks.network import Operation, Scope

MOST_ELEMENTS = 4096
"""The most elements that are looked at one by one."""


class UndecidedError(Exception):
    """What stops a certificate, as a sentence without a full stop."""


@dataclass(frozen=True, slots=True)
class Moved:
    """An element that came from InputTensor, or a constant beside such elements."""

    is_input: Truth
    position: Int
    """The position in InputTensor's array, in elements."""
    bits: Int
    """Where it is not from InputTensor: its bits as an unsigned integer."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """The float that is nearest to an integer, an even one where two are as near."""

    value: Int


Item = Int | Truth | Rounded | Moved
Place = tuple[Int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class LazyTensor:
    """A value of a model."""

    dtype: np.dtype[Any]
    shape: tuple[Int, ...]
    at: Callable[[Place], Item]
    """The element at some coordinates, which are in range where the model does not fail."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape.

        Raises:
            UndecidedError: A size is not known.
        """
        return tuple(known_integer(size, "a size") for size in self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def coordinates(self) -> itertools.product[tuple[int, ...]]:
        """The coordinates of all elements, in their order.

        Raises:
            UndecidedError: There are too many.
        """
        if self.size > MOST_ELEMENTS:
            raise UndecidedError(f"a constant has more than {MOST_ELEMENTS:,} elements")
        return itertools.product(*map(range, self.sizes))

    def numbers(self) -> list[int]:
        """The elements, which must be integers that are known, in their order."""
        return [known_integer(self.at(at), "an element") for at in self.coordinates()]


def lazy(dtype: Any, shape: Sequence[Int], at: Callable[[Place], Item]) -> LazyTensor:
    """A tensor that makes each element once."""
    return LazyTensor(np.dtype(dtype), tuple(shape), cache(at))


def known_integer(value: object, what: str) -> int:
    """An integer, which must be known."""
    if isinstance(value, Term) or not isinstance(value, int):
        raise UndecidedError(f"{what} that the model computes must be a constant")
    return int(value)


def constant_tensor(array: Array) -> LazyTensor:
    """An initializer."""
    if array.dtype.kind not in "iufb":
        raise UndecidedError(f"a constant has the type {array.dtype}")

    def at(coordinates: Place) -> Item:
        return _looked_up(array, coordinates)

    return lazy(array.dtype, array.shape, at)


def _looked_up(array: Array, coordinates: Place) -> Item:
    """The element of an array at coordinates that need not be known."""
    for axis, at in enumerate(coordinates):
        if not isinstance(at, Term):
            part = array.take(max(0, min(at, array.shape[axis] - 1)), axis)
            return _looked_up(part, coordinates[:axis] + coordinates[axis + 1 :])
    if not coordinates:
        return _element(array)
    steps = _steps(array)
    if steps is not None:
        base, *factors = steps
        value = base + weighted(zip(coordinates, factors, strict=True))
        return Rounded(value) if array.dtype.kind == "f" else value
    if array.size > MOST_ELEMENTS:
        raise UndecidedError(f"a constant without a pattern has {array.size:,} elements")
    if len(array) == 1:
        return _looked_up(array[0], coordinates[1:])
    middle = len(array) // 2
    first, second = _looked_up(array[:middle], coordinates), None
    shifted = (coordinates[0] + -middle, *coordinates[1:])
    second = _looked_up(array[middle:], shifted)
    return chosen(coordinates[0] < middle, first, second, array.dtype)


def _steps(array: Array) -> list[int] | None:
    """The first element and the step of each dimension, where all elements follow from them."""
    if array.dtype.kind == "b" or array.size == 0:
        return None
    first = array.reshape(-1)[0]
    if array.dtype.kind == "f" and not np.array_equal(array, np.trunc(array)):
        return None
    if array.dtype.kind == "f" and (np.signbit(array) & (array == 0)).any():
        return None
    ends = [
        array[(0,) * k + (min(1, n - 1),) + (0,) * (array.ndim - k - 1)]
        for k, n in enumerate(array.shape)
    ]
    steps = [int(end) - int(first) for end in ends]
    if max(map(abs, steps), default=0) * array.size >= 2**62 or abs(int(first)) >= 2**62:
        return [int(first), *steps] if not any(steps) and (array == first).all() else None
    wanted = np.full(array.shape, int(first), np.int64)
    for step, along in zip(steps, np.indices(array.shape, np.int64, sparse=True), strict=True):
        wanted += step * along
    return [int(first), *steps] if np.array_equal(wanted, array) else None


def _element(value: Array) -> Item:
    if value.dtype.kind == "f":
        if (
            np.isfinite(value)
            and value == np.trunc(value)
            and not (value == 0 and np.signbit(value))
        ):
            return Rounded(int(value))
        return Moved(False, 0, int(value.view(f"u{value.itemsize}")))
    return bool(value) if value.dtype.kind == "b" else int(value)


def moved(element: Item, dtype: np.dtype[Any]) -> Moved:
    """An element beside elements of InputTensor."""
    if isinstance(element, Moved):
        return element
    value = element.value if isinstance(element, Rounded) else element
    number = known_integer(value, "a number beside data")
    array = np.array(number).astype(dtype) if dtype.kind == "f" else np.array(number, dtype)
    return Moved(False, 0, int(array.view(f"u{dtype.itemsize}")))


def chosen(truth: Truth, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    """The first element where a truth holds, else the second."""
    if not isinstance(truth, Term):
        return first if truth else second
    if isinstance(first, Moved) or isinstance(second, Moved):
        a, b = moved(first, dtype), moved(second, dtype)
        # What does not count is left out, so that less is asked of a solver.
        position = b.position if a.is_input is False else a.position
        if a.is_input is not False and b.is_input is not False:
            position = choose(truth, a.position, b.position)
        bits = b.bits if a.is_input is True else a.bits
        if a.is_input is not True and b.is_input is not True:
            bits = choose(truth, a.bits, b.bits)
        return Moved(choose_truth(truth, a.is_input, b.is_input), position, bits)
    if isinstance(first, Rounded) and isinstance(second, Rounded):
        return Rounded(choose(truth, first.value, second.value))
    assert not isinstance(first, Rounded)
    assert not isinstance(second, Rounded)
    if dtype.kind == "b":
        return choose_truth(truth, first, second)
    return choose(truth, first, second)


def flat(coordinates: Sequence[Int], shape: Sequence[Int]) -> Int:
    """The number of an element in its tensor."""
    number: Int = 0
    for at, size in zip(coordinates, shape, strict=True):
        number = number * size + at
    return number


def unflat(number: Int, sizes: Sequence[int]) -> Place:
    """The coordinates of the element with a number."""
    found = list[Int]()
    for size in reversed(sizes[1:]):
        found.append(number % size)
        number = number // size
    return (*([number] if sizes else []), *reversed(found))


@dataclass(frozen=True, slots=True)
class Failure:
    """Where an operator makes the model fail: at coordinates where a truth holds."""

    shape: tuple[Int, ...]
    truth: Callable[[Place], Truth]


@dataclass(slots=True)
class Run:
    """What a walk through a model has met."""

    failures: list[Failure] = field(default_factory=list[Failure])
    lemmas: set[str] = field(default_factory=set[str])
    low_halves: bool = False
    """Whether Less, Min, Max and Clip of INT64 compare the low halves, as ONNX Runtime's CPU
    provider does before version 1.32."""


@dataclass(frozen=True, slots=True)
class NodeCall:
    """A node with its inputs; an input that is left out is None."""

    operation: Operation
    inputs: tuple[LazyTensor | None, ...]
    version: int
    run: Run
    walk: Callable[[Scope, Sequence[LazyTensor], Run], list[LazyTensor]]
    """Walks through a body of the node."""

    def __getitem__(self, number: int) -> LazyTensor:
        """An input that must be there."""
        found = self.get(number)
        if found is None:
            raise UndecidedError(f"{self.operation.operator} needs more inputs")
        return found

    def get(self, number: int) -> LazyTensor | None:
        """An input, or None."""
        return self.inputs[number] if number < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.operation.attributes.get(name, default)

    def numbers(self, number: int, name: str) -> list[int] | None:
        """The integers of an input, or of the attribute that older versions have in its place."""
        if self.get(number) is not None:
            return self[number].numbers()
        own = self.attribute(name)
        return None if own is None else [int(one) for one in own]

    def fails(self, shape: Sequence[Int], truth: Callable[[Place], Truth]) -> None:
        """Take down where the node makes the model fail."""
        self.run.failures.append(Failure(tuple(shape), truth))
