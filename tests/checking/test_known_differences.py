"""Known differences: what they explain, and what they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs
from planned_lane import ELSEWHERE, ZEROS, Planned, case, only, ran
from short_descriptors import tensor_desc

import onnxgather as og
from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.judge import KINDS
from onnxgather.checking.known_differences import (
    CasePattern,
    DescriptorPattern,
    ElementPattern,
    Known,
    NodePattern,
    ResultPattern,
    explained,
    known_differences,
    with_findings,
)
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import (
    CaseResult,
    ForeignMemory,
    Report,
    Result,
    ResultKind,
)
from onnxgather.checking.run import check_cases
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES

KNOWN = Known(
    "StubExecutionProvider",
    ">=1.29,<1.31",
    (CasePattern(operator=("GATHER",), out_of_range=("error",), in_range=False),),
    (ResultPattern(ResultKind.NOT_REFUSED),),
    "It answers with zeros.",
    "https://example.org/1",
)


class TestKnownDifferences:
    WILD = ran([(1, 2), (0, 0)], ZEROS)
    REFUSED = ran(None, ZEROS, "out of bounds")

    def test_a_known_difference_is_shown_as_such(self) -> None:
        found = only(case(0, 7), self.WILD, known=(KNOWN,))
        assert (found.state, found.found) == ("KNOWN", "DIFF")
        assert found.known == "It answers with zeros. (https://example.org/1)"
        assert found.reason is not None
        assert found.reason.startswith("must refuse, but returned zeros")

    def test_a_known_difference_that_passes_is_a_finding(self) -> None:
        found = only(case(0, 7), self.REFUSED, known=(KNOWN,))
        assert found.state == "FIXED"
        assert found.reason == "passes, although it is a known difference"

    def test_a_known_difference_that_sometimes_passes_is_no_finding(self) -> None:
        sometimes = structs.replace(KNOWN, sometimes=True)
        assert only(case(0, 7), self.REFUSED, known=(sometimes,)).state == "PASS"
        assert only(case(0, 7), self.WILD, known=(sometimes,)).state == "KNOWN"

    def test_another_state_is_not_covered(self) -> None:
        assert (
            only(case(0, 7), Answer(AnswerKind.BROKEN, "died"), known=(KNOWN,)).state
            == "ERROR"
        )

    DIED = Answer(AnswerKind.BROKEN, "died", how=Breakdown.DIED, detail="SIGSEGV")
    NAN = ran([[5, 6], [float("nan"), 2]])

    @pytest.mark.parametrize(
        ("answer", "found", "state"),
        [
            (ELSEWHERE, ResultPattern(ResultKind.NOT_RUN), "KNOWN"),
            (
                ELSEWHERE,
                ResultPattern(ResultKind.NOT_RUN, not_run="elsewhere"),
                "KNOWN",
            ),
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
                ResultPattern(
                    ResultKind.BROKEN, breakdown=Breakdown.DIED, detail="SIGSEGV"
                ),
                "KNOWN",
            ),
            (DIED, ResultPattern(ResultKind.BROKEN, breakdown=Breakdown.LATE), "ERROR"),
            (DIED, ResultPattern(ResultKind.BROKEN, detail="SIGABRT"), "ERROR"),
            # the lane's words
            (DIED, ResultPattern(ResultKind.BROKEN, message="died"), "ERROR"),
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
            (
                NAN,
                ResultPattern(ResultKind.ELEMENTS, first=ElementPattern("1.0", "nan")),
                "KNOWN",
            ),
            (
                NAN,
                ResultPattern(ResultKind.ELEMENTS, first=ElementPattern("nan", "nan")),
                "DIFF",
            ),
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
        found = (ResultPattern(ResultKind.NOT_STARTED),)
        anything = structs.replace(KNOWN, cases=(CasePattern(),), found=found)
        absent = LaneInfo(
            "stub", KNOWN.provider, {"onnxruntime": "1.30.0"}, not_run="absent"
        )
        (only,) = check_cases([case(0, 0)], [Planned()], [absent], (anything,))
        assert only.results == (
            Result("stub", "NOT-RUN", ResultKind.NOT_STARTED, "absent"),
        )

    @pytest.mark.parametrize("version", ["", "nightly build", "2024.a"])
    def test_an_unreadable_version_is_in_no_range(self, version: str) -> None:
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

    def test_every_runtime_that_is_no_provider_has_known_differences(self) -> None:
        providers = {known.provider for known in known_differences()}
        assert OTHER_RUNTIMES.keys() <= providers

    def test_every_known_difference_has_provider_reason_and_link(self) -> None:
        for known in known_differences():
            is_provider = known.provider.endswith("ExecutionProvider")
            assert is_provider or known.provider in OTHER_RUNTIMES
            assert known.reason.endswith(".")
            assert known.link.startswith(("https://github.com/", "measured "))
            assert known.cases
            assert known.found
            for found in known.found:
                assert KINDS[found.kind][0] in ("DIFF", "ERROR", "NOT-RUN")
                if found.kind is ResultKind.BROKEN:  # a crash is explained by name only
                    assert found.breakdown
                    assert found.detail


def test_a_known_difference_may_be_of_a_runtime_and_of_its_version() -> None:
    known = Known(
        "opencv",
        ">=5,<6",
        (CasePattern(),),
        (ResultPattern(ResultKind.ELEMENTS),),
        "It reads before its tensor.",
        "measured with 5.0.0",
    )
    versions = {"python": "3.11.7", "opencv": "5.0.0"}
    lane = LaneInfo("opencv@a", "opencv", versions)
    assert known.is_about(case(0, 1), lane)
    newer = structs.replace(lane, versions=versions | {"opencv": "6.0"})
    assert not known.is_about(case(0, 1), newer)


def test_foreign_memory_is_known_only_where_an_entry_says_so() -> None:
    known = structs.replace(KNOWN, found=(ResultPattern(ResultKind.ELEMENTS),))
    lane = LaneInfo("stub", KNOWN.provider, {"onnxruntime": "1.30.0"})
    wrong = Result("stub", "DIFF", ResultKind.ELEMENTS)
    foreign = structs.replace(wrong, foreign_memory=ForeignMemory.DIFFERS)
    for result, entry, state in [
        (wrong, known, "KNOWN"),
        (foreign, known, "DIFF"),
        (foreign, structs.replace(known, foreign_memory=True), "KNOWN"),
    ]:
        assert explained(result, case(0, 7), lane, [entry]).state == state


def test_findings_with_foreign_memory_get_an_entry_of_their_own() -> None:
    lane = LaneInfo("opencv", "opencv", {"opencv": "5.0.0"})
    wrong = Result("opencv", "DIFF", ResultKind.ELEMENTS)
    foreign = structs.replace(wrong, foreign_memory=ForeignMemory.DIFFERS)
    asked = case(0, 1)
    report = Report(
        "0.1.0",
        "2026-11-24T00:00:00Z",
        "a machine",
        (lane,),
        [CaseResult.of(asked, (result,), {}) for result in (wrong, foreign)],
    )
    entries = with_findings(report)
    assert sorted(entry.foreign_memory for entry in entries) == [False, True]
    assert explained(foreign, asked, lane, entries).state == "KNOWN"


@pytest.mark.parametrize("name", ["openvino", "web-wasm", "OpenCV"])
def test_a_known_difference_has_a_full_name(name: str) -> None:
    with pytest.raises(ValueError, match="full name") as caught:
        structs.replace(KNOWN, provider=name)
    assert str(caught.value) == (
        "provider must be a full name such as CPUExecutionProvider, DirectML.dll or"
        f" opencv, got {name!r}"
    )


def test_a_known_difference_of_a_software_device_is_about_no_other_device() -> None:
    known = structs.replace(KNOWN, beside="wine")
    versions = {"onnxruntime": "1.30.0", "wine": "10.0"}
    lane = LaneInfo("stub", KNOWN.provider, versions)
    assert known.is_about(case(0, 7), lane)
    windows = structs.replace(lane, versions={"onnxruntime": "1.30.0"})
    assert not known.is_about(case(0, 7), windows)


REFUSED_UNDER_WINE = (
    r"Exception during initialization: E:\_work\1\s\onnxruntime\core\providers\dml"
    r"\DmlExecutionProvider\src\DmlGraphFusionHelper.cpp(588)\onnxruntime.dll!"
    "00006FFFF95AFA2F: (caller: 00006FFFF9587C07) Exception(1) tid(24) 80004005 Call"
    " failed. "
)
"""What the provider says of random/80212/108 and random/515151/191 under clamp."""


TUPLE = tensor_desc("INT64 1x1x1x4")
"""The indices of a gather that the software device refuses."""


@pytest.mark.parametrize(
    ("message", "versions", "indices", "policy", "state"),
    [
        (REFUSED_UNDER_WINE, {"wine": "10.0"}, TUPLE, "clamp", "KNOWN"),
        (REFUSED_UNDER_WINE, {"wine": "10.0"}, TUPLE, "directml", "ERROR"),
        (REFUSED_UNDER_WINE, {}, TUPLE, "clamp", "ERROR"),
        *(
            (message, {"wine": "10.0"}, TUPLE, "clamp", "ERROR")
            for message in (
                REFUSED_UNDER_WINE.replace("80004005", "80070057"),
                REFUSED_UNDER_WINE.replace("(588)", "(600)"),
                f"Another failure. {REFUSED_UNDER_WINE}",
                f"{REFUSED_UNDER_WINE} Then another.",
            )
        ),
        *(
            (REFUSED_UNDER_WINE, {"wine": "10.0"}, indices, "clamp", "ERROR")
            for indices in (
                tensor_desc("INT32 1x1x1x4"),
                tensor_desc("INT64 1x1x2x4"),
                tensor_desc("INT64 1x1x1x3"),
            )
        ),
    ],
)
def test_the_fault_of_the_software_device_is_known(
    message: str,
    versions: dict[str, str],
    indices: og.TensorDesc,
    policy: og.OutOfRange,
    state: str,
) -> None:
    lane = LaneInfo(
        "directml", "DmlExecutionProvider", {"onnxruntime": "1.24.4", **versions}
    )
    tuple_count, tuple_length = indices.sizes[-2:]
    elements = tuple_count * 2 ** (4 - tuple_length)
    descriptor = og.GatherNDDesc(
        tensor_desc("FLOAT32 2x2x2x2"),
        indices,
        og.TensorDesc("FLOAT32", [1, 1, 1, elements]),
        input_dimension_count=4,
        indices_dimension_count=2,
    )
    data = np.zeros((2, 2, 2, 2), np.float32)
    array = np.zeros(indices.sizes, indices.data_type.lower())
    asked = DescriptorCase("random/80212/108", descriptor, data, array, policy)
    result = Result("directml", "ERROR", ResultKind.NOT_TAKEN, message=message)
    assert explained(result, asked, lane, known_differences()).state == state
