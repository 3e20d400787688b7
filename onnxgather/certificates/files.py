"""Certificates as files, which are read strictly, compared with a model, and solved again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Literal

import msgspec

from onnxgather.certificates.certify import LOW_HALVES, Certified, statement_of
from onnxgather.certificates.claims import AnyModel, claims
from onnxgather.certificates.formula import formula_of
from onnxgather.certificates.lemmas import LEMMAS, prove
from onnxgather.certificates.solvers import (
    Solved,
    check_script,
    installed_solver,
    solve_apart,
)
from onnxgather.certificates.tensors import Run, UndecidedError
from onnxgather.checks import shown
from onnxgather.descriptors.operators import Descriptor
from onnxgather.descriptors.spelling import from_dict, to_dict
from onnxgather.errors import FileFormatError, OnnxGatherError, located
from onnxgather.networks.contract import digest_of
from onnxgather.networks.network import read_network
from onnxgather.options import OutOfRange, Target
from onnxgather.parity.decoding import decoding, whole

LARGEST_CERTIFICATE = 2**24
"""The most bytes of a file."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is proved of a model, with what it takes to prove it again."""

    schema: Literal[1] = 1
    digest: str
    """The SHA-256 digest of the model, such as `sha256:...`."""
    descriptor: dict[str, Any]
    """The descriptor in DxDispatch's spelling, as `from_dict` reads it."""
    out_of_range: OutOfRange
    target: Target | None
    """The target that `certify` was given; null is as portable."""
    state: Literal["proved", "refuted", "undecided"]
    statement: str
    preconditions: tuple[str, ...]
    obligations: tuple[str, ...]
    """Scripts in SMT-LIB, each unsatisfiable where the statement holds."""
    lemmas: tuple[str, ...]
    versions: dict[str, str]
    """Of onnxgather and of the solver that was taken."""


class CheckedCertificate(msgspec.Struct, frozen=True):
    """What a check of a certificate says; it is good if there are no findings."""

    findings: tuple[str, ...]
    notes: tuple[str, ...]


def certificate_of(
    certified: Certified,
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target | None,
    model: AnyModel,
) -> Certificate:
    """The certificate of a model: what `certify` returned, and its arguments."""
    solver = installed_solver()
    package = "z3-solver" if solver == "z3" else solver
    return Certificate(
        digest=digest_of(read_network(model)),
        descriptor=to_dict(desc),
        out_of_range=out_of_range,
        target=target,
        state=certified.state,
        statement=certified.statement,
        preconditions=certified.preconditions,
        obligations=certified.obligations,
        lemmas=certified.lemmas,
        versions={"onnxgather": version("onnxgather"), package: version(package)},
    )


def read_certificate(path: str) -> Certificate:
    """Read a certificate, and check what needs no solver.

    Raises:
        FileFormatError: The file has no certificate, or one that breaks a rule.
    """
    with decoding(path, "docs/certificates.md"), open(path, "rb") as file:
        certificate = msgspec.json.decode(whole(file, LARGEST_CERTIFICATE), type=Certificate)
    for k, text in enumerate(certificate.obligations):
        with located(f"{path}: $.obligations[{k}]"):
            check_script(text)
    for k, name in enumerate(certificate.lemmas):
        if name not in LEMMAS:
            rule = "must be a lemma of this version of onnxgather"
            raise FileFormatError(f"{path}: $.lemmas[{k}] {rule}, got {shown(name)}")
    try:
        from_dict(certificate.descriptor)
    except OnnxGatherError as error:  # a rule of DirectML that is broken makes a bad file too
        raise FileFormatError(f"{path}: $.descriptor: {error}") from None
    return certificate


def check_certificate(
    certificate: Certificate, model: AnyModel | None, seconds: float
) -> CheckedCertificate:
    """Prove again what a certificate says.

    The obligations are solved by cvc5, in a program with limits; what it does not decide, and all
    where it is not installed, by z3.

    Args:
        certificate: The certificate.
        model: The model that it is to be about; the obligations must be those of this model.
        seconds: How long a solver may take for each script.

    Raises:
        OnnxGatherError: The model cannot be read, or there is no solver.
    """
    installed_solver()
    findings, notes = list[str](), list[str]()
    if certificate.state != "proved":
        findings.append(f"the certificate says {certificate.state}, so that it proves nothing")
    if model is None:
        notes.append("no model was tied to it: its obligations hold, whatever they are about")
    else:
        findings += _differences(certificate, model)
    if not findings:
        answers = _solved_apart(certificate.obligations, seconds)
        told = {f"$.obligations[{k}]": answer for k, answer in enumerate(answers)}
        told |= {f"the lemma {name}": prove(name, seconds) for name in certificate.lemmas}
        findings += [
            f"{where} is not proved: {answer.why or 'it does not hold'}"
            for where, answer in told.items()
            if answer.verdict != "unsat"
        ]
    return CheckedCertificate((*findings,), (*notes,))


def _differences(certificate: Certificate, model: AnyModel) -> Iterator[str]:
    """What a certificate says otherwise than its model."""
    network, desc = read_network(model), from_dict(certificate.descriptor)
    if certificate.digest != (digest := digest_of(network)):
        yield f"$.digest must be that of the model, {digest}, got {shown(certificate.digest)}"
        return
    policy = certificate.out_of_range
    assumed = {LOW_HALVES}.intersection(certificate.preconditions)
    run = Run(low_halves=bool(assumed))
    formula, needed = formula_of(desc, policy, certificate.target or "portable")
    try:
        said = [claim for claim in claims(model, formula, run) if claim.conclusion is not True]
    except (UndecidedError, OnnxGatherError) as error:
        yield f"the model is not what the descriptor says, or undecided: {error}"
        return
    assumed.update(needed)
    wanted = {claim.script()[0] for claim in said}
    told = {"obligations": wanted, "lemmas": run.lemmas, "preconditions": assumed}
    for field, own in told.items():
        got = {*getattr(certificate, field)}
        if got != own:
            differ = f"{len(own - got):,} are missing and {len(got - own):,} are others"
            yield f"$.{field} must be those of the model, of which {differ}"
    if certificate.statement != (statement := statement_of(desc, policy)):
        yield f"$.statement must be {shown(statement)}, got {shown(certificate.statement)}"


def _solved_apart(texts: Sequence[str], seconds: float) -> list[Solved]:
    """The answers to foreign scripts."""
    answers = [Solved("unknown")] * len(texts)
    for solver in ("cvc5", "z3"):
        left = [k for k, answer in enumerate(answers) if answer.verdict == "unknown"]
        with suppress(OnnxGatherError):  # the solver is not installed
            found = solve_apart([texts[k] for k in left], seconds, installed_solver(solver))
            for k, answer in zip(left, found, strict=True):
                answers[k] = answer
    return answers
