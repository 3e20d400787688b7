"""Counterexamples: inputs for which a model on the CPU provider does what its descriptor does not.

A solver's values for the indices are made as small as the solver finds them in time,
and the model is run with them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import msgspec
import numpy as np

from onnxgather.core.checks import listed
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.errors import IndexOutOfRangeError
from onnxgather.core.execution.runtime import CPU, FailedError, Opened, Setup, line
from onnxgather.core.model.network import read_network
from onnxgather.core.model.values import loaded, values_of
from onnxgather.proving.claims import AnyModel, Claim, tensor_names
from onnxgather.proving.formula import GatherFormula
from onnxgather.proving.solvers import solve
from onnxgather.proving.tensors import UndecidedError, ensure, is_known
from onnxgather.proving.terms import Term, evaluate

MOST_STEPS = 20_000_000
"""The most steps that the solver takes to find smaller values once."""

COUNTS = (127, 113, 109)
"""What InputTensor's elements count up to, one after another, until the outputs differ:
the largest number of INT8, and primes, so that few positions have the same elements in
each."""

LARGEST_RUN = 2**28
"""The most bytes of the tensors that a model is run with."""

_OF_LOW_HALVES = "what the formula says", "something else before ONNX Runtime 1.32"


class Counterexample(msgspec.Struct, frozen=True):
    """Inputs for which a model does not what its descriptor says, as the CPU provider ran it."""

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

    def __str__(self) -> str:
        indices = [f"{value} at {at}" for at, value in self.indices.items()]
        given = "IndicesTensor is 0" + (f" but {listed(indices, 8)}" if indices else "")
        where = "" if self.output is None else f" at {self.output}"
        output = f"OutputTensor must be {self.expected}{where}, got {self.found}"
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
    """Small inputs with which a model differs from its descriptor.

    Args:
        model: The model, or the path of its file.
        formula: The formula of the descriptor.
        claim: A claim that the solver has refuted; None if all indices are 0.
        seconds: How long the solver may look for small values.
        low_halves: Whether the claim is about comparisons that the installed ONNX Runtime may not
            have; then the model need not differ here.

    Raises:
        UndecidedError: The model does not run, or does not differ.
    """
    desc = formula.desc
    needed = sum(one.total_tensor_size_in_bytes for one in tensors(desc).values())
    ensure(
        needed <= LARGEST_RUN,
        f"tensors of {needed:,} bytes, with which no model is run",
    )
    values = (
        _smallest(claim, time.monotonic() + seconds) if claim else dict[Term, int]()
    )
    indices = np.zeros(
        desc.indices_tensor.array_shape, desc.indices_tensor.data_type.numpy
    )
    for term, value in values.items():
        # What a model reads behind the indices counts nowhere.
        if (
            term.kind == "read"
            and (at := evaluate(term.args[1], values)) < indices.size
        ):
            indices.reshape(-1)[at] = value
    if shown := _differing(model, formula, indices):
        return shown
    if low_halves:
        return Counterexample(_numbered(indices), COUNTS[0], None, *_OF_LOW_HALVES)
    raise UndecidedError(
        "the model does not differ on the CPU provider where it is refuted"
    )


def _differing(
    model: AnyModel, formula: GatherFormula, indices: Array
) -> Counterexample | None:
    """The counterexample with an IndicesTensor."""
    desc, tensor = formula.desc, formula.desc.input_tensor
    network = read_network(model)
    for operation, scope in ((o, s) for s in network.scopes() for o in s.operations):
        if operation.operator in ("Div", "Mod") and not operation.domain:
            divisor = scope.constant(operation.inputs[1])
            is_safe = divisor is not None and not np.isin(divisor, [0, -1]).any()
            ensure(is_safe, "a division that may stop the process")
    try:
        content, proto = loaded(model)
        opened, (inputs, outputs) = (
            Opened(content, Setup(CPU, threads=1)),
            values_of(proto),
        )
    except Exception as error:  # whatever ONNX Runtime says of a model
        raise UndecidedError(
            f"the model does not run on the CPU provider: {line(error)}"
        ) from None
    names = tensor_names(network.main, desc)
    for name, kind in inputs.items():
        rule = f"the input {name} of {kind}, with which no model is run"
        ensure(kind.dtype is not None and is_known(kind.dtype), rule)
    sizes = {k: [max(1, n or 1) for n in v.sizes or ()] for k, v in inputs.items()}
    feeds = {k: np.zeros(sizes[k], v.dtype) for k, v in inputs.items()}
    for most in COUNTS:
        data = np.resize(
            np.arange(1, most + 1, dtype=tensor.data_type.numpy), tensor.array_shape
        )
        expected = found = None
        with suppress(IndexOutOfRangeError):
            expected = reference(desc, data, indices, formula.policy)
        with suppress(FailedError):
            feeds |= {names[0]: data, names[1]: indices}
            found = opened.run_all(feeds)[[*outputs].index(names[2])]
        told = [
            "an error" if x is None else f"{x.dtype} {[*x.shape]}"
            for x in (expected, found)
        ]
        if told[0] != told[1]:
            return Counterexample(_numbered(indices), most, None, told[0], told[1])
        if expected is None or found is None:
            continue
        bits = [
            array.reshape(-1).view(f"u{array.itemsize}") for array in (expected, found)
        ]
        for at in np.flatnonzero(bits[0] != bits[1])[:1].tolist():
            own = (array.reshape(-1)[at].item() for array in (expected, found))
            return Counterexample(_numbered(indices), most, at, *own)
    return None


def _numbered(array: Array) -> dict[int, int]:
    """The elements of an array that are not 0, by their positions."""
    return {int(at): int(array.reshape(-1)[at]) for at in np.flatnonzero(array)}


def _smallest(claim: Claim, end: float) -> Mapping[Term, int]:
    """Values that refute a claim, the largest of them as small as the solver finds it in time."""
    values, low, most, high = dict[Term, int](), 0, 2**64, 2**64
    _, constants = claim.script()
    while low < high and time.monotonic() < end:
        within = [
            bound
            for one in constants.values()
            for bound in (one < most + 1, -one < most + 1)
        ]
        text, names = claim.script(*within)
        answer = solve(text, end - time.monotonic(), steps=MOST_STEPS)
        if answer.verdict == "sat":
            values = {term: answer.values[name] for name, term in names.items()}
            high = max(map(abs, values.values()), default=0)
        elif answer.verdict == "unsat":
            low = most + 1
        else:
            break
        most = min(2 * low, (low + high) // 2)
    return values
