"""The groups of the corpus, whose rows give cases, and the tables in tables.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import NamedTuple

import msgspec

from onnxgather.checking.descriptor_layouts import PACKED, STRIDES, Layout
from onnxgather.core.descriptors.datatypes import (
    GATHERED_TYPES,
    INDEX_TYPES,
    ONNX_NAMES,
    TensorDataType,
)
from onnxgather.core.descriptors.sample_values import OUTLIERS
from onnxgather.core.descriptors.tensors import TensorFlags
from onnxgather.core.gather import Geometry, Sizes
from onnxgather.core.options import POLICIES, OutOfRange

SIZES = (3, 2, 4, 2, 3, 1, 2, 2)
"""The sizes of a tensor of 8 dimensions; a tensor of fewer has the first of them."""

FEW = (2, 1, 3, 1, 1, 2, 1, 1)
"""The same for indices, in cases about the rank of the indices."""

_RANKS = range(1, 9)
"""The ranks of data and of indices that are not scalar."""

ALL_TYPES = tuple(TensorDataType)

LONGER = 20
"""Bytes by which a "longer" tensor exceeds the least TotalTensorSizeInBytes."""

LAYOUTS = {
    **{name: Layout(name) for name in STRIDES},
    "longer": Layout(extra=LONGER),
    "longer-still": Layout("padded", LONGER),
    "owned": Layout(flags=TensorFlags.OWNED_BY_DML),
    "aligned": Layout(alignment=256),
}
"""The layouts of the corpus, by their words in the names of cases."""

_TENSORS = ("input", "indices", "output")
"""The words for the three tensors in the names of cases about layouts."""

NamedLayouts = tuple[str, Sequence[Layout]]
"""The layouts of the three tensors, behind the word that {layout} stands for."""


def _layouts(**words_of_tensors: str) -> list[NamedLayouts]:
    """Return layouts of the three tensors, of which one or all are not packed.

    Args:
        words_of_tensors: Words of `LAYOUTS`, by the tensor that gets the layouts:
            input, indices, output or all.
    """
    named_layouts: list[NamedLayouts] = []
    for which, words in words_of_tensors.items():
        for word in words.split():
            layouts = [
                LAYOUTS[word] if which in (tensor, "all") else Layout()
                for tensor in _TENSORS
            ]
            named_layouts.append((f"{which}-{word}", layouts))
    return named_layouts


class Example(msgspec.Struct, frozen=True):
    """An example of Microsoft's operator pages, of FLOAT32 data and UINT32 indices.

    Where a page errs, the example is corrected.
    """

    name: str
    """The name of the case."""
    gather: Geometry
    first: int
    """The first element of the data; each later element is larger by one."""
    indices: tuple[int, ...]


class ForbiddenRow(msgspec.Struct, frozen=True):
    """A node that ONNX's own specification forbids, so that a provider must refuse it.

    The rules are those of Gather-13, GatherElements-13 and GatherND-13, the newest
    versions. A row breaks one of them and no other. If its axis exists, every index is
    in range of it.
    """

    name: str
    """The name of the case."""
    operator: str
    data: Sizes
    indices: Sizes
    number: int
    """The `axis` or `batch_dims` of the node."""
    index_type: str = "INT64"
    output: Sizes | None = None
    """The shape of the declared output, where the gather gives none because its axis
    does not exist."""


NamedGather = tuple[str, Geometry]
"""A gather behind the word that {gather} in the names of cases stands for."""

Gathers = Sequence[NamedGather]


class _Tables(msgspec.Struct, frozen=True):
    basic: Gathers
    laid_out: Gathers
    """Gathers for layouts: sizes of odd products, so that small types end between
    multiples of 4."""
    documented_sizes: Gathers
    few_dimensions: Gathers
    """Gathers of few dimensions, to which leading ones are added."""
    size_one: Gathers
    """Gathers whose axes, indices or whole tensors have size 1."""
    scalars: Gathers
    """Nodes of ONNX with one index, or with an output of one element."""
    empty: Gathers
    """Nodes with tensors without elements."""
    smaller: Gathers
    """Nodes whose indices are smaller than the data off the axis."""
    high_ranks: Gathers
    """Nodes with tensors of more than 8 dimensions."""
    outside: Gathers
    """Nodes for indices out of range."""
    examples: tuple[Example, ...]
    forbidden: tuple[ForbiddenRow, ...]


_TABLES_FILE = files("onnxgather.checking.corpus").joinpath("tables.json")

TABLES = msgspec.json.decode(_TABLES_FILE.read_bytes(), type=_Tables)
"""The tables of tables.json: gathers for `GROUPS`, and cases of one gather each."""


class Group(NamedTuple):
    """Rows of the table: a case for every combination of the fields.

    A group varies one thing. The rest stays FLOAT32 data and INT64 indices, which every
    provider accepts, so that a case fails for the reason in its name. The words for
    data and indices are those of `sample_values`. A combination that its types cannot
    hold, such as NaNs of integers, is left out.
    """

    template: str
    """The template of the cases' names, with {operator}, {gather}, {layout} and other
    fields."""
    gathers: Gathers
    data_types: Sequence[str] = ("FLOAT32",)
    index_types: Sequence[str] = ("INT64",)
    indices: Sequence[str] = ("any",)
    data: Sequence[str] = ("distinct",)
    layouts: Sequence[NamedLayouts] = (("", PACKED),)
    policies: Sequence[OutOfRange] = ("error",)
    """In range the default is "error": its model is ONNX's own operator, apart from
    casts of indices and leading ones, and that operator is what a provider implements.
    Layouts have the policy "clamp", as their models are more than one operator
    anyway."""


def _element_gather(data: Sizes, axis: int, index_count: int) -> Geometry:
    """Return a GATHER_ELEMENTS; its indices have the data's sizes off the axis."""
    indices = (*data[:axis], index_count, *data[axis + 1 :])
    return Geometry("GATHER_ELEMENTS", data, indices, axis)


