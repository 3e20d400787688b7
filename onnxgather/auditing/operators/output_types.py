"""The table of operators: the data types and the sizes of what each computes.

A size counts only if ONNX Runtime's CPU provider computes it so.

`test_a_size_that_onnx_infers_wrongly_is_seen` in
tests/auditing/operators/test_output_types.py shows the operators of which ONNX infers
other sizes than ONNX Runtime computes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import reduce

import numpy as np

from onnxgather.auditing.algebra.bounds import (
    INTEGERS,
    Bounds,
    elements_of,
    known_sizes,
)
from onnxgather.auditing.algebra.sizes import (
    EXACT_IN_FLOAT,
    MOST,
    AnySize,
    AnySizes,
    Size,
    at_least_one,
    exact_of,
    exact_quotient,
    high_of,
    in_float,
    larger,
    lesser,
    low_of,
    quotient,
    unknown_size,
)
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.auditing.operators.inference import inferred_types

OutputSizes = AnySizes | None
"""The sizes of an output; None where not even the rank is known."""

Rule = Callable[[Call, Sequence[OutputSizes]], Iterable[OutputSizes]]
"""Computes the sizes of the outputs of an operation, from those that ONNX infers for
the operation alone."""

RULES: dict[str, Rule] = {}
"""The rule of each operator. Of any other operator no size is known."""

_, _LARGEST = INTEGERS["INT64"]

VERSIONS = range(7, 29)
"""The versions of ONNX's own operators whose sizes were compared with those of ONNX
Runtime."""

TRUSTED = """
    Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Ceil
    Celu Clip Cos Cosh CumSum DequantizeLinear Dropout DynamicQuantizeLinear Elu Erf
    Exp EyeLike Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LRN
    LeakyRelu Log LogSoftmax LpNormalization Mish Neg Not QuantizeLinear
    RandomNormalLike RandomUniformLike Reciprocal Relu ReverseSequence Round Scatter
    ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus
    Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu AffineGrid BatchNormalization
    BlackmanWindow CenterCropPad Col2Im Compress ConvTranspose DeformConv
    DepthToSpace Det GRU Gather GatherElements GatherND Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample HammingWindow HannWindow
    InstanceNormalization LSTM LayerNormalization MatMul MatMulInteger MaxRoiPool
    MelWeightMatrix Multinomial NegativeLogLikelihoodLoss NonMaxSuppression OneHot
    PRelu QLinearMatMul RMSNormalization RNN RandomNormal RandomUniform
    RegexFullMatch RoiAlign RotaryEmbedding STFT Shape Size SoftmaxCrossEntropyLoss
    SpaceToDepth Squeeze StringConcat StringNormalizer StringSplit TensorScatter
    TfIdfVectorizer Transpose Unique Unsqueeze
"""
"""Operators for which ONNX infers the sizes that ONNX Runtime computes, if `CONDITIONS`
holds."""


BROADCAST = """
    Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater
    GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor
"""

REDUCTIONS = """
    ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""


# From an operation to the types of its outputs.


def output_types(call: Call) -> list[OpenType]:
    """Return the data types and the sizes of the outputs of an operation of ONNX.

    The bodies of If, Loop, Scan and functions are not followed.

    Returns:
        One type per output. A size is None where nothing is known of it.
    """
    operation = call.operation
    if operation.wrong_flag:
        return [OpenType() for _ in operation.outputs]
    inferred = inferred_types(call)
    inferred_sizes = [output.sizes for output in inferred]
    sizes_of_outputs = _sizes_by_rule(call, inferred_sizes)
    types: list[OpenType] = []
    for output, sizes in itertools.zip_longest(inferred, sizes_of_outputs):
        possible = None if sizes is None else _possible(sizes)
        types.append(OpenType(output.data_type, possible))
    return types


def _sizes_by_rule(call: Call, inferred: Sequence[OutputSizes]) -> list[OutputSizes]:
    """Return the sizes of the outputs by the table; fewer where it does not apply."""
    if call.version not in VERSIONS or call.operator not in RULES:
        return []
    rule = RULES[call.operator]
    # An operation that is not as ONNX wants it has open sizes.
    with suppress(ArithmeticError, LookupError, TypeError, ValueError):
        sizes = list(rule(call, inferred))
        return sizes[: len(inferred)]
    return []


