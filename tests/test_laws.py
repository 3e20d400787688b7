"""Laws that hold for every descriptor."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from agreement import EXAMPLES, OPSETS, POLICIES, check_model_against_reference, same
from hypothesis import given, settings
from hypothesis import strategies as st
from model_metadata import metadata_of
from short_descriptors import descriptor
from strategies import Case, cases, descriptors

import onnxgather as og
from onnxgather.core.descriptors import operators
from onnxgather.core.descriptors.arrays import Array, elements
from onnxgather.core.options import OutOfRange

TENSORS = ("input_tensor", "indices_tensor", "output_tensor")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("operator", og.OPERATORS)
def test_the_model_of_any_descriptor_equals_the_reference(
    operator: str, policy: OutOfRange
) -> None:
    @settings(max_examples=math.ceil(EXAMPLES / 16))
    @given(cases(operators=[operator]), st.sampled_from(OPSETS), st.booleans())
    def law(case: Case, opset: int, known: bool) -> None:
        check_model_against_reference(case, policy, opset, known=known)

    law()


@given(cases(wild=False), st.sampled_from(POLICIES))
def test_policies_agree_in_range(case: Case, policy: OutOfRange) -> None:
    expected = og.reference(case.desc, case.data, case.indices)
    assert same(og.reference(case.desc, case.data, case.indices, policy), expected)
    assert same(og.run(case.desc, case.data, case.indices, policy), expected)


def padded(desc: og.Descriptor) -> og.Descriptor:
    """Return a packed descriptor with one more leading one in each tensor."""
    fields = dict[str, Any]()
    for name in TENSORS:
        tensor = getattr(desc, name)
        fields[name] = msgspec.structs.replace(tensor, sizes=(1, *tensor.sizes))
    if isinstance(desc, og.GatherDesc | og.GatherElementsDesc):
        fields["axis"] = desc.axis + 1
    return msgspec.structs.replace(desc, **fields)


@given(cases(packed=True), st.sampled_from(POLICIES))
def test_more_leading_ones_change_nothing_else(case: Case, policy: OutOfRange) -> None:
    if case.desc.input_tensor.dimension_count == 8:
        return
    try:
        more = padded(case.desc)
    except og.DescriptorError:  # it would crop sizes of the indices out of more than 8
        assert isinstance(case.desc, og.GatherDesc)
        assert case.desc.input_tensor.dimension_count + case.desc.index_dimensions > 8
        return
    data, indices = case.data[None], case.indices[None]
    try:
        expected = og.reference(case.desc, case.data, case.indices, policy)[None]
    except og.IndexOutOfRangeError:
        with pytest.raises(og.IndexOutOfRangeError):
            og.reference(more, data, indices, policy)
        return
    assert same(og.reference(more, data, indices, policy), expected)
    assert same(og.run(more, data, indices, policy), expected)


@given(cases(), st.sampled_from(POLICIES))
def test_gather_nd_is_gather_nd1_without_batches(
    case: Case, policy: OutOfRange
) -> None:
    desc = case.desc
    if not isinstance(desc, og.GatherNDDesc):
        return
    twin = og.GatherND1Desc(*msgspec.structs.astuple(desc), batch_dimension_count=0)
    results: list[Array | None] = []
    for each in (desc, twin):
        try:
            results.append(og.reference(each, case.data, case.indices, policy))
        except og.IndexOutOfRangeError:
            results.append(None)
    first, second = results
    assert (first is None) == (second is None)
    if first is not None and second is not None:
        assert same(first, second)
        assert same(og.run(twin, case.data, case.indices, policy), first)


@given(
    st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32 - 1)
)
def test_gather_on_axis_0_is_gather_nd1_with_one_coordinate(
    rows: int, width: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((rows, width)).astype(np.float32)
    index = rng.integers(-rows, rows, count).astype(np.int64)
    x, y = f"FLOAT32 {rows}x{width}", f"FLOAT32 {count}x{width}"
    gather = descriptor(f"GATHER: {x}, INT64 1x{count}, {y}, 0, 1")
    tuples = descriptor(f"GATHER_ND1: {x}, INT64 {count}x1, {y}, 2, 2, 0")
    for compute_one in (og.reference, og.run):
        first = compute_one(gather, data, index[None])
        assert same(first, compute_one(tuples, data, index[:, None]))
        assert same(first, data[index])


@given(cases(), st.sampled_from(POLICIES))
def test_strides_only_say_where_elements_lie(case: Case, policy: OutOfRange) -> None:
    """In range, packed copies of the tensors give the same elements."""
    desc = case.desc
    tensors = {name: getattr(desc, name) for name in TENSORS}
    plain = {k: og.TensorDesc(one.data_type, one.sizes) for k, one in tensors.items()}
    packed = msgspec.structs.replace(desc, **plain)
    if policy == "directml":
        return  # reads on past an axis, so strides matter
    data = np.ascontiguousarray(elements(desc.input_tensor, case.data))
    indices = np.ascontiguousarray(elements(desc.indices_tensor, case.indices))
    try:
        expected = og.reference(packed, data, indices, policy)
    except og.IndexOutOfRangeError:
        return
    for compute_one in (og.reference, og.run):
        result = compute_one(desc, case.data, case.indices, policy)
        assert same(
            np.ascontiguousarray(elements(desc.output_tensor, result)), expected
        )


@given(descriptors())
def test_descriptor_survives_dict_and_json_and_its_own_text(
    desc: og.Descriptor,
) -> None:
    assert eval(repr(desc), {**vars(operators)}) == desc
    assert og.from_dict(og.to_dict(desc)) == desc
    assert og.from_dict(json.loads(json.dumps(og.to_dict(desc)))) == desc


@given(descriptors(), st.sampled_from(POLICIES), st.sampled_from(OPSETS))
def test_model_can_be_made_again_from_its_metadata(
    desc: og.Descriptor, policy: OutOfRange, opset: int
) -> None:
    model = og.to_onnx(desc, policy, opset=opset)
    metadata = metadata_of(model)
    again: Any = og.to_onnx(
        og.from_dict(metadata["descriptor"]),
        metadata["out_of_range"],
        metadata["target"],
        model.opset_import[0].version,
    )
    assert again.SerializeToString() == model.SerializeToString()


@given(cases(), st.sampled_from(POLICIES))
def test_known_indices_leave_no_index_arithmetic(
    case: Case, policy: OutOfRange
) -> None:
    try:
        model = og.to_onnx(case.desc, policy, indices=case.indices)
    except og.IndexOutOfRangeError:
        return
    assert [value.name for value in model.graph.input] == ["InputTensor"]
    left = {node.op_type for node in model.graph.node}
    moves = {"Reshape", "Gather", "GatherElements", "GatherND", "Concat", "Expand"}
    assert left <= moves | {"ScatterElements"}
