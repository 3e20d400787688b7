"""A report without the paths of the machine that made it, so that it can be shown to anybody."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from onnxgather.checking.results import Report


def without_paths(report: Report, libraries: Iterable[str] = ()) -> Report:
    """A report in which no text names an interpreter, a plugin library or the home folder by path.

    Of an interpreter and a library the name is left, of their folders `...`, of the
    home folder `~`. This process's own interpreter has no name.

    Args:
        report: The report.
        libraries: The plugin libraries of the lanes, and the shared libraries that they run on.
    """
    shown = {os.path.expanduser("~"): "~"}
    pythons = (
        lane.python or "" for lane in report.lanes
    )  # a bare name is found on the PATH
    for file in [*filter(os.path.dirname, pythons), *libraries]:
        for path in (file, os.path.abspath(file), os.path.realpath(file)):
            folder, shown[path] = os.path.split(path)
            if os.path.basename(folder) in ("bin", "Scripts"):
                folder = os.path.dirname(folder)
            shown[folder] = "..."
    shown = {
        path: name
        for path, name in shown.items()
        if path.count(os.sep) > 1 or name == "~"
    }
    shown |= {repr(path)[1:-1]: name for path, name in shown.items()}
    longest_first = sorted(shown, key=len, reverse=True)
    found = "|".join(map(re.escape, longest_first))
    pattern = re.compile(rf"(?<![\w./~-])(?:{found})(?![\w-])")

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda match: shown[match[0]], value)
        if isinstance(value, list | tuple):
            return [*map(clean, cast("Sequence[Any]", value))]
        if isinstance(value, dict):
            return {
                clean(key): clean(item)
                for key, item in cast("dict[str, Any]", value).items()
            }
        return value

    here = {sys.executable, None}
    lanes = [
        replace(lane, python=None) if lane.python in here else lane
        for lane in report.lanes
    ]
    plain = msgspec.to_builtins(
        replace(report, lanes=tuple(lanes)), builtin_types=[bytes]
    )
    return msgspec.convert(clean(plain), Report, builtin_types=[bytes])
