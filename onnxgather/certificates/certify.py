"""Whether a model means its descriptor."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from onnxgather.certificates.claims import claims
from onnxgather.certificates.formula import GatherFormula, index_reader
from onnxgather.certificates.solvers import Solved, solve
from onnxgather.certificates.tensors import Run, UndecidedError
from onnxgather.certificates.terms import script
from onnxgather.descriptors.operators import Descriptor
from onnxgather.model.values import ModelProto
from onnxgather.model.write import to_onnx
from onnxgather.options import OutOfRange, Target


class Certified(msgspec.Struct, frozen=True):
    """Whether a model means its descriptor."""

    state: Literal["proved", "refuted", "undecided"]
    why: str = ""
    """What stopped an undecided one."""
    obligations: tuple[str, ...] = ()
    """The scripts whose claims do not follow from the normal form of terms alone, each once."""
    lemmas: tuple[str, ...] = ()
    """The names of the lemmas of `lemmas` that it rests on."""


def certify(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    model: ModelProto | None = None,
    timeout: float = 60,
) -> Certified:
    """Prove that a model means a descriptor, for any data and every value of every index.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does.
        target: Which model `to_onnx` makes of the descriptor.
        model: The model in the place of that one.
        timeout: The seconds that the solver may take for the whole.
    """
    model = to_onnx(desc, out_of_range, target) if model is None else model
    run, obligations = Run(), dict[str, None]()
    end = time.monotonic() + timeout
    formula = GatherFormula(desc, out_of_range, index_reader(desc.indices_tensor))
    try:
        for claim in claims(model, formula, run):
            if claim.conclusion is True:
                continue
            text, _ = script(claim.hypotheses, claim.conclusion)
            obligations[text] = None
            answer = solved(text, end - time.monotonic())
            if answer.verdict == "unknown":
                raise UndecidedError(answer.why)
            if answer.verdict == "sat":
                return Certified("refuted", "", (text,), (*sorted(run.lemmas),))
    except UndecidedError as error:
        return Certified("undecided", str(error))
    return Certified("proved", "", (*obligations,), (*sorted(run.lemmas),))


_solved = dict[str, Solved]()


def solved(text: str, seconds: float) -> Solved:
    """The solver's answer to a script of ours; answers are kept."""
    if text not in _solved:
        if seconds <= 0:
            return Solved("unknown", why="the time is up")
        answer = solve(text, seconds)
        if answer.verdict == "unknown":
            return answer
        _solved[text] = answer
    return _solved[text]
