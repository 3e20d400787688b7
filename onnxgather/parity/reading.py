"""Files that a check wrote or that tell it what is known, read with an error for each mistake."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from io import BufferedReader
from itertools import chain
from typing import TypeVar

import msgspec

from onnxgather.checks import shown
from onnxgather.errors import FileFormatError
from onnxgather.files import got, is_report, reason
from onnxgather.parity.known import Known, known_differences
from onnxgather.parity.results import Report, read_report

T = TypeVar("T")

LARGEST_FILE = 2**30
"""The most bytes of a file that is read."""

_RULES = {
    r"Expected `str` matching .*": " must be a full name, such as CPUExecutionProvider",
    r"Expected (.*), got (.*)": r" must be \1, got \2",
    r"Object missing required field `(.*)`": r" must have \1",
    r"Object contains unknown field `(.*)`": r" must not have \1",
    r"Invalid enum value (.*)": r" must be a value that docs/report.md lists, got \1",
}
"""How msgspec says that a rule is broken, and how it is said here."""


def open_report(path: str) -> Report:
    """The report that a file holds.

    Raises:
        FileFormatError: The file cannot be read, or holds no report.
    """

    def read(file: BufferedReader) -> Report:
        content = _whole(file)
        if found := got(content, "a report"):
            raise FileFormatError(f"{path}: must be a report of onnxgather check{found}")
        return read_report(content)

    return _checked(path, _read(path, read))


def find_report(path: str) -> Report | None:
    """The report that a file holds; None where it holds something else.

    Raises:
        FileFormatError: As `open_report`.
    """

    def read(file: BufferedReader) -> Report | None:
        return read_report(_whole(file)) if is_report(file.peek(100)) else None

    report = _read(path, read)
    return report and _checked(path, report)


def _checked(path: str, report: Report) -> Report:
    """A report, if it also keeps the rules that no type says."""
    lanes = [lane.name for lane in report.lanes]
    if len(set(lanes)) < len(lanes):
        raise FileFormatError(f"{path}: $.lanes must differ by name, got {shown(lanes)}")
    for name in lanes:
        if "=" in name:  # which would name an interpreter in a command that is copied
            raise FileFormatError(f"{path}: the name of a lane must have no '=', got {shown(name)}")
    for k, case in enumerate(report.cases):
        found = [result.lane for result in case.results]
        where = f"{path}: $.cases[{k}]"
        if found != lanes:
            rule = f"results must be of the report's lanes, {shown(lanes)}"
            raise FileFormatError(f"{where}.{rule}, got {shown(found)}")
        try:
            for evidence in filter(None, (case.evidence, case.example)):
                for blob in evidence.blobs:
                    blob.array()
        except (ValueError, TypeError, OverflowError) as error:
            raise FileFormatError(f"{where}.evidence: {error}") from None
    return report


def open_known(path: str) -> tuple[Known, ...]:
    """The known differences that a file lists, in the format of parity/known_differences.json.

    Raises:
        FileFormatError: The file cannot be read, or an entry is not one of a known difference.
    """
    return _read(path, lambda file: msgspec.json.decode(_whole(file), type=tuple[Known, ...]))


def known_from(paths: Iterable[str], *, ours: bool = True) -> list[Known]:
    """The known differences of some files, before those that come with onnxgather.

    Args:
        paths: The files.
        ours: Whether those that come with onnxgather are among them.

    Raises:
        FileFormatError: As `open_known`.
    """
    mine = known_differences() if ours else ()
    return [*chain.from_iterable(map(open_known, paths)), *mine]


def _whole(file: BufferedReader) -> bytes:
    size = os.fstat(file.fileno()).st_size
    content = b"" if size > LARGEST_FILE else file.read(LARGEST_FILE + 1)
    if max(size, len(content)) > LARGEST_FILE:
        raise FileFormatError(f"{file.name}: must have at most {LARGEST_FILE:,} bytes, got more")
    return content


def _read(path: str, read: Callable[[BufferedReader], T]) -> T:
    """What `read` makes of a file; what is wrong with the file is a FileFormatError."""
    try:
        with open(path, "rb") as file:
            return read(file)
    except RecursionError:
        raise FileFormatError(f"{path}: $ must not be nested so deeply") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{path}: $ must be UTF-8, got other bytes") from None
    except msgspec.DecodeError as error:
        message, _, where = str(error).partition(" - at `")
        for told, rule in _RULES.items():
            if re.fullmatch(told, message, re.DOTALL):
                message = re.sub(told, rule, message, flags=re.DOTALL)
        field = where.removesuffix("`") or "$"
        between = ": " if message[0].isupper() else "" if message[0] == " " else "."
        raise FileFormatError(f"{path}: {field}{between}{message}") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: {reason(error)}") from None
