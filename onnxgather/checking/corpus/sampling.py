"""Random cases: any valid descriptor of small sizes, with indices in range or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import msgspec
import numpy as np

from onnxgather.checking.cases import DescriptorCase
from onnxgather.checking.descriptor_layouts import Layout, descriptor_with_layouts
from onnxgather.core.checks import MAX_DIMENSIONS
from onnxgather.core.descriptors.arrays import Array, axis_sizes
from onnxgather.core.descriptors.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.core.descriptors.operators import OPERATORS, Descriptor, GatherDesc
from onnxgather.core.descriptors.random_numbers import Stream, seed_of, splitmix64
from onnxgather.core.descriptors.sample_values import data_values, index_values
from onnxgather.core.descriptors.tensors import TensorFlags
from onnxgather.core.gather import Geometry, Sizes
from onnxgather.core.options import POLICIES, OutOfRange

MOST_DRAWN = 400
"""The most elements of a random tensor."""


def random_cases(
    count: int,
    seed: int,
    out_of_range: OutOfRange | None = None,
    chosen: Callable[[str], bool] = lambda _: True,
) -> Iterator[DescriptorCase]:
    """Yield random cases, the same on every machine and for every `count`.

    Args:
        count: How many cases.
        seed: The start of the random numbers; case N has the name `random/SEED/N`, N from 0.
        out_of_range: The policy of all cases; None draws one for each. Nothing else depends on it.
        chosen: Whether the case with a name is made.
    """
    for name in random_names(count, seed):
        if chosen(name):
            yield _case(name, out_of_range)


def random_names(count: int, seed: int) -> Iterator[str]:
    """Yield the names of the random cases."""
    return (f"random/{seed}/{number}" for number in range(count))


def _case(name: str, policy: OutOfRange | None) -> DescriptorCase:
    stream = Stream(seed_of(name))
    operator = stream.of(OPERATORS)
    gather = _GATHERS[operator](stream, operator, stream.between(1, MAX_DIMENSIONS))
    data_type, index_type = stream.of(TensorDataType), stream.of(INDEX_TYPES)
    tensors = zip(gather.tensor_sizes(), (False, False, True), strict=True)
    layouts = [
        _layout(stream, sizes, is_output=is_output) for sizes, is_output in tensors
    ]
    desc = descriptor_with_layouts(gather, data_type, index_type, layouts)
    odd = (
        ("nan", "subnormal", "extremes")
        if data_type.numpy.kind == "f"
        else ("extremes",)
    )
    kind = stream.of(odd) if stream.one_in(6) else "distinct"
    shape = desc.input_tensor.array_shape
    data = data_values(data_type.numpy, shape, kind, stream.number())
    indices, drawn = _indices(desc, stream), stream.of(POLICIES)
    return DescriptorCase(
        name, _ones_counted(desc, stream), data, indices, policy or drawn
    )


def _ones_counted(desc: Descriptor, stream: Stream) -> Descriptor:
    """Let IndexDimensions count ones that the output crops, of a GATHER where that fits."""
    if (
        not isinstance(desc, GatherDesc)
        or math.prod(desc.input_tensor.sizes[: desc.axis]) > 1
    ):
        return desc
    count = desc.input_tensor.dimension_count
    fewest, most = desc.axis + 2, min(count, MAX_DIMENSIONS + 1 - count)
    if fewest > most or stream.one_in(4):
        return desc
    return msgspec.structs.replace(desc, index_dimensions=stream.between(fewest, most))


def _indices(desc: Descriptor, stream: Stream) -> Array:
    """Indices in range; in two of five cases 30 or 100 percent are replaced by those of `_wild`."""
    percent, seed = stream.of((0, 0, 0, 30, 100)), stream.number()
    indices = index_values(desc, stream.of(("any", "any", "forward", "edges")), seed)
    if percent:
        wild = _wild(desc.indices_tensor.data_type, max(axis_sizes(desc)))
        random = splitmix64(seed + 1, indices.size).reshape(indices.shape)
        chosen = wild[(random // np.uint64(100) % np.uint64(wild.size)).astype(np.intp)]
        indices = np.where(random % np.uint64(100) < percent, chosen, indices)
    return indices


@cache
def _wild(index_type: TensorDataType, n: int) -> Array:
    """Indices around the ends of an axis of n and around powers of two, most out of range."""
    limits = np.iinfo(index_type.numpy)
    near = [-1, n - 1, n, n + 1, 2 * n, -n, -n - 1, -2 * n, 1000 * n]
    far = [
        2**bits + more for bits in (31, 32, 33, 63, 64) for more in (-n, -1, 0, 1, n)
    ]
    values = [
        v for v in [*near, *far, *(-v for v in far)] if limits.min <= v <= limits.max
    ]
    return np.array(values, index_type.numpy)


def _sizes(stream: Stream, rank: int, product: int, largest: int = 4) -> Sizes:
    """Random sizes up to `largest` whose product is at most `product`; no dimension is favoured."""
    sizes = [1] * rank
    for k in stream.shuffled(rank):
        sizes[k] = stream.between(1, min(largest, product))
        product //= sizes[k]
    return tuple(sizes)


def _scalars(stream: Stream, operator: str, count: int) -> Geometry:
    rank = stream.between(0, count)
    data = _sizes(stream, stream.between(1, count - max(0, rank - 1)), MOST_DRAWN, 6)
    axis = stream.between(0, len(data) - 1)
    indices = _sizes(stream, rank, MOST_DRAWN * data[axis] // math.prod(data))
    return Geometry(operator, data, indices, axis, count)


def _elements(stream: Stream, operator: str, count: int) -> Geometry:
    data = _sizes(stream, stream.between(1, count), MOST_DRAWN, 6)
    axis = stream.between(0, len(data) - 1)
    most = min(7, MOST_DRAWN * data[axis] // math.prod(data))
    indices = (*data[:axis], stream.between(1, most), *data[axis + 1 :])
    return Geometry(operator, data, indices, axis, count)


def _tuples(stream: Stream, operator: str, count: int) -> Geometry:
    rank, index_rank = stream.between(1, count), stream.between(1, count)
    most = min(rank, index_rank) - 1 if operator == "GATHER_ND1" else 0
    batches = stream.between(0, most)
    # The output has index_rank - 1 + rank - batches - length dimensions, at most
    # DimensionCount. The least length is below the greatest, as index_rank is at most
    # DimensionCount.
    least = index_rank - 1 + rank - batches - count
    length = stream.between(max(1, least), rank - batches)
    data = _sizes(stream, rank, MOST_DRAWN, 3 if rank > 5 else 5)
    outside = math.prod(data[:batches]) * max(
        length, math.prod(data[batches + length :])
    )
    rows = _sizes(stream, index_rank - 1 - batches, max(1, MOST_DRAWN // outside))
    return Geometry(operator, data, (*data[:batches], *rows, length), batches, count)


_GATHERS = {
    "GATHER": _scalars,
    "GATHER_ELEMENTS": _elements,
    "GATHER_ND": _tuples,
    "GATHER_ND1": _tuples,
}
"""The functions that draw a random gather of each operator, with a given
DimensionCount."""


def _layout(stream: Stream, sizes: Sizes, *, is_output: bool) -> Layout:
    """A random layout: some have strides, some padding, some the flag OWNED_BY_DML."""
    strides = _strides(stream, sizes, is_output=is_output) if stream.one_in(3) else None
    extra = stream.of((0, 0, 0, 4, 20))
    owned = not is_output and stream.one_in(10)
    return Layout(
        strides, extra, TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
    )


def _strides(stream: Stream, sizes: Sizes, *, is_output: bool) -> Sizes:
    """Random strides: permuted, padded and, of an input, repeating or overlapping."""
    if not is_output and stream.one_in(5):
        return tuple(stream.between(0, 7) for _ in sizes)
    order = stream.shuffled(len(sizes)) if stream.one_in(2) else range(len(sizes))
    strides, step = [0] * len(sizes), 1
    for k in reversed(order):
        if is_output or not stream.one_in(6):
            strides[k] = step
            step = step * sizes[k] + stream.of((0, 0, 0, 1, 3))
    return tuple(strides)
