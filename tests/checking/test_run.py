"""Cases put to lanes, and the report of it."""

from __future__ import annotations

import threading
import tracemalloc
from dataclasses import replace as replace_field

import msgspec
import numpy as np
import pytest
from lane_cases import vector_gather
from msgspec.structs import replace
from planned_lane import INFO, Planned, case, ran, result

from onnxgather.checking import run as checking
from onnxgather.checking.cases import Case, DescriptorCase
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.report import html, junit
from onnxgather.checking.results import (
    CaseResult,
    Result,
    ResultKind,
    read_report,
)
from onnxgather.checking.run import Team, check_all, check_cases
from onnxgather.cli import terminal


def test_a_report_reads_back() -> None:
    lane = Planned(ran([[5, 6], [1, 7]]))
    seen: list[CaseResult] = []
    report = check_all([case(2, 0), case(0, 0)], [lane], ["stub"], seen.append, ())
    assert seen == report.cases
    assert report.lanes[0].required
    assert report.counts(0) == {"DIFF": 2}
    content = msgspec.json.encode(report)
    assert content.startswith(b'{"schema":2,"onnxgather":')
    assert read_report(content) == report


def test_a_lane_that_did_not_start_runs_nothing() -> None:
    info = LaneInfo("stub", "StubExecutionProvider", not_run="there is none")
    (found,) = check_cases([case(0, 0)], [Planned()], [info], ())
    absent = Result("stub", "NOT-RUN", ResultKind.NOT_STARTED, "there is none")
    assert found.results == (absent,)


def test_lanes_stay_in_order() -> None:
    right, wrong = Planned(ran([[1, 2], [1, 2]])), Planned(ran([[1, 2], [1, 3]]))
    found = list(check_cases([case(0, 0)] * 50, [right, wrong], [INFO, INFO], ()))
    assert [[r.state for r in one.results] for one in found] == [["PASS", "DIFF"]] * 50


def test_a_report_leaves_large_arrays_out() -> None:
    desc = vector_gather(2**18, index_type="INT32")
    large = DescriptorCase(
        "case", desc, np.zeros(2**18, np.float32), np.zeros(1, np.int32)
    )
    found = result(large, ran([1]))
    assert found.results[0].state == "DIFF"
    assert found.evidence is None


class TestParts:
    """A check of many cases: side by side, in part, and to the first findings."""

    right, wrong = ran([[1, 2], [1, 2]]), ran([[1, 2], [1, 3]])

    def test_a_team_answers_side_by_side_as_one_lane(self) -> None:
        both = threading.Barrier(2)

        class Waiting(Planned):
            def answer(self, case: Case) -> Answer:
                both.wait(10)
                return super().answer(case)

        team = Team([Waiting(self.right), Waiting(self.right)])
        report = check_all([case(0, 0)] * 20, [team], jobs=2)
        assert report.counts(0) == {"PASS": 20}
        assert report.lanes == (INFO,)

    def test_a_team_starts_if_all_of_it_does(self) -> None:
        class Absent(Planned):
            def start(self) -> LaneInfo:
                return replace(INFO, not_run="there is none")

        team = Team([Planned(self.right), Absent()])
        assert check_all([], [team]).lanes[0].not_run == "there is none"

    def test_a_check_ends_after_so_many_findings(self) -> None:
        # asked twice where it is wrong
        answers = [self.right, self.wrong, self.wrong, self.right]
        report = check_all(
            [case(0, 0)] * 9, [Planned(*answers)], (), planned=9, maxfail=1
        )
        assert (report.counts(0), report.planned) == ({"PASS": 1, "DIFF": 1}, 9)
        assert report.maxfail == 1
        whole = check_all([case(0, 0)], [Planned(self.wrong)], (), planned=1, maxfail=1)
        assert (whole.counts(0), whole.maxfail) == ({"DIFF": 1}, None)

    def test_equal_results_are_one_object(self) -> None:
        first, *others = check_all([case(0, 0)] * 5, [Planned(self.right)]).cases
        assert all(other.results is first.results for other in others)
        assert all(other.data_type is first.data_type for other in others)

    @pytest.mark.slow
    def test_a_case_that_passes_costs_little(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        count, lane = 2000, Planned(self.right)
        monkeypatch.setattr(terminal, "LONGEST_INDENTED", 0)
        named = [replace_field(case(0, 0), name=f"random/0/{k}") for k in range(count)]
        writers = (html, junit, terminal.json_bytes)
        small = check_all(named[:9], [lane])
        assert all(writer(small) for writer in writers)  # what is made once
        tracemalloc.start()
        report = check_all(named, [lane])
        peaks = [tracemalloc.get_traced_memory()[0]]
        for writer in writers:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            writer(report)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        tracemalloc.stop()
        assert max(peaks) < 1000 * count

    def test_the_evidence_of_a_report_has_a_limit(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        size = check_all([case(0, 0)], [Planned(self.wrong)]).cases[0].evidence
        assert size is not None
        assert size.size == 6 * 4 + 2 * 4 + 4 * 4 + 4 * 4
        monkeypatch.setattr(checking, "LARGEST_TOTAL", 4 * size.size)
        report = check_all([case(0, 0)] * 5, [Planned(self.wrong)])
        assert [found.evidence is not None for found in report.cases] == [True] * 4 + [
            False
        ]
        assert report.without_evidence == 1
        away = Answer(AnswerKind.NOT_RUN, "elsewhere")
        lane = Planned(*[away] * 5, self.wrong)
        kept = [
            found.evidence is not None
            for found in check_all([case(0, 0)] * 6, [lane]).cases
        ]
        assert kept[0]
        assert not kept[4]
        assert kept[5]
