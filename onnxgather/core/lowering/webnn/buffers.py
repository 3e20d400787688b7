"""The buffers of a descriptor's tensors as operands, and the elements in them.

In the form "bytes" a buffer is viewed as rows of int32 words, or of bytes as int8 where
a row does not fill words: WebNN has only some of DirectML's data types, no strides, and
no bitcast.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.lowering.graph import Shape
from onnxgather.core.lowering.webnn.policies import IndexWords
from onnxgather.core.lowering.webnn.requirements import REQUIRED_RANK
from onnxgather.core.lowering.webnn.steps import MLOperand, StepList
from onnxgather.core.options import WebnnForm

_WORD = 4
"""The bytes of an int32."""


class RowView(Struct, frozen=True):
    """How a form of the program views the elements of InputTensor and OutputTensor."""

    data_type: str
    """The data type of the operands."""
    elements: int
    """The number of adjacent elements in a row."""
    width: int
    """The number of operand elements in a row."""


def row_view(
    tensor: TensorDesc, elements: int, form: WebnnForm, in_bytes: bool
) -> RowView:
    """Return the view of a tensor in rows of so many elements.

    Args:
        tensor: The tensor.
        elements: The number of elements in a row.
        form: The form of the program.
        in_bytes: Whether rows of "bytes" are of int8 even where they fill words.
    """
    if form == "typed":
        return RowView(tensor.data_type.numpy.name, elements, elements)
    row_bytes = elements * tensor.data_type.size
    if row_bytes % _WORD == 0 and not in_bytes:
        return RowView("int32", elements, row_bytes // _WORD)
    return RowView("int8", elements, row_bytes)


def operand_shape(tensor: TensorDesc, rows: Shape, form: WebnnForm) -> Shape:
    """Return the shape of the operand that stands for a tensor.

    Args:
        tensor: The tensor.
        rows: The shape that the program computes with.
        form: In the form "typed" the operand has the shape of the tensor's array, if
            every implementation must accept its rank.
    """
    own = tensor.array_shape
    if form == "typed" and len(own) <= REQUIRED_RANK:
        return own
    return rows


def offsets_of_elements(sizes: Shape, strides: Shape) -> Array:
    """Return the offset of each element of a grid: INT64, row-major, 1-D."""
    offsets = np.zeros((), np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        along = np.arange(size, dtype=np.int64) * stride
        offsets = np.add.outer(offsets, along)
    return offsets.reshape(-1)


def read_index_words(
    steps: StepList, tensor: TensorDesc, name: str, shape: Shape, form: WebnnForm
) -> IndexWords:
    """Add the input for a tensor of indices; return its elements.

    Args:
        steps: Gets the input and the steps.
        tensor: IndicesTensor.
        name: The name of the input.
        shape: The shape in which the elements are needed.
        form: "bytes" views the buffer as int32: as pairs, if the elements have 64 bits.
    """
    in_buffer = math.prod(tensor.array_shape)
    # Case 1: an operand of the descriptor's own type.
    if form == "typed":
        rows = (in_buffer, 1)
        input_shape = operand_shape(tensor, rows, form)
        indices = steps.input(name, tensor.data_type.numpy.name, input_shape)
        why = "a row for each element"
        indices = steps.reshape(indices, rows, "indexRows", why)
        indices = _elements_in_order(steps, tensor, indices)
        why = "a row for each index tuple"
        indices = steps.reshape(indices, shape, "indices", why)
        return _words_of_typed(steps, indices)

    # Case 2: the words of the buffer.
    word_count = tensor.data_type.size // _WORD
    indices = steps.input(name, "int32", (in_buffer, word_count))
    indices = _elements_in_order(steps, tensor, indices)
    is_signed = tensor.data_type.is_signed
    why = "a row for each index tuple"
    if word_count == 1:
        low = steps.reshape(indices, shape, "indices", why)
        return IndexWords(low, is_signed)
    part = (indices.shape[0], 1)
    low = steps.slice(indices, (0, 0), part, "lowColumn", "the low word of each index")
    high_why = "the high word of each index"
    high = steps.slice(indices, (0, 1), part, "highColumn", high_why)
    low = steps.reshape(low, shape, "low", why)
    high = steps.reshape(high, shape, "high", why)
    return _words_of_pair(steps, low, high, is_signed)


def _elements_in_order(
    steps: StepList, tensor: TensorDesc, buffer: MLOperand
) -> MLOperand:
    """Return the rows of a buffer that hold the elements of a tensor, in order."""
    count = math.prod(tensor.sizes)
    if tensor.is_plain:
        return buffer
    if tensor.is_packed:
        sizes = (count, buffer.shape[1])
        why = "drops what lies behind the elements"
        return steps.slice(buffer, (0, 0), sizes, "elements", why)
    offsets = offsets_of_elements(tensor.sizes, tensor.element_strides)
    why = "the offsets of the elements"
    positions = steps.constant("positions", offsets.astype(np.int32), why)
    why = "reads the indices at their strides"
    return steps.gather(buffer, positions, "elements", why)


def _words_of_pair(
    steps: StepList, low: MLOperand, high: MLOperand, is_signed: bool
) -> IndexWords:
    """Return 64-bit indices, of which `low` and `high` are the words."""
    zero = steps.numbers("zero", [0], "the number 0")
    why = "finds what is negative as INT64"
    negative = steps.compute("lesser", high, zero, "isNegative", why)
    expected = zero
    if is_signed:
        why = "finds the low words that are negative"
        below = steps.compute("lesser", low, zero, "isLowNegative", why)
        ones = steps.numbers("minusOne", [-1], "the high word of a negative index")
        why = "the high word if 32 bits do"
        expected = steps.where(below, ones, zero, "expectedHigh", why)
    why = "finds the indices that 32 bits do not hold"
    wide = steps.compute("notEqual", high, expected, "isWide", why)
    return IndexWords(low, is_signed, wide, negative)


def _words_of_typed(steps: StepList, indices: MLOperand) -> IndexWords:
    """Return indices of INT32, UINT32 or INT64 as words."""
    low = steps.cast(indices, "int32", "low", "the low 32 bits")
    if indices.data_type != "int64":
        return IndexWords(low, indices.data_type == "int32")
    back = steps.cast(low, "int64", "lowInt64", "to compare with the whole indices")
    why = "finds the indices that 32 bits do not hold"
    wide = steps.compute("notEqual", back, indices, "isWide", why)
    zero = steps.constant("zeroInt64", np.zeros(1, np.int64), "the number 0")
    why = "finds the negative indices"
    negative = steps.compute("lesser", indices, zero, "isNegative", why)
    return IndexWords(low, is_signed=True, wide=wide, negative=negative)


def computable(steps: StepList, rows: MLOperand) -> MLOperand:
    """Return rows in a type that `where` and `concat` must take: not in bytes."""
    if rows.data_type not in ("int8", "uint8"):
        return rows
    return steps.cast(rows, "int32", "rowsInt32", "a type that where and concat take")


def zeros(steps: StepList, data_type: str, width: int) -> MLOperand:
    """Return the operand of a row of zeros."""
    array = np.zeros((1, width), data_type)
    return steps.constant("zeroRow", array, "a row of zeros")


def output_buffer(
    steps: StepList, tensor: TensorDesc, rows: MLOperand, form: WebnnForm
) -> MLOperand:
    """Return the operand of OutputTensor: its buffer, with zeros between elements.

    Args:
        steps: Gets the steps.
        tensor: OutputTensor.
        rows: Its elements, in rows; a row for each where they are not packed.
        form: The form of the program.
    """
    if not tensor.is_plain:
        rows = _at_strides(steps, tensor, rows)
    shape = operand_shape(tensor, rows.shape, form)
    return steps.reshape(rows, shape, "output", "the sizes of OutputTensor")


def _at_strides(steps: StepList, tensor: TensorDesc, rows: MLOperand) -> MLOperand:
    """Return a row for each element of the buffer of a tensor with strides."""
    count = math.prod(tensor.sizes)
    offsets = offsets_of_elements(tensor.sizes, tensor.element_strides)
    # Row `count` is a row of zeros, for what lies between the elements.
    sources = np.full(tensor.element_count, count, np.int32)
    sources[offsets] = np.arange(count, dtype=np.int32)
    data_type = rows.data_type
    if (sources == count).any():
        rows = computable(steps, rows)
        zero_row = zeros(steps, rows.data_type, rows.shape[1])
        rows = steps.concat((rows, zero_row), "rowsAndZero", "adds zeros, for the gaps")
    why = "the row of each element of the buffer"
    chosen = steps.constant("outputRows", sources, why)
    rows = steps.gather(rows, chosen, "scattered", "puts them at their strides")
    return steps.cast(rows, data_type, "scatteredBytes", "bytes again")
