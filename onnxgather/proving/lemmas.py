"""Lemmas about floats made from integers, which a solver proves for all values.

fl(v) is the float nearest to an integer v, to even where two are as near; v is any
integer of 65 bits, so any INT64 and any UINT64. E is 2^11, 2^24, 2^53 for FLOAT16,
FLOAT32, FLOAT64: up to it a float holds every integer. c is an integer from -E to E.
"""

from __future__ import annotations

from collections.abc import Iterator

from onnxgather.proving.solvers import Solved, solved

DIGITS = {"float16": (5, 11), "float32": (8, 24), "float64": (11, 53)}
"""The bits of the exponent, and the digits, of numpy's types."""

_START = """(set-logic QF_BVFP)
(define-fun low () (_ BitVec {width}) {low})
(define-fun high () (_ BitVec {width}) {high})
(declare-const v (_ BitVec 65))
(declare-const n (_ BitVec {width}))
(define-fun c () (_ BitVec 65) ((_ sign_extend {more}) n))
(define-fun f () (_ FloatingPoint {exponent} {digits}) ({fl} v))
(define-fun g () (_ FloatingPoint {exponent} {digits}) ({fl} n))
(assert (and (bvsle low n) (bvsle n high)))
"""
"""One v and one c, which is n with more bits, and their floats."""

_CLAIMS = {
    # fl(v) < c if and only if v < c, unless c is -E and v is below it,
    # and c < fl(v) if and only if c < v, unless c is E and v is above it.
    "order": (
        "(or (and (= n low) (bvslt v c)) (= (fp.lt f g) (bvslt v c)))",
        "(or (and (= n high) (bvslt c v)) (= (fp.lt g f) (bvslt c v)))",
    ),
    # fl(v) = c if and only if v = c, unless c is E or -E and v is beyond it.
    "equal": (
        (
            "(or (and (= n low) (bvslt v c)) (and (= n high) (bvslt c v)) (= (fp.eq f"
            " g) (= v c)))"
        ),
    ),
    # min(fl(v), c) is fl(min(v, c)), max(fl(v), c) is fl(max(v, c)), and c is a float.
    "clip": (
        "(= (fp.min f g) (ite (bvslt v c) f g))",
        "(= (fp.max f g) (ite (bvslt c v) f g))",
        "(= ({cast} g) n)",
    ),
    # A Cast of fl(c) to an integer type that holds c gives c.
    "exact": ("(= ({cast} g) n)",),
    # A Cast of fl(v) to INT32 is at least E for v from E to 2^31 - 65,
    # and at most -E for v from -2^31 to -E.
    "beyond": (
        (
            "(or (distinct n high) (bvslt v c) (bvslt (_ bv2147483583 65) v)"
            " (and (bvsle c {whole}) (bvsle {whole} (_ bv2147483647 65))))"
        ),
        (
            "(or (distinct n low) (bvslt c v) (bvslt v (bvneg (_ bv2147483648 65)))"
            " (and (bvsle {whole} c) (bvsle (bvneg (_ bv2147483648 65)) {whole})))"
        ),
    ),
}
"""What the lemmas claim, by the words that their names start with."""


def _all_lemmas() -> dict[str, tuple[str, int, int]]:
    """Return the kind, the exponent's bits and the digits of each lemma."""
    lemmas: dict[str, tuple[str, int, int]] = {}
    for kind in _CLAIMS:
        for dtype, (exponent, digits) in DIGITS.items():
            # It is about INT32, for which no other type is needed.
            if kind == "beyond" and dtype != "float32":
                continue
            lemmas[f"{kind} {dtype}"] = (kind, exponent, digits)
    return lemmas


LEMMAS = _all_lemmas()
"""The lemmas by their names, each with its kind and the bits of its type."""


def prove(
    name: str, seconds: float, solver: str | None = None, beyond: int = 0
) -> Solved:
    """Prove a lemma: unsat if all of its scripts are, else the first other answer.

    Args:
        name: One of `LEMMAS`.
        seconds: How long the solver may take for each script.
        solver: As in `solve`.
        beyond: Is added to E; the lemmas hold for 0 alone.
    """
    for script in lemma_scripts(name, beyond):
        answer = solved(script, seconds, solver)
        if answer.verdict != "unsat":
            return answer
    return Solved("unsat")


def lemma_scripts(name: str, beyond: int = 0) -> Iterator[str]:
    """Yield the scripts of a lemma, which are unsatisfiable where it holds.

    Args:
        name: One of `LEMMAS`.
        beyond: Is added to E.
    """
    kind, exponent, digits = LEMMAS[name]
    width = digits + 3  # so many bits hold -E, E and some integers beyond
    values: dict[str, object] = {
        "exponent": exponent,
        "digits": digits,
        "width": width,
        "more": 65 - width,
        "low": _bits(-(2**digits) - beyond, width),
        "high": _bits(2**digits + beyond, width),
        "fl": f"(_ to_fp {exponent} {digits}) RNE",
        "whole": "((_ fp.to_sbv 65) RTZ f)",
        "cast": f"(_ fp.to_sbv {width}) RTZ",
    }
    for claim in _CLAIMS[kind]:
        script = f"{_START}(assert (not {claim}))\n(check-sat)\n"
        yield script.format(**values)


def _bits(value: int, width: int) -> str:
    """Return an integer in so many bits."""
    return f"(_ bv{value % 2**width} {width})"
