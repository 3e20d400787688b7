"""The workloads of bench.py: gathers of users, as DirectML descriptors with data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import onnxgather as og
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.gather import Geometry

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Workload:
    """One gather, in the ranks in which a framework states it.

    The descriptor pads them with leading ones to one DimensionCount, as DirectML wants
    them.
    """

    name: str
    title: str
    operator: str
    """DirectML's name; GATHER_ND1 only with one batch dimension and tuples of one."""
    data_type: str
    data: Shape
    indices: Shape
    """For GATHER_ELEMENTS with a 1 where the indices do not depend on a dimension."""
    axis: int = 0
    """For GATHER_ND1 1, the number of its batch dimensions."""
    strides: Shape | None = None
    """Of the data, in elements; None where it is packed."""
    index_type: str = "UINT32"

    @property
    def gather(self) -> Geometry:
        """Return the sizes that count; those of the indices are left out.

        Only GATHER_ELEMENTS has sizes of the indices.
        """
        indices = self.indices
        if self.operator == "GATHER_ELEMENTS":
            axis = self.axis
            indices = (*self.data[:axis], indices[axis], *self.data[axis + 1 :])
        return Geometry(self.operator, self.data, indices, self.axis)

    @property
    def output(self) -> Shape:
        """The shape of the result without leading ones."""
        return self.gather.output

    @property
    def has_batches(self) -> bool:
        """Whether each batch has its own indices.

        With one batch dimension and tuples of one, GATHER_ND1 takes the same arrays as
        GATHER_ELEMENTS with indices that are repeated along a row.
        """
        return self.operator in ("GATHER_ELEMENTS", "GATHER_ND1")

    @property
    def row_bytes(self) -> int:
        """Return the bytes that are copied together for one index or tuple."""
        return math.prod(self.gather.behind) * self._dtype.itemsize

    @property
    def limits(self) -> Array:
        """Return the size of the axis of each index; one per coordinate of a tuple."""
        axes = self.gather.axes
        return np.array(axes if self.operator == "GATHER_ND" else axes[0], np.uint32)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data_type.lower())

    def desc(self, index_type: str | None = None) -> og.Descriptor:
        """Return the descriptor: padded ranks, repeated indices as strides of 0."""
        gather = self.gather
        data, indices, output = gather.tensor_sizes()
        strides = None
        if self.operator == "GATHER_ELEMENTS" and self.indices != indices:
            packed = packed_strides(self.indices)
            strides = [
                0 if n == 1 else s for n, s in zip(self.indices, packed, strict=True)
            ]
        tensors = (
            og.TensorDesc(self.data_type, data, self.strides),
            og.TensorDesc(index_type or self.index_type, indices, strides),
            og.TensorDesc(self.data_type, output),
        )
        return gather.descriptor(tensors)

    def as_exported(self) -> Workload:
        """Return the same gather with INT64 indices, one for each element it takes."""
        dense = self.output if self.operator == "GATHER_ELEMENTS" else self.indices
        return replace(self, indices=dense, index_type="INT64")

    def bare_model(self) -> onnx.ModelProto:
        """Return the model of the gather alone; its indices are INT64 and dense."""
        model = self._model("bare", "", "indices")
        # onnxgather's provider takes a GatherElements only where its rank is known.
        sizes = self.data, self.indices
        for value, shape in zip(model.graph.input, sizes, strict=True):
            for size in shape:
                value.type.tensor_type.shape.dim.add(dim_value=size)
        return model

    def model(self) -> onnx.ModelProto:
        """Return the model that a user writes: INT64, Max, Min, Expand, the gather."""
        nodes = "wide = Cast <to = 7> (indices) low = Max (wide, zero)"
        nodes += " index = Min (low, last)"
        index = "index"
        if self.operator == "GATHER_ELEMENTS" and self.indices != self.output:
            nodes += " each = Expand (index, sizes)"
            index = "each"
        model = self._model("by_hand", nodes, index)
        last = self.limits.astype(np.int64) - 1
        constants = {"zero": 0, "last": last, "sizes": self.output}
        for name, numbers in constants.items():
            array = np.array(numbers, np.int64)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        return model

    def _model(self, name: str, nodes: str, index: str) -> onnx.ModelProto:
        """Return a model of some nodes and the gather by the index that they make."""
        gather = self.gather
        kinds = {"FLOAT32": "float", "FLOAT64": "double"}
        kind = kinds.get(self.data_type, self.data_type.lower())
        attribute = f"{gather.attribute} = {gather.number}"
        last = f"output = {gather.onnx} <{attribute}> (data, {index})"
        return onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> {name} ({kind}[] data,'
            f" {self.index_type.lower()}[] indices) => ({kind}[] output)"
            f" {{ {nodes} {last} }}"
        )

    def arrays(self, seed: int = 1) -> tuple[Array, Array]:
        """Return random data and indices in range, both in the ranks of this class.

        Data with strides is its 1-D buffer.
        """
        rng = np.random.default_rng(seed)
        tensor = self.desc().input_tensor
        shape = self.data if self.strides is None else tensor.array_shape
        bits = bytearray(rng.bytes(math.prod(shape) * self._dtype.itemsize))
        indices = rng.integers(0, self.limits, self.indices, np.uint32)
        return np.frombuffer(bits, self._dtype).reshape(shape), indices


