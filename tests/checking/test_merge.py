"""Reports of the parts of a check, merged into the report of the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from messages import message_of, rows_of
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    KNOWN,
    OPENVINO,
    absent,
    entry,
    gather_case,
    passed,
    report_of,
)

from onnxgather.checking.known_differences import (
    CasePattern,
    DescriptorPattern,
    Known,
    ResultPattern,
)
from onnxgather.checking.merge import merge, with_known
from onnxgather.checking.results import CaseResult, Invalid, Report, ResultKind
from onnxgather.core.errors import FileFormatError

WHOLE = report_of(
    [CPU, OPENVINO],
    *(
        entry(gather_case(f"case {k}"), passed("cpu"), passed("openvino"))
        for k in range(8)
    ),
    planned=8,
)


def part(k: int, of: int, **fields: Any) -> Report:
    """The K-th of some parts of a check, which deals its cases out in turn."""
    cases = WHOLE.cases[k - 1 :: of]
    return replace(WHOLE, cases=cases, planned=len(cases), shard=f"{k}/{of}", **fields)


def parts(of: int) -> list[tuple[str, Report]]:
    return [(f"{k}.json", part(k, of)) for k in range(1, of + 1)]


@pytest.mark.parametrize("of", [1, 2, 3, 8, 11])
def test_all_shards_are_the_whole_in_its_order(of: int) -> None:
    assert merge(parts(of)) == (WHOLE, [])
    assert merge(parts(of)[::-1]) == (WHOLE, [])


def test_missing_shards_are_named_and_mark_the_report() -> None:
    every = parts(4)
    merged, missing = merge([every[2], every[0]])
    assert (merged.shard, missing) == ("1,3/4", ["2/4", "4/4"])
    assert [case.name for case in merged.cases] == [
        "case 0",
        "case 2",
        "case 4",
        "case 6",
    ]


def test_reports_without_shards_stand_one_behind_the_other() -> None:
    halves = [
        replace(WHOLE, cases=WHOLE.cases[:3]),
        replace(WHOLE, cases=WHOLE.cases[3:]),
    ]
    merged, missing = merge([("b.json", halves[1]), ("a.json", halves[0])])
    assert [case.name for case in merged.cases] == [
        f"case {k}" for k in (3, 4, 5, 6, 7, 0, 1, 2)
    ]
    assert (merged.planned, missing, merged.shard) == (16, [], None)


def test_what_went_wrong_in_a_part_went_wrong_in_the_whole() -> None:
    one = part(
        *(1, 2),
        machine="A",
        invalid=[Invalid("a", "b")],
        unusable=["c"],
        lanes=(replace(CPU, required=True), OPENVINO),
    )
    stopped = replace(OPENVINO, versions={}, not_run="no device")
    two = part(
        *(2, 2),
        machine="B",
        invalid=[Invalid("a", "b")],
        unusable=["c", "d"],
        lanes=(replace(CPU, devices=("CPU", "NPU"), at_exit="ends"), stopped),
        interrupted="SIGTERM",
        maxfail=3,
    )
    merged, _ = merge([("1.json", one), ("2.json", two)])
    assert merged == replace(
        WHOLE,
        machine="A; B",
        invalid=[Invalid("a", "b")],
        unusable=["c", "d"],
        lanes=(
            replace(CPU, required=True, devices=("CPU", "NPU"), at_exit="ends"),
            replace(OPENVINO, not_run="no device (in 2.json)"),
        ),
        interrupted="SIGTERM",
        maxfail=3,
    )


OTHER_CHECKS = """
report {"onnxgather": "9"}
onnxgather must be '0.1.0', as in 1.json, got '9'

report {"shard": "2/3"}
the number of shards must be 2, as in 1.json, got 3

report {"shard": null}
all reports must be of shards or none of them, got shard 1/2 in 1.json and no shard in
2.json; run each with --shard

