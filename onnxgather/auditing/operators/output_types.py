"""The table of operators: the data types and the sizes of what each computes.

A size counts only if ONNX Runtime's CPU provider computes it so, and infers it so, or
not at all. From level 1 of its optimizations on, a Shape is what ONNX Runtime infers,
so a size that it may infer wrongly is None here: neither the size nor a Shape of it is
known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import onnx
from onnx import helper

from onnxgather.auditing.algebra.bounds import (
    INTEGERS,
    Bounds,
    elements_of,
    known_sizes,
)
from onnxgather.auditing.algebra.sizes import (
    MOST,
    AnySize,
    AnySizes,
    Size,
    high_of,
    is_doubtful,
    larger,
    lesser,
    low_of,
    quotient,
    unknown_size,
)
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.core.model.values import NUMBERS, ValueType

OutputSizes = AnySizes | None
Rule = Callable[[Call, Sequence[OutputSizes]], Iterable[OutputSizes]]

RULES: dict[str, Rule] = {}
"""For each operator, the function that gives the sizes of its outputs, from those that
ONNX infers for the operation alone. Of any other operator no size is known."""

INFERRED_ELEMENTS = 1024
"""The most elements of an input that ONNX's inference reads."""

VERSIONS = range(7, 29)
"""The versions of ONNX's own operators whose sizes were compared with those of ONNX
Runtime."""

TRUSTED = """
    Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    CumSum DequantizeLinear Dropout DynamicQuantizeLinear Elu Erf Exp EyeLike Floor Gelu HardSigmoid
    HardSwish Hardmax Identity IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization Mish Neg Not
    QuantizeLinear RandomNormalLike RandomUniformLike Reciprocal Relu ReverseSequence Round Scatter
    ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish
    Tan Tanh ThresholdedRelu Trilu
    AffineGrid BatchNormalization BlackmanWindow CenterCropPad Col2Im Compress ConvTranspose
    DeformConv DepthToSpace Det Einsum GRU Gather GatherElements GatherND Gemm GlobalAveragePool
    GlobalLpPool GlobalMaxPool GridSample HammingWindow HannWindow InstanceNormalization LSTM
    LayerNormalization MatMul MatMulInteger MaxRoiPool MelWeightMatrix Multinomial
    NegativeLogLikelihoodLoss NonMaxSuppression OneHot PRelu QLinearMatMul RMSNormalization RNN
    RandomNormal RandomUniform RegexFullMatch RoiAlign RotaryEmbedding STFT Shape Size
    SoftmaxCrossEntropyLoss SpaceToDepth Squeeze StringConcat StringNormalizer StringSplit
    TensorScatter TfIdfVectorizer Transpose Unique Unsqueeze
"""
"""Operators for which ONNX infers the sizes that ONNX Runtime computes, if `CONDITIONS`
holds."""


BROADCAST = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less
    LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
