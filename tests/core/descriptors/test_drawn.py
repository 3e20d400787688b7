"""Arrays that are drawn where nobody gives data."""

from __future__ import annotations

import numpy as np
import pytest
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.core.descriptors.arrays import all_in_range, indices_outside
from onnxgather.core.descriptors.drawn import MAX_DRAWN_BYTES, draw_names, drawn
from onnxgather.core.options import POLICIES, OutOfRange


def gather(data_type: str = "FLOAT32", index_type: str = "INT64") -> og.GatherDesc:
    return descriptor(
        f"GATHER: {data_type} 5x7, {index_type} 1x40, {data_type} 5x40, 1, 1"
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("index_type", ["UINT32", "INT32", "UINT64", "INT64"])
def test_three_cases_are_drawn_the_same_each_time(
    policy: OutOfRange, index_type: str
) -> None:
    desc = gather(index_type=index_type)
    first = [*drawn(desc, policy)]
    assert tuple(each.name for each in first) == draw_names(policy)
    for each, again in zip(first, drawn(desc, policy), strict=True):
        assert each.data.tobytes() == again.data.tobytes()
        assert each.indices.tobytes() == again.indices.tobytes()
        output = og.reference(desc, each.data, each.indices, policy)
        assert output.shape == (5, 40)


def test_the_ends_of_the_axis_are_indices() -> None:
    ends, _, _ = drawn(gather(), "clamp")
    assert {*ends.indices.ravel().tolist()} == {0, 6, -1, -7}


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_random_bits_have_nans_and_both_signs(data_type: str) -> None:
    _, bits, _ = drawn(gather(data_type), "clamp")
    assert np.isnan(bits.data).any()
    assert {*np.signbit(bits.data).ravel().tolist()} == {True, False}
    assert all_in_range(gather(data_type), bits.indices)


def test_wild_indices_are_partly_in_range_and_no_error_is_drawn() -> None:
    _, _, wild = drawn(gather(), "zero")
    outside = indices_outside(gather(), wild.indices)
    assert 0 < np.count_nonzero(outside) < outside.size
    for each in drawn(gather(), "error"):
        assert all_in_range(gather(), each.indices)


def test_a_single_wild_index_is_out_of_range() -> None:
    desc = descriptor("GATHER: UINT8 3, UINT32 1, UINT8 1, 0, 1")
    _, _, wild = drawn(desc, "clamp")
    assert not all_in_range(desc, wild.indices)


def test_nothing_is_drawn_of_more_than_32_mib() -> None:
    rows = MAX_DRAWN_BYTES // 4
    desc = descriptor(f"GATHER: FLOAT32 {rows}, INT64 1, FLOAT32 1, 0, 1")
    assert [*drawn(desc, "clamp")] == []
