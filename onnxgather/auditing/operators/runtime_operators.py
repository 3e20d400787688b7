"""The operators that ONNX Runtime makes: the types of what each computes.

ONNX Runtime's CPU provider fuses nodes to operators of its own domains, com.microsoft
and com.microsoft.nchwc. `test_the_sizes_of_an_operator_are_those_of_a_run` in
tests/auditing/operators/test_runtime_operators.py runs each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from onnxgather.auditing.algebra.sizes import AnySize, AnySizes
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_types import (
    OutputSizes,
    broadcast_sizes,
    onnx_output_types,
    window_sizes,
)

Rule = Callable[[Call], Sequence[OpenType]]
"""Computes the types of the first outputs of an operation."""

MICROSOFT = "com.microsoft"

NCHWC = "com.microsoft.nchwc"
"""The domain of convolutions whose channels lie in blocks. The number of channels is
rounded up to whole blocks, whose size depends on the processor."""


def output_types(call: Call) -> list[OpenType]:
    """Return the data types and the sizes of the outputs of an operation.

    The bodies of If, Loop, Scan and functions are not followed.

    Returns:
        One type per output. A size is None where nothing is known of it.
    """
    operation = call.operation
    if not operation.domain:
        return onnx_output_types(call)
    types: list[OpenType] = []
    rule = RUNTIME_OPERATORS.get((operation.domain, call.operator))
    if rule is not None:
        # An operation that is not as ONNX Runtime wants it has open types.
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):
            types = list(rule(call))
    count = len(operation.outputs)
    types += [OpenType()] * (count - len(types))
    return types[:count]


# One element for each element of an input.


def _as_input(call: Call) -> list[OpenType]:
    """Return the type of the first input."""
    return [OpenType(call.x.data_type, call.x.sizes)]


def _skip_normalized(call: Call) -> list[OpenType]:
    """Return the types of a sum that is normalized, and of the sum, output 3."""
    own = OpenType(call.x.data_type, call.x.sizes)
    return [own, OpenType(), OpenType(), own]


def _dequantized(call: Call) -> list[OpenType]:
    return [OpenType(call.of(1).data_type, call.x.sizes)]


def _quantized(call: Call) -> list[OpenType]:
    zero_point = call.has(2)
    data_type = "UINT8" if zero_point is None else zero_point.data_type
    return [OpenType(data_type, call.x.sizes)]


def _quantized_sum(call: Call) -> list[OpenType]:
    """Return the type of a sum or a product of quantized tensors.

    The second tensor is input 3, behind scale and zero point of the first.
    """
    sizes = broadcast_sizes([call.x.sizes, call.of(3).sizes])
    return [OpenType(call.x.data_type, sizes)]


# Products of matrices.


def _product(call: Call) -> list[OpenType]:
    """Return the type of a product of matrices, which may be transposed."""
    return [OpenType(call.x.data_type, _product_sizes(call))]


def _product_as_float(call: Call) -> list[OpenType]:
    """Return the type of a product of integers with their scales."""
    return [OpenType(call.of(2).data_type, _product_sizes(call))]


def _product_sizes(call: Call) -> OutputSizes:
    """Return the sizes of a product; None where it is not clear."""
    options = call.attributes
    # The first dimension is then one of the matrix.
    if options.get("transBatchA", 0) or options.get("transBatchB", 0):
        return None
    a = call.x.sizes
    b = call.of(1).sizes
    # A vector has rules of its own.
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    rows = a[-1] if options.get("transA", 0) else a[-2]
    columns = b[-2] if options.get("transB", 0) else b[-1]
    depth = a[-2] if options.get("transA", 0) else a[-1]
    # ONNX Runtime does not broadcast matrices with sums of 0 products.
    if max(len(a), len(b)) > 2 and not (depth is not None and depth > 0):
        return None
    batch = broadcast_sizes([a[:-2], b[:-2]])
    return None if batch is None else (*batch, rows, columns)


def _gemm(call: Call) -> list[OpenType]:
    a = call.x.sizes
    b = call.of(1).sizes
    sizes: OutputSizes = None
    if a is not None and b is not None and len(a) == len(b) == 2:
        rows = a[1] if call.attributes.get("transA", 0) else a[0]
        columns = b[0] if call.attributes.get("transB", 0) else b[1]
        sizes = (rows, columns)
    return [OpenType(call.x.data_type, sizes)]


def _mat_mul_n_bits(call: Call) -> list[OpenType]:
    """Return the type of a product of a matrix with weights of a few bits."""
    sizes = call.x.sizes or ()
    rows = sizes[:-1]
    if not rows:
        return [OpenType(call.x.data_type)]
    columns = call.attributes["N"]
    return [OpenType(call.x.data_type, (*rows, columns))]


# Convolutions and pools.


def _convolution(call: Call) -> list[OpenType]:
    (sizes,) = window_sizes(call, [None])
    return [OpenType(call.x.data_type, sizes)]


def _blocked_window(call: Call) -> list[OpenType]:
    """Return the type of a convolution or a pool whose channels lie in blocks."""
    (sizes,) = window_sizes(call, [None])
    return [OpenType(call.x.data_type, _with_channels(sizes, None))]


def _blocked_input(call: Call) -> list[OpenType]:
    """Return the type of a tensor whose channels are put in blocks."""
    sizes = call.x.sizes
    if sizes is not None and call.attributes.get("channels_last", 0):
        sizes = (sizes[0], sizes[-1], *sizes[1:-1])
    return [OpenType(call.x.data_type, _with_channels(sizes, None))]


def _unblocked_output(call: Call) -> list[OpenType]:
    """Return the type of a tensor whose channels are taken out of their blocks."""
    channels = call.attributes["channels"]
    sizes = _with_channels(call.x.sizes, channels)
    if sizes is not None and call.attributes.get("channels_last", 0):
        sizes = (sizes[0], *sizes[2:], sizes[1])
    return [OpenType(call.x.data_type, sizes)]


def _global_pool(call: Call) -> list[OpenType]:
    sizes = call.x.sizes
    if sizes is not None:
        sizes = (*sizes[:2], *[1] * len(sizes[2:]))
    return [OpenType(call.x.data_type, sizes)]


def _with_channels(sizes: OutputSizes, channels: AnySize | None) -> OutputSizes:
    """Return sizes with a number of channels, the second dimension."""
    return None if sizes is None else (sizes[0], channels, *sizes[2:])


# Embeddings and attentions.


def _gather_block_quantized(call: Call) -> list[OpenType]:
    """Return the type of ONNX Runtime's gather of data of 4 or 8 bits."""
    sizes = call.x.sizes
    indices = call.of(1).sizes
    data_type = call.of(2).data_type
    axis = call.attributes.get("gather_axis", 0)
    if sizes is None or indices is None:
        return [OpenType(data_type)]
    rank = len(sizes)
    if not -rank <= axis < rank:
        return [OpenType(data_type)]
    axis %= rank
    # A byte holds several numbers.
    last = sizes[-1]
    if call.x.data_type == "UINT8" and last is not None:
        per_byte = 8 // call.attributes.get("bits", 4)
        sizes = (*sizes[:-1], last * per_byte)
    before = sizes[:axis]
    after = sizes[axis + 1 :]
    return [OpenType(data_type, (*before, *indices, *after))]


