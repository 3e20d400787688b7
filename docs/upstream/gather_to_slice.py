"""Show what ONNX Runtime makes of Gather(data, Range(start, limit)).

This needs onnxruntime and numpy alone. MODEL is, in ONNX's text form:

    <ir_version: 8, opset_import: ["": 17]>
    graph (int64[3] data, int64 start, int64 limit) => (int64[n] rows)
    <int64 one = {1}> {
        indices = Range(start, limit, one)
        rows = Gather(data, indices)
    }
"""

import base64

import numpy as np
import onnxruntime

MODEL = base64.b64decode(
    "CAg6pgEKJQoFc3RhcnQKBWxpbWl0CgNvbmUSB2luZGljZXMiBVJhbmdlOgAKHwoEZGF0YQoHaW5k"
    "aWNlcxIEcm93cyIGR2F0aGVyOgASBWdyYXBoKgoQBzoBAUIDb25lWhIKBGRhdGESCgoICAcSBAoC"
    "CANaDwoFc3RhcnQSBgoECAcSAFoPCgVsaW1pdBIGCgQIBxIAYhMKBHJvd3MSCwoJCAcSBQoDEgFu"
    "QgQKABAR"
)
LEVELS = (
    "ORT_DISABLE_ALL",
    "ORT_ENABLE_BASIC",
    "ORT_ENABLE_EXTENDED",
    "ORT_ENABLE_ALL",
)
CASES = {
    "Range(0, 2), in range": {
        "data": np.array([10, 11, 12]),
        "start": np.array(0),
        "limit": np.array(2),
    },
    "Range(-2, 0), in range": {
        "data": np.array([10, 11, 12]),
        "start": np.array(-2),
        "limit": np.array(0),
    },
    "Range(1, 5), out of range": {
        "data": np.array([10, 11, 12]),
        "start": np.array(1),
        "limit": np.array(5),
    },
    "Range(5, 7), out of range": {
        "data": np.array([10, 11, 12]),
        "start": np.array(5),
        "limit": np.array(7),
    },
    "Range(-5, -2), out of range": {
        "data": np.array([10, 11, 12]),
        "start": np.array(-5),
        "limit": np.array(-2),
    },
}
"""The inputs of each run; the axis of data has three elements."""


def outcome(level: str, feeds: dict[str, np.ndarray]) -> str:
    """Return what the model computes on an optimization level."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, level
    )
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        MODEL, options, providers=["CPUExecutionProvider"]
    )
    try:
        (result,) = session.run(None, feeds)
    except Exception:  # the classes of errors differ between versions
        return "error"
    return f"rows {result.tolist()}"


print("onnxruntime", onnxruntime.__version__)
for name, feeds in CASES.items():
    print(name)
    for level in LEVELS:
        print(f"  {level:<20} {outcome(level, feeds)}")
