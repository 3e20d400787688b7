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
    RIGHT,
    bare,
    case,
    failed,
    only,
    ran,
    result,
)
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.judge import KINDS
from onnxgather.checking.known_differences import (
    CasePattern,
    Known,
    ResultPattern,
)
from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.checking.results import (
    ArrayType,
    ForeignMemory,
    Result,
    ResultKind,
    Returned,
)
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
    found = only(case(0, 7), failed("out of bounds"))
    assert found == Result(
        "stub",
        "PASS",
        ResultKind.REFUSED,
        f"both refuse: {RULE}",
        ("Gather",),
        rule=RULE,
        message="out of bounds",
        beside=RIGHT,
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
    found = only(case(0, 7), ran([(1, 2), row]))
    assert found == Result(
        "stub",
        "DIFF",
        ResultKind.NOT_REFUSED,
        f"must refuse, but returned {what}: {RULE}",
        ("Gather",),
        returned=returned,
        got=ArrayType("float32", (2, 2)),
        rule=RULE,
        beside=RIGHT,
    )


def test_an_output_of_another_data_type_is_described() -> None:
    answer = Answer(AnswerKind.RAN, output=np.ones((2, 2), np.uint64))
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
    found = only(wild, ran(output))
    assert found.returned is Returned.DIRECTML
    assert found.reason is not None
    assert found.reason.startswith("must refuse, but returned what DirectML returns: ")


WRONG_ZEROS = (
    "1 of 4 elements differ, first OutputTensor[1,0]: expected 1.0 (00 00 80 3f), got"
    " 9.0 (00 00 10 41)"
)
REFUSED_IN_VAIN = "refused, which proves nothing: out of bounds"
NOT_REFUSED = f"must refuse, but returned zeros: {RULE}"
ANSWERS_OF_TWO_RUNS = {
    "refuses": failed("out of bounds"),
    "takes no model": Answer(AnswerKind.REFUSED, "out of bounds"),
    "zeros": ran([(1, 2), (0, 0)]),
    "dies": ANSWERS["died"],
    "right": ran([(1, 2), (1, 2)]),
    "wrong": ran([(1, 2), (9, 2)]),
    "elsewhere": ELSEWHERE,
}
TWO_RUNS = f"""
refuses, right
PASS
refused PASS: both refuse: {RULE}
same PASS: None

takes no model, right
PASS
refused PASS: both refuse: {RULE}
same PASS: None

zeros, right
DIFF
not-refused DIFF: {NOT_REFUSED}
same PASS: None

dies, right
ERROR
broken ERROR: it died
same PASS: None

refuses, wrong
DIFF
unproved NOT-RUN: {REFUSED_IN_VAIN}
elements DIFF: {WRONG_ZEROS}

refuses, refuses
ERROR
unproved NOT-RUN: {REFUSED_IN_VAIN}
failed ERROR: StubExecutionProvider failed: out of bounds

takes no model, takes no model
ERROR
unproved NOT-RUN: {REFUSED_IN_VAIN}
not-taken ERROR: StubExecutionProvider cannot run the model: out of bounds

refuses, dies
ERROR
unproved NOT-RUN: {REFUSED_IN_VAIN}
broken ERROR: it died

refuses, elsewhere
NOT-RUN
unproved NOT-RUN: {REFUSED_IN_VAIN}
not-run NOT-RUN: Or runs on the CPU

zeros, wrong
DIFF
not-refused DIFF: {NOT_REFUSED}
elements DIFF: {WRONG_ZEROS}

dies, wrong
DIFF
broken ERROR: it died
elements DIFF: {WRONG_ZEROS}

zeros, dies
DIFF
not-refused DIFF: {NOT_REFUSED}
broken ERROR: it died
"""
"""Answers with an index out of range and with indices of zero, and what becomes of
them: the state of both, and the result of each."""


@pytest.mark.parametrize(
    "table", [block.splitlines() for block in TWO_RUNS.strip().split("\n\n")]
)
def test_each_of_two_runs_has_its_own_result(table: list[str]) -> None:
    answers, state, *told = table
    answer, beside = [ANSWERS_OF_TWO_RUNS[name] for name in answers.split(", ")]
    found = only(case(0, 7), answer, beside=beside)
    assert found.state == state
    assert told == [f"{run.kind} {run.state}: {run.reason}" for run in found.runs]


def test_indices_in_range_must_be_answered_rightly() -> None:
    found = result(case(0, 7), failed("no"), beside=ran([(1, 2), (9, 2)]))
    (only,) = found.results
    assert only.beside is not None
    assert only.beside.first is not None
    assert (
        only.beside.first.source
        == "output[1,0] = input[indices[1], 0] = input[0, 0] = 1"
    )
    assert (only.first, only.alone, only.is_wrong) == (None, "NOT-RUN", True)
    assert found.evidence is not None
    assert found.evidence.got == {}
    got = found.evidence.got_beside["stub"].array()
    assert got.tolist() == [[1, 2], [9, 2]]


@pytest.mark.parametrize("is_beside", [False, True])
def test_foreign_memory_is_that_of_the_run_which_returned_it(is_beside: bool) -> None:
    foreign = ran([(1, 2), (8, 9)], again=[(1, 2), (7, 7)])
    steady = ran([(1, 2), (0, 0)], again=[(1, 2), (0, 0)])
    answers = (steady, foreign) if is_beside else (foreign, steady)
    found = only(case(0, 7), answers[0], beside=answers[1])
    itself, beside = found.runs
    assert (itself.state, beside.state) == ("DIFF", "DIFF")
    how = [run.foreign_memory for run in found.runs]
    assert how == [
        None if is_beside else ForeignMemory.DIFFERS,
        ForeignMemory.DIFFERS if is_beside else None,
    ]
    assert found.shows_foreign_memory


def entry_for(kind: str, in_range: bool) -> Known:
    """Return a known difference of a kind of result, of valid cases or the others."""
    cases = (CasePattern(in_range=in_range),)
    found = (ResultPattern(ResultKind(kind)),)
    return Known("StubExecutionProvider", ">=1.30", cases, found, "So it is.", "here")


KNOWN_OF_RUNS = """
zeros, right, not-refused False | KNOWN KNOWN PASS
zeros, wrong, not-refused False | DIFF KNOWN DIFF
zeros, wrong, elements True | DIFF DIFF KNOWN
zeros, wrong, elements False | DIFF DIFF DIFF
refuses, wrong, elements True | KNOWN NOT-RUN KNOWN
refuses, wrong, unproved False | DIFF NOT-RUN DIFF
"""
"""Answers, the kind and the cases of an entry, and the states: of both runs, and of
each."""


@pytest.mark.parametrize("row", KNOWN_OF_RUNS.strip().splitlines())
def test_a_known_difference_of_a_run_hides_no_other_run(row: str) -> None:
    given, states = row.split(" | ")
    answer, beside, entry = given.split(", ")
    kind, in_range = entry.split()
    found = only(
        case(0, 7),
        ANSWERS_OF_TWO_RUNS[answer],
        beside=ANSWERS_OF_TWO_RUNS[beside],
        known=(entry_for(kind, in_range == "True"),),
    )
    assert [found.state, *(run.state for run in found.runs)] == states.split()
    assert found.is_wrong


def test_a_lane_that_did_not_run_a_case_is_not_asked_for_the_valid_one() -> None:
    assert only(case(0, 7), ELSEWHERE).beside is None


def test_a_forbidden_node_must_be_refused() -> None:
    refused = Answer(AnswerKind.REFUSED, "bad batch")
    for answer in (refused, failed("bad batch")):
        assert only(bare(), answer) == Result(
            "stub",
            "PASS",
            ResultKind.REFUSED,
            "refused: bad batch",
            answer.nodes,
            message="bad batch",
            beside=RIGHT,
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
        beside=RIGHT,
    )


def test_a_forbidden_node_whose_allowed_one_does_not_run_either() -> None:
    found = only(bare(), Answer(AnswerKind.REFUSED, "bad batch"), beside=ELSEWHERE)
    assert (found.state, found.kind) == ("NOT-RUN", ResultKind.UNPROVED)
    assert found.reason == "refused, which proves nothing: bad batch"
    assert found.beside is not None
    assert found.beside.elsewhere == ELSEWHERE.elsewhere
