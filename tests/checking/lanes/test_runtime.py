"""Lanes on runtimes behind adapters: what counts, and what a fault costs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from planted_adapter import planted

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.lanes.lane import Lane
from onnxgather.checking.lanes.runtime import ADAPTERS, RuntimeLane
from onnxgather.checking.results import CaseResult
from onnxgather.checking.run import check_cases
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

forks = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere no worker is forked, and messages differ"
)

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [4]),
    og.TensorDesc("INT64", [2]),
    og.TensorDesc("FLOAT32", [2]),
    axis=0,
    index_dimensions=1,
)
DATA = np.array([1, 2, 3, 4], np.float32)


def case(
    *indices: int, name: str = "case", out_of_range: og.OutOfRange = "error"
) -> Case:
    """Return a gather of two elements of DATA."""
    array = np.array(indices or (3, 0))
    return DescriptorCase(name, DESC, DATA, array, out_of_range)


def lane_on(folder: Path, change: str = "", timeout: float = 30) -> RuntimeLane:
    """Return a lane on the planted adapter."""
    return RuntimeLane("planted", planted(folder, change), timeout=timeout)


def results(lane: Lane, *cases: Case) -> list[CaseResult]:
    """Return what becomes of cases on one lane, which is closed after it."""
    try:
        return list(check_cases(cases, [lane], [lane.start()], ()))
    finally:
        lane.close()


def told(lane: Lane, *cases: Case) -> list[tuple[str, str | None]]:
    """Return states and reasons."""
    found = [result.results[0] for result in results(lane, *cases or (case(),))]
    return [(result.state, result.reason) for result in found]


def test_each_runtime_of_the_table_has_an_adapter_of_its_name() -> None:
    for name, row in OTHER_RUNTIMES.items():
        text = (ADAPTERS / row.file).read_text(encoding="utf-8")
        assert f'\nname = "{name}"\n' in text
        assert ("\ndef ran(" in text) == bool(row.ran)
    files = {path.name for path in ADAPTERS.glob("*.py")}
    assert files == {row.file for row in OTHER_RUNTIMES.values()}


def test_a_right_answer_passes(tmp_path: Path) -> None:
    (result,) = results(lane_on(tmp_path), case())
    (found,) = result.results
    assert (found.lane, found.state, found.nodes) == ("planted", "PASS", ("Gather",))
