"""A whole check: lanes started, cases run on them side by side, results gathered in a report."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

from msgspec.structs import replace

from onnxgather.arrays import Array
from onnxgather.cases import Case, NodeCase, allowed_beside
from onnxgather.lanes.lane import Lane, LaneInfo
from onnxgather.model import VERSION
from onnxgather.parity.judge import KINDS, judge, result_of
from onnxgather.parity.known import Known, explained, known_differences
from onnxgather.parity.results import CaseResult, Report, Result, ResultKind

AHEAD = 16
"""How many cases a lane may be ahead of the slowest one; the limit keeps memory flat."""


def check(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    required: Collection[str] = (),
    seen: Callable[[CaseResult], object] = lambda _: None,
    known: Sequence[Known] | None = None,
) -> Report:
    """Run every case on every lane.

    Args:
        cases: The cases.
        lanes: The lanes, not started; they stay open.
        required: The names of the lanes that must run every case.
        seen: Called with the results of each case as they come.
        known: The known differences; None means those that come with onnxgather.
    """
    with ThreadPoolExecutor(len(lanes)) as pool:
        started = [pool.submit(lane.start) for lane in lanes]
        infos = [future.result() for future in started]
    infos = tuple(replace(info, required=info.name in required) for info in infos)
    results: list[CaseResult] = []
    for result in check_cases(cases, lanes, infos, known):
        results.append(result)
        seen(result)
    made = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    machine = f"{platform.system()} {platform.release()} {platform.machine()}"
    return Report(VERSION, made, f"{machine}, {os.cpu_count()} cores", infos, results)


def check_cases(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    infos: Sequence[LaneInfo],
    known: Sequence[Known] | None = None,
) -> Iterator[CaseResult]:
    """Run every case on every lane, the lanes side by side, and yield the results in order.

    Args:
        cases: The cases.
        lanes: The lanes, started.
        infos: What each lane said when it started.
        known: The known differences; None means those that come with onnxgather.
    """
    pools = [ThreadPoolExecutor(1) for _ in lanes]
    waiting: deque[tuple[Case, list[Future[tuple[Result, Array | None]]]]] = deque()
    try:
        for case in cases:
            asked = zip(pools, lanes, infos, strict=True)
            waiting.append((case, [p.submit(ask, case, a, b, known) for p, a, b in asked]))
            if len(waiting) > AHEAD:
                yield _collected(*waiting.popleft())
        while waiting:
            yield _collected(*waiting.popleft())
    except (Exception, KeyboardInterrupt):
        for lane in lanes:  # without waiting for a lane that hangs
            lane.close()
        raise
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def _collected(case: Case, futures: list[Future[tuple[Result, Array | None]]]) -> CaseResult:
    judged = [future.result() for future in futures]
    got = {result.lane: array for result, array in judged if array is not None}
    return CaseResult.of(case, tuple(result for result, _ in judged), got)


def ask(
    case: Case, lane: Lane, info: LaneInfo, known: Sequence[Known] | None = None
) -> tuple[Result, Array | None]:
    """Run a case on a lane; return the result, and the output of the lane if it is wrong.

    Args:
        case: The case.
        lane: The lane, started.
        info: What the lane said when it started.
        known: The known differences; None means those that come with onnxgather.
    """
    if info.not_run is not None:  # no known difference explains a lane that did not start
        return result_of(info, ResultKind.NOT_STARTED, reason=info.not_run), None
    answer = lane.answer(case)
    result = judge(case, info, answer)
    if isinstance(case, NodeCase) and result.state == "PASS":
        allowed = allowed_beside(case)
        proof = judge(allowed, info, lane.answer(allowed))
        if proof.state != "PASS":
            reason = f"refused, but an allowed node of the kind does not run either: {proof.reason}"
            kind = ResultKind.UNPROVED
            result = replace(proof, kind=kind, state=KINDS[kind][0], reason=reason, nodes=())
    wrong = answer.output if result.state == "DIFF" else None
    if wrong is not None:
        again = lane.answer(case).output
        if again is None or again.tobytes() != wrong.tobytes():
            reason = f"{result.reason}; a second run returned something else"
            result = replace(result, unsteady=True, reason=reason)
    known = known_differences() if known is None else known
    return explained(result, case, info, known), wrong
