"""Descriptors lowered to ONNX graphs, without ONNX."""

from onnxgather.arrays import Array, check_indices
from onnxgather.descriptors import Descriptor
from onnxgather.errors import IndexOutOfRangeError
from onnxgather.lowering.cpu import lower_cpu
from onnxgather.lowering.graph import Graph
from onnxgather.lowering.portable import lower as lower_portable
from onnxgather.options import OutOfRange, Target

__all__ = ["lower"]


def lower(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None = None,
    target: Target = "portable",
    threads: int | None = None,
) -> Graph:
    """Return the ONNX graph of a descriptor for a target.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        indices: IndicesTensor where it is known; it must hold no index out of range if
            `out_of_range` is "error". All arithmetic on it is done here.
        target: Whom the graph is for.
        threads: How many threads it will run on; only "cpu" asks.
    """
    if out_of_range == "directml" and indices is not None and not _any_outside(desc, indices):
        out_of_range = "clamp"  # in range all policies agree, and rows make smaller models
    if target == "cpu":
        return lower_cpu(desc, out_of_range, indices, threads)
    return lower_portable(desc, out_of_range, indices)


def _any_outside(desc: Descriptor, indices: Array) -> bool:
    try:
        check_indices(desc, indices)
    except IndexOutOfRangeError:
        return True
    return False
