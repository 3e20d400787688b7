"""Sizes that are open: polynomials over the open dimensions of inputs and over unknown counts.

A known size is a plain int. Python's arithmetic works on both. `a <= b` and `a < b`
mean *surely*: for every number that the symbols may stand for. So that `a <= b` is
False does not say that a > b.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MOST = 2**48
"""The most elements of a tensor: what the addresses of a machine reach."""

MOST_OF_INPUT = 2**28
"""The largest open size of an input that a proof speaks of: sums of a few are INT32
still."""

MOST_TERMS, MOST_FACTORS = 24, 8
"""The most terms of a size that is kept, and the most symbols in one of them."""

STEPS = 60
"""How many known inequalities a comparison may use before it gives up."""

_order = itertools.count()


@dataclass(eq=False, slots=True)
class Symbol:
    """A number that a run decides: an open dimension of an input, or a count made inside."""

    name: str
    """Empty where it is made inside."""
    low: int = 0
    """The least number that it may be."""
    high: int = MOST
    facts: list[Size] = field(default_factory=list["Size"])
    """What else is known of it: each of these is at least 0."""
    tensors: set[str] = field(default_factory=set[str])
    """The inputs with a dimension of it. The product of different dimensions of one is
    at most `MOST`."""
    made: dict[object, AnySize] = field(default_factory=dict[object, "AnySize"])
    """The symbols that were made from it: a quotient, a minimum or maximum of the same
    operands is the same symbol."""
    doubtful: bool = False
    """Whether ONNX Runtime may believe another number of it, which a Shape of it then
    is."""
    order: int = field(default_factory=lambda: next(_order))


Monomial = tuple[Symbol, ...]


class Size:
    """A polynomial with integer coefficients over symbols, which is no plain number."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __add__(self, other: AnySize) -> AnySize:
        terms = dict(self.terms)
        for monomial, count in terms_of(other).items():
            terms[monomial] = terms.get(monomial, 0) + count
        return _made(terms)

    __radd__ = __add__

    def __sub__(self, other: AnySize) -> AnySize:
        return self + -other

    def __rsub__(self, other: AnySize) -> AnySize:
        return -self + other

    def __neg__(self) -> Size:
        return Size({monomial: -count for monomial, count in self.terms.items()})

    def __floordiv__(self, other: AnySize) -> AnySize:
        return quotient(self, other)

    def __rfloordiv__(self, other: AnySize) -> AnySize:
        return quotient(other, self)

    def __mul__(self, other: AnySize) -> AnySize:
        product = dict[Monomial, int]()
        for a, n in self.terms.items():
            for b, m in terms_of(other).items():
                key = tuple(sorted(a + b, key=lambda symbol: symbol.order))
                product[key] = product.get(key, 0) + n * m
        return _made(product)

    __rmul__ = __mul__

    def __le__(self, other: AnySize) -> bool:
        return never_negative(other - self)

    def __lt__(self, other: AnySize) -> bool:
        return never_negative(other - self - 1)

    def __ge__(self, other: AnySize) -> bool:
        return never_negative(self - other)

    def __gt__(self, other: AnySize) -> bool:
        return never_negative(self - other - 1)

    def __repr__(self) -> str:
        parts = list[str]()
        in_order = sorted(
            self.terms.items(), key=lambda term: (not term[0], term[1] < 0)
        )
        for monomial, count in in_order:
            names = [symbol.name or "?" for symbol in monomial]
            number = [] if abs(count) == 1 and names else [str(abs(count))]
            sign = ("-" if count < 0 else "+") if parts or count < 0 else ""
            parts.append((f" {sign} " if parts else sign) + "*".join(number + names))
        return "".join(parts)

    @property
    def is_large(self) -> bool:
        """Whether it is too large to be kept."""
        return len(self.terms) > MOST_TERMS or max(map(len, self.terms)) > MOST_FACTORS

    @property
    def symbols(self) -> set[Symbol]:
        """The symbols in it."""
        return {symbol for monomial in self.terms for symbol in monomial}

    @property
    def low(self) -> int:
        """A number that it is never below."""
        pairs = ((count, *_ends(monomial)) for monomial, count in self.terms.items())
        return sum(count * (low if count > 0 else high) for count, low, high in pairs)

    @property
    def high(self) -> int:
        """A number that it is never above."""
        return -(-self).low


