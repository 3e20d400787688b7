"""What a case's tensors look like: sizes as ONNX counts them, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onnxgather.descriptors import OPERATORS, Descriptor
from onnxgather.strides import packed_strides
from onnxgather.tensors import TensorDesc, TensorFlags

Sizes = tuple[int, ...]

LONGER = 20
"""Bytes by which a "longer" tensor exceeds the smallest legal TotalTensorSizeInBytes."""


class Layout(NamedTuple):
    """How the tensors lie in memory: words of `STRIDES`, and "longer", "owned", "aligned"."""

    input: str = ""
    indices: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes without the leading ones that fill a DirectML tensor up to DimensionCount."""

    operator: str
    input: Sizes
    indices: Sizes
    axis: int = 0
    """Which dimension of `input` GATHER and GATHER_ELEMENTS index."""
    batches: int = 0
    """BatchDimensionCount of GATHER_ND1."""
    dimension_count: int = 1
    """The least DimensionCount; the longest of the three sizes may need more."""

    @property
    def output(self) -> Sizes:
        """What comes out, without leading ones."""
        if self.operator == "GATHER":
            return self.input[: self.axis] + self.indices + self.input[self.axis + 1 :]
        if self.operator == "GATHER_ELEMENTS":
            return self.indices
        return self.indices[:-1] + self.input[self.batches + self.indices[-1] :]

    def tensor_sizes(self) -> tuple[Sizes, Sizes, Sizes]:
        """Return the sizes of the three tensors, with ones in front up to DimensionCount."""
        three = (self.input, self.indices, self.output)
        count = max(self.dimension_count, *map(len, three))
        data, indices, output = ((1,) * (count - len(sizes)) + sizes for sizes in three)
        return data, indices, output

    def descriptor(self, tensors: Sequence[TensorDesc]) -> Descriptor:
        """Return the descriptor of three tensors with these sizes."""
        made: Any = OPERATORS[self.operator]  # their fields differ
        return made(*tensors, **self._fields(tensors[0].dimension_count))

    def laid_out(self, data_type: str, index_type: str, layout: Layout) -> Descriptor:
        """Return the descriptor of tensors that lie in memory as a layout says."""
        types = (data_type, index_type, data_type)
        return self.descriptor(
            [tensor(*each) for each in zip(types, self.tensor_sizes(), layout, strict=True)]
        )

    def _fields(self, count: int) -> dict[str, int]:
        axis = self.axis + count - len(self.input)
        if self.operator == "GATHER":
            return {"axis": axis, "index_dimensions": len(self.indices)}
        if self.operator == "GATHER_ELEMENTS":
            return {"axis": axis}
        ranks = {
            "input_dimension_count": len(self.input),
            "indices_dimension_count": len(self.indices),
        }
        batched = {"batch_dimension_count": self.batches}
        return ranks | batched if self.operator == "GATHER_ND1" else ranks


def tensor(data_type: str, sizes: Sizes, words: str) -> TensorDesc:
    """Return a tensor that lies in memory as the words say."""
    strides = next((STRIDES[word](sizes) for word in words.split() if word in STRIDES), None)
    plain = TensorDesc(data_type, sizes, strides)
    total = plain.total_tensor_size_in_bytes + LONGER * ("longer" in words)
    flags = TensorFlags.OWNED_BY_DML if "owned" in words else TensorFlags.NONE
    return TensorDesc(
        data_type, sizes, plain.strides, total, flags, 256 if "aligned" in words else 0
    )


def _nested(sizes: Sequence[int], order: Sequence[int], first: int, gap: int) -> list[int]:
    """Return strides that nest in an order, the innermost last, with gaps between."""
    strides, step = [0] * len(sizes), first
    for k in reversed(order):
        strides[k] = step
        step = step * sizes[k] + gap
    return strides


def _broadcast(sizes: Sequence[int]) -> list[int]:
    """Return packed strides, but the first dimension longer than 1 repeats."""
    repeated = next((k for k, size in enumerate(sizes) if size > 1), 0)
    rest = [1 if k == repeated else size for k, size in enumerate(sizes)]
    return [0 if k == repeated else s for k, s in enumerate(packed_strides(rest))]


STRIDES: dict[str, Callable[[Sizes], Sequence[int]]] = {
    "written-out": packed_strides,
    "permuted": lambda sizes: _nested(sizes, range(len(sizes))[::-1], 1, 0),
    "padded": lambda sizes: _nested(sizes, range(len(sizes)), 1, 3),
    "spaced": lambda sizes: _nested(sizes, range(len(sizes)), 2, 0),
    "broadcast": _broadcast,
    "overlapping": lambda sizes: (1,) * len(sizes),
}
"""The strides of given sizes; an output takes neither "broadcast" nor "overlapping"."""
