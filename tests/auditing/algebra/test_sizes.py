"""The algebra of open sizes: polynomials, what is surely true of them, and what is made
of them."""

from __future__ import annotations

from typing import Any

import pytest

from onnxgather.auditing.algebra import sizes
from onnxgather.auditing.algebra.sizes import (
    MOST,
    MOST_OF_INPUT,
    MOST_TERMS_COMPARED,
    STEPS,
    AnySize,
    Size,
    Symbol,
    at_least_one,
    comparing,
    exact_of,
    exact_quotient,
    high_of,
    in_float,
    in_named,
    is_made_since,
    larger,
    lesser,
    low_of,
    mark,
    never_negative,
    quotient,
    size_from,
    terms_of,
    unknown_size,
)


def size(name: str, low: int = 0, high: int = MOST, *tensors: str) -> Size:
    return Size({(Symbol(name, low, high, tensors={*tensors}),): 1})


N: Any = size("n", 1, 100)
M: Any = size("m", 2, 50)
K: Any = size("k", 0, 9)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (N + 1, "n + 1"),
        (1 + N, "n + 1"),
        (N - 1, "n - 1"),
        (1 - N, "-n + 1"),
        (-N, "-n"),
        (-N - M, "-n - m"),
        (2 * N - 3 * M, "2*n - 3*m"),
        (N * 2, "2*n"),
        (N * M * N, "n*n*m"),
        (M * N, "n*m"),
        (-(N * M) - 1, "-n*m - 1"),
        ((N + 1) * (N - 1), "n*n - 1"),
        ((N + M) * (N + M), "n*n + 2*n*m + m*m"),
        (N + M - N, "m"),
        (unknown_size() * 2 + 1, "2*? + 1"),
        (N - N, "0"),
        (N * 0, "0"),
        (N + 5 - N, "5"),
        (4 * N // 2, "2*n"),
        (N // N, "1"),
        (9 // (N - N + 2), "4"),
    ],
)
def test_sizes_are_polynomials(found: AnySize, text: str) -> None:
    assert repr(found) == text


def test_equal_polynomials_are_one_size() -> None:
    assert N * M == M * N
    assert hash(N * M) == hash(M * N)
    assert {N + M: 1}[M + N] == 1
    assert N != M
    assert N != 1
    assert N + 1 != N + 2
    assert terms_of(N + 1) == {next(iter(N.terms)): 1, (): 1}
    assert (terms_of(5), terms_of(0)) == ({(): 5}, {})


@pytest.mark.parametrize(
    ("one", "low", "high"),
    [
        (5, 5, 5),
        (N, 1, 100),
        (-N, -100, -1),
        (2 * N - M + 3, -45, 201),
        (N * M, 2, 5000),
        (3 - N * M, -4997, 1),
        (K * M, 0, 450),
        (size("a"), 0, 2**48),
        (unknown_size(), 0, 2**48),
        (unknown_size(9), 0, 9),
        (unknown_size(N + 3), 0, 103),
        (unknown_size(2**60), 0, 2**60),
    ],
)
def test_a_size_lies_between_two_numbers(one: AnySize, low: int, high: int) -> None:
    assert (low_of(one), high_of(one)) == (low, high)


def test_a_product_of_dimensions_of_one_tensor_is_what_memory_holds() -> None:
    parts: tuple[Any, ...] = tuple(
        size(name, 1, MOST_OF_INPUT, *"xy"[k:]) for k, name in enumerate("abc")
    )
    a, b, c = parts
    assert high_of(a * b) == 2**48  # both are dimensions of y
    assert high_of(a * a) == 2**56  # the same dimension twice may not be two dimensions
    assert high_of(a * c) == 2**56
    assert high_of(b * size("d", 1, 8, "y")) == 2**31
    assert a * b <= MOST
    assert not a * c <= MOST


S: Any = unknown_size(N)
T: Any = unknown_size(S)
AT_LEAST_5 = Symbol("five", 1, 100)
AT_LEAST_5.facts.append(Size({(AT_LEAST_5,): 1, (): -5}))
FIVE: Any = Size({(AT_LEAST_5,): 1})


@pytest.mark.parametrize(
    ("a", "b", "at_most", "less"),
    [
        (1, N, True, False),
        (0, N, True, True),
        (2, N, False, False),
        (N, 100, True, False),
        (N, 101, True, True),
        (N, 99, False, False),
        (N, N, True, False),
        (N, N + 1, True, True),
        (N, 2 * N, True, True),
        (K, 2 * K, True, False),
        (N, M, False, False),
        (M, N * M, True, False),
        (N + M, N * M + 2, True, True),
        (N, N * K, False, False),
        (N * M, N * N * M, True, False),
        (2 * N - M, 2 * N - 2, True, False),
        (S, N, True, False),
        (S, N + 1, True, True),
        (2 * S, N * M, True, False),
        (3 * S, N * M, False, False),
        (S * M, N * M, True, False),
        (S * S, N * N, True, False),
        (N, S, False, False),
        (T, N, True, False),
        (T + S, 2 * N, True, False),
        (T + S + 1, 2 * N, False, False),
        (5, FIVE, True, False),
        (4, FIVE, True, True),
        (10, 2 * FIVE, True, False),
        (5 * M, FIVE * M, False, False),
        (6, FIVE, False, False),
    ],
)
def test_a_comparison_holds_surely(a: Any, b: Any, at_most: bool, less: bool) -> None:
    assert (a <= b, a < b) == (at_most, less)
    assert (b >= a, b > a) == (at_most, less)
    assert never_negative(b - a) is at_most


def test_a_comparison_of_numbers_is_pythons() -> None:
    assert [never_negative(n) for n in (-1, 0, 1)] == [False, True, True]


def test_a_comparison_tries_near_facts_first() -> None:
    def below(*sizes: Any) -> Any:
        one = Symbol("")
        found: Any = Size({(one,): 1})
        one.facts += [size - found for size in sizes]
        return found

    far = [below()]
    for _ in range(STEPS):
        far.append(below(far[-1]))
    assert below(below(N), far[-1]) <= N


def test_a_symbol_is_any_count_unless_more_is_said() -> None:
    one = Symbol("a")
    assert (one.low, one.high, one.facts, one.tensors) == (0, MOST, [], set())


def test_a_comparison_gives_up_after_60_facts() -> None:
    chain = list[Any]([N])
    for _ in range(STEPS + 1):
        chain.append(unknown_size(chain[-1]))
    assert STEPS == 60
    assert chain[60] <= N
    assert not chain[61] <= N


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (7, 2, 3),
        (6 * N, 2, 3 * N),
        (N * M, N, M),
        (N * M, M, N),
        (2 * N + 4, 2, N + 2),
        (N * N - 1, N + 1, N - 1),
        (N * N + 2 * N * M + M * M, N + M, N + M),
        (6 * N * M, 3 * N, 2 * M),
        (0, N, 0),
    ],
)
def test_a_quotient_of_polynomials_is_exact_where_nothing_is_left(
    a: AnySize, b: AnySize, expected: AnySize
) -> None:
    assert quotient(a, b) == expected


