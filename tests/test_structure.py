"""The shape of the package: imports point one way, and nothing heavy is imported early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from folders import ROOT

import onnxgather

PACKAGE = Path(onnxgather.__file__).parent

ARCHITECTURE = ROOT / "ARCHITECTURE.md"


def layers() -> list[set[str]]:
    """Return the modules of each row of ARCHITECTURE.md's table, in its order."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    rows = text[text.index("| module |") :].partition("\n\n")[0].splitlines()[2:]
    return [set(re.findall(r"`(\w+)/?`", row.split("|")[1])) for row in rows]


LAYERS = layers()
SPEAKERS = {"onnx": {"model"}, "onnxruntime": {"runtime"}, "click": {"cli"}, "tree_sitter": {"cpp"}}
APART = [
    ("runtime", ""),  # it runs where the package is not
    ("reference", "lowering"),
    ("lowering", "reference"),
    ("dxdispatch", "lowering"),
    ("reference", "gather"),  # they see its mistakes
    ("explain", "gather"),
]


def imports(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            module = node.module or ""
            found.add(module)
            if module == "onnxgather":
                found |= {f"onnxgather.{alias.name}" for alias in node.names}
    return found


def parts() -> dict[str, set[str]]:
    """Return, for each module or subpackage, what its files import."""
    result: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        result.setdefault(part, set()).update(imports(path))
    return result


def test_every_module_has_a_row_in_the_table() -> None:
    assert set(parts()) - {"__main__", "__init__"} == set[str]().union(*LAYERS)


def test_imports_point_one_way() -> None:
    level = {
        name: k for k, layer in enumerate([*LAYERS, {"__init__", "__main__"}]) for name in layer
    }
    for part, modules in parts().items():
        for module in modules:
            if not module.startswith("onnxgather."):
                continue
            target = module.split(".")[1]
            if target == part or target not in level:
                continue
            assert level[target] <= level[part], f"{part} imports {target}"


def test_reference_and_lowering_do_not_import_one_another() -> None:
    found = parts()
    for one, other in APART:
        assert not any(m.startswith(f"onnxgather.{other}") for m in found[one]), (one, other)


def test_one_module_speaks_each_library() -> None:
    for library, speakers in SPEAKERS.items():
        using = {
            part
            for part, modules in parts().items()
            if any(m == library or m.startswith(f"{library}.") for m in modules)
        }
        assert using == speakers


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, onnxgather; print(*sorted({'onnx', 'onnxruntime', 'click'} & {*sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "\n"


def test_the_public_names_exist() -> None:
    assert all(hasattr(onnxgather, name) for name in onnxgather.__all__)
    assert {"to_onnx", "run", "reference", "from_dict", "to_dict"} <= set(onnxgather.__all__)
