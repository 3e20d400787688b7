"""The rows and the cells of the page's matrix: case groups by lanes."""

from __future__ import annotations

from typing import NamedTuple

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import (
    BY_DIRECTML,
    CaseResult,
    Result,
    ResultKind,
    Returned,
)
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.output.result_states import State

_WORDS_OF_STATES: dict[State, str] = {
    "PASS": "passed",
    "KNOWN": "known",
    "FIXED": "fixed",
}
"""What a cell says of states that need no kind."""

_WORDS_OF_KINDS = {
    ResultKind.ELEMENTS: "wrong elements",
    ResultKind.DATA_TYPE: "wrong data type",
    ResultKind.SHAPE: "wrong shape",
    ResultKind.NOT_REFUSED: "not refused",
    ResultKind.FAILED: "failed",
    ResultKind.NOT_TAKEN: "model not taken",
    ResultKind.BROKEN: "no answer",
    ResultKind.NOT_RUN: "not run",
    ResultKind.NOT_STARTED: "not started",
    ResultKind.UNPROVED: "refusal unproved",
}
"""What a cell says of each kind of result, where nothing more exact is known."""

_WORDS_OF_BREAKDOWNS = {
    Breakdown.DIED: "process ended",
    Breakdown.EXITED: "process ended",
    Breakdown.LATE: "too late",
}

FOREIGN_MEMORY = "foreign memory"
"""What a cell says of an output with values that the inputs do not have."""

_BUILD_VERSIONS = ("python ", "numpy ")
"""How the texts of versions begin that do not tell which runtime a lane has."""


class CaseGroup(NamedTuple):
    """The place of a case in the matrix: a row, and a row below that."""

    name: str
    part: str
    """Empty where the group has no parts."""


def group_of(case: CaseResult) -> CaseGroup:
    """Return the group of a case, by its name."""
    operator = case.operator.lower().replace("_", "-")
    path, colon, _ = case.name.partition(": ")
    # Case 1: the case of a file; its group is the folder.
    if colon:
        folder, slash, file = path.replace("\\", "/").rpartition("/")
        return CaseGroup(folder + slash or "./", file)
    words = case.name.split("/")
    # Case 2: the name is that of no group.
    if len(words) == 1:
        return CaseGroup(operator, "")
    # Case 3: the numbers of random cases tell nothing.
    if words[0] == "random":
        return CaseGroup("random", operator)
    # Case 4: the last word is that of the case itself.
    part = words[1] if len(words) > 2 else ""
    return CaseGroup(words[0], part)


def result_words(result: Result) -> str:
    """Return what a cell says of a result, in a word or two."""
    # Case 1: two runs over other free memory showed it, on the lanes that run twice.
    if result.shows_foreign_memory or result.returned is Returned.FOREIGN:
        # A known difference that says so is no news, and is as harmful.
        if result.state == "KNOWN":
            return f"{_WORDS_OF_STATES['KNOWN']}, {FOREIGN_MEMORY}"
        return FOREIGN_MEMORY
    # Case 2: the state says enough, unless the case's policy was not asked.
    if result.state == "PASS" and result.by_directml:
        return f"{_WORDS_OF_STATES['PASS']} {BY_DIRECTML}"
    if result.state in _WORDS_OF_STATES:
        return _WORDS_OF_STATES[result.state]
    # Case 3: the kind of the result says more.
    run = result.deciding
    words = _WORDS_OF_KINDS[run.kind]
    if run.breakdown is not None:
        words = _WORDS_OF_BREAKDOWNS.get(run.breakdown, words)
    return words


def lane_head(lane: LaneInfo) -> list[str]:
    """Return what the head of a column says of a lane below its name.

    That is the provider, and the versions of the runtime.
    """
    return [text for text in lane.software if not text.startswith(_BUILD_VERSIONS)]
