"""Records which operators, data types and dimension counts a DirectML.dll accepts.

DirectML 1.15.4 accepts the same however low the minimum feature level that its device was created
with, so the levels are asked of the DLLs whose highest level they were. Each comes in a wheel of
PyPI, got by `pip download --no-deps --platform win_amd64 --only-binary=:all: NAME==VERSION`:

    python3 scripts/directml/levels.py [--host FOLDER] FILE WHEEL...

Writes FILE, a line for the DLL of the lane and one for that of each wheel. A DLL's `accepted` has,
by operator, data type and index type, the dimension counts that CreateOperator accepts.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import re
import sys
import zipfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from record import write_lines

import onnxgather as og
from onnxgather.checks import MAX_DIMENSIONS
from onnxgather.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.descriptors import OPERATORS
from onnxgather.feature_levels import FEATURE_LEVELS
from onnxgather.gather import Gather
from onnxgather.lanes.directml_host import Host, find_host, setup_command
from onnxgather.layouts import laid_out

_DLL = re.compile(r"(.*/)?DirectML(\.?[0-9a-f]{40})?\.dll")


def accepted(host: Host, feature_level: str) -> dict[str, list[int]]:
    """Return what a device accepts: dimension counts by operator and types."""
    found: dict[str, list[int]] = {}
    every = itertools.product(OPERATORS, TensorDataType, INDEX_TYPES, range(1, MAX_DIMENSIONS + 1))
    for operator, data_type, index_type, count in every:
        indices = (2,) if operator in ("GATHER", "GATHER_ELEMENTS") else (2, 1)[-count:]
        gather = Gather(operator, (3,), indices, dimension_count=count)
        desc = laid_out(gather, data_type, index_type)
        assert desc.input_tensor.dimension_count == count
        answer = host.create_operator(og.to_dict(desc), feature_level)
        if answer.crashed is not None:
            raise SystemExit(f"{operator} {data_type} {index_type} {count}: {answer.crashed}")
        if answer.accepted:
            found.setdefault(f"{operator} {data_type} {index_type}", []).append(count)
    return found


def answers(command: Sequence[str]) -> dict[str, Any]:
    """Return what a DLL is and accepts, the same at whatever level its device was created."""
    with Host(command) as host:
        highest = host.info.feature_level
        asked = FEATURE_LEVELS[: FEATURE_LEVELS.index(highest) + 1]
        first, *others = (accepted(host, level) for level in asked)
        if any(other != first for other in others):
            raise SystemExit(f"DirectML.dll {host.info.version}: the device's level plays a part")
        return {
            "version": host.info.version,
            "feature_level": highest,
            "devices": list(asked),
            "accepted": first,
        }


@contextlib.contextmanager
def unpacked(wheel: Path, host: Path) -> Generator[str, None, None]:
    """Put a wheel's DirectML.dll where the host finds it and yield its path as the host has it."""
    folder = host.parent if sys.platform == "win32" else host.parent / "root" / "lane"
    place = folder / f"{wheel.stem}.dll"
    with zipfile.ZipFile(wheel) as members:
        (name,) = filter(_DLL.fullmatch, members.namelist())
        place.write_bytes(members.read(name))
    try:
        yield str(place) if sys.platform == "win32" else f"Z:\\lane\\{place.name}"
    finally:
        place.unlink()


def main(arguments: list[str] | None = None) -> int:
    """Ask the DLLs; return the exit code."""
    parser = argparse.ArgumentParser(description="Records what DirectML.dll accepts, by level.")
    parser.add_argument("file", type=Path, help="where the recording goes")
    parser.add_argument("wheels", type=Path, nargs="*", metavar="wheel")
    parser.add_argument("--host", help="the folder with the host, by default setup.sh's")
    options = parser.parse_args(arguments)
    command = find_host(options.host)
    if command is None:
        print(f"no host of DirectML.dll; {setup_command(options.host)} makes it", file=sys.stderr)
        return 3
    lines = [answers(command)]
    for wheel in options.wheels:
        with unpacked(wheel, Path(command[0])) as path:
            line = answers([*command, "--directml", path])
        hashed = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append({"wheel": wheel.name, "sha256": hashed} | line)
    write_lines(options.file, lines)
    for line in lines:
        count = sum(map(len, line["accepted"].values()))
        print(f"DirectML.dll {line['version']}, {line['feature_level']}: {count} accepted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
