"""The models of a target against the reference."""

from __future__ import annotations

import onnx
import pytest
from hypothesis import settings
from strategies import Case

import onnxgather as og
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.errors import ProviderError
from onnxgather.core.execution.session import Session
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OutOfRange, Target

POLICIES: list[OutOfRange] = ["clamp", "error", "zero", "directml"]
OPSETS = [13, 14, 16, 17, 18, 19, 21, 23, 24, 25]
EXAMPLES = 5 * settings().max_examples
"""Random descriptors whose models must equal the reference: 60, or 250 with
`--slow`."""


def compute(model: onnx.ModelProto, case: Case, threads: int = 1) -> Array:
    """Return what a model computes on the CPU provider."""
    session = Session(model, threads=threads)
    inputs = {"InputTensor": case.data}
    if len(model.graph.input) == 2:
        inputs["IndicesTensor"] = case.indices
    return session.run(inputs)


def same(found: Array | str, expected: Array | str) -> bool:
    """Return whether two arrays agree in data type, shape and every bit, or two errors
    are the same."""
    if isinstance(found, str) or isinstance(expected, str):
        both_fail = isinstance(found, str) and isinstance(expected, str)
        return both_fail and found == expected
    is_alike = (found.dtype, found.shape) == (expected.dtype, expected.shape)
    return is_alike and content_of(found) == content_of(expected)


def check_model_against_reference(
    case: Case,
    policy: OutOfRange,
    opset: int,
    *,
    known: bool,
    target: Target = "portable",
    threads: int | None = None,
) -> None:
    """Check a model against the reference; an index that is an error must be one in
    both."""
    indices = case.indices if known else None
    try:
        expected = og.reference(case.desc, case.data, case.indices, policy)
    except og.IndexOutOfRangeError:
        if known:
            with pytest.raises(og.IndexOutOfRangeError):
                og.to_onnx(case.desc, policy, target, opset, indices)
        else:
            model = og.to_onnx(case.desc, policy, target, opset, threads=threads)
            with pytest.raises(ProviderError, match=r"[Oo]ut of|invalid index"):
                compute(model, case)
        return
    model = og.to_onnx(case.desc, policy, target, opset, indices, threads)
    check_model(model)
    found = compute(model, case)
    assert same(found, expected), onnx.printer.to_text(model)
