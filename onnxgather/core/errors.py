"""The errors that bad input raises. Each is one sentence: where, which rule, what was found."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import ClassVar, Self

GOOD, FINDINGS, UNUSABLE, NOT_RUN = 0, 1, 2, 3
"""The exit codes of the commands."""


def printable(text: str) -> str:
    r"""Text with every character escaped that is not plain to see: `\x1b` is written, not sent.

    These are control characters and line breaks, characters that turn the direction of the text,
    blanks other than the space, and the surrogates of a file name that is not Unicode.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )


class OnnxGatherError(Exception):
    """Base of every error that onnxgather raises for bad input."""

    exit_code: ClassVar[int] = UNUSABLE
    """The exit code of a command that ends with this error."""

    def __str__(self) -> str:
        """The message, in one line: it may hold names of files and values as they were given."""
        return printable(super().__str__())

    def at(self, where: str) -> Self:
        """The same error, its message starting with `where`: a file, path or command."""
        return type(self)(f"{where}: {self}")


class DescriptorError(OnnxGatherError):
    """A descriptor, or an array given for one of its tensors, breaks a rule of DirectML."""

    exit_code = FINDINGS


class FileFormatError(OnnxGatherError):
    """A file or dict is not what DxDispatch reads; names the file and the path to the field."""


class ProviderError(OnnxGatherError):
    """An execution provider is missing, or did not run what it was asked to run."""

    exit_code = NOT_RUN


class IndexOutOfRangeError(OnnxGatherError):
    """An index is out of range where out_of_range="error" forbids it."""

    exit_code = FINDINGS


@contextlib.contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Put a file, path or command in front of the message of an error that leaves the block."""
    try:
        yield
    except OnnxGatherError as error:
        raise error.at(where) from None
