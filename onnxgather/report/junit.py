"""A report as JUnit XML, in the shape that Jenkins, GitLab and GitHub's readers take.

A lane is a testsuite and a case a testcase: DIFF and FIXED are failures, ERROR is an error,
NOT-RUN and KNOWN are skipped, with the reason. Four things get a testcase with an error of their
own: a lane that did not start or did not run everything though required, a file with an invalid
descriptor, an unusable file, and a check that ended early. The attributes are those of the xUnit
plugin's junit-10.xsd.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from onnxgather.lanes.lane import LaneInfo
from onnxgather.parity.results import Report
from onnxgather.parity.states import STATES
from onnxgather.report.sentences import cut_short, evidence_lines, title, unmet

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> bytes:
    r"""A report as a JUnit XML document in UTF-8.

    Characters that XML forbids are written as Python escapes them, such as `\x1b`.
    """
    root = ET.Element("testsuites", {"name": "onnxgather check"})
    missing = unmet(report)
    for k, lane in enumerate(report.lanes):
        suite = _suite(root, report, lane.name)
        _properties(suite, report, lane)
        if lane.name in missing:
            lines = [missing[lane.name]]
            _testcase(suite, lane.name, "the lane runs every case", "error", "NOT-RUN", lines)
        for case in report.cases:
            result = case.results[k]
            group = f"{lane.name}.{case.operator}.{case.data_type}"
            element = STATES[result.state].element
            _testcase(suite, group, title(case), element, result.state, evidence_lines(result))
    if report.invalid or report.unusable:
        suite = _suite(root, report, "files")
        for found in report.invalid:
            _testcase(suite, "files", found.file, "error", "invalid", [found.reason])
        for message in report.unusable:
            _testcase(suite, "files", message, "error", "unusable", [message])
    if (early := cut_short(report)) is not None:
        suite = _suite(root, report, "check")
        _testcase(suite, "check", "the check runs every case", "error", "interrupted", [early])
    for element in (root, *root):
        element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
        for attribute, tag in _COUNTED.items():
            if (element, attribute) != (root, "skipped"):  # the schema has none there
                element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    for element in root.iter():
        element.attrib = {name: _legal(value) for name, value in element.items()}
        element.text = element.text and _legal(element.text)
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(root: ET.Element, report: Report, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", {"name": name, "timestamp": report.made})


def _properties(suite: ET.Element, report: Report, lane: LaneInfo) -> None:
    found = {
        "onnxgather": report.onnxgather,
        "machine": report.machine,
        "provider": lane.provider,
        **lane.versions,
        "devices": ", ".join(lane.devices),
        "interpreter": lane.python or "",
        "required": "yes" if lane.required else "",
    }
    group = ET.SubElement(suite, "properties")
    for name, value in found.items():
        if value:
            ET.SubElement(group, "property", {"name": name, "value": value})


def _testcase(
    suite: ET.Element, group: str, name: str, element: str, kind: str, lines: list[str]
) -> None:
    """Add a testcase.

    Args:
        suite: The testsuite.
        group: The classname of the testcase.
        name: The name of the testcase.
        element: failure, error or skipped; empty for a testcase that passes.
        kind: The type of that element: a state, invalid, unusable or interrupted.
        lines: The text of that element; its message is the first line.
    """
    testcase = ET.SubElement(suite, "testcase", {"classname": group, "name": name})
    if element:
        attributes = {"type": kind, "message": f"{kind}: {lines[0]}"}
        ET.SubElement(testcase, element, attributes).text = "\n".join(lines)


def _legal(text: str) -> str:
    return _FORBIDDEN.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
