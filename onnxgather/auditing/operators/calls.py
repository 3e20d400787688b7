"""An operation with what is known of its inputs, for the tables of operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

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


class Call(Struct, frozen=True):
    """An operation, the bounds of its inputs, and the types of its outputs."""

    operation: Operation
    inputs: tuple[Bounds | None, ...]
    """None is an input that is left out."""
    version: int
    """Of ONNX's own operators."""
    types: Sequence[OpenType] = ()
    """The types of the outputs."""

    def with_arrays(self, arrays: Sequence[Array | None]) -> Call:
        """Return the call with the inputs of a run; None is an input known before."""
        inputs = list(self.inputs)
        for position, array in enumerate(arrays):
            if array is None:
                continue
            data_type = type_name(array)
            # Of a large array the sizes count, not the elements.
            if array.size > ELEMENTS:
                inputs[position] = unknown(data_type, array.shape)
            else:
                inputs[position] = bounds_of_array(data_type, array)
        return replace(self, inputs=tuple(inputs))

    @property
    def operator(self) -> str:
        """Return the name of the operator."""
        return self.operation.operator

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes of the operation."""
        return self.operation.attributes

    @property
    def x(self) -> Bounds:
        """Return the first input."""
        return self.of(0)

    def of(self, position: int) -> Bounds:
        """Return an input that the operator requires.

        Raises:
            LookupError: The input is left out.
        """
        value = self.has(position)
        if value is None:
            raise LookupError("an input is missing")
        return value

    def has(self, position: int) -> Bounds | None:
        """Return an input; None if it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    @property
    def given(self) -> list[Bounds]:
        """Return the inputs that are not left out."""
        return [value for value in self.inputs if value is not None]

    def option(self, name: str, position: int, default: Any = None) -> list[int] | None:
        """Return the integers of an attribute, or of an input in newer opsets.

        Returns:
            `default` where both are left out, None where the input is not known.
        """
        # Case 1: an attribute, as in older opsets.
        if name in self.attributes:
            numbers = np.ravel(self.attributes[name])
            return [int(number) for number in numbers]
        # Case 2: an input, which may be left out.
        value = self.has(position)
        if value is None:
            return default
        array = value.known
        if array is None:
            return None
        return [int(number) for number in array.ravel()]

    def axis(self, default: int) -> int:
        """Return the axis, counted from the front."""
        axis = int(self.attributes.get("axis", default))
        rank = len(self.x.sizes or ())
        return axis + rank if axis < 0 else axis

    def value(
        self, low: Any, high: Any, nan: bool = False, k: int = 0, **reasons: Any
    ) -> Bounds:
        """Return the value of output number `k` with these bounds."""
        data_type, sizes = self.types[k]
        return interval(data_type, sizes, low, high, nan, **reasons)

    def elementwise(self, low: Any, high: Any, nan: bool = False) -> Bounds | None:
        """Return the value of an output that is NaN where an input is NaN.

        None where the elements of an input are no numbers.
        """
        for value in self.given:
            if value.data_type not in LIMITS and value.data_type not in FLOATS:
                return None
        nan = nan or any(value.nan for value in self.given)
        return self.value(low, high, nan)

    def selected(self, bounds: Array, k: int = 0) -> Bounds:
        """Return the value of output number `k`, of elements of the first input."""
        low = bounds[..., :1]
        high = bounds[..., 1:]
        return self.value(low, high, self.x.nan, k)
