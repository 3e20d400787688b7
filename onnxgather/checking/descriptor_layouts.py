"""How a tensor lies in its buffer: strides by name, padding, flags and alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.core.gather import Geometry, Sizes


def nested_strides(sizes: Sequence[int], first: int, gap: int) -> Sizes:
    """Return the strides, in elements, of dimensions that nest in one another.

    Args:
        sizes: The sizes, from the outermost to the innermost dimension.
        first: The stride of the innermost dimension, in elements.
        gap: How many elements lie unused behind each run along a dimension.
    """
    strides = list[int]()
    step = first
    for size in reversed(sizes):
        strides.insert(0, step)
        step = step * size + gap
    return tuple(strides)


def _broadcast(sizes: Sizes) -> Sizes:
    """Return packed strides, but 0 for the first dimension longer than 1.

    So the elements of the other dimensions repeat along it.
    """
    repeated = 0
    for dimension, size in enumerate(sizes):
        if size > 1:
            repeated = dimension
            break
    stored_sizes = list(sizes)
    stored_sizes[repeated] = 1
    strides = list(packed_strides(stored_sizes))
    strides[repeated] = 0
    return tuple(strides)


STRIDES: dict[str, Callable[[Sizes], Sizes]] = {
    "written-out": packed_strides,
    # Packed, with the dimensions in reverse order.
    "permuted": lambda sizes: nested_strides(sizes[::-1], 1, 0)[::-1],
    # A gap of one element after each element.
    "spaced": lambda sizes: nested_strides(sizes, 2, 0),
    # One element everywhere.
    "repeated": lambda sizes: (0,) * len(sizes),
    # A gap of three elements after each run.
    "padded": lambda sizes: nested_strides(sizes, 1, 3),
    "broadcast": _broadcast,
    # A step along any dimension leads to the next element.
    "overlapping": lambda sizes: (1,) * len(sizes),
}
"""The strides of given sizes, in elements, by name, the plainest first.

An output cannot have "repeated", "broadcast" or "overlapping" strides.
"""


class Layout(NamedTuple):
    """How a tensor lies in its buffer."""

    strides: str | Sizes | None = None
    """A key of `STRIDES`, or the strides themselves; None means a packed tensor without
    strides."""
    extra: int = 0
    """Bytes of TotalTensorSizeInBytes beyond the smallest."""
    flags: TensorFlags = TensorFlags.NONE
    alignment: int = 0

    def tensor(self, data_type: str, sizes: Sizes) -> TensorDesc:
        """Return a tensor of given sizes with this layout.

        Strides given as numbers belong to the last sizes.

        Raises:
            DescriptorError: The sizes do not fit the layout.
        """
        strides = self.strides
        if isinstance(strides, str):
            strides = STRIDES[strides](sizes)
        elif strides is not None:
            added_count = len(sizes) - len(strides)
            strides = (0,) * added_count + strides[-len(sizes) :]
        # The total size of the packed tensor depends on its strides.
        smallest = TensorDesc(data_type, sizes, strides)
        total = smallest.total_tensor_size_in_bytes + self.extra
        return TensorDesc(data_type, sizes, strides, total, self.flags, self.alignment)


def layout_of(tensor: TensorDesc) -> Layout:
    """Return the layout of a tensor."""
    total = tensor.total_tensor_size_in_bytes
    extra = total - tensor.default_total_tensor_size_in_bytes
    alignment = tensor.guaranteed_base_offset_alignment
    return Layout(tensor.strides, extra, tensor.flags, alignment)


PACKED = (Layout(), Layout(), Layout())
"""The layouts of three tensors without strides, padding, flags or alignment."""


def descriptor_with_layouts(
    gather: Geometry,
    data_type: str,
    index_type: str,
    layouts: Sequence[Layout] = PACKED,
) -> Descriptor:
    """Return the descriptor of a gather with given data types and layouts.

    Args:
        gather: The gather.
        data_type: The data type of InputTensor and OutputTensor.
        index_type: The data type of IndicesTensor.
        layouts: The layouts of InputTensor, IndicesTensor and OutputTensor.

    Raises:
        DescriptorError: The descriptor breaks a rule of DirectML.
    """
    data_layout, index_layout, output_layout = layouts
    data_sizes, index_sizes, output_sizes = gather.tensor_sizes()
    tensors = [
        data_layout.tensor(data_type, data_sizes),
        index_layout.tensor(index_type, index_sizes),
        output_layout.tensor(data_type, output_sizes),
    ]
    return gather.descriptor(tensors)
