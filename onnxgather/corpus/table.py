"""The one table of the corpus: which shapes, types, values, layouts and policies make cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple, get_args

from onnxgather.arrays import OutOfRange
from onnxgather.corpus.shapes import Layout, Shape, Sizes
from onnxgather.corpus.values import OUTLIERS
from onnxgather.datatypes import INDEX_TYPES, TensorDataType

SIZES = (3, 2, 4, 2, 3, 1, 2, 2)
"""The sizes of a tensor of 8 dimensions; those of fewer are the first of these."""

FEW = (2, 1, 3, 1, 1, 2, 1, 1)
"""Likewise of indices, where their rank is what matters."""

ALL_TYPES = tuple(TensorDataType)
FLOATS = tuple(t for t in TensorDataType if t.numpy.kind == "f")
INTEGERS = tuple(t for t in TensorDataType if t.numpy.kind != "f")
PLAIN = {"": Layout()}


class Group(NamedTuple):
    """Rows of the table: every combination of what is named, and the template of their names.

    One group varies one thing. The rest stays FLOAT32 by INT64, which every provider takes, so
    that a case fails for what its name says. Data and indices are of the kinds in `values`.
    """

    name: str
    shapes: Mapping[str, Shape]
    data_types: Sequence[str] = ("FLOAT32",)
    index_types: Sequence[str] = ("INT64",)
    indices: Sequence[str] = ("any",)
    data: Sequence[str] = ("distinct",)
    layouts: Mapping[str, Layout] = PLAIN
    policies: Sequence[OutOfRange] = ("error",)
    """In range the model with "error" is ONNX's own operator, casts of indices and leading ones
    aside, which is what the author of a provider wants asked. Strides and the like are asked
    with the default, "clamp", as their model is more than one operator anyway."""


def _by_operator(*shapes: Shape) -> dict[str, Shape]:
    return {shape.operator.lower().replace("_", "-"): shape for shape in shapes}


BASIC = _by_operator(
    Shape("GATHER", (3, 5, 2), (2, 3), axis=1),
    Shape("GATHER_ELEMENTS", (4, 5, 2), (4, 3, 2), axis=1),
    Shape("GATHER_ND", (4, 3, 5), (6, 2)),
    Shape("GATHER_ND1", (2, 4, 3, 2), (2, 5, 2), batches=1),
)

LAID_OUT = _by_operator(
    Shape("GATHER", (1, 4, 5, 3), (2, 3), axis=2),
    Shape("GATHER_ELEMENTS", (3, 4, 5), (3, 2, 5), axis=1),
    Shape("GATHER_ND", (4, 3, 5), (2, 3, 2)),
    Shape("GATHER_ND1", (2, 4, 3, 2), (2, 3, 2), batches=1),
)
"""Sizes for layouts: odd products, so that small types end between multiples of 4 bytes."""


DOCUMENTED_SIZES = {
    "gather-nd/documented/sizes": Shape("GATHER_ND", (3, 4, 5, 6, 7), (1, 2, 3)),
    "gather-nd1/documented/sizes": Shape("GATHER_ND1", (3, 4, 5, 6, 7), (1, 2, 3)),
}


def _ranks() -> Iterator[tuple[str, Shape]]:
    """Every rank of the data with every axis, length of tuple and count of batches.

    As many rows of tuples as the output needs to have no leading ones, or one less: what is asked
    is then ONNX's own operator, and nothing around it.
    """
    for rank in range(1, 9):
        sizes, at = SIZES[:rank], f"rank-{rank}"
        for k in range(rank):
            few = (*sizes[:k], 3, *sizes[k + 1 :])
            yield f"gather/{at}/axis-{k}", Shape("GATHER", sizes, (4,), axis=k)
            yield f"gather-elements/{at}/axis-{k}", Shape("GATHER_ELEMENTS", sizes, few, axis=k)
            indices = (*FEW[: min(k + 1, rank - 1)], k + 1)
            yield f"gather-nd/{at}/tuple-{k + 1}", Shape("GATHER_ND", sizes, indices)
        for batches, length in product(range(rank), range(1, rank + 1)):
            if batches + length <= rank:
                rows = FEW[: min(length, rank - batches - 1)]
                indices = (*sizes[:batches], *rows, length)
                name = f"gather-nd1/{at}/batches-{batches}-tuple-{length}"
                yield name, Shape("GATHER_ND1", sizes, indices, batches=batches)


def _index_ranks() -> Iterator[tuple[str, Shape]]:
    """Every rank of the indices: IndexDimensions from 0 up to DimensionCount, and so on."""
    for count in range(1, 9):
        for rank in range(count + 1):
            data = SIZES[: count - max(0, rank - 1)]
            for axis in {0, len(data) - 1}:
                name = f"gather/index-dimensions-{rank}/dimension-count-{count}-axis-{axis}"
                yield name, Shape("GATHER", data, FEW[:rank], axis, dimension_count=count)
    for rank, index_rank in product(range(1, 9), repeat=2):
        length = max(1, rank + index_rank - 9)
        shape = Shape("GATHER_ND", SIZES[:rank], (*FEW[: index_rank - 1], length))
        yield f"gather-nd/index-rank-{index_rank}/rank-{rank}", shape
    for batches in range(7):
        for index_rank in range(batches + 1, 9):
            data = SIZES[: batches + 2]
            indices = (*data[:batches], *FEW[: index_rank - batches - 1], 1)
            name = f"gather-nd1/index-rank-{index_rank}/batches-{batches}"
            yield name, Shape("GATHER_ND1", data, indices, batches=batches)


def _leading_ones() -> Iterator[tuple[str, Shape]]:
    """The same few sizes in tensors of every DimensionCount that holds them."""
    shapes = {
        "gather/leading-ones/row": ("GATHER", (5,), (3,), 0, 0),
        "gather/leading-ones/scalar": ("GATHER", (3, 4), (), 1, 0),
        "gather-elements/leading-ones/row": ("GATHER_ELEMENTS", (5,), (3,), 0, 0),
        "gather-elements/leading-ones/table": ("GATHER_ELEMENTS", (3, 4), (3, 2), 1, 0),
        "gather-nd/leading-ones/row": ("GATHER_ND", (5,), (1,), 0, 0),
        "gather-nd/leading-ones/table": ("GATHER_ND", (3, 4), (3, 2), 0, 0),
        "gather-nd1/leading-ones/row": ("GATHER_ND1", (5,), (1,), 0, 0),
        "gather-nd1/leading-ones/batch": ("GATHER_ND1", (3, 4), (3, 1), 0, 1),
        "gather-nd1/leading-ones/table": ("GATHER_ND1", (2, 3, 4), (2, 3, 1), 0, 1),
    }
    for name, fields in shapes.items():
        for count in range(len(fields[1]) + 1, 9):
            yield f"{name}-in-{count}", Shape(*fields, dimension_count=count)


def _size_one() -> Iterator[tuple[str, Shape]]:
    """Axes, indices and whole tensors of size 1."""
    ones = (1,) * 8
    for name, data, axis in (
        ("indexed", (3, 1, 2), 1),
        ("before", (1, 1, 4), 2),
        ("after", (4, 1, 1), 0),
    ):
        near = (*data[:axis], 2, *data[axis + 1 :])
        yield f"gather/size-one/{name}", Shape("GATHER", data, (2, 1), axis)
        yield f"gather-elements/size-one/{name}", Shape("GATHER_ELEMENTS", data, near, axis)
        yield f"gather-nd/size-one/{name}", Shape("GATHER_ND", data, (2, 1, axis + 1))
        batches, first = min(axis, 1), data[: min(axis, 1)]
        shape = Shape("GATHER_ND1", data, (*first, 2, axis + 1 - batches), batches=batches)
        yield f"gather-nd1/size-one/{name}", shape
    for rank in (1, 8):
        data = ones[:rank]
        yield f"gather/size-one/all-{rank}", Shape("GATHER", data, (1,), rank - 1)
        yield f"gather-elements/size-one/all-{rank}", Shape("GATHER_ELEMENTS", data, data)
        yield f"gather-nd/size-one/all-{rank}", Shape("GATHER_ND", data, (*data[:-1], rank))
        yield f"gather-nd1/size-one/all-{rank}", Shape("GATHER_ND1", data, data, batches=rank - 1)


def _long(lengths: Sequence[int], after: Sizes) -> Iterator[tuple[str, Shape]]:
    """Axes so long that a table of choices, a byte or 16 bits do not count them."""
    for n in lengths:
        at = f"long-axis/{n}" + ("" if after else "-last")
        few = (7, *after) if after else (2, 7)
        data = (n, *after) if after else (2, n)
        axis = data.index(n)
        yield f"gather/{at}", Shape("GATHER", data, (9,), axis)
        yield f"gather-elements/{at}", Shape("GATHER_ELEMENTS", data, few, axis)
        yield f"gather-nd/{at}", Shape("GATHER_ND", data, (9, 1 + axis))
        yield f"gather-nd1/{at}", Shape("GATHER_ND1", (2, *data), (2, 7, 1 + axis), batches=1)


def _layouts(inputs: str, outputs: str, everywhere: str) -> dict[str, Layout]:
    """One tensor that lies in memory otherwise, and all three."""
    return {
        **{f"input-{word}": Layout(input=word) for word in inputs.split()},
        **{f"indices-{word}": Layout(indices=word) for word in inputs.split()},
        **{f"output-{word}": Layout(output=word) for word in outputs.split()},
        **{f"all-{word}": Layout(word, word, word) for word in everywhere.split()},
        "all-longer-still": Layout(*["padded longer"] * 3),
    }


_ORDERS = "written-out permuted padded spaced"
_EXTENTS = "padded permuted longer"

TABLE: tuple[Group, ...] = (
    Group("{shape}/{data_type}/{index_type}/{indices}", BASIC, ALL_TYPES, INDEX_TYPES, ["forward"]),
    Group(
        "{shape}/{data_type}/{index_type}/{indices}",
        BASIC,
        ALL_TYPES,
        ["INT64", "INT32"],
        ["negative"],
    ),
    Group(
        "{shape}/{data_type}/{index_type}/{indices}",
        BASIC,
        ["FLOAT32", "INT64", "UINT8"],
        INDEX_TYPES,
        ["edges"],
    ),
    Group("{shape}", dict(_ranks())),
    Group("{shape}", dict(_index_ranks())),
    Group("{shape}", dict(_leading_ones())),
    Group("{shape}", dict(_size_one())),
    Group("{shape}/{indices}", dict(_long([65, 257, 1025], (2,))), indices=["any", "edges"]),
    Group("{shape}/{indices}", dict(_long([65, 257], ())), indices=["any"]),
    Group("{shape}/{indices}", dict(_long([65537], (1,))), ["UINT8"], ["INT32"], ["edges"]),
    Group("{shape}", DOCUMENTED_SIZES),
    Group("{shape}/{data}/{data_type}", BASIC, FLOATS, data=["nan", "subnormal", "extremes"]),
    Group("{shape}/{data}/{data_type}", BASIC, INTEGERS, data=["extremes"]),
    Group(
        "{shape}/layout/{layout}",
        LAID_OUT,
        layouts=_layouts(
            f"{_ORDERS} broadcast overlapping longer owned aligned",
            f"{_ORDERS} longer aligned",
            f"{_ORDERS} longer",
        ),
        policies=["clamp"],
    ),
    Group(
        "{shape}/layout/{layout}-{data_type}",
        LAID_OUT,
        ["UINT8"],
        ["UINT32"],
        layouts=_layouts(_EXTENTS, _EXTENTS, _EXTENTS),
        policies=["clamp"],
    ),
    Group(
        "{shape}/policy/{policy}-{index_type}",
        BASIC,
        index_types=["INT64", "UINT32"],
        policies=["clamp", "zero", "directml"],
    ),
    Group(
        "out-of-range/{shape}/{index_type}/{indices}/{policy}",
        BASIC,
        index_types=INDEX_TYPES,
        indices=tuple(OUTLIERS),
        policies=get_args(OutOfRange),
    ),
    Group(
        "out-of-range/{shape}/layout/{layout}/{policy}",
        LAID_OUT,
        ["FLOAT16"],
        ["INT32"],
        ["just-past"],
        layouts={"all-padded": Layout(*["padded"] * 3), "all-longer": Layout(*["longer"] * 3)},
        policies=get_args(OutOfRange),
    ),
)
"""What the corpus holds, besides `EXAMPLES` and `FORBIDDEN`."""


class Example(NamedTuple):
    """An example of Microsoft's operator pages: FLOAT32 by UINT32, corrected where they err."""

    shape: Shape
    data: Sequence[int]
    indices: Sequence[int]


