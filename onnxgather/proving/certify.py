"""Whether a model means its descriptor."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from onnx import NodeProto

from onnxgather.core.checks import (
    check_choice,
    check_seconds,
    check_type,
    html_table,
    line_of,
)
from onnxgather.core.descriptors.arrays import check_descriptor, check_policy
from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.descriptors.spelling import to_dict
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.graph import NATIVE_DOMAIN
from onnxgather.core.lowering.webnn.program import WebnnProgram, to_webnn
from onnxgather.core.model.network import Network, read_network
from onnxgather.core.model.write import check_model, descriptor_model
from onnxgather.core.options import (
    POLICIES,
    PROVED_TARGETS,
    WEBNN,
    OutOfRange,
    ProvedTarget,
)
from onnxgather.core.public import public
from onnxgather.proving import terms
from onnxgather.proving.claims import AnyModel, Claim, claims
from onnxgather.proving.counterexamples import Counterexample, counterexample
from onnxgather.proving.formula import GatherFormula, formula_of
from onnxgather.proving.quirks import precondition
from onnxgather.proving.solvers import TIME_IS_UP, Solved, solved
from onnxgather.proving.tensors import Run, UndecidedError, ensure
from onnxgather.proving.webnn import webnn_claims

TOO_DEEP = "a value that depends on too many others, one behind the other"
"""Why a model is undecided whose terms are too deep for Python's stack."""

WEBNN_DIFFERS = (
    "the solver finds indices with which the program differs, and no WebNN shows it"
)
"""Why a WebNN program is undecided that is wrong."""

OTHER_ATTRIBUTES = (
    "the body of onnxgather's own node is proved, and its kernel reads attributes that"
    " are not those of the descriptor"
)
"""Why a native model is undecided whose node was changed."""

CertificateState: TypeAlias = Literal["proved", "refuted", "undecided"]


