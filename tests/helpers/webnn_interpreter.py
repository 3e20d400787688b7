"""The methods of MLGraphBuilder in numpy, on plain data of a WebNN program.

It takes only the data types and ranks that the specification requires of every
implementation, unless `is_strict` is false, and raises where the specification makes a
result implementation-defined: an offset out of range, a sum that differs between
implementations. Integers wrap, as the specification's `add` and `mul` of int32 do.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering.webnn.requirements import REQUIRED_RANK, REQUIRED_TYPES


class RefusedStepError(Exception):
    """A step that an implementation may refuse, or compute otherwise."""


def _gather(rows: Array, offsets: Array, *, axis: int) -> Array:
    if axis != 0 or offsets.ndim != 1:
        raise RefusedStepError("gather must be of rows, at 1-D offsets")
    if offsets.min() < 0 or offsets.max() >= len(rows):
        raise RefusedStepError("gather must have offsets in range")
    return rows[offsets]


def _slice(array: Array, starts: list[int], sizes: list[int]) -> Array:
    part = array
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        part = part.take(range(start, start + size), axis)
    return part


def _reduce_sum(array: Array, *, axes: list[int], **options: bool) -> Array:
    total = array.astype(np.int64).sum(tuple(axes), keepdims=options["keepDimensions"])
    if abs(total).max() >= 2**31:
        raise RefusedStepError("reduceSum must not wrap")
    return total.astype(array.dtype)


def _reduce_max(array: Array, *, axes: list[int], **options: bool) -> Array:
    return array.max(tuple(axes), keepdims=options["keepDimensions"])


def _concat(*parts: Any) -> Array:
    *arrays, axis = parts
    return np.concatenate(arrays, axis)


def _where(mask: Array, if_true: Array, if_false: Array) -> Array:
    return np.where(mask != 0, if_true, if_false)


def _mask(compare: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: compare(a, b).astype(np.uint8)


METHODS: dict[str, Callable[..., Array]] = {
    "gather": _gather,
    "reshape": np.reshape,
    "slice": _slice,
    "cast": np.ndarray.astype,
    "concat": _concat,
    "where": _where,
    "min": np.minimum,
    "max": np.maximum,
    "add": np.add,
    "mul": np.multiply,
    "lesser": _mask(np.less),
    "greater": _mask(np.greater),
    "equal": _mask(np.equal),
    "notEqual": _mask(np.not_equal),
    "logicalOr": _mask(lambda a, b: (a | b) != 0),
    "reduceSum": _reduce_sum,
    "reduceMax": _reduce_max,
}


def interpret(
    program: Mapping[str, Any], arrays: Mapping[str, Array], *, is_strict: bool = True
) -> dict[str, Array]:
    """Return the outputs of a program: `WebnnProgram.to_dict()`, or what JSON holds.

    The arrays of `arrays` are those that stand for the descriptor's tensors.
    """
    values: dict[str, Array] = {}
    for name, operand in program["inputs"].items():
        array = np.ascontiguousarray(arrays[name]).reshape(-1)
        values[name] = array.view(operand["dataType"]).reshape(operand["shape"])
    for name, constant in program["constants"].items():
        values[name] = _constant(constant)
    for step in program["steps"]:
        operands = [values[operand] for operand in step["operands"]]
        if is_strict:
            _check(step["method"], operands)
        method = METHODS[step["method"]]
        result = method(*operands, *step["arguments"], **step["options"])
        found = [result.dtype.name, list(result.shape)]
        if found != [step["dataType"], step["shape"]]:
            raise RefusedStepError(f"{step['result']} must be as it says, got {found}")
        if is_strict:
            _check("reshape", [result])
        values[step["result"]] = result
    return {name: values[result] for name, result in program["outputs"].items()}


def _constant(constant: Mapping[str, Any]) -> Array:
    data_type = constant["dataType"]
    if "data" in constant:
        array = np.array(constant["data"], data_type)
    else:
        array = np.frombuffer(base64.b64decode(constant["base64"]), data_type)
    return array.reshape(constant["shape"])


def _check(method: str, operands: list[Array]) -> None:
    """Check that every implementation takes a call."""
    types = REQUIRED_TYPES[method]
    if method == "concat":
        types = types * len(operands)
    for operand, required in zip(operands, types, strict=True):
        if operand.dtype.name not in required or operand.ndim > REQUIRED_RANK:
            found = f"{operand.dtype} of rank {operand.ndim}"
            raise RefusedStepError(f"{method} must take required types, got {found}")
