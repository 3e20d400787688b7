"""Descriptors lowered to ONNX graphs, without ONNX."""

from onnxgather.lowering.portable import lower

__all__ = ["lower"]
