"""What must hold of a model for it to mean its descriptor."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from onnxgather.core.checks import listed, number_of, shown
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.network import (
    Network,
    Operation,
    Scope,
    read_network,
    refusal,
)
from onnxgather.core.model.values import ModelProto, ValueType, name_of
from onnxgather.proving import quirks, terms
from onnxgather.proving.formula import GatherFormula
from onnxgather.proving.operators import TABLE
from onnxgather.proving.tensors import (
    MOST_ELEMENTS,
    Failure,
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
from onnxgather.proving.views import viewed

AnyModel = str | os.PathLike[str] | ModelProto
"""A model, or the path of its file."""


ONE_BY_ONE = 64
"""The most elements of a tensor that are claimed one by one. For more, the coordinates
are variables, which takes a solver less time; but the elements of an output with
strides, and the gaps between them, are always claimed one by one, up to
`MOST_ELEMENTS`."""


class Claim(Struct, frozen=True):
    """What must follow for every value of its variables."""

    given: Truth
    """What is assumed: what the policy leaves."""
    conclusion: Truth
    output: Place = ()
    """The coordinates in OutputTensor that it is about."""

    def script(self, *within: Truth) -> tuple[str, dict[str, Term]]:
        """Return the script of the claim where more is assumed, and its constants."""
        return terms.script([self.given, *within], self.conclusion)


FIRST_OPSET = 8
"""The first opset in which all operators of the table broadcast as they do now."""


def walk(
    scope: Scope,
    inputs: Sequence[LazyTensor],
    run: Run,
    outer: Mapping[str, LazyTensor] | None = None,
    used: Container[str] | None = None,
) -> list[LazyTensor]:
    """Return the outputs of a graph for inputs.

    Args:
        scope: The graph.
        inputs: The values of its inputs.
        run: What the walk meets is added to it.
        outer: The values of the graphs around it, by their names.
        used: The names of its outputs whose elements reach an output of the model; None
            if all do.

    Raises:
        UndecidedError: An operator, or what it does, is not known.
    """
    rule = f"the opset {scope.version}, below {FIRST_OPSET}"
    ensure(scope.version >= FIRST_OPSET, rule)
    values = dict(outer or {})
    if scope.outer:
        # A body may use a name of the graphs around it for a value of its own.
        for name in values.keys() & scope.types.keys():
            del values[name]
    values.update(zip(scope.inputs, inputs, strict=False))
    outputs_used = [name for name in scope.outputs if used is None or name in used]
    reached = quirks.reaching(scope, outputs_used)
    declared = scope.declared
    for operation in scope.operations:
        if (operation.domain, operation.operator) == ("", "Constant"):
            continue
        arguments: list[LazyTensor | None] = []
        for name in operation.inputs:
            argument = _value(scope, values, name) if name else None
            arguments.append(argument)
        if "function" in operation.bodies:
            outputs = _call(operation, arguments, run, reached)
        else:
            outputs = _compute(scope, operation, arguments, run, values, reached)
        for name, output in zip(operation.outputs, outputs, strict=False):
            if name:
                values[name] = output
        for name in operation.outputs:
            if name in declared and name in values:
                shape = values[name].shape
                quirks.ensure_declared(run, name, declared[name], shape)
    return [_value(scope, values, name) for name in scope.outputs]


def _value(scope: Scope, values: dict[str, LazyTensor], name: str) -> LazyTensor:
    """Return a value of a graph; a constant is added to the values."""
    if name not in values:
        array = scope.constant(name) if scope.is_constant(name) else None
        if array is None:
            raise UndecidedError(f"the value {name} is not known")
        values[name] = constant_tensor(array)
    return values[name]


def _used_outputs(
    operation: Operation, body: Scope, reached: Container[str]
) -> set[str]:
    """Return the names of the outputs of a body whose values are reached."""
    pairs = zip(operation.outputs, body.outputs, strict=False)
    return {inner for outer, inner in pairs if outer in reached}


def _call(
    operation: Operation,
    arguments: Sequence[LazyTensor | None],
    run: Run,
    reached: Container[str],
) -> list[LazyTensor]:
    """Return the outputs of a call of a function of the model."""
    given = [argument for argument in arguments if argument]
    is_whole = len(given) == len(arguments)
    ensure(is_whole, "a call of a function that leaves an input out")
    body = operation.bodies["function"]
    has_more_inputs = len(arguments) > len(body.inputs)
    has_more_outputs = len(operation.outputs) > len(body.outputs)
    rule = "a call of a function with more inputs or outputs than the function has"
    ensure(not has_more_inputs and not has_more_outputs, rule)
    is_apart = {*body.inputs}.isdisjoint(body.outputs)  # else ONNX Runtime refuses it
    ensure(is_apart, "a function whose output is one of its inputs")
    return walk(body, given, run, used=_used_outputs(operation, body, reached))


def _compute(
    scope: Scope,
    operation: Operation,
    arguments: Sequence[LazyTensor | None],
    run: Run,
    values: Mapping[str, LazyTensor],
    reached: Container[str],
) -> list[LazyTensor]:
    """Return the outputs of a node by its row of the table."""
    key = operation.domain, operation.operator
    if key not in TABLE:
        raise UndecidedError(f"the operator {'.'.join(filter(None, key))}")
    refused = refusal(operation, scope)
    rule = f"the node {operation.label}, which ONNX refuses: {refused}"
    ensure(not refused, rule)
    flag = operation.wrong_flag
    ensure(not flag, f"the attribute {flag} must be 0 or 1")
    used: set[str] = set()
    for body in operation.bodies.values():
        used |= _used_outputs(operation, body, reached)
    node = NodeCall(
        operation,
        tuple(arguments),
        scope.version,
        run,
        any(name in reached for name in operation.outputs),
        partial(walk, outer=values, used=used),
    )
    result = TABLE[key](node)
    return result if isinstance(result, list) else [result]


def tensor_names(main: Scope, desc: Descriptor) -> tuple[str, str, str]:
    """Return the names of InputTensor, IndicesTensor and OutputTensor in a model.

    They are found by these names with a common prefix, as `to_onnx` gives them, else by
    their order. IndicesTensor comes first where only that order fits the descriptor.

    Raises:
        OnnxGatherError: It is not clear which they are.
    """
    inputs = main.inputs
    outputs = main.outputs
    prefixes: list[str] = []
    for name in inputs:
        prefix = name.removesuffix("InputTensor")
        if prefix != name and f"{prefix}IndicesTensor" in inputs:
            prefixes.append(prefix)
    if len(prefixes) == 1:
        prefix = prefixes[0]
        inputs = f"{prefix}InputTensor", f"{prefix}IndicesTensor"
        output_name = f"{prefix}OutputTensor"
        if output_name in outputs:
            outputs = (output_name,)
    for what, names, count in (("input", inputs, 2), ("output", outputs, 1)):
        if len(names) != count:
            number = number_of(count, what)
            rule = f"the model must have {number}, or have names of to_onnx"
            raise OnnxGatherError(f"{rule}, got {listed(names, 4) or 'none'}")
    if not _fit(main, inputs, desc) and _fit(main, inputs[::-1], desc):
        inputs = inputs[::-1]
    data_name, indices_name = inputs
    return data_name, indices_name, outputs[0]


def _fit(main: Scope, names: Sequence[str], desc: Descriptor) -> bool:
    """Return whether inputs may be InputTensor and IndicesTensor, in this order."""
    try:
        for name, tensor in zip(
            names, (desc.input_tensor, desc.indices_tensor), strict=True
        ):
            shape_in_model(main, name, tensor)
    except OnnxGatherError:
        return False
    return True


def without_leading_ones(shape: Sequence[int], rank: int) -> Sequence[int]:
    """Return a shape of a descriptor as a model of fewer dimensions has it."""
    dropped = len(shape) - rank
    if dropped > 0 and {*shape[:dropped]} == {1}:
        return shape[dropped:]
    return shape


def shape_in_model(main: Scope, name: str, tensor: TensorDesc) -> Sequence[int]:
    """Return the shape that a tensor of a descriptor has as an input of a model.

    A size of the model may be open, and leading ones of the descriptor may be missing.
    BOOL is UINT8 in a descriptor.

    Raises:
        OnnxGatherError: The input has another type.
    """
    wanted = ValueType(name_of(tensor.data_type.onnx), tensor.array_shape)
    actual = main.types[name]
    shape: Sequence[int] = tensor.array_shape
    if actual.sizes is not None:
        shape = without_leading_ones(shape, len(actual.sizes))
    data_type = "UINT8" if actual.data_type == "BOOL" else actual.data_type
    if data_type != wanted.data_type or not actual.admits(shape):
        rule = f"{shown(name)} of the model must be {wanted}"
        raise OnnxGatherError(f"{rule}, got {actual}")
    return shape


def claims(
    model: AnyModel | Network, formula: GatherFormula, run: Run
) -> Iterator[Claim]:
    """Yield what must follow for a model to mean a descriptor.

    Raises:
        UndecidedError: The model has what nothing is known of.
    """
    desc = formula.desc
    network = read_network(model)
    data_name, indices_name, output_name = tensor_names(network.main, desc)
    shape = shape_in_model(network.main, data_name, desc.input_tensor)
    index_shape = shape_in_model(network.main, indices_name, desc.indices_tensor)
    main = read_network(network, {data_name: shape, indices_name: index_shape}).main
    dtype = main.types[data_name].dtype
    assert dtype is not None  # as it is that of the descriptor
    index_dtype = desc.indices_tensor.data_type.numpy

    def data_element(place: Place) -> Moved:
        # Nothing is known of InputTensor but that its elements only move.
        return Moved(True, flat(place, shape), 0)

    def index_element(place: Place) -> Int:
        return formula.index(flat(place, index_shape))

    given = {
        data_name: lazy(dtype, shape, data_element),
        indices_name: lazy(index_dtype, index_shape, index_element),
    }
    for value in main.proto.input:
        type_of_tensor = value.type.tensor_type
        if value.name not in given or not type_of_tensor.HasField("shape"):
            continue
        declared: list[int | str] = []
        for dim in type_of_tensor.shape.dim:
            # A size that is not above 0 declares nothing; its name is empty then.
            declared.append(dim.dim_value if dim.dim_value > 0 else dim.dim_param)
        quirks.ensure_declared(run, value.name, declared, given[value.name].shape)
    outputs = walk(main, [], run, given)
    output = outputs[main.outputs.index(output_name)]
    rank = len(output.shape)
    whole = desc.output_tensor.array_shape
    wanted = without_leading_ones(whole, rank)
    if output.dtype != dtype or rank != len(wanted):
        yield Claim(True, False)
        return
    for size, wanted_size in zip(output.shape, wanted, strict=True):
        yield Claim(True, is_equal(size, wanted_size))
    dropped = len(whole) - rank
    output = viewed(output, whole, lambda place: place[dropped:])
    yield from _elements(formula, output)
    yield from _failures(formula, run.failures)


def _elements(formula: GatherFormula, output: LazyTensor) -> Iterator[Claim]:
    """Yield that each element of OutputTensor is right, and that 0 is between them."""
    tensor = formula.desc.output_tensor
    has_gaps = tensor.array_shape != tensor.sizes
    is_small = math.prod(tensor.sizes) <= MOST_ELEMENTS
    rule = f"an output of more than {MOST_ELEMENTS:,} elements has strides"
    ensure(not has_gaps or is_small, rule)

    # Case 1: no gaps; the coordinates of OutputTensor are those in the model's output.
    if not has_gaps:
        for place in places_of(tensor.sizes):
            yield _element_claim(formula, output, place, place)
        return

    # Case 2: with strides, the model's output is the flat array.
    used: set[Int] = set()
    for place in places_of(tensor.sizes, MOST_ELEMENTS):
        offset = weighted(zip(place, tensor.element_strides, strict=True))
        used.add(offset)
        yield _element_claim(formula, output, place, (offset,))
    for offset in range(math.prod(tensor.array_shape)):
        if offset not in used:
            element = moved(output.at((offset,)), output.dtype)
            is_constant = no(element.is_input)
            is_zero = is_equal(element.bits, 0)
            yield Claim(True, all_of(is_constant, is_zero), (offset,))


def _element_claim(
    formula: GatherFormula, output: LazyTensor, place: Place, output_place: Place
) -> Claim:
    """Return that an element of OutputTensor is the one that the formula names.

    Args:
        formula: The formula.
        output: The output of the model.
        place: The coordinates of the element in OutputTensor.
        output_place: Its coordinates in the output of the model.
    """
    element = moved(output.at(output_place), output.dtype)
    return part_claim(formula, place, element)


def part_claim(
    formula: GatherFormula,
    place: Place,
    part: Moved,
    unit: int = 1,
    within: Int = 0,
    size: int = 1,
    byte: int = 0,
) -> Claim:
    """Return that a part of an element of OutputTensor is that of its source.

    Args:
        formula: The formula.
        place: The coordinates of the element in OutputTensor.
        part: What the output has there.
        unit: The bytes between the positions of `part`; 1 for whole elements.
        within: The bytes of the part behind its position.
        size: The bytes of an element; 1 for whole elements.
        byte: The bytes of the part behind the start of its element.
    """
    source = formula.source(place)
    given: Truth = True
    if formula.policy == "error":  # nothing is said where an index is out of range
        given = no(source.outside)
    both_read = all_of(given, source.is_input, part.is_input)
    actual = terms.assuming(part.position, both_read) * unit + within
    wanted = terms.assuming(source.position, both_read) * size + byte
    is_same_kind = terms.agree(part.is_input, source.is_input)
    is_same_position = any_of(
        no(both_read), _alike(actual, wanted), is_equal(actual, wanted)
    )
    is_zero = is_equal(part.bits, 0)
    is_read_or_zero = any_of(source.is_input, part.is_input, is_zero)
    conclusion = all_of(is_same_kind, is_same_position, is_read_or_zero)
    return Claim(given, conclusion, place)


def _alike(first: Int, second: Int) -> Truth:
    """Return whether two sums are equal as the sums of the terms with each factor are.

    A solver sees that sooner than that the whole sums are.
    """
    start, factors = terms.as_sum(first - second)
    parts: dict[int, list[tuple[Int, int]]] = {}
    for term, factor in factors.items():
        parts.setdefault(abs(factor), []).append((term, factor))
    are_equal = [is_equal(weighted(part), 0) for part in parts.values()]
    return all_of(start == 0, *are_equal)


def places_of(sizes: Sequence[int], limit: int = ONE_BY_ONE) -> Iterable[Place]:
    """Return the coordinates of each element; variables for them beyond a limit."""
    if math.prod(sizes) <= limit:
        return itertools.product(*map(range, sizes))
    return [_anywhere(sizes)]


def _anywhere(sizes: Sequence[int]) -> Place:
    """Return variables for the coordinates of any element of a tensor."""
    place: list[Int] = []
    for axis, size in enumerate(sizes):
        place.append(terms.variable(f"at{axis}", 0, size - 1) if size > 1 else 0)
    return tuple(place)


def _failures(formula: GatherFormula, failures: Sequence[Failure]) -> Iterator[Claim]:
    """Yield that the model fails where it must, and never else.

    It must where an index is out of range, under the policy "error". There a node must
    fail that ONNX Runtime never drops; elsewhere no node may fail.
    """
    possible = [failure.truths for failure in failures]
    certain = [failure.truths for failure in failures if failure.is_certain]

    # Case 1: another policy; the model never fails.
    if formula.policy != "error":
        for truths in possible:
            for place in places_of(truths.sizes):
                yield Claim(True, no(unrounded(truths.at(place))))
        return

    indices = formula.desc.indices_tensor
    outside = lazy(bool, indices.sizes, formula.is_outside)
    # Where strides overlap, it is not seen which place reads the same element.
    limit = ONE_BY_ONE if indices.array_shape == indices.sizes else MOST_ELEMENTS
    # Case 2: few elements; all of them are named at once.
    if all(tensor.size <= limit for tensor in (*possible, outside)):
        is_outside = _holds_somewhere([outside], limit)
        must_fail = _holds_somewhere(certain, limit)
        may_fail = _holds_somewhere(possible, limit)
        yield Claim(True, any_of(no(is_outside), must_fail))
        yield Claim(True, any_of(no(may_fail), is_outside))
        return

    # Case 3: many elements; each is compared with those that read the same index.
    yield from _implying(outside, certain)
    for truths in possible:
        yield from _implying(truths, [outside])


def _holds_somewhere(truths: Sequence[LazyTensor], limit: int) -> Truth:
    """Return whether any element of some tensors holds."""
    elements: list[Truth] = []
    for tensor in truths:
        for place in places_of(tensor.sizes, limit):
            elements.append(unrounded(tensor.at(place)))
    return any_of(*elements)


def _implying(cause: LazyTensor, effects: Sequence[LazyTensor]) -> Iterator[Claim]:
    """Yield that where an element of the cause holds, so does an element of an effect.

    That is an element at the same place, or at a place where the effect reads the same
    element of IndicesTensor.
    """
    for place in places_of(cause.sizes):
        truth = unrounded(cause.at(place))
        implied: list[Truth] = []
        for effect in effects:
            if effect.shape == cause.shape:
                implied.append(unrounded(effect.at(place)))
            anywhere = _anywhere(effect.sizes)
            own_positions = _positions_read(unrounded(effect.at(anywhere)))
            for position in _positions_read(truth):
                for own_position in own_positions:
                    same = _place_reading(position, own_position, anywhere, effect)
                    implied.append(unrounded(effect.at(same)))
        yield Claim(True, any_of(no(truth), *implied))


def _place_reading(
    position: Int, own_position: Int, anywhere: Place, effect: LazyTensor
) -> Place:
    """Return the place where a tensor reads a position of IndicesTensor.

    Args:
        position: The position.
        own_position: The position that the tensor reads at `anywhere`.
        anywhere: Variables for the coordinates of any element of the tensor.
        effect: The tensor.
    """
    start, factors = terms.as_sum(own_position)
    coordinates: list[Int] = []
    for variable, size in zip(anywhere, effect.sizes, strict=True):
        # If the steps are not multiples of each other, this is any place.
        step = factors.get(variable, 0) if isinstance(variable, Term) else 0
        coordinate = (position - start) // step % size if step > 0 else 0
        coordinates.append(coordinate)
    return tuple(coordinates)


def _positions_read(truth: Truth) -> list[Int]:
    """Return the positions in IndicesTensor's array that a truth depends on."""
    if not isinstance(truth, Term):
        return []
    return [term.args[1] for term in terms.inside(truth) if term.kind == "read"]
