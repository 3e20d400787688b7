"""The exported networks, and those of the quick tests."""

from __future__ import annotations

import pytest
from rings import quick_alone
from runtime_faults import IS_OLD
from strength import exported

NETWORKS = {name: (model, inputs) for name, model, inputs in exported()}
"""Each network by its name, with inputs for it."""

NO_KERNEL = {"rtdetrv2.ts.onnx"} if IS_OLD else set[str]()
"""The networks that the installed ONNX Runtime does not open: up to 1.24.4 it has no
Cos of DOUBLE."""

_ALL = quick_alone(
    [
        *("bilinear.ts.onnx", "boolmask.ts.onnx", "gpt2.dyn.onnx", "gpt2_bits4.onnx"),
        *("hand_scatter.onnx", "layoutlm.ts.onnx", "nms.ts.onnx"),
        *("splinter.ts.onnx", "timesfm.ts.onnx", "topk.dyn.onnx"),
    ],
    NETWORKS,
)

_SKIPPED = pytest.mark.skip(reason="ONNX Runtime 1.24.4 has no Cos of DOUBLE")

EACH = [
    pytest.param(*each.values, marks=[*each.marks, _SKIPPED], id=each.id)
    if each.values[0] in NO_KERNEL
    else each
    for each in _ALL
]
"""The names as parameters; quick are those of few nodes with each kind of index."""
