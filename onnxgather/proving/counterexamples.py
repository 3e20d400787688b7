"""Counterexamples: inputs with which a model breaks its descriptor on the CPU provider.

A solver's values for the indices are made as small as the solver finds them in time,
and the model is run with them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import numpy as np

from onnxgather.core.checks import listed
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.descriptors.tensors import TensorDesc
from onnxgather.core.errors import IndexOutOfRangeError, OnnxGatherError
from onnxgather.core.execution.runtime import (
    CPU,
    FailedError,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
    line,
)
from onnxgather.core.model.network import Network, read_network
from onnxgather.core.model.quirks import (
    DIVISION_THAT_STOPS,
    LOW_HALVES_AS_SIGNED,
    OPTIMIZATION_LEVELS,
    OptimizationLevel,
)
from onnxgather.core.model.values import ValueType, loaded, values_of
from onnxgather.core.public import public
from onnxgather.proving.claims import (
    AnyModel,
    Claim,
    shape_in_model,
    tensor_names,
    without_leading_ones,
)
from onnxgather.proving.formula import GatherFormula
from onnxgather.proving.quirks import avoid
from onnxgather.proving.solvers import solve
from onnxgather.proving.tensors import UndecidedError, ensure, is_known
from onnxgather.proving.terms import Term, Truth, evaluate

MOST_STEPS = 20_000_000
"""The most steps that the solver takes to find smaller values once."""

COUNTS = (127, 113, 109)
"""What InputTensor's elements count up to, one after another, until the outputs differ:
the largest number of INT8, and primes, so that few positions have the same elements in
each."""

LEVELS_RUN: Sequence[OptimizationLevel] = ("all", "disabled")
"""The levels of optimization that a model is run at, until the outputs differ."""

LARGEST_RUN = 2**28
"""The most bytes of the tensors that a model is run with."""

_OF_LOW_HALVES = (
    "what the formula says",
    f"something else before ONNX Runtime {LOW_HALVES_AS_SIGNED.right_from}",
)


@public
class Counterexample(msgspec.Struct, frozen=True):
    """Inputs with which the CPU provider ran a model that breaks its descriptor.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3]), ("INT64", [1]))
        >>> clamped = og.to_onnx(desc, "clamp")
        >>> wrong = og.certify(desc, "zero", model=clamped).counterexample
        >>> wrong.indices, wrong.expected, wrong.found
        ({0: 3}, 0.0, 3.0)
    """

    indices: dict[int, int]
    """The elements of IndicesTensor's array that are not 0, by their positions."""
    data: int
    """InputTensor's elements count from 1 to this number, over and over."""
    output: int | None
    """The first position in OutputTensor's array where the elements differ; None if the
    outputs do not have the same type and sizes, or one is an error."""
    expected: float | str
    """The element there that the descriptor says; or the type and the sizes, or an
    error."""
    found: float | str
    """Likewise, of the model."""
    level: OptimizationLevel = "all"
    """ONNX Runtime's level of optimization in the run of the model."""

    def __str__(self) -> str:
        indices = [f"{value} at {at}" for at, value in self.indices.items()]
        given = "IndicesTensor is 0"
        if indices:
            given += f" but {listed(indices, 8)}"
        where = "" if self.output is None else f" at {self.output}"
        output = f"OutputTensor must be {self.expected}{where}, got {self.found}"
        if self.level != "all":
            output += f", with optimizations {self.level}"
        return (
            f"where {given} and InputTensor counts from 1 to {self.data} over and over,"
            f" {output}"
        )


def counterexample(
    model: AnyModel,
    formula: GatherFormula,
    claim: Claim | None,
    seconds: float,
    low_halves: bool = False,
) -> Counterexample:
    """Return small inputs with which a model differs from its descriptor.

    Args:
        model: The model, or the path of its file.
        formula: The formula of the descriptor.
        claim: A claim that the solver has refuted; None if all indices are 0.
        seconds: How long the solver may look for small values.
        low_halves: Whether the claim is about comparisons that the installed ONNX
            Runtime may not have; then the model need not differ here.

    Raises:
        UndecidedError: The model does not run, or does not differ.
    """
    desc = formula.desc
    needed = 0
    for tensor in tensors(desc).values():
        needed += tensor.total_tensor_size_in_bytes
    rule = f"tensors of {needed:,} bytes, with which no model is run"
    ensure(needed <= LARGEST_RUN, rule)
    values: Mapping[Term, int] = {}
    if claim:
        values = _smallest(claim, time.monotonic() + seconds)
    indices = _indices_of(desc, values)
    for level in LEVELS_RUN:
        example = _differing(model, formula, indices, level)
        if example:
            return example
    if low_halves:  # ONNX Runtime before 1.32 differs, the installed one need not
        return Counterexample(_numbered(indices), COUNTS[0], None, *_OF_LOW_HALVES)
    rule = "the model does not differ on the CPU provider where it is refuted"
    raise UndecidedError(rule)


def _indices_of(desc: Descriptor, values: Mapping[Term, int]) -> Array:
    """Return IndicesTensor's array with a solver's values, and 0 elsewhere."""
    tensor = desc.indices_tensor
    indices = np.zeros(tensor.array_shape, tensor.data_type.numpy)
    elements = indices.reshape(-1)
    for term, value in values.items():
        if term.kind != "read":
            continue
        _, position = term.args
        at = evaluate(position, values)
        if at < indices.size:  # what a model reads behind the indices counts nowhere
            elements[at] = value
    return indices


