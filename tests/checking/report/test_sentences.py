"""What a report comes to: its headline, its numbers and its mood."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from html_page import Page
from messages import rows_of
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    DIRECTML,
    ELSEWHERE,
    ERROR,
    KNOWN,
    OPENVINO,
    absent,
    bare_case,
    entry,
    gather_case,
    passed,
    properties,
    report_of,
    small,
)

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.judge import with_beside
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report import as_lines, html, junit, markdown, without_paths
from onnxgather.checking.report.matrix import lane_head
from onnxgather.checking.report.sentences import again, causes, verdict
from onnxgather.checking.results import (
    ForeignMemory,
    Invalid,
    Report,
    Result,
    ResultKind,
)
from onnxgather.core.execution.elsewhere.child import Breakdown


def causes_of(*results: Result) -> list[tuple[str, list[int]]]:
    """The causes of a report with a case for each result."""
    cases = [entry(gather_case(f"case/{n}"), r) for n, r in enumerate(results)]
    found = causes(report_of([OPENVINO], *cases))
    return [(cause.first.state, cause.cases) for cause in found]


def crash(place: str, thread: int, address: str) -> Result:
    """A case that ended its process, as programs in Rust do."""
    said = f"thread 'main' ({thread}) panicked at {place} … 46: {address} - _start"
    return replace(
        ERROR,
        reason=f"the runtime ended by signal 6 (SIGABRT); it printed: {said}",
        breakdown=Breakdown.DIED,
    )


def test_crashes_at_one_place_are_one_cause() -> None:
    here = "gather_nd.rs:72:23"
    assert causes_of(
        crash(here, 14601, "0x7f9a8fc45305"),
        crash("gather_nd.rs:28:9", 14601, "0x7f9a8fc45305"),
        crash(here, 977, "0x559d2af8c081"),
    ) == [("ERROR", [0, 2]), ("ERROR", [1])]
    # The message of a runtime that refuses counts with all its numbers.
    sizes = [replace(ERROR, reason=f"no size {size}") for size in (4096, 8192)]
    assert causes_of(*sizes) == [("ERROR", [0]), ("ERROR", [1])]


def test_the_head_of_a_row_names_a_runtime_once() -> None:
    tract = LaneInfo("tract@old", "tract", {"python": "3.11.7", "tract": "0.23.9"})
    assert lane_head(tract) == "tract 0.23.9"
    assert lane_head(CPU) == "CPUExecutionProvider, onnxruntime 1.31.1"


def test_foreign_memory_comes_first() -> None:
    foreign = replace(DIFF, foreign_memory=ForeignMemory.DIFFERS)
    assert causes_of(ERROR, DIFF, DIFF, foreign) == [
        ("DIFF", [3]),
        ("DIFF", [1, 2]),
        ("ERROR", [0]),
    ]


RESULTS = {
    result.state: result for result in (passed("openvino"), DIFF, KNOWN, ELSEWHERE)
}


def of_states(lane: LaneInfo, text: str, **more: Any) -> Report:
    """Return the report of a lane with a case for each state that a text names."""
    found = [RESULTS[state] for state in text.split()]
    return report_of([lane], *[entry(gather_case(), one) for one in found], **more)


VERDICTS = """
PASS PASS
good: Everything agrees; 2 cases on 1 lane: 2 agree bit for bit.

PASS DIFF
bad: 1 finding; 2 cases on 1 lane: 1 agree bit for bit, 1 had wrong elements.

PASS KNOWN
known: No new differences. Known: 1 had wrong elements; 2 cases on 1 lane: 1 agree bit
for bit, 1 known.

PASS NOT-RUN
open: No findings; 2 cases on 1 lane: 1 agree bit for bit, 1 not run, which proves
nothing.

NOT-RUN
open: Nothing ran; 1 case on 1 lane: 0 agree bit for bit, 1 not run, which proves
nothing.

required: PASS NOT-RUN
bad: openvino did not run 1 case, though required; 2 cases on 1 lane: 1 agree bit for
bit, 1 not run, which proves nothing.

no case
open: Nothing was checked; 0 cases on 1 lane.

each state on three lanes
bad: 3 findings; directml did not start. Known: 1 had wrong elements; 6 cases on 3
lanes: 7 agree bit for bit, 1 had wrong elements, 1 failed, 1 fixed known difference, 1
known, 7 not run, which proves nothing.

three files
bad: 3 findings; 0 cases on 1 lane: 1 invalid file, 2 unusable files.

