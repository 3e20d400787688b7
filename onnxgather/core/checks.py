"""Checks of single values; an error names the rule and the value."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import islice
from typing import Any, SupportsIndex, cast

from onnxgather.core.errors import DescriptorError, OnnxGatherError
from onnxgather.core.errors import printable as printable

MAX_DIMENSIONS = 8
"""`DML_TENSOR_DIMENSION_COUNT_MAX1`."""

MAX_ELEMENTS = 2**32 - 1
"""The most elements of a buffer tensor; also the largest UINT."""

LONGEST_SEQUENCE = 10_000
"""The most items that are read of a sequence."""

LONGEST_SHOWN = 200
"""The most characters of a value that a message shows."""


def require(holds: bool, rule: str, found: object) -> None:
    """Raise DescriptorError, with the rule and the value, unless the rule holds."""
    if not holds:
        raise DescriptorError(f"{rule}, got {found}")


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that an option is one of its choices.

    Raises:
        OnnxGatherError: The value is no choice; the message lists the choices.
    """
    if not isinstance(value, str) or value not in choices:
        rule = f"{name} must be one of {', '.join(choices)}"
        raise OnnxGatherError(f"{rule}, got {shown_with_suggestion(value, choices)}")


def suggestion(
    found: str, names: Iterable[str], prefix: str = "", near: float = 0.7
) -> str:
    """The end of a message about an unknown name: `; did you mean "X"?` where a name is near.

    Args:
        found: The unknown name; upper and lower case count as equal.
        names: The known names.
        prefix: A text that may stand before each name.
        near: How alike two names must be, from 0 to 1, where 1 means equal.
    """
    from difflib import (
        get_close_matches,
    )  # late, as few need it and it takes time to import

    short = found.removeprefix(prefix)
    known = {name.lower(): name for name in islice(names, 2000)}
    for match in get_close_matches(short[:LONGEST_SHOWN].lower(), known, 1, near):
        meant = (prefix if short != found else "") + known[match]
        return f"; did you mean {json.dumps(meant, ensure_ascii=False)}?"
    return ""


def shown_with_suggestion(found: object, names: Iterable[str], prefix: str = "") -> str:
    """An unknown name as a message shows it, with a suggestion where a known name is near."""
    return shown(found) + (
        suggestion(found, names, prefix) if isinstance(found, str) else ""
    )


def shown(value: object) -> str:
    """A value as a message shows it: its repr, cut after `LONGEST_SHOWN` characters."""
    try:
        text = printable(repr(value))  # an array's has several lines
    except (
        Exception
    ):  # such as an integer of thousands of digits, which Python does not print
        return f"a value of type {type(value).__name__} that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def listed(items: Sequence[str], most: int) -> str:
    """The first `most` items with commas between them, and the number of the others."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")


def uint(
    name: str,
    value: object,
    largest: int = MAX_ELEMENTS,
    least: int = 0,
    error: type[OnnxGatherError] = DescriptorError,
) -> int:
    """The value as an int, if it is an integer of Python or numpy from `least` to `largest`.

    Raises:
        OnnxGatherError: The value is something else, such as a bool or a float; the message starts
            with `name`. It is an `error`.
    """
    number = value if type(value) is int else integer(value)
    if number is None or not least <= number <= largest:
        raise error(
            f"{name} must be an integer from {least} to {largest}, got {shown(value)}"
        )
    return number


def uints(name: str, values: Iterable[object]) -> tuple[int, ...]:
    """The values as ints, each as `uint` takes it; an error names the place, such as `Sizes[1]`."""
    return tuple(
        [
            (
                value
                if type(value) is int and 0 <= value <= MAX_ELEMENTS
                else uint(f"{name}[{k}]", value)
            )
            for k, value in enumerate(values)
        ]
    )


def integer(value: object) -> int | None:
    """The value as an int, if it is an integer of Python or numpy.

    None for anything that is not an integer, including bool.
    """
    try:
        return (
            None
            if isinstance(value, bool)
            else operator.index(cast("SupportsIndex", value))
        )
    except Exception:
        return None


def sequence(name: str, value: object) -> list[Any]:
    """The value as a list, if it can be iterated and has an order.

    Raises:
        DescriptorError: The value is something else, such as text, a dict or a set; the message
            starts with `name`.
    """
    unordered = isinstance(value, str | bytes | dict | set)
    with suppress(Exception):  # whatever its iteration raises
        if not unordered:
            endless = cast("Sequence[object]", value)  # as a generator may be
            return list(islice(endless, LONGEST_SEQUENCE))
    raise DescriptorError(f"{name} must be a sequence, got {shown(value)}")


def texts(name: str, value: object, rule: str) -> list[str]:
    """The texts that are iterated, at most `LONGEST_SEQUENCE` of them, in no order of a set.

    Raises:
        OnnxGatherError: The value is something else; the message has the rule in words.
    """
    with suppress(Exception):  # whatever its iteration raises
        found = list(islice(cast("Iterable[object]", value), LONGEST_SEQUENCE))
        if all(isinstance(text, str) for text in found):
            return cast("list[str]", found)
    raise OnnxGatherError(f"{name} must be {rule}, got {shown(value)}")


def mapping(name: str, value: object) -> dict[str, Any]:
    """The value as a dict, if it is a mapping from names; an empty one for None.

    Raises:
        OnnxGatherError: The value is something else; the message starts with `name`.
    """
    given = cast("Mapping[Any, Any]", {} if value is None else value)
    check_type(name, given, rule := "a mapping from names", Mapping)
    if not all(isinstance(key, str) for key in given):
        raise OnnxGatherError(f"{name} must be {rule}, got {shown(given)}")
    return dict(given)


def check_type(name: str, value: object, rule: str, *types: type[Any]) -> None:
    """Check that a value is of one of some types, as a rule says in words.

    Raises:
        OnnxGatherError: It is not; the message starts with `name`.
    """
    if not isinstance(value, types):
        raise OnnxGatherError(f"{name} must be {rule}, got {shown(value)}")


def check_name(name: str, value: object) -> None:
    """Check that a value is a text that a model can hold.

    Raises:
        OnnxGatherError: It is not; the message starts with `name`.
    """
    if not isinstance(value, str) or re.search("[\ud800-\udfff]", value):
        raise OnnxGatherError(f"{name} must be a text in UTF-8, got {shown(value)}")


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Names with their values as a table for a notebook."""
    cells = (
        f"<tr><th>{escape(printable(name))}</th><td>{escape(printable(str(value)))}</td></tr>"
        for name, value in rows
    )
    return (
        f"<table><caption>{escape(printable(title))}</caption>{''.join(cells)}</table>"
    )


def number_of(number: int, noun: str) -> str:
    """A number with its noun, such as `1,500 cases` or `1 case`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
