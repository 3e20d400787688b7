"""The rows and the cells of the page's matrix: lanes by case groups."""

from __future__ import annotations

from typing import NamedTuple

from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.results import BY_DIRECTML, CaseResult, Result
from onnxgather.core.output.result_states import SEVERITIES

_BUILD_VERSIONS = ("python ", "numpy ")
"""How the texts of versions begin that do not tell which runtime a lane has."""


class CaseGroup(NamedTuple):
    """The place of a case in the matrix: a row below that of a lane, and one below."""

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
    # Case 1: the file of known differences is wrong, and not the lane.
    if result.state == "FIXED":
        return "passed, though known"
    words = SEVERITIES[result.severity]
    # Case 2: the policy of the case was not asked.
    if result.state == "PASS" and result.by_directml:
        return f"{words} {BY_DIRECTML}"
    return words


def lane_head(lane: LaneInfo) -> str:
    """Return what the head of a row says of a lane below its name.

    That is the provider, and the versions of the runtime.
    """
    software = lane.software
    return ", ".join(one for one in software if not one.startswith(_BUILD_VERSIONS))
