"""Random valid descriptors with arrays that fit them.

The sizes of outputs are worked out here, without `onnxgather.core.gather`: tests that
must see a mistake planted there draw their cases from this module.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import onnxgather as og
from onnxgather.core.descriptors.arrays import axis_sizes
from onnxgather.core.descriptors.datatypes import INDEX_TYPES

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A descriptor with the arrays to run it on."""

    desc: og.Descriptor
    data: Array
    indices: Array


def small_sizes(
    count: int, largest: int = 4, product: int = 400
) -> st.SearchStrategy[list[int]]:
    """Sizes whose product stays small."""
    return st.lists(st.integers(1, largest), min_size=count, max_size=count).filter(
        lambda s: math.prod(s) <= product
    )


@st.composite
def gathers(
    draw: st.DrawFn, operators: Sequence[str]
) -> tuple[str, list[int], list[int], list[int], dict[str, int]]:
    """An operator, the sizes of its three tensors and its other fields."""
    operator = draw(st.sampled_from(operators))
    count = draw(st.integers(1, 8))
    if operator == "GATHER":
        rank = draw(st.integers(0, count))
        cropped = max(0, rank - 1)
        axis = draw(st.integers(cropped, count - 1))
        data = [1] * cropped + draw(small_sizes(count - cropped))
        kept = draw(small_sizes(rank, product=60))
        output = data[cropped:axis] + kept + data[axis + 1 :]
        # Where the output crops all sizes before Axis, it may crop ones of the indices
        # too.
        most = min(count, 9 - count) if math.prod(data[:axis]) == 1 else 0
        if axis + 2 <= most and draw(st.booleans()):
            rank = draw(st.integers(axis + 2, most))
        fields = {"axis": axis, "index_dimensions": rank}
    elif operator == "GATHER_ELEMENTS":
        axis = draw(st.integers(0, count - 1))
        data = draw(small_sizes(count))
        kept = list(data)
        kept[axis] = draw(st.integers(1, 5))
        output = kept
        fields = {"axis": axis}
    else:
        rank, index_rank = draw(st.integers(1, count)), draw(st.integers(1, count))
        most = min(rank, index_rank) - 1
        batches = draw(st.integers(0, most)) if operator == "GATHER_ND1" else 0
        # The output's dimensions must fit: index_rank - 1 + rank - batches -
        # tuple_size.
        least = max(1, index_rank - 1 + rank - batches - count)
        if least > rank - batches:
            index_rank = batches + 1
            least = 1
        tuple_size = draw(st.integers(least, rank - batches))
        counted = draw(small_sizes(rank, largest=3 if rank > 5 else 4))
        data = [1] * (count - rank) + counted
        kept = [
            *counted[:batches],
            *draw(small_sizes(index_rank - 1 - batches, product=60)),
            tuple_size,
        ]
        output = kept[:-1] + counted[batches + tuple_size :]
        fields = {"input_dimension_count": rank, "indices_dimension_count": index_rank}
        if operator == "GATHER_ND1":
            fields["batch_dimension_count"] = batches
    indices = [1] * (count - len(kept)) + kept
    return operator, data, indices, [1] * (count - len(output)) + output, fields


@st.composite
def strides(draw: st.DrawFn, sizes: list[int], *, output: bool) -> list[int] | None:
    """Strides of sizes: none, or permuted, padded and, for inputs, broadcast or
    overlapping."""
    if draw(st.integers(0, 2)) > 0:
        return None
    if not output and draw(st.integers(0, 4)) == 0:
        return draw(
            st.lists(st.integers(0, 7), min_size=len(sizes), max_size=len(sizes))
        )
    order = draw(st.permutations(range(len(sizes))))
    if draw(st.booleans()):
        order = sorted(order)
    result = [0] * len(sizes)
    step = 1
    for k in reversed(order):
        broadcast = not output and draw(st.integers(0, 5)) == 0
        result[k] = 0 if broadcast else step
        padding = draw(st.sampled_from([0, 0, 0, 1, 3]))
        step = step if broadcast else step * sizes[k] + padding
    return result


