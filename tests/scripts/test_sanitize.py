"""The mistakes that `scripts/sanitize.py --mistakes` plants."""

from __future__ import annotations

import pytest
from sanitize import NATIVE, PLANTED

MISTAKES = [mistake for _, mistakes in PLANTED for mistake in mistakes]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[1])
def test_what_a_mistake_replaces_stands_once_in_its_source(
    mistake: tuple[str, str, str],
) -> None:
    name, right, wrong = mistake
    source = (NATIVE / name).read_text("utf-8")
    assert source.count(right) == 1
    assert right != wrong
