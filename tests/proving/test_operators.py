"""Each row of the table of operators computes what ONNX Runtime's CPU provider
computes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
import pytest
from msgspec.structs import replace
from onnx import ModelProto, TensorProto, helper
from onnx_graphs import constant, graph, info, node
from rings import by_ring, one_quick_in
from runtime_faults import CPU_COMPARES_HALVES

from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.model.network import read_network
from onnxgather.proving import operators, terms
from onnxgather.proving.claims import walk
from onnxgather.proving.operators import Semantics
from onnxgather.proving.tensors import (
    Item,
    LazyTensor,
    Moved,
    NodeCall,
    Place,
    Rounded,
    Run,
    UndecidedError,
    constant_tensor,
    ensure,
    lazy,
    unrounded,
)

ort: Any = onnxruntime

INTEGERS = [np.dtype(kind + size) for kind in "iu" for size in "1248"]
FLOATS = [np.dtype(f"f{size}") for size in (2, 4, 8)]
TYPES: list[np.dtype[Any]] = [*INTEGERS, *FLOATS]
Draw = random.Random


@dataclass
class Case:
    """A model of one node."""

    name: str
    inputs: Sequence[Array | None]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: int = 21
    constants: int = 0
    """How many of the last inputs are initializers."""
    data: int = -1
    """The input that stands for InputTensor; -1 for none."""
    domain: str = ""

    def __post_init__(self) -> None:
        """Leave out last inputs that are left out."""
        while self.inputs[-1] is None:
            self.inputs = self.inputs[:-1]
            self.constants = max(self.constants - 1, 0)

    @property
    def model(self) -> ModelProto:
        """The model."""
        names = ["" if one is None else f"x{k}" for k, one in enumerate(self.inputs)]
        last = range(len(self.inputs) - self.constants, len(self.inputs))
        stored = {k: one for k in last if (one := self.inputs[k]) is not None}
        node = helper.make_node(
            self.name, names, ["y"], domain=self.domain, **self.attributes
        )
        inputs = [
            info(f"x{k}", helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
            for k, one in self.given.items()
        ]
        constants = [constant(f"x{k}", one) for k, one in stored.items()]
        versions = {"": self.version, "ai.onnx.ml": 3}
        opsets = [helper.make_opsetid(*each) for each in versions.items()]
        made = graph([node], inputs, ["y"], constants)
        return helper.make_model(made, opset_imports=opsets, ir_version=8)

    @property
    def given(self) -> dict[int, Array]:
        """The inputs of the model, by their numbers."""
        kept = len(self.inputs) - self.constants
        return {k: one for k, one in enumerate(self.inputs[:kept]) if one is not None}


def run_of_provider(case: Case) -> list[Array] | str | None:
    """The outputs, None where the provider fails, or why it has no such operator."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(
            case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, {f"x{k}": one for k, one in case.given.items()})
    except Exception as error:
        said = str(error)
        is_missing = "NOT_IMPLEMENTED" in said or "Type Error" in said
        return said if is_missing else None


Inputs = tuple[list[LazyTensor], dict[terms.Term, int]]


def as_constants(case: Case, draw: Draw) -> Inputs:
    """The inputs as constants."""
    return [*map(constant_tensor, case.given.values())], {}


def as_terms(case: Case, draw: Draw) -> Inputs:
    """Integers as variables with some bounds around them, data as what moves."""
    values = dict[terms.Term, int]()

    def made(k: int, array: Array) -> LazyTensor:
        def at(place: Place) -> Item:
            if k == case.data:
                position = sum(
                    p * int(np.prod(array.shape[n + 1 :])) for n, p in enumerate(place)
                )
                return Moved(True, position, 0)
            if array.dtype.kind == "f":
                return constant_tensor(array).at(place)
            known = tuple(one for one in place if not isinstance(one, terms.Term))
            ensure(known == place, "the variables have no pattern")
            number, truth = int(array.item(known)), array.dtype.kind == "b"
            info = np.iinfo(np.int8) if truth else np.iinfo(array.dtype)
            low = draw.choice([int(info.min), number, max(int(info.min), number - 3)])
            high = draw.choice([int(info.max), min(int(info.max), number + 3)])
            name = f"v{k}_{'_'.join(map(str, place))}"
            term = terms.variable(name, low, high) if low < high else number
            if isinstance(term, terms.Term):
                values[term] = number
            return terms.no(terms.is_equal(term, 0)) if truth else term

        return lazy(array.dtype, array.shape, at)

    return [made(k, one) for k, one in case.given.items()], values


