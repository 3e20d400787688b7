"""What the package says of itself: its version, and its sentence."""

__version__ = "0.1.0"

SUMMARY = (
    "Translates DirectML's gather operators to ONNX models, runs them with ONNX"
    " Runtime, and proves that they return the same bytes."
)
"""The sentence that says what onnxgather is for."""
