"""A whole check, from the start of the lanes to the report.

The lanes run the cases side by side.
"""

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
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from operator import methodcaller
from pathlib import Path
from queue import LifoQueue
from typing import Any

from msgspec.structs import replace

from onnxgather.checking.cases import Case, DescriptorCase, case_beside
from onnxgather.checking.judge import judge, result_of, with_beside, with_wrong_first
from onnxgather.checking.known_differences import (
    Known,
    explained,
    known_differences,
)
from onnxgather.checking.lanes import check_paths, open_lanes, split_lanes
from onnxgather.checking.lanes.lane import (
    CASE_TIMEOUT,
    Answer,
    AnswerKind,
    Lane,
    LaneInfo,
)
from onnxgather.checking.results import CaseResult, Report, Result, ResultKind
from onnxgather.core.checks import (
    check_choice,
    check_seconds,
    check_texts,
    mapping,
    shown,
)
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import located
from onnxgather.core.options import TARGETS, OutOfRange, Target
from onnxgather.core.output.result_states import BAD
from onnxgather.core.public import public
from onnxgather.core.version import __version__

_Judged = tuple[Result, list[Array | None]]
"""The result of a case on a lane, and the output of each of its runs that is wrong."""

_Waiting = tuple[Case, list[Future[_Judged | None]]]
"""A case, and its result on each lane as soon as it is there."""

Stop = Callable[[], str | None]
"""Return the name of the signal that ends a check early; None if there is none."""


MACHINE = f"{platform.system()} {platform.release()} {platform.machine()}"
"""Such as `Linux 6.1 x86_64`."""

MOST_EXAMPLES = 500
"""The most cases that passed whose inputs a report holds."""

LARGEST_TOTAL = 2**25
"""The most bytes of arrays that a report holds of all cases; half are for findings."""

AHEAD = 16
"""How many cases per job a lane may be ahead of the slowest lane.

The limit keeps memory flat.
"""

PAUSE = 0.1
"""Seconds between looks at whether the check is to stop."""