def placed(
    workload: Workload, offset: int = 0, index_type: str | None = None
) -> tuple[Array, Array, Array, Array]:
    """Return data, indices, memory for the output, and the reference's output.

    Data and indices begin at a page; the memory for the output begins `offset` bytes
    behind a page. The times depend on the distance of data and output modulo a page.
    """
    desc = workload.desc(index_type)
    data, indices = workload.arrays()
    data = data.reshape(desc.input_tensor.array_shape)
    indices = indices.reshape(desc.indices_tensor.array_shape)
    indices = indices.astype(desc.indices_tensor.data_type.numpy)
    expected = og.reference(desc, data, indices)
    own_data, own_indices = at_page(data, 0), at_page(indices, 0)
    own_data[...] = data
    own_indices[...] = indices
    return own_data, own_indices, at_page(expected, offset), expected


class Given:
    """The arrays of a workload, and the same as integers in the order of loops.

    target[b, r, i, k] = source[b, r, index[b, i, k], k]. The last size of `index` is 1
    where a row has one index, and 2 with the pairs of GATHER_ND.
    """

    def __init__(self, workload: Workload, threads: int) -> None:
        """Fill the arrays."""
        self.workload = workload
        self.threads = threads
        self.data, self.indices, self.output, self.expected = placed(workload)
        self.last = np.atleast_1d(workload.limits).astype(np.int64) - 1
        self.is_plain = workload.operator == "GATHER" and workload.axis == 0
        self.has_pairs = workload.operator == "GATHER_ND"
        batches = 1
        if workload.has_batches:
            batches = math.prod(workload.indices[: workload.axis])
        bits = f"i{self.data.itemsize}"
        rows = math.prod((self.last + 1).tolist())
        size = workload.row_bytes // self.data.itemsize
        self.source = self.data.view(bits).reshape(batches, -1, rows, size)
        repeats = self.source.shape[1]
        self.target = self.output.view(bits).reshape(batches, repeats, -1, size)
        self.index = self.indices.reshape(batches, self.target.shape[2], -1)
        self.is_dense = not self.has_pairs and self.index.shape[2] > 1
        self.is_shared = batches == 1 and not self.is_dense

    def rows(self, index: Any) -> Any:
        """Return the row of each index: of the pair (y, x) y * width + x."""
        if not self.has_pairs:
            return index
        return index[..., :1] * int(self.last[1] + 1) + index[..., 1:]


def at_page(like: Array, offset: int) -> Array:
    """Return memory for an array like another, so many bytes behind a page."""
    memory = np.zeros(like.nbytes + 2 * PAGE_BYTES, np.uint8)
    begin = -memory.ctypes.data % PAGE_BYTES + offset
    return memory[begin : begin + like.nbytes].view(like.dtype).reshape(like.shape)


_LLM = "LLM embedding [32000, 4096] FLOAT16"
_NEIGHBOURS = "point-cloud neighbours"