def _embedded(call: Call) -> list[OpenType]:
    """Return the types of normalized embeddings, of the mask, and of the sums."""
    words = call.of(2)
    batch, length = _two(call.x.sizes)
    _, width = _two(words.sizes)
    rows = OpenType(words.data_type, (batch, length, width))
    return [rows, OpenType("INT32", (batch,)), rows]


def _two(sizes: AnySizes | None) -> tuple[AnySize | None, AnySize | None]:
    """Return the sizes of a matrix; ONNX Runtime allows nothing else there."""
    first, second = (None, None) if sizes is None else sizes
    return first, second


def _attention(call: Call) -> list[OpenType]:
    """Return the type of an Attention, whose weights are those of three products."""
    batch, length, _ = call.x.sizes or (None, None, None)
    widths = call.attributes.get("qkv_hidden_sizes")
    if widths:
        width: AnySize | None = int(widths[-1])
    else:
        _, width = _two(call.of(1).sizes)
        width = width // 3 if isinstance(width, int) else None
    return [OpenType(call.x.data_type, (batch, length, width))]


def _multi_head_attention(call: Call) -> list[OpenType]:
    """Return the type of an attention of a query, a key and a value of rank 3."""
    query = call.x.sizes
    value = call.of(2).sizes
    sizes: OutputSizes = None
    if query is not None and value is not None and len(query) == len(value) == 3:
        sizes = (*query[:2], value[2])
    return [OpenType(call.x.data_type, sizes)]


_SAME = """
    BiasGelu BiasSoftmax FastGelu Gelu QuickGelu RotaryEmbedding Trilu
    QLinearLeakyRelu QLinearSigmoid QLinearSoftmax SimplifiedLayerNormalization
"""
"""Operators whose output has the type of the first input."""

RUNTIME_OPERATORS: Mapping[tuple[str, str], Rule] = {
    **{(MICROSOFT, name): _as_input for name in _SAME.split()},
    (MICROSOFT, "SkipLayerNormalization"): _skip_normalized,
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _skip_normalized,
    (MICROSOFT, "DequantizeLinear"): _dequantized,
    (MICROSOFT, "QuantizeLinear"): _quantized,
    (MICROSOFT, "QLinearAdd"): _quantized_sum,
    (MICROSOFT, "QLinearMul"): _quantized_sum,
    (MICROSOFT, "FusedMatMul"): _product,
    (MICROSOFT, "TransposeMatMul"): _product,
    (MICROSOFT, "DynamicQuantizeMatMul"): _product,
    (MICROSOFT, "MatMulIntegerToFloat"): _product_as_float,
    (MICROSOFT, "FusedGemm"): _gemm,
    (MICROSOFT, "MatMulNBits"): _mat_mul_n_bits,
    (MICROSOFT, "FusedConv"): _convolution,
    (MICROSOFT, "GatherBlockQuantized"): _gather_block_quantized,
    (MICROSOFT, "EmbedLayerNormalization"): _embedded,
    (MICROSOFT, "Attention"): _attention,
    (MICROSOFT, "MultiHeadAttention"): _multi_head_attention,
    (NCHWC, "Conv"): _blocked_window,
    (NCHWC, "MaxPool"): _blocked_window,
    (NCHWC, "AveragePool"): _blocked_window,
    (NCHWC, "GlobalMaxPool"): _global_pool,
    (NCHWC, "GlobalAveragePool"): _global_pool,
    (NCHWC, "ReorderInput"): _blocked_input,
    (NCHWC, "ReorderOutput"): _unblocked_output,
}
"""The operators of ONNX Runtime's own domains whose types are known."""