1234 times DIFF
bad: 1,234 findings; 1,234 cases on 1 lane: 0 agree bit for bit, 1,234 had wrong
elements.

shard: DIFF
bad: 1 finding (shard 1/2 alone); 1 case on 1 lane: 0 agree bit for bit, 1 had wrong
elements.
"""
OTHERS = {
    "no case": of_states(CPU, ""),
    "each state on three lanes": small(),
    "three files": of_states(CPU, "", invalid=[Invalid("a", "b")], unusable=["c", "d"]),
    "1234 times DIFF": of_states(OPENVINO, "DIFF " * 1234),
    "shard: DIFF": of_states(OPENVINO, "DIFF", planned=2, shard="1/2"),
    "required: PASS NOT-RUN": of_states(
        replace(OPENVINO, required=True), "PASS NOT-RUN"
    ),
}


@pytest.mark.parametrize(("told", "said"), rows_of(VERDICTS))
def test_the_verdict_of_each_sort_of_report(told: str, said: str) -> None:
    report = OTHERS[told] if told in OTHERS else of_states(OPENVINO, told)
    headline, more, mood = verdict(report)
    assert f"{mood}: {headline}; {more}" == said


def test_the_headline_counts_what_is_known_of_many_lanes_together() -> None:
    lanes = [replace(OPENVINO, name=f"openvino@{number}") for number in range(4)]
    results = [replace(KNOWN, lane=lane.name) for lane in lanes]
    headline = verdict(report_of(lanes, entry(gather_case(), *results))).headline
    assert headline == "No new differences. Known: 4 had wrong elements"


COMMANDS = r"""
{}
gather/a --lanes openvino

lane {"python": "HERE"}
gather/a --lanes openvino

lane {"python": "/x/python"}
gather/a --lane openvino=/x/python

lane {"python": "python3"}
gather/a --lane openvino=PYTHON

lane {"target": "webgpu"}
gather/a --lanes openvino

lane {"target": "cpu"}
gather/a --lanes openvino --target cpu

{"wrapped": true} lane {"name": "openvino@cpu", "target": "cpu"}
gather/a --lanes openvino@cpu --wrap

lane {"plugin": "lib my.so", "provider_options": {"a": "b c", "d": "e"}}
gather/a --lanes openvino --plugin 'openvino=lib my.so'
--provider-option 'openvino:a=b c' --provider-option openvino:d=e

{"name": "random/1/2"}
random/1/2 --lanes openvino --out-of-range clamp

{"name": "x.json: $.commands[0] (g)", "file": "x.json"}
'x.json: $.commands[0] (g)' --lanes openvino --out-of-range clamp