EXAMPLES: dict[str, Example] = {
    "gather/documented/1": Example(Shape("GATHER", (4,), (5,)), [11, 12, 13, 14], [3, 1, 3, 0, 2]),
    "gather/documented/2": Example(Shape("GATHER", (3, 2), (4,)), range(1, 7), [0, 1, 1, 2]),
    "gather/documented/3": Example(Shape("GATHER", (3, 2), (2,), axis=1), range(1, 7), [1, 0]),
    "gather/documented/4": Example(Shape("GATHER", (3, 3), (1, 2), axis=1), range(1, 10), [0, 2]),
    "gather/documented/5": Example(Shape("GATHER", (3, 2), (2, 2)), range(1, 7), [0, 1, 1, 2]),
    "gather-elements/documented/1": Example(
        Shape("GATHER_ELEMENTS", (3, 3), (2, 3)), range(1, 10), [1, 2, 0, 2, 0, 0]
    ),
    "gather-nd/documented/1": Example(Shape("GATHER_ND", (2, 2), (2, 1)), range(4), [1, 0]),
    "gather-nd/documented/2": Example(
        Shape("GATHER_ND", (2, 2, 2), (2, 2), dimension_count=4), range(8), [0, 1, 1, 0]
    ),
    "gather-nd1/documented/1": Example(Shape("GATHER_ND1", (2, 2), (2, 1)), range(4), [1, 0]),
    "gather-nd1/documented/2": Example(
        Shape("GATHER_ND1", (3, 2, 2), (3, 2, 2), batches=1, dimension_count=4),
        range(12),
        [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0],
    ),
}
