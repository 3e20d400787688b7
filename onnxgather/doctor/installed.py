"""Which distributions own the module onnxruntime, by their own records.

All ONNX Runtime wheels write the same files, and pip lets them overwrite and remove one another.
Like `runtime` it imports nothing of the package and runs as a program in any environment, where
it prints what `look` returns; onnxruntime itself is never imported, as a broken one may crash.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import platform
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the package's modules have common names, which must hide no others

from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    PackagePath,
    distribution,
    distributions,
    version,
)

MODULE = "onnxruntime"

READ_AT_ONCE = 2**20
"""Bytes."""


def look() -> dict[str, Any]:
    """Return what this environment has of the module onnxruntime.

    Returns:
        `folders`: where Python finds it. `empty`: whether it has no code. `built_as`: name and
        version that it says it was built as. `shared`: files that several distributions own.
        `wheels`: per distribution `name`, `version`, and of its `files` how many are `missing`
        and `changed`. `versions` of what else counts, `pip`: whether pip is there, `platform`.
    """
    folders, empty = _find_module()
    found = [(owner, _files(owner)) for owner in _owners(folders)]
    names = [str(file) for _, files in found for file in files]
    wheels: list[dict[str, Any]] = []
    for owner, files in found:
        states = [_state(file) for file in files]
        wheels.append(
            {
                "name": owner.metadata["Name"],
                "version": owner.version,
                "files": len(files),
                "missing": states.count("missing"),
                "changed": states.count("changed"),
            }
        )
    return {
        "folders": folders,
        "empty": empty,
        "built_as": _built_as(folders),
        "shared": len(names) - len(set(names)),
        "wheels": wheels,
        "versions": _versions("onnxgather", "onnx", "numpy", "protobuf")
        | {"python": platform.python_version()},
        "pip": find_spec("pip") is not None,
        "platform": sysconfig.get_platform(),
    }


def _find_module() -> tuple[list[str], bool]:
    """Return where Python finds the module, and whether that holds no code."""
    try:
        spec = find_spec(MODULE)
    except (ImportError, ValueError):  # a meta path finder of somebody's that fails
        spec = None
    if spec is None:
        return [], False
    folders = [str(Path(folder)) for folder in spec.submodule_search_locations or ()]
    return folders or [str(spec.origin)], bool(folders) and spec.origin is None


def _owners(folders: list[str]) -> list[Distribution]:
    """Return the distributions whose files lie where Python finds the module."""
    names: dict[str, str] = {}
    for found in distributions():
        name = found.metadata["Name"] if f"{MODULE}/" in (found.read_text("RECORD") or "") else None
        if name:
            names.setdefault(name.lower().replace("_", "-"), name)
    owners: list[Distribution] = []
    for name in names.values():
        try:
            owner = distribution(name)
        except PackageNotFoundError:  # what pip leaves of a wheel that it could not remove
            continue
        place = str(Path(str(owner.locate_file(MODULE))))
        if _files(owner) and (not folders or place in folders):
            owners.append(owner)
    return sorted(owners, key=lambda owner: owner.metadata["Name"])


def _files(owner: Distribution) -> list[PackagePath]:
    """Return the files of the module that a distribution says are its own."""
    files = owner.files or []
    return [file for file in files if file.parts[0] == MODULE and file.suffix != ".pyc"]


def _state(file: PackagePath) -> str:
    """Return whether a file is missing, changed or whole."""
    try:
        with Path(str(file.locate())).open("rb") as stream:
            if file.hash is None or file.hash.mode not in hashlib.algorithms_guaranteed:
                return "whole"
            digest = hashlib.new(file.hash.mode)
            while piece := stream.read(READ_AT_ONCE):
                digest.update(piece)
    except OSError:
        return "missing"
    value = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    return "whole" if value == file.hash.value else "changed"


def _built_as(folders: list[str]) -> str | None:
    """Return what the module would say of itself, read without running it."""
    for folder in folders:
        try:
            text = Path(folder, "capi", "build_and_package_info.py").read_text(encoding="utf-8")
            said = {
                target.id: ast.literal_eval(node.value)
                for node in ast.parse(text).body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
        except (OSError, ValueError, SyntaxError):
            continue
        if {"package_name", "__version__"} <= said.keys():
            return f"{said['package_name']} {said['__version__']}"
    return None


def _versions(*names: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()) + "\n")