AnySize = int | Size

AnySizes = tuple[AnySize | None, ...]
"""The sizes of a value; None where nothing is known of one."""


def terms_in(expression: str) -> list[tuple[str, str]]:
    """The products of an expression, each after its sign, which is empty where none stands."""
    return re.findall(r"([+-]?)\s*([^\s+-]+)", expression)


def size_from(expression: str, sizes: Mapping[str, AnySize]) -> AnySize:
    """The size that a text tells, a sum of products such as `12*batch*sequence - past`.

    Args:
        expression: The text.
        sizes: The sizes by their names, numbers or open ones.
    """
    total: AnySize = 0
    for sign, product in terms_in(expression):
        factors = (int(f) if f.isdecimal() else sizes[f] for f in product.split("*"))
        total = total + functools.reduce(
            lambda a, b: a * b, factors, -1 if sign == "-" else 1
        )
    return total


def unknown_size(high: AnySize = MOST, doubtful: bool = False) -> Size:
    """A new unknown count."""
    one = Symbol("", 0, min(high_of(high), MOST), doubtful=doubtful)
    size = Size({(one,): 1})
    _tell(one, high - size)
    return size


def terms_of(size: AnySize) -> Mapping[Monomial, int]:
    """The terms of a size; the number's monomial is ()."""
    return size.terms if isinstance(size, Size) else {(): size} if size else {}


def low_of(size: AnySize) -> int:
    """A number that the size is never below."""
    return size.low if isinstance(size, Size) else size


def high_of(size: AnySize) -> int:
    """A number that the size is never above."""
    return size.high if isinstance(size, Size) else size


def _made(terms: Mapping[Monomial, int]) -> AnySize:
    kept = {monomial: count for monomial, count in terms.items() if count}
    return Size(kept) if any(kept) else kept.get((), 0)


def _ends(monomial: Monomial) -> tuple[int, int]:
    """The least and the greatest number that a product of symbols may be."""
    high = math.prod(symbol.high for symbol in monomial)
    shared = [symbol.tensors for symbol in monomial]
    if shared and len({*monomial}) == len(monomial) and set[str].intersection(*shared):
        high = min(high, MOST)
    return math.prod(symbol.low for symbol in monomial), high


def never_negative(size: AnySize) -> bool:
    """Whether a size is surely at least 0.

    Each symbol is its least number and something that is at least 0. Where a term then
    is negative, a known fact is subtracted that cancels it: what remains must be at
    least 0 still.
    """
    return size >= 0 if isinstance(size, int) else _proved(size)


def _proved(size: Size) -> bool:
    tried, left = set[Size](), [size]
    for _ in range(STEPS):
        if not left:
            return False
        this = left.pop(0)
        if this.low >= 0 or not any(count < 0 for count in _shifted(this).values()):
            return True
        tried.add(this)
        for fact, factor in _cancelling(this):
            rest = this - fact * factor
            if isinstance(rest, int):
                if rest >= 0:
                    return True
            elif rest not in tried:
                left.append(rest)
    return False


def _shifted(size: Size) -> Mapping[Monomial, int]:
    """The terms where each symbol stands for what it is above its least number."""
    shifted: AnySize = 0
    for monomial, count in size.terms.items():
        parts = (Size({(symbol,): 1}) + symbol.low for symbol in monomial)
        shifted = shifted + functools.reduce(lambda a, b: a * b, parts, count)
    return terms_of(shifted)


