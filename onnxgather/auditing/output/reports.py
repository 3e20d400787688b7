"""The audits of several models as a table, as JUnit XML, as Markdown, and as SARIF."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from onnxgather.auditing.output.findings import (
    AuditReport,
    Baseline,
    FindingState,
    GatherFinding,
    ModelFinding,
    gathers_of,
)
from onnxgather.auditing.output.text import named, named_with_others, next_commands
from onnxgather.auditing.output.verdict import verdict_of_models
from onnxgather.auditing.records import not_judged_texts
from onnxgather.core.checks import line_of, number_of, printable
from onnxgather.core.files import path_from
from onnxgather.core.output.junit import add_testcase, junit_document
from onnxgather.core.output.markdown import markdown_document, plain, table_row
from onnxgather.core.version import __version__

LEVELS: Mapping[FindingState, tuple[str, str]] = {
    "invalid": ("error", "ONNX forbids the node, or the node fails in each run."),
    "out-of-range": ("error", "An index is out of range."),
    "refused": ("error", "The DirectML provider refuses the operator."),
    "not-proved": ("warning", "An index may be out of range."),
    "proved-if": ("note", "The indices are in range under conditions on the inputs."),
}
"""The states of findings from the worst: SARIF's level of each, and what it means."""

_WHOLE_FILE = {"startLine": 1}
"""The region of a file without lines, for readers of SARIF that need a line."""

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def table(report: AuditReport) -> Iterator[str]:
    """Yield a line for each model, in the order given, and one for all."""
    rows = list(_rows(report))
    columns = zip(*rows, strict=True)
    name_width, *number_widths = (max(map(len, column)) for column in columns)
    for name, *numbers in rows:
        cells = [name.ljust(name_width)]
        for number, width in zip(numbers, number_widths, strict=True):
            cells.append(number.rjust(width))
        yield "  ".join(cells)


def baseline_lines(report: AuditReport, baseline: Baseline) -> Iterator[str]:
    """Yield the new findings, the entries that are gone, and a line of counts."""
    comparison = baseline.compared(report)
    for finding in report.every:
        if finding.is_new:
            state = finding.entry.state
            place = f"{finding.model}: {named(finding.gather)}"
            yield f"NEW           {place}: {state}: {finding.said}"
    for entry in comparison["gone"]:
        place = f"{entry.model}: {entry.node} ({entry.op}, {entry.place})"
        yield f"gone          {place}: {entry.state}"
    new_count = len(comparison["new"])
    gone_count = len(comparison["gone"])
    known_findings = number_of(comparison["known"], "known finding")
    counts = f"{known_findings}, {new_count:,} new, {gone_count:,} gone"
    yield f"baseline      {baseline.path}: {counts}"


def _rows(report: AuditReport) -> Iterator[tuple[str, ...]]:
    """Yield the headings, a row of counts for each model, and a row for all models."""
    states = [state.replace("-", " ") for state in LEVELS]
    yield ("model", "operators", *states, "proved")
    rows = list[tuple[str, list[int]]]()
    for model in report.models:
        rows.append((model, _counts(report, model)))
    columns = zip(*(counts for _, counts in rows), strict=True)
    totals = [sum(column) for column in columns]
    name_of_totals = number_of(len(rows), "model")
    rows.append((name_of_totals, totals))
    for name, counts in rows:
        numbers = [f"{count:,}" for count in counts]
        yield (line_of(name), *numbers)


def _counts(report: AuditReport, model: str) -> list[int]:
    """Return the counts in the row of a model: all, those in each state, the proved."""
    state_counts = Counter[FindingState]()
    for gather_findings in report.findings[model]:
        for finding in gather_findings:
            # The row is that of the file.
            if isinstance(finding, GatherFinding):
                state_counts[finding.entry.state] += 1
    total = len(report.models[model].audit.gathers)
    # A refused gather may be proved all the same, so its refusal is not subtracted.
    not_proved = state_counts.total() - state_counts["refused"]
    counts_of_levels = [state_counts[state] for state in LEVELS]
    return [total, *counts_of_levels, total - not_proved]


def report_verdict(report: AuditReport) -> str:
    """Return the verdict of all models of a report, in one line."""
    audits = [finished.audit for finished in report.models.values()]
    return verdict_of_models(audits, report.left_out)


def audit_junit(report: AuditReport) -> bytes:
    """Return the audits as JUnit XML: a model is a testsuite, a gather a testcase.

    A finding is a failure. A finding that is in the baseline is skipped. A model that
    was not audited is an error.
    """
    root = ET.Element("testsuites", {"name": "onnxgather audit"})
    for model, finished in report.models.items():
        suite = ET.SubElement(root, "testsuite", {"name": model})
        properties = ET.SubElement(suite, "properties")
        verdict = {"name": "verdict", "value": finished.audit.verdict}
        ET.SubElement(properties, "property", verdict)
        findings_by_gather = report.findings[model]
        gathers = gathers_of(finished.audit)
        for gather, findings in zip(gathers, findings_by_gather, strict=True):
            _add_gather(suite, model, named(gather), findings)
    if report.unusable:
        suite = ET.SubElement(root, "testsuite", {"name": "files"})
        for message in report.unusable:
            add_testcase(suite, "files", message, "error", "unusable", [message])
    return junit_document(root)


