"""Show what ONNX Runtime makes of a Reshape to sizes of two inputs.

This needs onnxruntime and numpy alone. MODEL is, in ONNX's text form:

    <ir_version: 8, opset_import: ["": 17]>
    graph (float[a,b,c] x, float[d] y) => (float[e,f,g] result)
    <int64 zero = {0}, int64[1] axis = {0}, int64[1] four = {4}> {
        x_shape = Shape(x)
        y_shape = Shape(y)
        x_size = Gather(x_shape, zero)
        y_size = Gather(y_shape, zero)
        x_sizes = Unsqueeze(x_size, axis)
        y_sizes = Unsqueeze(y_size, axis)
        shape = Concat <axis = 0> (x_sizes, y_sizes, four)
        result = Reshape(x, shape)
    }
"""

import base64

import numpy as np
import onnxruntime

MODEL = base64.b64decode(
    "CAg6mAMKFQoBeBIHeF9zaGFwZSIFU2hhcGU6AAoVCgF5Egd5X3NoYXBlIgVTaGFwZToACiEKB3hf"
    "c2hhcGUKBHplcm8SBnhfc2l6ZSIGR2F0aGVyOgAKIQoHeV9zaGFwZQoEemVybxIGeV9zaXplIgZH"
    "YXRoZXI6AAokCgZ4X3NpemUKBGF4aXMSB3hfc2l6ZXMiCVVuc3F1ZWV6ZToACiQKBnlfc2l6ZQoE"
    "YXhpcxIHeV9zaXplcyIJVW5zcXVlZXplOgAKNgoHeF9zaXplcwoHeV9zaXplcwoEZm91chIFc2hh"
    "cGUiBkNvbmNhdCoLCgRheGlzGACgAQI6AAodCgF4CgVzaGFwZRIGcmVzdWx0IgdSZXNoYXBlOgAS"
    "BWdyYXBoKgsQBzoBAEIEemVybyoNCAEQBzoBAEIEYXhpcyoNCAEQBzoBBEIEZm91cloaCgF4EhUK"
    "EwgBEg8KAxIBYQoDEgFiCgMSAWNaEAoBeRILCgkIARIFCgMSAWRiHwoGcmVzdWx0EhUKEwgBEg8K"
    "AxIBZQoDEgFmCgMSAWdCBAoAEBE="
)
LEVELS = (
    "ORT_DISABLE_ALL",
    "ORT_ENABLE_BASIC",
    "ORT_ENABLE_EXTENDED",
    "ORT_ENABLE_ALL",
)
CASES = {
    "x of [2, 6, 2], y of [3], to [2, 3, 4]": {
        "x": np.zeros((2, 6, 2), np.float32),
        "y": np.zeros(3, np.float32),
    },
    "x of [2, 6, 2], y of [5], to [2, 5, 4]": {
        "x": np.zeros((2, 6, 2), np.float32),
        "y": np.zeros(5, np.float32),
    },
}
"""The inputs of each run; the names say which shape the graph computes."""


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
    return f"shape {list(result.shape)}"


print("onnxruntime", onnxruntime.__version__)
for name, feeds in CASES.items():
    print(name)
    for level in LEVELS:
        print(f"  {level:<20} {outcome(level, feeds)}")
