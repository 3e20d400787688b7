"""ONNX models: descriptors written as models, and the types and names of any model."""
