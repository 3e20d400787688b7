"""The values of a model as lazy tensors: an element is made when it is needed."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation, Scope
from onnxgather.core.model.quirks import Quirk
from onnxgather.proving import terms
from onnxgather.proving.terms import Int, Term, Truth

MOST_ELEMENTS = 4096
"""The most elements that are looked at one by one."""


class UndecidedError(Exception):
    """What stops a certificate, as a sentence without a full stop."""


def ensure(holds: object, otherwise: str) -> None:
    """Go on only where something holds.

    Raises:
        UndecidedError: It does not hold; the error says otherwise.
    """
    if not holds:
        raise UndecidedError(otherwise)


class Moved(Struct, frozen=True):
    """An element that came from InputTensor, or a constant beside such elements."""

    is_input: Truth
    position: Int
    """The position in InputTensor's array, in elements."""
    bits: Int
    """Where it is not from InputTensor: its bits as an unsigned integer."""


class Rounded(Struct, frozen=True):
    """The float that is nearest to an integer, the even float where two are as near."""

    value: Int


Item = Int | Truth | Rounded | Moved
"""An element."""

Place = tuple[Int, ...]
"""The coordinates of an element."""


class LazyTensor(Struct, frozen=True, eq=False):
    """A value of a model."""

    dtype: np.dtype[Any]
    shape: tuple[Int, ...]
    at: Callable[[Place], Item]
    """The element at some coordinates, which are in range where the model does not
    fail."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the shape.

        Raises:
            UndecidedError: A size is not known.
        """
        return tuple(known_integer(size, "a size") for size in self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.sizes)

    def coordinates(self) -> itertools.product[tuple[int, ...]]:
        """Return the coordinates of all elements, in their order.

        Raises:
            UndecidedError: There are too many.
        """
        rule = f"a constant of more than {MOST_ELEMENTS:,} elements"
        ensure(self.size <= MOST_ELEMENTS, rule)
        return itertools.product(*map(range, self.sizes))

    def numbers(self) -> list[int]:
        """Return the elements in their order, which must be known integers."""
        places = self.coordinates()
        return [known_integer(self.at(place), "an element") for place in places]


def lazy(dtype: Any, shape: Sequence[Int], at: Callable[[Place], Item]) -> LazyTensor:
    """Return a tensor that makes each element once."""
    return LazyTensor(np.dtype(dtype), tuple(shape), cache(at))


def known_integer(value: object, what: str) -> int:
    """Return an integer, which must be known.

    Raises:
        UndecidedError: It is not.
    """
    if isinstance(value, Term) or not isinstance(value, int):
        raise UndecidedError(f"{what} that the model computes must be a constant")
    return int(value)


