"""A lane whose answers the test gives, and the case that is put to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from short_descriptors import descriptor

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, GatherNode, NodeCase
from onnxgather.checking.known_differences import Known
from onnxgather.checking.lanes.lane import Answer, AnswerKind, LaneInfo
from onnxgather.checking.results import CaseResult, Result
from onnxgather.checking.run import check_cases
from onnxgather.core.execution.elsewhere.worker import NodeElsewhere

DESC = descriptor("GATHER: FLOAT32 3x2, INT32 1x2, FLOAT32 2x2, 0, 1")
DATA = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
INFO = LaneInfo("stub", "StubExecutionProvider", {"onnxruntime": "1.30.0"})
NODE = GatherNode(
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


ZEROS = ((1, 2), (1, 2))
"""The output for indices of zero."""


class Planned:
    """A lane whose answers the test gives, one after the other."""

    name = "stub"

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def start(self) -> LaneInfo:
        """Return who it is."""
        return INFO

    def answer(self, case: Case) -> Answer:
        """Return the next answer; the last one stays."""
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        """Do nothing."""


def result(case: Case, *answers: Answer, known: tuple[Known, ...] = ()) -> CaseResult:
    """Return what becomes of a case that is answered so."""
    (found,) = check_cases([case], [Planned(*answers)], [INFO], known)
    return found


def only(case: Case, *answers: Answer, known: tuple[Known, ...] = ()) -> Result:
    """Return the same for the one lane."""
    return result(case, *answers, known=known).results[0]


def ran(output: Any, proof: Any = None, error: str | None = None) -> Answer:
    """Return the answer of a provider that ran."""
    array = None if output is None else np.asarray(output, np.float32)
    zeros = None if proof is None else np.asarray(proof, np.float32)
    kind = AnswerKind.RAN if error is None else AnswerKind.FAILED
    return Answer(kind, error, ("Gather",), array, zeros)


ELSEWHERE = Answer(
    AnswerKind.NOT_RUN,
    "Or runs on the CPU",
    how="elsewhere",
    detail="the CPU",
    elsewhere=NodeElsewhere("a", "Or", "CPUExecutionProvider"),
)
