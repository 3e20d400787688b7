"""JSON documents as DxDispatch reads them: the text, and each value with the path to it.

DxDispatch allows comments, trailing commas and anything after the root value. The
standard library's scanner does the reading. Comments and trailing commas, which it does
not know, are replaced with spaces first, one per character, so that its positions are
those of the text.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar, cast

from onnxgather.core.checks import suggestion
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import reason

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1

# A string or comment without an end takes the rest of the text with it, so that each
# pattern passes over every character once.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<blank>//[^\n]*|/\*.*?\*/)|/\*.*", re.DOTALL)
_TRAILING_COMMA = re.compile(
    rf"{_STRING}|[\[{{,:][ \t\r\n]*+,|(?P<blank>,)(?=[ \t\r\n]*+[\]}}])", re.DOTALL
)
_LITERAL = re.compile(rf"{_STRING}|[-+.0-9A-Za-z]++", re.DOTALL)
_NO_NEWLINE = re.compile(r"[^\r\n]")
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
    "Invalid control character": (
        "expected an escape for a control character in a string"
    ),
    "Invalid \\": "expected an escape that JSON knows",
}
"""The starts of the standard library's messages, each with the rule that our message
names."""

_REQUIRED = object()

_T = TypeVar("_T")


class JsonObject(dict[str, object]):
    """An object: a repeated key keeps its first value.

    `pairs` has all keys and values in order where a key is repeated; else it is None,
    as a second list takes memory.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        """Take the pairs in the order of the text."""
        super().__init__(pairs)
        self.pairs = pairs if len(self) < len(pairs) else None
        self.update(reversed(self.pairs or ()))


class _LiteralError(Exception):
    """A number or constant that DxDispatch does not read: its text and the rule it breaks."""


@dataclass(slots=True)  # as making one takes three times as long when it is frozen
class Field:
    """A value of a document and its path, such as `$.commands[0].resource`.

    Each method that reads the value raises FileFormatError if the value has another
    type.
    """

    value: object
    path: str = "$"

    def error(self, rule: str, found: object = None) -> FileFormatError:
        """The error for a broken rule ("must be ..."); `found` is by default the value."""
        found = quoted(self.value) if found is None else found
        return FileFormatError(f"{self.path} {rule}, got {found}")

    def require(self, holds: bool, rule: str, found: object = None) -> None:
        """Raise the error for a rule unless the rule holds."""
        if not holds:
            raise self.error(rule, found)

    def about(self, subject: str) -> Field:
        """The same value, with errors that name a subject, such as the file that it stands for."""
        return Field(self.value, f"{self.path}: {subject}")

    @contextmanager
    def opening(self, path: str | None = None) -> Generator[None, None, None]:
        """Turn an OSError into FileFormatError, which names the file: by default the value."""
        try:
            yield
        except OSError as error:
            raise FileFormatError(
                f"{self.path}: {reason(error)}: {path or self.text()}"
            ) from None

    def fields(self) -> dict[str, object]:
        """Read an object; of repeated fields the first counts."""
        return cast("dict[str, object]", self._of(dict, "must be an object"))

    def member(self, name: str, default: object = _REQUIRED) -> Field:
        """Read a field of an object; it may be absent only if there is a default value."""
        value, path = self.fields().get(name, default), self._member_path(name)
        if value is _REQUIRED:
            # The keys of a dict that no JSON was read from may be anything.
            for near in islice(cast("Iterable[object]", self.fields()), 1000):
                if not isinstance(near, str):
                    raise self.error("must have strings as keys", quoted(near))
                if meant := suggestion(near, [name], near=0.85):
                    raise FileFormatError(
                        f"{path} is required, got {quoted(near)}{meant}"
                    )
            raise FileFormatError(f"{path} is required")
        return Field(value, path)

    def first(self, *names: str) -> Field | None:
        """Read the first of these fields that an object has."""
        return next(
            (self.member(name) for name in names if name in self.fields()), None
        )

    def entries(self) -> list[tuple[str, Field]]:
        """Read an object whose keys the program's author chose.

        Repeated entries are all in the list. A dict made of it keeps the last one, as
        DxDispatch does for resources, dispatchables and bindings.
        """
        fields = self.fields()
        repeated = fields.pairs if isinstance(fields, JsonObject) else None
        pairs = fields.items() if repeated is None else repeated
        found = [(key, Field(value, self._member_path(key))) for key, value in pairs]
        for key, _ in found:
            Field(key, self.about("a name").path).text()
        return found

    def array(self) -> list[object]:
        """Read an array of plain values."""
        found = cast("list[object]", self._of((list, tuple), "must be an array"))
        return (
            found if type(found) is list else list(iter(found))
        )  # whatever its len says

    def item(self, index: int) -> Field:
        """The item of an array."""
        return Field(self.array()[index], f"{self.path}[{index}]")

    def items(self) -> Generator[Field, None, None]:
        """Yield the items of an array."""
        for i, value in enumerate(self.array()):
            yield Field(value, f"{self.path}[{i}]")

    def integers(self, largest: int | None = None) -> list[int]:
        """Read an array of integers: of 64 bits, or from 0 to `largest`."""
        low, high = (-(2**63), UINT64_MAX) if largest is None else (0, largest)
        values = self.array()
        for i, value in enumerate(values):
            if type(value) is not int or not low <= value <= high:
                item = self.item(i)
                _ = item.integer() if largest is None else item.unsigned(largest)
        return cast("list[int]", values)

    def text(self) -> str:
        """Read a string, which must not hold a NUL: for DxDispatch the string ends there."""
        value = self._of(str, "must be a string")
        self.require("\0" not in value, "must not hold a NUL character")
        return value

    def texts(self) -> list[str]:
        """Read a string, or an array of strings."""
        if isinstance(self.value, str):
            return [self.text()]
        rule = "must be a string or an array of strings"
        self.require(isinstance(self.value, list | tuple), rule)
        return [item.text() for item in self.items()]

    def known(self, rule: str, names: Collection[str], prefix: str = "") -> str:
        """Read a string that is one of the names; the prefix may stand before it."""
        name = self.text().removeprefix(prefix)
        if name not in names:
            raise self.error(
                rule, quoted(self.value) + suggestion(self.text(), names, prefix)
            )
        return name

    def choice(self, choices: Collection[str], prefix: str = "") -> str:
        """Read a string as `known` does, with an error that lists the choices."""
        return self.known(f"must be one of {', '.join(choices)}", choices, prefix)

    def look_up(self, things: Mapping[str, _T], kind: str) -> _T:
        """Read a name, and return the thing of a kind that has the name."""
        return things[self.known(f"must be the name of a {kind}", things)]

    def boolean(self) -> bool:
        """Read true or false."""
        return self._of(bool, "must be true or false")

    def integer(self) -> int:
        """Read an integer of 64 bits, signed or unsigned."""
        rule = "must be an integer"
        self.require(not isinstance(self.value, bool), rule)
        value = self._of(int, rule)
        self.require(-(2**63) <= value <= UINT64_MAX, "must be an integer of 64 bits")
        return value

    def unsigned(self, largest: int = UINT64_MAX) -> int:
        """Read an integer from 0 to `largest`."""
        value = self.integer()
        self.require(0 <= value <= largest, f"must be an integer from 0 to {largest}")
        return value

    def _of(self, kind: type[_T] | tuple[type[_T], ...], rule: str) -> _T:
        if not isinstance(self.value, kind):
            raise self.error(rule)
        return self.value

    def _member_path(self, key: str) -> str:
        if key.isidentifier() and key.isascii():
            return f"{self.path}.{key}"
        return f"{self.path}[{json.dumps(_shortened(key), ensure_ascii=False)}]"


