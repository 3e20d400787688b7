"""Open sizes: polynomials over the open dimensions of inputs and over unknown counts.

A known size is a plain int. Python's arithmetic works on both. `a <= b` and `a < b`
mean *surely*: for every number that the symbols may stand for. So if `a <= b` is False,
`a > b` need not be true.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from numpy import float32

MOST = 2**48
"""The most elements of a tensor: what the addresses of a machine reach."""

MOST_OF_INPUT = 2**28
"""The largest open size of an input in a proof: sums of a few are still INT32."""

MOST_TERMS = 24
"""The most terms of a size that is kept."""

MOST_FACTORS = 8
"""The most symbols in a term of a size that is kept."""

EXACT_IN_FLOAT = 2**24
"""The integers up to here are FLOAT numbers, each of them."""

STEPS = 60
"""How many known inequalities a comparison may use before it gives up."""

MOST_TERMS_COMPARED = 500_000
"""After so many terms the comparisons of a model use no more known inequalities."""

_order = itertools.count()


@dataclass(eq=False, slots=True)
class Symbol:
    """A number that a run decides: an open dimension of an input, or a count."""

    name: str
    """The name of the dimension; empty for a count that the model computes."""
    low: int = 0
    """The least number that it may be."""
    high: int = MOST
    facts: list[Size] = field(default_factory=list["Size"])
    """What else is known of it: each of these is at least 0."""
    tensors: set[str] = field(default_factory=set[str])
    """The inputs with this dimension. The product of different dimensions of an input
    is at most `MOST`."""
    derived: dict[object, AnySize] = field(default_factory=dict[object, "AnySize"])
    """The quotients, minima and maxima that were made from it, by their operands: those
    of the same operands are the same symbol."""
    lost_by: NodeName | None = None
    """The node behind which the number is no more a function of the inputs' sizes."""
    order: int = field(default_factory=lambda: next(_order))


NodeName = tuple[str, str]
"""The name of a node, and its operator."""

Monomial = tuple[Symbol, ...]


