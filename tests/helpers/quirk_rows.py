"""The rows of the table of ONNX Runtime's quirks, and how a test shows one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from packaging.version import Version

from onnxgather.core.model import quirks
from onnxgather.core.model.quirks import MEASURED, Quirk

NAMES = {row: name for name, row in vars(quirks).items() if isinstance(row, Quirk)}
"""The name of each row."""

VERSION = onnxruntime.__version__

Outcome = list[Any] | float | str
"""The elements of an output, or a word."""


def check_shown(
    row: Quirk,
    outcomes: Mapping[str, Outcome],
    by_onnx: Outcome,
    by_runtime: Outcome,
) -> None:
    """Check that the installed ONNX Runtime shows a row at the levels that it has."""
    shown: list[str] = []
    for level, outcome in outcomes.items():
        own = as_text(outcome)
        assert own in (as_text(by_onnx), as_text(by_runtime))
        if own == as_text(by_runtime):
            shown.append(level)
    newest = MEASURED[-1]
    if VERSION in (*MEASURED, *row.versions):
        is_expected = VERSION in row.versions
    elif Version(VERSION) > Version(newest):
        is_expected = newest in row.versions
    else:  # nobody has measured which of the versions between show it
        is_expected = bool(shown)
    expected = [*row.levels] if is_expected else []
    fault = f"ONNX Runtime {VERSION} shows {row.name!r} at {shown}, not at {expected}"
    if not shown:
        fault += ": the row is needless"
    assert shown == expected, fault


def as_text(outcome: Outcome) -> str:
    """An outcome as a text, which tells -0.0 from 0.0."""
    if isinstance(outcome, str):
        return outcome
    return str(np.asarray(outcome, float).tolist())