def is_known(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of a data type have a meaning here."""
    return dtype.kind in "iufb" and dtype.isbuiltin == 1


def constant_tensor(array: Array) -> LazyTensor:
    """Return the tensor of an initializer."""
    ensure(is_known(array.dtype), f"a constant has the type {array.dtype}")
    return lazy(array.dtype, array.shape, lambda place: _looked_up(array, place))


def _looked_up(array: Array, place: Sequence[Int]) -> Item:
    """Return the element of an array at coordinates that need not be known."""
    ensure(array.size, "an element of an empty constant")
    selection: list[int | slice] = []
    unknown: list[Int] = []
    for at, size in zip(place, array.shape, strict=True):
        if isinstance(at, Term):
            selection.append(slice(None))
            unknown.append(at)
        else:
            selection.append(max(0, min(at, size - 1)))
    part = array[tuple(selection)]
    if not unknown:
        return _element(part)

    # Case 1: all elements follow from the coordinates, as those of an arange do.
    steps = _steps(part)
    if steps is not None:
        base, *factors = steps
        value = base + terms.weighted(zip(unknown, factors, strict=True))
        return Rounded(value) if part.dtype.kind == "f" else value

    # Case 2: the array is halved until they do.
    rule = f"a constant without a pattern has {part.size:,} elements"
    ensure(part.size <= MOST_ELEMENTS, rule)
    first_at, *others = unknown
    if len(part) == 1:
        return _looked_up(part[0], others)
    middle = len(part) // 2
    second = _looked_up(part[middle:], [first_at - middle, *others])
    is_first = first_at < middle
    first = _looked_up(part[:middle], unknown)
    return chosen(is_first, first, second, part.dtype)


def _steps(array: Array) -> list[int] | None:
    """Return the first element, then the step of each dimension.

    None if not all elements follow from them.
    """
    first = array.flat[0]
    if array.dtype.kind == "b" or not isinstance(_element(first), int | Rounded):
        return None
    base = int(first)
    is_constant = (array == first).all()
    if is_constant and not np.signbit(array[array == 0]).any():
        return [base] + [0] * array.ndim
    with np.errstate(all="ignore"):
        exact = array.astype(np.int64)
        is_same = np.array_equal(exact.astype(array.dtype), array)
    if not is_same or not np.array_equal(np.signbit(array), exact < 0):
        # INT64 does not hold all values: they come back as others, or change signs.
        return None

    steps: list[int] = []
    for axis, size in enumerate(array.shape):
        second_place = [0] * array.ndim
        second_place[axis] = min(1, size - 1)
        steps.append(int(exact[tuple(second_place)]) - base)
    longest = max(map(abs, steps), default=0)
    if longest * array.size >= 2**62 or abs(base) >= 2**62:  # INT64 may overflow below
        return None
    positions = np.indices(array.shape, np.int64, sparse=True)
    for step, along in zip(steps, positions, strict=True):
        exact = exact - step * along
    return [base, *steps] if (exact == base).all() else None


def _element(value: Any) -> Item:
    """Return the element that a scalar of numpy is."""
    number = value.item()
    if value.dtype.kind != "f":
        return number
    is_whole = value == np.trunc(value) and np.isfinite(value)
    is_negative_zero = number == 0 and np.signbit(value)
    if is_whole and not is_negative_zero:
        return Rounded(int(number))
    return Moved(False, 0, int.from_bytes(value.tobytes(), sys.byteorder))


def moved(element: Item, dtype: np.dtype[Any]) -> Moved:
    """Return an element beside elements of InputTensor."""
    if isinstance(element, Moved):
        return element
    value = element.value if isinstance(element, Rounded) else element
    number = known_integer(value, "a number beside data")
    if dtype.kind == "f":
        array = np.array(number).astype(dtype)
    else:
        array = np.array(number, dtype)
    return Moved(False, 0, int(array.view(f"u{dtype.itemsize}")))


def unrounded(item: Item) -> Int:
    """Return the integer or the truth that an element is, or whose float it is.

    Raises:
        UndecidedError: It is an element of InputTensor.
    """
    if isinstance(item, Moved):
        raise UndecidedError("arithmetic with the elements of InputTensor")
    return item.value if isinstance(item, Rounded) else item


def chosen(truth: Truth, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    """Return the first element where a truth holds, else the second."""
    if not isinstance(truth, Term):
        return first if truth else second
    if isinstance(first, Moved) or isinstance(second, Moved):
        return _chosen_moved(truth, moved(first, dtype), moved(second, dtype))
    if isinstance(first, Rounded) and isinstance(second, Rounded):
        return Rounded(terms.choose(truth, first.value, second.value))
    assert not isinstance(first, Rounded)
    assert not isinstance(second, Rounded)
    if dtype.kind == "b":
        return terms.choose_truth(truth, first, second)
    return terms.choose(truth, first, second)


def _chosen_moved(truth: Term, first: Moved, second: Moved) -> Moved:
    """Return the first element where a truth holds, else the second.

    What does not count is left out, so that a solver has less to solve.
    """
    if first.is_input is False:  # it has no position
        position = second.position
    elif second.is_input is False:
        position = first.position
    else:
        position = terms.choose(truth, first.position, second.position)
    if first.is_input is True:  # it has no bits of its own
        bits = second.bits
    elif second.is_input is True:
        bits = first.bits
    else:
        bits = terms.choose(truth, first.bits, second.bits)
    is_input = terms.choose_truth(truth, first.is_input, second.is_input)
    return Moved(is_input, position, bits)


def flat(place: Sequence[Int], shape: Sequence[int]) -> Int:
    """Return the number of an element in its tensor."""
    number: Int = 0
    for at, size in zip(place, shape, strict=True):
        number = number * size + at
    return number


def unflat(number: Int, sizes: Sequence[int]) -> Place:
    """Return the coordinates of the element with a number."""
    backwards: list[Int] = []
    for size in reversed(sizes[1:]):
        backwards.append(number % size)
        number = number // size
    if sizes:
        backwards.append(number)
    return tuple(reversed(backwards))


class Failure(NamedTuple):
    """Where a node of a model fails."""

    truths: LazyTensor
    """The node fails where an element of them holds."""
    is_certain: bool
    """Whether the model then fails at each level of optimization: not where ONNX
    Runtime may drop the node."""


class Run(Struct):
    """What a walk through a model has met."""

    failures: list[Failure] = []
    lemmas: set[str] = set()
    quirks: set[Quirk] = set()
    """The quirks of only older versions of ONNX Runtime that the model meets."""
    names: dict[str, Int] = {}
    """The sizes by the names that the model declares for them: ONNX Runtime believes
    that two of one name are one size."""
    low_halves: bool = False
    """Whether the quirk `LOW_HALVES_AS_SIGNED` is shown."""


class NodeCall(Struct, frozen=True):
    """A node with its inputs; an input that is left out is None."""

    operation: Operation
    inputs: tuple[LazyTensor | None, ...]
    version: int
    run: Run
    reaches_output: bool
    """Whether the elements of an output of the model are computed from its elements."""
    walk: Callable[[Scope, Sequence[LazyTensor], Run], list[LazyTensor]]
    """Walks through a body of the node."""

    def __getitem__(self, number: int) -> LazyTensor:
        """Return an input that must be there."""
        tensor = self.get(number)
        ensure(tensor, f"{self.operation.operator} needs more inputs")
        assert tensor
        return tensor

    @property
    def tensors(self) -> list[LazyTensor]:
        """Return all inputs, which must be there."""
        return [self[number] for number in range(len(self.inputs))]

    def get(self, number: int) -> LazyTensor | None:
        """Return an input, or None."""
        return self.inputs[number] if number < len(self.inputs) else None

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.operation.attributes.get(name, default)

    def numbers(self, number: int, name: str) -> list[int] | None:
        """Return the integers of an input.

        Older versions of an operator have an attribute in its place.
        """
        tensor = self.get(number)
        if tensor is None:
            attribute = self.attribute(name)
            return None if attribute is None else [*attribute]
        rank = len(tensor.shape)
        rule = f"the {name} of {self.operation.operator} in {rank} dimensions"
        ensure(rank == 1, rule)
        return tensor.numbers()

    def wanted_sizes(self, number: int) -> list[int]:
        """Return the sizes that an input names."""
        sizes = self.numbers(number, "shape") or []
        rule = f"{self.operation.operator} with the sizes {sizes}"
        ensure(min(sizes, default=0) >= 0, rule)
        return sizes
