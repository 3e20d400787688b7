"""The audits of several models as a table, as JUnit XML, as Markdown, and as SARIF."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from onnxgather.auditing.output.findings import (
    AuditReport,
    Baseline,
    FindingState,
    GatherFinding,
    path_from,
)
from onnxgather.auditing.output.text import named, next_commands
from onnxgather.core.checks import number_of, printable
from onnxgather.core.output.junit import add_testcase, junit_document
from onnxgather.core.output.markdown import markdown_document, plain, table_row

LEVELS: Mapping[FindingState, tuple[str, str]] = {
    "out-of-range": ("error", "An index is out of range."),
    "refused": ("error", "The DirectML provider refuses the operator."),
    "not-proved": ("warning", "An index may be out of range."),
    "proved-if": ("note", "The indices are in range under conditions on the inputs."),
}
"""The states of findings from the worst: SARIF's level of each, and what it means."""

_WHOLE_FILE = {"startLine": 1}
"""What readers of SARIF that need a line get of a file without lines."""


def table(report: AuditReport) -> Iterator[str]:
    """Yield a line for each model, in the order given, and one for all."""
    rows = [*_rows(report)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        cells = [
            f"{text:>{width}}" for text, width in zip(numbers, widths[1:], strict=True)
        ]
        yield "  ".join([f"{name:<{widths[0]}}", *cells])


def baseline_lines(report: AuditReport, baseline: Baseline) -> Iterator[str]:
    """Yield what is new beside the baseline, what is gone of it, and how many findings it has."""
    told = baseline.compared(report)
    for one in report.every:
        if one.is_new:
            yield (
                f"NEW           {one.model}: {named(one.gather)}: {one.entry.state}:"
                f" {one.said}"
            )
    for one in told["gone"]:
        yield (
            f"gone          {one.model}: {one.node} ({one.op}, {one.place}):"
            f" {one.state}"
        )
    new, gone = len(told["new"]), len(told["gone"])
    known = number_of(told["known"], "known finding")
    yield f"baseline      {baseline.path}: {known}, {new:,} new, {gone:,} gone"


def _rows(report: AuditReport) -> Iterator[tuple[str, ...]]:
    yield "model", "operators", *(state.replace("-", " ") for state in LEVELS), "proved"
    counts = list[tuple[str, list[int]]]()
    for name, one in report.models.items():
        states = Counter(
            it.entry.state for found in report.findings[name] for it in found
        )
        every = len(one.audit.gathers)
        proved = every - states.total() + states["refused"]
        counts.append((name, [every, *(states[state] for state in LEVELS), proved]))
    totals = [*map(sum, zip(*(numbers for _, numbers in counts), strict=True))]
    for name, numbers in [*counts, (number_of(len(counts), "model"), totals)]:
        yield printable(name), *(f"{number:,}" for number in numbers)


def audit_junit(report: AuditReport) -> bytes:
    """The audits as JUnit XML: a model is a testsuite, a gather a testcase.

    A finding is a failure; one that the baseline has is skipped; a model that was not
    audited is an error.
    """
    root = ET.Element("testsuites", {"name": "onnxgather audit"})
    for model, one in report.models.items():
        suite = ET.SubElement(root, "testsuite", {"name": model})
        for gather, found in zip(
            one.audit.gathers, report.findings[model], strict=True
        ):
            told = sorted((it for it in found if it.counts), key=lambda it: it.is_known)
            said = [f"known: {_reason(it)}" if it.is_known else it.said for it in told]
            element = "" if not told else "skipped" if told[0].is_known else "failure"
            state = told[0].entry.state if told else ""
            add_testcase(suite, model, named(gather), element, state, said)
    if report.unusable:
        suite = ET.SubElement(root, "testsuite", {"name": "files"})
        for message in report.unusable:
            add_testcase(suite, "files", message, "error", "unusable", [message])
    return junit_document(root)


def _reason(finding: GatherFinding) -> str:
    return finding.said + (f" ({finding.entry.reason})" if finding.entry.reason else "")


def audit_markdown(report: AuditReport, baseline: Baseline) -> bytes:
    """The audits as Markdown for the summary of a build; findings that are alike stand once."""
    new = sum(one.is_new for one in report.every)
    noun = "new finding" if baseline.path else "finding"
    head = f"{number_of(new, noun)} in {number_of(len(report.models), 'model')}"
    headings, *rows = _rows(report)
    lines = [f"## {head}", "", table_row(headings), table_row(["---", *["---:"] * 6])]
    lines += [*(table_row([plain(name), *numbers]) for name, *numbers in rows), ""]
    alike = dict[tuple[str, ...], list[GatherFinding]]()
    for one in sorted(report.every, key=lambda one: [*LEVELS].index(one.entry.state)):
        kind = (
            "known " if one.is_known else "new " if one.is_new and baseline.path else ""
        )
        key = kind + one.entry.state, one.model, one.gather.op, _reason(one)
        alike.setdefault(key, []).append(one)
    for (state, model, _, reason), (first, *others) in alike.items():
        more = f" and {len(others):,} more" if others else ""
        lines.append(
            f"- **{state}** {plain(f'{model}: {named(first.gather)}{more}: {reason}')}"
        )
    lines += [f"- {plain(text)}" for text in report.unusable]
    audits = {model: one.audit for model, one in report.models.items()}
    for what, each in next_commands(audits).items():
        lines += [
            f"- next: {plain(what)}",
            *(f"  - {plain(command)}" for command in each),
        ]
    return markdown_document(lines)


def audit_sarif(report: AuditReport, baseline: Baseline) -> dict[str, Any]:
    """The findings as a log of SARIF 2.1.0, whose places are models and the nodes in them."""
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": text},
            "defaultConfiguration": {"level": level},
        }
        for rule, (level, text) in LEVELS.items()
    ]
    about = {"name": "onnxgather", "version": version("onnxgather"), "rules": rules}
    notes = [{"level": "error", "message": _message(text)} for text in report.unusable]
    ran = {"executionSuccessful": not notes, "toolExecutionNotifications": notes}
    results = [_result(one, bool(baseline.path)) for one in report.every]
    run = {"tool": {"driver": about}, "invocations": [ran], "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [run]}


def _result(finding: GatherFinding, compared: bool) -> dict[str, Any]:
    gather, state = finding.gather, finding.entry.state
    uri = quote(os.fsencode(path_from("", finding.model)))
    name = printable(gather.node)
    place = printable(f"{gather.place}/{gather.node}")
    level = "error" if finding.counts else LEVELS[state][0]
    result: dict[str, Any] = {
        "ruleId": state,
        "level": level,
        "message": _message(f"{named(gather)}: {finding.said}"),
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri},
                    "region": _WHOLE_FILE,
                },
                "logicalLocations": [{"name": name, "fullyQualifiedName": place}],
            }
        ],
        "partialFingerprints": {"gather/v1": f"{place}: {gather.op}: {state}"},
    }
    if compared:
        result["baselineState"] = "unchanged" if finding.is_known else "new"
    if finding.is_known:
        result["suppressions"] = [
            {"kind": "external", "justification": finding.entry.reason}
        ]
    return result


def _message(text: str) -> dict[str, str]:
    """A text as SARIF writes it: braces are doubled, and a bracket starts no link."""
    text = re.sub(r"[{}]", r"\g<0>\g<0>", printable(text))
    return {"text": re.sub(r"\[(?=[^\]]*\]\()", r"\\[", text)}
