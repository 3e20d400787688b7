"""The reports of the parts of a check as the report of the whole."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import partial, reduce
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from onnxgather.checking.cases import Case, case_beside
from onnxgather.checking.judge import with_beside
from onnxgather.checking.known_differences import Known, explained, with_fixed
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.repro.plan import rebuilt
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import shown
from onnxgather.core.errors import FileFormatError

T = TypeVar("T")


class _Part(NamedTuple):
    """A report of a part of a check."""

    path: str
    """The file of the report."""
    report: Report
    shard: int
    """The number of the shard, from 1; 0 if the report is of no shard."""
    shard_count: int
    """How many shards the check has; 0 if the report is of no shard."""


def merge(reports: Sequence[tuple[str, Report]]) -> tuple[Report, list[str]]:
    """Return one report from the reports of parts of a check, and the missing shards.

    The lanes must agree in name, provider, versions, target and options, as a
    result stands for what its lane says of itself. If shards are missing, `shard` of
    the report names those that are there.

    Args:
        reports: The reports, at least one, each behind its file.

    Raises:
        FileFormatError: The reports are not of parts of one check.
    """
    parts: list[_Part] = []
    for path, report in reports:
        part = _Part(path, report, *_shard(path, report))
        parts.append(part)
        _check_same_check(part, parts[0])
    _check_apart(parts)

    count = parts[0].shard_count
    present = {part.shard for part in parts}
    missing = [f"{k}/{count}" for k in range(1, count + 1) if k not in present]
    shard = None
    if missing:
        shard = f"{','.join(map(str, sorted(present)))}/{count}"

    first = parts[0].report
    every = [part.report for part in parts]
    invalid = [item for report in every for item in report.invalid]
    unusable = [reason for report in every for reason in report.unusable]
    whole = replace(
        first,
        made=max(report.made for report in every),
        machine="; ".join(_distinct(report.machine for report in every)),
        lanes=tuple(_lane(parts, number) for number in range(len(first.lanes))),
        cases=with_fixed(_cases_in_order(parts)),
        invalid=_distinct(invalid),
        unusable=_distinct(unusable),
        planned=sum(report.planned for report in every),
        interrupted=_first(report.interrupted for report in every),
        without_evidence=sum(report.without_evidence for report in every),
        maxfail=_first(report.maxfail for report in every),
        shard=shard,
    )
    return whole, missing


def with_known(report: Report, known: Sequence[Known]) -> Report:
    """Return a report whose results known differences explain, as those of a check.

    What a report already explains stays as it is.

    Args:
        report: The report.
        known: The known differences.
    """
    cases: list[CaseResult] = []
    for case in report.cases:
        results: list[Result] = []
        for lane, result in zip(report.lanes, case.results, strict=True):
            # No known difference explains a lane that did not start.
            if lane.not_run is None:
                result = _with_known(result, case, lane, known)
            results.append(result)
        cases.append(replace(case, results=tuple(results)))
    return replace(report, cases=[*map(_with_evidence, with_fixed(cases))])


def _with_evidence(case: CaseResult) -> CaseResult:
    """Return a case whose evidence is there unless it passed on every lane."""
    # Only a case that passed on every lane has an example in place of evidence.
    if any(result.state != "PASS" for result in case.results) and case.example:
        return replace(case, evidence=case.example, example=None)
    return case


def _with_known(
    result: Result, entry: CaseResult, lane: LaneInfo, known: Sequence[Known]
) -> Result:
    """Return a result whose runs known differences explain."""
    cases: list[Case | CaseResult | None] = [entry, entry.beside]
    if entry.evidence is not None:
        case = rebuilt(entry, "the report")
        cases = [case, case_beside(case)]
    runs: list[Result] = []
    for case, (facts, run) in zip(cases, entry.runs_of(result), strict=False):
        # No known difference explains a refusal that proves nothing.
        is_open = run.known is None and run.kind is not ResultKind.UNPROVED
        if case is not None and is_open:
            run = explained(run, case, lane, known, facts.output_of(lane.name))
        runs.append(run)
    return reduce(with_beside, runs)


def _distinct(items: Iterable[T]) -> list[T]:
    """Return the items in their order, an equal item only once."""
    return list(dict.fromkeys(items))


def _first(values: Iterable[T | None]) -> T | None:
    """Return the first value that is not None and not 0; None if there is none."""
    return next((value for value in values if value), None)


def _cases_in_order(parts: Sequence[_Part]) -> list[CaseResult]:
    """Return the cases of all parts in the order of the whole check."""
    placed: list[tuple[int, CaseResult]] = []
    for part in parts:
        for turn, case in enumerate(part.report.cases):
            # A check deals its cases out in turn, one to each shard. Without shards all
            # places are 0, and the cases stay in their order.
            place = turn * part.shard_count + part.shard
            placed.append((place, case))
    placed.sort(key=lambda pair: pair[0])
    return [case for _, case in placed]


def _check_same_check(part: _Part, first: _Part) -> None:
    """Check that two parts are of one check."""
    # Case: a check of all cases has those of each shard, too.
    if bool(part.shard) != bool(first.shard):
        whole, shard = sorted([part, first], key=lambda item: item.shard)
        raise FileFormatError(
            f"{part.path}: all reports must be of shards or none of them, got shard"
            f" {shard.report.shard} in {shard.path} and no shard in {whole.path};"
            " run each with --shard"
        )
    check_same = partial(_check_same, part.path, first.path)
    check_same("the number of shards", part.shard_count, first.shard_count)
    check_same("onnxgather", part.report.onnxgather, first.report.onnxgather)
    names = [lane.name for lane in part.report.lanes]
    first_names = [lane.name for lane in first.report.lanes]
    check_same("the names of lanes", names, first_names)


def _check_apart(parts: Sequence[_Part]) -> None:
    """Check that no shard and no case is in two parts."""
    file_of: dict[Hashable, str] = {}
    for part in parts:
        items: dict[Hashable, str] = {}
        if part.shard:
            items[part.shard] = f"shard {part.report.shard}"
        for case in part.report.cases:
            items[case.name, case.wrapped] = f"case {shown(case.name)}"
        for key, what in items.items():
            if key in file_of:
                raise FileFormatError(
                    f"{part.path}: {what} must be in one report, got {file_of[key]} too"
                )
        for key in items:
            file_of[key] = part.path


def parse_shard(name: str, text: str) -> tuple[int, int]:
    """Return the number of a shard and how many there are, from a text such as `2/8`.

    Raises:
        FileFormatError: The text says something else; the message starts with `name`.
    """
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    if match is not None:
        number = int(match[1])
        count = int(match[2])
        if 1 <= number <= count:
            return number, count
    raise FileFormatError(
        f"{name} must be K/N with K from 1 to N and N below 10,000, got {shown(text)}"
    )


def _shard(path: str, report: Report) -> tuple[int, int]:
    """Return the shard of a report and how many there are; 0 and 0 if it is of none."""
    if report.shard is None:
        return 0, 0
    return parse_shard(f"{path}: $.shard", report.shard)


def _lane(parts: Sequence[_Part], number: int) -> LaneInfo:
    """Return a lane of the whole check; it did not start if it failed in any part."""
    lanes = [(part.path, part.report.lanes[number]) for part in parts]
    started = [(path, lane) for path, lane in lanes if lane.not_run is None]
    model_path, model = (started or lanes)[0]
    devices: list[str] = []
    not_run = None
    for path, lane in lanes:
        # A lane that did not start may not know its versions nor its target.
        fields = ("provider", "versions", "target", "provider_options")
        if lane.not_run:
            fields = ("provider",)
        for field in fields:
            what = f"the {field} of lane {shown(lane.name)}"
            got = getattr(lane, field)
            _check_same(path, model_path, what, got, getattr(model, field))
        devices.extend(lane.devices)
        if lane.not_run and not_run is None:
            not_run = f"{lane.not_run} (in {path})"
    return replace(
        model,
        devices=tuple(_distinct(devices)),
        not_run=not_run,
        at_exit=_first(lane.at_exit for _, lane in lanes),
        required=any(lane.required for _, lane in lanes),
    )


def _check_same(path: str, first: str, what: str, got: object, wanted: object) -> None:
    """Check that a report agrees with the first report in one fact."""
    if got != wanted:
        raise FileFormatError(
            f"{path}: {what} must be {shown(wanted)}, as in {first}, got {shown(got)}"
        )
