"""The picture of a finding: its tensors, and where each element comes from."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import given
from report_samples import (
    gather,
    gather_case,
    spoiled,
)
from rings import one_quick_in

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.core.descriptors.explain import explain
from onnxgather.core.output.picture import (
    LARGEST_GRID,
    Grid,
    Link,
    Picture,
    Wrong,
    picture_of,
)


def drawn(case: Case, got: dict[str, Any] | None = None) -> Picture:
    desc = case.descriptor if isinstance(case, DescriptorCase) else None
    return picture_of(desc, case.data, case.indices, case.out_of_range, got)


def told(grid: Grid) -> str:
    """A grid of a whole tensor as text."""
    assert (grid.start, grid.shape) == ((0,) * len(grid.sizes), grid.sizes)
    offsets = ", ".join(map(str, grid.offsets))
    kind = "buffer " if grid.buffer else ""
    return f"{kind}{[*grid.sizes]} at {offsets}: {grid.values}"


def test_tensors_with_strides_show_their_buffers_too() -> None:
    case = gather_case(
        desc=gather(strides=(5, 2), output_strides=(4, 1)), indices=[2, -1]
    )
    wrong = spoiled(case, 1)
    wrong[2] = 7  # in the gap
    found = drawn(case, {"openvino": wrong})
    assert [*map(told, found.input)] == [
        "[2, 3] at 0, 2, 4, 5, 7, 9: 0 2 4 5 7 9",
        "buffer [10] at 0, 1, 2, 3, 4, 5, 6, 7, 8, 9: 0 1 2 3 4 5 6 7 8 9",
    ]
    assert [*map(told, found.output)] == [
        "[2, 2] at 0, 1, 4, 5: 4 4 9 9",
        "buffer [6] at 0, 1, 2, 3, 4, 5: 4 4 0 0 9 9",
    ]
    assert found.links == [
        Link(0, 4, (0,)),
        Link(1, 4, (1,)),
        Link(4, 9, (0,)),
        Link(5, 9, (1,)),
    ]
    assert found.lanes == {"openvino": Wrong(2, 6, {1: "0", 2: "7"})}


def test_indices_out_of_range_are_marked() -> None:
    zero = drawn(gather_case(indices=[9, 1], out_of_range="zero"))
    assert zero.outside == [0]
    assert [link.source for link in zero.links] == [-1, 1, -1, 4]
    refused = drawn(gather_case(indices=[1, -4], out_of_range="error"))
    assert (refused.outside, refused.output, refused.links) == ([1], [], [])


def test_arrays_without_dimensions_or_elements_are_drawn() -> None:
    scalar, empty = np.array(3, "i8"), np.zeros((0, 2), "f4")
    found = picture_of(None, empty, scalar, "clamp", {"x": empty})
    assert [*map(told, found.input)] == ["[0, 2] at : "]
    assert [*map(told, found.indices)] == ["[] at 0: 3"]
    assert found.lanes["x"].instead == found.input


def test_each_coordinate_of_a_tuple_has_its_own_range() -> None:
    desc = og.GatherNDDesc(
        og.TensorDesc("INT8", [2, 5]),
        og.TensorDesc("UINT32", [3, 2]),
        og.TensorDesc("INT8", [1, 3]),
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    found = drawn(gather_case(desc=desc, indices=[1, 4, 4, 1, 0, 5]))
    assert found.outside == [2, 5]
    assert found.links == [Link(0, 9, (0, 1)), Link(1, 6, (2, 3)), Link(2, 4, (4, 5))]


def test_arrays_that_cannot_be_compared_are_shown_instead() -> None:
    got = {"a": np.ones((2, 3), "f4"), "b": np.zeros((2, 2), "f8")}
    found = drawn(gather_case(), got).lanes.values()
    assert [f"{wrong.note}: {wrong.instead[0].values}" for wrong in found] == [
        "returned float32 [2, 3] in place of float32 [2, 2]: 1 1 1 1 1 1",
        "returned float64 [2, 2] in place of float32 [2, 2]: 0 0 0 0",
    ]


def test_bits_tell_apart_what_reads_alike() -> None:
    case = gather_case()
    case.data[:] = np.nan
    expected = case.expected()
    assert not isinstance(expected, str)
    wrong = expected.copy()
    wrong.view("u4")[0, 1] ^= 1
    assert drawn(case, {"x": wrong}).lanes["x"] == Wrong(1, 4, {1: "nan (01 00 c0 7f)"})


def test_large_tensors_are_shown_around_the_first_difference() -> None:
    index = np.random.default_rng(1).permutation(300) - 150
    case = gather_case(desc=gather(sizes=(40, 300), count=300), indices=list(index))
    found = drawn(case, {"x": spoiled(case, 7777, 7778, 11999)})
    for (shown,) in (found.input, found.indices, found.output):
        count = math.prod(shown.shape)
        assert LARGEST_GRID // 2 <= count <= LARGEST_GRID
        assert len(shown.offsets) == len(shown.values.split(" ")) == count
    (link,) = [link for link in found.links if link.output == 7777]
    assert link.source in found.input[0].offsets
    assert set(link.indices) <= set(found.indices[0].offsets)
    assert {link.output for link in found.links} == set(found.output[0].offsets)
    wrong = found.lanes["x"]
    assert (wrong.count, wrong.total, set(wrong.got)) == (3, 12000, {7777, 7778})


@given(strategies.cases())
def test_links_lead_from_what_each_output_element_is(found: strategies.Case) -> None:
    case = DescriptorCase("random", found.desc, found.data, found.indices, "directml")
    expected = case.expected()
    assert not isinstance(expected, str)
    padding = np.zeros(found.desc.input_tensor.element_count, case.data.dtype)
    data = np.append(case.data.reshape(-1), padding)
    shown = drawn(case)
    outputs = {link.output for link in shown.links}
    anywhere = {place for part in shown.output for place in part.offsets}
    assert set(shown.output[0].offsets) <= outputs <= anywhere
    for link in shown.links:
        one, other = data[link.source], expected.reshape(-1)[link.output]
        assert one.tobytes() == other.tobytes()
    at = (0,) * len(found.desc.output_tensor.sizes)
    strides = np.array(found.desc.indices_tensor.element_strides)
    places = explain(found.desc, found.data, found.indices, at, "directml").index_places
    (first,) = [link for link in shown.links if link.output == 0]
    assert first.indices == tuple(int(place @ strides) for place in np.array(places))


def rows_of(
    sizes: tuple[int, int], count: int, strides: tuple[int, int] | None
) -> og.GatherDesc:
    """A gather of rows from a tensor whose elements are all one."""
    return og.GatherDesc(
        og.TensorDesc("FLOAT32", sizes, (0, 0)),
        og.TensorDesc("INT64", (1, count), strides),
        og.TensorDesc("FLOAT32", (count, sizes[1])),
        axis=0,
        index_dimensions=1,
    )


@pytest.mark.slow
def test_a_tensor_that_is_far_larger_than_its_buffer_is_drawn_in_part() -> None:
    sizes = (2**15, 2**16)
    indices = np.array([[0, 2**14]])
    found = picture_of(rows_of(sizes, 2, None), np.ones(1, "f4"), indices, "clamp")
    assert [grid.sizes for grid in found.input] == [sizes, (1,)]
    for grid in (*found.input, *found.output):
        assert len(grid.offsets) <= LARGEST_GRID
    assert {link.source for link in found.links} == {0}


def test_an_output_too_large_to_draw_is_left_out() -> None:
    desc = rows_of((1, 2**16), 2**15, (0, 0))
    found = picture_of(desc, np.ones(1, "f4"), np.zeros(1, "i8"), "clamp")
    assert (found.output, found.links, found.outside) == ([], [], [])
    assert found.is_large
    assert len(found.input) == len(found.indices) == 2


@pytest.mark.parametrize(
    ("count", "outside"), one_quick_in(2, [(2**23, [0]), (2**23 + 1, [])])
)
def test_no_index_is_marked_in_a_tensor_of_more_than_eight_million(
    count: int, outside: list[int]
) -> None:
    desc = rows_of((1, 1), count, (0, 0))
    found = picture_of(desc, np.ones(1, "f4"), np.array([9]), "clamp")
    assert found.outside == outside


def test_arrays_that_do_not_fit_the_descriptor_are_refused() -> None:
    said = "InputTensor must be an array of float32 (2, 3), got float32 (4,)"
    with pytest.raises(og.DescriptorError, match=f"^{re.escape(said)}$"):
        picture_of(gather(), np.ones(4, "f4"), np.zeros((1, 2), "i8"), "clamp")
