"""ONNX models, written and read; the only package that imports onnx."""

from onnxgather.model.network import operators
from onnxgather.model.parts import add_to, functions
from onnxgather.model.program import program_to_onnx
from onnxgather.model.write import VERSION, bare_model, check_model, tensor_bytes, to_onnx, wrapped

__all__ = [
    "VERSION",
    "add_to",
    "bare_model",
    "check_model",
    "functions",
    "operators",
    "program_to_onnx",
    "tensor_bytes",
    "to_onnx",
    "wrapped",
]
