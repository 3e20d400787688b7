"""Reports on the terminal and as JUnit XML: what they say, word for word."""

from __future__ import annotations

import re
import textwrap
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace
from report_samples import (
    CPU,
    DIFF,
    DIRECTML,
    ELSEWHERE,
    ERROR,
    FIXED,
    KNOWN,
    MACHINE,
    MADE,
    OPENVINO,
    absent,
    entry,
    gather,
    gather_case,
    passed,
    report_of,
    small,
    spoiled,
)

from onnxgather.parity.results import Invalid, Report, Result
from onnxgather.parity.states import BAD, STATES
from onnxgather.report import junit, render

HOSTILE = "a\x1b[31m\x00b\udc80\u202e</name>\"'&\n🦖"


def many(count: int, *bad: Result) -> Report:
    """A report of many cases, alternately of two data types, the first ones bad."""
    cases = [
        entry(
            gather_case(f"case {k}", gather("FLOAT16" if k % 2 else "INT32")),
            passed("cpu"),
            bad[k] if k < len(bad) else passed("openvino"),
        )
        for k in range(count)
    ]
    return report_of([CPU, OPENVINO], *cases)


def test_few_cases_have_a_row_each() -> None:
    assert render(small(), 80) == textwrap.dedent(
        """\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        cpu       CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
        openvino  OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4
        directml  did not start: onnxruntime has no DmlExecutionProvider

                            cpu   openvino  directml
        gather/a            PASS  DIFF      NOT-RUN
        gather/b            PASS  ERROR     NOT-RUN
        gather/c            PASS  KNOWN     NOT-RUN
        gather/d (wrapped)  PASS  FIXED     NOT-RUN
        gather/e            PASS  NOT-RUN   NOT-RUN
        gather/f            PASS  PASS      NOT-RUN

        DIFF     openvino: gather/a
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0
                 40), got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather
        ERROR    openvino: gather/b
                 OpenVINOExecutionProvider failed: no such layout
        FIXED    openvino: gather/d (wrapped)
                 passes, although it is a known difference
                 Crashes below 1.25 (https://example.com/2)
                 ran: Gather

        KNOWN    openvino: gather/c
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  directml: 6 cases, such as gather/a
                 onnxruntime has no DmlExecutionProvider
        NOT-RUN  openvino: gather/e
                 Gather went to CPUExecutionProvider

        cpu: 6 cases, 6 PASS
        openvino: 6 cases, 1 PASS, 1 DIFF, 1 ERROR, 1 NOT-RUN, 1 KNOWN, 1 FIXED
        directml: 6 cases, 6 NOT-RUN"""
    )


def test_many_cases_are_summed_up_by_operator_and_data_type() -> None:
    report = many(32, DIFF, KNOWN, KNOWN, ELSEWHERE)
    assert render(report, 80) == textwrap.dedent(
        """\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        cpu       CPUExecutionProvider, onnxruntime 1.31.1, python 3.11.7; CPU
        openvino  OpenVINOExecutionProvider, onnxruntime 1.24.1, openvino 2025.4

                        cpu      openvino
        GATHER FLOAT16  16 PASS  14 PASS, 1 NOT-RUN, 1 KNOWN
        GATHER INT32    16 PASS  14 PASS, 1 DIFF, 1 KNOWN

        DIFF     openvino: case 0
                 1 of 4 elements differ, first OutputTensor[1,0]: expected 5.0 (00 00 a0
                 40), got 0.0 (00 00 00 00)
                 output[1,0] = input[1, 2] = 5
                 ran: Clip, Gather

        KNOWN    openvino: 2 cases, such as case 1
                 Zeros where an index is out of range (https://example.com/1)
        NOT-RUN  openvino: case 3
                 Gather went to CPUExecutionProvider

        cpu: 32 cases, 32 PASS
        openvino: 32 cases, 28 PASS, 1 DIFF, 1 NOT-RUN, 2 KNOWN"""
    )


@pytest.mark.parametrize(("count", "rows"), [(30, 30), (31, 2)])
def test_when_cases_are_many(count: int, rows: int) -> None:
    table = render(many(count)).split("\n\n")[1]
    assert len(table.splitlines()) == 1 + rows


def test_details_are_cut_and_say_so() -> None:
    errors = [replace(ERROR, reason=f"failure {k}") for k in range(53)]
    text = render(many(60, *errors))
    assert "failure 49\n... and 3 more findings; --json or --html has them all\n" in text
    assert "failure 50" not in text
    assert "more finding" not in render(many(60, *errors[:50]))
    assert "... and 1 more finding; --json" in render(many(60, *errors[:51]))


def test_reasons_are_cut_and_say_so() -> None:
    reasons = [replace(ELSEWHERE, reason=f"reason {k:02}") for k in range(52)]
    text = render(many(120, *reasons, *reasons))
    assert "openvino: 2 cases, such as case 49\n         reason 49\n" in text
    assert "... and 2 more reasons, of 4 results; --json or --html has them all\n" in text
    assert "reason 50" not in text


