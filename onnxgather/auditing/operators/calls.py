"""An operation with what is known of its inputs, as the tables of operators take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    ELEMENTS,
    FLOATS,
    LIMITS,
    Bounds,
    bounds_of_array,
    interval,
    unknown,
)
from onnxgather.auditing.algebra.sizes import AnySizes
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import Operation
from onnxgather.core.model.values import type_name


class OpenType(NamedTuple):
    """The data type and the sizes of a value, which may be open."""

    data_type: str = ""
    """ONNX's name; "" where it is not known."""
    sizes: AnySizes | None = None
    """None where not even the rank is known."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operation, the bounds of its inputs (None: left out), and the types of its outputs."""

    operation: Operation
    inputs: tuple[Bounds | None, ...]
    version: int
    """Of ONNX's own operators."""
    types: Sequence[OpenType] = ()

    def with_arrays(self, arrays: Sequence[Array | None]) -> Call:
        """The call with what its inputs were in a run; None is one that is known already."""
        made = [*self.inputs]
        for k, array in enumerate(arrays):
            if array is not None:
                large = array.size > ELEMENTS  # whose elements tell no sizes
                name = type_name(array)
                made[k] = (
                    unknown(name, array.shape)
                    if large
                    else bounds_of_array(name, array)
                )
        return replace(self, inputs=tuple(made))

    @property
    def operator(self) -> str:
        """The name of the operator."""
        return self.operation.operator

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes of the operation."""
        return self.operation.attributes

    @property
    def x(self) -> Bounds:
        """The first input."""
        return self.of(0)

    def of(self, position: int) -> Bounds:
        """An input that the operator requires."""
        value = self.has(position)
        if value is None:
            raise LookupError("an input is missing")
        return value

    def has(self, position: int) -> Bounds | None:
        """An input that may be left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def given(self) -> list[Bounds]:
        """The inputs that are not left out."""
        return [value for value in self.inputs if value is not None]

    def option(self, name: str, position: int, default: Any = None) -> list[int] | None:
        """The integers of an attribute, or of an input in newer opsets.

        Returns:
            `default` where both are left out, None where the input is not known.
        """
        if name in self.attributes:
            return [int(number) for number in np.ravel(self.attributes[name])]
        value = self.has(position)
        if value is None:
            return default
        return (
            None
            if value.known is None
            else [int(number) for number in value.known.ravel()]
        )

    def axis(self, default: int) -> int:
        """The axis, counted from the front."""
        axis, rank = int(self.attributes.get("axis", default)), len(self.x.sizes or ())
        return axis + rank if axis < 0 else axis

    def value(
        self, low: Any, high: Any, nan: bool = False, k: int = 0, **reasons: Any
    ) -> Bounds:
        """The value of an output with these bounds."""
        return interval(*self.types[k], low, high, nan, **reasons)

    def elementwise(self, low: Any, high: Any, nan: bool = False) -> Bounds | None:
        """The value of an output whose elements are NaN where those of an input are."""
        if not all(value.data_type in LIMITS | FLOATS for value in self.given):
            return None
        return self.value(low, high, nan or any(value.nan for value in self.given))

    def selected(self, bounds: Array, k: int = 0) -> Bounds:
        """The value of an output whose elements are those of the first input."""
        return self.value(bounds[..., :1], bounds[..., 1:], self.x.nan, k)
