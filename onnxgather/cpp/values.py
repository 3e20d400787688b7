"""What an expression of C++ is worth: a number, a pointer, an object, or not known and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from onnxgather.cpp.structs import BUFFER, SIZES, STRUCTS


class Unknown(NamedTuple):
    """A value that the file does not say."""

    text: str
    """What stands there."""
    line: int
    why: str
    """Such as `a parameter`."""


class Kind(NamedTuple):
    """A type: that of a number, a struct, a pointer or an array."""

    name: str
    """The type of the number or of the elements."""
    arrays: tuple[Value | None, ...] = ()
    """The lengths of an array, the outermost first; None where its initializer says it."""
    decays: bool = False
    """Whether it is an array of C, which is handed on as a pointer."""
    is_pointer: bool = False
    is_reference: bool = False
    is_const: bool = False


class Pointer(NamedTuple):
    """The address of an object, or of an element of an array."""

    target: Object
    offset: int = 0


class Braces(NamedTuple):
    """A list in braces: values, each with the field or the number that designates it."""

    items: list[tuple[str | int | None, Value]]


@dataclass(eq=False)
class Object:
    """A struct or an array, which pointers can lead to."""

    kind: Kind
    line: int
    blank: Value
    """What a member has that nothing was assigned to."""
    members: dict[str | int, Value] = field(default_factory=dict[str | int, "Value"])
    length: int = 0
    """How many elements an array has."""
    spoilt: Unknown | None = None
    """Why nothing is known of it any more."""
    shared: bool = False
    """Whether its address was taken."""
    name: str = ""
    """The variable that holds it, such as `descs[1]`."""

    def get(self, key: str | int) -> Value:
        """The value of a field or of an element."""
        return self.spoilt or self.members.get(key, self.blank)

    def put(self, key: str | int, value: Value, where: Unknown) -> None:
        """Assign to a field or to an element; `where` is the assignment."""
        if key not in self.keys:
            whole = "the array" if self.kind.arrays else self.kind.name
            self.spoilt = where._replace(why=f"which sets what {whole} does not have")
        elif self.shared and self.members.get(key, value) != value:
            self.spoilt = where._replace(why="a change after the address was taken")
        self.members[key] = value

    @property
    def keys(self) -> tuple[str, ...] | range:
        """The names of the fields or the numbers of the elements."""
        return range(self.length) if self.kind.arrays else STRUCTS[self.kind.name]

    def call(self, name: str) -> None:
        """Name the variable that holds it."""
        self.name = self.name or name
        for key, member in self.members.items() if self.kind.arrays else ():
            if isinstance(member, Object):
                member.call(f"{name}[{key}]")

    def spoil(self, where: Unknown) -> None:
        """Make it unknown, and what an array of pointers leads to."""
        self.spoilt = self.spoilt or where
        for member in self.members.values() if self.kind.arrays else ():
            if isinstance(member, Pointer):
                member.target.spoilt = member.target.spoilt or where

    def give_away(self, where: Unknown) -> None:
        """Let a function have it, which may change an array or a buffer, and fill the others."""
        if self.kind.arrays or self.kind.name == BUFFER:
            self.spoil(where)
        elif not isinstance(self.blank, Unknown):
            self.blank = where

    def copy(self) -> Object:
        """An object of its own with the same members."""
        members = {k: v.copy() if isinstance(v, Object) else v for k, v in self.members.items()}
        return Object(self.kind, self.line, self.blank, members, self.length, self.spoilt)

    @property
    def address(self) -> Pointer:
        """A pointer to it."""
        self.shared = True
        return Pointer(self)


Value = int | Unknown | Pointer | Object | Braces


def target_of(value: Value) -> Object | None:
    """The object that a value is or points at."""
    value = value.target if isinstance(value, Pointer) and not value.offset else value
    return value if isinstance(value, Object) else None


def fits(value: int, name: str) -> bool:
    """Whether a type of numbers holds a value; any type of other kinds takes what 64 bits hold."""
    bits = 8 * SIZES.get(name, 8)
    return -(1 << bits - 1) <= value < 1 << bits
