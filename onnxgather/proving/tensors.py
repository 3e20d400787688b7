"""The values of a model as lazy tensors: each element is made when it is asked for."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation, Scope
from onnxgather.proving import terms
from onnxgather.proving.terms import Int, Term, Truth

MOST_ELEMENTS = 4096
"""The most elements that are looked at one by one."""


FLAGS = ("allowzero", "fmod", "keepdims", "noop_with_empty_axes")
"""The attributes that say whether something is so; providers differ in what other
numbers mean."""


class UndecidedError(Exception):
    """What stops a certificate, as a sentence without a full stop."""


def ensure(holds: object, otherwise: str) -> None:
    """Go on only where something holds.

    Raises:
        UndecidedError: It does not hold; the error says otherwise.
    """
    if not holds:
        raise UndecidedError(otherwise)


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
    """The element at some coordinates, which are in range where the model does not
    fail."""

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
        ensure(
            self.size <= MOST_ELEMENTS,
            f"a constant of more than {MOST_ELEMENTS:,} elements",
        )
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


def is_known(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a data type have a meaning here."""
    return dtype.kind in "iufb" and dtype.isbuiltin == 1


def constant_tensor(array: Array) -> LazyTensor:
    """An initializer."""
    ensure(is_known(array.dtype), f"a constant has the type {array.dtype}")
    return lazy(array.dtype, array.shape, lambda at: _looked_up(array, at))


def _looked_up(array: Array, coordinates: Place) -> Item:
    """The element of an array at coordinates that need not be known."""
    ensure(array.size, "an element of an empty constant")
    pairs = zip(coordinates, array.shape, strict=True)
    known = [
        slice(None) if isinstance(at, Term) else max(0, min(at, n - 1))
        for at, n in pairs
    ]
    part, free = (
        array[tuple(known)],
        tuple(at for at in coordinates if isinstance(at, Term)),
    )
    if not free:
        return _element(part)
    steps = _steps(part)
    if steps is not None:
        base, *factors = steps
        value = base + terms.weighted(zip(free, factors, strict=True))
        return Rounded(value) if part.dtype.kind == "f" else value
    ensure(
        part.size <= MOST_ELEMENTS,
        f"a constant without a pattern has {part.size:,} elements",
    )
    if len(part) == 1:
        return _looked_up(part[0], free[1:])
    middle = len(part) // 2
    second = _looked_up(part[middle:], (free[0] - middle, *free[1:]))
    return chosen(free[0] < middle, _looked_up(part[:middle], free), second, part.dtype)


def _steps(array: Array) -> list[int] | None:
    """The first element and the step of each dimension, where all elements follow from them."""
    first = array.flat[0]
    if array.dtype.kind == "b" or not isinstance(_element(first), int | Rounded):
        return None
    if (array == first).all() and not np.signbit(array[array == 0]).any():
        return [int(first)] + [0] * array.ndim
    with np.errstate(all="ignore"):
        exact = array.astype(np.int64)
        is_same = np.array_equal(exact.astype(array.dtype), array)
    if not is_same or not np.array_equal(np.signbit(array), exact < 0):
        return None  # INT64 does not hold all values: they come back as others, or change signs
    ends = [
        exact[(0,) * k + (min(1, n - 1),) + (0,) * (array.ndim - k - 1)]
        for k, n in enumerate(array.shape)
    ]
    steps = [int(end) - int(first) for end in ends]
    if (
        max(map(abs, steps), default=0) * array.size >= 2**62
        or abs(int(first)) >= 2**62
    ):
        return None
    for step, along in zip(
        steps, np.indices(array.shape, np.int64, sparse=True), strict=True
    ):
        exact = exact - step * along
    return [int(first), *steps] if (exact == int(first)).all() else None


def _element(value: Any) -> Item:
    number = value.item()
    if value.dtype.kind != "f":
        return number
    if (
        value == np.trunc(value)
        and np.isfinite(value)
        and not (number == 0 and np.signbit(value))
    ):
        return Rounded(int(number))
    return Moved(False, 0, int.from_bytes(value.tobytes(), sys.byteorder))


