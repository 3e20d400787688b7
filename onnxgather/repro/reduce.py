"""The smallest case that still shows a difference."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from onnxgather.cases import Case, DescriptorCase, NodeCase
from onnxgather.errors import DescriptorError
from onnxgather.lanes.lane import Breakdown, Lane, LaneInfo
from onnxgather.options import OutOfRange
from onnxgather.parity.judge import judge
from onnxgather.parity.results import Result, ResultKind
from onnxgather.repro.candidates import Candidate, candidate_of, case_of
from onnxgather.repro.moves import LARGEST, MOVES

MOST_TRIES = 1000
"""Candidates that a reduction runs."""

_NUMBERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """What kind of difference a result is, whatever the sizes and values of its case."""

    kind: ResultKind
    what: str = ""
    """Of an error how the lane broke down, or the provider's message, without numbers."""

    @classmethod
    def of(cls, result: Result) -> Fault | None:
        """Return the fault that a result shows, None if none."""
        if result.state not in ("DIFF", "ERROR"):
            return None
        what = result.message if result.state == "ERROR" else None
        if result.breakdown is not None:
            printed = result.breakdown is Breakdown.STRAY
            what = f"{result.breakdown} {'' if printed else result.detail}"
        return cls(result.kind, _NUMBERS.sub(" ", what or "").strip().lower())


def shows(fault: Fault, lane: Lane, info: LaneInfo) -> Callable[[Case], bool]:
    """Return what tells whether a case shows a fault on a lane."""
    return lambda case: Fault.of(judge(case, info, lane.answer(case))) == fault


def reduce_case(case: Case, still: Callable[[Case], bool], most_tries: int = MOST_TRIES) -> Case:
    """Return the smallest case found that still shows a difference.

    Greedy: what is smaller or plainer and still shows it is taken, until nothing is. No tensor
    of the result has more elements than the case's own. The same case and the same answers give
    the same result.

    Args:
        case: A case that shows it.
        still: Whether a candidate shows it too.
        most_tries: How many candidates may be asked.
    """
    search = _Search(case, still, most_tries)
    search.plainer_case()
    before = None
    while before is not search.case:
        before = search.case
        for move in MOVES:
            while search.take(move(search.candidate)):
                pass
        search.plainer_case()
    return search.case


class _Search:
    """The smallest case so far, and the candidates that need not be asked again."""

    def __init__(self, case: Case, still: Callable[[Case], bool], tries: int) -> None:
        self.case, self.candidate = case, candidate_of(case)
        self._still, self._tries = still, tries
        self._asked = {_key(case)}
        self._is_full = bool(case.data.size and case.indices.size)
        self._rule = self._rule_of(self.candidate)
        self._own_rule = isinstance(case, NodeCase) and case.node.rule != self._broken(
            self.candidate
        )

    def take(self, candidates: Iterator[Candidate]) -> bool:
        """Take the first candidate that still shows it; return whether there is one."""
        for candidate in candidates:
            case = self._built(candidate)
            if case is not None and self._shows(case):
                self.case, self.candidate = case, candidate
                return True
        return False

    def plainer_case(self) -> None:
        """Drop the operators around the gather, and the policy where it does not matter."""
        case = self.case
        if case.wrapped and self._shows(replace(case, wrapped=False)):
            self.case = case = replace(case, wrapped=False)
        if isinstance(case, NodeCase):
            return
        plainer: list[OutOfRange] = ["error"] if case.in_range else []
        if case.out_of_range in ("zero", "directml"):
            plainer.append("clamp")
        for policy in plainer:
            if self._shows(replace(case, out_of_range=policy)):
                self.case = replace(case, out_of_range=policy)
                return

    def _built(self, candidate: Candidate) -> Case | None:
        data, indices, gather = candidate.data, candidate.indices, candidate.gather
        before, after = self.candidate.gather.output, gather.output
        if max(data.size, indices.size) > LARGEST or math.prod(after) > math.prod(before):
            return None
        if self._rule_of(candidate) != self._rule:
            return None
        if before and not after:
            return None  # a scalar is odder than a row of one, and some providers take none
        if self._is_full and not (data.size and indices.size):
            return None
        case = self.case
        if isinstance(case, DescriptorCase):
            try:
                built = case_of(candidate, case.name, case.out_of_range)
            except DescriptorError:
                return None
            return replace(built, wrapped=case.wrapped, origin=case.origin)
        if not self._rule and _kind(candidate) != _kind(self.candidate):
            return None  # it breaks a rule that is not known here; only values may change
        node = replace(
            case.node,
            attributes={gather.attribute: gather.number},
            output_shape=after,
            rule=case.node.rule if self._own_rule else str(self._broken(candidate)),
        )
        return replace(case, data=data.copy(), indices=indices.copy(), node=node)

    def _broken(self, candidate: Candidate) -> str | None:
        """Which rule of ONNX a candidate breaks; models of descriptors cast the indices."""
        if isinstance(self.case, NodeCase):
            return candidate.gather.broken_rule(candidate.index_type)
        return candidate.gather.broken_rule()

    def _rule_of(self, candidate: Candidate) -> str:
        return _NUMBERS.sub(" ", self._broken(candidate) or "")

    def _shows(self, candidate: Case) -> bool:
        key = _key(candidate)
        if key in self._asked or len(self._asked) > self._tries:
            return False
        self._asked.add(key)
        return self._still(candidate)


def _kind(candidate: Candidate) -> object:
    arrays = (candidate.data, candidate.indices)
    return candidate.number, [(array.dtype, array.shape) for array in arrays]


def _key(case: Case) -> bytes:
    asked = case.node if isinstance(case, NodeCase) else case.descriptor
    said = repr((asked, case.out_of_range, case.wrapped))
    digest = hashlib.sha256(said.encode())
    for array in (case.data, case.indices):
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.digest()
