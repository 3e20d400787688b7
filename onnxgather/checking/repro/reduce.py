"""The search for the smallest case that still shows a difference.

A move accepts a candidate and yields smaller or plainer candidates, big steps first. No
move undoes what another did, so that a search by moves ends. A move may also yield the
candidate that it was given; the search skips cases that it has run.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from onnxgather.checking.cases import Case, NodeCase
from onnxgather.checking.descriptor_layouts import PACKED, STRIDES, Layout
from onnxgather.checking.repro.candidates import (
    Candidate,
    candidate_of,
    case_of,
    distinct,
)
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.descriptors.arrays import Array, content_of
from onnxgather.core.execution.elsewhere.child import Breakdown
from onnxgather.core.options import OutOfRange

Move = Callable[[Candidate], Iterator[Candidate]]

Pair = tuple[int | None, int | None]
"""A dimension of the data and a dimension of the indices that are cut together.

None stands for no dimension.
"""

LARGEST_TENSOR = 2**24
"""The most elements of a tensor of a candidate."""

EACH = 64
"""The most elements of a tensor whose elements are tried one by one."""

MOST_TRIES = 1000
"""The most cases that a reduction runs."""

_NUMBERS = re.compile(r"[\W\d_]+")
"""All but letters, which differs between messages of one kind."""


def plainer_layout(old: Candidate) -> Iterator[Candidate]:
    """Drop leading ones, strides, padding, flags, alignment: all, then one by one."""
    yield replace(old, spare=0, layouts=PACKED)
    yield replace(old, layouts=PACKED)
    for spare in range(old.spare):
        yield replace(old, spare=spare)
    for number, layout in enumerate(old.layouts):
        for plainer in _plainer(layout):
            layouts = list(old.layouts)
            layouts[number] = plainer
            yield replace(old, layouts=tuple(layouts))
    # Without batches the two operators compute the same.
    if old.operator == "GATHER_ND1" and not old.number:
        yield replace(old, operator="GATHER_ND")


def _plainer(layout: Layout) -> Iterator[Layout]:
    """Yield plainer layouts of a tensor."""
    yield Layout()
    # The plainest strides come first; those behind the layout's own are less plain.
    for strides in (None, *STRIDES):
        if strides == layout.strides:
            break
        yield layout._replace(strides=strides)
    yield layout._replace(extra=0)
    yield layout._replace(flags=Layout().flags)
    yield layout._replace(alignment=0)


def fewer_dimensions(old: Candidate) -> Iterator[Candidate]:
    """Keep the first or the last element along a dimension, and drop the dimension."""
    gather = old.gather
    number = old.number
    is_forbidden = gather.broken_rule() is not None
    for pair in _pairs(old):
        if 0 in _sizes(old, pair):
            continue
        data_dimension = pair[0]
        moved = number
        if data_dimension is not None and data_dimension < number:
            moved -= 1
        for end in (0, -1):
            dropped = _cut(old, pair, end)
            yield replace(dropped, number=moved)
            # Which dimension a forbidden node means is open: its number may stay, too.
            if is_forbidden:
                yield dropped
    if is_forbidden or not gather.has_tuples or gather.tuple_size == 1:
        return
    for coordinate in (0, gather.tuple_size - 1):
        shorter_tuples = np.delete(old.indices, coordinate, axis=-1)
        dropped = _cut(old, (number + coordinate, None), 0)
        yield replace(dropped, indices=shorter_tuples)


def smaller_sizes(old: Candidate) -> Iterator[Candidate]:
    """Keep a part along the dimensions: along all, then along one after another."""
    pairs = _pairs(old)
    for divisor in (LARGEST_TENSOR, 2):
        shrunk = old
        for pair in pairs:
            size = max(_sizes(shrunk, pair))
            rounded_up = -(-size // divisor)
            shrunk = _cut(shrunk, pair, slice(rounded_up))
        yield shrunk
    for pair in pairs:
        size = max(_sizes(old, pair))
        half = size // 2
        parts = (
            (0, 1),
            (size - 1, size),
            (0, half),
            (half, size),
            (0, size - 1),
            (1, size),
        )
        for start, stop in parts:
            if 0 < stop - start < size:
                yield _cut(old, pair, slice(start, stop))


def shorter_axes(old: Candidate) -> Iterator[Candidate]:
    """Keep the start or the end of an indexed axis, and clamp its indices."""
    gather = old.gather
    if gather.broken_rule():
        return
    clamped = np.vectorize(_clamped, otypes=[old.indices.dtype])
    for coordinate, length in enumerate(gather.axes):
        lengths = {1, 2, 3, 4, 8, length // 4, length // 2, length - 1}
        for shorter in sorted(lengths):
            if not 0 < shorter < length:
                continue
            indices = old.indices.copy()
            column = indices.reshape(-1, gather.tuple_size)[:, coordinate]
            column[...] = clamped(column, length, shorter)
            for part in (slice(shorter), slice(length - shorter, length)):
                cut = _cut(old, (old.number + coordinate, None), part)
                yield replace(cut, indices=indices)


def _clamped(index: int, length: int, shorter: int) -> int:
    """Return an index of an axis as an index of a shorter axis.

    An index in range is clamped. An index out of range stays as far out of range as
    before.
    """
    if index >= length:
        return index - (length - shorter)
    if index < -length:
        return index + (length - shorter)
    return max(-shorter, min(index, shorter - 1))


def plainer_types(old: Candidate) -> Iterator[Candidate]:
    """Take the plainest data types: FLOAT32 data and INT64 indices."""
    if old.data.dtype != np.float32 and old.data.size <= LARGEST_TENSOR:
        yield replace(old, data=distinct(old.data.shape, np.float32))
    if old.indices.dtype != np.uint64 or (old.indices < 2**63).all():
        yield replace(old, indices=old.indices.astype(np.int64))


def plainer_indices(old: Candidate) -> Iterator[Candidate]:
    """Replace indices by 0, part by part; clamp them; bring each of them towards 0."""
    gather = old.gather
    indices = old.indices
    for with_zeros in _part_by_part(indices, np.zeros_like(indices)):
        yield replace(old, indices=with_zeros)
    if gather.broken_rule():
        return
    lengths = np.array(gather.axes)
    in_range = np.clip(indices, -lengths, lengths - 1).astype(indices.dtype)
    yield replace(old, indices=in_range.reshape(indices.shape))
    if indices.size > EACH:
        return
    limits = np.iinfo(indices.dtype)
    # The axes take turns, as the coordinates of a tuple do.
    values = zip(indices.reshape(-1).tolist(), cycle(gather.axes), strict=False)
    for position, (value, length) in enumerate(values):
        for plainer in _plainer_values(value, length, limits):
            changed = indices.copy()
            changed.flat[position] = plainer
            yield replace(old, indices=changed)


def _plainer_values(value: int, length: int, limits: np.iinfo[Any]) -> Iterator[int]:
    """Yield indices of an axis that are plainer than a value, within limits."""
    halfway_above = (length + value) // 2
    halfway_below = (value - length) // 2
    first_outside = (length, -length - 1)
    others = (0, 1, -1, *first_outside, halfway_above, halfway_below, value - 1)
    for other in others:
        if not limits.min <= other <= limits.max:
            continue
        if _oddness(other, length) < _oddness(value, length):
            yield other


def _oddness(index: int, length: int) -> tuple[bool, bool, int]:
    """Return a key that orders indices of an axis; the plainest is that of 0."""
    is_outside = not -length <= index < length
    return is_outside, index < 0, abs(index)


def plainer_data(old: Candidate) -> Iterator[Candidate]:
    """Replace data by small whole numbers, part by part."""
    if old.data.size > LARGEST_TENSOR:
        return
    plain = distinct(old.data.shape, old.data.dtype)
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
    """Return the dimensions that may be cut without changing where indices lead.

    Of a node that ONNX forbids these are all dimensions; the search checks that the
    node still breaks the same rule.
    """
    gather = old.gather
    if gather.broken_rule():
        tied = list(range(min(old.data.ndim, old.indices.ndim)))
        of_data = list(range(old.data.ndim))
        of_indices = list(range(old.indices.ndim))
    else:
        indexed = range(old.number, old.number + gather.tuple_size)
        free = [
            dimension for dimension in range(old.data.ndim) if dimension not in indexed
        ]
        tied = _tied_dimensions(old, free)
        of_data = [dimension for dimension in free if dimension not in tied]
        of_indices = [
            dimension
            for dimension in range(len(gather.per_index))
            if dimension not in tied
        ]
    pairs: list[Pair] = []
    pairs += [(dimension, dimension) for dimension in tied]
    pairs += [(dimension, None) for dimension in of_data]
    pairs += [(None, dimension) for dimension in of_indices]
    return pairs


def _tied_dimensions(old: Candidate, free: list[int]) -> list[int]:
    """Return the dimensions that the data and the indices have in common.

    Args:
        old: The candidate.
        free: The dimensions of the data that no index chooses from.
    """
    operator = old.gather.onnx
    if operator == "Gather":
        return []
    if operator == "GatherElements":
        return free
    return free[: old.number]  # the batches of GatherND


def _sizes(old: Candidate, pair: Pair) -> list[int]:
    """Return the sizes of a pair; they differ only in a forbidden node."""
    arrays = zip((old.data, old.indices), pair, strict=True)
    return [array.shape[number] for array, number in arrays if number is not None]


def _cut(old: Candidate, pair: Pair, part: slice | int) -> Candidate:
    """Keep a part along the dimensions of a pair; an int drops the dimensions."""
    data_dimension, index_dimension = pair
    data = _cut_array(old.data, data_dimension, part)
    indices = _cut_array(old.indices, index_dimension, part)
    return replace(old, data=data, indices=indices)


def _cut_array(array: Array, dimension: int | None, part: slice | int) -> Array:
    if dimension is None:
        return array
    before = (slice(None),) * dimension
    return array[(*before, part, ...)]


def _part_by_part(array: Array, plain: Array) -> Iterator[Array]:
    """Yield an array with parts of its elements replaced by those of `plain`.

    The parts are all elements, halves, quarters, and so on, down to single elements if
    the array has at most `EACH`.
    """
    flat = array.reshape(-1)
    plain = plain.reshape(-1)
    halvings = (flat.size - 1).bit_length() if flat.size <= EACH else 4
    for halving in range(halvings + 1):
        size = max(1, -(-flat.size // 2**halving))
        for start in range(0, flat.size, size):
            part = slice(start, start + size)
            # By their bytes, as NaNs are equal to nothing.
            if content_of(flat[part]) == content_of(plain[part]):
                continue
            changed = flat.copy()
            changed[part] = plain[part]
            yield changed.reshape(array.shape)


class Fault(NamedTuple):
    """What is wrong with a result, apart from the sizes and values of its case."""

    kind: ResultKind
    what: str = ""
    """Of an error: how the lane broke down or the provider's message, without numbers.
    Of an output in place of an error: what it holds, such as other elements."""
    is_foreign: bool = False
    """Whether the output shows memory that is not the model's."""

    @classmethod
    def of(cls, result: Result) -> Fault | None:
        """Return the fault of a result; None if the lane is right or did not run."""
        if not result.is_wrong:
            return None
        what = result.message or result.returned or ""
        if result.breakdown is not None:
            # What a lane prints in place of an answer may differ from run to run.
            is_printed = result.breakdown is Breakdown.STRAY
            detail = "" if is_printed else result.detail
            what = f"{result.breakdown} {detail}"
        is_foreign = result.foreign_memory is not None
        return cls(result.kind, _words(what).strip().lower(), is_foreign)