def _add_gather(
    suite: ET.Element, model: str, name: str, findings: Sequence[ModelFinding]
) -> None:
    """Add the testcase of a gather to the testsuite of its model."""
    counted = [finding for finding in findings if finding.counts]
    if not counted:
        add_testcase(suite, model, name, "", "", [])
        return
    # A new finding comes first: the testcase fails if there is any.
    counted.sort(key=lambda finding: finding.is_known)
    first = counted[0]
    element = "skipped" if first.is_known else "failure"
    texts = [
        f"known: {_reason(finding)}" if finding.is_known else finding.said
        for finding in counted
    ]
    add_testcase(suite, model, name, element, first.entry.state, texts)


def _reason(finding: ModelFinding) -> str:
    """Return the sentence on a finding, with the reason in the baseline if any."""
    if finding.entry.reason:
        return f"{finding.said} ({finding.entry.reason})"
    return finding.said


def audit_markdown(report: AuditReport, baseline: Baseline) -> bytes:
    """Return the audits as Markdown for the summary of a build.

    Findings that are alike share a line.
    """
    new_count = sum(finding.is_new for finding in report.every)
    noun = "finding"
    if baseline.path:
        noun = "new finding"
    models = number_of(len(report.models), "model")
    lines = [f"## {plain(report_verdict(report))}", ""]
    lines += [f"{number_of(new_count, noun)} in {models}.", ""]

    headings, *rows = _rows(report)
    alignments = ["---"] + ["---:"] * (len(headings) - 1)
    lines.append(table_row(headings))
    lines.append(table_row(alignments))
    for name, *numbers in rows:
        lines.append(table_row([plain(name), *numbers]))
    lines.append("")

    lines += _finding_items(report, bool(baseline.path))
    for model, finished in report.models.items():
        for text in not_judged_texts(finished.audit.not_judged):
            lines.append(f"- {plain(f'{model}: {text}')}")
    for message in report.unusable:
        lines.append(f"- {plain(message)}")
    audits = {model: finished.audit for model, finished in report.models.items()}
    for purpose, commands in next_commands(audits, report.named).items():
        lines.append(f"- next: {plain(purpose)}")
        for command in commands:
            lines.append(f"  - {plain(command)}")
    return markdown_document(lines)


def _finding_items(report: AuditReport, is_compared: bool) -> Iterator[str]:
    """Yield an item for each group of findings that are alike, the worst first.

    Args:
        report: The report.
        is_compared: Whether there is a baseline.
    """
    states = list(LEVELS)
    findings = list(report.every)
    findings.sort(key=lambda finding: states.index(finding.entry.state))
    groups = dict[tuple[str, ...], list[ModelFinding]]()
    for finding in findings:
        label: str = finding.entry.state
        if finding.is_known:
            label = f"known {label}"
        elif finding.is_new and is_compared:
            label = f"new {label}"
        key = (label, finding.model, finding.gather.op, _reason(finding))
        groups.setdefault(key, []).append(finding)

    for (label, model, _, reason), members in groups.items():
        gathers = named_with_others([finding.gather for finding in members])
        sentence = f"{model}: {gathers}: {reason}"
        yield f"- **{label}** {plain(sentence)}"


def audit_sarif(report: AuditReport, baseline: Baseline) -> dict[str, Any]:
    """Return the findings as a log of SARIF 2.1.0.

    The places of the log are the models and the nodes in them.
    """
    rules = list[dict[str, Any]]()
    for state, (level, text) in LEVELS.items():
        rule = {
            "id": state,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        rules.append(rule)
    notifications = list[dict[str, Any]]()
    for text in report.unusable:
        notifications.append({"level": "error", "message": _message(text)})

    driver = {"name": "onnxgather", "version": __version__, "rules": rules}
    invocation = {
        "executionSuccessful": not notifications,
        "toolExecutionNotifications": notifications,
    }
    is_compared = bool(baseline.path)
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "properties": {"verdict": report_verdict(report)},
        "results": [_result(finding, is_compared) for finding in report.every],
    }
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: ModelFinding, is_compared: bool) -> dict[str, Any]:
    """Return a finding as a result of SARIF.

    Args:
        finding: The finding.
        is_compared: Whether there is a baseline.
    """
    gather = finding.gather
    state = finding.entry.state
    uri = quote(os.fsencode(path_from("", finding.model)))
    place = printable(f"{gather.place}/{gather.node}")
    level, _ = LEVELS[state]
    # With --fail-on a state fails the command that else does not.
    if finding.counts:
        level = "error"
    physical_location = {"artifactLocation": {"uri": uri}, "region": _WHOLE_FILE}
    logical_location = {"name": printable(gather.node), "fullyQualifiedName": place}
    location = {
        "physicalLocation": physical_location,
        "logicalLocations": [logical_location],
    }
    result: dict[str, Any] = {
        "ruleId": state,
        "level": level,
        "message": _message(f"{named(gather)}: {finding.said}"),
        "locations": [location],
        # All results of a model are at its line 1; this is what identifies a result.
        "partialFingerprints": {"gather/v1": f"{place}: {gather.op}: {state}"},
    }
    if is_compared and finding.is_known:
        result["baselineState"] = "unchanged"
    elif is_compared:
        result["baselineState"] = "new"
    if finding.is_known:
        reason = finding.entry.reason
        result["suppressions"] = [{"kind": "external", "justification": reason}]
    return result


def _message(text: str) -> dict[str, str]:
    """Return a text as a message of SARIF, which shows it as it is."""
    # A brace starts a placeholder; two stand for the brace itself.
    text = re.sub(r"[{}]", r"\g<0>\g<0>", printable(text))
    # A bracket before `](` starts a link.
    text = re.sub(r"\[(?=[^\]]*\]\()", r"\\[", text)
    return {"text": text}
