"""The groups of the corpus, whose rows make cases, and the tables of gathers in tables.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product
from typing import NamedTuple

import msgspec

from onnxgather.checking.descriptor_layouts import PACKED, STRIDES, Layout
from onnxgather.core.descriptors.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.core.descriptors.sample_values import OUTLIERS
from onnxgather.core.descriptors.tensors import TensorFlags
from onnxgather.core.gather import Geometry, Sizes
from onnxgather.core.options import POLICIES, OutOfRange

SIZES = (3, 2, 4, 2, 3, 1, 2, 2)
"""The sizes of a tensor of 8 dimensions; those of fewer are the first of these."""

FEW = (2, 1, 3, 1, 1, 2, 1, 1)
"""The same for indices, in cases about the rank of the indices."""

ALL_TYPES = tuple(TensorDataType)

LONGER = 20
"""Bytes by which a "longer" tensor exceeds the smallest legal
TotalTensorSizeInBytes."""

LAYOUTS = {
    **{name: Layout(name) for name in STRIDES},
    "longer": Layout(extra=LONGER),
    "longer-still": Layout("padded", LONGER),
    "owned": Layout(flags=TensorFlags.OWNED_BY_DML),
    "aligned": Layout(alignment=256),
}
"""The layouts of the corpus, by the word that stands for them in the names of cases."""


def _layouts(**words: str) -> list[tuple[str, Sequence[Layout]]]:
    """Names of layouts, each with the layouts of the three tensors.

    Args:
        words: Words of layouts by the tensor that has them: input, indices, output or all.
    """
    tensors = ("input", "indices", "output")
    return [
        (
            f"{which}-{word}",
            [LAYOUTS[word] if which in (t, "all") else Layout() for t in tensors],
        )
        for which, some in words.items()
        for word in some.split()
    ]


class Example(msgspec.Struct, frozen=True):
    """An example of Microsoft's operator pages: FLOAT32 by UINT32, corrected where they err."""

    name: str
    """The name of the case."""
    gather: Geometry
    first: int
    """The first element of the data; each of the others is one more than the one before
    it."""
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
    """The shape of the declared output where the gather gives none, as the axis does
    not exist."""


Gathers = Sequence[tuple[str, Geometry]]
"""Gathers, each with the word that {gather} in the names of cases stands for."""


class _Tables(msgspec.Struct, frozen=True):
    basic: Gathers
    laid_out: Gathers
    """Gathers for layouts: sizes of odd products, so that small types end between multiples of
    4."""
    documented_sizes: Gathers
    few_dimensions: Gathers
    """Gathers of few dimensions, to which leading ones are added."""
    size_one: Gathers
    """Gathers whose axes, indices or whole tensors have size 1."""
    examples: tuple[Example, ...]
    forbidden: tuple[ForbiddenRow, ...]


TABLES = msgspec.json.decode(
    files("onnxgather.checking.corpus").joinpath("tables.json").read_bytes(),
    type=_Tables,
)
"""The tables of tables.json: gathers for `GROUPS`, and cases of one gather each."""


class Group(NamedTuple):
    """Rows of the table: a case for every combination of the fields.

    A group varies one thing. The rest stays FLOAT32 data and INT64 indices, which every
    provider takes, so that a case fails for what its name says. The words for data and
    indices are those of `drawn`. A combination that its types cannot hold, such as NaNs
    of integers, is left out.
    """

    template: str
    """The template of the cases' names, with {operator}, {gather}, {layout} and other
    fields."""
    gathers: Gathers
    data_types: Sequence[str] = ("FLOAT32",)
    index_types: Sequence[str] = ("INT64",)
    indices: Sequence[str] = ("any",)
    data: Sequence[str] = ("distinct",)
    layouts: Sequence[tuple[str, Sequence[Layout]]] = (("", PACKED),)
    """The layouts of the three tensors, each time with the word that {layout} stands
    for."""
    policies: Sequence[OutOfRange] = ("error",)
    """In range the default is "error": its model is ONNX's own operator, apart from
    casts of indices and leading ones, and that operator is what a provider implements.
    Layouts have the policy "clamp", as their models are more than one operator
    anyway."""


def _elements(data: Sizes, axis: int, size: int) -> Geometry:
    """GATHER_ELEMENTS with `size` indices along the axis and the sizes of the data elsewhere."""
    return Geometry(
        "GATHER_ELEMENTS", data, (*data[:axis], size, *data[axis + 1 :]), axis
    )


