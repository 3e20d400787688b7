"""What is known of floats made from integers: sentences that a solver shows, for all values.

fl(v) is the float nearest to an integer v, to even where two are as near; v is any integer of 65
bits, so any INT64 and any UINT64. E is 2^11, 2^24, 2^53 for FLOAT16, FLOAT32, FLOAT64: up to it a
float holds every integer. c, u and w are integers from -E to E.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from onnxgather.certificates.solvers import Solved, solve

SENTENCES = {
    "order": "fl(v) < c if and only if v < c, unless c is -E and v is below it, and c < fl(v) if "
    "and only if c < v, unless c is E and v is above it.",
    "equal": "fl(v) = c if and only if v = c, unless c is E or -E and v is beyond it.",
    "clip": "min(fl(v), c) is fl(min(v, c)), max(fl(v), c) is fl(max(v, c)), and c is a float.",
    "exact": "A Cast of fl(c) to an integer type that holds c gives c.",
    "beyond": "A Cast of fl(v) to INT32 is at least E for v from E to 2^31 - 65, and at most -E "
    "for v from -2^31 to -E.",
    "sum": "fl(u) + fl(w) is fl(u + w) where u + w is from -E to E, and a Cast of it gives u + w.",
    "product": "fl(u) * fl(w) is fl(u * w) where u * w is from -E to E, and a Cast of it gives "
    "u * w.",
}
"""What the lemmas say, by the words that their names start with."""

DIGITS = {"float16": (5, 11), "float32": (8, 24), "float64": (11, 53)}
"""The bits of the exponent, and the digits, of numpy's types."""

_TYPES = {"sum": ("float16", "float32"), "product": ("float16", "float32"), "beyond": ("float32",)}

LEMMAS = {
    f"{kind} {dtype}": (kind, *DIGITS[dtype])
    for kind in SENTENCES
    for dtype in DIGITS
    if dtype in _TYPES.get(kind, DIGITS)
}
"""The lemmas; sums and products of FLOAT64 take too long to prove, and are not among them."""

_START = """(set-logic QF_BVFP)
(define-fun low () (_ BitVec {width}) {low})
(define-fun high () (_ BitVec {width}) {high})
"""

_ONE = """(declare-const v (_ BitVec 65))
(declare-const n (_ BitVec {width}))
(define-fun c () (_ BitVec 65) ((_ sign_extend {more}) n))
(define-fun f () (_ FloatingPoint {exponent} {digits}) ({fl} v))
(define-fun g () (_ FloatingPoint {exponent} {digits}) ({fl} n))
(assert (and (bvsle low n) (bvsle n high)))
"""
"""One v and one c, which is n with more bits, and their floats."""

_CLAIMS = {
    "order": (
        "(or (and (= n low) (bvslt v c)) (= (fp.lt f g) (bvslt v c)))",
        "(or (and (= n high) (bvslt c v)) (= (fp.lt g f) (bvslt c v)))",
    ),
    "equal": (
        "(or (and (= n low) (bvslt v c)) (and (= n high) (bvslt c v)) (= (fp.eq f g) (= v c)))",
    ),
    "clip": (
        "(= (fp.min f g) (ite (bvslt v c) f g))",
        "(= (fp.max f g) (ite (bvslt c v) f g))",
        "(= ({cast} g) n)",
    ),
    "exact": ("(= ({cast} g) n)",),
    "beyond": (
        "(or (distinct n high) (bvslt v c) (bvslt (_ bv2147483583 65) v)"
        " (and (bvsle c {whole}) (bvsle {whole} (_ bv2147483647 65))))",
        "(or (distinct n low) (bvslt c v) (bvslt v (bvneg (_ bv2147483648 65)))"
        " (and (bvsle {whole} c) (bvsle (bvneg (_ bv2147483648 65)) {whole})))",
    ),
}

_TWO = """(declare-const u-bits (_ BitVec {digits}))
(declare-const w-bits (_ BitVec {digits}))
(define-fun u () (_ BitVec {width}) {u})
(define-fun w () (_ BitVec {width}) {w})
(define-fun r () (_ BitVec {width}) {result})
(assert (and (bvsle low u) (bvsle u high) (bvsle low w) (bvsle w high)))
(assert (and (bvsle low r) (bvsle r high)))
"""
"""u and w with their first bits at known places, and their sum or product."""

