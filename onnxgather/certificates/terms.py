"""Terms over the integers and the truth values: what a model computes, and what the formula says.

An integer is an int or a `Term`, a truth is a bool or a `Term`. Terms have no width: a machine
integer is a term in two's complement. Each term knows its lowest and its highest value, and sums
are kept in a normal form, so that most of what is equal is the same object. What is left is
written by `script` for a solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast
from weakref import WeakValueDictionary


class Term:
    """An integer or a truth that is not known. Equal terms are one object.

    The kinds of integers, with their arguments:
        variable: a name.
        read: the name of an array and a position: an element of the array.
        sum: a constant, then pairs of a term and its factor, which is not 0.
        product: two terms.
        quotient, remainder: a term and a positive divisor; the quotient is rounded down.
        least, most: two integers.
        choose: a truth and two integers: the first where it holds, else the second.
    The kinds of truths:
        negative, zero: an integer.
        all: truths that all hold.
        not: a truth.
    """

    __slots__ = ("__weakref__", "args", "high", "kind", "low", "number")

    kind: str
    args: tuple[Any, ...]
    low: float
    """The lowest value, an int, or minus infinity; 0 for a truth."""
    high: float
    """The highest value; 1 for a truth."""
    number: int
    """Orders terms, the same in each program: a digest of the kind and the arguments."""

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
        return weighted([(self, -1), (other, 1)])

    def __mul__(self, other: Int) -> Int:
        """The product."""
        return _product(self, other)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: int) -> Int:
        """The integer divided by a positive one, rounded down."""
        return _quotient(self, divisor)

    def __mod__(self, divisor: int) -> Int:
        """What is left of the integer divided by a positive one."""
        return _remainder(self, divisor)

    def __lt__(self, other: Int) -> Truth:
        """Whether the integer is smaller."""
        return _is_negative(self - other)

    def __gt__(self, other: Int) -> Truth:
        """Whether the integer is larger."""
        return _is_negative(other - self)


Int = int | Term
Truth = Int
"""A bool or a `Term`; Python counts a bool as an int."""

_made = WeakValueDictionary[tuple[Any, ...], Term]()


def _term(kind: str, args: tuple[Any, ...], low: float = 0, high: float = 1) -> Term:
    # The bounds of other terms follow from their arguments.
    key = (kind, *args, low, high) if kind in ("variable", "read") else (kind, *args)
    found = _made.get(key)
    if found is None:
        found = _made[key] = Term()
        found.kind, found.args, found.low, found.high = kind, args, low, high
        digest = blake2b(repr(key).encode(), digest_size=8).digest()
        found.number = int.from_bytes(digest)
    return found


def variable(name: str, low: float, high: float) -> Term:
    """An integer from `low` to `high`."""
    return _term("variable", (name,), low, high)


def read(array: str, position: Int, low: float, high: float) -> Term:
    """The element of an array at a position; all elements are from `low` to `high`."""
    return _term("read", (array, position), low, high)


def lowest(value: Int) -> float:
    """The lowest value of an integer."""
    return value.low if isinstance(value, Term) else value


def highest(value: Int) -> float:
    """The highest value of an integer."""
    return value.high if isinstance(value, Term) else value


def _sum(constant: int, parts: dict[Term, int]) -> Int:
    for term, factor in [*parts.items()]:
        if term.kind == "remainder":  # k * (x // k) + x % k is x
            whole = term.args[0] // term.args[1]
            if isinstance(whole, Term) and factor and parts.get(whole) == factor * term.args[1]:
                del parts[term], parts[whole]
                return weighted([(constant, 1), (term.args[0], factor), *parts.items()])
    terms = sorted(((t, f) for t, f in parts.items() if f), key=lambda pair: pair[0].number)
    if not terms:
        return constant
    if constant == 0 and terms[0][1] == 1 and len(terms) == 1:
        return terms[0][0]
    low = constant + sum(f * (t.low if f > 0 else t.high) for t, f in terms)
    high = constant + sum(f * (t.high if f > 0 else t.low) for t, f in terms)
    return int(low) if low == high else _term("sum", (constant, *terms), low, high)


def weighted(pairs: Iterable[tuple[Int, int]]) -> Int:
    """The sum of integers, each times a factor."""
    whole, parts = 0, dict[Term, int]()
    for value, factor in pairs:
        constant, terms = _parts(value)
        whole += constant * factor
        for term, own in terms:
            parts[term] = parts.get(term, 0) + own * factor
    return _sum(whole, parts)


def _product(first: Term, second: Int) -> Int:
    if not isinstance(second, Term):
        return weighted([(first, second)])
    pair = sorted((first, second), key=lambda term: term.number)
    ends = [
        0 if 0 in (a, b) else a * b
        for a in (first.low, first.high)
        for b in (second.low, second.high)
    ]
    return _term("product", (*pair,), min(ends), max(ends))


def _quotient(value: Term, divisor: int) -> Int:
    constant, terms = _parts(value)
    whole = {term: factor // divisor for term, factor in terms if factor % divisor == 0}
    rest = _sum(constant % divisor, {term: f for term, f in terms if f % divisor})
    whole_part = _sum(constant // divisor, whole)
    if lowest(rest) >= 0 and highest(rest) < divisor:
        return whole_part
    if not isinstance(rest, Term):
        return whole_part + rest // divisor
    constant, terms = _parts(rest)
    common = math.gcd(divisor, *(factor for _, factor in terms))
    if common > 1:
        rest = _sum(constant // common, {term: factor // common for term, factor in terms})
        return whole_part + rest // (divisor // common)
    if rest.kind == "quotient":
        return whole_part + rest.args[0] // (rest.args[1] * divisor)
    low, high = (x if math.isinf(x) else x // divisor for x in (rest.low, rest.high))
    return whole_part + _term("quotient", (rest, divisor), low, high)


def _remainder(value: Term, divisor: int) -> Int:
    if lowest(value) >= 0 and highest(value) < divisor:
        return value
    rest = _reduced(value, divisor)
    if not isinstance(rest, Term):
        return rest % divisor
    if rest.low >= 0 and rest.high < divisor:
        return rest
    return _term("remainder", (rest, divisor), 0, divisor - 1)


def _reduced(value: Int, divisor: int) -> Int:
    """An integer with the same remainder, in a normal form."""
    if not isinstance(value, Term):
        return value % divisor
    if value.kind == "remainder" and value.args[1] % divisor == 0:
        return _reduced(value.args[0], divisor)
    if value.kind == "choose":
        truth, first, second = value.args
        return choose(truth, _reduced(first, divisor), _reduced(second, divisor))
    if value.kind != "sum":
        return value
    constant, *terms = value.args
    whole = weighted((_reduced(term, divisor), factor % divisor) for term, factor in terms)
    constant, terms = _parts(whole + constant)
    return _sum(constant % divisor, {term: f % divisor for term, f in terms if f % divisor})


def _parts(value: Int) -> tuple[int, Sequence[tuple[Term, int]]]:
    """The constant of a sum, and its terms with their factors."""
    if not isinstance(value, Term):
        return value, []
    return (value.args[0], value.args[1:]) if value.kind == "sum" else (0, [(value, 1)])


def smaller_of(first: Int, second: Int) -> Int:
    """The smaller of two integers."""
    return _extreme("least", first, second)


def larger_of(first: Int, second: Int) -> Int:
    """The larger of two integers."""
    return _extreme("most", first, second)


def _extreme(kind: str, first: Int, second: Int) -> Int:
    smaller = first - second
    if highest(smaller) <= 0 or lowest(smaller) >= 0:
        return first if (highest(smaller) <= 0) == (kind == "least") else second
    of = min if kind == "least" else max
    low = of(lowest(first), lowest(second))
    high = of(highest(first), highest(second))
    return _term(kind, (*sorted((first, second), key=_order),), low, high)


def _order(value: Int) -> tuple[int, int]:
    return (1, value.number) if isinstance(value, Term) else (0, value)


def _is_negative(value: Int) -> Truth:
    if highest(value) < 0 or lowest(value) >= 0:
        return highest(value) < 0
    assert isinstance(value, Term)
    constant, terms = _parts(value)
    common = math.gcd(*(factor for _, factor in terms))
    # As x is an integer, constant + common * x < 0 means constant // common + x < 0.
    return _term("negative", (_sum(constant // common, {t: f // common for t, f in terms}),))


def is_equal(first: Int, second: Int) -> Truth:
    """Whether two integers are equal."""
    value = first - second
    if not isinstance(value, Term) or value.low > 0 or value.high < 0:
        return value == 0
    constant, terms = _parts(value)
    common = math.gcd(*(factor for _, factor in terms))
    if constant % common:
        return False
    common = common if terms[0][1] > 0 else -common
    value = _sum(constant // common, {t: f // common for t, f in terms})
    return _term("zero", (value,))


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
    if truth.kind == "not" or (truth.kind == "negative" and _parts(truth.args[0])[1][0][1] < 0):
        truth, first, second = no(truth), second, first
    between = first - second
    if not isinstance(between, Term) and between == 0:
        return first
    if isinstance(truth, Term) and truth.kind == "negative":
        below = truth.args[0]
        if below - between in (0, -1):
            return smaller_of(first, second)
        if below + between in (0, -1):
            return larger_of(first, second)
    assert isinstance(truth, Term)
    low, high = _given(first, truth)
    other = _given(second, no(truth))
    return _term("choose", (truth, first, second), min(low, other[0]), max(high, other[1]))


def _given(value: Int, truth: Truth) -> tuple[float, float]:
    """The lowest and the highest value of an integer where a truth holds."""
    low, high = lowest(value), highest(value)
    if not isinstance(truth, Term) or not isinstance(value, Term):
        return low, high
    if truth.kind == "negative":  # value = ±x + rest, and x < 0
        below = truth.args[0]
        rest = value - below
        if not isinstance(rest, Term):
            high = min(high, rest - 1)
        rest = value + below
        if not isinstance(rest, Term):
            low = max(low, rest + 1)
    return low, high


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

    constant, terms = _parts(value)
    return constant + weighted((decided(term), factor) for term, factor in terms)


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
            stack.extend((own, False) for own in reversed(_own(one)))


def _own(term: Term) -> list[Term]:
    args = [pair[0] for pair in term.args[1:]] if term.kind == "sum" else term.args
    return [own for own in args if isinstance(own, Term)]


def evaluate(term: Int | Truth, values: Mapping[Term, int]) -> int:
    """The value of a term; a truth is 0 or 1, and a variable or a read without a value 0."""
    if not isinstance(term, Term):
        return int(term)
    found = dict[Term, int]()

    def value(own: Any) -> Any:
        if isinstance(own, tuple):  # a part of a sum
            term, factor = cast("tuple[Term, int]", own)
            return found[term] * factor
        return found[own] if isinstance(own, Term) else own

    for one in inside(term):
        if one.kind in ("variable", "read"):
            found[one] = values.get(one, 0)
        else:
            found[one] = int(_KINDS[one.kind][1](*map(value, one.args)))
    return found[term]


def _chosen(truth: int, first: int, second: int) -> int:
    return first if truth else second


def _added(*parts: int) -> int:
    return sum(parts)


_KINDS: Mapping[str, tuple[str, Callable[..., int]]] = {
    "product": ("(* {} {})", int.__mul__),
    "quotient": ("(div {} {})", int.__floordiv__),
    "remainder": ("(mod {} {})", int.__mod__),
    "least": ("(ite (< {0} {1}) {0} {1})", min),
    "most": ("(ite (< {0} {1}) {1} {0})", max),
    "choose": ("(ite {} {} {})", _chosen),
    "negative": ("(< {} 0)", (0).__gt__),
    "zero": ("(= {} 0)", (0).__eq__),
    "all": ("(and {})", min),
    "not": ("(not {})", (0).__eq__),
    "sum": ("(+ {})", _added),
}
"""How each kind is written in SMT-LIB, and what it computes. Of a sum the parts are multiplied."""


def script(hypotheses: Iterable[Truth], conclusion: Truth) -> tuple[str, dict[str, Term]]:
    """The SMT-LIB script that is unsatisfiable if the conclusion follows from the hypotheses.

    Names count up in the order of their use, so that equal obligations are equal texts.

    Returns:
        The script, and its constants with the variables and reads that they stand for.
    """
    whole = all_of(*hypotheses, no(conclusion))
    if not isinstance(whole, Term):
        return f"(assert {str(whole).lower()})\n(check-sat)\n", {}
    lines, names, constants = list[str](), dict[Term, str](), dict[str, Term]()

    def text(own: Any) -> str:
        if isinstance(own, tuple):
            term, factor = cast("tuple[Term, int]", own)
            return names[term] if factor == 1 else f"(* {text(factor)} {names[term]})"
        if isinstance(own, Term):
            return names[own]
        return f"{own:d}" if own >= 0 else f"(- {-own})"

    terms = [*inside(whole)]
    arrays = {t.args[0] for t in terms if t.kind == "read" and isinstance(t.args[1], Term)}
    for array in sorted(arrays):
        lines.append(f"(declare-fun {array} (Int) Int)")
    for one in terms:
        name = names[one] = f"{'x' if one.kind in ('variable', 'read') else 't'}{len(names)}"
        if one.kind in ("variable", "read"):
            constants[name] = one
            lines.append(f"(declare-const {name} Int)")
            for ends in ((one.low, one), (one, one.high)):
                if not any(isinstance(end, float) for end in ends):
                    lines.append(f"(assert (<= {text(ends[0])} {text(ends[1])}))")
            if one.kind == "read" and one.args[0] in arrays:
                lines.append(f"(assert (= {name} ({one.args[0]} {text(one.args[1])})))")
            continue
        written, args = _KINDS[one.kind][0], [*map(text, one.args)]
        if one.kind in ("sum", "all"):
            args = [" ".join(args)]
        sort = "Bool" if one.kind in ("negative", "zero", "all", "not") else "Int"
        lines.append(f"(define-fun {name} () {sort} {written.format(*args)})")
    return "\n".join([*lines, f"(assert {names[whole]})", "(check-sat)\n"]), constants
