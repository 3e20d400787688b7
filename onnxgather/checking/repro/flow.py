"""From a case and a lane to a repro: run, reduce, write the folder, try its script."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from onnxgather.checking.cases import Case, DescriptorCase, case_beside
from onnxgather.checking.judge import judge, result_of
from onnxgather.checking.lanes.lane import Lane, LaneInfo
from onnxgather.checking.lanes.python import ModelLane, given_to
from onnxgather.checking.lanes.runtime import RuntimeLane
from onnxgather.checking.report.sentences import why
from onnxgather.checking.repro.folder import (
    REPRO,
    Difference,
    Trial,
    runnable,
    trial_of_gather,
    trial_of_program,
    trials_of,
    write_folder,
)
from onnxgather.checking.repro.reduce import Fault, reduce_case
from onnxgather.checking.results import Result, ResultKind
from onnxgather.checking.run import ask
from onnxgather.core.checks import number_of, shown
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.execution.kernels import operators_of
from onnxgather.core.execution.providers import target_of

LONGEST_RUN = 120.0
"""The most seconds that a repro.py may take when it is tried."""


class Outcome(NamedTuple):
    """The result of a case on a lane, and whether its repro shows it."""

    text: str
    """One sentence for people."""
    result: Result
    """PASS, NOT-RUN, or the DIFF or ERROR that the folder shows."""
    case: Case
    """The case in the folder; without a folder, the case to reproduce."""
    folder: str | None = None
    shown: bool = False
    """Whether the folder's repro.py, run by the lane's interpreter, showed the
    difference. If the lane has no interpreter, whether the lane showed it."""
    stop: BaseException | None = None
    """What interrupted the search for a smaller case, if anything did."""


def make_repro(
    case: Case,
    lane: Lane,
    folder: str,
    *,
    others: Sequence[Case] = (),
    reported: LaneInfo | None = None,
    reduce: bool = True,
    tried: Callable[[], object] = lambda: None,
    force: bool = False,
) -> Outcome:
    """Run a case on a lane; if it is wrong, reduce it, write and run its repro.

    Args:
        case: The case.
        lane: The lane, not started; the caller closes it.
        folder: The folder of the repro: new, empty or an earlier repro.
        others: Cases that are run where the lane is right about that one; the first
            that is wrong has its place.
        reported: The lane as a report describes it, if `lane` runs in this environment
            instead.
        reduce: Whether to reduce the case.
        tried: Called after each smaller case that was run.
        force: As of `FolderKind.check`.

    Raises:
        OnnxGatherError: The folder holds other files or cannot be written, or the lane
            runs no ONNX model.
    """
    REPRO.check(folder, force)
    info, result = _run(case, lane, reported)
    passed = 0
    for other in others:
        if result.state != "PASS":
            break
        passed += 1
        case = other
        result = _asked(case, lane, info)
    case, result = _wrong_run(case, result)
    if not result.is_wrong:
        text = _nothing_wrong(case, info, result)
        if passed and result.state == "PASS":
            cases = number_of(passed + 1, "case")
            text = f"{cases} pass on lane {info.name}: nothing to reproduce"
        return Outcome(text, result, case)
    assert isinstance(lane, ModelLane | RuntimeLane), "`_run` accepts no other lane"
    # Each is smaller than the one before; an interrupted search keeps its last.
    differences = [Difference(case, info, result)]
    stop: BaseException | None = None
    try:
        # A smaller case would need another model than that of the file.
        if reduce and not case.runs_file:
            _reduce(differences, lane, tried)
        attempt = _show(differences[-1], lane)
    except KeyboardInterrupt as interruption:
        stop = interruption
        trial = _trials(differences[-1], lane)[-1]
        # What `_show` would have run.
        untried = "repro.py was not tried"
        if info.python is None:
            untried = "the lane was not asked again"
        how = f"interrupted: smaller cases may show it too, and {untried}"
        attempt = _Attempt(trial, how, False)
    smallest = differences[-1]
    write_folder(folder, smallest, attempt.trial, attempt.printed, force)
    text = f"{folder}: {smallest.title}; {attempt.how}"
    return Outcome(text, smallest.result, smallest.case, folder, attempt.is_shown, stop)


def _run(case: Case, lane: Lane, reported: LaneInfo | None) -> tuple[LaneInfo, Result]:
    """Start a lane and run a case on it; see `make_repro`."""
    info = lane.start()
    runs_programs = isinstance(lane, ModelLane) and lane.provider.runs_programs
    if not info.runs_models and not runs_programs:
        raise OnnxGatherError(
            f"lane {shown(info.name)} runs descriptors, not models; repro needs a"
            " provider's lane, such as directml"
        )
    not_run = info.not_run
    if reported is not None:
        not_run = _why_not_here(info, reported)
    if not_run is not None:
        return info, result_of(info, ResultKind.NOT_STARTED, reason=not_run)
    return info, _asked(case, lane, info)


def _asked(case: Case, lane: Lane, info: LaneInfo) -> Result:
    """Return the result of a case, whatever differences are known."""
    result, _ = ask(case, lane, info, ())
    return result


def _wrong_run(case: Case, result: Result) -> tuple[Case, Result]:
    """Return the case to reproduce: that of a result, or the valid case beside it."""
    itself, *others = result.runs
    if itself.is_wrong:
        return case, itself
    valid = case_beside(case)
    # Case: the lane is wrong about the valid case alone.
    for beside in others:
        if valid is not None and beside.is_wrong:
            return valid, beside
    return case, result


def _why_not_here(info: LaneInfo, reported: LaneInfo) -> str | None:
    """Return why a lane of this environment cannot stand for that of a report.

    None means that it can: it started, and has the same version of onnxruntime.
    """
    reason = info.not_run
    if not reason:
        # A runtime that is no provider has a version of its own.
        package = "onnxruntime"
        if info.provider in info.versions:
            package = info.provider
        version = info.versions.get(package, "none")
        if version == reported.versions.get(package, "none"):
            return None
        reason = f"is {package} {version}"
    versions = ", ".join(
        f"{package} {version}" for package, version in reported.versions.items()
    )
    return (
        f"lane {shown(reported.name)} of the report ran with {shown(versions)}, but"
        f" here {reason}; give its environment: --lane NAME=PATH"
    )


def _nothing_wrong(case: Case, info: LaneInfo, result: Result) -> str:
    """Return why a result gives nothing to reproduce."""
    if result.kind is ResultKind.NOT_STARTED:
        return result.reason or ""
    lane_case = f"case {shown(case.name)}"
    if result.state != "NOT-RUN":
        return f"{lane_case} passes on lane {info.name}: nothing to reproduce"
    text = f"{lane_case} did not run on lane {info.name}: {why(case, result)}"
    is_elsewhere = any(run.not_run == "elsewhere" for run in result.runs)
    if is_elsewhere and not case.wrapped:
        text += (
            "; --wrap puts nodes around the gather, with which some providers take it"
        )
    return text


def _reduce(
    differences: list[Difference], lane: Lane, tried: Callable[[], object]
) -> None:
    """Append smaller cases with the fault of the first, until no case is smaller.

    Args:
        differences: The difference to reduce.
        lane: Its lane.
        tried: Called after each smaller case that was run.
    """
    (first,) = differences
    fault = Fault.of(first.result)

    def shows_fault(case: Case) -> bool:
        result = judge(case, first.info, lane.answer(case))
        tried()
        if Fault.of(result) != fault:
            return False
        differences.append(Difference(case, first.info, result))
        return True

    reduce_case(first.case, shows_fault)


class _Attempt(NamedTuple):
    """The trial that a folder holds, and whether it shows the difference."""

    trial: Trial
    how: str
    """The end of a sentence: whether the difference is shown, and by what."""
    is_shown: bool
    printed: str | None = None
    """What repro.py printed when it showed the difference, if it did."""


def _trials(difference: Difference, lane: ModelLane | RuntimeLane) -> list[Trial]:
    """Return the ways to run a case, the plainest first; the lane ran the last."""
    case = difference.case
    if isinstance(lane, RuntimeLane):
        target = difference.info.target
        assert target is not None, "`_run` accepts no other lane"
        return [*trials_of(case, target, adapter=lane.adapter, opset=lane.opset)]
    if lane.provider.runs_programs:
        assert isinstance(case, DescriptorCase), "WebNN runs no nodes of ONNX"
        return [trial_of_program(case)]
    if lane.provider.gathers_alone:
        return [trial_of_gather(case, lane.library, lane.opset)]
    target = target_of(lane.provider.name, lane.target)
    if case.model is not None:
        target = case.model.target
    operators = operators_of(lane.provider, target)
    trials: list[Trial] = []
    # A provider that lacks a data type is given the case in another type.
    for given in given_to(lane.provider, case):
        trials += trials_of(
            given,
            target,
            lane.library,
            operators,
            opset=lane.opset,
            for_webnn=lane.is_for_webnn,
        )
    return trials


def _show(difference: Difference, lane: ModelLane | RuntimeLane) -> _Attempt:
    """Return the plainest way to run a case that shows its difference.

    If no way shows it, return what the lane ran.
    """
    info = difference.info
    result = difference.result
    trials = _trials(difference, lane)
    who = "the lane" if info.python is None else "repro.py"
    trouble: str | None = None
    for trial in trials:
        printed: str | None = None
        if trial.is_program:
            trouble = _trouble_of_program(lane, difference)
        elif info.python is None:
            assert isinstance(lane, ModelLane), "a runtime has an interpreter"
            trouble = _trouble_of_lane(lane, trial, result)
        else:
            files = runnable(difference.case, difference.title, info, trial)
            trouble, printed = _trouble_of_script(info.python, files, result)
        if trouble is None:
            return _Attempt(trial, f"{who} shows it", True, printed)
    return _Attempt(trials[-1], f"but {who} does not show it: {trouble}", False)


def _trouble_of_program(lane: Lane, difference: Difference) -> str | None:
    """Return why WebNN shows no difference when it runs again; None if it does."""
    case = difference.case
    again = judge(case, difference.info, lane.answer(case))
    if Fault.of(again) == Fault.of(difference.result):
        return None
    return again.reason or "it returned the expected output"


def _trouble_of_lane(lane: ModelLane, trial: Trial, result: Result) -> str | None:
    """Return why a lane without an interpreter shows no difference; None if it does."""
    question = trial.question
    answer = lane.run(question, library=trial.operators)
    output = answer.output
    expected = trial.expected
    # Case: an error, which is a difference unless the provider must refuse the model.
    if output is None:
        is_same_breakdown = answer.how == result.breakdown
        if is_same_breakdown and (answer.how or expected is not None):
            return None
        return answer.reason
    if expected is None:
        return None
    if output.dtype != expected.dtype or output.shape != expected.shape:
        return None
    if output.tobytes() != expected.tobytes():
        return None
    return "it returned the expected output"


def _trouble_of_script(
    python: str, contents: Mapping[str, bytes], result: Result
) -> tuple[str | None, str | None]:
    """Run a repro.py.

    Args:
        python: The interpreter.
        contents: The files that the script needs, itself included.
        result: The difference.

    Returns:
        Why the script does not show the difference, None if it does; and what the
        script printed, None if it did not say how the output differs.
    """
    with tempfile.TemporaryDirectory(prefix="onnxgather.") as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        command = [python, os.path.join(folder, "repro.py")]
        try:
            run = subprocess.run(
                command, capture_output=True, timeout=LONGEST_RUN, check=False
            )
        except subprocess.TimeoutExpired:
            # Case: the difference is that the lane hangs.
            if result.breakdown is Breakdown.LATE:
                return None, None
            return f"it did not end within {LONGEST_RUN:g} s", None
        except OSError as error:
            return f"{python} does not start: {error.strerror}", None
    printed = run.stdout.decode(errors="replace")
    if run.returncode == 1 and "\nIt differs: " in printed:
        return None, printed
    # Case: the difference is that the lane dies. The script itself ends with 0, 1 or 3.
    dies = result.breakdown in (Breakdown.DIED, Breakdown.EXITED)
    if dies and run.returncode not in (0, 1, 3):
        return None, None
    said = printed + run.stderr.decode(errors="replace")
    last_line = "nothing"
    for line in said.split("\n"):
        if line.strip():
            last_line = line.strip()
    code = run.returncode
    return f"it ended with exit code {code} and said: {last_line}", None
