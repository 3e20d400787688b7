"""What the package says of itself: its version, and its sentence."""

__version__ = "0.1.0"

SUMMARY = (
    "Translates DirectML's gather operators to ONNX models that return DirectML's own"
    " bytes, and proves it."
)
"""The sentence that says what onnxgather is for."""
