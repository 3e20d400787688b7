"""Whether a model that was written means its descriptor: seen in runs, then proved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from onnxgather.core.checks import number_of, printable
from onnxgather.core.descriptors.arrays import (
    Array,
    all_in_range,
    check_array,
    differing,
)
from onnxgather.core.descriptors.drawn import Drawn, drawn
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.reference import reference
from onnxgather.core.errors import (
    FINDINGS,
    IndexOutOfRangeError,
    OnnxGatherError,
    ProviderError,
)
from onnxgather.core.execution.kernels import operators_of
from onnxgather.core.execution.providers import PROVIDERS
from onnxgather.core.execution.runtime import (
    CPU,
    FailedError,
    NotRunError,
    Opened,
    RefusedError,
    Setup,
    line,
    onnxruntime_with,
)
from onnxgather.core.lowering.webnn.program import WebnnProgram
from onnxgather.core.model.values import ModelProto, loaded
from onnxgather.core.options import WEBNN, OutOfRange, Target
from onnxgather.proving.certify import certify, webnn_verdict
from onnxgather.proving.formula import formula_of
from onnxgather.proving.solvers import NO_SOLVER, TIME_IS_UP, TIMEOUT

SECONDS = 10
"""How long a proof may take."""

_BRIEF = {NO_SOLVER: "pip install z3-solver", TIME_IS_UP: "time"}
"""The reasons of a certificate that a line says in fewer words."""


class DifferenceError(OnnxGatherError):
    """A model does not compute what its descriptor says."""

    exit_code = FINDINGS


class Verification(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a model that differed nowhere."""

    cases: int
    """How many cases it ran, with the bytes of the reference."""
    proved: bool
    """Whether it is proved, for any data and every value of every index."""
    preconditions: tuple[str, ...] = ()
    """If it is proved: the conditions under which it is."""
    why: str = ""
    """If it is not proved: what stopped the proof."""
    by_dispatch: bool = False
    """Whether each dispatch of a program is proved by itself, and not what the model
    makes of them together."""

    def __str__(self) -> str:
        ran = f"ran {number_of(self.cases, 'case') if self.cases else 'no case'}"
        if not self.proved:
            return f"{ran}; not proved: {self.why}"
        subject = "each dispatch " if self.by_dispatch else ""
        if not self.preconditions:
            return f"{ran}, {subject}proved for every index"
        return f"{ran}, {subject}proved, if {' and '.join(self.preconditions)}"


def check_runs_models() -> None:
    """Check that ONNX Runtime's CPU provider is there.

    Raises:
        ProviderError: It is not.
    """
    try:
        onnxruntime_with(CPU)
    except NotRunError as error:
        raise _not_run(error) from None


def verify_model(
    content: bytes,
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target,
    given: Iterable[Drawn] = (),
    indices: Any = None,
) -> Verification:
    """Run a model against the reference, byte for byte, and prove it.

    It runs with the arrays that are given, and with those that `drawn` draws.

    Args:
        content: The serialized model.
        desc: The descriptor.
        out_of_range: What an index out of range does.
        target: What the model was made for.
        given: Arrays to run it with, each with the name of its case.
        indices: The array of IndicesTensor if the model has it in place of an input.

    Raises:
        DifferenceError: The model differs in a case, or is refuted.
        ProviderError: ONNX Runtime's CPU provider is not there.
    """
    if indices is not None:
        indices = check_array("IndicesTensor", desc.indices_tensor, indices)
    _, proto = loaded(content)
    sessions = [open_on_cpu(content, proto)]
    # The bodies of our operators run where our library is not registered.
    if proto.functions:
        sessions.append(open_on_cpu(content, proto, with_library=False))
    names = [value.name for value in proto.graph.input]
    cases = 0
    for case in chain(given, drawn(desc, out_of_range)):
        if indices is not None:
            case = Drawn(case.name, case.data, indices)
        # Case: what the certificate of such a model excludes.
        is_excluded = target == "webgpu" and out_of_range == "error"
        if is_excluded and not all_in_range(desc, case.indices):
            continue
        # Constant indices have no input.
        feeds = dict(zip(names, (case.data, case.indices), strict=False))
        for opened in sessions:
            where = f"with {printable(case.name)}, "
            refused = ""
            expected = None
            try:
                expected = reference(desc, case.data, case.indices, out_of_range)
            except IndexOutOfRangeError as error:
                refused = str(error)
            outputs = run_on_cpu(opened, feeds, where, must_refuse=refused)
            if expected is not None:
                check_output("OutputTensor", where, expected, outputs[0])
        cases += 1
    if indices is not None:
        return Verification(cases, False, why="its indices are constant")
    verification = proved(desc, out_of_range, target, proto)
    return msgspec.structs.replace(verification, cases=cases)


