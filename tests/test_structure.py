"""The shape of the package: imports point one way, and nothing heavy is imported
early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from folders import ROOT
from size import Figures

import onnxgather

PACKAGE = Path(onnxgather.__file__).parent

BORDERS = {
    "core": (),
    "auditing": ("core",),
    "checking": ("core",),
    "proving": ("core",),
    "extracting": ("core", "auditing", "checking"),
    "cli": ("core", "auditing", "checking", "proving", "extracting"),
}
"""The wings of the package, and for each the wings whose files it may import."""

STEPS = (
    "core/descriptors/",
    "core/lowering/",
    "core/model/",
    "core/execution/",
    "core/programs/",
    "core/output/",
)
"""The way of a descriptor through the core.

A folder imports only the folders before it.
"""

SPEAKERS = {
    "onnx": (
        "core/model/",
        "auditing/",
        "extracting/",
        "proving/",
        "checking/arithmetic",
        "checking/node_models",
        "checking/lanes/adapters/",
    ),
    "onnxruntime": ("core/execution/runtime",),
    "click": ("cli/",),
}
"""Which files speak each library, by the start of their paths in the package."""

APART = [
    # The module also runs where the package is not installed.
    ("core/execution/runtime", ""),
    # `show` prints the reference's formulas; a lowering never sees them.
    ("core/lowering/(?!show)", "core/descriptors/reference"),
    # The reference sees mistakes of what it shares nothing with.
    ("core/descriptors/reference", "core/(gather|loops|lowering)"),
    ("core/model/", "core/descriptors/reference"),
    ("core/lowering/portable", "core/lowering/cpu/"),
    # A program runs whatever lowers its descriptors.
    ("core/programs/(?!whole)", "core/lowering/"),
    # These run in the interpreter of another runtime, without the package.
    ("checking/lanes/adapter(s/|_program)", ""),
]
"""What borders and steps allow, but the design does not: files of the first pattern
import nothing of the second."""


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in names if place(name)}
            found |= modules | ({node.module or ""} if names - modules else set[str]())
    return found


def place(module: str) -> str | None:
    """Return the path in the package of a module's file, without its suffix; None if it
    is none."""
    package, *names = module.split(".")
    path = PACKAGE.joinpath(*names)
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if package == "onnxgather" and names and file.exists():
            return file.relative_to(PACKAGE).with_suffix("").as_posix()
    return None


@cache
def imports_by_file() -> dict[str, set[str]]:
    """Return what each file of the package imports, by its path without the suffix."""
    return {
        path.relative_to(PACKAGE).with_suffix("").as_posix(): imports(path)
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def all_arrows() -> list[tuple[str, str]]:
    """Return which file imports which."""
    return [
        (file, target)
        for file, found in imports_by_file().items()
        for target in map(place, found)
        if target
    ]


def wing(file: str) -> str:
    """Return the wing of a file; "" of a file at the top of the package."""
    return file.partition("/")[0] if "/" in file else ""


def step(file: str) -> int | None:
    """Return the number of a file's step in the core; None outside of the steps."""
    numbers = [k for k, folder in enumerate(STEPS) if file.startswith(folder)]
    return numbers[0] if numbers else None


def test_every_file_is_in_a_wing() -> None:
    assert {wing(file) for file in imports_by_file()} == {"", *BORDERS}
    assert [file for file in imports_by_file() if not wing(file)] == [
        "__init__",
        "__main__",
    ]


@pytest.mark.parametrize("name", BORDERS)
def test_a_wing_imports_only_the_wings_that_it_may_see(name: str) -> None:
    arrows = [(file, target) for file, target in all_arrows() if wing(file) == name]
    assert arrows
    for file, target in arrows:
        assert wing(target) in (name, *BORDERS[name]), f"{file} imports {target}"


def test_the_steps_of_the_core_point_one_way() -> None:
    assert {step(file) for file in imports_by_file()} == {None, *range(len(STEPS))}
    for file, target in all_arrows():
        own = step(file)
        other = step(target)
        if own is not None and other is not None:
            assert other <= own, f"{file} imports {target}"


def test_no_file_imports_the_public_names() -> None:
    # Users do; a file of the package imports the module that defines a name.
    for file, modules in imports_by_file().items():
        assert "onnxgather" not in modules, file