def number_of(
    item: Item, values: Mapping[terms.Term, int], case: Case, dtype: np.dtype[Any]
) -> Any:
    """The element of an array that an item is."""
    if isinstance(item, Moved):
        if terms.evaluate(item.is_input, values):
            data = case.inputs[case.data]
            assert data is not None
            return data.flat[terms.evaluate(item.position, values)]
        bits = terms.evaluate(item.bits, values)
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)
    number = terms.evaluate(item.value if isinstance(item, Rounded) else item, values)
    if isinstance(item, Rounded):
        kind = np.int64 if number < 2**63 else np.uint64
        with np.errstate(over="ignore"):
            return np.array(number, kind).astype(dtype)
    return number


def same(found: Any, wanted: Any, dtype: np.dtype[Any]) -> bool:
    """Whether two arrays have the same bytes."""
    return np.array(found, dtype).tobytes() == np.array(wanted, dtype).tobytes()


def compare(case: Case, draw: Draw, most: int = 200) -> str:
    """Compare a row with the provider, and say what it did: value, fails, undecided,
    missing."""
    first = case.inputs[0]
    is_int64 = first is not None and first.dtype == np.int64
    if CPU_COMPARES_HALVES and case.name in ("Min", "Max", "Clip") and is_int64:
        return "missing"
    wanted = run_of_provider(case)
    if isinstance(wanted, str):
        return "missing"
    answers = set[str]()
    main = read_network(case.model).main
    for give in (as_constants, as_terms):
        run = Run()
        try:
            inputs, values = give(case, draw)
            found = walk(main, inputs, run)
            fails = False
            for failure, _ in run.failures:
                sizes = [int(size) for size in failure.shape if isinstance(size, int)]
                for at in itertools.product(*map(range, sizes)):
                    fails = fails or bool(
                        terms.evaluate(unrounded(failure.at(at)), values)
                    )
            if fails:
                assert wanted is None, f"{case} fails, but not on the CPU provider"
                answers.add("fails")
                continue
            for one, array in zip(found, wanted or [], strict=False):
                assert one.dtype == array.dtype, case
                assert one.shape == array.shape, f"{case}: {one.shape} {array.shape}"
            for number, one in enumerate(found):
                all_at = [*itertools.product(*map(range, one.sizes))]
                for at in all_at if len(all_at) <= most else draw.sample(all_at, most):
                    item = number_of(one.at(at), values, case, one.dtype)
                    assert wanted is not None, f"{case} fails on the CPU provider alone"
                    right = wanted[number][at]
                    assert same(item, right, one.dtype), (
                        f"{case} at {at}: {item}, not {right}"
                    )
                if all_at:
                    at_terms(case, one, number, wanted, values, draw)
            assert wanted is not None, f"{case} fails on the CPU provider alone"
            answers.add("value")
        except UndecidedError:
            answers.add("undecided")
    return "value" if "value" in answers else answers.pop()


def at_terms(
    case: Case,
    tensor: LazyTensor,
    number: int,
    wanted: list[Array] | None,
    values: Mapping[terms.Term, int],
    draw: Draw,
) -> None:
    """Compare elements at coordinates that are variables."""
    place = [
        terms.variable(f"at{k}", 0, size - 1) for k, size in enumerate(tensor.sizes)
    ]
    try:
        item = tensor.at(tuple(place))
    except UndecidedError:
        return
    for _ in range(6):
        at = tuple(draw.randrange(size) for size in tensor.sizes)
        own = {**values, **dict(zip(place, at, strict=True))}
        found = number_of(item, own, case, tensor.dtype)
        assert wanted is not None, f"{case} fails on the CPU provider alone"
        assert same(found, wanted[number][at], tensor.dtype), f"{case} at term {at}"


# Cases


def edges(dtype: np.dtype[Any]) -> list[int]:
    """Integers that a type holds: those at its edges and at those of others."""
    if dtype.kind == "f":
        most = {2: 2048, 4: 2**24, 8: 2**53}[dtype.itemsize]
        return [0, 1, 2, 7, most - 1, most, -1, -3, 1 - most, -most]
    info = np.iinfo(dtype)
    near = [
        s * 2**b + k
        for b in (0, 3, 7, 8, 15, 16, 31, 32, 63, 64)
        for k in (-1, 0, 1)
        for s in (-1, 1)
    ]
    return sorted({one for one in near if info.min <= one <= info.max})


