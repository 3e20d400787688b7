"""Building blocks of markdown documents, which reports and audits share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from onnxgather.core.checks import number_of, printable

MOST_BYTES = 2**20
"""The size of the largest document: more than this GitHub does not take."""


LONGEST_TEXT = 1000
"""The most characters of one text."""


_MARKS = re.compile(r"[\\`*_\[\]<>|&~#@$!]")
"""The characters that Markdown, HTML or GitHub give a meaning."""


def table_row(cells: Iterable[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Text that reads as it is: on one line, and without a meaning to Markdown or HTML."""
    text = printable(text)
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + "…"
    return _MARKS.sub(r"\\\g<0>", text)


def markdown_document(lines: list[str]) -> bytes:
    """The lines as bytes, at most `MOST_BYTES`; a last line says how many are left off."""
    left = MOST_BYTES - 100
    for k, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            rest = (
                f"{number_of(len(lines) - k, 'line')} left off; --json or --html has"
                " them all."
            )
            lines = [*lines[:k], "", rest]
            break
    return "\n".join([*lines, ""]).encode()
