"""Prints how many lines of code the package has, by its parts, and what a first call loads.

Code is what is left of a file without blank lines, comments and docstrings. `--check`
ends with 1 if a figure is above its budget.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "onnxgather"

BUDGETS = {
    "top": 1_019,
    "descriptors": 1_019,
    "lowering": 1_732,
    "model": 499,
    "execution": 1_495,
    "programs": 993,
    "parity": 2_311,
    "report": 752,
    "repro": 788,
    "doctor": 265,
    "networks": 5_082,
    "certificates": 1_720,
    "cli": 2_063,
}
"""The most lines of code of each part; "top" is the files of the package that are no
other part. A part that grows needs a reason, and first a look for what it replaces."""

WHOLE = 19_738
"""The most lines of code of the package."""

ENTRIES = 23
"""The most files and folders in the folder of the package, `native` included."""

TINY = """
import numpy as np, onnxgather as og
tensors = og.TensorDesc("FLOAT32", [4]), og.TensorDesc("INT64", [2]), og.TensorDesc("FLOAT32", [2])
desc = og.GatherDesc(*tensors, axis=0, index_dimensions=1)
{call}
import sys
print(*(m.__file__ for name, m in sys.modules.items() if name.split(".")[0] == "onnxgather"))
"""

CALLS = {
    "to_onnx": ("og.to_onnx(desc)", 24, 2_484),
    "run": ("og.run(desc, np.zeros(4, np.float32), np.array([0, 1]))", 35, 3_847),
}
"""What a new process does, and the most files and lines of code of the package that it
may load."""


def code_lines(text: str) -> int:
    """How many lines of a module are neither blank nor part of a comment or a docstring."""
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            told.update(range(value.lineno, (value.end_lineno or 0) + 1))
    lines = [line.strip() for line in text.splitlines()]
    return sum(
        line[:1] not in ("", "#") and k not in told for k, line in enumerate(lines, 1)
    )


def by_part() -> dict[str, int]:
    """The lines of code of each part."""
    found = dict.fromkeys(BUDGETS, 0)
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        found[part if part in found else "top"] += code_lines(
            path.read_text(encoding="utf-8")
        )
    return found


def loaded(call: str) -> list[Path]:
    """The files of the package that a new process has loaded after a call."""
    command = [sys.executable, "-c", TINY.format(call=call)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [Path(name) for name in run.stdout.split() if name.endswith(".py")]


def rows() -> list[tuple[str, int, int]]:
    """Each figure: what it counts, how much there is, and the most that there may be."""
    parts = by_part()
    found = [(part, lines, BUDGETS[part]) for part, lines in parts.items()]
    found.append(("the package", sum(parts.values()), WHOLE))
    for name, (call, files, lines) in CALLS.items():
        paths = loaded(call)
        code = sum(code_lines(path.read_text(encoding="utf-8")) for path in paths)
        found += [
            (f"files after {name}", len(paths), files),
            (f"lines after {name}", code, lines),
        ]
    names = [path.name for path in PACKAGE.iterdir() if path.suffix in ("", ".py")]
    entries = len([name for name in names if name != "__pycache__"])
    return [*found, ("entries at the top", entries, ENTRIES)]


def main() -> int:
    """Print the figures."""
    above = 0
    for name, figure, most in rows():
        above += figure > most
        print(
            f"{name:<20} {figure:>7,} of {most:>7,}{'  above' if figure > most else ''}"
        )
    return int("--check" in sys.argv[1:] and above > 0)


if __name__ == "__main__":
    sys.exit(main())
