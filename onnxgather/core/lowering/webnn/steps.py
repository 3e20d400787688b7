"""A WebNN graph under construction: calls of an MLGraphBuilder, as data.

The list knows the data type and the shape of every operand. It adds no step that would
change nothing, and no step twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering.graph import Shape, new_name

Argument = int | str | Shape
"""What a method takes beside operands: an axis, a data type, or sizes."""

Option = int | bool | Shape
"""The value of an option of a method, such as `axis`."""


class MLOperand(NamedTuple):
    """An MLOperand: an input, a constant, or the result of a step."""

    name: str
    data_type: str
    """WebNN's name, which is numpy's too."""
    shape: Shape


class Step(NamedTuple):
    """A call of a method of MLGraphBuilder; `why` says what it is for."""

    result: MLOperand
    method: str
    operands: tuple[MLOperand, ...]
    arguments: tuple[Argument, ...]
    """What follows the operands in the call."""
    options: Mapping[str, Option]
    why: str


class Constant(NamedTuple):
    """An operand whose elements are part of the program."""

    operand: MLOperand
    array: Array
    why: str


def little_endian(array: Array) -> bytes:
    """Return the bytes of an array, low bytes first."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


LONGEST_LIST = 32
"""The most elements of a constant that are written as numbers; more are base64."""

ARGUMENT_NAMES = {
    "reshape": ("newShape",),
    "slice": ("starts", "sizes"),
    "cast": ("type",),
    "concat": ("axis",),
}
"""WebNN's names of the arguments that follow the operands of a method."""

_COMPARISONS = ("lesser", "greater", "equal", "notEqual")
"""The methods whose results are masks, of uint8."""


