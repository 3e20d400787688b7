"""The states and the severities of results, in one table each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from msgspec import Struct

State = Literal["PASS", "DIFF", "ERROR", "NOT-RUN", "KNOWN", "FIXED"]
"""PASS: the output has the data type, shape and bytes of the reference, or both refuse.
DIFF: the output differs, or the provider returned one where the reference refuses.
ERROR: the provider failed, or the program behind the lane gave no answer.
NOT-RUN: the provider did not run the case.
KNOWN: a DIFF, ERROR or NOT-RUN that the file of known differences explains.
FIXED: the case passes although the file of known differences says that it does not.
"""


class _StateFacts(Struct, frozen=True):
    """How a state counts and how it is shown."""

    rank: int
    """The state with the highest rank stands for several results."""
    is_finding: bool
    """Whether the state is a finding, which makes the exit code 1."""
    colour: str
    """The colour on the terminal: the parameters of ANSI's escape sequence."""
    element: str = ""
    """The element of a testcase in JUnit XML; a passing testcase has none."""


STATES: dict[State, _StateFacts] = {
    "PASS": _StateFacts(0, False, "32"),
    "DIFF": _StateFacts(5, True, "1;31", "failure"),
    "ERROR": _StateFacts(4, True, "1;35", "error"),
    "NOT-RUN": _StateFacts(2, False, "33", "skipped"),
    "KNOWN": _StateFacts(1, False, "36", "skipped"),
    "FIXED": _StateFacts(3, True, "1;34", "failure"),
}
"""The one table of states, in the order in which their counts are written."""

BAD: tuple[State, ...] = tuple(
    state for state, facts in STATES.items() if facts.is_finding
)
"""The states that are findings."""


def in_colour(text: str, code: str) -> str:
    """Return text in a colour of a terminal, by ANSI's code."""
    return f"\x1b[{code}m{text}\x1b[0m"


def worst(states: Iterable[State]) -> State:
    """Return the state with the highest rank, which stands for several results."""
    # Case: no results, so that nothing ran.
    all_states: list[State] = [*states] or ["NOT-RUN"]
    return max(all_states, key=lambda state: STATES[state].rank)


class Severity(StrEnum):
    """What a result means to those who run models, the worst first.

    A known difference is as severe as a new one.
    """

    ENDS_PROCESS = "ends-process"
    """The process that ran the model ended."""
    FOREIGN_MEMORY = "foreign-memory"
    """The output has values that the inputs do not have."""
    WRONG_ELEMENTS = "wrong-elements"
    """The output differs in elements, in data type or in shape."""
    NOT_REFUSED = "not-refused"
    """There is an output for a case that must be refused."""
    FAILS = "fails"
    """There is no output: the provider refused or failed, or gave no answer."""
    DECLINES = "declines"
    """The provider did not run the case, or its refusal proves nothing."""
    AGREES = "agrees"
    """The result is that of the reference."""
    NOT_STARTED = "not-started"
    """The lane did not start."""


SEVERITIES = {
    Severity.ENDS_PROCESS: "ended the process",
    Severity.FOREIGN_MEMORY: "had foreign memory",
    Severity.WRONG_ELEMENTS: "had wrong elements",
    Severity.NOT_REFUSED: "did not refuse",
    Severity.FAILS: "failed",
    Severity.DECLINES: "declined",
    Severity.AGREES: "passed",
    Severity.NOT_STARTED: "did not start",
}
"""The words for results of each severity, after their number.

The colours are in page.css, under the values of the severities.
"""


def counts_text(counts: Counter[State]) -> str:
    """Return counts as text, such as `1,498 PASS, 2 DIFF`."""
    parts = list[str]()
    for state in STATES:
        if counts[state]:
            parts.append(f"{counts[state]:,} {state}")
    return ", ".join(parts)