def drawn(draw: Draw, dtype: np.dtype[Any], *shape: int) -> Array:
    """Integers at edges, at random and small, in a shape."""
    count = int(np.prod(shape))
    some = edges(dtype)

    def number() -> int:
        any_number = draw.randrange(min(some), max(some) + 1)
        return draw.choice([draw.choice(some), any_number, draw.randint(0, 5)])

    return np.array([number() for _ in range(count)], dtype).reshape(shape)


def every(dtype: np.dtype[Any]) -> Array:
    """All values of an integer type of 8 bits, edges of others."""
    if dtype.kind == "f" or dtype.itemsize > 1:
        return np.array(edges(dtype), dtype)
    return np.arange(256).astype(np.uint8).view(dtype)


def elementwise(
    name: str, types: Sequence[np.dtype[Any]] = TYPES, **attributes: Any
) -> Iterator[Case]:
    """Cases of an operator of two tensors: pairs of edges, or of all small values."""
    draw = Draw(name)
    for dtype in types:
        own = every(dtype)
        if name in ("Div", "Mod"):
            is_refused = (own == 0) | (own == -1 if dtype.kind == "i" else False)
            inputs = [own[:, None], own[~is_refused][None]]
            yield Case(name, inputs, attributes, constants=1)
            continue
        yield Case(name, [own[:, None], own[None]], attributes)
        shape = [draw.randint(0, 3) for _ in range(draw.randint(0, 3))]
        kept = shape[draw.randint(0, len(shape)) :]
        other = [draw.choice([size, 1]) for size in kept]
        inputs = [drawn(draw, dtype, *shape), drawn(draw, dtype, *other)]
        yield Case(name, inputs, attributes)


def truths(name: str) -> Iterator[Case]:
    """Cases of an operator of two truths."""
    both = np.array([False, True])
    yield Case(name, [both[:, None], both[None]])
    yield Case(name, [both, np.array(True)], version=7)


def alone(name: str) -> Iterator[Case]:
    """Cases of an operator of one integer."""
    for dtype in INTEGERS:
        yield Case(name, [every(dtype)])


def variadic(name: str) -> Iterator[Case]:
    """Cases of several tensors."""
    draw = Draw(name)
    for dtype in TYPES:
        yield Case(name, [drawn(draw, dtype, *sizes) for sizes in ((3,), (2, 1), ())])
        yield Case(name, [drawn(draw, dtype, 3)])


def clips() -> Iterator[Case]:
    draw = Draw(3)
    for dtype in TYPES:
        data = np.array(edges(dtype), dtype)
        for _ in range(6):
            ends = [draw.choice([drawn(draw, dtype), None]) for _ in range(2)]
            yield Case("Clip", [data, *ends], version=draw.choice([12, 13, 21]))
    data = np.array(edges(FLOATS[1]), np.float32)
    for ends in ({"min": -3.0, "max": 5.0}, {"min": 5.0, "max": -3.0}, {"min": 0.0}):
        yield Case("Clip", [data], ends, 7)


def casts() -> Iterator[Case]:
    kinds: list[np.dtype[Any]] = [*TYPES, np.dtype(bool)]
    for before, after in itertools.product(kinds, repeat=2):
        data = np.array([False, True]) if before.kind == "b" else every(before)
        attributes = {"to": helper.np_dtype_to_tensor_dtype(after)}
        if before.kind == "f" and after.kind in "iu":
            ends, numbers = np.iinfo(after), data.astype(float)
            data = data[(numbers >= ends.min) & (numbers <= ends.max)]
        yield Case("Cast", [data], attributes, Draw(str(after)).choice([13, 17, 21]))
    yield Case("Cast", [np.array([-1.0, 300.0], np.float32)], {"to": TensorProto.UINT8})
    yield Case("Cast", [np.array([1, 2])], {"to": TensorProto.BFLOAT16})
    for dtype in (FLOATS[0], FLOATS[1], np.dtype(np.int64)):
        own = {"to": helper.np_dtype_to_tensor_dtype(dtype)}
        yield Case("Cast", [np.array([0, 1, 2], dtype)], own, data=0)