@pytest.mark.parametrize(
    ("a", "b", "high"),
    [
        (N, 2, 50),
        (7, N, 7),
        (N, 2 * N, 50),
        (3 * N, 2 * N, 150),
        (N + M, M, 75),
        (N, K, 100),
    ],
)
def test_another_quotient_is_a_symbol_of_its_own(
    a: AnySize, b: AnySize, high: int
) -> None:
    found = quotient(a, b)
    assert isinstance(found, Size)
    assert repr(found) == "?"
    assert (found.low, found.high) == (0, high)
    assert quotient(a, b) == found
    assert quotient(a, b + 1) != found
    assert found * b <= a
    assert a < found * b + b
    assert not a <= found * b


@pytest.mark.parametrize(
    ("a", "b", "least", "most"),
    [(2, 5, 2, 5), (N, 2 * N, N, 2 * N), (N, 0, 0, N), (100, N, N, 100), (N, N, N, N)],
)
def test_of_two_ordered_numbers_one_is_the_smaller(
    a: AnySize, b: AnySize, least: AnySize, most: AnySize
) -> None:
    assert (lesser(a, b), larger(a, b)) == (least, most)
    assert (lesser(b, a), larger(b, a)) == (least, most)


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    [
        (N, M, 1, 149),
        (5, N, 5, 100),
        (0, N - M, 0, 98),
        (-3, N - M, -3, 98),
        (N, K * M, 1, 549),
    ],
)
def test_the_larger_of_two_numbers_that_nothing_orders_is_a_symbol(
    a: AnySize, b: AnySize, low: int, high: int
) -> None:
    found = larger(a, b)
    assert isinstance(found, Size)
    assert larger(b, a) == found
    assert a <= found
    assert b <= found
    assert not found <= b
    assert not found <= a
    assert lesser(-a, -b) == -found
    assert lesser(-b, -a) == -found
    assert (found.low, found.high) == (low, high)
    is_positive = a >= 0 and b >= 0
    assert (found <= a + b) is is_positive


