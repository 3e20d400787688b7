"""The class of the structs' classes: a call with a wrong argument names the right one.

msgspec has a fast constructor in C, whose error says only that a name is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from onnxgather.core.checks import printable, suggestion


class StructWithHelp(msgspec.StructMeta):
    """The class of the classes that stand for structs of directml.h."""

    # A type checker sees the constructor itself.
    if not TYPE_CHECKING:

        def __call__(cls, *values: Any, **named: Any) -> Any:  # noqa: N805
            """Make a struct.

            Raises:
                TypeError: The values or the names are not those of the fields.
            """
            try:
                return super().__call__(*values, **named)
            except TypeError:
                for name in named:
                    if name not in cls.__struct_fields__:
                        raise TypeError(_help_of(cls, name)) from None
                raise


def _help_of(struct: type[msgspec.Struct], name: str) -> str:
    """Return what a message says of an argument that a class does not have."""
    fields = struct.__struct_fields__
    rule = f"{struct.__name__}() has no argument {printable(name)}"
    by_letters = {_letters(field): field for field in fields}
    letters = _letters(name)
    if letters in by_letters:
        return f"{rule}; in Python it is {by_letters[letters]}"
    # The struct in C has it, as a pointer does not tell how many sizes there are.
    if "sizes" in fields and letters == "dimensioncount":
        return f"{rule}; it is the number of sizes"
    begun = [field for field in fields if _letters(field).startswith(letters)]
    if len(begun) == 1:
        return f'{rule}; did you mean "{begun[0]}"?'
    return rule + (suggestion(name, fields) or f"; it has {', '.join(fields)}")


def _letters(name: str) -> str:
    """Return a name without what differs between directml.h and Python."""
    return name.replace("_", "").lower()
