"""A report as JUnit XML, in the shape that Jenkins, GitLab and GitHub's readers take.

A lane is a testsuite and a case a testcase: DIFF and FIXED are failures, ERROR is an error,
NOT-RUN and KNOWN are skipped, with the reason. What is no case is an error of its own: a required
lane that did not run everything, a file with an invalid descriptor, a file that is unusable.
Attributes are those of the xUnit plugin's junit-10.xsd.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import CaseResult, Report, Result
from onnxgather.parity.states import STATES
from onnxgather.report.sentences import evidence_lines, title, unmet

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> bytes:
    r"""Return a report as a JUnit XML document in UTF-8.

    Characters that XML forbids are written as Python escapes them, such as `\x1b`.
    """
    root = ET.Element("testsuites", {"name": "onnxgather check"})
    missing = unmet(report)
    for k, lane in enumerate(report.lanes):
        suite = _suite(root, report, lane.name, _properties(report, lane))
        if lane.name in missing:
            testcase = _testcase(suite, lane.name, "the lane runs every case")
            _outcome(testcase, "error", "NOT-RUN", [missing[lane.name]])
        for case in report.cases:
            _case(suite, lane, case, case.results[k])
    if report.invalid or report.unusable:
        suite = _suite(root, report, "files", {})
        for invalid in report.invalid:
            testcase = _testcase(suite, "files", invalid.file)
            _outcome(testcase, "error", "invalid", [invalid.reason])
        for message in report.unusable:
            _outcome(_testcase(suite, "files", message), "error", "unusable", [message])
    for element in (root, *root):
        element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
        for attribute, tag in _COUNTED.items():
            if (element, attribute) != (root, "skipped"):  # the schema has none there
                element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(
    root: ET.Element, report: Report, name: str, properties: Mapping[str, str]
) -> ET.Element:
    suite = ET.SubElement(root, "testsuite", {"name": _legal(name), "timestamp": report.made})
    if properties:
        group = ET.SubElement(suite, "properties")
        for key, value in properties.items():
            ET.SubElement(group, "property", {"name": _legal(key), "value": _legal(value)})
    return suite


def _properties(report: Report, lane: LaneInfo) -> dict[str, str]:
    found = {
        "onnxgather": report.onnxgather,
        "machine": report.machine,
        "provider": lane.provider,
        **lane.versions,
        "devices": ", ".join(lane.devices),
        "interpreter": lane.python or "",
        "required": "yes" if lane.required else "",
    }
    return {name: value for name, value in found.items() if value}


def _case(suite: ET.Element, lane: LaneInfo, case: CaseResult, result: Result) -> None:
    group = f"{lane.name}.{case.operator}.{case.data_type}"
    testcase = _testcase(suite, group, title(case))
    if element := STATES[result.state].element:
        _outcome(testcase, element, result.state, evidence_lines(result))


def _testcase(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"classname": _legal(group), "name": _legal(name)})


def _outcome(testcase: ET.Element, kind: str, type_: str, lines: list[str]) -> None:
    attributes = {"type": type_, "message": _legal(f"{type_}: {lines[0]}")}
    ET.SubElement(testcase, kind, attributes).text = _legal("\n".join(lines))


def _legal(text: str) -> str:
    return _FORBIDDEN.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
