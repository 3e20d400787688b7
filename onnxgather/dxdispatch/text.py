"""JSON text as DxDispatch reads it: with comments, trailing commas and anything after the root.

The standard library's scanner does the reading. What it does not know is blanked out first, with
one space per character, so that its positions are those of the text.
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

from onnxgather.errors import FileFormatError

Json: TypeAlias = "bool | int | float | str | list[Json] | JsonObject | None"


class JsonObject(dict[str, "Json"]):
    """An object: a repeated key keeps its first value, and `pairs` has all of them in order."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        """Take the pairs as the scanner found them."""
        super().__init__()
        for key, value in pairs:
            self.setdefault(key, value)
        self.pairs = pairs


class _LiteralError(Exception):
    """A number or constant that DxDispatch does not read."""

    def __init__(self, literal: str, rule: str) -> None:
        super().__init__(rule)
        self.literal = literal
        self.rule = rule


# A string that never ends, like a comment that never ends, takes the rest of the text with it:
# each pattern passes over every character once.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<comment>//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING_COMMA = re.compile(
    rf"{_STRING}|[\[{{,:][ \t\r\n]*+,|(?P<comma>,)(?=[ \t\r\n]*+[\]}}])", re.DOTALL
)
_LITERAL = re.compile(rf"{_STRING}|[-+.0-9A-Za-z]++", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONE_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)

_RULES = {
    "Expecting value": "expected a value",
    "Expecting property name": "expected a field name in double quotes",
    "Expecting ':'": "expected ':'",
    "Expecting ','": "expected ',' or the end of the array or object",
    "Unterminated string": "expected a string with an end",
    "Invalid control character": "expected an escape for a control character in a string",
    "Invalid \\": "expected an escape that JSON knows",
}


def parse_json(source: str | bytes) -> Json:
    """Return the root value of a text.

    Raises:
        FileFormatError: The text has no root value; the message starts with line and column.
    """
    if isinstance(source, bytes):
        # What is not UTF-8 becomes lone surrogates: harmless in a comment or after the root.
        source = source.decode("utf-8", "surrogateescape")
    text = source.removeprefix("\ufeff")
    text = _COMMENT.sub(lambda m: _blank(m[0]) if m["comment"] else m[0], text)
    text = _TRAILING_COMMA.sub(lambda m: " " if m["comma"] else m[0], text)
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except _LiteralError as error:
        literals = _LITERAL.finditer(text, start)
        position = next(m.start() for m in literals if m[0] == error.literal)
        raise _error(text, position, error.rule, _shown(error.literal)) from None
    except RecursionError:
        rule = "expected fewer arrays and objects inside one another"
        raise _error(text, start, rule, "too many") from None
    _check_characters(text[start:end], text, start)
    return value


def _blank(comment: str) -> str:
    return "".join(c if c in "\r\n" else " " for c in comment)


def _integer(literal: str) -> int | float:
    if len(literal) <= 20 and -(2**63) <= (value := int(literal)) < 2**64:
        return value
    return _float(literal)  # as DxDispatch does with what 64 bits do not hold


def _float(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _LiteralError(literal, "expected a number that FLOAT64 holds")
    return value


def _constant(literal: str) -> float:
    raise _LiteralError(literal, f'expected a value ("{literal}" is written as a string)')


_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)


def _check_characters(read: str, text: str, start: int) -> None:
    if found := _SURROGATE.search(read):
        raise _error(text, start + found.start(), "expected UTF-8", _shown(found[0]))
    if "\\u" not in read:
        return
    for escape in _LONE_ESCAPE.finditer(read):
        if escape["lone"]:
            rule = "expected a pair of surrogates"
            raise _error(text, start + escape.start(), rule, escape[0] + " alone")


def _syntax_error(text: str, error: json.JSONDecodeError) -> FileFormatError:
    if text.startswith("/*", error.pos):
        return _error(text, error.pos, "expected '*/' after '/*'", "the end of the text")
    rule = next((ours for theirs, ours in _RULES.items() if error.msg.startswith(theirs)), None)
    found = text[error.pos : error.pos + 1]
    return _error(
        text, error.pos, rule or "expected JSON", _shown(found) if found else "the end of the text"
    )


def _error(text: str, position: int, rule: str, found: str) -> FileFormatError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return FileFormatError(f"line {line} column {column}: {rule}, got {found}")


def _shown(found: str) -> str:
    if "\udc80" <= found <= "\udcff":
        return f"byte 0x{ord(found) - 0xDC00:02x}"
    return repr(found) if len(found) <= 40 else repr(found[:40]) + "..."
