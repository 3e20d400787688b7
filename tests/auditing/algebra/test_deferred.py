"""Bounds that are computed when something reads them."""

from __future__ import annotations

import pytest

from onnxgather.auditing.algebra.bounds import Bounds, deferred, interval


def counted(value: Bounds, *inputs: Bounds) -> tuple[Bounds, list[None]]:
    """Return a value that is deferred, and a list that grows when it is computed."""
    computations: list[None] = []

    def compute() -> Bounds:
        computations.append(None)
        return value

    return deferred(value.data_type, value.sizes, inputs, compute), computations


def test_a_value_is_computed_once_and_not_for_its_type() -> None:
    value, computations = counted(interval("INT64", (2,), 1, 5, why=("two",)))
    assert (value.data_type, value.sizes) == ("INT64", (2,))
    assert computations == []
    assert value.whole.tolist() == [1, 5]
    assert (value.nan, value.why, value.stops) == (False, ("two",), ())
    assert computations == [None]


def test_inputs_are_computed_before() -> None:
    order: list[str] = []

    def named(name: str, *inputs: Bounds) -> Bounds:
        def compute() -> Bounds:
            order.append(name)
            return interval("INT64", (), 0, 0)

        return deferred("INT64", (), inputs, compute)

    first = named("first")
    left = named("left", first)
    right = named("right", first)
    assert named("last", left, right).is_exact
    assert sorted(order[1:3]) == ["left", "right"]
    assert (order[0], order[3:]) == ("first", ["last"])


def test_a_chain_may_be_longer_than_calls_can_be_deep() -> None:
    value = interval("INT64", (), 0, 0)
    for _ in range(20_000):
        own = value

        def compute(own: Bounds = own) -> Bounds:
            return interval("INT64", (), own.whole[0] + 1, own.whole[1] + 1)

        value = deferred("INT64", (), [own], compute)
    assert value.whole.tolist() == [20_000, 20_000]


def test_a_value_has_no_other_attributes() -> None:
    value, computations = counted(interval("INT64", (), 0, 0))
    with pytest.raises(AttributeError, match="high_end"):
        getattr(value, "high_end")  # noqa: B009
    assert computations == []


def test_the_ends_of_all_elements_are_kept_and_cannot_be_changed() -> None:
    value = interval("INT64", (3,), [[1], [2], [3]], [[4], [5], [6]])
    ends = value.whole
    assert ends.tolist() == [1, 6]
    assert value.whole is ends
    with pytest.raises(ValueError, match="read-only"):
        ends[0] = 9
