"""Cases put to lanes, and the report of it."""

from __future__ import annotations

import msgspec
import numpy as np
from planned_lane import INFO, Planned, case, ran, result

import onnxgather as og
from onnxgather.cases import DescriptorCase
from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.check import check, check_cases
from onnxgather.parity.results import (
    CaseResult,
    Report,
    Result,
    ResultKind,
    read_report,
)


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

    def test_a_report_leaves_large_arrays_out(self) -> None:
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


def test_a_report_without_cases_counts_nothing() -> None:
    report = Report("0", "now", "here", (INFO,), [])
    assert report.counts(0) == {}
