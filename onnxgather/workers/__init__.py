"""Programs that onnxgather starts and asks: workers in Python environments, and the hosts."""