def shape_of(draw: Draw, most: int = 3, rank: int | None = None) -> list[int]:
    """Sizes at random, few of them 0."""
    if rank is None:
        rank = draw.randint(0, most)
    sizes = [draw.choice([0, 1, 1, 2, 2, 3, 3, 4]) for _ in range(rank)]
    return [size or draw.choice([0, 1, 2]) for size in sizes]


def data_of(draw: Draw, shape: Sequence[int]) -> Array:
    """Data of which each element is another."""
    dtype = draw.choice(
        [np.float32, np.int64, np.uint8, np.float64, np.int32, np.float16]
    )
    return np.arange(3, 3 + int(np.prod(shape))).astype(dtype).reshape(shape)


def axis_of(draw: Draw, rank: int) -> int:
    """An axis, seldom one that there is not."""
    return (
        draw.randint(-rank, rank - 1)
        if draw.random() < 0.9 and rank
        else draw.randint(-rank - 1, rank + 1)
    )


def ints(*numbers: int) -> Array:
    """INT64 of one dimension."""
    return np.array(numbers, np.int64)


def random_cases(
    make: Callable[[Draw], Case], count: int = 60
) -> Callable[[], Iterator[Case]]:
    """Cases at random, always the same ones."""
    return lambda: (make(Draw(k)) for k in range(count))


def reshape(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw))
    wanted = shape_of(draw)
    if draw.random() < 0.7:
        sizes = [*data.shape]
        draw.shuffle(sizes)
        wanted = [*sizes, *[1] * draw.randint(0, 1)]
        if len(wanted) > 1 and draw.random() < 0.5:
            k = draw.randrange(len(wanted) - 1)
            wanted[k : k + 2] = [wanted[k] * wanted[k + 1]]
        if wanted and draw.random() < 0.5:
            wanted[draw.randrange(len(wanted))] = draw.choice([-1, 0])
    attributes = {"allowzero": draw.randint(0, 1)}
    return Case(
        "Reshape", [data, ints(*wanted)], attributes, draw.choice([14, 21]), 1, data=0
    )


def squeeze(draw: Draw) -> Case:
    data = data_of(draw, [draw.choice([1, 1, 2, 0]) for _ in range(draw.randint(0, 4))])
    ones = [draw.choice([k, k - data.ndim]) for k, n in enumerate(data.shape) if n == 1]
    axes = draw.choice([None, ones[:1], ones, [axis_of(draw, data.ndim)]])
    if draw.random() < 0.4:
        own = {"axes": [one % max(data.ndim, 1) for one in axes]} if axes else {}
        return Case("Squeeze", [data], own, draw.choice([7, 11]), data=0)
    inputs = [data] if axes is None else [data, ints(*axes)]
    return Case("Squeeze", inputs, {}, 13, len(inputs) - 1, data=0)


def unsqueeze(draw: Draw) -> Case:
    data, count = data_of(draw, shape_of(draw)), draw.randint(1, 2)
    rank = data.ndim + count
    axes = [axis_of(draw, rank) for _ in range(count)]
    if draw.random() < 0.4:
        return Case(
            "Unsqueeze", [data], {"axes": [one % rank for one in axes]}, 7, data=0
        )
    return Case("Unsqueeze", [data, ints(*axes)], {}, 21, 1, data=0)


def transpose(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, 4))
    order = {"perm": draw.sample(range(data.ndim), data.ndim)}
    own = draw.choice([{}, order])
    return Case("Transpose", [data], own, draw.choice([7, 13, 21]), data=0)


def expand(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw))
    kept = data.shape[draw.randint(0, data.ndim) :]
    wanted = [draw.choice([n if n != 1 else 3, 1]) for n in kept]
    wanted = draw.choice([wanted, shape_of(draw), [2, *data.shape]])
    return Case("Expand", [data, ints(*wanted)], {}, draw.choice([8, 13]), 1, data=0)


def shape(draw: Draw) -> Case:
    ends = {"start": draw.randint(-5, 5), "end": draw.randint(-5, 5)}
    version = draw.choice([13, 15, 21])
    own = ends if version > 13 else {}
    return Case("Shape", [data_of(draw, shape_of(draw, 4))], own, version)


def size(draw: Draw) -> Case:
    return Case("Size", [data_of(draw, shape_of(draw, 4))])


