"""What a report comes to: its headline, its numbers and its mood."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest
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
    entry,
    gather_case,
    passed,
    report_of,
    small,
)

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.report import as_lines, html, junit, markdown
from onnxgather.checking.report.matrix import lane_head
from onnxgather.checking.report.sentences import again, causes, verdict
from onnxgather.checking.results import (
    CaseResult,
    ForeignMemory,
    Invalid,
    Report,
    Result,
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


def test_the_head_of_a_column_names_a_runtime_once() -> None:
    tract = LaneInfo("tract@old", "tract", {"python": "3.11.7", "tract": "0.23.9"})
    assert lane_head(tract) == ["tract 0.23.9"]
    assert lane_head(CPU) == ["CPUExecutionProvider", "onnxruntime 1.31.1"]


def test_foreign_memory_comes_first() -> None:
    foreign = replace(DIFF, foreign_memory=ForeignMemory.DIFFERS)
    assert causes_of(ERROR, DIFF, DIFF, foreign) == [
        ("DIFF", [3]),
        ("DIFF", [1, 2]),
        ("ERROR", [0]),
    ]


def verdict_of(
    lanes: list[LaneInfo], *cases: CaseResult, **more: Any
) -> tuple[str, str, str]:
    return verdict(report_of(lanes, *cases, **more))


def test_the_verdict_of_each_sort_of_report() -> None:
    case = gather_case()
    good, bad = entry(case, passed("openvino")), entry(case, DIFF)
    assert verdict_of([OPENVINO], good, good) == (
        "Everything agrees",
        "2 cases on 1 lane: 2 agree bit for bit.",
        "good",
    )
    assert verdict_of([OPENVINO], good, bad) == (
        "1 finding",
        "2 cases on 1 lane: 1 agree bit for bit, 1 difference.",
        "bad",
    )
    assert verdict(small()) == (
        "3 findings; directml did not start. openvino: 1 known wrong",
        (
            "6 cases on 3 lanes: 7 agree bit for bit, 1 difference, 1 error, 1 fixed"
            " known difference, 1 known, 7 not run, which proves nothing."
        ),
        "bad",
    )
    assert verdict_of([OPENVINO], good, entry(case, KNOWN)) == (
        "No new differences. openvino: 1 known wrong",
        "2 cases on 1 lane: 1 agree bit for bit, 1 known.",
        "known",
    )
    assert verdict_of([OPENVINO], good, entry(case, ELSEWHERE)) == (
        "No findings",
        "2 cases on 1 lane: 1 agree bit for bit, 1 not run, which proves nothing.",
        "open",
    )
    assert verdict_of([OPENVINO], entry(case, ELSEWHERE)) == (
        "Nothing ran",
        "1 case on 1 lane: 0 agree bit for bit, 1 not run, which proves nothing.",
        "open",
    )
    required = replace(OPENVINO, required=True)
    assert verdict_of([required], good, entry(case, ELSEWHERE))[::2] == (
        "openvino did not run 1 case, though required",
        "bad",
    )
    assert verdict_of([CPU]) == ("Nothing was checked", "0 cases on 1 lane.", "open")
    assert verdict_of([CPU], invalid=[Invalid("a", "b")], unusable=["c", "d"]) == (
        "3 findings",
        "0 cases on 1 lane: 1 invalid file, 2 unusable files.",
        "bad",
    )
    assert verdict_of([OPENVINO], *[bad] * 1234)[0] == "1,234 findings"


def test_the_headline_counts_what_is_known_of_many_lanes_together() -> None:
    lanes = [replace(OPENVINO, name=f"openvino@{number}") for number in range(4)]
    results = [replace(KNOWN, lane=lane.name) for lane in lanes]
    headline = verdict_of(lanes, entry(gather_case(), *results))[0]
    assert headline == "No new differences. 4 known wrong on 4 lanes"


@pytest.mark.parametrize(
    ("name", "facts", "lane", "words"),
    [
        ("gather/a", {}, {}, "--case gather/a --lanes openvino"),
        ("gather/a", {}, {"state": "PASS"}, None),
        ("gather/a", {}, {"state": "KNOWN"}, None),
        (
            "gather/a",
            {},
            {"python": sys.executable},
            "--case gather/a --lanes openvino",
        ),
        (
            "gather/a",
            {},
            {"python": "/x/python"},
            "--case gather/a --lane openvino=/x/python",
        ),
        (
            "gather/a",
            {},
            {"python": "python3"},
            "--case gather/a --lane openvino=PYTHON",
        ),
        ("gather/a", {}, {"target": "portable"}, "--case gather/a --lanes openvino"),
        (
            "gather/a",
            {},
            {"target": "cpu"},
            "--case gather/a --lanes openvino --target cpu",
        ),
        (
            "gather/a",
            {"wrapped": True},
            {"name": "openvino@cpu", "target": "cpu"},
            "--case gather/a --lanes openvino@cpu --wrap",
        ),
        (
            "random/1/2",
            {},
            {},
            "--case random/1/2 --lanes openvino --out-of-range clamp",
        ),
        (
            "x.json: $.commands[0] (g)",
            {"file": "x.json", "out_of_range": "zero"},
            {},
            "--case 'x.json: $.commands[0] (g)' --lanes openvino --out-of-range zero",
        ),
        (
            "m.onnx: main graph: node 'a'",
            {"out_of_range": "error"},
            {},
            (
                "m.onnx --inputs INPUTS.npz --case 'm.onnx: main graph: node"
                " '\"'\"'a'\"'\"'' --lanes openvino --out-of-range error"
            ),
        ),
    ],
)
def test_a_finding_has_the_command_that_runs_its_case_again(
    name: str, facts: dict[str, Any], lane: dict[str, Any], words: str | None
) -> None:
    lane = dict(lane)
    result = replace(DIFF, state=lane.pop("state", "DIFF"))
    case = msgspec.structs.replace(entry(gather_case(name), result), **facts)
    whole = report_of([openvino := replace(OPENVINO, **lane)], case)
    commands = again(whole, case, openvino, result)
    assert commands == ([] if words is None else [f"onnxgather check {words}"])
    without = again(
        msgspec.structs.replace(whole, no_known=True), case, openvino, result
    )
    assert without == [f"{command} --no-known" for command in commands]


def heading(page: bytes) -> tuple[str, str]:
    """The mood and the headline on a page."""
    found = re.search(
        r'<header class="(\w+)">.*?<h1>(.*?)</h1>', page.decode(), re.DOTALL
    )
    assert found is not None
    return found[1], found[2]


def head_everywhere(report: Report, headline: str, mood: str) -> ET.Element:
    """Check the headline in each form of a report; return its JUnit."""
    assert as_lines(report).endswith(f"\n\n{headline}\n{verdict(report).more}")
    assert heading(html(report)) == (mood, headline)
    assert markdown(report).startswith(f"## {headline}\n".encode())
    return ET.fromstring(junit(report))


def test_every_report_says_what_is_known_wrong_beside_what_is_new() -> None:
    cases = [entry(gather_case(f"c{k}"), passed("cpu"), KNOWN) for k in range(3)]
    report = report_of([CPU, OPENVINO], *cases)
    first, rest = "No new differences", "openvino: 3 known wrong"
    headline = f"{first}. {rest}"
    assert as_lines(report).endswith(
        f"\n\n{headline}\n3 cases on 2 lanes: 3 agree bit for bit, 3 known."
    )
    page = html(report)
    assert heading(page) == ("known", first)
    assert f'<p class="more">{rest}</p>'.encode() in page
    assert markdown(report).startswith(f"## {headline}\n".encode())
    cpu, openvino = (
        {found.get("name"): found.get("value") for found in suite.iter("property")}
        for suite in ET.fromstring(junit(report))
    )
    assert (cpu["verdict"], "known wrong" in cpu) == (headline, False)
    assert (openvino["verdict"], openvino["known wrong"]) == (headline, "3")


def test_what_is_known_not_to_run_is_not_called_wrong() -> None:
    declined = msgspec.structs.replace(
        ELSEWHERE, state="KNOWN", found="NOT-RUN", known="declined"
    )
    case = gather_case()
    report = report_of([OPENVINO], entry(case, KNOWN), *[entry(case, declined)] * 2)
    assert verdict(report) == (
        "No new differences. openvino: 1 known wrong, 2 declined",
        "3 cases on 1 lane: 0 agree bit for bit, 3 known.",
        "known",
    )
    found = {
        p.get("name"): p.get("value")
        for p in ET.fromstring(junit(report)).iter("property")
    }
    assert (found["known wrong"], found["known not to run"]) == ("1", "2")


def test_every_report_says_that_a_lane_did_not_start() -> None:
    report = report_of([CPU, DIRECTML], entry(gather_case(), passed("cpu"), absent()))
    suite = head_everywhere(report, "directml did not start", "bad")[1]
    assert (suite.get("errors"), suite.get("skipped")) == ("1", "1")
    assert [found.get("message") for found in suite.iter("error")] == [
        f"NOT-RUN: did not start: {DIRECTML.not_run}"
    ]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"interrupted": "SIGTERM"}, "interrupted by SIGTERM after 1 of 1,523 cases"),
        ({"maxfail": 4}, "stopped at 4 findings (--maxfail) after 1 of 1,523 cases"),
    ],
)
def test_every_report_says_that_the_check_was_cut(
    fields: dict[str, Any], why: str
) -> None:
    report = report_of(
        [CPU], entry(gather_case(), passed("cpu")), planned=1523, **fields
    )
    root = head_everywhere(report, f"Everything agrees ({why})", "open")
    (error,) = root.iter("error")
    assert error.get("message") == f"interrupted: {why}"


def test_every_report_says_that_it_is_of_one_shard() -> None:
    report = report_of(
        [CPU], entry(gather_case(), passed("cpu")), planned=1, shard="2/8"
    )
    headline = "Everything agrees (shard 2/8 alone)"
    root = head_everywhere(report, headline, "open")
    assert headline in [found.get("value") for found in root.iter("property")]
    # each shard is a job of its own, which did its part
    assert not list(root.iter("error"))


def test_every_report_says_how_many_cases_are_without_arrays() -> None:
    report = report_of([OPENVINO], entry(gather_case(), DIFF), without_evidence=2)
    more = (
        "1 case on 1 lane: 0 agree bit for bit, 1 difference, "
        "2 cases without arrays, for want of room."
    )
    assert verdict(report).more == more
    assert as_lines(report).endswith(f"\n\n1 finding\n{more}")
    assert f'<p class="more">{more}</p>' in html(report).decode()
    assert f"\n\n{more}\n\n" in markdown(report).decode()


def test_a_finding_stays_a_finding_in_a_part_of_a_check() -> None:
    report = report_of([OPENVINO], entry(gather_case(), DIFF), planned=2, shard="1/2")
    assert verdict(report)[::2] == ("1 finding (shard 1/2 alone)", "bad")
