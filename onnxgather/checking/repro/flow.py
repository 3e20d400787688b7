"""From a case and a lane to a repro: run the case, reduce it, write the folder, try its script."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxgather.checking.cases import Case
from onnxgather.checking.judge import judge, result_of
from onnxgather.checking.lanes.lane import Lane, LaneInfo
from onnxgather.checking.lanes.python import ModelLane, given_to
from onnxgather.checking.repro.folder import (
    REPRO,
    Difference,
    Trial,
    runnable,
    trials_of,
    write_folder,
)
from onnxgather.checking.repro.reduce import Fault, reduce_case
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.checks import shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.kernels import operators_of
from onnxgather.core.execution.providers import target_of

LONGEST_RUN = 120.0
"""The most seconds that a repro.py may take when it is tried."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case on a lane, and whether its repro shows it."""

    text: str
    """One sentence for people."""
    result: Result
    """PASS, NOT-RUN, or the DIFF or ERROR that the folder shows."""
    case: Case
    """The case in the folder; the case that was given if no folder was written."""
    folder: str | None = None
    shown: bool = False
    """Whether the folder's repro.py, run by the lane's interpreter, showed the
    difference. Where the lane has no interpreter, whether the lane showed it."""
    stop: BaseException | None = None
    """What interrupted the search for a smaller case, if anything did."""


def make_repro(
    case: Case,
    lane: Lane,
    folder: str,
    *,
    reported: LaneInfo | None = None,
    reduce: bool = True,
    tried: Callable[[], object] = lambda: None,
) -> Outcome:
    """Run a case on a lane; where it is wrong, reduce it, write a folder, and run its repro.py.

    Args:
        case: The case.
        lane: The lane, not started; the caller closes it.
        folder: The folder of the repro: new, empty or an earlier repro.
        reported: The lane as a report describes it, if `lane` runs in this environment instead.
        reduce: Whether to reduce the case.
        tried: Called after each smaller case that was run.

    Raises:
        OnnxGatherError: The folder holds other files or cannot be written, or the lane runs no
            ONNX model.
    """
    REPRO.check(folder)
    info, result = _find(case, lane, reported)
    if not result.is_wrong:
        return Outcome(_nothing_wrong(case, info, result), result, case)
    assert isinstance(lane, ModelLane), "`_find` takes no other"
    found, stop = [Difference(case, info, result)], None
    try:
        if reduce:
            _reduce(found, lane, tried)
        attempt = _show(found[-1], lane)
    except KeyboardInterrupt as error:
        how = "interrupted: smaller cases may show it too, and repro.py was not tried"
        attempt, stop = _Attempt(_trials(found[-1].case, lane)[-1], how, False), error
    smallest = found[-1]
    write_folder(folder, smallest, attempt.trial, attempt.printed)
    text = f"{folder}: {smallest.title}; {attempt.how}"
    return Outcome(text, smallest.result, smallest.case, folder, attempt.is_shown, stop)


def _find(case: Case, lane: Lane, reported: LaneInfo | None) -> tuple[LaneInfo, Result]:
    """Start a lane and run a case on it; the arguments and errors are those of `make_repro`."""
    info = lane.start()
    if info.target is None:
        rule = (
            "runs descriptors, not models; repro needs a provider's lane, such as"
            " directml"
        )
        raise OnnxGatherError(f"lane {shown(info.name)} {rule}")
    not_run = info.not_run if reported is None else _why_not_here(info, reported)
    if not_run is not None:
        return info, result_of(info, ResultKind.NOT_STARTED, reason=not_run)
    return info, judge(case, info, lane.answer(case))


def _nothing_wrong(case: Case, info: LaneInfo, result: Result) -> str:
    """Why a result gives nothing to reproduce."""
    if result.kind is ResultKind.NOT_STARTED:
        return result.reason or ""
    what, why = "passes", "nothing to reproduce"
    if result.state == "NOT-RUN":
        what, why = "did not run", result.reason
        if result.not_run == "elsewhere" and not case.wrapped:
            why = (
                f"{why}; --wrap puts nodes around the gather, with which some providers"
                " take it"
            )
    return f"case {shown(case.name)} {what} on lane {info.name}: {why}"


