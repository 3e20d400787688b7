"""What ONNX infers of the outputs of an operation, from its node alone.

Many operations of a model are alike, and a model is audited in several forms. So the
answers are kept, by all that ONNX reads: operations that differ in names alone share
an answer.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import onnx
from onnx import helper

from onnxgather.auditing.algebra.bounds import INTEGERS, LIMITS, Bounds, elements_of
from onnxgather.auditing.algebra.sizes import AnySize, AnySizes
from onnxgather.auditing.operators.calls import Call, OpenType
from onnxgather.core.model.network import FAULTS_OF_ONNX, Operation
from onnxgather.core.model.values import NUMBERS, ValueType

INFERRED_ELEMENTS = 1024
"""The most elements of an input that ONNX's inference reads."""

_, _LARGEST = INTEGERS["INT64"]

KEPT_ANSWERS = 2**13
"""The most answers that are kept; each is a few hundred bytes."""

_UNREAD = """
    Abs Add And BatchNormalization Cast CastLike Ceil Clip Concat Conv Cos Div Dropout
    Elu Equal Erf Exp Floor Gather GatherElements GatherND Gelu Gemm Greater
    GreaterOrEqual HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN
    LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min
    Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round ScatterElements ScatterND Shape
    Sigmoid Sign Sin Size Softmax Softplus Sqrt Sub Sum Tanh Transpose Where Xor
"""

NUMBERS_UNREAD = frozenset(_UNREAD.split())
"""Operators of whose inputs ONNX reads the types and no elements. Weights of different
layers then share an answer. The rules of `output_types.py` read no elements either."""

FLOATS_READ = {"NonZero", "OneHot", "Range", "Resize", "Upsample"}
"""The operators of whose inputs of floats elements may be read for sizes."""

FIRST_UNREAD = {
    "Expand",
    "Flatten",
    "Pad",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "TopK",
    "Unsqueeze",
}
"""Operators that read elements of their inputs for sizes, but none of the first."""

Dims = tuple[int | str | None, ...] | None
"""Sizes as ONNX has them: an open size is a name. None is what ONNX does not infer."""


class _Known(NamedTuple):
    """What ONNX reads of an input."""

    data_type: int
    """ONNX's number."""
    dims: Dims
    shape: tuple[int, ...] = ()
    elements: tuple[Any, ...] | None = None
    """The elements, in the sizes `shape`; None where they are not known or not read."""


class _Answer(NamedTuple):
    """What ONNX infers of an output."""

    data_type: str
    dims: Dims


def inferred_types(call: Call) -> list[OpenType]:
    """Return what ONNX infers of the outputs of an operation, from its node alone."""
    symbols: dict[AnySize | None, str] = {}
    inputs = tuple(
        _known(value, symbols, types_read(call.operation, position))
        for position, value in enumerate(call.inputs)
    )
    node = _nameless(call.operation)
    answers = inferred_outputs(node, call.version, inputs)
    size_of = {symbol: size for size, symbol in symbols.items()}
    return [_open_type(answer, size_of) for answer in answers]


def types_read(operation: Operation, position: int) -> Collection[str]:
    """Return the data types of an input whose elements decide sizes of the outputs.

    Only operators of ONNX read elements for this.

    Args:
        operation: The operation.
        position: The number of the input.
    """
    if operation.domain or operation.operator in NUMBERS_UNREAD:
        return ()
    if position == 0 and operation.operator in FIRST_UNREAD:
        return ()
    if operation.operator in FLOATS_READ:
        return NUMBERS
    return LIMITS


def _known(
    value: Bounds | None, symbols: dict[AnySize | None, str], read: Collection[str]
) -> _Known | None:
    """Return what ONNX reads of an input; None for what is no tensor of numbers.

    Args:
        value: The input.
        symbols: The names of open sizes.
        read: The data types whose elements ONNX reads.
    """
    if value is None or value.data_type not in NUMBERS:
        return None
    data_type = NUMBERS[value.data_type]
    dims = _named_dims(value.sizes, symbols)
    count = elements_of(value.sizes)
    is_small = isinstance(count, int) and count <= INFERRED_ELEMENTS
    # The bounds of a value that nobody reads are not computed.
    array = value.known if is_small and value.data_type in read else None
    if array is None:
        return _Known(data_type, dims)
    elements = tuple(array.ravel().tolist())
    return _Known(data_type, dims, array.shape, elements)