def concat(draw: Draw) -> Case:
    sizes = shape_of(draw, rank=draw.randint(1, 3))
    axis = axis_of(draw, len(sizes))
    parts = list[Array | None]()
    for _ in range(draw.randint(1, 4)):
        own = [*sizes]
        if -len(own) <= axis < len(own):
            own[axis] = draw.randint(0, 3)
        if draw.random() < 0.03:
            own[0] += 1
        part = np.arange(50, 50 + int(np.prod(own))).reshape(own)
        parts.append(part * (len(parts) + 1))
    version, data = draw.choice([7, 11, 13]), draw.randrange(len(parts))
    return Case("Concat", parts, {"axis": axis}, version, data=data)


def slices(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw))
    count = draw.randint(0, data.ndim)
    axes = draw.sample(range(data.ndim), count)
    ends = [*range(-6, 7), 2**63 - 1, -(2**63), -(2**31)]
    starts, stops = ([draw.choice(ends) for _ in axes] for _ in range(2))
    if draw.random() < 0.2 and axes:
        own = {"starts": starts, "ends": stops, "axes": axes}
        return Case("Slice", [data], own, 7, data=0)
    choices = [1] * 20 + [2, -1, -2, 3] * 10 + [0]
    steps = [draw.choice(choices) for _ in axes]
    axes = [draw.choice([one, one - data.ndim]) for one in axes]
    inputs = [data, *(ints(*numbers) for numbers in (starts, stops, axes, steps))]
    return Case("Slice", inputs, {}, draw.choice([10, 13]), 4, data=0)


def filled(draw: Draw) -> Case:
    dtype = draw.choice([*TYPES, np.dtype(bool)])
    value = {"value": constant("", np.array([draw.choice([0, 1, 7])], dtype))}
    shape = ints(*shape_of(draw))
    return Case("ConstantOfShape", [shape], draw.choice([{}, value]), 21, 1)


def reduce_sum(draw: Draw) -> Case:
    """ReduceSum, whose axes are an attribute before a version."""
    dtype = np.dtype(draw.choice(["i4", "i8", "i1", "u1"]))
    data = drawn(draw, dtype, *shape_of(draw))
    axes = draw.sample(range(data.ndim), draw.randint(0, data.ndim))
    axes = draw.choice([None, [draw.choice([one, one - data.ndim]) for one in axes]])
    attributes: dict[str, Any] = {"keepdims": draw.randint(0, 1)}
    if draw.random() < 0.4:
        attributes |= {"axes": [one % data.ndim for one in axes]} if axes else {}
        return Case("ReduceSum", [data], attributes, 12)
    attributes["noop_with_empty_axes"] = draw.randint(0, 1)
    inputs = [data] if axes is None else [data, ints(*axes)]
    return Case("ReduceSum", inputs, attributes, 13, len(inputs) - 1)


def ranges(draw: Draw) -> Case:
    dtype = draw.choice([np.int16, np.int32, np.int64, np.float32])
    ends = [np.array(draw.randint(-9, 9), dtype) for _ in range(2)]
    step = np.array(draw.choice([-3, -2, -1, 1, 2, 3]), dtype)
    return Case("Range", [*ends, step], {}, 11, 3)


def indices_of(
    draw: Draw, size: int, shape: Sequence[int], wrong: float = 0.1
) -> Array:
    """Indices into an axis, some at its edges, seldom one out of range."""
    count = int(np.prod(shape))
    right = [-size, -1, 0, size - 1] if size else [0]
    numbers = [
        draw.choice([draw.choice(right), draw.randrange(size) if size else 0])
        for _ in range(count)
    ]
    if draw.random() < wrong and count:
        outside = [-size - 1, size, 2**31 - 1, -(2**31)]
        numbers[draw.randrange(count)] = draw.choice(outside)
    return np.array(numbers, draw.choice([np.int32, np.int64])).reshape(shape)


def gather(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, rank=draw.randint(1, 3)))
    axis = axis_of(draw, data.ndim)
    size = data.shape[axis] if -data.ndim <= axis < data.ndim else 1
    indices = indices_of(draw, size, shape_of(draw, 2), 0.3)
    version = draw.choice([7, 11, 13])
    return Case("Gather", [data, indices], {"axis": axis}, version, data=0)


