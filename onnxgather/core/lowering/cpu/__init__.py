"""The lowering for ONNX Runtime's CPU provider."""

from onnxgather.core.lowering.cpu.forms import FORMS, lower_by, lower_cpu

__all__ = ["FORMS", "lower_by", "lower_cpu"]
