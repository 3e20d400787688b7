"""The one table of the corpus: which gathers, types, values, layouts and policies make cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from onnxgather.corpus.values import OUTLIERS
from onnxgather.datatypes import INDEX_TYPES, TensorDataType
from onnxgather.gather import Gather, Sizes
from onnxgather.layouts import STRIDES, Layout
from onnxgather.options import POLICIES, OutOfRange
from onnxgather.tensors import TensorFlags

SIZES = (3, 2, 4, 2, 3, 1, 2, 2)
"""The sizes of a tensor of 8 dimensions; those of fewer are the first of these."""

FEW = (2, 1, 3, 1, 1, 2, 1, 1)
"""Likewise of indices, where their rank is what matters."""

ALL_TYPES = tuple(TensorDataType)
FLOATS = tuple(t for t in TensorDataType if t.numpy.kind == "f")
INTEGERS = tuple(t for t in TensorDataType if t.numpy.kind != "f")

LONGER = 20
"""Bytes by which a "longer" tensor exceeds the smallest legal TotalTensorSizeInBytes."""

LAYOUTS = {
    **{name: Layout(name) for name in STRIDES},
    "longer": Layout(extra=LONGER),
    "owned": Layout(flags=TensorFlags.OWNED_BY_DML),
    "aligned": Layout(alignment=256),
}
"""How a tensor of the corpus lies in its buffer, by the word in the names of its cases."""


class Layouts(NamedTuple):
    """How the three tensors lie in their buffers."""

    input: Layout = Layout()
    indices: Layout = Layout()
    output: Layout = Layout()


PLAIN = {"": Layouts()}


class Group(NamedTuple):
    """Rows of the table: every combination of what is named, and the template of their names.

    One group varies one thing. The rest stays FLOAT32 by INT64, which every provider takes, so
    that a case fails for what its name says. Data and indices are of the kinds in `values`.
    """

    name: str
    gathers: Mapping[str, Gather]
    data_types: Sequence[str] = ("FLOAT32",)
    index_types: Sequence[str] = ("INT64",)
    indices: Sequence[str] = ("any",)
    data: Sequence[str] = ("distinct",)
    layouts: Mapping[str, Layouts] = PLAIN
    policies: Sequence[OutOfRange] = ("error",)
    """In range the model with "error" is ONNX's own operator, casts of indices and leading ones
    aside, which is what the author of a provider wants asked. Strides and the like are asked
    with the default, "clamp", as their model is more than one operator anyway."""


def _by_operator(*gathers: Gather) -> dict[str, Gather]:
    return {gather.operator.lower().replace("_", "-"): gather for gather in gathers}


BASIC = _by_operator(
    Gather("GATHER", (3, 5, 2), (2, 3), number=1),
    Gather("GATHER_ELEMENTS", (4, 5, 2), (4, 3, 2), number=1),
    Gather("GATHER_ND", (4, 3, 5), (6, 2)),
    Gather("GATHER_ND1", (2, 4, 3, 2), (2, 5, 2), number=1),
)

LAID_OUT = _by_operator(
    Gather("GATHER", (1, 4, 5, 3), (2, 3), number=2),
    Gather("GATHER_ELEMENTS", (3, 4, 5), (3, 2, 5), number=1),
    Gather("GATHER_ND", (4, 3, 5), (2, 3, 2)),
    Gather("GATHER_ND1", (2, 4, 3, 2), (2, 3, 2), number=1),
)
"""Sizes for layouts: odd products, so that small types end between multiples of 4 bytes."""


DOCUMENTED_SIZES = {
    "gather-nd/documented/sizes": Gather("GATHER_ND", (3, 4, 5, 6, 7), (1, 2, 3)),
    "gather-nd1/documented/sizes": Gather("GATHER_ND1", (3, 4, 5, 6, 7), (1, 2, 3)),
}


def _ranks() -> Iterator[tuple[str, Gather]]:
    """Every rank of the data with every axis, length of tuple and count of batches.

    As many rows of tuples as the output needs to have no leading ones, or one less: what is asked
    is then ONNX's own operator, and nothing around it.
    """
    for rank in range(1, 9):
        sizes, at = SIZES[:rank], f"rank-{rank}"
        for k in range(rank):
            few = (*sizes[:k], 3, *sizes[k + 1 :])
            yield f"gather/{at}/axis-{k}", Gather("GATHER", sizes, (4,), number=k)
            yield f"gather-elements/{at}/axis-{k}", Gather("GATHER_ELEMENTS", sizes, few, number=k)
            indices = (*FEW[: min(k + 1, rank - 1)], k + 1)
            yield f"gather-nd/{at}/tuple-{k + 1}", Gather("GATHER_ND", sizes, indices)
        for batches, length in product(range(rank), range(1, rank + 1)):
            if batches + length <= rank:
                rows = FEW[: min(length, rank - batches - 1)]
                indices = (*sizes[:batches], *rows, length)
                name = f"gather-nd1/{at}/batches-{batches}-tuple-{length}"
                yield name, Gather("GATHER_ND1", sizes, indices, number=batches)


def _index_ranks() -> Iterator[tuple[str, Gather]]:
    """Every rank of the indices: IndexDimensions from 0 up to DimensionCount, and so on."""
    for count in range(1, 9):
        for rank in range(count + 1):
            data = SIZES[: count - max(0, rank - 1)]
            for axis in {0, len(data) - 1}:
                name = f"gather/index-dimensions-{rank}/dimension-count-{count}-axis-{axis}"
                yield name, Gather("GATHER", data, FEW[:rank], axis, dimension_count=count)
    for rank, index_rank in product(range(1, 9), repeat=2):
        length = max(1, rank + index_rank - 9)
        name = f"gather-nd/index-rank-{index_rank}/rank-{rank}"
        yield name, Gather("GATHER_ND", SIZES[:rank], (*FEW[: index_rank - 1], length))
    for batches in range(7):
        for index_rank in range(batches + 1, 9):
            data = SIZES[: batches + 2]
            indices = (*data[:batches], *FEW[: index_rank - batches - 1], 1)
            name = f"gather-nd1/index-rank-{index_rank}/batches-{batches}"
            yield name, Gather("GATHER_ND1", data, indices, number=batches)


def _leading_ones() -> Iterator[tuple[str, Gather]]:
    """The same few sizes in tensors of every DimensionCount that holds them."""
    gathers = {
        "gather/leading-ones/row": Gather("GATHER", (5,), (3,), 0),
        "gather/leading-ones/scalar": Gather("GATHER", (3, 4), (), 1),
        "gather-elements/leading-ones/row": Gather("GATHER_ELEMENTS", (5,), (3,), 0),
        "gather-elements/leading-ones/table": Gather("GATHER_ELEMENTS", (3, 4), (3, 2), 1),
        "gather-nd/leading-ones/row": Gather("GATHER_ND", (5,), (1,), 0),
        "gather-nd/leading-ones/table": Gather("GATHER_ND", (3, 4), (3, 2), 0),
        "gather-nd1/leading-ones/row": Gather("GATHER_ND1", (5,), (1,), 0),
        "gather-nd1/leading-ones/batch": Gather("GATHER_ND1", (3, 4), (3, 1), 1),
        "gather-nd1/leading-ones/table": Gather("GATHER_ND1", (2, 3, 4), (2, 3, 1), 1),
    }
    for name, gather in gathers.items():
        for count in range(len(gather.data) + 1, 9):
            yield f"{name}-in-{count}", replace(gather, dimension_count=count)


def _size_one() -> Iterator[tuple[str, Gather]]:
    """Axes, indices and whole tensors of size 1."""
    ones = (1,) * 8
    for name, data, axis in (
        ("indexed", (3, 1, 2), 1),
        ("before", (1, 1, 4), 2),
        ("after", (4, 1, 1), 0),
    ):
        near = (*data[:axis], 2, *data[axis + 1 :])
        yield f"gather/size-one/{name}", Gather("GATHER", data, (2, 1), axis)
        yield f"gather-elements/size-one/{name}", Gather("GATHER_ELEMENTS", data, near, axis)
        yield f"gather-nd/size-one/{name}", Gather("GATHER_ND", data, (2, 1, axis + 1))
        batches, first = min(axis, 1), data[: min(axis, 1)]
        indices = (*first, 2, axis + 1 - batches)
        yield f"gather-nd1/size-one/{name}", Gather("GATHER_ND1", data, indices, batches)
    for rank in (1, 8):
        data = ones[:rank]
        yield f"gather/size-one/all-{rank}", Gather("GATHER", data, (1,), rank - 1)
        yield f"gather-elements/size-one/all-{rank}", Gather("GATHER_ELEMENTS", data, data)
        yield f"gather-nd/size-one/all-{rank}", Gather("GATHER_ND", data, (*data[:-1], rank))
        yield f"gather-nd1/size-one/all-{rank}", Gather("GATHER_ND1", data, data, number=rank - 1)


def _long(lengths: Sequence[int], after: Sizes) -> Iterator[tuple[str, Gather]]:
    """Axes so long that a table of choices, a byte or 16 bits do not count them."""
    for n in lengths:
        at = f"long-axis/{n}" + ("" if after else "-last")
        few = (7, *after) if after else (2, 7)
        data = (n, *after) if after else (2, n)
        axis = data.index(n)
        yield f"gather/{at}", Gather("GATHER", data, (9,), axis)
        yield f"gather-elements/{at}", Gather("GATHER_ELEMENTS", data, few, axis)
        yield f"gather-nd/{at}", Gather("GATHER_ND", data, (9, 1 + axis))
        yield f"gather-nd1/{at}", Gather("GATHER_ND1", (2, *data), (2, 7, 1 + axis), number=1)


def _layouts(inputs: str, outputs: str, everywhere: str) -> dict[str, Layouts]:
    """One tensor that lies in memory otherwise, and all three."""
    return {
        **{f"input-{word}": Layouts(input=LAYOUTS[word]) for word in inputs.split()},
        **{f"indices-{word}": Layouts(indices=LAYOUTS[word]) for word in inputs.split()},
        **{f"output-{word}": Layouts(output=LAYOUTS[word]) for word in outputs.split()},
        **{f"all-{word}": Layouts(*[LAYOUTS[word]] * 3) for word in everywhere.split()},
        "all-longer-still": Layouts(*[Layout("padded", LONGER)] * 3),
    }


_ORDERS = "written-out permuted padded spaced"
_EXTENTS = "padded permuted longer"

TABLE: tuple[Group, ...] = (
    Group(
        "{gather}/{data_type}/{index_type}/{indices}", BASIC, ALL_TYPES, INDEX_TYPES, ["forward"]
    ),
    Group(
        "{gather}/{data_type}/{index_type}/{indices}",
        BASIC,
        ALL_TYPES,
        ["INT64", "INT32"],
        ["negative"],
    ),
    Group(
        "{gather}/{data_type}/{index_type}/{indices}",
        BASIC,
        ["FLOAT32", "INT64", "UINT8"],
        INDEX_TYPES,
        ["edges"],
    ),
    Group("{gather}", dict(_ranks())),
    Group("{gather}", dict(_index_ranks())),
    Group("{gather}", dict(_leading_ones())),
    Group("{gather}", dict(_size_one())),
    Group("{gather}/{indices}", dict(_long([65, 257, 1025], (2,))), indices=["any", "edges"]),
    Group("{gather}/{indices}", dict(_long([65, 257], ())), indices=["any"]),
    Group("{gather}/{indices}", dict(_long([65537], (1,))), ["UINT8"], ["INT32"], ["edges"]),
    Group("{gather}", DOCUMENTED_SIZES),
    Group("{gather}/{data}/{data_type}", BASIC, FLOATS, data=["nan", "subnormal", "extremes"]),
    Group("{gather}/{data}/{data_type}", BASIC, INTEGERS, data=["extremes"]),
    Group(
        "{gather}/layout/{layout}",
        LAID_OUT,
        layouts=_layouts(
            f"{_ORDERS} broadcast overlapping longer owned aligned",
            f"{_ORDERS} longer aligned",
            f"{_ORDERS} longer",
        ),
        policies=["clamp"],
    ),
    Group(
        "{gather}/layout/{layout}-{data_type}",
        LAID_OUT,
        ["UINT8"],
        ["UINT32"],
        layouts=_layouts(_EXTENTS, _EXTENTS, _EXTENTS),
        policies=["clamp"],
    ),
    Group(
        "{gather}/policy/{policy}-{index_type}",
        BASIC,
        index_types=["INT64", "UINT32"],
        policies=["clamp", "zero", "directml"],
    ),
    Group(
        "out-of-range/{gather}/{index_type}/{indices}/{policy}",
        BASIC,
        index_types=INDEX_TYPES,
        indices=tuple(OUTLIERS),
        policies=tuple(POLICIES),
    ),
    Group(
        "out-of-range/{gather}/layout/{layout}/{policy}",
        LAID_OUT,
        ["FLOAT16"],
        ["INT32"],
        ["just-past"],
        layouts={f"all-{word}": Layouts(*[LAYOUTS[word]] * 3) for word in ("padded", "longer")},
        policies=tuple(POLICIES),
    ),
)
"""What the corpus holds, besides `EXAMPLES` and `FORBIDDEN`."""


class Example(NamedTuple):
    """An example of Microsoft's operator pages: FLOAT32 by UINT32, corrected where they err."""

    gather: Gather
    data: Sequence[int]
    indices: Sequence[int]


