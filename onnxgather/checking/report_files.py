"""Files that a check wrote or that tell it what is known, read with an error for each mistake."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from onnxgather.checking.known_differences import Known, known_differences
from onnxgather.checking.results import Report, read_report
from onnxgather.core.checks import shown
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import got, is_report
from onnxgather.core.json_files import decoding, whole

LARGEST_FILE = 2**30
"""The most bytes of a file that is read."""

_PAGE = "docs/report.md"


def open_report(path: str) -> Report:
    """The report that a file holds.

    Raises:
        FileFormatError: The file cannot be read, or holds no report.
    """
    with decoding(path, _PAGE), open(path, "rb") as file:
        content = whole(file, LARGEST_FILE)
        if found := got(content, "a report"):
            raise FileFormatError(
                f"{path}: must be a report of onnxgather check{found}"
            )
        report = read_report(content)
    return _checked(path, report)


def find_report(path: str) -> Report | None:
    """The report that a file holds; None where it holds something else.

    Raises:
        FileFormatError: As `open_report`.
    """
    with decoding(path, _PAGE), open(path, "rb") as file:
        report = (
            read_report(whole(file, LARGEST_FILE))
            if is_report(file.peek(100))
            else None
        )
    return report and _checked(path, report)


def _checked(path: str, report: Report) -> Report:
    """A report, if it also keeps the rules that no type says."""
    lanes = [lane.name for lane in report.lanes]
    if len(set(lanes)) < len(lanes):
        raise FileFormatError(
            f"{path}: $.lanes must differ by name, got {shown(lanes)}"
        )
    for name in lanes:
        if "=" in name:  # which would name an interpreter in a command that is copied
            raise FileFormatError(
                f"{path}: the name of a lane must have no '=', got {shown(name)}"
            )
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
    with decoding(path, _PAGE), open(path, "rb") as file:
        return msgspec.json.decode(whole(file, LARGEST_FILE), type=tuple[Known, ...])


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
