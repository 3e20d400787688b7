"""Reports and files of known differences, read with an error for each mistake."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import msgspec

from onnxgather.checking.known_differences import Known, known_differences
from onnxgather.checking.results import CaseResult, Report, read_report
from onnxgather.core.checks import number_of, shown
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import got, is_report
from onnxgather.core.json_files import decoding, whole

LARGEST_FILE = 2**30
"""The most bytes of a file that is read."""

_PAGE = "docs/report.md"
"""The page that describes the formats; errors name it."""


def open_report(path: str) -> Report:
    """Return the report in a file.

    Raises:
        FileFormatError: The file cannot be read, or holds no report.
    """
    with decoding(path, _PAGE), open(path, "rb") as file:
        content = whole(file, LARGEST_FILE)
        other = got(content, "a report")
        if other:
            raise FileFormatError(
                f"{path}: must be a report of onnxgather check{other}"
            )
        report = read_report(content)
    _check(path, report)
    return report


def find_report(path: str) -> Report | None:
    """Return the report in a file; None if the file holds something else.

    Raises:
        FileFormatError: As `open_report`.
    """
    with decoding(path, _PAGE), open(path, "rb") as file:
        # The first keys of a report are the same, so its start is enough.
        if not is_report(file.peek(100)):
            return None
        report = read_report(whole(file, LARGEST_FILE))
    _check(path, report)
    return report


def _check(path: str, report: Report) -> None:
    """Check the rules of a report that no type says."""
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
    ended_early = report.interrupted or report.maxfail
    # Case: a part of the report was lost, so that what is left proves too little.
    if len(report.cases) < report.planned and not ended_early:
        cases = number_of(report.planned, "case")
        raise FileFormatError(
            f"{path}: $.cases must have the {cases} that were planned"
            f", got {len(report.cases):,}; run the check again"
        )
    for number, case in enumerate(report.cases):
        where = f"{path}: $.cases[{number}]"
        lanes_of_results = [result.lane for result in case.results]
        if lanes_of_results != lanes:
            raise FileFormatError(
                f"{where}."
                f"results must be of the report's lanes, {shown(lanes)}"
                f", got {shown(lanes_of_results)}"
            )
        try:
            _check_evidence(case)
        except (ValueError, TypeError, OverflowError) as error:
            raise FileFormatError(f"{where}.evidence: {error}") from None


def _check_evidence(case: CaseResult) -> None:
    """Read every array of a case, so that a wrong array is an error here."""
    for evidence in (case.evidence, case.example):
        if evidence is not None:
            for blob in evidence.blobs:
                blob.array()


def open_known(path: str) -> tuple[Known, ...]:
    """Return the known differences in a file of the format of known_differences.json.

    Raises:
        FileFormatError: The file cannot be read, or an entry is not one of a known
            difference.
    """
    with decoding(path, _PAGE), open(path, "rb") as file:
        return msgspec.json.decode(whole(file, LARGEST_FILE), type=tuple[Known, ...])


def known_from(paths: Iterable[str], *, ours: bool = True) -> list[Known]:
    """Return the known differences of some files, before those of onnxgather.

    Args:
        paths: The files.
        ours: Whether the known differences of onnxgather are among them.

    Raises:
        FileFormatError: As `open_known`.
    """
    entries = [*chain.from_iterable(map(open_known, paths))]
    if ours:
        entries.extend(known_differences())
    return entries
