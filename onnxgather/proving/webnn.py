"""What must hold of a WebNN program for it to mean its descriptor."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from onnxgather.core.lowering.graph import size_of
from onnxgather.core.lowering.indices import INDICES
from onnxgather.core.lowering.portable import INPUT, OUTPUT
from onnxgather.core.lowering.webnn.policies import OUTSIDE
from onnxgather.core.lowering.webnn.program import WebnnProgram
from onnxgather.core.lowering.webnn.requirements import beyond_required
from onnxgather.core.lowering.webnn.steps import MLOperand, Step
from onnxgather.proving import tensors, terms
from onnxgather.proving.claims import Claim, part_claim, places_of
from onnxgather.proving.formula import GatherFormula
from onnxgather.proving.tensors import (
    MOST_ELEMENTS,
    Item,
    LazyTensor,
    Moved,
    Place,
    UndecidedError,
    chosen,
    constant_tensor,
    ensure,
    flat,
    lazy,
    moved,
    unflat,
    unrounded,
)
from onnxgather.proving.terms import Int, Truth, all_of, any_of, is_equal, no, weighted
from onnxgather.proving.views import (
    concatenated,
    elementwise,
    product,
    reshaped,
    viewed,
    wrapped_integer,
)

_WORD = 2**32

_INT32 = np.dtype(np.int32)

_MASK = np.dtype(np.uint8)
"""The data type of masks, whose elements are truths here."""


def webnn_claims(program: WebnnProgram, formula: GatherFormula) -> Iterator[Claim]:
    """Yield what must follow for a program to mean its descriptor.

    Under "error" OutputTensor counts only where no index is out of range, and the
    program must count those that are.

    Raises:
        UndecidedError: The program has what nothing is known of.
    """
    for rule in beyond_required(program.graph.steps):
        raise UndecidedError(rule)
    values: dict[MLOperand, LazyTensor] = {}
    for operand in program.graph.inputs:
        values[operand] = _input(program, formula, operand)
    for constant in program.graph.constants:
        values[constant.operand] = constant_tensor(constant.array)
    data_types = {operand.name: operand.data_type for operand in program.graph.inputs}
    data_dtype = np.dtype(data_types[INPUT])
    cast = partial(_cast, data_dtype)
    methods = {**_METHODS, "cast": cast}
    for step in program.graph.steps:
        operands = [values[operand] for operand in step.operands]
        values[step.result] = methods[step.method](step, operands)
        # What an implementation does with other offsets is its own choice.
        if step.method == "gather":
            yield from _in_range(operands[1], step.operands[0].shape[0])
    output = values[program.graph.outputs[OUTPUT]]
    # Case: the claims count positions in elements of the data, and parts in those of
    # the output.
    if output.dtype != data_dtype:
        yield Claim(True, False)
    yield from _elements(formula, output)
    if formula.policy == "error":
        yield from _counted(program, formula, values)


def _input(
    program: WebnnProgram, formula: GatherFormula, operand: MLOperand
) -> LazyTensor:
    """Return an input, of which nothing is known but what it is a view of."""
    dtype = np.dtype(operand.data_type)
    tensor = formula.desc.indices_tensor
    if operand.name == INPUT:
        tensor = formula.desc.input_tensor
    buffer_size = size_of(tensor.array_shape) * tensor.data_type.size
    is_whole = size_of(operand.shape) * dtype.itemsize == buffer_size
    ensure(is_whole, f"an operand that is not the buffer of {operand.name}")
    if operand.name == INPUT:

        def data_element(place: Place) -> Moved:
            return Moved(True, flat(place, operand.shape), 0)

        return lazy(dtype, operand.shape, data_element)
    assert operand.name == INDICES
    if program.form == "typed":

        def typed_element(place: Place) -> Int:
            return formula.index(flat(place, operand.shape))

        return lazy(dtype, operand.shape, typed_element)

    def index_word(place: Place) -> Int:
        number, word = place
        index = formula.index(number)
        column = tensors.known_integer(word, "which word of an index")
        return wrapped_integer(index // _WORD if column else index, _INT32)

    return lazy(dtype, operand.shape, index_word)


# The methods.

_Method = Callable[[Step, list[LazyTensor]], LazyTensor]


def _gather(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    rows, offsets = operands
    ensure(step.options == {"axis": 0}, "a gather along another axis")
    ensure(len(offsets.shape) == 1, "a gather at offsets of another rank")

    def element(place: Place) -> Item:
        offset = unrounded(offsets.at(place[:1]))
        return rows.at((offset, *place[1:]))

    return lazy(rows.dtype, step.result.shape, element)


def _reshape(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    return reshaped(operands[0], step.result.shape)


def _slice(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    starts, sizes = step.arguments
    assert isinstance(starts, tuple)
    assert isinstance(sizes, tuple)
    for start, size, whole in zip(starts, sizes, operands[0].sizes, strict=True):
        ensure(0 <= start <= whole - size, "a slice that ends outside its operand")

    def source(place: Place) -> Place:
        pairs = zip(place, starts, strict=True)
        return tuple([at + start for at, start in pairs])

    return viewed(operands[0], step.result.shape, source)


def _cast(
    data_dtype: np.dtype[Any], step: Step, operands: list[LazyTensor]
) -> LazyTensor:
    """Return a cast.

    Args:
        data_dtype: The data type of the operand for InputTensor.
        step: The cast.
        operands: Its operand.
    """
    data = operands[0]
    after = np.dtype(step.result.data_type)

    def element(place: Place) -> Item:
        item = data.at(place)
        # Case 1: bytes as numbers and back, which keeps them.
        if isinstance(item, Moved):
            is_wide = after.itemsize >= data_dtype.itemsize
            is_kept = is_wide and after.kind == data_dtype.kind == "i"
            ensure(is_kept, f"a cast of data of {data_dtype} to {after}")
            return item
        # Case 2: a mask, of which the numbers are 1 and 0.
        value = unrounded(item)
        if data.dtype == _MASK:
            return terms.choose(value, 1, 0)
        # Case 3: an integer, of which the low bits stay.
        return wrapped_integer(value, after)

    return lazy(after, data.shape, element)


def _concat(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    axis = step.arguments[0]
    assert isinstance(axis, int)
    return concatenated(operands, axis)


def _where(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    dtype = np.dtype(step.result.data_type)

    def compute(truth: Item, first: Item, second: Item) -> Item:
        return chosen(unrounded(truth), first, second, dtype)

    return elementwise(dtype, compute, operands)


def _number(
    compute: Callable[[Any, Any], Int], step: Step, operands: list[LazyTensor]
) -> LazyTensor:
    """Return the result of a method of two numbers, which wraps."""
    dtype = np.dtype(step.result.data_type)

    def wrapping(first: Item, second: Item) -> Item:
        return wrapped_integer(compute(unrounded(first), unrounded(second)), dtype)

    return elementwise(dtype, wrapping, operands)


def _truth(
    compute: Callable[[Int, Int], Truth], _: Step, operands: list[LazyTensor]
) -> LazyTensor:
    """Return the mask that a method of two numbers or masks makes."""

    def compared(first: Item, second: Item) -> Item:
        return compute(unrounded(first), unrounded(second))

    return elementwise(_MASK, compared, operands)


def _differ(first: Int, second: Int) -> Truth:
    return no(is_equal(first, second))


def _reduce_max(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    """Return the largest element of each row."""
    data = operands[0]
    options = {"axes": (1,), "keepDimensions": True}
    ensure(step.options == options, "a reduceMax of anything but rows")
    columns = data.sizes[1]

    def element(place: Place) -> Item:
        largest = unrounded(data.at((place[0], 0)))
        for column in range(1, columns):
            number = unrounded(data.at((place[0], column)))
            largest = terms.larger_of(largest, number)
        return largest

    return lazy(data.dtype, step.result.shape, element)


def _reduce_sum(step: Step, operands: list[LazyTensor]) -> LazyTensor:
    """Return the sum of each column, of which only `_counted` looks at the parts."""
    data = operands[0]
    options = {"axes": (0,), "keepDimensions": False}
    ensure(step.options == options, "a reduceSum of anything but columns")

    def element(place: Place) -> Item:
        ensure(data.size <= MOST_ELEMENTS, "a sum of too many elements")
        rows = range(data.sizes[0])
        return weighted([(unrounded(data.at((row, *place))), 1) for row in rows])

    return lazy(data.dtype, step.result.shape, element)


_METHODS: dict[str, _Method] = {
    "gather": _gather,
    "reshape": _reshape,
    "slice": _slice,
    "concat": _concat,
    "where": _where,
    "min": partial(_number, terms.smaller_of),
    "max": partial(_number, terms.larger_of),
    "add": partial(_number, operator.add),
    "mul": partial(_number, product),
    "lesser": partial(_truth, operator.lt),
    "greater": partial(_truth, operator.gt),
    "equal": partial(_truth, is_equal),
    "notEqual": partial(_truth, _differ),
    "logicalOr": partial(_truth, any_of),
    "reduceMax": _reduce_max,
    "reduceSum": _reduce_sum,
}
"""What each method but `cast` computes, from WebNN's specification."""