class StepList(Struct):
    """Steps in the order of their calls, with the inputs and constants they read."""

    inputs: list[MLOperand] = []
    constants: list[Constant] = []
    steps: list[Step] = []
    outputs: dict[str, MLOperand] = {}
    """The outputs of the graph, by their names."""
    names: set[str] = set()
    """The names that are taken."""
    _results: dict[tuple[object, ...], MLOperand] = {}
    """The result of each step, by its method, operands, arguments and options."""

    def input(self, name: str, data_type: str, shape: Shape) -> MLOperand:
        """Add an input; return its operand."""
        operand = MLOperand(new_name(name, self.names), data_type, shape)
        self.inputs.append(operand)
        return operand

    def constant(self, name: str, array: Array, why: str) -> MLOperand:
        """Return the operand of an array; add a constant if there is none."""
        data_type = array.dtype.name
        for stored in self.constants:
            is_same_kind = stored.operand[1:] == (data_type, array.shape)
            # By its bytes, as 0.0 equals -0.0.
            if is_same_kind and stored.array.tobytes() == array.tobytes():
                return stored.operand
        operand = MLOperand(new_name(name, self.names), data_type, array.shape)
        self.constants.append(Constant(operand, array, why))
        return operand

    def numbers(self, name: str, values: Sequence[int] | Array, why: str) -> MLOperand:
        """Return the operand of a 1-D int32 constant.

        A list of equal numbers is written as a single number. Of a number that int32
        does not hold, the low 32 bits stay.
        """
        wide = np.asarray(values, np.int64).reshape(-1)
        if np.unique(wide).size == 1:
            wide = wide[:1]
        return self.constant(name, wide.astype(np.int32), why)

    def gather(
        self, rows: MLOperand, offsets: MLOperand, name: str, why: str
    ) -> MLOperand:
        """Return the rows at 1-D offsets, which must be in range."""
        shape = offsets.shape + rows.shape[1:]
        options = {"axis": 0}
        operands = (rows, offsets)
        return self._add(
            "gather", name, operands, why, shape, rows.data_type, options=options
        )

    def reshape(
        self, operand: MLOperand, shape: Shape, name: str, why: str
    ) -> MLOperand:
        """Return the operand with another shape of as many elements."""
        assert math.prod(shape) == math.prod(operand.shape)
        if shape == operand.shape:
            return operand
        data_type = operand.data_type
        return self._add("reshape", name, (operand,), why, shape, data_type, (shape,))

    def slice(
        self, operand: MLOperand, starts: Shape, sizes: Shape, name: str, why: str
    ) -> MLOperand:
        """Return the part of an operand that begins at `starts` and has `sizes`."""
        if sizes == operand.shape:
            return operand
        data_type = operand.data_type
        arguments = (starts, sizes)
        return self._add("slice", name, (operand,), why, sizes, data_type, arguments)

    def cast(
        self, operand: MLOperand, data_type: str, name: str, why: str
    ) -> MLOperand:
        """Return the operand in another data type.

        Of an integer that does not fit, the low bits stay.
        """
        if data_type == operand.data_type:
            return operand
        shape = operand.shape
        return self._add("cast", name, (operand,), why, shape, data_type, (data_type,))

    def compute(
        self, method: str, a: MLOperand, b: MLOperand, name: str, why: str
    ) -> MLOperand:
        """Return the result of a method of two operands, such as `add` or `lesser`."""
        data_type = "uint8" if method in _COMPARISONS else a.data_type
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self._add(method, name, (a, b), why, shape, data_type)

    def where(
        self,
        mask: MLOperand,
        if_true: MLOperand,
        if_false: MLOperand,
        name: str,
        why: str,
    ) -> MLOperand:
        """Return the elements of `if_true` where the mask is set, else `if_false`."""
        operands = (mask, if_true, if_false)
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        return self._add("where", name, operands, why, shape, if_false.data_type)

    def concat(self, parts: Sequence[MLOperand], name: str, why: str) -> MLOperand:
        """Return the rows of all parts, in order."""
        first = parts[0]
        count = sum(part.shape[0] for part in parts)
        shape = (count, *first.shape[1:])
        return self._add(
            "concat", name, tuple(parts), why, shape, first.data_type, (0,)
        )

    def reduce_max(self, operand: MLOperand, name: str, why: str) -> MLOperand:
        """Return the greatest of each row; rows have a single element then."""
        shape = (operand.shape[0], 1)
        options: dict[str, Option] = {"axes": (1,), "keepDimensions": True}
        data_type = operand.data_type
        return self._add(
            "reduceMax", name, (operand,), why, shape, data_type, options=options
        )

    def reduce_sum(self, operand: MLOperand, name: str, why: str) -> MLOperand:
        """Return the sum of each column, of one dimension."""
        options: dict[str, Option] = {"axes": (0,), "keepDimensions": False}
        shape = operand.shape[1:]
        data_type = operand.data_type
        return self._add(
            "reduceSum", name, (operand,), why, shape, data_type, options=options
        )

    def inline(
        self, other: StepList, given: Mapping[str, MLOperand]
    ) -> dict[str, MLOperand]:
        """Add the steps of another list; return its outputs here.

        Args:
            other: The other list.
            given: What its inputs are here, by their names there.
        """
        # A value of its own, even where the same was computed before: an operand can be
        # an output of a graph only once.
        self._results.clear()
        operands: dict[MLOperand, MLOperand] = {}
        for operand in other.inputs:
            operands[operand] = given[operand.name]
        for stored in other.constants:
            constant = self.constant(stored.operand.name, stored.array, stored.why)
            operands[stored.operand] = constant
        for step in other.steps:
            own = tuple([operands[operand] for operand in step.operands])
            name, data_type, shape = step.result
            operands[step.result] = self._add(
                step.method,
                name,
                own,
                step.why,
                shape,
                data_type,
                step.arguments,
                step.options,
            )
        return {name: operands[operand] for name, operand in other.outputs.items()}

    def finish(self, outputs: Mapping[str, MLOperand]) -> None:
        """Give the graph its outputs; drop steps and constants that none needs."""
        self.outputs = dict(outputs)
        read = set(outputs.values())
        steps: list[Step] = []
        for step in reversed(self.steps):
            if step.result in read:
                steps.append(step)
                read.update(step.operands)
        self.steps = steps[::-1]
        constants = self.constants
        self.constants = [stored for stored in constants if stored.operand in read]

    def _add(
        self,
        method: str,
        name: str,
        operands: tuple[MLOperand, ...],
        why: str,
        shape: Shape,
        data_type: str,
        arguments: tuple[Argument, ...] = (),
        options: Mapping[str, Option] | None = None,
    ) -> MLOperand:
        """Add a step, or find the same step; return its result."""
        options = options or {}
        key: tuple[Any, ...] = (method, operands, arguments, tuple(options.items()))
        if key not in self._results:
            result = MLOperand(new_name(name, self.names), data_type, shape)
            self.steps.append(Step(result, method, operands, arguments, options, why))
            self._results[key] = result
        return self._results[key]
