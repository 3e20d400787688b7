"""Sets of inputs of a model that meet its contract: random ones, and ones at its ends.

A set at an end is a random set in which one element, one row or one size is at the end
of one condition. Each set is checked against the whole contract, and the model runs
with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.random import default_rng

from onnxgather.auditing.algebra.sizes import low_of, size_from
from onnxgather.auditing.audit import AuditedModel
from onnxgather.auditing.hardening.verify import (
    MOST_MADE,
    count_of_elements,
    ends_of_column,
    failure_text,
    in_range,
    make_inputs,
    opened,
    outputs,
)
from onnxgather.auditing.proof.contract import Condition, check_inputs, expression_of
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError

LARGEST_MADE = 4096
"""The largest size at an end of which inputs are made, as the model runs with them, and
the memory of a run may grow with the square of a size."""

MOST_ELEMENTS_OF_SET = 2**24
"""The most elements that the inputs of a set at an end of a size have together."""

RANDOM = "random, in range"
"""The meaning of a set that is at no end."""

Side = Literal["low", "high"]


class InputSet(Struct, frozen=True):
    """Inputs for one run of a model."""

    arrays: dict[str, Array]
    meaning: str
    """The condition and its end, as words."""


class MissingSet(Struct, frozen=True):
    """A set that could not be made."""

    meaning: str
    why: str

    def __str__(self) -> str:
        return f"{self.meaning}: {self.why}"


def input_sets(
    audited: AuditedModel, at_ends: bool = False, defaults: bool = True
) -> tuple[list[InputSet], list[MissingSet]]:
    """Return sets of inputs with which a model runs, and those that could not be made.

    Args:
        audited: The audit of the model.
        at_ends: Whether the random set is followed by a set for each end of each
            condition of the contract.
        defaults: Whether inputs that have a default are in the sets; if not, the model
            runs with the default.

    Raises:
        OnnxGatherError: An array can be made for no input of such a type.
        ProviderError: There is no CPU provider, or the model runs with no random set.
    """
    maker = _Maker(audited, defaults)
    sets = [maker.random_set()]
    missing: list[MissingSet] = []
    if at_ends:
        for condition in audited.contract.conditions:
            for side in _sides(condition):
                made = maker.set_at(condition, side)
                if isinstance(made, InputSet):
                    sets.append(made)
                else:
                    missing.append(made)
    return sets, missing


def _sides(condition: Condition) -> Iterator[Side]:
    """Yield the ends that a condition has, one where both are the same number."""
    low = _end(condition, "low")
    high = _end(condition, "high")
    if low is not None:
        yield "low"
    if high is not None and high != low:
        yield "high"


def _end(condition: Condition, side: Side) -> int | str | None:
    """Return an end: a number, an expression, or None for an open end."""
    expression: str | None = getattr(condition, f"{side}_expression")
    if expression is not None:
        return expression
    number: int | None = getattr(condition, side)
    # The least size of an input with elements is an end, too.
    if number is None and condition.of == "size" and side == "low":
        return 1
    return number


class _Maker:
    """What makes sets of inputs of one model, and runs it with each."""

    def __init__(self, audited: AuditedModel, defaults: bool) -> None:
        self._audited = audited
        self._contract = audited.contract
        self._plain = audited.contract.plain
        self._random = default_rng(0)
        network = audited.network
        self._model = opened(network, network.source)
        self._defaults = dict[str, Array]()
        if not defaults:
            for name in network.main.defaults:
                array = network.main.constant(name)
                if array is not None:
                    self._defaults[name] = array

    def random_set(self) -> InputSet:
        """Return random inputs in range.

        Raises:
            OnnxGatherError: As `input_sets`.
        """
        if self._defaults:
            made = self._first({}, RANDOM, lambda arrays: True)
            if isinstance(made, MissingSet):
                rule = f"{self._audited.network.path}: no inputs can be made"
                raise OnnxGatherError(f"{rule}: {made.why}; give --inputs FILE")
            return made
        arrays, _ = next(in_range(self._audited, self._model, self._random))
        return InputSet(arrays, RANDOM)

    def set_at(self, condition: Condition, side: Side) -> InputSet | MissingSet:
        """Return inputs at an end of a condition, or why there are none."""
        end = _end(condition, side)
        meaning = f"{condition}: {side} end, {end}"
        if condition.of == "values":
            return self._first({}, meaning, partial(self._put_value, condition, side))
        if condition.of == "difference":
            change = partial(self._put_difference, condition, side)
            return self._first({}, meaning, change)
        # Conditions on sizes have no ends that are expressions.
        number = int(end or 0)
        why = ""
        for sizes in self._sizes_at(condition, number):
            if max(sizes.values(), default=0) > LARGEST_MADE:
                why = why or f"a size is more than {LARGEST_MADE:,}"
                continue
            has_size = partial(self._has_size, condition, number)
            made = self._first(sizes, meaning, has_size)
            if isinstance(made, InputSet):
                return made
            why = made.why
        return MissingSet(meaning, why or "no sizes were found that give it")

    def _first(
        self,
        sizes: Mapping[str, int],
        meaning: str,
        change: Callable[[dict[str, Array]], bool],
    ) -> InputSet | MissingSet:
        """Return the first inputs that can be changed so, and with which it runs."""
        why = "no such inputs were found"
        tries = MOST_MADE if not sizes else MOST_MADE // 10
        for _ in range(tries):
            # Each other size is at least 1.
            least_count = count_of_elements(self._audited.network, sizes, 1)
            if least_count > MOST_ELEMENTS_OF_SET:
                return MissingSet(
                    meaning, f"more than {MOST_ELEMENTS_OF_SET:,} elements"
                )
            arrays = make_inputs(self._audited, self._random, sizes) | self._defaults
            if not change(arrays):
                continue
            try:
                check_inputs(self._plain, arrays)
            except OnnxGatherError:
                continue
            result = outputs(self._model, arrays)
            if isinstance(result, list):
                return InputSet(_without(arrays, self._defaults), meaning)
            why = f"the model does not run: {failure_text(result)}"
        return MissingSet(meaning, why)

    def _sizes_of(self, arrays: Mapping[str, Array]) -> dict[str, int]:
        """Return the number of each open size that arrays have."""
        numbers: dict[str, int] = {}
        for name, ((input_name, dim), *_) in self._contract.sizes.items():
            numbers[name] = arrays[input_name].shape[dim]
        return numbers

    # The ends of values and differences.

    def _put_value(
        self, condition: Condition, side: Side, arrays: dict[str, Array]
    ) -> bool:
        """Put the end of a condition on values into one element, if that can be."""
        array = arrays[condition.input or ""]
        sizes = self._sizes_of(arrays)
        plain = condition.with_numbers(sizes)
        number = _as_element(plain, side, array.dtype)
        if number is None or not array.size:
            return False
        place = int(self._random.integers(array.size))
        index = [*map(int, np.unravel_index(place, array.shape))]
        if condition.columns:
            index[-1] = condition.columns[place % len(condition.columns)]
        array[tuple(index)] = number
        if array.ndim and array.dtype.kind in "iu":
            conditions = self._conditions_on(condition.input, sizes)
            row = array[tuple(index[:-1])]
            _keep_differences(row, index[-1], conditions)
        return True

    def _put_difference(
        self, condition: Condition, side: Side, arrays: dict[str, Array]
    ) -> bool:
        """Make the difference of two columns an end, in one row, if that can be."""
        column, other = condition.columns or (0, 0)
        array = arrays[condition.input or ""]
        if not array.size:
            return False
        sizes = self._sizes_of(arrays)
        difference = getattr(condition.with_numbers(sizes), side)
        conditions = self._conditions_on(condition.input, sizes)
        low, high = ends_of_column(array.dtype, conditions, column)
        other_low, other_high = ends_of_column(array.dtype, conditions, other)
        # The first column is the other one plus the difference.
        least = max(other_low, low - difference)
        most = min(other_high, high - difference)
        if least > most:
            return False
        rows = array.reshape(-1, array.shape[-1])
        row = rows[int(self._random.integers(len(rows)))]
        number = min(max(int(row[other]), least), most)
        row[other] = number
        row[column] = number + difference
        arrays[condition.input or ""] = rows.reshape(array.shape)
        return True

    def _conditions_on(
        self, input_name: str | None, sizes: Mapping[str, int]
    ) -> list[Condition]:
        """Return the conditions on the elements of an input, with numbers as ends."""
        return [
            condition.with_numbers(sizes)
            for condition in self._contract.conditions
            if condition.is_of_elements and condition.input == input_name
        ]

    # The ends of sizes.

    def _has_size(
        self, condition: Condition, number: int, arrays: dict[str, Array]
    ) -> bool:
        """Return whether inputs have the size or the sizes of an end."""
        expression = expression_of(condition, self._contract.sizes)
        value = size_from(expression, self._sizes_of(arrays))
        return low_of(value) == number

    def _sizes_at(self, condition: Condition, number: int) -> Iterator[dict[str, int]]:
        """Yield open sizes with which an expression of them is a number.

        Some models run only where all sizes are the same, others only where each is
        small, so there are several.
        """
        names = [*self._contract.sizes]
        expression = expression_of(condition, self._contract.sizes)
        if condition.of == "size":
            yield {expression: number}
            yield dict.fromkeys(names, 1) | {expression: number}
            yield dict.fromkeys(names, number)
            return
        for others in (1, 2, 3, 4, 8):
            for name in names:
                sizes = dict.fromkeys(names, others)
                solved = _solved(expression, name, sizes, number)
                if solved is not None:
                    yield sizes | {name: solved}


def _keep_differences(row: Array, column: int, conditions: Sequence[Condition]) -> None:
    """Change the columns of a row that conditions compare with one column of it."""
    number = int(row[column])
    for condition in conditions:
        if condition.of != "difference":
            continue
        first, second = condition.columns or (column, column)
        if column not in (first, second):
            continue
        least = condition.low
        most = condition.high
        other = first
        if column == first:
            # The second column is the first one minus the difference.
            other = second
            least = None if condition.high is None else -condition.high
            most = None if condition.low is None else -condition.low
        low, high = ends_of_column(row.dtype, conditions, other)
        if least is not None:
            low = max(low, number + least)
        if most is not None:
            high = min(high, number + most)
        if low <= high:
            row[other] = min(max(int(row[other]), low), high)


def _without(arrays: Mapping[str, Array], names: Mapping[str, Any]) -> dict[str, Array]:
    return {name: array for name, array in arrays.items() if name not in names}


def _as_element(condition: Condition, side: Side, dtype: np.dtype[Any]) -> Any:
    """Return an end as an element of a data type; None where it has no such element.

    A float beside the end is taken where the end is between two floats.
    """
    number = getattr(condition, side)
    if dtype.kind == "f":
        element = dtype.type(number)
        if not condition.admits(float(element)):
            inside = -np.inf if side == "high" else np.inf
            element = np.nextafter(element, dtype.type(inside))
        return element
    if dtype.kind == "b":
        return bool(number) if number in (0, 1) else None
    limits = np.iinfo(dtype)
    return number if limits.min <= number <= limits.max else None


def _solved(
    expression: str, name: str, sizes: Mapping[str, int], number: int
) -> int | None:
    """Return the size of a name with which an expression is a number, if there is one.

    Args:
        expression: A polynomial of sizes.
        name: The size to solve for.
        sizes: All sizes.
        number: The value of the expression.
    """

    def value(size: int) -> int:
        return low_of(size_from(expression, {**sizes, name: size}))

    # A line through two values finds each size in which the expression is linear.
    start = value(0)
    slope = value(1) - start
    if not slope or (number - start) % slope:
        return None
    size = (number - start) // slope
    if size < 0 or value(size) != number:
        return None
    return size


def meanings(sets: Sequence[InputSet], missing: Sequence[MissingSet]) -> list[str]:
    """Return what each set is, and which could not be made, a line each."""
    lines = [f"set {number}: {made.meaning}" for number, made in enumerate(sets)]
    lines += [f"no set: {not_made}" for not_made in missing]
    return lines