def proved(
    desc: Descriptor, out_of_range: OutOfRange, target: Target, model: ModelProto
) -> Verification:
    """Return whether a model is proved, without a run.

    Raises:
        DifferenceError: It is refuted.
    """
    certified = certify(desc, out_of_range, target, model, timeout=SECONDS)
    if certified.state == "refuted":
        rule = "the model must do what its descriptor says"
        raise DifferenceError(f"{rule}: {certified.counterexample}")
    if certified.state == "undecided":
        return Verification(0, False, why=_reason(certified.why))
    return Verification(0, True, preconditions=certified.preconditions)


def proved_webnn(program: WebnnProgram) -> Verification:
    """Return whether a WebNN program is proved; no WebNN runs here."""
    formula, preconditions = formula_of(program.descriptor, program.out_of_range, WEBNN)
    verdict = webnn_verdict(program, formula, time.monotonic() + SECONDS)
    if verdict.state == "proved":
        return Verification(0, True, preconditions=preconditions)
    return Verification(0, False, why=_reason(verdict.why))


def all_proved(parts: Mapping[str, Verification], cases: int) -> Verification:
    """Return what is known of a program each of whose dispatches is proved by itself.

    Args:
        parts: What is known of each dispatch, by its command.
        cases: How many cases the whole ran.
    """
    preconditions: dict[str, None] = {}
    for place, part in parts.items():
        if not part.proved:
            why = f"{place}: {part.why}"
            return Verification(cases, False, why=why, by_dispatch=True)
        preconditions.update(dict.fromkeys(part.preconditions))
    return Verification(cases, True, tuple(preconditions), by_dispatch=True)


def open_on_cpu(content: bytes, proto: ModelProto, with_library: bool = True) -> Opened:
    """Open a model on ONNX Runtime's CPU provider, with our operators if it has some.

    Raises:
        DifferenceError: ONNX Runtime refuses the model.
        ProviderError: The provider is not there.
    """
    library = None
    if proto.functions and with_library:
        library = operators_of(PROVIDERS["cpu"], "native")
    # Without an input, optimizations compute the whole model before it runs.
    level = None if proto.graph.input else 0
    try:
        setup = Setup(CPU, threads=1, level=level, operators=library)
        return Opened(content, setup)
    except RefusedError as error:
        rule = "the model must run on the CPU provider"
        raise DifferenceError(f"{rule}, got: {error}") from None
    except NotRunError as error:
        raise _not_run(error) from None


def check_output(name: str, where: str, expected: Array, got: Array) -> None:
    """Check that an output of a model has the type, the shape and the bytes of another.

    Args:
        name: The output, as the message names it.
        where: The case, as the message starts with it.
        expected: What the reference computes.
        got: What the model computes.

    Raises:
        DifferenceError: It differs; the message names the first element that does.
    """
    output = f"{where}the model's {name}"
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        rule = f"{output} must be {expected.dtype} {[*expected.shape]}"
        raise DifferenceError(f"{rule}, got {got.dtype} {[*got.shape]}")
    offsets = differing(expected, got)
    if not offsets.size:
        return
    coordinates = np.unravel_index(int(offsets[0]), expected.shape)
    at = ",".join(map(str, coordinates))
    wanted = str(expected[coordinates])
    found = str(got[coordinates])
    # Case: such as two NaNs, whose bits differ.
    if wanted == found:
        wanted = f"the bytes {expected[coordinates].tobytes().hex(' ')}"
        found = got[coordinates].tobytes().hex(" ")
    count = f"{offsets.size:,} of {expected.size:,} elements differ"
    raise DifferenceError(f"{output}[{at}] must be {wanted}, got {found}; {count}")


def run_on_cpu(
    opened: Opened, feeds: Mapping[str, Array], where: str, must_refuse: str
) -> Sequence[Array]:
    """Return the outputs of a model; nothing if it must refuse its inputs, and does.

    Args:
        opened: The model.
        feeds: Its inputs, by name.
        where: As of `check_output`.
        must_refuse: Why the model must refuse the inputs; empty if it must not.

    Raises:
        DifferenceError: It refuses what it must not, or the other way round.
    """
    try:
        outputs = opened.run_all(feeds)
    except FailedError as error:
        if must_refuse:
            return ()
        rule = f"{where}the model must run"
        raise DifferenceError(f"{rule}, got: {line(error)}") from None
    if must_refuse:
        rule = f"{where}the model must fail, as {must_refuse}"
        raise DifferenceError(f"{rule}; it returned an output")
    return outputs


def _reason(why: str) -> str:
    """Return what stopped a proof in the words of a line."""
    if why.endswith(f": {TIMEOUT}"):
        why = TIME_IS_UP
    return _BRIEF.get(why, why)


def _not_run(error: NotRunError) -> ProviderError:
    return ProviderError(PROVIDERS["cpu"].why_not_run(error.kind, error.detail))
