"""A size that was cast bounds what the Cast makes of it, not the size before."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from rewritten_models import session_at
from rings import one_quick_in

from onnxgather.auditing.algebra.bounds import Bounds
from onnxgather.auditing.algebra.sizes import AnySize, high_of, low_of, size_from
from onnxgather.auditing.proof.ranges import ranges_of
from onnxgather.core.model.network import read_network

CAST = """<ir_version: 8, opset_import: ["" : 17]>
cast (float[N] x, float v, float[1] v1) => (int64[1] z)
<int64 zero = {0}, int64 one = {1}> {
  size = Shape(x)
  changed = Cast<to = %d>(size)
  count = Cast<to = 7>(changed)
  %s
}"""

TYPES = {
    "BOOL": 9,
    "UINT8": 2,
    "INT8": 3,
    "INT16": 5,
    "INT32": 6,
    "FLOAT16": 10,
    "FLOAT": 1,
}

USES = {
    "itself": "z = Identity(count)",
    "Expand": "r = Expand(v, count) z = Shape(r)",
    "ConstantOfShape": "r = ConstantOfShape(count) z = Shape(r)",
    "Tile": "r = Tile(v1, count) z = Shape(r)",
    "Range": "last = Squeeze(count) r = Range(zero, last, one) z = Shape(r)",
    "Reshape": "e = Expand(v, count) r = Reshape(e, count) z = Shape(r)",
}

# 300 is no INT8, 2,049 no FLOAT16, 70,000 no INT16 and beyond FLOAT16.
COUNTS = (3, 256, 300, 2049, 70_000)


def bounds_in(model: onnx.ModelProto, shapes: Any = None) -> Bounds:
    """Return the bounds of the output of a model."""
    network = read_network(model, shapes)
    return ranges_of(network).value(network.main, "z")


def number_of(end: AnySize, count: int, limit: Any) -> int:
    """Return an end of bounds where N is a number."""
    try:
        size: Any = size_from(str(end), {"N": count})
        return int(size)
    except (KeyError, ValueError):  # it has a size without a name
        return limit(end)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("data_type", one_quick_in(4, TYPES))
def test_a_size_is_what_a_cast_makes_of_it(data_type: str, use: str) -> None:
    model = onnx.parser.parse_model(CAST % (TYPES[data_type], USES[use]))
    session = session_at(model, 0)
    open_low, open_high = bounds_in(model).whole
    runs = 0
    for count in COUNTS:
        inputs: dict[str, Any] = {
            "x": np.zeros(count, np.float32),
            "v": np.zeros((), np.float32),
            "v1": np.zeros(1, np.float32),
        }
        try:
            result: Any = session.run(None, inputs)[0]
        except Exception:  # a size below 0, or too large a tensor
            continue
        runs += 1
        number = result.item()
        low, high = bounds_in(model, {"x": (count,)}).closed.whole
        assert low <= number <= high
        lowest = number_of(open_low, count, low_of)
        highest = number_of(open_high, count, high_of)
        assert lowest <= number <= highest
    assert runs >= 3
