"""What becomes of the gathers of an ONNX model: the range of their indices, and its proof."""