@public
class Certified(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate: whether a model means its descriptor.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> certificate = og.certify(desc, "directml")
        >>> certificate.state, certificate.out_of_range, certificate.target
        ('proved', 'directml', 'portable')
        >>> certificate.descriptor["type"]
        'DML_OPERATOR_GATHER'
    """

    state: CertificateState
    digest: str
    """The SHA-256 digest of the model, such as `sha256:...`."""
    statement: str
    """The statement that is proved, refuted or undecided."""
    preconditions: tuple[str, ...] = ()
    """The conditions under which the statement holds."""
    why: str = ""
    """If the state is undecided: what stopped the proof."""
    obligations: tuple[str, ...] = ()
    """The scripts whose claims do not follow from the normal form of terms alone; no
    script is there twice."""
    lemmas: tuple[str, ...] = ()
    """The names of the lemmas of `lemmas` that the proof uses."""
    counterexample: Counterexample | None = None
    """If the state is refuted: inputs with which the model was seen to differ."""
    schema: Literal[1] = 1
    descriptor: dict[str, Any]
    """The descriptor in DxDispatch's spelling, as `from_dict` reads it."""
    out_of_range: OutOfRange
    target: ProvedTarget

    def __str__(self) -> str:
        if self.state != "proved":
            return line_of(f"{self.state}: {self.counterexample or self.why}")
        if not self.preconditions:
            return "proved"
        return f"proved, if {' and '.join(self.preconditions)}"

    def __repr__(self) -> str:
        return f"<Certified {self}>"

    def _repr_html_(self) -> str:
        rows = [("statement", self.statement), ("digest", self.digest)]
        if self.lemmas:
            rows.append(("lemmas", ", ".join(self.lemmas)))
        return html_table(str(self), rows)


class _Verdict(NamedTuple):
    """The fields of a certificate that the proof gives."""

    state: CertificateState
    preconditions: tuple[str, ...] = ()
    why: str = ""
    obligations: tuple[str, ...] = ()
    lemmas: tuple[str, ...] = ()
    counterexample: Counterexample | None = None


@public
def certify(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: ProvedTarget = "portable",
    model: AnyModel | None = None,
    timeout: float = 60,
    low_halves: bool = False,
) -> Certified:
    """Prove that a model means a descriptor, for any data and any value of every index.

    Most proofs need a solver: `pip install z3-solver`. Without one such a model is
    undecided.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: Which model `to_onnx` makes of the descriptor, see `TARGETS`; or
            "webnn", for the program of `to_webnn`, which has no model.
        model: The model in the place of that one: a path, or an `onnx.ModelProto`. Its
            inputs are those named InputTensor and IndicesTensor, or PREFIXInputTensor
            and so on, else two in this order, or in the other one if only that fits.
        timeout: The seconds that the solver may take for the whole.
        low_halves: Whether Min, Max and Clip of INT64 compare low halves as signed, as
            the CPU provider of ONNX Runtime does before version 1.32. Without it, a
            proof that needs the newer comparisons names the version as a precondition.

    Raises:
        OnnxGatherError: An option is not one of those above, or the model cannot be
            read or does not fit the descriptor.

    Example:
        >>> desc = og.from_onnx("Gather", ("FLOAT32", [3, 2]), ("INT64", [2]))
        >>> og.certify(desc)
        <Certified proved>
        >>> og.certify(desc, "zero", model=og.to_onnx(desc, "clamp")).state
        'refuted'
    """
    timeout = check_seconds("timeout", timeout)
    check_type("low_halves", low_halves, "True or False", bool)
    check_descriptor(desc)
    out_of_range = check_policy(out_of_range)
    target = check_choice("target", target, PROVED_TARGETS)
    end = time.monotonic() + timeout
    formula, preconditions = formula_of(desc, out_of_range, target)
    if target == WEBNN:
        given = "low_halves" if low_halves else ""
        if model is not None:
            given = "model"
        if given:
            rule = f'{given} must not come with the target "webnn"'
            raise OnnxGatherError(f"{rule}, as its programs are no ONNX models")
        program = to_webnn(desc, out_of_range)
        content = program.to_json().encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        verdict = webnn_verdict(program, formula, end)
    else:
        if model is None:
            model = descriptor_model(desc, out_of_range, target)
        network = read_network(model)
        digest = network.digest
        verdict = _verdict(model, network, formula, end, low_halves)
        if verdict.state == "proved" and not _has_own_attributes(
            network, desc, out_of_range
        ):
            verdict = _Verdict("undecided", why=OTHER_ATTRIBUTES)
    statement = (
        "for any data and every value of every index, each element of OutputTensor"
        f" is the element of InputTensor that DirectML's formula of {desc.operator}"
        f" names, and an index out of range {POLICIES[out_of_range].rule}"
    )
    return Certified(
        state=verdict.state,
        digest=digest,
        statement=statement,
        preconditions=(*preconditions, *verdict.preconditions),
        why=verdict.why,
        obligations=verdict.obligations,
        lemmas=verdict.lemmas,
        counterexample=verdict.counterexample,
        descriptor=to_dict(desc),
        out_of_range=out_of_range,
        target=target,
    )


def _has_own_attributes(
    network: Network, desc: Descriptor, out_of_range: OutOfRange
) -> bool:
    """Return whether onnxgather's own nodes of a model say what the descriptor says.

    A proof reads the body of such a node. Where our library is registered its kernel
    runs, which reads the attributes.
    """
    nodes = [node for node in network.proto.graph.node if node.domain == NATIVE_DOMAIN]
    if not nodes:
        return True
    (own,) = descriptor_model(desc, out_of_range, "native").graph.node
    wanted = _attributes(own)
    return all(_attributes(node) == wanted for node in nodes)


def _attributes(node: NodeProto) -> dict[str, bytes]:
    """Return the attributes of a node, but that with the digest of its body."""
    return {
        attribute.name: attribute.SerializeToString(deterministic=True)
        for attribute in node.attribute
        if not attribute.name.startswith("body_")
    }


def webnn_verdict(
    program: WebnnProgram, formula: GatherFormula, end: float
) -> _Verdict:
    """Return what is proved of a WebNN program until a time of `time.monotonic`.

    It is never refuted, as no WebNN runs here to show a difference.
    """
    # The keys of a dict are a set in the order of the claims.
    obligations = dict[str, None]()
    try:
        with terms.until(end):
            for _, script, answer in _answers(webnn_claims(program, formula), end):
                ensure(answer.verdict != "sat", WEBNN_DIFFERS)
                ensure(answer.verdict == "unsat", answer.why)
                obligations[script] = None
    except RecursionError:
        return _Verdict("undecided", why=TOO_DEEP)
    except (UndecidedError, terms.TimeIsUpError) as error:
        return _Verdict("undecided", why=str(error))
    return _Verdict("proved", obligations=tuple(obligations))


def _verdict(
    model: AnyModel,
    network: Network,
    formula: GatherFormula,
    end: float,
    low_halves: bool,
) -> _Verdict:
    """Return what is proved of a model until a time of `time.monotonic`."""
    try:
        return _solver_verdict(model, network, formula, end, low_halves)
    except RecursionError:
        why = TOO_DEEP
    except (UndecidedError, terms.TimeIsUpError) as error:
        why = str(error)
    # A run with indices that are 0 may still show that the model differs. With low
    # halves it shows nothing, as the installed ONNX Runtime may compare otherwise.
    if not low_halves:
        with suppress(UndecidedError):
            shown = counterexample(model, formula, None, 0)
            return _Verdict("refuted", counterexample=shown)
    return _Verdict("undecided", why=why)


def _solver_verdict(
    model: AnyModel,
    network: Network,
    formula: GatherFormula,
    end: float,
    low_halves: bool,
) -> _Verdict:
    """Return that a model is proved, or the counterexample that the solver leads to.

    Raises:
        UndecidedError: The model has what nothing is known of, the solver does not
            decide a claim, or a claim that it refutes has no counterexample.
        TimeIsUpError: The time is up.
        RecursionError: The terms of the model are too deep.
    """
    run = Run(low_halves=low_halves)
    # The keys of a dict are a set in the order of the claims.
    obligations = dict[str, None]()
    with terms.until(end):
        for claim, script, answer in _answers(claims(network, formula, run), end):
            if answer.verdict == "sat":
                seconds = end - time.monotonic()
                # The search keeps to these seconds by itself.
                with terms.until(math.inf):
                    shown = counterexample(model, formula, claim, seconds, low_halves)
                return _Verdict("refuted", obligations=(script,), counterexample=shown)
            ensure(answer.verdict == "unsat", answer.why)
            obligations[script] = None
    # Another model than ONNX's checker accepts does not run.
    try:
        check_model(model)
    except OnnxGatherError as error:
        raise UndecidedError(str(error)) from None
    preconditions = [precondition(quirk, low_halves) for quirk in run.quirks]
    return _Verdict(
        "proved",
        preconditions=tuple(sorted(preconditions)),
        obligations=tuple(obligations),
        lemmas=tuple(sorted(run.lemmas)),
    )


def _answers(
    all_claims: Iterable[Claim], end: float
) -> Iterator[tuple[Claim, str, Solved]]:
    """Yield claims with their scripts and the solver's answers, each script once.

    Claims that their normal form shows are left out.

    Raises:
        UndecidedError: The time is up.
    """
    scripts = set[str]()
    for claim in all_claims:
        ensure(time.monotonic() < end, TIME_IS_UP)
        # The normal form alone shows this claim.
        if claim.conclusion is True:
            continue
        script, _ = claim.script()
        if script in scripts:
            continue
        scripts.add(script)
        yield claim, script, solved(script, end - time.monotonic())
