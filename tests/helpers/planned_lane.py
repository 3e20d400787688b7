"""A lane whose answers the test gives, and the case that is put to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, ForbiddenNode, NodeCase
from onnxgather.checking.known_differences import Known
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import CaseResult, Result, ResultKind
from onnxgather.checking.run import check_cases
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere

DESC = descriptor("GATHER: FLOAT32 3x2, INT32 1x2, FLOAT32 2x2, 0, 1")
DATA = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
INFO = LaneInfo("stub", "StubExecutionProvider", {"onnxruntime": "1.30.0"})
NODE = ForbiddenNode(
    "GatherND", {"batch_dims": 1}, (2,), "GatherND-13: batch sizes must be equal"
)


def case(*indices: int, out_of_range: og.OutOfRange = "error") -> DescriptorCase:
    """Return a gather of two rows of DATA."""
    return DescriptorCase(
        "case", DESC, DATA, np.array([indices], np.int32), out_of_range
    )


def bare() -> NodeCase:
    """Return a node whose batch sizes differ."""
    return NodeCase("bare", NODE, DATA, np.zeros((2, 1), np.int64))


class Planned:
    """A lane whose answers the test gives, one after the other.

    Args:
        answers: The answers to a case; the last one stays.
        beside: The answer to the valid case beside it; None is the right one.
    """

    name = "stub"

    def __init__(self, *answers: Answer, beside: Answer | None = None) -> None:
        self.answers = list(answers)
        self.beside = beside

    def start(self) -> LaneInfo:
        """Return who it is."""
        return INFO

    def answer(self, case: Case) -> Answer:
        """Return the next answer."""
        if case.name.startswith("beside/"):
            return self.beside or ran(case.expected())
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        """Do nothing."""


def result(
    case: Case,
    *answers: Answer,
    beside: Answer | None = None,
    known: tuple[Known, ...] = (),
) -> CaseResult:
    """Return what becomes of a case that is answered so; see `Planned`."""
    lane = Planned(*answers, beside=beside)
    (found,) = check_cases([case], [lane], [INFO], known)
    return found


def only(
    case: Case,
    *answers: Answer,
    beside: Answer | None = None,
    known: tuple[Known, ...] = (),
) -> Result:
    """Return the same for the one lane."""
    return result(case, *answers, beside=beside, known=known).results[0]


RIGHT = Result("stub", "PASS", ResultKind.SAME, nodes=("Gather",))
"""The result of the valid case beside a case, where the lane is right about it."""


def ran(output: Any, again: Any = None) -> Answer:
    """Return the answer of a provider that ran, once or twice."""
    arrays = [
        None if each is None else np.asarray(each, np.float32)
        for each in (output, again)
    ]
    return Answer(AnswerKind.RAN, None, ("Gather",), arrays[0], again=arrays[1])


def failed(message: str) -> Answer:
    """Return the answer of a provider that failed while it ran."""
    return Answer(AnswerKind.FAILED, message, ("Gather",))


ELSEWHERE = Answer(
    AnswerKind.NOT_RUN,
    "Or runs on the CPU",
    how="elsewhere",
    detail="the CPU",
    elsewhere=NodeElsewhere("a", "Or", "CPUExecutionProvider"),
)