{"name": "m.onnx: main graph: node 'a'", "out_of_range": "error"}
'm.onnx: main graph: node '"'"'a'"'"'' --lanes openvino --out-of-range error
"""


@pytest.mark.parametrize(("found", "words"), rows_of(COMMANDS))
def test_a_finding_has_the_command_that_runs_its_case_again(
    found: str, words: str
) -> None:
    told, _, of_lane = found.replace("HERE", sys.executable).partition("lane ")
    facts, lane = json.loads(told or "{}"), json.loads(of_lane or "{}")
    case = replace(entry(gather_case("gather/a"), DIFF), **facts)
    openvino = replace(OPENVINO, **lane)
    whole = report_of([openvino], case)
    files = "m.onnx --inputs INPUTS.npz " if case.name.startswith("m.onnx") else ""
    command = f"onnxgather check {files}--case {words}"
    assert again(whole, case, openvino, DIFF) == [command]
    without = again(replace(whole, no_known=True), case, openvino, DIFF)
    assert without == [f"{command} --no-known"]


def test_a_lane_of_the_cache_is_named_without_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = tmp_path / "onnxgather" / "runtimes" / "opencv" / "bin" / "python"
    cached.parent.mkdir(parents=True)
    cached.touch()
    lane = LaneInfo("opencv@a", "opencv", {"opencv": "5.0.0"}, python=str(cached))
    result = replace(DIFF, lane="opencv@a")
    elsewhere = replace(lane, python=sys.executable)
    own = replace(elsewhere, adapter="mine.py")
    for info, words in (
        (lane, "--lanes opencv@a"),
        (elsewhere, f"--lane opencv@a={sys.executable}"),
        (own, "--lanes opencv@a --adapter opencv=mine.py"),
    ):
        report = report_of([info], entry(gather_case("gather/a"), result))
        (case,) = report.cases
        command = f"onnxgather check --case gather/a {words}"
        assert again(report, case, info, result) == [command]
    shown = without_paths(report_of([lane], entry(gather_case("gather/a"), result)))
    (info,) = shown.lanes
    assert info.python is None
    assert again(shown, shown.cases[0], info, result) == [
        "onnxgather check --case gather/a --lanes opencv@a"
    ]


def test_what_is_no_finding_has_no_command() -> None:
    for result in (passed("openvino"), KNOWN):
        case = entry(gather_case(), result)
        assert again(report_of([OPENVINO], case), case, OPENVINO, result) == []


def check_said(report: Report, mood: str, headline: str, more: str) -> ET.Element:
    """Check what all kinds of reports say; return the JUnit report."""
    first, _, rest = headline.partition(". ")
    assert verdict(report) == (headline, more, mood)
    assert as_lines(report).endswith(f"\n\n{headline}\n{more}")
    page = html(report).decode()
    found = re.search(
        r'<header class="(\w+)">.*?<h1>(.*?) <small>(.*?)</small></h1>', page, re.DOTALL
    )
    assert found is not None
    assert found.groups() == (mood, first, rest)
    assert f"<title>{headline} · onnxgather check</title>" in page
    assert f'<p class="more">{more}</p>' in page
    text = markdown(report).decode()
    assert text.startswith(f"## {headline}\n\n{more}\n\n")
    root = ET.fromstring(junit(report))
    assert properties(root)["verdict"] == headline
    return root


def test_every_report_says_what_is_known_wrong_beside_what_is_new() -> None:
    cases = [entry(gather_case(f"c{k}"), passed("cpu"), KNOWN) for k in range(3)]
    cpu, openvino = check_said(
        report_of([CPU, OPENVINO], *cases),
        "known",
        "No new differences. Known: 3 had wrong elements",
        "3 cases on 2 lanes: 3 agree bit for bit, 3 known.",
    )
    assert "known, had wrong elements" not in properties(cpu)
    assert properties(openvino)["known, had wrong elements"] == "3"


def test_what_is_known_not_to_run_is_not_called_wrong() -> None:
    known = {"state": "KNOWN", "found": "NOT-RUN", "known": "declined"}
    declined = entry(gather_case(), replace(ELSEWHERE, **known))
    root = check_said(
        report_of([OPENVINO], entry(gather_case(), KNOWN), declined, declined),
        "known",
        "No new differences. Known: 1 had wrong elements, 2 declined",
        "3 cases on 1 lane: 0 agree bit for bit, 3 known.",
    )
    found = properties(root)
    assert found["known, had wrong elements"] == "1"
    assert found["known, declined"] == "2"


def test_every_report_says_that_a_lane_did_not_start() -> None:
    _, suite = check_said(
        report_of([CPU, DIRECTML], entry(gather_case(), passed("cpu"), absent())),
        "bad",
        "directml did not start",
        "1 case on 2 lanes: 1 agree bit for bit, 1 not run, which proves nothing.",
    )
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "1")
    (error,) = suite.iter("error")
    assert error.get("message") == f"NOT-RUN: did not start: {DIRECTML.not_run}"


@pytest.mark.parametrize(
    ("fields", "why", "errors"),
    [
        (
            {"interrupted": "SIGTERM"},
            "interrupted by SIGTERM after 1 of 1,523 cases",
            1,
        ),
        ({"maxfail": 4}, "stopped at 4 findings (--maxfail) after 1 of 1,523 cases", 1),
        # Each shard is a job of its own, which did its part.
        ({"planned": 1, "shard": "2/8"}, "shard 2/8 alone", 0),
    ],
)
def test_every_report_says_that_the_check_was_cut(
    fields: dict[str, Any], why: str, errors: int
) -> None:
    facts = {"planned": 1523, **fields}
    root = check_said(
        report_of([CPU], entry(gather_case(), passed("cpu")), **facts),
        "open",
        f"Everything agrees ({why})",
        "1 case on 1 lane: 1 agree bit for bit.",
    )
    messages = [error.get("message") for error in root.iter("error")]
    assert messages == [f"interrupted: {why}"] * errors


def test_every_report_says_that_a_runtime_fails_at_exit() -> None:
    fault = "answers, but then ended by signal 6 (SIGABRT) at exit"
    root = check_said(
        report_of([replace(CPU, at_exit=fault)], entry(gather_case(), passed("cpu"))),
        "bad",
        f"1 finding; cpu {fault}",
        "1 case on 1 lane: 1 agree bit for bit, 1 fault at exit.",
    )
    (error,) = root.iter("error")
    assert error.get("message") == f"at-exit: {fault}"


def test_every_report_says_how_many_cases_are_without_arrays() -> None:
    check_said(
        report_of([OPENVINO], entry(gather_case(), DIFF), without_evidence=2),
        "bad",
        "1 finding",
        "1 case on 1 lane: 0 agree bit for bit, 1 had wrong elements, 2 cases without"
        " arrays, for want of room.",
    )


NOT_REFUSED = Result(
    "openvino",
    "DIFF",
    ResultKind.NOT_REFUSED,
    "must refuse, but returned zeros: IndicesTensor[0,0] must be in [-3, 3), got 7",
    ("Gather",),
)
REFUSED = Result(
    "openvino", "PASS", ResultKind.REFUSED, "both refuse", message="no such index"
)


def outside(name: str) -> DescriptorCase:
    """Return a case that must be refused."""
    return gather_case(name, indices=[7, 0], out_of_range="error")


def of_two_runs() -> Report:
    """Return a report of a lane that is wrong about a case, the valid one, or both."""
    known = replace(NOT_REFUSED, state="KNOWN", found="DIFF", known="Zeros (here)")
    cases = [
        entry(outside("both"), with_beside(NOT_REFUSED, DIFF)),
        entry(outside("itself"), with_beside(NOT_REFUSED, passed("openvino"))),
        entry(outside("valid"), with_beside(REFUSED, DIFF)),
        entry(outside("known itself"), with_beside(known, ERROR)),
        entry(outside("known valid"), with_beside(REFUSED, KNOWN)),
        entry(bare_case(), with_beside(REFUSED, ELSEWHERE)),
    ]
    return report_of([OPENVINO], *cases)


TWO_RUNS = """
DIFF     openvino: both
         with the index out of range: must refuse, but returned zeros: IndicesTensor[0,0] must be in [-3, 3), got 7
         ran: Gather
         with indices of zero: 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0 40), got 0.0 (00 00 00 00)
         output[1,0] = input[1, 2] = 5
         ran: Clip, Gather
         again: onnxgather check --case both --lanes openvino
