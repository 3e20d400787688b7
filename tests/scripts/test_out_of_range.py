"""The table of what runtimes do with an index out of range, and how it is measured."""

from __future__ import annotations

import numpy as np
import pytest
from folders import ROOT
from runtimes import out_of_range
from runtimes.out_of_range import BEHAVIOURS, INDEX_TYPES, INDICES, LENGTH, Row

from onnxgather.checking.lanes.lane import Answer, AnswerKind
from onnxgather.checking.lanes.python import question_of
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

JUST_PAST = INDICES["just past"]
CASE = out_of_range.case_of("Gather", "INT64", JUST_PAST)
ZEROS = np.array([101, 101], np.float32)
LATE = Answer(AnswerKind.BROKEN, "late", how=Breakdown.LATE)
DIED = Answer(AnswerKind.BROKEN, "died", how=Breakdown.DIED)
FAILED = Answer(AnswerKind.FAILED, "out of range", answers_in_range=ZEROS)


def ran(element: float, again: float | None = None) -> Answer:
    """Return the answer of a runtime that returns an element, or two."""
    output = np.array([102, element], np.float32)
    second = None if again is None else np.array([102, again], np.float32)
    kind = AnswerKind.RAN
    return Answer(kind, output=output, answers_in_range=ZEROS, again=second)


@pytest.mark.parametrize(
    ("index", "answer", "behaviour"),
    [
        (JUST_PAST, FAILED, "fails"),
        (JUST_PAST, Answer(AnswerKind.NOT_RUN, "no"), "is not asked"),
        (JUST_PAST, ran(148, 148), "clamps"),
        (-LENGTH - 1, ran(101), "clamps"),
        (JUST_PAST, ran(0), "zeros"),
        (JUST_PAST, ran(101), "wraps"),
        (-LENGTH - 1, ran(148), "wraps"),
        (2**32 + 2, ran(103), "low 32 bits"),
        (JUST_PAST, ran(104), "another element"),
        (JUST_PAST, ran(7), "foreign memory"),
        (JUST_PAST, ran(101, 0), "foreign memory"),
        (JUST_PAST, DIED, "ends the program"),
        (JUST_PAST, LATE, "hangs"),
        (JUST_PAST, Answer(AnswerKind.REFUSED, "no Gather"), "does not run"),
        (
            JUST_PAST,
            Answer(AnswerKind.FAILED, "no", answers_in_range=ZEROS + 1),
            "does not run",
        ),
    ],
)
def test_each_answer_is_a_behaviour(index: int, answer: Answer, behaviour: str) -> None:
    assert out_of_range.behaviour_of(CASE, index, answer) == behaviour
    assert behaviour in BEHAVIOURS


@pytest.mark.parametrize("operator", INDEX_TYPES)
def test_a_model_is_one_node(operator: str) -> None:
    case = out_of_range.case_of(operator, "INT64", JUST_PAST)
    question = question_of(case, "portable")
    assert question.operators == {operator: 1}
    assert case.must_refuse
    assert case.indices.reshape(-1)[-1] == JUST_PAST


def test_the_last_index_chooses_from_the_last_column() -> None:
    case = out_of_range.case_of("GatherElements", "INT64", JUST_PAST)
    zeros = np.array([[101, 102], [101, 102]], np.float32)
    output = np.array([[103, 104], [195, 196]], np.float32)
    answer = Answer(AnswerKind.RAN, output=output, answers_in_range=zeros)
    assert out_of_range.behaviour_of(case, JUST_PAST, answer) == "clamps"


def test_an_answer_of_no_runtime_ends_the_script() -> None:
    answer = Answer(AnswerKind.BROKEN, "no sense", how=Breakdown.NONSENSE)
    with pytest.raises(SystemExit, match=r"^Gather/INT64, index 48: no sense$"):
        out_of_range.behaviour_of(CASE, JUST_PAST, answer)


def test_index_types_with_the_same_behaviours_have_one_line() -> None:
    rows = [
        Row("a", "1", "Gather", "INT64", "just past", "fails"),
        Row("a", "1", "Gather", "INT64", "2^32", "zeros"),
        Row("a", "1", "Gather", "INT32", "just past", "fails"),
        Row("b", "2", "Gather", "INT64", "just past", "fails"),
        Row("b", "2", "Gather", "INT32", "just past", "wraps"),
    ]
    table = out_of_range.section(rows).split("\n\n")[-2]
    assert table.splitlines()[2:] == [
        "| a 1 | Gather | INT64, INT32 | fails |  |  |  | zeros |",
        "| b 2 | Gather | INT64 | fails |  |  |  |  |",
        "| b 2 | Gather | INT32 | wraps |  |  |  |  |",
    ]


def test_the_page_has_the_table_of_the_data() -> None:
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    section = out_of_range.section(out_of_range.read_rows())
    assert out_of_range.with_section(page, section) == page
    assert page.count(section) == 1


def test_the_data_have_each_runtime_operator_and_index() -> None:
    measured: dict[str, set[tuple[str, str, str]]] = {}
    for row in out_of_range.read_rows():
        assert row.behaviour in BEHAVIOURS
        assert row.version
        keys = measured.setdefault(row.runtime, set())
        keys.add((row.operator, row.index_type, row.index))
    expected = {
        (operator, index_type, head)
        for operator, index_types in INDEX_TYPES.items()
        for index_type in index_types
        for head in INDICES
        if (index_type, head) != ("INT32", "2^32")
    }
    assert set(measured) == {*OTHER_RUNTIMES, "CPUExecutionProvider"}
    for runtime, keys in measured.items():
        assert keys == expected, runtime
