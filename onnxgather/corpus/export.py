"""The corpus as files that others can run without this package."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal, get_args

import msgspec

from onnxgather.cases import Case
from onnxgather.checks import shown
from onnxgather.corpus.formats import FORMATS
from onnxgather.errors import OnnxGatherError
from onnxgather.files import FolderKind
from onnxgather.options import POLICIES

FormatName = Literal["onnx", "dxdispatch", "json"]
"""ONNX backend tests, DxDispatch programs, or plain JSON."""

MADE_BY = "onnxgather corpus export"

_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")


@dataclass(slots=True)
class Exported:
    """What an export wrote."""

    written: int = 0
    """Cases."""
    left_out: Counter[str] = field(default_factory=lambda: Counter())
    """How many cases have no place in the format, by the reason."""


def export(cases: Iterable[Case], format: FormatName, folder: str | os.PathLike[str]) -> Exported:
    """Write cases to a folder, with an `index.json` of them and a `README.md` of their use.

    Args:
        cases: The cases; their names, lower case with `/` between parts, become file names.
        format: "onnx", "dxdispatch" or "json".
        folder: A folder that is not there, is empty or holds an earlier export, which the new
            one replaces once it is whole.

    Raises:
        OnnxGatherError: The folder holds something else or cannot be written, the format is
            unknown, or a case's name cannot be one of a file.
    """
    if format not in get_args(FormatName):
        formats = ", ".join(get_args(FormatName))
        raise OnnxGatherError(f"format must be one of {formats}, got {shown(format)}")
    exported = Exported()
    _EXPORT.write(os.fspath(folder), _files(cases, format, exported))
    return exported


def _is_export(folder: str) -> bool:
    """Whether the `index.json` in a folder is one of an export."""
    try:
        index: Any = msgspec.json.decode(Path(folder, "index.json").read_bytes())
        return index["made_by"].startswith(MADE_BY)
    except (OSError, msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return False


_EXPORT = FolderKind(
    "export",
    "the folder must be empty or an earlier export, got {} in it",
    ("cases", "cases.jsonl", "README.md"),
    ("index.json",),
    _is_export,
)


def _files(cases: Iterable[Case], name: str, exported: Exported) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an export, and count its cases in `exported`."""
    entries: list[dict[str, Any]] = []
    left_out: list[dict[str, str]] = []
    seen: set[str] = set()
    for case in cases:
        _check_name(case.name, seen)
        expected = case.expected()
        entry = FORMATS[name](case, expected)
        if isinstance(entry, str):
            left_out.append({"name": case.name, "why": entry})
            exported.left_out[entry] += 1
            continue
        yield from entry.content.items()
        entries.append(
            {
                "name": case.name,
                "file": entry.file,
                "policy": case.out_of_range,
                "operator": case.operator,
                "data_type": case.data_type,
                "index_type": case.index_type,
                "expected": "refused" if isinstance(expected, str) else "output",
            }
        )
        exported.written += 1
    yield "README.md", _readme(name, exported).encode()
    made_by = f"{MADE_BY} {version('onnxgather')}"
    index = {"made_by": made_by, "format": name, "cases": entries, "left_out": left_out}
    yield "index.json", msgspec.json.format(msgspec.json.encode(index), indent=1) + b"\n"


def _check_name(name: str, seen: set[str]) -> None:
    if not _NAME.fullmatch(name):
        rule = "a case's name must be of a-z, 0-9 and -, with / between its parts, to be exported"
        raise OnnxGatherError(f"{rule}, got {shown(name)}")
    file = name.replace("/", "-")
    if file in seen:
        raise OnnxGatherError(f"the files of a case must be its own, got {shown(name)} again")
    seen.add(file)


def _readme(name: str, exported: Exported) -> str:
    pages = files("onnxgather.corpus") / "readme"
    page, common = ((pages / f"{part}.md").read_text("utf-8") for part in (name, "common"))
    policies = (f'- "{name}": it {policy.rule}.' for name, policy in POLICIES.items())
    left_out = (f"\nLeft out: {n}, as each {why}." for why, n in exported.left_out.items())
    return Template(page.replace("$common\n", common)).substitute(
        written=exported.written, left_out="".join(left_out), policies="\n".join(policies)
    )
