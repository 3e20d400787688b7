"""The errors that bad input raises: each names the place, the rule and the value."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import ClassVar, Self

from onnxgather.core.public import public

# The exit codes of the commands.

GOOD = 0
"""Nothing is wrong."""
FINDINGS = 1
"""A rule is broken, or a result differs."""
UNUSABLE = 2
"""The input cannot be used."""
NOT_RUN = 3
"""A provider is missing, or did not run the model."""


LONGEST_WORD = 300
"""The most characters that a sentence, or a line of a table, has without a space."""

LONGEST_LINE = 1000
"""The most characters of a sentence, or of a line of a table."""


FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What Python, a library or an object raises of a value that it cannot use.

Around foreign code these are caught, and the library's own classes, but not Exception:
a handler of a signal raises the caller's own exceptions there, which must arrive.
"""


def pass_foreign(error: Exception) -> None:
    """Raise an OSError again if a handler of a signal raised it, not the system.

    A TimeoutError is an OSError, for example. An error of the system has a number.
    """
    # Case: libraries raise OSError itself, and Python an UnsupportedOperation, which is
    # a ValueError too, without a number.
    if type(error) is OSError or isinstance(error, ValueError):
        return
    if isinstance(error, OSError) and error.errno is None:
        raise error


def printable(text: str) -> str:
    r"""Return text with each character escaped that is not plain to see.

    `\x1b` is then written, and not sent to the terminal. The characters are control
    characters and line breaks, characters that turn the direction of the text, blanks
    other than the space, and the surrogates of a file name that is not Unicode.
    """
    if text.isprintable():
        return text
    parts = list[str]()
    for character in text:
        if character.isprintable():
            parts.append(character)
        else:
            parts.append(character.encode("unicode_escape").decode())
    return "".join(parts)


def shortened(text: str, most: int) -> str:
    """Return a text without its middle, if it has more than `most` characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}…{text[-half:]}"


def line_of(text: str) -> str:
    """Return a text as one line: printable, and each long word without its middle.

    So the line shows of a long name its start and its end, and all that is said of it.
    """
    line = printable(text)
    if len(line) > LONGEST_WORD:
        words = [shortened(word, LONGEST_WORD) for word in line.split(" ")]
        line = shortened(" ".join(words), LONGEST_LINE)
    return line


@public
class OnnxGatherError(Exception):
    """Base of every error that onnxgather raises for bad input.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        >>> try:
        ...     og.to_onnx(desc, target="cuda")
        ... except og.OnnxGatherError as error:
        ...     print(error)
        target must be one of portable, cpu, webgpu, native, got 'cuda'
    """

    exit_code: ClassVar[int] = UNUSABLE
    """The exit code of a command that ends with this error."""

    place: str | None = None
    """The file, path or command that `at` put before the message; None without it."""
    message_in_place: str = ""
    """The message behind the place."""

    def __str__(self) -> str:
        """Return the message on a single line.

        It may contain names of files and values as the user wrote them; long ones lack
        their middle.
        """
        return line_of(super().__str__())

    def at(self, where: str) -> Self:
        """Return the same error with a file, path or command before its message."""
        error = type(self)(f"{where}: {self}")
        error.place = where
        error.message_in_place = str(self)
        return error


@public
class DescriptorError(OnnxGatherError):
    """A descriptor, or an array for one of its tensors, breaks a rule of DirectML.

    Example:
        >>> og.TensorDesc("FLOAT32", [4, 0])
        Traceback (most recent call last):
        onnxgather.DescriptorError: Sizes[1] must be at least 1, got 0
    """

    exit_code = FINDINGS

    suggestion: str = ""
    """The end of the message that suggests another number; empty if there is none."""


@public
class FileFormatError(OnnxGatherError):
    """A file or dict is not what DxDispatch reads.

    The message names the file and the path to the field.

    Example:
        >>> og.from_dict({"type": "DML_OPERATOR_GATHER", "desc": {"InputTensor": 5}})
        Traceback (most recent call last):
        onnxgather.FileFormatError: $.desc.InputTensor must be an object, got 5
    """


@public
class ProviderError(OnnxGatherError):
    """An execution provider is missing, or did not run what it was asked to run.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        >>> session = og.Session(desc, "cpu")
        >>> session.close()
        >>> session.run(np.zeros(3, np.float32), np.array([2, 0], np.int64))
        Traceback (most recent call last):
        onnxgather.ProviderError: the session on CPUExecutionProvider is closed
    """

    exit_code = NOT_RUN


@public
class IndexOutOfRangeError(OnnxGatherError):
    """An index is out of range where out_of_range="error" forbids it.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [2]))
        >>> data = np.array([10, 20, 30], np.float32)
        >>> og.reference(desc, data, np.array([2, 7], np.int64), "error")
        Traceback (most recent call last):
        onnxgather.IndexOutOfRangeError: IndicesTensor[1] must be in [-3, 3), got 7
    """

    exit_code = FINDINGS


@contextlib.contextmanager
def located(where: str) -> Generator[None, None, None]:
    """Put a file, path or command in front of the message of an error of the block."""
    try:
        yield
    except OnnxGatherError as error:
        # A cause would show its message a second time.
        raise error.at(where) from None