def _words(text: str) -> str:
    """Return the words of a text, with a blank for all between them."""
    return _NUMBERS.sub(" ", text)


def reduce_case(
    case: Case, still: Callable[[Case], bool], most_tries: int = MOST_TRIES
) -> Case:
    """Return the smallest case of a search that still shows a fault.

    The search is greedy: it takes the first smaller or plainer case that still shows
    the fault, until there is none. No output of a case taken has more elements than the
    case before. The same case and the same answers of `still` give the same result.

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
        self.case = case
        self.candidate = candidate_of(case)
        self._still = still
        self._tries = tries
        self._keys = {_key(case)}
        """The keys of the cases that were run, and of the first case."""

    def take(self, candidates: Iterator[Candidate]) -> bool:
        """Take the first candidate with the fault; return whether there is one."""
        for candidate in candidates:
            if not self._is_no_bigger(candidate):
                continue
            case = self._case_of(candidate)
            if case is not None and self._try(case):
                self.candidate = candidate
                return True
        return False

    def plainer_case(self) -> None:
        """Drop the operators around the gather, and a policy that does not matter."""
        if self.case.wrapped:
            self._try(replace(self.case, wrapped=False))
        case = self.case
        if isinstance(case, NodeCase):
            return
        plainer: list[OutOfRange] = []
        if case.in_range:
            plainer.append("error")
        if case.out_of_range in ("zero", "directml"):
            plainer.append("clamp")
        for policy in plainer:
            if self._try(replace(case, out_of_range=policy)):
                return

    def _try(self, case: Case) -> bool:
        """Take a case that was not run yet, if it has the fault; return whether so."""
        # The first case is among the keys, but was not run by this search.
        if len(self._keys) > self._tries:
            return False
        key = _key(case)
        if key in self._keys:
            return False
        self._keys.add(key)
        if not self._still(case):
            return False
        self.case = case
        return True

    def _is_no_bigger(self, candidate: Candidate) -> bool:
        """Return whether a candidate is no bigger, and does not become an odd case."""
        old = self.candidate
        if max(candidate.data.size, candidate.indices.size) > LARGEST_TENSOR:
            return False
        old_output = old.gather.output
        output = candidate.gather.output
        if math.prod(output) > math.prod(old_output):
            return False
        # A scalar is odder than a row of one element; some providers refuse it.
        if old_output and not output:
            return False
        # So are tensors without elements.
        has_elements = candidate.data.size and candidate.indices.size
        had_elements = old.data.size and old.indices.size
        return bool(has_elements or not had_elements)

    def _case_of(self, candidate: Candidate) -> Case | None:
        """Return the case of a candidate; None if it is a case of another kind."""
        if isinstance(self.case, NodeCase):
            return self._node_case_of(self.case, candidate)
        built = case_of(candidate, self.case.name, self.case.out_of_range)
        # Case: no descriptor has these sizes and layouts.
        if isinstance(built, NodeCase):
            return None
        return replace(built, wrapped=self.case.wrapped, origin=self.case.origin)

    def _node_case_of(self, case: NodeCase, candidate: Candidate) -> NodeCase | None:
        """Return the case of a candidate; None if it breaks another rule, or none."""
        old = self.candidate
        old_rule = old.gather.broken_rule(old.index_type)
        rule = candidate.gather.broken_rule(candidate.index_type)
        if _words(old_rule or "") != _words(rule or ""):
            return None
        rule_of_node = case.node.rule
        # Case: the rule of the node is unknown here, so that only values may change.
        is_unknown = rule is None and rule_of_node is not None
        if is_unknown and _kind(candidate) != _kind(old):
            return None
        # The numbers in a rule follow the sizes; a rule from elsewhere stays.
        if rule and rule_of_node == old_rule:
            rule_of_node = rule
        return replace(
            case,
            node=candidate.node(rule_of_node),
            data=candidate.data.copy(),
            indices=candidate.indices.copy(),
        )


def _kind(candidate: Candidate) -> object:
    """Return all of a candidate but its values."""
    return candidate.gather, candidate.data.dtype, candidate.indices.dtype


def _key(case: Case) -> bytes:
    """Return a digest of a case without its name; equal cases have equal digests."""
    question = case.node if isinstance(case, NodeCase) else case.descriptor
    types = [(array.dtype, array.shape) for array in (case.data, case.indices)]
    facts = repr((question, case.out_of_range, case.wrapped, types)).encode()
    content = facts + content_of(case.data) + content_of(case.indices)
    return hashlib.sha256(content).digest()