def _differing(
    model: AnyModel, formula: GatherFormula, indices: Array, level: OptimizationLevel
) -> Counterexample | None:
    """Return the counterexample with an IndicesTensor; None if there is none.

    Args:
        model: The model, or the path of its file.
        formula: The formula of the descriptor.
        indices: The elements of IndicesTensor.
        level: The level of optimization of the run.

    Raises:
        UndecidedError: The model does not run, or must not.
    """
    network = read_network(model)
    _check_divisions(network)
    try:
        content, proto = loaded(model)
        number = OPTIMIZATION_LEVELS[level]
        opened = Opened(content, Setup(CPU, threads=1, level=number))
        inputs, outputs = values_of(proto)
    except (NotRunError, RefusedError, OnnxGatherError) as error:
        rule = f"the model does not run on the CPU provider: {line(error)}"
        raise UndecidedError(rule) from None
    main = network.main
    desc = formula.desc
    data_name, indices_name, output_name = tensor_names(main, desc)
    shape = shape_in_model(main, data_name, desc.input_tensor)
    index_shape = shape_in_model(main, indices_name, desc.indices_tensor)
    is_of_truths = main.types[data_name].data_type == "BOOL"
    ensure(not is_of_truths, "data of BOOL, which do not count")
    feeds = _zeros(inputs)
    feeds[indices_name] = indices.reshape(index_shape)
    output_number = [*outputs].index(output_name)
    for most in COUNTS:
        data = _counting(desc.input_tensor, most)
        feeds[data_name] = data.reshape(shape)
        expected = actual = None
        with suppress(IndexOutOfRangeError):
            expected = reference(desc, data, indices, formula.policy)
        with suppress(FailedError):
            actual = opened.run_all(feeds)[output_number]
        if expected is not None and actual is not None:
            wanted = without_leading_ones(expected.shape, actual.ndim)
            expected = expected.reshape(wanted)
        difference = _difference(expected, actual)
        if difference:
            return Counterexample(_numbered(indices), most, *difference, level)
    return None


def _check_divisions(network: Network) -> None:
    """Check that no division of a model can stop the process that runs it.

    Raises:
        UndecidedError: A divisor may be 0 or -1.
    """
    for scope in network.scopes():
        for operation in scope.operations:
            if operation.operator not in ("Div", "Mod") or operation.domain:
                continue
            divisor = scope.constant(operation.inputs[1])
            is_safe = divisor is not None and not np.isin(divisor, [0, -1]).any()
            avoid(DIVISION_THAT_STOPS, not is_safe)


def _zeros(inputs: Mapping[str, ValueType]) -> dict[str, Array]:
    """Return an array of zeros for each input; an open size is 1.

    Raises:
        UndecidedError: An input has a type that no array has.
    """
    for name, value_type in inputs.items():
        dtype = value_type.dtype
        rule = f"the input {name} of {value_type}, with which no model is run"
        ensure(dtype is not None and is_known(dtype), rule)
    zeros: dict[str, Array] = {}
    for name, value_type in inputs.items():
        sizes = [max(1, size or 1) for size in value_type.sizes or ()]
        zeros[name] = np.zeros(sizes, value_type.dtype)
    return zeros


def _counting(tensor: TensorDesc, most: int) -> Array:
    """Return an array whose elements count from 1 to a number, over and over."""
    numbers = np.arange(1, most + 1, dtype=tensor.data_type.numpy)
    return np.resize(numbers, tensor.array_shape)


def _difference(
    expected: Array | None, actual: Array | None
) -> tuple[int | None, float | str, float | str] | None:
    """Return where two outputs differ first, and what is there; None if nowhere.

    An output that is None is an error. There is no position where the types or the
    sizes differ.
    """
    expected_kind = _kind_of(expected)
    actual_kind = _kind_of(actual)
    if expected_kind != actual_kind:
        return None, expected_kind, actual_kind
    if expected is None or actual is None:  # both are errors
        return None
    # Bits are compared, as a NaN is not equal to itself, and 0.0 is to -0.0.
    are_different = _bits(expected) != _bits(actual)
    if not are_different.any():
        return None
    at = int(np.flatnonzero(are_different)[0])
    return at, expected.reshape(-1)[at].item(), actual.reshape(-1)[at].item()


def _kind_of(output: Array | None) -> str:
    """Return the type and the sizes of an output, in words."""
    if output is None:
        return "an error"
    return f"{output.dtype} {[*output.shape]}"


def _bits(array: Array) -> Array:
    """Return the bits of each element as an unsigned integer."""
    return array.reshape(-1).view(f"u{array.itemsize}")


def _numbered(array: Array) -> dict[int, int]:
    """Return the elements of an array that are not 0, by their positions."""
    elements = array.reshape(-1)
    return {int(at): int(elements[at]) for at in np.flatnonzero(array)}


def _smallest(claim: Claim, end: float) -> Mapping[Term, int]:
    """Return values that refute a claim.

    The largest of them is as small as the solver finds it in time.
    """
    values: dict[Term, int] = {}
    low = 0
    limit = high = 2**64
    _, constants = claim.script()
    while low < high and time.monotonic() < end:
        within: list[Truth] = []
        for constant in constants.values():
            within.append(constant < limit + 1)
            within.append(-constant < limit + 1)
        text, names = claim.script(*within)
        answer = solve(text, end - time.monotonic(), steps=MOST_STEPS)
        if answer.verdict == "unknown":
            break
        if answer.verdict == "sat":
            values = {term: answer.values[name] for name, term in names.items()}
            high = max(map(abs, values.values()), default=0)
        else:
            low = limit + 1
        # The limit doubles until a solver finds values; then the interval is halved.
        limit = min(2 * low, (low + high) // 2)
    return values