_SUM = "(fp.eq (fp.add RNE ({fl} u) ({fl} w)) ({fl} r))"
_PRODUCT = """(and (= ({fl} u) {x}) (= ({fl} w) {y})
  (fp.eq (fp.mul RNE {x} {y}) ({fl} r)) (= ({cast} ({fl} r)) r))"""


@cache
def prove(name: str, seconds: float, solver: str | None = None, beyond: int = 0) -> Solved:
    """Prove a lemma: unsat says that all of its scripts are, any other answer is that of one.

    Args:
        name: One of `LEMMAS`.
        seconds: How long the solver may take for each script.
        solver: As in `solve`.
        beyond: Is added to E; the lemmas hold for 0 alone.
    """
    answers = (solve(script, seconds, solver) for script in lemma_scripts(name, beyond))
    return next((answer for answer in answers if answer.verdict != "unsat"), Solved("unsat"))


def lemma_scripts(name: str, beyond: int = 0) -> Iterator[str]:
    """Yield the scripts of a lemma, which are unsatisfiable where it holds.

    A sum or a product has two for each two places of the first bits of u and w: as u or w may be
    the larger, and either sign may change, alike, u is positive and its place not the lower one.
    u * w is computed from the digits of the floats, which is u * w shifted.

    Args:
        name: One of `LEMMAS`.
        beyond: Is added to E.
    """
    kind, exponent, digits = LEMMAS[name]
    width = digits + 3 if kind in _CLAIMS else 2 * digits + 2
    known: dict[str, object] = {
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
    for claim in _CLAIMS.get(kind, ()):
        yield _script(_ONE, claim, known)
    if kind in _CLAIMS:
        return
    for first, second, negative in product(range(digits + 1), range(-1, digits + 1), (False, True)):
        is_new = second <= first and not (negative and second < 0)
        if not is_new or (kind == "product" and first + second > digits):
            continue
        x, u, left = _operand("u", first, False, exponent, digits, width)
        y, w, right = _operand("w", second, negative, exponent, digits, width)
        if kind == "sum":
            yield _script(_TWO, _SUM, {**known, "u": u, "w": w, "result": "(bvadd u w)"})
            continue
        both = " ".join(f"((_ zero_extend {digits}) {each})" for each in (left, right))
        shift = _bits(2 * digits - 2 - first - second, 2 * digits)
        size = f"((_ zero_extend 2) (bvlshr (bvmul {both}) {shift}))"
        result = f"(bvneg {size})" if negative else size
        yield _script(_TWO, _PRODUCT, {**known, "u": u, "w": w, "x": x, "y": y, "result": result})


def _script(start: str, claim: str, known: dict[str, object]) -> str:
    return f"{_START}{start}(assert (not {claim}))\n(check-sat)\n".format(**known)


def _operand(
    name: str, top: int, negative: bool, exponent: int, digits: int, width: int
) -> tuple[str, str, str]:
    """A float, the integer that it is, and its digits: the integer's first bit has a known place.

    0, which has no first bit, has the place -1.
    """
    if top < 0:
        return f"(_ +zero {exponent} {digits})", _bits(0, width), _bits(0, digits)
    behind = f"((_ extract {top - 1} 0) {name}-bits)" if top else ""
    kept = f"((_ extract {top - 1} {max(0, top - digits + 1)}) {name}-bits)" if top else ""
    fraction = _joined(kept, _bits(0, max(0, digits - 1 - top)))
    size = _joined(_bits(1, width - top), behind)
    power = _bits(2 ** (exponent - 1) - 1 + top, exponent)
    return (
        f"(fp #b{negative:d} {power} {fraction})",
        f"(bvneg {size})" if negative else size,
        _joined("#b1", fraction),
    )


def _bits(value: int, width: int) -> str:
    """An integer in so many bits, of which there may be none."""
    return f"(_ bv{value % 2**width} {width})" if width else ""


def _joined(*parts: str) -> str:
    """Bits behind bits."""
    some = [part for part in parts if part]
    return f"(concat {' '.join(some)})" if len(some) > 1 else some[0]
