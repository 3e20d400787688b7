"""What may be asked of a model, apart from the descriptor; known without importing onnx."""

from __future__ import annotations

from typing import Literal

Target = Literal["portable", "cpu"]
"""Whom a model is for: "portable" is standard ONNX for every provider, "cpu" is what ONNX Runtime's
CPU provider runs fastest."""

OPSETS = range(13, 26)
"""From the opset where the gather family took its present form to the newest that ONNX Runtime
1.24.4 loads (measured)."""

DEFAULT_OPSET = 17
"""Every node of it is registered by ONNX Runtime's DirectML provider, old builds included."""

DEFAULT_THREADS = 2
"""Threads that a model for the CPU provider is made for where nobody says."""