class Size:
    """A polynomial over symbols with integer coefficients; it is no plain number."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __hash__(self) -> int:
        # Most sizes are made for a comparison alone, and need no hash.
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.terms == other.terms

    def __add__(self, other: AnySize) -> AnySize:
        terms = dict(self.terms)
        for monomial, count in terms_of(other).items():
            terms[monomial] = terms.get(monomial, 0) + count
        return _simplified(terms)

    __radd__ = __add__

    def __sub__(self, other: AnySize) -> AnySize:
        terms = dict(self.terms)
        for monomial, count in terms_of(other).items():
            terms[monomial] = terms.get(monomial, 0) - count
        return _simplified(terms)

    def __rsub__(self, other: AnySize) -> AnySize:
        return -self + other

    def __neg__(self) -> Size:
        return Size({monomial: -count for monomial, count in self.terms.items()})

    def __floordiv__(self, other: AnySize) -> AnySize:
        return quotient(self, other)

    def __rfloordiv__(self, other: AnySize) -> AnySize:
        return quotient(other, self)

    def __mul__(self, other: AnySize) -> AnySize:
        other_terms = terms_of(other)
        product: dict[Monomial, int] = {}
        for monomial, count in self.terms.items():
            for other_monomial, other_count in other_terms.items():
                symbols = sorted(monomial + other_monomial, key=_order_of)
                key = tuple(symbols)
                product[key] = product.get(key, 0) + count * other_count
        return _simplified(product)

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
        # Conditions print it, and `size_from` reads it again.
        text = ""
        for monomial, count in sorted(self.terms.items(), key=_place_in_text):
            factors = [symbol.name or "?" for symbol in monomial]
            if abs(count) != 1 or not factors:
                factors.insert(0, str(abs(count)))
            product = "*".join(factors)
            sign = "-" if count < 0 else "+"
            if text:
                text += f" {sign} {product}"
            else:
                text = f"-{product}" if count < 0 else product
        return text

    @property
    def is_large(self) -> bool:
        """Return whether it is too large to be kept."""
        return len(self.terms) > MOST_TERMS or max(map(len, self.terms)) > MOST_FACTORS

    @property
    def symbols(self) -> set[Symbol]:
        """Return the symbols in it."""
        return {symbol for monomial in self.terms for symbol in monomial}

    @property
    def lost_by(self) -> NodeName | None:
        """Return the first node that lost a symbol in it; None if no node did."""
        return first_lost_by(self)

    @property
    def low(self) -> int:
        """Return a number that it is never below."""
        total = 0
        for monomial, count in self.terms.items():
            low, high = _ends(monomial)
            total += count * (low if count > 0 else high)
        return total

    @property
    def high(self) -> int:
        """Return a number that it is never above."""
        total = 0
        for monomial, count in self.terms.items():
            low, high = _ends(monomial)
            total += count * (high if count > 0 else low)
        return total


AnySize = int | Size

AnySizes = tuple[AnySize | None, ...]
"""The sizes of a value; None for a size of which nothing is known."""


def _order_of(symbol: Symbol) -> int:
    return symbol.order


def _place_in_text(term: tuple[Monomial, int]) -> tuple[bool, bool]:
    """Return a key that sorts positive terms to the front and the number to the end."""
    monomial, count = term
    return not monomial, count < 0


def terms_in(expression: str) -> list[tuple[str, str]]:
    """Return the products of an expression, each after its sign.

    The sign is empty if the expression has none there.
    """
    return re.findall(r"([+-]?)\s*([^\s+-]+)", expression)


def size_from(expression: str, sizes: Mapping[str, AnySize]) -> AnySize:
    """Return the size of a text: a sum of products such as `12*batch*sequence - past`.

    Args:
        expression: The text.
        sizes: The sizes by their names, numbers or open sizes.
    """
    total: AnySize = 0
    for sign, product in terms_in(expression):
        term: AnySize = -1 if sign == "-" else 1
        for factor in product.split("*"):
            size = int(factor) if factor.isdecimal() else sizes[factor]
            term = term * size
        total = total + term
    return total


def unknown_size(high: AnySize = MOST, low: AnySize = 0) -> Size:
    """Return a new unknown count from `low`, which is at least 0, to `high`."""
    symbol = Symbol("", max(low_of(low), 0), high_of(high))
    size = Size({(symbol,): 1})
    _add_facts(symbol, high - size)
    if low != 0:
        _add_facts(symbol, size - low)
    return size


def assume(fact: AnySize) -> None:
    """Note that a size is at least 0, for all comparisons of sizes with its symbols."""
    if isinstance(fact, int):
        return
    number = fact.terms.get((), 0)
    (monomial, count), *others = [term for term in fact.terms.items() if term[0]]
    # Case: it limits a single symbol.
    if not others and len(monomial) == 1:
        (symbol,) = monomial
        if count > 0:
            symbol.low = max(symbol.low, -(number // count))
        else:
            symbol.high = min(symbol.high, number // -count)
        return
    for symbol in fact.symbols:
        symbol.facts.append(fact)


def new_symbols(size: AnySize) -> Iterable[Symbol]:
    """Yield the symbols in a size of which it is not noted which node lost them."""
    for monomial in terms_of(size):
        for symbol in monomial:
            if not symbol.name and symbol.lost_by is None:
                yield symbol


def first_lost_by(*sizes: AnySize) -> NodeName | None:
    """Return the node that lost the oldest of the symbols that nodes lost."""
    lost = list[Symbol]()
    for size in sizes:
        if isinstance(size, Size):
            lost += [symbol for symbol in size.symbols if symbol.lost_by]
    if not lost:
        return None
    return min(lost, key=_order_of).lost_by


def terms_of(size: AnySize) -> Mapping[Monomial, int]:
    """Return the terms of a size; the number's monomial is ()."""
    if isinstance(size, Size):
        return size.terms
    return {(): size} if size else {}


def low_of(size: AnySize) -> int:
    """Return a number that the size is never below."""
    return size.low if isinstance(size, Size) else size


def high_of(size: AnySize) -> int:
    """Return a number that the size is never above."""
    return size.high if isinstance(size, Size) else size


def _simplified(terms: Mapping[Monomial, int]) -> AnySize:
    """Return the sum of terms, without those that count 0 times."""
    kept = {monomial: count for monomial, count in terms.items() if count}
    has_symbols = any(kept)
    return Size(kept) if has_symbols else kept.get((), 0)


def _ends(monomial: Monomial) -> tuple[int, int]:
    """Return the least and the greatest number that a product of symbols may be."""
    low = 1
    high = 1
    for symbol in monomial:
        low *= symbol.low
        high *= symbol.high
    if high > MOST and _are_of_one_tensor(monomial):
        high = MOST
    return low, high


def _are_of_one_tensor(monomial: Monomial) -> bool:
    """Return whether symbols are different dimensions of the same input."""
    if len({*monomial}) < len(monomial):
        return False
    shared = set[str].intersection(*(symbol.tensors for symbol in monomial))
    return bool(shared)


