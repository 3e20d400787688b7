"""Counterexamples: inputs for which a model on the CPU provider does what its descriptor does not.

A solver's values for the indices are made as small as the solver finds them in time, and the model
is run with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec
import numpy as np

from onnxgather.certificates.claims import Claim, tensor_names
from onnxgather.certificates.formula import GatherFormula
from onnxgather.certificates.solvers import solve
from onnxgather.certificates.tensors import UndecidedError
from onnxgather.certificates.terms import Term, evaluate, script
from onnxgather.checks import listed
from onnxgather.descriptors.arrays import Array
from onnxgather.descriptors.reference import reference
from onnxgather.errors import IndexOutOfRangeError
from onnxgather.execution.runtime import CPU, FailedError, Opened, Setup, line
from onnxgather.model.values import ModelProto, loaded, values_of
from onnxgather.networks.network import read_network

SECONDS = 2
"""The most seconds that the solver takes to find smaller values once."""


_OF_LOW_HALVES = "what the formula says", "something else before ONNX Runtime 1.32"


class Counterexample(msgspec.Struct, frozen=True):
    """Inputs for which a model does not what its descriptor says, as the CPU provider ran it."""

    indices: dict[int, int]
    """The elements of IndicesTensor's array that are not 0, by their positions."""
    data: int | None
    """The position in InputTensor's array of the element that is 1 where the others are 0; None if
    all elements are 1."""
    output: int | None
    """The first position in OutputTensor's array where the elements differ; None if the outputs do
    not have the same type and sizes, or one is an error."""
    expected: float | str
    """The element there that the descriptor says; or the type and the sizes, or an error."""
    found: float | str
    """Likewise, of the model."""

    def __str__(self) -> str:
        indices = [f"{value} at {at}" for at, value in self.indices.items()]
        given = "IndicesTensor is 0" + (f" but {listed(indices, 8)}" if indices else "")
        data = "1" if self.data is None else f"0 but 1 at {self.data}"
        where = "" if self.output is None else f" at {self.output}"
        output = f"OutputTensor must be {self.expected}{where}, got {self.found}"
        return f"where {given} and InputTensor is {data}, {output}"


def counterexample(
    model: str | os.PathLike[str] | ModelProto,
    formula: GatherFormula,
    claim: Claim,
    seconds: float,
    low_halves: bool = False,
) -> Counterexample:
    """Small inputs with which a model differs from its descriptor.

    Args:
        model: The model.
        formula: The formula of the descriptor.
        claim: A claim that the solver has refuted.
        seconds: How long the solver may look for small values.
        low_halves: Whether the claim is about comparisons that the installed ONNX Runtime may not
            have; then the model need not differ here.

    Raises:
        UndecidedError: The model does not run, or does not differ.
    """
    desc, values = formula.desc, _smallest(claim, time.monotonic() + seconds)
    indices = np.zeros(desc.indices_tensor.array_shape, desc.indices_tensor.data_type.numpy)
    flat = indices.reshape(-1)
    for term, value in values.items():
        # What a model reads behind the indices counts nowhere.
        if term.kind == "read" and (at := evaluate(term.args[1], values)) < flat.size:
            flat[at] = value
    # The formula again, now of known indices.
    known = GatherFormula(desc, formula.policy, lambda at: int(flat[evaluate(at, {})]))
    places, sizes = list[int | None]([None]), desc.output_tensor.sizes
    if len(claim.output) == len(sizes):
        place = [
            min(values.get(at, 0) if isinstance(at, Term) else at, n - 1)
            for at, n in zip(claim.output, sizes, strict=True)
        ]
        source = known.source(place)
        places[:0] = [evaluate(source.position, {})] if source.is_input else []
    try:
        content, proto = loaded(model)
        opened, (inputs, outputs) = Opened(content, Setup(CPU, threads=1)), values_of(proto)
    except Exception as error:  # whatever ONNX Runtime says of a model
        raise UndecidedError(f"the model does not run on the CPU provider: {line(error)}") from None
    names = tensor_names(read_network(model).main, desc)
    feeds = {
        name: np.zeros([n or 1 for n in kind.sizes or ()], kind.dtype)
        for name, kind in inputs.items()
    }
    data = np.zeros(desc.input_tensor.array_shape, desc.input_tensor.data_type.numpy)
    for place in places:
        data.reshape(-1)[slice(None) if place is None else place] = 1
        try:
            expected = reference(desc, data, indices, formula.policy)
        except IndexOutOfRangeError:
            expected = None
        try:
            feeds |= {names[0]: data, names[1]: indices}
            found = opened.run_all(feeds)[[*outputs].index(names[2])]
        except FailedError:
            found = None
        if differ := _differ(expected, found):
            told = {int(at): int(flat[at]) for at in np.flatnonzero(flat)}
            return Counterexample(told, place, *differ)
    if low_halves:
        told = {int(at): int(flat[at]) for at in np.flatnonzero(flat)}
        return Counterexample(told, None, None, *_OF_LOW_HALVES)
    raise UndecidedError("the model does not differ on the CPU provider where it is refuted")


def _differ(
    expected: Array | None, found: Array | None
) -> tuple[int | None, float | str, float | str] | None:
    """Where outputs differ first, and what is there; None where they do not differ."""
    first, second = (
        "an error" if x is None else f"{x.dtype} {[*x.shape]}" for x in (expected, found)
    )
    if first != second or expected is None or found is None:
        return (None, first, second) if first != second else None
    bits = [array.reshape(-1).view(f"u{array.itemsize}") for array in (expected, found)]
    places = np.flatnonzero(bits[0] != bits[1])
    if not places.size:
        return None
    at = int(places[0])
    return at, expected.reshape(-1)[at].item(), found.reshape(-1)[at].item()


def _smallest(claim: Claim, end: float) -> Mapping[Term, int]:
    """Values that refute a claim, the largest of them as small as the solver finds it in time."""
    values, below, most, limit = dict[Term, int](), -1, 2**64, 2**64
    _, constants = script([claim.given], claim.conclusion)
    while below + 1 < limit and time.monotonic() < end:
        within = [
            bound for one in constants.values() for bound in (one < most + 1, -one < most + 1)
        ]
        text, names = script([claim.given, *within], claim.conclusion)
        answer = solve(text, min(SECONDS, end - time.monotonic()))
        if answer.verdict == "sat":
            values = {term: answer.values[name] for name, term in names.items()}
            limit = max(map(abs, values.values()), default=0)
        elif answer.verdict == "unsat":
            below = most
        else:
            break
        most = min(2 * below + 2, (below + limit) // 2)
    return values
