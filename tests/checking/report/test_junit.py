"""A report as JUnit's XML."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace
from report_samples import (
    DIFF,
    DIRECTML,
    ELSEWHERE,
    ERROR,
    FIXED,
    HOSTILE,
    KNOWN,
    MACHINE,
    MADE,
    OPENVINO,
    absent,
    entry,
    gather_case,
    passed,
    properties,
    report_of,
    small,
    spoiled,
)

from onnxgather.checking.report import junit
from onnxgather.checking.results import Invalid, Result
from onnxgather.core.output.result_states import BAD


def test_the_junit_file_of_a_report() -> None:
    case = gather_case("gather/a")
    report = report_of(
        [OPENVINO, replace(DIRECTML, required=True)],
        entry(case, DIFF, absent(), got={"openvino": spoiled(case, 2)}),
        entry(gather_case("gather/b"), passed("openvino"), absent()),
        invalid=[
            Invalid("a.json", "$.dispatchables.g: Axis must be less than 2, got 3")
        ],
        unusable=["b.json: no such file or directory"],
    )
    assert junit(report).decode() == JUNIT


ABSENT = f"did not start: {DIRECTML.not_run}"

JUNIT = f"""\
<?xml version='1.0' encoding='utf-8'?>
<testsuites name="onnxgather check" tests="7" failures="1" errors="3">
  <testsuite name="openvino" timestamp="{MADE}" tests="2" failures="1" errors="0" skipped="0">
    <properties>
      <property name="onnxgather" value="0.1.0" />
      <property name="verdict" value="3 findings; directml did not start" />
      <property name="machine" value="{MACHINE}" />
      <property name="provider" value="OpenVINOExecutionProvider" />
      <property name="onnxruntime" value="1.24.1" />
      <property name="openvino" value="2025.4" />
    </properties>
    <testcase classname="openvino.GATHER.FLOAT32" name="gather/a">
      <failure type="DIFF" message="DIFF: {DIFF.reason}">{DIFF.reason}
output[1,0] = input[1, 2] = 5
ran: Clip, Gather
onnxgather check --case gather/a --lanes openvino</failure>
    </testcase>
    <testcase classname="openvino.GATHER.FLOAT32" name="gather/b" />
  </testsuite>
  <testsuite name="directml" timestamp="{MADE}" tests="3" failures="0" errors="1" skipped="2">
    <properties>
      <property name="onnxgather" value="0.1.0" />
      <property name="verdict" value="3 findings; directml did not start" />
      <property name="machine" value="{MACHINE}" />
      <property name="provider" value="DmlExecutionProvider" />
      <property name="required" value="yes" />
    </properties>
    <testcase classname="directml" name="the lane runs every case">
      <error type="NOT-RUN" message="NOT-RUN: {ABSENT}">{ABSENT}</error>
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
"""  # noqa: E501


def test_a_required_lane_must_run_every_case() -> None:
    lanes = [replace(OPENVINO, required=True)]
    cases = [entry(gather_case(f"c{k}"), ELSEWHERE) for k in range(2)]
    known = replace(KNOWN, found="NOT-RUN")
    for report, errors in (
        (report_of(lanes, *cases), ["NOT-RUN: did not run 2 cases, though required"]),
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
        entry(gather_case(HOSTILE), replace(ERROR, lane=HOSTILE, reason=HOSTILE)),
        unusable=[HOSTILE],
    )
    root = ET.fromstring(junit(report))
    legal = "a\\x1b[31m\\x00b\\udc80\\u202e</name>\"'&\\n🦖"
    assert [suite.get("name") for suite in root] == [legal, "files"]
    assert [case.get("name") for case in root.iter("testcase")] == [legal, legal]
    for error in root.iter("error"):
        assert str(error.text).partition("\nonnxgather")[0] == legal
    assert properties(root)["v"] == legal


ATTRIBUTES = {
    "testsuites": "name time tests failures errors",
    "testsuite": "name tests failures errors skipped timestamp time",
    "properties": "",
    "property": "name value",
    "testcase": "name classname time",
    "failure": "type message",
    "error": "type message",
    "skipped": "type message",
}
"""The elements, and the attributes they may have, of the xUnit plugin's
junit-10.xsd."""


def test_junit_has_the_shape_of_the_schema() -> None:
    root = ET.fromstring(junit(small()))
    for element in root.iter():
        assert set(element.keys()) <= set(ATTRIBUTES[element.tag].split())
    for suite in root:
        assert {"name", "tests", "failures", "errors"} <= set(suite.keys())
        assert [child.tag for child in suite].count("properties") == 1
        assert suite[0].tag == "properties"
        assert all(len(case) <= 1 for case in suite.iter("testcase"))
