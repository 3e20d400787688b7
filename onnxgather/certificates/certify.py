"""Whether a model means its descriptor."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import msgspec

from onnxgather.certificates import terms
from onnxgather.certificates.claims import AnyModel, claims
from onnxgather.certificates.counterexamples import Counterexample, counterexample
from onnxgather.certificates.formula import formula_of
from onnxgather.certificates.solvers import Solved, installed_solver, solved
from onnxgather.certificates.tensors import Run, UndecidedError, ensure
from onnxgather.checks import check_choice, check_type, html_table, printable
from onnxgather.descriptors.arrays import check_descriptor
from onnxgather.descriptors.operators import Descriptor
from onnxgather.descriptors.spelling import to_dict
from onnxgather.errors import OnnxGatherError
from onnxgather.model.write import check_model, to_onnx
from onnxgather.networks.contract import digest_of
from onnxgather.networks.network import read_network
from onnxgather.options import POLICIES, TARGETS, OutOfRange, Target

LOW_HALVES = (
    "Min, Max and Clip of INT64 compare low halves as signed, as the CPU provider of"
    " ONNX Runtime before 1.32 does"
)
"""A precondition."""


class Certified(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a model means its descriptor; as JSON it is a certificate, which `files` reads."""

    state: Literal["proved", "refuted", "undecided"]
    digest: str
    """The SHA-256 digest of the model, such as `sha256:...`."""
    statement: str
    """What is proved, or refuted, or neither."""
    preconditions: tuple[str, ...] = ()
    """What must be so for the statement to hold."""
    why: str = ""
    """What stopped an undecided one."""
    obligations: tuple[str, ...] = ()
    """The scripts whose claims do not follow from the normal form of terms alone, each
    once."""
    lemmas: tuple[str, ...] = ()
    """The names of the lemmas of `lemmas` that it rests on."""
    counterexample: Counterexample | None = None
    """Of a refuted one: inputs with which the model was seen to differ."""
    schema: Literal[1] = 1
    descriptor: dict[str, Any]
    """The descriptor in DxDispatch's spelling, as `from_dict` reads it."""
    out_of_range: OutOfRange
    target: Target

    def __str__(self) -> str:
        if self.state == "proved":
            return ", if ".join(
                filter(None, ["proved", " and ".join(self.preconditions)])
            )
        return printable(f"{self.state}: {self.counterexample or self.why}")

    def __repr__(self) -> str:
        return f"<Certified {self}>"

    def _repr_html_(self) -> str:
        told = {
            "statement": self.statement,
            "digest": self.digest,
            "lemmas": ", ".join(self.lemmas),
        }
        return html_table(
            str(self), ((name, text) for name, text in told.items() if text)
        )


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
            fit the descriptor, or there is no solver: `pip install z3-solver`.
    """
    check_type("timeout", timeout, "a number of seconds", int, float)
    if not timeout > 0:
        raise OnnxGatherError(f"timeout must be above 0, got {timeout}")
    check_type("low_halves", low_halves, "True or False", bool)
    check_descriptor(desc)
    check_choice("out_of_range", out_of_range, POLICIES)
    check_choice("target", target, TARGETS)
    installed_solver()
    model = to_onnx(desc, out_of_range, target) if model is None else model
    return certified(desc, out_of_range, target, model, timeout, low_halves, solved)


def certified(
    desc: Descriptor,
    out_of_range: OutOfRange,
    target: Target,
    model: AnyModel,
    timeout: float,
    low_halves: bool,
    solver: Callable[[str, float], Solved],
) -> Certified:
    """As `certify`, by the answers of a solver to scripts, each in so many seconds."""
    end, network = time.monotonic() + timeout, read_network(model)
    run, asked = Run(low_halves=low_halves), dict[str, None]()
    formula, needed = formula_of(desc, out_of_range, target)
    told = partial(
        Certified,
        descriptor=to_dict(desc),
        out_of_range=out_of_range,
        target=target,
        digest=digest_of(network),
        statement=(
            "for any data and every value of every index, each element of OutputTensor"
            f" is the element of InputTensor that DirectML's formula of {desc.operator}"
            f" names, and an index out of range {POLICIES[out_of_range].rule}"
        ),
        preconditions=(*needed, *([LOW_HALVES] if low_halves else [])),
    )
    try:
        with terms.until(end):
            for claim in claims(network, formula, run):
                ensure(time.monotonic() < end, "the time is up")
                text = "" if claim.conclusion is True else claim.script()[0]
                if not text or text in asked:
                    continue
                answer = solver(text, end - time.monotonic())
                if answer.verdict == "sat":
                    left = end - time.monotonic()
                    with terms.until(math.inf):
                        shown = counterexample(model, formula, claim, left, low_halves)
                    return told(
                        state="refuted", obligations=(text,), counterexample=shown
                    )
                ensure(answer.verdict == "unsat", answer.why)
                asked[text] = None
        _checked(model)
    except (UndecidedError, TimeoutError, RecursionError) as error:
        with suppress(UndecidedError):
            ensure(not low_halves, "the installed ONNX Runtime may compare otherwise")
            shown = counterexample(model, formula, None, 0)
            return told(state="refuted", counterexample=shown)
        deep = "a value that depends on too many others, one behind the other"
        why = deep if isinstance(error, RecursionError) else str(error)
        return told(state="undecided", why=why)
    return told(state="proved", obligations=(*asked,), lemmas=(*sorted(run.lemmas),))


def _checked(model: AnyModel) -> None:
    """Let ONNX's checker have its say: a model that it refuses does not run, so it is not proved.

    Raises:
        UndecidedError: It refuses the model.
    """
    try:
        check_model(model)
    except OnnxGatherError as error:
        raise UndecidedError(str(error)) from None
