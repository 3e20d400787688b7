"""A whole check: lanes started, cases run on them side by side, results gathered in a report."""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from queue import LifoQueue
from typing import Any, TypeAlias

from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase, allowed_beside
from onnxgather.checking.judge import KINDS, judge, result_of
from onnxgather.checking.known_differences import Known, explained, known_differences
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.lanes.lane import CASE_TIMEOUT, Answer, Lane, LaneInfo
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import check_choice, check_name, sequence
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.model.write import VERSION
from onnxgather.core.options import TARGETS, OutOfRange, Target
from onnxgather.core.output.result_states import BAD

_Judged: TypeAlias = tuple[Result, Array | None]
"""The result of a case on a lane, and the output of the lane if it is wrong."""

Stop: TypeAlias = Callable[[], str | None]
"""The name of the signal that asks a check to end early; None where there is none."""


MACHINE = f"{platform.system()} {platform.release()} {platform.machine()}"
"""Such as `Linux 6.1 x86_64`."""

MOST_EXAMPLES = 500
"""The most cases that passed whose inputs a report holds."""

LARGEST_TOTAL = 2**25
"""The most bytes of arrays that a report holds of all cases; half of them are for
findings."""

AHEAD = 16
"""How many cases per job a lane may be ahead of the slowest one; the limit keeps memory
flat."""

PAUSE = 0.1
"""Seconds between looks at whether the check is to stop."""


