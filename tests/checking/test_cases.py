"""Cases: gathers between multiplications, nodes, and the valid cases beside others."""

from __future__ import annotations

import ml_dtypes
import msgspec
import numpy as np
import pytest
from hypothesis import given
from lane_cases import vector_gather
from strategies import Case as Sample
from strategies import cases

from onnxgather.checking.cases import (
    DescriptorCase,
    GatherNode,
    NodeCase,
    case_beside,
)
from onnxgather.checking.results import CaseResult, Evidence, Result, ResultKind
from onnxgather.core.descriptors.arrays import Array, content_of


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


TEXTS = np.array(["a", "bc", ""], object)


def node_case(
    indices: object, data: Array = TEXTS, rule: str | None = None
) -> NodeCase:
    """Return the case of a Gather along axis 0."""
    array = np.array(indices, np.int64)
    node = GatherNode("Gather", {"axis": 0}, array.shape + data.shape[1:], rule)
    return NodeCase("texts", node, data, array)


def test_a_node_in_range_has_an_output() -> None:
    case = node_case([-1, 1])
    assert (case.data_type, case.index_type) == ("STRING", "INT64")
    assert case.in_range
    assert not case.must_refuse
    assert case_beside(case) is None
    expected = case.expected()
    assert not isinstance(expected, str)
    assert expected.tolist() == ["", "bc"]


def test_beside_an_index_out_of_range_are_zeros() -> None:
    case = node_case([-1, 3])
    assert not case.in_range
    assert case.must_refuse
    assert case.expected() == "indices[1] must be in [-3, 3), got 3"
    beside = case_beside(case)
    assert isinstance(beside, NodeCase)
    assert (beside.name, beside.indices.tolist()) == ("beside/texts", [0, 0])
    assert not beside.must_refuse


@pytest.mark.parametrize(
    ("data", "data_type", "has_descriptor"),
    [
        (np.empty((0, 2), np.float16), "FLOAT16", True),
        (np.empty((0, 2), object), "STRING", False),
        (np.empty((0, 2), ml_dtypes.bfloat16), "BFLOAT16", False),
    ],
)
def test_beside_an_empty_axis_is_another_node(
    data: Array, data_type: str, has_descriptor: bool
) -> None:
    case = node_case([0], data)
    assert case.expected() == "indices[0] must be in [0, 0), got 0"
    beside = case_beside(case)
    assert beside is not None
    assert beside.name == f"beside/gather/{data_type.lower()}"
    assert beside.data_type == data_type
    assert isinstance(beside, DescriptorCase) == has_descriptor
    expected = beside.expected()
    assert not isinstance(expected, str)
    assert expected.tolist() == [beside.data[place] for place in (2, 0, 1)]
    assert data_type != "STRING" or expected.tolist() == ["2", "0", "1"]


def test_beside_a_forbidden_data_type_is_another() -> None:
    rule = "a rule"
    case = node_case([5], np.arange(3).astype(ml_dtypes.float8_e5m2), rule)
    assert case.in_range
    assert case.must_refuse
    assert case.expected() == rule
    beside = case_beside(case)
    assert beside is not None
    assert (beside.name, beside.data_type) == ("beside/gather/float32", "FLOAT32")


def test_data_that_nothing_multiplies_stay_between_no_operators() -> None:
    case = node_case([0])
    assert case.wrapped_in() is case
    assert node_case([0], np.ones((0, 1))).wrapped_in().wrapped


DATA_OF_TYPES = (
    TEXTS,
    np.array([True, False, True]),
    np.arange(3).astype(ml_dtypes.bfloat16),
    np.arange(3).astype(ml_dtypes.int4),
    np.arange(3) * np.complex128(1j),
)


@pytest.mark.parametrize("data", DATA_OF_TYPES, ids=lambda data: data.dtype.name)
def test_a_report_keeps_a_node_with_its_arrays(data: Array) -> None:
    case = node_case([-1, 0], data)
    result = Result("cpu", "DIFF", ResultKind.ELEMENTS)
    entry = CaseResult.of(case, (result,), {"cpu": data[:2]})
    kept = msgspec.json.decode(msgspec.json.encode(entry), type=CaseResult)
    assert kept == entry
    assert kept.evidence is not None
    assert kept.evidence.node == case.node
    expected = case.expected()
    assert not isinstance(expected, str)
    blobs = [*kept.evidence.blobs]
    for blob, array in zip(
        blobs, (data, case.indices, expected, data[:2]), strict=True
    ):
        back = blob.array()
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert content_of(back) == content_of(array)


def test_long_texts_are_no_evidence() -> None:
    case = node_case([0], np.array(["a" * 2**20, "b"], object))
    assert Evidence.of(case, {}) is None
    assert Evidence.of(node_case([0], np.array(["a" * 2**19, "b"], object)), {})