class Team:
    """Equal lanes that answer side by side, as one lane.

    Args:
        lanes: The lanes, not started.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.name = lanes[0].name
        self._lanes = lanes
        # Last in, first out, so that the lane that answered last runs the next case.
        self._idle: LifoQueue[Lane] = LifoQueue()
        for lane in reversed(lanes):
            self._idle.put(lane)

    @cached_property
    def info(self) -> LaneInfo:
        """What the lanes say of themselves; the first use starts them."""
        return self.start()

    def start(self) -> LaneInfo:
        """Start the lanes; describe the first, or a lane that cannot start."""
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            infos = [*pool.map(methodcaller("start"), self._lanes)]
        for info in infos:
            if info.not_run is not None:
                return info
        return infos[0]

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


@public
def check(
    desc: Descriptor,
    data: Any,
    indices: Any,
    out_of_range: OutOfRange = "clamp",
    lanes: str | Sequence[str] | None = None,
    target: Target | None = None,
    timeout: float = CASE_TIMEOUT,
    plugins: Mapping[str, str | Path] | None = None,
    adapters: Mapping[str, str | Path] | None = None,
    provider_options: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[Result, ...]:
    """Run a gather on lanes, and compare every output with the reference, bit for bit.

    Args:
        desc: Any of the four gather descriptors.
        data: InputTensor: an array of its `sizes`, or its 1-D buffer if it has strides;
            or nested lists of numbers.
        indices: IndicesTensor, likewise.
        out_of_range: What an index out of range does; see `OutOfRange`.
        lanes: The names of lanes, such as "openvino", in one text with commas or in a
            list. `check --help` lists them, and the forms of "NAME=PATH" for a lane
            that runs elsewhere, such as "openvino=env/bin/python". None is "cpu",
            unless there are plugins or adapters.
        target: Which models the lanes get; None is the target that suits each provider.
        timeout: Seconds that a lane may take.
        plugins: Plugin libraries that bring providers, by the names of these, such as
            {"MyExecutionProvider": "libmine.so"}; or the Python packages that have the
            libraries.
        adapters: Files of adapters for runtimes of one's own, by the names of their
            lanes, such as {"mine": "mine.py"}.
        provider_options: The providers' own options, by the names of their lanes, such
            as {"openvino": {"device_type": "CPU"}}.

    Returns:
        A result for each lane: `state` is PASS, DIFF, ERROR, NOT-RUN or KNOWN, and
        `reason` says why. The lane "directml-dll" knows no policy: where an index is
        out of range, DirectML's own formula judges it, and `by_directml` is True.

    Raises:
        OnnxGatherError: An argument is not as it must be.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
        >>> indices = np.array([[2, 7]], np.int64)
        >>> for result in og.check(desc, data, indices, lanes=["cpu"]):
        ...     print(result.lane, result.state)
        cpu PASS
    """
    timeout = check_seconds("timeout", timeout)
    case = DescriptorCase("gather", desc, data, indices, out_of_range)
    libraries = _paths("plugins", plugins)
    files = _paths("adapters", adapters)
    if lanes is None:
        lanes = () if libraries or files else "cpu"
    names, pythons = split_lanes(lanes)
    with located("lanes"):
        check_paths("lane", pythons.values())
    if target is not None:
        target = check_choice("target", target, TARGETS)
    settings: dict[str, dict[str, str]] = {}
    for name, options in mapping("provider_options", provider_options).items():
        settings[name] = check_texts(f"provider_options[{shown(name)}]", options)
    opened = open_lanes(
        names,
        pythons,
        libraries,
        target,
        timeout,
        files,
        provider_options=settings,
    )
    try:
        report = check_all([case], opened)
    finally:
        _close(opened)
    return report.cases[0].results


def _paths(argument: str, value: object) -> dict[str, str]:
    """Return the paths of an argument of `check` by their names, checked."""
    paths = check_texts(argument, value)
    with located(argument):
        check_paths(argument.removesuffix("s"), paths.values())
    return paths


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
        lanes: The lanes, not started. They stay open, unless the check ends early.
        required: The names of the lanes that must run every case.
        seen: Called with the results of each case as they come.
        known: The known differences; None means those that come with onnxgather.
        planned: How many cases are to come; 0 means as many as do.
        jobs: How many cases a lane runs at once.
        maxfail: The check ends after so many findings; None means never.
        stop: When it names a signal, the check ends. The report then has the cases that
            every lane had answered before.
    """
    infos = _started(lanes, required, stop)
    results: list[CaseResult] = []
    room = _Room()
    findings = 0
    with closing(check_cases(cases, lanes, infos, known, jobs, stop)) as case_results:
        for case_result in case_results:
            bad = sum(result.state in BAD for result in case_result.results)
            case_result = room.fitted(case_result, is_finding=bad > 0)
            results.append(case_result)
            seen(case_result)
            findings += bad
            if maxfail and findings >= maxfail:
                break
    # A check whose last case is its last finding did not end early.
    ended_early = maxfail and findings >= maxfail and len(results) < planned
    return Report(
        onnxgather=__version__,
        made=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=f"{MACHINE}, {os.cpu_count()} cores",
        lanes=infos,
        cases=results,
        planned=max(planned, len(results)),
        interrupted=stop(),
        maxfail=maxfail if ended_early else None,
        without_evidence=room.left_out,
    )


class _Room:
    """The room in a report for the arrays of cases."""

    def __init__(self) -> None:
        self._bytes_left = LARGEST_TOTAL
        self._examples_left = MOST_EXAMPLES
        self.left_out = 0
        """How many cases lost their evidence."""

    def fitted(self, case_result: CaseResult, *, is_finding: bool) -> CaseResult:
        """Return the results of a case, without the arrays that have no room."""
        evidence = case_result.evidence
        if evidence is not None:
            # Cases without findings leave half of the room to those with findings.
            kept_free = 0 if is_finding else LARGEST_TOTAL // 2
            bytes_left = self._bytes_left - evidence.size
            if bytes_left >= kept_free:
                self._bytes_left = bytes_left
            else:
                self.left_out += 1
                case_result = replace(case_result, evidence=None)
        if case_result.example is not None:
            if self._examples_left > 0:
                self._examples_left -= 1
            else:
                case_result = replace(case_result, example=None)
        return case_result


def _started(
    lanes: Sequence[Lane], required: Collection[str], stop: Stop
) -> tuple[LaneInfo, ...]:
    """Start the lanes side by side, and return what each says of itself."""

    def start(lane: Lane) -> LaneInfo:
        info = replace(lane.start(), required=lane.name in required)
        signal = stop()
        if signal:
            info = replace(info, not_run=f"interrupted by {signal}")
        return info

    with ThreadPoolExecutor(len(lanes) or 1) as pool:
        futures = [pool.submit(start, lane) for lane in lanes]
        while not stop() and not _done(futures):
            pass
        # A lane that is closed while it starts does not keep the check waiting.
        if stop():
            _close(lanes)
        return tuple(future.result() for future in futures)


