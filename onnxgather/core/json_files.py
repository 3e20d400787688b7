"""JSON files whose types msgspec checks, read with an error for each mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from io import BufferedReader

import msgspec

from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import reason

_RULES = {
    "Input data was truncated": " must be whole JSON, got an empty or cut file",
    r"Expected `str` matching .*": " must be a full name, such as CPUExecutionProvider",
    r"Expected (.*), got (.*)": r" must be \1, got \2",
    r"Expected (`\w+` [<>o].*)": r" must be \1",
    r"Object missing required field `(.*)`": r" must have \1",
    r"Object contains unknown field `(.*)`": r" must not have \1",
    r"Invalid enum value (.*)": r" must be a value that {page} lists, got \1",
}
"""How msgspec says that a rule is broken, and how it is said here."""


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
        message, _, path = str(error).partition(" - at `")
        for told, rule in _RULES.items():
            if re.fullmatch(told, message, re.DOTALL):
                message = re.sub(told, rule.format(page=page), message, flags=re.DOTALL)
        field = path.removesuffix("`") or "$"
        between = ": " if message[0].isupper() else "" if message[0] == " " else "."
        raise FileFormatError(f"{where}: {field}{between}{message}") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{where}: {reason(error)}") from None


def whole(file: BufferedReader, most: int) -> bytes:
    """The content of a file of at most so many bytes.

    Raises:
        FileFormatError: The file has more.
    """
    size = os.fstat(file.fileno()).st_size
    content = b"" if size > most else file.read(most + 1)
    if max(size, len(content)) > most:
        raise FileFormatError(
            f"{file.name}: must have at most {most:,} bytes, got more"
        )
    return content
