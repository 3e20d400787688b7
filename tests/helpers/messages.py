"""The messages of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import pytest

P = ParamSpec("P")


def message_of(
    kind: type[Exception] | tuple[type[Exception], ...],
    call: Callable[P, object],
    *arguments: P.args,
    **more: P.kwargs,
) -> str:
    """Return the message of the error of this kind that a call must end with."""
    with pytest.raises(kind) as caught:
        call(*arguments, **more)
    return str(caught.value)


def rows_of(table: str) -> list[tuple[str, str]]:
    """Return the rows of a table that is written as text.

    A row has a line that says what is tried, and below it the message, on one line or
    several. An empty line stands between rows.
    """
    rows = [row.split("\n", 1) for row in table.strip().split("\n\n")]
    return [(tried, message.replace("\n", " ")) for tried, message in rows]
