"""Terms over the integers and the truth values: what a model computes, and what the formula says.

An integer is an int or a `Term`, a truth is a bool or a `Term`. Terms have no width: a
machine integer is a term in two's complement. Each term knows its lowest and its
highest value, and sums are kept in a normal form, so that most of what is equal is the
same object. What is left is written by `script` for a solver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, cast
from weakref import WeakValueDictionary


class Term:
    """An integer or a truth that is not known. Equal terms are one object.

    The kinds of integers, with their arguments:
        variable: a name.
        read: the name of an array and a position: an element of the array.
        sum: a constant, then pairs of a term and its factor, which is not 0.
        quotient, remainder: a term and a positive divisor; the quotient is rounded down.
        choose: a truth and two integers: the first where it holds, else the second.
    The kinds of truths:
        negative, zero: an integer.
        all: truths that all hold.
        not: a truth.
    """

    __slots__ = ("__weakref__", "args", "high", "kind", "low", "number")

    kind: str
    args: tuple[Any, ...]
    low: int
    """The lowest value; 0 for a truth."""
    high: int
    """The highest value; 1 for a truth."""
    number: int
    """Orders terms, the same in each program: a digest of the kind and the
    arguments."""

    def __repr__(self) -> str:
        return f"{self.kind}#{self.number}"

    def __add__(self, other: Int) -> Int:
        """The sum."""
        return weighted([(self, 1), (other, 1)])

    __radd__ = __add__

    def __neg__(self) -> Int:
        """The integer with the other sign."""
        return weighted([(self, -1)])

    def __sub__(self, other: Int) -> Int:
        """The difference."""
        return weighted([(self, 1), (other, -1)])

    def __rsub__(self, other: int) -> Int:
        """The difference."""
        return weighted([(other, 1), (self, -1)])

    def __mul__(self, factor: int) -> Int:
        """The product."""
        return weighted([(self, factor)])

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Int:
        """The integer divided by a positive one, rounded down."""
        constant, parts = as_sum(self)
        multiples = (
            (term, f // divisor) for term, f in parts.items() if f % divisor == 0
        )
        whole = weighted([(constant // divisor, 1), *multiples])
        rest = self - whole * divisor
        low, high = lowest(rest) // divisor, highest(rest) // divisor
        return whole + (
            low if low == high else _term("quotient", (rest, divisor), low, high)
        )

    def __mod__(self, divisor: int) -> Int:
        """What is left of the integer divided by a positive one."""
        rest = _reduced(self, divisor)
        for value in (self, rest):
            whole = value // divisor
            if not isinstance(whole, Term):
                return value - whole * divisor
        return _term("remainder", (rest, divisor), 0, divisor - 1)

    def __lt__(self, other: Int) -> Truth:
        """Whether the integer is smaller."""
        below = self - other
        if highest(below) < 0 or lowest(below) >= 0:
            return highest(below) < 0
        return _term("negative", (below,))

    def __gt__(self, other: Int) -> Truth:
        """Whether the integer is larger."""
        return -self < -other


Int = int | Term
Truth = Int
"""A bool or a `Term`; Python counts a bool as an int."""

_deadline = ContextVar("deadline", default=math.inf)


@contextmanager
def until(end: float) -> Generator[None]:
    """Make terms until a time of `time.monotonic`; after it TimeoutError is raised."""
    token = _deadline.set(end)
    try:
        yield
    finally:
        _deadline.reset(token)


_made = WeakValueDictionary[tuple[Any, ...], Term]()


def _term(kind: str, args: tuple[Any, ...], low: int = 0, high: int = 1) -> Term:
    key = (kind, args, low, high)
    found = _made.get(key)
    if time.monotonic() > _deadline.get():
        raise TimeoutError("the time is up")
    if found is None:
        found = _made[key] = Term()
        found.kind, found.args, found.low, found.high = key
        digest = blake2b(repr(key).encode(), digest_size=8).digest()
        found.number = int.from_bytes(digest)
    return found


def variable(name: str, low: int, high: int) -> Term:
    """An integer from `low` to `high`."""
    return _term("variable", (name,), low, high)


def read(array: str, position: Int, low: int, high: int) -> Term:
    """The element of an array at a position; all elements are from `low` to `high`."""
    return _term("read", (array, position), low, high)


def lowest(value: Int) -> int:
    """The lowest value of an integer."""
    return value.low if isinstance(value, Term) else value


def highest(value: Int) -> int:
    """The highest value of an integer."""
    return value.high if isinstance(value, Term) else value


def as_sum(value: Int) -> tuple[int, dict[Term, int]]:
    """The constant of a sum, and its terms with their factors."""
    if not isinstance(value, Term):
        return value, {}
    return (
        (value.args[0], dict(value.args[1:]))
        if value.kind == "sum"
        else (0, {value: 1})
    )


def weighted(pairs: Iterable[tuple[Int, int]]) -> Int:
    """The sum of integers, each times a factor."""
    constant, parts = 0, dict[Term, int]()
    for value, factor in pairs:
        start, terms = as_sum(value)
        constant += start * factor
        for term, own in terms.items():
            parts[term] = parts.get(term, 0) + own * factor
    for term, factor in [*parts.items()]:
        # k * (x // k) + x % k is x
        if term.kind == "remainder" and factor * term.args[1] in parts.values():
            value, divisor = term.args
            if parts.get(value // divisor) == factor * divisor:
                del parts[term], parts[value // divisor]
                return weighted([(constant, 1), (value, factor), *parts.items()])
    ordered = sorted(
        ((t, f) for t, f in parts.items() if f), key=lambda pair: pair[0].number
    )
    if not ordered:
        return constant
    if constant == 0 and len(ordered) == 1 and ordered[0][1] == 1:
        return ordered[0][0]
    low = constant + sum(f * (t.low if f > 0 else t.high) for t, f in ordered)
    high = constant + sum(f * (t.high if f > 0 else t.low) for t, f in ordered)
    return low if low == high else _term("sum", (constant, *ordered), low, high)


def _reduced(value: Int, divisor: int) -> Int:
    """An integer with the same remainder, in a normal form."""
    constant, parts = as_sum(value)
    if (
        isinstance(value, Term)
        and value.kind == "remainder"
        and value.args[1] % divisor == 0
    ):
        return _reduced(value.args[0], divisor)
    if isinstance(value, Term) and value.kind == "choose":
        truth, first, second = value.args
        return choose(truth, _reduced(first, divisor), _reduced(second, divisor))
    if value not in parts:
        value = weighted(
            (_reduced(term, divisor), factor) for term, factor in parts.items()
        )
        start, parts = as_sum(value + constant % divisor)
        constant = start % divisor
    return weighted(
        [(constant, 1), *((term, factor % divisor) for term, factor in parts.items())]
    )


def smaller_of(first: Int, second: Int) -> Int:
    """The smaller of two integers."""
    return choose(first < second, first, second)


def larger_of(first: Int, second: Int) -> Int:
    """The larger of two integers."""
    return choose(first < second, second, first)


def is_equal(first: Int, second: Int) -> Truth:
    """Whether two integers are equal."""
    value = first - second
    if not isinstance(value, Term) or value.low > 0 or value.high < 0:
        return value == 0
    return _term("zero", (-value if _starts_negative(value) else value,))


def no(truth: Truth) -> Truth:
    """Whether a truth does not hold."""
    if not isinstance(truth, Term):
        return not truth
    if truth.kind == "negative":
        return -1 - truth.args[0] < 0
    return truth.args[0] if truth.kind == "not" else _term("not", (truth,))


def all_of(*truths: Truth) -> Truth:
    """Whether all truths hold."""
    found = dict[Term, None]()
    for truth in truths:
        if not isinstance(truth, Term):
            if not truth:
                return False
        elif truth.kind == "all":
            found |= dict.fromkeys(truth.args)
        else:
            found[truth] = None
    if any(no(truth) in found for truth in found):
        return False
    if len(found) < 2:
        return next(iter(found), True)
    return _term("all", (*sorted(found, key=lambda term: term.number),))


def any_of(*truths: Truth) -> Truth:
    """Whether a truth of several holds."""
    return no(all_of(*map(no, truths)))


def choose_truth(truth: Truth, first: Truth, second: Truth) -> Truth:
    """The first truth where `truth` holds, else the second."""
    if first is second:
        return first
    return any_of(all_of(truth, first), all_of(no(truth), second))


def agree(first: Truth, second: Truth) -> Truth:
    """Whether two truths are equal."""
    return choose_truth(first, second, no(second))


def choose(truth: Truth, first: Int, second: Int) -> Int:
    """The first integer where a truth holds, else the second."""
    if not isinstance(truth, Term):
        return first if truth else second
    between = first - second
    if not isinstance(between, Term) and between == 0:
        return first
    if truth.kind == "not" or (
        truth.kind == "negative" and _starts_negative(truth.args[0])
    ):
        return choose(no(truth), second, first)
    lows, highs = [*map(lowest, (first, second))], [*map(highest, (first, second))]
    if truth.kind == "negative":
        below = truth.args[0]
        for equal in (between, -between):
            if (
                below - equal == -1
            ):  # where both integers are equal, the truth need not hold
                return choose(equal < 0, first, second)
            if below - equal == 0 and highest(equal) <= 0:
                return first
        lows = [
            max(lows[0], lowest(first + below) + 1),
            max(lows[1], lowest(second - below)),
        ]
        highs = [
            min(highs[0], highest(first - below) - 1),
            min(highs[1], highest(second + below)),
        ]
    return _term("choose", (truth, first, second), min(lows), max(highs))


def _starts_negative(value: Term) -> bool:
    """Whether the first factor of a sum is negative."""
    return next(iter(as_sum(value)[1].values())) < 0


def assuming(value: Int, truth: Truth) -> Int:
    """An integer that is the same where a truth holds, with what the truth decides left out."""
    if not isinstance(value, Term) or not isinstance(truth, Term):
        return value
    facts = {truth, *(truth.args if truth.kind == "all" else ())}

    def holds(condition: Truth) -> bool:
        if isinstance(condition, Term) and condition.kind == "all":
            return facts.issuperset(condition.args)
        return condition in facts

    def decided(term: Term) -> Int:
        if term.kind != "choose":
            return term
        condition, first, second = term.args
        if holds(condition):
            return assuming(first, truth)
        return assuming(second, truth) if holds(no(condition)) else term

    constant, parts = as_sum(value)
    return constant + weighted(
        (decided(term), factor) for term, factor in parts.items()
    )


def in_twos_complement(value: Int, low: int, high: int) -> Int:
    """An integer in two's complement: the one from `low` to `high` with the same low bits."""
    if low <= lowest(value) and highest(value) <= high:
        return value
    return (value - low) % (high - low + 1) + low


