"""The hook that builds the native kernels, as a module, and kernels that it builds.

`hatch_build.py` is in the root of the repository, which no path of imports contains.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
KERNELS = Path("onnxgather", "native", "kernels")
MODULE = "onnxgather._native"


def load_build_hook() -> ModuleType:
    """Return `hatch_build.py` as a new module."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernels_of(build: str, folder: str) -> ModuleType:
    """Return compiled kernels.

    Args:
        build: A checkout, or NAME=VALUE: this checkout with another number in
            thresholds.h.
        folder: Where they are compiled.
    """
    name, equals, value = build.partition("=")
    checkout = ROOT if equals else Path(build)
    sources = Path(folder, "kernels")
    if not (checkout / KERNELS).is_dir():
        sys.exit(f"a build must be a checkout or NAME=VALUE, got {build}")
    shutil.copytree(checkout / KERNELS, sources)
    if equals:
        header = sources / "thresholds.h"
        changed = rf"\b{name} = [^,]+,", f"{name} = {value},"
        text, count = re.subn(*changed, header.read_text())
        if not count:
            sys.exit(f"{name} must be a number of thresholds.h")
        header.write_text(text)
    hook = load_build_hook()
    library, own = next(iter(hook.libraries_of(sys.platform).items()))
    paths = [sources / file for file in (*own, *hook.SHARED)]
    # An older checkout may lack a source.
    files = [str(path) for path in paths if path.exists()]
    compiler = hook.words("CC") or hook.first_compiler()
    python = sysconfig.get_path("include"), sys.base_prefix
    command = hook.command_of(compiler, sys.platform, library, files, python)
    subprocess.run(command, cwd=folder, check=True)
    loader = ExtensionFileLoader(MODULE, f"{folder}/{library}")
    spec = spec_from_file_location(loader.name, loader.path, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