report {"shard": "1/2"}
shard 1/2 must be in one report, got 1.json too

report {"shard": "0/2"}
$.shard must be K/N with K from 1 to N and N below 10,000, got '0/2'

report {"shard": "1,2/4"}
$.shard must be K/N with K from 1 to N and N below 10,000, got '1,2/4'

the same case
case 'case 0' must be in one report, got 1.json too

one lane less
the names of lanes must be ['cpu', 'openvino'], as in 1.json, got ['cpu']

lane {"provider": "XExecutionProvider"}
the provider of lane 'cpu' must be 'CPUExecutionProvider', as in 1.json, got
'XExecutionProvider'

lane {"provider_options": {"a": "b"}}
the provider_options of lane 'cpu' must be {}, as in 1.json, got {'a': 'b'}

lane {"versions": {"onnxruntime": "1.30.0"}}
the versions of lane 'cpu' must be {'onnxruntime': '1.31.1', 'python': '3.11.7'}, as in
1.json, got {'onnxruntime': '1.30.0'}

lane {"target": "portable"}
the target of lane 'cpu' must be None, as in 1.json, got 'portable'
"""


@pytest.mark.parametrize(("change", "sentence"), rows_of(OTHER_CHECKS))
def test_parts_of_different_checks_are_refused(change: str, sentence: str) -> None:
    what, _, fields = change.partition(" ")
    two = part(2, 2)
    match what:
        case "report":
            two = replace(two, **json.loads(fields))
        case "lane":
            two = replace(two, lanes=(replace(CPU, **json.loads(fields)), OPENVINO))
        case "the":
            two = replace(two, cases=WHOLE.cases[:1])
        case _:
            two = replace(two, lanes=(CPU,))
    said = message_of(FileFormatError, merge, [("1.json", part(1, 2)), ("2.json", two)])
    assert said == f"2.json: {sentence}"


def explains(kind: ResultKind, **pattern: Any) -> Known:
    """A known difference of OpenVINO's provider."""
    return Known(
        "OpenVINOExecutionProvider",
        "==1.24.1",
        (CasePattern(**pattern),),
        (ResultPattern(kind),),
        "It differs.",
        "measured",
    )


def test_known_differences_explain_what_a_merged_report_found() -> None:
    case = gather_case()
    wrong = CaseResult.of(case, (passed("cpu"), DIFF), {})
    right = CaseResult.of(case, (passed("cpu"), passed("openvino")), {})
    known = [explains(ResultKind.ELEMENTS, descriptor=DescriptorPattern(1))]
    report = report_of([CPU, OPENVINO], wrong, right)
    found = with_known(report, known)
    states = [[result.state for result in case.results] for case in found.cases]
    # It explains a case, so that it is not out of date.
    assert states == [["PASS", "KNOWN"], ["PASS", "PASS"]]
    found = with_known(report_of([CPU, OPENVINO], right, right), known)
    states = [[result.state for result in case.results] for case in found.cases]
    assert states == [["PASS", "FIXED"], ["PASS", "FIXED"]]
    # Only a case that passed on every lane has an example.
    assert right.example is not None
    assert found.cases[1].evidence == right.example
    assert found.cases[1].example is None
    other = [explains(ResultKind.ELEMENTS, descriptor=DescriptorPattern(2))]
    assert with_known(report, other) == report
    assert with_known(report, [explains(ResultKind.SHAPE, name="none")]) == report


def test_what_is_known_already_stays_as_it_is() -> None:
    report = report_of([OPENVINO], entry(gather_case(), KNOWN))
    assert with_known(report, [explains(ResultKind.ELEMENTS)]) == report


def test_no_known_difference_explains_a_lane_that_did_not_start() -> None:
    absent_lane = replace(OPENVINO, not_run="it is absent")
    report = report_of([absent_lane], entry(gather_case(), absent(absent_lane)))
    assert with_known(report, [explains(ResultKind.NOT_STARTED)]) == report
