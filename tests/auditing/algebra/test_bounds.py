"""The bounds of a value: how they wrap, are fitted to sizes, joined and widened."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from onnxgather.auditing.algebra.bounds import (
    CONSTANT,
    INTEGERS,
    Bounds,
    Reason,
    bounds_of_array,
    broadcast,
    corners,
    elements_of,
    greatest,
    hull,
    interval,
    is_ordered,
    joined,
    known_sizes,
    least,
    merged_reasons,
    ordered,
    unknown,
    widened,
)
from onnxgather.auditing.algebra.sizes import (
    MOST,
    MOST_FACTORS,
    Size,
    Symbol,
    larger,
    lesser,
)
from onnxgather.core.descriptors.arrays import Array

FIRST, LAST = -(2**63), 2**63 - 1
INF = math.inf
FLOAT: Any = np.float32
N = Size({(Symbol("n", 1, 100),): 1})
COUNT = Size({(Symbol("", 0, 100),): 1})


def shown(value: Bounds) -> tuple[Any, ...]:
    return value.data_type, value.sizes, value.bounds.tolist(), value.nan


def ends(*pairs: tuple[Any, Any], data_type: str = "INT64") -> Bounds:
    """A value with one axis, and the bounds of each of its elements."""
    array = np.array(pairs, object)
    return interval(data_type, (len(pairs),), array[:, :1], array[:, 1:])


def test_integer_types_hold_from_the_least_to_the_greatest_number() -> None:
    assert INTEGERS == {
        "INT8": (-128, 127),
        "INT16": (-(2**15), 2**15 - 1),
        "INT32": (-(2**31), 2**31 - 1),
        "INT64": (FIRST, LAST),
        "UINT8": (0, 255),
        "UINT16": (0, 2**16 - 1),
        "UINT32": (0, 2**32 - 1),
        "UINT64": (0, 2**64 - 1),
    }


@pytest.mark.parametrize(
    ("data_type", "low", "high", "expected"),
    [
        ("INT8", -128, 127, [-128, 127]),
        ("INT8", 0, 128, [-128, 127]),  # one end wraps
        ("INT8", -129, 0, [-128, 127]),
        ("INT8", 128, 130, [-128, -126]),  # both do
        ("INT8", -130, -129, [126, 127]),
        ("INT8", 384, 385, [-128, -127]),  # twice
        ("INT8", 127, 128, [-128, 127]),
        ("UINT8", -1, -1, [255, 255]),
        ("UINT8", 256, 300, [0, 44]),
        ("BOOL", 2, 3, [0, 1]),
        ("INT64", 3, LAST + 1, [FIRST, LAST]),
        ("INT64", N, N + 1, [N, N + 1]),
        ("INT8", N, N + 27, [N, N + 27]),  # 100 + 27 is the greatest
        ("INT8", N, N + 28, [-128, 127]),
        ("INT8", N - 300, N - 300, [-43, 56]),
        ("UINT8", N - 1, N, [N - 1, N]),
        ("UINT8", N - 2, N, [0, 255]),
    ],
)
def test_integers_wrap_around(
    data_type: str, low: Any, high: Any, expected: list[Any]
) -> None:
    assert interval(data_type, (3,), low, high).bounds.tolist() == [expected]


def test_where_one_element_wraps_the_others_stay() -> None:
    value = ends((1, 5), (100, 128), (128, 129), data_type="INT8")
    assert value.bounds.tolist() == [[1, 5], [-128, 127], [-128, -127]]
    value = ends((N, N), (N, 200), (200, 201), data_type="INT8")
    assert value.bounds.tolist() == [[N, N], [-128, 127], [-56, -55]]


def test_a_float_that_mathematics_does_not_give_is_any() -> None:
    value = interval("FLOAT", (2,), FLOAT([[0.5], [np.nan]]), FLOAT([[1.5], [2]]))
    assert shown(value) == ("FLOAT", (2,), [[0.5, 1.5], [-INF, INF]], True)
    assert value.bounds.dtype == np.float32
    assert shown(interval("FLOAT", (), 0, 1, True)) == ("FLOAT", (), [0, 1], True)
    assert shown(interval("FLOAT", (), 0, 1)) == ("FLOAT", (), [0, 1], False)


def test_ends_that_a_float_type_lacks_are_rounded_away_from_the_interval() -> None:
    (pair,) = interval("FLOAT16", (1,), 2049, 2049).bounds.tolist()
    assert pair == [2048, 2050]
    assert interval("FLOAT16", (1,), 2051, 2051).bounds.tolist() == [[2050, 2052]]
    assert interval("FLOAT16", (1,), 2048, 2048).bounds.tolist() == [[2048, 2048]]
    assert interval("FLOAT16", (1,), 10**6, 10**6).bounds.tolist() == [[65504, INF]]
    assert interval("FLOAT16", (1,), 65505, 65505).bounds.tolist() == [[65504, INF]]


def test_nothing_is_known_of_other_types() -> None:
    assert shown(interval("STRING", (2,), 0, 1)) == (
        "STRING",
        (2,),
        [[-INF, INF]],
        True,
    )
    assert not interval("STRING", (2,), 0, 1).is_bounded


def test_truth_counts_as_0_and_1() -> None:
    value = interval(
        "INT64", (2,), np.array([[False], [True]]), np.array([[True], [True]])
    )
    assert shown(value) == ("INT64", (2,), [[0, 1], [1, 1]], False)
    assert {type(end) for end in value.bounds.flat} == {int}


def test_bounds_have_the_rank_of_the_sizes() -> None:
    rows = np.arange(6).reshape(2, 3, 1)
    assert interval("INT64", (2, 3), rows, rows).bounds.shape == (2, 3, 2)
    assert interval("INT64", (2, 3), rows[:1], rows[:1]).bounds.shape == (1, 3, 2)
    assert interval("INT64", (4, 2, 3), rows, rows).bounds.shape == (1, 2, 3, 2)
    assert interval("INT64", (None, 3), rows, rows).bounds.tolist() == [
        [[0, 3], [1, 4], [2, 5]]
    ]
    assert interval("INT64", (2, 4), rows, rows).bounds.tolist() == [[[0, 2]], [[3, 5]]]
    assert interval("INT64", (3,), rows, rows).bounds.tolist() == [[0, 5]]
    assert interval("INT64", None, rows, rows).bounds.tolist() == [0, 5]
    assert interval("INT64", (), rows, rows).bounds.tolist() == [0, 5]
    assert interval("INT64", (N, 3), 1, 2).bounds.tolist() == [[[1, 2]]]


def test_without_an_element_bounds_are_0() -> None:
    empty = np.zeros((2, 0, 1), object)
    assert interval("INT64", (2, 0), empty, empty).bounds.tolist() == [[[0, 0]]]
    assert interval("INT64", None, empty, empty).bounds.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("shape", "kept"),
    [
        ((2**14,), (2**14, 2)),
        ((2**14 + 1,), (1, 2)),
        ((2**10, 16), (2**10, 16, 2)),
        ((2**10 + 1, 16), (1, 16, 2)),
        ((2**10, 17), (1, 1, 2)),
    ],
)
def test_each_of_16384_elements_has_bounds_then_each_of_16_columns(
    shape: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    count = math.prod(shape)
    array: Array = np.arange(count).reshape(shape)
    expected: Any = np.stack([array] * 2, axis=-1)
    for axis, (own, left) in enumerate(zip(shape, kept, strict=False)):
        expected = expected if own == left else hull(expected, [axis])
    for value in (
        bounds_of_array("INT64", array),
        interval("INT64", shape, array[..., None], array[..., None]),
    ):
        assert value.bounds.shape == kept
        assert value.bounds.tolist() == expected.tolist()


def test_the_value_of_an_array() -> None:
    assert shown(bounds_of_array("INT32", np.array(7))) == ("INT32", (), [7, 7], False)
    assert bounds_of_array("INT32", np.array(7)).why == (CONSTANT,)
    floats = bounds_of_array("FLOAT", np.array([0.5, np.nan], np.float32))
    assert shown(floats) == ("FLOAT", (2,), [[0.5, 0.5], [-INF, INF]], True)
    large = np.ones((2**14, 2), np.float32)
    large[7] = -3, np.nan
    found = bounds_of_array("FLOAT", large)
    assert found.nan
    assert found.bounds[0, 0].tolist() == [-3, 1]
    assert bounds_of_array("FLOAT", np.ones(1, np.float32)).nan is False
    assert bounds_of_array("STRING", np.array(["a"])).stops == ("constant",)
    assert bounds_of_array("STRING", np.array(["a"])).sizes == (1,)
    assert bounds_of_array("BOOL", np.array([True])).bounds.tolist() == [[1, 1]]
    assert bounds_of_array("INT64", np.zeros((0, 2**15))).bounds.tolist() == [[[0, 0]]]


def test_what_is_known_of_a_value() -> None:
    value = ends((1, 1), (N, N))
    assert value.is_exact
    assert value.exact is not None
    assert value.exact.tolist() == [1, N]
    assert value.known is None
    assert value.closed.bounds.tolist() == [[1, 1], [1, 100]]
    assert not value.closed.is_exact
    assert value.whole.tolist() == [1, N]
    assert value.low.tolist() == [[1], [N]]
    assert value.high.tolist() == [[1], [N]]
    plain = ends((1, 1), (2, 2))
    assert plain.known is not None
    assert plain.known.tolist() == [1, 2]
    assert plain.closed is plain
    assert not interval("FLOAT", (1,), 1, 1, True).is_exact
    assert interval("INT64", (N,), 1, 1).exact is None
    assert ends((1, 2)).exact is None
    exact = interval("INT64", (3,), 1, 1).exact
    assert exact is not None
    assert exact.tolist() == [1, 1, 1]


def test_the_bounds_of_each_element_are_told_up_to_16384() -> None:
    full = interval("INT64", (2**14,), 1, 2).full
    assert full is not None
    assert full.shape == (2**14, 2)
    assert interval("INT64", (2**14 + 1,), 1, 2).full is None
    assert interval("INT64", (N,), 1, 2).full is None
    assert interval("INT64", None, 1, 2).full is None
    assert interval("INT64", (0, None), 1, 2).full is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (unknown("INT64", (2,)), False),
        (interval("INT64", (2,), 0, LAST), False),
        (interval("INT64", (2,), FIRST, 0), False),
        (interval("INT64", (2,), FIRST + 1, LAST - 1), True),
        (interval("INT64", (2,), N, N), True),
        (interval("UINT64", (2,), 0, 3), True),
        (unknown("UINT64", (2,)), False),
        (unknown("UINT8", (2,)), False),
        (unknown("BOOL", (2,)), True),
        (unknown("INT64", (2, 0)), True),
        (unknown("FLOAT", (2,)), False),
        (interval("FLOAT", (2,), 0, 1), True),
        (interval("FLOAT", (2,), 0, INF), False),
        (interval("FLOAT", (2,), -INF, 1), False),
        (interval("FLOAT", (2,), 0, 1, True), False),
        (unknown("", None), False),
    ],
)
def test_a_value_is_bounded_where_both_ends_say_more_than_its_type(
    value: Bounds, expected: bool
) -> None:
    assert value.is_bounded is expected


def test_nothing_is_known_but_the_type_and_the_sizes() -> None:
    assert shown(unknown("INT8", (2,), "x")) == ("INT8", (2,), [[-128, 127]], False)
    assert unknown("INT8", (2,), "x").stops == ("x",)
    assert shown(unknown("FLOAT", None)) == ("FLOAT", None, [-INF, INF], True)
    assert unknown("INT64", (2, 0)).is_empty
    assert not unknown("INT64", (2, 1)).is_empty
    assert not unknown("INT64", None).is_empty
    assert not unknown("INT64", (COUNT,)).is_empty


def test_other_sizes_keep_the_bounds_of_their_axes() -> None:
    value = interval(
        "INT64", (2,), [[1], [2]], [[3], [4]], True, why=(Reason("a"),), stops=("b",)
    )
    other = value.resized((5, 2))
    assert shown(other) == ("INT64", (5, 2), [[[1, 3], [2, 4]]], True)
    assert (other.why, other.stops) == ((Reason("a"),), ("b",))
    assert shown(value.resized(None)) == ("INT64", None, [1, 4], True)


def test_a_wrapped_integer_is_one_for_all_but_a_cast() -> None:
    value = interval("INT8", (1,), 1, 2, True)
    assert shown(value.cast) == ("INT8", (1,), [[1, 2]], False)
    plain = interval("INT8", (1,), 1, 2)
    assert plain.cast is plain
    assert interval("FLOAT", (1,), 1, 2, True).cast.nan


@pytest.mark.parametrize(
    ("sizes", "known", "count"),
    [
        (None, None, None),
        ((), (), 1),
        ((2, 3), (2, 3), 6),
        ((2, None), None, None),
        ((0, None), None, 0),
        ((2, N), None, 2 * N),
        ((0, N), None, 0),
        ((N, N), None, N * N),
    ],
)
def test_the_number_of_elements(sizes: Any, known: Any, count: Any) -> None:
    assert known_sizes(sizes) == known
    assert elements_of(sizes) == count


def test_the_hull_of_axes_reaches_from_the_least_to_the_greatest() -> None:
    bounds = np.array([[[1, 5], [2, 9]], [[0, 3], [4, 4]]])
    for each in (bounds, bounds.astype(object)):
        assert hull(each, []) is each
        assert hull(each, [0]).tolist() == [[[0, 5], [2, 9]]]
        assert hull(each, [1]).tolist() == [[[1, 9]], [[0, 4]]]
        assert hull(each, [0, 1]).tolist() == [[[0, 9]]]
        assert hull(each, [0]).dtype == each.dtype
    sized = np.array([[N, N], [N + 1, N + 2]], object)
    assert hull(sized, [0]).tolist() == [[N, N + 2]]
    apart = np.array([[N, N], [COUNT, COUNT]], object)
    assert hull(apart, [0]).tolist() == [[lesser(N, COUNT), larger(N, COUNT)]]


def test_the_ends_of_floats_are_floats_and_the_ends_of_sizes_are_sizes() -> None:
    a, b = FLOAT([1, 4]), FLOAT([3, 2])
    assert (least(a, b).tolist(), greatest(a, b).tolist()) == ([1, 2], [3, 4])
    assert least(a, b).dtype == greatest(a, b).dtype == np.float32
    n, count = np.array([N], object), np.array([COUNT], object)
    assert least(n, count, n).tolist() == [lesser(N, COUNT)]
    assert greatest(n, count, n).tolist() == [larger(N, COUNT)]
    zero = np.array([0])
    assert least(n, zero).tolist() == [0]
    assert greatest(zero, n - count).tolist() == [larger(0, N - COUNT)]
    assert least(zero, n - count).tolist() == [lesser(0, N - COUNT)]


def test_int64_is_ordered_alike_within_int32() -> None:
    first, last = INTEGERS["INT32"]
    value = ends((first, last), (first - 1, 0), (0, last + 1), (N, MOST))
    assert ordered(value).ravel().tolist() == [True, False, False, False]
    assert not is_ordered(value)
    assert is_ordered(ends((first, last)), unknown("UINT64", ()), unknown("INT32", ()))
    assert not is_ordered(ends((0, 1)), unknown("INT64", ()))
    pair = ordered(ends((0, 1), (0, 2**40)), ends((0, 2**40), (0, 1)))
    assert pair.ravel().tolist() == [False, False]


def test_the_corners_of_a_product_bound_it() -> None:
    a, b = ends((-2, 3)), ends((-5, 7))
    low, high = corners(lambda x, y: x * y, a, b)
    assert (low.tolist(), high.tolist()) == ([[-15]], [[21]])
    low, high = corners(lambda x, y: x - y, a, b)
    assert (low.tolist(), high.tolist()) == ([[-9]], [[8]])


def test_a_joined_value_has_the_elements_of_any() -> None:
    a, b = ends((1, 5), (2, 3)), ends((0, 2), (4, 9))
    assert shown(joined([a, b])) == ("INT64", (2,), [[0, 5], [2, 9]], False)
    assert shown(joined([a])) == shown(a)
    assert shown(joined([a, ends((0, 7))])) == ("INT64", (None,), [[0, 7]], False)
    assert shown(joined([a, a.resized((1, 2))])) == ("INT64", None, [1, 5], False)
    assert shown(joined([a, unknown("INT64", None)])) == (
        "INT64",
        None,
        [FIRST, LAST],
        False,
    )
    assert joined([unknown("INT64", None)] * 2).sizes is None
    other = interval("INT32", (2,), 0, 1)
    assert shown(joined([a, other])) == ("", (2,), [[-INF, INF]], True)
    nan = interval("FLOAT", (1,), 0, 1, True), interval("FLOAT", (1,), 2, 3)
    assert shown(joined(nan)) == ("FLOAT", (1,), [[0, 3]], True)
    assert shown(joined([ends((N, N)), ends((N + 1, N + 2))])) == (
        ("INT64", (1,), [[N, N + 2]], False)
    )
    mixed = joined([interval("INT64", (N, 2), 0, 1), interval("INT64", (N, 3), 5, 6)])
    assert shown(mixed) == ("INT64", (N, None), [[[0, 6]]], False)
    told = (
        interval("INT64", (), 0, 1, why=(Reason("a"),)),
        interval("INT64", (), 0, 1, stops=("b",)),
    )
    assert (joined(told).why, joined(told).stops) == ((Reason("a"),), ("b",))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ((5, 9), (5, 9), [5, 9]),
        ((5, 9), (4, 9), [0, 9]),
        ((5, 9), (0, 9), [0, 9]),
        ((5, 9), (-1, 9), [-(2**30), 9]),
        ((5, 9), (-(2**30), 9), [-(2**30), 9]),
        ((5, 9), (-(2**30) - 1, 9), [FIRST, 9]),
        ((-9, -5), (-9, -4), [-9, 0]),
        ((-9, -5), (-9, 0), [-9, 0]),
        ((-9, -5), (-9, 1), [-9, 2**30]),
        ((-9, -5), (-9, 2**30), [-9, 2**30]),
        ((-9, -5), (-9, 2**30 + 1), [-9, LAST]),
        ((N, N), (N, N + 1), [N, 2**30]),
        ((N, N), (N - 1, N), [0, N]),
        ((N, N), (N - 2, N), [-(2**30), N]),
        ((N - 5, N - 3), (N - 5, N - 2), [N - 5, 2**30]),
    ],
)
def test_an_end_that_moves_goes_on_to_0_then_far_then_to_the_limit(
    old: Any, new: Any, expected: list[Any]
) -> None:
    found = widened(ends(old), ends(new))
    assert found.bounds.tolist() == [expected]


def test_a_widened_value_keeps_what_else_is_known() -> None:
    new = interval("INT8", (2,), -1, 100, True, why=(Reason("a"),), stops=("b",))
    found = widened(interval("INT8", (2,), 0, 1), new)
    assert shown(found) == ("INT8", (2,), [[-128, 127]], True)
    assert (found.why, found.stops) == ((Reason("a"),), ("b",))
    assert (
        widened(interval("FLOAT", (), 0, 1), interval("FLOAT", (), 0, 2.0**31)).high
        == INF
    )
    assert widened(interval("UINT8", (), 3, 4), interval("UINT8", (), 2, 4)).low == 0


def values(*shapes: tuple[int, ...]) -> list[Bounds]:
    return [
        bounds_of_array("INT64", np.arange(math.prod(s)).reshape(s)) for s in shapes
    ]


def test_values_are_broadcast_with_16384_bounds_or_those_of_16_columns() -> None:
    kept = broadcast(values((128, 1), (128,)))
    assert [value and value.bounds.shape for value in kept] == [(128, 1, 2), (128, 2)]
    fewer = broadcast(values((129, 1), (128,)))
    assert [value and value.bounds.tolist() for value in fewer] == [
        [[[0, 128]]],
        [[0, 127]],
    ]
    columns = broadcast([*values((900, 1, 16), (40, 1)), None, *values(())])
    assert [value and value.bounds.shape for value in columns] == [
        (1, 1, 16, 2),
        (1, 1, 2),
        None,
        (2,),
    ]
    many = broadcast(values((900, 1, 17), (40, 1)))
    assert [value and value.bounds.shape for value in many] == [(1, 1, 1, 2), (1, 1, 2)]


def test_the_last_6_reasons_count_each_once() -> None:
    reasons: list[tuple[str, ...]] = [("a", "b"), ("b", "c"), tuple("defgh")]
    assert merged_reasons(reasons) == tuple("cdefgh")
    assert merged_reasons([("a",), ("a",)]) == ("a",)


def test_a_count_of_columns_that_is_open_has_no_bounds_of_its_own() -> None:
    array: Array = np.arange(3)[:, None]
    assert interval("INT64", (N,), array, array).bounds.tolist() == [[0, 2]]


def test_both_ends_are_numbers_where_one_is_too_large_to_be_kept() -> None:
    two: Any = Size({(Symbol("two", 1, 2),): 1})
    kept = math.prod([two] * MOST_FACTORS)
    assert interval("INT64", (1,), N, N + kept).bounds.tolist() == [[N, N + kept]]
    large = interval("INT64", (1,), N, kept * two)
    assert large.bounds.tolist() == [[1, 2 ** (MOST_FACTORS + 1)]]


def test_the_ends_of_all_elements_are_kept_and_cannot_be_changed() -> None:
    value = interval("INT64", (3,), [[1], [2], [3]], [[4], [5], [6]])
    ends = value.whole
    assert ends.tolist() == [1, 6]
    assert value.whole is ends
    with pytest.raises(ValueError, match="read-only"):
        ends[0] = 9