def gather_elements(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, rank=draw.randint(1, 3)))
    axis = axis_of(draw, data.ndim)
    known = -data.ndim <= axis < data.ndim
    sizes = [draw.randint(0, n) + (draw.random() < 0.03) for n in data.shape]
    if known:
        sizes[axis] = draw.randint(0, 4)
    indices = indices_of(draw, data.shape[axis] if known else 1, sizes, 0.3)
    version = draw.choice([11, 13])
    return Case("GatherElements", [data, indices], {"axis": axis}, version, data=0)


def gather_nd(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, rank=draw.randint(1, 4)))
    batches = draw.randint(0, data.ndim - 1)
    length = draw.randint(1, data.ndim - batches)
    outer = [*data.shape[:batches], *shape_of(draw, 1)]
    if draw.random() < 0.05 and batches:
        outer[0] += 1
    sizes = data.shape[batches : batches + length]
    parts = [indices_of(draw, size, outer, 0.1) for size in sizes]
    inputs = [data, np.stack(parts, -1).astype(np.int64)]
    own = {"batch_dims": batches}
    return Case("GatherND", inputs, own, draw.choice([12, 13]), data=0)


def extract(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, rank=draw.randint(1, 3)))
    data = data.astype(draw.choice([np.float32, np.int64]))
    indices = indices_of(draw, data.shape[-1], [draw.randint(1, 4)], 0.2)
    indices = indices.astype(np.int64)
    if draw.random() < 0.7:
        indices = np.abs(indices) % max(data.shape[-1], 1)
    return Case("ArrayFeatureExtractor", [data, indices], data=0, domain="ai.onnx.ml")


def scatter_elements(draw: Draw) -> Case:
    data = data_of(draw, shape_of(draw, rank=draw.randint(1, 3)))
    axis = draw.randrange(-data.ndim, data.ndim)
    sizes = [draw.randint(0, n) for n in data.shape]
    indices = np.indices(sizes)[axis]
    if draw.random() < 0.4:
        indices = indices_of(draw, data.shape[axis], sizes).astype(np.int64)
    updates = (np.arange(indices.size) + 70).astype(data.dtype).reshape(indices.shape)
    inputs, version = [data, indices, updates], draw.choice([11, 13, 16])
    return Case("ScatterElements", inputs, {"axis": axis}, version, 2, data=0)


def wheres() -> Iterator[Case]:
    both = np.array([[True], [False]])
    for dtype in TYPES:
        own = np.array(edges(dtype), dtype)
        yield Case("Where", [both, own, own[::-1].copy()])
        yield Case("Where", [both, own, np.array(0, dtype)], data=1)


def copies() -> Iterator[Case]:
    for dtype in TYPES:
        yield Case("Identity", [np.array(edges(dtype), dtype)], data=0)


def equals() -> Iterator[Case]:
    yield from elementwise("Equal")
    yield from truths("Equal")


def mods() -> Iterator[Case]:
    yield from elementwise("Mod", INTEGERS)
    yield from elementwise("Mod", INTEGERS, fmod=1)


def scan(draw: Draw) -> Case:
    data = data_of(draw, [draw.randint(1, 3) for _ in range(3)])
    axis = draw.randrange(-3, 3)
    size = data.shape[axis]
    kept = [n for k, n in enumerate(data.shape) if k != axis % 3]
    indices = indices_of(draw, kept[0], [2, size]).astype(np.int64)
    own = info("own", helper.np_dtype_to_tensor_dtype(data.dtype), kept)
    row = node("Gather", ["own", "at"], "row")
    body = graph([row], [own, info("at", TensorProto.INT64, [2])], ["row"])
    attributes = {"body": body, "num_scan_inputs": 2, "scan_input_axes": [axis, 1]}
    return Case("Scan", [data, indices], attributes, draw.choice([11, 21]), data=0)


COMPARED = ("Greater", "GreaterOrEqual", "Less", "LessOrEqual")
ELEMENTWISE = ("Add", "Div", "Mul", "Sub", *COMPARED)

