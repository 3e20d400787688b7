"""How a tensor lies in its buffer: strides by name, padding, flags and alignment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.descriptors.tensors import TensorDesc, TensorFlags
from onnxgather.core.gather import Geometry, Sizes


def nested_strides(
    sizes: Sequence[int], order: Sequence[int], first: int, gap: int
) -> Sizes:
    """The strides, in elements, of dimensions that nest in one another.

    Args:
        sizes: The sizes.
        order: The numbers of the dimensions, from the outermost to the innermost.
        first: The stride of the innermost dimension, in elements.
        gap: How many elements lie unused behind each run along a dimension.
    """
    strides, step = [0] * len(sizes), first
    for k in reversed(order):
        strides[k] = step
        step = step * sizes[k] + gap
    return tuple(strides)


def _broadcast(sizes: Sizes) -> Sizes:
    """Packed strides, but 0 for the first dimension longer than 1, so that it repeats."""
    repeated = next((k for k, size in enumerate(sizes) if size > 1), 0)
    rest = [1 if k == repeated else size for k, size in enumerate(sizes)]
    return tuple(0 if k == repeated else s for k, s in enumerate(packed_strides(rest)))


STRIDES: dict[str, Callable[[Sizes], Sizes]] = {
    "written-out": packed_strides,
    "permuted": lambda sizes: nested_strides(sizes, range(len(sizes))[::-1], 1, 0),
    "spaced": lambda sizes: nested_strides(sizes, range(len(sizes)), 2, 0),
    "repeated": lambda sizes: (0,) * len(sizes),
    "padded": lambda sizes: nested_strides(sizes, range(len(sizes)), 1, 3),
    "broadcast": _broadcast,
    "overlapping": lambda sizes: (1,) * len(sizes),
}
"""The strides of given sizes, in elements, by name, the plainest first.

An output cannot have "repeated", "broadcast" or "overlapping" strides.
"""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its buffer."""

    strides: str | Sizes | None = None
    """A key of `STRIDES`, or the strides themselves; None means a packed tensor without
    strides."""
    extra: int = 0
    """Bytes of TotalTensorSizeInBytes beyond the smallest."""
    flags: TensorFlags = TensorFlags.NONE
    alignment: int = 0

    def tensor(self, data_type: str, sizes: Sizes) -> TensorDesc:
        """A tensor of these sizes. Strides given as numbers belong to the last sizes.

        Raises:
            DescriptorError: The sizes do not fit the layout.
        """
        strides = self.strides
        if isinstance(strides, str):
            strides = STRIDES[strides](sizes)
        elif strides is not None:
            strides = (0,) * (len(sizes) - len(strides)) + strides[-len(sizes) :]
        packed = TensorDesc(data_type, sizes, strides)
        total = packed.total_tensor_size_in_bytes + self.extra
        return TensorDesc(data_type, sizes, strides, total, self.flags, self.alignment)


def layout_of(tensor: TensorDesc) -> Layout:
    """The layout of a tensor."""
    extra = (
        tensor.total_tensor_size_in_bytes - tensor.default_total_tensor_size_in_bytes
    )
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
    """The descriptor of a gather with given data types and layouts.

    Args:
        gather: The gather.
        data_type: The data type of InputTensor and OutputTensor.
        index_type: The data type of IndicesTensor.
        layouts: The layouts of InputTensor, IndicesTensor and OutputTensor.

    Raises:
        DescriptorError: The descriptor breaks a rule of DirectML.
    """
    types = (data_type, index_type, data_type)
    each = zip(layouts, types, gather.tensor_sizes(), strict=True)
    return gather.descriptor(
        [layout.tensor(type_, sizes) for layout, type_, sizes in each]
    )