"""

REDUCTIONS = """
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare
"""


def output_types(call: Call) -> list[OpenType]:
    """The data types and the sizes of the outputs of an operation.

    The bodies of If, Loop, Scan and functions are not followed.

    Returns:
        One type per output. A size is None where nothing is known of it, and ONNX Runtime may infer
        another number than it is.
    """
    operation = call.operation
    if operation.domain:
        told = None
        with suppress(LookupError, TypeError, ValueError):  # not as ONNX Runtime asks
            told = QUANTIZED[operation.domain, call.operator](call)
        return [told or OpenType()] + [OpenType()] * (len(operation.outputs) - 1)
    types, sizes = _inferred(call), list[OutputSizes]()
    if call.version in VERSIONS and call.operator in RULES:
        with suppress(
            ArithmeticError, LookupError, TypeError, ValueError
        ):  # not as ONNX asks
            sizes = [*RULES[call.operator](call, [each.sizes for each in types])][
                : len(types)
            ]
    pairs = itertools.zip_longest(types, sizes)
    return [
        OpenType(each.data_type, known and _possible(known)) for each, known in pairs
    ]


def _gather_block_quantized(call: Call) -> OpenType:
    """The type of ONNX Runtime's gather of data of 4 or 8 bits."""
    sizes, indices, axis = (
        call.x.sizes,
        call.of(1).sizes,
        call.attributes.get("gather_axis", 0),
    )
    if sizes is None or indices is None or not -len(sizes) <= axis < len(sizes):
        return OpenType(call.of(2).data_type)
    if (
        call.x.data_type == "UINT8" and sizes[-1] is not None
    ):  # several numbers in a byte
        sizes = (*sizes[:-1], sizes[-1] * (8 // call.attributes.get("bits", 4)))
    axis %= len(sizes)
    return OpenType(call.of(2).data_type, (*sizes[:axis], *indices, *sizes[axis + 1 :]))


def _mat_mul_n_bits(call: Call) -> OpenType:
    """The type of ONNX Runtime's product of a matrix with weights of a few bits."""
    rows = call.x.sizes and call.x.sizes[:-1]
    return OpenType(call.x.data_type, (*rows, call.attributes["N"]) if rows else None)


QUANTIZED = {
    ("com.microsoft", "GatherBlockQuantized"): _gather_block_quantized,
    ("com.microsoft", "MatMulNBits"): _mat_mul_n_bits,
}
"""The operators of ONNX Runtime's own domains whose types are known."""


def _possible(sizes: AnySizes) -> AnySizes:
    """The sizes without negative ones, which ONNX Runtime refuses or does not come to compute."""
    return tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)


def _inferred(call: Call) -> list[OpenType]:
    """What ONNX infers of the outputs of an operation, from its node alone."""
    operation, found = call.operation, dict[str, onnx.TypeProto]()
    names, given, data = (
        dict[AnySize | None, str](),
        dict[str, onnx.TypeProto](),
        dict[str, Any](),
    )
    for name, value in zip(operation.inputs, call.inputs, strict=True):
        if value is None or value.data_type not in NUMBERS:
            given |= {name: onnx.TypeProto()} if name else {}
            continue
        number, sizes = NUMBERS[value.data_type], value.sizes
        dims = [
            n if isinstance(n, int) else names.setdefault(n, f"size {len(names)}")
            for n in sizes or ()
        ]
        given[name] = helper.make_tensor_type_proto(
            number, None if sizes is None else dims
        )
        if (array := value.known) is not None and array.size <= INFERRED_ELEMENTS:
            data[name] = helper.make_tensor(name, number, array.shape, array)
    with suppress(Exception):  # onnx raises whatever a broken node leads to
        schema = onnx.defs.get_schema(
            operation.operator, call.version, operation.domain
        )
        found = onnx.shape_inference.infer_node_outputs(
            schema, operation.proto, given, data
        )
    sizes_of = {name: size for size, name in names.items()}

    def translated(name: str) -> OpenType:
        kind = found.get(name, onnx.TypeProto())
        data_type, sizes = ValueType.of(onnx.ValueInfoProto(type=kind))
        own = (sizes_of.get(dim.dim_param) for dim in kind.tensor_type.shape.dim)
        pairs = zip(sizes or (), own, strict=True)
        return OpenType(
            data_type, sizes and tuple(b if a is None else a for a, b in pairs)
        )

    return [translated(name) for name in operation.outputs]


def sized(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function in the table."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def _known(value: Bounds) -> tuple[AnySize, ...] | None:
    """The sizes of an input; None where one is not known."""
    sizes = tuple(size for size in value.sizes or () if size is not None)
    return sizes if value.sizes is not None and len(sizes) == len(value.sizes) else None


def _new(call: Call, high: AnySize | None = MOST) -> AnySize | None:
    """A new unknown size of at most `high`; None where ONNX Runtime may infer a wrong one."""
    every = (size for value in call.given for size in value.sizes or (None,))
    is_clear = high is not None and not any(
        size is None or is_doubtful(size) for size in every
    )
    return unknown_size(high or 0) if is_clear else None


def _elements(value: Bounds | None) -> AnySizes | None:
    """The integers of a value, None where one is not known; None where their number is not."""
    if value is None or value.data_type not in INTEGERS or value.full is None:
        return None
    pairs: Iterable[tuple[AnySize, AnySize]] = value.full.reshape(-1, 2)
    return tuple(low if low == high else None for low, high in pairs)


def _integers(call: Call, name: str, position: int) -> Sequence[AnySize | None] | None:
    """The integers of an attribute, or of an input in newer versions; None as of `_elements`."""
    return (
        call.option(name, 0)
        if name in call.attributes
        else _elements(call.has(position))
    )


def _rounded_up(size: AnySize, divisor: int) -> AnySize:
    """The quotient of a size that is at least 0 by a number, rounded up."""
    exact = quotient(size, divisor)
    return exact if exact * divisor == size else quotient(size + divisor - 1, divisor)


# Elements side by side.


def _common(a: AnySize | None, b: AnySize | None) -> AnySize | None:
    """The size of an axis that is broadcast; ONNX Runtime refuses 0 beside more than 1."""
    if a == 1 or b == 1 or a == b:
        return b if a == 1 else a
    for size in (a, b):
        if size is not None and (size == 0 or size > 1):
            return size
    return (
        larger(a, b) if a is not None and b is not None and a >= 1 and b >= 1 else None
    )


def _broadcast(shapes: Iterable[OutputSizes]) -> OutputSizes:
    known = list(shapes)
    backwards = [sizes[::-1] for sizes in known if sizes is not None]
    if len(backwards) < len(known):
        return None
    columns = itertools.zip_longest(*backwards, fillvalue=1)
    return tuple(reduce(_common, column) for column in columns)[::-1]


@sized(*BROADCAST.split())
def _elementwise(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    return [_broadcast(value.sizes for value in call.given)]


@sized("Expand")
def _expand(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = (
        call.x.sizes
    )  # ONNX Runtime leaves out an Expand that, as it believes, does nothing
    is_clear = sizes is not None and not is_doubtful(*sizes)
    return [_broadcast([sizes if is_clear else None, _elements(call.of(1))])]


# Sizes that numbers tell.


@sized("ConstantOfShape")
def _constant_of_shape(
    call: Call, told: Sequence[OutputSizes]
) -> Iterable[OutputSizes]:
    return [_elements(call.x)]


@sized("Reshape")
def _reshape(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    wanted, sizes = _elements(call.of(1)), call.x.sizes
    if wanted is None:
        return [None]
    shape = [*wanted]
    keeps, own = (
        call.attributes.get("allowzero", 0),
        [*(sizes or ()), *[None] * len(shape)],
    )
    for k, n in enumerate(shape):
        if n == 0 and not keeps:
            shape[k] = own[k]
        elif isinstance(n, Size) and n != own[k] and not n >= 1 - keeps:
            shape[k] = None  # it may be -1, or 0 and stand for the size of the input
    return [tuple(_filled(shape, elements_of(sizes)))]


def _filled(
    shape: Sequence[AnySize | None], count: AnySize | None
) -> Iterable[AnySize | None]:
    """The sizes of a Reshape where at most one is open: it holds what is left of the elements."""
    rest = elements_of([n for n in shape if n not in (None, -1)])
    is_last = sum(n in (None, -1) for n in shape) == 1
    last = (
        quotient(count, rest)
        if is_last and count is not None and rest and rest > 0
        else None
    )
    return (last if n in (None, -1) else n for n in shape)


@sized("Range")
def _range(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    start, limit, delta = ((_elements(call.of(k)) or [None])[0] for k in range(3))
    if start is None or limit is None or not isinstance(delta, int) or not delta:
        return [(None,)]
    span = limit - start if delta > 0 else start - limit
    count = _rounded_up(larger(0, span), abs(delta))
    most = max(high_of(span), -low_of(span))  # older versions subtract in the data type
    return [(count if most < INTEGERS[call.x.data_type][1] / 2 else None,)]


@sized("Tile")
def _tile(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, repeats = call.x.sizes, _elements(call.of(1))
    if sizes is None or repeats is None:
        return told
    return [tuple(elements_of(pair) for pair in zip(sizes, repeats, strict=True))]


@sized("Flatten")
def _flatten(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, axis = call.x.sizes, call.axis(1)
    return (
        told
        if sizes is None
        else [(elements_of(sizes[:axis]), elements_of(sizes[axis:]))]
    )


def _with(sizes: AnySizes, axis: int, size: AnySize | None) -> AnySizes:
    """The sizes with another one of an axis."""
    return (*sizes[:axis], size, *sizes[axis + 1 :])


@sized("TopK")
def _top_k(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, (count, *_) = call.x.sizes, _integers(call, "k", 1) or [None]
    return told if sizes is None else [_with(sizes, call.axis(-1), count)] * 2


@sized("NonZero")
def _non_zero(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = call.x.sizes  # ONNX infers 0 rows of a scalar
    if sizes is None:
        return [None]
    count, every = elements_of(sizes), (call.x.low > 0) | (call.x.high < 0)
    found = _new(call, count)
    return [
        (
            len(sizes) or None,
            count if found is not None and sizes and every.all() else found,
        )
    ]


# Axes put together, taken apart, and left out.


@sized("Concat")
def _concat(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    shapes, axis, inferred = (
        [_known(value) for value in call.given],
        call.axis(0),
        told[0],
    )
    known = [sizes for sizes in shapes if sizes is not None]
    if inferred is None or len(known) < len(shapes):
        return [inferred and (None,) * len(inferred)]
    # ONNX Runtime skips inputs without elements, whose other sizes need not be those of
    # the rest.
    full = [sizes for sizes in known if all(n >= 1 for n in sizes)]
    every = zip(
        inferred,
        zip(*(full or known), strict=True),
        zip(*known, strict=True),
        strict=True,
    )
    sizes = tuple(n if (n in a if full else {n} == {*b}) else None for n, a, b in every)
    return [
        _with(sizes, axis, reduce(lambda a, b: a + b, (one[axis] for one in known)))
    ]


@sized("Split")
def _split(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, axis, count = _known(call.x), call.axis(0), len(told)
    if sizes is None:
        return told
    parts = _integers(call, "split", 1) or [None] * count
    if call.has(1) is None and "split" not in call.attributes:
        part = (_rounded_up if call.version >= 18 else quotient)(sizes[axis], count)
        parts = [*[part] * (count - 1), sizes[axis] - part * (count - 1)]
    return [_with(sizes, axis, part) for part in parts]


@sized("Pad")
def _pad(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, pads = _known(call.x), _integers(call, "pads", 1)
    if sizes is None or pads is None:
        return told
    padded: list[AnySize | None] = [*sizes]
    axes = call.option("axes", 3, [*range(len(sizes))])
    for k, axis in enumerate(axes or ()):
        pair = pads[k], pads[k + len(pads) // 2]
        padded[axis] = None if None in pair else sum(filter(None, pair), sizes[axis])
    return [tuple(padded) if axes is not None else None]


@sized("Slice")
def _slice(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = _known(call.x)
    starts, ends = _integers(call, "starts", 1), _integers(call, "ends", 2)
    count = len(starts or ends or ())
    axes, steps = (
        call.option("axes", 3, [*range(count)]),
        call.option("steps", 4, [1] * count),
    )
    # Where there are steps and no axes, ONNX takes the steps for them.
    if sizes is None or not axes or not steps or (call.has(4) and not call.has(3)):
        return [sizes and (None,) * len(sizes)]
    sliced: list[AnySize | None] = [*sizes]
    for k, axis in enumerate(axes):
        taken = (
            _taken(starts[k], ends[k], steps[k], sizes[axis])
            if starts and ends
            else None
        )
        is_open = taken is None and steps[k] > 0
        sliced[axis] = _new(call, sizes[axis]) if is_open else taken
    return [tuple(sliced)]


def _taken(
    start: AnySize | None, end: AnySize | None, step: int, size: AnySize
) -> AnySize | None:
    """How many positions a Slice takes from an axis; None where it is not clear."""
    known = known_sizes((start, end, size))
    if known is not None and -(2**31) < step < 0 and known[1] < 2**31 - 1:
        return len(range(known[2])[max(known[0], -known[2]) : known[1] : step])
    first, last = _position(start, size), _position(end, size)
    if first is None or last is None or not 0 < step < 2**31 - 1:
        return None
    return _rounded_up(larger(0, last - first), step)


def _position(number: AnySize | None, size: AnySize) -> AnySize | None:
    """The place on an axis, 0 to its size, which a number that may count from the end means."""
    if number is None or number >= 0:
        return None if number is None else lesser(number, size)
    return larger(0, size + number) if number < 0 else None


# Windows that move over axes, and axes that are stretched.


@sized("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv")
def _window(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes, options = _known(call.x), call.attributes
    weights = (0, 0, *options.get("kernel_shape", ()))
    if "Conv" in call.operator:
        weights = _known(call.of(3 if call.operator[0] == "Q" else 1))
    if sizes is None or weights is None:
        return []
    channels, widths = weights[0] or sizes[1], weights[2:]
    rank, padding = len(sizes) - 2, str(options.get("auto_pad", "NOTSET"))
    strides, dilations = (
        options.get(name, (1,) * rank) for name in ("strides", "dilations")
    )
    pads, moved = options.get("pads", (0,) * 2 * rank), list[AnySize | None]()
    for k, (size, width) in enumerate(zip(sizes[2:], widths, strict=True)):
        room = size - (width - 1) * dilations[k] - 1 + strides[k]
        if "SAME" in padding:
            room = size + strides[k] - 1 if dilations[k] == 1 else -1
        elif padding == "NOTSET":
            room = room + pads[k] + pads[k + rank]
        elif any(
            pads
        ):  # VALID: ONNX infers sizes with pads that ONNX Runtime leaves out
            room = -1
        # A pool wider than its input has 1 window; of 0, SAME is inferred as 1.
        least = 0 if "Conv" in call.operator and "SAME" not in padding else strides[k]
        is_clear = room >= least and not options.get("ceil_mode", 0)
        moved.append(quotient(room, strides[k]) if is_clear else None)
    return [(sizes[0], channels, *moved)] * len(told)


# What ONNX infers, where it is so.


def _sums(call: Call) -> bool:
    """Whether a product of matrices is broadcast: those with sums of 0 products are not."""
    a, b = (_known(call.of(k)) for k in (0, 3 if call.operator[0] == "Q" else 1))
    return a is not None and b is not None and (max(len(a), len(b)) < 3 or a[-1] > 0)


def _matches(call: Call) -> bool:
    """Whether Einsum broadcasts nothing, as its sizes are then inferred wrongly."""
    equation, sizes = (
        str(call.attributes["equation"]).replace(" ", ""),
        dict[str, AnySize](),
    )
    for term, value in zip(equation.split("->")[0].split(","), call.given, strict=True):
        pairs = zip(term, _known(value) or (), strict=True)
        if any(label == "." or sizes.setdefault(label, n) != n for label, n in pairs):
            return False
    return True


def _counts_axes(call: Call) -> bool:
    """Whether ONNX takes axes as ONNX Runtime does: before opset 11 not those from the end."""
    return call.version >= 11 or all(
        axis >= 0 for axis in call.attributes.get("axes", ())
    )


def _stretches(call: Call) -> bool:
    """Whether each axis gets a size that is given, or a whole multiple of what it has."""
    position = 1 if call.version < 11 else 2  # later there is no Upsample
    scales, policy = (
        call.has(position),
        call.attributes.get("keep_aspect_ratio_policy", "stretch"),
    )
    factors = call.attributes.get("scales", () if scales is None else scales.known)
    return (
        policy == "stretch"
        and factors is not None
        and all(n == int(n) for n in factors)
    )


CONDITIONS: dict[str, Callable[[Call], bool]] = {
    "ConvTranspose": lambda call: (
        call.attributes.get("auto_pad", "NOTSET") == "NOTSET"
        and "output_shape" not in call.attributes
    ),
    "Einsum": _matches,
    "PRelu": lambda call: (
        _broadcast(value.sizes for value in call.given) == call.x.sizes
    ),
    "Squeeze": lambda call: call.option("axes", 1) != [] and _counts_axes(call),
    "Unsqueeze": _counts_axes,
    **dict.fromkeys(
        REDUCTIONS.split(), lambda call: all(n > 0 for n in _known(call.x) or (0,))
    ),
    **dict.fromkeys(["MatMul", "MatMulInteger", "QLinearMatMul"], _sums),
}
"""When ONNX infers the sizes that ONNX Runtime computes."""


@sized("Resize", "Upsample")
def _resize(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    wanted, policy = (
        _elements(call.has(3)),
        call.attributes.get("keep_aspect_ratio_policy", ""),
    )
    if wanted and "axes" not in call.attributes and policy in ("", "stretch"):
        return [wanted]
    is_so = _stretches(call) and all(high_of(n or 0) <= 2**24 for n in told[0] or ())
    return told if is_so else []  # ONNX Runtime multiplies them as FLOAT


@sized(*TRUSTED.split(), *REDUCTIONS.split())
def _trusted(call: Call, told: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    is_so = CONDITIONS.get(call.operator, lambda call: True)(call)
    for sizes in told if is_so else ():
        yield sizes and tuple(_new(call) if size is None else size for size in sizes)
