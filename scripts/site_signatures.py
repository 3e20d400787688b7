"""Shows the site's generator what it does not see in the code.

mkdocs.yml names this file.
"""

from __future__ import annotations

import inspect
from enum import Enum
from typing import Any

import griffe

import onnxgather


class PublicNames(griffe.Extension):
    """Gives a class the parameters that it is made with, and titles examples."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Give the examples of a docstring the title that the generator knows."""
        if obj.docstring:
            titled = obj.docstring.value.replace("Example:\n", "Examples:\n")
            obj.docstring.value = titled

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Give a class the constructor that msgspec makes of its fields.

        Classes that no user constructs do not document its parameters.
        """
        public: Any = getattr(onnxgather, cls.name, None)
        if not hasattr(public, "__struct_fields__"):
            return
        if not cls.docstring or "Args:\n" not in cls.docstring.value:
            return
        parameters = [
            griffe.Parameter(
                parameter.name,
                kind=griffe.ParameterKind.positional_or_keyword,
                annotation=_annotation(parameter),
                default=_default(parameter),
            )
            for parameter in inspect.signature(public).parameters.values()
        ]
        this = griffe.Parameter("self", kind=griffe.ParameterKind.positional_only)
        constructor = griffe.Function(
            "__init__", parameters=griffe.Parameters(this, *parameters), parent=cls
        )
        cls.set_member("__init__", constructor)


def _annotation(parameter: inspect.Parameter) -> str:
    """Return the type of a parameter, with the bare names of public classes."""
    text = inspect.formatannotation(parameter.annotation)
    return text.replace("onnxgather.", "")


def _default(parameter: inspect.Parameter) -> str | None:
    """Return the default of a parameter as text; None if it has none."""
    if parameter.default is inspect.Parameter.empty:
        return None
    if isinstance(parameter.default, Enum):
        return str(parameter.default)
    return repr(parameter.default)
