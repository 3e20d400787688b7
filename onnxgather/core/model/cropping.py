"""Large constants that gathers take, cropped to what their indices read."""

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

LARGEST_WHOLE = 2**26
"""The most bytes of a constant that is read whole."""

LARGEST_READ = 2**24
"""The most bytes of a constant in a file of its own that are read at once, if a row has
fewer."""


def constant_data(
    scope: Scope, operation: Operation, indices: Array
) -> tuple[Array, Array]:
    """The data of a gather, which is a constant, and its indices.

    Along an indexed dimension large data keeps the elements that the indices read, and
    its first and last one. The indices change so that each reads the same; one that is
    out of range stays so by as much. So the output is the same whatever an index out of
    range does by its own axis.

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
    tensor, known = cast("onnx.TensorProto", scope.tensor(name)), scope.type_of(name)
    sizes = tuple(tensor.dims)
    gather = gather_of_node(operation.operator, sizes, indices.shape, operation.number)
    element = (
        known.dtype.itemsize if known.dtype and known.data_type in DIRECTML_NAMES else 0
    )
    is_whole = (
        math.prod(sizes) * element <= LARGEST_WHOLE or gather.broken_rule() is not None
    )
    data = None
    if is_whole or tensor.data_location != onnx.TensorProto.EXTERNAL:
        data = cast("Array", scope.constant(name))
        if is_whole:
            return data, indices
    with reading(scope.path, name):
        kept, changed = _kept(gather, indices)
        rows: Array = np.ravel_multi_index(np.ix_(*kept), sizes[: len(kept)]).ravel()
        if data is None:
            size = math.prod(gather.behind) * element
            data = _rows(tensor, folder_of(scope.path), rows, gather.behind, size)
        else:
            data = data.reshape(-1, *gather.behind)[rows]
        return data.reshape([*map(len, kept), *gather.behind]), changed


def _kept(gather: Geometry, indices: Array) -> tuple[list[Array], Array]:
    """The numbers that are kept along each dimension up to the last indexed one; new indices."""
    kept: list[Array] = [
        np.arange(n) for n in gather.data[: gather.number + gather.tuple_size]
    ]
    changed = indices.astype(np.int64).reshape(-1, gather.tuple_size)
    for k, n in enumerate(gather.axes, gather.number):
        given = changed[:, k - gather.number]
        at = np.where(given < 0, given + n, given)
        inside = (at >= 0) & (at < n)
        kept[k] = np.unique([0, n - 1, *at[inside]])
        outside = np.where(at < 0, at, at - n + len(kept[k]))
        at = np.where(inside, np.searchsorted(kept[k], at), outside)
        given[:] = np.where(given < 0, at - len(kept[k]), at)
    return kept, changed.reshape(indices.shape).astype(indices.dtype)


def _rows(
    tensor: onnx.TensorProto, folder: str, rows: Array, row: tuple[int, ...], size: int
) -> Array:
    """Rows of a tensor whose data is in a file of a folder.

    Args:
        tensor: The tensor.
        folder: The folder.
        rows: The numbers of the rows, rising, where the tensor is seen as an array of rows.
        row: The sizes of a row.
        size: The bytes of a row.
    """
    told = {entry.key: entry.value for entry in tensor.external_data}
    blocks, found = rows // max(1, LARGEST_READ // size), list[Array]()
    for some in np.split(rows, np.flatnonzero(np.diff(blocks)) + 1):
        first, past = int(some[0]), int(some[-1]) + 1
        part = onnx.TensorProto(data_type=tensor.data_type, dims=[past - first, *row])
        part.data_location = onnx.TensorProto.EXTERNAL
        at = {
            "offset": int(told.get("offset", 0)) + first * size,
            "length": (past - first) * size,
        }
        for key, value in {**told, **at}.items():
            part.external_data.add(key=key, value=str(value))
        found.append(array_of_tensor(part, folder)[some - first])
    return np.concatenate(found)
