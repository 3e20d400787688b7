from __future__ import annotations

import numpy as np
import pytest
from rings import one_quick_in

from onnxgather.proving import lemmas
from onnxgather.proving.lemmas import LEMMAS, lemma_scripts, prove
from onnxgather.proving.solvers import Solved, solve

QUICK = (
    "exact float16",
    "order float16",
    "equal float16",
    "clip float16",
    "exact float32",
    "beyond float32",
)
NAMES = [
    # the slow ones take up to a minute
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in LEMMAS
]


@pytest.mark.parametrize("name", one_quick_in(5, NAMES))
def test_each_lemma_is_proved(name: str) -> None:
    assert prove(name, 120, "z3").verdict == "unsat"


@pytest.mark.parametrize("name", one_quick_in(6, NAMES))
def test_each_lemma_is_refuted_for_integers_beyond_what_floats_hold(name: str) -> None:
    scripts = lemma_scripts(name, beyond=1)
    assert any(solve(script, 120, "z3").verdict == "sat" for script in scripts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exact", "order", "equal", "clip", "beyond"])
def test_cvc5_proves_lemmas_of_one_float_too(kind: str) -> None:
    assert prove(f"{kind} float32", 120, "cvc5").verdict == "unsat"
    assert prove(f"{kind} float32", 120, "cvc5", beyond=1).verdict == "sat"


def test_a_lemma_that_was_not_proved_in_its_time_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, proved = Solved("unknown", why="z3: timeout"), Solved("unsat")
    answers = iter([late, proved])

    def answer(_script: str, _seconds: float, _solver: str | None) -> Solved:
        return next(answers)

    monkeypatch.setattr(lemmas, "solved", answer)
    assert prove("exact float16", 5) == late
    assert prove("exact float16", 5) == proved


def test_the_formats_are_those_of_numpy() -> None:
    for dtype, (exponent, digits) in lemmas.DIGITS.items():
        info = np.finfo(dtype)
        assert (info.nexp, info.nmant + 1) == (exponent, digits)


def test_each_lemma_has_scripts_and_no_two_are_equal() -> None:
    for name in LEMMAS:
        texts = [*lemma_scripts(name)]
        assert len({*texts}) == len(texts) > 0
