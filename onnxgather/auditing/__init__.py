"""ONNX models of others: their gathers, the range of each index, and hardened models."""
