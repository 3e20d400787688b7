"""Terms over the integers and the truth values, which models and formulas compute.

An integer is an int or a `Term`, a truth is a bool or a `Term`. Terms have no width: a
machine integer is a term in two's complement. Each term knows its lowest and its
highest value, and sums are kept in a normal form, so that most of what is equal is the
same object. What is left is written by `script` for a solver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, cast
from weakref import WeakValueDictionary

from onnxgather.proving.solvers import TIME_IS_UP


class Term:
    """An integer or a truth that is not known. Equal terms are one object.

    The kinds of integers, with their arguments:
        variable: a name.
        read: the name of an array and a position: an element of the array.
        sum: a constant, then pairs of a term and its factor, which is not 0.
        quotient, remainder: a term and a positive divisor; the quotient is rounded
            down.
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
        """Return the sum."""
        return weighted([(self, 1), (other, 1)])

    __radd__ = __add__

    def __neg__(self) -> Int:
        """Return the integer with the other sign."""
        return weighted([(self, -1)])

    def __sub__(self, other: Int) -> Int:
        """Return the difference."""
        return weighted([(self, 1), (other, -1)])

    def __rsub__(self, other: int) -> Int:
        """Return the difference."""
        return weighted([(other, 1), (self, -1)])

    def __mul__(self, factor: int) -> Int:
        """Return the product."""
        return weighted([(self, factor)])

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Int:
        """Return the integer divided by a positive one, rounded down."""
        constant, parts = as_sum(self)
        # Parts that are multiples of the divisor leave the quotient.
        multiples: list[tuple[Int, int]] = [(constant // divisor, 1)]
        for term, factor in parts.items():
            if factor % divisor == 0:
                multiples.append((term, factor // divisor))
        whole = weighted(multiples)
        rest = self - whole * divisor
        low = lowest(rest) // divisor
        high = highest(rest) // divisor
        if low == high:
            return whole + low
        return whole + _term("quotient", (rest, divisor), low, high)

    def __mod__(self, divisor: int) -> Int:
        """Return what is left of the integer divided by a positive one."""
        reduced = _reduced(self, divisor)
        for value in (self, reduced):
            whole = value // divisor
            if not isinstance(whole, Term):
                return value - whole * divisor
        return _term("remainder", (reduced, divisor), 0, divisor - 1)

    def __lt__(self, other: Int) -> Truth:
        """Return whether the integer is smaller."""
        difference = self - other
        if highest(difference) < 0:
            return True
        if lowest(difference) >= 0:
            return False
        return _term("negative", (difference,))

    def __gt__(self, other: Int) -> Truth:
        """Return whether the integer is larger."""
        return -self < -other


Int = int | Term
Truth = Int
"""A bool or a `Term`; Python counts a bool as an int."""


class TimeIsUpError(Exception):
    """The time for a proof is up; not TimeoutError, which a caller may raise."""


_deadline = ContextVar("deadline", default=math.inf)


@contextmanager
def until(end: float) -> Generator[None]:
    """Make terms until a time of `time.monotonic`; after it TimeIsUpError is raised."""
    token = _deadline.set(end)
    try:
        yield
    finally:
        _deadline.reset(token)


_terms = WeakValueDictionary[tuple[Any, ...], Term]()
"""The terms that are in use, by their kinds, arguments and ends."""


def _term(kind: str, args: tuple[Any, ...], low: int = 0, high: int = 1) -> Term:
    """Return the term of a kind with some arguments."""
    key = (kind, args, low, high)
    term = _terms.get(key)
    if time.monotonic() > _deadline.get():
        raise TimeIsUpError(TIME_IS_UP)
    if term is None:
        term = Term()
        term.kind = kind
        term.args = args
        term.low = low
        term.high = high
        digest = blake2b(repr(key).encode(), digest_size=8).digest()
        term.number = int.from_bytes(digest)
        _terms[key] = term
    return term


def variable(name: str, low: int, high: int) -> Term:
    """Return an integer from `low` to `high`."""
    return _term("variable", (name,), low, high)


def read(array: str, position: Int, low: int, high: int) -> Term:
    """Return the element of an array at a position.

    All elements are from `low` to `high`.
    """
    return _term("read", (array, position), low, high)


def lowest(value: Int) -> int:
    """Return the lowest value of an integer."""
    return value.low if isinstance(value, Term) else value


def highest(value: Int) -> int:
    """Return the highest value of an integer."""
    return value.high if isinstance(value, Term) else value


def as_sum(value: Int) -> tuple[int, dict[Term, int]]:
    """Return the constant of a sum, and its terms with their factors."""
    if not isinstance(value, Term):
        return value, {}
    if value.kind == "sum":
        return value.args[0], dict(value.args[1:])
    return 0, {value: 1}


def weighted(pairs: Iterable[tuple[Int, int]]) -> Int:
    """Return the sum of integers, each times a factor."""
    constant = 0
    parts: dict[Term, int] = {}
    for value, factor in pairs:
        own_constant, own_parts = as_sum(value)
        constant += own_constant * factor
        for term, own_factor in own_parts.items():
            parts[term] = parts.get(term, 0) + own_factor * factor

    # f * d * (x // d) + f * (x % d) is f * x.
    for term, factor in [*parts.items()]:
        if term.kind != "remainder":
            continue
        value, divisor = term.args
        if factor * divisor not in parts.values():  # as most are, no quotient is made
            continue
        quotient = value // divisor
        if parts.get(quotient) == factor * divisor:
            del parts[term]
            del parts[quotient]
            return weighted([(constant, 1), (value, factor), *parts.items()])

    return _sum_of(constant, parts)


def _sum_of(constant: int, parts: Mapping[Term, int]) -> Int:
    """Return the sum in its normal form: the parts in order, none of them 0 times."""
    pairs = [(term, factor) for term, factor in parts.items() if factor]
    if not pairs:
        return constant
    if constant == 0 and len(pairs) == 1:
        term, factor = pairs[0]
        if factor == 1:
            return term
    pairs.sort(key=lambda pair: pair[0].number)
    low = high = constant
    for term, factor in pairs:
        if factor > 0:
            low += factor * term.low
            high += factor * term.high
        else:
            low += factor * term.high
            high += factor * term.low
    if low == high:
        return low
    return _term("sum", (constant, *pairs), low, high)


def _reduced(value: Int, divisor: int) -> Int:
    """Return an integer with the same remainder, in a normal form."""
    if isinstance(value, Term) and value.kind == "remainder":
        dividend, own_divisor = value.args
        if own_divisor % divisor == 0:
            return _reduced(dividend, divisor)
    if isinstance(value, Term) and value.kind == "choose":
        truth, first, second = value.args
        return choose(truth, _reduced(first, divisor), _reduced(second, divisor))
    constant, parts = as_sum(value)
    if value not in parts:  # a sum, or a constant
        pairs = ((_reduced(term, divisor), factor) for term, factor in parts.items())
        constant, parts = as_sum(weighted(pairs) + constant % divisor)
    reduced: list[tuple[Int, int]] = [(constant % divisor, 1)]
    for term, factor in parts.items():
        reduced.append((term, factor % divisor))
    return weighted(reduced)


def smaller_of(first: Int, second: Int) -> Int:
    """Return the smaller of two integers."""
    return choose(first < second, first, second)


def larger_of(first: Int, second: Int) -> Int:
    """Return the larger of two integers."""
    return choose(first < second, second, first)


def is_equal(first: Int, second: Int) -> Truth:
    """Return whether two integers are equal."""
    difference = first - second
    if not isinstance(difference, Term):
        return difference == 0
    if difference.low > 0 or difference.high < 0:
        return False
    if _starts_negative(difference):
        difference = -difference
    return _term("zero", (difference,))


def no(truth: Truth) -> Truth:
    """Return whether a truth does not hold."""
    if not isinstance(truth, Term):
        return not truth
    if truth.kind == "negative":
        (value,) = truth.args
        return -1 - value < 0
    if truth.kind == "not":
        return truth.args[0]
    return _term("not", (truth,))


def all_of(*truths: Truth) -> Truth:
    """Return whether all truths hold."""
    parts: dict[Term, None] = {}
    for truth in truths:
        if not isinstance(truth, Term):
            if not truth:
                return False
        elif truth.kind == "all":
            parts.update(dict.fromkeys(truth.args))
        else:
            parts[truth] = None
    if any(no(part) in parts for part in parts):
        return False
    if len(parts) < 2:
        return next(iter(parts), True)
    ordered = sorted(parts, key=lambda part: part.number)
    return _term("all", tuple(ordered))


def any_of(*truths: Truth) -> Truth:
    """Return whether a truth of several holds."""
    return no(all_of(*map(no, truths)))


def choose_truth(truth: Truth, first: Truth, second: Truth) -> Truth:
    """Return the first truth where `truth` holds, else the second."""
    if first is second:
        return first
    return any_of(all_of(truth, first), all_of(no(truth), second))


def agree(first: Truth, second: Truth) -> Truth:
    """Return whether two truths are equal."""
    return choose_truth(first, second, no(second))


def choose(truth: Truth, first: Int, second: Int) -> Int:
    """Return the first integer where a truth holds, else the second."""
    if not isinstance(truth, Term):
        return first if truth else second
    difference = first - second
    if not isinstance(difference, Term) and difference == 0:
        return first
    # Of a truth and its opposite, the normal form has one.
    if truth.kind == "not":
        return choose(no(truth), second, first)
    if truth.kind == "negative":
        (sign,) = truth.args
        if _starts_negative(sign):
            return choose(no(truth), second, first)
        return _choose_by_sign(truth, first, second, difference)
    low = min(lowest(first), lowest(second))
    high = max(highest(first), highest(second))
    return _term("choose", (truth, first, second), low, high)


def _choose_by_sign(truth: Term, first: Int, second: Int, difference: Int) -> Int:
    """Return the first integer where the `sign` is negative, else the second.

    Args:
        truth: Whether an integer, the `sign`, is negative.
        first: An integer.
        second: Another one.
        difference: The first less the second.
    """
    (sign,) = truth.args
    for distance in (difference, -difference):
        beyond = sign - distance
        # The truth is that the distance is at most 0. Where it is 0, both integers are
        # equal, so the truth need not hold.
        if beyond == -1:
            return choose(distance < 0, first, second)
        # Where the truth does not hold, the distance is 0, and both are equal.
        if beyond == 0 and highest(distance) <= 0:
            return first
    # Where the first is chosen, `sign` is at most -1; else it is at least 0.
    first_low = max(lowest(first), lowest(first + sign) + 1)
    second_low = max(lowest(second), lowest(second - sign))
    first_high = min(highest(first), highest(first - sign) - 1)
    second_high = min(highest(second), highest(second + sign))
    low = min(first_low, second_low)
    high = max(first_high, second_high)
    return _term("choose", (truth, first, second), low, high)


def _starts_negative(value: Term) -> bool:
    """Return whether the first factor of a sum is negative."""
    _, parts = as_sum(value)
    return next(iter(parts.values())) < 0


def assuming(value: Int, truth: Truth) -> Int:
    """Return an integer that is the same where a truth holds.

    What the truth decides is left out.
    """
    if not isinstance(value, Term) or not isinstance(truth, Term):
        return value
    facts = {truth}
    if truth.kind == "all":
        facts.update(truth.args)

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
        if holds(no(condition)):
            return assuming(second, truth)
        return term

    constant, parts = as_sum(value)
    pairs = ((decided(term), factor) for term, factor in parts.items())
    return constant + weighted(pairs)


def in_twos_complement(value: Int, low: int, high: int) -> Int:
    """Return the integer from `low` to `high` with the same low bits."""
    if low <= lowest(value) and highest(value) <= high:
        return value
    return (value - low) % (high - low + 1) + low


def inside(term: Term) -> Iterator[Term]:
    """Yield the terms that a term is made of, itself last, each once."""
    seen: set[Term] = set()
    stack = [(term, False)]
    while stack:
        current, is_done = stack.pop()
        if is_done:
            yield current
            continue
        if current in seen:
            continue
        seen.add(current)
        stack.append((current, True))
        args = current.args
        if current.kind == "sum":
            args = [part for part, _ in args[1:]]
        for arg in reversed(args):
            if isinstance(arg, Term):
                stack.append((arg, False))


def evaluate(term: Int | Truth, values: Mapping[Term, int]) -> int:
    """Return the value of a term.

    A truth is 0 or 1, and a variable or a read without a value is 0.
    """
    if not isinstance(term, Term):
        return int(term)
    results: dict[Term, int] = {}

    def value_of(arg: Any) -> Any:
        if isinstance(arg, tuple):  # a part of a sum
            part, factor = cast("tuple[Term, int]", arg)
            return results[part] * factor
        return results[arg] if isinstance(arg, Term) else arg

    for part in inside(term):
        if part.kind in ("variable", "read"):
            results[part] = values.get(part, 0)
        else:
            _, compute = _KINDS[part.kind]
            results[part] = int(compute(*map(value_of, part.args)))
    return int(results[term])


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
    """Return a script in SMT-LIB, and its constants.

    The script is unsatisfiable if the conclusion follows from the hypotheses. Names
    count up in the order of their use, so that equal obligations are equal texts. The
    constants are given by their names with the variables and reads that they stand for.
    """
    whole = all_of(*hypotheses, no(conclusion))
    if not isinstance(whole, Term):
        return f"(assert {str(whole).lower()})\n(check-sat)\n", {}
    parts = [*inside(whole)]
    arrays: set[str] = set()
    for term in parts:
        # An array that is read at constant positions alone is not declared.
        if term.kind == "read" and isinstance(term.args[1], Term):
            arrays.add(term.args[0])
    lines = [f"(declare-fun {array} (Int) Int)" for array in sorted(arrays)]

    names: dict[Term, str] = {}
    constants: dict[str, Term] = {}
    for number, term in enumerate(parts):
        if term.kind in ("variable", "read"):
            name = f"x{number}"
            constants[name] = term
            lines.extend(_declarations(term, name, names, arrays))
        else:
            name = f"t{number}"
            lines.append(f"(define-fun {name} () {_definition(term, names)})")
        names[term] = name
    lines.append(f"(assert {names[whole]})")
    lines.append("(check-sat)\n")
    return "\n".join(lines), constants


def _declarations(
    term: Term, name: str, names: Mapping[Term, str], arrays: Container[str]
) -> Iterator[str]:
    """Yield the lines in SMT-LIB that declare a variable or a read with its bounds."""
    yield f"(declare-const {name} Int)"
    low = _written(term.low, names)
    high = _written(term.high, names)
    yield f"(assert (<= {low} {name} {high}))"
    if term.kind == "read" and term.args[0] in arrays:
        array, position = term.args
        at = _written(position, names)
        yield f"(assert (= {name} ({array} {at})))"


def _definition(term: Term, names: Mapping[Term, str]) -> str:
    """Return the sort and the value of a term in SMT-LIB."""
    template, _ = _KINDS[term.kind]
    args = [_written(arg, names) for arg in term.args]
    return template.format(*args, all=" ".join(args))


def _written(arg: Any, names: Mapping[Term, str]) -> str:
    """Return an argument of a term in SMT-LIB: a number, a term, or a part of a sum."""
    if isinstance(arg, Term):
        return names[arg]
    if isinstance(arg, tuple):
        part, factor = cast("tuple[Term, int]", arg)
        if factor == 1:
            return names[part]
        return f"(* {_written(factor, names)} {names[part]})"
    return f"{arg:d}" if arg >= 0 else f"(- {-arg})"
