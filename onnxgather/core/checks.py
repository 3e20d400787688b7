"""Checks of single values; an error names the rule and the value."""

from __future__ import annotations

import json
import operator
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar, cast

from onnxgather.core.errors import (
    FAULTS,
    DescriptorError,
    OnnxGatherError,
    pass_foreign,
)
from onnxgather.core.errors import line_of as line_of
from onnxgather.core.errors import printable as printable
from onnxgather.core.errors import shortened as shortened

MAX_DIMENSIONS = 8
"""`DML_TENSOR_DIMENSION_COUNT_MAX1`."""

MAX_ELEMENTS = 2**32 - 1
"""The most elements of a buffer tensor; also the largest UINT."""

LONGEST_SEQUENCE = 10_000
"""The most items that are read of a sequence."""

LONGEST_TIMEOUT = 86_400
"""The most seconds that a caller waits: a day."""

LONGEST_SHOWN = 200
"""The most characters of a value that a message shows."""


_Name = TypeVar("_Name", bound=str)


def require(holds: bool, rule: str, value: object) -> None:
    """Raise DescriptorError, with the rule and the value, unless the rule holds."""
    if not holds:
        raise DescriptorError(f"{rule}, got {value}")


def plain_text(value: object) -> Any:
    """Return a text as a plain `str`, and any other value as it is.

    A text of a subclass, such as numpy's, has the same characters, whatever its methods
    say.
    """
    if type(value) is not str and issubclass(type(value), str):
        return str.__str__(cast("str", value))
    return value


def check_choice(name: str, value: object, choices: Collection[_Name]) -> _Name:
    """Return an option as a plain text, if it is one of its choices.

    Raises:
        OnnxGatherError: The value is no choice; the message lists the choices.
    """
    text = plain_text(value)
    if isinstance(text, str) and text in choices:
        return cast("_Name", text)
    rule = f"{name} must be one of {', '.join(choices)}"
    raise OnnxGatherError(f"{rule}, got {shown_with_suggestion(text, choices)}")


def suggestion(
    name: str, names: Iterable[str], prefix: str = "", near: float = 0.7
) -> str:
    """Return the end of a message about an unknown name.

    It is `; did you mean "X"?` where a name is near, else empty.

    Args:
        name: The unknown name; upper and lower case count as equal.
        names: The names that exist.
        prefix: A text that may stand before each name.
        near: How alike two names must be, from 0 to 1, where 1 means equal.
    """
    # Imported late: few calls need it, and it takes time to import.
    from difflib import get_close_matches

    short = name.removeprefix(prefix)
    names_by_lower = {other.lower(): other for other in islice(names, 2000)}
    wanted = short[:LONGEST_SHOWN].lower()
    matches = get_close_matches(wanted, names_by_lower, 1, near)
    if not matches:
        return ""
    meant = names_by_lower[matches[0]]
    if short != name:  # the name has the prefix, so the suggestion has it too
        meant = prefix + meant
    return f"; did you mean {json.dumps(meant, ensure_ascii=False)}?"


def shown_with_suggestion(name: object, names: Iterable[str], prefix: str = "") -> str:
    """Return an unknown name as a message shows it, with a suggestion."""
    text = shown(name)
    if isinstance(name, str):
        text += suggestion(name, names, prefix)
    return text


def argument_text(text: str) -> str:
    """Return an argument of a command, quoted if it needs quotes, for any shell."""
    needs_quotes = set(text) & set(" <>[]&()")
    return f'"{text}"' if needs_quotes else text


def shown(value: object) -> str:
    """Return a value as a message shows it: its repr, shortened to `LONGEST_SHOWN`."""
    try:
        text = printable(repr(plain_text(value)))  # an array's has several lines
    except FAULTS:
        # Such as an integer of thousands of digits, which Python does not print.
        return f"a value of type {type(value).__name__} that cannot be shown"
    return shortened(text, LONGEST_SHOWN)


def listed(items: Sequence[str], most: int) -> str:
    """Return the first `most` items with commas, and the number of the others."""
    text = ", ".join(items[:most])
    more = len(items) - most
    if more > 0:
        text += f" and {more} more"
    return text


def either(names: Iterable[str]) -> str:
    """Return names as a sentence lists them, such as `a, b or c`."""
    *others, last = names
    return f"{', '.join(others)} or {last}"


def uint(
    name: str,
    value: object,
    largest: int = MAX_ELEMENTS,
    least: int = 0,
    error: type[OnnxGatherError] = DescriptorError,
) -> int:
    """Return the value as an int, if it is an integer from `least` to `largest`.

    It may be an integer of Python or numpy.

    Raises:
        OnnxGatherError: The value is something else, such as a bool or a float; the
            message starts with `name`. It is an `error`.
    """
    number = value if type(value) is int else integer(value)
    if number is None or not least <= number <= largest:
        rule = f"{name} must be an integer from {least} to {largest}"
        raise error(f"{rule}, got {shown(value)}")
    return number


def uints(name: str, values: Iterable[object]) -> tuple[int, ...]:
    """Return the values as ints, each as `uint` accepts it.

    An error names the place, such as `Sizes[1]`.
    """
    numbers: list[int] = []
    for place, value in enumerate(values):
        # The usual case is decided here, as each descriptor has many sizes.
        if type(value) is int and 0 <= value <= MAX_ELEMENTS:
            numbers.append(value)
        else:
            numbers.append(uint(f"{name}[{place}]", value))
    return tuple(numbers)


