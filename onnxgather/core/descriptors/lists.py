"""Nested lists of numbers as the arrays that stand for tensors."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from onnxgather.core.checks import MAX_DIMENSIONS, integer, plain_items, shown
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import DescriptorError

_Shape = tuple[int, ...]


def array_rule(name: str, tensor: TensorDesc) -> str:
    """Return what the array of a tensor must be, as messages say it."""
    array = f"an array of {tensor.data_type.numpy} {tensor.array_shape}"
    if tensor.strides is None:
        return f"{name} must be {array}"
    return f"{name} must be the buffer of its Strides, {array}"


def is_listed(value: object) -> bool:
    """Return whether a value is a list, a tuple, or a number of Python or numpy."""
    return issubclass(type(value), (list, tuple, int, float, np.generic))


def array_of_list(name: str, tensor: TensorDesc, value: object) -> npt.NDArray[Any]:
    """Return the array that stands for a tensor, of nested lists or of a number.

    Args:
        name: The tensor's name, for messages.
        tensor: The tensor.
        value: Lists of the shape of the array. Leading ones may be left out, so a
            number is the array of a single element.

    Raises:
        DescriptorError: The shape differs, or the tensor's data type does not hold an
            element.
    """
    dtype = tensor.data_type.numpy
    shape = tensor.array_shape
    own_shape = _shape_of(value)
    missing = len(shape) - len(own_shape)
    if (1,) * missing + own_shape != shape:
        rule = array_rule(name, tensor)
        found = f"a list of shape {own_shape}" if own_shape else shown(value)
        raise DescriptorError(f"{rule}, got {found}")

    numbers: list[float] = []
    for position, element in enumerate(_elements(name, value, own_shape)):
        number = _number(element, dtype)
        if number is None or not _fits(number, dtype):
            rule = f"must fit {tensor.data_type}"
            # Case: a float is rounded, and an integer is not.
            if dtype.kind == "f" and isinstance(number, int):
                rule = f"must be exact in {tensor.data_type}"
            if number is None:
                kind = "a number" if dtype.kind == "f" else "an integer"
                rule = f"must be {kind} of {tensor.data_type}"
            where = name + _place(position, own_shape)
            raise DescriptorError(f"{where} {rule}, got {shown(element)}")
        numbers.append(number)
    return np.array(numbers, dtype).reshape(shape)


def _shape_of(value: object) -> _Shape:
    """Return the shape of nested lists, by the first element of each."""
    shape: list[int] = []
    items = plain_items(value)
    # A list may contain itself.
    while items is not None and len(shape) <= MAX_DIMENSIONS:
        shape.append(len(items))
        items = plain_items(items[0]) if items else None
    return tuple(shape)


def _elements(name: str, value: object, shape: _Shape) -> list[object]:
    """Return the elements of nested lists, in order."""
    elements = [value]
    for level, size in enumerate(shape):
        inner: list[object] = []
        for position, item in enumerate(elements):
            items = plain_items(item)
            if items is None or len(items) != size:
                where = name + _place(position, shape[:level])
                rule = f"{where} must be a list of {size} elements"
                raise DescriptorError(f"{rule}, got {shown(item)}")
            inner += items
        elements = inner
    return elements


def _place(position: int, shape: _Shape) -> str:
    """Return what a message says of an element; "" of a number that is in no list."""
    if not shape:
        return ""
    place = [int(number) for number in np.unravel_index(position, shape)]
    return f": element {place}"


def _number(element: object, dtype: np.dtype[Any]) -> float | None:
    """Return an element as a number of Python; None if the type has no such numbers."""
    if type(element) is int:
        return element
    if dtype.kind == "f" and isinstance(element, float | np.floating):
        return float(cast("float", element))
    return integer(element)


def _fits(number: float, dtype: np.dtype[Any]) -> bool:
    """Return whether a data type holds a number; a float may be rounded."""
    low, high = _limits(dtype)
    if dtype.kind != "f" or low <= number <= high:
        return low <= number <= high
    try:
        with np.errstate(over="ignore"):
            held = float(dtype.type(number))
    except OverflowError:  # an integer of hundreds of digits
        return False
    if isinstance(number, int):
        return math.isfinite(held) and int(held) == number
    return math.isfinite(held) or not math.isfinite(number)


@cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return two integers; a data type holds all numbers between them.

    An integer type holds no others.
    """
    if dtype.kind == "f":
        # All integers up to here are exact.
        most = 2 ** (np.finfo(dtype).nmant + 1)
        return -most, most
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
