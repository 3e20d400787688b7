"""What README.md and ARCHITECTURE.md say is so."""

from __future__ import annotations

import re
from rlcompleter import Completer
from typing import Any

import numpy as np
import pytest
from folders import ROOT

import onnxgather as og
from onnxgather.options import OPSETS

README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_python_block_of_the_readme_runs() -> None:
    (block,) = re.findall(r"```python\n(.+?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)
    (promised,) = re.findall(r"# (\[\[.+\]\])", block)
    assert names["result"].tolist() == eval(promised)
    assert names["model"].producer_name == "onnxgather"


def test_readme_counts_the_models() -> None:
    assert len(list((ROOT / "models").glob("*.json"))) == 16
    assert "`models/` has sixteen" in README


def test_readme_and_changelog_name_the_policies_and_opsets() -> None:
    for policy in ("clamp", "error", "zero", "directml"):
        assert f'| `"{policy}"` |' in README
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"opset {OPSETS[0]} to {OPSETS[-1]}" in changelog
    assert f"## {og.__version__}" in changelog


def test_a_session_completes_every_public_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run", "to_onnx"):  # as before their first use
        monkeypatch.delitem(vars(og), name, raising=False)
    completer = Completer({"og": og})
    for name in og.__all__:
        found = completer.attr_matches(f"og.{name}")
        assert any(match.rstrip("(") == f"og.{name}" for match in found), name


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in (README, ARCHITECTURE):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page):
            assert (ROOT / target).exists(), target


def test_negative_zero_survives_out_of_range_zero() -> None:
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [2]),
        og.TensorDesc("INT32", [3]),
        og.TensorDesc("FLOAT32", [3]),
        axis=0,
        index_dimensions=1,
    )
    data = np.array([-0.0, 1], np.float32)
    result = og.run(desc, data, np.array([0, 1, 2], np.int32), "zero")
    assert result.tobytes() == np.array([-0.0, 1, 0], np.float32).tobytes()