class Team:
    """Equal lanes that answer side by side, as one lane.

    Args:
        lanes: The lanes, not started.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes, self.name = lanes, lanes[0].name
        self._idle: LifoQueue[Lane] = (
            LifoQueue()
        )  # so that the lane asked last is asked next
        for lane in reversed(lanes):
            self._idle.put(lane)

    @cached_property
    def info(self) -> LaneInfo:
        """What the lanes say of themselves; they start when it is first asked."""
        return self.start()

    def start(self) -> LaneInfo:
        """Start the lanes; describe the first, or one that cannot start."""
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            started = [pool.submit(lane.start) for lane in self._lanes]
        infos = [future.result() for future in started]
        return next((info for info in infos if info.not_run is not None), infos[0])

    def answer(self, case: Case) -> Answer:
        """Run a case on a lane that is idle."""
        lane = self._idle.get()
        try:
            return lane.answer(case)
        finally:
            self._idle.put(lane)

    def close(self) -> None:
        """End the lanes."""
        _close(self._lanes)


def check(
    desc: Descriptor,
    data: Array,
    indices: Array,
    out_of_range: OutOfRange = "clamp",
    lanes: Sequence[str] = ("cpu",),
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
) -> tuple[Result, ...]:
    """Run a gather on lanes, and compare what each gives with the reference, bit for bit.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer where it has strides.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does; see `OutOfRange`.
        lanes: The names of providers, such as "openvino"; "directml-dll" is DirectML itself.
        target: Which models the lanes get; None is the target that suits each provider.
        timeout: Seconds that a lane may take.

    Returns:
        A result for each lane: `state` is PASS, DIFF, ERROR, NOT-RUN or KNOWN, and `reason` says
        why.

    Raises:
        OnnxGatherError: An argument is not as it must be.
    """
    case = DescriptorCase("gather", desc, data, indices, out_of_range)
    for k, name in enumerate(lanes := sequence("lanes", lanes)):
        check_name(f"lanes[{k}]", name)
    if target is not None:
        check_choice("target", target, TARGETS)
    opened = open_lanes(lanes, target=target, timeout=timeout)
    try:
        return check_all([case], opened).cases[0].results
    finally:
        _close(opened)


def check_all(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    required: Collection[str] = (),
    seen: Callable[[CaseResult], object] = lambda _: None,
    known: Sequence[Known] | None = None,
    planned: int = 0,
    jobs: int = 1,
    maxfail: int | None = None,
    stop: Stop = lambda: None,
) -> Report:
    """Run every case on every lane.

    Args:
        cases: The cases.
        lanes: The lanes, not started; they stay open, unless the check ends early.
        required: The names of the lanes that must run every case.
        seen: Called with the results of each case as they come.
        known: The known differences; None means those that come with onnxgather.
        planned: How many cases are to come; 0 means as many as do.
        jobs: How many cases a lane is asked at once.
        maxfail: The check ends after so many findings; None means never.
        stop: When it names a signal, the check ends. The report then has the cases that every
            lane had answered before.
    """
    infos = _started(lanes, required, stop)
    results: list[CaseResult] = []
    room, left_out, findings, examples = LARGEST_TOTAL, 0, 0, 0
    with closing(check_cases(cases, lanes, infos, known, jobs, stop)) as found:
        for result in found:
            bad = sum(one.state in BAD for one in result.results)
            room -= result.evidence.size if result.evidence else 0
            if result.evidence and room < (0 if bad else LARGEST_TOTAL // 2):
                room += result.evidence.size
                result, left_out = replace(result, evidence=None), left_out + 1
            if result.example and (examples := examples + 1) > MOST_EXAMPLES:
                result = replace(result, example=None)
            results.append(result)
            seen(result)
            findings += bad
            if maxfail and findings >= maxfail:
                break
    return Report(
        onnxgather=VERSION,
        made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=f"{MACHINE}, {os.cpu_count()} cores",
        lanes=infos,
        cases=results,
        planned=max(planned, len(results)),
        interrupted=stop(),
        maxfail=(
            maxfail
            if maxfail and findings >= maxfail and len(results) < planned
            else None
        ),
        without_evidence=left_out,
    )


def _started(
    lanes: Sequence[Lane], required: Collection[str], stop: Stop
) -> tuple[LaneInfo, ...]:
    """Start the lanes side by side; what each says of itself."""

    def start(lane: Lane) -> LaneInfo:
        info = replace(lane.start(), required=lane.name in required)
        return (
            replace(info, not_run=f"interrupted by {name}")
            if (name := stop())
            else info
        )

    with ThreadPoolExecutor(len(lanes) or 1) as pool:
        started = [pool.submit(start, lane) for lane in lanes]
        while not (stop() or _done(started)):
            pass
        _close(lanes if stop() else ())
        return tuple(future.result() for future in started)


def check_cases(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    infos: Sequence[LaneInfo],
    known: Sequence[Known] | None = None,
    jobs: int = 1,
    stop: Stop = lambda: None,
) -> Generator[CaseResult]:
    """Run every case on every lane, the lanes side by side, and yield the results in order.

    Args:
        cases: The cases.
        lanes: The lanes, started; they are closed if cases still wait for answers at the end.
        infos: What each lane said when it started.
        known: The known differences; None means those that come with onnxgather.
        jobs: As for `check_all`.
        stop: As for `check_all`.
    """

    def asked(case: Case, lane: Lane, info: LaneInfo) -> _Judged | None:
        """Ask a lane; None if a signal comes before, or while the lane answers."""
        judged = None if stop() else ask(case, lane, info, known)
        return None if stop() else judged

    pools = [ThreadPoolExecutor(jobs) for _ in lanes]
    waiting: deque[tuple[Case, list[Future[_Judged | None]]]] = deque()
    left = iter(cases)
    try:
        while not stop():
            if len(waiting) <= AHEAD * jobs and (case := next(left, None)) is not None:
                each = zip(pools, lanes, infos, strict=True)
                waiting.append(
                    (case, [p.submit(asked, case, a, b) for p, a, b in each])
                )
            elif not waiting:
                break
            elif _done(waiting[0][1]):
                yield from _collected(*waiting.popleft())
    finally:
        answered = [
            each for each in waiting if all(future.done() for future in each[1])
        ]
        if waiting:
            _close(lanes)
        for pool in pools:
            pool.shutdown(cancel_futures=True)
    for case, futures in answered:
        yield from _collected(case, futures)


def _close(lanes: Sequence[Lane]) -> None:
    """End lanes without waiting for one that hangs."""
    for lane in lanes:
        lane.close()


def _done(futures: Sequence[Future[Any]]) -> bool:
    """Whether all are done, or are so after a pause."""
    return not wait(futures, PAUSE).not_done


def _collected(
    case: Case, futures: Sequence[Future[_Judged | None]]
) -> Iterator[CaseResult]:
    """Yield the results of a case if every lane has judged it."""
    judged = [found for future in futures if (found := future.result())]
    if len(judged) == len(futures):
        got = {result.lane: array for result, array in judged if array is not None}
        yield CaseResult.of(case, _shared(tuple(result for result, _ in judged)), got)


@lru_cache(1024)
def _shared(results: tuple[Result, ...]) -> tuple[Result, ...]:
    """The same object for equal results, as thousands of cases pass alike."""
    return results


def ask(
    case: Case, lane: Lane, info: LaneInfo, known: Sequence[Known] | None = None
) -> _Judged:
    """Run a case on a lane; return the result, and the output of the lane if it is wrong.

    Args:
        case: The case.
        lane: The lane, started.
        info: What the lane said when it started.
        known: The known differences; None means those that come with onnxgather.
    """
    if (
        info.not_run is not None
    ):  # no known difference explains a lane that did not start
        return result_of(info, ResultKind.NOT_STARTED, reason=info.not_run), None
    answer = lane.answer(case)
    result = judge(case, info, answer)
    if isinstance(case, NodeCase) and result.state == "PASS":
        allowed = allowed_beside(case)
        proof = judge(allowed, info, lane.answer(allowed))
        if proof.state != "PASS":
            reason = (
                "refused, but an allowed node of the kind does not run either:"
                f" {proof.reason}"
            )
            kind = ResultKind.UNPROVED
            result = replace(
                proof, kind=kind, state=KINDS[kind][0], reason=reason, nodes=()
            )
    wrong = answer.output if result.state == "DIFF" else None
    if wrong is not None:
        again = lane.answer(case).output
        if again is None or again.tobytes() != wrong.tobytes():
            reason = f"{result.reason}; a second run returned something else"
            result = replace(result, unsteady=True, reason=reason)
    known = known_differences() if known is None else known
    return explained(result, case, info, known), wrong
