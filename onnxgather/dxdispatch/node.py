"""A value in a JSON document together with the path to it, for errors that say where."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import cast

from onnxgather.dxdispatch.text import JsonObject
from onnxgather.errors import FileFormatError, OnnxGatherError

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its path, such as `$.commands[0].resource`.

    Each method that takes the value as something raises FileFormatError where it is not that.
    """

    value: object
    path: str = "$"

    def error(self, rule: str) -> FileFormatError:
        """Return the error that the value breaks a rule ("must be ...")."""
        return FileFormatError(f"{self.path} {rule}, got {shown(self.value)}")

    def fields(self) -> dict[str, object]:
        """Return an object as a dict; of repeated fields the first counts."""
        value = self.value
        if not isinstance(value, dict):
            raise self.error("must be an object")
        return cast("dict[str, object]", value)

    def field(self, name: str) -> Node:
        """Return a required field."""
        found = self.optional(name)
        if found is None:
            raise FileFormatError(f"{self._child(name)} is required")
        return found

    def optional(self, name: str) -> Node | None:
        """Return a field, or None where there is none."""
        fields = self.fields()
        return Node(fields[name], self._child(name)) if name in fields else None

    def entries(self) -> list[tuple[str, Node]]:
        """Return the names and values of an object that maps names of the user's choice.

        Here every repeated entry is read, and a dict made of the list keeps the last, as
        DxDispatch does for resources, dispatchables and bindings.
        """
        fields = self.fields()
        pairs = fields.pairs if isinstance(fields, JsonObject) else fields.items()
        found = [(key, Node(value, self._child(key))) for key, value in pairs]
        for key, _ in found:
            Node(key, f"{self.path}: a name").text()
        return found

    def items(self) -> list[Node]:
        """Return the elements of an array."""
        return [self.item(i) for i in range(len(self.array()))]

    def array(self) -> list[object]:
        """Return an array as a list of plain values."""
        value = self.value
        if not isinstance(value, list | tuple):
            raise self.error("must be an array")
        return list(cast("list[object]", value))

    def item(self, index: int) -> Node:
        """Return one element of an array."""
        return Node(self.array()[index], f"{self.path}[{index}]")

    def text(self) -> str:
        """Return a string; none may hold a NUL, as it would end there for DxDispatch."""
        if not isinstance(self.value, str):
            raise self.error("must be a string")
        if "\0" in self.value:
            raise self.error("must not hold a NUL character")
        return self.value

    def boolean(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.error("must be true or false")
        return self.value

    def integer(self) -> int:
        """Return an integer of 64 bits, signed or unsigned."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("must be an integer")
        if not -(2**63) <= value <= UINT64_MAX:
            raise self.error("must be an integer of 64 bits")
        return value

    def unsigned(self, largest: int = UINT64_MAX) -> int:
        """Return an integer from 0 to `largest`."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.error("must be an integer")
        if not 0 <= self.value <= largest:
            raise self.error(f"must be an integer from 0 to {largest}")
        return self.value

    def unsigned_field(self, name: str, default: int = 0) -> int:
        """Return an optional field that is an unsigned integer of 64 bits."""
        found = self.optional(name)
        return default if found is None else found.unsigned()

    def _child(self, key: str) -> str:
        if _PLAIN_KEY.fullmatch(key):
            return f"{self.path}.{key}"
        return f"{self.path}[{json.dumps(_shortened(key), ensure_ascii=False)}]"


@contextlib.contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Put a place in front of the message of an error that leaves the block."""
    try:
        yield
    except OnnxGatherError as error:
        raise error.at(where) from None


def shown(value: object) -> str:
    """Return a value as an error message shows it: short, whatever it is."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return repr(_shortened(value))
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else "a larger integer"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "an array"
    return "an object" if isinstance(value, dict) else f"a Python {type(value).__name__}"


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "..."
