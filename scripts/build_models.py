"""Makes the .onnx and .txt files of the folder models/ from its .json files.

    python scripts/build_models.py          rewrites them and says what changed
    python scripts/build_models.py --check  changes nothing; exit code 1 if one differs

NAME.json is a DxDispatch program with one gather, written by hand. NAME.txt is the line
that its print command prints, and NAME.onnx is the portable model of its descriptor.
Every other file is removed. A changed version of onnxgather changes the .onnx files
too, as they name their producer.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import onnxgather as og
from onnxgather.core.files import write_whole
from onnxgather.core.programs.program import read_program
from onnxgather.core.programs.running import execute

MODELS = Path(__file__).resolve().parent.parent / "models"

DIFFERENCES = {
    "added": "is missing",
    "changed": "differs",
    "removed": "belongs to no program",
}
"""What --check says of a file, by what happens to the file without --check."""


def build(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder of programs, by name; the programs as they are."""
    files: dict[str, bytes] = {}
    for path in folder.glob("*.json"):
        program = read_program(str(path))
        (dispatchable,) = program.dispatchables.values()
        lines = execute(program, og.reference, output_folder=os.devnull)
        model = og.to_onnx(dispatchable.descriptor, "clamp", "portable", opset=17)
        files[path.name] = path.read_bytes()
        files[f"{path.stem}.txt"] = b"".join(lines)
        files[f"{path.stem}.onnx"] = model.SerializeToString(deterministic=True)
    return files


def main(arguments: list[str] | None = None) -> int:
    """Rewrite or check the folder. Returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Makes .onnx and .txt files of models/."
    )
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument(
        "--folder", type=Path, default=MODELS, help="instead of models/"
    )
    options = parser.parse_args(arguments)
    paths = [path for path in options.folder.iterdir() if path.is_file()]
    found = {path.name: path.read_bytes() for path in paths}
    files = build(options.folder)
    differing = sorted(
        n for n in found.keys() | files.keys() if found.get(n) != files.get(n)
    )
    for name in differing:
        change = (
            "added" if name not in found else "changed" if name in files else "removed"
        )
        if options.check:
            print(f"{name} {DIFFERENCES[change]}")
            continue
        if change == "removed":
            (options.folder / name).unlink()
        else:
            write_whole(str(options.folder / name), files[name])
        print(f"{change} {name}")
    if not differing:
        print(f"{len(files)} files, none differs")
    return 1 if options.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())
