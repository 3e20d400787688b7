"""The public names by what they are: what a user calls, and what has no docstring."""

from __future__ import annotations

import ast
import enum
import inspect

from folders import ROOT

import onnxgather as og

STUB = ROOT / "onnxgather" / "__init__.pyi"


def modules_of_stub() -> dict[str, str]:
    """Return the module that defines each name of the stub."""
    modules: dict[str, str] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            for alias in node.names:
                assert alias.asname == alias.name, "else the name is not exported"
                modules[alias.name] = node.module
    return modules


DEFINED = [
    name
    for name in og.__all__
    if inspect.isclass(getattr(og, name)) or inspect.isfunction(getattr(og, name))
]
"""The public functions and classes."""

VALUES = [name for name in og.__all__ if name not in DEFINED]
"""The other public names: unions, names of options, and a table.

A docstring of their own is nowhere in Python: `help` shows that of their type.
"""


def is_made(made: type) -> bool:
    """Return whether users make a class themselves, so that it has arguments.

    They make no errors, and what functions return they read alone.
    """
    return issubclass(made, enum.Enum) or "    Args:\n" in (made.__doc__ or "")


CALLED = [
    name
    for name in DEFINED
    if inspect.isfunction(getattr(og, name)) or is_made(getattr(og, name))
]
"""The public functions, and the classes that users make."""
