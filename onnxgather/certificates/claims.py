"""What must hold of a model for it to mean its descriptor."""

from __future__ import annotations

import itertools
import math
import operator
import os
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
from onnxgather.checks import listed, number_of, shown
from onnxgather.descriptors.operators import Descriptor
from onnxgather.errors import OnnxGatherError
from onnxgather.model.values import ModelProto, ValueType, name_of
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


def claims(
    model: str | os.PathLike[str] | ModelProto, formula: GatherFormula, run: Run
) -> Iterator[Claim]:
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
    yield Claim((), found.dtype == dtype and len(found.shape) == len(wanted))
    yield from (Claim((), is_equal(*sizes)) for sizes in zip(found.shape, wanted, strict=False))
    yield from _failures(formula, run.failures)
    yield from _elements(formula, found)


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
