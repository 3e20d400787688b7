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
    CASE_FILES,
    MADE_BY,
    Index,
    answer_folder,
    digest_of,
    is_export,
)
from onnxgather.checking.folders import FilesDigest
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


def read_export(folder: str) -> ExportedCases:
    """Return the cases of an export of this version's corpus.

    The files are as they were exported: their digests are checked.

    Raises:
        FileFormatError: The folder is no export, its files were changed, or its cases
            are not those of this version.
    """
    path = os.path.join(folder, "index.json")
    made_by_rule = f"{folder}: must be a folder that {MADE_BY} wrote"
    if not os.path.isfile(path):
        raise FileFormatError(f"{made_by_rule}, got no index.json in it")
    if not is_export(folder):
        raise FileFormatError(f"{made_by_rule}, got another index.json")
    with decoding(path, "docs/provider-ci.md"), open(path, "rb") as file:
        content = whole(file, LARGEST_INDEX)
        if b'"files_digest"' not in content:
            raise FileFormatError(
                f"{folder}: must be an export with digests, got that of an earlier"
                f" version; {_AGAIN}"
            )
        index = msgspec.json.decode(content, type=Index)
    if index.format == "wpt":
        raise FileFormatError(
            f"{folder}: must be an export that has answers, got Web Platform Tests,"
            " which compare their outputs themselves"
        )
    _check_files(folder, index)
    return _checked_cases(folder, index)


def _check_files(folder: str, index: Index) -> None:
    """Check that the files of the cases are as they were exported."""
    digest = FilesDigest()
    try:
        for file in _case_files(Path(folder)):
            digest.add(file.relative_to(folder).as_posix(), file.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{folder}: {reason(error)}") from None
    if str(digest) != index.files_digest:
        raise FileFormatError(
            f"{folder}: its files must be as they were exported"
            f", got changed, new or missing files; {_AGAIN}"
        )


def _case_files(folder: Path) -> list[Path]:
    """Return the files of the cases of an export."""
    files: list[Path] = []
    for name in CASE_FILES:
        path = folder / name
        if path.is_file():
            files.append(path)
        else:
            files += (file for file in path.rglob("*") if file.is_file())
    return files


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
