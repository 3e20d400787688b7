"""Gathers by ONNX's own formulas, in numpy: of any data type, any rank, empty or not.

DirectML's formulas are in `reference`. This module shares nothing with the lowering,
nor with the geometry of descriptors, so that it sees their mistakes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.checks import check_choice, integer, require, shown
from onnxgather.core.descriptors.arrays import Array, is_outside, plain_array
from onnxgather.core.descriptors.operators import FACTS
from onnxgather.core.errors import DescriptorError, IndexOutOfRangeError
from onnxgather.core.public import public

_FACTS = {row.onnx: row for row in FACTS.values()}
"""The facts of ONNX's operators, by their names."""

_Read = tuple[tuple[Any, ...], Any]
"""What numpy reads of the data: an index for each of the first dimensions; and the size
that an index must be in range of, or a size for each coordinate of a tuple."""


@public
def reference_onnx(
    op_type: str, data: Any, indices: Any, axis: int = 0, batch_dims: int = 0
) -> Array:
    """Return the output of a node of ONNX, computed by the formula of its operator.

    Args:
        op_type: Gather, GatherElements or GatherND, since opset 13.
        data: An array of any shape and any data type, also of texts and of the types of
            ml_dtypes. As a gather only moves elements, it may have a data type that
            ONNX does not list for the operator, such as FLOAT8E5M2.
        indices: An array of INT64, or of INT32 except for GatherND. An index in [-n, 0)
            counts from the end of its axis.
        axis: The attribute of Gather and GatherElements; it may count from the end.
        batch_dims: The attribute of GatherND.

    Returns:
        An array of the data's type.

    Raises:
        DescriptorError: An argument is no array, or breaks a rule of the operator.
        IndexOutOfRangeError: An index is out of range; the message names the first.
        OnnxGatherError: There is no operator of that name.

    Example:
        >>> data = np.array([["a", "b"], ["c", "d"]], object)
        >>> og.reference_onnx("GatherElements", data, np.array([[1], [-2]]), axis=1)
        array([['b'],
               ['c']], dtype=object)
    """
    op_type = check_choice("op_type", op_type, _FACTS)
    facts = _FACTS[op_type]
    data = plain_array("data must be an array", data)
    indices = plain_array("indices must be an array", indices)
    value = axis if facts.attribute == "axis" else batch_dims
    number = integer(value)
    if number is None:
        rule = f"{facts.attribute} must be an integer"
        raise DescriptorError(f"{rule}, got {shown(value)}")

    require(data.ndim > 0, "data must have a dimension", "a scalar")
    if op_type == "GatherND":
        places, size = _read_by_tuples(data, indices, number)
    else:
        rank = data.ndim
        rule = f"axis must be in [{-rank}, {rank})"
        require(-rank <= number < rank, rule, number)
        read = _read_by_gather if op_type == "Gather" else _read_by_elements
        places, size = read(data, indices, number % rank)
    types = facts.onnx_index_types
    index_type = indices.dtype.name.upper()
    require(index_type in types, f"indices must be {' or '.join(types)}", index_type)
    _check_range(indices, size)
    try:
        output = data[places]
    except (IndexError, ValueError):
        rank = data.ndim - 1 + indices.ndim
        rule = "the output must have a rank that numpy has"
        raise DescriptorError(f"{rule}, got {rank}") from None
    # numpy returns a single element as no array.
    return np.asarray(output, data.dtype)


def _read_by_gather(data: Array, indices: Array, axis: int) -> _Read:
    """Return what output[a…, i…, b…] = data[a…, indices[i…], b…] reads."""
    before = (slice(None),) * axis
    return (*before, indices), data.shape[axis]


def _read_by_elements(data: Array, indices: Array, axis: int) -> _Read:
    """Return what output[a…, i, b…] = data[a…, indices[a…, i, b…], b…] reads.

    The indices may have fewer coordinates a… and b… than the data, and any number of i.
    """
    rule = f"indices must have the rank of data ({data.ndim})"
    require(indices.ndim == data.ndim, rule, indices.ndim)
    largest = list(data.shape)
    sizes = list(indices.shape)
    largest[axis] = sizes[axis]
    if any(map(int.__gt__, sizes, largest)):
        rule = "no size of indices but that at axis may exceed data's"
        raise DescriptorError(f"{rule} {list(data.shape)}, got {sizes}")
    places = list(np.indices(sizes, sparse=True))
    places[axis] = indices
    return tuple(places), data.shape[axis]


def _read_by_tuples(data: Array, indices: Array, batches: int) -> _Read:
    """Return what output[n…, i…, s…] = data[n…, indices[n…, i…, :]…, s…] reads."""
    require(indices.ndim > 0, "indices must have a dimension", "a scalar")
    lower_rank = min(data.ndim, indices.ndim)
    rule = f"batch_dims must be at least 0 and less than both ranks ({lower_rank})"
    require(0 <= batches < lower_rank, rule, batches)
    *rows, length = indices.shape
    longest = data.ndim - batches
    rule = f"the last size of indices must be 1 to rank(data) - batch_dims ({longest})"
    require(1 <= length <= longest, rule, length)
    wanted = list(data.shape[:batches])
    found = rows[:batches]
    rule = f"the first batch_dims ({batches}) sizes of indices must be those of data"
    require(found == wanted, f"{rule}, {wanted}", found)
    batch = np.indices(rows, sparse=True)[:batches]
    coordinates = [indices[..., place] for place in range(length)]
    sizes = data.shape[batches : batches + length]
    return (*batch, *coordinates), np.array(sizes)


def _check_range(indices: Array, sizes: Any) -> None:
    """Check that every index is in [-n, n).

    Args:
        indices: The indices.
        sizes: n, or an n for each coordinate of a tuple.

    Raises:
        IndexOutOfRangeError: An index is out of range; the message names the first.
    """
    mask = is_outside(indices, sizes)
    if not mask.any():
        return
    first = np.unravel_index(np.argmax(mask), indices.shape)
    size = int(np.broadcast_to(sizes, indices.shape)[first])
    where = "indices"
    if first:  # a scalar has no coordinates
        where += f"[{','.join(map(str, first))}]"
    rule = f"{where} must be in [{-size}, {size})"
    raise IndexOutOfRangeError(f"{rule}, got {indices[first]}")
