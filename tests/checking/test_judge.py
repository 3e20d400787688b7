"""Answers judged against the reference: which differ, and which refusals count."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from messages import rows_of
from planned_lane import (
    DATA,
    DESC,
    ELSEWHERE,
    NODE,
    ZEROS,
    bare,
    case,
    only,
    ran,
    result,
)
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.judge import KINDS
from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.checking.results import ArrayType, Result, ResultKind, Returned
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.execution.elsewhere.child import Breakdown


def test_the_same_bytes_pass() -> None:
    found = result(case(2, 0), ran([[5, 6], [1, 2]]))
    assert found.results == (
        Result("stub", "PASS", ResultKind.SAME, None, ("Gather",)),
    )
    assert found.evidence is None


def test_another_byte_differs() -> None:
    found = result(case(2, -3), ran([[5, 6], [1, 7]]))
    (only,) = found.results
    assert (only.state, only.nodes) == ("DIFF", ("Gather",))
    assert (
        only.reason
        == "1 of 4 elements differ, first OutputTensor[1,1]: expected 2.0 (00 00 00"
        " 40), got 7.0 (00 00 e0 40)"
    )
    assert only.first is not None
    assert only.first.index == (1, 1)
    assert (
        only.first.source
        == "output[1,1] = input[indices[1], 1] = input[-3, 1] -> input[0, 1] (-3 is"
        " counted from the end of 3) = 2"
    )
    assert found.evidence is not None
    assert found.evidence.descriptor == og.to_dict(DESC)
    assert found.evidence.data.array().tobytes() == DATA.tobytes()
    assert found.evidence.got["stub"].array().tolist() == [[5, 6], [1, 7]]


@pytest.mark.parametrize(
    ("expected", "got", "reason"),
    [
        (0.0, -0.0, "expected 0.0 (00 00 00 00), got -0.0 (00 00 00 80)"),
        (float("nan"), 1.0, "expected nan (00 00 c0 7f), got 1.0 (00 00 80 3f)"),
    ],
)
def test_bits_are_compared_and_not_values(
    expected: float, got: float, reason: str
) -> None:
    data = np.full((3, 2), expected, np.float32)
    output = np.full((2, 2), expected, np.float32)
    assert only(replace(case(0, 0), data=data), ran(output)).state == "PASS"
    output[0, 0] = got
    found = only(replace(case(0, 0), data=data), ran(output))
    assert found.reason == f"1 of 4 elements differ, first OutputTensor[0,0]: {reason}"


@pytest.mark.parametrize(
    ("output", "kind", "reason"),
    [
        (
            np.zeros((2, 2)),
            ResultKind.DATA_TYPE,
            "expected data type float32, got float64",
        ),
        (
            np.zeros(4, np.float32),
            ResultKind.SHAPE,
            "expected shape [2, 2], got [4]",
        ),
    ],
)
def test_other_types_and_shapes_differ(
    output: Array, kind: ResultKind, reason: str
) -> None:
    answer = Answer(AnswerKind.RAN, None, ("Gather",), output)
    assert only(case(0, 0), answer) == Result(
        "stub",
        "DIFF",
        kind,
        reason,
        ("Gather",),
        expected=ArrayType("float32", (2, 2)),
        got=ArrayType.of(output),
    )


def test_what_changes_from_run_to_run_is_told() -> None:
    answers = ran([[5, 6], [1, 7]]), ran([[5, 6], [1, 8]])
    found = only(case(2, 0), *answers)
    assert found.unsteady
    assert found.reason is not None
    assert found.reason.endswith("(00 00 e0 40); a second run returned something else")
    assert not only(case(2, 0), answers[0], answers[0]).unsteady


def test_a_strided_output_names_the_element() -> None:
    desc = descriptor("GATHER: FLOAT32 3, INT32 2, FLOAT32 2 strides 3, 0, 1")
    strided = DescriptorCase(
        "case", desc, DATA[:, 0].copy(), np.array([2, 1], np.int32), "error"
    )
    first = only(strided, ran([5, 0, 0, 4])).first
    assert first is not None
    assert first.index == (3,)
    assert first.source is not None
    assert first.source.startswith("output[1] = input[indices[1]] = input[1]")
    gap = only(strided, ran([5, 9, 0, 3])).first
    assert gap is not None
    assert (gap.index, gap.source) == ((1,), None)


ANSWERS = {
    "failed": Answer(AnswerKind.FAILED, "no memory", ("Gather",)),
    "refused": Answer(AnswerKind.REFUSED, "no such type"),
    "died": Answer(AnswerKind.BROKEN, "it died", how=Breakdown.DIED, detail="SIGSEGV"),
    "elsewhere": ELSEWHERE,
    "not run": Answer(AnswerKind.NOT_RUN, "the lane runs descriptors"),
}
STATES = """
failed
{"lane": "stub", "state": "ERROR", "kind": "failed", "nodes": ["Gather"],
"reason": "StubExecutionProvider failed: no memory", "message": "no memory"}

refused
{"lane": "stub", "state": "ERROR", "kind": "not-taken",
"reason": "StubExecutionProvider cannot run the model: no such type",
"message": "no such type"}

died
{"lane": "stub", "state": "ERROR", "kind": "broken", "reason": "it died",
"breakdown": "died", "detail": "SIGSEGV"}

