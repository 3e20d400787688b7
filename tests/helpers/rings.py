"""The rings of tests: the quick tests, the tests with `--slow`, and the tests with
`--long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, cast

import pytest
from hypothesis import settings

LONG = settings().max_examples > 100
"""Whether pytest runs with `--long`."""


def by_ring(quick: int, slow: int, long: int) -> int:
    """The size of a sample: in the quick tests, with `--slow`, and with `--long`."""
    if LONG:
        return long
    return quick if settings().max_examples < 50 else slow


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


def _row(row: Any, is_quick: bool) -> Any:
    values = cast("tuple[Any, ...]", row) if isinstance(row, tuple) else (row,)
    return pytest.param(*values, marks=() if is_quick else pytest.mark.slow)