def _cancelling(size: Size) -> Iterable[tuple[Size, AnySize]]:
    """Yield known facts, and what to multiply them by, that cancel a negative term of a size."""
    facts = list(
        dict.fromkeys(fact for symbol in size.symbols for fact in symbol.facts)
    )
    for monomial, count in size.terms.items():
        if count >= 0:
            continue
        for fact in facts:
            for part, amount in fact.terms.items():
                rest = _without(monomial, part)
                same = bool(part) == bool(monomial)
                if (
                    amount < 0
                    and same
                    and rest is not None
                    and not (monomial and count % amount)
                ):
                    yield (
                        fact,
                        _made({rest: -(-count // amount)}),
                    )  # of numbers more than enough


def in_named(size: AnySize) -> AnySize | None:
    """What a size is never below, in open sizes of inputs alone; None where nothing tells it."""
    while made := [
        pair for pair in terms_of(size).items() if not all(s.name for s in pair[0])
    ]:
        monomial, count = made[0]
        fact, factor = Size({monomial: 1}), count  # a product of counts is at least 0
        if count < 0:
            told = next(iter(_cancelling(Size({monomial: count}))), None)
            if told is None:
                return None
            fact, factor = told
        size = size - fact * factor
    return size


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """What is left of a product without some of its factors; None where it lacks one of them."""
    rest = list(monomial)
    for symbol in part:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def quotient(size: AnySize, divisor: AnySize) -> AnySize:
    """The quotient of a size that is at least 0 by one that is at least 1, rounded down."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor
    exact, rest = _divided(size, divisor)
    if rest == 0:
        return exact
    made, key = _maker(size, divisor).made, ("quotient", size, divisor)
    if key not in made:
        one = Symbol("", 0, high_of(size) // max(1, low_of(divisor)))
        one.doubtful = is_doubtful(size, divisor)
        made[key] = Size({(one,): 1})
        rest = size - made[key] * divisor
        _tell(one, rest, divisor - 1 - rest)
    return made[key]


def _divided(size: AnySize, divisor: AnySize) -> tuple[AnySize, AnySize]:
    """A quotient of polynomials and what is left over."""
    first = max(terms_of(divisor), key=_rank)
    exact, rest = 0, size
    while rest != 0:
        monomial = max(terms_of(rest), key=_rank)
        count, part = terms_of(rest)[monomial], _without(monomial, first)
        if part is None or count % terms_of(divisor)[first]:
            break
        step = _made({part: count // terms_of(divisor)[first]})
        exact, rest = exact + step, rest - step * divisor
    return exact, rest


def _rank(monomial: Monomial) -> tuple[int, list[int]]:
    """The place of a product of symbols in the order of all."""
    return len(monomial), [symbol.order for symbol in monomial]


def lesser(a: AnySize, b: AnySize) -> AnySize:
    """The smaller one of two numbers."""
    if a <= b:
        return a
    return b if b <= a else -_larger(-a, -b)


def larger(a: AnySize, b: AnySize) -> AnySize:
    """The larger one of two numbers."""
    if b <= a:
        return a
    return b if a <= b else _larger(a, b)


def _larger(a: AnySize, b: AnySize) -> AnySize:
    """The larger one of two numbers that no comparison orders: the first and what b is above it."""
    a, b = sorted((a, b), key=lambda size: sorted(map(_rank, terms_of(size))))
    made, key = _maker(a, b).made, ("larger", a, b)
    if key not in made:
        above = Symbol("", 0, high_of(b) - low_of(a), doubtful=is_doubtful(a, b))
        found = Size({(above,): 1})
        _tell(above, found + a - b)
        if never_negative(a) and never_negative(b):
            _tell(above, b - found)
        if never_negative(-a) and never_negative(-b):
            _tell(above, -(found + a))
        made[key] = found + a
    return made[key]


def _tell(one: Symbol, *facts: AnySize) -> None:
    """Give a symbol facts, each of which is at least 0."""
    one.facts += [fact for fact in facts if isinstance(fact, Size)]


def _maker(*sizes: AnySize) -> Symbol:
    """The symbol that keeps what is made of some sizes: the newest one in them."""
    every = {
        symbol for size in sizes if isinstance(size, Size) for symbol in size.symbols
    }
    return max(every, key=lambda symbol: symbol.order)


def is_made_since(size: AnySize | None, mark: int) -> bool:
    """Whether a size has a symbol that was made after another one."""
    return isinstance(size, Size) and any(
        symbol.order > mark for symbol in size.symbols
    )


def mark() -> int:
    """A number that is above the order of all symbols so far, and below that of all to come."""
    return next(_order)


def is_doubtful(*sizes: AnySize | None) -> bool:
    """Whether ONNX Runtime may believe another number of one of some sizes."""
    every = (
        symbol for size in sizes if isinstance(size, Size) for symbol in size.symbols
    )
    return any(symbol.doubtful for symbol in every)
