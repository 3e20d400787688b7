# pyright: basic, reportArgumentType=false, reportReturnType=false, reportAssignmentType=false, reportCallIssue=false, reportOptionalSubscript=false, reportOptionalOperand=false, reportOperatorIssue=false
"""The table of operators: the data types and the sizes of what each computes.

A size counts only if ONNX Runtime's CPU provider computes it so and believes it, whatever the
level of its optimizations. From level 1 on, a Shape is what ONNX Runtime infers, so a size that it
infers wrongly is None here: neither the size nor a Shape of it is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import onnx
from onnx import helper

from onnxgather.model.values import NUMBERS, name_of
from onnxgather.networks.calls import Call, OpenType
from onnxgather.networks.intervals import INTEGERS, Bounds, elements_of
from onnxgather.networks.sizes import (
    AnySize,
    AnySizes,
    high_of,
    is_doubtful,
    larger,
    lesser,
    quotient,
    unknown_size,
)

_Sizes = AnySizes | None
Rule = Callable[[Call, list[_Sizes]], Iterable[_Sizes]]

RULES: dict[str, Rule] = {}
"""For each operator, the function that gives the sizes of its outputs, from those that ONNX infers
for the operation alone. Of any other operator no size is known."""

INFERRED_ELEMENTS = 1024

VERSIONS = range(7, 27)
"""The versions of ONNX's own operators whose sizes were compared with those of ONNX Runtime."""

TRUSTED = """
    Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh
    CumSum Dropout DynamicQuantizeLinear Elu Erf Exp EyeLike Floor Gelu HardSigmoid HardSwish
    Hardmax Identity IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization Mish Neg Not
    QuantizeLinear DequantizeLinear RandomNormalLike RandomUniformLike Reciprocal Relu
    ReverseSequence Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh
    Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu
    AffineGrid BatchNormalization BlackmanWindow CenterCropPad Col2Im ConvInteger DFT DeformConv
    DepthToSpace Det Einsum GRU Gather GatherElements GatherND Gemm GlobalAveragePool GlobalLpPool
    GlobalMaxPool GridSample HammingWindow HannWindow InstanceNormalization LSTM LayerNormalization
    MatMul MatMulInteger MaxRoiPool MelWeightMatrix Multinomial NegativeLogLikelihoodLoss
    QLinearConv QLinearMatMul RMSNormalization RNN RandomNormal RandomUniform RegexFullMatch
    RoiAlign RotaryEmbedding STFT Shape Size SoftmaxCrossEntropyLoss SpaceToDepth StringConcat
    TensorScatter TfIdfVectorizer Transpose Unsqueeze
"""
"""Operators for which ONNX infers the sizes that ONNX Runtime computes, whatever the attributes."""


def output_types(call: Call) -> list[OpenType]:
    """The data types and the sizes of the outputs of an operation.

    The bodies of If, Loop, Scan and functions are not followed.

    Returns:
        One type per output. A size is None where nothing is known of it, which may then be another
        number than a Shape of it is.
    """
    types = _inferred(call) if not call.operation.domain else []
    types = types or [OpenType()] * len(call.operation.outputs)
    sizes: Iterable[_Sizes] = ()
    if not call.operation.domain and call.version in VERSIONS and call.operator in RULES:
        with suppress(ArithmeticError, LookupError, TypeError, ValueError):  # not as ONNX asks
            sizes = list(RULES[call.operator](call, [each.sizes for each in types]))
    pairs = itertools.zip_longest(types, list(sizes)[: len(types)])
    return [OpenType(each.data_type, known) for each, known in pairs]


def _inferred(call: Call) -> list[OpenType]:
    """What ONNX infers of the outputs of an operation, from its node alone."""
    operation, found = call.operation, dict[str, onnx.TypeProto]()
    names, given, data = dict[AnySize | None, str](), dict[str, onnx.TypeProto](), dict[str, Any]()
    for name, value in zip(operation.inputs, call.inputs, strict=True):
        if value is None or value.data_type not in NUMBERS:
            given[name] = onnx.TypeProto()
            continue
        number, sizes = NUMBERS[value.data_type], value.sizes
        dims = (
            None
            if sizes is None
            else [
                n if isinstance(n, int) else names.setdefault(n, f"size {len(names)}")
                for n in sizes
            ]
        )
        given[name] = helper.make_tensor_type_proto(number, dims)
        if (array := value.known) is not None and array.size <= INFERRED_ELEMENTS:
            data[name] = helper.make_tensor(name, number, array.shape, array)
    with suppress(Exception):  # onnx raises whatever a broken node leads to
        schema = onnx.defs.get_schema(operation.operator, call.version, operation.domain)
        found = onnx.shape_inference.infer_node_outputs(schema, operation.proto, given, data)
    sizes_of = {name: size for size, name in names.items()}

    def translated(name: str) -> OpenType:
        kind = found.get(name, onnx.TypeProto())
        if not kind.HasField("tensor_type"):
            which = kind.WhichOneof("value")
            return OpenType(which.removesuffix("_type").upper() if which else "")
        tensor = kind.tensor_type
        data_type = name_of(tensor.elem_type) if tensor.elem_type else ""
        dims = (
            dim.dim_value if dim.HasField("dim_value") else sizes_of.get(dim.dim_param)
            for dim in tensor.shape.dim
        )
        return OpenType(data_type, tuple(dims) if tensor.HasField("shape") else None)

    return [translated(name) for name in operation.outputs]


