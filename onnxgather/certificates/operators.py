"""What each operator of ONNX computes, one function each, from ONNX's specification.

Where providers were measured to do less than the specification says, so does the function. An
operator that is not in the table makes a certificate undecided.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np

from onnxgather.certificates.lemmas import LEMMAS
from onnxgather.certificates.tensors import (
    Failure,
    Item,
    LazyTensor,
    Moved,
    NodeCall,
    Place,
    Rounded,
    Run,
    UndecidedError,
    chosen,
    flat,
    known_integer,
    lazy,
    unflat,
)
from onnxgather.certificates.terms import (
    Int,
    Term,
    Truth,
    agree,
    all_of,
    any_of,
    choose,
    highest,
    in_twos_complement,
    is_equal,
    larger_of,
    lowest,
    no,
    smaller_of,
)
from onnxgather.model.values import ValueType, name_of

Semantics = Callable[[NodeCall], "LazyTensor | list[LazyTensor]"]

_DIGITS = {2: 11, 4: 24, 8: 53}
"""How many binary digits floats of so many bytes have."""


# Elements


def _machine(value: Int, dtype: np.dtype[Any]) -> Int:
    info = np.iinfo(dtype)
    return in_twos_complement(value, int(info.min), int(info.max))


def _integer(element: Item) -> Int:
    if isinstance(element, Rounded | Moved):
        raise UndecidedError("arithmetic with the elements of InputTensor")
    return element


def _truth(element: Item) -> Truth:
    if isinstance(element, Rounded | Moved):
        raise UndecidedError("a truth made from the elements of InputTensor")
    return element


def _is_exact(value: Int, dtype: np.dtype[Any], margin: int = 0) -> bool:
    """Whether a float holds an integer, and its neighbours up to `margin`."""
    most_exact = 2 ** _DIGITS[dtype.itemsize] - margin
    return -most_exact <= lowest(value) and highest(value) <= most_exact


def _exact(run: Run, value: Int, dtype: np.dtype[Any], lemma: str, margin: int = 0) -> Int:
    if not _is_exact(value, dtype, margin):
        raise UndecidedError(f"{dtype} of integers beyond {2 ** _DIGITS[dtype.itemsize]:,}")
    name = f"{lemma} {dtype}"
    if name not in LEMMAS:
        raise UndecidedError(f"the {name}, which no lemma tells")
    run.lemmas.add(name)
    return value


def _floats(first: Item, second: Item) -> tuple[Int, Int]:
    if isinstance(first, Rounded) and isinstance(second, Rounded):
        return first.value, second.value
    raise UndecidedError("arithmetic with the elements of InputTensor")


def _add(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    return _computed(node, operator.add, "sum", first, second, dtype)


def _subtract(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    return _computed(node, operator.sub, "sum", first, second, dtype)


def _multiply(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    return _computed(node, operator.mul, "product", first, second, dtype)


def _computed(
    node: NodeCall,
    compute: Callable[..., Int],
    lemma: str,
    first: Item,
    second: Item,
    dtype: np.dtype[Any],
) -> Item:
    if dtype.kind != "f":
        return _machine(compute(_integer(first), _integer(second)), dtype)
    a, b = (_exact(node.run, value, dtype, lemma) for value in _floats(first, second))
    return Rounded(_exact(node.run, compute(a, b), dtype, lemma))


def _divided(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    """Integers are divided towards 0."""
    divisor, value = known_integer(second, "a divisor"), _integer(first)
    if divisor == 0:
        raise UndecidedError("a division by 0")
    sign = 1 if divisor > 0 else -1
    up = -(-value // abs(divisor))
    towards_zero = choose(value < 0, up, value // abs(divisor))
    return _machine(towards_zero * sign, dtype)


def _modulo(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    """The remainder has the sign of the divisor, with `fmod` that of the dividend."""
    divisor, value = known_integer(second, "a divisor"), _integer(first)
    if divisor == 0:
        raise UndecidedError("a division by 0")
    up, down = value % abs(divisor), (-value) % abs(divisor)
    if node.attribute("fmod", 0):
        return choose(value < 0, -down, up)
    return up if divisor > 0 else -down


def _low_half(node: NodeCall, value: Int, dtype: np.dtype[Any]) -> Int:
    if node.run.low_halves and dtype == np.int64:
        return in_twos_complement(value, -(2**31), 2**31 - 1)
    return value


def _less(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Truth:
    if dtype.kind != "f":
        a, b = (_low_half(node, _integer(one), dtype) for one in (first, second))
    else:
        a, b = _compared(node, first, second, dtype, "order")
    return a < b


def _compared(
    node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any], lemma: str
) -> tuple[Int, Int]:
    """Integers that compare as the floats nearest to them."""
    a, b = _floats(first, second)
    if not (_is_exact(a, dtype) and _is_exact(b, dtype)):
        bound = a if _is_exact(a, dtype, 1) else b
        _exact(node.run, bound, dtype, lemma, 1)
    node.run.lemmas.add(f"{lemma} {dtype}")
    return a, b


def _equal(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Truth:
    if dtype.kind == "b":
        return agree(_truth(first), _truth(second))
    if dtype.kind != "f":
        return is_equal(_integer(first), _integer(second))
    return is_equal(*_compared(node, first, second, dtype, "equal"))


def _smaller(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    return _extreme(node, smaller_of, first, second, dtype)


def _larger(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Item:
    return _extreme(node, larger_of, first, second, dtype)


def _extreme(
    node: NodeCall,
    compute: Callable[[Int, Int], Int],
    first: Item,
    second: Item,
    dtype: np.dtype[Any],
) -> Item:
    if dtype.kind == "f":
        a, b = _floats(first, second)
        _exact(node.run, a if _is_exact(a, dtype) else b, dtype, "clip")
        return Rounded(compute(a, b))
    a, b = _integer(first), _integer(second)
    if not node.run.low_halves or dtype != np.int64:
        return compute(a, b)
    is_first = _less(node, first, second, dtype)
    return choose(is_first, a, b) if compute is smaller_of else choose(is_first, b, a)


def _cast_one(node: NodeCall, element: Item, before: np.dtype[Any], after: np.dtype[Any]) -> Item:
    if before == after:
        return element
    if isinstance(element, Moved):
        raise UndecidedError(f"a Cast of data from {before} to {after}")
    if isinstance(element, Rounded):
        value = _exact(node.run, element.value, before, "exact")
        if after.kind == "f":
            return Rounded(_exact(node.run, value, after, "exact"))
        if after.kind == "b":
            return no(is_equal(value, 0))
        if _machine(value, after) is not value and _machine(value, after) != value:
            raise UndecidedError(f"a Cast of {before} to {after} that need not hold it")
        return value
    if after.kind == "b":
        return element if before.kind == "b" else no(is_equal(element, 0))
    value = choose(element, 1, 0) if before.kind == "b" else element
    return Rounded(value) if after.kind == "f" else _machine(value, after)


# Elementwise operators


def _broadcast(
    tensors: Sequence[LazyTensor],
) -> tuple[tuple[Int, ...], list[Callable[[Place], Item]]]:
    """The common shape of tensors, and for each the element at coordinates in that shape."""
    rank = max(len(tensor.shape) for tensor in tensors)
    shapes = [(1,) * (rank - len(tensor.shape)) + tensor.shape for tensor in tensors]
    shape = list[Int]()
    for sizes in zip(*shapes, strict=True):
        larger = [size for size in sizes if size != 1]
        if any(size - larger[0] != 0 for size in larger):
            raise UndecidedError("sizes that do not broadcast")
        shape.append(larger[0] if larger else 1)

    def reader(tensor: LazyTensor) -> Callable[[Place], Item]:
        first = rank - len(tensor.shape)

        def at(coordinates: Place) -> Item:
            pairs = zip(tensor.shape, coordinates[first:], strict=True)
            return tensor.at(tuple(0 if size == 1 else one for size, one in pairs))

        return at

    return tuple(shape), [*map(reader, tensors)]


def _elementwise(
    dtype: Any, compute: Callable[..., Item], tensors: Sequence[LazyTensor]
) -> LazyTensor:
    shape, readers = _broadcast(tensors)
    return lazy(dtype, shape, lambda at: compute(*(one(at) for one in readers)))


def _binary(compute: Callable[..., Item], result: Any = None) -> Semantics:
    """An operator of two tensors or more, which makes their type, or `result`."""

    def apply(node: NodeCall) -> LazyTensor:
        tensors = [node[k] for k in range(len(node.inputs))]
        dtype = tensors[0].dtype

        def folded(*elements: Item) -> Item:
            return reduce(lambda a, b: compute(node, a, b, dtype), elements)

        return _elementwise(result or dtype, folded, tensors)

    return apply


def _of_truths(compute: Callable[..., Truth]) -> Semantics:
    def apply(node: NodeCall) -> LazyTensor:
        tensors = [node[k] for k in range(len(node.inputs))]
        return _elementwise(bool, lambda *own: compute(*map(_truth, own)), tensors)

    return apply


def _greater(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Truth:
    return _less(node, second, first, dtype)


def _at_most(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Truth:
    return no(_less(node, second, first, dtype))


def _at_least(node: NodeCall, first: Item, second: Item, dtype: np.dtype[Any]) -> Truth:
    return no(_less(node, first, second, dtype))


def _clip(node: NodeCall) -> LazyTensor:
    """Clip: a maximum, then a minimum."""
    tensors, steps = [node[0]], list[Callable[..., Item]]()
    for number, step in ((1, _larger), (2, _smaller)):
        bound = node.get(number)
        if bound is not None:
            tensors.append(bound)
            steps.append(step)
    dtype = node[0].dtype

    def limited(element: Item, *bounds: Item) -> Item:
        for step, bound in zip(steps, bounds, strict=True):
            element = step(node, element, bound, dtype)
        return element

    return _elementwise(dtype, limited, tensors)


def _where(node: NodeCall) -> LazyTensor:
    """Where; the CPU provider changes -0.0 and NaNs, so floats of InputTensor must not pass."""
    dtype = node[1].dtype

    def compute(truth: Item, first: Item, second: Item) -> Item:
        found = chosen(_truth(truth), first, second, dtype)
        if isinstance(found, Moved) and dtype.kind == "f":
            raise UndecidedError("Where of floats, of which the CPU provider changes -0.0 and NaNs")
        return found

    return _elementwise(dtype, compute, [node[0], node[1], node[2]])


def _cast(node: NodeCall) -> LazyTensor:
    """Cast."""
    tensor, after = node[0], ValueType(name_of(node.attribute("to"))).dtype
    if after is None:
        raise UndecidedError(f"a Cast to ONNX's type {node.attribute('to')}")
    return lazy(after, tensor.shape, lambda at: _cast_one(node, tensor.at(at), tensor.dtype, after))


# Shapes


def _reshaped(tensor: LazyTensor, shape: Sequence[int]) -> LazyTensor:
    sizes = tensor.sizes
    if tuple(shape) == sizes:
        return tensor
    return lazy(tensor.dtype, shape, lambda at: tensor.at(unflat(flat(at, shape), sizes)))


def _reshape(node: NodeCall) -> LazyTensor:
    """Reshape."""
    sizes, wanted = node[0].sizes, node.numbers(1, "shape") or []
    if not node.attribute("allowzero", 0):
        wanted = [sizes[k] if size == 0 else size for k, size in enumerate(wanted)]
    if -1 in wanted:
        rest = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = math.prod(sizes) // max(rest, 1)
    if math.prod(wanted) != math.prod(sizes):
        raise UndecidedError(f"a Reshape of {list(sizes)} to {wanted}")
    return _reshaped(node[0], wanted)


def _flatten(node: NodeCall) -> LazyTensor:
    """Flatten."""
    sizes = node[0].sizes
    axis = _axis(node.attribute("axis", 1), len(sizes) + 1)
    return _reshaped(node[0], [math.prod(sizes[:axis]), math.prod(sizes[axis:])])


def _axis(number: int, rank: int) -> int:
    if not -rank <= number < rank:
        raise UndecidedError(f"the axis {number} of {rank} dimensions")
    return number % rank if rank else 0


def _squeeze(node: NodeCall) -> LazyTensor:
    """Squeeze."""
    shape = node[0].shape
    axes = node.numbers(1, "axes")
    dropped = [k for k, size in enumerate(shape) if size == 1] if axes is None else axes
    dropped = {_axis(axis, len(shape)) for axis in dropped}
    return _with_ones(node[0], [k for k in range(len(shape)) if k not in dropped])


def _unsqueeze(node: NodeCall) -> LazyTensor:
    """Unsqueeze."""
    axes = node.numbers(1, "axes") or []
    rank = len(node[0].shape) + len(axes)
    added = {_axis(axis, rank) for axis in axes}
    old = iter(range(len(node[0].shape)))
    return _with_ones(node[0], [None if k in added else next(old) for k in range(rank)])


def _with_ones(tensor: LazyTensor, kept: Sequence[int | None]) -> LazyTensor:
    """A tensor whose dimensions are those of another one, or 1 _where that has none."""
    shape = [1 if k is None else tensor.shape[k] for k in kept]

    def at(coordinates: Place) -> Item:
        old = list[Int]([0] * len(tensor.shape))
        for k, one in zip(kept, coordinates, strict=True):
            if k is not None:
                old[k] = one
        return tensor.at(tuple(old))

    return lazy(tensor.dtype, shape, at)


def _transpose(node: NodeCall) -> LazyTensor:
    """Transpose."""
    rank = len(node[0].shape)
    return _with_ones(node[0], node.attribute("perm", range(rank)[::-1]))


def _expand(node: NodeCall) -> LazyTensor:
    """Expand."""
    wanted = lazy(bool, node[1].numbers(), lambda _: True)
    shape, readers = _broadcast([node[0], wanted])
    return lazy(node[0].dtype, shape, readers[0])


def _shape_of(node: NodeCall) -> LazyTensor:
    """Shape."""
    shape = node[0].shape
    sizes = shape[slice(node.attribute("start", 0), node.attribute("end"))]
    return lazy(np.int64, [len(sizes)], lambda at: sizes[known_integer(at[0], "a dimension")])


def _concat(node: NodeCall) -> LazyTensor:
    """Concat."""
    tensors = [node[k] for k in range(len(node.inputs))]
    first = tensors[0]
    axis = _axis(node.attribute("axis"), len(first.shape))
    lengths = [tensor.shape[axis] for tensor in tensors]

    def at(coordinates: Place, k: int = 0) -> Item:
        is_here = k == len(tensors) - 1 or coordinates[axis] < lengths[k]
        if is_here is True:
            return tensors[k].at(coordinates)
        place = coordinates[axis] - lengths[k]
        later = at((*coordinates[:axis], place, *coordinates[axis + 1 :]), k + 1)
        return chosen(is_here, tensors[k].at(coordinates), later, first.dtype) if is_here else later

    shape = (*first.shape[:axis], sum(lengths), *first.shape[axis + 1 :])
    return lazy(first.dtype, shape, at)


def _reduce_sum(node: NodeCall) -> LazyTensor:
    """ReduceSum."""
    sizes = node[0].sizes
    axes = node.numbers(1, "axes")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return node[0]
    summed = {_axis(axis, len(sizes)) for axis in axes or range(len(sizes))}
    dtype, keeps = node[0].dtype, node.attribute("keepdims", 1)
    kept = [k for k in range(len(sizes)) if keeps or k not in summed]

    def at(coordinates: Place) -> Item:
        place = dict(zip(kept, coordinates, strict=True))
        inner = [range(n) if k in summed else [place[k]] for k, n in enumerate(sizes)]
        parts = [node[0].at(one) for one in _product(inner)]
        return reduce(lambda a, b: _add(node, a, b, dtype), parts)

    return lazy(dtype, [1 if k in summed else sizes[k] for k in kept], at)


def _product(ranges: Sequence[Sequence[Int]]) -> list[Place]:
    found = list[Place]([()])
    for own in ranges:
        found = [(*before, one) for before in found for one in own]
    return found


def _range_of(node: NodeCall) -> LazyTensor:
    """Range."""
    start, limit, delta = (known_integer(node[k].at(()), "an end of a Range") for k in range(3))
    count = len(range(start, limit, delta))
    return lazy(node[0].dtype, [count], lambda at: start + at[0] * delta)


# Gathers


def _counted(index: Int, size: Int) -> Int:
    """A coordinate from an index, which counts from the end _where negative."""
    raised = choose(index < 0, index + size, index)
    return larger_of(0, smaller_of(raised, size - 1))


def _is_outside(index: Int, size: Int) -> Truth:
    return any_of(index < -size, no(index < size))


def _fails_outside(node: NodeCall, indices: LazyTensor, size: Callable[[Place], Int]) -> None:
    node.fails(indices.shape, lambda at: _is_outside(_integer(indices.at(at)), size(at)))


def _gather(node: NodeCall) -> LazyTensor:
    """Gather."""
    data, indices = node[0], node[1]
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    size, rank = data.shape[axis], len(indices.shape)
    _fails_outside(node, indices, lambda _: size)

    def at(coordinates: Place) -> Item:
        index = _counted(_integer(indices.at(coordinates[axis : axis + rank])), size)
        return data.at((*coordinates[:axis], index, *coordinates[axis + rank :]))

    return lazy(data.dtype, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), at)


def _gather_elements(node: NodeCall) -> LazyTensor:
    """GatherElements."""
    data, indices = node[0], node[1]
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    size = data.shape[axis]
    _fails_outside(node, indices, lambda _: size)

    def at(coordinates: Place) -> Item:
        index = _counted(_integer(indices.at(coordinates)), size)
        return data.at((*coordinates[:axis], index, *coordinates[axis + 1 :]))

    return lazy(data.dtype, indices.shape, at)


def _gather_nd(node: NodeCall) -> LazyTensor:
    """GatherND."""
    data, indices, batches = node[0], node[1], node.attribute("batch_dims", 0)
    length, count = (
        known_integer(indices.shape[-1], "the length of a tuple"),
        len(indices.shape) - 1,
    )

    def size_at(at: Place) -> Int:
        sizes = data.shape[batches : batches + length]
        if isinstance(at[-1], Term) and len(set(sizes)) == 1:
            return sizes[0]
        return sizes[known_integer(at[-1], "the number of a coordinate")]

    _fails_outside(node, indices, size_at)

    def at(coordinates: Place) -> Item:
        own = [(*coordinates[:count], k) for k in range(length)]
        index = [_counted(_integer(indices.at(one)), size_at(one)) for one in own]
        return data.at((*coordinates[:batches], *index, *coordinates[count:]))

    return lazy(data.dtype, (*indices.shape[:-1], *data.shape[batches + length :]), at)


def _array_feature_extractor(node: NodeCall) -> LazyTensor:
    """ArrayFeatureExtractor: columns of data of one or two dimensions."""
    data, indices = node[0], node[1]
    size, count = data.shape[-1], known_integer(indices.size, "the number of indices")
    chosen_ones = _reshaped(indices, [count])
    node.fails([count], lambda at: _is_negative_or_beyond(_integer(chosen_ones.at(at)), size))

    def at(coordinates: Place) -> Item:
        index = larger_of(0, smaller_of(_integer(chosen_ones.at(coordinates[-1:])), size - 1))
        return data.at((*coordinates[: len(data.shape) - 1], index))

    return lazy(data.dtype, (*data.shape[:-1], count) if len(data.shape) > 1 else (1, count), at)


def _is_negative_or_beyond(index: Int, size: Int) -> Truth:
    return any_of(index < 0, no(index < size))


def _scatter_elements(node: NodeCall) -> LazyTensor:
    """ScatterElements whose indices are constants, none of them twice."""
    data, indices, updates = node[0], node[1], node[2]
    if node.attribute("reduction", "none") != "none":
        raise UndecidedError("ScatterElements with a reduction")
    axis = _axis(node.attribute("axis", 0), len(data.shape))
    size = data.sizes[axis]
    places = dict[Place, Place]()
    for one in indices.coordinates():
        index = known_integer(indices.at(one), "an index of ScatterElements")
        if not -size <= index < size:
            raise UndecidedError("ScatterElements out of range")
        place = (*one[:axis], index % size, *one[axis + 1 :])
        if place in places:
            raise UndecidedError("ScatterElements with one index twice")
        places[place] = one

    def at(coordinates: Place) -> Item:
        for one in coordinates:
            known_integer(one, "a coordinate behind ScatterElements")
        if coordinates in places:
            return updates.at(places[coordinates])
        return data.at(coordinates)

    return lazy(data.dtype, data.shape, at)


def _scan(node: NodeCall) -> list[LazyTensor]:
    """Scan without states: its body once for each slice."""
    body, count = node.operation.bodies["body"], node.attribute("num_scan_inputs")
    tensors = [node[k] for k in range(len(node.inputs))]
    if len(tensors) != count or node.version < 9:
        raise UndecidedError("a Scan with states")
    for name in ("scan_input_directions", "scan_output_directions", "scan_output_axes"):
        if any(node.attribute(name, ())):
            raise UndecidedError(f"a Scan with {name}")
    axes = node.attribute("scan_input_axes", (0,) * count)
    axes = [_axis(axis, len(one.shape)) for axis, one in zip(axes, tensors, strict=True)]
    steps = tensors[0].shape[axes[0]]

    def part(tensor: LazyTensor, axis: int, step: Int) -> LazyTensor:
        shape = tensor.shape[:axis] + tensor.shape[axis + 1 :]
        return lazy(tensor.dtype, shape, lambda at: tensor.at((*at[:axis], step, *at[axis:])))

    @cache
    def run_at(step: Int) -> tuple[list[LazyTensor], list[Failure]]:
        run = Run(lemmas=node.run.lemmas, low_halves=node.run.low_halves)
        parts = [part(one, axis, step) for one, axis in zip(tensors, axes, strict=True)]
        return node.walk(body, parts, run), run.failures

    outputs, failures = run_at(0)
    for k, failure in enumerate(failures):
        node.fails((steps, *failure.shape), lambda at, k=k: run_at(at[0])[1][k].truth(at[1:]))

    def joined(k: int) -> LazyTensor:
        def at(coordinates: Place) -> Item:
            return run_at(coordinates[0])[0][k].at(coordinates[1:])

        return lazy(outputs[k].dtype, (steps, *outputs[k].shape), at)

    return [joined(k) for k in range(len(outputs))]


TABLE: Mapping[tuple[str, str], Semantics] = {
    ("", "Add"): _binary(_add),
    ("", "And"): _of_truths(all_of),
    ("", "Cast"): _cast,
    ("", "Clip"): _clip,
    ("", "Concat"): _concat,
    ("", "Div"): _binary(_divided),
    ("", "Equal"): _binary(_equal, bool),
    ("", "Expand"): _expand,
    ("", "Flatten"): _flatten,
    ("", "Gather"): _gather,
    ("", "GatherElements"): _gather_elements,
    ("", "GatherND"): _gather_nd,
    ("", "Greater"): _binary(_greater, bool),
    ("", "GreaterOrEqual"): _binary(_at_least, bool),
    ("", "Identity"): lambda node: node[0],
    ("", "Less"): _binary(_less, bool),
    ("", "LessOrEqual"): _binary(_at_most, bool),
    ("", "Max"): _binary(_larger),
    ("", "Min"): _binary(_smaller),
    ("", "Mod"): _binary(_modulo),
    ("", "Mul"): _binary(_multiply),
    ("", "Not"): _of_truths(no),
    ("", "Or"): _of_truths(any_of),
    ("", "Range"): _range_of,
    ("", "ReduceSum"): _reduce_sum,
    ("", "Reshape"): _reshape,
    ("", "Scan"): _scan,
    ("", "ScatterElements"): _scatter_elements,
    ("", "Shape"): _shape_of,
    ("", "Squeeze"): _squeeze,
    ("", "Sub"): _binary(_subtract),
    ("", "Transpose"): _transpose,
    ("", "Unsqueeze"): _unsqueeze,
    ("", "Where"): _where,
    ("ai.onnx.ml", "ArrayFeatureExtractor"): _array_feature_extractor,
}
"""Each operator, by its domain and name."""