def inside(term: Term) -> Iterator[Term]:
    """Yield the terms that a term is made of, itself last, each once."""
    seen = set[Term]()
    stack = [(term, False)]
    while stack:
        one, is_done = stack.pop()
        if is_done:
            yield one
        elif one not in seen:
            seen.add(one)
            stack.append((one, True))
            args = [pair[0] for pair in one.args[1:]] if one.kind == "sum" else one.args
            stack.extend(
                (own, False) for own in reversed(args) if isinstance(own, Term)
            )


def evaluate(term: Int | Truth, values: Mapping[Term, int]) -> int:
    """The value of a term; a truth is 0 or 1, and a variable or a read without a value 0."""
    found = dict[Term, int]()

    def value(own: Any) -> Any:
        if isinstance(own, tuple):  # a part of a sum
            part, factor = cast("tuple[Term, int]", own)
            return found[part] * factor
        return found[own] if isinstance(own, Term) else own

    for one in inside(term) if isinstance(term, Term) else ():
        if one.kind in ("variable", "read"):
            found[one] = values.get(one, 0)
        else:
            found[one] = int(_KINDS[one.kind][1](*map(value, one.args)))
    return int(value(term))


def _chosen(truth: int, first: int, second: int) -> int:
    return first if truth else second


def _added(*parts: int) -> int:
    return sum(parts)