# The claims.


def _in_range(offsets: LazyTensor, count: int) -> Iterator[Claim]:
    """Yield that 1-D offsets of rows are in range."""
    for place in places_of(offsets.sizes):
        offset = unrounded(offsets.at(place))
        not_below = no(offset < 0)
        yield Claim(True, all_of(not_below, offset < count))


def _elements(formula: GatherFormula, output: LazyTensor) -> Iterator[Claim]:
    """Yield that each part of each element of OutputTensor is right, and the gaps 0."""
    tensor = formula.desc.output_tensor
    size = tensor.data_type.size
    unit = output.dtype.itemsize
    count = size_of(tensor.array_shape)
    if output.size * unit != count * size:
        yield Claim(True, False)
        return
    has_gaps = tensor.array_shape != tensor.sizes
    is_small = size_of(tensor.sizes) <= MOST_ELEMENTS
    rule = f"an output of more than {MOST_ELEMENTS:,} elements has strides"
    ensure(not has_gaps or is_small, rule)
    used: set[Int] = set()
    places = places_of(tensor.sizes)
    if has_gaps:
        places = places_of(tensor.sizes, MOST_ELEMENTS)
    for place in places:
        offset = weighted(zip(place, tensor.element_strides, strict=True))
        used.add(offset)
        for byte in range(0, size, min(unit, size)):
            yield _part_claim(formula, output, place, offset, byte)
    if not has_gaps:
        return
    for offset in range(count):
        if offset in used:
            continue
        for byte in range(0, size, unit):
            number = (offset * size + byte) // unit
            part = moved(output.at(unflat(number, output.sizes)), output.dtype)
            is_zero = is_equal(part.bits, 0)
            yield Claim(True, all_of(no(part.is_input), is_zero), (offset,))


