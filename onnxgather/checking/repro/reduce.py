"""The smallest case that still shows a difference: the moves to smaller cases, and the search.

A move takes a candidate and yields smaller or plainer ones, big steps first. No move
undoes what another did, so that a search by moves ends. A move may also yield the
candidate that it was given; the search skips candidates that it has seen.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.descriptor_layouts import PACKED, STRIDES, Layout
from onnxgather.checking.repro.candidates import (
    Candidate,
    candidate_of,
    case_of,
    distinct,
)
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import DescriptorError
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.options import OutOfRange

Move = Callable[[Candidate], Iterator[Candidate]]

Pair = tuple[int | None, int | None]
"""A dimension of the data and one of the indices that are cut together; None for either
without."""

LARGEST_TENSOR = 2**24
"""The most elements of a tensor of a candidate."""

EACH = 64
"""The most elements of a tensor whose elements are tried one by one."""

MOST_TRIES = 1000
"""The most cases that a reduction runs."""

_NUMBERS = re.compile(r"[\W\d_]+")


def plainer_layout(old: Candidate) -> Iterator[Candidate]:
    """Drop leading ones, strides, padding, flags and alignment: all at once, then one by one."""
    yield replace(old, spare=0, layouts=PACKED)
    yield replace(old, layouts=PACKED)
    for spare in range(old.spare):
        yield replace(old, spare=spare)
    for k, layout in enumerate(old.layouts):
        for plainer in _plainer(layout):
            yield replace(
                old, layouts=(*old.layouts[:k], plainer, *old.layouts[k + 1 :])
            )
    if old.operator == "GATHER_ND1" and not old.number:
        yield replace(old, operator="GATHER_ND")


def _plainer(layout: Layout) -> Iterator[Layout]:
    yield Layout()
    for strides in (
        None,
        *STRIDES,
    ):  # the plainest first, up to those that the layout has
        if strides == layout.strides:
            break
        yield replace(layout, strides=strides)
    yield replace(layout, extra=0)
    yield replace(layout, flags=Layout().flags)
    yield replace(layout, alignment=0)


def fewer_dimensions(old: Candidate) -> Iterator[Candidate]:
    """Keep the first or the last element along a dimension, and drop the dimension."""
    gather, number = old.gather, old.number
    forbidden = gather.broken_rule() is not None
    for pair in _pairs(old):
        if 0 in _sizes(old, pair):
            continue
        in_front = pair[0] is not None and pair[0] < number
        for end in (0, -1):
            dropped = _cut(old, pair, end)
            yield replace(dropped, number=number - in_front)
            if forbidden:
                yield dropped
    if gather.has_tuples and gather.tuple_size > 1 and not forbidden:
        for coordinate in (0, gather.tuple_size - 1):
            shorter = np.delete(old.indices, coordinate, axis=-1)
            yield replace(_cut(old, (number + coordinate, None), 0), indices=shorter)


def smaller_sizes(old: Candidate) -> Iterator[Candidate]:
    """Keep a part along the dimensions: along all at once, then along one after another."""
    pairs = _pairs(old)
    for divisor in (LARGEST_TENSOR, 2):
        shrunk = old
        for pair in pairs:
            shrunk = _cut(shrunk, pair, slice(-(-max(_sizes(shrunk, pair)) // divisor)))
        yield shrunk
    for pair in pairs:
        n = max(_sizes(old, pair))
        for start, stop in (
            (0, 1),
            (n - 1, n),
            (0, n // 2),
            (n // 2, n),
            (0, n - 1),
            (1, n),
        ):
            if 0 < stop - start < n:
                yield _cut(old, pair, slice(start, stop))


def shorter_axes(old: Candidate) -> Iterator[Candidate]:
    """Keep the start or the end of an indexed axis, and clamp the indices to the part kept."""
    gather = old.gather
    if gather.broken_rule():
        return
    clamped = np.vectorize(_clamped, otypes=[old.indices.dtype])
    for coordinate, n in enumerate(gather.axes):
        for m in sorted({1, 2, 3, 4, 8, n // 4, n // 2, n - 1}):
            if not 0 < m < n:
                continue
            indices = old.indices.copy()
            column = indices.reshape(-1, gather.tuple_size)[:, coordinate]
            column[...] = clamped(column, n, m)
            for part in (slice(m), slice(n - m, n)):
                cut = _cut(old, (old.number + coordinate, None), part)
                yield replace(cut, indices=indices)


def _clamped(index: int, n: int, m: int) -> int:
    """An index of an axis of n elements for an axis of m elements.

    An index in range is clamped; one out of range stays as far out of range as before.
    """
    if index >= n:
        return index - (n - m)
    if index < -n:
        return index + (n - m)
    return max(-m, min(index, m - 1))


def plainer_types(old: Candidate) -> Iterator[Candidate]:
    """Take the plainest data types: FLOAT32 data and INT64 indices."""
    if old.data.dtype != np.float32 and old.data.size <= LARGEST_TENSOR:
        yield replace(old, data=distinct(old.data.shape).astype(np.float32))
    if old.indices.dtype != np.uint64 or (old.indices < 2**63).all():
        yield replace(old, indices=old.indices.astype(np.int64))


def plainer_indices(old: Candidate) -> Iterator[Candidate]:
    """Replace all or parts of the indices by 0, clamp them, or bring each of them towards 0."""
    gather, indices = old.gather, old.indices
    for with_zeros in _part_by_part(indices, np.zeros_like(indices)):
        yield replace(old, indices=with_zeros)
    if gather.broken_rule():
        return
    sizes = np.array(gather.axes)
    in_range = np.clip(indices, -sizes, sizes - 1).astype(indices.dtype)
    yield replace(old, indices=in_range.reshape(indices.shape))
    if indices.size > EACH:
        return
    limits = np.iinfo(indices.dtype)
    each = zip(indices.reshape(-1).tolist(), cycle(gather.axes), strict=False)
    for k, (value, n) in enumerate(each):
        for other in (
            0,
            1,
            -1,
            n,
            -n - 1,
            (n + value) // 2,
            (value - n) // 2,
            value - 1,
        ):
            if limits.min <= other <= limits.max and _oddness(other, n) < _oddness(
                value, n
            ):
                changed = indices.copy()
                changed.flat[k] = other
                yield replace(old, indices=changed)


def _oddness(index: int, n: int) -> tuple[bool, bool, int]:
    """A key that orders indices of an axis of n elements from the plainest, which is 0."""
    return not -n <= index < n, index < 0, abs(index)


def plainer_data(old: Candidate) -> Iterator[Candidate]:
    """Replace all or parts of the data, then single elements, by small whole numbers."""
    if old.data.size > LARGEST_TENSOR:
        return
    plain = distinct(old.data.shape).astype(old.data.dtype)
    for data in _part_by_part(old.data, plain):
        yield replace(old, data=data)


MOVES: Sequence[Move] = (
    plainer_layout,
    fewer_dimensions,
    smaller_sizes,
    shorter_axes,
    plainer_types,
    plainer_indices,
    plainer_data,
)
"""The moves, in the order in which the search takes each as far as it goes."""


def _pairs(old: Candidate) -> Sequence[Pair]:
    """The dimensions that may be cut without changing which element an index leads to.

    Of a node that ONNX forbids these are all dimensions; the search checks that the
    node still breaks the same rule.
    """
    gather = old.gather
    data, indices = range(old.data.ndim), range(old.indices.ndim)
    if gather.broken_rule():
        tied = list(range(min(len(data), len(indices))))
        alone, of_indices = list(data), list(indices)
    else:
        indexed = range(old.number, old.number + gather.tuple_size)
        free = [k for k in data if k not in indexed]
        tied = {"Gather": [], "GatherElements": free, "GatherND": free[: old.number]}[
            gather.onnx
        ]
        alone = [k for k in free if k not in tied]
        of_indices = [k for k in range(len(gather.per_index)) if k not in tied]
    return (
        [(k, k) for k in tied]
        + [(k, None) for k in alone]
        + [(None, k) for k in of_indices]
    )


def _sizes(old: Candidate, pair: Pair) -> list[int]:
    """The sizes of the dimensions of a pair; they differ only in a forbidden node."""
    shapes = (old.data.shape, old.indices.shape)
    return [shape[k] for shape, k in zip(shapes, pair, strict=True) if k is not None]


def _cut(old: Candidate, pair: Pair, part: slice | int) -> Candidate:
    """Keep a part along the dimensions of a pair; an int for a part drops the dimensions."""
    data, indices = (
        array if k is None else array[(slice(None),) * k + (part, ...)]
        for array, k in zip((old.data, old.indices), pair, strict=True)
    )
    return replace(old, data=data, indices=indices)


def _part_by_part(array: Array, plain: Array) -> Iterator[Array]:
    """Yield an array with parts of its elements replaced by those of `plain`.

    The parts are all elements, halves, quarters, and so on, down to single elements if
    the array has at most `EACH`.
    """
    flat, plain = array.reshape(-1), plain.reshape(-1)
    halvings = (flat.size - 1).bit_length() if flat.size <= EACH else 4
    for k in range(halvings + 1):
        size = max(1, -(-flat.size // 2**k))
        for start in range(0, flat.size, size):
            part = slice(start, start + size)
            if flat[part].tobytes() != plain[part].tobytes():
                changed = flat.copy()
                changed[part] = plain[part]
                yield changed.reshape(array.shape)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a result, apart from the sizes and values of its case."""

    kind: ResultKind
    what: str = ""
    """Of an error: how the lane broke down or the provider's message, without numbers.
    Of an output in place of an error: what it holds, such as other elements."""

    @classmethod
    def of(cls, result: Result) -> Fault | None:
        """The fault that a result shows; None where the lane is right or did not run."""
        if not result.is_wrong:
            return None
        what = result.message or result.returned or ""
        if result.breakdown is not None:
            printed = result.breakdown is Breakdown.STRAY
            what = f"{result.breakdown} {'' if printed else result.detail}"
        return cls(result.kind, _NUMBERS.sub(" ", what).strip().lower())