def test_the_smaller_of_two_numbers_is_at_most_each() -> None:
    found = lesser(N, M)
    assert found <= N
    assert found <= M
    assert not found >= M
    assert lesser(M, N) == found


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (7, 7),
        (N - 2, N - 2),
        (N - S, 0),
        (5 - S, 5 - N),
        (5 - T, 5 - N),
        (S + N, N),
        (N - S * M, N - N * M),
        (7 - 2 * S - T, 7 - 3 * N),
        (S * T - N, -N),
        (5 - size(""), None),
        (5 - quotient(N, 2) * 2, 5 - N),
        (5 - quotient(N, 2), 11 - N),
        (quotient(N, 2) - 2, N - 4),
        (3 - quotient(quotient(N, 2), 3), 23 - N),
        (at_least_one(quotient(N, 4)) - 2, N - 8),
    ],
)
def test_the_least_that_named_sizes_tell_of_a_size(
    one: AnySize, expected: AnySize | None
) -> None:
    assert in_named(one) == expected


@pytest.mark.parametrize(
    ("size", "divisor"),
    [(4 * N + M + 9, 4), (4 - N + 4 * M, 4), (3 - N + 6 * M, 3), (N - 1, 2)],
)
def test_a_quotient_is_the_number_rounded_down(size: Size, divisor: int) -> None:
    found = quotient(size, divisor)
    assert found * divisor <= size
    assert found * divisor >= size - divisor + 1


def test_what_fills_an_axis_up_makes_whole_blocks_of_it() -> None:
    rest = N - 4 * quotient(N, 4)
    missing = 4 - rest
    filling = missing - 4 * quotient(missing, 4)
    filled = N + filling
    blocks = quotient(N + 3, 4)
    assert filled == 4 * blocks
    assert blocks >= 1
    assert filled >= N
    assert filled <= N + 3


def test_a_multiple_shows_that_an_integer_is_not_negative() -> None:
    counts = quotient(N + 2, 3)
    assert 2 * counts >= 0
    assert counts <= N
    assert not counts + 1 <= N
    assert quotient(N + 6, 4) >= quotient(N, 4) + 1


def test_a_size_that_a_run_refuses_at_0_is_a_symbol_of_its_own() -> None:
    count = quotient(N, 16)
    there: Any = at_least_one(count)
    assert at_least_one(count) == there
    assert there >= 1
    assert there >= count
    assert there <= count
    assert not count >= 1
    assert at_least_one(N + 1) == N + 1
    assert at_least_one(0) == 0


def test_float_rounds_a_size_above_2_to_the_24() -> None:
    small = size("small", 1, 2**24)
    assert in_float(small) == small
    large = size("large", 1, 2**24 + 1)
    rounded: Any = in_float(large)
    assert in_float(large) == rounded
    assert rounded != large
    assert rounded >= 1
    assert exact_of(large, rounded) == large
    assert exact_of(rounded, large) == large
    assert exact_of(large, small) is None
    assert exact_of(large, 2) is None
    assert in_float(2**24 + 1) == 2**24


