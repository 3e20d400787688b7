"""Records which operators, data types and dimension counts a DirectML.dll accepts.

A DirectML device is created with a minimum feature level. DirectML 1.15.4 accepts the
same whatever that minimum is, so each feature level is asked of a DLL whose highest
level it was. Each such DLL comes in a wheel of PyPI, got by
`pip download --no-deps --platform win_amd64 --only-binary=:all: NAME==VERSION`:

    python3 scripts/directml/levels.py [--host FOLDER] FILE WHEEL...

Writes FILE, with a line for setup.sh's own DLL and one for that of each wheel.
`accepted` has, by operator, data type and index type, the dimension counts that
CreateOperator accepts.
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
from contextlib import closing
from pathlib import Path
from typing import Any

from hosts import run, verdict
from record import write_lines

import onnxgather as og
from onnxgather.checking.descriptor_layouts import descriptor_with_layouts
from onnxgather.checking.lanes.directml import Host
from onnxgather.core.checks import MAX_DIMENSIONS
from onnxgather.core.descriptors.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.core.descriptors.feature_levels import FEATURE_LEVELS
from onnxgather.core.descriptors.operators import OPERATORS
from onnxgather.core.gather import Geometry

_DLL = re.compile(r"(.*/)?DirectML(\.?[0-9a-f]{40})?\.dll")


def accepted(host: Host, feature_level: str) -> dict[str, list[int]]:
    """Return the dimension counts that a DirectML device accepts, by operator and type.

    Args:
        host: The host of a DLL.
        feature_level: The minimum that the device is created with.
    """
    found: dict[str, list[int]] = {}
    kinds = itertools.product(OPERATORS, TensorDataType, INDEX_TYPES)
    for operator, data_type, index_type in kinds:
        kind = f"{operator} {data_type} {index_type}"
        for count in range(1, MAX_DIMENSIONS + 1):
            indices = (2, 1)[-count:] if "ND" in operator else (2,)
            gather = Geometry(operator, (3,), indices, dimension_count=count)
            raw = og.to_dict(descriptor_with_layouts(gather, data_type, index_type))
            word, reason = verdict(host, raw, feature_level)
            if word == "crashed":
                raise SystemExit(f"{kind} {count}: {reason}")
            if word == "accepted":
                found.setdefault(kind, []).append(count)
    return found


def answers(command: Sequence[str]) -> dict[str, Any]:
    """Return the line of a DLL.

    The script ends if the minimum level of the device plays a part.
    """
    with closing(Host(command)) as host:
        version, highest = host.info.version, host.info.feature_level
        levels = FEATURE_LEVELS[: FEATURE_LEVELS.index(highest) + 1]
        found = accepted(host, levels[0])
        for level in levels[1:]:
            if accepted(host, level) != found:
                raise SystemExit(
                    f"DirectML.dll {version} must accept the same whatever the minimum"
                    f" feature level of its device, got others at {level}"
                )
    return {
        "version": version,
        "feature_level": highest,
        "devices": list(levels),
        "accepted": found,
    }


@contextlib.contextmanager
def unpacked(wheel: Path, host: Path) -> Generator[str, None, None]:
    """Put a wheel's DirectML.dll where the host finds it; yield the path for that."""
    folder = host.parent if sys.platform == "win32" else host.parent / "root" / "lane"
    file = folder / f"{wheel.stem}.dll"
    with zipfile.ZipFile(wheel) as members:
        (name,) = filter(_DLL.fullmatch, members.namelist())
        file.write_bytes(members.read(name))
    try:
        yield str(file) if sys.platform == "win32" else f"Z:\\lane\\{file.name}"
    finally:
        file.unlink()


def main(options: argparse.Namespace, command: list[str]) -> int:
    """Ask the DLLs. Returns the exit code."""
    lines = [answers(command)]
    for wheel in options.wheels:
        with unpacked(wheel, Path(command[0])) as path:
            line = answers([*command, "--directml", path])
        hashed = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append({"wheel": wheel.name, "sha256": hashed} | line)
    write_lines(options.file, lines)
    for line in lines:
        count = sum(map(len, line["accepted"].values()))
        print(
            f"DirectML.dll {line['version']}, {line['feature_level']}: {count} accepted"
        )
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Records what DirectML.dll accepts, by level."
    )
    parser.add_argument("file", type=Path, help="where the recording goes")
    parser.add_argument("wheels", type=Path, nargs="*", metavar="wheel")
    run(parser, main)
