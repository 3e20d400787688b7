"""What each operator of ONNX computes, one row each, from ONNX's specification.

Where providers were measured to do less than the specification says, so does the row. An operator
that is not in the table, or of which a row does not know what it does, makes a certificate
undecided.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any

import numpy as np

from onnxgather.certificates import tensors, terms
from onnxgather.certificates.lemmas import LEMMAS
from onnxgather.certificates.tensors import (
    Item,
    LazyTensor,
    NodeCall,
    Place,
    Rounded,
    ensure,
    lazy,
)
from onnxgather.certificates.terms import Int, Term, Truth
from onnxgather.descriptors.arrays import Array
from onnxgather.model.values import ValueType, name_of

Semantics = Callable[[NodeCall], LazyTensor | list[LazyTensor]]

_DIGITS = {2: 11, 4: 24, 8: 53}
"""How many binary digits floats of so many bytes have."""


# Elements


def _number(item: Item) -> Int:
    """The integer or the truth that an element is, or whose float it is."""
    if isinstance(item, tensors.Moved):
        raise tensors.UndecidedError("arithmetic with the elements of InputTensor")
    return item.value if isinstance(item, Rounded) else item


def _wrapped(value: Int, dtype: np.dtype[Any]) -> Int:
    info = np.iinfo(dtype)
    return terms.in_twos_complement(value, int(info.min), int(info.max))


def _rely(node: NodeCall, lemma: str, dtype: np.dtype[Any], *values: Int) -> None:
    """Take down a lemma about floats, which holds where floats hold the integers."""
    most = 2 ** _DIGITS[dtype.itemsize]
    ends = [max(-terms.lowest(value), terms.highest(value)) for value in values]
    holds = max(ends) <= most
    if lemma in ("clip", "order", "equal"):
        holds = holds or min(ends) <= most - 1
    ensure(holds, f"{dtype} of integers beyond {most:,}")
    name = f"{lemma} {dtype}"
    ensure(name in LEMMAS, f"the {name}, which no lemma tells")
    node.run.lemmas.add(name)


# Elementwise operators


def _view(tensor: LazyTensor, shape: Sequence[Int], place: Callable[[Place], Place]) -> LazyTensor:
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
        ensure(all(size - larger[0] == 0 for size in larger), "sizes that do not broadcast")
        common.insert(0, larger[0])
    return common


def _each(dtype: Any, compute: Callable[..., Item], inputs: Sequence[LazyTensor]) -> LazyTensor:
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
        if dtype.kind == "f" and made.kind == "b":
            _rely(node, lemma, dtype, first, second)
        elif dtype.kind == "f" and lemma != "clip":
            _rely(node, lemma, dtype, first, second, found)
        elif dtype.kind == "f" and found not in (first, second):
            _rely(node, lemma, dtype, first, second)
        return found if made.kind in "bf" else _wrapped(found, made)

    def folded(*items: Item) -> Item:
        found = reduce(step, map(_number, items))
        return Rounded(found) if made.kind == "f" else found

    return _each(made, folded, inputs)


def _multiplied(node: NodeCall) -> LazyTensor:
    """Mul; a float that is -0.0 would be taken for 0.0."""

    def product(first: Int, second: Int) -> Int:
        for a, b in ((first, second), (second, first)):
            has_zero = terms.lowest(a) <= 0 <= terms.highest(a)
            is_float = node[0].dtype.kind == "f"
            ensure(not (is_float and has_zero and terms.lowest(b) < 0), "Mul that may be -0.0")
        return first * second

    return _fold(node, product, "product")


def _compare(lemma: str, compute: Callable[[Int, Int], Truth]) -> Semantics:
    return lambda node: _fold(node, compute, lemma, bool)


def _equal(node: NodeCall) -> LazyTensor:
    is_truth = node[0].dtype.kind == "b"
    return _fold(node, terms.agree if is_truth else terms.is_equal, "equal", bool)


def _of_truths(compute: Callable[..., Truth]) -> Semantics:
    return lambda node: _fold(node, compute, result=bool)


def _differ(first: Truth, second: Truth) -> Truth:
    return terms.no(terms.agree(first, second))


def _divisor(node: NodeCall, value: Int, divisor: Int) -> int:
    known = tensors.known_integer(divisor, "a divisor")
    is_lowest = terms.lowest(value) == np.iinfo(node[0].dtype).min
    ensure(known and not (known == -1 and is_lowest), "a division that may stop the process")
    return known


def _divided(node: NodeCall, value: Int, divisor: Int) -> Int:
    """An integer divided towards 0."""
    known = _divisor(node, value, divisor)
    found = terms.choose(value < 0, -(-value // abs(known)), value // abs(known))
    return found if known > 0 else -found


def _modulo(node: NodeCall, value: Int, divisor: Int) -> Int:
    """The remainder has the sign of the divisor, with `fmod` that of the dividend."""
    known = _divisor(node, value, divisor)
    up, down = value % abs(known), -(-value % abs(known))
    if not node.attribute("fmod", 0):
        return up if known > 0 else down
    # The CPU provider computes it in FLOAT64.
    _rely(node, "exact", np.dtype(np.float64), value, known)
    return terms.choose(value < 0, down, up)


def _masked(first: Int, second: Int) -> Int:
    """The low bits of an integer."""
    value, mask = (second, first) if isinstance(second, Term) else (first, second)
    mask = tensors.known_integer(mask, "a mask")
    ensure(mask >= 0 and mask & (mask + 1) == 0, "BitwiseAnd by other than low bits")
    return value % (mask + 1)


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
    data = node[0]
    info = np.finfo(data.dtype) if data.dtype.kind == "f" else np.iinfo(data.dtype)
    ends = node.attribute("min", info.min), node.attribute("max", info.max)
    ensure(ends[0] <= ends[1], "a Clip whose bounds are swapped, as before opset 11")
    rows = ("min", info.min, terms.larger_of), ("max", info.max, terms.smaller_of)
    for k, (name, end, compute) in enumerate(rows, 1):
        bound = node.get(k) or tensors.constant_tensor(
            np.array(node.attribute(name, end), data.dtype)
        )
        ensure(bound.shape == (), "a Clip with bounds of several elements")
        data = _limited(node, compute, [data, bound])
    return data


def _alone(compute: Callable[[Int], Int]) -> Semantics:
    """An operator of one integer."""

    def of(node: NodeCall) -> LazyTensor:
        data = node[0]
        ensure(data.dtype.kind in "iu", f"{node.operation.operator} of {data.dtype}")
        at = data.at
        return lazy(data.dtype, data.shape, lambda k: _wrapped(compute(_number(at(k))), data.dtype))

    return of


def _where(node: NodeCall) -> LazyTensor:
    """Where; the CPU provider changes -0.0 and NaNs, so floats of InputTensor must not pass."""
    dtype = node[1].dtype
    ensure(node[2].dtype == dtype, "Where of several types")

    def compute(truth: Item, first: Item, second: Item) -> Item:
        found = tensors.chosen(_number(truth), first, second, dtype)
        is_data = isinstance(found, tensors.Moved) and dtype.kind == "f"
        ensure(not is_data, "Where of floats, of which the CPU provider changes -0.0 and NaNs")
        return found

    return _each(dtype, compute, [node[0], node[1], node[2]])


def _cast_beyond(node: NodeCall, value: Term) -> Int:
    """What a Cast makes of the FLOAT32 of an integer: the integer, if FLOAT32 holds it."""
    most = 2 ** _DIGITS[4]
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
        value = _number(item)
        if before.kind == "b":
            value = terms.choose(value, 1, 0)
        low, high = terms.lowest(value), terms.highest(value)
        is_beyond = before == np.float32 and max(-low, high) > 2 ** _DIGITS[4]
        fits = low >= -(2**31) and high < 2**31 - 64 and after.name in ("int32", "int64")
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
            return Rounded(value)
        return terms.no(terms.is_equal(value, 0)) if after.kind == "b" else _wrapped(value, after)

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
    if tuple(shape) == sizes:
        return tensor
    ensure(math.prod(shape) == math.prod(sizes), f"a Reshape of {[*sizes]} to {[*shape]}")
    return _view(tensor, shape, lambda at: tensors.unflat(tensors.flat(at, shape), sizes))


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


def _flatten(node: NodeCall) -> LazyTensor:
    """Flatten."""
    sizes, axis = node[0].sizes, node.attribute("axis", 1)
    ensure(-len(sizes) <= axis <= len(sizes), f"the axis {axis} of {len(sizes)} dimensions")
    axis = axis + len(sizes) if axis < 0 else axis
    return _reshaped(node[0], [math.prod(sizes[:axis]), math.prod(sizes[axis:])])


def _squeeze(node: NodeCall) -> LazyTensor:
    """Squeeze."""
    sizes, named = node[0].sizes, node.numbers(1, "axes")
    ones = [k for k, size in enumerate(sizes) if size == 1]
    dropped = ones if named is None else _axes(named, len(sizes))
    ensure({*dropped} <= {*ones}, "a Squeeze of sizes other than 1")
    return _with_ones(node[0], [k for k in range(len(sizes)) if k not in dropped])


def _unsqueeze(node: NodeCall) -> LazyTensor:
    """Unsqueeze."""
    named = node.numbers(1, "axes") or []
    rank = len(node[0].shape) + len(named)
    added, old = _axes(named, rank), iter(range(rank))
    return _with_ones(node[0], [None if k in added else next(old) for k in range(rank)])


def _with_ones(tensor: LazyTensor, kept: Sequence[int | None]) -> LazyTensor:
    """A tensor whose dimensions are those of another one, or 1 where that has none."""

    def place(at: Place) -> Place:
        old = dict(zip(kept, at, strict=True))
        return tuple(old.get(k, 0) for k in range(len(tensor.shape)))

    return _view(tensor, [1 if k is None else tensor.shape[k] for k in kept], place)


def _transpose(node: NodeCall) -> LazyTensor:
    """Transpose."""
    rank = len(node[0].shape)
    order = node.attribute("perm", range(rank)[::-1])
    ensure(sorted(order) == [*range(rank)], "a Transpose that is no permutation")
    return _with_ones(node[0], order)


def _expand(node: NodeCall) -> LazyTensor:
    """Expand."""
    return _expanded(node[0], _common([node[0].shape, node[1].numbers()]))


def _shape_of(node: NodeCall) -> LazyTensor:
    """Shape."""
    sizes = node[0].shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return lazy(np.int64, [len(sizes)], lambda at: sizes[tensors.known_integer(at[0], "a place")])


def _concat(node: NodeCall) -> LazyTensor:
    """Concat."""
    parts, shape = node.tensors, node[0].shape
    axis = _axis(node.attribute("axis", 1), len(shape))
    is_apart = {(one.dtype, _instead(one.shape, axis)) for one in parts}
    ensure(len(is_apart) == 1 and len({len(p.shape) for p in parts}) == 1, "Concat of other sizes")

    def at(coordinates: Place) -> Item:
        inner, found = coordinates[axis], list[tuple[Truth, Item]]()
        for number, part in enumerate(parts, 1):
            is_here = number == len(parts) or inner < part.shape[axis]
            if is_here is not False:
                found.append((is_here, part.at(_instead(coordinates, axis, inner))))
            if is_here is True:
                break
            inner = inner - part.shape[axis]
        item = found.pop()[1]
        for is_here, own in reversed(found):
            item = tensors.chosen(is_here, own, item, parts[0].dtype)
        return item

    whole = sum(part.shape[axis] for part in parts)
    return lazy(parts[0].dtype, _instead(shape, axis, whole), at)


def _slice(node: NodeCall) -> LazyTensor:
    """Slice."""
    shape = node[0].shape
    starts, ends = (node.numbers(k, name) or [] for k, name in ((1, "starts"), (2, "ends")))
    named, steps = node.numbers(3, "axes"), node.numbers(4, "steps") or [1] * len(starts)
    axes = _axes(range(len(starts)) if named is None else named, len(shape))
    lengths = {len(axes), len(starts), len(ends), len(steps)}
    ensure(shape and len(lengths) == 1, "a Slice of other lengths")
    picked = dict[int, range]()
    for k, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = tensors.known_integer(shape[k], "a size")
        ensure(step > 0 or (step < 0 and size), "a Slice with the step 0, or backwards of nothing")
        start, end = (one + size if one < 0 else one for one in (start, end))
        last, before = (size, 0) if step > 0 else (size - 1, -1)
        picked[k] = range(max(0, min(start, last)), max(before, min(end, last)), step)

    def place(at: Place) -> Place:
        pairs = ((picked.get(k, range(1)), own) for k, own in enumerate(at))
        return tuple(own * one.step + one.start for one, own in pairs)

    sizes = [len(picked[k]) if k in picked else size for k, size in enumerate(shape)]
    return _view(node[0], sizes, place)


def _split(node: NodeCall) -> list[LazyTensor]:
    """Split."""
    count, shape = len(node.operation.outputs), node[0].shape
    axis = _axis(node.attribute("axis", 0), len(shape))
    size, parts = tensors.known_integer(shape[axis], "a size"), node.numbers(1, "split")
    if parts is None:
        each = -(-size // count)
        parts = [each] * (count - 1) + [size - each * (count - 1)]
        ensure(size % count == 0 or node.version >= 18, "a Split into unequal parts")
    ensure(sum(parts) == size and min(parts) >= 0 and len(parts) == count, "a Split into others")

    def part(start: int, length: int) -> LazyTensor:
        sizes = _instead(shape, axis, length)
        return _view(node[0], sizes, lambda at: _instead(at, axis, at[axis] + start))

    return [*map(part, itertools.accumulate(parts, initial=0), parts)]


def _unchanged(tensor: LazyTensor) -> LazyTensor:
    """A tensor that the CPU provider casts to FLOAT32 and back where it is FLOAT16."""

    def at(place: Place) -> Item:
        item = tensor.at(place)
        is_data = isinstance(item, tensors.Moved) and tensor.dtype == np.float16
        ensure(not is_data, "an operator by which the CPU provider changes NaNs of FLOAT16")
        return item

    return lazy(tensor.dtype, tensor.shape, at)


def _pad(node: NodeCall) -> LazyTensor:
    """Pad with a constant."""
    ensure(node.attribute("mode", "constant") == "constant", "Pad other than with a constant")
    ensure(not node.attribute("value", 0), "Pad as before opset 11")
    data, sizes, pads = _unchanged(node[0]), node[0].sizes, node.numbers(1, "pads") or []
    axes = _axes(node.numbers(3, "axes"), len(sizes))
    ensure(len(pads) == 2 * len(axes), "Pad of other lengths")
    before = dict(zip(axes, pads, strict=False))
    more = [
        n + sum(p for k, p in zip(axes * 2, pads, strict=True) if k == axis)
        for axis, n in enumerate(sizes)
    ]
    ensure(min(more, default=0) >= 0, "Pad to less than nothing")
    value = node.get(2) or tensors.constant_tensor(np.zeros((), data.dtype))
    ensure(value.size == 1, "Pad with several constants")

    def at(place: Place) -> Item:
        inner = tuple(own - before.get(k, 0) for k, own in enumerate(place))
        ends = ((terms.no(own < 0), own < n) for own, n in zip(inner, sizes, strict=True))
        is_inside = terms.all_of(*itertools.chain(*ends))
        constant = value.at((0,) * len(value.shape))
        return (
            constant
            if is_inside is False
            else tensors.chosen(is_inside, data.at(inner), constant, data.dtype)
        )

    return lazy(data.dtype, more, at)


def _tile(node: NodeCall) -> LazyTensor:
    """Tile."""
    sizes, times = node[0].sizes, node.numbers(1, "repeats") or []
    ensure(len(times) == len(sizes) and min(times, default=0) >= 0, "Tile of other lengths")
    shape = [n * own for n, own in zip(sizes, times, strict=True)]
    return _view(
        _unchanged(node[0]), shape, lambda at: tuple(a % n for a, n in zip(at, sizes, strict=True))
    )


def _filled(node: NodeCall) -> LazyTensor:
    """ConstantOfShape."""
    value: Array = node.attribute("value", np.zeros(1, np.float32)).reshape(())
    constant = tensors.constant_tensor(value)
    return lazy(value.dtype, node[0].numbers(), lambda _: constant.at(()))


def _reduced(compute: Callable[[Any, Any], Int]) -> Semantics:
    """A reduction of integers."""

    def of(node: NodeCall) -> LazyTensor:
        data, sizes, named = node[0], node[0].sizes, node.numbers(1, "axes")
        ensure(data.dtype.kind in "iu", f"{node.operation.operator} of {data.dtype}")
        ensure(0 not in sizes, "a reduction of nothing")
        if not named and node.attribute("noop_with_empty_axes", 0):
            return data
        axes, keeps = _axes(named or None, len(sizes)), node.attribute("keepdims", 1)
        kept = [k for k in range(len(sizes)) if keeps or k not in axes]

        def at(place: Place) -> Item:
            own = dict(zip(kept, place, strict=True))
            inner = (range(n) if k in axes else [own[k]] for k, n in enumerate(sizes))
            numbers = [_number(data.at(one)) for one in itertools.product(*inner)]
            if compute is operator.add:  # the CPU provider computes it in floats
                ensure(data.dtype.itemsize >= 4, f"ReduceSum of {data.dtype}")
                most = sum(terms.larger_of(one, -one) for one in numbers)
                _rely(node, "exact", np.dtype(f"f{data.dtype.itemsize}"), most)
            return reduce(compute, numbers)

        return lazy(data.dtype, [1 if k in axes else sizes[k] for k in kept], at)

    return of


def _range_of(node: NodeCall) -> LazyTensor:
    """Range of constants."""
    ends = (tensors.known_integer(one.at(()), "an end of a Range") for one in node.tensors)
    start, limit, delta = ends
    ensure(delta, "a Range with the step 0")
    count = len(range(start, limit, delta))
    return lazy(node[0].dtype, [count], lambda at: at[0] * delta + start)


# Gathers


def _counted(index: Int, size: Int) -> Int:
    """A coordinate from an index, which counts from the end where negative.

    An index out of range, with which the model fails, gives some coordinate in range.
    """
    ensure(terms.highest(size) > 0, "a gather from no elements")
    raised = terms.choose(index < 0, index + size, index)
    return terms.larger_of(0, terms.smaller_of(raised, size - 1))


def _fails_outside(
    node: NodeCall, indices: LazyTensor, size: Callable[[Place], Int], low: int = -1
) -> None:
    """Take down that the node fails where an index is not below the size, or below `low` sizes."""

    def is_outside(at: Place) -> Truth:
        index = _number(indices.at(at))
        return terms.any_of(index < size(at) * low, terms.no(index < size(at)))

    node.fails(indices.shape, is_outside)


def _gather(node: NodeCall) -> LazyTensor:
    """Gather."""
    data, indices = node[0], node[1]
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    size, rank = data.shape[axis], len(indices.shape)
    _fails_outside(node, indices, lambda _: size)

    def place(at: Place) -> Place:
        index = _counted(_number(indices.at(at[axis : axis + rank])), size)
        return (*at[:axis], index, *at[axis + rank :])

    return _view(data, _instead(data.shape, axis, *indices.shape), place)


def _gather_elements(node: NodeCall) -> LazyTensor:
    """GatherElements."""
    data, indices = node[0], node[1]
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    size = data.shape[axis]
    ensure(len(indices.shape) == len(data.shape), "indices of another rank than data")
    pairs = [
        (n, m) for k, (n, m) in enumerate(zip(indices.shape, data.shape, strict=True)) if k != axis
    ]
    ensure(all(terms.highest(n - m) <= 0 for n, m in pairs), "indices that are larger than data")
    _fails_outside(node, indices, lambda _: size)
    return _view(
        data, indices.shape, lambda at: _instead(at, axis, _counted(_number(indices.at(at)), size))
    )


def _gather_nd(node: NodeCall) -> LazyTensor:
    """GatherND."""
    data, indices, batches = node[0], node[1], node.attribute("batch_dims", 0)
    length = tensors.known_integer(indices.shape[-1], "the length of a tuple")
    count, sizes = len(indices.shape) - 1, data.shape[batches : batches + length]
    is_fit = data.shape[:batches] == indices.shape[:batches] and batches <= count
    is_fit = is_fit and 0 not in data.shape and 0 < length == len(sizes)
    ensure(is_fit, "a GatherND of other sizes")

    def size_at(at: Place) -> Int:
        is_open = isinstance(at[-1], Term) and len({*sizes}) > 1
        ensure(not is_open, "the number of a coordinate that is not known")
        return sizes[0 if isinstance(at[-1], Term) else at[-1]]

    _fails_outside(node, indices, size_at)

    def place(at: Place) -> Place:
        own = [(*at[:count], k) for k in range(length)]
        index = (_counted(_number(indices.at(one)), size_at(one)) for one in own)
        return (*at[:batches], *index, *at[count:])

    return _view(data, (*indices.shape[:-1], *data.shape[batches + length :]), place)


def _array_feature_extractor(node: NodeCall) -> LazyTensor:
    """ArrayFeatureExtractor: the last coordinate is an index, which must not be negative."""
    data, indices = node[0], _reshaped(node[1], [node[1].size])
    rank, size = len(data.shape), data.shape[-1]
    _fails_outside(node, indices, lambda _: size, 0)

    def place(at: Place) -> Place:
        return (*at[: rank - 1], _counted(_number(indices.at(at[-1:])), size))

    return _view(data, (*(data.shape[:-1] or (1,)), *indices.shape), place)


def _scatter(node: NodeCall) -> LazyTensor:
    """ScatterElements or ScatterND whose indices are constants, none of them twice."""
    data, indices, updates = node[0], node[1], node[2]
    name, sizes = node.operation.operator, node[0].sizes
    ensure(node.attribute("reduction", "none") == "none", f"{name} with a reduction")
    places = dict[Place, Place]()
    if name == "ScatterND":
        length, outer = indices.sizes[-1], indices.sizes[:-1]
        shape = (*outer, *sizes[length:])
    else:
        length, outer = len(sizes), indices.sizes
        shape = outer
    axis = _axis(node.attribute("axis", 0), len(sizes))
    ensure(updates.shape == shape and 0 < length <= len(sizes), f"{name} of other sizes")
    for one in itertools.product(*map(range, outer)):
        if name == "ScatterND":
            own = [_number(indices.at((*one, k))) for k in range(length)]
        else:
            own = _instead(one, axis, _number(indices.at(one)))
        known = [tensors.known_integer(k, f"an index of {name}") for k in own]
        place = tuple(k % n for k, n in zip(known, sizes, strict=False) if -n <= k < n)
        is_new = len(place) == length and place not in places
        ensure(is_new, f"{name} out of range, or twice to one place")
        places[place] = one

    def at(coordinates: Place) -> Item:
        own = [tensors.known_integer(k, f"a coordinate behind {name}") for k in coordinates]
        found = places.get(tuple(own[:length]))
        return data.at(coordinates) if found is None else updates.at((*found, *own[length:]))

    return lazy(data.dtype, data.shape, at)


# Bodies


def _if(node: NodeCall) -> list[LazyTensor]:
    """If, of a constant."""
    (number,) = node[0].numbers()
    body = node.operation.bodies["then_branch" if number else "else_branch"]
    return node.walk(body, [], node.run)


def _scan(node: NodeCall) -> list[LazyTensor]:
    """Scan without states: its body once for each slice."""
    body, parts = node.operation.bodies["body"], node.tensors
    count = len(parts)
    ensure(node.attribute("num_scan_inputs") == count and node.version >= 9, "a Scan with states")
    for name in ("scan_input_directions", "scan_output_directions", "scan_output_axes"):
        ensure(not any(node.attribute(name, ())), f"a Scan with {name}")
    axes = node.attribute("scan_input_axes", (0,) * count)
    axes = [_axis(axis, len(one.shape)) for axis, one in zip(axes, parts, strict=True)]
    steps = parts[0].shape[axes[0]]
    lengths = (one.shape[axis] for one, axis in zip(parts, axes, strict=True))
    ensure(all(length - steps == 0 for length in lengths), "a Scan of other lengths")

    def part(tensor: LazyTensor, axis: int, step: Int) -> LazyTensor:
        shape = _instead(tensor.shape, axis)
        return _view(tensor, shape, lambda at: (*at[:axis], step, *at[axis:]))

    @cache
    def run_at(step: Int) -> tuple[list[LazyTensor], list[tensors.Failure]]:
        run = tensors.Run(lemmas=node.run.lemmas, low_halves=node.run.low_halves)
        own = [part(one, axis, step) for one, axis in zip(parts, axes, strict=True)]
        return node.walk(body, own, run), run.failures

    outputs, failures = run_at(0)
    for k, failure in enumerate(failures):
        node.fails((steps, *failure.shape), lambda at, k=k: run_at(at[0])[1][k].truth(at[1:]))

    def joined(k: int) -> LazyTensor:
        shape = (steps, *outputs[k].shape)
        return lazy(outputs[k].dtype, shape, lambda at: run_at(at[0])[0][k].at(at[1:]))

    return [*map(joined, range(len(outputs)))]


TABLE: Mapping[tuple[str, str], Semantics] = {
    ("", "Abs"): _alone(lambda a: terms.larger_of(a, -a)),
    ("", "Add"): lambda node: _fold(node, operator.add, "sum"),
    ("", "And"): _of_truths(terms.all_of),
    ("", "BitwiseAnd"): lambda node: _fold(node, _masked),
    ("", "Cast"): lambda node: _cast(node, ValueType(name_of(node.attribute("to"))).dtype),
    ("", "CastLike"): lambda node: _cast(node, node[1].dtype),
    ("", "Clip"): _clip,
    ("", "Concat"): _concat,
    ("", "ConstantOfShape"): _filled,
    ("", "Div"): lambda node: _fold(node, partial(_divided, node)),
    ("", "Equal"): _equal,
    ("", "Expand"): _expand,
    ("", "Flatten"): _flatten,
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "Greater"): _compare("order", operator.gt),
    ("", "GreaterOrEqual"): _compare("order", lambda a, b: terms.no(a < b)),
    ("", "Identity"): lambda node: node[0],
    ("", "If"): _if,
    ("", "Less"): _compare("order", operator.lt),
    ("", "LessOrEqual"): _compare("order", lambda a, b: terms.no(b < a)),
    ("", "Max"): lambda node: _limited(node, terms.larger_of, node.tensors),
    ("", "Min"): lambda node: _limited(node, terms.smaller_of, node.tensors),
    ("", "Mod"): lambda node: _fold(node, partial(_modulo, node)),
    ("", "Mul"): _multiplied,
    ("", "Neg"): _alone(lambda a: -a),
    ("", "Not"): lambda node: lazy(
        bool, node[0].shape, lambda at: terms.no(_number(node[0].at(at)))
    ),
    ("", "Or"): _of_truths(terms.any_of),
    ("", "Pad"): _pad,
    ("", "Range"): _range_of,
    ("", "ReduceMax"): _reduced(terms.larger_of),
    ("", "ReduceMin"): _reduced(terms.smaller_of),
    ("", "ReduceSum"): _reduced(operator.add),
    ("", "Reshape"): _reshape,
    ("", "Scan"): _scan,
    ("", "ScatterElements"): _scatter,
    ("", "ScatterND"): _scatter,
    ("", "Shape"): _shape_of,
    ("", "Size"): lambda node: lazy(np.int64, (), lambda _: math.prod(node[0].shape)),
    ("", "Slice"): _slice,
    ("", "Split"): _split,
    ("", "Squeeze"): _squeeze,
    ("", "Sub"): lambda node: _fold(node, operator.sub, "sum"),
    ("", "Sum"): lambda node: _fold(node, operator.add, "sum"),
    ("", "Tile"): _tile,
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Where"): _where,
    ("", "Xor"): _of_truths(_differ),
    ("ai.onnx.ml", "ArrayFeatureExtractor"): _array_feature_extractor,
}
"""Each operator, by its domain and name."""