class Comparisons:
    """The comparisons of open sizes in one model: what they cost, and their answers."""

    def __init__(self) -> None:
        self.answers = dict[Size, bool]()
        """Whether a size is surely at least 0."""
        self.terms_left = MOST_TERMS_COMPARED
        """How many terms the comparisons may still have."""
        self.limit: str | None = None
        """The limit that ended a comparison, as a clause; None if none did."""


_comparisons = ContextVar[Comparisons]("comparisons")
"""The comparisons of the model that is audited now."""


@contextmanager
def comparing() -> Generator[Comparisons]:
    """Keep the answers of comparisons until the end of the context.

    Elsewhere, no answer is kept.
    """
    comparisons = Comparisons()
    token = _comparisons.set(comparisons)
    try:
        yield comparisons
    finally:
        _comparisons.reset(token)


def never_negative(size: AnySize) -> bool:
    """Return whether a size is surely at least 0.

    Each symbol is the sum of its least number and a number that is at least 0. If a
    term is still negative, a known fact that cancels it is subtracted: the rest must be
    at least 0, too.
    """
    if isinstance(size, int):
        return size >= 0
    comparisons = _comparisons.get(None) or Comparisons()
    answer = comparisons.answers.get(size)
    if answer is None:
        answer = _is_never_negative(size, comparisons)
        comparisons.answers[size] = answer
    return answer


def _is_never_negative(size: Size, comparisons: Comparisons) -> bool:
    if _is_proved(size, comparisons):
        return True
    # An integer is at least 0 if it is above -1, which a multiple may show.
    for count in _multiples(size):
        multiple = size * count + (count - 1)
        if isinstance(multiple, Size) and _is_proved(multiple, comparisons):
            return True
    return False


def _multiples(size: Size) -> set[int]:
    """Return the counts of symbols in facts that no term of a size is a multiple of."""
    counts: set[int] = set()
    for symbol in size.symbols:
        own_count = size.terms.get((symbol,), 0)
        for fact in symbol.facts:
            count = fact.terms.get((symbol,), 0)
            if own_count < 0 and count < 0 and own_count % count:
                counts.add(-count)
    return counts


def _is_proved(size: Size, comparisons: Comparisons) -> bool:
    tried: set[Size] = set()
    waiting = [size]
    for _ in range(STEPS):
        if not waiting:
            return False
        current = waiting.pop(0)
        if current.low >= 0:
            return True
        if comparisons.terms_left < 0:
            what = "the comparisons of open sizes"
            comparisons.limit = f"{what} ended after {MOST_TERMS_COMPARED:,} terms"
            return False
        shifted = _shifted(current)
        comparisons.terms_left -= len(shifted)
        if all(count >= 0 for count in shifted.values()):
            return True
        tried.add(current)
        for fact, factor in _cancelling(current):
            rest = current - fact * factor
            comparisons.terms_left -= len(terms_of(rest))
            if isinstance(rest, int):
                if rest >= 0:
                    return True
            elif rest not in tried and not rest.is_large:
                waiting.append(rest)
    return False


def _shifted(size: Size) -> Mapping[Monomial, int]:
    """Return the terms if each symbol stands for what it is above its least number."""
    shifted: AnySize = 0
    for monomial, count in size.terms.items():
        term: AnySize = count
        for symbol in monomial:
            term = term * (Size({(symbol,): 1}) + symbol.low)
        shifted = shifted + term
    return terms_of(shifted)


