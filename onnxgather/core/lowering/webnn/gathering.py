"""A gather as one WebNN `gather` along axis 0, of rows at computed offsets."""

from __future__ import annotations

import math

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor, GatherElementsDesc
from onnxgather.core.descriptors.strides import packed_strides
from onnxgather.core.gather import Geometry, gather_of
from onnxgather.core.lowering.graph import Shape
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.lowering.webnn.buffers import (
    computable,
    offsets_of_elements,
    operand_shape,
    output_buffer,
    read_index_words,
    row_view,
    zeros,
)
from onnxgather.core.lowering.webnn.policies import (
    OUTSIDE,
    IndexWords,
    clamped_coordinates,
    count_outside,
    directml_coordinates,
    needs_mask,
    outside_of_axes,
    outside_tuples,
)
from onnxgather.core.lowering.webnn.steps import MLOperand, StepList
from onnxgather.core.options import OutOfRange, WebnnForm

_LOWEST = -(2**31)


def gather_steps(
    desc: Descriptor,
    out_of_range: OutOfRange,
    form: WebnnForm,
    in_bytes: bool = False,
) -> StepList:
    """Return the steps that compute a descriptor.

    Args:
        desc: Any of the four gather descriptors, with elements that int32 counts.
        out_of_range: What an index out of range does.
        form: "bytes" or "typed".
        in_bytes: As of `row_view`.
    """
    gather = gather_of(desc)
    # An index leads to adjacent elements, those behind the indexed dimensions, if data
    # and output are packed. Under "directml" an index past the end may lead to each
    # element by itself.
    is_plain = desc.input_tensor.is_plain and desc.output_tensor.is_plain
    has_rows = gather.onnx != "GatherElements" and out_of_range != "directml"
    elements = math.prod(gather.behind) if is_plain and has_rows else 1
    view = row_view(desc.input_tensor, elements, form, in_bytes)
    row_count = math.prod(desc.input_tensor.array_shape) // elements

    steps = StepList()
    rows_shape = (row_count, view.width)
    input_shape = operand_shape(desc.input_tensor, rows_shape, form)
    data = steps.input(INPUT, view.data_type, input_shape)
    why = "the rows that offsets choose from"
    data = steps.reshape(data, rows_shape, "dataRows", why)

    tuple_size = gather.tuple_size
    tuples = math.prod(gather.indices) // tuple_size
    words = read_index_words(
        steps, desc.indices_tensor, INDICES, (tuples, tuple_size), form
    )
    coordinates = _coordinates(steps, desc, gather, words, out_of_range)
    offsets = _offsets(steps, desc, gather, coordinates, elements, out_of_range)
    outside = None
    if needs_mask(out_of_range):
        outside = outside_of_axes(steps, words, gather.axes)

    zeroed = None
    if out_of_range == "zero":
        assert outside is not None
        zeroed = outside_tuples(steps, outside)
        shape = _index_grid(gather)
        zeroed = steps.reshape(zeroed, shape, "mask", "along the output's dimensions")
    elif out_of_range == "directml":
        offsets, zeroed = _limited(steps, desc, offsets)
    grid = offsets.shape
    count = math.prod(grid)
    offsets = steps.reshape(offsets, (count,), "rowOffsets", "1-D, as gather takes")
    rows = steps.gather(data, offsets, "rows", "copies the rows at the offsets")
    if zeroed is not None:
        rows = _zero_rows(steps, rows, zeroed, grid)
    outputs = {OUTPUT: output_buffer(steps, desc.output_tensor, rows, form)}
    if out_of_range == "error":
        assert outside is not None
        outputs[OUTSIDE] = count_outside(steps, outside)
    steps.finish(outputs)
    return steps


def _coordinates(
    steps: StepList,
    desc: Descriptor,
    gather: Geometry,
    words: IndexWords,
    out_of_range: OutOfRange,
) -> MLOperand:
    """Return the coordinates along the indexed dimensions, as the policy has them."""
    if out_of_range == "directml":
        is_uint32 = desc.indices_tensor.data_type == "UINT32"
        return directml_coordinates(steps, words, gather.axes, is_uint32)
    zeroes = out_of_range == "zero"
    return clamped_coordinates(steps, words, gather.axes, zeroes)


