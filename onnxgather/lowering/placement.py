"""Where the dimensions of a descriptor's tensors lie, in the output and in ONNX's operators."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgather.descriptors import Descriptor, GatherDesc, GatherElementsDesc
from onnxgather.lowering.graph import Shape


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the dimensions of the indices and of the input stand in the output."""

    kept: Shape
    """The sizes of IndicesTensor that count, the tuples of GATHER_ND included."""
    first: int
    """The output dimension where the indices' own dimensions begin."""
    after: int
    """How many output dimensions follow them."""
    passed: tuple[tuple[int, int], ...]
    """Pairs of an output dimension and the input dimension whose position it passes on."""
    indexed: tuple[int, ...]
    """The input dimensions that the indices choose from."""
    has_tuples: bool
    """Whether the last of the kept sizes counts coordinates."""

    def spread(self, shape: Shape) -> Shape:
        """Return the shape of something per index with one dimension per output dimension."""
        return (1,) * self.first + shape + (1,) * self.after


def find_placement(desc: Descriptor) -> Placement:
    """Return where the dimensions of a descriptor's tensors stand in its output."""
    count = desc.input_tensor.dimension_count
    sizes = desc.indices_tensor.sizes
    if isinstance(desc, GatherElementsDesc):
        passed = tuple((k, k) for k in range(count) if k != desc.axis)
        return Placement(sizes, 0, 0, passed, (desc.axis,), has_tuples=False)
    if isinstance(desc, GatherDesc):
        kept = sizes[count - desc.index_dimensions :]
        after = count - desc.axis - 1
        first = count - after - len(kept)
        # Input dimension k before Axis stands that far left of the indices, or was cropped.
        before = [(first - desc.axis + k, k) for k in range(max(0, desc.axis - first), desc.axis)]
        indexed = (desc.axis,)
    else:
        kept = sizes[count - desc.indices_dimension_count :]
        after = desc.input_dimension_count - desc.batches - desc.tuple_size
        first = count - after - len(kept) + 1
        ignored = count - desc.input_dimension_count
        before = [(first + k, ignored + k) for k in range(desc.batches)]
        indexed = tuple(ignored + desc.batches + k for k in range(desc.tuple_size))
    passed = (*before, *((k, k) for k in range(count - after, count)))
    return Placement(
        kept, first, after, passed, indexed, has_tuples=not isinstance(desc, GatherDesc)
    )
