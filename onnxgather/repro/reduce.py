"""The smallest case that still shows a difference."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from onnxgather.errors import DescriptorError
from onnxgather.execution.child import Breakdown
from onnxgather.options import OutOfRange
from onnxgather.parity.cases import Case, DescriptorCase, NodeCase
from onnxgather.parity.results import Result, ResultKind
from onnxgather.repro.candidates import Candidate, candidate_of, case_of
from onnxgather.repro.moves import LARGEST_TENSOR, MOVES

MOST_TRIES = 1000
"""The most cases that a reduction runs."""

_NUMBERS = re.compile(r"[\W\d_]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a result, apart from the sizes and values of its case."""

    kind: ResultKind
    what: str = ""
    """Of an error: how the lane broke down or the provider's message, without numbers."""

    @classmethod
    def of(cls, result: Result) -> Fault | None:
        """The fault that a result shows; None where the lane is right or did not run."""
        if not result.is_wrong:
            return None
        what = result.message or ""
        if result.breakdown is not None:
            printed = result.breakdown is Breakdown.STRAY
            what = f"{result.breakdown} {'' if printed else result.detail}"
        return cls(result.kind, _NUMBERS.sub(" ", what).strip().lower())


def reduce_case(case: Case, still: Callable[[Case], bool], most_tries: int = MOST_TRIES) -> Case:
    """The smallest case that the search finds and that still shows a fault.

    The search is greedy: it takes the first smaller or plainer case that still shows the fault,
    until there is none. No output of a case taken has more elements than the one before. The same
    case and the same answers of `still` give the same result.

    Args:
        case: A case that shows the fault.
        still: Runs another case; returns whether it shows the fault too.
        most_tries: How many cases `still` may be given.
    """
    search = _Search(case, still, most_tries)
    before = None
    while before is not search.case:
        before = search.case
        search.plainer_case()
        for move in MOVES:
            while search.take(move(search.candidate)):
                pass
    return search.case


class _Search:
    """The smallest case so far, and the cases that need not be run again."""

    def __init__(self, case: Case, still: Callable[[Case], bool], tries: int) -> None:
        self.case, self.candidate = case, candidate_of(case)
        self._still, self._tries = still, tries
        self._asked = {_key(case)}

    def take(self, candidates: Iterator[Candidate]) -> bool:
        """Take the first candidate that still shows the fault; return whether there is one."""
        for candidate in candidates:
            if self._is_no_bigger(candidate) and self._try(self._built(candidate)):
                self.candidate = candidate
                return True
        return False

    def plainer_case(self) -> None:
        """Drop the operators around the gather, and the policy where it does not matter."""
        if self.case.wrapped:
            self._try(replace(self.case, wrapped=False))
        case = self.case
        if isinstance(case, NodeCase):
            return
        plainer: list[OutOfRange] = ["error"] if case.in_range else []
        if case.out_of_range in ("zero", "directml"):
            plainer.append("clamp")
        for policy in plainer:
            if self._try(replace(case, out_of_range=policy)):
                return

    def _try(self, case: Case | None) -> bool:
        """Take a case that was not run yet, if it still shows the fault; return whether it does."""
        if case is None or len(self._asked) > self._tries or (key := _key(case)) in self._asked:
            return False
        self._asked.add(key)
        if not self._still(case):
            return False
        self.case = case
        return True

    def _is_no_bigger(self, candidate: Candidate) -> bool:
        """Whether no tensor grows too big, and the tensors keep some elements and dimensions."""
        old, data, indices = self.candidate, candidate.data, candidate.indices
        before, after = old.gather.output, candidate.gather.output
        if max(data.size, indices.size) > LARGEST_TENSOR or math.prod(after) > math.prod(before):
            return False
        if before and not after:  # a scalar is odder than a row of one; some providers refuse it
            return False
        return bool(data.size and indices.size) or not (old.data.size and old.indices.size)

    def _built(self, candidate: Candidate) -> Case | None:
        """The case of a candidate; None if it has no descriptor, or breaks another rule of ONNX."""
        case, old = self.case, self.candidate
        before, after = self._broken_rule(old), self._broken_rule(candidate)
        if _NUMBERS.sub(" ", before or "") != _NUMBERS.sub(" ", after or ""):
            return None
        if isinstance(case, DescriptorCase):
            try:
                built = case_of(candidate, case.name, case.out_of_range)
            except DescriptorError:
                return None
            return replace(built, wrapped=case.wrapped, origin=case.origin)
        if after is None and _kind(candidate) != _kind(old):
            return None  # the rule that it breaks is unknown here, so only values may change
        node = candidate.node(after if after and case.node.rule == before else case.node.rule)
        data, indices = candidate.data.copy(), candidate.indices.copy()
        return replace(case, node=node, data=data, indices=indices)

    def _broken_rule(self, candidate: Candidate) -> str | None:
        """The rule of ONNX that a candidate breaks.

        Models of descriptors cast the indices, so the type of indices breaks no rule there.
        """
        if isinstance(self.case, NodeCase):
            return candidate.gather.broken_rule(candidate.index_type)
        return candidate.gather.broken_rule()


def _kind(candidate: Candidate) -> object:
    return candidate.gather, candidate.data.dtype, candidate.indices.dtype


def _key(case: Case) -> bytes:
    """A digest of a case without its name, the same for cases that ask the same."""
    asked = case.node if isinstance(case, NodeCase) else case.descriptor
    types = [(array.dtype, array.shape) for array in (case.data, case.indices)]
    said = repr((asked, case.out_of_range, case.wrapped, types)).encode()
    return hashlib.sha256(said + case.data.tobytes() + case.indices.tobytes()).digest()