@st.composite
def tensors(
    draw: st.DrawFn, data_type: str, sizes: list[int], *, output: bool = False
) -> og.TensorDesc:
    """A tensor of a data type and sizes, sometimes strided, sometimes longer than it
    must be."""
    tensor = og.TensorDesc(data_type, sizes, draw(strides(sizes, output=output)))
    extra = draw(st.sampled_from([0, 0, 0, 4, 20]))
    return og.TensorDesc(
        data_type, sizes, tensor.strides, tensor.total_tensor_size_in_bytes + extra
    )


@st.composite
def descriptors(
    draw: st.DrawFn,
    *,
    packed: bool = False,
    operators: Sequence[str] = tuple(og.OPERATORS),
) -> og.Descriptor:
    """Any valid descriptor of small sizes."""
    operator, data, indices, output, fields = draw(gathers(operators))
    data_type = draw(st.sampled_from(list(og.TensorDataType)))
    index_type = draw(st.sampled_from(INDEX_TYPES))
    if packed:
        three = [
            og.TensorDesc(data_type, data),
            og.TensorDesc(index_type, indices),
            og.TensorDesc(data_type, output),
        ]
    else:
        three = [
            draw(tensors(data_type, data)),
            draw(tensors(index_type, indices)),
            draw(tensors(data_type, output, output=True)),
        ]
    cls: Any = og.OPERATORS[operator]
    return cls(*three, **fields)


def random_data(tensor: og.TensorDesc, rng: np.random.Generator) -> Array:
    """Data of random bits, with NaNs and -0.0 among the floats."""
    count = math.prod(tensor.array_shape)
    data = np.frombuffer(
        rng.bytes(count * tensor.data_type.size), tensor.data_type.numpy
    ).copy()
    if tensor.data_type.numpy.kind == "f":
        data[rng.random(count) < 0.1] = -0.0
    return data.reshape(tensor.array_shape)


def random_indices(
    desc: og.Descriptor, rng: np.random.Generator, *, wild: float
) -> Array:
    """Indices in range, negative ones included; the share `wild` of them may be out of
    range."""
    tensor = desc.indices_tensor
    dtype = tensor.data_type.numpy
    shape = tensor.array_shape
    limits = np.iinfo(dtype)
    per_axis = axis_sizes(desc)
    # A strided buffer mixes the coordinates of a tuple: keep to the smallest axis
    # there.
    n = (
        np.array(per_axis)
        if tensor.strides is None and len(per_axis) > 1
        else min(per_axis)
    )
    low = -n if tensor.data_type.is_signed else 0 * n
    values = rng.integers(np.broadcast_to(low, shape), n, shape).astype(dtype)
    if wild:
        size = max(per_axis)
        near = [
            size,
            size + 1,
            -size - 1,
            -1,
            2 * size,
            2**31 - 1,
            2**31,
            2**32 - 1,
            2**32,
        ]
        far = [
            2**32 + 1,
            2**33 + 3,
            2**63 - 1,
            2**63,
            2**64 - 1,
            2**64 - size,
            -(2**31),
            -(2**63),
        ]
        pool = [v for v in near + far if limits.min <= v <= limits.max]
        pool += rng.integers(limits.min, limits.max, 4, dtype, endpoint=True).tolist()
        chosen = np.array(pool, dtype)[rng.integers(0, len(pool), shape)]
        values = np.where(rng.random(shape) < wild, chosen, values).astype(dtype)
    return values


def random_case(desc: og.Descriptor, seed: int = 0, wild: float = 0.3) -> Case:
    """A descriptor with random arrays."""
    rng = np.random.default_rng(seed)
    data = random_data(desc.input_tensor, rng)
    return Case(desc, data, random_indices(desc, rng, wild=wild))


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    wild: bool = True,
    packed: bool = False,
    operators: Sequence[str] = tuple(og.OPERATORS),
) -> Case:
    """A descriptor with data and indices; if `wild`, some indices may be out of
    range."""
    desc = draw(descriptors(packed=packed, operators=operators))
    seed = draw(st.integers(0, 2**32 - 1))
    share = draw(st.sampled_from([0.0, 0.3, 1.0])) if wild else 0.0
    return random_case(desc, seed, share)
