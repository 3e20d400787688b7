"""The table of the operators that ONNX Runtime adds to those of ONNX.

ONNX Runtime puts them in place of several nodes of a model, from level 1 of its
optimizations on. A size counts only if the CPU provider computes it so, and infers it
so, or not at all. An output that a rule does not return has an open type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from onnxgather.auditing.algebra.bounds import Bounds, elements_of, unknown
from onnxgather.auditing.algebra.sizes import AnySize, AnySizes, quotient
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.output_types import RULES, OutputSizes, output_types

TypesRule = Callable[[Call], Sequence[OpenType]]
"""Computes the types of the first outputs of an operation."""

TYPES_RULES: dict[tuple[str, str], TypesRule] = {}
"""The rule of each operator, by its domain and its name."""

MICROSOFT = "com.microsoft"
BLOCKED = "com.microsoft.nchwc"
"""The domain of operators on images whose channels are in blocks."""

BLOCK = 16
"""A multiple of the number of channels in a block, on every processor."""

FIRST_NORMALIZATION = 17
"""The first version of ONNX that has LayerNormalization; see
`quirks.EARLY_NORMALIZATION`."""


def types_of_outputs(call: Call) -> list[OpenType]:
    """Return the data types and the sizes of the outputs of any operation.

    The bodies of If, Loop, Scan and functions are not followed.
    """
    operation = call.operation
    rule = TYPES_RULES.get((operation.domain, call.operator))
    if call.operator == "LayerNormalization" and call.version >= FIRST_NORMALIZATION:
        rule = None
    if not operation.domain and rule is None:
        return output_types(call)
    types: list[OpenType] = []
    if rule is not None:
        # An operation that is not as ONNX Runtime wants it has open types.
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):
            types = list(rule(call))
    count = len(operation.outputs)
    missing = count - len(types)
    return [*types[:count], *[OpenType()] * missing]


def typed(*names: str, domain: str = MICROSOFT) -> Callable[[TypesRule], TypesRule]:
    """Return a decorator that enters a rule in the table."""

    def enter(rule: TypesRule) -> TypesRule:
        for name in names:
            TYPES_RULES[domain, name] = rule
        return rule

    return enter


def _as(operator: str, call: Call, inputs: Iterable[Bounds]) -> OutputSizes:
    """Return the sizes of an operator of ONNX of these inputs; None if not known."""
    operation = replace(call.operation, operator=operator)
    replaced = replace(call, operation=operation, inputs=tuple(inputs))
    results = list(RULES[operator](replaced, [None]))
    return results[0] if results else None


def _of_sizes(sizes: OutputSizes) -> Bounds:
    return unknown("FLOAT", sizes)


# Elements side by side.


@typed("BiasGelu", "FastGelu", "Gelu", "QuickGelu", "Trilu", "RotaryEmbedding")
@typed("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax")
@typed("LayerNormalization", "SimplifiedLayerNormalization", domain="")
def _same(call: Call) -> Sequence[OpenType]:
    return [OpenType(call.x.data_type, call.x.sizes)]


@typed("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip_normalization(call: Call) -> Sequence[OpenType]:
    same = OpenType(call.x.data_type, call.x.sizes)
    # `quirks.SKIPPED_STATISTICS`
    return [same, OpenType(), OpenType(), same]


@typed("DequantizeLinear")
def _dequantized(call: Call) -> Sequence[OpenType]:
    return [OpenType(call.of(1).data_type, call.x.sizes)]


@typed("QuantizeLinear")
def _quantized(call: Call) -> Sequence[OpenType]:
    zero = call.has(2)
    data_type = "UINT8" if zero is None else zero.data_type
    return [OpenType(data_type, call.x.sizes)]


@typed("QLinearAdd", "QLinearMul")
def _quantized_pair(call: Call) -> Sequence[OpenType]:
    sizes = _as("Add", call, [call.x, call.of(3)])
    return [OpenType(call.x.data_type, sizes)]


@typed("QLinearWhere")
def _quantized_choice(call: Call) -> Sequence[OpenType]:
    first = call.of(1)
    sizes = _as("Where", call, [call.x, first, call.of(4)])
    return [OpenType(first.data_type, sizes)]


@typed("QLinearConcat")
def _quantized_concat(call: Call) -> Sequence[OpenType]:
    zero = call.of(1)
    parts = [call.of(position) for position in range(2, len(call.inputs), 3)]
    shapes = [part.sizes for part in parts]
    axis = int(call.attributes["axis"])
    first = shapes[0]
    if first is None:
        return [OpenType(zero.data_type)]
    axis %= len(first)
    length: AnySize = 0
    for shape in shapes:
        # Only sizes that are the same in all inputs are sure.
        if shape is None or None in shape or len(shape) != len(first):
            return [OpenType(zero.data_type)]
        others = (*shape[:axis], *shape[axis + 1 :])
        own_others = (*first[:axis], *first[axis + 1 :])
        size = shape[axis]
        if others != own_others or size is None:
            return [OpenType(zero.data_type, (None,) * len(first))]
        length = length + size
    sizes = (*first[:axis], length, *first[axis + 1 :])
    return [OpenType(zero.data_type, sizes)]


# Products of matrices.


def _product(a: OutputSizes, b: OutputSizes, call: Call) -> OutputSizes:
    """Return the sizes of a product of matrices; None where they are not clear.

    See `quirks.PRODUCT_OF_NOTHING`.
    """
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    depths = [size for size in (a[-1], b[-2]) if size is not None]
    is_deep = any(depth > 0 for depth in depths)
    if not is_deep and max(len(a), len(b)) > 2:
        return None
    batch = _as("Add", call, [_of_sizes(a[:-2]), _of_sizes(b[:-2])])
    if batch is None:
        return None
    return (*batch, a[-2], b[-1])


def _turned(sizes: OutputSizes, turns: bool, turns_batch: bool) -> OutputSizes:
    """Return the sizes of a matrix that FusedMatMul has transposed."""
    if sizes is None or len(sizes) < 2:
        return None
    if turns_batch:
        # The first axis and those of the batch.
        *batch, last = sizes
        first, *others = batch
        sizes = (*others, first, last)
    if turns:
        sizes = (*sizes[:-2], sizes[-1], sizes[-2])
    return sizes


@typed("FusedMatMul", "TransposeMatMul")
def _fused_mat_mul(call: Call) -> Sequence[OpenType]:
    options = call.attributes
    turned: list[OutputSizes] = []
    for position, letter in enumerate("AB"):
        turns = options.get(f"trans{letter}", 0) != 0
        turns_batch = options.get(f"transBatch{letter}", 0) != 0
        sizes = _turned(call.of(position).sizes, turns, turns_batch)
        turned.append(sizes)
    a, b = turned
    return [OpenType(call.x.data_type, _product(a, b, call))]


@typed("FusedGemm")
def _fused_gemm(call: Call) -> Sequence[OpenType]:
    return [OpenType(call.x.data_type, _gemm(call, call.of(1)))]


@typed("QGemm")
def _quantized_gemm(call: Call) -> Sequence[OpenType]:
    zero = call.has(8)
    data_type = "FLOAT" if zero is None else zero.data_type
    return [OpenType(data_type, _gemm(call, call.of(3)))]


def _gemm(call: Call, other: Bounds) -> OutputSizes:
    """Return the sizes of a product of two matrices, either of which may be turned."""
    turns_a = call.attributes.get("transA", 0) != 0
    turns_b = call.attributes.get("transB", 0) != 0
    a = _turned(call.x.sizes, turns_a, False)
    b = _turned(other.sizes, turns_b, False)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return None
    return a[0], b[1]


@typed("DynamicQuantizeMatMul", "MatMulIntegerToFloat")
def _quantized_product(call: Call) -> Sequence[OpenType]:
    sizes = _product(call.x.sizes, call.of(1).sizes, call)
    return [OpenType("FLOAT", sizes)]


@typed("MatMulNBits")
def _mat_mul_n_bits(call: Call) -> Sequence[OpenType]:
    """Return the type of a product of a matrix with weights of a few bits."""
    sizes = call.x.sizes or ()
    rows = sizes[:-1]
    if not rows:
        return [OpenType(call.x.data_type)]
    columns = call.attributes["N"]
    return [OpenType(call.x.data_type, (*rows, columns))]


# Gathers of packed data.


@typed("GatherBlockQuantized")
def _gather_block_quantized(call: Call) -> Sequence[OpenType]:
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


# Attention.


@typed("EmbedLayerNormalization")
def _embedding(call: Call) -> Sequence[OpenType]:
    table = call.of(2)
    ids = call.x.sizes
    rows = table.sizes
    if ids is None or rows is None or len(ids) != 2 or len(rows) != 2:
        return [OpenType(table.data_type)]
    embedded = OpenType(table.data_type, (*ids, rows[1]))
    return [embedded, OpenType("INT32", ids[:1]), embedded]


@typed("Attention", "QAttention")
def _attention(call: Call) -> Sequence[OpenType]:
    weights = call.of(1).sizes
    sizes = call.x.sizes
    is_quantized = call.operator == "QAttention"
    data_type = call.of(3).data_type if is_quantized else call.x.data_type
    if sizes is None or weights is None or len(sizes) != 3 or len(weights) != 2:
        return [OpenType(data_type)]
    # The columns of the weights are those of queries, keys and values.
    columns = weights[1]
    parts = call.attributes.get("qkv_hidden_sizes")
    width = None
    if parts is not None:
        width = parts[2]
    elif columns is not None:
        width = quotient(columns, 3)
    return [OpenType(data_type, (*sizes[:2], width))]


@typed("MultiHeadAttention")
def _heads(call: Call) -> Sequence[OpenType]:
    query = call.x.sizes
    values = call.has(2)
    packed = OpenType(call.x.data_type)
    # Without values the keys or the queries contain them.
    if query is None or values is None or len(query) != 3:
        return [packed]
    sizes = values.sizes
    if sizes is None or len(sizes) not in (3, 4):
        return [packed]
    width = sizes[2] if len(sizes) == 3 else elements_of((sizes[1], sizes[3]))
    return [OpenType(call.x.data_type, (*query[:2], width))]


@typed("GroupQueryAttention")
def _group_attention(call: Call) -> Sequence[OpenType]:
    # Without keys the queries contain them.
    if call.has(1) is None:
        return [OpenType(call.x.data_type)]
    return [OpenType(call.x.data_type, call.x.sizes)]


# Images: windows that move over axes.


def _channels_first(sizes: OutputSizes) -> OutputSizes:
    if sizes is None or len(sizes) < 3:
        return None
    return (sizes[0], sizes[-1], *sizes[1:-1])


def _channels_last(sizes: OutputSizes) -> OutputSizes:
    if sizes is None or len(sizes) < 3:
        return None
    return (sizes[0], *sizes[2:], sizes[1])


@typed("NhwcMaxPool", "QLinearAveragePool")
def _pool_of_bytes(call: Call) -> Sequence[OpenType]:
    is_last = call.operator == "NhwcMaxPool" or _last_channels(call)
    operator = call.operator.removeprefix("Nhwc").removeprefix("QLinear")
    sizes = call.x.sizes
    if is_last:
        sizes = _channels_first(sizes)
    pooled = _as(operator, call, [_of_sizes(sizes)])
    if is_last:
        pooled = _channels_last(pooled)
    return [OpenType(call.x.data_type, pooled)]


@typed("QLinearGlobalAveragePool")
def _global_pool_of_bytes(call: Call) -> Sequence[OpenType]:
    sizes = call.x.sizes
    if sizes is None or len(sizes) < 3:
        return [OpenType(call.x.data_type)]
    batch, *others = sizes
    ones = (1,) * (len(sizes) - 2)
    pooled: AnySizes = (batch, others[0], *ones)
    if _last_channels(call):
        pooled = (batch, *ones, others[-1])
    return [OpenType(call.x.data_type, pooled)]


@typed("QLinearConv")
def _convolution_of_bytes(call: Call) -> Sequence[OpenType]:
    is_last = _last_channels(call)
    sizes = call.x.sizes
    if is_last:
        sizes = _channels_first(sizes)
    convolved = _as("Conv", call, [_of_sizes(sizes), call.of(3)])
    if is_last:
        convolved = _channels_last(convolved)
    return [OpenType(call.of(7).data_type, convolved)]


@typed("FusedConv")
@typed("Conv", domain=BLOCKED)
def _convolution(call: Call) -> Sequence[OpenType]:
    sizes = _as("Conv", call, [call.x, call.of(1)])
    return [OpenType(call.x.data_type, sizes)]


@typed("AveragePool", "MaxPool", domain=BLOCKED)
def _pool(call: Call) -> Sequence[OpenType]:
    sizes = _as(call.operator, call, [call.x])
    return [OpenType(call.x.data_type, sizes)]


@typed("GlobalAveragePool", "GlobalMaxPool", domain=BLOCKED)
def _global_pool(call: Call) -> Sequence[OpenType]:
    sizes = call.x.sizes
    if sizes is None:
        return [OpenType(call.x.data_type)]
    ones = (1,) * (len(sizes) - 2)
    return [OpenType(call.x.data_type, (*sizes[:2], *ones))]


def _last_channels(call: Call) -> bool:
    return call.attributes.get("channels_last", 0) != 0


@typed("ReorderInput", domain=BLOCKED)
def _to_blocks(call: Call) -> Sequence[OpenType]:
    sizes = call.x.sizes
    if sizes is None or len(sizes) < 3:
        return [OpenType(call.x.data_type)]
    batch, *others = sizes
    if _last_channels(call):
        *space, channels = others
    else:
        channels, *space = others
    # The last block is filled up; its size depends on the processor.
    is_full = isinstance(channels, int) and channels % BLOCK == 0
    blocked: AnySize | None = channels if is_full else None
    return [OpenType(call.x.data_type, (batch, blocked, *space))]


@typed("ReorderOutput", domain=BLOCKED)
def _from_blocks(call: Call) -> Sequence[OpenType]:
    sizes = call.x.sizes
    if sizes is None or len(sizes) < 3:
        return [OpenType(call.x.data_type)]
    batch, _, *space = sizes
    channels = call.attributes["channels"]
    reordered: AnySizes = (batch, channels, *space)
    if _last_channels(call):
        reordered = (batch, *space, channels)
    return [OpenType(call.x.data_type, reordered)]


@typed("Upsample", domain=BLOCKED)
def _upsampled(call: Call) -> Sequence[OpenType]:
    sizes = call.x.sizes
    scales = call.attributes["scales"]
    if sizes is None:
        return [OpenType(call.x.data_type)]
    scaled: list[AnySize | None] = []
    for size, scale in zip(sizes, scales, strict=True):
        scaled.append(None if size is None else size * scale)
    return [OpenType(call.x.data_type, tuple(scaled))]
