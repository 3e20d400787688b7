"""The command line; the only package that imports click and prints.

It is imported at the first use, as pytest imports the plugin in this package on its
every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgather.cli.commands import main

__all__ = ["main"]


def __getattr__(name: str) -> Any:
    """Return the command line."""
    if name != "main":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from onnxgather.cli import commands

    return commands.main
