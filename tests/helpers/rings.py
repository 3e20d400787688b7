"""The two rings of tests: the quick tests, and the tests with `--slow`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import pytest
from hypothesis import settings

_IS_SLOW = settings().max_examples >= 50
"""Whether pytest runs with `--slow`."""


def by_ring(quick: int, slow: int) -> int:
    """The size of a sample: in the quick tests, and with `--slow`."""
    return slow if _IS_SLOW else quick


def but_slow(slow: Collection[Any], rows: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the rows that are named are slow, the others are quick."""
    found = [*rows]
    assert all(row in found for row in slow), f"{slow} must be rows"
    return [_row(row, row not in slow) for row in found]


def quick_alone(quick: Collection[Any], rows: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the rows that are named are quick, the others are slow."""
    found = [*rows]
    assert all(row in found for row in quick), f"{quick} must be rows"
    return [_row(row, row in quick) for row in found]


def one_quick_in(count: int, rows: Iterable[Any]) -> list[Any]:
    """Parameters of a test: of every `count` rows the first is quick."""
    return [_row(row, number % count == 0) for number, row in enumerate(rows)]


def _row(row: Any, is_quick: bool) -> Any:
    """Return a parameter. A tuple has a value for each argument of the test."""
    marks = () if is_quick else (pytest.mark.slow,)
    if isinstance(row, type(pytest.param())):
        return pytest.param(*row.values, id=row.id, marks=(*row.marks, *marks))
    values = cast("tuple[Any, ...]", row) if isinstance(row, tuple) else (row,)
    return pytest.param(*values, marks=marks)