def _reduce(found: list[Difference], lane: Lane, tried: Callable[[], object]) -> None:
    """Append smaller and smaller cases with the fault of the first, until none is smaller.

    Args:
        found: The difference to reduce.
        lane: Its lane.
        tried: Called after each smaller case that was run.
    """
    (first,) = found
    fault = Fault.of(first.result)

    def still(candidate: Case) -> bool:
        result = judge(candidate, first.info, lane.answer(candidate))
        tried()
        if Fault.of(result) != fault:
            return False
        found.append(Difference(candidate, first.info, result))
        return True

    reduce_case(first.case, still)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The trial that a folder holds, and whether it shows the difference."""

    trial: Trial
    how: str
    """The end of a sentence: whether the difference is shown, and by what."""
    is_shown: bool
    printed: str | None = None
    """What repro.py printed when it showed the difference, if it did."""


def _trials(case: Case, lane: ModelLane) -> list[Trial]:
    """The ways to run a case, the plainest first; the last is what the lane ran."""
    target = target_of(lane.provider.name, lane.target)
    asked = target, lane.library, operators_of(lane.provider, target)
    return [
        t for given in given_to(lane.provider, case) for t in trials_of(given, *asked)
    ]


def _show(difference: Difference, lane: ModelLane) -> _Attempt:
    """The plainest way to run a case that shows its difference; what the lane ran if none does."""
    case, info, result = difference.case, difference.info, difference.result
    script = "the lane" if info.python is None else "repro.py"
    trials, trouble = _trials(case, lane), None
    for trial in trials:
        if info.python is None:
            trouble, printed = _asked(lane, trial, result), None
        else:
            files = runnable(case, difference.title, info.provider, trial)
            trouble, printed = _tried(info.python, files, result)
        if trouble is None:
            return _Attempt(trial, f"{script} shows it", True, printed)
    return _Attempt(trials[-1], f"but {script} does not show it: {trouble}", False)


def _why_not_here(info: LaneInfo, reported: LaneInfo) -> str | None:
    """Why a lane of this environment cannot stand for that of a report; None if it can."""
    here, there = (
        each.versions.get("onnxruntime", "none") for each in (info, reported)
    )
    why = info.not_run or (None if here == there else f"is onnxruntime {here}")
    versions = shown(
        ", ".join(f"{name} {version}" for name, version in reported.versions.items())
    )
    ran = f"lane {shown(reported.name)} of the report ran with {versions}"
    return why and f"{ran}, but here {why}; give its environment: --lane NAME=PATH"


def _asked(lane: ModelLane, trial: Trial, result: Result) -> str | None:
    """Why a lane without an interpreter does not show a difference; None if it does."""
    asked = trial.question
    answer = lane.run(asked.model, [asked.inputs], asked.threads)
    got, wanted = answer.output, trial.expected
    if got is None:
        shows = answer.how == result.breakdown and (answer.how or wanted is not None)
        return None if shows else answer.reason
    if wanted is None or (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return None
    return (
        "it returned the expected output" if got.tobytes() == wanted.tobytes() else None
    )


def _tried(
    python: str, contents: Mapping[str, bytes], result: Result
) -> tuple[str | None, str | None]:
    """Run a repro.py.

    Args:
        python: The interpreter.
        contents: The files that the script needs, itself included.
        result: The difference.

    Returns:
        Why the script does not show the difference, None if it does; and what the script printed,
        None if it did not say how the output differs.
    """
    with tempfile.TemporaryDirectory(prefix="onnxgather.") as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        command = [python, os.path.join(folder, "repro.py")]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=LONGEST_RUN, check=False
            )
        except subprocess.TimeoutExpired:
            hangs = result.breakdown is Breakdown.LATE
            return None if hangs else f"it did not end within {LONGEST_RUN:g} s", None
        except OSError as error:
            return f"{python} does not start: {error.strerror}", None
    printed = done.stdout.decode(errors="replace")
    if done.returncode == 1 and "\nIt differs: " in printed:
        return None, printed
    dies = result.breakdown in (Breakdown.DIED, Breakdown.EXITED)
    if dies and done.returncode not in (0, 1, 3):
        return None, None
    lines = (printed + done.stderr.decode(errors="replace")).split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return f"it ended with exit code {done.returncode} and said: {said}", None
