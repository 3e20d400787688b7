"""Whether a model means its descriptor."""

from __future__ import annotations

import time
from functools import partial
from typing import Literal

import msgspec

from onnxgather.certificates.claims import AnyModel, Claim, claims
from onnxgather.certificates.counterexamples import Counterexample, counterexample, searched
from onnxgather.certificates.formula import formula_of
from onnxgather.certificates.solvers import Solved, installed_solver, solve
from onnxgather.certificates.tensors import Run, UndecidedError
from onnxgather.checks import check_type
from onnxgather.descriptors.operators import Descriptor
from onnxgather.errors import OnnxGatherError
from onnxgather.model.write import to_onnx
from onnxgather.options import POLICIES, OutOfRange, Target

LOW_HALVES = (
    "Min, Max and Clip of INT64 compare low halves as signed, as the CPU provider of ONNX Runtime "
    "before 1.32 does"
)
"""A precondition."""


class Certified(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a model means its descriptor."""

    state: Literal["proved", "refuted", "undecided"]
    statement: str
    """What is proved, or refuted, or neither."""
    preconditions: tuple[str, ...] = ()
    """What must be so for the statement to hold."""
    why: str = ""
    """What stopped an undecided one."""
    obligations: tuple[str, ...] = ()
    """The scripts whose claims do not follow from the normal form of terms alone, each once."""
    lemmas: tuple[str, ...] = ()
    """The names of the lemmas of `lemmas` that it rests on."""
    counterexample: Counterexample | None = None
    """Of a refuted one: inputs with which the model was seen to differ."""

    def __str__(self) -> str:
        if self.state == "proved":
            return ", if ".join(filter(None, ["proved", " and ".join(self.preconditions)]))
        return f"{self.state}: {self.counterexample or self.why}"

    def __repr__(self) -> str:
        return f"<Certified {self}>"


def certify(
    desc: Descriptor,
    out_of_range: OutOfRange = "clamp",
    target: Target = "portable",
    model: AnyModel | None = None,
    timeout: float = 60,
    low_halves: bool = False,
) -> Certified:
    """Prove that a model means a descriptor, for any data and every value of every index.

    Args:
        desc: Any of the four gather descriptors.
        out_of_range: What an index out of range does; see `OutOfRange`.
        target: Which model `to_onnx` makes of the descriptor; see `TARGETS`.
        model: The model in the place of that one: a path, or an `onnx.ModelProto`. Its inputs
            are those named InputTensor and IndicesTensor, or PREFIXInputTensor and so on, else two
            in this order.
        timeout: The seconds that the solver may take for the whole.
        low_halves: Whether Min, Max and Clip of INT64 compare low halves as signed, as the CPU
            provider of ONNX Runtime does before version 1.32.

    Raises:
        OnnxGatherError: An option is not one of those above, the model cannot be read or does not
            fit the descriptor, or there is no solver: `pip install onnxgather[proof]`.
    """
    check_type("timeout", timeout, "a number of seconds", int, float)
    if not timeout > 0:
        raise OnnxGatherError(f"timeout must be above 0, got {timeout}")
    installed_solver()
    made = to_onnx(desc, out_of_range, target)  # which checks the options
    run, obligations = Run(low_halves=low_halves), dict[str, None]()
    end = time.monotonic() + timeout
    formula, needed = formula_of(desc, out_of_range, target)
    certified = partial(
        Certified,
        statement=statement_of(desc, out_of_range),
        preconditions=(*needed, *([LOW_HALVES] if low_halves else [])),
    )
    try:
        for claim in claims(model or made, formula, run):
            if refuted := _refuted(claim, obligations, end):
                text, _ = refuted.script()
                left = end - time.monotonic()
                shown = counterexample(model or made, formula, refuted, left, low_halves)
                return certified(state="refuted", obligations=(text,), counterexample=shown)
    except UndecidedError as error:
        shown = None if low_halves else searched(model or made, formula)
        if shown is None:
            return certified(state="undecided", why=str(error))
        return certified(state="refuted", counterexample=shown)
    return certified(state="proved", obligations=(*obligations,), lemmas=(*sorted(run.lemmas),))


def statement_of(desc: Descriptor, out_of_range: OutOfRange) -> str:
    """What is proved, in a sentence."""
    return (
        "for any data and every value of every index, each element of OutputTensor is the element "
        f"of InputTensor that DirectML's formula of {desc.operator} names, and an index out of "
        f"range {POLICIES[out_of_range].rule}"
    )


def _refuted(claim: Claim, obligations: dict[str, None], end: float) -> Claim | None:
    """A claim that does not hold, or None.

    Raises:
        UndecidedError: It may hold or not.
    """
    if claim.conclusion is True:
        return None
    text, _ = claim.script()
    answer = solved(text, end - time.monotonic())
    obligations[text] = None
    if answer.verdict == "unknown":
        raise UndecidedError(answer.why)
    return claim if answer.verdict == "sat" else None


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
