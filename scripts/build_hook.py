"""The hook that builds the native kernels, as a module.

`hatch_build.py` is in the root of the repository, which no path of imports contains.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def load_build_hook() -> ModuleType:
    """Return `hatch_build.py` as a new module."""
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
