"""Exceptions that nothing foresees: an error of one line, and with --debug where."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

import click

from onnxgather.cli.terminal import say
from onnxgather.core.checks import LONGEST_SHOWN, shortened
from onnxgather.core.errors import OnnxGatherError

REQUEST = (
    "please report this, with the file and with what onnxgather --debug COMMAND prints"
)
"""The end of the message of an error that nothing foresees."""

_CLICKS = (click.ClickException, click.exceptions.Exit, click.Abort)

_OF_THE_MACHINE = (ImportError, MemoryError, OSError)
"""Their messages say what is missing, as `Commands.main` words it."""


class UnforeseenError(OnnxGatherError):
    """An exception that is a mistake of the package, whatever a file holds."""


def is_lack_of_memory(error: Exception) -> bool:
    """Return whether an exception says that memory does not hold something."""
    # Protobuf raises an EncodeError where it cannot copy a message.
    is_of_protobuf = type(error).__name__ == "EncodeError"
    return isinstance(error, MemoryError) or is_of_protobuf


@contextlib.contextmanager
def foreseen(where: str = "") -> Generator[None]:
    """Turn an exception of the block that nothing foresees into an UnforeseenError.

    Args:
        where: The start of the message, such as `m.onnx: cannot be read`; "" where the
            file is not known.
    """
    try:
        yield
    except (OnnxGatherError, *_CLICKS, *_OF_THE_MACHINE):
        raise
    except Exception as error:
        if is_lack_of_memory(error):
            raise
        message = shortened(" ".join(str(error).split()), LONGEST_SHOWN)
        sentence = ": ".join(filter(None, (where, type(error).__name__, message)))
        raise UnforeseenError(f"{sentence}; {REQUEST}") from error


def say_where(error: OnnxGatherError) -> None:
    """Print the traceback of an error that nothing foresees, if --debug is given."""
    context = click.get_current_context(silent=True)
    if context is None or not isinstance(error, UnforeseenError):
        return
    if not context.find_root().params.get("debug"):
        return
    # Imported late, as it is for this alone.
    import traceback

    for text in traceback.format_exception(error.__cause__):
        for line in text.splitlines():
            say(line, err=True)
