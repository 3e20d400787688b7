"""Data whose strides are a permutation: gathered as it lies, and the result transposed."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgather.descriptors import GatherDesc
from onnxgather.lowering.graph import size_of
from onnxgather.strides import in_order
from onnxgather.tensors import TensorDesc


@dataclass(frozen=True, slots=True)
class Transposed:
    """A packed descriptor on the data as it lies, and the order of its output's dimensions."""

    desc: GatherDesc
    perm: tuple[int, ...]


def find_transposed(desc: object) -> Transposed | None:
    """Return a GATHER of permuted data as one of packed data, None where it is no such thing."""
    if not isinstance(desc, GatherDesc) or desc.index_dimensions == 0:
        return None
    tensor, rank = desc.input_tensor, desc.index_dimensions
    strides = tensor.strides
    if strides is None or tensor.is_packed or tensor.element_count != size_of(tensor.sizes):
        return None
    cropped = rank - 1
    # The dimensions as they lie, those of size 1 first, as their strides mean nothing.
    order = sorted(
        range(cropped, tensor.dimension_count),
        key=lambda k: (tensor.sizes[k] > 1, -strides[k], k),
    )
    lying = tuple(tensor.sizes[k] for k in order)
    if not in_order(lying, [strides[k] for k in order]):
        return None
    place = order.index(desc.axis)
    chosen = desc.indices_tensor.sizes[tensor.dimension_count - rank :]
    packed = GatherDesc(
        TensorDesc(tensor.data_type, (1,) * cropped + lying),
        desc.indices_tensor,
        TensorDesc(tensor.data_type, (*lying[:place], *chosen, *lying[place + 1 :])),
        axis=cropped + place,
        index_dimensions=rank,
    )
    # An output dimension is named by the input's, or by which of the indices' it is.
    indices = [("index", k) for k in range(rank)]
    plain = [("data", k) for k in range(cropped, tensor.dimension_count)]
    at = desc.axis - cropped
    wanted = plain[:at] + indices + plain[at + 1 :]
    moved = [("data", k) for k in order]
    made = moved[:place] + indices + moved[place + 1 :]
    return Transposed(packed, tuple(made.index(name) for name in wanted))