def _tuples(
    number: str, data: Sizes, index_rank: int, length: int, batches: int = 0
) -> Geometry:
    """GATHER_ND or GATHER_ND1 with tuples of a length; each batch has `FEW` rows of them."""
    indices = (*data[:batches], *FEW[: index_rank - batches - 1], length)
    return Geometry(f"GATHER_{number}", data, indices, batches)


def _ranks() -> Iterator[tuple[str, Geometry]]:
    """Every rank of the data with every axis, length of tuple and count of batches.

    The indices have as many dimensions as make the output need no leading ones, or one
    dimension less. Then the model is ONNX's own operator and nothing around it.
    """
    for rank in range(1, 9):
        data, name = SIZES[:rank], f"rank-{rank}"
        for k in range(rank):
            yield f"{name}/axis-{k}", Geometry("GATHER", data, (4,), k)
            yield f"{name}/axis-{k}", _elements(data, k, 3)
            yield f"{name}/tuple-{k + 1}", _tuples("ND", data, min(k + 2, rank), k + 1)
        for batches in range(rank):
            for length in range(1, rank - batches + 1):
                gather = _tuples(
                    "ND1", data, min(batches + length + 1, rank), length, batches
                )
                yield f"{name}/batches-{batches}-tuple-{length}", gather


def _index_ranks() -> Iterator[tuple[str, Geometry]]:
    """Every rank of the indices: IndexDimensions from 0 up to DimensionCount, and so on."""
    for count, rank in product(range(1, 9), range(9)):
        data = SIZES[: count - max(0, rank - 1)]
        for axis in {0, len(data) - 1} if rank <= count else ():
            name = f"index-dimensions-{rank}/dimension-count-{count}-axis-{axis}"
            yield name, Geometry("GATHER", data, FEW[:rank], axis, count)
    for rank, index_rank in product(range(1, 9), repeat=2):
        length = max(1, rank + index_rank - 9)
        name = f"index-rank-{index_rank}/rank-{rank}"
        yield name, _tuples("ND", SIZES[:rank], index_rank, length)
    for batches in range(7):
        for index_rank in range(batches + 1, 9):
            name = f"index-rank-{index_rank}/batches-{batches}"
            yield name, _tuples("ND1", SIZES[: batches + 2], index_rank, 1, batches)


def _leading_ones() -> Iterator[tuple[str, Geometry]]:
    """The gathers of `few_dimensions` with every larger DimensionCount."""
    for name, gather in TABLES.few_dimensions:
        for count in range(len(gather.data) + 1, 9):
            yield f"{name}-in-{count}", replace(gather, dimension_count=count)


def _long(name: str, data: Sizes, axis: int) -> Iterator[tuple[str, Geometry]]:
    """Gathers along an axis too long for a table of choices, for a byte or for 16 bits."""
    yield name, Geometry("GATHER", data, (9,), axis)
    yield name, _elements(data, axis, 7)
    yield name, Geometry("GATHER_ND", data, (9, 1 + axis))
    yield name, Geometry("GATHER_ND1", (2, *data), (2, 7, 1 + axis), 1)


_BY_TYPE = "{operator}/{data_type}/{index_type}/{indices}"
_LONG = "{operator}/long-axis/{gather}/{indices}"
_ORDERS = "written-out permuted padded spaced"
_EXTENTS = "padded permuted longer"

GROUPS: tuple[Group, ...] = (
    Group(_BY_TYPE, TABLES.basic, ALL_TYPES, INDEX_TYPES, ["forward"]),
    Group(_BY_TYPE, TABLES.basic, ALL_TYPES, ["INT64", "INT32"], ["negative"]),
    Group(
        _BY_TYPE, TABLES.basic, ["FLOAT32", "INT64", "UINT8"], INDEX_TYPES, ["edges"]
    ),
    Group("{operator}/{gather}", [*_ranks(), *_index_ranks()]),
    Group("{operator}/leading-ones/{gather}", [*_leading_ones()]),
    Group("{operator}/size-one/{gather}", TABLES.size_one),
    *(
        Group(_LONG, [*_long(f"{n}", (n, 2), 0)], indices=["any", "edges"])
        for n in (65, 257, 1025)
    ),
    *(Group(_LONG, [*_long(f"{n}-last", (2, n), 1)]) for n in (65, 257)),
    Group(_LONG, [*_long("65537", (65537, 1), 0)], ["UINT8"], ["INT32"], ["edges"]),
    Group("{operator}/documented/{gather}", TABLES.documented_sizes),
    Group(
        "{operator}/{data}/{data_type}",
        TABLES.basic,
        ALL_TYPES,
        data=["nan", "subnormal", "extremes"],
    ),
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
"""What the corpus holds besides the examples and the forbidden nodes of `TABLES`."""