def integer(value: object) -> int | None:
    """Return the value as an int, if it is an integer of Python or numpy.

    None stands for anything that is not an integer, including bool.
    """
    try:
        if isinstance(value, bool):
            return None
        return operator.index(cast("SupportsIndex", value))
    except FAULTS:  # of the class of the value
        return None


def check_seconds(name: str, value: object) -> float:
    """Return a timeout as a plain number.

    Raises:
        OnnxGatherError: It is no number above 0 and up to `LONGEST_TIMEOUT`.
    """
    number: float | None
    if issubclass(type(value), float):
        number = float.__float__(cast("float", value))
    else:
        number = integer(value)
    # NaN is refused too, as it is not above 0.
    if number is None or not 0 < number <= LONGEST_TIMEOUT:
        rule = f"{name} must be a number of seconds above 0, up to {LONGEST_TIMEOUT}"
        raise OnnxGatherError(f"{rule}, got {shown(value)}")
    return number


def plain_items(value: object) -> list[Any] | None:
    """Return the items of a list or of a tuple; None of anything else.

    Those of a subclass are what it holds, whatever its methods say.
    """
    kind = type(value)
    if kind is list:
        return cast("list[Any]", value)
    if issubclass(kind, list):
        return list[Any].copy(cast("list[Any]", value))
    if issubclass(kind, tuple):
        every = slice(None)
        return list(tuple[Any, ...].__getitem__(cast("tuple[Any, ...]", value), every))
    return None


def check_texts(name: str, value: object) -> dict[str, str]:
    """Return the texts of a mapping by their names; a path is a text too.

    Raises:
        OnnxGatherError: The value is something else; the message starts with `name`.
    """
    checked: dict[str, str] = {}
    for key, item in mapping(name, value).items():
        text = str(item) if isinstance(item, Path) else item
        checked[key] = check_name(f"{name}[{shown(key)}]", text)
    return checked


def sequence(name: str, value: object) -> list[Any]:
    """Return the value as a list, if it can be iterated and has an order.

    Raises:
        DescriptorError: The value is something else, such as text, a dict or a set; the
            message starts with `name`.
    """
    is_unordered = isinstance(value, str | bytes | dict | set)
    with suppress(*FAULTS):  # of its iteration
        if not is_unordered:
            endless = cast("Sequence[object]", value)  # as a generator may be
            return list(islice(endless, LONGEST_SEQUENCE))
    raise DescriptorError(f"{name} must be a sequence, got {shown(value)}")


def texts(name: str, value: object, rule: str) -> list[str]:
    """Return the texts that are iterated, at most `LONGEST_SEQUENCE` of them.

    Those of a set are in no order.

    Raises:
        OnnxGatherError: The value is something else; the message has the rule in words.
    """
    with suppress(*FAULTS):  # of its iteration
        endless = cast("Iterable[object]", value)
        items = [plain_text(item) for item in islice(endless, LONGEST_SEQUENCE)]
        if all(isinstance(item, str) for item in items):
            return items
    raise OnnxGatherError(f"{name} must be {rule}, got {shown(value)}")


def mapping(name: str, value: object) -> dict[str, Any]:
    """Return the value as a dict, if it is a mapping from names.

    None stands for an empty mapping.

    Raises:
        OnnxGatherError: The value is something else; the message starts with `name`.
    """
    rule = "a mapping from names"
    items = cast("Mapping[Any, Any]", {} if value is None else value)
    check_type(name, items, rule, Mapping)
    with suppress(*FAULTS):  # of its class
        found = {plain_text(key): item for key, item in items.items()}
        if all(isinstance(key, str) for key in found):
            return found
    raise OnnxGatherError(f"{name} must be {rule}, got {shown(items)}")


def path_text(name: str, value: object, rule: str) -> str:
    """Return a path as a plain text.

    Raises:
        OnnxGatherError: The value is neither a text nor an object that has a path of
            text; the message has the rule in words.
    """
    path = None
    try:
        path = plain_text(os.fspath(cast("os.PathLike[str]", value)))
    except (*FAULTS, OSError) as error:  # of its __fspath__
        pass_foreign(error)
    if isinstance(path, str):
        return path
    raise OnnxGatherError(f"{name} must be {rule}, got {shown(value)}")


def check_type(name: str, value: object, rule: str, *types: type[Any]) -> None:
    """Check that a value is of any of some types, as a rule says in words.

    Raises:
        OnnxGatherError: It is not; the message starts with `name`.
    """
    if not isinstance(value, types):
        raise OnnxGatherError(f"{name} must be {rule}, got {shown(value)}")


def check_name(name: str, value: object) -> str:
    """Return a value as a plain text, if it is one that a model can hold.

    Raises:
        OnnxGatherError: It is not; the message starts with `name`.
    """
    text = plain_text(value)
    # UTF-8 has no bytes for a lone surrogate.
    if isinstance(text, str) and not re.search("[\ud800-\udfff]", text):
        return text
    raise OnnxGatherError(f"{name} must be a text in UTF-8, got {shown(value)}")


def html_table(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return names with their values as a table for a notebook."""
    cells: list[str] = []
    for name, value in rows:
        shown_name = escape(printable(name))
        shown_value = escape(printable(str(value)))
        cells.append(f"<tr><th>{shown_name}</th><td>{shown_value}</td></tr>")
    caption = escape(printable(title))
    return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


def number_of(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1,500 cases` or `1 case`."""
    plural = "" if number == 1 else "s"
    return f"{number:,} {noun}{plural}"