def _cancelling(size: Size) -> Iterable[tuple[Size, AnySize]]:
    """Yield known facts, each with the factor by which it cancels a negative term."""
    facts = dict.fromkeys(fact for symbol in size.symbols for fact in symbol.facts)
    for monomial, count in size.terms.items():
        if count >= 0:
            continue
        for fact in facts:
            for part, amount in fact.terms.items():
                # A fact cancels a negative term by a negative one: a number by a
                # number, a product of symbols by a product.
                if amount >= 0 or bool(part) != bool(monomial):
                    continue
                rest = _without(monomial, part)
                if rest is None:
                    continue
                if monomial and count % amount:  # the factor is no integer
                    continue
                # Rounded up, so numbers may be more than cancelled.
                factor = -(-count // amount)
                yield fact, _simplified({rest: factor})


def in_named(size: AnySize) -> AnySize | None:
    """Return a number in open sizes of inputs alone that is negative where a size is.

    None means that no such number is known.
    """
    simple = _in_named(size, lowered=False)
    if isinstance(simple, Size):
        return simple
    # A count of which only the least number is known may be above it for large sizes.
    lowered = _in_named(size, lowered=True)
    return lowered if isinstance(lowered, Size) else simple


def _in_named(size: AnySize, lowered: bool) -> AnySize | None:
    """Return a number in open sizes alone that is negative where a size is.

    Args:
        size: The size.
        lowered: Whether a fact gives the least number of a count, in place of 0.
    """
    # A fact may bring back a term that another fact cancelled.
    for _ in range(STEPS):
        term = _first_unnamed_term(size)
        if term is None:
            return size
        monomial, count = term
        if count > 0:
            fact = _raising(monomial) if lowered else None
            if fact is None:
                # A product of counts is at least 0.
                size = size - Size({monomial: 1}) * count
                continue
            # An integer is at least 0 if its multiple is above the negative multiple.
            amount = fact.terms[monomial]
            size = size * amount + (amount - 1) - fact * count
            continue
        cancelling = next(iter(_cancelling(Size({monomial: count}))), None)
        if cancelling is not None:
            fact, factor = cancelling
            size = size - fact * factor
            continue
        amount = _least_amount(monomial) if lowered else None
        if amount is None:
            return None
        size = size * amount + (amount - 1)
    return None


def _least_amount(monomial: Monomial) -> int | None:
    """Return how often a fact that limits a count has it; None if none limits it."""
    if len(monomial) != 1:
        return None
    for fact in monomial[0].facts:
        amount = -fact.terms.get(monomial, 0)
        if amount > 1:
            return amount
    return None


def _raising(monomial: Monomial) -> Size | None:
    """Return a fact that says how large a count is at least; None if none does."""
    if len(monomial) != 1:
        return None
    for fact in monomial[0].facts:
        if fact.terms.get(monomial, 0) > 0:
            return fact
    return None


def _first_unnamed_term(size: AnySize) -> tuple[Monomial, int] | None:
    """Return the first term with a symbol that is no dimension of an input."""
    for monomial, count in terms_of(size).items():
        if not all(symbol.name for symbol in monomial):
            return monomial, count
    return None


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Return a product without some of its factors; None if it lacks any of these."""
    rest = list(monomial)
    for symbol in part:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def quotient(size: AnySize, divisor: AnySize) -> AnySize:
    """Return a size that is at least 0, divided by a size from 1, rounded down."""
    if isinstance(size, int) and isinstance(divisor, int):
        return size // divisor
    exact, rest = _divided(size, divisor)
    if rest == 0:
        return exact
    if isinstance(divisor, int):
        multiple, rest = _split_by(size, divisor)
        # Case 1: what is no multiple is at least 0.
        if multiple != 0 and rest >= 0:
            return multiple + quotient(rest, divisor)
        # Case 2: it is at most 0, so that it is rounded up on the other side of 0.
        opposite = divisor - 1 - rest
        if not rest >= 0 and opposite >= 0:
            return multiple - quotient(opposite, divisor)
    derived = _newest_symbol(size, divisor).derived
    key = ("quotient", size, divisor)
    if key not in derived:
        lowest = max(0, low_of(size)) // high_of(divisor)
        highest = high_of(size) // max(1, low_of(divisor))
        symbol = Symbol("", lowest, highest, lost_by=first_lost_by(size, divisor))
        result = Size({(symbol,): 1})
        # The rest is from 0 to the divisor - 1.
        rest = size - result * divisor
        _add_facts(symbol, rest, divisor - 1 - rest)
        derived[key] = result
    return derived[key]


def _split_by(size: AnySize, divisor: int) -> tuple[AnySize, AnySize]:
    """Return the largest part of a size that is a multiple, divided, and the rest.

    The number in the rest is below the divisor.
    """
    quotients: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, count in terms_of(size).items():
        if not monomial or count % divisor == 0:
            quotients[monomial] = count // divisor
            rest[monomial] = count % divisor
        else:
            rest[monomial] = count
    return _simplified(quotients), _simplified(rest)


def exact_quotient(size: AnySize, divisor: AnySize) -> AnySize | None:
    """Return what times the divisor is the size; None if no polynomial is."""
    if divisor == 0:
        return None
    exact, rest = _divided(size, divisor)
    return exact if rest == 0 else None


def _divided(size: AnySize, divisor: AnySize) -> tuple[AnySize, AnySize]:
    """Return a quotient of polynomials and what is left over."""
    divisor_terms = terms_of(divisor)
    first = max(divisor_terms, key=_rank)
    first_count = divisor_terms[first]
    exact: AnySize = 0
    rest = size
    while rest != 0:
        terms = terms_of(rest)
        monomial = max(terms, key=_rank)
        count = terms[monomial]
        part = _without(monomial, first)
        if part is None or count % first_count:
            break
        step = _simplified({part: count // first_count})
        exact = exact + step
        rest = rest - step * divisor
    return exact, rest


def _rank(monomial: Monomial) -> tuple[int, list[int]]:
    """Return the place of a product of symbols in the order of all."""
    return len(monomial), [symbol.order for symbol in monomial]


def at_least_one(size: AnySize) -> AnySize:
    """Return a size that a run refuses where it is 0.

    It is a symbol of its own: other values with the same size may be 0.
    """
    if isinstance(size, int) or size >= 1:
        return size
    derived = _newest_symbol(size).derived
    key = ("at least one", size)
    if key not in derived:
        symbol = Symbol("", 1, size.high)
        result = Size({(symbol,): 1})
        _add_facts(symbol, result - size, size - result)
        derived[key] = result
    return derived[key]


def in_float(size: AnySize) -> AnySize:
    """Return a size from 0 as FLOAT rounds it."""
    if isinstance(size, int):
        return int(float32(size))
    if size.high <= EXACT_IN_FLOAT:
        return size
    derived = _newest_symbol(size).derived
    key = ("float", size)
    if key not in derived:
        low = int(float32(max(size.low, 0)))
        high = int(float32(size.high))
        derived[key] = Size({(Symbol("", low, high),): 1})
    return derived[key]


def exact_of(a: AnySize, b: AnySize) -> AnySize | None:
    """Return which of two sizes the other one is as FLOAT; None if neither is.

    Where the two differ, both are above 2^24.
    """
    for exact, rounded in ((a, b), (b, a)):
        if isinstance(exact, Size):
            derived = _newest_symbol(exact).derived
            if derived.get(("float", exact)) == rounded:
                return exact
    return None


def lesser(a: AnySize, b: AnySize) -> AnySize:
    """Return the smaller of two numbers."""
    if a <= b:
        return a
    if b <= a:
        return b
    return -_larger_of_unordered(-a, -b)


def larger(a: AnySize, b: AnySize) -> AnySize:
    """Return the larger of two numbers."""
    if b <= a:
        return a
    if a <= b:
        return b
    return _larger_of_unordered(a, b)


def _larger_of_unordered(a: AnySize, b: AnySize) -> AnySize:
    """Return the larger of two numbers that no comparison orders.

    It is the first number and a symbol: how far the second number is above it, or 0.
    """
    a, b = sorted((a, b), key=_ranks)
    derived = _newest_symbol(a, b).derived
    key = ("larger", a, b)
    if key not in derived:
        highest = high_of(b) - low_of(a)
        above = Symbol("", 0, highest, lost_by=first_lost_by(a, b))
        excess = Size({(above,): 1})
        _add_facts(above, excess + a - b)
        # The larger of two numbers from 0 is at most their sum.
        if never_negative(a) and never_negative(b):
            _add_facts(above, b - excess)
        # The larger of two numbers up to 0 is at most 0.
        if never_negative(-a) and never_negative(-b):
            _add_facts(above, -(excess + a))
        derived[key] = excess + a
    return derived[key]


def _ranks(size: AnySize) -> list[tuple[int, list[int]]]:
    """Return a key that sorts sizes in the same order, however they are given."""
    return sorted(map(_rank, terms_of(size)))


def _add_facts(symbol: Symbol, *facts: AnySize) -> None:
    """Give a symbol facts, each of which is at least 0."""
    symbol.facts += [fact for fact in facts if isinstance(fact, Size)]


def _newest_symbol(*sizes: AnySize) -> Symbol:
    """Return the newest symbol in some sizes, which keeps what is made from them."""
    symbols: set[Symbol] = set()
    for size in sizes:
        if isinstance(size, Size):
            symbols |= size.symbols
    return max(symbols, key=_order_of)


def is_made_since(size: AnySize | None, mark: int) -> bool:
    """Return whether a size has a symbol that is newer than a mark."""
    if not isinstance(size, Size):
        return False
    return any(symbol.order > mark for symbol in size.symbols)


def mark() -> int:
    """Return a number between the order of all symbols so far and of all to come."""
    return next(_order)
