"""How far the lengths and the positions of an attention with a cache reach.

A GroupQueryAttention and a SparseAttention (com.microsoft) keep the keys of earlier
tokens. Their lengths count them, so they are bounded by the sizes of several inputs and
by each other.
"""

from __future__ import annotations

from typing import NamedTuple

from onnxgather.auditing.algebra.bounds import INTEGERS, Bounds
from onnxgather.auditing.algebra.sizes import AnySize
from onnxgather.auditing.operators.calls import Call

_LEAST, _GREATEST = INTEGERS["INT64"]


class Limits(NamedTuple):
    """The numbers that an input of indices may hold."""

    low: AnySize
    """The least of them."""
    size: AnySize | None
    """The numbers must be below it; None where it is not known."""
    is_exact: bool
    """Whether the operator fails at every other number. Otherwise it may also accept
    others."""


_UNKNOWN = Limits(0, None, False)

_OTHER_RULES = ("sliding_window_cache", "kv_cache_bit_width")
"""The attributes with which the lengths have another meaning."""

_QUERY_LENGTHS = 16
"""The position of an input with which the lengths have another meaning."""


def size_at(value: Bounds | None, axis: int) -> AnySize | None:
    """Return the size of an axis; None where it is not known."""
    if value is None or value.sizes is None:
        return None
    sizes = value.sizes
    return sizes[axis] if -len(sizes) <= axis < len(sizes) else None


def limits_of(call: Call, name: str) -> Limits | None:
    """Return the numbers that an input of an attention with a cache may hold.

    Args:
        call: The operation.
        name: The input, as the operator's definition has it.

    Returns:
        None if only the size of an axis limits the input.
    """
    if call.operator == "GroupQueryAttention":
        return _of_group_query(call, name)
    if call.operator == "SparseAttention" and not name.startswith("block"):
        return _of_sparse(call, name)
    return None


def _of_sparse(call: Call, name: str) -> Limits:
    """Return the numbers that a length of a SparseAttention may hold."""
    queries = size_at(call.x, 1)
    past = size_at(call.of(3), 2)
    ends = size_at(call.of(5), 1)
    rows = _rotary_rows(call, 9)
    if queries is None or past is None or ends is None or rows is None:
        return _UNKNOWN
    # Case 1: all tokens. The cache, the blocks and the rotary tables have room.
    if name == "total_sequence_length":
        room = (ends - 1) * call.attributes["sparse_block_size"]
        limits = _cut(Limits(queries, past + 1, True), room + 1)
        return _cut(limits, rows + 1)
    # Case 2: the tokens of a row. Those of the first prompt may be padded.
    low, high = _total(call, 7)
    least = 1 if low == high == queries else queries
    return Limits(least, low + 1, low == high)


def _of_group_query(call: Call, name: str) -> Limits:
    """Return the numbers that an input of a GroupQueryAttention may hold."""
    queries = size_at(call.x, 1)
    past: AnySize | None = 0
    if call.has(3) is not None:
        past = size_at(call.of(3), 2)
    has_other_rules = any(call.attributes.get(name) for name in _OTHER_RULES)
    if has_other_rules or call.has(_QUERY_LENGTHS) is not None:
        return _UNKNOWN
    if queries is None or past is None or not queries >= 1:
        return _UNKNOWN

    rows = _rotary_rows(call, 7)
    if rows is None:
        return _UNKNOWN
    if name == "total_sequence_length":
        limits = _of_total(call, queries, past)
        return _cut(limits, rows + 1)
    if name == "seqlens_k":
        return _cut(_of_lengths(call, queries, past), rows)
    if not call.attributes.get("do_rotary"):
        return _UNKNOWN
    return _of_positions(call, queries, rows)


def _rotary_rows(call: Call, position: int) -> AnySize | None:
    """Return the rows of a rotary table; a great number where none is used."""
    is_rotary = call.attributes.get("do_rotary")
    return size_at(call.has(position), 0) if is_rotary else _GREATEST


def _total(call: Call, position: int = 6) -> tuple[AnySize, AnySize]:
    """Return the least and the greatest number of all tokens, from an input."""
    low, high = call.of(position).whole.tolist()
    return low, high


def _of_total(call: Call, queries: AnySize, past: AnySize) -> Limits:
    """Return how many tokens there may be in all.

    The cache has room for them, or they are those of the cache and the new ones.
    """
    _, high = _total(call)
    # Case 1: one new token, so both are one interval.
    if queries == 1:
        return Limits(1, past + 2, True)
    # Case 2: the cache has room.
    if high <= past:
        return Limits(queries, past + 1, True)
    # Case 3: the new ones are put behind the cache.
    together = past + queries
    return Limits(together, together + 1, True)


def _of_lengths(call: Call, queries: AnySize, past: AnySize) -> Limits:
    """Return which lengths `seqlens_k` may hold, each without the last token."""
    low, high = _total(call)
    is_first = low == high == queries
    # A row of the first prompt may be padded; later rows have all the new tokens.
    least = 0 if is_first else queries - 1
    # The cache is as long as the longer of both. If they do not compare, `low` is
    # surely not too long.
    size = past if past >= low else low
    is_decided = past >= low or low >= past
    return Limits(least, size, low == high and is_decided)


def _of_positions(call: Call, queries: AnySize, rows: AnySize) -> Limits:
    """Return which positions are rows of the rotary tables."""
    low, high = _total(call)
    # The positions of the first prompt are counted, and the input is not read.
    if low == high == queries:
        return Limits(_LEAST, _GREATEST + 1, True)
    is_later = low > queries or high < queries
    return Limits(0, rows, is_later)


def _cut(limits: Limits, size: AnySize) -> Limits:
    """Return limits below another size, too."""
    low, own, is_exact = limits
    if own is None or own <= size:
        return limits
    if size <= own:
        return Limits(low, size, is_exact)
    return _UNKNOWN
