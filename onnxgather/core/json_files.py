"""JSON files whose types msgspec checks, read with an error for each mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader

import msgspec

from onnxgather.core.checks import LONGEST_SHOWN, shortened
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import reason

_RULES = {
    "Input data was truncated": " must be whole JSON, got an empty or cut file",
    "Invalid UTF-8 encoded string": " must be UTF-8, got other bytes",
    r"Expected `str` matching .*": (
        " must be a full name such as CPUExecutionProvider, DirectML.dll or opencv"
    ),
    r"Expected (.*), got (.*)": " must be {0}, got {1}",
    r"Expected (`\w+` [<>o].*)": " must be {0}",
    r"Object missing required field `(.*)`": " must have {0}",
    r"Object contains unknown field `(.*)`": " must not have {0}",
    r"Invalid enum value (.*)": " must be a value that {page} lists, got {0}",
}
"""Patterns of msgspec's messages about broken rules, with the messages used here."""


@contextmanager
def decoding(where: str, page: str) -> Generator[None]:
    """Turn what reading and decoding raise into a FileFormatError.

    Args:
        where: The file, or what stands in its place.
        page: The page of docs/ that describes what is decoded.
    """
    try:
        yield
    except RecursionError:
        raise FileFormatError(f"{where}: $ must not be nested so deeply") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{where}: $ must be UTF-8, got other bytes") from None
    except msgspec.DecodeError as error:
        raise FileFormatError(f"{where}: {_sentence_of(error, page)}") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{where}: {reason(error)}") from None


def _sentence_of(error: msgspec.DecodeError, page: str) -> str:
    """Return the message of msgspec with the path of the value first."""
    message, _, path = str(error).partition(" - at `")
    for msgspec_pattern, rule in _RULES.items():
        matched = re.fullmatch(msgspec_pattern, message, re.DOTALL)
        if matched is not None:
            # A name or a value of the file is of any length.
            parts = [shortened(part, LONGEST_SHOWN) for part in matched.groups()]
            message = rule.format(*parts, page=page)
            break
    field = path.removesuffix("`") or "$"
    # A rule of the table starts with a space. Other messages are msgspec's own
    # sentences, or those of our own checks: these start with a name of a field.
    if message[0] == " ":
        return field + message
    if message[0].isupper():
        return f"{field}: {message}"
    return f"{field}.{message}"


def whole(file: BufferedReader, most: int) -> bytes:
    """Return the content of a file that has at most `most` bytes.

    Raises:
        FileFormatError: The file has more.
    """
    size = os.fstat(file.fileno()).st_size
    # A large file is not read at all. A pipe's size is 0, so its bytes are counted.
    content = b"" if size > most else file.read(most + 1)
    if max(size, len(content)) > most:
        rule = f"must have at most {most:,} bytes"
        raise FileFormatError(f"{file.name}: {rule}, got more")
    return content
