"""What must hold of a model for it to mean its descriptor."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from onnxgather.core.checks import listed, number_of, shown
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import Network, Scope, read_network, refusal
from onnxgather.core.model.values import ModelProto, ValueType, name_of
from onnxgather.proving import terms
from onnxgather.proving.formula import GatherFormula
from onnxgather.proving.operators import TABLE
from onnxgather.proving.tensors import (
    MOST_ELEMENTS,
    LazyTensor,
    Moved,
    NodeCall,
    Place,
    Run,
    UndecidedError,
    constant_tensor,
    ensure,
    flat,
    lazy,
    moved,
    unrounded,
)
from onnxgather.proving.terms import (
    Int,
    Term,
    Truth,
    all_of,
    any_of,
    is_equal,
    no,
    weighted,
)

AnyModel = str | os.PathLike[str] | ModelProto
"""A model, or the path of its file."""


ONE_BY_ONE = 64
"""The most elements of a tensor that are claimed one by one. For more, the coordinates
are variables, which takes a solver less time; but the elements of an output with
strides, and the gaps between them, are always claimed one by one, up to
`MOST_ELEMENTS`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What must follow for every value of its variables."""

    given: Truth
    """What is assumed: what the policy leaves."""
    conclusion: Truth
    output: Place = ()
    """The coordinates in OutputTensor that it is about."""

    def script(self, *within: Truth) -> tuple[str, dict[str, Term]]:
        """What `terms.script` gives for the claim, where more is assumed."""
        return terms.script([self.given, *within], self.conclusion)


FIRST_OPSET = 8
"""The first opset in which all operators of the table broadcast as they do now."""


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
    ensure(
        scope.version >= FIRST_OPSET, f"the opset {scope.version}, below {FIRST_OPSET}"
    )
    own = (
        scope.types if scope.outer else ()
    )  # a body may have names of the graphs around it
    around = {k: v for k, v in (outer or {}).items() if k not in own}
    values = {**around, **dict(zip(scope.inputs, inputs, strict=False))}

    def value(name: str) -> LazyTensor:
        if name not in values:
            array = scope.constant(name) if scope.is_constant(name) else None
            if array is None:
                raise UndecidedError(f"the value {name} is not known")
            values[name] = constant_tensor(array)
        return values[name]

    for operation in scope.operations:
        if (operation.domain, operation.operator) == ("", "Constant"):
            continue
        given = tuple(value(name) if name else None for name in operation.inputs)
        if "function" in operation.bodies:
            ensure(None not in given, "a call of a function that leaves an input out")
            body = operation.bodies["function"]
            rule = (
                "a call of a function with more inputs or outputs than the function has"
            )
            is_more = len(given) > len(body.inputs) or len(operation.outputs) > len(
                body.outputs
            )
            ensure(not is_more, rule)
            rule = (  # ONNX Runtime refuses it
                "a function whose output is one of its inputs"
            )
            ensure({*body.inputs}.isdisjoint(body.outputs), rule)
            found = walk(body, [one for one in given if one], run)
        else:
            key = operation.domain, operation.operator
            if key not in TABLE:
                raise UndecidedError(f"the operator {'.'.join(filter(None, key))}")
            refused = refusal(operation, scope)
            ensure(
                not refused,
                f"the node {operation.label}, which ONNX refuses: {refused}",
            )
            inner = partial(walk, outer=values)
            made = TABLE[key](NodeCall(operation, given, scope.version, run, inner))
            found = made if isinstance(made, list) else [made]
        values |= {
            k: one for k, one in zip(operation.outputs, found, strict=False) if k
        }
        for name in scope.declared.keys() & {*operation.outputs} & values.keys():
            run.ensure_declared(name, scope.declared[name], values[name].shape)
    return [*map(value, scope.outputs)]


def tensor_names(main: Scope, desc: Descriptor) -> tuple[str, str, str]:
    """The names of InputTensor, IndicesTensor and OutputTensor in a model.

    They are found by these names with a common prefix, as `to_onnx` gives them, else by
    their order.

    Raises:
        OnnxGatherError: It is not clear which they are, or they do not fit the descriptor.
    """
    inputs, outputs = main.inputs, main.outputs
    starts = [
        name.removesuffix("InputTensor")
        for name in inputs
        if name.endswith("InputTensor")
    ]
    starts = [start for start in starts if f"{start}IndicesTensor" in inputs]
    if len(starts) == 1:
        inputs = f"{starts[0]}InputTensor", f"{starts[0]}IndicesTensor"
        own = f"{starts[0]}OutputTensor"
        outputs = (own,) if own in outputs else outputs
    for what, names, count in (("input", inputs, 2), ("output", outputs, 1)):
        if len(names) != count:
            rule = (
                f"the model must have {number_of(count, what)}, or have names of"
                " to_onnx"
            )
            raise OnnxGatherError(f"{rule}, got {listed(names, 4) or 'none'}")
    for name, tensor in zip(
        inputs, (desc.input_tensor, desc.indices_tensor), strict=True
    ):
        wanted = ValueType(name_of(tensor.data_type.onnx), tensor.array_shape)
        found = main.types[name]
        sizes = zip(found.sizes or (), tensor.array_shape, strict=False)
        if found.data_type != wanted.data_type or any(
            n not in (None, size) for n, size in sizes
        ):
            raise OnnxGatherError(
                f"{shown(name)} of the model must be {wanted}, got {found}"
            )
    return inputs[0], inputs[1], outputs[0]


def claims(
    model: AnyModel | Network, formula: GatherFormula, run: Run
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
    dtype, index_dtype = (
        one.data_type.numpy for one in (desc.input_tensor, desc.indices_tensor)
    )
    given = {
        # nothing is known of InputTensor but that its elements only move
        data: lazy(dtype, shape, lambda at: Moved(True, flat(at, shape), 0)),
        indices: lazy(
            index_dtype, index_shape, lambda at: formula.index(flat(at, index_shape))
        ),
    }
    for value in main.proto.input:
        if value.name in given and value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            told = [
                dim.dim_value if dim.dim_value > 0 else dim.dim_param for dim in dims
            ]
            run.ensure_declared(value.name, told, given[value.name].shape)
    found = walk(main, [], run, given)[main.outputs.index(output)]
    wanted = desc.output_tensor.array_shape
    if found.dtype != dtype or len(found.shape) != len(wanted):
        yield Claim(True, False)
        return
    yield from (
        Claim(True, is_equal(*sizes)) for sizes in zip(found.shape, wanted, strict=True)
    )
    yield from _elements(formula, found)
    yield from _failures(formula, run.failures)


def _elements(formula: GatherFormula, output: LazyTensor) -> Iterator[Claim]:
    """Each element of OutputTensor is the one that the formula names, and 0 is between them."""
    tensor = formula.desc.output_tensor
    has_gaps = tensor.array_shape != tensor.sizes
    rule = f"an output of more than {MOST_ELEMENTS:,} elements has strides"
    ensure(not has_gaps or math.prod(tensor.sizes) <= MOST_ELEMENTS, rule)
    used = set[Int]()
    for at in _places(tensor.sizes, MOST_ELEMENTS if has_gaps else ONE_BY_ONE):
        offset = weighted(zip(at, tensor.element_strides, strict=True))
        used.add(offset)
        source = formula.source(at)
        element = moved(output.at((offset,) if has_gaps else at), output.dtype)
        given = formula.policy != "error" or no(source.outside)
        here = all_of(given, source.is_input, element.is_input)
        found, wanted = (
            terms.assuming(one, here) for one in (element.position, source.position)
        )
        conclusion = all_of(
            terms.agree(element.is_input, source.is_input),
            any_of(no(here), _alike(found, wanted), is_equal(found, wanted)),
            any_of(source.is_input, element.is_input, is_equal(element.bits, 0)),
        )
        yield Claim(given, conclusion, at)
    for offset in range(math.prod(tensor.array_shape) if has_gaps else 0):
        if offset not in used:
            element = moved(output.at((offset,)), output.dtype)
            yield Claim(
                True, all_of(no(element.is_input), is_equal(element.bits, 0)), (offset,)
            )


def _alike(first: Int, second: Int) -> Truth:
    """Whether two sums are equal as the sums of the terms with each factor are.

    A solver sees that sooner than that the whole sums are.
    """
    start, factors = terms.as_sum(first - second)
    parts = dict[int, list[tuple[Int, int]]]()
    for term, factor in factors.items():
        parts.setdefault(abs(factor), []).append((term, factor))
    return all_of(start == 0, *(is_equal(weighted(part), 0) for part in parts.values()))


def _places(sizes: Sequence[int], most: int = ONE_BY_ONE) -> Iterable[Place]:
    """The coordinates of each element of a tensor; variables for them if it is large."""
    is_small = math.prod(sizes) <= most
    return itertools.product(*map(range, sizes)) if is_small else [_anywhere(sizes)]


def _anywhere(sizes: Sequence[int]) -> Place:
    """Variables for the coordinates of any element of a tensor."""
    return tuple(
        terms.variable(f"at{k}", 0, n - 1) if n > 1 else 0 for k, n in enumerate(sizes)
    )


def _failures(
    formula: GatherFormula, failures: Sequence[LazyTensor]
) -> Iterator[Claim]:
    """The model fails under the policy "error" where an index is out of range, and never else."""
    if formula.policy != "error":
        for one in failures:
            yield from (
                Claim(True, no(unrounded(one.at(at)))) for at in _places(one.sizes)
            )
        return
    indices = formula.desc.indices_tensor
    outside = lazy(bool, indices.sizes, formula.is_outside)
    # Where strides overlap, it is not seen which place reads the same element.
    most = ONE_BY_ONE if indices.array_shape == indices.sizes else MOST_ELEMENTS
    if all(one.size <= most for one in (*failures, outside)):
        is_outside, fails = (
            any_of(
                *(
                    unrounded(one.at(at))
                    for one in several
                    for at in _places(one.sizes, most)
                )
            )
            for several in ([outside], failures)
        )
        yield Claim(True, any_of(no(is_outside), fails))
        yield Claim(True, any_of(no(fails), is_outside))
        return
    yield from _implying(outside, failures)
    for failure in failures:
        yield from _implying(failure, [outside])


def _implying(cause: LazyTensor, effects: Sequence[LazyTensor]) -> Iterator[Claim]:
    """Where a truth holds, so does one of others: at a place where it reads the same element."""
    for at in _places(cause.sizes):
        truth, found = unrounded(cause.at(at)), list[Truth]()
        for effect in effects:
            sizes = effect.sizes
            found += [unrounded(effect.at(at))] if effect.shape == cause.shape else []
            place = _anywhere(sizes)
            reads = itertools.product(_read(truth), _read(unrounded(effect.at(place))))
            for position, own in reads:
                start, factors = terms.as_sum(own)
                # If the steps are not multiples of each other, this is any place.
                steps = [
                    factors.get(one, 0) if isinstance(one, Term) else 0 for one in place
                ]
                pairs = zip(steps, sizes, strict=True)
                where = ((position - start) // s % n if s > 0 else 0 for s, n in pairs)
                found.append(unrounded(effect.at(tuple(where))))
        yield Claim(True, any_of(no(truth), *found))


def _read(truth: Truth) -> list[Int]:
    """The positions of the elements of IndicesTensor that a truth depends on."""
    inside = terms.inside(truth) if isinstance(truth, Term) else ()
    return [one.args[1] for one in inside if one.kind == "read"]
