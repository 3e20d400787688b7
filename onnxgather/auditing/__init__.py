"""ONNX models of others: their gathers, the ranges of indices, and hardened models."""
