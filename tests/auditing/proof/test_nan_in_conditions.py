"""A value that conditions limit twice stays NaN where neither excludes NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from rewritten_models import session_at

import onnxgather as og

GUARDED = """<ir_version: 8, opset_import: ["" : 17]>
guarded (float[N] x, float[4] table) => (float[M] y)
<float low = {0}, float high = {3}, float zero = {0}> {
  %s
  clipped = Clip(safe, low, high)
  indices = Cast<to = 7>(clipped)
  y = Gather(table, indices)
}"""

# The lines that guard `x`, by what they do with NaN.
PASSES_NAN = {
    "Or of two comparisons": """
        below = Less(x, low)
        above = Greater(x, high)
        outside = Or(below, above)
        safe = Where(outside, zero, x)""",
    "And of two negations": """
        below = Less(x, low)
        above = Greater(x, high)
        a = Not(below)
        b = Not(above)
        inside = And(a, b)
        safe = Where(inside, x, zero)""",
    "Not of an Or": """
        below = Less(x, low)
        above = Greater(x, high)
        outside = Or(below, above)
        inside = Not(outside)
        safe = Where(inside, x, zero)""",
    "Or of one comparison twice": """
        below = Less(x, low)
        outside = Or(below, below)
        safe = Where(outside, zero, x)""",
    "equal to itself, the other case": """
        same = Equal(x, x)
        safe = Where(same, x, x)""",
    "not below itself": """
        below = Less(x, x)
        safe = Where(below, zero, x)""",
    "computed from the value": """
        below = Less(x, low)
        above = GreaterOrEqual(x, high)
        outside = Or(below, above)
        next = Add(x, zero)
        safe = Where(outside, zero, next)""",
    "three comparisons": """
        below = Less(x, low)
        above = Greater(x, high)
        far = LessOrEqual(x, low)
        some = Or(below, above)
        outside = Or(some, far)
        safe = Where(outside, zero, x)""",
}

EXCLUDES_NAN = {
    "And of two comparisons": """
        above = GreaterOrEqual(x, low)
        below = LessOrEqual(x, high)
        inside = And(above, below)
        safe = Where(inside, x, zero)""",
    "equal to itself": """
        same = Equal(x, x)
        safe = Where(same, x, zero)""",
    "And of a comparison and a negation": """
        above = GreaterOrEqual(x, low)
        beyond = Greater(x, high)
        near = Not(beyond)
        inside = And(above, near)
        safe = Where(inside, x, zero)""",
    "And of a negation and a comparison": """
        below = Less(x, low)
        near = LessOrEqual(x, high)
        a = Not(below)
        inside = And(a, near)
        safe = Where(inside, x, zero)""",
}


def guarded(lines: str) -> onnx.ModelProto:
    """Return a model that gathers with floats, which these lines guard."""
    return onnx.parser.parse_model(GUARDED % lines)


def fails_with_nan(model: onnx.ModelProto) -> bool:
    """Return whether ONNX Runtime refuses an index that NaN became."""
    session = session_at(model, 0)
    inputs: dict[str, Any] = {
        "x": np.array([1, np.nan], np.float32),
        "table": np.arange(4, dtype=np.float32),
    }
    try:
        session.run(None, inputs)
    except Exception as error:
        if "idx=-9223372036854775808" not in str(error):
            raise
        return True
    return False


def state_of(model: onnx.ModelProto) -> str:
    (gather,) = og.audit(model).gathers
    return gather.range.state


@pytest.mark.parametrize("name", PASSES_NAN)
def test_nan_that_passes_conditions_stops_the_proof(name: str) -> None:
    model = guarded(PASSES_NAN[name])
    assert fails_with_nan(model)
    # The condition on `x` is a range of numbers.
    assert state_of(model) == "proved-if"


@pytest.mark.parametrize("name", EXCLUDES_NAN)
def test_a_condition_that_excludes_nan_leaves_the_proof(name: str) -> None:
    model = guarded(EXCLUDES_NAN[name])
    assert not fails_with_nan(model)
    assert state_of(model) == "proved"
