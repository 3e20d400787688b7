"""Known differences: what they explain, and what they do not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from msgspec import structs
from planned_lane import (
    ELSEWHERE,
    INFO,
    Planned,
    bare,
    case,
    failed,
    only,
    ran,
    result,
)
from rings import one_quick_in
from short_descriptors import descriptor, tensor_desc

from onnxgather.checking.arithmetic import Computed
from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.corpus import built_in_cases
from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.checking.judge import KINDS, judge
from onnxgather.checking.known_differences import (
    CasePattern,
    Known,
    LaneOutput,
    ResultPattern,
    explained,
    known_differences,
    output_digest,
    with_findings,
    with_fixed,
)
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.lanes.python import question_of
from onnxgather.checking.merge import with_known
from onnxgather.checking.results import (
    CaseResult,
    ForeignMemory,
    Report,
    Result,
    ResultKind,
)
from onnxgather.checking.run import check_cases
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.other_runtimes import OTHER_RUNTIMES
from onnxgather.core.execution.providers import target_of
from onnxgather.core.options import POLICIES, Target

ENTRY = """
{
  "provider": "StubExecutionProvider",
  "versions": ">=1.29,<1.31",
  "cases": [{"operator": ["GATHER"], "out_of_range": ["error"], "in_range": false}],
  "found": [{"kind": "not-refused"}],
  "reason": "It answers with zeros.",
  "link": "https://example.org/1"
}
"""


def known_with(**fields: Any) -> Known:
    """Return the known difference with other fields, written as JSON."""
    return msgspec.convert(json.loads(ENTRY) | fields, Known)


KNOWN = known_with()

PARTS = """\
elsewhere | {"kind": "not-run"} | KNOWN
elsewhere | {"kind": "not-run", "not_run": "elsewhere"} | KNOWN
elsewhere | {"kind": "not-run", "not_run": "folded"} | NOT-RUN
elsewhere | {"kind": "not-run", "elsewhere": {"operator": ["And", "Or"]}} | KNOWN
elsewhere | {"kind": "not-run", "elsewhere": {"operator": ["And"]}} | NOT-RUN
elsewhere | {"kind": "unproved"} | NOT-RUN
died | {"kind": "broken", "breakdown": "died", "detail": "SIGSEGV"} | KNOWN
died | {"kind": "broken", "breakdown": "late"} | ERROR
died | {"kind": "broken", "detail": "SIGABRT"} | ERROR
died | {"kind": "broken", "message": "died"} | ERROR
no memory in two lines | {"kind": "failed", "message": "*o?m*"} | KNOWN
no memory | {"kind": "failed", "message": "*Stub*"} | ERROR
second row twice | {"kind": "elements", "output": ["0123456789abcdef"]} | DIFF
second row twice | {"kind": "elements", "output": ["DIGEST"]} | KNOWN
second row twice | {"kind": "elements", "got": "zero"} | DIFF
second row twice | {"kind": "elements", "got": "opencv"} | DIFF
"""
"""Answers, what an entry says of them, and what becomes of them. The message is that of
the provider, and not of the lane."""

OTHERS = """\
{"provider": "OtherExecutionProvider"}
{"versions": "<1.30"}
{"cases": [{"in_range": true}]}
{"cases": [{"name": "other/*"}]}
{"cases": [{"operator": ["GATHER_ND"]}]}
{"cases": [{"data_type": ["FLOAT16"]}]}
{"cases": [{"index_type": ["INT64"]}]}
{"cases": [{"dimension_count": [3]}]}
{"cases": [{"descriptor": {"index_dimensions": 2}}]}
{"cases": [{"out_of_range": ["clamp"]}]}
{"cases": [{"wrapped": true}]}
{"cases": []}
"""
"""Fields with which an entry is about something else."""


WILD = ran([(1, 2), (0, 0)])
REFUSED = failed("out of bounds")


def test_a_known_difference_is_shown_as_such() -> None:
    found = only(case(0, 7), WILD, known=(KNOWN,))
    assert (found.state, found.found) == ("KNOWN", "DIFF")
    assert found.known == "It answers with zeros. (https://example.org/1)"
    assert found.reason is not None
    assert found.reason.startswith("must refuse, but returned zeros")


def test_a_known_difference_that_explains_nothing_is_a_finding() -> None:
    passed = result(case(0, 7), REFUSED, known=(KNOWN,))
    (found,) = with_fixed([passed])[0].results
    assert found.state == "FIXED"
    assert found.reason == "passes, although it is a known difference"
    assert found.known == "It answers with zeros. (https://example.org/1)"


def test_a_known_difference_that_explains_a_case_is_not_out_of_date() -> None:
    passed = result(case(0, 7), REFUSED, known=(KNOWN,))
    wrong = result(case(0, 8), WILD, known=(KNOWN,))
    found = [each.results[0] for each in with_fixed([passed, wrong])]
    assert [each.state for each in found] == ["PASS", "KNOWN"]
    assert found[0].known is None


CLAMPS = known_with(cases=[{}], found=[{"kind": "not-refused", "got": "clamp"}])


@pytest.mark.parametrize(
    ("second", "state"), [((5, 6), "KNOWN"), ((1, 2), "DIFF"), ((0, 0), "DIFF")]
)
def test_another_element_than_the_entry_says_is_a_finding(
    second: tuple[int, int], state: str
) -> None:
    answer = ran([(1, 2), second])
    assert only(case(0, 7), answer, known=(CLAMPS,)).state == state


def test_a_right_case_that_hides_the_difference_is_not_fixed() -> None:
    entry = known_with(cases=[{}], found=[{"kind": "elements", "got": "zero"}])
    passed = result(case(2, 0), ran([[5, 6], [1, 2]]), known=(entry,))
    assert with_fixed([passed])[0].results[0].state == "PASS"


def test_a_refusal_hides_that_elements_are_wrong() -> None:
    entry = known_with(cases=[{}], found=[{"kind": "elements", "got": "zero"}])
    refused = result(case(0, 7), REFUSED, known=(entry,))
    assert with_fixed([refused])[0].results[0].state == "PASS"


def test_a_known_difference_that_sometimes_passes_is_no_finding() -> None:
    sometimes = structs.replace(KNOWN, sometimes=True)
    assert only(case(0, 7), REFUSED, known=(sometimes,)).state == "PASS"
    assert only(case(0, 7), WILD, known=(sometimes,)).state == "KNOWN"


def test_another_state_is_not_covered() -> None:
    assert (
        only(case(0, 7), Answer(AnswerKind.BROKEN, "died"), known=(KNOWN,)).state
        == "ERROR"
    )


ANSWERS: dict[str, Answer] = {
    "elsewhere": ELSEWHERE,
    "died": Answer(AnswerKind.BROKEN, "died", how=Breakdown.DIED, detail="SIGSEGV"),
    "no memory": failed("no memory"),
    "no memory in two lines": failed("no\nmemory"),
    "second row twice": ran([[3, 4], [3, 4]]),
}


@pytest.mark.parametrize("row", PARTS.splitlines())
def test_every_part_of_what_is_found_must_hold(row: str) -> None:
    twice = np.array([[3, 4], [3, 4]], np.float32)
    given, pattern, state = row.replace("DIGEST", output_digest(twice)).split(" | ")
    answer, found = ANSWERS[given], json.loads(pattern)
    entry = known_with(cases=[{}], found=[found])
    assert only(case(2, 0), answer, known=(entry,)).state == state
    either = known_with(cases=[{}], found=[{"kind": "shape"}, found])
    assert only(case(2, 0), answer, known=(either,)).state == state


def test_nothing_is_known_of_a_lane_that_did_not_start() -> None:
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
def test_an_unreadable_version_is_in_no_range(version: str) -> None:
    info = LaneInfo("stub", KNOWN.provider, {"onnxruntime": version})
    assert not KNOWN.is_about(case(0, 7), info)


@pytest.mark.parametrize("change", OTHERS.splitlines())
def test_every_part_of_a_pattern_must_hold(change: str) -> None:
    other = known_with(**json.loads(change))
    assert only(case(0, 7), WILD, known=(other,)).state == "DIFF"
    assert only(case(0, 7), WILD, known=(other, KNOWN)).state == "KNOWN"


def test_every_runtime_that_is_no_provider_has_known_differences() -> None:
    providers = {known.provider for known in known_differences()}
    assert OTHER_RUNTIMES.keys() <= providers


def test_every_known_difference_has_provider_reason_and_link() -> None:
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
    for given, entry, state in [
        (wrong, known, "KNOWN"),
        (foreign, known, "DIFF"),
        (foreign, structs.replace(known, foreign_memory=True), "KNOWN"),
    ]:
        assert explained(given, case(0, 7), lane, [entry], None).state == state


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
        [CaseResult.of(asked, (given,), {}) for given in (wrong, foreign)],
    )
    entries = with_findings(report)
    assert sorted(entry.foreign_memory for entry in entries) == [False, True]
    assert explained(foreign, asked, lane, entries, None).state == "KNOWN"


@pytest.mark.parametrize("name", ["openvino", "web-wasm", "Open CV"])
def test_a_known_difference_has_a_full_name(name: str) -> None:
    with pytest.raises(ValueError, match="full name") as caught:
        structs.replace(KNOWN, provider=name)
    assert str(caught.value) == (
        "provider must be a full name such as CPUExecutionProvider, DirectML.dll or"
        f" opencv, got {name!r}"
    )


def test_a_known_difference_of_a_plugin_is_of_the_version_of_its_library() -> None:
    versions = {"onnxruntime": "1.30.0", "My-EP": "0.2.0+build.79"}
    lane = LaneInfo("mine", "My-EP", versions, plugin="libmine.so")
    known = structs.replace(KNOWN, provider="My-EP", versions=">=0.2,<0.3")
    assert known.is_about(case(0, 7), lane)
    assert not structs.replace(known, versions=">=1").is_about(case(0, 7), lane)


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


FAULTS = """\
same | wine | INT64 1x1x1x4 | clamp | KNOWN
same | wine | INT64 1x1x1x4 | directml | ERROR
same | Windows | INT64 1x1x1x4 | clamp | ERROR
80004005 > 80070057 | wine | INT64 1x1x1x4 | clamp | ERROR
(588) > (600) | wine | INT64 1x1x1x4 | clamp | ERROR
Exception during > Another failure. Exception during | wine | INT64 1x1x1x4 | clamp | ERROR
Call failed. > Call failed. Then another. | wine | INT64 1x1x1x4 | clamp | ERROR
same | wine | INT32 1x1x1x4 | clamp | ERROR
same | wine | INT64 1x1x2x4 | clamp | ERROR
same | wine | INT64 1x1x1x3 | clamp | ERROR
"""  # noqa: E501
"""What is other in the message, the device, the indices, the policy, and what becomes
of it."""


@pytest.mark.parametrize("row", FAULTS.splitlines())
def test_the_fault_of_the_software_device_is_known(row: str) -> None:
    change, device, indices_text, policy, state = row.split(" | ")
    indices = tensor_desc(indices_text)
    versions = {"onnxruntime": "1.24.4"}
    if device == "wine":
        versions["wine"] = "10.0"
    old, _, new = change.partition(" > ")
    message = REFUSED_UNDER_WINE.replace(old, new) if new else REFUSED_UNDER_WINE
    lane = LaneInfo("directml", "DmlExecutionProvider", versions)
    tuple_count, tuple_length = indices.sizes[-2:]
    elements = tuple_count * 2 ** (4 - tuple_length)
    text = f"FLOAT32 2x2x2x2, {indices_text}, FLOAT32 1x1x1x{elements}, 4, 2"
    desc = descriptor(f"GATHER_ND: {text}")
    data = np.zeros((2, 2, 2, 2), np.float32)
    array = np.zeros(indices.sizes, indices.data_type.lower())
    asked = DescriptorCase("random/80212/108", desc, data, array, cast("Any", policy))
    refused = Result("directml", "ERROR", ResultKind.NOT_TAKEN, message=message)
    assert explained(refused, asked, lane, known_differences(), None).state == state


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (case(0, 7), REFUSED),
        (case(0, 7), WILD),
        (bare(), REFUSED),
        (bare(), ran([1, 2])),
    ],
)
def test_each_of_two_wrong_runs_gets_an_entry(
    asked: DescriptorCase | NodeCase, answer: Answer
) -> None:
    wrong = ran([(8, 9), (8, 9)])
    found = result(asked, answer, beside=wrong)
    report = Report("0.1.0", "2026-11-24T00:00:00Z", "a machine", (INFO,), [found])
    entries = with_findings(report)
    wrong_runs = [run for run in found.results[0].runs if run.state == "DIFF"]
    assert len(entries) == len(wrong_runs)
    again = only(asked, answer, beside=wrong, known=tuple(entries))
    assert again.state == "KNOWN"
    merged = with_known(report, entries).cases[0].results[0]
    assert merged == again
    # Another element for indices of zero is a finding.
    other = ran([(8, 9), (8, 8)])
    assert only(asked, answer, beside=other, known=tuple(entries)).state == "DIFF"


ROW = descriptor("GATHER_ELEMENTS: FLOAT32 3x2, INT32 3x1, FLOAT32 3x1, 1")
"""A gather of one column, whose index past the axis leads to the next row."""

BESIDE = """\
directml | DmlExecutionProvider | 1.24.4 | portable | 3 3 5 | KNOWN
directml | DmlExecutionProvider | 1.24.4 | portable | 2 3 5 | DIFF
webgpu | WebGpuExecutionProvider | 1.27.0 | webgpu | 3 3 5 | KNOWN
webgpu | WebGpuExecutionProvider | 1.27.0 | webgpu | 0 3 5 | DIFF
web-webgpu | WebGpuExecutionProvider | 1.30.0 | webgpu | 3 3 5 | KNOWN
web-webgpu | WebGpuExecutionProvider | 1.30.0 | webgpu | 3 3 6 | DIFF
web-webnn | WebNNExecutionProvider | 1.30.0 | webgpu | 6 3 5 | KNOWN
web-webnn | WebNNExecutionProvider | 1.30.0 | webgpu | 2 3 5 | DIFF
"""
"""What providers return in place of an error, and what would be a new difference."""


@pytest.mark.parametrize("row", BESIDE.splitlines())
def test_a_provider_without_errors_returns_what_its_entry_says(row: str) -> None:
    name, provider, version, target, output, state = row.split(" | ")
    info = LaneInfo(
        name, provider, {"onnxruntime": version}, target=cast("Any", target)
    )
    indices = np.array([[2], [0], [0]], np.int32)
    data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    asked = DescriptorCase("case", ROW, data, indices, "error")
    array = np.array([[float(number)] for number in output.split()], np.float32)
    found = Result(name, "DIFF", ResultKind.NOT_REFUSED, gathers=("GatherElements",))
    told = explained(found, asked, info, known_differences(), array)
    assert told.state == state


def test_each_known_output_is_said_or_is_foreign_memory() -> None:
    count = 0
    for known in known_differences():
        for found in known.found:
            says = found.got is not None or found.output is not None
            if Result("stub", "DIFF", found.kind).returned_any:
                count += 1
                assert says or known.foreign_memory, known.reason
    assert count > 50


def test_an_entry_that_says_no_output_explains_foreign_memory_alone() -> None:
    entry = known_with(cases=[{}], found=[{"kind": "elements"}], foreign_memory=True)
    wrong = Result("stub", "DIFF", ResultKind.ELEMENTS)
    assert explained(wrong, case(0, 7), INFO, [entry], None).state == "DIFF"
    foreign = structs.replace(wrong, foreign_memory=ForeignMemory.VALUES)
    assert explained(foreign, case(0, 7), INFO, [entry], None).state == "KNOWN"


@cache
def asked(target: Target) -> list[tuple[Case, tuple[str, ...]]]:
    """Return cases of all policies, each with the gathers of its model."""
    cases: list[Case] = [*built_in_cases()]
    for policy in POLICIES:
        cases += random_cases(40, 7, policy)
    # OpenVINO's provider leaves lone gathers to the CPU.
    whole = [each for each in built_in_cases() if each.data_type == "INT64"]
    cases += [each.wrapped_in() for each in whole]
    return [(each, question_of(each, target).gathers) for each in cases]


def lane_of(known: Known) -> LaneInfo:
    """Return a lane that an entry is about."""
    versions: dict[str, str] = {}
    if known.beside is not None:
        versions[known.beside] = "1.0"
    number = re.search(r"[0-9][0-9.]*", known.versions)
    assert number is not None
    versions[known.provider] = number.group()
    target = target_of(known.provider)
    return LaneInfo("stub", known.provider, versions, target=target)


def predicted(
    known: Known, pattern: ResultPattern
) -> Iterator[tuple[Case, Computed, tuple[str, ...]]]:
    """Yield the cases of a pattern of an entry, with the output that it predicts."""
    lane = lane_of(known)
    assert lane.target is not None
    assert pattern.got is not None
    for each, gathers in asked(lane.target):
        if not known.is_about(each, lane, gathers):
            continue
        returned = LaneOutput(each, lane, None)
        if not returned.must_be_wrong(pattern):
            continue
        found = returned.predicted(pattern.got)
        assert found is not None
        if pattern.fits(judge(each, lane, answer_of(found.output, gathers))):
            yield each, found, gathers


def answer_of(output: Array, gathers: tuple[str, ...]) -> Answer:
    """Return the answer of a lane that ran a model with these gathers."""
    return Answer(AnswerKind.RAN, output=output, gathers=gathers)


def state_of(known: Known, each: Case, output: Array, gathers: tuple[str, ...]) -> str:
    """Return the state of an output that one entry may explain."""
    lane = lane_of(known)
    found = judge(each, lane, answer_of(output, gathers))
    return explained(found, each, lane, [known], output).state


def with_another_bit(output: Array, place: int) -> Array:
    """Return an output with one element whose first bit is another."""
    if output.dtype.hasobject:
        texts = output.copy()
        texts.flat[place] += "?"
        return texts
    words = np.frombuffer(output.tobytes(), np.uint8).copy()
    words[place * output.itemsize] ^= 1
    return words.view(output.dtype).reshape(output.shape)


ROWS = [
    pytest.param(known, found, id=f"{number}-{known.provider}-{found.kind}")
    for number, known in enumerate(known_differences())
    for found in known.found
    if found.got is not None
]


@pytest.mark.parametrize(("known", "pattern"), one_quick_in(12, ROWS))
def test_an_entry_explains_the_output_that_it_predicts_and_no_other(
    known: Known, pattern: ResultPattern
) -> None:
    count = 0
    for each, found, gathers in islice(predicted(known, pattern), 5):
        count += 1
        assert state_of(known, each, found.output, gathers) == "KNOWN", each.name
        is_unknown = found.is_unknown.ravel()
        # Another pattern of the entry may say that the element is outside the tensor.
        for beside in known.found:
            if beside.got is not None and beside.kind is pattern.kind:
                lane_output = LaneOutput(each, lane_of(known), None)
                other_found = lane_output.predicted(beside.got)
                if other_found is not None:
                    is_unknown = is_unknown | other_found.is_unknown.ravel()
        for place in np.flatnonzero(~is_unknown)[:3]:
            other = with_another_bit(found.output, int(place))
            assert state_of(known, each, other, gathers) == "DIFF", each.name
    assert count


def others(data: Array) -> list[Array]:
    """Return outputs that no lane returns."""
    many = np.arange(7).astype(np.float32)
    if data.dtype.kind == "O":
        return [many, np.full_like(data, "?")]
    ones = np.full_like(data, 1)
    return [many, ones]


DIGESTS = [
    pytest.param(known, id=f"{number}-{known.provider}")
    for number, known in enumerate(known_differences())
    if any(found.output for found in known.found)
]


@pytest.mark.parametrize("known", DIGESTS)
def test_an_entry_with_digests_explains_no_other_output(known: Known) -> None:
    lane = lane_of(known)
    assert lane.target is not None
    count = 0
    for each, gathers in asked(lane.target):
        if known.is_about(each, lane, gathers):
            count += 1
            for output in others(each.data):
                assert state_of(known, each, output, gathers) != "KNOWN", each.name
    assert count


def last(data: Array, right: Array) -> Array:
    """Return the last element of the data everywhere."""
    return np.full_like(right, data.flat[-1])


def first(data: Array, right: Array) -> Array:
    """Return the first element of the data everywhere."""
    return np.full_like(right, data.flat[0])


def zeros(_: Array, right: Array) -> Array:
    """Return zeros."""
    return np.zeros_like(right)


def neighbours(_: Array, right: Array) -> Array:
    """Return the right elements, each in the place of the next."""
    return np.roll(right.ravel(), 1).reshape(right.shape)


def right_but_for_one(_: Array, right: Array) -> Array:
    """Return the right elements but for one."""
    return with_another_bit(right, right.size // 2)


LIARS = (last, first, zeros, neighbours, right_but_for_one)


@pytest.mark.parametrize(
    "provider",
    one_quick_in(12, sorted({known.provider for known in known_differences()})),
)
def test_the_lies_of_a_lane_are_findings(provider: str) -> None:
    entries = [known for known in known_differences() if known.provider == provider]
    lane = lane_of(entries[0])
    assert lane.target is not None
    lies = 0
    believed: list[str] = []
    for each, gathers in asked(lane.target)[::11]:
        if isinstance(each, NodeCase) or each.in_range is False:
            continue
        right = each.expected()
        assert not isinstance(right, str)
        for liar in LIARS:
            answer = answer_of(liar(each.data, right), gathers)
            found = judge(each, lane, answer)
            if found.state != "DIFF":
                continue
            lies += 1
            known = explained(found, each, lane, entries, answer.output)
            if known.state != "DIFF":
                believed.append(f"{liar.__name__}: {each.name}")
    assert lies > 300
    assert len(believed) <= lies * 0.03, believed
