"""What a lowering for one provider weighs: a descriptor's sizes, multiplied out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from onnxgather.arrays import Array, axis_sizes
from onnxgather.descriptors import Descriptor, GatherDesc, GatherElementsDesc
from onnxgather.lowering.cpu_known import Pattern, find_pattern
from onnxgather.lowering.graph import Shape, Value, size_of
from onnxgather.lowering.placement import Placement, find_placement
from onnxgather.lowering.transposed import Transposed, find_transposed
from onnxgather.options import OutOfRange


@dataclass(frozen=True)
class Facts:
    """A descriptor as a gather of `count` rows of `row` elements from a table."""

    desc: Descriptor
    out_of_range: OutOfRange
    known: Array | None
    threads: int
    place: Placement
    axes: tuple[int, ...]
    """The sizes of the indexed axes: one per coordinate."""
    before: int
    """Product of the passed sizes in front of the indexed ones: 1 where one table is read."""
    row: int
    """Product of the passed sizes behind them: the elements that one index leads to."""
    ready: Value | None = None
    """The indices, where they are already limited to the axis."""

    @property
    def sizes(self) -> Shape:
        """OutputTensor.Sizes."""
        return self.desc.output_tensor.sizes

    @property
    def elements(self) -> int:
        """Elements of the output."""
        return size_of(self.sizes)

    @property
    def count(self) -> int:
        """Rows of the output."""
        return self.elements // self.row

    @property
    def table(self) -> int:
        """Rows of the input."""
        return size_of(self.desc.input_tensor.sizes) // self.row

    @property
    def split(self) -> int:
        """How many output dimensions count rows; the others lie in a row."""
        return len(self.sizes) - self.place.after

    @property
    def plain_data(self) -> bool:
        """Whether the data is packed and its array holds nothing else."""
        return self.desc.input_tensor.is_plain

    @property
    def plain_indices(self) -> bool:
        """Whether the indices are known, or packed in an array that holds nothing else."""
        return self.known is not None or self.desc.indices_tensor.is_plain

    @cached_property
    def pattern(self) -> Pattern | None:
        """The pattern of known indices along the last dimension."""
        return find_pattern(self.desc, self.out_of_range, self.known)

    @cached_property
    def transposed(self) -> Transposed | None:
        """The descriptor on the data as it lies, where that is transposed."""
        return find_transposed(self.desc)


def find_facts(
    desc: Descriptor, out_of_range: OutOfRange, known: Array | None, threads: int
) -> Facts:
    """Return what a lowering weighs for a descriptor."""
    sizes = desc.input_tensor.sizes
    axes = tuple(axis_sizes(desc))
    if isinstance(desc, GatherDesc | GatherElementsDesc):
        before, row = size_of(sizes[: desc.axis]), size_of(sizes[desc.axis + 1 :])
    else:
        start = len(sizes) - desc.input_dimension_count
        before = size_of(sizes[start : start + desc.batches])
        row = size_of(sizes[start + desc.batches + len(axes) :])
    return Facts(desc, out_of_range, known, threads, find_placement(desc), axes, before, row)
