"""Descriptors that all differ, of all operators and types in turn."""

from __future__ import annotations

import itertools

import onnxgather as og
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.gather import Geometry

INDICES = {
    "GATHER": ((5, 2), 1),
    "GATHER_ELEMENTS": ((3, 7, 4), 1),
    "GATHER_ND": ((5, 2), 0),
    "GATHER_ND1": ((3, 5, 1), 1),
}
"""The sizes of each operator's indices, and its axis or number of batches."""


def different_descriptors(count: int) -> list[og.Descriptor]:
    """Return so many descriptors."""
    made: list[og.Descriptor] = []
    kinds = itertools.cycle(itertools.product(INDICES, og.TensorDataType, INDEX_TYPES))
    chosen = itertools.islice(kinds, count)
    for n, (operator, data_type, index_type) in enumerate(chosen, 2):
        gather = Geometry(operator, (3, n, 4), *INDICES[operator], dimension_count=4)
        types = (data_type, index_type, data_type)
        tensors = list(map(og.TensorDesc, types, gather.tensor_sizes()))
        made.append(gather.descriptor(tensors))
    assert len(set(made)) == count
    return made
