"""The exported networks, and those of the quick tests."""

from __future__ import annotations

from rings import quick_alone
from strength import exported

NETWORKS = {name: (model, inputs) for name, model, inputs in exported()}
"""Each network by its name, with inputs for it."""

EACH = quick_alone(
    [
        *("bilinear.ts.onnx", "boolmask.ts.onnx", "gpt2.dyn.onnx", "gpt2_bits4.onnx"),
        *("hand_scatter.onnx", "layoutlm.ts.onnx", "nms.ts.onnx"),
        *("splinter.ts.onnx", "timesfm.ts.onnx", "topk.dyn.onnx"),
    ],
    NETWORKS,
)
"""The names as parameters; quick are those of few nodes with each kind of index."""
