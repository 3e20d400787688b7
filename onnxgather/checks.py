"""Checks that name the value found."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any, SupportsIndex, cast

from onnxgather.errors import DescriptorError, OnnxGatherError

MAX_DIMENSIONS = 8
"""`DML_TENSOR_DIMENSION_COUNT_MAX1`."""

MAX_ELEMENTS = 2**32 - 1
"""Most elements of a buffer tensor; also the largest UINT."""

LONGEST_SHOWN = 200
"""Characters of a value that a message shows."""


def require(holds: bool, rule: str, found: object) -> None:
    """Raise DescriptorError with the rule and the value found unless the rule holds."""
    if not holds:
        raise DescriptorError(f"{rule}, got {found}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that an option is one of its choices.

    Raises:
        OnnxGatherError: It is not; the message lists the choices.
    """
    if not isinstance(value, str) or value not in choices:
        raise OnnxGatherError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def shown(value: object) -> str:
    """A value as a message shows it: its repr, cut where that is long."""
    try:
        text = repr(value)
    except Exception:  # Python does not print integers of thousands of digits, for one
        return f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def listed(items: Sequence[str], most: int) -> str:
    """The first items of a list in a sentence, and how many more there are."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def uint(name: str, value: object, largest: int = MAX_ELEMENTS) -> int:
    """An unsigned integer up to `largest`.

    Raises:
        DescriptorError: The value is none; a bool or a float is none.
    """
    number = value if type(value) is int else integer(value)
    if number is None or not 0 <= number <= largest:
        rule = f"{name} must be an integer from 0 to {largest}"
        raise DescriptorError(f"{rule}, got {shown(value)}")
    return number


def integer(value: object) -> int | None:
    """An integer, of Python or numpy; None for anything else, bools included."""
    try:
        return None if isinstance(value, bool) else operator.index(cast("SupportsIndex", value))
    except Exception:
        return None


def sequence(name: str, value: object) -> list[Any]:
    """A sequence as a list.

    Raises:
        DescriptorError: The value is none; text, dicts and sets are none.
    """
    unordered = isinstance(value, str | bytes | dict | set)
    try:
        items = None if unordered else list(cast("Sequence[object]", value))
    except Exception:
        items = None
    if items is None:
        raise DescriptorError(f"{name} must be a sequence, got {shown(value)}")
    return items