def quoted(value: object) -> str:
    """A JSON value as a message shows it, shortened if it is long."""
    if isinstance(value, str):
        return repr(_shortened(value))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else "a larger integer"
    return (
        repr(value) if isinstance(value, float) else f"a Python {type(value).__name__}"
    )


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."


def parse_json(source: str | bytes) -> object:
    """Read the root value of a text.

    Raises:
        FileFormatError: The text has no root value; the message starts with line and column.
    """
    if isinstance(source, bytes):
        # Bytes that are not UTF-8 become lone surrogates: harmless in a comment or
        # after the root.
        source = source.decode("utf-8", "surrogateescape")
    text = _blanked(_TRAILING_COMMA, _blanked(_COMMENT, source.removeprefix("\ufeff")))
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except _LiteralError as error:
        literal, rule = error.args
        found = (
            m.start()
            for m in _LITERAL.finditer(text, start)
            if m[0].startswith(literal)
        )
        position = next(found, start)
        found = repr(literal[:40]) + "..." * (len(literal) > 40)
        raise _error(text, position, rule, found) from None
    except RecursionError:
        rule = "expected fewer arrays and objects inside one another"
        raise _error(text, start, rule, "too many") from None
    _check_characters(text, start, end)
    return value


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces in place of what the pattern calls blank, and its lines as they were.

    It is written piece by piece, as millions of pieces in a list take more memory than
    the text.
    """
    written, end = io.StringIO(), 0
    for match in pattern.finditer(text):
        if match["blank"]:
            written.write(text[end : match.start()])
            written.write(_NO_NEWLINE.sub(" ", match["blank"]))
            end = match.end()
    written.write(text[end:])
    return written.getvalue() if end else text


def _integer(literal: str) -> int | float:
    if len(literal) <= 20 and -(2**63) <= (value := int(literal)) <= UINT64_MAX:
        return value
    return _float(literal)  # as DxDispatch reads an integer that 64 bits do not hold


def _float(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _LiteralError(literal, "expected a number that FLOAT64 holds")
    return value


def _constant(literal: str) -> float:
    raise _LiteralError(
        literal, f'expected a value ("{literal}" is written as a string)'
    )


_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)


def _check_characters(text: str, start: int, end: int) -> None:
    """Check that the text which was read has no half of a surrogate pair."""
    if found := _SURROGATE.search(text, start, end):
        raise _error(text, found.start(), "expected UTF-8", _character(found[0]))
    if text.find("\\u", start, end) < 0:
        return
    for escape in _LONE_ESCAPE.finditer(text, start, end):
        if escape["lone"]:
            rule = "expected a pair of surrogates"
            raise _error(text, escape.start(), rule, escape[0] + " alone")


def _syntax_error(text: str, error: json.JSONDecodeError) -> FileFormatError:
    if text.startswith("/*", error.pos):
        return _error(
            text, error.pos, "expected '*/' after '/*'", "the end of the text"
        )
    rules = (ours for theirs, ours in _RULES.items() if error.msg.startswith(theirs))
    rule = next(rules, "expected JSON")
    if text.startswith("'", error.pos):
        rule = "expected double quotes"
    return _error(text, error.pos, rule, _character(text[error.pos : error.pos + 1]))


def _error(text: str, position: int, rule: str, found: str) -> FileFormatError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return FileFormatError(f"line {line} column {column}: {rule}, got {found}")


def _character(found: str) -> str:
    if "\udc80" <= found <= "\udcff":
        return f"byte 0x{ord(found) - 0xDC00:02x}"
    return repr(found) if found else "the end of the text"