def _tuple_gather(
    operator: str, data: Sizes, index_rank: int, length: int, batches: int = 0
) -> Geometry:
    """Return a gather by tuples of a length; each batch has `FEW` rows of them."""
    row_sizes = FEW[: index_rank - batches - 1]
    indices = (*data[:batches], *row_sizes, length)
    return Geometry(operator, data, indices, batches)


def _ranks() -> Iterator[NamedGather]:
    """Yield every rank of the data with every axis, tuple length and batch count.

    The indices have as many dimensions as make the output need no leading ones, or one
    dimension less. Then the model is ONNX's own operator and nothing around it.
    """
    for rank in _RANKS:
        data = SIZES[:rank]
        name = f"rank-{rank}"
        for axis in range(rank):
            length = axis + 1
            index_rank = min(length + 1, rank)
            tuples = _tuple_gather("GATHER_ND", data, index_rank, length)
            yield f"{name}/axis-{axis}", Geometry("GATHER", data, (4,), axis)
            yield f"{name}/axis-{axis}", _element_gather(data, axis, 3)
            yield f"{name}/tuple-{length}", tuples
        for batches in range(rank):
            for length in range(1, rank - batches + 1):
                index_rank = min(batches + length + 1, rank)
                tuples = _tuple_gather("GATHER_ND1", data, index_rank, length, batches)
                yield f"{name}/batches-{batches}-tuple-{length}", tuples


def _index_ranks() -> Iterator[NamedGather]:
    """Yield every rank of the indices, IndexDimensions from 0 up to DimensionCount."""
    for count in _RANKS:
        for index_rank in range(count + 1):
            data_rank = count - max(0, index_rank - 1)
            data = SIZES[:data_rank]
            indices = FEW[:index_rank]
            name = f"index-dimensions-{index_rank}/dimension-count-{count}"
            for axis in sorted({0, data_rank - 1}):
                gather = Geometry("GATHER", data, indices, axis, count)
                yield f"{name}-axis-{axis}", gather

    for rank in _RANKS:
        for index_rank in _RANKS:
            # Longer tuples keep the output within 8 dimensions.
            length = max(1, rank + index_rank - 9)
            gather = _tuple_gather("GATHER_ND", SIZES[:rank], index_rank, length)
            yield f"index-rank-{index_rank}/rank-{rank}", gather

    for batches in range(7):
        data = SIZES[: batches + 2]
        for index_rank in range(batches + 1, 9):
            gather = _tuple_gather("GATHER_ND1", data, index_rank, 1, batches)
            yield f"index-rank-{index_rank}/batches-{batches}", gather


def _leading_ones() -> Iterator[NamedGather]:
    """Yield the gathers of `few_dimensions` with every larger DimensionCount."""
    for name, gather in TABLES.few_dimensions:
        for count in range(len(gather.data) + 1, 9):
            yield f"{name}-in-{count}", replace(gather, dimension_count=count)


def _long_gathers(name: str, data: Sizes, axis: int) -> list[NamedGather]:
    """Return gathers along an axis too long for a table, a byte or 16 bits."""
    return [
        (name, Geometry("GATHER", data, (9,), axis)),
        (name, _element_gather(data, axis, 7)),
        (name, Geometry("GATHER_ND", data, (9, 1 + axis))),
        (name, Geometry("GATHER_ND1", (2, *data), (2, 7, 1 + axis), 1)),
    ]


def _long_first_axes() -> Iterator[Group]:
    """Yield a group for each length of the first axis."""
    for size in (65, 257, 1025):
        gathers = _long_gathers(f"{size}", (size, 2), 0)
        yield Group(_LONG, gathers, indices=["any", "edges"])


def _long_last_axes() -> Iterator[Group]:
    """Yield a group for each length of the last axis."""
    for size in (65, 257):
        yield Group(_LONG, _long_gathers(f"{size}-last", (2, size), 1))