elsewhere
{"lane": "stub", "state": "NOT-RUN", "kind": "not-run", "reason": "Or runs on the CPU",
"not_run": "elsewhere", "detail": "the CPU",
"elsewhere": {"name": "a", "operator": "Or", "provider": "CPUExecutionProvider"}}

not run
{"lane": "stub", "state": "NOT-RUN", "kind": "not-run",
"reason": "the lane runs descriptors"}
"""
"""Answers without an output, and the JSON of their results."""


@pytest.mark.parametrize(("answer", "result"), rows_of(STATES))
def test_answers_without_an_output_have_their_states(answer: str, result: str) -> None:
    expected = msgspec.json.decode(result, type=Result)
    assert only(case(0, 0), ANSWERS[answer]) == expected


def test_every_kind_has_a_state() -> None:
    assert set(KINDS) == set(ResultKind)


RULE = "IndicesTensor[0,1] must be in [-3, 3), got 7"


def test_a_refusal_of_the_lane_and_of_the_reference_passes() -> None:
    found = only(case(0, 7), ran(None, ZEROS, "out of bounds"))
    assert found == Result(
        "stub",
        "PASS",
        ResultKind.REFUSED,
        f"both refuse: {RULE}",
        ("Gather",),
        rule=RULE,
        message="out of bounds",
    )


@pytest.mark.parametrize(
    ("row", "returned", "what"),
    [
        ((0, 0), Returned.ZEROS, "zeros"),
        ((5, 6), Returned.CLAMPED, "the elements at the clamped indices"),
        ((3, 4), Returned.OTHER, "other elements of InputTensor"),
        ((99, 98), Returned.FOREIGN, "values that InputTensor has not"),
    ],
)
def test_an_array_differs_and_its_content_is_told(
    row: tuple[int, int], returned: Returned, what: str
) -> None:
    found = only(case(0, 7), ran([(1, 2), row], ZEROS))
    assert found == Result(
        "stub",
        "DIFF",
        ResultKind.NOT_REFUSED,
        f"must refuse, but returned {what}: {RULE}",
        ("Gather",),
        returned=returned,
        got=ArrayType("float32", (2, 2)),
        rule=RULE,
    )


def test_an_output_of_another_data_type_is_described() -> None:
    proof = ran(None, ZEROS).answers_in_range
    answer = Answer(
        AnswerKind.RAN, output=np.ones((2, 2), np.uint64), answers_in_range=proof
    )
    found = only(case(0, 7), answer)
    assert found.returned is Returned.UNKNOWN
    assert (
        found.reason == f"must refuse, but returned an array of uint64 [2, 2]: {RULE}"
    )


def test_what_directml_returns_is_recognised() -> None:
    indices = np.array([[0, 2**31 - 1]], np.int32)
    wild = DescriptorCase("case", DESC, DATA, indices, "error")
    output = reference(DESC, DATA, indices, "directml")
    assert output.tolist() == [[1, 2], [6, 6]]
    found = only(wild, ran(output, ZEROS))
    assert found.returned is Returned.DIRECTML
    assert found.reason is not None
    assert found.reason.startswith("must refuse, but returned what DirectML returns: ")


def test_a_refusal_counts_only_beside_a_right_answer() -> None:
    answer = ran(None, None, "never")
    assert only(case(0, 7), answer).kind is ResultKind.FAILED
    refused = only(case(0, 7), Answer(AnswerKind.REFUSED, "never"))
    assert refused.kind is ResultKind.NOT_TAKEN


def test_indices_in_range_must_be_answered_rightly() -> None:
    found = only(case(0, 7), ran(None, ((1, 2), (9, 2)), "out of bounds"))
    assert found.state == "DIFF"
    assert (
        found.reason
        == "with indices of zero: 1 of 4 elements differ, first OutputTensor[1,0]:"
        " expected 1.0 (00 00 80 3f), got 9.0 (00 00 10 41)"
    )
    assert (found.kind, found.with_zeros) == (ResultKind.ELEMENTS, True)
    assert found.first is not None
    assert found.first.source == "output[1,0] = input[indices[1], 0] = input[0, 0] = 1"


ALLOWED = ran([[2], [0], [1]])


def test_a_forbidden_node_must_be_refused() -> None:
    refused = Answer(AnswerKind.REFUSED, "bad batch")
    for answer in (refused, ran(None, None, "bad batch")):
        assert only(bare(), answer, ALLOWED) == Result(
            "stub",
            "PASS",
            ResultKind.REFUSED,
            "refused: bad batch",
            answer.nodes,
            message="bad batch",
        )
    assert only(bare(), ran([1, 2])) == Result(
        "stub",
        "DIFF",
        ResultKind.NOT_REFUSED,
        f"must refuse, but returned an array of float32 [2]: {NODE.rule}",
        ("Gather",),
        returned=Returned.UNKNOWN,
        got=ArrayType("float32", (2,)),
        rule=NODE.rule,
    )


def test_a_forbidden_node_whose_allowed_one_does_not_run_either() -> None:
    found = only(bare(), Answer(AnswerKind.REFUSED, "bad batch"), ELSEWHERE)
    assert (found.state, found.kind) == ("NOT-RUN", ResultKind.UNPROVED)
    assert (
        found.reason
        == "refused, but an allowed node of the kind does not run either: Or runs"
        " on the CPU"
    )
    assert found.elsewhere == ELSEWHERE.elsewhere
