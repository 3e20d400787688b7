"""JSON documents as DxDispatch reads them: the text, and each value with its path.

DxDispatch allows comments, trailing commas and anything after the root value. The
standard library's scanner does the reading. It does not know comments and trailing
commas, so each of their characters is first replaced by a space: its positions are then
those of the text.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar, cast

from msgspec import Struct

from onnxgather.core.checks import plain_items, plain_text, shortened, suggestion
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import reason

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1

# A string or comment without an end matches the rest of the text, so that each pattern
# passes over every character once.
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
"""The starts of the standard library's messages, with the rules of our messages."""

_REQUIRED = object()

_T = TypeVar("_T")


class JsonObject(dict[str, object]):
    """An object: a repeated key keeps its first value.

    `pairs` has all keys and values in order where a key is repeated. Else it is None,
    as a second list needs memory.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        """Keep the pairs in the order of the text."""
        super().__init__(pairs)
        self.pairs = pairs if len(self) < len(pairs) else None
        # A dict keeps the last value of a key: backwards, that is the first.
        self.update(reversed(self.pairs or ()))


class _LiteralError(Exception):
    """A number or constant that DxDispatch does not read: its text and a rule."""


class Field(Struct):
    """A value of a document and its path, such as `$.commands[0].resource`.

    Each method that reads the value raises FileFormatError if the value has another
    type.
    """

    value: object
    place: str | tuple[Field, str | int] = "$"
    """A path; or the object or array around the value, and the key or the index there.

    So only the path of a message is written.
    """

    @property
    def path(self) -> str:
        """Where the value is in its document."""
        if isinstance(self.place, str):
            return self.place
        around, key = self.place
        if isinstance(key, int):
            return f"{around.path}[{key}]"
        key = shortened(key, 60)
        if key.isidentifier() and key.isascii():
            return f"{around.path}.{key}"
        shown = json.dumps(key, ensure_ascii=False)
        return f"{around.path}[{shown}]"

    def error(self, rule: str, shown: object = None) -> FileFormatError:
        """Return the error for a broken rule, such as "must be true or false".

        It shows the value, or what is given in its place.
        """
        if shown is None:
            shown = quoted(self.value)
        return FileFormatError(f"{self.path} {rule}, got {shown}")

    def require(self, holds: bool, rule: str, shown: object = None) -> None:
        """Raise the error for a rule unless the rule holds."""
        if not holds:
            raise self.error(rule, shown)

    def about(self, subject: str) -> Field:
        """Return the same value, with errors that name a subject.

        The subject is, for example, the file that the value stands for.
        """
        return Field(self.value, f"{self.path}: {subject}")

    @contextmanager
    def opening(self, path: str | None = None) -> Generator[None, None, None]:
        """Turn an OSError into FileFormatError, which names the file.

        The file is by default the value.
        """
        try:
            yield
        except OSError as error:
            where = f"{self.path}: {reason(error)}"
            raise FileFormatError(f"{where}: {path or self.text()}") from None

    def fields(self) -> dict[str, object]:
        """Read an object; of repeated fields the first counts."""
        value = self.value
        if not isinstance(value, dict):
            raise self.error("must be an object")
        fields = cast("dict[str, object]", value)
        if type(fields) in (dict, JsonObject):
            return fields
        # A class of the user may have other methods.
        return dict(dict[str, object].items(fields))

    def member(self, name: str, default: object = _REQUIRED) -> Field:
        """Read a field of an object; without a default value, it may not be absent."""
        value = self.fields().get(name, default)
        if value is _REQUIRED:
            raise self._missing(name)
        return Field(value, (self, name))

    def _missing(self, name: str) -> FileFormatError:
        """Return the error for a field that is absent."""
        path = Field(None, (self, name)).path
        # The keys of a dict that no JSON was read from may be anything.
        keys = cast("Iterable[object]", self.fields())
        for key in islice(keys, 1000):
            if not isinstance(key, str):
                return self.error("must have strings as keys", quoted(key))
            meant = suggestion(key, [name], near=0.85)
            if meant:
                return FileFormatError(f"{path} is required, got {quoted(key)}{meant}")
        return FileFormatError(f"{path} is required")

    def first(self, *names: str) -> Field | None:
        """Read the first of these fields that an object has."""
        fields = self.fields()
        for name in names:
            if name in fields:
                return self.member(name)
        return None

    def entries(self) -> list[tuple[str, Field]]:
        """Read an object whose keys the program's author chose.

        Repeated entries are all in the list. A dict made of it keeps the last entry, as
        DxDispatch does for resources, dispatchables and bindings.
        """
        fields = self.fields()
        repeated = fields.pairs if isinstance(fields, JsonObject) else None
        pairs = fields.items() if repeated is None else repeated
        entries = [(key, Field(value, (self, key))) for key, value in pairs]
        for key, _ in entries:
            # A key is checked like a text: a NUL would end it.
            name = Field(key, f"{self.path}: a name")
            name.text()
        return entries

    def array(self) -> list[object]:
        """Read an array of plain values."""
        items = plain_items(self.value)
        if items is None:
            raise self.error("must be an array")
        return items

    def item(self, index: int) -> Field:
        """Return an item of an array."""
        return Field(self.array()[index], (self, index))

    def items(self) -> Generator[Field, None, None]:
        """Yield the items of an array."""
        for place, value in enumerate(self.array()):
            yield Field(value, (self, place))

    def integers(self, largest: int | None = None) -> list[int]:
        """Read an array of integers: of 64 bits, or from 0 to `largest`."""
        low = -(2**63)
        high = UINT64_MAX
        if largest is not None:
            low = 0
            high = largest
        values = self.array()
        for place, value in enumerate(values):
            if type(value) is int and low <= value <= high:
                continue
            # Only a wrong value becomes a field, as an array may have millions.
            item = self.item(place)
            if largest is None:
                item.integer()
            else:
                item.unsigned(largest)
        return cast("list[int]", values)

    def text(self) -> str:
        """Read a string without a NUL, as for DxDispatch the string ends at a NUL."""
        text = plain_text(self.value)
        if not isinstance(text, str):
            raise self.error("must be a string")
        if "\0" in text:
            raise self.error("must not hold a NUL character")
        return text

    def texts(self) -> list[str]:
        """Read a string, or an array of strings."""
        if isinstance(self.value, str):
            return [self.text()]
        rule = "must be a string or an array of strings"
        self.require(isinstance(self.value, list | tuple), rule)
        return [item.text() for item in self.items()]

    def known(self, rule: str, names: Collection[str], prefix: str = "") -> str:
        """Read a string that is any of the names; the prefix may be before it."""
        name = self.text().removeprefix(prefix)
        if name not in names:
            meant = suggestion(self.text(), names, prefix)
            raise self.error(rule, quoted(self.value) + meant)
        return name

    def choice(self, choices: Collection[str], prefix: str = "") -> str:
        """Read a string as `known` does, with an error that lists the choices."""
        return self.known(f"must be one of {', '.join(choices)}", choices, prefix)

    def look_up(self, things: Mapping[str, _T], kind: str) -> _T:
        """Read a name, and return the thing of a kind that has the name."""
        return things[self.known(f"must be the name of a {kind}", things)]

    def boolean(self) -> bool:
        """Read true or false."""
        if not isinstance(self.value, bool):
            raise self.error("must be true or false")
        return self.value

    def integer(self) -> int:
        """Read an integer of 64 bits, signed or unsigned."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("must be an integer")
        if not -(2**63) <= value <= UINT64_MAX:
            raise self.error("must be an integer of 64 bits")
        return value

    def unsigned(self, largest: int = UINT64_MAX) -> int:
        """Read an integer from 0 to `largest`."""
        value = self.integer()
        self.require(0 <= value <= largest, f"must be an integer from 0 to {largest}")
        return value