EXAMPLES: dict[str, Example] = {
    "gather/documented/1": Example(Gather("GATHER", (4,), (5,)), [11, 12, 13, 14], [3, 1, 3, 0, 2]),
    "gather/documented/2": Example(Gather("GATHER", (3, 2), (4,)), range(1, 7), [0, 1, 1, 2]),
    "gather/documented/3": Example(Gather("GATHER", (3, 2), (2,), number=1), range(1, 7), [1, 0]),
    "gather/documented/4": Example(Gather("GATHER", (3, 3), (1, 2), 1), range(1, 10), [0, 2]),
    "gather/documented/5": Example(Gather("GATHER", (3, 2), (2, 2)), range(1, 7), [0, 1, 1, 2]),
    "gather-elements/documented/1": Example(
        Gather("GATHER_ELEMENTS", (3, 3), (2, 3)), range(1, 10), [1, 2, 0, 2, 0, 0]
    ),
    "gather-nd/documented/1": Example(Gather("GATHER_ND", (2, 2), (2, 1)), range(4), [1, 0]),
    "gather-nd/documented/2": Example(
        Gather("GATHER_ND", (2, 2, 2), (2, 2), dimension_count=4), range(8), [0, 1, 1, 0]
    ),
    "gather-nd1/documented/1": Example(Gather("GATHER_ND1", (2, 2), (2, 1)), range(4), [1, 0]),
    "gather-nd1/documented/2": Example(
        Gather("GATHER_ND1", (3, 2, 2), (3, 2, 2), number=1, dimension_count=4),
        range(12),
        [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0],
    ),
}