def _part_claim(
    formula: GatherFormula, output: LazyTensor, place: Place, offset: Int, byte: int
) -> Claim:
    """Return that a part of an element of OutputTensor is that of its source.

    Args:
        formula: The formula.
        output: The output of the program.
        place: The coordinates of the element in OutputTensor.
        offset: Its offset in the array, in elements.
        byte: The first byte of the part in its element.
    """
    size = formula.desc.output_tensor.data_type.size
    unit = output.dtype.itemsize
    # A word has several elements, or an element several words or bytes.
    elements = max(1, unit // size)
    number = offset // elements * max(1, size // unit) + byte // unit
    within = offset % elements * size + byte % unit
    part = moved(output.at(unflat(number, output.sizes)), output.dtype)
    return part_claim(formula, place, part, unit, within, size, byte)


def _counted(
    program: WebnnProgram,
    formula: GatherFormula,
    values: dict[MLOperand, LazyTensor],
) -> Iterator[Claim]:
    """Yield that the second output is the number of indices out of range.

    It must be the sum of a column that has a 1 for each index out of range, else 0.
    """
    total = program.graph.outputs[OUTSIDE]
    sums = [step for step in program.graph.steps if step.result == total]
    is_sum = [step.method for step in sums] == ["reduceSum"]
    ensure(is_sum, "an output Outside that is no reduceSum")
    column = values[sums[0].operands[0]]
    tensor = formula.desc.indices_tensor
    if column.sizes != (size_of(tensor.sizes), 1):
        yield Claim(True, False)
        return
    for place in places_of(tensor.sizes):
        number = flat(place, tensor.sizes)
        outside = formula.is_outside(place)
        wanted = terms.choose(outside, 1, 0)
        yield Claim(True, is_equal(unrounded(column.at((number, 0))), wanted))