DRAWN: dict[str, Callable[[], Iterator[Case]]] = {
    **{name: partial(alone, name) for name in ("Abs", "Neg")},
    **{name: partial(truths, name) for name in ("And", "Or")},
    **{name: partial(elementwise, name) for name in ELEMENTWISE},
    "ArrayFeatureExtractor": random_cases(extract),
    "Cast": casts,
    "Clip": clips,
    "Concat": random_cases(concat),
    "ConstantOfShape": random_cases(filled, 20),
    "Equal": equals,
    "Expand": random_cases(expand),
    "Gather": random_cases(gather),
    "GatherElements": random_cases(gather_elements),
    "GatherND": random_cases(gather_nd),
    "Identity": copies,
    "Max": lambda: itertools.chain(elementwise("Max"), variadic("Max")),
    "Min": lambda: itertools.chain(elementwise("Min"), variadic("Min")),
    "Mod": mods,
    "Not": lambda: iter([Case("Not", [np.array([True, False])])]),
    "Range": random_cases(ranges, 30),
    "ReduceSum": random_cases(reduce_sum),
    "Reshape": random_cases(reshape),
    "Scan": random_cases(scan, 20),
    "ScatterElements": random_cases(scatter_elements),
    "Shape": random_cases(shape, 30),
    "Size": random_cases(size, 30),
    "Slice": random_cases(slices),
    "Squeeze": random_cases(squeeze),
    "Transpose": random_cases(transpose, 30),
    "Unsqueeze": random_cases(unsqueeze),
    "Where": wheres,
}
"""The cases of each operator."""


def test_every_row_of_the_table_is_drawn() -> None:
    assert DRAWN.keys() == {name for _, name in operators.TABLE}


def compare_all(name: str) -> list[str]:
    """Compare the row of an operator with the provider, in all its cases."""
    drawn = [*enumerate(DRAWN[name]())][:: by_ring(2, 1)]
    return [compare(case, Draw(k)) for k, case in drawn]


@pytest.mark.parametrize("name", one_quick_in(12, sorted(DRAWN)))
def test_a_row_computes_what_the_cpu_provider_computes(name: str) -> None:
    answers = compare_all(name)
    assert answers.count("value") >= min(len(answers), 8) / 2, answers


