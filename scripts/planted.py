"""Plants mistakes into the audit, one at a time, and tells which of them no test sees.

    python scripts/planted.py --count 300 --seed 0 --jobs 2 > survivors
    python scripts/planted.py --again survivors

A mistake is a comparison, constant, sign, branch or name that is another one. The
places are drawn at random from the files in `FILES`, or from those named by `--files`,
such as `algebra/sizes`. Each mistake has a process of its own, forked when all but the
audit is loaded, which finds the file with the mistake in front of the right one. The
tests of the file run first, then the others of `TESTS`, until one fails. A mistake is
caught by a failing test, or when it needs much more time or memory than the tests do. A
mistake with which the file cannot be imported does not count. On stdout are the
mistakes that survive: each either changes nothing, or shows a test that is missing. On
stderr is every mistake, with the test that caught it.

Mistakes that change nothing survive, such as these:

- In algebra/sizes and proof/conditions, a coefficient of 0 counts as negative or
  positive: no coefficient is 0.
- In algebra/sizes, a symbol counts twice in `_shifted`: the signs of the terms are the
  same.
- In algebra/sizes, a symbol may have the order of a mark: none has.
- In operators/output_types, a Range may count up in steps of 0: it is left before.
- In operators/output_types, the number for sizes that are not known is -1: it is not
  above 0 either.
- In operators/output_bounds_arithmetic, a float that does not fit is another integer:
  both are left out.
- In operators/output_bounds_axes, a Range of floats may count to -1: it counts to
  nothing either.
- In operators/output_bounds_axes, a Range of known numbers reads their greatest: it is
  the least, too.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import onnx
import pytest

ROOT = Path(__file__).resolve().parents[1]
AUDITING = ROOT / "onnxgather/auditing"

FILES = [
    "algebra/sizes",
    "algebra/bounds",
    "operators/calls",
    "operators/cache_limits",
    "operators/index_operators",
    "operators/inference",
    "operators/output_types",
    "operators/output_types_of_runtime",
    "operators/output_bounds_table",
    "operators/output_bounds_arithmetic",
    "operators/output_bounds_order",
    "operators/output_bounds_axes",
    "operators/output_bounds_selection",
    "operators/output_bounds",
    "operators/node_rules",
    "operators/sizes_beside",
    "proof/beyond",
    "proof/index_range",
    "proof/conditions",
]
"""Where mistakes are planted: the algebra, the tables of operators, and the proofs."""

PARTS = {
    "proof/index_range": ["proof_of", "_number"],
    "operators/index_operators": [
        "coordinates_of",
        "_indices_of",
        "_bounds_by_column",
        "bounds_of_coordinates",
        "_without",
        "_lowest_of",
        "_is_exact",
        "_first_of",
        "room_of",
        "_rotated_length",
        "_unpooled",
    ],
}
"""The functions in which mistakes are planted, of a file where it is not all of
them."""

TESTS = [
    "algebra/test_sizes",
    "algebra/test_bounds",
    "algebra/test_exact_bounds",
    "proof/test_conditions",
    "operators/test_inference",
    "operators/test_output_types",
    "operators/test_output_types_of_runtime",
    "operators/test_output_bounds",
    "proof/test_ranges",
    "proof/test_contract",
    "proof/test_shape_computations",
    "test_audit",
    "hardening/test_harden",
    "operators/test_scans",
    "operators/test_sequences",
    "operators/test_index_operators",
    "operators/test_node_rules",
    "proof/test_beyond",
    "proof/test_sizes_beside",
    "test_levels",
]
"""The test files in tests/auditing, the fast ones first."""

LOADED = (
    "numpy onnx.shape_inference onnxruntime hypothesis onnxgather.core.model.values"
)
"""Modules that are loaded before the processes are forked."""

MEMORY = 4 * 2**30
"""The bytes of addresses that a process may take more than it has when it is forked."""

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

PAIRS = """
    min max  minimum maximum  least greatest  lesser larger  _lesser _larger  low high
    lows highs  low_of high_of  any all  floor ceil  lt le  first last  starts ends