def test_no_imports_form_a_circle() -> None:
    assert len(all_arrows()) > 500
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for file, target in all_arrows():
        sorter.add(file, target)
    sorter.prepare()  # it raises a CycleError that names the files


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_must_stand_apart_does(one: str, other: str) -> None:
    assert any(re.match(one, file) for file in imports_by_file())
    for file, target in all_arrows():
        assert not (re.match(one, file) and re.match(other, target)), (
            f"{file} imports {target}"
        )


@pytest.mark.parametrize("library", SPEAKERS)
def test_each_library_is_spoken_in_one_place(library: str) -> None:
    using = {
        file
        for file, modules in imports_by_file().items()
        if any(m == library or m.startswith(f"{library}.") for m in modules)
    }
    assert using
    for file in using:
        assert file.startswith(SPEAKERS[library]), file


def definitions(path: Path) -> set[str]:
    """Return the public names that a file defines; T, a type variable, is none."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [getattr(node, "target", None)]
        )
        names = (name for target in targets if target for name in ast.walk(target))
        for name in names:
            # A value in a table, as in `TABLE[np.dtype(bool)] = 9`, defines nothing.
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                found.add(name.id)
    return {name for name in found if not name.startswith("_") and name != "T"}


def test_no_two_files_define_one_name() -> None:
    by_name: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        # Adapters have one interface: all define the same names.
        if path.parent.name == "adapters":
            continue
        for name in definitions(path):
            by_name.setdefault(name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: files for name, files in by_name.items() if len(files) > 1} == {}


def test_no_package_has_the_name_of_a_public_function() -> None:
    folders = {path.name for path in PACKAGE.rglob("*") if path.is_dir()}
    assert not folders & {*onnxgather.__all__}


def test_architecture_describes_each_wing_with_what_it_imports() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = text[text.index("| wing |") :].partition("\n\n")[0].splitlines()[2:]
    described: dict[str, tuple[str, ...]] = {}
    for row in rows:
        _, name, seen, *_ = row.split("|")
        described[name.strip(" `/")] = tuple(re.findall(r"`(\w+)/`", seen))
    assert described == BORDERS


def test_architecture_counts_the_lines_of_each_reading_path() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \d+ \| `([\w/.]+)` \| ([\d,]+) \|", text, flags=re.MULTILINE
    )
    assert len(rows) > 20
    for name, count in rows:
        figures = Figures()
        figures.add((PACKAGE / name).read_text(encoding="utf-8"))
        described = int(count.replace(",", ""))
        assert abs(figures.lines - described) <= 20 + described / 10, name


def tokens(path: Path) -> int:
    """Return the tokens of a file of Python or C; 0 of any other file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in (".c", ".h"):
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        return len(re.findall(r"\w+|[^\w\s]", code))
    figures = Figures()
    if path.suffix == ".py":
        figures.add(text)
    return figures.tokens


def test_architecture_counts_the_tokens_of_what_a_change_needs() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("| to change |") :].partition("\n\n")[0]
    rows = table.splitlines()[2:]
    assert len(rows) == 11
    wrong: dict[str, int] = {}
    for row in rows:
        described = int(row.split("|")[-2].replace(",", ""))
        count = 0
        for name in re.findall(r"`([\w/.]+\.\w+)`", row):
            place = PACKAGE / name
            count += tokens(place if place.exists() else ROOT / name)
        if abs(count - described) > described / 10:
            wrong[row.split("|")[1].strip()] = round(count, -2)
    assert wrong == {}


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, onnxgather; print(*sorted({'onnx', 'onnxruntime', 'click'} &"
        " {*sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "\n"


@pytest.mark.slow
def test_an_audit_loads_no_file_of_checking_proving_or_extracting() -> None:
    model = ROOT / "models/networks/keywords.onnx"
    code = f"""
import sys, onnxgather
assert onnxgather.audit({str(model)!r}).gathers
print(*sorted(name for name in sys.modules if name.startswith("onnxgather.")))
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    wings = {name.split(".")[1] for name in result.stdout.split()}
    assert wings == {"core", "auditing"}


def test_the_public_names_exist() -> None:
    assert all(hasattr(onnxgather, name) for name in onnxgather.__all__)
    assert {"to_onnx", "run", "reference", "from_dict", "to_dict"} <= set(
        onnxgather.__all__
    )