def reduce_case(
    case: Case, still: Callable[[Case], bool], most_tries: int = MOST_TRIES
) -> Case:
    """The smallest case that the search finds and that still shows a fault.

    The search is greedy: it takes the first smaller or plainer case that still shows
    the fault, until there is none. No output of a case taken has more elements than the
    one before. The same case and the same answers of `still` give the same result.

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
        if (
            case is None
            or len(self._asked) > self._tries
            or (key := _key(case)) in self._asked
        ):
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
        if max(data.size, indices.size) > LARGEST_TENSOR or math.prod(
            after
        ) > math.prod(before):
            return False
        if (
            before and not after
        ):  # a scalar is odder than a row of one; some providers refuse it
            return False
        return bool(data.size and indices.size) or not (
            old.data.size and old.indices.size
        )

    def _built(self, candidate: Candidate) -> Case | None:
        """The case of a candidate; None if it has no descriptor, or breaks another rule of ONNX."""
        case, old = self.case, self.candidate
        if isinstance(case, DescriptorCase):
            try:
                built = case_of(candidate, case.name, case.out_of_range)
            except DescriptorError:
                return None
            if isinstance(built, NodeCase):
                return None
            return replace(built, wrapped=case.wrapped, origin=case.origin)
        before, after = (
            one.gather.broken_rule(one.index_type) for one in (old, candidate)
        )
        if _NUMBERS.sub(" ", before or "") != _NUMBERS.sub(" ", after or ""):
            return None
        if after is None and _kind(candidate) != _kind(old):
            return None  # the rule that it breaks is unknown here, so only values may change
        node = candidate.node(
            after if after and case.node.rule == before else case.node.rule
        )
        data, indices = candidate.data.copy(), candidate.indices.copy()
        return replace(case, node=node, data=data, indices=indices)


def _kind(candidate: Candidate) -> object:
    return candidate.gather, candidate.data.dtype, candidate.indices.dtype


def _key(case: Case) -> bytes:
    """A digest of a case without its name, the same for cases that ask the same."""
    asked = case.node if isinstance(case, NodeCase) else case.descriptor
    types = [(array.dtype, array.shape) for array in (case.data, case.indices)]
    said = repr((asked, case.out_of_range, case.wrapped, types)).encode()
    return hashlib.sha256(said + case.data.tobytes() + case.indices.tobytes()).digest()