SMALL = ["Div", "Equal", "Greater", "Less", "Max", "Min", "Mod", "Sub"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_a_row_is_right_for_pairs_of_8_bits(name: str, dtype: str) -> None:
    """Pairs of all values of a type: 65,536; an eighth of them is drawn."""
    count = 8192
    first = [
        case
        for case in DRAWN[name]()
        if (own := case.inputs[0]) is not None and own.dtype == dtype and own.ndim == 2
    ]
    answers = [compare(case, Draw(0), count) for case in first]
    if all(answer == "missing" for answer in answers):
        pytest.skip(f"the CPU provider has no {name} of 8 bits")
    assert "value" in answers


# Faults


_NEAR = [
    s * 2**b + k for b in (0, 31, 32, 40, 53, 63) for k in (-1, 0, 1) for s in (-1, 1)
]
EDGES = sorted({n for n in [*_NEAR, 5, 100, -5] if -(2**63) <= n < 2**63})


def pairs_of_int64(name: str) -> Case:
    """A case of all pairs of edges, each beside its double, as kernels compute two at
    once."""
    first, second = (
        np.repeat(EDGES, 2 * len(EDGES)),
        np.tile(np.repeat(EDGES, 2), len(EDGES)),
    )
    if name == "Clip":
        return Case(name, [first, np.array(-5), np.array(4)], constants=2, version=17)
    return Case(name, [first, second], version=17)


def under_the_fault(case: Case) -> list[int]:
    """What the row of a case computes with low halves."""
    run = Run(low_halves=True)
    found = walk(read_network(case.model).main, as_constants(case, Draw(0))[0], run)[0]
    return [int(number(found, k)) for k in range(found.size)]


def number(tensor: LazyTensor, k: int) -> int:
    """An element that is a known integer."""
    item = tensor.at((k,))
    assert isinstance(item, int)
    return item


@pytest.mark.skipif(
    not CPU_COMPARES_HALVES, reason="ONNX Runtime 1.32 has no such fault"
)
@pytest.mark.parametrize("name", ["Min", "Max", "Clip", "Less", "Greater"])
def test_low_halves_are_what_older_cpu_providers_compute(name: str) -> None:
    case = pairs_of_int64(name)
    wanted = run_of_provider(case)
    assert isinstance(wanted, list)
    assert under_the_fault(case) == wanted[0].tolist()


@pytest.mark.parametrize(
    ("name", "pair", "wrong"),
    [
        ("Min", (0, 2**31), 2**31),
        ("Max", (0, 2**32 - 1), 0),
        ("Min", (-5, -(2**32)), -5),
        ("Max", (2**32, 9), 2**32),
        ("Less", (0, 2**31), 1),
        ("Greater", (2**31, 0), 1),
    ],
)
def test_low_halves_compute_what_was_measured(
    name: str, pair: tuple[int, int], wrong: int
) -> None:
    case = Case(name, [np.array([number]) for number in pair])
    assert under_the_fault(case) == [wrong]


# Planted mistakes


def changed(name: str, change: Callable[[NodeCall], NodeCall]) -> Semantics:
    """A row that takes another node."""
    row = operators.TABLE["", name]
    return lambda node: row(change(node))


def inputs(name: str, *order: int) -> Semantics:
    """A row that takes other inputs."""
    return changed(name, lambda node: replace(node, inputs=tuple(map(node.get, order))))


def attributes(name: str, **wrong: Any) -> Semantics:
    """A row that takes other attributes."""

    def change(node: NodeCall) -> NodeCall:
        own = replace(node.operation, attributes={**node.operation.attributes, **wrong})
        return replace(node, operation=own)

    return changed(name, change)


def not_negative(name: str) -> Semantics:
    """A row whose indices are 0 where they are negative."""

    def change(node: NodeCall) -> NodeCall:
        indices = node[1]

        def at(place: Place) -> Item:
            item = indices.at(place)
            assert isinstance(item, terms.Int)
            return terms.larger_of(0, item)

        own = lazy(indices.dtype, indices.shape, at)
        return replace(node, inputs=(node.inputs[0], own))

    return changed(name, change)


def rounded_down(node: NodeCall) -> LazyTensor:
    """A Div that rounds down."""

    def at(place: Place) -> Item:
        value, divisor = node[0].at((*place[:1], 0)), node[1].at((0, *place[1:]))
        assert isinstance(value, terms.Int)
        assert isinstance(divisor, int)
        return (value if divisor > 0 else -value) // abs(divisor)

    return lazy(node[0].dtype, (node[0].shape[0], node[1].shape[1]), at)


def uncast(node: NodeCall, cast: Semantics = operators.TABLE["", "Cast"]) -> LazyTensor:
    """A Cast that changes no value."""
    right = cast(node)
    assert isinstance(right, LazyTensor)
    return lazy(right.dtype, right.shape, node[0].at)


OTHERS = [
    ("Less", "LessOrEqual"),
    ("Greater", "GreaterOrEqual"),
    ("LessOrEqual", "Less"),
    ("GreaterOrEqual", "Greater"),
    ("Equal", "LessOrEqual"),
    ("And", "Or"),
    ("Min", "Max"),
    ("Max", "Min"),
    ("Add", "Sub"),
    ("Mul", "Add"),
    ("Neg", "Abs"),
    ("Abs", "Neg"),
    ("Not", "Identity"),
    ("Transpose", "Identity"),
    ("Expand", "Identity"),
    ("Size", "Identity"),
    ("Squeeze", "Unsqueeze"),
    ("ScatterElements", "Identity"),
]
"""Rows, each with one that stands in its place."""

PLANTED: list[tuple[str, Semantics]] = [
    *((name, operators.TABLE["", wrong]) for name, wrong in OTHERS),
    ("Sub", inputs("Sub", 1, 0)),
    ("Clip", inputs("Clip", 0, 2, 1)),
    ("Concat", changed("Concat", lambda node: replace(node, inputs=node.inputs[::-1]))),
    ("Where", inputs("Where", 0, 2, 1)),
    ("Slice", inputs("Slice", 0, 1, 2)),
    ("Gather", not_negative("Gather")),
    ("GatherElements", not_negative("GatherElements")),
    ("GatherND", not_negative("GatherND")),
    ("Gather", attributes("Gather", axis=0)),
    ("GatherND", attributes("GatherND", batch_dims=0)),
    ("ScatterElements", attributes("ScatterElements", axis=0)),
    ("ReduceSum", attributes("ReduceSum", keepdims=1)),
    ("Shape", attributes("Shape", start=0)),
    ("Scan", attributes("Scan", scan_input_axes=(0, 1))),
    ("Div", rounded_down),
    ("Cast", uncast),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "wrong"), PLANTED, ids=lambda value: str(value)[:12])
def test_the_provider_shows_a_planted_mistake(
    name: str, wrong: Semantics, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Any = operators.TABLE
    monkeypatch.setitem(table, ("", name), wrong)
    with pytest.raises((AssertionError, OverflowError)):
        compare_all(name)
