"""Cases, audits and errors pickle, and the recipe for Dask runs on a local cluster."""

from __future__ import annotations

import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT
from report_samples import small

import onnxgather as og
from onnxgather.checking.corpus import built_in_cases

NETWORK = ROOT / "models" / "networks" / "keywords.onnx"


def the_same(one: Any, other: Any) -> bool:
    """Whether two fields are the same, arrays byte by byte."""
    if hasattr(one, "tobytes") and one.dtype.kind == "O":
        return one.tolist() == other.tolist()
    if hasattr(one, "tobytes"):
        parts = [(array.dtype, array.shape, array.tobytes()) for array in (one, other)]
        return parts[0] == parts[1]
    return bool(one == other)


def test_cases_of_each_kind_pickle() -> None:
    for case in [*built_in_cases()][::25]:
        again = pickle.loads(pickle.dumps(case))
        assert type(again) is type(case)
        assert all(
            the_same(getattr(again, field.name), getattr(case, field.name))
            for field in fields(case)
        ), case.name


def test_an_audit_pickles() -> None:
    audit = og.audit(NETWORK)
    assert pickle.loads(pickle.dumps(audit)) == audit


def test_results_pickle() -> None:
    report = small()
    assert len(report.cases) == 6
    assert pickle.loads(pickle.dumps(report)) == report


def test_an_error_pickles() -> None:
    with pytest.raises(og.OnnxGatherError) as caught:
        og.audit("nothing.onnx")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


@pytest.mark.slow
def test_the_recipe_prints_what_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip(
        "distributed", reason="the extra docs brings Dask, which is not installed"
    )
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    blocks = (
        r"runs it on a local"
        r" cluster.+?```python\n(.+?)```\n\n```\n(.+?)\n\.\.\.\n(.+?)```"
    )
    ((recipe, first, last),) = re.findall(blocks, page, re.DOTALL)
    shutil.copytree(ROOT / "models", tmp_path / "models")
    (tmp_path / "recipe.py").write_text(recipe, encoding="utf-8")
    command = [sys.executable, "recipe.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{first}\n")
    assert done.stdout.endswith(last)