WORKLOADS = (
    Workload("1", f"{_LLM}, prefill 512", "GATHER", "FLOAT16", (32000, 4096), (512,)),
    Workload("1b", f"{_LLM}, decode", "GATHER", "FLOAT16", (32000, 4096), (1,)),
    Workload(
        "2",
        "MoE dispatch [4096, 2048] FLOAT16",
        "GATHER",
        "FLOAT16",
        (4096, 2048),
        (8192,),
    ),
    Workload(
        "3",
        "KV cache reorder, 64 MiB FLOAT16",
        "GATHER",
        "FLOAT16",
        (8, 32, 1024, 128),
        (8,),
    ),
    Workload(
        "4", f"{_NEIGHBOURS} x 3 FLOAT32", "GATHER", "FLOAT32", (65536, 3), (65536, 16)
    ),
    Workload(
        "4h", f"{_NEIGHBOURS} x 3 FLOAT16", "GATHER", "FLOAT16", (65536, 3), (65536, 16)
    ),
    Workload(
        "4c", f"{_NEIGHBOURS} x 8 FLOAT32", "GATHER", "FLOAT32", (16384, 8), (16384, 20)
    ),
    Workload(
        "4b", "GNN features x 64 FLOAT32", "GATHER", "FLOAT32", (16384, 64), (16384, 20)
    ),
    Workload(
        "5",
        "DETR top-k 300 x 256",
        "GATHER_ELEMENTS",
        "FLOAT32",
        (8, 8400, 256),
        (8, 300, 1),
        1,
    ),
    Workload(
        "5b",
        "DETR top-k boxes x 4",
        "GATHER_ELEMENTS",
        "FLOAT32",
        (8, 8400, 4),
        (8, 300, 1),
        1,
    ),
    Workload(
        "6",
        "deformable sampling",
        "GATHER_ELEMENTS",
        "FLOAT32",
        (8, 32, 20000),
        (8, 1, 4800),
        2,
    ),
    Workload(
        "7", "image remap 1080p FLOAT32", "GATHER", "FLOAT32", (2073600,), (2073600,)
    ),
    Workload(
        "7b", "image remap 1080p RGB UINT8", "GATHER", "UINT8", (6220800,), (6220800,)
    ),
    Workload(
        "8",
        "column select 256 of 1024 FLOAT32",
        "GATHER",
        "FLOAT32",
        (4096, 1024),
        (256,),
        1,
    ),
    Workload(
        "8h",
        "column select 256 of 1024 FLOAT16",
        "GATHER",
        "FLOAT16",
        (4096, 1024),
        (256,),
        1,
    ),
    Workload(
        "8b",
        "logits pruning 8000 of 50257",
        "GATHER",
        "FLOAT32",
        (64, 50257),
        (8000,),
        1,
    ),
    Workload(
        "9",
        "GatherND (y, x) sampling",
        "GATHER_ND",
        "FLOAT32",
        (1024, 1024),
        (262144, 2),
    ),
    Workload(
        "9b", "GatherND (y, x) x 4", "GATHER_ND", "FLOAT32", (512, 512, 4), (262144, 2)
    ),
    Workload("10", "tiny column select", "GATHER", "FLOAT32", (16, 16), (8,), 1),
)
"""What every geometric mean is over."""

_APART = partial(Workload, operator="GATHER", data_type="FLOAT32")
_IMAGE, _PITCH = (1080, 1920), (2048, 1)

APART = (
    _APART(
        "13", "rows, image with a pitch", data=_IMAGE, indices=(256,), strides=_PITCH
    ),
    _APART("13b", "columns, same", data=_IMAGE, indices=(256,), axis=1, strides=_PITCH),
)
"""For forms of the CPU target that none of the others takes; no library reads them."""

RIVALS_OWN = (
    _APART(
        "14", "rows of 64, 200,000 of 200,000", data=(200000, 64), indices=(200000,)
    ),
    _APART("15", "rows of 3, 1.6 M of 100,000", data=(100000, 3), indices=(1600000,)),
    _APART("16", "scalars, 2 M of 2 M", data=(2000000,), indices=(2000000,)),
    _APART("17", "scalars, 16 M of 64 M", data=(64000000,), indices=(16000000,)),
)
"""What the rivals are fast at; reported apart, and in no mean."""

_DENSE = partial(Workload, operator="GATHER_ELEMENTS", index_type="INT64")
_SQUARE = partial(_DENSE, data=(1000, 1000), indices=(1000, 1000))
_TOP_K = partial(_DENSE, data=(8, 8400, 256), indices=(8, 300, 256), axis=1)

