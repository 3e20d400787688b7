"""Cases judged: what each answer of a lane counts as, with its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from msgspec import structs
from strategies import Case as Sample
from strategies import cases

import onnxgather as og
from onnxgather.arrays import Array
from onnxgather.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.lanes.lane import Answer, AnswerKind, Breakdown, LaneInfo, NodeElsewhere
from onnxgather.parity.check import check, check_cases
from onnxgather.parity.judge import KINDS
from onnxgather.parity.known import (
    CasePattern,
    DescriptorPattern,
    ElementPattern,
    Known,
    NodePattern,
    ResultPattern,
    known_differences,
)
from onnxgather.parity.results import (
    ArrayType,
    CaseResult,
    Report,
    Result,
    ResultKind,
    Returned,
    read_report,
)
from onnxgather.reference import reference

DESC = og.GatherDesc(
    og.TensorDesc("FLOAT32", [3, 2]),
    og.TensorDesc("INT32", [1, 2]),
    og.TensorDesc("FLOAT32", [2, 2]),
    axis=0,
    index_dimensions=1,
)
DATA = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
INFO = LaneInfo("stub", "StubExecutionProvider", {"onnxruntime": "1.30.0"})
NODE = ForbiddenNode("GatherND", {"batch_dims": 1}, (2,), "GatherND-13: batch sizes must be equal")


def case(*indices: int, out_of_range: og.OutOfRange = "error") -> DescriptorCase:
    """Return a gather of two rows of DATA."""
    return DescriptorCase("case", DESC, DATA, np.array([indices], np.int32), out_of_range)


def bare() -> NodeCase:
    """Return a node whose batch sizes differ."""
    return NodeCase("bare", NODE, DATA, np.zeros((2, 1), np.int64))


class Planned:
    """A lane whose answers the test gives, one after the other."""

    name = "stub"

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def start(self) -> LaneInfo:
        """Return who it is."""
        return INFO

    def answer(self, case: Case) -> Answer:
        """Return the next answer; the last one stays."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        """Do nothing."""


def result(case: Case, *answers: Answer, known: tuple[Known, ...] = ()) -> CaseResult:
    """Return what becomes of a case that is answered so."""
    (found,) = check_cases([case], [Planned(*answers)], [INFO], known)
    return found


def only(case: Case, *answers: Answer, known: tuple[Known, ...] = ()) -> Result:
    """Return the same for the one lane."""
    return result(case, *answers, known=known).results[0]


def ran(output: Any, proof: Any = None, error: str | None = None) -> Answer:
    """Return the answer of a provider that ran."""
    array = None if output is None else np.asarray(output, np.float32)
    zeros = None if proof is None else np.asarray(proof, np.float32)
    kind = AnswerKind.RAN if error is None else AnswerKind.FAILED
    return Answer(kind, error, ("Gather",), array, zeros)


ELSEWHERE = Answer(
    AnswerKind.NOT_RUN,
    "Or runs on the CPU",
    how="elsewhere",
    detail="the CPU",
    elsewhere=NodeElsewhere("a", "Or", "CPUExecutionProvider"),
)


class TestArrays:
    def test_the_same_bytes_pass(self) -> None:
        found = result(case(2, 0), ran([[5, 6], [1, 2]]))
        assert found.results == (Result("stub", "PASS", ResultKind.SAME, None, ("Gather",)),)
        assert found.evidence is None

    def test_another_byte_differs(self) -> None:
        found = result(case(2, -3), ran([[5, 6], [1, 7]]))
        (only,) = found.results
        assert (only.state, only.nodes) == ("DIFF", ("Gather",))
        assert only.reason == (
            "1 of 4 elements differ, first OutputTensor[1,1]: expected 2.0 (00 00 00 40), got 7.0 "
            "(00 00 e0 40)"
        )
        assert only.first is not None
        assert only.first.index == (1, 1)
        assert only.first.source == (
            "output[1,1] = input[indices[1], 1] = input[-3, 1] -> input[0, 1] (-3 is counted "
            "from the end of 3) = 2"
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
    def test_bits_count_not_values(self, expected: float, got: float, reason: str) -> None:
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
            (np.zeros(4, np.float32), ResultKind.SHAPE, "expected shape [2, 2], got [4]"),
        ],
    )
    def test_type_and_shape_count(self, output: Array, kind: ResultKind, reason: str) -> None:
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

    def test_what_changes_from_run_to_run_is_told(self) -> None:
        answers = ran([[5, 6], [1, 7]]), ran([[5, 6], [1, 8]])
        found = only(case(2, 0), *answers)
        assert found.unsteady
        assert found.reason is not None
        assert found.reason.endswith("(00 00 e0 40); a second run returned something else")
        assert not only(case(2, 0), answers[0], answers[0]).unsteady

    def test_a_strided_output_names_the_element(self) -> None:
        desc = og.GatherDesc(
            og.TensorDesc("FLOAT32", [3]),
            og.TensorDesc("INT32", [2]),
            og.TensorDesc("FLOAT32", [2], [3]),
            axis=0,
            index_dimensions=1,
        )
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

    def test_other_answers(self) -> None:
        error = Answer(AnswerKind.FAILED, "no memory", ("Gather",))
        assert only(case(0, 0), error) == Result(
            "stub",
            "ERROR",
            ResultKind.FAILED,
            "StubExecutionProvider failed: no memory",
            ("Gather",),
            message="no memory",
        )
        assert only(case(0, 0), Answer(AnswerKind.REFUSED, "no such type")) == Result(
            "stub",
            "ERROR",
            ResultKind.NOT_TAKEN,
            "StubExecutionProvider cannot run the model: no such type",
            message="no such type",
        )
        broken = Answer(AnswerKind.BROKEN, "it died", how=Breakdown.DIED, detail="SIGSEGV")
        assert only(case(0, 0), broken) == Result(
            "stub",
            "ERROR",
            ResultKind.BROKEN,
            "it died",
            breakdown=Breakdown.DIED,
            detail="SIGSEGV",
        )
        assert only(case(0, 0), ELSEWHERE) == Result(
            "stub",
            "NOT-RUN",
            ResultKind.NOT_RUN,
            "Or runs on the CPU",
            not_run="elsewhere",
            detail="the CPU",
            elsewhere=NodeElsewhere("a", "Or", "CPUExecutionProvider"),
        )
        own = Answer(AnswerKind.NOT_RUN, "the lane runs descriptors")
        assert only(case(0, 0), own) == Result(
            "stub", "NOT-RUN", ResultKind.NOT_RUN, "the lane runs descriptors"
        )

    def test_every_kind_has_a_state(self) -> None:
        assert set(KINDS) == set(ResultKind)


class TestRefusals:
    """What must be refused: an error counts only beside a right answer to indices in range."""

    RULE = "IndicesTensor[0,1] must be in [-3, 3), got 7"
    ZEROS = ((1, 2), (1, 2))

    def test_both_refuse(self) -> None:
        found = only(case(0, 7), ran(None, self.ZEROS, "out of bounds"))
        assert found == Result(
            "stub",
            "PASS",
            ResultKind.REFUSED,
            f"both refuse: {self.RULE}",
            ("Gather",),
            rule=self.RULE,
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
        self, row: tuple[int, int], returned: Returned, what: str
    ) -> None:
        found = only(case(0, 7), ran([(1, 2), row], self.ZEROS))
        assert found == Result(
            "stub",
            "DIFF",
            ResultKind.NOT_REFUSED,
            f"must refuse, but returned {what}: {self.RULE}",
            ("Gather",),
            returned=returned,
            got=ArrayType("float32", (2, 2)),
            rule=self.RULE,
        )

    def test_what_directml_returns_is_recognised(self) -> None:
        indices = np.array([[0, 2**31 - 1]], np.int32)
        wild = DescriptorCase("case", DESC, DATA, indices, "error")
        output = reference(DESC, DATA, indices, "directml")
        assert output.tolist() == [[1, 2], [6, 6]]
        found = only(wild, ran(output, self.ZEROS))
        assert found.returned is Returned.DIRECTML
        assert found.reason is not None
        assert found.reason.startswith("must refuse, but returned what DirectML returns: ")

    def test_a_refusal_counts_only_beside_a_right_answer(self) -> None:
        answer = ran(None, None, "never")
        assert only(case(0, 7), answer).kind is ResultKind.FAILED
        refused = only(case(0, 7), Answer(AnswerKind.REFUSED, "never"))
        assert refused.kind is ResultKind.NOT_TAKEN

    def test_indices_in_range_must_be_answered_rightly(self) -> None:
        found = only(case(0, 7), ran(None, ((1, 2), (9, 2)), "out of bounds"))
        assert found.state == "DIFF"
        assert found.reason == (
            "with indices of zero: 1 of 4 elements differ, first OutputTensor[1,0]: expected 1.0 "
            "(00 00 80 3f), got 9.0 (00 00 10 41)"
        )
        assert (found.kind, found.with_zeros) == (ResultKind.ELEMENTS, True)
        assert found.first is not None
        assert found.first.source == "output[1,0] = input[indices[1], 0] = input[0, 0] = 1"

    ALLOWED = ran([[2], [0], [1]])

    def test_a_forbidden_node(self) -> None:
        refused = Answer(AnswerKind.REFUSED, "bad batch")
        for answer in (refused, ran(None, None, "bad batch")):
            assert only(bare(), answer, self.ALLOWED) == Result(
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

    def test_a_forbidden_node_whose_allowed_one_does_not_run_either(self) -> None:
        found = only(bare(), Answer(AnswerKind.REFUSED, "bad batch"), ELSEWHERE)
        assert (found.state, found.kind) == ("NOT-RUN", ResultKind.UNPROVED)
        assert found.reason == (
            "refused, but an allowed node of the kind does not run either: Or runs on the CPU"
        )
        assert found.elsewhere == ELSEWHERE.elsewhere


KNOWN = Known(
    "StubExecutionProvider",
    ">=1.29,<1.31",
    (CasePattern(operator=("GATHER",), out_of_range=("error",), in_range=False),),
    (ResultPattern(ResultKind.NOT_REFUSED),),
    "It answers with zeros.",
    "https://example.org/1",
)


class TestKnownDifferences:
    WILD = ran([(1, 2), (0, 0)], TestRefusals.ZEROS)
    REFUSED = ran(None, TestRefusals.ZEROS, "out of bounds")

    def test_a_known_difference_is_shown_as_such(self) -> None:
        found = only(case(0, 7), self.WILD, known=(KNOWN,))
        assert (found.state, found.found) == ("KNOWN", "DIFF")
        assert found.known == "It answers with zeros. (https://example.org/1)"
        assert found.reason is not None
        assert found.reason.startswith("must refuse, but returned zeros")

    def test_one_that_passes_is_a_finding(self) -> None:
        found = only(case(0, 7), self.REFUSED, known=(KNOWN,))
        assert found.state == "FIXED"
        assert found.reason == "passes, although it is a known difference"

    def test_one_that_may_pass_is_none(self) -> None:
        sometimes = Known(
            KNOWN.provider, KNOWN.versions, KNOWN.cases, KNOWN.found, "x", "y", sometimes=True
        )
        assert only(case(0, 7), self.REFUSED, known=(sometimes,)).state == "PASS"
        assert only(case(0, 7), self.WILD, known=(sometimes,)).state == "KNOWN"

    def test_another_state_is_not_covered(self) -> None:
        assert only(case(0, 7), Answer(AnswerKind.BROKEN, "died"), known=(KNOWN,)).state == "ERROR"

    DIED = Answer(AnswerKind.BROKEN, "died", how=Breakdown.DIED, detail="SIGSEGV")
    NAN = ran([[5, 6], [float("nan"), 2]])

    @pytest.mark.parametrize(
        ("answer", "found", "state"),
        [
            (ELSEWHERE, ResultPattern(ResultKind.NOT_RUN), "KNOWN"),
            (ELSEWHERE, ResultPattern(ResultKind.NOT_RUN, not_run="elsewhere"), "KNOWN"),
            (ELSEWHERE, ResultPattern(ResultKind.NOT_RUN, not_run="folded"), "NOT-RUN"),
            (
                ELSEWHERE,
                ResultPattern(ResultKind.NOT_RUN, elsewhere=NodePattern(("And", "Or"))),
                "KNOWN",
            ),
            (
                ELSEWHERE,
                ResultPattern(ResultKind.NOT_RUN, elsewhere=NodePattern(("And",))),
                "NOT-RUN",
            ),
            (ELSEWHERE, ResultPattern(ResultKind.UNPROVED), "NOT-RUN"),
            (
                DIED,
                ResultPattern(ResultKind.BROKEN, breakdown=Breakdown.DIED, detail="SIGSEGV"),
                "KNOWN",
            ),
            (DIED, ResultPattern(ResultKind.BROKEN, breakdown=Breakdown.LATE), "ERROR"),
            (DIED, ResultPattern(ResultKind.BROKEN, detail="SIGABRT"), "ERROR"),
            (DIED, ResultPattern(ResultKind.BROKEN, message="died"), "ERROR"),  # the lane's words
            (
                ran(None, None, "no\nmemory"),
                ResultPattern(ResultKind.FAILED, message="*o?m*"),
                "KNOWN",
            ),
            (
                ran(None, None, "no memory"),
                ResultPattern(ResultKind.FAILED, message="*Stub*"),
                "ERROR",
            ),
            (NAN, ResultPattern(ResultKind.ELEMENTS, first=ElementPattern("1.0", "nan")), "KNOWN"),
            (NAN, ResultPattern(ResultKind.ELEMENTS, first=ElementPattern("nan", "nan")), "DIFF"),
        ],
    )
    def test_every_part_of_what_is_found_must_hold(
        self, answer: Answer, found: ResultPattern, state: str
    ) -> None:
        entry = structs.replace(KNOWN, cases=(CasePattern(),), found=(found,))
        assert only(case(2, 0), answer, known=(entry,)).state == state
        either = structs.replace(entry, found=(ResultPattern(ResultKind.SHAPE), found))
        assert only(case(2, 0), answer, known=(either,)).state == state

    def test_nothing_is_known_of_a_lane_that_did_not_start(self) -> None:
        anything = Known(
            KNOWN.provider, "", (CasePattern(),), (ResultPattern(ResultKind.NOT_STARTED),), "x", "y"
        )
        absent = LaneInfo("stub", KNOWN.provider, {"onnxruntime": "1.30.0"}, not_run="absent")
        (only,) = check_cases([case(0, 0)], [Planned()], [absent], (anything,))
        assert only.results == (Result("stub", "NOT-RUN", ResultKind.NOT_STARTED, "absent"),)

    @pytest.mark.parametrize("version", ["", "nightly build", "2024.a"])
    def test_a_version_that_is_none_is_in_no_range(self, version: str) -> None:
        info = LaneInfo("stub", KNOWN.provider, {"onnxruntime": version})
        assert not KNOWN.is_about(case(0, 7), info)

    @pytest.mark.parametrize(
        "change",
        [
            {"provider": "OtherExecutionProvider"},
            {"versions": "<1.30"},
            {"cases": (CasePattern(in_range=True),)},
            {"cases": (CasePattern(name="other/*"),)},
            {"cases": (CasePattern(operator=("GATHER_ND",)),)},
            {"cases": (CasePattern(data_type=("FLOAT16",)),)},
            {"cases": (CasePattern(index_type=("INT64",)),)},
            {"cases": (CasePattern(dimension_count=(3,)),)},
            {"cases": (CasePattern(descriptor=DescriptorPattern(2)),)},
            {"cases": (CasePattern(out_of_range=("clamp",)),)},
            {"cases": (CasePattern(wrapped=True),)},
            {"cases": ()},
        ],
    )
    def test_every_part_of_a_pattern_must_hold(self, change: dict[str, Any]) -> None:
        other = structs.replace(KNOWN, **change)
        assert only(case(0, 7), self.WILD, known=(other,)).state == "DIFF"
        assert only(case(0, 7), self.WILD, known=(other, KNOWN)).state == "KNOWN"

    def test_the_file_is_complete(self) -> None:
        for known in known_differences():
            assert known.provider.endswith("ExecutionProvider")
            assert known.reason.endswith(".")
            assert known.link
            assert known.cases
            assert known.found
            for found in known.found:
                assert KINDS[found.kind][0] in ("DIFF", "ERROR", "NOT-RUN")
                if found.kind is ResultKind.BROKEN:  # a crash is explained by name only
                    assert found.breakdown
                    assert found.detail


class TestReports:
    def test_a_report_reads_back(self) -> None:
        lane = Planned(ran([[5, 6], [1, 7]]))
        seen: list[CaseResult] = []
        report = check([case(2, 0), case(0, 0)], [lane], ["stub"], seen.append, ())
        assert seen == report.cases
        assert report.lanes[0].required
        assert report.counts(0) == {"DIFF": 2}
        content = msgspec.json.encode(report)
        assert content.startswith(b'{"schema":1,"onnxgather":')
        assert read_report(content) == report

    def test_a_lane_that_did_not_start_runs_nothing(self) -> None:
        info = LaneInfo("stub", "StubExecutionProvider", not_run="there is none")
        (found,) = check_cases([case(0, 0)], [Planned()], [info], ())
        absent = Result("stub", "NOT-RUN", ResultKind.NOT_STARTED, "there is none")
        assert found.results == (absent,)

    def test_lanes_stay_in_order(self) -> None:
        right, wrong = Planned(ran([[1, 2], [1, 2]])), Planned(ran([[1, 2], [1, 3]]))
        found = list(check_cases([case(0, 0)] * 50, [right, wrong], [INFO, INFO], ()))
        assert [[r.state for r in one.results] for one in found] == [["PASS", "DIFF"]] * 50

    def test_large_arrays_are_not_in_it(self) -> None:
        desc = og.GatherDesc(
            og.TensorDesc("FLOAT32", [2**18]),
            og.TensorDesc("INT32", [1]),
            og.TensorDesc("FLOAT32", [1]),
            axis=0,
            index_dimensions=1,
        )
        large = DescriptorCase("case", desc, np.zeros(2**18, np.float32), np.zeros(1, np.int32))
        found = result(large, ran([1]))
        assert found.results[0].state == "DIFF"
        assert found.evidence is None


@given(cases(wild=False))
def test_wrapped_data_survives_multiplication_by_one(sample: Sample) -> None:
    wrapped = DescriptorCase("case", sample.desc, sample.data, sample.indices).wrapped_in()
    assert wrapped.wrapped
    product = wrapped.data * wrapped.data.dtype.type(1)
    assert product.tobytes() == wrapped.data.tobytes()
    if sample.data.dtype.kind != "f":
        assert wrapped.data.tobytes() == sample.data.tobytes()


def test_of_wrapped_data_only_odd_numbers_change() -> None:
    values = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-40, 1.5], np.float32)
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT32", [7]),
        og.TensorDesc("INT32", [1]),
        og.TensorDesc("FLOAT32", [1]),
        axis=0,
        index_dimensions=1,
    )
    changed = DescriptorCase("case", desc, values, np.zeros(1, np.int32)).wrapped_in().data
    expected = np.array([1, np.inf, -np.inf, -0.0, 1, 1, 1.5], np.float32)
    assert changed.tobytes() == expected.tobytes()


def test_report_of_nothing() -> None:
    report = Report("0", "now", "here", (INFO,), [])
    assert report.counts(0) == {}
