"""What must hold of a model for it to mean its descriptor."""

from __future__ import annotations

import itertools
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from onnxgather.certificates.formula import GatherFormula
from onnxgather.certificates.operators import TABLE
from onnxgather.certificates.tensors import (
    MOST_ELEMENTS,
    Failure,
    LazyTensor,
    Moved,
    NodeCall,
    Place,
    Run,
    UndecidedError,
    constant_tensor,
    flat,
    known_integer,
    lazy,
    moved,
)
from onnxgather.certificates.terms import (
    Int,
    Term,
    Truth,
    agree,
    all_of,
    any_of,
    assuming,
    highest,
    inside,
    is_equal,
    no,
    script,
    variable,
    weighted,
)
from onnxgather.checks import MAX_DIMENSIONS, listed, number_of, shown
from onnxgather.descriptors.operators import Descriptor, GatherND1Desc, GatherNDDesc
from onnxgather.errors import OnnxGatherError
from onnxgather.model.values import ModelProto, ValueType, name_of
from onnxgather.networks.network import Scope, read_network


@dataclass(frozen=True, slots=True)
class Claim:
    """What must follow for every value of its variables."""

    given: Truth
    """What is assumed: what the policy and the sizes of tensors leave."""
    conclusion: Truth
    output: Place = ()
    """The coordinates in OutputTensor that it is about."""
    each: Callable[[], Iterator[Claim]] | None = None
    """The same claim of each element apart, which are asked where the whole is not proved."""

    def script(self, *within: Truth) -> tuple[str, dict[str, Term]]:
        """What `terms.script` gives for the claim, where more is assumed."""
        return script([self.given, *within], self.conclusion)


AnyModel = str | os.PathLike[str] | ModelProto
"""A model, or the path of its file."""


def walk(
    scope: Scope,
    inputs: Sequence[LazyTensor],
    run: Run,
    outer: Mapping[str, LazyTensor] | None = None,
) -> list[LazyTensor]:
    """The outputs of a graph for inputs.

    Raises:
        UndecidedError: An operator, or what it does, is not known.
    """
    values = {**(outer or {}), **dict(zip(scope.inputs, inputs, strict=False))}

    def value(name: str) -> LazyTensor | None:
        if name and name not in values:
            array = scope.constant(name)
            if array is None:
                raise UndecidedError(f"the value {name} is not known")
            values[name] = constant_tensor(array)
        return values[name] if name else None

    for operation in scope.operations:
        if operation.operator == "Constant":
            continue
        tensors = tuple(map(value, operation.inputs))
        if "function" in operation.bodies:
            found = walk(operation.bodies["function"], [one for one in tensors if one], run)
        else:
            key = operation.domain, operation.operator
            if key not in TABLE:
                raise UndecidedError(f"the operator {'.'.join(filter(None, key))}")
            inner = partial(walk, outer=values)
            made = TABLE[key](NodeCall(operation, tensors, scope.version, run, inner))
            found = made if isinstance(made, list) else [made]
        values.update(zip(operation.outputs, found, strict=False))
    return [one for name in scope.outputs if (one := value(name))]


def tensor_names(main: Scope, desc: Descriptor) -> tuple[str, str, str]:
    """The names of InputTensor, IndicesTensor and OutputTensor in a model.

    They are found by these names with a common prefix, as `to_onnx` gives them, else by their
    order.

    Raises:
        OnnxGatherError: It is not clear which they are, or they do not fit the descriptor.
    """
    inputs, outputs = main.inputs, main.outputs
    starts = [name.removesuffix("InputTensor") for name in inputs if name.endswith("InputTensor")]
    starts = [start for start in starts if f"{start}IndicesTensor" in inputs]
    if len(starts) == 1:
        inputs = f"{starts[0]}InputTensor", f"{starts[0]}IndicesTensor"
        own = f"{starts[0]}OutputTensor"
        outputs = (own,) if own in outputs else outputs
    for what, names, count in (("input", inputs, 2), ("output", outputs, 1)):
        if len(names) != count:
            rule = f"the model must have {number_of(count, what)}, or have names of to_onnx"
            raise OnnxGatherError(f"{rule}, got {listed(names, 4) or 'none'}")
    for name, tensor in zip(inputs, (desc.input_tensor, desc.indices_tensor), strict=True):
        wanted, found = (
            ValueType(name_of(tensor.data_type.onnx), tensor.array_shape),
            main.types[name],
        )
        sizes = zip(found.sizes or (), tensor.array_shape, strict=False)
        if found.data_type != wanted.data_type or any(n not in (None, size) for n, size in sizes):
            raise OnnxGatherError(f"{shown(name)} of the model must be {wanted}, got {found}")
    return inputs[0], inputs[1], outputs[0]


