"""The corpus as files that others can run without this package."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from onnxgather.cases import Case
from onnxgather.checks import shown
from onnxgather.corpus.formats import FORMATS, Format
from onnxgather.errors import OnnxGatherError
from onnxgather.files import reason, write_whole

FormatName = Literal["onnx", "dxdispatch", "json"]
"""ONNX backend tests, DxDispatch programs, or plain JSON."""

MADE_BY = "onnxgather corpus export"

_NAME = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*")
_ENTRIES = ("cases", "cases.jsonl", "README.md", "index.json")
"""What an export may consist of; the index comes last and makes it one."""

_OURS, _PARTIAL = ".onnxgather.", ".partial"
"""How the names of what an export leaves where it is interrupted start and end."""


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
    target = Path(folder)
    partial = target / f"{_OURS}{os.getpid()}{_PARTIAL}"
    try:
        _check_folder(target)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            exported = _write(cases, format, partial)
            _replace(target, partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except (FileExistsError, NotADirectoryError):
        raise OnnxGatherError(f"{folder}: a file stands where the folder should be") from None
    except OSError as error:
        raise OnnxGatherError(f"{folder}: {reason(error)}") from None
    return exported


def _check_folder(folder: Path) -> None:
    """Check that a folder may be written: not there, empty, or an earlier export."""
    if not folder.exists():
        return
    found = [
        name
        for name in sorted(os.listdir(folder))
        if not (name.startswith(_OURS) and name.endswith(_PARTIAL))
    ]
    other = [name for name in found if name not in _ENTRIES]
    if not other and found and not _is_index(folder / "index.json"):
        other = found
    if other:
        raise OnnxGatherError(
            f"{folder}: the folder must be empty or an earlier export, got {shown(other[0])} in it"
        )


def _is_index(path: Path) -> bool:
    try:
        index: Any = msgspec.json.decode(path.read_bytes())
        return index["made_by"].startswith(MADE_BY)
    except (OSError, msgspec.DecodeError, LookupError, TypeError, AttributeError):
        return False


def _write(cases: Iterable[Case], name: str, folder: Path) -> Exported:
    """Write a whole export to an empty folder."""
    chosen, result = FORMATS[name], Exported()
    entries: list[dict[str, Any]] = []
    left_out: list[dict[str, str]] = []
    seen: set[str] = set()
    with ExitStack() as stack:
        lines = stack.enter_context(open(folder / "cases.jsonl", "wb")) if chosen.is_lines else None
        for case in cases:
            _check_name(case.name, seen)
            expected = case.expected()
            if why := chosen.leaves_out(case, expected):
                left_out.append({"name": case.name, "why": why})
                result.left_out[why] += 1
                continue
            for path, content in chosen.files(case, expected):
                if lines:
                    lines.write(content)
                else:
                    write_whole(str(folder / path), content)
            entries.append(_entry(case, chosen, refused=isinstance(expected, str)))
    result.written = len(entries)
    made_by = f"{MADE_BY} {version('onnxgather')}"
    index = {"made_by": made_by, "format": name, "cases": entries, "left_out": left_out}
    text = msgspec.json.format(msgspec.json.encode(index), indent=1)
    write_whole(str(folder / "README.md"), _readme(chosen, result).encode())
    write_whole(str(folder / "index.json"), text + b"\n")
    return result


def _check_name(name: str, seen: set[str]) -> None:
    if not _NAME.fullmatch(name):
        rule = "a case's name must be of a-z, 0-9 and -, with / between its parts, to be exported"
        raise OnnxGatherError(f"{rule}, got {shown(name)}")
    file = name.replace("/", "-")
    if file in seen:
        raise OnnxGatherError(f"the files of a case must be its own, got {shown(name)} again")
    seen.add(file)


def _entry(case: Case, chosen: Format, *, refused: bool) -> dict[str, Any]:
    return {
        "name": case.name,
        "file": chosen.file(case),
        "policy": case.out_of_range,
        "operator": case.operator,
        "data_type": case.data_type,
        "index_type": case.index_type,
        "expected": "refused" if refused else "output",
    }


def _readme(chosen: Format, result: Exported) -> str:
    lines = [
        f"# Gathers as {chosen.title}\n",
        f"{result.written} cases of DirectML's gather operators and their ONNX counterparts.",
    ]
    lines += [f"Left out: {n}, as each {why}." for why, n in result.left_out.items()]
    return "\n".join([*lines, "", chosen.readme])


def _replace(folder: Path, partial: Path) -> None:
    """Put what is in `partial` in the place of an earlier export, or leave that as it was.

    Raises:
        OnnxGatherError: The earlier export was moved away and cannot be moved back.
        OSError: Something cannot be moved.
    """
    old = Path(tempfile.mkdtemp(_PARTIAL, _OURS, folder))
    moves = [(folder / name, old / name) for name in reversed(_ENTRIES)]
    moves += [(partial / name, folder / name) for name in _ENTRIES]
    moved: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            if source.exists():
                os.replace(source, target)
                moved.append((source, target))
    except BaseException:
        try:
            for source, target in reversed(moved):
                os.replace(target, source)
        except OSError as error:
            raise OnnxGatherError(
                f"{folder}: the earlier export is in {old}, as it cannot be moved back: "
                f"{reason(error)}"
            ) from None
        old.rmdir()
        raise
    shutil.rmtree(old, ignore_errors=True)
