"""Cases: a gather between two multiplications keeps its bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from lane_cases import vector_gather
from strategies import Case as Sample
from strategies import cases

from onnxgather.checking.cases import DescriptorCase


@given(cases(wild=False))
def test_wrapped_data_survives_multiplication_by_one(sample: Sample) -> None:
    wrapped = DescriptorCase(
        "case", sample.desc, sample.data, sample.indices
    ).wrapped_in()
    assert wrapped.wrapped
    product = wrapped.data * wrapped.data.dtype.type(1)
    assert product.tobytes() == wrapped.data.tobytes()
    if sample.data.dtype.kind != "f":
        assert wrapped.data.tobytes() == sample.data.tobytes()


def test_wrapping_changes_only_nans_and_subnormals() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-40, 1.5], np.float32)
    desc = vector_gather(7, index_type="INT32")
    changed = (
        DescriptorCase("case", desc, values, np.zeros(1, np.int32)).wrapped_in().data
    )
    expected = np.array([1, np.inf, -np.inf, -0.0, 1, 1, 1.5], np.float32)
    assert changed.tobytes() == expected.tobytes()