def _data_strides(desc: Descriptor, elements: int, out_of_range: OutOfRange) -> Shape:
    """Return the stride of each dimension of InputTensor, in rows."""
    tensor = desc.input_tensor
    strides = tensor.element_strides
    if elements > 1:
        # The tensor is packed, so that the strides of sizes of 1 play no part.
        strides = packed_strides(tensor.sizes)
    if out_of_range == "directml" and isinstance(desc, GatherElementsDesc):
        # DirectML gives these dimensions the stride 0 (measured).
        pairs = zip(tensor.sizes, strides, strict=True)
        strides = tuple([0 if size == 1 else stride for size, stride in pairs])
    return tuple([stride // elements for stride in strides])


def _index_grid(gather: Geometry) -> Shape:
    """Return the shape of the index tuples among the output's dimensions.

    It has three dimensions: in front of what the indices count, along it, and behind.
    Where the dimensions in front or behind are not those of the indices, it is 1.
    """
    per_index = gather.per_index
    count = math.prod(per_index)
    if gather.onnx == "GatherElements":
        axis = gather.number
        in_front = math.prod(per_index[:axis])
        return in_front, per_index[axis], math.prod(per_index[axis + 1 :])
    if gather.has_tuples:
        batches = math.prod(per_index[: gather.number])
        return batches, count // batches, 1
    return 1, count, 1


def _offsets(
    steps: StepList,
    desc: Descriptor,
    gather: Geometry,
    coordinates: MLOperand,
    elements: int,
    out_of_range: OutOfRange,
) -> MLOperand:
    """Return the offset in the data of each output row, of three dimensions.

    Args:
        steps: Gets the steps.
        desc: The descriptor.
        gather: Its geometry.
        coordinates: The coordinates along the indexed dimensions.
        elements: The number of elements in a row.
        out_of_range: What an index out of range does.
    """
    strides = _data_strides(desc, elements, out_of_range)
    indexed = [strides[dimension] for dimension in gather.indexed]
    offsets = coordinates
    if set(indexed) != {1}:
        factors = steps.numbers("strides", indexed, "the stride of each coordinate")
        why = "coordinate x stride"
        offsets = steps.compute("mul", coordinates, factors, "products", why)
    offsets = _sum_coordinates(steps, offsets)
    why = "along the output's dimensions"
    offsets = steps.reshape(offsets, _index_grid(gather), "spread", why)

    in_front = gather.passed[: gather.number]
    behind = gather.passed[gather.number :]
    front_offsets = _passed_offsets(gather, strides, in_front)
    # A single offset is 0; several may be too, where a stride of 0 repeats elements.
    if front_offsets.size > 1:
        array = front_offsets.reshape(-1, 1, 1)
        step = steps.constant("inFront", array, "offsets of the dimensions in front")
        why = "adds the offsets of the dimensions in front"
        offsets = steps.compute("add", offsets, step, "offsets", why)
    if elements > 1:  # a row holds the dimensions behind
        return offsets
    behind_offsets = _passed_offsets(gather, strides, behind)
    if behind_offsets.size > 1:
        array = behind_offsets.reshape(1, 1, -1)
        step = steps.constant("behind", array, "offsets of the dimensions behind")
        why = "adds the offsets of the dimensions behind"
        offsets = steps.compute("add", offsets, step, "offsets", why)
    return offsets


def _sum_coordinates(steps: StepList, products: MLOperand) -> MLOperand:
    """Return the sum of each row, modulo 2^32."""
    rows, count = products.shape
    if count == 1:
        return products
    # reduceSum would not do: in ONNX Runtime it does not wrap.
    columns: list[MLOperand] = []
    for number in range(count):
        why = f"coordinate {number} of each tuple"
        column = steps.slice(products, (0, number), (rows, 1), "column", why)
        columns.append(column)
    total = columns[0]
    for column in columns[1:]:
        total = steps.compute("add", total, column, "sum", "adds the coordinates")
    return total


def _passed_offsets(
    gather: Geometry, strides: Shape, passed: list[tuple[int, int]]
) -> Array:
    """Return the offsets along dimensions that are passed on, as int32."""
    output = gather.output
    sizes = tuple([output[output_dimension] for output_dimension, _ in passed])
    of_data = tuple([strides[dimension] for _, dimension in passed])
    return offsets_of_elements(sizes, of_data).astype(np.int32)


def _limited(
    steps: StepList, desc: Descriptor, offsets: MLOperand
) -> tuple[MLOperand, MLOperand | None]:
    """Return the offsets as DirectML limits them, and a mask of those in padding.

    It takes an unsigned minimum with the last element of the buffer. Where that element
    is padding, it reads as zero; the mask is None where it is none.
    """
    tensor = desc.input_tensor
    count = math.prod(tensor.array_shape)
    last = min(tensor.reachable_count - 1, count)
    bias = steps.numbers("bias", [_LOWEST], "-2^31")
    why = "the order of unsigned numbers"
    biased = steps.compute("add", offsets, bias, "biased", why)
    limit = steps.numbers("limit", [last + _LOWEST], "the buffer's last element")
    why = "DirectML reads the buffer's last element past its end"
    limited = steps.compute("min", biased, limit, "limitedBiased", why)
    why = "takes the bias away, modulo 2^32"
    offsets = steps.compute("add", limited, bias, "limitedOffsets", why)
    if last < count:
        return offsets, None
    padding = steps.numbers("padding", [count], "the offset of the padding")
    why = "finds the offsets in the padding"
    in_padding = steps.compute("equal", offsets, padding, "inPadding", why)
    end = steps.numbers("lastElement", [count - 1], "the last element")
    why = "an element that there is"
    offsets = steps.compute("min", offsets, end, "readOffsets", why)
    return offsets, in_padding


def _zero_rows(
    steps: StepList, rows: MLOperand, mask: MLOperand, grid: Shape
) -> MLOperand:
    """Return the rows, with zeros where a mask along the output is set.

    Args:
        steps: Gets the steps.
        rows: The rows.
        mask: Of three dimensions, which broadcast to `grid`.
        grid: The sizes of the output, in rows.
    """
    width = rows.shape[1]
    data_type = rows.data_type
    numbers = computable(steps, rows)
    # Repeated along dimensions, the mask needs them; else a row for each is enough.
    is_spread = mask.shape == grid
    masked_shape = rows.shape if is_spread else (*grid, width)
    mask_shape = (rows.shape[0], 1) if is_spread else (*mask.shape, 1)
    mask = steps.reshape(mask, mask_shape, "rowMask", "an element for each row")
    why = "along the output's dimensions"
    numbers = steps.reshape(numbers, masked_shape, "rowGrid", why)
    zero_row = zeros(steps, numbers.data_type, 1)
    why = "zeros where the mask is set"
    numbers = steps.where(mask, zero_row, numbers, "zeroed", why)
    numbers = steps.reshape(numbers, rows.shape, "zeroedRows", "rows again")
    return steps.cast(numbers, data_type, "zeroedBytes", "bytes again")