def claims(model: AnyModel, formula: GatherFormula, run: Run) -> Iterator[Claim]:
    """What must follow for a model to mean a descriptor.

    Raises:
        UndecidedError: The model has what nothing is known of.
    """
    desc = formula.desc
    network = read_network(model)
    data, indices, output = tensor_names(network.main, desc)
    shape, index_shape = desc.input_tensor.array_shape, desc.indices_tensor.array_shape
    main = read_network(network, {data: shape, indices: index_shape}).main
    dtype, index_dtype = (one.data_type.numpy for one in (desc.input_tensor, desc.indices_tensor))
    given = {
        # nothing is known of InputTensor but that its elements only move
        data: lazy(dtype, shape, lambda at: Moved(True, flat(at, shape), 0)),
        indices: lazy(index_dtype, index_shape, lambda at: formula.index(flat(at, index_shape))),
    }
    found = walk(main, [], run, given)[main.outputs.index(output)]
    wanted = desc.output_tensor.array_shape
    if found.dtype != dtype or len(found.shape) != len(wanted):
        yield Claim(True, False)
        return
    yield from (Claim(True, is_equal(*sizes)) for sizes in zip(found.shape, wanted, strict=True))
    yield from _elements(formula, found)
    yield from _failures(formula, run.failures)


def _elements(formula: GatherFormula, output: LazyTensor) -> Iterator[Claim]:
    """Each element of OutputTensor is the one that the formula names, and 0 is between them."""
    tensor = formula.desc.output_tensor
    is_buffer = tensor.array_shape != tensor.sizes

    def element_at(at: Place) -> Moved:
        return moved(output.at(at), output.dtype)

    def offset_of(at: Place) -> Int:
        return weighted(zip(at, tensor.element_strides, strict=True))

    def claim(compare: Callable[[Int, Int], Truth], at: Place) -> Claim:
        source, element = formula.source(at), element_at((offset_of(at),) if is_buffer else at)
        given = formula.policy != "error" or no(source.outside)
        here = all_of(given, source.is_input, element.is_input)
        found, wanted = (assuming(one, here) for one in (element.position, source.position))
        conclusion = all_of(
            agree(element.is_input, source.is_input),
            any_of(no(here), compare(found, wanted)),
            any_of(source.is_input, element.is_input, is_equal(element.bits, 0)),
        )
        return Claim(given, conclusion, at)

    weaker = partial(_of_all, tensor.sizes, partial(claim, is_equal))
    yield from _of_all(tensor.sizes, partial(claim, _alike), weaker=weaker)
    if is_buffer:
        used = set(map(offset_of, _places(tensor.sizes)))
        for offset in set(range(math.prod(tensor.array_shape))) - used:
            element = element_at((offset,))
            yield Claim(True, all_of(no(element.is_input), is_equal(element.bits, 0)), (offset,))


def _alike(first: Int, second: Int) -> Truth:
    """Whether the terms of two sums that have the same factor are equal, of which z3 knows more."""
    start, factors = _as_sum(first - second)
    parts = dict[int, list[tuple[Int, int]]]()
    for term, factor in factors.items():
        parts.setdefault(abs(factor), []).append((term, factor))
    return all_of(start == 0, *(is_equal(weighted(part), 0) for part in parts.values()))


def _as_sum(value: Int) -> tuple[int, dict[Term, int]]:
    """The constant of a sum, and its terms with their factors."""
    if not isinstance(value, Term):
        return value, {}
    return (value.args[0], dict(value.args[1:])) if value.kind == "sum" else (0, {value: 1})


def _places(sizes: Sequence[Int]) -> Iterator[Place]:
    """Yield the coordinates of the elements of a tensor."""
    known = [known_integer(size, "a size") for size in sizes]
    if math.prod(known) > MOST_ELEMENTS:
        raise UndecidedError(f"more than {MOST_ELEMENTS:,} elements are not proved at once")
    yield from itertools.product(*map(range, known))


def _of_all(
    shape: Sequence[Int],
    claim: Callable[[Place], Claim],
    is_tuple: bool = False,
    has_witness: bool = False,
    weaker: Callable[[], Iterator[Claim]] | None = None,
) -> Iterator[Claim]:
    """Yield a claim of all elements of a tensor, with variables for their coordinates.

    Where the operators need known coordinates, yield a claim of each element. With `has_witness`
    the claim of all may not be provable though it holds of each; `weaker` are claims that are
    enough, where this one is not provable.
    """

    def each() -> Iterator[Claim]:
        return weaker() if weaker else map(claim, _places(shape))

    places = _variables(shape, is_tuple)
    is_large = math.prod(map(highest, shape)) > MOST_ELEMENTS
    try:
        first, *others = map(claim, places)
    except UndecidedError:
        if is_large and not weaker:
            raise
        yield from each()
        return
    given = all_of(first.given, *map(operator.lt, places[0], shape))
    assert all(other.given is first.given for other in others)
    conclusion = all_of(first.conclusion, *(other.conclusion for other in others))
    is_final = is_large and not has_witness and not weaker
    yield Claim(given, conclusion, first.output, None if is_final else each)


