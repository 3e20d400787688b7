"""ONNX models: descriptors written as models, and the types and names of any model."""

from onnxgather.model.parts import add_to, functions
from onnxgather.model.write import VERSION, check_model, to_onnx

__all__ = ["VERSION", "add_to", "check_model", "functions", "to_onnx"]
