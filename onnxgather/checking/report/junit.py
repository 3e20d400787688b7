"""A report as JUnit XML, in the shape that Jenkins, GitLab and GitHub's readers take.

A lane is a testsuite and a case a testcase: DIFF and FIXED are failures, ERROR is an
error, NOT-RUN and KNOWN are skipped, with the reason. These get a testcase with an
error of their own: a lane that did not start, a required lane that did not run
everything, a check that ended before its last case, a file with an invalid descriptor,
and an unusable file. The attributes are those of the xUnit plugin's junit-10.xsd.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from onnxgather.checking.report.sentences import (
    again,
    cut,
    evidence_lines,
    known,
    title,
    unmet,
    verdict,
)
from onnxgather.checking.results import Report
from onnxgather.core.output.junit import add_testcase, junit_document
from onnxgather.core.output.result_states import STATES


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
