"""What each operator of ONNX computes, one row each, from ONNX's specification.

Where providers were measured to do less than the specification says, so does the row.
An operator that is not in the table, or of which a row does not know what it does,
makes a certificate undecided.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.values import ValueType, name_of
from onnxgather.proving import tensors, terms
from onnxgather.proving.lemmas import DIGITS, LEMMAS
from onnxgather.proving.tensors import Item, LazyTensor, NodeCall, Place, ensure, lazy
from onnxgather.proving.terms import Int, Term, Truth

MOST_TURNS = 16
"""The most steps of a Scan whose body is walked for each; for more, the step is a
variable."""

Semantics = Callable[[NodeCall], LazyTensor | list[LazyTensor]]


def _largest_exact(dtype: np.dtype[Any]) -> int:
    """The integer up to which floats hold every integer."""
    return 2 ** DIGITS[dtype.name][1]


# Elements


def _wrapped(value: Int, dtype: np.dtype[Any]) -> Int:
    info = np.iinfo(dtype)
    return terms.in_twos_complement(value, int(info.min), int(info.max))


def _rely(node: NodeCall, lemma: str, dtype: np.dtype[Any], *values: Int) -> None:
    """Take down a lemma about floats, which holds where floats hold the integers."""
    most = _largest_exact(dtype)
    ends = [max(-terms.lowest(value), terms.highest(value)) for value in values]
    holds = max(ends) <= most
    if lemma in ("clip", "order", "equal"):
        holds = holds or min(ends) <= most - 1
    ensure(holds, f"{dtype} of integers beyond {most:,}")
    name = f"{lemma} {dtype}"
    ensure(name in LEMMAS, f"the {name}, which no lemma tells")
    node.run.lemmas.add(name)


# Elementwise operators


def _view(
    tensor: LazyTensor, shape: Sequence[Int], place: Callable[[Place], Place]
) -> LazyTensor:
    """A tensor whose elements are those of another one at other coordinates."""
    return lazy(tensor.dtype, shape, lambda at: tensor.at(place(at)))


def _expanded(tensor: LazyTensor, shape: Sequence[Int]) -> LazyTensor:
    """A tensor in a shape that it broadcasts to."""
    first = len(shape) - len(tensor.shape)

    def place(at: Place) -> Place:
        pairs = zip(tensor.shape, at[first:], strict=True)
        return tuple(0 if size == 1 else own for size, own in pairs)

    return _view(tensor, shape, place)


def _common(shapes: Sequence[Sequence[Int]]) -> list[Int]:
    """The shape that others broadcast to."""
    common = list[Int]()
    for sizes in itertools.zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1):
        larger = [size for size in sizes if size != 1] or [1]
        ensure(
            all(size - larger[0] == 0 for size in larger), "sizes that do not broadcast"
        )
        common.insert(0, larger[0])
    return common


def _each(
    dtype: Any, compute: Callable[..., Item], inputs: Sequence[LazyTensor]
) -> LazyTensor:
    """What is computed of the elements of tensors that broadcast."""
    shape = _common([one.shape for one in inputs])
    own = [_expanded(one, shape) for one in inputs]
    return lazy(dtype, shape, lambda at: compute(*(one.at(at) for one in own)))


def _fold(
    node: NodeCall,
    compute: Callable[[Any, Any], Int],
    lemma: str = "",
    result: Any = None,
    inputs: Sequence[LazyTensor] = (),
) -> LazyTensor:
    """What is computed of the elements of tensors of one type, two at a time.

    Args:
        node: The node.
        compute: Makes an integer of two, or a truth.
        lemma: What floats rely on; without one there are no floats.
        result: The type of the result, that of the inputs if None.
        inputs: The tensors; those of the node if there are none.
    """
    inputs = inputs or node.tensors
    dtype = inputs[0].dtype
    made = np.dtype(result or dtype)
    name = node.operation.operator
    ensure(all(one.dtype == dtype for one in inputs), f"{name} of several types")
    ensure(lemma or dtype.kind != "f", f"{name} of {dtype}")
    ensure(node.attribute("broadcast") is None, f"{name} as before opset 7")

    def step(first: Int, second: Int) -> Int:
        found = compute(first, second)
        if dtype.kind == "f" and (lemma != "clip" or found not in (first, second)):
            _rely(node, lemma, dtype, first, second)
        return found if made.kind in "bf" else _wrapped(found, made)

    def folded(*items: Item) -> Item:
        found = reduce(step, map(tensors.unrounded, items))
        return tensors.Rounded(found) if made.kind == "f" else found

    return _each(made, folded, inputs)


def _compare(lemma: str, compute: Callable[[Int, Int], Truth]) -> Semantics:
    return lambda node: _fold(node, compute, lemma, bool)


def _equal(node: NodeCall) -> LazyTensor:
    is_truth = node[0].dtype.kind == "b"
    return _fold(node, terms.agree if is_truth else terms.is_equal, "equal", bool)


def _of_truths(compute: Callable[..., Truth]) -> Semantics:
    return lambda node: _fold(node, compute, result=bool)


def _times(first: Int, second: Int) -> Int:
    """The product of two integers, one of them known."""
    value, factor = (first, second) if isinstance(first, Term) else (second, first)
    return value * tensors.known_integer(factor, "a factor")


def _division(compute: Callable[[Int, int], Int]) -> Semantics:
    """A division by constants: by 0 it stops the process, and so may one by -1.

    That holds for elements that nothing uses, too.
    """

    def of(node: NodeCall) -> LazyTensor:
        ensure(not node.attribute("fmod", 0), "Mod with fmod")
        ensure(
            {0, -1}.isdisjoint(node[1].numbers()),
            "a division that may stop the process",
        )
        return _fold(
            node, lambda a, b: compute(a, tensors.known_integer(b, "a divisor"))
        )

    return of


def _quotient(node: NodeCall) -> LazyTensor | list[LazyTensor]:
    """Div; of `1 / x * y` ONNX Runtime makes `y / x`, of integers too."""
    data = node[0]
    is_single = all(size == 1 for size in data.shape)
    first = tensors.unrounded(data.at((0,) * len(data.shape))) if is_single else 0
    rule = "a Div of 1, which ONNX Runtime may join with a Mul behind it"
    ensure(isinstance(first, Term) or first != 1, rule)
    return _division(_divided)(node)


def _divided(value: Int, divisor: int) -> Int:
    """An integer divided towards 0."""
    found = terms.choose(value < 0, -(-value // abs(divisor)), value // abs(divisor))
    return found if divisor > 0 else -found


def _modulo(value: Int, divisor: int) -> Int:
    """The remainder has the sign of the divisor."""
    return value % divisor if divisor > 0 else -(-value % -divisor)


def _limited(
    node: NodeCall, compute: Callable[[Int, Int], Int], inputs: Sequence[LazyTensor]
) -> LazyTensor:
    """A Min or Max."""

    def by_halves(first: Int, second: Int) -> Int:
        is_less = _ordered(first) < _ordered(second)
        ends = (first, second) if compute is terms.smaller_of else (second, first)
        return terms.choose(is_less, *ends)

    has_fault = node.run.low_halves and inputs[0].dtype == np.int64
    return _fold(node, by_halves if has_fault else compute, "clip", inputs=inputs)


def _ordered(value: Int) -> Int:
    """An integer whose order is the one of a fault: low halves count as signed integers."""
    return value // 2**32 * 2**32 + (value + 2**31) % 2**32


def _clip(node: NodeCall) -> LazyTensor:
    """Clip: a maximum, then a minimum."""
    data, is_old = node[0], bool(node.operation.attributes)
    ensure(not is_old, "a Clip with attributes, as before opset 11")
    ensure(data.dtype.kind in "iuf", f"a Clip of {data.dtype}")
    info = np.finfo(data.dtype) if data.dtype.kind == "f" else np.iinfo(data.dtype)
    rows = (info.min, terms.larger_of), (info.max, terms.smaller_of)
    for k, (end, compute) in enumerate(rows, 1):
        bound = node.get(k) or tensors.constant_tensor(np.array(end, data.dtype))
        ensure(bound.shape == (), "a Clip with bounds of several elements")
        data = _limited(node, compute, [data, bound])
    return data


def _alone(compute: Callable[[Int], Int], result: Any = None) -> Semantics:
    """An operator of one integer or truth."""
    return lambda node: _fold(
        node, lambda own, _: compute(own), result=result, inputs=[node[0]] * 2
    )


def _where(node: NodeCall) -> LazyTensor:
    """Where; the CPU provider changes -0.0 and NaNs, so floats of InputTensor must not pass."""
    dtype = node[1].dtype
    ensure(node[2].dtype == dtype, "Where of several types")

    def compute(truth: Item, first: Item, second: Item) -> Item:
        found = tensors.chosen(tensors.unrounded(truth), first, second, dtype)
        is_data = isinstance(found, tensors.Moved) and dtype.kind == "f"
        ensure(
            not is_data,
            "Where of floats, of which the CPU provider changes -0.0 and NaNs",
        )
        return found

    return _each(dtype, compute, [node[0], node[1], node[2]])


def _cast_beyond(node: NodeCall, value: Term) -> Int:
    """What a Cast makes of the FLOAT32 of an integer: the integer, if FLOAT32 holds it."""
    most = _largest_exact(np.dtype(np.float32))
    node.run.lemmas |= {"exact float32", "beyond float32"}
    above = terms.variable(f"above{value.number}", most, 2**31 - 1)
    below = terms.variable(f"below{value.number}", -(2**31), -most)
    return terms.choose(value < -most, below, terms.choose(most < value, above, value))


def _cast(node: NodeCall, after: np.dtype[Any] | None) -> LazyTensor:
    """Cast."""
    data, before = node[0], node[0].dtype
    if after is None or not tensors.is_known(after):
        raise tensors.UndecidedError(f"a Cast from {before} to another type")

    def at(place: Place) -> Item:
        item = data.at(place)
        if before == after:
            return item
        value = tensors.unrounded(item)
        if before.kind == "b":
            value = terms.choose(value, 1, 0)
        low, high = terms.lowest(value), terms.highest(value)
        is_beyond = before == np.float32 and max(-low, high) > _largest_exact(before)
        fits = (
            low >= -(2**31) and high < 2**31 - 64 and after.name in ("int32", "int64")
        )
        if is_beyond and fits and isinstance(value, Term):
            return _cast_beyond(node, value)
        if before.kind == "f":
            _rely(node, "exact", before, value)
            if after.kind == "f":
                _rely(node, "exact", after, value)
            if after.kind in "iu":
                is_held = _wrapped(value, after) == value
                ensure(is_held, f"a Cast of {before} to {after} that need not hold it")
        if after.kind == "f":
            return tensors.Rounded(value)
        return (
            terms.no(terms.is_equal(value, 0))
            if after.kind == "b"
            else _wrapped(value, after)
        )

    return lazy(after, data.shape, at)


# Shapes


def _axis(number: int, rank: int) -> int:
    ensure(-rank <= number < rank, f"the axis {number} of {rank} dimensions")
    return number % rank


def _axes(numbers: Sequence[int] | None, rank: int) -> list[int]:
    """The numbers of axes, all axes if None."""
    found = [*range(rank)] if numbers is None else [_axis(one, rank) for one in numbers]
    ensure(len({*found}) == len(found), "an axis that is named twice")
    return found


def _instead(at: Place, axis: int, *new: Int) -> Place:
    """Coordinates with others in the place of one."""
    return (*at[:axis], *new, *at[axis + 1 :])


def _reshaped(tensor: LazyTensor, shape: Sequence[int]) -> LazyTensor:
    sizes = tensor.sizes
    ensure(
        math.prod(shape) == math.prod(sizes), f"a Reshape of {[*sizes]} to {[*shape]}"
    )

    def place(at: Place) -> Place:
        own = [one for one, size in zip(at, shape, strict=True) if size != 1]
        if [n for n in shape if n != 1] != [n for n in sizes if n != 1]:
            return tensors.unflat(tensors.flat(at, shape), sizes)
        return tuple(0 if size == 1 else own.pop(0) for size in sizes)

    return _view(tensor, shape, place)


def _reshape(node: NodeCall) -> LazyTensor:
    """Reshape."""
    sizes, wanted = node[0].sizes, node.numbers(1, "shape") or []
    name = f"a Reshape of {[*sizes]} to {wanted}"
    if not node.attribute("allowzero", 0):
        ensure(0 not in wanted[len(sizes) :], name)
        wanted = [n or sizes[k] for k, n in enumerate(wanted)]
    if -1 in wanted:
        rest = -math.prod(wanted)
        ensure(rest > 0, name)
        wanted[wanted.index(-1)] = math.prod(sizes) // rest
    ensure(min(wanted, default=0) >= 0, name)
    return _reshaped(node[0], wanted)


def _squeeze(node: NodeCall) -> LazyTensor:
    """Squeeze."""
    sizes, named = node[0].sizes, node.numbers(1, "axes")
    ensure(
        named != [], "a Squeeze of no axes, of which the CPU provider makes one of all"
    )
    ones = [k for k, size in enumerate(sizes) if size == 1]
    dropped = ones if named is None else _axes(named, len(sizes))
    ensure({*dropped} <= {*ones}, "a Squeeze of sizes other than 1")
    return _reshaped(node[0], [n for k, n in enumerate(sizes) if k not in dropped])


def _unsqueeze(node: NodeCall) -> LazyTensor:
    """Unsqueeze."""
    shape, named = [*node[0].sizes], node.numbers(1, "axes") or []
    for axis in sorted(_axes(named, len(shape) + len(named))):
        shape.insert(axis, 1)
    return _reshaped(node[0], shape)


def _transpose(node: NodeCall) -> LazyTensor:
    """Transpose."""
    shape = node[0].shape
    order: list[int] = [*node.attribute("perm", range(len(shape))[::-1])]
    ensure(sorted(order) == [*range(len(shape))], "a Transpose that is no permutation")
    places = [order.index(k) for k in range(len(shape))]
    return _view(
        node[0], [shape[k] for k in order], lambda at: tuple(at[k] for k in places)
    )


def _expand(node: NodeCall) -> LazyTensor:
    """Expand."""
    sizes = [tensors.unrounded(node[1].at(at)) for at in node[1].coordinates()]
    ensure(
        all(terms.lowest(size) >= 0 for size in sizes), f"Expand with the sizes {sizes}"
    )
    return _expanded(node[0], _common([node[0].shape, sizes]))


def _shape_of(node: NodeCall) -> LazyTensor:
    """Shape."""
    sizes = node[0].shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return lazy(
        np.int64,
        [len(sizes)],
        lambda at: sizes[tensors.known_integer(at[0], "a place")],
    )


def _joined(parts: Sequence[LazyTensor], number: int) -> LazyTensor:
    """Tensors one after the other."""
    shape, axis = parts[0].shape, _axis(number, len(parts[0].shape))
    others = {(one.dtype, len(one.shape), _instead(one.shape, axis)) for one in parts}
    ensure(len(others) == 1, "tensors of other sizes or types one after the other")

    def at(place: Place, k: int = 0) -> Item:
        while True:
            size = parts[k].shape[axis]
            is_here = k == len(parts) - 1 or place[axis] < size
            if is_here is True:
                return parts[k].at(place)
            later = _instead(place, axis, place[axis] - size)
            if is_here is not False:
                return tensors.chosen(
                    is_here, parts[k].at(place), at(later, k + 1), parts[0].dtype
                )
            place, k = later, k + 1

    whole = sum(part.shape[axis] for part in parts)
    return lazy(parts[0].dtype, _instead(shape, axis, whole), at)


def _slice(node: NodeCall) -> LazyTensor:
    """Slice."""
    picked = [*map(range, node[0].sizes)]
    starts, ends = (
        node.numbers(k, name) or [] for k, name in ((1, "starts"), (2, "ends"))
    )
    named, steps = (
        node.numbers(3, "axes"),
        node.numbers(4, "steps") or [1] * len(starts),
    )
    axes = _axes(range(len(starts)) if named is None else named, len(picked))
    lengths = {len(axes), len(starts), len(ends), len(steps)}
    ensure(picked and len(lengths) == 1, "a Slice of other lengths")
    for k, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # Backwards ONNX starts at 0 where Python starts nowhere, and ONNX Runtime takes
        # the largest number of a type for the end that it goes to.
        is_usual = step > 0 or (
            step < 0 and start >= -len(picked[k]) < 0 and end < 2**31 - 1
        )
        ensure(
            is_usual,
            "a Slice with the step 0, or backwards from below 0 or to 2^31 - 1",
        )
        picked[k] = picked[k][start:end:step]

    def place(at: Place) -> Place:
        return tuple(
            one.start + own * one.step for one, own in zip(picked, at, strict=True)
        )

    return _view(node[0], [*map(len, picked)], place)


def _scatter(node: NodeCall) -> LazyTensor:
    """ScatterElements whose indices are constants, none of them twice."""
    data, indices, updates = node[0], node[1], node[2]
    ensure(data.size + updates.size <= 2**20, "a ScatterElements of many elements")
    moved = np.arange(data.size).reshape(data.sizes)
    own = np.arange(updates.size).reshape(updates.sizes) + moved.size
    is_usual = len(indices.shape) == moved.ndim and indices.shape == updates.shape
    is_usual = is_usual and node.attribute("reduction", "none") == "none"
    places = [*np.indices(indices.sizes)]
    axis = _axis(node.attribute("axis", 0), len(places))
    places[axis] = np.array(indices.numbers(), np.int64).reshape(indices.sizes)
    pairs = zip(places, moved.shape, strict=False)
    is_usual = is_usual and all(((-n <= at) & (at < n)).all() for at, n in pairs)
    ensure(
        is_usual, "ScatterElements out of range, of other sizes, or with a reduction"
    )
    moved[tuple(places)] = own
    ensure(np.isin(own, moved).all(), "ScatterElements twice to one place")
    both = _joined([_reshaped(one, [one.size]) for one in (data, updates)], 0)
    numbers = tensors.constant_tensor(moved)
    return lazy(
        data.dtype,
        moved.shape,
        lambda at: both.at((tensors.unrounded(numbers.at(at)),)),
    )


def _filled(node: NodeCall) -> LazyTensor:
    """ConstantOfShape."""
    value: Array = node.attribute("value", np.zeros(1, np.float32))
    ensure(value.size == 1, "a ConstantOfShape of several values")
    return _expanded(tensors.constant_tensor(value.reshape(())), node.wanted_sizes(0))


def _reduce_sum(node: NodeCall) -> LazyTensor:
    """ReduceSum, which the CPU provider computes in floats."""
    data, sizes, named = node[0], node[0].sizes, node.numbers(1, "axes")
    is_usual = data.dtype.kind in "iu" and data.dtype.itemsize >= 4 and 0 not in sizes
    ensure(is_usual, f"a ReduceSum of {data.dtype} {[*sizes]}")
    if not named and node.attribute("noop_with_empty_axes", 0):
        return data
    axes, keeps = _axes(named or None, len(sizes)), node.attribute("keepdims", 1)
    kept = [k for k in range(len(sizes)) if keeps or k not in axes]
    count = math.prod(sizes[k] for k in axes)
    ensure(count <= tensors.MOST_ELEMENTS, f"a ReduceSum of {count:,} elements")

    def at(place: Place) -> Item:
        own = dict(zip(kept, place, strict=True))
        inner = (range(n) if k in axes else [own[k]] for k, n in enumerate(sizes))
        numbers = [tensors.unrounded(data.at(one)) for one in itertools.product(*inner)]
        most = sum(terms.larger_of(one, -one) for one in numbers)
        _rely(node, "exact", np.dtype(f"f{data.dtype.itemsize}"), most)
        return sum(numbers)

    return lazy(data.dtype, [1 if k in axes else sizes[k] for k in kept], at)


def _range_of(node: NodeCall) -> LazyTensor:
    """Range of constants."""
    ensure(not any(one.shape for one in node.tensors), "a Range of several numbers")
    ends = (
        tensors.known_integer(one.at(()), "an end of a Range") for one in node.tensors
    )
    start, limit, delta = ends
    ensure(delta, "a Range with the step 0")
    # ONNX Runtime may make a Slice of it and a Gather, whose ends below 0 count from
    # the end.
    ensure(
        min(start, limit) >= 0,
        "a Range with an end below 0, of which may be made a Slice",
    )
    count = len(range(start, limit, delta))
    return lazy(node[0].dtype, [count], lambda at: at[0] * delta + start)


# Gathers


def _indexed(
    node: NodeCall,
    indices: Sequence[LazyTensor],
    axis: int,
    shape: Sequence[Int],
    cut: Callable[[Place], tuple[Place, Place]],
    lowest: int = -1,
) -> LazyTensor:
    """Data at indices, which count from the end where negative.

    The node fails where an index is out of range; some coordinate in range stands for
    it then.

    Args:
        node: The node, whose first input is the data.
        indices: For each indexed dimension of the data, its indices.
        axis: The first dimension that is indexed.
        shape: The shape of the output.
        cut: The coordinates in the indices, and those in the data that are not indexed.
        lowest: The lowest index, in sizes of the dimension.
    """
    data = node[0]
    sizes = data.shape[axis : axis + len(indices)]
    ensure(
        0 not in data.shape and len(sizes) == len(indices) > 0,
        "a gather from other sizes",
    )

    def is_outside(size: Int, item: Item) -> Truth:
        index = tensors.unrounded(item)
        return terms.any_of(index < size * lowest, terms.no(index < size))

    def counted(index: Int, size: Int) -> Int:
        raised = terms.choose(index < 0, index + size, index)
        return terms.larger_of(0, terms.smaller_of(raised, size - 1))

    def place(at: Place) -> Place:
        own, rest = cut(at)
        pairs = zip(indices, sizes, strict=True)
        found = [counted(tensors.unrounded(one.at(own)), size) for one, size in pairs]
        return (*rest[:axis], *found, *rest[axis:])

    pairs = zip(indices, sizes, strict=True)
    node.run.failures += [
        _each(bool, partial(is_outside, size), [one]) for one, size in pairs
    ]
    return _view(data, shape, place)


def _gather(node: NodeCall) -> LazyTensor:
    """Gather."""
    data, indices = node[0], node[1]
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    end = axis + len(indices.shape)
    shape = _instead(data.shape, axis, *indices.shape)
    return _indexed(
        node, [indices], axis, shape, lambda at: (at[axis:end], at[:axis] + at[end:])
    )


def _gather_elements(node: NodeCall) -> LazyTensor:
    """GatherElements."""
    data, shape = node[0], node[1].shape
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    ensure(len(shape) == len(data.shape), "GatherElements of other dimensions")
    pairs = zip(_instead(shape, axis), _instead(data.shape, axis), strict=True)
    ensure(
        all(terms.highest(n - m) <= 0 for n, m in pairs),
        "indices that are larger than data",
    )
    return _indexed(node, [node[1]], axis, shape, lambda at: (at, _instead(at, axis)))


def _gather_nd(node: NodeCall) -> LazyTensor:
    """GatherND."""
    data, indices, batches = node[0], node[1], node.attribute("batch_dims", 0)
    ensure(indices.shape, "a GatherND of a scalar")
    outer, length = (
        indices.shape[:-1],
        tensors.known_integer(indices.shape[-1], "a length"),
    )
    ensure(data.shape[:batches] == outer[:batches], "a GatherND of other sizes")
    each = [_view(indices, outer, lambda at, k=k: (*at, k)) for k in range(length)]
    shape, end = (*outer, *data.shape[batches + length :]), len(outer)
    return _indexed(
        node, each, batches, shape, lambda at: (at[:end], at[:batches] + at[end:])
    )


def _array_feature_extractor(node: NodeCall) -> LazyTensor:
    """ArrayFeatureExtractor: the last coordinate is an index, which must not be negative."""
    data, indices = node[0], _reshaped(node[1], [node[1].size])
    last = len(data.shape) - 1
    shape = (*(data.shape[:-1] or (1,)), *indices.shape)
    return _indexed(node, [indices], last, shape, lambda at: (at[-1:], at[:last]), 0)


# Bodies


def _scan(node: NodeCall) -> list[LazyTensor]:
    """Scan without states: its body once for each slice."""
    body, parts = node.operation.bodies["body"], node.tensors
    count = len(parts)
    is_usual = node.attribute("num_scan_inputs") == count > 0 and node.version >= 9
    ensure(is_usual, "a Scan with states")
    for name in ("scan_input_directions", "scan_output_directions", "scan_output_axes"):
        usual = (0,) * (count if "input" in name else len(node.operation.outputs))
        ensure(tuple(node.attribute(name, usual)) == usual, f"a Scan with {name}")
    axes = node.attribute("scan_input_axes", (0,) * count)
    ensure(len(axes) == count, "a Scan with other scan_input_axes")
    axes = [_axis(axis, len(one.shape)) for axis, one in zip(axes, parts, strict=True)]
    steps = parts[0].shape[axes[0]]
    ensure(terms.lowest(steps) > 0, "a Scan of no steps")
    lengths = (one.shape[axis] for one, axis in zip(parts, axes, strict=True))
    ensure(all(length - steps == 0 for length in lengths), "a Scan of other lengths")

    def part(tensor: LazyTensor, axis: int, step: Int) -> LazyTensor:
        shape = _instead(tensor.shape, axis)
        return _view(tensor, shape, lambda at: (*at[:axis], step, *at[axis:]))

    @cache
    def run_at(step: Int) -> list[LazyTensor]:
        """The outputs of a step, and where it fails."""
        run = tensors.Run(
            lemmas=node.run.lemmas, names=node.run.names, low_halves=node.run.low_halves
        )
        own = [part(one, axis, step) for one, axis in zip(parts, axes, strict=True)]
        return [*node.walk(body, own, run), *run.failures]

    shapes = [one.shape for one in run_at(0)]
    # What the body computes of its inputs may be sizes, or a divisor.
    last = terms.highest(steps) - 1
    for step in (
        range(last + 1) if last < MOST_TURNS else [terms.variable("step", 0, last)]
    ):
        is_same = [one.shape for one in run_at(step)] == shapes
        ensure(is_same, "a Scan whose values have other sizes in other steps")

    def joined(k: int, first: LazyTensor) -> LazyTensor:
        return lazy(
            first.dtype, (steps, *first.shape), lambda at: run_at(at[0])[k].at(at[1:])
        )

    made = [joined(k, first) for k, first in enumerate(run_at(0))]
    count = len(body.outputs)
    node.run.failures += made[count:]
    return made[:count]


TABLE: Mapping[tuple[str, str], Semantics] = {
    ("", "Abs"): _alone(lambda a: terms.larger_of(a, -a)),
    ("", "Add"): lambda node: _fold(node, operator.add),
    ("", "And"): _of_truths(terms.all_of),
    ("", "Cast"): lambda node: _cast(
        node, ValueType(name_of(node.attribute("to"))).dtype
    ),
    ("", "Clip"): _clip,
    ("", "Concat"): lambda node: _joined(node.tensors, node.attribute("axis", 1)),
    ("", "ConstantOfShape"): _filled,
    ("", "Div"): _quotient,
    ("", "Equal"): _equal,
    ("", "Expand"): _expand,
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "Greater"): _compare("order", operator.gt),
    ("", "GreaterOrEqual"): _compare("order", lambda a, b: terms.no(a < b)),
    ("", "Identity"): lambda node: node[0],
    ("", "Less"): _compare("order", operator.lt),
    ("", "LessOrEqual"): _compare("order", lambda a, b: terms.no(b < a)),
    ("", "Max"): lambda node: _limited(node, terms.larger_of, node.tensors),
    ("", "Min"): lambda node: _limited(node, terms.smaller_of, node.tensors),
    ("", "Mod"): _division(_modulo),
    ("", "Mul"): lambda node: _fold(node, _times),
    ("", "Neg"): _alone(lambda a: -a),
    ("", "Not"): _alone(terms.no, bool),
    ("", "Or"): _of_truths(terms.any_of),
    ("", "Range"): _range_of,
    ("", "ReduceSum"): _reduce_sum,
    ("", "Reshape"): _reshape,
    ("", "Scan"): _scan,
    ("", "ScatterElements"): _scatter,
    ("", "Shape"): _shape_of,
    ("", "Slice"): _slice,
    ("", "Squeeze"): _squeeze,
    ("", "Sub"): lambda node: _fold(node, operator.sub),
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Where"): _where,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): _array_feature_extractor,
}
"""Each operator, by its domain and name."""
