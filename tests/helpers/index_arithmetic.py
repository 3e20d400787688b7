"""Index arithmetic as models of one input, with the values that it must give.

The expected values are computed with Python's integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.lowering import indices
from onnxgather.core.lowering.graph import Graph, Value
from onnxgather.core.model.write import write_model

TYPES = ("int64", "uint64", "int32", "uint32")

SIZES: tuple[int | tuple[int, ...], ...] = (
    *(1, 2, 3, 5, 100, 2**16, 2**24 - 1, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 1),
    *(3 * 10**9, 2**32 - 2, 2**32 - 1),
    *((5, 7), (2**24, 2**24 + 1), (3, 2**31), (4, 2**32 - 1)),
)
"""Axes; several are the axes of a tuple."""

_EDGES = (0, 2**24, 2**31, 2**32, 2**33, 2**40, 2**53, 2**63, 2**64)


def _clamped(graph: Graph, index: Value, sizes: Array) -> Value:
    return graph.cast(indices.clamp(graph, index, sizes), np.int64, "as_int64", "")


def _outside(graph: Graph, index: Value, sizes: Array) -> Value:
    clamped = indices.clamp(graph, index, sizes) if index.dtype == np.int64 else index
    mask = indices.outside_mask(graph, index, clamped, sizes)
    return graph.cast(mask, np.int32, "as_int32", "")


def _wrapped(graph: Graph, index: Value, sizes: Array) -> Value:
    return indices.non_negative(graph, _clamped(graph, index, sizes), sizes)


def _word(graph: Graph, index: Value, sizes: Array) -> Value:
    word = indices.wrapped_word(graph, index, sizes)
    return graph.cast(word, np.int64, "as_int64", "")


ARITHMETIC = {
    "clamp": _clamped,
    "outside": _outside,
    "wrap": _wrapped,
    "word": _word,
}


def model_of(name: str, data_type: str, sizes: int | tuple[int, ...]) -> bytes:
    """The model of an item of ARITHMETIC: input IndicesTensor, one output."""
    graph = Graph()
    shape = index_values(data_type, sizes).shape
    index = graph.input("IndicesTensor", np.dtype(data_type), shape)
    graph.finish(ARITHMETIC[name](graph, index, np.array(sizes, np.int64)), "Output")
    options = {"out_of_range": "clamp", "target": "portable"}
    return write_model(graph, name, 17, options).SerializeToString()


def index_values(data_type: str, sizes: int | tuple[int, ...]) -> Array:
    """Indices around every edge of the type and of the axes, and random ones."""
    info, axes = np.iinfo(data_type), np.atleast_1d(np.array(sizes, object))
    edges = {
        sign * edge for edge in (*_EDGES, *axes, *(2**32 + axes)) for sign in (-1, 1)
    }
    values = {edge + step for edge in edges for step in range(-9, 10)}
    random = np.random.default_rng(1)
    for least, most in ((info.min, info.max), (-3 * max(axes), 3 * max(axes))):
        least, most = max(least, info.min), min(most, info.max)
        values |= set(
            random.integers(least, most, 300, data_type, endpoint=True).tolist()
        )
    array = np.array(sorted(v for v in values if info.min <= v <= info.max), data_type)
    return array if np.ndim(sizes) == 0 else np.stack([array, array[::-1]], -1)


def expected(name: str, index: Array, sizes: int | tuple[int, ...]) -> Any:
    """The right output, as Python's integers."""
    values, size = index.astype(object), np.array(sizes, object)
    if name == "word":  # DirectML reads UINT64 as INT64
        signed = (
            index.astype(np.int64).astype(object)
            if index.dtype == np.uint64
            else values
        )
        return np.where(signed < 0, signed + size, signed) % 2**32
    first = -size if index.dtype.kind == "i" else 0 * size
    clamped = np.minimum(np.maximum(values, first), size - 1)
    if name == "outside":
        return (clamped != values).astype(int)
    return np.where((clamped < 0) & (name == "wrap"), clamped + size, clamped)