def check_cases(
    cases: Iterable[Case],
    lanes: Sequence[Lane],
    infos: Sequence[LaneInfo],
    known: Sequence[Known] | None,
    jobs: int = 1,
    stop: Stop = lambda: None,
) -> Generator[CaseResult]:
    """Run every case on every lane, and yield the results in order.

    The lanes run side by side.

    Args:
        cases: The cases.
        lanes: The lanes, started. They are closed if cases still wait for answers at
            the end.
        infos: What each lane said when it started.
        known: The known differences; None means those that come with onnxgather.
        jobs: As for `check_all`.
        stop: As for `check_all`.
    """

    def judged(case: Case, lane: Lane, info: LaneInfo) -> _Judged | None:
        """Run a case on a lane; None if a signal comes before its answer."""
        if stop():
            return None
        result = ask(case, lane, info, known)
        if stop():  # the answer may be that of a lane that was closed
            return None
        return result

    pools = [ThreadPoolExecutor(jobs) for _ in lanes]
    waiting: deque[_Waiting] = deque()
    remaining = iter(cases)
    try:
        while not stop():
            case = None
            if len(waiting) <= AHEAD * jobs:
                case = next(remaining, None)
            # Case 1: the lanes may get another case.
            if case is not None:
                futures = [
                    pool.submit(judged, case, lane, info)
                    for pool, lane, info in zip(pools, lanes, infos, strict=True)
                ]
                waiting.append((case, futures))
                continue
            # Case 2: all is done.
            if not waiting:
                break
            # Case 3: wait for the results of the first case.
            case, futures = waiting[0]
            if _done(futures):
                waiting.popleft()
                yield from _case_result(case, futures)
    finally:
        answered = [item for item in waiting if all(f.done() for f in item[1])]
        if waiting:
            _close(lanes)
        for pool in pools:
            pool.shutdown(cancel_futures=True)
    # After a signal: the cases that every lane had answered by then.
    for case, futures in answered:
        yield from _case_result(case, futures)


def _close(lanes: Sequence[Lane]) -> None:
    """End lanes without waiting for a lane that hangs."""
    for lane in lanes:
        lane.close()


def _done(futures: Sequence[Future[Any]]) -> bool:
    """Return whether all are done, now or after a pause."""
    return not wait(futures, PAUSE).not_done


def _case_result(
    case: Case, futures: Sequence[Future[_Judged | None]]
) -> Iterator[CaseResult]:
    """Yield the results of a case if every lane has judged it."""
    results: list[Result] = []
    got: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for judged in [future.result() for future in futures]:
        if judged is None:  # a signal came before the answer
            return
        result, outputs = judged
        results.append(result)
        for got_of_run, output in zip(got, outputs, strict=False):
            if output is not None:
                got_of_run[result.lane] = output
    yield CaseResult.of(case, _shared(tuple(results)), *got)


@lru_cache(1024)
def _shared(results: tuple[Result, ...]) -> tuple[Result, ...]:
    """Return the same object for equal results, as thousands of cases pass alike."""
    return results


def ask(
    case: Case, lane: Lane, info: LaneInfo, known: Sequence[Known] | None = None
) -> _Judged:
    """Run a case on a lane, and the valid case beside a case that must be refused.

    Return the result, and the output of each run if that is wrong.

    Args:
        case: The case.
        lane: The lane, started.
        info: What the lane said when it started.
        known: The known differences; None means those that come with onnxgather.
    """
    # No known difference explains a lane that did not start.
    if info.not_run is not None:
        return result_of(info, ResultKind.NOT_STARTED, reason=info.not_run), []

    answer = with_wrong_first(case, lane.answer(case))
    result = judge(case, info, answer)
    wrong_output = None
    if result.state == "DIFF":
        wrong_output = answer.output
    # A lane that runs each case twice has the second output already.
    if wrong_output is not None and answer.again is None:
        result = _run_again(case, lane, result, wrong_output)
    if known is None:
        known = known_differences()
    result = explained(result, case, info, known, answer.output)

    valid = case_beside(case)
    # Case: the case need not be refused, or the lane does not run it.
    if valid is None or answer.by_directml or answer.kind is AnswerKind.NOT_RUN:
        return result, [wrong_output]
    beside, outputs = ask(valid, lane, info, known)
    return with_beside(result, beside), [wrong_output, *outputs]


def _run_again(case: Case, lane: Lane, result: Result, output: Array) -> Result:
    """Return a wrong result, with a note if a second run returns another output."""
    second_output = lane.answer(case).output
    if second_output is not None and content_of(second_output) == content_of(output):
        return result
    reason = f"{result.reason}; a second run returned something else"
    return replace(result, unsteady=True, reason=reason)
