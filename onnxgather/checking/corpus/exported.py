"""Exports of the corpus, read again: their cases, and whether they are unchanged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from onnxgather.checking.cases import Case, case_beside
from onnxgather.checking.corpus.built_in import built_in_cases
from onnxgather.checking.corpus.export import (
    EXPORT,
    MADE_BY,
    Index,
    answer_folder,
    digest_of,
    is_export,
)
from onnxgather.checking.folders import SUMS
from onnxgather.core.checks import shown
from onnxgather.core.errors import FileFormatError
from onnxgather.core.files import reason
from onnxgather.core.json_files import decoding, whole
from onnxgather.core.version import __version__

LARGEST_INDEX = 2**26
"""The most bytes of an `index.json` that is read."""

_AGAIN = "export the corpus again, and run it again"
"""What to do about an export that is not as it must be."""


class ExportedCases(NamedTuple):
    """The cases of an export."""

    cases: list[Case]
    """The cases, without the valid cases beside those that must be refused."""
    answers: Mapping[str, str]
    """The folders of the answers to all cases, by the names of the cases."""


def read_export(folder: str, answers: str) -> ExportedCases:
    """Return the cases of an export of this version's corpus.

    The files are as they were exported: their digests are checked.

    Args:
        folder: The folder of the export.
        answers: The folder of the answers, which may be in that of the export.

    Raises:
        FileFormatError: The folder is no export, a file in it is new, changed or
            missing, or its cases are not those of this version.
    """
    path = os.path.join(folder, "index.json")
    made_by_rule = f"{folder}: must be a folder that {MADE_BY} wrote"
    if not os.path.isfile(path):
        raise FileFormatError(f"{made_by_rule}, got no index.json in it")
    if not is_export(folder):
        raise FileFormatError(f"{made_by_rule}, got another index.json")
    try:
        _check_files(folder, answers)
    except OSError as error:
        raise FileFormatError(f"{folder}: {reason(error)}") from None
    with decoding(path, "docs/provider-ci.md"), open(path, "rb") as file:
        index = msgspec.json.decode(whole(file, LARGEST_INDEX), type=Index)
    if index.format == "wpt":
        raise FileFormatError(
            f"{folder}: must be an export that has answers, got Web Platform Tests,"
            " which compare their outputs themselves"
        )
    return _checked_cases(folder, index)


def _check_files(folder: str, answers: str) -> None:
    """Check that an export has the files that were exported, and no others."""
    if not os.path.isfile(os.path.join(folder, SUMS)):
        raise FileFormatError(
            f"{folder}: must have the digests of its files, got no {SUMS}; {_AGAIN}"
        )
    changes: list[tuple[str, str]] = [*EXPORT.changes(folder)]
    answers_path = Path(answers).resolve()
    for entry in Path(folder).resolve().iterdir():
        # Case: the answers are in the folder of the export.
        has_answers = answers_path.is_relative_to(entry)
        is_answer = entry.is_relative_to(answers_path)
        if entry.name not in EXPORT.names and not has_answers and not is_answer:
            changes.append((entry.name, "new"))
    for path, change in changes:
        raise FileFormatError(
            f"{folder}: its files must be as they were exported"
            f", got {shown(path)}, which is {change}; {_AGAIN}"
        )


def _checked_cases(folder: str, index: Index) -> ExportedCases:
    """Return the cases of an export, if they are those of this version's corpus."""
    # The cases are made anew, so that a report has their descriptors in every format.
    rows = index.cases
    names = [row.name for row in rows]
    wanted = {*names}
    by_name: dict[str, Case] = {}
    for case in built_in_cases():
        if case.name not in wanted:
            continue
        by_name[case.name] = case
        beside = case_beside(case)
        if beside is not None:
            by_name[beside.name] = beside
    has_same_names = by_name.keys() >= wanted
    if not has_same_names or digest_of(map(by_name.__getitem__, names)) != index.digest:
        raise FileFormatError(
            f"{folder}: its cases must be those of onnxgather {__version__}"
            f", got others, by {index.made_by}; {_AGAIN}"
        )
    names_beside = {row.beside for row in rows}
    return ExportedCases(
        [by_name[name] for name in names if name not in names_beside],
        {name: answer_folder(name, index.format) for name in names},
    )
