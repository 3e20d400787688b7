"""Random cases: valid descriptors of small sizes, with indices in range or not.

The names of the cases seed their random numbers. So the order of the draws is part of
the cases: another order gives other cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from msgspec.structs import replace

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
        seed: The start of the random numbers. Case N has the name `random/SEED/N`,
            with N from 0.
        out_of_range: The policy of all cases; None draws a policy for each case.
            Nothing else depends on it.
        chosen: Return whether to make the case with a name.
    """
    for name in random_names(count, seed):
        if chosen(name):
            yield _random_case(name, out_of_range)


def random_names(count: int, seed: int) -> Iterator[str]:
    """Yield the names of the random cases."""
    return (f"random/{seed}/{number}" for number in range(count))


def _random_case(name: str, out_of_range: OutOfRange | None) -> DescriptorCase:
    stream = Stream(seed_of(name))
    operator = stream.of(OPERATORS)
    dimension_count = stream.between(1, MAX_DIMENSIONS)
    gather = _GATHERS[operator](stream, operator, dimension_count)
    data_type = stream.of(TensorDataType)
    index_type = stream.of(INDEX_TYPES)
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    layouts = [
        _layout(stream, data_sizes, is_output=False),
        _layout(stream, index_sizes, is_output=False),
        _layout(stream, output_sizes, is_output=True),
    ]
    desc = descriptor_with_layouts(gather, data_type, index_type, layouts)
    data = _data(desc, stream)
    indices = _indices(desc, stream)
    # The policy is drawn even if it is given, so that the later draws are the same.
    policy = stream.of(POLICIES)
    if out_of_range is not None:
        policy = out_of_range
    desc = _with_counted_ones(desc, stream)
    return DescriptorCase(name, desc, data, indices, policy)


def _with_counted_ones(desc: Descriptor, stream: Stream) -> Descriptor:
    """Return the descriptor, with a larger IndexDimensions where that fits.

    IndexDimensions then counts leading ones of the indices, which the output crops.
    """
    if not isinstance(desc, GatherDesc):
        return desc
    # The output may only crop ones, and crops the sizes before the axis first.
    if math.prod(desc.input_tensor.sizes[: desc.axis]) > 1:
        return desc
    count = desc.input_tensor.dimension_count
    fewest = desc.axis + 2
    most = min(count, MAX_DIMENSIONS + 1 - count)
    if fewest > most or stream.one_in(4):
        return desc
    index_dimensions = stream.between(fewest, most)
    return replace(desc, index_dimensions=index_dimensions)


def _data(desc: Descriptor, stream: Stream) -> Array:
    """Return distinct values; in one of six cases unusual values."""
    data_type = desc.input_tensor.data_type
    unusual: tuple[str, ...] = ("extremes",)
    if data_type.numpy.kind == "f":
        unusual = ("nan", "subnormal", "extremes")
    kind = "distinct"
    if stream.one_in(6):
        kind = stream.of(unusual)
    shape = desc.input_tensor.array_shape
    return data_values(data_type.numpy, shape, kind, stream.number())


def _indices(desc: Descriptor, stream: Stream) -> Array:
    """Return indices in range, of which wild ones replace some in two of five cases."""
    wild_percent = stream.of((0, 0, 0, 30, 100))
    seed = stream.number()
    kind = stream.of(("any", "any", "forward", "edges"))
    indices = index_values(desc, kind, seed)
    if wild_percent == 0:
        return indices

    axis_size = max(axis_sizes(desc))
    wild = _wild_indices(desc.indices_tensor.data_type, axis_size)
    # The last two digits of a random number decide whether an index is replaced, and
    # the digits before them by which wild index.
    random = splitmix64(seed + 1, indices.size).reshape(indices.shape)
    is_replaced = random % np.uint64(100) < wild_percent
    positions = random // np.uint64(100) % np.uint64(wild.size)
    replacements = wild[positions.astype(np.intp)]
    return np.where(is_replaced, replacements, indices)


@cache
def _wild_indices(index_type: TensorDataType, axis_size: int) -> Array:
    """Return indices around the ends of an axis and around powers of two.

    Most of them are out of range. Those that the index type cannot hold are left out.
    """
    size = axis_size
    near = [-1, size - 1, size, size + 1, 2 * size, -size, -size - 1, -2 * size]
    near.append(1000 * size)
    offsets = (-size, -1, 0, 1, size)
    far = [2**bits + offset for bits in (31, 32, 33, 63, 64) for offset in offsets]
    negative = [-value for value in far]
    limits = np.iinfo(index_type.numpy)
    values = [
        value for value in (*near, *far, *negative) if limits.min <= value <= limits.max
    ]
    return np.array(values, index_type.numpy)