def _variables(shape: Sequence[Int], is_tuple: bool = False) -> list[Place]:
    """The coordinates of any element of a tensor, for each of a tuple's if it has tuples."""
    ends = [highest(size) - 1 for size in shape]
    place = [variable(f"at{k}", 0, end) if end else 0 for k, end in enumerate(ends)]
    if is_tuple and shape and ends[-1] < MAX_DIMENSIONS:
        return [(*place[:-1], k) for k in range(known_integer(shape[-1], "a size"))]
    return [tuple(place)]


def _failures(formula: GatherFormula, failures: Sequence[Failure]) -> Iterator[Claim]:
    """The model fails under the policy "error" where an index is out of range, and never else."""
    indices, desc = formula.desc.indices_tensor, formula.desc
    is_tuple = isinstance(desc, GatherNDDesc | GatherND1Desc)

    @cache
    def all_outside() -> dict[Int, Truth]:
        """Whether each index is out of range."""
        found = dict[Int, Truth]()
        for index, truth in map(formula.outside, _places(indices.sizes)):
            found[index] = any_of(found.get(index, False), truth)
        return found

    def outside(index: Term) -> Truth:
        """Whether an element of IndicesTensor's buffer is an index out of range."""
        position = index.args[1]
        if not isinstance(position, Term):
            return all_outside().get(index, False)
        at = _solution(position, indices.element_strides, indices.sizes)
        known_integer(at[-1] if is_tuple else 0, "the coordinate that an index is for")
        return formula.outside(at)[1]

    def claim(failure: Failure, at: Place) -> Claim:
        fails = failure.truth(at)
        if formula.policy != "error" or not isinstance(fails, Term):
            return Claim(True, no(fails))
        return Claim(True, any_of(no(fails), *map(outside, _reads(fails))))

    for failure in failures:
        has_witness = formula.policy == "error"
        yield from _of_all(failure.shape, partial(claim, failure), is_tuple, has_witness)
    if formula.policy == "error":
        yield from _of_all(indices.sizes, _refused(formula, failures), is_tuple, has_witness=True)


def _refused(formula: GatherFormula, failures: Sequence[Failure]) -> Callable[[Place], Claim]:
    """The claim that the model fails where an index at some coordinates is out of range."""
    is_tuple = isinstance(formula.desc, GatherNDDesc | GatherND1Desc)

    @cache
    def failing() -> dict[Term, Truth]:
        """The indices that operators read, and whether an operator fails for each."""
        found = dict[Term, Truth]()
        for failure in failures:
            for truth in map(failure.truth, _places(failure.shape)):
                for one in _reads(truth):
                    found[one] = any_of(found.get(one, False), truth)
        return found

    @cache
    def readers() -> list[tuple[Failure, Place, Term]]:
        """The operators that fail for indices, at which place for the index at which position."""
        return [
            (failure, at, one.args[1])
            for failure in failures
            for at in _variables(failure.shape, is_tuple)
            for one in _reads(failure.truth(at))
            if isinstance(one.args[1], Term)
        ]

    def claim(at: Place) -> Claim:
        index, is_outside = formula.outside(at)
        assert isinstance(index, Term)
        if not any(isinstance(one, Term) for one in at):
            return Claim(True, any_of(no(is_outside), failing().get(index, False)))
        fails = list[Truth]()
        for failure, variables, position in readers():
            start, factors = _as_sum(position)
            steps = [factors.get(one, 0) if isinstance(one, Term) else 0 for one in variables]
            solution = _solution(index.args[1] - start, steps, failure.shape)
            pairs = zip(solution, variables, strict=True)
            truth = failure.truth(tuple(k if isinstance(v, Term) else v for k, v in pairs))
            if index in _reads(truth):
                fails.append(truth)
        return Claim(True, any_of(no(is_outside), *fails))

    return claim


def _reads(truth: Truth) -> list[Term]:
    """The elements of tensors that a truth depends on."""
    terms = inside(truth) if isinstance(truth, Term) else ()
    return [one for one in terms if one.kind == "read"]


def _solution(number: Int, steps: Sequence[int], sizes: Sequence[Int]) -> Place:
    """Coordinates of a tensor whose sum, each times its step, is the number if there are any.

    If there are none, or steps are not multiples of each other, it is any place of the tensor.
    """
    return tuple(
        number // step % known_integer(size, "a size") if step > 0 else 0
        for step, size in zip(steps, sizes, strict=True)
    )