def test_more_lanes_than_fit_make_more_tables() -> None:
    lanes, states = [replace(CPU, name=f"lane-{k}") for k in range(9)], list(STATES)
    cases = [
        entry(gather_case(f"case {k}"), *(replace(ERROR, state=states[k % 6]) for _ in lanes))
        for k in range(31)
    ]
    sections = render(report_of(lanes, *cases), 60).split("\n\n")
    tables = [section for section in sections if "GATHER FLOAT32" in section]
    assert [re.findall(r"lane-\d", table) for table in tables] == [
        ["lane-0", "lane-1", "lane-2"],
        ["lane-3", "lane-4", "lane-5"],
        ["lane-6", "lane-7", "lane-8"],
    ]
    assert tables[2] == textwrap.dedent(
        """\
                        lane-6         lane-7         lane-8
        GATHER FLOAT32  6 PASS,        6 PASS,        6 PASS,
                        5 DIFF,        5 DIFF,        5 DIFF,
                        5 ERROR,       5 ERROR,       5 ERROR,
                        5 NOT-RUN,     5 NOT-RUN,     5 NOT-RUN,
                        5 KNOWN,       5 KNOWN,       5 KNOWN,
                        5 FIXED        5 FIXED        5 FIXED"""
    )


def test_files_and_lanes_that_are_unusable() -> None:
    report = report_of(
        [replace(DIRECTML, required=True)],
        invalid=[Invalid("a.json", "$.dispatchables.g: Axis must be less than 2, got 3")],
        unusable=["b.json: no such file or directory"],
    )
    assert render(report, 80) == textwrap.dedent(
        """\
        onnxgather 0.1.0, 2026-11-21T12:00:00Z, Linux 6.1 x86_64, 2 cores
        directml  did not start, though required: onnxruntime has no
                  DmlExecutionProvider

        INVALID   a.json: $.dispatchables.g: Axis must be less than 2, got 3
        UNUSABLE  b.json: no such file or directory

        directml: 0 cases
        files: 1 invalid, 1 unusable"""
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_asked(width: int) -> None:
    long = replace(DIFF, reason="x" * 300 + " " + "word " * 60)
    lanes = [replace(CPU, name="n" * 50), OPENVINO, DIRECTML]
    row = entry(gather_case("name/" * 40), passed("n" * 50), long, absent())
    for cases in ([row], [row] * 31):
        report = report_of(lanes, *cases, unusable=["u" * 200])
        lines = render(report, width).splitlines()
        assert max(map(len, lines)) <= width
        assert "x" * (width - 9) in "\n".join(lines)


def test_control_characters_are_written_and_not_sent() -> None:
    report = report_of(
        [replace(OPENVINO, name=HOSTILE)],
        entry(gather_case(HOSTILE), replace(ERROR, lane=HOSTILE, reason=HOSTILE)),
        unusable=[HOSTILE],
    )
    text = render(report)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.count(r"a\x1b[31m\x00b\udc80\u202e</name>") == 7


def test_colours_only_when_asked_and_only_around_states() -> None:
    plain, coloured = render(small(), 80), render(small(), 80, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\n\x1b[1;31mDIFF\x1b[0m     openvino: gather/a\n" in coloured
    assert "gather/e            \x1b[32mPASS\x1b[0m  \x1b[33mNOT-RUN\x1b[0m" in coloured
    assert "\n\x1b[33mdirectml: 6 cases, 6 NOT-RUN\x1b[0m" in coloured


def test_what_did_not_run_is_never_counted_as_passed() -> None:
    report = report_of([DIRECTML], *[entry(gather_case(f"c{k}"), absent()) for k in range(40)])
    assert "PASS" not in render(report)
    assert b"PASS" not in junit(report)
    suite = ET.fromstring(junit(report))[0]
    assert (suite.get("tests"), suite.get("skipped")) == ("40", "40")


def test_an_empty_report() -> None:
    report = report_of([CPU])
    assert render(report).endswith("\n\ncpu: 0 cases")
    assert ET.fromstring(junit(report)).get("tests") == "0"


def test_junit() -> None:
    case = gather_case("gather/a")
    report = report_of(
        [OPENVINO, replace(DIRECTML, required=True)],
        entry(case, DIFF, absent(), got={"openvino": spoiled(case, 2)}),
        entry(gather_case("gather/b"), passed("openvino"), absent()),
        invalid=[Invalid("a.json", "$.dispatchables.g: Axis must be less than 2, got 3")],
        unusable=["b.json: no such file or directory"],
    )
    assert junit(report).decode() == JUNIT


JUNIT = f"""\
<?xml version='1.0' encoding='utf-8'?>
<testsuites name="onnxgather check" tests="7" failures="1" errors="3">
  <testsuite name="openvino" timestamp="{MADE}" tests="2" failures="1" errors="0" skipped="0">
    <properties>
      <property name="onnxgather" value="0.1.0" />
      <property name="machine" value="{MACHINE}" />
      <property name="provider" value="OpenVINOExecutionProvider" />
      <property name="onnxruntime" value="1.24.1" />
      <property name="openvino" value="2025.4" />
    </properties>
    <testcase classname="openvino.GATHER.FLOAT32" name="gather/a">
      <failure type="DIFF" message="DIFF: {DIFF.reason}">{DIFF.reason}
output[1,0] = input[1, 2] = 5
ran: Clip, Gather</failure>
    </testcase>
    <testcase classname="openvino.GATHER.FLOAT32" name="gather/b" />
  </testsuite>
  <testsuite name="directml" timestamp="{MADE}" tests="3" failures="0" errors="1" skipped="2">
    <properties>
      <property name="onnxgather" value="0.1.0" />
      <property name="machine" value="{MACHINE}" />
      <property name="provider" value="DmlExecutionProvider" />
      <property name="required" value="yes" />
    </properties>
    <testcase classname="directml" name="the lane runs every case">
      <error type="NOT-RUN" message="NOT-RUN: {DIRECTML.not_run}">{DIRECTML.not_run}</error>
    </testcase>
    <testcase classname="directml.GATHER.FLOAT32" name="gather/a">
      <skipped type="NOT-RUN" message="NOT-RUN: {DIRECTML.not_run}">{DIRECTML.not_run}</skipped>
    </testcase>
    <testcase classname="directml.GATHER.FLOAT32" name="gather/b">
      <skipped type="NOT-RUN" message="NOT-RUN: {DIRECTML.not_run}">{DIRECTML.not_run}</skipped>
    </testcase>
  </testsuite>
  <testsuite name="files" timestamp="{MADE}" tests="2" failures="0" errors="2" skipped="0">
    <testcase classname="files" name="a.json">
      <error type="invalid" message="invalid: $.dispatchables.g: Axis must be less than 2, got 3">\
$.dispatchables.g: Axis must be less than 2, got 3</error>
    </testcase>
    <testcase classname="files" name="b.json: no such file or directory">
      <error type="unusable" message="unusable: b.json: no such file or directory">\
b.json: no such file or directory</error>
    </testcase>
  </testsuite>
</testsuites>
"""


def test_a_required_lane_must_run_every_case() -> None:
    lanes = [replace(OPENVINO, required=True)]
    cases = [entry(gather_case(f"c{k}"), ELSEWHERE) for k in range(2)]
    known = replace(KNOWN, found="NOT-RUN")
    for report, errors in (
        (report_of(lanes, *cases), ["NOT-RUN: 2 cases did not run"]),
        (report_of(lanes, entry(gather_case(), known)), list[str]()),
        (report_of([OPENVINO], *cases), list[str]()),
    ):
        root = ET.fromstring(junit(report))
        assert [found.get("message") for found in root.iter("error")] == errors


@pytest.mark.parametrize(
    ("result", "element"),
    [
        (DIFF, "failure"),
        (FIXED, "failure"),
        (ERROR, "error"),
        (ELSEWHERE, "skipped"),
        (KNOWN, "skipped"),
    ],
)
def test_junit_element_of_a_state(result: Result, element: str) -> None:
    root = ET.fromstring(junit(report_of([OPENVINO], entry(gather_case(), result))))
    (found,) = root.findall("testsuite/testcase/*")
    assert (found.tag, found.get("type")) == (element, result.state)
    assert (element == "skipped") != (result.state in BAD)
    said = result.known if result.state == "KNOWN" else result.reason
    assert found.get("message") == f"{result.state}: {said}"
    assert (found.text or "").count(result.known or "") >= 1


def test_junit_takes_any_text() -> None:
    report = report_of(
        [replace(OPENVINO, name=HOSTILE, versions={"v": HOSTILE})],
        entry(gather_case(HOSTILE), replace(ERROR, reason=HOSTILE)),
        unusable=[HOSTILE],
    )
    root = ET.fromstring(junit(report))
    legal = "a\\x1b[31m\\x00b\\udc80\u202e</name>\"'&\n🦖"
    assert [suite.get("name") for suite in root] == [legal, "files"]
    assert [case.get("name") for case in root.iter("testcase")] == [legal, legal]
    assert [error.text for error in root.iter("error")] == [legal, legal]
    assert legal in [found.get("value") for found in root.iter("property")]


ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "timestamp", "time"},
    "properties": set[str](),
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
}
"""The elements, and the attributes they may have, of the xUnit plugin's junit-10.xsd."""


def test_junit_has_the_shape_of_the_schema() -> None:
    root = ET.fromstring(junit(small()))
    for element in root.iter():
        assert set(element.keys()) <= ATTRIBUTES[element.tag]
    for suite in root:
        assert {"name", "tests", "failures", "errors"} <= set(suite.keys())
        assert [child.tag for child in suite].count("properties") == 1
        assert suite[0].tag == "properties"
        assert all(len(case) <= 1 for case in suite.iter("testcase"))
