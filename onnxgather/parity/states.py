"""The states of a result, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal, NamedTuple

State = Literal["PASS", "DIFF", "ERROR", "NOT-RUN", "KNOWN", "FIXED"]
"""PASS: the same data type, shape and bytes as the reference, or refused where both refuse.
DIFF: not so. ERROR: the provider failed. NOT-RUN: the provider did not run it. KNOWN: one of
the last three, as the file of known differences says. FIXED: PASS although that file says not.
"""


class _Row(NamedTuple):
    severity: int
    """Several results are shown by the state with the highest."""
    is_finding: bool
    """Whether somebody must look at it."""
    colour: str
    """On the terminal: the parameters of ANSI's escape sequence."""
    element: str = ""
    """In JUnit."""


STATES: dict[State, _Row] = {
    "PASS": _Row(0, False, "32"),
    "DIFF": _Row(5, True, "1;31", "failure"),
    "ERROR": _Row(4, True, "1;35", "error"),
    "NOT-RUN": _Row(2, False, "33", "skipped"),
    "KNOWN": _Row(1, False, "36", "skipped"),
    "FIXED": _Row(3, True, "1;34", "failure"),
}
"""In the order in which their counts are written."""

BAD: tuple[State, ...] = tuple(state for state, row in STATES.items() if row.is_finding)
"""The states that somebody must look at."""

BEST_TO_WORST = sorted(STATES, key=lambda state: STATES[state].severity)


def worst(states: Iterable[State]) -> State:
    """The state that several results are shown by."""
    return max([*states] or ["NOT-RUN"], key=BEST_TO_WORST.index)


def counts_text(counts: Counter[State]) -> str:
    """Such as `1498 PASS, 2 DIFF`."""
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
