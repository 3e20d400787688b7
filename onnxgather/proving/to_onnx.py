"""The public translation of a descriptor, which verifies the model where asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from onnxgather.core.checks import check_type
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.model.write import descriptor_model
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target
from onnxgather.core.public import public


@public
def to_onnx(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    opset: int = DEFAULT_OPSET,
    indices: Any = None,
    threads: int | None = None,
    prefix: str = "",
    names: Mapping[str, str] | None = None,
    verify: bool = False,
) -> onnx.ModelProto:
    """Return an ONNX model that computes what a descriptor computes.

    The inputs InputTensor and IndicesTensor and the output OutputTensor have the
    descriptor's data types. Their shapes are the tensors' `sizes`; of a tensor with
    strides it is the shape of its 1-D buffer.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: "portable" is standard ONNX for every provider, "cpu" what ONNX
            Runtime's CPU provider runs fastest, "webgpu" what its WebGPU provider
            computes, "native" one node of onnxgather's own operators beside a function
            of standard ONNX.
        opset: The version of the ONNX operator set, 13 to the newest that both the
            installed onnx and the oldest supported ONNX Runtime know.
        indices: The array of IndicesTensor, or nested lists, if it is known. It becomes
            an initializer instead of a graph input, and all arithmetic on indices is
            done beforehand.
        threads: How many threads the model will run on, 1 or more, for `target="cpu"`
            to choose its graph by; None stands for 2.
        prefix: What stands before each name of the model: of its values and nodes.
        names: The names of InputTensor, IndicesTensor and OutputTensor that are others,
            without the prefix.
        verify: Whether the model runs on ONNX Runtime's CPU provider, with arrays that
            are drawn for it, and is then proved as far as a solver proves it in 10
            seconds. A model that no solver decides is returned all the same.

    Raises:
        OnnxGatherError: An option is not one of those above, the model would exceed
            2 GiB, or it is verified and does not compute what the descriptor says.
        DescriptorError: `indices` does not fit IndicesTensor.
        IndexOutOfRangeError: `indices` holds an index out of range, and `out_of_range`
            is "error".
        ProviderError: ONNX Runtime is not installed, which `verify` needs.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> model = og.to_onnx(desc, out_of_range="clamp", verify=True)
        >>> [node.op_type for node in model.graph.node]
        ['Reshape', 'Cast', 'Clip', 'Cast', 'Gather']
        >>> [node.op_type for node in og.to_onnx(desc, "error").graph.node]
        ['Reshape', 'Gather']
    """
    check_type("verify", verify, "True or False", bool)
    model = descriptor_model(
        desc, out_of_range, target, opset, indices, threads, prefix, names
    )
    if verify:
        # ONNX Runtime and the prover take long to import, and few callers need them.
        from onnxgather.core.model.values import serialized
        from onnxgather.proving.verify import verify_model

        content = serialized(model)
        verify_model(content, desc, out_of_range, target, indices=indices)
    return model