def _sizes(stream: Stream, rank: int, most_elements: int, largest: int = 4) -> Sizes:
    """Return random sizes up to `largest` whose product is at most `most_elements`.

    The dimensions get their sizes in a random order, so that no dimension is favoured.
    """
    sizes = [1] * rank
    elements_left = most_elements
    for dimension in stream.shuffled(rank):
        size = stream.between(1, min(largest, elements_left))
        sizes[dimension] = size
        elements_left //= size
    return tuple(sizes)


def _scalar_gather(stream: Stream, operator: str, dimension_count: int) -> Geometry:
    """Return a random GATHER."""
    index_rank = stream.between(0, dimension_count)
    # The output has the indices' dimensions in place of the axis.
    most_data_dimensions = dimension_count - max(0, index_rank - 1)
    data_rank = stream.between(1, most_data_dimensions)
    data = _sizes(stream, data_rank, MOST_DRAWN, 6)
    axis = stream.between(0, data_rank - 1)
    most_indices = MOST_DRAWN * data[axis] // math.prod(data)
    indices = _sizes(stream, index_rank, most_indices)
    return Geometry(operator, data, indices, axis, dimension_count)


def _element_gather(stream: Stream, operator: str, dimension_count: int) -> Geometry:
    """Return a random GATHER_ELEMENTS."""
    rank = stream.between(1, dimension_count)
    data = _sizes(stream, rank, MOST_DRAWN, 6)
    axis = stream.between(0, rank - 1)
    most_indices = min(7, MOST_DRAWN * data[axis] // math.prod(data))
    index_count = stream.between(1, most_indices)
    indices = (*data[:axis], index_count, *data[axis + 1 :])
    return Geometry(operator, data, indices, axis, dimension_count)


def _tuple_gather(stream: Stream, operator: str, dimension_count: int) -> Geometry:
    """Return a random GATHER_ND or GATHER_ND1."""
    rank = stream.between(1, dimension_count)
    index_rank = stream.between(1, dimension_count)
    most_batches = 0
    if operator == "GATHER_ND1":
        most_batches = min(rank, index_rank) - 1
    batches = stream.between(0, most_batches)

    # The output has index_rank - 1 + rank - batches - length dimensions, at most
    # DimensionCount. The least length is below the greatest, as index_rank is at most
    # DimensionCount.
    least_length = max(1, index_rank - 1 + rank - batches - dimension_count)
    length = stream.between(least_length, rank - batches)

    largest = 3 if rank > 5 else 5
    data = _sizes(stream, rank, MOST_DRAWN, largest)
    # A row of the indices is a tuple, and a row of the output an element or a slice.
    largest_row = max(length, math.prod(data[batches + length :]))
    elements_per_row = math.prod(data[:batches]) * largest_row
    most_rows = max(1, MOST_DRAWN // elements_per_row)
    rows = _sizes(stream, index_rank - 1 - batches, most_rows)
    indices = (*data[:batches], *rows, length)
    return Geometry(operator, data, indices, batches, dimension_count)


_GATHERS = {
    "GATHER": _scalar_gather,
    "GATHER_ELEMENTS": _element_gather,
    "GATHER_ND": _tuple_gather,
    "GATHER_ND1": _tuple_gather,
}
"""For each operator, the function that draws a gather with a given DimensionCount."""


def _layout(stream: Stream, sizes: Sizes, *, is_output: bool) -> Layout:
    """Return a random layout; some have strides, padding or the flag OWNED_BY_DML."""
    strides = None
    if stream.one_in(3):
        strides = _strides(stream, sizes, is_output=is_output)
    extra = stream.of((0, 0, 0, 4, 20))
    flags = TensorFlags.NONE
    if not is_output and stream.one_in(10):
        flags = TensorFlags.OWNED_BY_DML
    return Layout(strides, extra, flags)


def _strides(stream: Stream, sizes: Sizes, *, is_output: bool) -> Sizes:
    """Return random strides, permuted and padded.

    Strides of an input may also repeat elements or overlap.
    """
    # Case 1: an input whose strides follow no order.
    if not is_output and stream.one_in(5):
        return tuple(stream.between(0, 7) for _ in sizes)

    # Case 2: dimensions that nest in one another.
    rank = len(sizes)
    order = list(range(rank))
    if stream.one_in(2):
        order = stream.shuffled(rank)
    strides = [0] * rank
    step = 1
    for dimension in reversed(order):
        # A dimension of an input may keep the stride 0, so that it repeats.
        if not is_output and stream.one_in(6):
            continue
        strides[dimension] = step
        gap = stream.of((0, 0, 0, 1, 3))
        step = step * sizes[dimension] + gap
    return tuple(strides)