def moved(element: Item, dtype: np.dtype[Any]) -> Moved:
    """An element beside elements of InputTensor."""
    if isinstance(element, Moved):
        return element
    value = element.value if isinstance(element, Rounded) else element
    number = known_integer(value, "a number beside data")
    array = (
        np.array(number).astype(dtype) if dtype.kind == "f" else np.array(number, dtype)
    )
    return Moved(False, 0, int(array.view(f"u{dtype.itemsize}")))


def unrounded(item: Item) -> Int:
    """The integer or the truth that an element is, or whose float it is.

    Raises:
        UndecidedError: It is an element of InputTensor.
    """
    if isinstance(item, Moved):
        raise UndecidedError("arithmetic with the elements of InputTensor")
    return item.value if isinstance(item, Rounded) else item


def chosen(truth: Truth, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    """The first element where a truth holds, else the second."""
    if not isinstance(truth, Term):
        return first if truth else second
    if isinstance(first, Moved) or isinstance(second, Moved):
        a, b = moved(first, dtype), moved(second, dtype)
        position = terms.choose(truth, a.position, b.position)
        bits = terms.choose(truth, a.bits, b.bits)
        # What does not count is left out, so that less is asked of a solver.
        if a.is_input is False or b.is_input is False:
            position = b.position if a.is_input is False else a.position
        if a.is_input is True or b.is_input is True:
            bits = b.bits if a.is_input is True else a.bits
        return Moved(terms.choose_truth(truth, a.is_input, b.is_input), position, bits)
    if isinstance(first, Rounded) and isinstance(second, Rounded):
        return Rounded(terms.choose(truth, first.value, second.value))
    assert not isinstance(first, Rounded)
    assert not isinstance(second, Rounded)
    return (terms.choose_truth if dtype.kind == "b" else terms.choose)(
        truth, first, second
    )


def flat(coordinates: Sequence[Int], shape: Sequence[int]) -> Int:
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


@dataclass(slots=True)
class Run:
    """What a walk through a model has met."""

    failures: list[LazyTensor] = field(default_factory=list[LazyTensor])
    """Truths: the model fails where an element of one of them holds."""
    lemmas: set[str] = field(default_factory=set[str])
    names: dict[str, Int] = field(default_factory=dict[str, Int])
    """The sizes by the names that the model declares for them: ONNX Runtime believes
    that two of one name are one size."""
    low_halves: bool = False
    """Whether Min, Max and Clip of INT64 compare low halves as signed integers where
    the high ones are equal, as ONNX Runtime's CPU provider does before version 1.32."""

    def ensure_declared(
        self, name: str, told: Sequence[int | str], sizes: Sequence[Int]
    ) -> None:
        """Go on only where a value has the sizes that the model declares, of each name one."""
        pairs = zip(told, sizes, strict=False)
        is_so = all(
            (
                (not size or self.names.setdefault(size, own) == own)
                if isinstance(size, str)
                else size == own
            )
            for size, own in pairs
        )
        rule = f"the value {name}, of which other sizes are declared"
        ensure(is_so and len(told) == len(sizes), rule)


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
        ensure(found, f"{self.operation.operator} needs more inputs")
        assert found
        return found

    @property
    def tensors(self) -> list[LazyTensor]:
        """All inputs, which must be there."""
        return [self[k] for k in range(len(self.inputs))]

    def get(self, number: int) -> LazyTensor | None:
        """An input, or None."""
        return self.inputs[number] if number < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute.

        Raises:
            UndecidedError: It says whether something is so, with another number than 0 or 1.
        """
        value = self.operation.attributes.get(name, default)
        ensure(
            name not in FLAGS or value in (0, 1), f"the attribute {name} must be 0 or 1"
        )
        return value

    def numbers(self, number: int, name: str) -> list[int] | None:
        """The integers of an input, or of the attribute that older versions have in its place."""
        given = self.get(number)
        if given is None:
            own = self.attribute(name)
            return None if own is None else [*own]
        rank = len(given.shape)
        ensure(
            rank == 1, f"the {name} of {self.operation.operator} in {rank} dimensions"
        )
        return given.numbers()

    def wanted_sizes(self, number: int) -> list[int]:
        """The sizes that an input names."""
        sizes = self.numbers(number, "shape") or []
        ensure(
            min(sizes, default=0) >= 0,
            f"{self.operation.operator} with the sizes {sizes}",
        )
        return sizes
