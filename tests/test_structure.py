"""The shape of the package: imports point one way, and nothing heavy is imported
early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from folders import ROOT

import onnxgather

PACKAGE = Path(onnxgather.__file__).parent

ORDER = {
    "errors": "",
    "checks": "",
    "options": "",
    "files": "",
    "documents": "",
    "descriptors": (
        "datatypes strides tensors operators arrays reference explain feature_levels "
        "spelling __init__"
    ),
    "gather": "",
    "loops": "",
    "lowering": (
        "graph positions indices offsets portable gather_nodes cpu/facts "
        "cpu/long_rows cpu/row_numbers cpu/forms cpu/__init__ native __init__ show"
    ),
    "model": "functions write values protos parts __init__",
    "execution": (
        "runtime providers substitutes kernels prepared child hosts browser worker "
        "session __init__"
    ),
    "programs": "resources program running writer __init__ whole",
    "parity": (
        "decoding cases layouts models corpus/splitmix corpus/drawn corpus/groups"
        " corpus/built_in corpus/sampling corpus/export corpus/__init__ lanes/lane"
        " lanes/python lanes/directml lanes/__init__ states results judge known"
        " checking merge reading asked __init__"
    ),
    "report": "sentences paths plain junit markdown picture page lesson __init__",
    "repro": "candidates folder reduce flow plan __init__",
    "doctor": "",
    "pytest_plugin": "",
    "networks": (
        "sizes network contract inputs intervals tokenizer calls index_operators"
        " capture operator_types operator_bounds ranges conditions shapes gathers"
        " cropping picture_of_finding extraction text findings audit_reports hardening"
        " verify audit_page __init__"
    ),
    "certificates": (
        "terms formula tensors solvers lemmas operators claims counterexamples certify "
        "__init__"
    ),
    "cli": (
        "arguments terminal commands sources outputs processes check examine "
        "networks translate certify __init__"
    ),
}
"""The way of a descriptor through the package, and for each package its files in their
order. Each file imports only what stands before it."""

SPEAKERS = {
    "onnx": ("model/", "networks/", "parity/models"),
    "onnxruntime": ("execution/runtime",),
    "click": ("cli/",),
}
"""Which files speak each library, by the start of their paths in the package."""

APART = [
    ("execution/runtime", ""),  # it runs where the package is not
    (
        "lowering/(?!show)",
        "descriptors/reference",
    ),  # `show` prints the reference's formulas
    ("model/", "descriptors/reference"),
    ("lowering/portable", "lowering/cpu/"),
    (
        "programs/(?!whole)",
        "lowering/",
    ),  # a program runs whatever lowers its descriptors
]
"""What the order allows, but the design does not: files of the first pattern import
nothing of the second. That the reference imports nothing of the lowering, the order
says."""


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


FILES = {
    path.relative_to(PACKAGE).with_suffix("").as_posix(): imports(path)
    for path in sorted(PACKAGE.rglob("*.py"))
}
"""What each file of the package imports, by its path without the suffix."""

ARROWS = [
    (file, target)
    for file, found in FILES.items()
    for target in map(place, found)
    if target
]
"""Which file imports which."""


def in_order() -> list[str]:
    """Return the paths of all files, in the order."""
    files = [
        f"{top}/{name}" if name else top
        for top, n in ORDER.items()
        for name in n.split(" ")
    ]
    return [*files, "__init__", "__main__"]


def test_every_file_has_a_place_in_the_order() -> None:
    assert sorted(in_order()) == sorted(FILES)


def test_imports_point_one_way() -> None:
    level = {file: k for k, file in enumerate(in_order())}
    assert len(ARROWS) > 500
    for file, target in ARROWS:
        assert level[target] < level[file], f"{file} imports {target}"


@pytest.mark.parametrize(("one", "other"), APART)
def test_what_must_stand_apart_does(one: str, other: str) -> None:
    assert any(re.match(one, file) for file in FILES)
    for file, target in ARROWS:
        assert not (re.match(one, file) and re.match(other, target)), (
            f"{file} imports {target}"
        )


@pytest.mark.parametrize("library", SPEAKERS)
def test_each_library_is_spoken_in_one_place(library: str) -> None:
    using = {
        file
        for file, modules in FILES.items()
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
        found |= {name.id for name in names if isinstance(name, ast.Name)}
    return {name for name in found if not name.startswith("_") and name != "T"}


def test_no_two_files_define_one_name() -> None:
    by_name: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in definitions(path):
            by_name.setdefault(name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: files for name, files in by_name.items() if len(files) > 1} == {}


def test_no_package_has_the_name_of_a_public_function() -> None:
    assert not ORDER.keys() & {*onnxgather.__all__}


def test_architecture_describes_the_packages_in_their_order() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = text[text.index("| module |") :].partition("\n\n")[0].splitlines()[2:]
    named = [
        name for row in rows for name in re.findall(r"`(\w+)/?`", row.split("|")[1])
    ]
    assert named == [*ORDER]


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, onnxgather; print(*sorted({'onnx', 'onnxruntime', 'click'} &"
        " {*sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "\n"


def test_the_public_names_exist() -> None:
    assert all(hasattr(onnxgather, name) for name in onnxgather.__all__)
    assert {"to_onnx", "run", "reference", "from_dict", "to_dict"} <= set(
        onnxgather.__all__
    )
