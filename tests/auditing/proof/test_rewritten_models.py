"""Rewritten models do at each level of ONNX Runtime what their rows say."""

import re
from typing import Any

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
)

REFUSED = re.compile(r"while running (\w+) node")

SILENT = 4
"""The severity of a message that is logged even so: fatal."""

IS_OLD = onnxruntime.__version__.startswith("1.24.")


def run_at(row: RewrittenModel, level: int) -> "str | list[np.ndarray[Any, Any]]":
    """Return what a level returns, or what refuses."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(level)
    options.log_severity_level = SILENT
    options.intra_op_num_threads = 1
    content = row.model().SerializeToString()
    try:
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
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
    result: "str | list[np.ndarray[Any, Any]]",
    disabled: "str | list[np.ndarray[Any, Any]]",
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


@pytest.mark.parametrize("row", REWRITTEN_MODELS, ids=lambda row: row.name)
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
