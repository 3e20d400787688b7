"""A whole check: lanes started, cases asked, results gathered in a report."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from msgspec.structs import replace

from onnxgather.cases import Case
from onnxgather.lanes.lane import Lane, LaneInfo
from onnxgather.model import VERSION
from onnxgather.parity.compare import check_cases
from onnxgather.parity.known import Known
from onnxgather.parity.results import CaseResult, Report


def check(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    required: Collection[str] = (),
    seen: Callable[[CaseResult], object] = lambda _: None,
    known: Sequence[Known] | None = None,
) -> Report:
    """Ask every case of every lane and return the report.

    Args:
        cases: The cases.
        lanes: The lanes, not started; they stay open.
        required: The names of the lanes that must run.
        seen: Called with each result as it comes.
        known: The known differences; None means those that come with onnxgather.
    """
    results: list[CaseResult] = []
    infos = start_lanes(lanes, required)
    for result in check_cases(cases, lanes, infos, known):
        results.append(result)
        seen(result)
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    machine = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Report(VERSION, made, f"{machine}, {os.cpu_count()} cores", infos, results)


def start_lanes(lanes: Sequence[Lane], required: Collection[str] = ()) -> tuple[LaneInfo, ...]:
    """Start lanes side by side and return who they are."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        starting = [pool.submit(lane.start) for lane in lanes]
        infos = [future.result() for future in starting]
    return tuple(replace(info, required=info.name in required) for info in infos)
