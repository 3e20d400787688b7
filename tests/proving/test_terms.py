"""Terms have the value of the operations that they are made of, whatever the normal
form does."""

from __future__ import annotations

import itertools
import operator
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import pytest
from rings import by_ring, one_quick_in

from onnxgather.checking.corpus.sampling import random_cases
from onnxgather.proving import claims, formula, operators, tensors, terms
from onnxgather.proving.certify import certify
from onnxgather.proving.solvers import solve
from onnxgather.proving.tensors import constant_tensor
from onnxgather.proving.terms import (
    Term,
    agree,
    assuming,
    evaluate,
    highest,
    is_equal,
    lowest,
    read,
    script,
    smaller_of,
    variable,
)

VARIABLES = [
    variable("a", -9, 9),
    variable("b", 0, 11),
    variable("c", -(2**63), 2**63 - 1),
    variable("d", -(2**70), 2**70),
]


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
            ("times", a, draw.randint(-5, 5)),
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
        return draw.choice(
            [("is_less", *(integer(draw, 0) for _ in range(2))), True, False]
        )
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
    for _ in range(by_ring(250, 2000)):
        expression = draw.choice([integer, truth])(draw, draw.randint(1, 4))
        term = made(expression)
        kinds |= (
            {one.kind for one in terms.inside(term)}
            if isinstance(term, Term)
            else set()
        )
        for _ in range(5):
            wide = [0, 1, -1, 2**63 - 1, -(2**63), draw.randint(-20, 20)]
            numbers = draw.randint(-9, 9), draw.randint(0, 11), *draw.choices(wide, k=2)
            values = dict(zip(VARIABLES, numbers, strict=True))
            value = evaluate(term, values)
            assert value == int(meant(expression, values)), (expression, values)
            assert lowest(term) <= value <= highest(term), (expression, values)
    assert kinds == {*terms._KINDS, "variable"}  # pyright: ignore[reportPrivateUsage]


def test_an_integer_of_one_value_is_divided_right() -> None:
    four, any_integer = variable("four", 4, 4), VARIABLES[0]
    quotient = (any_integer * 3 + four * 2) // 3
    assert evaluate(quotient, {four: 4, any_integer: 5}) == 7
    assert evaluate((any_integer * 3 + four * 2) % 3, {four: 4, any_integer: 5}) == 2
    assert (VARIABLES[1] + 24) // 12 == 2


def test_what_a_truth_decides_may_be_left_out_where_it_holds() -> None:
    draw = random.Random(7)
    decided, count = 0, by_ring(100, 1000)
    for _ in range(count):
        conditions = [truth(draw, 1) for _ in range(2)]
        given = draw.choice(
            [conditions[0], ("no", conditions[0]), ("all_of", *conditions)]
        )
        chosen_ones = [
            ("choose", draw.choice(conditions), integer(draw, 1), k) for k in (3, 5)
        ]
        value = ("plus", ("times", chosen_ones[0], 3), chosen_ones[1])
        left = assuming(made(value), made(given))
        decided += left is not made(value)
        for numbers in itertools.product(
            range(-9, 10, 3), range(0, 12, 3), (-7, 0, 1, 8), (2, 9)
        ):
            values = dict(zip(VARIABLES, numbers, strict=True))
            if meant(given, values):
                assert evaluate(left, values) == meant(value, values), (
                    value,
                    given,
                    values,
                )
    assert decided > 0.3 * count


UNKNOWN = [variable(name, -(2**99), 2**99) for name in "uvwx"]
"""Integers of which almost nothing is known."""

SMT = {
    "plus": "(+ {} {})",
    "minus": "(- {} {})",
    "times": "(* {} {})",
    "quotient": "(div {} {})",
    "remainder": "(mod {} {})",
    "is_less": "(< {} {})",
    "smaller_of": "(ite (<= {0} {1}) {0} {1})",
    "larger_of": "(ite (<= {0} {1}) {1} {0})",
    "choose": "(ite {} {} {})",
    "choose_truth": "(ite {} {} {})",
    "in_twos_complement": "(+ (mod (- {0} {1}) (+ (- {2} {1}) 1)) {1})",
    "is_equal": "(= {} {})",
    "no": "(not {})",
    "all_of": "(and {} {})",
    "any_of": "(or {} {})",
    "agree": "(= {} {})",
}
"""What the operations mean, in SMT-LIB."""


