"""The sizes of a Reshape are those that every level of ONNX Runtime gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from rewritten_models import session_at

import onnxgather as og

LEVELS = (0, 1, 2, 99)

RESHAPED = """<ir_version: 8, opset_import: ["" : 17]>
reshaped (%s, float[P] y, float[Q] w) => (float[M] z, int64[R] s)
<int64 zero = {0}, int64 one = {1}, int64[1] axes = {0}, int64[1] minus = {-1},
 int64[1] four = {4}> {
  shape_x = Shape(x)
  shape_y = Shape(y)
  shape_w = Shape(w)
  size_b = Gather(shape_x, zero)
  size_p = Gather(shape_y, zero)
  size_q = Gather(shape_w, zero)
  b = Unsqueeze(size_b, axes)
  p = Unsqueeze(size_p, axes)
  q = Unsqueeze(size_q, axes)
  wanted = Concat<axis = 0>(%s)
  r = Reshape(x, wanted)
  s = Shape(r)
  size = Gather(s, one)
  last = Sub(size, one)
  z = Gather(%s, last)
}"""


def reshaped(x: str, wanted: str, table: str) -> onnx.ModelProto:
    """Return a model that gathers at the last position of axis 1 of a Reshape."""
    return onnx.parser.parse_model(RESHAPED % (x, wanted, table))


def shape_at(model: onnx.ModelProto, level: int, *sizes: Any) -> list[int] | str:
    """Return the sizes of the Reshape at a level, or the operator that refuses."""
    session = session_at(model, level)
    arrays = [np.zeros(size, np.float32) for size in sizes]
    inputs: dict[str, Any] = dict(zip(("x", "y", "w"), arrays, strict=True))
    try:
        shape: Any = session.run(["s"], inputs)[0]
    except Exception as error:
        return "Reshape" if "Reshape node" in str(error) else str(error)
    return shape.tolist()


@pytest.mark.parametrize(
    ("x", "wanted", "table", "verdict"),
    [
        # The elements are as many, whatever the sizes are.
        ("float[B, P] x", "b, p", "y", "never"),
        # What is left of the elements is B.
        ("float[P, B] x", "b, p", "y", "perhaps"),
        # What is left of the elements is 3, then 3 * P, which is beyond P.
        ("float[B, 12] x", "b, p, four", "y", "perhaps"),
        ("float[B, P, 12] x", "b, p, four", "y", "can-leave"),
        # The size that is given beside -1 is no other.
        ("float[B, 12] x", "minus, p, four", "y", "never"),
        # Of two sizes that are left each level keeps the check.
        ("float[B, 12] x", "b, p, q", "y", "never"),
    ],
)
def test_a_size_that_only_the_check_guarantees_is_not_believed(
    x: str, wanted: str, table: str, verdict: str
) -> None:
    audited = og.audit(reshaped(x, wanted, table))
    assert audited.gathers[-1].range.state == "proved"
    assert audited.verdict == verdict


def test_a_level_writes_what_is_left_in_place_of_a_size() -> None:
    model = reshaped("float[B, 12] x", "b, p, four", "w")
    shapes = [shape_at(model, level, (2, 12), (2,), (3,)) for level in LEVELS]
    assert shapes == ["Reshape", [2, 3, 4], [2, 3, 4], [2, 3, 4]]


@pytest.mark.parametrize("wanted", ["minus, p, four", "b, p, q"])
def test_a_level_writes_nothing_in_place_of_two_sizes(wanted: str) -> None:
    model = reshaped("float[B, 12] x", wanted, "y")
    shapes = [shape_at(model, level, (2, 12), (5,), (4,)) for level in LEVELS]
    assert shapes == ["Reshape"] * 4
    right = [shape_at(model, level, (2, 12), (2,), (6,)) for level in LEVELS]
    assert len({str(shape) for shape in right}) == 1
