"""The lowering: descriptors as graphs of ONNX nodes, made without the package onnx."""

from onnxgather.core.descriptors.arrays import Array, all_in_range
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.graph import Graph
from onnxgather.core.lowering.portable import lower_portable
from onnxgather.core.options import OutOfRange, Target

__all__ = ["lower"]


def lower(
    desc: Descriptor,
    out_of_range: OutOfRange,
    indices: Array | None = None,
    target: Target = "portable",
    threads: int | None = None,
    offsets_only: bool = False,
) -> Graph:
    """Return the graph of ONNX nodes that computes a descriptor on a target.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        indices: The array of IndicesTensor if it is known; it must hold no index out of
            range if `out_of_range` is "error". No node is added for arithmetic on known
            indices.
        target: The provider or providers that the graph is for.
        threads: How many threads the graph will run on, for the target "cpu"; None
            stands for 2.
        offsets_only: Whether each gather is by offsets, for the target "webgpu".

    Raises:
        OnnxGatherError: The target "webgpu" cannot count the elements of a tensor.
    """
    is_directml = out_of_range == "directml"
    if is_directml and indices is not None and all_in_range(desc, indices):
        out_of_range = "clamp"  # in range all agree, and "clamp" makes smaller models
    # What only one target needs is loaded for that target.
    if target == "cpu":
        from onnxgather.core.lowering.cpu import lower_cpu

        return lower_cpu(desc, out_of_range, indices, threads)
    if target == "native":
        from onnxgather.core.lowering.native import lower_native

        return lower_native(desc, out_of_range, indices)
    is_narrow = target == "webgpu"
    try:
        return lower_portable(desc, out_of_range, indices, is_narrow, offsets_only)
    except OverflowError:  # of an INT32
        most = max(desc.input_tensor.element_count, desc.output_tensor.element_count)
        rule = 'target "webgpu" must have tensors whose elements INT32 counts'
        raise OnnxGatherError(f"{rule}, got {most} elements") from None
