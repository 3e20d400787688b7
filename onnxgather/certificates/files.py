"""Certificates as files, which are read strictly, compared with a model, and solved again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import msgspec
from msgspec.structs import asdict

from onnxgather.certificates import solvers
from onnxgather.certificates.certify import LOW_HALVES, Certified, certified
from onnxgather.certificates.claims import AnyModel
from onnxgather.certificates.lemmas import LEMMAS, prove
from onnxgather.certificates.solvers import Solved
from onnxgather.checks import shown
from onnxgather.descriptors.spelling import from_dict
from onnxgather.errors import FileFormatError, OnnxGatherError, located
from onnxgather.networks.contract import digest_of
from onnxgather.networks.network import read_network
from onnxgather.parity.decoding import decoding, whole

LARGEST_CERTIFICATE = 2**24
"""The most bytes of a file."""


def read_certificate(path: str) -> Certified:
    """Read a certificate, and check what needs no solver.

    Raises:
        FileFormatError: The file has no certificate, or one that breaks a rule.
    """
    with decoding(path, "docs/certificates.md"), open(path, "rb") as file:
        certificate = msgspec.json.decode(
            whole(file, LARGEST_CERTIFICATE), type=Certified
        )
    for k, text in enumerate(certificate.obligations):
        with located(f"{path}: $.obligations[{k}]"):
            solvers.check_script(text)
    for k, name in enumerate(certificate.lemmas):
        if name not in LEMMAS:
            rule = "must be a lemma of this version of onnxgather"
            raise FileFormatError(f"{path}: $.lemmas[{k}] {rule}, got {shown(name)}")
    try:
        from_dict(certificate.descriptor)
    except (
        OnnxGatherError
    ) as error:  # a rule of DirectML that is broken makes a bad file too
        raise FileFormatError(f"{path}: $.descriptor: {error}") from None
    return certificate


def check_certificate(
    certificate: Certified, model: AnyModel | None, seconds: float
) -> Iterator[str]:
    """Yield why a certificate does not prove what it says.

    The obligations are solved by cvc5; what it does not decide, and all where it is not
    installed, by z3.

    Args:
        certificate: The certificate.
        model: The model that it is to be about; the obligations must be those of this model.
        seconds: How long a solver may take for each script.

    Raises:
        OnnxGatherError: The model cannot be read or does not fit the descriptor, or there is no
            solver.
    """
    solvers.installed_solver()
    found = [*_differences(certificate, model)]
    if certificate.state != "proved":
        found = [f"the certificate says {certificate.state}, so that it proves nothing"]
    yield from found
    if not found:
        texts = enumerate(certificate.obligations)
        answers = {
            f"$.obligations[{k}]": _solved_again(text, seconds) for k, text in texts
        }
        answers |= {
            f"the lemma {name}": prove(name, seconds) for name in certificate.lemmas
        }
        for where, answer in answers.items():
            if answer.verdict != "unsat":
                yield f"{where} is not proved: {answer.why or 'it does not hold'}"


def _differences(certificate: Certified, model: AnyModel | None) -> Iterator[str]:
    """Yield the fields that differ from those of a model."""
    if model is None:
        return
    if certificate.digest != (digest := digest_of(read_network(model))):
        yield (
            f"$.digest must be that of the model, {digest}, got"
            f" {shown(certificate.digest)}"
        )
        return
    desc, low_halves = (
        from_dict(certificate.descriptor),
        LOW_HALVES in certificate.preconditions,
    )
    asked = desc, certificate.out_of_range, certificate.target, model
    own = asdict(certified(*asked, math.inf, low_halves, _believed))
    del own["descriptor"]  # which may be spelled in another way
    for field, value in own.items():
        if getattr(certificate, field) != value:
            yield f"$.{field} must be what follows from the model and the descriptor"


def _believed(_script: str, _seconds: float) -> Solved:
    return Solved("unsat")


def _solved_again(text: str, seconds: float) -> Solved:
    answer = Solved("unknown")
    for solver in ("cvc5", "z3"):
        with suppress(OnnxGatherError):  # the solver is not installed
            answer = solvers.solve(text, seconds, solver)
            if answer.verdict != "unknown":
                break
    return answer
