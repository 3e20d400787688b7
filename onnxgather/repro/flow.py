"""From a case and a lane to a folder that shows what is wrong."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from onnxgather.cases import Case
from onnxgather.checks import shown
from onnxgather.errors import OnnxGatherError
from onnxgather.lanes.lane import Lane
from onnxgather.options import Target
from onnxgather.parity.compare import judge
from onnxgather.parity.results import Result
from onnxgather.providers import find_provider
from onnxgather.repro.folder import check_folder, runnable, write_folder
from onnxgather.repro.issue import title
from onnxgather.repro.reduce import MOST_TRIES, Fault, reduce_case
from onnxgather.repro.run import runs_of
from onnxgather.session import target_of

LONGEST_RUN = 120.0
"""Seconds that a written repro.py may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case on a lane."""

    text: str
    """One sentence."""
    result: Result
    """PASS, NOT-RUN, or the DIFF or ERROR that the folder shows."""
    case: Case
    """The case in the folder; where there is none, the one that was given."""
    folder: str | None = None
    shown: bool = False
    """Whether the folder's repro.py, run by the lane's interpreter, showed the difference."""


def make_repro(
    case: Case,
    lane: Lane,
    folder: str,
    *,
    reduce: bool = True,
    wrap: bool = False,
    target: Target | None = None,
    library: str | None = None,
    python: str | None = None,
    most_tries: int = MOST_TRIES,
    seen: Callable[[int], object] = lambda _: None,
) -> Outcome:
    """Run a case on a lane; where it is wrong, reduce it, write a folder, and run its repro.py.

    Args:
        case: The case.
        lane: The lane; it is started here, and left to the caller to close.
        folder: Where the repro goes: new, empty or an earlier repro.
        reduce: Whether to reduce the case.
        wrap: Whether to put the gather between two operators.
        target: Whom the lane's models are for; None is the target that suits its provider.
        library: The plugin library that brings the lane's provider, if one does.
        python: The interpreter of the lane's environment, if it is not the one that the lane
            tells, as with a script that sets the environment up.
        most_tries: How many smaller cases may be run.
        seen: Called with how many were run, after each.

    Raises:
        OnnxGatherError: The folder holds something else or cannot be written, or the lane runs
            no ONNX model.
    """
    check_folder(folder)
    case = case.wrapped_in() if wrap and not case.wrapped else case
    info = lane.start()
    if info.not_run is not None:
        return Outcome(info.not_run, Result(info.name, "NOT-RUN", info.not_run), case)
    python = os.path.expanduser(python) if python else info.python
    library = os.path.abspath(library) if library else None
    if python is None:
        raise OnnxGatherError(f"lane {shown(info.name)} must run ONNX models, but runs none")
    result = judge(case, info, lane.answer(case))
    fault = Fault.of(result)
    if fault is None:
        text = f"case {shown(case.name)} passes on lane {info.name}: nothing to reproduce"
        if result.state == "NOT-RUN":
            text = f"case {shown(case.name)} did not run on lane {info.name}: {result.reason}"
        return Outcome(text, result, case)
    last, tries = [result], count(1)

    def still(candidate: Case) -> bool:
        found = judge(candidate, info, lane.answer(candidate))
        seen(next(tries))
        if Fault.of(found) != fault:
            return False
        last[0] = found
        return True

    if reduce:
        case, result = reduce_case(case, still, most_tries), last[0]
    trouble, printed, run = "", "", None
    for run in runs_of(case, target or target_of(find_provider(info.provider)), library):
        trouble, printed = _tried(python, runnable(case, info, result, run), result)
        if trouble is None:
            break
    assert run is not None
    write_folder(case, info, result, folder, run, printed if trouble is None else None)
    text = f"{folder}: {title(case, info, result)}; "
    text += f"but repro.py does not show it: {trouble}" if trouble else "repro.py shows it"
    return Outcome(text, result, case, folder, trouble is None)


def _tried(
    python: str, contents: Mapping[str, bytes], result: Result
) -> tuple[str | None, str | None]:
    """Run a repro.py; return why it does not show a difference, None if it does; what it prints.

    Args:
        python: The interpreter.
        contents: The files that it needs, itself included.
        result: The difference.
    """
    reason = result.reason or ""
    with tempfile.TemporaryDirectory(prefix="onnxgather.") as folder:
        for name, content in contents.items():
            Path(folder, name).write_bytes(content)
        command = [python, os.path.join(folder, "repro.py")]
        try:
            done = subprocess.run(command, capture_output=True, timeout=LONGEST_RUN, check=False)
        except subprocess.TimeoutExpired:
            hangs = reason.startswith("the worker did not answer")
            return None if hangs else f"it did not end within {LONGEST_RUN:g} s", None
        except OSError as error:
            return f"{python} does not start: {error.strerror}", None
    printed = done.stdout.decode(errors="replace")
    if done.returncode == 1 and "\nIt differs: " in printed:
        return None, printed
    dies = reason.startswith(("the worker died of", "the worker ended with"))
    if dies and done.returncode not in (0, 1, 3):
        return None, None
    lines = (printed + done.stderr.decode(errors="replace")).split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
    return f"it ended with exit code {done.returncode} and said: {said}", None
