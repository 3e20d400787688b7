"""The reports of the parts of a check as the report of the whole."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import reduce
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

    Reports of the same lanes are of shards of one check, or of other cases. Reports of
    other lanes stand side by side: a case has the results of all lanes that were asked.
    A lane of several reports must agree in provider, versions, target and options, as a
    result stands for what its lane says of itself. If shards are missing, `shard` of
    the report names those that are there.

    Args:
        reports: The reports, at least one, each behind its file.

    Raises:
        FileFormatError: The reports are not of parts of one check.
    """
    by_lanes: dict[tuple[str, ...], list[_Part]] = {}
    for path, report in reports:
        part = _Part(path, report, *_shard(path, report))
        same_lanes = by_lanes.setdefault(tuple(lane.name for lane in report.lanes), [])
        same_lanes.append(part)
    wholes: list[_Part] = []
    missing: list[str] = []
    for lanes, parts in by_lanes.items():
        whole, shards = _merge_shards(parts)
        wholes.append(_Part(parts[0].path, whole, 0, 0))
        of_lanes = f" of {', '.join(lanes)}" if len(by_lanes) > 1 else ""
        missing += [f"{shard}{of_lanes}" for shard in shards]
    if len(wholes) == 1:
        return wholes[0].report, missing
    return _side_by_side(wholes), missing


def _merge_shards(parts: Sequence[_Part]) -> tuple[Report, list[str]]:
    """Return one report from parts with the same lanes, and the missing shards."""
    for part in parts:
        _check_same_check(part, parts[0])
    _check_apart(parts)

    count = parts[0].shard_count
    present = {part.shard for part in parts}
    missing = [f"{k}/{count}" for k in range(1, count + 1) if k not in present]
    shard = None
    if missing:
        shard = f"{','.join(map(str, sorted(present)))}/{count}"
    planned = sum(part.report.planned for part in parts)
    whole = _whole(parts, _cases_in_order(parts))
    return replace(whole, planned=planned, shard=shard), missing


def _side_by_side(parts: Sequence[_Part]) -> Report:
    """Return one report from reports of other lanes."""
    cases: dict[Hashable, CaseResult] = {}
    for part in parts:
        _check_same_version(part, parts[0])
        for case in part.report.cases:
            key = _key(case)
            if key in cases:
                case = _with_results(cases[key], case, part.path)
            cases[key] = case
    whole = _whole(parts, [*cases.values()])
    names = [lane.name for lane in whole.lanes]
    sorted_cases: list[CaseResult] = []
    for case in whole.cases:
        results = sorted(case.results, key=lambda result: names.index(result.lane))
        sorted_cases.append(replace(case, results=tuple(results)))
    every = [part.report for part in parts]
    not_asked = sum(report.planned - len(report.cases) for report in every)
    shards = _distinct(report.shard for report in every if report.shard)
    return replace(
        whole,
        cases=sorted_cases,
        planned=len(cases) + not_asked,
        shard=", ".join(shards) or None,
    )


def _with_results(case: CaseResult, other: CaseResult, path: str) -> CaseResult:
    """Return a case with the results of another report, too.

    Args:
        case: The case.
        other: The same case on other lanes.
        path: The file of the other report.
    """
    lanes = {result.lane for result in case.results}
    twice = [result.lane for result in other.results if result.lane in lanes]
    if twice:
        raise FileFormatError(
            f"{path}: case {shown(case.name)} must be in one report for lane"
            f" {shown(twice[0])}, got two"
        )
    results = (*case.results, *other.results)
    evidence = case.evidence or case.example
    evidence_of_other = other.evidence or other.example
    if evidence is None:
        evidence = evidence_of_other
    elif evidence_of_other is not None:
        evidence = replace(
            evidence,
            got=evidence.got | evidence_of_other.got,
            got_beside=evidence.got_beside | evidence_of_other.got_beside,
        )
    return _with_evidence(
        replace(case, results=results, evidence=None, example=evidence)
    )


def _whole(parts: Sequence[_Part], cases: list[CaseResult]) -> Report:
    """Return the report of all parts, but for what it says of shards."""
    every = [part.report for part in parts]
    names = _distinct(lane.name for report in every for lane in report.lanes)
    invalid = [item for report in every for item in report.invalid]
    unusable = [reason for report in every for reason in report.unusable]
    return replace(
        every[0],
        made=max(report.made for report in every),
        machine="; ".join(_distinct(report.machine for report in every)),
        lanes=tuple(_lane(parts, name) for name in names),
        cases=with_fixed(cases),
        invalid=_distinct(invalid),
        unusable=_distinct(unusable),
        interrupted=_first(report.interrupted for report in every),
        without_evidence=sum(report.without_evidence for report in every),
        maxfail=_first(report.maxfail for report in every),
    )


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
        for lane, result in report.answers(case):
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
    what = "the number of shards"
    _check_same(part.path, first.path, what, part.shard_count, first.shard_count)
    _check_same_version(part, first)


def _check_same_version(part: _Part, first: _Part) -> None:
    """Check that two parts are of one version of onnxgather."""
    versions = (part.report.onnxgather, first.report.onnxgather)
    _check_same(part.path, first.path, "onnxgather", *versions)


def _key(case: CaseResult) -> Hashable:
    """Return what tells a case from all others."""
    return case.name, case.wrapped, case.out_of_range


def _check_apart(parts: Sequence[_Part]) -> None:
    """Check that no shard and no case is in two parts."""
    file_of: dict[Hashable, str] = {}
    for part in parts:
        items: dict[Hashable, str] = {}
        if part.shard:
            items[part.shard] = f"shard {part.report.shard}"
        for case in part.report.cases:
            items[_key(case)] = f"case {shown(case.name)}"
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


def _lane(parts: Sequence[_Part], name: str) -> LaneInfo:
    """Return a lane of the whole check; it did not start if it failed in any part."""
    lanes: list[tuple[str, LaneInfo]] = []
    for part in parts:
        of_name = [lane for lane in part.report.lanes if lane.name == name]
        lanes += [(part.path, lane) for lane in of_name]
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
            not_run = lane.not_run
            if len(lanes) > 1:
                not_run = f"{not_run} (in {path})"
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
