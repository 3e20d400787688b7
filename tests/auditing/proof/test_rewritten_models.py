"""Rewritten models do at each level of ONNX Runtime what their rows say."""

import re

import numpy as np
import onnxruntime
import pytest
from rewritten_models import (
    DIFFERS,
    LEVELS,
    LOAD,
    REWRITTEN_MODELS,
    RUNS,
    RewrittenModel,
    session_at,
)
from rings import one_quick_in

from onnxgather.core.descriptors.arrays import Array

REFUSED = re.compile(r"while running (\w+) node")

Result = str | list[Array]
"""What a run returns, or what refuses."""

IS_OLD = onnxruntime.__version__.startswith("1.24.")


def run_at(row: RewrittenModel, level: int) -> Result:
    """Return what a level returns, or what refuses."""
    try:
        session = session_at(row.model(), level)
    except Exception:
        return LOAD
    try:
        return session.run(None, dict(row.inputs))
    except Exception as error:
        refused = REFUSED.search(str(error))
        if refused is None:
            raise
        return refused[1]


def outcome_of(
    result: Result,
    disabled: Result,
) -> str:
    """Return the outcome of a run, beside the run at level 0."""
    if isinstance(result, str):
        return result
    if isinstance(disabled, str):
        return RUNS
    for array, expected in zip(result, disabled, strict=True):
        if array.shape != expected.shape:
            return DIFFERS
        if not np.allclose(array, expected, atol=1e-5):
            return DIFFERS
    return RUNS


@pytest.mark.parametrize(
    "row", one_quick_in(3, REWRITTEN_MODELS), ids=lambda row: row.name
)
def test_each_level_does_what_the_row_says(row: RewrittenModel) -> None:
    disabled = run_at(row, 0)
    outcomes = {level: outcome_of(run_at(row, level), disabled) for level in LEVELS}
    expected = row.outcomes
    if IS_OLD:
        expected |= row.before
    assert outcomes == expected


def test_each_row_is_rewritten() -> None:
    names = [row.name for row in REWRITTEN_MODELS]
    assert len(set(names)) == len(names)
    for row in REWRITTEN_MODELS:
        levels = (row.basic, row.extended, row.all)
        assert set(levels) != {row.disabled}, row.name
