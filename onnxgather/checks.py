"""A program's dispatches, computed by the reference and by the model, and compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from onnxgather.arrays import Array, OutOfRange
from onnxgather.descriptors import Descriptor
from onnxgather.dxdispatch import Dispatch, Program, dispatches
from onnxgather.errors import DescriptorError, IndexOutOfRangeError, ProviderError
from onnxgather.options import Target
from onnxgather.providers import find_provider
from onnxgather.reference import reference
from onnxgather.session import open_session
from onnxgather.terminal import FINDINGS, GOOD, NOT_RUN

State = Literal["PASS", "DIFF", "ERROR", "NOT-RUN"]

EXIT_CODES: dict[State, int] = {
    "PASS": GOOD,
    "DIFF": FINDINGS,
    "ERROR": FINDINGS,
    "NOT-RUN": NOT_RUN,
}


class Element(msgspec.Struct, frozen=True):
    """The first element that differs."""

    index: tuple[int, ...]
    """Its place in the array that stands for OutputTensor."""
    expected: str
    expected_bytes: str
    """In hexadecimal, in the order of memory."""
    got: str
    got_bytes: str


class CheckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one dispatch."""

    state: State
    file: str
    command: str | None = None
    """None where the file holds a broken descriptor, so that none of its dispatches could run."""
    dispatchable: str | None = None
    operator: str | None = None
    reason: str | None = None
    """Why it is not PASS, or what both refused."""
    first: Element | None = None
    nodes: tuple[str, ...] = ()
    """The operators that the provider ran, by ONNX Runtime's own node assignment."""

    def __str__(self) -> str:
        where = self.file
        if self.command is not None:
            where = f"{self.file}: {self.command} ({self.dispatchable})"
        return f"{self.state:<7}  {where}" + (f": {self.reason}" if self.reason else "")


class Report(msgspec.Struct, frozen=True):
    """All results."""

    provider: str
    out_of_range: OutOfRange
    passed: int
    differ: int
    errors: int
    not_run: int
    results: list[CheckResult]
    unusable: list[str]
    """What is wrong with the files that could not be checked."""

    @classmethod
    def of(
        cls,
        provider: str,
        out_of_range: OutOfRange,
        results: list[CheckResult],
        unusable: list[str],
    ) -> Report:
        """Count the results by their states."""
        states = [result.state for result in results]
        passed, differ, errors, not_run = (states.count(state) for state in get_args(State))
        return cls(provider, out_of_range, passed, differ, errors, not_run, results, unusable)

    def __str__(self) -> str:
        return (
            f"{self.passed} passed, {self.differ} differ, {self.errors} errors, "
            f"{self.not_run} not run"
        )


class Difference(msgspec.Struct, frozen=True):
    """How two arrays differ."""

    reason: str
    first: Element | None = None


def check_program(
    program: Program, out_of_range: OutOfRange, provider: str, target: Target | None = None
) -> Iterator[CheckResult]:
    """Run every dispatch of a program by the reference and by the model, and yield a result each.

    A dispatch takes its inputs from what the reference computed before; where the reference
    refused an index, from zeros.

    Args:
        program: The program.
        out_of_range: What an index out of range does. Where it is "error", the model must refuse
            what the reference refuses.
        provider: The only provider that may run the models.
        target: Whom the models are for; None is the target that suits the provider.

    Raises:
        OnnxGatherError: The program cannot run, whatever computes its outputs.
    """
    refusals: list[IndexOutOfRangeError] = []

    def expected(desc: Descriptor, data: Array, indices: Array) -> Array:
        try:
            return reference(desc, data, indices, out_of_range)
        except IndexOutOfRangeError as error:
            refusals.append(error)
            return np.zeros(desc.output_tensor.array_shape, desc.output_tensor.data_type.numpy)

    for dispatch in dispatches(program, expected):
        refusal = refusals.pop() if refusals else None
        yield _check(program.path, dispatch, refusal, out_of_range, provider, target)


def broken_descriptor(file: str, error: DescriptorError) -> CheckResult:
    """Return the result of a file whose descriptor breaks a rule."""
    return CheckResult("ERROR", file, reason=str(error).removeprefix(f"{file}: "))


def _check(
    file: str,
    dispatch: Dispatch,
    refusal: IndexOutOfRangeError | None,
    out_of_range: OutOfRange,
    provider: str,
    target: Target | None,
) -> CheckResult:
    desc = dispatch.descriptor

    def result(
        state: State, reason: str | None = None, first: Element | None = None, nodes: Any = ()
    ) -> CheckResult:
        where = (file, dispatch.path, dispatch.dispatchable, desc.operator)
        return CheckResult(state, *where, reason, first, nodes)

    try:
        session = open_session(desc, out_of_range, find_provider(provider), target)
    except ProviderError as error:
        return result("NOT-RUN", str(error))
    nodes = tuple(operator for _, operator in session.assignment)
    # A model that refuses everything refuses nothing, so it must answer indices in range too.
    indices = dispatch.indices if refusal is None else np.zeros_like(dispatch.indices)
    wanted = dispatch.output if refusal is None else reference(desc, dispatch.data, indices)
    try:
        got = session.run({"InputTensor": dispatch.data, "IndicesTensor": indices})
    except ProviderError as error:
        return result("ERROR", str(error), nodes=nodes)
    difference = find_difference(wanted, got)
    if difference is not None:
        return result("DIFF", difference.reason, difference.first, nodes)
    if refusal is None:
        return result("PASS", nodes=nodes)
    try:
        session.run({"InputTensor": dispatch.data, "IndicesTensor": dispatch.indices})
    except ProviderError:
        return result("PASS", f"both refuse: {refusal}", nodes=nodes)
    return result("DIFF", f"must refuse, but returned an array: {refusal}", nodes=nodes)


def find_difference(expected: Array, got: Array) -> Difference | None:
    """Return how an array differs from another in data type, shape or bytes, None if it does not.

    Args:
        expected: The right array.
        got: The array in question.
    """
    if got.dtype != expected.dtype:
        return Difference(f"expected data type {expected.dtype}, got {got.dtype}")
    if got.shape != expected.shape:
        return Difference(f"expected shape {list(expected.shape)}, got {list(got.shape)}")
    bits = f"u{expected.itemsize}"
    differs = np.ascontiguousarray(expected).view(bits) != np.ascontiguousarray(got).view(bits)
    places = np.flatnonzero(differs)
    if not places.size:
        return None
    index = tuple(map(int, np.unravel_index(int(places[0]), expected.shape)))
    wanted, found = expected[index], got[index]
    first = Element(
        index, str(wanted), wanted.tobytes().hex(" "), str(found), found.tobytes().hex(" ")
    )
    element = f"OutputTensor[{','.join(map(str, index))}]"
    return Difference(
        f"{places.size} of {expected.size} elements differ, first {element}: expected "
        f"{first.expected} ({first.expected_bytes}), got {first.got} ({first.got_bytes})",
        first,
    )
