"""Reports without the paths of the machine that wrote them, to show to anybody."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from onnxgather.checking.report.sentences import lane_again
from onnxgather.checking.results import Report


def without_paths(report: Report, libraries: Iterable[str] = ()) -> Report:
    """Return a report that names no interpreter, library or home folder by its path.

    The file name of an interpreter and of a library stays. The folder of these files is
    written as `...`, the home folder as `~`. An interpreter that no option has to name
    is left out.

    Args:
        report: The report.
        libraries: The plugin libraries of the lanes, and the shared libraries that they
            run on.
    """
    pythons = [lane.python or "" for lane in report.lanes]
    # Case: an interpreter without a folder is found on the PATH; its name stays.
    paths_of_pythons = [path for path in pythons if os.path.dirname(path)]
    names = _names_by_path([*paths_of_pythons, *libraries])
    longest_first = sorted(names, key=len, reverse=True)
    paths = "|".join(map(re.escape, longest_first))
    # A path that is part of a longer one stays.
    pattern = re.compile(rf"(?<![\w./~-])(?:{paths})(?![\w-])")

    def clean(text: str) -> str:
        return pattern.sub(lambda match: names[match[0]], text)

    lanes = list(report.lanes)
    for number, lane in enumerate(lanes):
        if lane_again(lane) == lane.name:
            lanes[number] = replace(lane, python=None)
    report = replace(report, lanes=tuple(lanes))
    plain = msgspec.to_builtins(report, builtin_types=[bytes])
    cleaned = _with_texts(plain, clean)
    return msgspec.convert(cleaned, Report, builtin_types=[bytes])


def _names_by_path(files: Iterable[str]) -> dict[str, str]:
    """Return what a report without paths writes in place of the path of each file."""
    names = {os.path.expanduser("~"): "~"}
    for file in files:
        for path in (file, os.path.abspath(file), os.path.realpath(file)):
            folder, name = os.path.split(path)
            names[path] = name
            # The folder of a Python environment is that above its interpreters.
            if os.path.basename(folder) in ("bin", "Scripts"):
                folder = os.path.dirname(folder)
            names[folder] = "..."
    # `/usr`, `/` and the current folder are on any machine, and tell nothing.
    long_enough = {
        path: name
        for path, name in names.items()
        if path.count(os.sep) > 1 or name == "~"
    }
    # Messages of Python write a path with escapes, such as the backslashes of Windows.
    escaped = {repr(path)[1:-1]: name for path, name in long_enough.items()}
    return long_enough | escaped


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return plain data with each of its texts changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_with_texts(item, change) for item in items]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {change(key): _with_texts(fields[key], change) for key in fields}
    return value
