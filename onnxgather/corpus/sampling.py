"""Random cases: any valid descriptor of small sizes, with indices in range or wild."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from onnxgather.arrays import Array, axis_sizes
from onnxgather.cases import DescriptorCase
from onnxgather.checks import MAX_DIMENSIONS
from onnxgather.corpus.values import data_values, index_values
from onnxgather.corpus.words import Stream, seed_of, words
from onnxgather.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.descriptors import OPERATORS, Descriptor
from onnxgather.gather import Gather, Sizes
from onnxgather.options import POLICIES, OutOfRange
from onnxgather.tensors import TensorDesc, TensorFlags

MOST = 400
"""Elements of a tensor's sizes."""

_OPERATORS = tuple(OPERATORS)
_DATA_TYPES = tuple(TensorDataType)
_POLICIES = tuple(POLICIES)
_EXTENT = (0, 0, 0, 4, 20)
_PADDING = (0, 0, 0, 1, 3)
_WILD = (0, 0, 0, 30, 100)
"""Percent of the indices that may be out of range, by turns."""


def random_cases(
    count: int, seed: int, out_of_range: OutOfRange | None = None
) -> Iterator[DescriptorCase]:
    """Yield random cases, the same on every machine and however many are asked for.

    Args:
        count: How many.
        seed: Which ones: case N of a seed is `random/SEED/N`, N from 0.
        out_of_range: The policy of all, which changes nothing else; None draws one for each.
    """
    for number in range(count):
        case = _case(f"random/{seed}/{number}")
        yield case if out_of_range is None else replace(case, out_of_range=out_of_range)


def _case(name: str) -> DescriptorCase:
    stream = Stream(seed_of(name))
    gather = _GATHERS[stream.of(_OPERATORS)](stream, stream.between(1, MAX_DIMENSIONS))
    data_type, index_type = stream.of(_DATA_TYPES), stream.of(INDEX_TYPES)
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    desc = gather.descriptor(
        [
            _tensor(stream, data_type, data_sizes),
            _tensor(stream, index_type, index_sizes),
            _tensor(stream, data_type, output_sizes, is_output=True),
        ]
    )
    odd = ("nan", "subnormal", "extremes") if data_type.numpy.kind == "f" else ("extremes",)
    kind = stream.of(odd) if stream.one_in(6) else "distinct"
    data = data_values(desc.input_tensor, kind, stream.word())
    indices = _indices(desc, stream)
    return DescriptorCase(name, desc, data, indices, stream.of(_POLICIES))


def _indices(desc: Descriptor, stream: Stream) -> Array:
    share, seed = stream.of(_WILD), stream.word()
    indices = index_values(desc, stream.of(("any", "any", "forward", "edges")), seed)
    if share:
        pool = _pool(desc.indices_tensor.data_type, max(axis_sizes(desc)))
        word = words(seed + 1, indices.size).reshape(indices.shape)
        chosen = pool[(word // np.uint64(100) % np.uint64(pool.size)).astype(np.intp)]
        indices = np.where(word % np.uint64(100) < share, chosen, indices)
    return indices


@cache
def _pool(index_type: TensorDataType, n: int) -> Array:
    """Return the wild indices of a type: around an axis of n and around powers of two."""
    limits = np.iinfo(index_type.numpy)
    near = [-1, n - 1, n, n + 1, 2 * n, -n, -n - 1, -2 * n, 1000 * n]
    far = [2**bits + more for bits in (31, 32, 33, 63, 64) for more in (-n, -1, 0, 1, n)]
    values = [v for v in [*near, *far, *(-v for v in far)] if limits.min <= v <= limits.max]
    return np.array(values, index_type.numpy)


def _sizes(stream: Stream, count: int, product: int, largest: int = 4) -> Sizes:
    """Return sizes whose product stays small, none in a favoured place."""
    sizes = [1] * count
    for k in stream.shuffled(count):
        sizes[k] = stream.between(1, min(largest, product))
        product //= sizes[k]
    return tuple(sizes)


def _gather(stream: Stream, count: int) -> Gather:
    rank = stream.between(0, count)
    data = _sizes(stream, stream.between(1, count - max(0, rank - 1)), MOST, 6)
    axis = stream.between(0, len(data) - 1)
    indices = _sizes(stream, rank, MOST * data[axis] // math.prod(data))
    return Gather("GATHER", data, indices, axis, dimension_count=count)


def _gather_elements(stream: Stream, count: int) -> Gather:
    data = _sizes(stream, stream.between(1, count), MOST, 6)
    axis = stream.between(0, len(data) - 1)
    most = min(7, MOST * data[axis] // math.prod(data))
    indices = (*data[:axis], stream.between(1, most), *data[axis + 1 :])
    return Gather("GATHER_ELEMENTS", data, indices, axis, dimension_count=count)


def _gather_nd(stream: Stream, count: int) -> Gather:
    return _tuples(stream, count, "GATHER_ND")


def _gather_nd1(stream: Stream, count: int) -> Gather:
    return _tuples(stream, count, "GATHER_ND1")


def _tuples(stream: Stream, count: int, operator: str) -> Gather:
    rank, index_rank = stream.between(1, count), stream.between(1, count)
    most = min(rank, index_rank) - 1 if operator == "GATHER_ND1" else 0
    batches = stream.between(0, most)
    # The output has index_rank - 1 + rank - batches - length dimensions, at most DimensionCount.
    least = index_rank - 1 + rank - batches - count
    if least > rank - batches:
        index_rank, least = batches + 1, 1
    length = stream.between(max(1, least), rank - batches)
    data = _sizes(stream, rank, MOST, 3 if rank > 5 else 5)
    outside = math.prod(data[:batches]) * max(length, math.prod(data[batches + length :]))
    rows = _sizes(stream, index_rank - 1 - batches, max(1, MOST // outside))
    indices = (*data[:batches], *rows, length)
    return Gather(operator, data, indices, number=batches, dimension_count=count)


_GATHERS: dict[str, Any] = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": _gather_elements,
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd1,
}


def _tensor(
    stream: Stream, data_type: TensorDataType, sizes: Sizes, *, is_output: bool = False
) -> TensorDesc:
    """Return a tensor, sometimes strided, sometimes longer than it must be, sometimes owned."""
    strides = _strides(stream, sizes, is_output=is_output) if stream.one_in(3) else None
    extra = stream.of(_EXTENT)
    owned = not is_output and stream.one_in(10)
    flags = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
    total = 0
    if extra:
        total = TensorDesc(data_type, sizes, strides).total_tensor_size_in_bytes + extra
    return TensorDesc(data_type, sizes, strides, total, flags)


def _strides(stream: Stream, sizes: Sizes, *, is_output: bool) -> list[int]:
    """Return strides: permuted, padded and, of an input, repeating or overlapping."""
    if not is_output and stream.one_in(5):
        return [stream.between(0, 7) for _ in sizes]
    order = stream.shuffled(len(sizes)) if stream.one_in(2) else range(len(sizes))
    strides, step = [0] * len(sizes), 1
    for k in reversed(order):
        if not is_output and stream.one_in(6):
            continue
        strides[k] = step
        step = step * sizes[k] + stream.of(_PADDING)
    return strides