_BY_TYPE = "{operator}/{data_type}/{index_type}/{indices}"
_LONG = "{operator}/long-axis/{gather}/{indices}"
_ORDERS = "written-out permuted padded spaced"
_EXTENTS = "padded permuted longer"

_LONGEST = _long_gathers("65537", (65537, 1), 0)

GROUPS: tuple[Group, ...] = (
    # Data types and index types
    Group(_BY_TYPE, TABLES.basic, ALL_TYPES, INDEX_TYPES, ["forward"]),
    Group(_BY_TYPE, TABLES.basic, ALL_TYPES, ["INT64", "INT32"], ["negative"]),
    Group(
        _BY_TYPE, TABLES.basic, ["FLOAT32", "INT64", "UINT8"], INDEX_TYPES, ["edges"]
    ),
    # Shapes
    Group("{operator}/{gather}", [*_ranks(), *_index_ranks()]),
    Group("{operator}/leading-ones/{gather}", [*_leading_ones()]),
    Group("{operator}/size-one/{gather}", TABLES.size_one),
    *_long_first_axes(),
    *_long_last_axes(),
    Group(_LONG, _LONGEST, ["UINT8"], ["INT32"], ["edges"]),
    Group("{operator}/documented/{gather}", TABLES.documented_sizes),
    # Values of the data
    Group(
        "{operator}/{data}/{data_type}",
        TABLES.basic,
        ALL_TYPES,
        data=["nan", "subnormal", "extremes"],
    ),
    # Layouts
    Group(
        "{operator}/layout/{layout}",
        TABLES.laid_out,
        layouts=_layouts(
            input=f"{_ORDERS} broadcast overlapping longer owned aligned",
            indices=f"{_ORDERS} broadcast overlapping longer owned aligned",
            output=f"{_ORDERS} longer aligned",
            all=f"{_ORDERS} longer longer-still",
        ),
        policies=["clamp"],
    ),
    Group(
        "{operator}/layout/{layout}-{data_type}",
        TABLES.laid_out,
        ["UINT8"],
        ["UINT32"],
        layouts=_layouts(
            input=_EXTENTS,
            indices=_EXTENTS,
            output=_EXTENTS,
            all=f"{_EXTENTS} longer-still",
        ),
        policies=["clamp"],
    ),
    # Policies, first with indices in range
    Group(
        "{operator}/policy/{policy}-{index_type}",
        TABLES.basic,
        index_types=["INT64", "UINT32"],
        policies=["clamp", "zero", "directml"],
    ),
    Group(
        "out-of-range/{operator}/{index_type}/{indices}/{policy}",
        TABLES.basic,
        index_types=INDEX_TYPES,
        indices=tuple(OUTLIERS),
        policies=tuple(POLICIES),
    ),
    Group(
        "out-of-range/{operator}/layout/{layout}/{policy}",
        TABLES.laid_out,
        ["FLOAT16"],
        ["INT32"],
        ["just-past"],
        layouts=_layouts(all="padded longer"),
        policies=tuple(POLICIES),
    ),
)
"""The cases of descriptors, besides the examples of `TABLES`."""

_NODES = [row for row in TABLES.basic if row[1].operator != "GATHER_ND"]
"""A gather of each ONNX operator."""

NODE_GROUPS: tuple[Group, ...] = (
    Group(
        "onnx/{operator}/{data_type}/{indices}",
        _NODES,
        GATHERED_TYPES[len(ALL_TYPES) :],
        indices=["forward", "negative"],
    ),
    # ONNX's operators do not list these, so that a provider must refuse them.
    Group(
        "onnx/{operator}/{data_type}/{indices}",
        _NODES,
        [name for name in ONNX_NAMES.values() if name not in GATHERED_TYPES],
        indices=["forward"],
    ),
    Group(
        "onnx/{operator}/scalar-{gather}/{data_type}",
        TABLES.scalars,
        ["FLOAT32", "BOOL", "STRING"],
    ),
    Group(
        "onnx/{operator}/empty-{gather}/{data_type}",
        TABLES.empty,
        ["FLOAT32", "STRING"],
    ),
    Group(
        "onnx/{operator}/smaller-{gather}/{data_type}",
        TABLES.smaller,
        ["FLOAT32", "INT64", "BOOL", "STRING"],
    ),
    Group(
        "onnx/{operator}/{gather}/{data_type}",
        TABLES.high_ranks,
        ["FLOAT32", "INT64", "BOOL"],
    ),
    Group(
        "onnx/out-of-range/{operator}/{data_type}/{indices}",
        _NODES,
        ["BOOL", "STRING", "BFLOAT16"],
        indices=["just-past", "below"],
    ),
    Group(
        "onnx/out-of-range/{operator}/{gather}/{indices}",
        TABLES.outside,
        indices=["just-past"],
    ),
)
"""The cases of nodes that no descriptor says, besides the forbidden ones of `TABLES`.

Their rows have no layouts and no policies.
"""