def _named_dims(sizes: AnySizes | None, symbols: dict[AnySize | None, str]) -> Dims:
    """Return the sizes as ONNX writes them; an open size gets a name in `symbols`."""
    if sizes is None:
        return None
    dims: list[int | str] = []
    for size in sizes:
        # A size of an operator of another domain may be beyond INT64.
        if isinstance(size, int) and size <= _LARGEST:
            dims.append(size)
        else:
            # Equal sizes get one name, so that ONNX knows that they are equal. Those
            # that are not known share a name, which leads back to no size.
            name = f"size {len(symbols)}"
            dims.append(symbols.setdefault(size, name))
    return tuple(dims)


def _nameless(operation: Operation) -> bytes:
    """Return the node of an operation, with numbers as the names of its values."""
    # An input that is left out stays so. Two inputs of one name keep one number.
    number_of = {"": ""}
    for name in (*operation.inputs, *operation.outputs):
        number_of.setdefault(name, str(len(number_of)))
    node = onnx.NodeProto(
        op_type=operation.operator,
        domain=operation.domain,
        input=[number_of[name] for name in operation.inputs],
        output=[number_of[name] for name in operation.outputs],
        attribute=operation.proto.attribute,
    )
    return node.SerializeToString(deterministic=True)


@functools.lru_cache(maxsize=KEPT_ANSWERS)
def inferred_outputs(
    serialized: bytes, version: int, inputs: tuple[_Known | None, ...]
) -> tuple[_Answer, ...]:
    """Return what ONNX infers of each output of a node.

    Args:
        serialized: The node.
        version: Of ONNX's own operators.
        inputs: What is known of the inputs.
    """
    node = onnx.NodeProto.FromString(serialized)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, Any] = {}
    for name, known in zip(node.input, inputs, strict=True):
        if known is None:
            # ONNX refuses a node with a named input that has no type at all.
            if name:
                types[name] = onnx.TypeProto()
            continue
        types[name] = helper.make_tensor_type_proto(known.data_type, known.dims)
        if known.elements is not None:
            data[name] = helper.make_tensor(
                name, known.data_type, known.shape, known.elements
            )
    outputs: Mapping[str, onnx.TypeProto] = {}
    with suppress(*FAULTS_OF_ONNX):
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        outputs = onnx.shape_inference.infer_node_outputs(schema, node, types, data)
    return tuple(_answer(outputs.get(name)) for name in node.output)


def _answer(proto: onnx.TypeProto | None) -> _Answer:
    """Return the type of an output as ONNX infers it."""
    value = onnx.ValueInfoProto(type=proto)
    data_type, numbers = ValueType.of(value)
    # No rank is inferred, or the output is a scalar.
    if not numbers:
        return _Answer(data_type, numbers)
    dims: list[int | str | None] = []
    inferred_dims = value.type.tensor_type.shape.dim
    for number, dim in zip(numbers, inferred_dims, strict=True):
        if number is not None:
            dims.append(number)
        else:
            # A name is one that `_named_dims` gave; without a name nothing is inferred.
            dims.append(dim.dim_param or None)
    return _Answer(data_type, tuple(dims))


def _open_type(answer: _Answer, size_of: Mapping[str, AnySize | None]) -> OpenType:
    """Return the type that ONNX infers, with the open sizes in place of their names."""
    if answer.dims is None:
        return OpenType(answer.data_type)
    sizes: list[AnySize | None] = []
    for dim in answer.dims:
        if isinstance(dim, str):
            # A name that was given to no size says nothing.
            sizes.append(size_of.get(dim))
        else:
            sizes.append(dim)
    return OpenType(answer.data_type, tuple(sizes))
