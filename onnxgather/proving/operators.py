"""What each operator of ONNX computes, one row each, from ONNX's specification.

Where providers were measured to do less than the specification says, so does the row. A
certificate is undecided where an operator is not in the table, or where its row does
not know what the operator does.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from msgspec.structs import replace

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model import quirks
from onnxgather.core.model.values import ValueType, name_of
from onnxgather.proving import tensors, terms
from onnxgather.proving.lemmas import DIGITS, LEMMAS
from onnxgather.proving.quirks import avoid
from onnxgather.proving.tensors import (
    Failure,
    Item,
    LazyTensor,
    NodeCall,
    Place,
    ensure,
    lazy,
)
from onnxgather.proving.terms import Int, Term, Truth
from onnxgather.proving.views import (
    axis_of,
    common_shape,
    concatenated,
    elementwise,
    expanded,
    instead,
    product,
    reshaped,
    viewed,
    wrapped_integer,
)

MOST_TURNS = 16
"""The most steps of a Scan whose body is walked for each; for more, the step is a
variable."""

MOST_SCATTERED = 2**20
"""The most elements of the data and the updates of a ScatterElements."""

Semantics = Callable[[NodeCall], LazyTensor | list[LazyTensor]]
"""A row of the table: the outputs of a node."""


# Elements


def _largest_exact(dtype: np.dtype[Any]) -> int:
    """Return the integer up to which floats hold every integer."""
    _, digits = DIGITS[dtype.name]
    return 2**digits


def _rely(node: NodeCall, lemma: str, dtype: np.dtype[Any], *values: Int) -> None:
    """Note a lemma about floats, which holds where floats hold the integers.

    Raises:
        UndecidedError: The floats may not hold them, or there is no such lemma.
    """
    limit = _largest_exact(dtype)
    magnitudes = [max(-terms.lowest(value), terms.highest(value)) for value in values]
    holds = max(magnitudes) <= limit
    if lemma in ("clip", "order", "equal"):
        # One number strictly inside is enough: rounding moves no other number past it.
        holds = holds or min(magnitudes) <= limit - 1
    ensure(holds, f"{dtype} of integers beyond {limit:,}")
    name = f"{lemma} {dtype}"
    ensure(name in LEMMAS, f"the {name}, which no lemma tells")
    node.run.lemmas.add(name)


# Elementwise operators


def _fold(
    node: NodeCall,
    compute: Callable[[Any, Any], Int],
    lemma: str = "",
    result: Any = None,
    inputs: Sequence[LazyTensor] = (),
) -> LazyTensor:
    """Return what is computed of the elements of tensors of one type, two at a time.

    Args:
        node: The node.
        compute: Makes an integer of two, or a truth.
        lemma: What floats rely on; without a lemma there are no floats.
        result: The type of the result, that of the inputs if None.
        inputs: The tensors; those of the node if there are none.
    """
    inputs = inputs or node.tensors
    name = node.operation.operator
    dtype = inputs[0].dtype
    is_one_type = all(tensor.dtype == dtype for tensor in inputs)
    ensure(is_one_type, f"{name} of several types")
    ensure(lemma or dtype.kind != "f", f"{name} of {dtype}")
    ensure(node.attribute("broadcast") is None, f"{name} as before opset 7")
    result_dtype = np.dtype(result or dtype)

    def step(first: Int, second: Int) -> Int:
        value = compute(first, second)
        if dtype.kind == "f":
            # A Min or a Max that is always the same input relies on nothing.
            is_input = lemma == "clip" and value in (first, second)
            if not is_input:
                _rely(node, lemma, dtype, first, second)
        if result_dtype.kind in "bf":
            return value
        return wrapped_integer(value, result_dtype)

    def element(first: Item, *others: Item) -> Item:
        value = tensors.unrounded(first)
        for item in others:
            value = step(value, tensors.unrounded(item))
        return tensors.Rounded(value) if result_dtype.kind == "f" else value

    return elementwise(result_dtype, element, inputs)


def _compare(compute: Callable[[Int, Int], Truth]) -> Semantics:
    """Return the row of an operator that compares two numbers."""
    return partial(_fold, compute=compute, lemma="order", result=bool)


def _equal(node: NodeCall) -> LazyTensor:
    """Return Equal, of numbers or of truths."""
    compute = terms.agree if node[0].dtype.kind == "b" else terms.is_equal
    return _fold(node, compute, "equal", bool)


def _of_truths(compute: Callable[..., Truth]) -> Semantics:
    """Return the row of an operator of truths."""
    return partial(_fold, compute=compute, result=bool)


def _division(compute: Callable[[Int, int], Int]) -> Semantics:
    """Return the row of a division by constants (`quirks.DIVISION_THAT_STOPS`)."""

    def divided(first: Int, second: Int) -> Int:
        divisor = tensors.known_integer(second, "a divisor")
        return compute(first, divisor)

    def row(node: NodeCall) -> LazyTensor:
        ensure(not node.attribute("fmod", 0), "Mod with fmod")
        is_safe = {0, -1}.isdisjoint(node[1].numbers())
        avoid(quirks.DIVISION_THAT_STOPS, not is_safe)
        return _fold(node, divided)

    return row


def _quotient(node: NodeCall) -> LazyTensor | list[LazyTensor]:
    """Return Div, but for a Div of 1 (`quirks.QUOTIENT_OF_ONE`)."""
    data = node[0]
    first: Int = 0
    if all(size == 1 for size in data.shape):
        origin = (0,) * len(data.shape)
        first = tensors.unrounded(data.at(origin))
    avoid(quirks.QUOTIENT_OF_ONE, not isinstance(first, Term) and first == 1)
    return _division(_divided)(node)


def _divided(value: Int, divisor: int) -> Int:
    """Return an integer divided towards 0."""
    size = abs(divisor)
    quotient = terms.choose(value < 0, -(-value // size), value // size)
    return quotient if divisor > 0 else -quotient


def _modulo(value: Int, divisor: int) -> Int:
    """Return the remainder, which has the sign of the divisor."""
    if divisor > 0:
        return value % divisor
    return -(-value % -divisor)


def _limited(
    node: NodeCall, compute: Callable[[Int, Int], Int], inputs: Sequence[LazyTensor]
) -> LazyTensor:
    """Return a Min or a Max (`quirks.LOW_HALVES_AS_SIGNED`)."""
    run = node.run

    def of_int64(first: Int, second: Int) -> Int:
        # Case 1: both orders are the same.
        if _fits_int32(first) and _fits_int32(second):
            return compute(first, second)
        # Case 2: the order of a newer version.
        run.quirks.add(quirks.LOW_HALVES_AS_SIGNED)
        if not run.low_halves:
            return compute(first, second)
        # Case 3: that of an older one.
        is_less = _ordered(first) < _ordered(second)
        if compute is terms.smaller_of:
            return terms.choose(is_less, first, second)
        return terms.choose(is_less, second, first)

    is_int64 = inputs[0].dtype == np.int64
    return _fold(node, of_int64 if is_int64 else compute, "clip", inputs=inputs)


def _fits_int32(value: Int) -> bool:
    return terms.lowest(value) >= -(2**31) and terms.highest(value) < 2**31


def _ordered(value: Int) -> Int:
    """Return an integer whose order is that of `quirks.LOW_HALVES_AS_SIGNED`."""
    high_half = value // 2**32 * 2**32
    signed_low_half = (value + 2**31) % 2**32
    return high_half + signed_low_half


def _clip(node: NodeCall) -> LazyTensor:
    """Return Clip: a maximum, then a minimum."""
    data = node[0]
    is_old = bool(node.operation.attributes)
    ensure(not is_old, "a Clip with attributes, as before opset 11")
    ensure(data.dtype.kind in "iuf", f"a Clip of {data.dtype}")
    info = np.finfo(data.dtype) if data.dtype.kind == "f" else np.iinfo(data.dtype)
    raised = _limited(node, terms.larger_of, [data, _clip_bound(node, 1, info.min)])
    bound = _clip_bound(node, 2, info.max)
    return _limited(node, terms.smaller_of, [raised, bound])


def _clip_bound(node: NodeCall, number: int, default: Any) -> LazyTensor:
    """Return a bound of a Clip, an end of the data type where it is left out."""
    bound = node.get(number)
    if bound is None:
        bound = tensors.constant_tensor(np.array(default, node[0].dtype))
    ensure(bound.shape == (), "a Clip with bounds of several elements")
    return bound


def _alone(compute: Callable[[Int], Int], result: Any = None) -> Semantics:
    """Return the row of an operator of one integer or truth."""

    def row(node: NodeCall) -> LazyTensor:
        # A fold needs two inputs; the second is not looked at.
        both = [node[0], node[0]]
        return _fold(node, lambda value, _: compute(value), result=result, inputs=both)

    return row


def _where(node: NodeCall) -> LazyTensor:
    """Return Where (`quirks.WHERE_OF_FLOATS`)."""
    dtype = node[1].dtype
    ensure(node[2].dtype == dtype, "Where of several types")

    def compute(truth: Item, first: Item, second: Item) -> Item:
        item = tensors.chosen(tensors.unrounded(truth), first, second, dtype)
        is_data = isinstance(item, tensors.Moved) and dtype.kind == "f"
        avoid(quirks.WHERE_OF_FLOATS, is_data)
        return item

    return elementwise(dtype, compute, [node[0], node[1], node[2]])


def _cast(node: NodeCall) -> LazyTensor:
    """Return Cast, but for sizes that it changes (`quirks.CAST_OF_SIZES`)."""
    data = node[0]
    before = data.dtype
    after = ValueType(name_of(node.attribute("to"))).dtype
    if after is None or not tensors.is_known(after):
        raise tensors.UndecidedError(f"a Cast from {before} to another type")

    def element(place: Place) -> Item:
        item = data.at(place)
        result = _cast_item(node, item, before, after)
        # A size is an integer that is known, in one dimension or none.
        if isinstance(item, int | tensors.Rounded) and len(data.shape) <= 1:
            value = tensors.unrounded(item)
            is_kept = isinstance(value, Term) or value == tensors.unrounded(result)
            avoid(quirks.CAST_OF_SIZES, not is_kept)
        return result

    return lazy(after, data.shape, element)


def _cast_item(
    node: NodeCall, item: Item, before: np.dtype[Any], after: np.dtype[Any]
) -> Item:
    """Return an element in another data type."""
    if before == after:  # elements of InputTensor pass this Cast alone
        return item
    value = tensors.unrounded(item)
    if before.kind == "b":
        value = terms.choose(value, 1, 0)
    if isinstance(value, Term) and _may_be_beyond(value, before, after):
        return _cast_beyond(node, value)
    if before.kind == "f":
        _rely(node, "exact", before, value)
        if after.kind == "f":
            _rely(node, "exact", after, value)
        if after.kind in "iu":
            is_held = wrapped_integer(value, after) == value
            ensure(is_held, f"a Cast of {before} to {after} that need not hold it")

    if after.kind == "f":
        return tensors.Rounded(value)
    if after.kind == "b":
        is_zero = terms.is_equal(value, 0)
        return terms.no(is_zero)
    return wrapped_integer(value, after)


def _may_be_beyond(value: Term, before: np.dtype[Any], after: np.dtype[Any]) -> bool:
    """Return whether `_cast_beyond` says what becomes of a value.

    That is so for a FLOAT32 of an integer that it may not hold, but whose type the
    FLOAT32 does not leave.
    """
    if before != np.float32 or after.name not in ("int32", "int64"):
        return False
    magnitude = max(-value.low, value.high)
    if magnitude <= _largest_exact(before):
        return False
    return value.low >= -(2**31) and value.high < 2**31 - 64


def _cast_beyond(node: NodeCall, value: Term) -> Int:
    """Return what a Cast makes of the FLOAT32 of an integer.

    It is the integer where FLOAT32 holds it, else any integer beyond the limit.
    """
    limit = _largest_exact(np.dtype(np.float32))
    node.run.lemmas |= {"exact float32", "beyond float32"}
    above = terms.variable(f"above{value.number}", limit, 2**31 - 1)
    below = terms.variable(f"below{value.number}", -(2**31), -limit)
    is_below = value < -limit
    at_least = terms.choose(limit < value, above, value)
    return terms.choose(is_below, below, at_least)


# Shapes


def _axes(numbers: Iterable[int] | None, rank: int) -> list[int]:
    """Return the numbers of axes counted from the first, all axes if None."""
    if numbers is None:
        numbers = range(rank)
    axes = [axis_of(number, rank) for number in numbers]
    ensure(len({*axes}) == len(axes), "an axis that is named twice")
    return axes


def _reshape(node: NodeCall) -> LazyTensor:
    """Return Reshape."""
    sizes = node[0].sizes
    wanted = node.numbers(1, "shape") or []
    name = f"a Reshape of {[*sizes]} to {wanted}"
    if not node.attribute("allowzero", 0):
        ensure(0 not in wanted[len(sizes) :], name)
        wanted = [size or sizes[axis] for axis, size in enumerate(wanted)]
    if -1 in wanted:
        others = -math.prod(wanted)
        ensure(others > 0, name)
        wanted[wanted.index(-1)] = math.prod(sizes) // others
    ensure(min(wanted, default=0) >= 0, name)
    return reshaped(node[0], wanted)


def _squeeze(node: NodeCall) -> LazyTensor:
    """Return Squeeze."""
    sizes = node[0].sizes
    named = node.numbers(1, "axes")
    avoid(quirks.SQUEEZE_OF_NO_AXES, named == [])
    single = [axis for axis, size in enumerate(sizes) if size == 1]
    dropped = single if named is None else _axes(named, len(sizes))
    ensure({*dropped} <= {*single}, "a Squeeze of sizes other than 1")
    kept = [size for axis, size in enumerate(sizes) if axis not in dropped]
    return reshaped(node[0], kept)


def _unsqueeze(node: NodeCall) -> LazyTensor:
    """Return Unsqueeze."""
    shape = [*node[0].sizes]
    named = node.numbers(1, "axes") or []
    for axis in sorted(_axes(named, len(shape) + len(named))):
        shape.insert(axis, 1)
    return reshaped(node[0], shape)


def _transpose(node: NodeCall) -> LazyTensor:
    """Return Transpose."""
    data = node[0]
    every = range(len(data.shape))
    order: list[int] = [*node.attribute("perm", every[::-1])]
    ensure(sorted(order) == [*every], "a Transpose that is no permutation")
    inverse = [order.index(axis) for axis in every]
    shape = [data.shape[axis] for axis in order]
    return viewed(data, shape, lambda place: tuple(place[axis] for axis in inverse))


def _expand(node: NodeCall) -> LazyTensor:
    """Return Expand."""
    wanted = node[1]
    sizes = [tensors.unrounded(wanted.at(place)) for place in wanted.coordinates()]
    is_usual = all(terms.lowest(size) >= 0 for size in sizes)
    ensure(is_usual, f"Expand with the sizes {sizes}")
    return expanded(node[0], common_shape([node[0].shape, sizes]))


def _shape_of(node: NodeCall) -> LazyTensor:
    """Return Shape."""
    start = node.attribute("start", 0)
    end = node.attribute("end")
    sizes = node[0].shape[start:end]

    def element(place: Place) -> Item:
        number = tensors.known_integer(place[0], "a place")
        return sizes[number]

    return lazy(np.int64, [len(sizes)], element)


def _size_of(node: NodeCall) -> LazyTensor:
    """Return Size."""
    count = node[0].size
    return lazy(np.int64, (), lambda _: count)


def _concat(node: NodeCall) -> LazyTensor:
    """Return Concat."""
    return concatenated(node.tensors, node.attribute("axis", 1))


def _slice(node: NodeCall) -> LazyTensor:
    """Return Slice."""
    picked = [range(size) for size in node[0].sizes]
    starts = node.numbers(1, "starts") or []
    ends = node.numbers(2, "ends") or []
    named = node.numbers(3, "axes")
    steps = node.numbers(4, "steps") or [1] * len(starts)
    axes = _axes(range(len(starts)) if named is None else named, len(picked))
    lengths = {len(axes), len(starts), len(ends), len(steps)}
    ensure(picked and len(lengths) == 1, "a Slice of other lengths")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        every = picked[axis]
        is_usual = _is_usual_slice(start, end, step, len(every))
        avoid(quirks.SLICE_BACKWARDS, not is_usual)
        picked[axis] = every[start:end:step]

    def source(place: Place) -> Place:
        pairs = zip(picked, place, strict=True)
        return tuple(numbers.start + at * numbers.step for numbers, at in pairs)

    return viewed(node[0], [len(numbers) for numbers in picked], source)


def _is_usual_slice(start: int, end: int, step: int, size: int) -> bool:
    """Return whether ONNX Runtime slices an axis as Python does."""
    if step >= 0:
        return step > 0
    # Backwards ONNX starts at 0 where Python starts nowhere; for the end see
    # `quirks.SLICE_BACKWARDS`.
    return size > 0 and start >= -size and end < 2**31 - 1


def _scatter(node: NodeCall) -> LazyTensor:
    """Return ScatterElements whose indices are constants, none of them twice."""
    data = node[0]
    indices = node[1]
    updates = node[2]
    count = data.size + updates.size
    ensure(count <= MOST_SCATTERED, "a ScatterElements of many elements")

    # Each element of the output is that with a number in data and updates, joined.
    numbers = np.arange(data.size).reshape(data.sizes)
    update_numbers = np.arange(data.size, count).reshape(updates.sizes)
    places = [*np.indices(indices.sizes)]
    axis = axis_of(node.attribute("axis", 0), len(places))
    places[axis] = np.array(indices.numbers(), np.int64).reshape(indices.sizes)
    is_usual = (
        len(indices.shape) == numbers.ndim
        and indices.shape == updates.shape
        and node.attribute("reduction", "none") == "none"
        and _are_in_range(places, numbers.shape)
    )
    rule = "ScatterElements out of range, of other sizes, or with a reduction"
    ensure(is_usual, rule)
    numbers[tuple(places)] = update_numbers
    is_once = np.isin(update_numbers, numbers).all()
    ensure(is_once, "ScatterElements twice to one place")

    flat_tensors = [reshaped(tensor, [tensor.size]) for tensor in (data, updates)]
    flat_whole = concatenated(flat_tensors, 0)
    number_tensor = tensors.constant_tensor(numbers)

    def element(place: Place) -> Item:
        number = tensors.unrounded(number_tensor.at(place))
        return flat_whole.at((number,))

    return lazy(data.dtype, numbers.shape, element)


def _are_in_range(places: Sequence[Array], sizes: Sequence[int]) -> bool:
    """Return whether all coordinates of each axis are in range."""
    for positions, size in zip(places, sizes, strict=True):
        is_in_range = (-size <= positions) & (positions < size)
        if not is_in_range.all():
            return False
    return True


def _filled(node: NodeCall) -> LazyTensor:
    """Return ConstantOfShape."""
    value: Array = node.attribute("value", np.zeros(1, np.float32))
    ensure(value.size == 1, "a ConstantOfShape of several values")
    scalar = tensors.constant_tensor(value.reshape(()))
    return expanded(scalar, node.wanted_sizes(0))


def _reduce_sum(node: NodeCall) -> LazyTensor:
    """Return ReduceSum (`quirks.SUM_IN_FLOATS`)."""
    data = node[0]
    sizes = data.sizes
    dtype = data.dtype
    named = node.numbers(1, "axes")
    is_usual = dtype.kind in "iu" and dtype.itemsize >= 4 and 0 not in sizes
    ensure(is_usual, f"a ReduceSum of {dtype} {[*sizes]}")
    if not named and node.attribute("noop_with_empty_axes", 0):
        return data
    axes = _axes(named or None, len(sizes))
    keeps = node.attribute("keepdims", 1)
    kept = [axis for axis in range(len(sizes)) if keeps or axis not in axes]
    count = math.prod(sizes[axis] for axis in axes)
    ensure(count <= tensors.MOST_ELEMENTS, f"a ReduceSum of {count:,} elements")
    float_dtype = np.dtype(f"f{dtype.itemsize}")

    def element(place: Place) -> Item:
        kept_at = dict(zip(kept, place, strict=True))
        positions: list[Iterable[Int]] = []
        for axis, size in enumerate(sizes):
            positions.append(range(size) if axis in axes else [kept_at[axis]])
        summed = itertools.product(*positions)
        numbers = [tensors.unrounded(data.at(source)) for source in summed]
        # No partial sum is beyond the sum of the magnitudes.
        largest = sum(terms.larger_of(number, -number) for number in numbers)
        _rely(node, "exact", float_dtype, largest)
        return sum(numbers)

    shape = [1 if axis in axes else sizes[axis] for axis in kept]
    return lazy(dtype, shape, element)


def _range_of(node: NodeCall) -> LazyTensor:
    """Return Range of constants."""
    inputs = node.tensors
    is_usual = not any(tensor.shape for tensor in inputs)
    ensure(is_usual, "a Range of several numbers")
    what = "an end of a Range"
    numbers = [tensors.known_integer(tensor.at(()), what) for tensor in inputs]
    start, limit, delta = numbers
    ensure(delta, "a Range with the step 0")
    avoid(quirks.GATHER_OF_RANGE, min(start, limit) < 0)
    count = len(range(start, limit, delta))
    return lazy(node[0].dtype, [count], lambda place: place[0] * delta + start)


# Gathers


def _indexed(
    node: NodeCall,
    indices: Sequence[LazyTensor],
    axis: int,
    shape: Sequence[Int],
    split: Callable[[Place], tuple[Place, Place]],
    lowest: int = -1,
) -> LazyTensor:
    """Return data at indices, which count from the end where negative.

    The node fails where an index is out of range; some coordinate in range stands for
    it then.

    Args:
        node: The node, whose first input is the data.
        indices: For each indexed dimension of the data, its indices.
        axis: The first dimension that is indexed.
        shape: The shape of the output.
        split: The coordinates in the indices, and those in the data that are not
            indexed.
        lowest: The lowest index, in sizes of the dimension.
    """
    data = node[0]
    sizes = data.shape[axis : axis + len(indices)]
    is_usual = 0 not in data.shape and len(sizes) == len(indices) > 0
    ensure(is_usual, "a gather from other sizes")

    def source(place: Place) -> Place:
        index_place, others = split(place)
        coordinates: list[Int] = []
        for tensor, size in zip(indices, sizes, strict=True):
            index = tensors.unrounded(tensor.at(index_place))
            coordinates.append(_in_range(index, size))
        return (*others[:axis], *coordinates, *others[axis:])

    for tensor, size in zip(indices, sizes, strict=True):
        is_outside = partial(_is_outside, size, lowest)
        truths = elementwise(bool, is_outside, [tensor])
        node.run.failures.append(Failure(truths, node.reaches_output))
    return viewed(data, shape, source)


def _is_outside(size: Int, lowest: int, item: Item) -> Truth:
    """Return whether an index is out of range."""
    index = tensors.unrounded(item)
    is_below = index < size * lowest
    is_beyond = terms.no(index < size)
    return terms.any_of(is_below, is_beyond)


def _in_range(index: Int, size: Int) -> Int:
    """Return the coordinate of an index; the nearest where it is out of range."""
    counted = terms.choose(index < 0, index + size, index)
    return terms.larger_of(0, terms.smaller_of(counted, size - 1))


def _gather(node: NodeCall) -> LazyTensor:
    """Return Gather."""
    data = node[0]
    indices = node[1]
    axis = axis_of(node.attribute("axis", 0), len(data.shape))
    end = axis + len(indices.shape)
    shape = instead(data.shape, axis, *indices.shape)

    def split(place: Place) -> tuple[Place, Place]:
        return place[axis:end], place[:axis] + place[end:]

    return _indexed(node, [indices], axis, shape, split)


def _gather_elements(node: NodeCall) -> LazyTensor:
    """Return GatherElements."""
    data = node[0]
    indices = node[1]
    shape = indices.shape
    axis = axis_of(node.attribute("axis", 0), len(data.shape))
    ensure(len(shape) == len(data.shape), "GatherElements of other dimensions")
    pairs = zip(instead(shape, axis), instead(data.shape, axis), strict=True)
    is_inside = all(terms.highest(ours - theirs) <= 0 for ours, theirs in pairs)
    ensure(is_inside, "indices that are larger than data")

    def split(place: Place) -> tuple[Place, Place]:
        return place, instead(place, axis)

    return _indexed(node, [indices], axis, shape, split)


def _gather_nd(node: NodeCall) -> LazyTensor:
    """Return GatherND."""
    data = node[0]
    indices = node[1]
    batches = node.attribute("batch_dims", 0)
    ensure(indices.shape, "a GatherND of a scalar")
    outer = indices.shape[:-1]
    length = tensors.known_integer(indices.shape[-1], "a length")
    ensure(data.shape[:batches] == outer[:batches], "a GatherND of other sizes")
    by_dimension = [_at_last(indices, number) for number in range(length)]
    shape = (*outer, *data.shape[batches + length :])
    end = len(outer)

    def split(place: Place) -> tuple[Place, Place]:
        return place[:end], place[:batches] + place[end:]

    return _indexed(node, by_dimension, batches, shape, split)


def _at_last(tensor: LazyTensor, number: int) -> LazyTensor:
    """Return the elements of a tensor with one coordinate on the last axis."""
    return viewed(tensor, tensor.shape[:-1], lambda place: (*place, number))


def _array_feature_extractor(node: NodeCall) -> LazyTensor:
    """Return ArrayFeatureExtractor.

    The last coordinate is an index, which must not be negative.
    """
    data = node[0]
    indices = reshaped(node[1], [node[1].size])
    last = len(data.shape) - 1
    leading = data.shape[:-1] or (1,)
    shape = (*leading, *indices.shape)

    def split(place: Place) -> tuple[Place, Place]:
        return place[-1:], place[:last]

    return _indexed(node, [indices], last, shape, split, 0)


# Bodies


def _scan(node: NodeCall) -> list[LazyTensor]:
    """Return the outputs of a Scan without states: its body once for each slice."""
    body = node.operation.bodies["body"]
    parts = node.tensors
    axes = _scan_axes(node, parts)
    steps = parts[0].shape[axes[0]]
    ensure(terms.lowest(steps) > 0, "a Scan of no steps")
    for part, axis in zip(parts, axes, strict=True):
        ensure(part.shape[axis] - steps == 0, "a Scan of other lengths")

    @cache
    def step_at(step: Int) -> tuple[list[LazyTensor], list[Failure]]:
        outer = node.run
        run = replace(outer, failures=[])
        slices: list[LazyTensor] = []
        for part, axis in zip(parts, axes, strict=True):
            slices.append(_slice_at(part, axis, step))
        return node.walk(body, slices, run), run.failures

    def run_at(step: Int) -> list[LazyTensor]:
        outputs, failures = step_at(step)
        return [*outputs, *(failure.truths for failure in failures)]

    first_results = run_at(0)
    _, first_failures = step_at(0)
    shapes = [result.shape for result in first_results]
    # What the body computes of its inputs may be sizes, or a divisor.
    last = terms.highest(steps) - 1
    looked_at: Iterable[Int] = range(last + 1)
    if last >= MOST_TURNS:
        looked_at = [terms.variable("step", 0, last)]
    for step in looked_at:
        is_same = [result.shape for result in run_at(step)] == shapes
        ensure(is_same, "a Scan whose values have other sizes in other steps")

    def stacked(number: int, first: LazyTensor) -> LazyTensor:
        def element(place: Place) -> Item:
            return run_at(place[0])[number].at(place[1:])

        return lazy(first.dtype, (steps, *first.shape), element)

    results = [stacked(number, first) for number, first in enumerate(first_results)]
    count = len(body.outputs)
    for truths, failure in zip(results[count:], first_failures, strict=True):
        node.run.failures.append(Failure(truths, failure.is_certain))
    return results[:count]


def _scan_axes(node: NodeCall, parts: Sequence[LazyTensor]) -> list[int]:
    """Return the axis of each input that a Scan cuts.

    Raises:
        UndecidedError: The Scan has states, or goes another way than forward.
    """
    count = len(parts)
    is_usual = node.attribute("num_scan_inputs") == count > 0 and node.version >= 9
    ensure(is_usual, "a Scan with states")
    for name in ("scan_input_directions", "scan_output_directions", "scan_output_axes"):
        length = count if "input" in name else len(node.operation.outputs)
        usual = (0,) * length
        ensure(tuple(node.attribute(name, usual)) == usual, f"a Scan with {name}")
    axes = node.attribute("scan_input_axes", (0,) * count)
    ensure(len(axes) == count, "a Scan with other scan_input_axes")
    pairs = zip(axes, parts, strict=True)
    return [axis_of(axis, len(part.shape)) for axis, part in pairs]


def _slice_at(tensor: LazyTensor, axis: int, step: Int) -> LazyTensor:
    """Return the elements of a tensor with one coordinate on an axis."""

    def source(place: Place) -> Place:
        return (*place[:axis], step, *place[axis:])

    return viewed(tensor, instead(tensor.shape, axis), source)


# The table


def _is_at_least(first: Int, second: Int) -> Truth:
    return terms.no(first < second)


def _is_at_most(first: Int, second: Int) -> Truth:
    return terms.no(second < first)


_ROWS: Mapping[str, Semantics] = {
    "Abs": _alone(lambda value: terms.larger_of(value, -value)),
    "Add": lambda node: _fold(node, operator.add),
    "And": _of_truths(terms.all_of),
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _filled,
    "Div": _quotient,
    "Equal": _equal,
    "Expand": _expand,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Greater": _compare(operator.gt),
    "GreaterOrEqual": _compare(_is_at_least),
    "Identity": lambda node: node[0],
    "Less": _compare(operator.lt),
    "LessOrEqual": _compare(_is_at_most),
    "Max": lambda node: _limited(node, terms.larger_of, node.tensors),
    "Min": lambda node: _limited(node, terms.smaller_of, node.tensors),
    "Mod": _division(_modulo),
    "Mul": lambda node: _fold(node, product),
    "Neg": _alone(operator.neg),
    "Not": _alone(terms.no, bool),
    "Or": _of_truths(terms.any_of),
    "Range": _range_of,
    "ReduceSum": _reduce_sum,
    "Reshape": _reshape,
    "Scan": _scan,
    "ScatterElements": _scatter,
    "Shape": _shape_of,
    "Size": _size_of,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Sub": lambda node: _fold(node, operator.sub),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
"""Each operator of ONNX's own domain, by its name."""

TABLE = {("", name): row for name, row in _ROWS.items()}
"""Each operator, by its domain and name."""

TABLE["ai.onnx.ml", "ArrayFeatureExtractor"] = _array_feature_extractor