DENSE = (
    _SQUARE("d0", "dense [1000, 1000] on axis 0", data_type="FLOAT32", axis=0),
    _SQUARE("d0h", "dense on axis 0 FLOAT16", data_type="FLOAT16", axis=0),
    _SQUARE("d0b", "dense on axis 0 UINT8", data_type="UINT8", axis=0),
    _SQUARE("d0l", "dense on axis 0 INT64", data_type="INT64", axis=0),
    _SQUARE("d1", "dense [1000, 1000] on axis 1", data_type="FLOAT32", axis=1),
    _SQUARE("d1h", "dense [1000, 1000] FLOAT16", data_type="FLOAT16", axis=1),
    _SQUARE("d1b", "dense [1000, 1000] UINT8", data_type="UINT8", axis=1),
    _SQUARE("d1l", "dense [1000, 1000] INT64", data_type="INT64", axis=1),
    _TOP_K("d5", "dense top-k 300 x 256", data_type="FLOAT32"),
    _TOP_K("d5h", "dense top-k 300 x 256 FLOAT16", data_type="FLOAT16"),
    _TOP_K("d5b", "dense top-k 300 x 256 UINT8", data_type="UINT8"),
)
"""GatherElements with indices as exporters write them: one for each element."""

ELEMENT_TYPES = ("UINT8", "FLOAT16", "FLOAT32", "FLOAT64")
"""The types of the random shapes: elements of 1, 2, 4 and 8 bytes."""

OPERATORS = ("GATHER", "GATHER_ELEMENTS", "GATHER_ND", "GATHER_ND1")
"""The operators of the random shapes, in turn."""

LARGEST_ROW = 1 << 15
DATA_BYTES = (1 << 14, 1 << 26)
OUTPUT_BYTES = (1 << 14, 1 << 25)
"""The least and the most bytes of the random shapes; their logarithms are spread
evenly."""


def named(offered: Iterable[Workload], names: Collection[str] | None) -> list[Workload]:
    """Return the workloads with these names; all of them where no name is given."""
    return [workload for workload in offered if not names or workload.name in names]


def random_workloads(count: int = 30, seed: int = 0) -> tuple[Workload, ...]:
    """Return gathers of random shapes, the same for each seed.

    All four operators and all four sizes of elements take turns. Rows have 1 byte to
    32 KiB, the data 16 KiB to 64 MiB, the output 16 KiB to 32 MiB.
    """
    rng = np.random.default_rng(seed)
    return tuple(_random_workload(number, rng) for number in range(count))


def _random_workload(number: int, rng: np.random.Generator) -> Workload:
    operator = OPERATORS[number % len(OPERATORS)]
    data_type = ELEMENT_TYPES[number // len(OPERATORS) % len(ELEMENT_TYPES)]
    item = np.dtype(data_type.lower()).itemsize
    row = max(1, _spread(rng, (1, LARGEST_ROW)) // item)
    row_bytes = row * item
    # A row that is longer than the data or the output makes them as long as itself.
    rows = max(2, _spread(rng, DATA_BYTES) // row_bytes)
    count = max(1, _spread(rng, OUTPUT_BYTES) // row_bytes)
    most_groups = min(rows // 2, count, 64)
    groups = int(rng.integers(1, most_groups + 1))
    each, count_each = max(2, rows // groups), max(1, count // groups)
    if operator == "GATHER_ND":
        height = math.isqrt(rows)
        data, indices, axis = (height, rows // height, row), (count, 2), 0
    elif operator == "GATHER":
        # an axis in the middle, or the first where there is one group
        data, indices, axis = (groups, each, row), (count_each,), 1
    else:
        data, indices, axis = (groups, each, row), (groups, count_each, 1), 1
    sizes = " x ".join(map(str, data))
    title = f"{operator} {data_type} [{sizes}] by {count_each * groups:,} rows"
    return Workload(f"r{number}", title, operator, data_type, data, indices, axis)


def _spread(rng: np.random.Generator, limits: tuple[int, int]) -> int:
    """Return a random number whose logarithm is spread evenly between the limits."""
    least, most = limits
    return round(2 ** rng.uniform(math.log2(least), math.log2(most)))


OFFERED = (*WORKLOADS, *RIVALS_OWN, *DENSE, *random_workloads())
"""What bench.py runs."""