DIFF     openvino: valid
         with the index out of range: refused, which proves nothing: no such index
         with indices of zero: 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0 40), got 0.0 (00 00 00 00)
         output[1,0] = input[1, 2] = 5
         ran: Clip, Gather
         again: onnxgather check --case valid --lanes openvino
DIFF     openvino: itself
         must refuse, but returned zeros: IndicesTensor[0,0] must be in [-3, 3), got 7
         ran: Gather
         again: onnxgather check --case itself --lanes openvino
ERROR    openvino: known itself
         with the index out of range: Zeros (here)
         DIFF: must refuse, but returned zeros: IndicesTensor[0,0] must be in [-3, 3), got 7
         ran: Gather
         with indices of zero: OpenVINOExecutionProvider failed: no such layout
         again: onnxgather check --case 'known itself' --lanes openvino
KNOWN    openvino: known valid
         with the index out of range: refused, which proves nothing: no such index; with indices of zero: Zeros where an index is out of range (https://example.com/1)
NOT-RUN  openvino: bare/batches
         the forbidden node: refused, which proves nothing: no such index; an allowed node: Gather went to CPUExecutionProvider

openvino: 6 cases, 3 DIFF, 1 ERROR, 1 NOT-RUN, 1 KNOWN
"""  # noqa: E501


def test_a_report_says_of_which_of_two_runs_it_speaks() -> None:
    assert TWO_RUNS in as_lines(of_two_runs(), 80)


def test_every_form_of_a_report_says_of_which_run_it_speaks() -> None:
    report = of_two_runs()
    blocks = TWO_RUNS.strip().splitlines()
    both = [line.strip().removeprefix("again: ") for line in blocks[1:7]]
    first, *_ = ET.fromstring(junit(report)).iter("failure")
    assert (first.text or "").splitlines() == both
    assert first.get("message") == f"DIFF: {both[0]}"
    text = markdown(report).decode().replace("\\", "")
    assert f"openvino: both: {both[0]}; {both[2]}\n" in text
    runs = Page(html(report)).packed["results"][0]["runs"]
    assert [run["inputs"] for run in runs] == [
        "with the index out of range: ",
        "with indices of zero: ",
    ]
    words = [result["words"] for result in Page(html(report)).packed["results"]]
    assert words == [
        "had wrong elements",
        "did not refuse",
        "had wrong elements",
        "did not refuse",
        "had wrong elements",
        "declined",
    ]
