"""Faults of the installed ONNX Runtime that planted mistakes need in order to be
seen."""

from __future__ import annotations

import onnxruntime
import pytest
from packaging.version import Version

CPU_COMPARES_HALVES = Version(onnxruntime.__version__) < Version("1.32")
"""Whether Min, Max and Clip of INT64 compare the low halves on the CPU provider
(measured: 1.24.4 and 1.31.1 do, 1.32.0 does not)."""

IS_OLD = Version(onnxruntime.__version__) <= Version("1.24.4")
"""Whether ONNX Runtime's EmbedLayerNormalization reads outside its memory for an index
below 0, in place of an error, and ReshapeFusion believes no name of a size (measured:
1.24.4 does so, 1.32.0 does not)."""

needs_compared_halves = pytest.mark.skipif(
    not CPU_COMPARES_HALVES,
    reason=(
        "Min, Max and Clip of INT64 are right since ONNX Runtime 1.32, so the mistake"
        " is none"
    ),
)