def _possible(sizes: AnySizes) -> AnySizes:
    """Return the sizes without numbers that are negative or beyond INT64.

    ONNX Runtime refuses such a size, or does not come to compute it.
    """
    possible: list[AnySize | None] = []
    for size in sizes:
        is_impossible = isinstance(size, int) and not 0 <= size <= _LARGEST
        possible.append(None if is_impossible else size)
    return tuple(possible)


# What the rules share.


def sized(*names: str) -> Callable[[Rule], Rule]:
    """Return a decorator that enters a rule in the table."""

    def enter(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return enter


def _all_sizes(value: Bounds) -> tuple[AnySize, ...] | None:
    """Return the sizes of an input; None where a size is not known."""
    if value.sizes is None:
        return None
    sizes = tuple(size for size in value.sizes if size is not None)
    return sizes if len(sizes) == len(value.sizes) else None


def _new_size(high: AnySize | None = MOST) -> AnySize | None:
    """Return a new unknown size of at most `high`; None if that is not known."""
    return None if high is None else unknown_size(high)


def _elements(value: Bounds | None) -> AnySizes | None:
    """Return the integers of a value, None for each that is not known.

    None where their number is not known.
    """
    if value is None or value.data_type not in INTEGERS:
        return None
    every = value.full
    if every is None:
        return None
    elements: list[AnySize | None] = []
    for low, high in every.reshape(-1, 2):
        elements.append(low if low == high else None)
    return tuple(elements)


def _number(value: Bounds | None) -> AnySize | None:
    """Return the first number of a value, an integer; None where it is not known."""
    if value is not None and value.data_type in ("FLOAT", "DOUBLE"):
        return _whole_number(value)
    elements = _elements(value)
    return elements[0] if elements else None


def _whole_number(value: Bounds) -> int | None:
    """Return the first number of a float value where FLOAT holds it as an integer."""
    floats = value.exact
    if floats is None or not floats.size:
        return None
    number = float(floats.flat[0])
    is_whole = abs(number) <= EXACT_IN_FLOAT and number == int(number)
    return int(number) if is_whole else None


def _integers(call: Call, name: str, position: int) -> Sequence[AnySize | None] | None:
    """Return the integers of an attribute, or of an input in newer versions.

    None where their number is not known.
    """
    if name in call.attributes:
        return call.option(name, 0)
    return _elements(call.has(position))


def _rounded_up(size: AnySize, divisor: int) -> AnySize:
    """Return the quotient of a size that is at least 0 by a number, rounded up."""
    exact = quotient(size, divisor)
    if exact * divisor == size:
        return exact
    return quotient(size + divisor - 1, divisor)


def _with_size(sizes: AnySizes, axis: int, size: AnySize | None) -> AnySizes:
    """Return the sizes with another size of an axis."""
    return (*sizes[:axis], size, *sizes[axis + 1 :])


# Elements side by side.


def _common(a: AnySize | None, b: AnySize | None) -> AnySize | None:
    """Return the size of an axis that is broadcast.

    ONNX Runtime refuses 0 beside a size above 1.
    """
    if a == 1:
        return b
    if b == 1 or a == b:
        return a
    # A size and the same size as FLOAT: where they differ, neither is 1.
    if a is not None and b is not None:
        exact = exact_of(a, b)
        if exact is not None:
            return exact
    # A size that is surely not 1 is the size of both.
    for size in (a, b):
        if size is not None and (size == 0 or size > 1):
            return size
    if a is None or b is None:
        return None
    # Either may be 1, and neither may be 0.
    if a >= 1 and b >= 1:
        return larger(a, b)
    return None


def _broadcast(shapes: Iterable[OutputSizes]) -> OutputSizes:
    backwards: list[AnySizes] = []
    for sizes in shapes:
        if sizes is None:
            return None
        backwards.append(sizes[::-1])
    columns = itertools.zip_longest(*backwards, fillvalue=1)
    common = tuple(reduce(_common, column) for column in columns)
    return common[::-1]


@sized(*BROADCAST.split())
def _elementwise(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    return [_broadcast(value.sizes for value in call.given)]


@sized("Expand")
def _expand(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = call.x.sizes
    return [_broadcast([sizes, _elements(call.of(1))])]


# Sizes that depend on numbers.


@sized("ConstantOfShape")
def _constant_of_shape(
    call: Call, inferred: Sequence[OutputSizes]
) -> Iterable[OutputSizes]:
    return [_elements(call.x)]


@sized("Reshape")
def _reshape(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    wanted = _elements(call.of(1))
    sizes = call.x.sizes
    if wanted is None:
        return [None]
    keeps_zeros = call.attributes.get("allowzero", 0)
    padding = [None] * len(wanted)
    own_sizes = [*(sizes or ()), *padding]
    if _are_sizes(wanted, sizes):
        return [tuple(wanted)]
    shape: list[AnySize | None] = []
    likely: list[AnySize | None] = []
    for number, own in zip(wanted, own_sizes, strict=False):
        size = number
        other = number
        # 0 stands for the size of the input.
        if number == 0 and not keeps_zeros:
            size = other = own
        # An open number may be -1, or 0 and stand for the size of the input.
        elif isinstance(number, Size) and number != own:
            size = number if number >= (0 if keeps_zeros else 1) else None
            other = _open_number(number, own) if size is None else size
        shape.append(size)
        likely.append(other)
    count = elements_of(sizes)
    filled = _filled(shape, count)
    return [_filled(likely, count) if None in filled else filled]


def _open_number(number: Size, own: AnySize | None) -> AnySize | None:
    """Return the size that a number from 0 of a Reshape asks for; None if not clear.

    The size of the input takes the place of 0.
    """
    if own is None or not own >= 1 or not number >= 0:
        return None
    highest = max(number.high, high_of(own))
    return unknown_size(highest, larger(number, 1))


def _are_sizes(wanted: Sequence[AnySize | None], sizes: AnySizes | None) -> bool:
    """Return whether the numbers of a Reshape are its sizes, none of them 0 or -1.

    Their product is the number of elements, which is above 0.
    """
    if sizes is None or not all(size is not None and size >= 1 for size in sizes):
        return False
    if not all(number is not None and number >= 0 for number in wanted):
        return False
    return elements_of(wanted) == elements_of(sizes)


def _filled(shape: Sequence[AnySize | None], count: AnySize | None) -> AnySizes:
    """Return the sizes of a Reshape, in which at most one may be open.

    The open size holds what is left of the elements.
    """
    others = [size for size in shape if size not in (None, -1)]
    rest = elements_of(others)
    left = None
    has_one_open = len(shape) - len(others) == 1
    if has_one_open and count is not None and rest is not None:
        # ONNX Runtime refuses -1 where the other sizes have no elements.
        if -1 in shape:
            left = exact_quotient(count, rest)
        is_full = all(size > 0 for size in others)
        if left is None and (is_full or rest > 0):
            left = quotient(count, rest)
    return tuple(left if size in (None, -1) else size for size in shape)


@sized("Range")
def _range(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    start = _number(call.of(0))
    limit = _number(call.of(1))
    delta = _number(call.of(2))
    if start is None or limit is None:
        return [(None,)]
    if not isinstance(delta, int) or delta == 0:
        return [(None,)]
    span = limit - start if delta > 0 else start - limit
    count = _rounded_up(larger(0, span), abs(delta))
    # The data type may be too narrow for the span (`quirks.RANGE_IN_TYPE`).
    widest = max(high_of(span), -low_of(span))
    _, highest = INTEGERS.get(call.x.data_type, (0, 2 * EXACT_IN_FLOAT + 2))
    return [(count if widest < highest / 2 else None,)]


@sized("Tile")
def _tile(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = call.x.sizes
    repeats = _elements(call.of(1))
    if sizes is None or repeats is None:
        return inferred
    pairs = zip(sizes, repeats, strict=True)
    return [tuple(elements_of(pair) for pair in pairs)]


@sized("Flatten")
def _flatten(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = call.x.sizes
    if sizes is None:
        return inferred
    axis = call.axis(1)
    rows = elements_of(sizes[:axis])
    columns = elements_of(sizes[axis:])
    return [(rows, columns)]


@sized("TopK")
def _top_k(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = call.x.sizes
    counts = _integers(call, "k", 1)
    if sizes is None:
        return inferred
    count = counts[0] if counts else None
    return [_with_size(sizes, call.axis(-1), count)] * 2


@sized("NonZero")
def _non_zero(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    x = call.x
    sizes = x.sizes
    if sizes is None:
        return [None]
    most = elements_of(sizes)
    count = _new_size(most)
    is_there = (x.low > 0) | (x.high < 0)
    if count is not None and sizes and is_there.all():
        count = most
    # ONNX infers 0 rows of a scalar.
    rows = len(sizes) or None
    return [(rows, count)]


# Axes put together, taken apart, and left out.


@sized("Concat")
def _concat(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    axis = call.axis(0)
    inferred_sizes = inferred[0]
    if inferred_sizes is None:
        return [None]
    shapes: list[tuple[AnySize, ...]] = []
    for value in call.given:
        shape = _all_sizes(value)
        if shape is None:
            return [(None,) * len(inferred_sizes)]
        shapes.append(shape)
    # The sizes of inputs without elements need not be those of the rest
    # (`quirks.CONCAT_OF_NOTHING`).
    full = [shape for shape in shapes if all(size >= 1 for size in shape)]
    columns = zip(*shapes, strict=True)
    full_columns = zip(*(full or shapes), strict=True)
    sizes: list[AnySize | None] = []
    for size, column, full_column in zip(
        inferred_sizes, columns, full_columns, strict=True
    ):
        is_common = size in full_column if full else {size} == {*column}
        sizes.append(_exact_in(full_column, size) if is_common else None)
    first, *others = [shape[axis] for shape in shapes]
    length = sum(others, first)
    return [_with_size(tuple(sizes), axis, length)]


def _exact_in(column: Sequence[AnySize], size: AnySize | None) -> AnySize | None:
    """Return a size of a column of equal sizes, that which FLOAT did not round."""
    for other in column:
        if size is not None:
            size = exact_of(size, other) or size
    return size


@sized("Split")
def _split(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = _all_sizes(call.x)
    axis = call.axis(0)
    count = len(inferred)
    if sizes is None:
        return inferred
    parts = _integers(call, "split", 1) or [None] * count
    # Without numbers all parts have one size, but the last, which holds what is left.
    if call.has(1) is None and "split" not in call.attributes:
        divided = _rounded_up if call.version >= 18 else quotient
        part = divided(sizes[axis], count)
        last = sizes[axis] - part * (count - 1)
        parts = [*[part] * (count - 1), last]
    return [_with_size(sizes, axis, part) for part in parts]


@sized("Pad")
def _pad(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = _all_sizes(call.x)
    paddings = paddings_of(call)
    if sizes is None or paddings is None:
        return inferred
    padded: list[AnySize | None] = [*sizes]
    for axis, size, (least_before, most_before), (least_after, most_after) in paddings:
        least = size + least_before + least_after
        most = size + most_before + most_after
        padded[axis] = least
        if least != most:
            is_limited = high_of(most) <= MOST
            padded[axis] = unknown_size(most, least) if is_limited else None
    return [tuple(padded)]


Padding = tuple[int, AnySize, list[AnySize], list[AnySize]]
"""An axis, its size, and the least and the greatest number of the elements that a Pad
puts before it and after it."""


def paddings_of(call: Call) -> list[Padding] | None:
    """Return the paddings of a Pad; None if one of them is not known."""
    sizes = _all_sizes(call.x)
    pads = call.attributes.get("pads")
    every = call.of(1).full if pads is None else np.stack([pads, pads], axis=-1)
    if sizes is None or every is None:
        return None
    axes = call.option("axes", 3, list(range(len(sizes))))
    if axes is None:
        return None
    before, after = every.reshape(2, len(axes), 2).tolist()
    sizes_of_axes = [sizes[axis] for axis in axes]
    return list(zip(axes, sizes_of_axes, before, after, strict=True))


@sized("Slice")
def _slice(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = _all_sizes(call.x)
    starts = _integers(call, "starts", 1)
    ends = _integers(call, "ends", 2)
    count = len(starts or ends or ())
    axes = call.option("axes", 3, list(range(count)))
    steps = call.option("steps", 4, [1] * count)
    if sizes is None:
        return [None]
    # Where there are steps and no axes, ONNX takes the steps for them.
    has_steps_alone = call.has(4) is not None and call.has(3) is None
    if not axes or not steps or has_steps_alone:
        return [(None,) * len(sizes)]
    sliced: list[AnySize | None] = [*sizes]
    for number, axis in enumerate(axes):
        size = sizes[axis]
        step = steps[number]
        length = None
        if starts and ends:
            length = _slice_length(starts[number], ends[number], step, size)
        if length is None and step > 0:
            length = _new_size(size)
        sliced[axis] = length
    return [tuple(sliced)]


def _slice_length(
    start: AnySize | None, end: AnySize | None, step: int, size: AnySize
) -> AnySize | None:
    """Return how many positions a Slice selects from an axis; None where unclear."""
    # Case 1: a step backwards, between known numbers.
    numbers = known_sizes((start, end, size))
    if numbers is not None and -(2**31) < step < 0:
        first, last, length = numbers
        if last < 2**31 - 1:  # else it means the end (`quirks.SLICE_BACKWARDS`)
            first = max(first, -length)
            positions = range(length)[first:last:step]
            return len(positions)
    # Case 2: a step forwards.
    first_position = _position(start, size)
    last_position = _position(end, size)
    if first_position is None or last_position is None:
        return None
    if not 0 < step < 2**31 - 1:
        return None
    return _rounded_up(larger(0, last_position - first_position), step)


def _position(number: AnySize | None, size: AnySize) -> AnySize | None:
    """Return the place on an axis, 0 to its size, that a number means.

    A number below 0 counts from the end. None where it is not clear whether it does.
    """
    if number is None:
        return None
    if number >= 0:
        return lesser(number, size)
    if number < 0:
        return larger(0, size + number)
    return None


# Windows that move over axes, and axes that are stretched.


@sized("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv")
def _window(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    sizes = _all_sizes(call.x)
    kernel = _kernel_sizes(call)
    if sizes is None or kernel is None:
        return []
    batch = sizes[0]
    channels = kernel[0] or sizes[1]
    counts: list[AnySize | None] = []
    rank = len(sizes) - 2
    pairs = zip(sizes[2:], kernel[2:], strict=True)
    for axis, (size, width) in enumerate(pairs):
        count = _window_count(call, axis, size, width, rank)
        counts.append(count)
    return [(batch, channels, *counts)] * len(inferred)


def _kernel_sizes(call: Call) -> tuple[AnySize, ...] | None:
    """Return the sizes of the weights of a convolution, or those of a pool.

    A pool has 0 for the channels: it keeps those of its input.
    """
    if "Conv" not in call.operator:
        return (0, 0, *call.attributes.get("kernel_shape", ()))
    position = 3 if call.operator == "QLinearConv" else 1
    return _all_sizes(call.of(position))


def _window_count(
    call: Call, axis: int, size: AnySize, width: AnySize, rank: int
) -> AnySize | None:
    """Return how many places a window has on an axis; None where it is not clear.

    Args:
        call: The operation.
        axis: The axis, without those of batch and channels.
        size: The size of the axis.
        width: How many elements the window reads.
        rank: How many axes windows move over.
    """
    options = call.attributes
    stride = options.get("strides", (1,) * rank)[axis]
    dilation = options.get("dilations", (1,) * rank)[axis]
    pads = options.get("pads", (0,) * 2 * rank)
    padding = str(options.get("auto_pad", "NOTSET"))
    is_same = "SAME" in padding
    room = size - (width - 1) * dilation - 1 + stride
    if is_same:
        if dilation != 1:
            return None
        room = size + stride - 1
    elif padding == "NOTSET":
        room = room + pads[axis] + pads[axis + rank]
    elif any(pads):  # VALID: ONNX infers sizes with pads that ONNX Runtime leaves out
        return None
    if options.get("ceil_mode", 0):
        return _rounded_count(room, stride)
    # A pool wider than its input has 1 window; of 0, SAME is inferred as 1.
    is_convolution = "Conv" in call.operator
    least = 0 if is_convolution and not is_same else stride
    # `quirks.CONVOLUTION_OF_NOTHING`
    if room >= least:
        count = quotient(room, stride)
        return at_least_one(count) if is_convolution else count
    if isinstance(room, int) or is_same:
        return None
    if is_convolution:
        return quotient(larger(stride, room), stride)
    # A pool has a window more than it has steps, or none at all.
    steps = quotient(larger(0, room - stride), stride)
    is_there = room > 0
    return steps + 1 if is_there else _new_size(steps + 1)


def _rounded_count(room: AnySize, stride: int) -> AnySize | None:
    """Return how many places a window has where a last one may begin in the padding.

    ONNX infers such a place where ONNX Runtime leaves it out.
    """
    if not room > 0:
        return None
    fewest = quotient(larger(0, room - stride), stride) + 1
    return unknown_size(fewest + 1, fewest)


# What ONNX infers, where it is so.


def _is_broadcast_product(call: Call) -> bool:
    """Return whether ONNX infers a product of matrices as ONNX Runtime computes it.

    See `quirks.PRODUCT_OF_NOTHING`.
    """
    position = 3 if call.operator == "QLinearMatMul" else 1
    a = _all_sizes(call.of(0))
    b = _all_sizes(call.of(position))
    if a is None or b is None:
        return False
    rank = max(len(a), len(b))
    return rank < 3 or a[-1] > 0


@sized("Einsum")
def _einsum(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    if _einsum_broadcasts_nothing(call):
        return _trusted(call, inferred)
    # A letter of the result stands for an axis, whatever its size is.
    equation = str(call.attributes["equation"]).replace(" ", "")
    _, arrow, letters = equation.partition("->")
    if not arrow or "." in equation:
        return []
    return [(None,) * len(letters)]


def _einsum_broadcasts_nothing(call: Call) -> bool:
    """Return whether an Einsum broadcasts nothing, so that ONNX infers its sizes."""
    equation = str(call.attributes["equation"]).replace(" ", "")
    inputs, _, _ = equation.partition("->")
    size_of: dict[str, AnySize] = {}
    terms = inputs.split(",")
    for term, value in zip(terms, call.given, strict=True):
        sizes = _all_sizes(value) or ()
        for label, size in zip(term, sizes, strict=True):
            if label == ".":
                return False
            if size_of.setdefault(label, size) != size:
                return False
    return True


def _counts_axes(call: Call) -> bool:
    """Return whether ONNX reads axes as ONNX Runtime does (`quirks.AXES_FROM_END`)."""
    if call.version >= 11:
        return True
    axes = call.attributes.get("axes", ())
    return all(axis >= 0 for axis in axes)


def _names_axes(call: Call) -> bool:
    """Return whether a Squeeze is no `quirks.SQUEEZE_OF_NO_AXES`."""
    return call.option("axes", 1) != [] and _counts_axes(call)


def _has_default_padding(call: Call) -> bool:
    """Return whether a ConvTranspose computes its output's sizes from its pads."""
    padding = call.attributes.get("auto_pad", "NOTSET")
    return padding == "NOTSET" and "output_shape" not in call.attributes


def _keeps_sizes(call: Call) -> bool:
    """Return whether a broadcast of the inputs has the sizes of the first."""
    sizes = _broadcast(value.sizes for value in call.given)
    return sizes == call.x.sizes


def _has_elements(call: Call) -> bool:
    """Return whether the first input is a tensor with axes, and none of size 0."""
    sizes = _all_sizes(call.x)
    if not sizes:
        return False
    return all(size > 0 for size in sizes)


CONDITIONS: dict[str, Callable[[Call], bool]] = {
    "ConvTranspose": _has_default_padding,
    "PRelu": _keeps_sizes,
    "Squeeze": _names_axes,
    "Unsqueeze": _counts_axes,
    "MatMul": _is_broadcast_product,
    "MatMulInteger": _is_broadcast_product,
    "QLinearMatMul": _is_broadcast_product,
}
"""When ONNX infers the sizes that ONNX Runtime computes."""


@sized("Resize", "Upsample")
def _resize(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    policy = call.attributes.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        return []
    sizes = call.x.sizes
    wanted = _elements(call.has(3))
    axes: Sequence[int] | None = call.attributes.get("axes")
    # Case 1: all sizes are given.
    if wanted and axes is None:
        return [wanted]
    if sizes is None:
        return []
    every_axis = range(len(sizes))
    resized: list[AnySize | None] = [None for _ in every_axis]
    # Case 2: the sizes of some axes are given. The others keep theirs.
    if wanted and axes is not None:
        resized = [*sizes]
        for axis, size in zip(axes, wanted, strict=True):
            resized[axis] = size
        return [tuple(resized)]
    # Case 3: factors are given. An axis without a factor has the factor 1.
    factors = _factors(call)
    if factors is None:
        return [tuple(resized)]
    factor_of: dict[int, float | None] = {}
    if axes is not None:
        factor_of = dict.fromkeys(every_axis, 1.0)
    pairs = zip(axes or every_axis, factors, strict=True)
    factor_of.update({axis % len(sizes): factor for axis, factor in pairs})
    for axis, factor in factor_of.items():
        resized[axis] = _multiplied(sizes[axis], factor)
    return [tuple(resized)]


def _factors(call: Call) -> Sequence[float | None] | None:
    """Return the factors of a Resize; None for each that is not known.

    None where their number is not known.
    """
    if "scales" in call.attributes:
        return call.attributes["scales"]
    position = 1 if call.version < 11 else 2  # later there is no Upsample
    scales = call.has(position)
    if scales is None or scales.full is None or scales.nan or not scales.full.size:
        return None
    factors: list[float | None] = []
    for low, high in scales.full.reshape(-1, 2).tolist():
        factors.append(low if low == high else None)
    return factors


def _multiplied(size: AnySize | None, factor: float | None) -> AnySize | None:
    """Return a size times a factor, rounded down; None where it is not clear.

    Where FLOAT holds the exact product, `quirks.RESIZE_IN_FLOAT` does not matter.
    """
    if size is None or factor is None or not 0 < factor < EXACT_IN_FLOAT:
        return None
    multiple, divisor = np.float32(factor).as_integer_ratio()
    # Case 1: the product only moves the point of the size, which FLOAT rounds.
    is_power = multiple & (multiple - 1) == 0
    if is_power and isinstance(size, Size):
        return quotient(in_float(size) * multiple, divisor)
    # Case 2: the product is exact.
    is_exact = is_power or high_of(size) * multiple <= EXACT_IN_FLOAT
    if is_exact and high_of(size) <= EXACT_IN_FLOAT:
        return quotient(size * multiple, divisor)
    return None


@sized(*REDUCTIONS.split())
def _reduced(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    if _has_elements(call):
        return _trusted(call, inferred)
    # An axis that should go may stay (`quirks.REDUCTION_OF_NOTHING`).
    if call.x.sizes and call.attributes.get("keepdims", 1):
        return [(None,) * len(call.x.sizes)]
    return []


@sized(*TRUSTED.split())
def _trusted(call: Call, inferred: Sequence[OutputSizes]) -> Iterable[OutputSizes]:
    condition = CONDITIONS.get(call.operator)
    if condition is not None and not condition(call):
        return []
    outputs: list[OutputSizes] = []
    for sizes in inferred:
        if sizes is not None:
            filled = (_new_size() if size is None else size for size in sizes)
            sizes = tuple(filled)
        outputs.append(sizes)
    return outputs
