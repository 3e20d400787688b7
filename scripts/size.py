"""Prints how large the package is and how dense its code is, by wing.

A line of code is neither blank nor part of a comment or a docstring. The tokens of a
statement are those of its head: the body of a function or of a loop counts by its own
statements. Imports, definitions of functions and of classes, and docstrings are no
statements here. The figures show where code is dense; no check asks for them.
"""

from __future__ import annotations

import ast
import bisect
import io
import subprocess
import sys
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

PACKAGE = Path(__file__).resolve().parents[1] / "onnxgather"

WINGS = ("core", "auditing", "checking", "proving", "extracting", "cli")

TINY = """
import numpy as np, onnxgather as og
data = og.TensorDesc("FLOAT32", [4])
indices = og.TensorDesc("INT64", [2])
output = og.TensorDesc("FLOAT32", [2])
desc = og.GatherDesc(data, indices, output, axis=0, index_dimensions=1)
{call}
import sys
for name, module in sys.modules.items():
    if name.split(".")[0] == "onnxgather":
        print(module.__file__)
"""

CALLS = {
    "to_onnx": "og.to_onnx(desc)",
    "run": "og.run(desc, np.zeros(4, np.float32), np.array([0, 1]))",
}
"""What a new process calls, to see which files that loads."""

COUNTED = (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)


@dataclass
class Figures:
    """The size and the density of some files."""

    files: int = 0
    lines: int = 0
    tokens: int = 0
    comments: int = 0
    tuple_assignments: int = 0
    statements: list[int] = field(default_factory=list[int])
    """The tokens of the head of each statement."""

    def add(self, text: str) -> None:
        """Add the text of one module."""
        tree = ast.parse(text)
        docstring_lines = _docstring_lines(tree)
        self.files += 1
        self.lines += _code_lines(text, docstring_lines)

        starts: list[tuple[int, int]] = []
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_comment = token.type == tokenize.COMMENT
            self.comments += is_comment
            if token.type in COUNTED and token.start[0] not in docstring_lines:
                starts.append(token.start)
        self.tokens += len(starts)

        for node in ast.walk(tree):
            self.tuple_assignments += _assigns_a_tuple(node)
            if _is_statement(node):
                first = bisect.bisect_left(starts, (node.lineno, node.col_offset))
                end = bisect.bisect_left(starts, _end_of_head(node))
                self.statements.append(end - first)

    def at(self, share: float) -> int:
        """Return the tokens of the statement that lies behind this share of all."""
        if not self.statements:
            return 0
        return sorted(self.statements)[int(share * (len(self.statements) - 1))]

    def per_1000_lines(self, count: int) -> float:
        """Return how often something comes in 1,000 lines of code."""
        return 1000 * count / max(self.lines, 1)


def _docstring_lines(tree: ast.AST) -> set[int]:
    numbers: set[int] = set()
    for node in ast.walk(tree):
        if _is_text(node):
            numbers.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return numbers


def _is_text(node: ast.AST) -> TypeGuard[ast.Expr]:
    """Return whether a statement is a text alone, as a docstring is."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def _code_lines(text: str, docstring_lines: set[int]) -> int:
    count = 0
    for number, line in enumerate(text.splitlines(), 1):
        is_code = line.strip()[:1] not in ("", "#")
        count += is_code and number not in docstring_lines
    return count


def _assigns_a_tuple(node: ast.AST) -> bool:
    """Return whether a statement is like `a, b = c, d`."""
    if not isinstance(node, ast.Assign):
        return False
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def _is_statement(node: ast.AST) -> TypeGuard[ast.stmt]:
    if not isinstance(node, ast.stmt) or _is_text(node):
        return False
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return not isinstance(node, kinds)


def _end_of_head(node: ast.stmt) -> tuple[int, int]:
    """Return where the body of a statement begins, or where the statement ends."""
    body: list[ast.stmt] = getattr(node, "body", [])
    if body:
        return body[0].lineno, body[0].col_offset - 1
    return node.end_lineno or node.lineno, sys.maxsize


def loaded(call: str) -> list[Path]:
    """Return the files of the package that a new process has loaded after a call."""
    command = [sys.executable, "-c", TINY.format(call=call)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [Path(name) for name in run.stdout.split() if name.endswith(".py")]


def rows() -> list[tuple[str, Figures]]:
    """Return the figures of each wing, of the whole, and of what a first call loads."""
    table: list[tuple[str, Figures]] = []
    whole = Figures()
    for wing in WINGS:
        figures = Figures()
        for path in sorted((PACKAGE / wing).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            figures.add(text)
            whole.add(text)
        table.append((wing, figures))
    for path in sorted(PACKAGE.glob("*.py")):
        whole.add(path.read_text(encoding="utf-8"))
    table.append(("the package", whole))

    for name, call in CALLS.items():
        figures = Figures()
        for path in loaded(call):
            figures.add(path.read_text(encoding="utf-8"))
        table.append((f"loaded by {name}", figures))
    return table


def main() -> None:
    """Print the figures."""
    print(
        f"{'':<18} {'files':>6} {'lines':>7} {'tokens':>8}  tokens of a statement:"
        " median, 90 %   tuple assignments and comments in 1,000 lines"
    )
    for name, figures in rows():
        tuples = figures.per_1000_lines(figures.tuple_assignments)
        comments = figures.per_1000_lines(figures.comments)
        print(
            f"{name:<18} {figures.files:>6,} {figures.lines:>7,} {figures.tokens:>8,}"
            f"  {figures.at(0.5):>30} {figures.at(0.9):>5}   {tuples:>18.1f}"
            f" {comments:>9.1f}"
        )


if __name__ == "__main__":
    main()
