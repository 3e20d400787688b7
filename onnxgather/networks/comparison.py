"""The gathers of a model on lanes: each with what it gets on the CPU, judged by the reference."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from onnxgather.model.protos import external_files
from onnxgather.networks.extraction import taken_out
from onnxgather.networks.gathers import (
    Audit,
    AuditedGather,
    AuditedModel,
    OperationKey,
    counted,
    operations_of,
)
from onnxgather.networks.network import folder_of
from onnxgather.networks.text import named
from onnxgather.parity.cases import Case
from onnxgather.parity.checking import check_all
from onnxgather.parity.known import Known
from onnxgather.parity.lanes.lane import Lane
from onnxgather.parity.results import CaseResult, Report, ResultKind
from onnxgather.parity.states import State, counts_text, worst
from onnxgather.report.sentences import causes, why

MOST_EXECUTIONS = 8
"""The most executions of one gather, as in a loop, that each lane runs."""

ONNX_ALONE = "lanes run Gather, GatherElements and GatherND of ONNX alone"


@dataclass(frozen=True, slots=True)
class Compared:
    """The gathers of a model with their results on lanes."""

    audited: AuditedModel | None
    """The model and its run; None where they are dropped, as they may be large."""
    audit: Audit
    """The audit, with the state of each gather on each lane, the worst of its
    executions."""
    cases: Mapping[OperationKey, Sequence[Case]]
    """The cases of each gather, one per execution."""
    results: dict[OperationKey, list[CaseResult]]
    """The results of these cases."""
    report: Report
    """The same results as a report of `check`."""
    left_out: Mapping[str, Sequence[AuditedGather]]
    """The gathers that ran on no lane, by the reason."""
    files: Sequence[str]
    """The files of the model's external data."""


def compare(
    audited: AuditedModel, lanes: Sequence[Lane], known: Sequence[Known] | None = None
) -> Compared:
    """Run the gathers of a model on lanes, each with what it got in a run.

    Args:
        audited: The model and its run.
        lanes: The lanes, not started; they stay open.
        known: The known differences; None means those that come with onnxgather.
    """
    cases, path = {key: list[Case]() for key in audited.gathers}, audited.network.path
    left_out, at = dict[OperationKey, str](), audited.captured.stopped_at
    stop = f"the run stopped at {at}" if at else None
    for key, scope, operation in operations_of(audited.network):
        if key in cases and not operation.is_gather:
            left_out[key] = ONNX_ALONE
        elif key in cases:
            for seen in audited.captured.gathers.get(operation, [])[
                :MOST_EXECUTIONS
            ] or [None]:
                told, case = taken_out(
                    path, scope, operation, [seen] if seen else [], stop
                )
                cases[key] += [case] if case else []
                left_out[key] = told.left_out or ""
    reasons = dict[str, list[AuditedGather]]()
    for key, reason in left_out.items():
        if not cases[key]:
            reasons.setdefault(reason, []).append(audited.gathers[key])
    report = check_all(
        [case for each in cases.values() for case in each], lanes, known=known
    )
    results = iter(report.cases)
    judged = {key: [next(results) for _ in each] for key, each in cases.items()}
    names, gathers = [lane.name for lane in report.lanes], list[AuditedGather]()
    for key, gather in audited.gathers.items():
        ran = ([result.state for result in case.results] for case in judged[key])
        states = zip(*ran, strict=True)
        gathers.append(
            replace(gather, lanes=dict(zip(names, map(worst, states), strict=False)))
        )
    audit = replace(audited.audit, gathers=gathers)
    files = [
        os.path.join(folder_of(path), name)
        for name in external_files(audited.network.proto)
    ]
    return Compared(audited, audit, cases, judged, report, reasons, files)


def lane_lines(compared: Compared) -> Iterator[str]:
    """Yield what each lane made of the gathers, and of which one first what differs."""
    report = compared.report
    ran = [*zip(compared.audit.gathers, compared.results.values(), strict=True)]
    for k, lane in enumerate(report.lanes):
        counts = Counter[State](
            gather.lanes[lane.name] for gather, _ in ran if gather.lanes
        )
        started = (
            counts_text(counts)
            if lane.not_run is None
            else f"did not start: {lane.not_run}"
        )
        if compared.audit.out_of_range and counts["PASS"]:
            started += "; PASS too where it fails as the reference does"
        yield f"lane          {lane.name}: {started or 'no gather ran'}"
        each = ((gather, case.results[k]) for gather, cases in ran for case in cases)
        differs = (
            gather for gather, result in each if "DIFF" in (result.state, result.found)
        )
        if (first := next(differs, None)) is not None:
            yield f"    the first whose output differs is {named(first)}"
    for cause in causes(report):
        if cause.first.kind is not ResultKind.NOT_STARTED:
            yield f"{cause.first.state:<13} {cause.title(report)}: {why(cause.first)}"
    for reason, each in compared.left_out.items() if report.lanes else ():
        were = "was" if len(each) == 1 else "were"
        yield f"note          {counted(each)} {were} not compared: {reason}"
