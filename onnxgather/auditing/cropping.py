"""Large constants that gathers read, cropped to what their indices read."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import onnx

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.gather import Geometry, gather_of_node
from onnxgather.core.model.network import (
    Operation,
    Scope,
    array_of_tensor,
    folder_of,
    reading,
)
from onnxgather.core.model.values import DIRECTML_NAMES
from onnxgather.core.model.wire import StoredTensor, Weight

LARGEST_WHOLE = 2**26
"""A constant of at most this many bytes is read whole."""

LARGEST_READ = 2**24
"""The most bytes that are read at once of a constant in a file, or else a row."""


def constant_data(
    scope: Scope, operation: Operation, indices: Array
) -> tuple[Array, Array]:
    """Return the data of a gather, which is a constant, and its indices.

    Along an indexed dimension large data keeps the elements that the indices read, and
    its first and last element. The indices change so that each reads the same; an index
    that is out of range stays out of range by as much. So the output is the same
    whatever an index out of range does by its own axis.

    Args:
        scope: The graph of the gather.
        operation: The gather.
        indices: Its indices.

    Returns:
        The data and the indices.

    Raises:
        OnnxGatherError: The constant cannot be read.
    """
    name = operation.inputs[0]
    tensor = cast("Weight", scope.tensor(name))
    value_type = scope.type_of(name)
    sizes = tuple(tensor.dims)
    gather = gather_of_node(operation.operator, sizes, indices.shape, operation.number)
    element_bytes = 0  # of a type that DirectML has not; such a constant is read whole
    if value_type.dtype and value_type.data_type in DIRECTML_NAMES:
        element_bytes = value_type.dtype.itemsize
    byte_count = math.prod(sizes) * element_bytes
    is_small = byte_count <= LARGEST_WHOLE
    if is_small or gather.broken_rule() is not None:
        return cast("Array", scope.constant(name)), indices

    # What does not fit its sizes is read whole, which says so.
    if isinstance(tensor, StoredTensor):
        is_in_file = len(tensor.content) == byte_count
    else:
        is_in_file = tensor.data_location == onnx.TensorProto.EXTERNAL
    data = None if is_in_file else cast("Array", scope.constant(name))
    with reading(scope.path, name):
        kept, new_indices = _kept(gather, indices)
        leading_sizes = sizes[: len(kept)]
        rows: Array = np.ravel_multi_index(np.ix_(*kept), leading_sizes)
        rows = rows.ravel()
        row_sizes = gather.behind
        if data is None:
            row_bytes = math.prod(row_sizes) * element_bytes
            folder = folder_of(scope.path)
            cropped = _rows(tensor, folder, rows, row_sizes, row_bytes)
        else:
            cropped = data.reshape(-1, *row_sizes)[rows]
        cropped_sizes = [len(numbers) for numbers in kept]
        return cropped.reshape([*cropped_sizes, *row_sizes]), new_indices


def _kept(gather: Geometry, indices: Array) -> tuple[list[Array], Array]:
    """Return what is kept of each dimension up to the last indexed; the new indices."""
    kept: list[Array] = [np.arange(size) for size in gather.data[: gather.number]]
    tuples = indices.astype(np.int64).reshape(-1, gather.tuple_size)
    for coordinate, size in enumerate(gather.axes):
        column = tuples[:, coordinate]
        positions = np.where(column < 0, column + size, column)
        inside = (positions >= 0) & (positions < size)
        # The first and the last element stay, so that the ends are where they were.
        numbers = np.unique([0, size - 1, *positions[inside]])
        kept.append(numbers)
        # An index beyond an end stays as far from this end.
        beyond_last = positions - size + len(numbers)
        outside = np.where(positions < 0, positions, beyond_last)
        found = np.searchsorted(numbers, positions)
        new_positions = np.where(inside, found, outside)
        from_end = new_positions - len(numbers)
        column[:] = np.where(column < 0, from_end, new_positions)
    return kept, tuples.reshape(indices.shape).astype(indices.dtype)


def _rows(
    tensor: Weight,
    folder: str,
    rows: Array,
    row_sizes: tuple[int, ...],
    row_bytes: int,
) -> Array:
    """Return rows of a tensor whose data is in a file.

    Args:
        tensor: The tensor.
        folder: The folder of a file of external data.
        rows: The numbers of the rows, rising, of the tensor as an array of rows.
        row_sizes: The sizes of a row.
        row_bytes: The bytes of a row.
    """
    # Rows that are near each other are read together.
    rows_per_block = max(1, LARGEST_READ // row_bytes)
    blocks = rows // rows_per_block
    block_starts = np.flatnonzero(np.diff(blocks)) + 1
    parts: list[Array] = []
    for row_block in np.split(rows, block_starts):
        first_row = int(row_block[0])
        end_row = int(row_block[-1]) + 1
        part = onnx.TensorProto(
            data_type=tensor.data_type, dims=[end_row - first_row, *row_sizes]
        )
        start = first_row * row_bytes
        end = end_row * row_bytes
        if isinstance(tensor, StoredTensor):
            part.raw_data = tensor.content.part(start, end)
        else:
            _refer(part, tensor, start, end)
        block = array_of_tensor(part, folder)
        parts.append(block[row_block - first_row])
    return np.concatenate(parts)


def _refer(
    part: onnx.TensorProto, tensor: onnx.TensorProto, start: int, end: int
) -> None:
    """Let a tensor refer to some bytes of the external data of another one."""
    location = {entry.key: entry.value for entry in tensor.external_data}
    offset = int(location.get("offset", 0))
    location |= {"offset": str(offset + start), "length": str(end - start)}
    part.data_location = onnx.TensorProto.EXTERNAL
    for key, value in location.items():
        part.external_data.add(key=key, value=value)
