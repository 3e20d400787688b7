"""OpenVINO, a real second provider: what it declines, and the faults that the corpus
finds."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import numpy as np
import pytest
from short_descriptors import descriptor

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import Lane
from onnxgather.checking.results import Report
from onnxgather.checking.run import check_all

ELEMENTS = descriptor("GATHER_ELEMENTS: FLOAT32 3x2, INT64 1x2, FLOAT32 1x2, 0")
LONE = DescriptorCase(
    "lone",
    ELEMENTS,
    np.arange(6, dtype=np.float32).reshape(3, 2),
    np.array([[2, 0]]),
    "error",
)


@pytest.fixture(scope="module")
def openvino(request: pytest.FixtureRequest) -> Iterator[Lane]:
    """The lane, in the environment that --openvino names."""
    python = request.config.getoption("--openvino")
    if python is None:
        pytest.skip(
            "needs --openvino PYTHON, an environment with onnxruntime-openvino and"
            " numpy"
        )
    (lane,) = open_lanes([], {"openvino": python})
    yield lane
    lane.close()


@pytest.fixture(scope="module")
def unexplained(openvino: Lane) -> Report:
    """What the out-of-range part of the corpus finds when nothing is known
    beforehand."""
    cases = [case for case in built_in_cases() if case.name.startswith("out-of-range/")]
    wrapped = [case.wrapped_in() for case in cases if case.out_of_range == "error"]
    return check_all([*cases, *wrapped], [openvino], known=())


def test_a_lone_gather_elements_is_not_run(openvino: Lane) -> None:
    (case,) = check_all([LONE], [openvino], known=()).cases
    (found,) = case.results
    assert found.state == "NOT-RUN"
    assert (
        found.reason
        == "OpenVINOExecutionProvider must run every node, but OutputTensor"
        " (GatherElements) runs on CPUExecutionProvider"
    )


def test_a_gather_between_two_multiplications_runs(openvino: Lane) -> None:
    (case,) = check_all([LONE.wrapped_in()], [openvino], known=()).cases
    (found,) = case.results
    assert (found.state, found.nodes) == ("PASS", ("Mul", "GatherElements", "Mul"))


def test_gather_answers_an_index_out_of_range_with_zeros(unexplained: Report) -> None:
    found = {
        case.name: case.results[0].reason
        for case in unexplained.cases
        if case.results[0].state == "DIFF" and case.operator == "GATHER"
    }
    reason = found["out-of-range/gather/int64/just-past/error"]
    assert reason is not None
    assert reason.startswith(
        "must refuse, but returned zeros: IndicesTensor[0,0,0,0] must be in "
    )


@pytest.mark.parametrize("operator", ["GATHER_ND", "GATHER_ND1"])
def test_tuples_out_of_range_read_memory_that_is_not_theirs(
    unexplained: Report, operator: str
) -> None:
    reasons = [
        case.results[0].reason or ""
        for case in unexplained.cases
        if case.operator == operator and case.out_of_range == "error"
    ]
    wild = [reason for reason in reasons if "values that InputTensor has not" in reason]
    assert wild
    assert any("the worker died of SIGSEGV" in reason for reason in reasons)


def test_large_indices_are_clamped_right(unexplained: Report) -> None:
    names = "out-of-range/gather/*/2-to-the-*/clamp"
    clamped = [case for case in unexplained.cases if fnmatchcase(case.name, names)]
    # The provider itself holds such an index in INT32.
    assert len(clamped) == 6
    assert {case.results[0].state for case in clamped} == {"PASS"}


def test_every_fault_is_a_known_difference(openvino: Lane, unexplained: Report) -> None:
    names = {case.name for case in unexplained.cases if case.results[0].state != "PASS"}
    again = check_all(
        [case for case in built_in_cases() if case.name in names], [openvino]
    )
    assert {case.results[0].state for case in again.cases} <= {"KNOWN", "PASS"}