def sized(*names: str) -> Callable[[Rule], Rule]:
    """Enter a function in the table."""

    def enter(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return enter


@sized(*TRUSTED.split())
def _trusted(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    return told


def _new(call: Call, high: AnySize) -> AnySize | None:
    """A new unknown size of at most `high`; None where ONNX Runtime may infer a wrong one."""
    every = (size for value in call.given for size in value.sizes or (None,))
    return None if any(size is None or is_doubtful(size) for size in every) else unknown_size(high)


def _elements(value: Bounds | None) -> list[AnySize | None] | None:
    """The integers of a value, None where one is not known; None where their number is not."""
    if value is None or value.data_type not in INTEGERS or value.full is None:
        return None
    pairs = value.full.reshape(-1, 2)
    return [low if low == high else None for low, high in pairs]


def _integers(call: Call, name: str, position: int) -> list[AnySize | None] | None:
    """The integers of an attribute, or of an input in newer versions; None as of `_elements`."""
    return call.option(name, 0) if name in call.attributes else _elements(call.has(position))


def _product(sizes: Sequence[AnySize | None]) -> AnySize | None:
    return elements_of(tuple(sizes))


# Elements side by side.


def _common(a: AnySize | None, b: AnySize | None) -> AnySize | None:
    """The size of an axis that is broadcast; ONNX Runtime refuses 0 beside more than 1."""
    for one, other in ((a, b), (b, a)):
        if one == 1 or one == other:
            return other
    for one in (a, b):
        if one is not None and (one == 0 or one > 1):
            return one
    return larger(a, b) if a is not None and b is not None and a >= 1 and b >= 1 else None


def _broadcast(shapes: Iterable[AnySizes | None]) -> AnySizes | None:
    known = list(shapes)
    backwards = [sizes[::-1] for sizes in known if sizes is not None]
    if len(backwards) < len(known):
        return None
    columns = itertools.zip_longest(*backwards, fillvalue=1)
    return tuple(reduce(_common, column) for column in columns)[::-1]


@sized(
    *[
        "Add",
        "And",
        "BitShift",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
    ],
    *[
        "Less",
        "LessOrEqual",
        "Max",
        "Mean",
        "Min",
        "Mod",
        "Mul",
        "Or",
        "Pow",
        "Sub",
        "Sum",
        "Where",
        "Xor",
    ],
)
def _elementwise(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    return [_broadcast(value.sizes for value in call.given)]


@sized("PRelu")
def _p_relu(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes = _broadcast(value.sizes for value in call.given)
    return [sizes if sizes == call.x.sizes else None]  # the slope may be the larger one


@sized("Expand")
def _expand(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    shape = _elements(call.of(1))
    return [_broadcast([call.x.sizes, None if shape is None else tuple(shape)])]


# Sizes that numbers tell.


@sized("ConstantOfShape")
def _constant_of_shape(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    shape = _elements(call.x)
    return [None if shape is None else tuple(shape)]


@sized("Reshape")
def _reshape(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    shape, sizes = _elements(call.of(1)), call.x.sizes
    if shape is None:
        return [None]
    if not call.attributes.get("allowzero", 0):
        own = [*(sizes or ()), *[None] * len(shape)]
        for k, n in enumerate(shape):
            if n == 0 or (n not in (None, -1) and n != own[k] and not n > 0):
                shape[k] = own[k] if n == 0 else None
    return [tuple(_completed(shape, None if sizes is None else _product(sizes)))]


def _completed(shape: list[AnySize | None], count: AnySize | None) -> Iterable[AnySize | None]:
    """The sizes of a Reshape where at most one is open: it holds what is left of the elements."""
    rest = _product([n for n in shape if n not in (None, -1)])
    is_last = sum(n in (None, -1) for n in shape) == 1
    last = quotient(count, rest) if is_last and count is not None and rest and rest > 0 else None
    return (last if n in (None, -1) else n for n in shape)


@sized("Range")
def _range(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    ends = [_elements(call.of(k)) or [None] for k in range(3)]
    start, limit, delta = (end[0] for end in ends)
    if start is None or limit is None or not isinstance(delta, int) or not delta:
        return [(None,)]
    span = limit - start if delta > 0 else start - limit
    count = quotient(larger(0, span) + abs(delta) - 1, abs(delta))
    return [(count if high_of(span) < INTEGERS[call.x.data_type][1] / 2 else None,)]


@sized("Tile")
def _tile(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes, repeats = call.x.sizes, _elements(call.of(1))
    if sizes is None or repeats is None:
        return told
    return [tuple(_product(pair) for pair in zip(sizes, repeats, strict=True))]


@sized("Flatten")
def _flatten(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    if (sizes := call.x.sizes) is None:
        return told
    axis = call.axis(1)
    return [(_product(sizes[:axis]), _product(sizes[axis:]))]


@sized("Squeeze")
def _squeeze(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    return [None] if call.option("axes", 1, None) == [] else told


def _with(sizes: AnySizes, axis: int, size: AnySize | None) -> AnySizes:
    """The sizes with another one of an axis."""
    return (*sizes[:axis], size, *sizes[axis:][1:])


@sized("TopK")
def _top_k(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    if call.x.sizes is None:
        return told
    count = _integers(call, "k", 1) or [None]
    return [_with(call.x.sizes, call.axis(-1), count[0])] * 2


@sized("OneHot")
def _one_hot(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    if (sizes := call.x.sizes) is None:
        return [None]
    axis = int(call.attributes.get("axis", -1)) % (len(sizes) + 1)
    depth = _elements(call.of(1)) or [None]
    return [(*sizes[:axis], depth[0], *sizes[axis:])]


# Counts that a run tells.


@sized("NonZero")
def _non_zero(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes = call.x.sizes
    if sizes is None or not sizes:  # ONNX infers 0 rows of a scalar
        return [None if sizes is None else (None, None)]
    return [(len(sizes), _new(call, elements_of(sizes)))]


@sized("Compress")
def _compress(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes = call.x.sizes
    if "axis" not in call.attributes or sizes is None:
        return [(_new(call, elements_of(sizes)),)] if sizes is not None else told
    axis = call.axis(0)
    return [_with(sizes, axis, _new(call, sizes[axis]))]


# Axes put together, taken apart, and left out.


@sized("Concat")
def _concat(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    shapes = [value.sizes for value in call.given]
    if None in shapes or len({len(sizes) for sizes in shapes}) > 1:
        return [None]
    axis = call.axis(0)
    return [_with(told[0], axis, sum(sizes[axis] for sizes in shapes))]


@sized("Split")
def _split(call: Call, told: list[_Sizes]) -> Iterable[_Sizes]:
    if (sizes := call.x.sizes) is None:
        return told
    axis, count, given = call.axis(0), len(told), _integers(call, "split", 1)
    size = sizes[axis]
    if given is None and call.has(1) is not None:
        parts: list[AnySize | None] = [None] * count
    elif given is None:
        part = quotient(size + (count - 1 if call.version >= 18 else 0), count)
        parts = [part] * (count - 1) + [size - part * (count - 1)]
    else:
        parts = given
    return [_with(sizes, axis, part) for part in parts]


@sized("Pad")
def _pad(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes, pads = call.x.sizes, _integers(call, "pads", 1)
    axes = call.option("axes", 3, [*range(len(sizes or ()))])
    if sizes is None or pads is None or axes is None or None in pads:
        return [None if sizes is None else (None,) * len(sizes)]
    padded = [*sizes]
    for k, axis in enumerate(axes):
        padded[axis] = padded[axis] + pads[k] + pads[k + len(axes)]
    return [tuple(padded)]


@sized("Slice")
def _slice(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    if (sizes := call.x.sizes) is None:
        return [None]
    starts, ends = _integers(call, "starts", 1), _integers(call, "ends", 2)
    count = len(starts or ends or ())
    axes, steps = call.option("axes", 3, [*range(count)]), call.option("steps", 4, [1] * count)
    if not axes:
        return [tuple(_new(call, size) for size in sizes)]
    sliced: list[AnySize | None] = [*sizes]
    for k, axis in enumerate(axes):
        size, taken = sizes[axis], None
        if starts and ends and steps:
            taken = _taken(starts[k], ends[k], steps[k], size)
        sliced[axis] = _new(call, size) if taken is None else taken
        if call.has(4) is not None and call.has(3) is None:  # ONNX then takes the steps for axes
            sliced[axis] = None
    return [tuple(sliced)]


def _taken(start: AnySize | None, end: AnySize | None, step: int, size: AnySize) -> AnySize | None:
    """How many positions a Slice takes from an axis."""
    if isinstance(start, int) and isinstance(end, int) and isinstance(size, int):
        return len(range(size)[max(start, -size) if step < 0 else start : end : step])
    first, last = _position(start, size), _position(end, size)
    if first is None or last is None or step <= 0:
        return None
    return quotient(larger(0, last - first) + step - 1, step)


def _position(number: AnySize | None, size: AnySize) -> AnySize | None:
    """The place on an axis, 0 to its size, which a number that may count from the end means."""
    if number is None or number >= 0:
        return None if number is None else lesser(number, size)
    return larger(0, size + number) if number < 0 else None


REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"


@sized("ArgMax", "ArgMin", *(f"Reduce{name}" for name in REDUCTIONS.split()))
def _reduction(call: Call, told: list[_Sizes]) -> list[_Sizes]:
    sizes = call.x.sizes
    axes = [call.axis(0)] if call.operator[0] == "A" else call.option("axes", 1, [])
    if sizes is None or axes is None:
        return told
    checked = [sizes[axis] for axis in axes] or sizes
    if all(size > 0 for size in checked):
        return told
    keeps = call.attributes.get("keepdims", 1)
    return [(None,) * len(sizes) if keeps else None]  # what ONNX Runtime makes of no element
