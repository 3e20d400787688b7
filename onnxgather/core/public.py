"""Public names: functions and classes that users import from `onnxgather` itself."""

from __future__ import annotations

import inspect
from typing import TypeVar

PACKAGE = "onnxgather"
"""The module that users know the public names by."""

T = TypeVar("T")


def public(definition: T) -> T:
    """Let a function or a class print and pickle as `onnxgather.NAME`.

    `onnxgather/__init__.pyi` names the module that defines it.
    """
    if isinstance(definition, type):
        # Annotations are texts, which msgspec and typing read in the module of the
        # class. They are read here, as the face of the package has few of their names.
        own_name = {definition.__name__: definition}
        hints = inspect.get_annotations(definition, locals=own_name, eval_str=True)
        definition.__annotations__ = hints
    definition.__module__ = PACKAGE
    return definition