def raw(expression: Expression, names: Mapping[Term, str]) -> str:
    """An expression in SMT-LIB, as it stands."""
    if isinstance(expression, Term):
        return names[expression]
    if isinstance(expression, bool):
        return str(expression).lower()
    if not isinstance(expression, tuple):
        return str(expression) if expression >= 0 else f"(- {-expression})"
    name, *args = cast("tuple[Any, ...]", expression)
    return SMT[name].format(*(raw(own, names) for own in args))


@pytest.mark.parametrize("solver", one_quick_in(2, ["z3", "cvc5"]))
def test_a_solver_finds_each_term_equal_to_its_operations(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(solver)
    monkeypatch.setattr(sys.modules[__name__], "VARIABLES", UNKNOWN)
    draw, verdicts = random.Random(11), Counter[str]()
    for _ in range(by_ring(15, 60)):
        expression = truth(draw, 2)
        # The script says that `hold` does not agree with the term.
        hold = variable("hold", 0, 1)
        claim = agree(hold > 0, made(expression))
        text, constants = script([], claim)
        names = {term: name for name, term in constants.items()}
        declared = [one for one in UNKNOWN if one not in names]
        names |= {one: one.args[0] for one in declared}
        lines = [f"(declare-const {names[one]} Int)" for one in declared]
        lines.append(f"(assert (= (> {names[hold]} 0) {raw(expression, names)}))")
        answer = solve(
            text.replace("(check-sat)", "\n".join([*lines, "(check-sat)"])), 2, solver
        )
        assert answer.verdict != "sat", (expression, answer)
        verdicts[answer.verdict] += 1
    assert verdicts["unsat"] > verdicts.total() * 0.9, verdicts


def test_equal_obligations_are_equal_texts_whatever_was_made_before() -> None:
    def text() -> str:
        names = [*map(str, range(9))]
        random.Random(len(others)).shuffle(names)  # terms are made in another order
        made_before = [variable(name, 0, 9) for name in names]
        others.append([made_before, [own * 3 + 1 for own in made_before]])
        own = [variable(str(k), 0, 9) for k in range(9)]
        whole = own[0] * 7 + own[1] + own[2] // 2 - own[3] * 5 + own[4] % 3
        least = smaller_of(own[5], own[6])
        return script([whole < 0, is_equal(least, own[7])], own[8] > whole)[0]

    others = list[Any]()
    assert len({text() for _ in range(5)}) == 1
    others.clear()
    assert text() == text()


@pytest.mark.slow
def test_a_table_without_pattern_is_a_term_that_is_not_too_deep() -> None:
    draw = random.Random(3)
    table = np.array([draw.randrange(2**20) for _ in range(4096)])
    at = variable("at", 0, 4095)
    term = constant_tensor(table).at((at,))
    assert isinstance(term, Term)
    text, constants = script([], term * 2 < 2**20)
    assert [*constants.values()] == [at]
    assert text.count("\n") < 3 * len(table)
    assert all(evaluate(term, {at: k}) == table[k] for k in range(0, 4096, 99))
    nothing = assuming(term + 1, at < 0)
    assert evaluate(nothing, {at: 7}) == table[7] + 1


def raw_term(kind: str, args: tuple[Any, ...], low: int = 0, high: int = 1) -> Term:
    """A term as it is asked for, whatever it could be instead."""
    return terms._term(kind, args, low, high)  # pyright: ignore[reportPrivateUsage]


def raw_quotient(value: Term, divisor: int) -> int | Term:
    return raw_term(
        "quotient", (value, divisor), value.low // divisor, value.high // divisor
    )


def raw_remainder(value: Term, divisor: int) -> int | Term:
    return raw_term("remainder", (value, divisor), 0, divisor - 1)


def raw_less(first: Term, second: int | Term) -> bool | Term:
    value = first - second
    return raw_term("negative", (value,)) if isinstance(value, Term) else value < 0


def raw_equal(first: int | Term, second: int | Term) -> bool | Term:
    value = first - second
    return raw_term("zero", (value,)) if isinstance(value, Term) else value == 0


def raw_choose(truth: int | Term, first: int | Term, second: int | Term) -> int | Term:
    if not isinstance(truth, Term):
        return first if truth else second
    ends = min(lowest(first), lowest(second)), max(highest(first), highest(second))
    return raw_term("choose", (truth, first, second), *ends)


def raw_smaller_of(first: int | Term, second: int | Term) -> int | Term:
    lows, highs = ([*map(end, (first, second))] for end in (lowest, highest))
    truth = first - second < 0
    if not isinstance(truth, Term):
        return first if truth else second
    return raw_term("choose", (truth, first, second), min(lows), min(highs))


def raw_larger_of(first: int | Term, second: int | Term) -> int | Term:
    return -raw_smaller_of(-first, -second)


def raw_assuming(value: int | Term, _: int | Term) -> int | Term:
    return value


RAW: dict[str, Callable[..., Any]] = {
    "smaller_of": raw_smaller_of,
    "larger_of": raw_larger_of,
    "is_equal": raw_equal,
    "choose": raw_choose,
    "assuming": raw_assuming,
}
"""The functions of terms without the rules of the normal form."""

RAW_OPERATORS: dict[str, Callable[..., Any]] = {
    "__floordiv__": raw_quotient,
    "__mod__": raw_remainder,
    "__lt__": raw_less,
}
"""The same of Python's operators."""


def test_claims_are_proved_without_the_normal_form_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("z3")
    drawn = random_cases(by_ring(5, 14), 5)
    # Without the normal form a solver cannot say what DirectML.dll's offsets modulo
    # 2^32 are.
    cases = [case for case in drawn if case.out_of_range != "directml"]
    normal = [certify(case.descriptor, case.out_of_range) for case in cases]
    for name, function in RAW.items():
        for module in (terms, claims, formula, operators, tensors):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, function)
    for name, function in RAW_OPERATORS.items():
        monkeypatch.setattr(Term, name, function)
    found = [certify(case.descriptor, case.out_of_range) for case in cases]
    assert {one.state for one in normal + found} == {"proved"}
    more = [
        len(b.obligations) - len(a.obligations)
        for a, b in zip(normal, found, strict=True)
    ]
    assert min(more) >= 0 < sum(more)