"""
"""Names and attributes that stand for one another."""

# each name has its number's neighbour
OPPOSITE = {
    name: PAIRS.split()[number ^ 1] for number, name in enumerate(PAIRS.split())
}

NEVER_REACHED = ("strict", "slots", "frozen", "eq", "default_factory")
"""Arguments that refuse what nothing does, of `zip` and of records, or name a type."""


@dataclass(eq=False)
class Mistake:
    """Another value of a field of a node of a file."""

    file: str
    tree: ast.Module
    statement: ast.stmt
    node: ast.AST
    field: str
    value: Any

    def planted(self, tree: ast.AST) -> str:
        """Return the code of a part of the file, with the mistake."""
        right = getattr(self.node, self.field)
        setattr(self.node, self.field, self.value)
        text = ast.unparse(tree)
        setattr(self.node, self.field, right)
        return text

    def __str__(self) -> str:
        texts = ast.unparse(self.statement), self.planted(self.statement)
        lines = zip(*(text.splitlines() for text in texts), strict=False)
        was, now = next((pair for pair in lines if pair[0] != pair[1]), ("", ""))
        return f"{self.file}: {was.strip()} => {now.strip()}"


def changes(node: ast.AST, may_be_none: bool) -> Iterator[tuple[str, Any]]:
    """Yield the mistakes to make in a node itself, each a field and its value."""
    match node:
        case ast.Compare(ops=ops):
            for k, one in enumerate(ops):
                yield from (
                    ("ops", [*ops[:k], o(), *ops[k + 1 :]]) for o in COMPARED[type(one)]
                )
        case ast.Constant(value=bool() as value):
            yield "value", not value
        case ast.Constant(value=int() as value):
            yield from (("value", value + 1), ("value", value - 1))
        case ast.Constant(value=str() as value) if value and all(
            map(onnx.defs.has, value.split())
        ):
            words = value.split()
            for k in range(len(words)):
                yield "value", " ".join([*words[:k], "Nothing", *words[k + 1 :]])
        case ast.BinOp(op=sign) | ast.AugAssign(op=sign) if type(sign) in SIGNS:
            yield "op", SIGNS[type(sign)]()
        case ast.UnaryOp(op=sign, operand=operand):
            yield "operand", ast.UnaryOp(sign, operand)
        case ast.BoolOp(op=sign, values=values):
            yield "op", ast.Or() if isinstance(sign, ast.And) else ast.And()
            yield from (
                ("values", [*values[:k], *values[k + 1 :]]) for k in range(len(values))
            )
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "test", ast.UnaryOp(ast.Not(), test)
            yield "test", ast.Constant(False)
        case ast.comprehension(ifs=ifs):
            yield from (("ifs", [*ifs[:k], *ifs[k + 1 :]]) for k in range(len(ifs)))
        case ast.Return(value=ast.expr() as value) if (
            may_be_none and ast.unparse(value) != "None"
        ):
            yield "value", ast.Constant(None)
        case ast.Name(id=name, ctx=ast.Load()) if name in OPPOSITE:
            yield "id", OPPOSITE[name]
        case ast.Attribute(attr=name) if name in OPPOSITE:
            yield "attr", OPPOSITE[name]
        case _:
            pass


def mistakes(file: str, text: str) -> Iterator[Mistake]:
    """Yield all mistakes to make in a file."""
    tree = ast.parse(text)

    def inside(
        node: ast.AST, statement: ast.stmt, may_be_none: bool
    ) -> Iterator[Mistake]:
        if isinstance(node, ast.stmt):
            statement = node
        if isinstance(node, ast.FunctionDef):
            may_be_none = node.returns is not None and "None" in ast.unparse(
                node.returns
            )
        for field, value in changes(node, may_be_none):
            yield Mistake(file, tree, statement, node, field, value)
        for field, child in ast.iter_fields(node):
            if (
                field in ("annotation", "returns")
                or getattr(node, "arg", "") in NEVER_REACHED
            ):
                continue
            for one in cast("list[Any]", child if isinstance(child, list) else [child]):
                if isinstance(one, ast.AST):
                    yield from inside(one, statement, may_be_none)

    for statement in tree.body:
        if file not in PARTS or getattr(statement, "name", "") in PARTS[file]:
            yield from inside(statement, statement, False)


class FirstFailure:
    """A plugin of pytest that writes the first test that fails to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(
        self, report: pytest.TestReport | pytest.CollectReport
    ) -> None:
        """Write the name of a test that fails, or of a file without its tests."""
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport


def tried(
    folder: Path, mistake: Mistake | None, tests: list[str], seconds: float
) -> int:
    """Start a process that runs tests with a mistake; return its id.

    Its status is 0 if the tests pass, 1 if one fails, 2 if the file cannot be imported.
    """
    if mistake:
        file = folder / f"{mistake.file}.py"
        file.parent.mkdir()
        file.write_text(mistake.planted(mistake.tree), encoding="utf-8")
        own = file.stem.rpartition("_")[2]
        tests = sorted(tests, key=lambda name: not Path(name).stem.endswith(own))
    if child := os.fork():
        return child
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.dont_write_bytecode = True
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder)
    if seconds:
        most = int(time.process_time() + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        signal.alarm(int(20 * seconds))
    status = 2
    try:
        if mistake:
            part = mistake.file.partition("/")[0]
            package = importlib.import_module(f"onnxgather.auditing.{part}")
            package.__path__.insert(0, str(folder / part))
        for name in FILES:
            importlib.import_module(f"onnxgather.auditing.{name.replace('/', '.')}")
        options = "-x -q --assert=plain -p no:cacheprovider --hypothesis-seed=0"
        failure = FirstFailure(folder / "failed")
        runs = (pytest.main([*options.split(), test], [failure]) for test in tests)
        status = int(any(runs))
    except BaseException:  # whatever a mistake leads to; the process must end here
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)


def verdict(folder: Path, status: int) -> str:
    """Return the test that failed, or another end; "" where all tests passed."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    if os.WEXITSTATUS(status) == 2:
        return "does not import"
    if os.WEXITSTATUS(status) == 0:
        return ""
    failed = folder / "failed"
    return failed.read_text() if failed.exists() else "pytest"


def drawn(files: list[str], seed: int, again: str) -> list[Mistake]:
    """Return the mistakes in the order in which they are tried.

    A file of survivors leaves only its own.
    """
    every = list[Mistake]()
    for file in files:
        text = (AUDITING / f"{file}.py").read_text("utf-8")
        every += mistakes(file, text)
    if again:
        kept = set(Path(again).read_text("utf-8").splitlines())
        return [one for one in every if str(one) in kept]
    random.Random(seed).shuffle(every)
    return every


def main() -> int:
    """Plant the mistakes, print those that survive; 1 if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("--count", type=int, default=300)
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=2)
    add("--files", nargs="+", default=FILES, help="names such as algebra/sizes")
    add("--tests", nargs="+", help="paths of test files, instead of those of TESTS")
    add("--again", default="", metavar="FILE", help="what an earlier run printed")
    args = parser.parse_args()
    os.chdir(ROOT)
    for name in LOADED.split():
        importlib.import_module(name)
    tests = args.tests or [f"tests/auditing/{name}.py" for name in TESTS]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        _, status, used = os.wait4(tried(folder, None, tests, 0), 0)
        if status:
            print((folder / "output").read_text(), file=sys.stderr)
            return 2
        seconds = 10 + 3 * (used.ru_utime + used.ru_stime)
        left, running = drawn(args.files, args.seed, args.again)[::-1], dict[int, Any]()
        counts, number = Counter[str](), 0
        print(
            f"{len(left)} places; the tests take {seconds / 3:.0f} s", file=sys.stderr
        )
        while running or (left and counts.total() < args.count):
            wanted = args.count - counts.total() - len(running)
            if left and wanted > 0 and len(running) < args.jobs:
                number, mistake = number + 1, left.pop()
                folder = Path(temporary, str(number))
                folder.mkdir()
                running[tried(folder, mistake, tests, seconds)] = mistake, folder
                continue
            process, status = os.wait()
            mistake, folder = running.pop(process)
            end = verdict(folder, status)
            if end != "does not import":
                counts["caught" if end else "survived"] += 1
            line = f"line {mistake.statement.lineno} of {mistake}"
            print(f"{counts.total()} {end or 'SURVIVED'}: {line}", file=sys.stderr)
            if not end:
                print(mistake, flush=True)
    print(dict(counts), file=sys.stderr)
    return int(counts["survived"] > 0)


if __name__ == "__main__":
    sys.exit(main())