_KINDS: Mapping[str, tuple[str, Callable[..., int]]] = {
    "sum": ("Int (+ {all})", _added),
    "quotient": ("Int (div {} {})", int.__floordiv__),
    "remainder": ("Int (mod {} {})", int.__mod__),
    "choose": ("Int (ite {} {} {})", _chosen),
    "negative": ("Bool (< {} 0)", (0).__gt__),
    "zero": ("Bool (= {} 0)", (0).__eq__),
    "all": ("Bool (and {all})", min),
    "not": ("Bool (not {})", (0).__eq__),
}
"""How each kind is written in SMT-LIB, and what it computes. Of a sum the parts are
multiplied."""


def script(
    hypotheses: Iterable[Truth], conclusion: Truth
) -> tuple[str, dict[str, Term]]:
    """The SMT-LIB script that is unsatisfiable if the conclusion follows from the hypotheses.

    Names count up in the order of their use, so that equal obligations are equal texts.

    Returns:
        The script, and its constants with the variables and reads that they stand for.
    """
    whole = all_of(*hypotheses, no(conclusion))
    if not isinstance(whole, Term):
        return f"(assert {str(whole).lower()})\n(check-sat)\n", {}
    names, constants, terms = dict[Term, str](), dict[str, Term](), [*inside(whole)]

    def text(own: Any) -> str:
        if isinstance(own, tuple):
            part, factor = cast("tuple[Term, int]", own)
            return names[part] if factor == 1 else f"(* {text(factor)} {names[part]})"
        if isinstance(own, Term):
            return names[own]
        return f"{own:d}" if own >= 0 else f"(- {-own})"

    arrays = {
        t.args[0] for t in terms if t.kind == "read" and isinstance(t.args[1], Term)
    }
    lines = [f"(declare-fun {array} (Int) Int)" for array in sorted(arrays)]
    for k, one in enumerate(terms):
        if one.kind in ("variable", "read"):
            name = names[one] = f"x{k}"
            constants[name] = one
            lines.append(f"(declare-const {name} Int)")
            lines.append(f"(assert (<= {text(one.low)} {name} {text(one.high)}))")
            if one.kind == "read" and one.args[0] in arrays:
                lines.append(f"(assert (= {name} ({one.args[0]} {text(one.args[1])})))")
        else:
            args = [*map(text, one.args)]
            names[one] = f"t{k}"
            sort_and_value = _KINDS[one.kind][0].format(*args, all=" ".join(args))
            lines.append(f"(define-fun t{k} () {sort_and_value})")
    return "\n".join([*lines, f"(assert {names[whole]})", "(check-sat)\n"]), constants
