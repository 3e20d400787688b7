"""A report as JUnit XML, in the shape that Jenkins, GitLab and GitHub's readers take.

A lane is a testsuite and a case a testcase: DIFF and FIXED are failures, ERROR is an
error, NOT-RUN and KNOWN are skipped, with the reason. These get a testcase with an
error of their own: a lane that did not start, a required lane that did not run
everything, a check that ended before its last case, a file with an invalid descriptor,
and an unusable file. The attributes are those of the xUnit plugin's junit-10.xsd.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from onnxgather.checks import printable
from onnxgather.parity.results import Report
from onnxgather.parity.states import STATES
from onnxgather.report.sentences import (
    again,
    cut,
    evidence_lines,
    known,
    title,
    unmet,
    verdict,
)

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def junit(report: Report) -> bytes:
    r"""A report as a JUnit XML document in UTF-8.

    Characters that do not show, and all that XML forbids, are escaped, such as `\x1b`.
    """
    root = ET.Element("testsuites", {"name": "onnxgather check"})
    missing, headline = unmet(report), verdict(report).headline
    for k, lane in enumerate(report.lanes):
        suite = _suite(root, report, lane.name)
        _properties(suite, report, k, headline)
        if lane.name in missing:
            lines = [missing[lane.name]]
            add_testcase(
                suite, lane.name, "the lane runs every case", "error", "NOT-RUN", lines
            )
        for case in report.cases:
            result = case.results[k]
            group = f"{lane.name}.{case.operator}.{case.data_type}"
            element = STATES[result.state].element
            lines = [*evidence_lines(result), *again(report, case, lane, result)]
            add_testcase(suite, group, title(case), element, result.state, lines)
    if reasons := cut(report):
        suite = _suite(root, report, "check")
        add_testcase(
            suite, "check", "the check runs every case", "error", "interrupted", reasons
        )
    if report.invalid or report.unusable:
        suite = _suite(root, report, "files")
        for found in report.invalid:
            add_testcase(suite, "files", found.file, "error", "invalid", [found.reason])
        for message in report.unusable:
            add_testcase(suite, "files", message, "error", "unusable", [message])
    return junit_document(root)


def junit_document(root: ET.Element) -> bytes:
    """A document in UTF-8 of testsuites, which get the numbers of their testcases."""
    for element in (root, *root):
        element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
        for attribute, tag in _COUNTED.items():
            if (element, attribute) != (root, "skipped"):  # the schema has none there
                element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    for element in root.iter():
        element.attrib = {name: printable(value) for name, value in element.items()}
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _suite(root: ET.Element, report: Report, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", {"name": name, "timestamp": report.made})


def _properties(suite: ET.Element, report: Report, number: int, headline: str) -> None:
    lane = report.lanes[number]
    found = {
        "onnxgather": report.onnxgather,
        "verdict": headline,
        **{what: str(count) for what, count in known(report, number).items()},
        "machine": report.machine,
        "provider": lane.provider,
        **lane.versions,
        "target": lane.target or "",
        "devices": ", ".join(lane.devices),
        "interpreter": lane.python or "",
        "required": "yes" if lane.required else "",
    }
    group = ET.SubElement(suite, "properties")
    for name, value in found.items():
        if value:
            ET.SubElement(group, "property", {"name": name, "value": value})


def add_testcase(
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
        ET.SubElement(testcase, element, attributes).text = "\n".join(
            map(printable, lines)
        )
