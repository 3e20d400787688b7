"""Reports as JUnit XML, in the form that Jenkins, GitLab and GitHub's readers accept.

A lane is a testsuite, a case a testcase:

- DIFF and FIXED are failures, ERROR is an error;
- NOT-RUN and KNOWN are skipped, with the reason.

These are testcases with an error: a lane that did not start, a required lane that did
not run everything, a lane with a fault at exit, a check that ended before its last
case, a file with an invalid descriptor, and an unusable file. The attributes are those
of the xUnit plugin's junit-10.xsd.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from onnxgather.checking.report.sentences import (
    again,
    cut,
    evidence_lines,
    known_counts,
    models_ran,
    title,
    unmet,
    verdict,
)
from onnxgather.checking.results import BY_DIRECTML, Report
from onnxgather.core.output.junit import add_testcase, junit_document
from onnxgather.core.output.result_states import STATES


def junit(report: Report) -> bytes:
    r"""Return a report as a JUnit XML document in UTF-8.

    Characters that do not show, and all that XML forbids, are escaped, such as `\x1b`.
    """
    root = ET.Element("testsuites", {"name": "onnxgather check"})
    headline = verdict(report).headline
    failures = unmet(report)
    for number, lane in enumerate(report.lanes):
        suite = _add_suite(root, report, lane.name)
        _add_properties(suite, report, number, headline)
        if lane.name in failures:
            name = "the lane runs every case"
            lines = [failures[lane.name]]
            add_testcase(suite, lane.name, name, "error", "NOT-RUN", lines)
        if lane.at_exit:
            name = "the program of the lane ends"
            add_testcase(suite, lane.name, name, "error", "at-exit", [lane.at_exit])
        for case in report.cases:
            result = case.results[number]
            # Readers split a classname at its dots: lane, operator, data type.
            group = f"{lane.name}.{case.operator}.{case.data_type}"
            element = STATES[result.state].element
            lines = [*evidence_lines(case, result), *again(report, case, lane, result)]
            add_testcase(suite, group, title(case), element, result.state, lines)
    _add_early_end(root, report)
    _add_files(root, report)
    return junit_document(root)


def _add_properties(
    suite: ET.Element, report: Report, number: int, headline: str
) -> None:
    """Add the facts about a lane and the check."""
    lane = report.lanes[number]
    facts = {"onnxgather": report.onnxgather, "verdict": headline}
    for what, count in known_counts(report, number).items():
        facts[what] = str(count)
    judged = report.passed_by_directml(number)
    if judged:
        facts[f"PASS {BY_DIRECTML}"] = str(judged)
    facts["models"] = models_ran(report)
    facts["machine"] = report.machine
    facts["provider"] = lane.provider
    facts |= lane.versions
    facts["target"] = lane.target or ""
    facts["devices"] = ", ".join(lane.devices)
    facts["interpreter"] = lane.python or ""
    facts["required"] = "yes" if lane.required else ""
    properties = ET.SubElement(suite, "properties")
    for name, value in facts.items():
        if value:  # what a lane does not say is left out
            ET.SubElement(properties, "property", {"name": name, "value": value})


def _add_early_end(root: ET.Element, report: Report) -> None:
    """Add a testsuite for a check that ended before its last case."""
    reasons = cut(report)
    if not reasons:
        return
    # No lane is at fault, so that the testcase is in a testsuite of its own.
    suite = _add_suite(root, report, "check")
    name = "the check runs every case"
    add_testcase(suite, "check", name, "error", "interrupted", reasons)


def _add_files(root: ET.Element, report: Report) -> None:
    """Add a testsuite for the invalid and unusable files."""
    if not report.invalid and not report.unusable:
        return
    suite = _add_suite(root, report, "files")
    for invalid in report.invalid:
        lines = [invalid.reason]
        add_testcase(suite, "files", invalid.file, "error", "invalid", lines)
    for message in report.unusable:
        add_testcase(suite, "files", message, "error", "unusable", [message])


def _add_suite(root: ET.Element, report: Report, name: str) -> ET.Element:
    return ET.SubElement(root, "testsuite", {"name": name, "timestamp": report.made})