@pytest.mark.parametrize("solver", one_quick_in(2, ["z3", "cvc5"]))
def test_a_script_has_the_bounds_of_variables_and_the_elements_of_arrays(
    solver: str,
) -> None:
    pytest.importorskip(solver)
    a, b = VARIABLES[:2]
    ends = is_equal(a + b, 20), is_equal(a - b, -20)
    assert solve(script(ends[:1], is_equal(a, 9))[0], 5, solver).verdict == "unsat"
    assert solve(script(ends[1:], is_equal(b, 11))[0], 5, solver).verdict == "unsat"
    elements = [read("IndicesTensor", at, -5, 5) for at in (a, b, 3)]
    claims_of_elements = [
        ([is_equal(a, b)], is_equal(elements[0], elements[1]), "unsat"),
        ([is_equal(a, 3)], is_equal(elements[0], elements[2]), "unsat"),
        ([is_equal(a, b + 1)], is_equal(elements[0], elements[1]), "sat"),
    ]
    for given, conclusion, verdict in claims_of_elements:
        text, constants = script(given, conclusion)
        answer = solve(text, 5, solver)
        assert answer.verdict == verdict
        if verdict == "sat":
            values = {term: answer.values[name] for name, term in constants.items()}
            assert evaluate(given[0], values)
            assert not evaluate(conclusion, values)
