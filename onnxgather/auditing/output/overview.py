"""The text of several models: the verdict, a table, and the findings.

Findings that are alike share a line, over all models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

from onnxgather.auditing.output.findings import AuditReport, GatherFinding, ModelFinding
from onnxgather.auditing.output.reports import report_verdict, table
from onnxgather.auditing.output.text import (
    LABELS,
    assumption_lines,
    cause_of,
    cause_of_all,
    given_text,
    lines,
    named,
    next_lines,
    provider_lines,
    read_by_directml,
    run_text,
    runtime_lines,
    said,
)
from onnxgather.auditing.records import AuditedGather, counted
from onnxgather.core.checks import number_of, printable

MOST_LISTED = 20
"""The most lines on gathers that are not proved, or that are proved under
conditions."""

MOST_NOTES = 8
"""The most notes, and the most lines on what is given."""

Findings = Sequence[GatherFinding]

_AnyFinding = TypeVar("_AnyFinding", bound=ModelFinding)


def overview_lines(report: AuditReport, every: bool) -> Iterator[str]:
    """Yield the lines.

    Args:
        report: The audits of the models, with their findings.
        every: Whether each model has all its lines.
    """
    yield report_verdict(report)
    yield ""
    yield from table(report)
    audits = {model: finished.audit for model, finished in report.models.items()}
    # The text says what providers do with an index out of range of these.
    gathers = list[AuditedGather]()
    yield ""
    if every:
        for model, audit in audits.items():
            gathers += audit.gathers
            yield from lines(model, audit, every)
    else:
        for state, lines_of_state in _LINES.items():
            of_graphs = list[ModelFinding]()
            findings = list[GatherFinding]()
            for finding in report.every:
                if finding.entry.state != state:
                    continue
                if isinstance(finding, GatherFinding):
                    findings.append(finding)
                else:
                    of_graphs.append(finding)
            if findings:
                yield from lines_of_state(findings)
            yield from _graph_lines(of_graphs, state)
            if state != "proved-if" or _are_listed(findings):
                gathers += [finding.gather for finding in findings]
        yield from _of_all_models(report)
    yield from provider_lines(gathers)
    yield from next_lines(audits, report.named)


def _graph_lines(findings: Sequence[ModelFinding], state: str) -> Iterator[str]:
    """Yield the lines on gathers of graphs that ONNX Runtime makes, in a state."""
    label = LABELS.get(state, "")
    yield from _first(_lines_of_state(label, findings), MOST_LISTED, f"{label:<13}")


def _out_of_range_lines(findings: Findings) -> Iterator[str]:
    for members in _alike(findings, lambda finding: finding.said):
        yield f"OUT OF RANGE  {_named_with_others(members)}: {members[0].said}"
        behaviour = read_by_directml(members[0].gather)
        if behaviour:
            yield f"    directml  {behaviour}"


def _lines_of_state(label: str, findings: Sequence[ModelFinding]) -> list[str]:
    """Return a line for each sentence on findings."""
    texts = list[str]()
    for members in _alike(findings, lambda finding: finding.said):
        texts.append(f"{label:<13} {_named_with_others(members)}: {members[0].said}")
    return texts


def _not_proved_lines(findings: Findings) -> Iterator[str]:
    """Yield a line for each cause; one for all sizes of a model that nodes lose."""
    texts = list[str]()
    for members in _alike(findings, _model_or_cause):
        sentences = {said(finding.gather, {}) for finding in members}
        parts = [cause_of_all([finding.gather for finding in members])]
        # Of several sentences none stands for all.
        if len(sentences) == 1:
            parts.insert(0, sentences.pop())
        texts.append(f"not proved    {_named_with_others(members)}: {'; '.join(parts)}")
    yield from _first(texts, MOST_LISTED, "not proved   ")


def _model_or_cause(finding: GatherFinding) -> str:
    """Return what findings on gathers that are not proved have in common."""
    lost = finding.gather.range.lost
    if lost is not None:
        return f"{finding.model}: {lost.told_by}"
    return cause_of(finding.gather, {})


def _proved_if_lines(findings: Findings) -> Iterator[str]:
    """Yield a line for each condition; one for all if the exit code counts none."""
    if not _are_listed(findings):
        models = {finding.model for finding in findings}
        count = counted([finding.gather for finding in findings])
        of_models = f"{count} of {number_of(len(models), 'model')}"
        yield f"proved if     {of_models}: --fail-on proved-if lists the conditions"
        return
    texts = _lines_of_state("proved if", findings)
    yield from _first(texts, MOST_LISTED, "proved if    ")


_LINES: dict[str, Callable[[Findings], Iterable[str]]] = {
    "invalid": partial(_lines_of_state, "INVALID"),
    "out-of-range": _out_of_range_lines,
    "refused": partial(_lines_of_state, "REFUSED"),
    "not-proved": _not_proved_lines,
    "proved-if": _proved_if_lines,
}
"""What writes the lines of the findings in a state, from the worst state."""


def _are_listed(findings: Findings) -> bool:
    """Return whether the exit code counts findings, so that each has its line."""
    return any(finding.counts for finding in findings)


def _alike(
    findings: Iterable[_AnyFinding], text_of: Callable[[_AnyFinding], str]
) -> Collection[Sequence[_AnyFinding]]:
    """Return the findings in groups that share a text, in the order of the first."""
    groups = dict[str, list[_AnyFinding]]()
    for finding in findings:
        groups.setdefault(text_of(finding), []).append(finding)
    return groups.values()


def _named_with_others(members: Sequence[ModelFinding]) -> str:
    """Return the first of some findings with its model, and how many more there are."""
    first = members[0]
    text = f"{printable(first.model)}: {named(first.gather)}"
    if len(members) > 1:
        text = f"{text} and {len(members) - 1:,} more"
    models = {finding.model for finding in members}
    if len(models) > 1:
        text = f"{text} in {len(models):,} models"
    return text


def _first(texts: Sequence[str], most: int, start: str) -> Iterator[str]:
    """Yield the first lines, and how many more there are."""
    yield from texts[:most]
    left = len(texts) - most
    if left > 0:
        yield f"{start} {number_of(left, 'more line')}, which --all has"


def _of_all_models(report: AuditReport) -> Iterator[str]:
    """Yield the lines on runs, on runtimes, on what is assumed, and the notes.

    What several models share is there once.
    """
    models_by_note = dict[str, list[str]]()
    models_by_given = dict[str, list[str]]()
    shared = dict[str, None]()
    assumed = dict[str, None]()
    for model, finished in report.models.items():
        audit = finished.audit
        run = run_text(audit)
        if run:
            models_by_note.setdefault(f"run           {{}}: {run}", []).append(model)
        shared.update(dict.fromkeys(runtime_lines(audit)))
        assumed.update(dict.fromkeys(assumption_lines(audit)))
        given = given_text(audit)
        if given:
            models_by_given.setdefault(f"given         {{}}: {given}", []).append(model)
        if audit.notes:
            first, *others = audit.notes
            more = ""
            if others:
                more = f"; {number_of(len(others), 'more note')}, which --all has"
            text = f"note          {{}}: {first}{more}"
            models_by_note.setdefault(text, []).append(model)
    yield from shared
    yield from assumed
    yield from _first(_with_models(models_by_given), MOST_NOTES, "given        ")
    yield from _first(_with_models(models_by_note), MOST_NOTES, "note         ")


def _with_models(models_by_text: Mapping[str, Sequence[str]]) -> list[str]:
    """Return texts with the first of their models in place of the first {}."""
    texts = list[str]()
    for text, models in models_by_text.items():
        subject = printable(models[0])
        if len(models) > 1:
            subject = f"{subject} and {number_of(len(models) - 1, 'more model')}"
        start, _, end = text.partition("{}")
        texts.append(f"{start}{subject}{end}")
    return texts
