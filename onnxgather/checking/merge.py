"""The reports of the parts of a check as the report of the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import CaseResult, Report
from onnxgather.core.checks import shown
from onnxgather.core.errors import FileFormatError


def merge(reports: Sequence[tuple[str, Report]]) -> tuple[Report, list[str]]:
    """One report from the reports of parts of a check, and the shards that it lacks.

    The lanes must agree in name, provider, versions and target, as a result stands for
    what its lane says of itself. Where shards are missing, `shard` of the report names
    those that are there.

    Args:
        reports: The reports, at least one, each behind its file.

    Raises:
        FileFormatError: The reports are not of parts of one check.
    """
    start, first = reports[0]
    _, count = _shard(start, first)
    numbers: set[int] = set()
    placed: list[tuple[int, CaseResult]] = []
    for path, report in reports:
        number, of = _shard(path, report)
        _check_same(path, start, "the number of shards", of, count)
        _check_same(path, start, "onnxgather", report.onnxgather, first.onnxgather)
        names = [[lane.name for lane in one.lanes] for one in (report, first)]
        _check_same(path, start, "the names of lanes", *names)
        numbers.add(number)
        # A check deals its cases out in turn.
        placed += [(k * count + number, case) for k, case in enumerate(report.cases)]
    _check_apart(reports)
    missing = [f"{k}/{count}" for k in range(1, count + 1) if k not in numbers]
    every = [report for _, report in reports]
    whole = replace(
        first,
        made=max(report.made for report in every),
        machine="; ".join(dict.fromkeys(report.machine for report in every)),
        lanes=tuple(_lane(reports, k) for k in range(len(first.lanes))),
        cases=[case for _, case in sorted(placed, key=lambda pair: pair[0])],
        invalid=list(
            dict.fromkeys(found for report in every for found in report.invalid)
        ),
        unusable=list(
            dict.fromkeys(found for report in every for found in report.unusable)
        ),
        planned=sum(report.planned for report in every),
        interrupted=next((one.interrupted for one in every if one.interrupted), None),
        without_evidence=sum(report.without_evidence for report in every),
        maxfail=next((one.maxfail for one in every if one.maxfail), None),
        shard=f"{','.join(map(str, sorted(numbers)))}/{count}" if missing else None,
    )
    return whole, missing


def _check_apart(reports: Sequence[tuple[str, Report]]) -> None:
    """Check that no shard and no case is in two reports, nor a case twice in one."""
    seen: dict[object, str] = {}
    for path, report in reports:
        number, _ = _shard(path, report)
        keys: dict[object, str] = {number: f"shard {report.shard}"} if number else {}
        keys |= {
            (case.name, case.wrapped): f"case {shown(case.name)}"
            for case in report.cases
        }
        for key, what in keys.items():
            if key in seen:
                raise FileFormatError(
                    f"{path}: {what} must be in one report, got {seen[key]} too"
                )
        seen |= dict.fromkeys(keys, path)


def parse_shard(name: str, text: str) -> tuple[int, int]:
    """The number of a shard and how many there are, as `2/8` says it.

    Raises:
        FileFormatError: The text says something else; the message starts with `name`.
    """
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        rule = f"{name} must be K/N with K from 1 to N and N below 10,000"
        raise FileFormatError(f"{rule}, got {shown(text)}")
    return int(found[1]), int(found[2])


def _shard(path: str, report: Report) -> tuple[int, int]:
    """Which shard a report is, and of how many; 0 and 0 where it is of none."""
    if report.shard is None:
        return 0, 0
    return parse_shard(f"{path}: $.shard", report.shard)


def _lane(reports: Sequence[tuple[str, Report]], number: int) -> LaneInfo:
    """A lane of all reports; it did not start where it did not start in one of them."""
    lanes = [(path, report.lanes[number]) for path, report in reports]
    first, start = next((pair for pair in lanes if pair[1].not_run is None), lanes[0])
    for path, lane in lanes:
        for field in (
            ("provider",) if lane.not_run else ("provider", "versions", "target")
        ):
            what = f"the {field} of lane {shown(lane.name)}"
            _check_same(path, first, what, getattr(lane, field), getattr(start, field))
    stopped = (f"{lane.not_run} (in {path})" for path, lane in lanes if lane.not_run)
    return replace(
        start,
        devices=tuple(
            dict.fromkeys(device for _, lane in lanes for device in lane.devices)
        ),
        not_run=next(stopped, None),
        required=any(lane.required for _, lane in lanes),
    )


def _check_same(path: str, first: str, what: str, got: object, wanted: object) -> None:
    if got != wanted:
        rule = f"{what} must be {shown(wanted)}, as in {first}"
        raise FileFormatError(f"{path}: {rule}, got {shown(got)}")
