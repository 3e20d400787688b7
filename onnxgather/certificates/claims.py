"""What must hold of a model for it to mean its descriptor."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
    variable,
    weighted,
)
from onnxgather.descriptors.operators import Descriptor
from onnxgather.model.values import ModelProto
from onnxgather.networks.network import Scope, read_network


@dataclass(frozen=True, slots=True)
class Claim:
    """What must follow for every value of its variables."""

    hypotheses: tuple[Truth, ...]
    conclusion: Truth
    output: Place = ()
    """The coordinates in OutputTensor that it is about."""


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
    values = {**(outer or {}), **dict(zip(scope.inputs, inputs, strict=True))}

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


def _input(desc: Descriptor) -> LazyTensor:
    """InputTensor, of which nothing is known but that its elements only move."""
    shape = desc.input_tensor.array_shape
    dtype = desc.input_tensor.data_type.numpy
    return lazy(dtype, shape, lambda at: Moved(True, flat(at, shape), 0))


def claims(model: ModelProto, formula: GatherFormula, run: Run) -> Iterator[Claim]:
    """What must follow for a model to mean a descriptor.

    Raises:
        UndecidedError: The model has what nothing is known of.
    """
    desc = formula.desc
    main = read_network(model).main
    indices = desc.indices_tensor
    shape = indices.array_shape
    given = lazy(indices.data_type.numpy, shape, lambda at: formula.index(flat(at, shape)))
    output = walk(main, [_input(desc), given][: len(main.inputs)], run)[0]
    yield from _failures(formula, run.failures)
    yield from _elements(formula, output)


def _elements(formula: GatherFormula, output: LazyTensor) -> Iterator[Claim]:
    """Each element of OutputTensor is the one that the formula names, and 0 is between them."""
    tensor = formula.desc.output_tensor
    is_buffer = tensor.array_shape != tensor.sizes
    if is_buffer and math.prod(tensor.array_shape) > MOST_ELEMENTS:
        raise UndecidedError(f"an output with strides has more than {MOST_ELEMENTS:,} elements")
    free = dict.fromkeys(range(math.prod(tensor.array_shape) if is_buffer else 0))
    for at, _ in _coordinates(tensor.sizes, "o"):
        offset = weighted(zip(at, tensor.element_strides, strict=True))
        if isinstance(offset, int):
            free.pop(offset, None)
        source = formula.source(at)
        element = moved(output.at((offset,) if is_buffer else at), output.dtype)
        given = (no(source.outside),) if formula.policy == "error" else ()
        yield Claim(given, agree(element.is_input, source.is_input), at)
        here = all_of(*given, source.is_input, element.is_input)
        found, wanted = (assuming(one, here) for one in (element.position, source.position))
        yield Claim((here,), is_equal(found, wanted), at)
        there = all_of(*given, no(source.is_input), no(element.is_input))
        yield Claim((there,), is_equal(element.bits, 0), at)
    for offset in free:
        element = moved(output.at((offset,)), output.dtype)
        yield Claim((), all_of(no(element.is_input), is_equal(element.bits, 0)), (offset,))


def _coordinates(shape: Sequence[Int], name: str) -> Iterator[tuple[Place, Truth]]:
    """The coordinates of all elements: each, or of large tensors one that stands for all.

    The truth is what must be assumed of them.
    """
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) == len(shape) and math.prod(sizes) <= MOST_ELEMENTS:
        yield from ((at, True) for at in itertools.product(*map(range, sizes)))
        return
    at = [variable(f"{name}{k}", 0, highest(size) - 1) for k, size in enumerate(shape)]
    yield tuple(at), all_of(*map(operator.lt, at, shape))


def _failures(formula: GatherFormula, failures: Sequence[Failure]) -> Iterator[Claim]:
    """The model fails under the policy "error" where an index is out of range, and never else."""
    fails = [
        (all_of(given, failure.truth(at)))
        for failure in failures
        for at, given in _coordinates(failure.shape, "f")
    ]
    if formula.policy != "error":
        yield from (Claim((), no(truth)) for truth in fails)
        return
    outside = dict[Int, Truth]()
    for at, _ in _coordinates(formula.desc.indices_tensor.sizes, "i"):
        index, truth = formula.outside(at)
        outside[index] = any_of(outside.get(index, False), truth)
    failing = dict[Int, Truth]()
    for truth in fails:
        terms = inside(truth) if isinstance(truth, Term) else ()
        reads = [one for one in terms if one.kind == "read"]
        yield Claim((truth,), any_of(*(outside.get(one, False) for one in reads)))
        for one in reads:
            failing[one] = any_of(failing.get(one, False), truth)
    for index, truth in outside.items():
        yield Claim((truth,), failing.get(index, False))