def quoted(value: object) -> str:
    """Return a JSON value as a message shows it, shortened if it is long."""
    value = plain_text(value)
    if isinstance(value, str):
        return repr(shortened(value, 60))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else "a larger integer"
    if isinstance(value, float):
        return repr(value)
    return f"a Python {type(value).__name__}"


def parse_json(source: str | bytes) -> object:
    """Read the root value of a text.

    Raises:
        FileFormatError: The text has no root value; the message starts with line and
            column.
    """
    if isinstance(source, bytes):
        # Bytes that are not UTF-8 become lone surrogates: harmless in a comment or
        # after the root.
        source = source.decode("utf-8", "surrogateescape")
    # The order matters: a comment may stand between a trailing comma and the bracket.
    text = _blanked(_COMMENT, source.removeprefix("\ufeff"))
    text = _blanked(_TRAILING_COMMA, text)
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _syntax_error(text, error) from None
    except _LiteralError as error:
        raise _literal_error(text, start, error) from None
    except RecursionError:
        rule = "expected fewer arrays and objects inside one another"
        raise _error(text, start, rule, "too many") from None
    _check_characters(text, start, end)
    return value


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with spaces in place of what the pattern calls blank.

    Its lines are as they were. It is written piece by piece, as millions of pieces in a
    list need more memory than the text.
    """
    written = io.StringIO()
    end = 0
    for match in pattern.finditer(text):
        blank = match["blank"]
        if blank:
            written.write(text[end : match.start()])
            written.write(_NO_NEWLINE.sub(" ", blank))
            end = match.end()
    if end == 0:  # nothing is blank
        return text
    written.write(text[end:])
    return written.getvalue()


def _integer(literal: str) -> int | float:
    # A longer literal is not tried: the time to read it grows with its square.
    if len(literal) <= 20:
        value = int(literal)
        if -(2**63) <= value <= UINT64_MAX:
            return value
    return _float(literal)  # as DxDispatch reads an integer that 64 bits do not hold


def _float(literal: str) -> float:
    value = float(literal)
    if value in (float("inf"), float("-inf")):
        raise _LiteralError(literal, "expected a number that FLOAT64 holds")
    return value


def _constant(literal: str) -> float:
    rule = f'expected a value ("{literal}" is written as a string)'
    raise _LiteralError(literal, rule)


_DECODER = json.JSONDecoder(
    object_pairs_hook=JsonObject,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)


def _check_characters(text: str, start: int, end: int) -> None:
    """Check that the text which was read has no half of a surrogate pair."""
    half = _SURROGATE.search(text, start, end)
    if half:
        character = _character(half[0])
        raise _error(text, half.start(), "expected UTF-8", character)
    # Most texts have no escape, so they need not be searched by the slower pattern.
    if text.find("\\u", start, end) < 0:
        return
    for escape in _LONE_ESCAPE.finditer(text, start, end):
        if escape["lone"]:
            rule = "expected a pair of surrogates"
            raise _error(text, escape.start(), rule, escape[0] + " alone")


def _literal_error(text: str, start: int, error: _LiteralError) -> FileFormatError:
    """Return the error for a literal, at the first place where it is in the text."""
    literal, rule = error.args
    position = start
    for match in _LITERAL.finditer(text, start):
        if match[0].startswith(literal):
            position = match.start()
            break
    return _error(text, position, rule, repr(shortened(literal, 40)))


def _syntax_error(text: str, error: json.JSONDecodeError) -> FileFormatError:
    position = error.pos
    # A comment with an end is blank by now.
    if text.startswith("/*", position):
        rule = "expected '*/' after '/*'"
        return _error(text, position, rule, "the end of the text")
    rule = "expected JSON"
    for start, our_rule in _RULES.items():
        if error.msg.startswith(start):
            rule = our_rule
            break
    if text.startswith("'", position):
        rule = "expected double quotes"
    character = _character(text[position : position + 1])
    return _error(text, position, rule, character)


def _error(text: str, position: int, rule: str, shown: str) -> FileFormatError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return FileFormatError(f"line {line} column {column}: {rule}, got {shown}")


def _character(text: str) -> str:
    """Return a character as a message shows it; empty text is the end."""
    if not text:
        return "the end of the text"
    if "\udc80" <= text <= "\udcff":  # a byte that is not UTF-8
        return f"byte 0x{ord(text) - 0xDC00:02x}"
    return repr(text)
