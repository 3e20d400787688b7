"""Terms have the value of the operations that they are made of, whatever the normal form does."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from typing import Any, cast

from onnxgather.certificates import terms
from onnxgather.certificates.terms import Term, evaluate, highest, lowest, variable

VARIABLES = [variable("a", -9, 9), variable("b", 0, 11), variable("c", -(2**63), 2**63 - 1)]


def floor_quotient(value: Any, divisor: int) -> Any:
    """An integer or a term, divided and rounded down."""
    return value // divisor


def chosen(truth: int, first: int, second: int) -> int:
    """The first integer where a truth holds, else the second."""
    return first if truth else second


def in_twos_complement(value: int, low: int, high: int) -> int:
    """The integer from `low` to `high` with the same low bits."""
    return (value - low) % (high - low + 1) + low


COMPUTED: dict[str, Callable[..., Any]] = {
    "plus": operator.add,
    "minus": operator.sub,
    "times": operator.mul,
    "quotient": floor_quotient,
    "remainder": operator.mod,
    "is_less": operator.lt,
}
"""What Python's operators compute, of integers and of terms."""

MEANING: Mapping[str, Callable[..., Any]] = COMPUTED | {
    "smaller_of": min,
    "larger_of": max,
    "choose": chosen,
    "choose_truth": chosen,
    "in_twos_complement": in_twos_complement,
    "is_equal": operator.eq,
    "no": operator.not_,
    "all_of": int.__and__,
    "any_of": int.__or__,
    "agree": operator.eq,
}

Expression = Any


def integer(draw: random.Random, depth: int) -> Expression:
    """Draw an expression of an integer."""
    if depth == 0:
        return draw.choice([*VARIABLES, draw.randint(-12, 12)])
    a, b = integer(draw, depth - 1), integer(draw, depth - 1)
    return draw.choice(
        [
            ("plus", a, b),
            ("minus", a, b),
            ("times", a, draw.choice([draw.randint(-5, 5), b])),
            ("quotient", a, draw.randint(1, 12)),
            ("remainder", a, draw.randint(1, 12)),
            ("plus", ("remainder", a, 6), ("times", ("quotient", a, 6), 6)),
            ("smaller_of", a, b),
            ("larger_of", a, b),
            ("choose", truth(draw, depth - 1), a, b),
            ("in_twos_complement", a, -8, 7),
            ("remainder", ("in_twos_complement", a, -8, 7), 4),
        ]
    )


def truth(draw: random.Random, depth: int) -> Expression:
    """Draw an expression of a truth."""
    if depth == 0:
        return draw.choice([("is_less", *(integer(draw, 0) for _ in range(2))), True, False])
    inner = [truth(draw, depth - 1) for _ in range(3)]
    numbers = integer(draw, depth), integer(draw, depth)
    return draw.choice(
        [
            ("is_less", *numbers),
            ("is_equal", *numbers),
            ("no", inner[0]),
            ("all_of", *inner[:2]),
            ("any_of", *inner[:2]),
            ("agree", *inner[:2]),
            ("choose_truth", *inner),
        ]
    )


def made(expression: Expression) -> Any:
    """The term of an expression."""
    if not isinstance(expression, tuple):
        return expression
    name, *args = cast("tuple[Any, ...]", expression)
    return (COMPUTED.get(name) or getattr(terms, name))(*map(made, args))


def meant(expression: Expression, values: dict[Term, int]) -> Any:
    """The value of an expression."""
    if isinstance(expression, Term):
        return values[expression]
    if not isinstance(expression, tuple):
        return expression
    name, *args = cast("tuple[Any, ...]", expression)
    return MEANING[name](*(meant(own, values) for own in args))


def test_terms_have_the_values_of_their_operations_within_their_bounds() -> None:
    draw = random.Random(20261123)
    kinds = set[str]()
    for _ in range(4000):
        expression = draw.choice([integer, truth])(draw, draw.randint(1, 4))
        term = made(expression)
        kinds |= {one.kind for one in terms.inside(term)} if isinstance(term, Term) else set()
        for _ in range(5):
            wide = [0, 1, -1, 2**63 - 1, -(2**63), draw.randint(-20, 20)]
            numbers = draw.randint(-9, 9), draw.randint(0, 11), draw.choice(wide)
            values = dict(zip(VARIABLES, numbers, strict=True))
            value = evaluate(term, values)
            assert value == int(meant(expression, values)), (expression, values)
            assert lowest(term) <= value <= highest(term), (expression, values)
    assert kinds == {*terms._COMPUTED, "sum", "variable"}  # pyright: ignore[reportPrivateUsage]