def test_a_quotient_of_polynomials_is_one_or_none() -> None:
    assert exact_quotient(N * M * 4, M * 2) == 2 * N
    assert exact_quotient((N + 1) * (M - 1), M - 1) == N + 1
    assert exact_quotient(N * M + 1, M) is None
    assert exact_quotient(N, 0) is None
    assert exact_quotient(12, 4) == 3


def test_a_size_knows_its_symbols() -> None:
    assert (N * M + K + 1).symbols == N.symbols | M.symbols | K.symbols


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("-3", -3),
        ("n", N),
        ("-n", -N),
        ("12*n*m - k", 12 * N * M - K),
        ("n + m - 7", N + M - 7),
        ("n-m+2*k", N - M + 2 * K),
        ("n*n", N * N),
        ("0", 0),
    ],
)
def test_a_text_tells_a_size(text: str, expected: AnySize) -> None:
    assert size_from(text, {"n": N, "m": M, "k": K}) == expected


def test_a_text_of_known_sizes_is_a_number() -> None:
    assert size_from("12*n - m", {"n": 5, "m": 7}) == 53


def test_a_symbol_is_made_before_a_mark_or_since() -> None:
    before, since = unknown_size(), mark()
    after: Any = unknown_size()
    assert not is_made_since(before, since)
    assert is_made_since(after, since)
    assert is_made_since(before + after, since)
    assert not is_made_since(3, since)
    assert not is_made_since(None, since)
    assert max(after.symbols, key=lambda one: one.order).order > since


def test_the_lesser_of_two_sizes_is_no_less_than_0_where_both_are_not() -> None:
    assert lesser(N - 1, M) >= 0
    assert not lesser(N - 2, M) >= 0
    assert lesser(-N, M) <= 0
    assert not lesser(N - 1, M) >= 1


def test_a_comparison_is_answered_once_in_a_model() -> None:
    with comparing() as comparisons:
        least: Any = lesser(N - 1, M)
        assert least >= 0
        left = comparisons.terms_left
        assert comparisons.answers[least] is True
        assert left < MOST_TERMS_COMPARED
        assert least >= 0
        assert comparisons.terms_left == left
    with comparing() as others:
        assert others.answers == {}
    # Elsewhere, each comparison has an answer of its own.
    assert least >= 0


def test_comparisons_that_cost_too_much_end(monkeypatch: pytest.MonkeyPatch) -> None:
    a: Any = size("a")
    b: Any = size("b")
    sum_of_two = larger(N, a) + larger(M, b)
    assert sum_of_two >= a + b
    monkeypatch.setattr(sizes, "MOST_TERMS_COMPARED", 2)
    with comparing() as comparisons:
        assert comparisons.limit is None
        assert not sum_of_two >= a + b
        assert comparisons.limit == "the comparisons of open sizes ended after 2 terms"
        # What the ends of symbols show is still true.
        assert N >= 1


def test_a_comparison_makes_no_large_sizes() -> None:
    """Each product that cancels a term has one more factor."""
    a: Any = size("a", 1, MOST_OF_INPUT)
    b: Any = size("b", 1, MOST_OF_INPUT)
    excess = larger(a, a * b - 5) - (a * b - 5)
    with comparing() as comparisons:
        assert not excess + a * b <= 2**32 + 4
        assert MOST_TERMS_COMPARED - comparisons.terms_left < 1_000


def test_a_fact_cancels_a_number_that_it_does_not_divide() -> None:
    a = size("a", 1, MOST_OF_INPUT)
    both = lesser(64 * a + 3967, 2048 * a - 1)
    assert both <= 2048 * a
    assert both <= 2048 * a - 1
    assert not both <= 2048 * a - 2
    assert not both <= 64 * a + 3966


def test_facts_that_bring_back_each_other_name_nothing() -> None:
    first: Any = size("")
    second: Any = size("")
    for one, other in ((first, second), (second, first)):
        ((symbol,),) = one.terms
        symbol.facts.append(other - one)
    assert in_named(N - first) is None
