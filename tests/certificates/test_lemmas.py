from __future__ import annotations

import numpy as np
import pytest

from onnxgather.certificates import lemmas
from onnxgather.certificates.lemmas import LEMMAS, SENTENCES, lemma_scripts, prove
from onnxgather.certificates.solvers import check_script, solve

QUICK = (
    "exact float16",
    "order float16",
    "equal float16",
    "clip float16",
    "exact float32",
    "beyond float32",
)
NAMES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)  # up to a minute
    for name in LEMMAS
]


@pytest.mark.parametrize("name", NAMES)
def test_each_lemma_is_proved(name: str) -> None:
    assert prove(name, 120, "z3").verdict == "unsat"


@pytest.mark.parametrize("name", NAMES)
def test_each_lemma_is_refuted_for_integers_beyond_what_floats_hold(name: str) -> None:
    # The last scripts are those of the largest integers.
    scripts = reversed([*lemma_scripts(name, beyond=1)])
    assert any(solve(script, 120, "z3").verdict == "sat" for script in scripts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exact", "order", "equal", "clip", "beyond"])
def test_cvc5_proves_lemmas_of_one_float_too(kind: str) -> None:
    assert prove(f"{kind} float32", 120, "cvc5").verdict == "unsat"
    assert prove(f"{kind} float32", 120, "cvc5", beyond=1).verdict == "sat"


def test_sums_and_products_of_float64_are_no_lemmas() -> None:
    every = {f"{kind} {dtype}" for kind in SENTENCES for dtype in ("float16", "float32", "float64")}
    unproved = {"sum float64", "product float64", "beyond float16", "beyond float64"}
    assert every - {*LEMMAS} == unproved


def test_the_formats_are_those_of_numpy() -> None:
    for dtype, (exponent, digits) in lemmas.DIGITS.items():
        info = np.finfo(dtype)
        assert (info.nexp, info.nmant + 1) == (exponent, digits)


def test_sums_and_products_have_a_script_for_each_two_places_of_first_bits() -> None:
    places = [(u, w) for u in range(12) for w in range(u + 1)]
    assert len([*lemma_scripts("sum float16")]) == 12 + 2 * len(places)  # 12 with the integer 0
    small = [(u, w) for u, w in places if u + w <= 11]
    assert len([*lemma_scripts("product float16")]) == 12 + 2 * len(small)
    for u in range(1, 2**11 + 1):  # a product from -E to E has its factors at such places
        w = 2**11 // u
        assert u.bit_length() - 1 + w.bit_length() - 1 <= 11


def test_each_lemma_has_scripts_that_its_check_reads() -> None:
    for name in LEMMAS:
        texts = [*lemma_scripts(name)]
        assert len({*texts}) == len(texts) > 0
        for text in texts[:3]:
            check_script(text)
