"""The two models that docs/parts.md merges into one are proved where they stand in
it."""

from __future__ import annotations

import onnx
import pytest
from onnx.utils import Extractor
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.options import POLICIES

pytest.importorskip("z3")

ROWS = descriptor("GATHER: FLOAT32 4x3, UINT32 1x2, FLOAT32 4x2, 1, 1")
CHOOSE = descriptor("GATHER_ELEMENTS: FLOAT32 4x2, INT64 4x1, FLOAT32 4x1, 1")


def merged(policy: og.OutOfRange) -> Extractor:
    """Both in one model, where the second gathers from the output of the first."""
    first = og.to_onnx(ROWS, policy, prefix="rows_")
    second = og.to_onnx(CHOOSE, policy, prefix="choose_")
    io_map = [("rows_OutputTensor", "choose_InputTensor")]
    return Extractor(onnx.compose.merge_models(first, second, io_map=io_map))


@pytest.mark.parametrize("policy", POLICIES)
def test_each_part_of_a_merged_model_is_proved(policy: og.OutOfRange) -> None:
    model = merged(policy)
    rows = model.extract_model(
        ["rows_InputTensor", "rows_IndicesTensor"], ["rows_OutputTensor"]
    )
    choose = model.extract_model(
        ["rows_OutputTensor", "choose_IndicesTensor"], ["choose_OutputTensor"]
    )
    assert og.certify(ROWS, policy, model=rows).state == "proved"
    assert og.certify(CHOOSE, policy, model=choose).state == "proved"
    other = POLICIES.keys() - {policy}
    assert "proved" not in {og.certify(ROWS, one, model=rows).state for one in other}
